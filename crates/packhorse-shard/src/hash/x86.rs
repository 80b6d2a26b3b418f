#![expect(unsafe_code, reason = "instructions that not every processor has")]

use super::Chain;
use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi32, _mm_set_epi64x,
    _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32, _mm_shuffle_epi8, _mm_shuffle_epi32,
    _mm_storeu_si128,
};

/// The round constants, four to a group.
const K: [[u32; 4]; 16] = [
    [0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5],
    [0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5],
    [0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3],
    [0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174],
    [0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc],
    [0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da],
    [0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7],
    [0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967],
    [0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13],
    [0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85],
    [0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3],
    [0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070],
    [0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5],
    [0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3],
    [0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208],
    [0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2],
];

/// A state as the instructions take it: words A B E F and C D G H.
#[derive(Clone, Copy)]
struct Halves(__m128i, __m128i);

#[inline]
#[target_feature(enable = "sha,sse4.1")]
fn load(words: &[u32; 8]) -> Halves {
    // SAFETY: both loads read 16 bytes within `words`; they need no alignment.
    let (dcba, hgfe) = unsafe {
        let at = words.as_ptr().cast::<__m128i>();
        (_mm_loadu_si128(at), _mm_loadu_si128(at.add(1)))
    };
    let cdab = _mm_shuffle_epi32(dcba, 0xB1);
    let efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    Halves(_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xF0))
}

#[inline]
#[target_feature(enable = "sha,sse4.1")]
fn store(state: Halves, words: &mut [u32; 8]) {
    let feba = _mm_shuffle_epi32(state.0, 0x1B);
    let dchg = _mm_shuffle_epi32(state.1, 0xB1);
    // SAFETY: both stores write 16 bytes within `words`; they need no alignment.
    unsafe {
        let at = words.as_mut_ptr().cast::<__m128i>();
        _mm_storeu_si128(at, _mm_blend_epi16(feba, dchg, 0xF0));
        _mm_storeu_si128(at.add(1), _mm_alignr_epi8(dchg, feba, 8));
    }
}

#[inline]
#[target_feature(enable = "sha,sse4.1")]
fn four_rounds(state: &mut Halves, message: __m128i) {
    state.1 = _mm_sha256rnds2_epu32(state.1, state.0, message);
    state.0 = _mm_sha256rnds2_epu32(state.0, state.1, _mm_shuffle_epi32(message, 0x0E));
}

/// The message schedule of a block.
struct Schedule([__m128i; 4]);

impl Schedule {
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    fn new(block: &[u8; 64]) -> Self {
        let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        // SAFETY: each load reads 16 of the block's 64 bytes; they need no alignment.
        Self(unsafe {
            let at = block.as_ptr().cast::<__m128i>();
            [0, 1, 2, 3].map(|i| _mm_shuffle_epi8(_mm_loadu_si128(at.add(i)), swap))
        })
    }

    /// The words of a group of rounds, with their constants.
    #[inline]
    #[target_feature(enable = "sha,sse4.1")]
    fn group(&mut self, group: usize) -> __m128i {
        let (w, i) = (&mut self.0, group % 4);
        if group >= 4 {
            let (before, last) = (w[(i + 2) % 4], w[(i + 3) % 4]);
            let sum =
                _mm_add_epi32(_mm_sha256msg1_epu32(w[i], w[(i + 1) % 4]), _mm_alignr_epi8(last, before, 4));
            w[i] = _mm_sha256msg2_epu32(sum, last);
        }
        let [k0, k1, k2, k3] = K[group].map(u32::cast_signed);
        _mm_add_epi32(w[i], _mm_set_epi32(k3, k2, k1, k0))
    }
}

/// Advances two states over as many blocks each; `SAME` says that those are the same ones.
#[target_feature(enable = "sha,sse4.1")]
pub(super) fn compress_pair<const SAME: bool>(a: Chain<'_>, b: Chain<'_>) {
    let ((a_words, a_blocks), (b_words, b_blocks)) = (a, b);
    let (mut a, mut b) = (load(a_words), load(b_words));
    for (a_block, b_block) in a_blocks.iter().zip(b_blocks) {
        let (a_before, b_before) = (a, b);
        let (mut a_schedule, mut b_schedule) = (Schedule::new(a_block), Schedule::new(b_block));
        for group in 0..K.len() {
            let message = a_schedule.group(group);
            four_rounds(&mut a, message);
            four_rounds(&mut b, if SAME { message } else { b_schedule.group(group) });
        }
        a = Halves(_mm_add_epi32(a.0, a_before.0), _mm_add_epi32(a.1, a_before.1));
        b = Halves(_mm_add_epi32(b.0, b_before.0), _mm_add_epi32(b.1, b_before.1));
    }
    store(a, a_words);
    store(b, b_words);
}
