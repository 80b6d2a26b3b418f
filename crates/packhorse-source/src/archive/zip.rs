use std::fs::File;
use std::os::unix::fs::FileExt;

use rawzip::{
    CompressionMethod, ErrorKind, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive, ZipFileHeaderRecord,
};

use super::find_data;
use super::scan::{Member, Scan, What, Within};
use crate::source::reason;
use crate::{Error, Failure, Result};

/// How a member is packed.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// Where its local header is.
    pub(super) header: u64,
    /// Its bytes in the archive.
    pub(super) size: u64,
    pub(super) crc: u32,
    pub(super) deflated: bool,
}

const LOCAL_HEADER: [u8; 4] = *b"PK\x03\x04";
const LOCAL_HEADER_SIZE: u64 = 30;
/// Deflate makes no byte of more than these: a directory that says so must not have memory set aside for it.
const MOST_DEFLATED: u64 = 1032;

impl Packed {
    /// Returns where the payload begins, after the local header, which is read.
    pub(super) fn payload(&self, file: &File) -> Result<u64, String> {
        let mut header = [0; LOCAL_HEADER_SIZE as usize];
        file.read_exact_at(&mut header, self.header).map_err(|error| reason(&error))?;
        let [p, k, three, four, .., a, b, c, d] = header;
        if [p, k, three, four] != LOCAL_HEADER {
            return Err("there is no header of a member where the directory says".into());
        }
        let (name, extra) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        Ok(self.header.saturating_add(LOCAL_HEADER_SIZE + u64::from(name) + u64::from(extra)))
    }
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
    let (mut records, mut first) = (0u64, archive.directory_offset());
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
        let member = member(&record, archive.directory_offset());
        let number = packed.len() as u64;
        if matches!(member.what, What::File) {
            packed.push(Packed {
                header: record.local_header_offset(),
                size: record.compressed_size_hint(),
                crc: record.crc32(),
                deflated: record.compression_method() == CompressionMethod::DEFLATE,
            });
        }
        scan.member(within, number, member)?;
    }
    let said = archive.entries_hint();
    // Without zip64 only 16 bits of the number are there.
    if said != records && (said > u64::from(u16::MAX) || said != records & u64::from(u16::MAX)) {
        scan.fail(within, "", format!("the directory has {records} members, {said} should be in it"));
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

fn member(record: &ZipFileHeaderRecord<'_>, directory: u64) -> Member {
    let name = record.file_path().as_bytes().to_vec();
    let (flags, method) = (record.flags(), record.compression_method());
    let (byte, packed) = (record.local_header_offset(), record.compressed_size_hint());
    let size = record.uncompressed_size_hint();
    let end = byte.checked_add(LOCAL_HEADER_SIZE).and_then(|at| at.checked_add(packed));
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
            0o100_000 => match method {
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
