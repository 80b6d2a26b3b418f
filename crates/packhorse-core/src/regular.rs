use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file for reading; refuses what is no regular file, and never waits for one, as for a pipe.
///
/// # Errors
///
/// What the operating system says; `InvalidInput` where the file is not regular.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file")),
    }
}

/// Reads a regular file of at most `max` bytes.
///
/// # Errors
///
/// As [`open_regular`]; `FileTooLarge` where the file is longer.
pub fn read_regular(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let len = file.metadata()?.len();
    if len > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{len} bytes, more than {max}")));
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
