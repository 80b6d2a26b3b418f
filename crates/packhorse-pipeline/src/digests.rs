use std::io::{self, Read};

use packhorse_core::{Digest, Sha256};
use sha2::Digest as _;

/// What bytes are known by.
pub(crate) struct Digests {
    pub(crate) len: u64,
    pub(crate) crc32c: u32,
    pub(crate) sha256: Digest,
}

/// Reads to the end.
pub(crate) fn digests(from: &mut impl Read) -> io::Result<Digests> {
    let mut from = Digesting::new(from);
    let mut buffer = vec![0; 1 << 18];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(from.finish()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Notes what is read through it.
pub(crate) struct Digesting<R> {
    from: R,
    len: u64,
    crc32c: u32,
    sha256: Sha256,
}

impl<R: Read> Digesting<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, len: 0, crc32c: 0, sha256: Sha256::new() }
    }

    pub(crate) fn finish(self) -> Digests {
        Digests { len: self.len, crc32c: self.crc32c, sha256: Digest::finish(self.sha256) }
    }
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.len += read as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &buffer[..read]);
        self.sha256.update(&buffer[..read]);
        Ok(read)
    }
}
