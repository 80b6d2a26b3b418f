use std::cmp::Ordering;

use packhorse_core::{Digest, IndexView, Key, KeyRef, Malformed};
use packhorse_manifest::SampleLine;
use packhorse_source::{Entry, Source};

use crate::error::Result;
use crate::segment::labels;

/// Returns the first sample that the source does not have as the pack has it, by keys and sizes.
pub(super) fn by_size(
    pack: &[SampleLine],
    mut source: impl Iterator<Item = Result<Entry>>,
) -> Result<Option<(Key, String)>> {
    let mut pack = pack.iter();
    loop {
        let (here, there) = (pack.next(), source.next().transpose()?);
        let order = match (here, &there) {
            (None, None) => return Ok(None),
            (Some(here), Some(there)) => here.key.cmp(&there.key),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        match (order, here, there) {
            (Ordering::Less, Some(here), _) => {
                return Ok(Some((here.key.clone(), "the pack has it, the source does not".into())));
            }
            (Ordering::Greater, _, Some(there)) => {
                return Ok(Some((there.key, "the source has it, the pack does not".into())));
            }
            (_, Some(here), Some(there)) if here.bytes != there.size() => {
                let what = format!("{} bytes in the pack, {} in the source", here.bytes, there.size());
                return Ok(Some((there.key, what)));
            }
            _ => {}
        }
    }
}

/// Returns the first sample whose content differs; keys and sizes are the same.
pub(super) fn by_content(pack: &[SampleLine], source: &[SampleLine]) -> Option<Key> {
    pack.iter().zip(source).find(|(here, there)| here.leaf != there.leaf).map(|(here, _)| here.key.clone())
}

/// Says what differs between two indexes that have this key.
pub(super) fn fields(pack: &[u8], source: &[u8], key: KeyRef<'_>) -> Option<String> {
    let pack = fields_of(pack, key).ok()?;
    let source = fields_of(source, key).ok()?;
    let (here, there) = pack.iter().zip(&source).find(|(here, there)| here != there)?;
    Some(match here.0 == there.0 {
        true => format!("field {}: SHA-256 {} in the pack, {} in the source", here.0, here.1, there.1),
        false => format!("field {} in the pack, {} in the source", here.0, there.0),
    })
}

fn fields_of(index: &[u8], key: KeyRef<'_>) -> Result<Vec<(String, Digest)>, Malformed> {
    let view = IndexView::new(index)?;
    let Some(i) = view.find(key)? else { return Ok(Vec::new()) };
    view.fields(view.row(i)?).map(|field| field.map(|field| (field.name.to_owned(), field.sha256))).collect()
}

/// Returns the first sample whose attributes differ, where the manifest spells them out.
pub(super) fn by_labels(
    pack: &[SampleLine],
    source: &dyn Source,
    rows: impl Iterator<Item = Result<Entry>>,
) -> Result<Option<Key>> {
    for (here, there) in pack.iter().zip(rows) {
        let there = there?;
        if here.attributes != labels(source, &there) {
            return Ok(Some(there.key));
        }
    }
    Ok(None)
}
