use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use packhorse_core::{Digest, Key, KeyRef, Order, Value};
use packhorse_manifest::{AttributesView, MANIFEST, Manifest, attributes_path, index_path};

use crate::map::Map;
use crate::plain::{PlainSegment, Tables};
use crate::segment::{Sample, Segment};
use crate::stream::{StreamFiles, stream_folder};
use crate::{CONTAINERS, ContainerKind, Error, Result};

/// The longest manifest that is read, in bytes.
pub const MAX_MANIFEST: u64 = 1 << 30;

/// An open pack.
///
/// Shared by reference between threads; usable in a process that was forked after it was opened.
pub struct Pack {
    path: PathBuf,
    manifest: Manifest,
    text: Vec<u8>,
    container: ContainerKind,
    /// The number of samples before each segment, and of all.
    starts: Vec<u64>,
    segments: Vec<OnceLock<Segment>>,
    stream: OnceLock<Arc<StreamFiles>>,
    attributes: Vec<OnceLock<Map>>,
    class_numbers: OnceLock<HashMap<Box<[u8]>, u32>>,
}

impl Pack {
    /// Opens a pack. Reads its manifest and nothing else.
    ///
    /// # Errors
    ///
    /// Fails where there is no pack, or its manifest is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let text = read_manifest(&path)?;
        let manifest = Manifest::parse(&text, &path.join(MANIFEST))?;
        let container = CONTAINERS.iter().copied().find(|container| path.join(container.name()).is_dir());
        let Some(container) = container else {
            let names: Vec<_> = CONTAINERS.iter().map(|container| container.name()).collect();
            let what = format!("it has a manifest, but no folder {}", names.join(" or "));
            return Err(Error::NotAPack { path, what });
        };
        let mut starts = vec![0];
        for segment in &manifest.segments {
            starts.push(starts[starts.len() - 1] + segment.samples);
        }
        let count = manifest.segments.len();
        Ok(Self {
            path,
            manifest,
            text,
            container,
            starts,
            segments: (0..count).map(|_| OnceLock::new()).collect(),
            stream: OnceLock::new(),
            attributes: (0..count).map(|_| OnceLock::new()).collect(),
            class_numbers: OnceLock::new(),
        })
    }

    /// Returns the number of samples.
    pub fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Returns false: a pack has at least one sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pack's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the version id: the SHA-256 of the manifest's bytes.
    pub fn version(&self) -> Digest {
        Manifest::version(&self.text)
    }

    /// Returns the manifest's bytes.
    pub fn manifest_text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the container that holds the payloads.
    pub fn container(&self) -> ContainerKind {
        self.container
    }

    /// Returns the files of a container whose files have an order of their own; `None` for one with a file for each segment.
    ///
    /// # Errors
    ///
    /// Fails where the extent table is missing or damaged.
    pub fn stream(&self) -> Result<Option<&Arc<StreamFiles>>> {
        if let ContainerKind::Segments(_) = self.container {
            return Ok(None);
        }
        if let Some(files) = self.stream.get() {
            return Ok(Some(files));
        }
        let files = Arc::new(StreamFiles::open(&self.path, self.container.name(), self.version())?);
        Ok(Some(self.stream.get_or_init(|| files)))
    }

    /// Returns the container files of this version, relative to the pack.
    ///
    /// # Errors
    ///
    /// Fails where one is missing, or an extent table is damaged.
    pub fn container_files(&self) -> Result<Vec<PathBuf>> {
        match self.container {
            ContainerKind::Segments(container) => {
                let lines = self.manifest.segments.iter();
                lines.map(|line| Ok(container.find(&self.path, line.content)?)).collect()
            }
            container => {
                let Some(files) = self.stream()? else { return Ok(Vec::new()) };
                let folder = match files.order()? {
                    Order::Found => PathBuf::new(),
                    _ => stream_folder(container.name(), self.version()),
                };
                Ok(files.files().iter().map(|file| folder.join(&file.name)).collect())
            }
        }
    }

    /// Returns segment `s`, mapping it when first asked for.
    ///
    /// # Errors
    ///
    /// Fails where there is no such segment, or its file is missing or damaged.
    #[inline]
    pub fn segment(&self, s: usize) -> Result<&Segment> {
        let cell = self
            .segments
            .get(s)
            .ok_or(Error::OutOfRange { index: s as u64, len: self.segments.len() as u64 })?;
        match cell.get() {
            Some(segment) => Ok(segment),
            None => self.map_segment(s, cell),
        }
    }

    #[cold]
    fn map_segment<'p>(&'p self, s: usize, cell: &'p OnceLock<Segment>) -> Result<&'p Segment> {
        let content = self.line(s)?.content;
        let segment = match (self.container, self.stream()?) {
            (ContainerKind::Segments(container), _) => {
                Segment::open(container, self.path.join(container.find(&self.path, content)?), content)?
            }
            (_, Some(files)) => {
                Segment::in_stream(files.clone(), s as u64, self.path.join(index_path(content)), content)?
            }
            (_, None) => return Err(self.out_of_range(s)),
        };
        Ok(cell.get_or_init(|| segment))
    }

    /// Opens the files of segment `s` for plain reads, and reads its tables.
    ///
    /// # Errors
    ///
    /// Fails where there is no such segment, or a file is missing or damaged.
    pub fn tables(&self, s: usize) -> Result<Tables> {
        let content = self.line(s)?.content;
        match (self.container, self.stream()?) {
            (ContainerKind::Segments(container), _) => {
                let path = self.path.join(container.find(&self.path, content)?);
                PlainSegment::open(container, path, content)?.tables()
            }
            (_, Some(files)) => {
                Tables::in_stream(files.clone(), s as u64, self.path.join(index_path(content)), content)
            }
            (_, None) => Err(self.out_of_range(s)),
        }
    }

    fn line(&self, s: usize) -> Result<&packhorse_manifest::Segment> {
        self.manifest.segments.get(s).ok_or_else(|| self.out_of_range(s))
    }

    fn out_of_range(&self, s: usize) -> Error {
        Error::OutOfRange { index: s as u64, len: self.manifest.segments.len() as u64 }
    }

    /// Returns the segment that has this key if any has, by the first keys in the manifest.
    pub fn segment_of(&self, key: KeyRef<'_>) -> Option<usize> {
        self.manifest.segments.partition_point(|segment| segment.first_key.as_ref() <= key).checked_sub(1)
    }

    /// Returns the segment of sample `i` and the sample's number in it.
    fn place(&self, i: u64) -> Result<(usize, u64)> {
        if i >= self.len() {
            return Err(Error::OutOfRange { index: i, len: self.len() });
        }
        let s = self.starts.partition_point(|start| *start <= i) - 1;
        Ok((s, i - self.starts[s]))
    }

    /// Returns sample `i` in key order. Touches no byte of its payload.
    ///
    /// # Errors
    ///
    /// Fails where there is no such sample, or its container file is missing or damaged.
    #[inline]
    pub fn get(&self, i: u64) -> Result<Sample<'_>> {
        let (s, i) = self.place(i)?;
        self.segment(s)?.get(i)
    }

    /// Returns the number of the sample with this key, found by binary search.
    ///
    /// # Errors
    ///
    /// Fails where a container file is missing or damaged.
    pub fn position(&self, key: KeyRef<'_>) -> Result<Option<u64>> {
        let Some(s) = self.segment_of(key) else { return Ok(None) };
        let segment = self.segment(s)?;
        let found = segment.index()?.find(key);
        let found = found.map_err(|what| what.at(&self.path.join(self.container.name())))?;
        Ok(found.map(|i| self.starts[s] + i))
    }

    /// Returns the sample with this key, given as its bytes.
    ///
    /// # Errors
    ///
    /// Fails where a container file is missing or damaged.
    pub fn get_key(&self, key: impl AsRef<[u8]>) -> Result<Option<Sample<'_>>> {
        let Ok(key) = KeyRef::new(key.as_ref()) else { return Ok(None) };
        self.position(key)?.map(|i| self.get(i)).transpose()
    }

    /// Returns all samples in key order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { pack: self, next: 0 }
    }

    /// Returns the attributes of sample `i` that are not null, in byte order of names.
    ///
    /// # Errors
    ///
    /// Fails where there is no such sample, or its file of attributes is missing or damaged.
    pub fn attributes(&self, i: u64) -> Result<Vec<(String, Value)>> {
        let (s, i) = self.place(i)?;
        let digest = self.manifest.segments[s].attributes;
        let cell = &self.attributes[s];
        let map = match cell.get() {
            Some(map) => map,
            None => {
                let map = Map::open(self.path.join(attributes_path(digest)))?;
                cell.get_or_init(|| map)
            }
        };
        let found = AttributesView::new(map).and_then(|view| {
            let pairs = view.names().map(|name| Ok((name.to_owned(), view.get(name, i)?)));
            pairs.collect::<Result<Vec<_>, _>>()
        });
        let mut found = found.map_err(|what| what.at(map.path()))?;
        found.retain(|(_, value)| *value != Value::Null);
        Ok(found)
    }

    /// Returns the class index of sample `i`, or `None` where it has no class.
    ///
    /// # Errors
    ///
    /// As [`Pack::attributes`].
    pub fn label(&self, i: u64) -> Result<Option<u32>> {
        let attributes = self.attributes(i)?;
        let class = attributes.iter().find(|(name, _)| name == "class");
        let numbers = self.class_numbers.get_or_init(|| {
            self.manifest.classes.iter().map(|(number, class)| (class.clone(), *number)).collect()
        });
        Ok(class.and_then(|(_, value)| numbers.get(value.as_string()?).copied()))
    }

    /// Returns the key of sample `i`.
    ///
    /// # Errors
    ///
    /// As [`Pack::get`].
    pub fn key(&self, i: u64) -> Result<Key> {
        Ok(self.get(i)?.key()?.to_key())
    }
}

