use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use tar::Header;

use super::find_data;
use super::scan::{Member, What};
use crate::source::{reason, shown};

const BLOCK: u64 = 512;
/// The longest extension header: names and attributes of one member.
const LONGEST: u64 = 16 << 20;

/// The members of a tar that is a part of a file, found by their headers alone. Ends at the first fault.
///
/// Records of PAX headers are read by their lengths, since names may have line ends in them.
pub(super) struct Members<'f> {
    file: &'f File,
    /// Where in the file the offsets count from.
    base: u64,
    at: u64,
    end: u64,
    first: bool,
    done: bool,
    global: Extension,
}

/// What extension headers say of the members after them.
#[derive(Clone, Default)]
struct Extension {
    long_name: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
    sparse_name: Option<Vec<u8>>,
}

impl<'f> Members<'f> {
    pub(super) fn new(file: &'f File, base: u64, range: Range<u64>) -> Self {
        let global = Extension::default();
        Self { file, base, at: range.start, end: range.end, first: true, done: false, global }
    }

    fn member(&mut self) -> Result<Option<Member>, String> {
        let mut extension = self.global.clone();
        let mut described_at = None;
        loop {
            let start = self.at;
            let Some(header) = self.header()? else {
                return match described_at {
                    Some(at) => {
                        Err(format!("the header at byte {at} describes a member that does not follow"))
                    }
                    None => Ok(None),
                };
            };
            let size = size(&header).ok_or_else(|| format!("the header at byte {start} has no size"))?;
            match header.entry_type().as_byte() {
                b'x' => extension.pax(&self.extension(start, size)?, start)?,
                b'g' => {
                    let records = self.extension(start, size)?;
                    self.global.pax(&records, start)?;
                    extension.pax(&records, start)?;
                    continue;
                }
                b'L' => {
                    let mut name = self.extension(start, size)?;
                    name.truncate(name.iter().position(|b| *b == 0).unwrap_or(name.len()));
                    extension.long_name = Some(name);
                }
                b'K' => drop(self.extension(start, size)?),
                _ => return self.payload(&header, extension, size).map(Some),
            }
            described_at = Some(start);
        }
    }

    /// Reads the header that is next; `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, String> {
        let at = self.at;
        let mut header = Header::new_old();
        match self.end.saturating_sub(at) {
            0 if self.first => return Err("is empty: a tar has at least its end mark".into()),
            0 => return Err(format!("cut short: it ends at byte {at}, without the end mark of a tar")),
            left @ 1..BLOCK => {
                return Err(format!("cut short: the header at byte {at} has {left} of 512 bytes"));
            }
            _ => self.read(header.as_mut_bytes(), at)?,
        }
        self.at = at.saturating_add(BLOCK);
        if header.as_bytes().iter().all(|b| *b == 0) {
            let (from, end) = (self.base.saturating_add(self.at), self.base.saturating_add(self.end));
            return match find_data(self.file, from, end).map_err(|error| reason(&error))? {
                None => Ok(None),
                Some(data) => Err(format!(
                    "another archive or other data follows the end mark, at byte {}: split it there, or join \
                     archives with `tar --concatenate`",
                    // Headers begin at blocks.
                    (data - self.base) / BLOCK * BLOCK
                )),
            };
        }
        if !has_checksum(&header) {
            let first = if self.first { "is no tar archive, or its first header is damaged: " } else { "" };
            return Err(format!("{first}there is no header at byte {at}, where one should be"));
        }
        self.first = false;
        Ok(Some(header))
    }

    /// Reads the payload of an extension header.
    fn extension(&mut self, start: u64, size: u64) -> Result<Vec<u8>, String> {
        if size > LONGEST {
            return Err(format!("the extension header at byte {start} has {size} bytes: too many"));
        }
        let at = self.at;
        self.skip(size).map_err(|left| {
            format!("cut short: the extension header at byte {start} needs {size} bytes, {left} follow")
        })?;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
        self.read(&mut bytes, at)?;
        Ok(bytes)
    }

    /// Passes a member's payload.
    fn payload(&mut self, header: &Header, extension: Extension, header_size: u64) -> Result<Member, String> {
        let kind = header.entry_type().as_byte();
        if kind == b'S' {
            self.skip_sparse_headers(header)?;
        }
        let name = extension.name(header);
        let said = extension.size.unwrap_or(header_size);
        let byte = self.at;
        let size = match kind {
            // GNU tar and Python have it that these have no payload, whatever their size.
            b'1' | b'5' => 0,
            b'2' | b'3' | b'4' | b'6' if said > 0 => {
                return Err(format!(
                    "member {} at byte {byte} is a link or device of {said} bytes: programs differ in whether the next \
                     header follows these, so pack the tar again",
                    shown(&name)
                ));
            }
            _ => said,
        };
        self.skip(size).map_err(|left| {
            let name = shown(&name);
            format!("cut short: member {name} at byte {byte} needs {size} bytes, {left} follow")
        })?;
        let target = || {
            let target = header.link_name_bytes().unwrap_or_default();
            shown(&target)
        };
        let what = match kind {
            _ if extension.sparse || kind == b'S' => {
                What::Refused("is a sparse file: pack the tar again without --sparse".into())
            }
            0 | b'0' | b'7' if name.ends_with(b"/") => match size {
                0 => What::Folder,
                _ => What::Refused("is a file with the name of a folder".into()),
            },
            0 | b'0' | b'7' => What::File,
            b'1' => What::Link(format!(
                "is a hard link to {}: `tar --hard-dereference` stores the file again",
                target()
            )),
            b'2' => {
                What::Link(format!("is a symbolic link to {}: `tar --dereference` stores the file", target()))
            }
            b'3' | b'4' | b'6' => What::Refused("is neither file nor folder (a pipe or device)".into()),
            // A label of the volume, and a list of a folder's files.
            b'5' | b'V' | b'D' => What::Folder,
            b'M' => What::Refused("is the rest of a file that begins in another volume".into()),
            other => What::Refused(format!("is of the unknown type {:?}", char::from(other))),
        };
        Ok(Member { name, byte, size, what })
    }

    fn skip_sparse_headers(&mut self, header: &Header) -> Result<(), String> {
        let mut more = header.as_gnu().is_some_and(tar::GnuHeader::is_extended);
        while more {
            let mut block = tar::GnuExtSparseHeader::new();
            let at = self.at;
            self.skip(BLOCK).map_err(|_| format!("cut short: in a list of holes at byte {at}"))?;
            self.read(block.as_mut_bytes(), at)?;
            more = block.is_extended();
        }
        Ok(())
    }

    /// Goes on to the header after `size` bytes; fails with what there is where those are too many.
    fn skip(&mut self, size: u64) -> Result<(), u64> {
        let left = self.end.saturating_sub(self.at);
        if size > left {
            return Err(left);
        }
        // That the last block is whole is not asked: the end mark, which is, comes after it.
        self.at += size.next_multiple_of(BLOCK).min(left);
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), String> {
        let read = self.file.read_exact_at(bytes, self.base.saturating_add(at));
        read.map_err(|error| format!("cannot be read at byte {at}: {}", reason(&error)))
    }
}

