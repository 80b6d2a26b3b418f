use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use flate2::Crc;
use packhorse_core::path_text;
use rawzip::extra_fields::ExtraFieldId;
use rawzip::{
    CompressionMethod, CreatorSystem, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive,
    ZipFileHeaderRecord,
};

use super::find_data;
use super::scan::{Member, Scan, What, Within};
use crate::source::reason;
use crate::{Error, Failure, Result, Tally};

/// How a member is packed.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// Where its local header is.
    pub(super) header: u64,
    /// Its bytes in the archive.
    pub(super) size: u64,
    pub(super) crc: u32,
    pub(super) deflated: bool,
    /// The length and the CRC-32 of its name.
    name: (usize, u32),
}

const LOCAL_HEADER: [u8; 4] = *b"PK\x03\x04";
const LOCAL_HEADER_SIZE: usize = 30;
/// Deflate makes no byte of more than these: a directory that says so must not have memory set aside for it.
const MOST_DEFLATED: u64 = 1032;

impl Packed {
    /// Returns where the payload begins, after the local header, which is read and must be that of the same member.
    pub(super) fn payload(&self, file: &File) -> Result<u64, String> {
        let mut header = vec![0; LOCAL_HEADER_SIZE + self.name.0];
        file.read_exact_at(&mut header, self.header).map_err(|error| reason(&error))?;
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        if !header.starts_with(&LOCAL_HEADER) {
            return Err("there is no header of a member where the directory says".into());
        }
        let (name, extra) = (usize::from(number(26)), u64::from(number(28)));
        if name != self.name.0 || crc(&header[LOCAL_HEADER_SIZE..]) != self.name.1 {
            return Err("its header has another name than the directory".into());
        }
        if (number(8) != 0) != self.deflated {
            return Err("its header has another compression than the directory".into());
        }
        Ok(self.header.saturating_add(header.len() as u64).saturating_add(extra))
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Scans a zip by its directory.
pub(super) fn scan(scan: &mut Scan<'_>, within: Within<'_>, file: &File, len: u64) -> Result<Vec<Packed>> {
    let broken = |what: String| Error::NoSource(Failure::new(&within.part.path, what));
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let shared = file.try_clone().map_err(|error| broken(reason(&error)))?;
    let archive = ZipArchive::from_file(shared, &mut buffer).map_err(|error| {
        broken(match error.kind() {
            ErrorKind::MissingEndOfCentralDirectory | ErrorKind::Eof => {
                "is cut short or no zip: the record that ends one is missing".into()
            }
            other => format!("is damaged: {other}"),
        })
    })?;
    let mut packed = Vec::new();
    let (mut records, mut first, mut turned) = (0u64, archive.directory_offset(), Tally::default());
    let mut entries = archive.entries(&mut buffer);
    loop {
        let record = match entries.next_entry() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                let what = format!("the directory is damaged after {records} members: {error}");
                scan.fail(within, "", what);
                return Ok(packed);
            }
        };
        records += 1;
        first = first.min(record.local_header_offset());
        let name = name(&record, &mut turned);
        let member = member(&record, name, archive.directory_offset());
        let number = packed.len() as u64;
        if matches!(member.what, What::File) {
            packed.push(Packed {
                header: record.local_header_offset(),
                size: record.compressed_size_hint(),
                crc: record.crc32(),
                deflated: record.compression_method() == CompressionMethod::DEFLATE,
                name: (record.file_path().as_bytes().len(), crc(record.file_path().as_bytes())),
            });
        }
        scan.member(within, number, member)?;
    }
    let said = archive.entries_hint();
    // Without zip64 only 16 bits of the number are there.
    if said != records && (said > u64::from(u16::MAX) || said != records & u64::from(u16::MAX)) {
        scan.fail(within, "", format!("the directory has {records} members, {said} should be in it"));
    }
    if let Some(first) = turned.names.first() {
        scan.remark(format!(
            "{} names have backslashes, which were taken for slashes, such as {}",
            turned.count,
            path_text(first)
        ));
    }
    if let Some((a, b)) = overlap(&packed) {
        let what = format!(
            "the members at the bytes {a} and {b} overlap: the archive is damaged, or means to fill disks"
        );
        scan.fail(within, "", what);
    }
    check_ends(scan, within, file, Found { first, end: archive.end_offset() }, len);
    Ok(packed)
}

