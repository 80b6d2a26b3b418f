//! Finds the samples of a file, group by group.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use hdf5::types::{IntSize, TypeDescriptor};
use hdf5::{Dataset, Group, IndexType, IterationOrder, LinkType, LocationToken, LocationType};
use packhorse_core::{DATA, Found, FoundField, FoundSink, Malformed, PassedOver, Value, encode_text};

use super::own;
use crate::ffi;
use crate::raw::{self, Fail, Heaps};
use crate::read::{self, BLOCK, Pieces, said};

/// The attribute that labels become.
pub(super) const CLASS: &str = "class";

/// Datasets of one dimension with all payloads.
const FLAT: [&str; 2] = [DATA, "images"];
const OFFSETS: [&str; 1] = ["offsets"];
const SIZES: [&str; 2] = ["sizes", "lengths"];
const KEYS: [&str; 4] = ["keys", "names", "filenames", "paths"];
const LABELS: [&str; 4] = ["labels", "label", "targets", "classes"];
const NAMES: [&str; 2] = ["classes", "class_names"];

/// Groups deeper than this are not looked into.
const DEEPEST: usize = 64;

/// The scan of a file.
pub(super) struct Scan<'f, 's, 'e> {
    file: &'f File,
    len: u64,
    /// Whether the file is shorter than it says.
    cut: bool,
    each: &'s mut FoundSink<'e>,
    told: bool,
    /// The root, and groups that have several names and were looked into.
    seen: Vec<LocationToken>,
    /// Datasets and links that are neither samples nor tables of them.
    pub(super) others: PassedOver,
}

/// Says that a file is shorter than its header states.
pub(super) fn cut(len: u64, stated: u64) -> Option<Malformed> {
    let what = || format!("the file ends here; by its header it has {stated} bytes: fetch it again");
    (stated > len).then(|| Malformed::new(len, what()))
}

/// A dataset.
struct Member {
    name: String,
    kind: Kind,
    /// In bytes, entries of references or elements.
    shape: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bytes,
    References,
    Numbers,
    Texts,
    Other,
}

/// The tables beside some payloads.
struct Beside {
    keys: Option<Dataset>,
    labels: Option<(Dataset, Kind)>,
    names: Vec<Box<[u8]>>,
}

impl<'f, 's, 'e> Scan<'f, 's, 'e> {
    pub(super) fn new(file: &'f File, each: &'s mut FoundSink<'e>) -> Result<Self, Fail> {
        let len = file.metadata()?.len();
        let stated = raw::stated_len(file)?;
        let cut = cut(len, stated);
        let mut scan = Self {
            file,
            len,
            cut: cut.is_some(),
            each,
            told: false,
            seen: Vec::new(),
            others: PassedOver::default(),
        };
        cut.map_or(Ok(()), |malformed| scan.tell(Err(malformed)))?;
        Ok(scan)
    }

    /// Goes through the file.
    pub(super) fn file(&mut self, path: &Path) -> Result<(), Fail> {
        let root = ffi::open(path).map_err(|error| Malformed::new(0, said(error)))?;
        match own::attributes(&root) {
            Ok(Some(_)) => own::scan(self, &root)?,
            Ok(None) => {
                self.seen.extend(root.loc_info().map(|info| info.token));
                self.group(&root, "", 0)?;
                if !self.told {
                    self.bad(
                        0,
                        "no dataset here is known to have images: docs/format/hdf5.md lists which are",
                    )?;
                }
            }
            Err(what) => self.bad(0, what)?,
        }
        Ok(())
    }

    fn tell(&mut self, found: Result<Found<'_>, Malformed>) -> Result<(), Fail> {
        self.told = true;
        if (self.each)(found).is_break() { Err(Fail::Stop) } else { Ok(()) }
    }