impl Iterator for Members<'_> {
    type Item = Result<Member, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.member().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Extension {
    /// Takes in the records of a PAX header.
    fn pax(&mut self, bytes: &[u8], start: u64) -> Result<(), String> {
        let damaged = || format!("the extension header at byte {start} is damaged");
        let mut rest = bytes;
        while rest.iter().any(|b| *b != 0) {
            let (key, value, after) = pax_record(rest).ok_or_else(damaged)?;
            let given = || Some(value.to_vec()).filter(|value| !value.is_empty());
            match key {
                b"path" => self.path = given(),
                b"size" => self.size = Some(number(value).ok_or_else(damaged)?),
                b"GNU.sparse.name" => (self.sparse, self.sparse_name) = (true, given()),
                _ => self.sparse |= key.starts_with(b"GNU.sparse."),
            }
            rest = after;
        }
        Ok(())
    }

    fn name(&self, header: &Header) -> Vec<u8> {
        let given = [&self.sparse_name, &self.path, &self.long_name].into_iter().find_map(Option::as_ref);
        given.cloned().unwrap_or_else(|| name(header))
    }
}

/// Returns the name in a header: with the prefix that ustar has, whatever its version says.
fn name(header: &Header) -> Vec<u8> {
    let bytes = header.as_bytes();
    let text = |range: Range<usize>| bytes[range].split(|&b| b == 0).next().unwrap_or_default();
    let (name, prefix) = (text(0..100), text(345..500));
    match bytes[257..263] == *b"ustar\0" && !prefix.is_empty() {
        true => [prefix, b"/", name].concat(),
        false => name.to_vec(),
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Splits a record, `LENGTH KEY=VALUE` and a line end, from what follows.
fn pax_record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().position(|b| *b == b' ')?;
    let len = usize::try_from(number(bytes.get(..space)?)?).ok()?;
    let record = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|b| *b == b'=')?;
    Some((record.get(..equals)?, record.get(equals + 1..)?, bytes.get(len..)?))
}

/// Returns a header's size: octal, or binary in 96 bits of which 64 are used; none where nothing is written.
fn size(header: &Header) -> Option<u64> {
    match header.as_old().size {
        blank if blank.iter().all(|b| matches!(b, 0 | b' ')) => Some(0),
        [0x80, 0, 0, 0, ..] | [0..0x80, ..] => header.entry_size().ok(),
        _ => None,
    }
}

fn has_checksum(header: &Header) -> bool {
    let bytes = header.as_bytes().iter().enumerate();
    let bytes = bytes.map(|(at, b)| if (148..156).contains(&at) { b' ' } else { *b });
    let (unsigned, signed) = bytes.fold((0u32, 0i32), |(unsigned, signed), b| {
        (unsigned + u32::from(b), signed + i32::from(b.cast_signed()))
    });
    // Some old programs added up signed bytes.
    header.cksum().is_ok_and(|sum| sum == unsigned || i32::try_from(sum).is_ok_and(|sum| sum == signed))
}

/// Returns whether a part of a file begins as a tar does.
pub(super) fn looks_like_tar(file: &File, at: u64, size: u64) -> bool {
    let mut header = Header::new_old();
    size >= BLOCK
        && file.read_exact_at(header.as_mut_bytes(), at).is_ok()
        && (has_checksum(&header) || header.as_bytes().iter().all(|b| *b == 0))
}
