use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use packhorse_core::{Error, Fields, Malformed, encode_text};

/// The magic number of LMDB.
pub(crate) const MAGIC: u32 = 0xBEEF_C0DE;

/// Where it stands in a file.
pub(crate) const MAGIC_AT: u64 = PAGE_HEADER;

/// The version of LMDB's files.
pub(crate) const VERSION: u32 = 1;

/// Bytes of the header of a page.
pub(crate) const PAGE_HEADER: u64 = 16;

/// The page number of a tree without pages.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// The flag of a database with integers for keys; that of free pages has it.
pub(crate) const INTEGER_KEY: u16 = 0x08;

/// The flag of a meta page.
pub(crate) const META_PAGE: u16 = 0x08;

/// Bytes of a meta page that say something.
pub(crate) const META: u64 = 152;

/// Levels of a tree that LMDB itself can follow.
const MAX_DEPTH: u16 = 32;

const REVERSE_KEY: u16 = 0x02;
const SORTED_DUPLICATES: u16 = 0x04;

const BRANCH_PAGE: u16 = 0x01;
const LEAF_PAGE: u16 = 0x02;
const OVERFLOW_PAGE: u16 = 0x04;
/// The flags that say what a page is; the others are those of pages in memory.
const PAGE_KINDS: u16 = 0x6f;

const NODE_HEADER: u64 = 8;
const BIG_VALUE: u16 = 0x01;
const DATABASE: u16 = 0x02;
const DUPLICATES: u16 = 0x04;

/// Why a file cannot be read.
#[derive(Debug)]
pub(crate) enum Fail {
    Io(io::Error),
    Malformed(Malformed),
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

impl Fail {
    /// Names the file.
    pub(crate) fn at(self, path: &Path) -> Error {
        match self {
            Self::Io(error) => Error::io("read", path)(error),
            Self::Malformed(malformed) => malformed.at(path),
        }
    }
}

/// The main database of a file, read page by page: no map, so that no file, whatever is in it, does more than fail.
pub(crate) struct Tree<'f> {
    file: &'f File,
    len: u64,
    page_size: u64,
    meta: Meta,
}

/// What a meta page says.
struct Meta {
    at: u64,
    page_size: u32,
    flags: u16,
    depth: u16,
    entries: u64,
    root: u64,
    last_page: u64,
    transaction: u64,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) place: Place,
}

/// Where a value lies in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Takes records, and what is damaged.
pub(crate) type EntrySink<'a> = dyn FnMut(Result<Entry<'_>, Malformed>) -> ControlFlow<()> + 'a;

/// A page on the way from the root.
struct Level {
    bytes: Vec<u8>,
    /// Where the page lies in the file.
    at: u64,
    /// Where its nodes begin.
    upper: u16,
    count: u64,
    next: u64,
}

/// A node of a page.
struct Node<'a> {
    at: u64,
    /// The size of a value; in a branch the lower half of a page number.
    low: u32,
    flags: u16,
    key: &'a [u8],
}

impl<'f> Tree<'f> {
    /// Reads the meta pages. The newer one counts.
    pub(crate) fn open(file: &'f File) -> Result<Self, Fail> {
        let len = file.metadata()?.len();
        let first = Meta::read(file, 0, len)?;
        let page_size = u64::from(first.page_size);
        let second = Meta::read(file, page_size, len)?;
        if second.page_size != first.page_size {
            let what = format!("pages of {} bytes, and of {page_size} at byte 40", second.page_size);
            return Err(Malformed::new(second.at + 40, what).into());
        }
        let meta = if second.transaction > first.transaction { second } else { first };
        if meta.flags & SORTED_DUPLICATES != 0 {
            let what = "a database with several values for a key (MDB_DUPSORT): only those with one are read";
            return Err(Malformed::new(meta.at + 92, what).into());
        }
        if meta.root != NO_PAGE && !(1..=MAX_DEPTH).contains(&meta.depth) {
            let what = format!("a tree of {} levels, not 1 to {MAX_DEPTH}", meta.depth);
            return Err(Malformed::new(meta.at + 94, what).into());
        }
        Ok(Self { file, len, page_size, meta })
    }

    /// Checks what holds for files that are made in one go.
    pub(crate) fn check_whole(&self) -> Result<(), Malformed> {
        let pages = self.meta.last_page.saturating_add(1);
        if pages.checked_mul(self.page_size) != Some(self.len) {
            let what = format!("{pages} pages of {}, but {} bytes in all", self.page_size, self.len);
            return Err(Malformed::new(self.meta.at + 136, what));
        }
        match self.meta.flags {
            0 => Ok(()),
            flags => Err(Malformed::new(self.meta.at + 92, format!("flags {flags:#x}, not 0"))),
        }
    }