    /// Returns a reader of the values of variable length in the file.
    pub(super) fn heaps(&self) -> Result<Heaps<'f>, Fail> {
        Ok(Heaps::new(self.file)?)
    }

    pub(super) fn bad(&mut self, offset: u64, what: impl Into<String>) -> Result<(), Fail> {
        self.tell(Err(Malformed::new(offset, what)))
    }

    /// Tells of a sample, where the file has all of it.
    pub(super) fn sample(
        &mut self,
        key: &[u8],
        fields: &[FoundField<'_>],
        values: &[(&str, Value)],
    ) -> Result<(), Fail> {
        let whole =
            |field: &&FoundField<'_>| field.offset.checked_add(field.len).is_some_and(|end| end <= self.len);
        match fields.iter().find(|field| !whole(field)) {
            None => self.tell(Ok(Found { key, fields, values })),
            Some(field) => {
                let key = encode_text(key, "");
                let what = format!("{key} has {} bytes here, but the file ends at {}", field.len, self.len);
                self.bad(field.offset, what)
            }
        }
    }

    /// Opens a table, where the file has all of it.
    pub(super) fn table(&self, group: &Group, name: &str) -> Result<Dataset, String> {
        let named = |what: String| format!("`{name}`: {what}");
        let set = group.dataset(name).map_err(|error| named(said(error)))?;
        if read::len(&set).map_err(named)? as u64 > self.len {
            return Err(named(format!("has more entries than the file has bytes, {}", self.len)));
        }
        // Where a file ends, libhdf5 reads zeros.
        if self.cut && read::end(&set).map_err(named)? > self.len {
            return Err(named(format!("goes beyond the end of the file at {}", self.len)));
        }
        Ok(set)
    }

    /// Goes through a group: first what is in it, then the groups in it.
    fn group(&mut self, group: &Group, path: &str, depth: usize) -> Result<(), Fail> {
        let links = match group.links(IndexType::Name, IterationOrder::Increasing) {
            Ok(links) => links,
            Err(error) => return self.bad(0, format!("/{path}: {}", said(error))),
        };
        let (mut groups, mut members) = (Vec::new(), Vec::new());
        for (name, link) in links {
            if link.link_type != LinkType::Hard {
                self.others.add(format!("/{path}{}", encode_text(name.as_bytes(), "")));
                continue;
            }
            match self.member(group, &name) {
                Ok(Some(member)) => members.push(member),
                Ok(None) => groups.push(name),
                Err(what) => self.bad(0, format!("/{path}{}: {what}", encode_text(name.as_bytes(), "")))?,
            }
        }
        self.members(group, path, &members)?;
        drop(members);
        for name in groups {
            let inner = format!("{path}{name}/");
            if depth == DEEPEST {
                self.bad(0, format!("/{inner} lies deeper than {DEEPEST} groups"))?;
                continue;
            }
            match group.group(&name).and_then(|group| Ok((group.loc_info()?, group))) {
                Ok((info, _)) if self.seen.contains(&info.token) => {}
                Ok((info, group)) => {
                    if info.num_links > 1 {
                        self.seen.push(info.token);
                    }
                    self.group(&group, &inner, depth + 1)?;
                }
                Err(error) => self.bad(0, format!("/{inner}: {}", said(error)))?,
            }
        }
        Ok(())
    }

    /// Looks at a member of a group; `None` where it is a group itself.
    fn member(&self, group: &Group, name: &str) -> Result<Option<Member>, String> {
        match group.loc_type_by_name(name).map_err(said)? {
            LocationType::Group => return Ok(None),
            LocationType::Dataset => {}
            _ => return Ok(Some(Member { name: name.to_owned(), kind: Kind::Other, shape: Vec::new() })),
        }
        let set = group.dataset(name).map_err(said)?;
        let mut shape: Vec<u64> = read::shape(&set)?.into_iter().map(|len| len as u64).collect();
        let datatype = set.dtype().map_err(said)?;
        let byte = |descriptor: &TypeDescriptor| {
            matches!(descriptor, TypeDescriptor::Unsigned(IntSize::U1) | TypeDescriptor::Integer(IntSize::U1))
        };
        let kind = match datatype.to_descriptor() {
            Ok(descriptor) if byte(&descriptor) => Kind::Bytes,
            Ok(TypeDescriptor::VarLenArray(of)) if byte(&of) => Kind::References,
            Ok(TypeDescriptor::Integer(_) | TypeDescriptor::Unsigned(_)) => Kind::Numbers,
            Ok(
                TypeDescriptor::VarLenAscii
                | TypeDescriptor::VarLenUnicode
                | TypeDescriptor::FixedAscii(_)
                | TypeDescriptor::FixedUnicode(_),
            ) => Kind::Texts,
            Ok(_) => Kind::Other,
            Err(_) if ffi::is_opaque(&datatype) => {
                // So many bytes each.
                if datatype.size() > 1 {
                    shape.push(datatype.size() as u64);
                }
                Kind::Bytes
            }
            Err(_) => Kind::Other,
        };
        Ok(Some(Member { name: name.to_owned(), kind, shape }))
    }

    /// Goes through the datasets of a group.
    fn members(&mut self, group: &Group, path: &str, members: &[Member]) -> Result<(), Fail> {
        let flat = flat(members);
        let sets: Vec<(&Member, u64)> = (members.iter())
            .filter_map(|member| match (member.kind, &member.shape[..]) {
                (Kind::Bytes, [len, _, ..]) | (Kind::References, [len]) => Some((member, *len)),
                _ => flat.filter(|(data, ..)| data.name == member.name).map(|(data, _, len)| (data, len)),
            })
            .collect();
        let names: HashSet<&str> = sets.iter().map(|(member, _)| &*member.name).collect();
        let mut of_len: HashMap<u64, usize> = HashMap::new();
        sets.iter().for_each(|(_, len)| *of_len.entry(*len).or_default() += 1);
        for (member, len) in &sets {
            let alone = of_len.get(len) == Some(&1);
            let done = match self.beside(group, members, *len, alone) {
                Ok(beside) => self.set(group, path, member, flat, *len, &beside),
                Err(fail) => Err(fail),
            };
            match done {
                Err(Fail::Malformed(malformed)) => {
                    let name = encode_text(member.name.as_bytes(), "");
                    self.bad(malformed.offset, format!("/{path}{name}: {}", malformed.what))?;
                }
                other => other?,
            }
        }
        let table = |member: &Member| {
            let known = [&OFFSETS[..], &SIZES, &KEYS, &LABELS, &NAMES].concat();
            !sets.is_empty()
                && (known.contains(&member.name.as_str())
                    || member.shape.first().is_some_and(|len| of_len.contains_key(len)))
        };
        let mut singles = Vec::new();
        for member in members {
            if names.contains(&*member.name) || table(member) {
                continue;
            }
            let key = format!("{path}{}", member.name);
            if member.kind != Kind::Bytes || member.shape.len() > 1 {
                self.others.add(format!("/{}", encode_text(key.as_bytes(), "")));
                continue;
            }
            let size = member.shape.first().copied().unwrap_or(1);
            let place = group.dataset(&member.name).map_err(said).and_then(|set| Pieces::of(&set)?.all());
            match place {
                Ok(place) => singles.push((place, size, key)),
                Err(what) => self.bad(0, format!("/{}: {what}", encode_text(key.as_bytes(), "")))?,
            }
        }
        singles.sort_unstable();
        singles.into_iter().try_for_each(|(offset, len, key)| {
            self.sample(key.as_bytes(), &[FoundField { name: DATA, offset, len }], &[])
        })
    }

    /// Opens the tables beside `len` payloads.
    fn beside(&self, group: &Group, members: &[Member], len: u64, alone: bool) -> Result<Beside, Fail> {
        let is_table =
            |member: &Member, kinds: &[Kind]| kinds.contains(&member.kind) && member.shape.len() == 1;
        let labels = find(members, &LABELS, |member| {
            is_table(member, &[Kind::Numbers, Kind::Bytes, Kind::Texts]) && member.shape[..] == [len]
        });
        let keys = find(members, &KEYS, |member| {
            alone && is_table(member, &[Kind::Texts]) && member.shape[..] == [len]
        });
        let names = find(members, &NAMES, |member| {
            is_table(member, &[Kind::Texts]) && labels.is_some_and(|labels| labels.name != member.name)
        });
        let open = |member: &Member| self.table(group, &member.name);
        Ok(Beside {
            keys: keys.map(open).transpose()?,
            labels: labels.map(|member| Ok::<_, String>((open(member)?, member.kind))).transpose()?,
            names: match names.map(open).transpose()? {
                Some(set) => read::strings(&set, 0, read::len(&set)?, &mut self.heaps()?)?,
                None => Vec::new(),
            },
        })
    }

    /// Goes through a dataset of many payloads.
    fn set(
        &mut self,
        group: &Group,
        path: &str,
        member: &Member,
        flat: Option<(&Member, Flat<'_>, u64)>,
        len: u64,
        beside: &Beside,
    ) -> Result<(), Fail> {
        if len > self.len {
            return Err(format!("has {len} entries, more than the file has bytes").into());
        }
        let set = group.dataset(&member.name).map_err(said)?;
        let pieces = match member.kind {
            Kind::References => Pieces::of_references(&set)?,
            _ => Pieces::of(&set)?,
        };
        let flat = flat.filter(|(data, ..)| data.name == member.name).map(|(_, flat, _)| flat);
        let open = |name: &str| self.table(group, name);
        let offsets = flat.map(|flat| open(flat.offsets)).transpose()?;
        let sizes = flat.and_then(|flat| flat.sizes).map(open).transpose()?;
        let (mut heaps, mut values) = (self.heaps()?, self.heaps()?);
        let len = usize::try_from(len).map_err(|_| format!("has {len} entries"))?;
        for begin in (0..len).step_by(BLOCK) {
            let end = len.min(begin + BLOCK);
            let numbers = |set: &Dataset, end| read::numbers::<u64>(set, begin, end);
            let places = match (&offsets, &sizes) {
                (Some(offsets), Some(sizes)) => Some((numbers(offsets, end)?, numbers(sizes, end)?)),
                (Some(offsets), None) => {
                    let all = numbers(offsets, end + 1)?;
                    // An end before its begin is more than any file has.
                    let sizes = all.windows(2).map(|pair| pair[1].checked_sub(pair[0]).unwrap_or(u64::MAX));
                    let sizes = sizes.collect();
                    Some((all, sizes))
                }
                (None, _) => None,
            };
            let keys =
                beside.keys.as_ref().map(|keys| read::strings(keys, begin, end, &mut heaps)).transpose()?;
            let labels = beside.labels(begin, end, &mut heaps)?;
            for i in begin..end {
                let at = i as u64;
                let place = match &places {
                    Some((offsets, sizes)) => {
                        let (offset, size) = (offsets[i - begin], sizes[i - begin]);
                        match offset.checked_add(size) {
                            Some(end) if end <= member.shape[0] => {
                                pieces.span(offset, end).map(|place| (place, size))
                            }
                            _ => Err(format!(
                                "payload {i} is {size} bytes from {offset} on, of {}",
                                member.shape[0]
                            )),
                        }
                    }
                    None => pieces.span(at, at + 1).map(|place| (place, pieces.unit())),
                };
                let place = match member.kind {
                    Kind::References => place.map_err(Fail::from).and_then(|(at, _)| values.find(at)),
                    _ => place.map_err(Fail::from),
                };
                let (offset, len) = match place {
                    Ok(place) => place,
                    Err(Fail::Malformed(malformed)) => {
                        let name = encode_text(member.name.as_bytes(), "");
                        self.bad(malformed.offset, format!("/{path}{name}: {}", malformed.what))?;
                        continue;
                    }
                    Err(fail) => return Err(fail),
                };
                let key = match &keys {
                    Some(keys) => [path.as_bytes(), &keys[i - begin]].concat(),
                    None => format!("{path}{}/{i:08}", member.name).into_bytes(),
                };
                let class = labels.as_ref().map(|labels| (CLASS, Value::string(&labels[i - begin])));
                self.sample(&key, &[FoundField { name: DATA, offset, len }], class.as_slice())?;
            }
        }
        Ok(())
    }
}

/// The tables of places in a dataset of one dimension.
#[derive(Clone, Copy)]
struct Flat<'m> {
    offsets: &'m str,
    sizes: Option<&'m str>,
}

