use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use packhorse_core::padding;
use tar::{EntryType, Header};

pub(crate) const BLOCK: usize = 512;
/// The largest size that the eleven octal digits of a header hold.
const LARGEST: u64 = (1 << 33) - 1;

/// Appends the header of a member, with a PAX header before it where its name or size needs one.
pub(crate) fn put_header(out: &mut Vec<u8>, name: &[u8], size: u64) -> Result<(), String> {
    let path = Path::new(OsStr::from_bytes(name));
    let mut header = plain(EntryType::Regular);
    let mut records = Vec::new();
    if header.set_path(path).is_err() || header.path_bytes() != name {
        // Bytes that are not UTF-8 stand as they are, as GNU tar has it.
        put_record(&mut records, "path", name);
        header = plain(EntryType::Regular);
        set_path(&mut header, "long-name")?;
    }
    if size > LARGEST {
        put_record(&mut records, "size", size.to_string().as_bytes());
        header.set_size(0);
    } else {
        header.set_size(size);
    }
    if !records.is_empty() {
        let mut extension = plain(EntryType::XHeader);
        set_path(&mut extension, "PaxHeader")?;
        extension.set_size(records.len() as u64);
        put(out, &mut extension);
        put_payload(out, &records);
    }
    put(out, &mut header);
    Ok(())
}

/// Appends a member.
pub(crate) fn member(out: &mut Vec<u8>, name: &[u8], bytes: &[u8]) -> Result<(), String> {
    put_header(out, name, bytes.len() as u64)?;
    put_payload(out, bytes);
    Ok(())
}

fn put_payload(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + padding(bytes.len() as u64, BLOCK as u64) as usize, 0);
}

fn put(out: &mut Vec<u8>, header: &mut Header) {
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
}

fn plain(kind: EntryType) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn set_path(header: &mut Header, path: &str) -> Result<(), String> {
    header.set_path(path).map_err(|error| error.to_string())
}

/// Appends a record, `LENGTH KEY=VALUE` and a line end, whose length counts itself.
fn put_record(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    out.extend(len.to_string().bytes());
    out.push(b' ');
    out.extend(key.bytes());
    out.push(b'=');
    out.extend(value);
    out.push(b'\n');
}
