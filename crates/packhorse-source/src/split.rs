use std::fmt;
use std::str::FromStr;

use packhorse_core::{Sha256, Value};
use sha2::Digest as _;

/// A split that is drawn by a hash: a sample stays on its side whatever else is added or removed.
///
/// The text form is `0.9`, which gives `train` that share and `val` the rest, or `train=0.8,val=0.1,test=0.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashSplit {
    /// Names, and their shares in billionths; those add up to all.
    parts: Vec<(String, u64)>,
}

const DOMAIN: &[u8] = b"packhorse.split.1\0";
const WHOLE: u64 = 1_000_000_000;
const FORM: &str = "shares have up to nine decimals and lie between 0 and 1: hash:0.9, \
    or hash:train=0.8,val=0.1,test=0.1, which add up to 1";

impl HashSplit {
    /// Returns the split of these bytes: the first part whose shares, together with those before it, reach above
    /// the hash.
    pub fn part(&self, bytes: &[u8]) -> &str {
        let hash = Sha256::new().chain_update(DOMAIN).chain_update(bytes).finalize();
        let mut low = [0; 8];
        low.copy_from_slice(&hash[..8]);
        let hash = u128::from(u64::from_le_bytes(low));
        let mut reached = 0u128;
        for (name, share) in &self.parts {
            reached += u128::from(*share);
            if hash < (reached << 64) / u128::from(WHOLE) {
                return name;
            }
        }
        self.parts.last().map_or("", |(name, _)| name)
    }

    /// Returns the split of an attribute's value; `None` for null. A number counts as its shortest text.
    pub(crate) fn part_of_value(&self, value: &Value) -> Option<&str> {
        match value {
            Value::Null => None,
            Value::String(bytes) => Some(self.part(bytes)),
            Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                let text = value.to_string();
                Some(self.part(text.split_once(':').map_or(&*text, |(_, text)| text).as_bytes()))
            }
        }
    }
}

/// Reads a share as billionths.
fn share(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let good =
        digits(whole) && digits(rest) && whole.len() + rest.len() > 0 && rest.len() <= 9 && whole.len() <= 1;
    let share = format!("{whole}{rest:0<9}");
    good.then(|| share.parse().ok()).flatten().filter(|share| *share <= WHOLE)
}

impl FromStr for HashSplit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = match share(text) {
            Some(share) => Some(vec![("train".to_owned(), share), ("val".to_owned(), WHOLE - share)]),
            None => text
                .split(',')
                .map(|part| {
                    let (name, of) = part.split_once('=')?;
                    Some((name.to_owned(), share(of)?)).filter(|_| !name.is_empty())
                })
                .collect(),
        };
        let parts: Vec<(String, u64)> = parts.ok_or(FORM)?;
        let different = (1..parts.len()).all(|i| parts[..i].iter().all(|(name, _)| *name != parts[i].0));
        if !different || parts.iter().map(|(_, share)| share).sum::<u64>() != WHOLE {
            return Err(FORM.into());
        }
        Ok(Self { parts })
    }
}

impl fmt::Display for HashSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, share)) in self.parts.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let share = format!("{}.{:09}", share / WHOLE, share % WHOLE);
            write!(f, "{comma}{name}={}", share.trim_end_matches('0').trim_end_matches('.'))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        for (text, form) in [
            ("0.9", "train=0.9,val=0.1"),
            ("1", "train=1,val=0"),
            ("a=0.333333333,b=0.666666667", "a=0.333333333,b=0.666666667"),
        ] {
            let split: HashSplit = text.parse().unwrap();
            assert_eq!(split.to_string(), form);
            assert_eq!(form.parse(), Ok(split));
        }
        for text in [
            "",
            "1.1",
            "-0.5",
            "0.1234567890",
            "a=0.5",
            "a=0.5,a=0.5",
            "a=0.6,b=0.6",
            "=1",
            "nan",
            ".",
            "1e0",
        ] {
            assert!(text.parse::<HashSplit>().is_err(), "{text}");
        }
    }

    /// The vectors of docs/format/split.md: they can never change.
    #[test]
    fn the_split_of_a_key_never_changes() {
        let split: HashSplit = "train=0.8,val=0.1,test=0.1".parse().unwrap();
        let parts =
            ["", "cat/1.jpg", "cat/2.jpg", "cat/3.jpg", "cat/4.jpg", "dog/1.jpg", "dog/2.jpg", "dog/3.jpg"]
                .map(|key| split.part(key.as_bytes()));
        assert_eq!(parts, ["val", "train", "train", "train", "test", "test", "val", "train"]);
        let half: HashSplit = "0.5".parse().unwrap();
        let train = (0..10_000u32).filter(|i| half.part(&i.to_le_bytes()) == "train").count();
        assert!((4800..5200).contains(&train), "{train}");
        assert_eq!(half.part_of_value(&Value::Int(7)), Some(half.part(b"7")));
        assert_eq!(half.part_of_value(&Value::Null), None);
    }
}
