use packhorse_core::{KeyRef, MAX_SAMPLES, Sha256};
use sha2::Digest as _;

/// Where segments end: a rule over keys and sizes in key order.
///
/// The cut after a key depends on that key, its size and the weight of its segment alone, so an insertion moves one or
/// a few cuts and every other segment stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutRule {
    /// A segment of less weight never ends by itself.
    pub min: u64,
    /// The expected weight beyond `min`.
    pub spread: u64,
    /// No segment of several samples has more weight.
    pub max: u64,
}

impl CutRule {
    /// The smallest segment size that can be asked for, in bytes.
    pub const MIN_SIZE: u64 = 4096;
    /// The largest segment size that can be asked for: 1 TiB.
    pub const MAX_SIZE: u64 = 1 << 40;

    /// Returns the rule for segments of about `size` bytes; `None` outside `MIN_SIZE..=MAX_SIZE`.
    pub fn of_size(size: u64) -> Option<Self> {
        (Self::MIN_SIZE..=Self::MAX_SIZE).contains(&size).then_some(Self {
            min: size / 2,
            spread: size / 2,
            max: size * 2,
        })
    }

    /// Returns the weight of a sample with this key and payload size.
    pub fn weight(key: KeyRef<'_>, payload: u64) -> u64 {
        payload.saturating_add(key.as_bytes().len() as u64 + 128)
    }

    /// Returns whether a segment that weighs enough ends after this key.
    pub fn ends(&self, key: KeyRef<'_>, weight: u64) -> bool {
        let hash = Sha256::new().chain_update(b"packhorse.cut.1\0").chain_update(key.as_bytes()).finalize();
        let h = hash.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first));
        u128::from(h) * u128::from(self.spread) < u128::from(weight) << 64
    }
}

impl Default for CutRule {
    /// Segments of about 256 MiB.
    fn default() -> Self {
        Self { min: 128 << 20, spread: 128 << 20, max: 512 << 20 }
    }
}

/// Applies a [`CutRule`] to samples in key order.
#[derive(Clone, Debug)]
pub struct Cutter {
    rule: CutRule,
    weight: u64,
    count: u64,
}

impl Cutter {
    /// Starts before the first sample.
    pub fn new(rule: CutRule) -> Self {
        Self { rule, weight: 0, count: 0 }
    }

    /// Takes the next sample; returns whether it begins a segment.
    pub fn push(&mut self, key: KeyRef<'_>, payload: u64) -> bool {
        let weight = CutRule::weight(key, payload);
        let full = self.weight.saturating_add(weight) > self.rule.max || self.count >= MAX_SAMPLES;
        if self.count > 0 && full {
            (self.weight, self.count) = (0, 0);
        }
        let begins = self.count == 0;
        self.weight = self.weight.saturating_add(weight);
        self.count += 1;
        if self.weight >= self.rule.min && self.rule.ends(key, weight) {
            (self.weight, self.count) = (0, 0);
        }
        begins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(samples: &[(String, u64)], rule: CutRule) -> Vec<&str> {
        let mut cutter = Cutter::new(rule);
        let begins = |(key, size): &&(String, u64)| cutter.push(KeyRef::new(key.as_bytes()).unwrap(), *size);
        samples.iter().filter(begins).map(|(key, _)| key.as_str()).collect()
    }

    fn many() -> Vec<(String, u64)> {
        (0..20_000u64).map(|i| (format!("c/{i:06}.jpg"), 100 + i * i % 4000)).collect()
    }

    #[test]
    fn segments_have_the_size_asked_for() {
        let rule = CutRule::of_size(64 << 10).unwrap();
        let samples = many();
        let weight: u64 =
            samples.iter().map(|(k, s)| CutRule::weight(KeyRef::new(k.as_bytes()).unwrap(), *s)).sum();
        let mean = weight / cuts(&samples, rule).len() as u64;
        assert!((50 << 10..80 << 10).contains(&mean), "{mean}");
    }

    #[test]
    fn an_insertion_moves_few_cuts() {
        let rule = CutRule::of_size(64 << 10).unwrap();
        let mut samples = many();
        let before: std::collections::BTreeSet<_> =
            cuts(&samples, rule).iter().map(|k| k.to_string()).collect();
        samples.insert(9000, ("c/008999.jpg.x".into(), 3000));
        let after = cuts(&samples, rule);
        let moved = after.iter().filter(|key| !before.contains(**key)).count();
        assert!(moved <= 4, "{moved} cuts moved");
    }

    #[test]
    fn large_samples_and_many_small_ones_are_cut() {
        let rule = CutRule::default();
        let large = [("a".into(), 1), ("b".into(), 600 << 20), ("c".into(), u64::MAX), ("d".into(), 1)];
        assert_eq!(cuts(&large, rule), ["a", "b", "c", "d"]);
        let never = CutRule { min: u64::MAX, spread: u64::MAX, max: u64::MAX };
        let small: Vec<_> = (0..MAX_SAMPLES + 2).map(|i| (format!("{i:07}"), 0)).collect();
        assert_eq!(cuts(&small, never), ["0000000", "0262144"]);
    }
}