/// Reads the manifest of a pack.
///
/// # Errors
///
/// Fails where it cannot be read; where there is none, says what the folder is instead.
pub fn read_manifest(pack: &Path) -> Result<Vec<u8>> {
    let path = pack.join(MANIFEST);
    let not_a_pack = |what: &str| Error::NotAPack { path: pack.to_owned(), what: what.to_owned() };
    let text = match packhorse_core::read_regular(&path, MAX_MANIFEST) {
        Ok(text) => text,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Err(match fs::metadata(pack) {
                Err(_) => not_a_pack("there is no such folder"),
                Ok(found) if !found.is_dir() => not_a_pack("it is a file; a pack is a folder"),
                Ok(_) if pack.join("derived/journal").exists() => {
                    not_a_pack("packing it was interrupted; run the same `packhorse pack` again to finish it")
                }
                Ok(_) if CONTAINERS.iter().any(|container| pack.join(container.name()).is_dir()) => {
                    not_a_pack("its manifest is lost; `packhorse repair PACK --source SRC` makes it again")
                }
                Ok(_) => not_a_pack("it has no dataset.phm"),
            });
        }
        Err(error) => return Err(packhorse_core::Error::io("read", &path)(error).into()),
    };
    Ok(text)
}

impl std::fmt::Debug for Pack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pack").field("path", &self.path).field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<'p> IntoIterator for &'p Pack {
    type Item = Result<Sample<'p>>;
    type IntoIter = Iter<'p>;

    fn into_iter(self) -> Iter<'p> {
        self.iter()
    }
}

/// The samples of a pack in key order.
#[derive(Debug)]
pub struct Iter<'p> {
    pack: &'p Pack,
    next: u64,
}

impl<'p> Iterator for Iter<'p> {
    type Item = Result<Sample<'p>>;

    fn next(&mut self) -> Option<Self::Item> {
        let i = self.next;
        (i < self.pack.len()).then(|| {
            self.next += 1;
            self.pack.get(i)
        })
    }
}