/// Reports what lies before and after an archive, and is no part of it.
fn check_ends(scan: &mut Scan<'_>, within: Within<'_>, file: &File, found: Found, len: u64) {
    let mut head = [0; LOCAL_HEADER.len()];
    let begins = file.read_exact_at(&mut head, 0).is_ok() && head == LOCAL_HEADER;
    if begins && found.first > 0 {
        // A program that unpacks itself begins otherwise.
        let what = format!(
            "another archive, or a member that the directory lacks, lies in the first {} bytes: split it",
            found.first
        );
        scan.fail(within, "", what);
    }
    match find_data(file, found.end, len) {
        Ok(None) => {}
        Ok(Some(at)) => {
            let what = format!("another archive or other data follows its end, at byte {at}: split it there");
            scan.fail(within, "", what);
        }
        Err(error) => scan.fail(within, "", reason(&error)),
    }
}

/// Where an archive begins and ends.
struct Found {
    first: u64,
    end: u64,
}

/// Returns the places of two members that have bytes in common.
fn overlap(packed: &[Packed]) -> Option<(u64, u64)> {
    let end = |member: &Packed| (LOCAL_HEADER_SIZE + member.name.0) as u64 + member.size + member.header;
    let mut spans: Vec<_> = packed.iter().map(|member| (member.header, end(member))).collect();
    spans.sort_unstable();
    spans.windows(2).find(|pair| pair[0].1 > pair[1].0).map(|pair| (pair[0].0, pair[1].0))
}

/// Returns a member's name: in UTF-8 where a second form of it says so, and without the backslashes that some programs
/// for Windows write; `turned` counts those.
fn name(record: &ZipFileHeaderRecord<'_>, turned: &mut Tally) -> Vec<u8> {
    let raw = record.file_path().as_bytes().to_vec();
    let unicode = record.extra_fields().find_map(|(id, data)| match data {
        [1, a, b, c, d, name @ ..] if id == ExtraFieldId::INFO_ZIP_UNICODE_PATH => {
            (u32::from_le_bytes([*a, *b, *c, *d]) == crc(&raw)).then_some(name)
        }
        _ => None,
    });
    let mut name = unicode.map_or(raw, <[u8]>::to_vec);
    // As Info-ZIP's `unzip` has it.
    if record.version_made_by().creator_system() == CreatorSystem::FAT
        && name.contains(&b'\\')
        && !name.contains(&b'/')
    {
        turned.add(OsStr::from_bytes(&name));
        name.iter_mut().filter(|b| **b == b'\\').for_each(|b| *b = b'/');
    }
    name
}

fn member(record: &ZipFileHeaderRecord<'_>, name: Vec<u8>, directory: u64) -> Member {
    let (flags, method) = (record.flags(), record.compression_method());
    let (byte, packed) = (record.local_header_offset(), record.compressed_size_hint());
    let size = record.uncompressed_size_hint();
    let end = byte.checked_add(LOCAL_HEADER_SIZE as u64).and_then(|at| at.checked_add(packed));
    let refused = |what: &str| What::Refused(what.to_owned());
    let what = if name.ends_with(b"/") {
        if size == 0 { What::Folder } else { refused("is a file with the name of a folder") }
    } else if flags.is_encrypted() || flags.has_strong_encryption() || flags.is_masked() {
        refused("is encrypted: unpack it with its password first")
    } else {
        const KINDS: u32 = 0o170_000;
        match record.mode().value() & KINDS {
            0o120_000 => What::Link("is a symbolic link: `zip` without --symlinks stores the file".into()),
            0o040_000 if size == 0 => What::Folder,
            // Some systems say nothing of the kind.
            0 | 0o100_000 => match method {
                _ if end.is_none_or(|end| end > directory) => {
                    refused("lies beyond the place of the directory: the archive is damaged")
                }
                CompressionMethod::STORE if packed != size => {
                    refused("is stored in another number of bytes than it has")
                }
                CompressionMethod::DEFLATE if size > packed.saturating_mul(MOST_DEFLATED) => {
                    refused("is said to be larger than what deflate can have made so small")
                }
                CompressionMethod::STORE | CompressionMethod::DEFLATE => What::File,
                other => What::Refused(format!(
                    "is compressed by method {other}: only deflate is read, which `zip` uses"
                )),
            },
            _ => refused("is neither file nor folder (a pipe, socket or device)"),
        }
    };
    Member { name, byte, size, what }
}