/// Finds the dataset that has all payloads in a row, its tables and how many payloads there are.
fn flat(members: &[Member]) -> Option<(&Member, Flat<'_>, u64)> {
    let data = find(members, &FLAT, |member| member.kind == Kind::Bytes && member.shape.len() == 1)?;
    let offsets = find(members, &OFFSETS, |member| member.kind == Kind::Numbers && member.shape.len() == 1)?;
    let len = offsets.shape[0];
    let sizes = find(members, &SIZES, |member| member.kind == Kind::Numbers && member.shape[..] == [len]);
    let payloads = if sizes.is_some() { len } else { len.checked_sub(1)? };
    Some((data, Flat { offsets: &offsets.name, sizes: sizes.map(|member| &*member.name) }, payloads))
}

fn find<'m>(members: &'m [Member], names: &[&str], is: impl Fn(&Member) -> bool) -> Option<&'m Member> {
    names.iter().find_map(|name| members.iter().find(|member| member.name == *name && is(member)))
}

impl Beside {
    /// Reads labels as classes.
    fn labels(
        &self,
        begin: usize,
        end: usize,
        heaps: &mut Heaps<'_>,
    ) -> Result<Option<Vec<Box<[u8]>>>, Fail> {
        let Some((set, kind)) = &self.labels else { return Ok(None) };
        if *kind == Kind::Texts {
            return read::strings(set, begin, end, heaps).map(Some);
        }
        let name = |number: i64| match usize::try_from(number).ok().and_then(|number| self.names.get(number))
        {
            Some(name) => name.clone(),
            None => number.to_string().into_bytes().into(),
        };
        Ok(Some(read::numbers::<i64>(set, begin, end)?.into_iter().map(name).collect()))
    }
}
