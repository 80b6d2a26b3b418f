//! SHA-256 of a shard and of each of its records in one pass.

#[cfg(target_arch = "x86_64")]
mod x86;

use packhorse_core::Digest;
use sha2::block_api::compress256;

const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// A SHA-256 whose state can be advanced together with another's.
#[derive(Clone, Debug)]
struct State {
    words: [u32; 8],
    /// The bytes of an unfinished block.
    rest: [u8; 64],
    len: u64,
}

impl State {
    fn new() -> Self {
        Self { words: START, rest: [0; 64], len: 0 }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        let held = (self.len % 64) as usize;
        self.len += bytes.len() as u64;
        if held > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(64 - held));
            self.rest[held..held + now.len()].copy_from_slice(now);
            if held + now.len() < 64 {
                return;
            }
            compress256(&mut self.words, &[self.rest]);
            bytes = later;
        }
        let (blocks, tail) = bytes.as_chunks::<64>();
        compress256(&mut self.words, blocks);
        self.rest[..tail.len()].copy_from_slice(tail);
    }

    /// Returns how many bytes end the unfinished block.
    fn missing(&self) -> usize {
        (self.len.wrapping_neg() % 64) as usize
    }

    /// Ends the unfinished block with the first `missing` bytes; returns the `blocks` blocks after them, which count as
    /// taken, and the rest.
    fn begin<'b>(&mut self, bytes: &'b [u8], missing: usize, blocks: usize) -> (&'b [[u8; 64]], &'b [u8]) {
        let (first, bytes) = bytes.split_at(missing);
        self.update(first);
        let (run, rest) = bytes.split_at(64 * blocks);
        self.len += run.len() as u64;
        (run.as_chunks().0, rest)
    }

    #[expect(clippy::big_endian_bytes, reason = "SHA-256 is big-endian")]
    fn finish(mut self) -> Digest {
        let bits = (self.len * 8).to_be_bytes();
        let zeros = (119 - self.len % 64) % 64;
        let mut padding = [0; 72];
        padding[0] = 0x80;
        let end = 1 + zeros as usize;
        padding[end..end + 8].copy_from_slice(&bits);
        self.update(&padding[..end + 8]);
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.words) {
            *bytes = word.to_be_bytes();
        }
        Digest(digest)
    }
}

/// Hashes a file and, beside it, the record that is being written or read.
///
/// SHA-256 is bound by latency, so that two interleaved chains of rounds cost little more than one; less still where both
/// are at a multiple of 64 bytes, for then a record's blocks are the file's, and one message schedule serves both.
#[derive(Clone, Debug)]
pub struct PairHasher {
    file: State,
    hash_file: bool,
    record: State,
}

impl PairHasher {
    /// Starts; without `hash_file`, only records are hashed.
    pub fn new(hash_file: bool) -> Self {
        Self { file: State::new(), hash_file, record: State::new() }
    }

    /// Adds bytes to the file alone.
    pub fn file(&mut self, bytes: &[u8]) {
        if self.hash_file {
            self.file.update(bytes);
        }
    }

    /// Adds bytes to the file and to the record.
    pub fn both(&mut self, bytes: &[u8]) {
        if !self.hash_file {
            return self.record.update(bytes);
        }
        let (of_file, of_record) = (self.file.missing(), self.record.missing());
        let blocks = bytes.len().saturating_sub(of_file.max(of_record)) / 64;
        if blocks == 0 {
            self.file.update(bytes);
            self.record.update(bytes);
            return;
        }
        let file = self.file.begin(bytes, of_file, blocks);
        let record = self.record.begin(bytes, of_record, blocks);
        compress_both((&mut self.file.words, file.0), (&mut self.record.words, record.0));
        self.file.update(file.1);
        self.record.update(record.1);
    }

    /// Ends the record and returns its SHA-256.
    pub fn finish_record(&mut self) -> Digest {
        std::mem::replace(&mut self.record, State::new()).finish()
    }

    /// Returns the SHA-256 of the file, where it was to be hashed.
    pub fn finish(self) -> Digest {
        self.file.finish()
    }
}

/// A state's words, and the blocks that come next.
type Chain<'a> = (&'a mut [u32; 8], &'a [[u8; 64]]);

/// Advances two states over as many blocks each.
fn compress_both(a: Chain<'_>, b: Chain<'_>) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") {
        #[expect(unsafe_code, reason = "instructions that not every processor has")]
        return match std::ptr::eq(a.1, b.1) {
            // SAFETY: the processor has the features that the function is compiled for.
            true => unsafe { x86::compress_pair::<true>(a, b) },
            // SAFETY: as above.
            false => unsafe { x86::compress_pair::<false>(a, b) },
        };
    }
    compress256(a.0, a.1);
    compress256(b.0, b.1);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_are_what_sha2_says(
            records in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300), 0u8..130, any::<bool>()), 0..12),
            cut in 1usize..200,
        ) {
            let mut pair = PairHasher::new(true);
            let mut file = Vec::new();
            for (record, between, align) in records {
                let gap = if align { file.len().wrapping_neg() % 64 } else { between as usize };
                pair.file(&vec![7; gap]);
                file.resize(file.len() + gap, 7);
                record.chunks(cut).for_each(|chunk| pair.both(chunk));
                file.extend_from_slice(&record);
                prop_assert_eq!(pair.finish_record(), Digest::of(&record));
            }
            prop_assert_eq!(pair.finish(), Digest::of(&file));
        }
    }
}
