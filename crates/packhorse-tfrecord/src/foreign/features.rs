//! The features of a `tf.train.Example` that have one value, found without keeping what is large.
//!
//! What comes twice is taken as protocol buffers say: of two entries of a map the last, of two lists of one feature both, of
//! lists of two types the last. What is not known is passed over.

use std::collections::BTreeMap;
use std::io;

use packhorse_core::KeyRef;

use super::reader::Reader;

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const GROUP: u64 = 3;
const GROUP_END: u64 = 4;
const FIXED32: u64 = 5;

/// How deep groups may lie in groups, as for other readers.
const DEPTH: u32 = 100;

/// Numbers of the lists in `Feature`.
const BYTES: u64 = 1;
const FLOATS: u64 = 2;
const INTS: u64 = 3;

/// The longest value of bytes that is kept.
const LONGEST: u64 = KeyRef::MAX_LEN as u64;
/// The most bytes that an Example may take in memory, and what an entry takes beyond its name.
const BUDGET: u64 = 16 << 20;
const ENTRY: u64 = 128;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Bytes {
        /// Where in the file they lie.
        place: Place,
        /// Themselves, where they are not too long.
        bytes: Option<Box<[u8]>>,
    },
    Float(f32),
    Int(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Features of one value, by name.
pub(super) type Features = BTreeMap<String, Scalar>;

/// Reads the data of a record, not always to their end; `None` where it is no Example, or one that would take too much memory.
pub(super) fn read(reader: &mut Reader<'_>, len: u64) -> io::Result<Option<Features>> {
    let mut entries = Entries { map: BTreeMap::new(), budget: BUDGET };
    match entries.example(Message { reader, left: len }) {
        Ok(()) => {
            let single = |(name, feature): (String, Feature)| Some((name, feature.single?));
            Ok(Some(entries.map.into_iter().filter_map(single).collect()))
        }
        Err(Stop::NoExample) => Ok(None),
        Err(Stop::Io(error)) => Err(error),
    }
}

enum Stop {
    Io(io::Error),
    NoExample,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is left of a message.
struct Message<'r, 'f> {
    reader: &'r mut Reader<'f>,
    left: u64,
}

impl<'f> Message<'_, 'f> {
    fn take(&mut self, len: u64) -> Result<(), Stop> {
        self.left = self.left.checked_sub(len).ok_or(Stop::NoExample)?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            self.take(1)?;
            let byte = self.reader.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::NoExample)
    }

    /// Reads the number and the wire type of the next field; `None` at the end.
    fn field(&mut self) -> Result<Option<(u64, u64)>, Stop> {
        if self.left == 0 {
            return Ok(None);
        }
        match u32::try_from(self.varint()?) {
            Ok(tag @ 8..) => Ok(Some((u64::from(tag >> 3), u64::from(tag & 7)))),
            _ => Err(Stop::NoExample),
        }
    }

    /// Begins a message in this one, which is to be read to its end.
    fn message(&mut self) -> Result<Message<'_, 'f>, Stop> {
        let left = self.varint()?;
        self.take(left)?;
        Ok(Message { reader: self.reader, left })
    }

    /// Passes the value of a field.
    fn pass(&mut self, field: (u64, u64)) -> Result<(), Stop> {
        self.pass_within(field, DEPTH)
    }

    fn pass_within(&mut self, (number, wire): (u64, u64), depth: u32) -> Result<(), Stop> {
        let len = match wire {
            VARINT => return self.varint().map(drop),
            FIXED64 => 8,
            LENGTH => self.varint()?,
            GROUP => {
                let depth = depth.checked_sub(1).ok_or(Stop::NoExample)?;
                loop {
                    match self.field()?.ok_or(Stop::NoExample)? {
                        (end, GROUP_END) if end == number => return Ok(()),
                        field => self.pass_within(field, depth)?,
                    }
                }
            }
            FIXED32 => 4,
            _ => return Err(Stop::NoExample),
        };
        self.skip(len)
    }

    fn skip(&mut self, len: u64) -> Result<(), Stop> {
        self.take(len)?;
        Ok(self.reader.skip(len)?)
    }

    fn float(&mut self) -> Result<Scalar, Stop> {
        self.take(4)?;
        Ok(Scalar::Float(f32::from_le_bytes(self.reader.array()?)))
    }

    fn int(&mut self) -> Result<Scalar, Stop> {
        Ok(Scalar::Int(self.varint()?.cast_signed()))
    }
}

