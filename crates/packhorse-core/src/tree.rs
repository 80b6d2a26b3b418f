use sha2::Digest as _;

use crate::{Attributes, Digest, FieldRow, KeyRef, Sha256};

/// Computes the root of an RFC 6962 tree over leaves that come one by one, in memory that grows with the logarithm
/// of their number.
#[derive(Clone, Debug, Default)]
pub struct TreeHasher {
    /// Roots of complete subtrees, largest first: one for each bit of `count`.
    stack: Vec<Digest>,
    count: u64,
}

impl TreeHasher {
    /// Starts with no leaf.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next leaf.
    pub fn push(&mut self, leaf: Digest) {
        let mut node = leaf;
        for _ in 0..self.count.trailing_ones() {
            if let Some(left) = self.stack.pop() {
                node = inner(left, node);
            }
        }
        self.stack.push(node);
        self.count += 1;
    }

    /// Returns the root over the leaves so far.
    pub fn root(&self) -> Digest {
        let mut rest = self.stack.iter().rev().copied();
        match rest.next() {
            None => Digest::of(b""),
            Some(last) => rest.fold(last, |right, left| inner(left, right)),
        }
    }
}

fn inner(left: Digest, right: Digest) -> Digest {
    Digest::finish(Sha256::new().chain_update([1]).chain_update(left.0).chain_update(right.0))
}

/// Hashes a sample's key and fields, which are in byte order of names, into its leaf.
pub fn sample_leaf<'a>(key: KeyRef<'_>, fields: impl ExactSizeIterator<Item = FieldRow<'a>>) -> Digest {
    let mut hasher = start(b"\0packhorse.sample.1\0", key);
    hasher.update((fields.len() as u16).to_le_bytes());
    for field in fields {
        put_name(&mut hasher, field.name);
        hasher.update(field.size.to_le_bytes());
        hasher.update(field.sha256.0);
    }
    Digest::finish(hasher)
}

/// Hashes a sample's key and attributes into its leaf.
pub fn attribute_leaf(key: KeyRef<'_>, attributes: Attributes<'_>) -> Digest {
    let mut hasher = start(b"\0packhorse.attrs.1\0", key);
    hasher.update((attributes.present().count() as u16).to_le_bytes());
    let mut value_bytes = Vec::new();
    for (name, value) in attributes.present() {
        put_name(&mut hasher, name);
        value_bytes.clear();
        value.put_canonical(&mut value_bytes);
        hasher.update(&value_bytes);
    }
    Digest::finish(hasher)
}

fn start(domain: &[u8], key: KeyRef<'_>) -> Sha256 {
    let key = key.as_bytes();
    Sha256::new().chain_update(domain).chain_update((key.len() as u32).to_le_bytes()).chain_update(key)
}

fn put_name(hasher: &mut Sha256, name: &str) {
    hasher.update((name.len() as u16).to_le_bytes());
    hasher.update(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6962, section 2.1, word for word.
    fn by_the_book(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(b""),
            [leaf] => *leaf,
            _ => {
                let split = 1 << (leaves.len() - 1).ilog2();
                inner(by_the_book(&leaves[..split]), by_the_book(&leaves[split..]))
            }
        }
    }

    #[test]
    fn streaming_root_is_the_recursive_one() {
        let leaves: Vec<_> = (0..70u32).map(|i| Digest::of(&i.to_le_bytes())).collect();
        let mut hasher = TreeHasher::new();
        for (count, leaf) in leaves.iter().enumerate() {
            assert_eq!(hasher.root(), by_the_book(&leaves[..count]), "{count} leaves");
            hasher.push(*leaf);
        }
    }
}
