//! What the bytes of a segment's index and attributes say, in the words of the manifest.

use std::path::{Path, PathBuf};
use std::{fs, io};

use packhorse_core::{Digest, IndexView, Key, KeyRef, Malformed, Value, read_regular, sample_leaf};
use packhorse_manifest::{AttributesView, Detail, MANIFEST, SampleLine, Segment};
use packhorse_source::{Entry, Source};

/// Reads an index file or a file of attributes; neither is ever larger than 1 GiB.
pub(crate) fn read_table(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, 1 << 30)
}

/// Returns the manifest that a path means, of a pack or itself, and the folder with the files that it names.
pub(crate) fn manifest_of(path: &Path) -> (PathBuf, PathBuf) {
    let manifest = if path.is_dir() { path.join(MANIFEST) } else { path.to_owned() };
    let mut folder = manifest.parent().unwrap_or(Path::new(""));
    if folder.file_name().is_some_and(|name| name == "history") {
        // An earlier version, beside the files that it names.
        folder = folder.parent().unwrap_or(Path::new(""));
    }
    let folder = folder.to_owned();
    (manifest, folder)
}

/// Returns the content digest that a file of a segment has in its name.
pub(crate) fn content_of(path: &Path) -> Option<Digest> {
    path.file_name()?.to_str()?.get(..64)?.parse().ok()
}

/// Lists the files in the folders of a folder, in order; what cannot be listed has none.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = list(folder).flat_map(|inner| list(&inner).collect::<Vec<_>>()).collect();
    files.sort();
    files
}

/// Returns the content digest of a good index.
pub(crate) fn check_index(index: &[u8]) -> Option<Digest> {
    IndexView::new(index).and_then(|view| view.check()).ok()
}

/// Returns the attribute digest of columns that fit an index; `None` where they do not.
pub(crate) fn check_attributes(index: &[u8], columns: &[u8]) -> Option<Digest> {
    let index = IndexView::new(index).ok()?;
    let view = AttributesView::new(columns).ok()?;
    view.check(columns, keys(&index).ok()?.into_iter()).ok()
}

/// Returns the names of a sample's fields.
pub(crate) fn field_names<'a>(index: &IndexView<'a>, i: u64) -> Result<Vec<&'a str>, Malformed> {
    index.fields(index.row(i)?).map(|field| Ok(field?.name)).collect()
}

/// Returns a sample's key, and the bytes of all its fields.
pub(crate) fn key_and_size(index: &IndexView<'_>, i: u64) -> Result<(Key, u64), Malformed> {
    let row = index.row(i)?;
    let size = index.fields(row).try_fold(0, |sum, field| Ok::<_, Malformed>(sum + field?.size))?;
    Ok((row.key.to_key(), size))
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
    let columns = AttributesView::new(columns)?;
    let mut lines = bare_lines(index)?;
    for (i, line) in (0..).zip(&mut lines) {
        line.attributes = attributes(&columns, i)?;
    }
    Ok(lines)
}

/// Makes the lines of a segment's samples, but for their attributes.
pub(crate) fn bare_lines(index: &[u8]) -> Result<Vec<SampleLine>, Malformed> {
    let index = IndexView::new(index)?;
    let line = |i| {
        let row = index.row(i)?;
        let fields = index.fields(row).collect::<Result<Vec<_>, _>>()?;
        Ok(SampleLine {
            leaf: sample_leaf(row.key, fields.iter().copied()),
            bytes: fields.iter().map(|field| field.size).sum(),
            attributes: Vec::new(),
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

/// Returns the attributes of a sample of the source that are not null.
pub(crate) fn labels(source: &dyn Source, entry: &Entry) -> Vec<(String, Value)> {
    let pairs = source.attributes().iter().zip(&entry.values);
    pairs
        .filter(|(_, value)| **value != Value::Null)
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
