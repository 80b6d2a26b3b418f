//! The few bytes of HDF5 that are read without libhdf5: how long a file should be, and where values of variable length lie.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use packhorse_core::{Fields, Malformed};

/// What an HDF5 file begins with.
pub(crate) const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

/// Bytes of a reference into a heap: length, u32; the heap's address, u64; number in the heap, u32.
pub(crate) const REFERENCE: u64 = 16;

const UNDEFINED: u64 = u64::MAX;

/// Bytes before what is in a heap, and before each object.
const HEADER: u64 = 16;

/// Why a file is not read further.
pub(crate) enum Fail {
    Io(io::Error),
    Malformed(Malformed),
    /// The caller has enough.
    Stop,
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for Fail {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<String> for Fail {
    fn from(what: String) -> Self {
        Self::Malformed(Malformed::new(0, what))
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read it: {error}"),
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Stop => f.write_str("was not read further"),
        }
    }
}

/// Reads the length that a file should have.
pub(crate) fn stated_len(file: &File) -> Result<u64, Fail> {
    let mut bytes = [0; 56];
    let found = fill(file, &mut bytes, 0)?;
    let fields = Fields(&bytes[..found]);
    if !bytes.starts_with(SIGNATURE) {
        let what = "does not begin as HDF5 does; where a user block is before it, `h5unjam -i IN -o OUT` takes it away";
        return Err(Malformed::new(0, what).into());
    }
    let [version] = fields.array(8)?;
    let (widths, base, end) = match version {
        0 => (13, 24, 40),
        1 => (13, 28, 44),
        2 | 3 => (9, 12, 28),
        _ => {
            return Err(
                Malformed::new(8, format!("superblock of version {version}; 0 to 3 are known")).into()
            );
        }
    };
    let [offset, length] = fields.array(widths)?;
    if (offset, length) != (8, 8) {
        let what = format!("addresses of {offset} bytes and lengths of {length}; 8 and 8 are known");
        return Err(Malformed::new(widths, what).into());
    }
    match fields.u64(base)? {
        0 => Ok(fields.u64(end)?),
        at => Err(Malformed::new(base, format!("addresses count from {at}; 0 is known")).into()),
    }
}

/// Reads as much as there is; returns how much.
fn fill(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // An address that no file has.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Bytes of a file, read some more at once than are asked for.
struct Window<'f> {
    file: &'f File,
    at: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    const LEN: u64 = 4_096;

    fn new(file: &'f File) -> Self {
        Self { file, at: 0, bytes: Vec::new() }
    }

    /// Returns `len` bytes at `offset`, or fewer where the file ends.
    fn get(&mut self, offset: u64, len: u64) -> io::Result<&[u8]> {
        let inside = |window: &Self| {
            let start = usize::try_from(offset.checked_sub(window.at)?).ok()?;
            let end = start.checked_add(usize::try_from(len).ok()?)?;
            (end <= window.bytes.len()).then_some(start..end)
        };
        if inside(self).is_none() {
            self.bytes.resize(len.max(Self::LEN) as usize, 0);
            self.at = offset;
            let found = fill(self.file, &mut self.bytes, offset)?;
            self.bytes.truncate(found);
        }
        Ok(inside(self).map_or(&self.bytes[..], |range| &self.bytes[range]))
    }
}

/// Place and size of what is in a heap, by number.
type Objects = HashMap<u16, (u64, u64)>;

/// Finds values of variable length. libhdf5 is not asked for them: it does not return from some damaged heaps.
pub(crate) struct Heaps<'f> {
    len: u64,
    references: Window<'f>,
    objects: Window<'f>,
    /// The address of the heap that was read last, and what is in it.
    last: Option<(u64, Objects)>,
}

impl<'f> Heaps<'f> {
    pub(crate) fn new(file: &'f File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { len, references: Window::new(file), objects: Window::new(file), last: None })
    }

    /// Returns the length of the file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns place and length of the value whose reference lies at `at`.
    pub(crate) fn find(&mut self, at: u64) -> Result<(u64, u64), Fail> {
        let fields = Fields(self.references.get(at, REFERENCE)?);
        let reference = || Ok((fields.u32(0)?, fields.u64(4)?, fields.u32(12)?));
        let (len, heap, number) = reference().map_err(|cut: Malformed| cut.shifted(at))?;
        let len = u64::from(len);
        if len == 0 && matches!(heap, 0 | UNDEFINED) {
            return Ok((at, 0));
        }
        if self.last.as_ref().is_none_or(|(last, _)| *last != heap) {
            self.last = Some((heap, self.heap(heap)?));
        }
        let object = (self.last.as_ref())
            .and_then(|(_, objects)| objects.get(&u16::try_from(number).ok()?))
            .filter(|(_, size)| *size >= len);
        match object {
            Some((place, _)) => Ok((*place, len)),
            None => {
                let what = format!(
                    "refers to {len} bytes as object {number} of the heap at {heap}, which has none such"
                );
                Err(Malformed::new(at, what).into())
            }
        }
    }

    /// Reads the value whose reference lies at `at`, of at most `max` bytes.
    pub(crate) fn read(&mut self, at: u64, max: u64) -> Result<Box<[u8]>, Fail> {
        let (place, len) = self.find(at)?;
        if len > max {
            return Err(Malformed::new(at, format!("refers to {len} bytes; up to {max} can be here")).into());
        }
        match self.objects.get(place, len)? {
            bytes if bytes.len() as u64 == len => Ok(bytes.into()),
            bytes => {
                let what = format!("{len} bytes should be here, but the file ends after {}", bytes.len());
                Err(Malformed::new(place, what).into())
            }
        }
    }

    /// Reads what is in the heap at `at`; of one that is cut, what is left.
    fn heap(&mut self, at: u64) -> Result<Objects, Fail> {
        let head = Fields(self.objects.get(at, HEADER)?);
        if !head.0.starts_with(b"GCOL\x01") {
            return Err(Malformed::new(at, "expected a global heap (`GCOL`, version 1)").into());
        }
        let size = head.u64(8).map_err(|cut| cut.shifted(at))?;
        let end = at.saturating_add(size).min(self.len);
        let mut objects = Objects::new();
        let mut next = at.saturating_add(HEADER);
        while end.saturating_sub(next) >= HEADER {
            let fields = Fields(self.objects.get(next, HEADER)?);
            let (number, size) = (fields.u16(0)?, fields.u64(8)?);
            if number == 0 {
                break;
            }
            objects.insert(number, (next + HEADER, size));
            let padded = size.checked_next_multiple_of(8).unwrap_or(u64::MAX);
            next = (next + HEADER).saturating_add(padded);
        }
        Ok(objects)
    }
}