#[derive(Default)]
struct Feature {
    /// The number of its list; 0 for none.
    kind: u64,
    single: Option<Scalar>,
    /// Whether it has more values.
    several: bool,
}

impl Feature {
    fn push(&mut self, value: Scalar) {
        self.several |= self.single.is_some();
        self.single = Some(value).filter(|_| !self.several);
    }
}

struct Entries {
    map: BTreeMap<String, Feature>,
    budget: u64,
}

impl Entries {
    fn example(&mut self, mut example: Message<'_, '_>) -> Result<(), Stop> {
        while let Some(field) = example.field()? {
            match field {
                (1, LENGTH) => self.features(example.message()?)?,
                _ => example.pass(field)?,
            }
        }
        Ok(())
    }

    fn features(&mut self, mut features: Message<'_, '_>) -> Result<(), Stop> {
        while let Some(field) = features.field()? {
            match field {
                (1, LENGTH) => self.entry(features.message()?)?,
                _ => features.pass(field)?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, mut entry: Message<'_, '_>) -> Result<(), Stop> {
        let (mut name, mut feature) = (Box::default(), Feature::default());
        while let Some(field) = entry.field()? {
            match field {
                (1, LENGTH) => name = self.keep(entry.message()?)?,
                (2, LENGTH) => self.feature(entry.message()?, &mut feature)?,
                _ => entry.pass(field)?,
            }
        }
        self.spend(ENTRY)?;
        let name = String::from_utf8(name.into()).map_err(|_| Stop::NoExample)?;
        self.map.insert(name, feature);
        Ok(())
    }

    fn feature(&mut self, mut message: Message<'_, '_>, feature: &mut Feature) -> Result<(), Stop> {
        while let Some(field) = message.field()? {
            match field {
                (kind @ BYTES..=INTS, LENGTH) => {
                    if kind != feature.kind {
                        *feature = Feature { kind, ..Feature::default() };
                    }
                    self.list(message.message()?, feature)?;
                }
                _ => message.pass(field)?,
            }
        }
        Ok(())
    }

    fn list(&mut self, mut list: Message<'_, '_>, feature: &mut Feature) -> Result<(), Stop> {
        while let Some(field) = list.field()? {
            match (feature.kind, field) {
                (BYTES, (1, LENGTH)) => {
                    let first = feature.single.is_none() && !feature.several;
                    let value = self.bytes(list.message()?, first)?;
                    feature.push(value);
                }
                (FLOATS, (1, FIXED32)) => feature.push(list.float()?),
                (FLOATS, (1, LENGTH)) => {
                    let mut packed = list.message()?;
                    while packed.left > 0 {
                        feature.push(packed.float()?);
                    }
                }
                (INTS, (1, VARINT)) => feature.push(list.int()?),
                (INTS, (1, LENGTH)) => {
                    let mut packed = list.message()?;
                    while packed.left > 0 {
                        feature.push(packed.int()?);
                    }
                }
                _ => list.pass(field)?,
            }
        }
        Ok(())
    }

    fn bytes(&mut self, mut message: Message<'_, '_>, keep: bool) -> Result<Scalar, Stop> {
        let place = Place { offset: message.reader.offset(), len: message.left };
        let bytes = match place.len {
            ..=LONGEST if keep => Some(self.keep(message)?),
            _ => {
                message.skip(place.len)?;
                None
            }
        };
        Ok(Scalar::Bytes { place, bytes })
    }

    /// Reads the rest of a message.
    fn keep(&mut self, message: Message<'_, '_>) -> Result<Box<[u8]>, Stop> {
        self.spend(message.left)?;
        let mut bytes = vec![0; usize::try_from(message.left).map_err(|_| Stop::NoExample)?];
        message.reader.fill(&mut bytes)?;
        Ok(bytes.into())
    }

    fn spend(&mut self, bytes: u64) -> Result<(), Stop> {
        self.budget = self.budget.checked_sub(bytes).ok_or(Stop::NoExample)?;
        Ok(())
    }
}
