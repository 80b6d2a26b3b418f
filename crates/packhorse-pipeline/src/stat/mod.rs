//! What a pack holds, and what is wrong with it.

mod duplicates;
mod images;
mod sheet;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use packhorse_core::{
    Attributes, DATA, Digest, FieldRow, IndexView, Key, KeyRef, TreeHasher, Value, attribute_leaf,
    sample_leaf,
};
use packhorse_image::Format;
use packhorse_manifest::{AttributesView, Segment, attributes_path, index_path};
use packhorse_reader::Pack;

use self::duplicates::Finder;
pub use self::duplicates::{Copies, Duplicates};
pub use self::images::{Images, Unreadable};
pub use self::sheet::{Sheet, SheetImage};
use crate::error::{Error, Result};
use crate::progress::{Phase, Progress};
use crate::segment::{attributes, read_table};

/// The name of a class or split; `None` for samples without one.
pub type Label = Option<Box<[u8]>>;

/// How closely to look.
#[derive(Clone, Debug)]
pub struct StatOptions {
    /// What is read of each image.
    pub check: Check,
    /// Images of each class on the contact sheet; none where 0.
    pub sheet: usize,
    /// How many groups of duplicates and how many broken images are listed; all are counted.
    pub listed: usize,
    /// Threads that read images; `None` for the processors allowed.
    pub threads: Option<usize>,
}

impl Default for StatOptions {
    fn default() -> Self {
        Self { check: Check::None, sheet: 0, listed: 1000, threads: None }
    }
}

/// What is read of each image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Nothing: the index and the attributes say the rest.
    #[default]
    None,
    /// Its first and last bytes: format, size, colours, orientation, and whether it seems whole.
    Header,
    /// All of it: each image is decoded.
    Decode,
}

/// What a pack holds.
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
    /// Samples by size: the number of those of up to so many bytes, a power of two, and more than half as many.
    pub size_steps: BTreeMap<u64, u64>,
    /// The RFC 6962 tree over all samples.
    pub content_root: Digest,
    /// The RFC 6962 tree over all samples' attributes.
    pub attribute_root: Digest,
    /// Samples and bytes per class; `None` for those without one.
    pub classes: BTreeMap<Label, (u64, u64)>,
    /// The numbers of classes; some may have no sample.
    pub class_numbers: BTreeMap<Box<[u8]>, u32>,
    /// Samples and bytes per split.
    pub splits: BTreeMap<Label, (u64, u64)>,
    /// Samples with equal bytes.
    pub duplicates: Duplicates,
    /// What the images are, where they were looked at.
    pub images: Option<Images>,
    /// A few images of each class, where they were asked for.
    pub sheet: Option<Sheet>,
}

/// Says what a pack holds. Reads its index and attributes, and of the payload what the options ask for.
///
/// Memory is bounded, but for what is listed: duplicates are found by sorting on disk, in the folder for temporary files.
///
/// # Errors
///
/// Fails where there is no pack, or a file that is read is missing or damaged.
pub fn stat(path: impl AsRef<Path>, options: &StatOptions, progress: &dyn Progress) -> Result<Stat> {
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
        size_steps: BTreeMap::new(),
        content_root: Digest::of(b""),
        attribute_root: Digest::of(b""),
        classes: BTreeMap::new(),
        class_numbers: manifest.classes.iter().map(|(number, class)| (class.clone(), *number)).collect(),
        splits: BTreeMap::new(),
        duplicates: Duplicates::default(),
        images: None,
        sheet: None,
    };
    for file in pack.container_files()? {
        let file = pack.path().join(file);
        stat.stored += fs::metadata(&file).map_err(Error::io("read", &file))?.len();
    }
    progress.begin(Phase::Scan, Some(stat.samples), None);
    let (mut content, mut labels) = (TreeHasher::new(), TreeHasher::new());
    let mut finder = Finder::new()?;
    for segment in &manifest.segments {
        each_row(&pack, segment, &mut |row| {
            content.push(sample_leaf(row.key, row.fields.iter().copied()));
            labels.push(attribute_leaf(row.key, row.attributes));
            stat.count(&row, &manifest.attributes);
            finder.add(&row)
        })?;
        progress.advance(segment.samples, 0);
    }
    stat.content_root = content.root();
    stat.attribute_root = labels.root();
    stat.duplicates = finder.finish(&pack, options.listed)?;
    if options.check != Check::None {
        stat.images = Some(images::look(&pack, options, progress)?);
    }
    if options.sheet > 0 {
        stat.sheet = Some(sheet::make(&pack, &stat, options)?);
    }
    Ok(stat)
}

impl Stat {
    fn count(&mut self, row: &Row<'_>, attributes: &[String]) {
        let bytes: u64 = row.fields.iter().map(|field| field.size).sum();
        for (name, counts) in [("class", &mut self.classes), ("split", &mut self.splits)] {
            if attributes.iter().any(|known| known == name) {
                let count = counts.entry(row.string(name).map(Into::into)).or_insert((0, 0));
                *count = (count.0 + 1, count.1 + bytes);
            }
        }
        self.sizes = (self.sizes.0.min(bytes), self.sizes.1.max(bytes));
        *self.size_steps.entry(bytes.checked_next_power_of_two().unwrap_or(u64::MAX)).or_default() += 1;
    }
}

/// What index and attributes say of a sample.
struct Row<'a> {
    key: KeyRef<'a>,
    fields: &'a [FieldRow<'a>],
    attributes: Attributes<'a>,
}

impl Row<'_> {
    fn string(&self, name: &str) -> Option<&[u8]> {
        self.attributes.get(name).and_then(Value::as_string)
    }
}

/// Hands on the rows of a segment, in order.
fn each_row(pack: &Pack, segment: &Segment, take: &mut dyn FnMut(Row<'_>) -> Result<()>) -> Result<()> {
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
        let (names, values): (Vec<String>, Vec<Value>) = pairs.into_iter().unzip();
        take(Row {
            key: row.key,
            fields: &fields,
            attributes: Attributes { names: &names, values: &values },
        })?;
    }
    Ok(())
}

/// Returns the numbers of a sample's fields that are images by their names: the one field of a file always is.
fn image_fields<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = usize> {
    names.enumerate().filter_map(|(n, name)| {
        let extension = name.rsplit('.').next().unwrap_or(name);
        (name == DATA || Format::from_extension(extension.as_bytes()).is_some()).then_some(n)
    })
}

/// The name of a sample's file: its key, and the field where there are several.
fn file_name(key: &Key, field: &str) -> String {
    if field == DATA {
        key.to_string()
    } else {
        format!("{key}.{}", packhorse_core::encode_text(field.as_bytes(), ""))
    }
}
