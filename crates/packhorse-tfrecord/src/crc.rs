//! Combining CRC-32C checksums. That of the crate `crc32c` takes thirty microseconds, which is most of what a sample costs.

/// The polynomial, the highest power in the lowest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x to the power of 2 to the power of the place.
const POWERS: [u32; 64] = {
    let mut powers = [1 << 30; 64];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = multiply(powers[at - 1], powers[at - 1]);
        at += 1;
    }
    powers
};

/// Multiplies modulo the polynomial.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = (b >> 1) ^ if b & 1 == 0 { 0 } else { POLYNOMIAL };
        bit >>= 1;
    }
    product
}

/// Returns the CRC-32C of bytes that have `first`, followed by `len` bytes that have `second`.
pub(crate) fn combine(first: u32, second: u32, len: u64) -> u32 {
    let bits = u128::from(len) * 8;
    let shifted = (0..POWERS.len()).filter(|at| bits >> at & 1 == 1);
    shifted.fold(first, |crc, at| multiply(POWERS[at], crc)) ^ second
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn combined_is_that_of_all(bytes in proptest::collection::vec(any::<u8>(), 0..3000), at: prop::sample::Index) {
            let (first, second) = bytes.split_at(at.index(bytes.len() + 1));
            let combined = super::combine(crc32c::crc32c(first), crc32c::crc32c(second), second.len() as u64);
            prop_assert_eq!(combined, crc32c::crc32c(&bytes));
        }

        #[test]
        fn long_ones_are_as_another_implementation_has_them(first: u32, second: u32, len in 0_u64..1 << 40) {
            prop_assert_eq!(super::combine(first, second, len), crc32c::crc32c_combine(first, second, len as usize));
        }
    }
}