    /// Goes through the records whose keys are not below `from`, in order of keys. A damaged page is passed over.
    ///
    /// Breaks where `each` does.
    pub(crate) fn each(&self, from: &[u8], each: &mut EntrySink<'_>) -> io::Result<ControlFlow<()>> {
        let in_order = self.meta.flags & (REVERSE_KEY | INTEGER_KEY) == 0;
        let mut levels: Vec<Level> = Vec::new();
        let mut to_visit = Some((self.meta.root, self.meta.at + 128)).filter(|(root, _)| *root != NO_PAGE);
        // No page belongs to a tree twice: this ends every circle.
        let mut visits_left = self.len / self.page_size;
        let (mut entries, mut faults) = (0_u64, 0_u64);
        // Keys are above the last one, and not below that which the branch gives for their page.
        let (mut last, mut floor): (Option<Vec<u8>>, Vec<u8>) = (None, Vec::new());
        loop {
            if let Some((page, named_at)) = to_visit.take() {
                if visits_left == 0 {
                    let what = "more pages than the file has: one is reached twice";
                    return Ok(each(Err(Malformed::new(named_at, what))));
                }
                visits_left -= 1;
                let kind = match levels.len() + 1 < usize::from(self.meta.depth) {
                    true => BRANCH_PAGE,
                    false => LEAF_PAGE,
                };
                match self.page(page, kind, named_at) {
                    Ok(level) => levels.push(level),
                    Err(Fail::Io(error)) => return Err(error),
                    Err(Fail::Malformed(malformed)) => {
                        faults += 1;
                        if each(Err(malformed)).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                }
            }
            let depth = levels.len();
            let Some(level) = levels.last_mut() else { break };
            if level.next == level.count {
                levels.pop();
                continue;
            }
            let number = level.next;
            level.next += 1;
            let step = level.node(number).map_err(Fail::from).and_then(|node| {
                let key = level.at + node.at + NODE_HEADER;
                if depth < usize::from(self.meta.depth) {
                    to_visit = Some((node.page(), level.at + node.at));
                    if in_order && level.node(number + 1).is_ok_and(|next| next.key <= from) {
                        to_visit = None;
                    } else if in_order && number > 0 {
                        if last.as_deref().is_some_and(|last| last >= node.key) {
                            return Err(Malformed::new(key, "the key is not above those before it").into());
                        }
                        floor = node.key.to_vec();
                    }
                    return Ok(None);
                }
                entries += 1;
                if in_order {
                    if last.as_deref().is_some_and(|last| last >= node.key) || node.key < &floor[..] {
                        return Err(Malformed::new(key, "the key is not above those before it").into());
                    }
                    let last = last.get_or_insert_default();
                    last.clear();
                    last.extend_from_slice(node.key);
                    if node.key < from {
                        return Ok(None);
                    }
                }
                Ok(Some(Entry { key: node.key, place: self.place(level, &node)? }))
            });
            let told = match step {
                Ok(Some(entry)) => each(Ok(entry)),
                Ok(None) => ControlFlow::Continue(()),
                Err(Fail::Io(error)) => return Err(error),
                Err(Fail::Malformed(malformed)) => {
                    faults += 1;
                    each(Err(malformed))
                }
            };
            if told.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if from.is_empty() && faults == 0 && entries != self.meta.entries {
            let what = format!("{} records, but the tree has {entries}", self.meta.entries);
            return Ok(each(Err(Malformed::new(self.meta.at + 120, what))));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reads a value.
    pub(crate) fn read(&self, place: Place) -> io::Result<Vec<u8>> {
        // A place lies within the file, so that this is never more than the file has.
        let mut bytes = vec![0; usize::try_from(place.len).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, place.offset)?;
        Ok(bytes)
    }

    /// Reads a page of the tree; `named_at` is where its number stands.
    fn page(&self, number: u64, kind: u16, named_at: u64) -> Result<Level, Fail> {
        let at = self.page_at(number, 1, named_at)?;
        let mut bytes = vec![0; self.page_size as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        let header = PageHeader::read(&bytes, number, kind).map_err(|malformed| malformed.shifted(at))?;
        let (lower, upper) = (header.lower, header.upper);
        if u64::from(lower) <= PAGE_HEADER || lower > upper || u64::from(upper) > self.page_size {
            let what = format!("a page of {} bytes is free from {lower} to {upper}", self.page_size);
            return Err(Malformed::new(at + 12, what).into());
        }
        Ok(Level { bytes, at, upper, count: (u64::from(lower) - PAGE_HEADER) / 2, next: 0 })
    }

    /// Returns where `count` pages lie.
    fn page_at(&self, number: u64, count: u64, named_at: u64) -> Result<u64, Malformed> {
        let end = number.checked_add(count).and_then(|end| end.checked_mul(self.page_size));
        match end.is_some_and(|end| end <= self.len) {
            true => Ok(number * self.page_size),
            false => {
                let what = format!("page {number}, but the file ends after {}", self.len / self.page_size);
                Err(Malformed::new(named_at, what))
            }
        }
    }

    /// Returns where the value of a leaf's node lies.
    fn place(&self, level: &Level, node: &Node<'_>) -> Result<Place, Fail> {
        let len = u64::from(node.low);
        let at = node.at + NODE_HEADER + node.key.len() as u64;
        match node.flags {
            0 => {
                Fields(&level.bytes).bytes(at, len).map_err(|malformed| malformed.shifted(level.at))?;
                Ok(Place { offset: level.at + at, len })
            }
            BIG_VALUE => {
                let page = Fields(&level.bytes).u64(at).map_err(|malformed| malformed.shifted(level.at))?;
                let needed = (PAGE_HEADER + len).div_ceil(self.page_size);
                let page_at = self.page_at(page, needed, level.at + at)?;
                let mut header = [0; PAGE_HEADER as usize];
                self.file.read_exact_at(&mut header, page_at)?;
                let header = PageHeader::read(&header, page, OVERFLOW_PAGE)
                    .map_err(|malformed| malformed.shifted(page_at))?;
                if u64::from(header.pages()) < needed {
                    let what = format!("{} pages, but a value of {len} bytes needs {needed}", header.pages());
                    return Err(Malformed::new(page_at + 12, what).into());
                }
                Ok(Place { offset: page_at + PAGE_HEADER, len })
            }
            flags => {
                let what = match flags & (DATABASE | DUPLICATES) {
                    0 => format!("a value with unknown flags {flags:#x}"),
                    _ => format!(
                        "{} is a database of its own: only the main database of a file is read",
                        encode_text(node.key, "")
                    ),
                };
                Err(Malformed::new(level.at + node.at + 4, what).into())
            }
        }
    }
}

impl Level {
    fn node(&self, number: u64) -> Result<Node<'_>, Malformed> {
        self.node_in_page(number).map_err(|malformed| malformed.shifted(self.at))
    }

    fn node_in_page(&self, number: u64) -> Result<Node<'_>, Malformed> {
        let fields = Fields(&self.bytes);
        let pointer = PAGE_HEADER + 2 * number;
        let at = match fields.u16(pointer)? {
            at if number < self.count && at >= self.upper => u64::from(at),
            at => {
                let what = format!("node {number} at {at}, but nodes begin at {}", self.upper);
                return Err(Malformed::new(pointer, what));
            }
        };
        Ok(Node {
            at,
            low: fields.u32(at)?,
            flags: fields.u16(at + 4)?,
            key: fields.bytes(at + NODE_HEADER, u64::from(fields.u16(at + 6)?))?,
        })
    }
}

impl Node<'_> {
    /// Returns the page that a branch's node leads to.
    fn page(&self) -> u64 {
        u64::from(self.low) | u64::from(self.flags) << 32
    }
}

/// The bounds of the free room of a page; of an overflow page the number of pages.
struct PageHeader {
    lower: u16,
    upper: u16,
}

impl PageHeader {
    fn read(bytes: &[u8], number: u64, kind: u16) -> Result<Self, Malformed> {
        let fields = Fields(bytes);
        let found = fields.u64(0)?;
        if found != number {
            return Err(Malformed::new(0, format!("expected page {number}, found {found}")));
        }
        let flags = fields.u16(10)?;
        if flags & PAGE_KINDS != kind {
            return Err(Malformed::new(10, format!("expected a page of kind {kind:#x}, found {flags:#x}")));
        }
        Ok(Self { lower: fields.u16(12)?, upper: fields.u16(14)? })
    }

    fn pages(&self) -> u32 {
        u32::from(self.lower) | u32::from(self.upper) << 16
    }
}

impl Meta {
    fn read(file: &File, at: u64, len: u64) -> Result<Self, Fail> {
        if at.saturating_add(META) > len {
            return Err(
                Malformed::new(len, "the file ends within the meta pages: it is cut, or not LMDB").into()
            );
        }
        let mut bytes = [0; META as usize];
        file.read_exact_at(&mut bytes, at)?;
        Self::parse(&bytes, at).map_err(|malformed| malformed.shifted(at).into())
    }

    fn parse(bytes: &[u8], at: u64) -> Result<Self, Malformed> {
        let fields = Fields(bytes);
        let (flags, magic) = (fields.u16(10)?, fields.u32(MAGIC_AT)?);
        if flags & META_PAGE == 0 || magic != MAGIC {
            return Err(Malformed::new(MAGIC_AT, format!("expected LMDB's {MAGIC:#x}, found {magic:#x}")));
        }
        let version = fields.u32(20)?;
        if version != VERSION {
            return Err(Malformed::new(
                20,
                format!("LMDB's format version {version}; this packhorse reads {VERSION}"),
            ));
        }
        let page_size = fields.u32(40)?;
        if !page_size.is_power_of_two() || !(512..=32_768).contains(&page_size) {
            let what = format!("pages of {page_size} bytes, not a power of two from 512 to 32,768");
            return Err(Malformed::new(40, what));
        }
        Ok(Self {
            at,
            page_size,
            flags: fields.u16(92)?,
            depth: fields.u16(94)?,
            entries: fields.u64(120)?,
            root: fields.u64(128)?,
            last_page: fields.u64(136)?,
            transaction: fields.u64(144)?,
        })
    }
}
