use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use packhorse_core::{Digest, IndexView, TreeHasher, Value, attribute_leaf, sample_leaf};
use packhorse_manifest::{AttributesView, attributes_path, index_path};
use packhorse_reader::Pack;

use crate::error::{Error, Result};
use crate::segment::{attributes, read_table};

/// What a pack holds, from its index and attributes alone.
#[derive(Debug)]
pub struct Stat {
    /// The version id.
    pub version: Digest,
    /// The container's name.
    pub container: &'static str,
    /// Samples.
    pub samples: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Bytes of container files.
    pub stored: u64,
    /// Segments.
    pub segments: usize,
    /// The smallest and the largest sample, in bytes.
    pub sizes: (u64, u64),
    /// The RFC 6962 tree over all samples.
    pub content_root: Digest,
    /// The RFC 6962 tree over all samples' attributes.
    pub attribute_root: Digest,
    /// Samples and bytes per class; `None` for those without one.
    pub classes: BTreeMap<Option<Box<[u8]>>, (u64, u64)>,
    /// Samples and bytes per split.
    pub splits: BTreeMap<Option<Box<[u8]>>, (u64, u64)>,
}

/// Counts what a pack holds. Reads its index and attributes; no payload.
///
/// # Errors
///
/// Fails where there is no pack, or a file of its index or attributes is missing or damaged.
pub fn stat(path: impl AsRef<Path>) -> Result<Stat> {
    let pack = Pack::open(path)?;
    let manifest = pack.manifest();
    let mut stat = Stat {
        version: pack.version(),
        container: pack.container().name(),
        samples: manifest.samples(),
        bytes: manifest.bytes(),
        stored: 0,
        segments: manifest.segments.len(),
        sizes: (u64::MAX, 0),
        content_root: Digest::of(b""),
        attribute_root: Digest::of(b""),
        classes: BTreeMap::new(),
        splits: BTreeMap::new(),
    };
    let (mut content, mut labels) = (TreeHasher::new(), TreeHasher::new());
    for segment in &manifest.segments {
        let file = pack.path().join(pack.container().find(pack.path(), segment.content)?);
        stat.stored += fs::metadata(&file).map_err(Error::io("read", &file))?.len();
        let index_file = pack.path().join(index_path(segment.content));
        let columns_file = pack.path().join(attributes_path(segment.attributes));
        let index = read_table(&index_file).map_err(Error::io("read", &index_file))?;
        let columns = read_table(&columns_file).map_err(Error::io("read", &columns_file))?;
        let index = IndexView::new(&index).map_err(|what| what.at(&index_file))?;
        let columns = AttributesView::new(&columns).map_err(|what| what.at(&columns_file))?;
        for i in 0..index.len() {
            let row = index.row(i).map_err(|what| what.at(&index_file))?;
            let fields: Result<Vec<_>, _> = index.fields(row).collect();
            let fields = fields.map_err(|what| what.at(&index_file))?;
            let pairs = attributes(&columns, i).map_err(|what| what.at(&columns_file))?;
            let bytes: u64 = fields.iter().map(|field| field.size).sum();
            content.push(sample_leaf(row.key, fields.into_iter()));
            let (names, values): (Vec<String>, Vec<Value>) = pairs.into_iter().unzip();
            let pairs = packhorse_core::Attributes { names: &names, values: &values };
            labels.push(attribute_leaf(row.key, pairs));
            for (name, counts) in [("class", &mut stat.classes), ("split", &mut stat.splits)] {
                if manifest.attributes.iter().any(|known| known == name) {
                    let value = pairs.get(name).and_then(Value::as_string).map(Into::into);
                    let count = counts.entry(value).or_insert((0, 0));
                    *count = (count.0 + 1, count.1 + bytes);
                }
            }
            stat.sizes = (stat.sizes.0.min(bytes), stat.sizes.1.max(bytes));
        }
    }
    stat.content_root = content.root();
    stat.attribute_root = labels.root();
    Ok(stat)
}
