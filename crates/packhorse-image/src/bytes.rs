//! Reads of numbers and slices that answer `None` past the end.

/// The `len` bytes at offset `at`.
pub(crate) fn slice(bytes: &[u8], at: u64, len: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(len)?)
}

/// The unsigned big-endian number in the `len` (at most 8) bytes at offset `at`.
pub(crate) fn be(bytes: &[u8], at: u64, len: usize) -> Option<u64> {
    slice(bytes, at, len).map(|part| part.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

/// The unsigned little-endian number in the `len` (at most 8) bytes at offset `at`.
pub(crate) fn le(bytes: &[u8], at: u64, len: usize) -> Option<u64> {
    slice(bytes, at, len).map(|part| part.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_their_order_and_only_inside() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(be(&bytes, 1, 2), Some(0x0203));
        assert_eq!(le(&bytes, 1, 2), Some(0x0302));
        assert_eq!(be(&bytes, 0, 8), Some(0x0102_0304_0506_0708));
        assert_eq!(le(&bytes, 0, 8), Some(0x0807_0605_0403_0201));
        assert_eq!(be(&bytes, 7, 2), None);
        assert_eq!(le(&bytes, u64::MAX, 2), None);
    }
}
