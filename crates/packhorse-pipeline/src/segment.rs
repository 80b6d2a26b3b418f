//! What the bytes of a segment's index and attributes say, in the words of the manifest.

use std::io;
use std::path::Path;

use packhorse_core::{Digest, IndexView, KeyRef, Malformed, Value, read_regular, sample_leaf};
use packhorse_manifest::{AttributesView, Detail, SampleLine, Segment};

/// Reads an index file or a file of attributes; neither is ever larger than 1 GiB.
pub(crate) fn read_table(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, 1 << 30)
}

/// Returns the attribute digest of columns that fit an index; `None` where they do not.
pub(crate) fn check_attributes(index: &[u8], columns: &[u8]) -> Option<Digest> {
    let index = IndexView::new(index).ok()?;
    let view = AttributesView::new(columns).ok()?;
    view.check(columns, keys(&index).ok()?.into_iter()).ok()
}

/// Returns the keys of an index.
pub(crate) fn keys<'a>(index: &IndexView<'a>) -> Result<Vec<KeyRef<'a>>, Malformed> {
    (0..index.len()).map(|i| index.row(i).map(|row| row.key)).collect()
}

/// Makes a segment's line of the manifest, and with [`Detail::Samples`] those of its samples.
pub(crate) fn segment(
    content: Digest,
    attributes: Digest,
    detail: Detail,
    index: &[u8],
    columns: &[u8],
) -> Result<Segment, Malformed> {
    let view = IndexView::new(index)?;
    Ok(Segment {
        content,
        attributes,
        samples: view.len(),
        bytes: view.payload(),
        first_key: view.row(0)?.key.to_key(),
        lines: match detail {
            Detail::Segments => Vec::new(),
            Detail::Samples => sample_lines(index, columns)?,
        },
    })
}

/// Makes the lines of a segment's samples.
pub(crate) fn sample_lines(index: &[u8], columns: &[u8]) -> Result<Vec<SampleLine>, Malformed> {
    let (index, columns) = (IndexView::new(index)?, AttributesView::new(columns)?);
    let line = |i| {
        let row = index.row(i)?;
        let fields = index.fields(row).collect::<Result<Vec<_>, _>>()?;
        Ok(SampleLine {
            leaf: sample_leaf(row.key, fields.iter().copied()),
            bytes: fields.iter().map(|field| field.size).sum(),
            attributes: attributes(&columns, i)?,
            key: row.key.to_key(),
        })
    };
    (0..index.len()).map(line).collect()
}

/// Returns the attributes of a sample that are not null.
pub(crate) fn attributes(columns: &AttributesView<'_>, i: u64) -> Result<Vec<(String, Value)>, Malformed> {
    let mut found = Vec::new();
    for name in columns.names() {
        match columns.get(name, i)? {
            Value::Null => {}
            value => found.push((name.to_owned(), value)),
        }
    }
    Ok(found)
}
