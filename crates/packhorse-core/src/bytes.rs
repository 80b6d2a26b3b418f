use crate::Malformed;

/// Reads little-endian fields at fixed offsets of a byte slice, with every access checked.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the `len` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// Fails where the slice ends before `offset + len`.
    #[inline]
    pub fn bytes(self, offset: u64, len: u64) -> Result<&'a [u8], Malformed> {
        let end = offset.checked_add(len).and_then(|end| usize::try_from(end).ok());
        match (usize::try_from(offset), end) {
            (Ok(start), Some(end)) if end <= self.0.len() => Ok(&self.0[start..end]),
            _ => Err(Malformed::new(
                offset,
                format!("needs {len} bytes here, but only {} are in all", self.0.len()),
            )),
        }
    }

    /// Returns the `N` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// Fails where the slice ends before them.
    #[inline]
    pub fn array<const N: usize>(self, offset: u64) -> Result<[u8; N], Malformed> {
        let bytes = self.bytes(offset, N as u64)?;
        bytes.try_into().map_err(|_| Malformed::new(offset, "field is cut"))
    }

    /// Returns the u16 at `offset`.
    ///
    /// # Errors
    ///
    /// Fails where the slice ends before it.
    pub fn u16(self, offset: u64) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(offset)?))
    }

    /// Returns the u32 at `offset`.
    ///
    /// # Errors
    ///
    /// Fails where the slice ends before it.
    #[inline]
    pub fn u32(self, offset: u64) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(offset)?))
    }

    /// Returns the u64 at `offset`.
    ///
    /// # Errors
    ///
    /// Fails where the slice ends before it.
    #[inline]
    pub fn u64(self, offset: u64) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(offset)?))
    }

    /// Checks that the bytes from `offset` on are zero for `len` bytes.
    ///
    /// # Errors
    ///
    /// Names the first byte that is not zero.
    pub fn zeros(self, offset: u64, len: u64) -> Result<(), Malformed> {
        match self.bytes(offset, len)?.iter().position(|&b| b != 0) {
            None => Ok(()),
            Some(at) => Err(Malformed::new(offset + at as u64, "padding is not zero")),
        }
    }

    /// Checks a magic number of eight bytes, the format version after it and the feature bits.
    ///
    /// # Errors
    ///
    /// Says which of them is foreign.
    pub fn magic(self, magic: &[u8; 8], version: u16, known_features: u32) -> Result<u32, Malformed> {
        if &self.array::<8>(0)? != magic {
            return Err(Malformed::new(0, format!("does not begin with {}", magic.escape_ascii())));
        }
        let found = self.u16(8)?;
        if found != version {
            return Err(Malformed::new(8, format!("format version {found}; this packhorse reads {version}")));
        }
        self.zeros(10, 2)?;
        let features = self.u32(12)?;
        if features & !known_features != 0 {
            return Err(Malformed::new(
                12,
                format!("needs unknown features {features:#x}: use a newer packhorse"),
            ));
        }
        Ok(features)
    }
}

/// Returns how many zero bytes bring `len` to a multiple of `align`, a power of two.
#[inline]
pub fn padding(len: u64, align: u64) -> u64 {
    len.wrapping_neg() & (align - 1)
}

/// Appends `len` zero bytes.
pub fn put_zeros(out: &mut Vec<u8>, len: u64) {
    out.resize(out.len() + len as usize, 0);
}
