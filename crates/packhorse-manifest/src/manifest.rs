use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use packhorse_core::{
    Attributes, Digest, Key, KeyRef, TreeHasher, Value, check_attribute_name, decode_text, encode_text,
};

use crate::CutRule;

/// The most segments of one manifest.
pub const MAX_SEGMENTS: usize = 8192;

const FIRST: &str = "packhorse-manifest 1";

/// What a pack holds: the content of `dataset.phm`.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Where segments end.
    pub cut: CutRule,
    /// Whether each sample has a line.
    pub detail: Detail,
    /// Names of the attributes that samples may have, in byte order.
    pub attributes: Vec<String>,
    /// Lines that this version does not know, kept as they are.
    pub other: Vec<String>,
    /// Class indices and names, by index.
    pub classes: Vec<(u32, Box<[u8]>)>,
    /// The segments, in key order.
    pub segments: Vec<Segment>,
}

/// How much of a pack its manifest spells out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A line for each segment.
    Segments,
    /// A line for each sample as well, so that a plain text diff is the exact diff.
    Samples,
}

/// A segment's line.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The content digest.
    pub content: Digest,
    /// The attribute digest.
    pub attributes: Digest,
    /// The number of samples.
    pub samples: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// The first key.
    pub first_key: Key,
    /// The samples' lines, with [`Detail::Samples`].
    pub lines: Vec<SampleLine>,
}

/// A sample's line.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleLine {
    /// The sample's leaf.
    pub leaf: Digest,
    /// Bytes of payload.
    pub bytes: u64,
    /// The attributes, by name.
    pub attributes: Vec<(String, Value)>,
    /// The key.
    pub key: Key,
}

/// A line of a manifest that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: line {line}: {what}", packhorse_core::path_text(path))]
#[non_exhaustive]
pub struct ManifestError {
    /// The file.
    pub path: PathBuf,
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Manifest {
    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.segments.iter().map(|segment| segment.samples).sum()
    }

    /// Returns the bytes of all payloads.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Returns the class index of a name.
    pub fn class_index(&self, name: &[u8]) -> Option<u32> {
        self.classes.iter().find_map(|(index, class)| (**class == *name).then_some(*index))
    }

    /// Returns the version id of the manifest with this text.
    pub fn version(text: &[u8]) -> Digest {
        Digest::of(text)
    }

    /// Returns the file's text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let CutRule { min, spread, max } = self.cut;
        let detail = match self.detail {
            Detail::Segments => "segments",
            Detail::Samples => "samples",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{FIRST}\nhash sha256\norder key");
        let _ = writeln!(out, "cut keyhash min={min} spread={spread} max={max}\ndetail {detail}");
        out.push_str("attrs");
        self.attributes.iter().for_each(|name| out.extend([" ", name]));
        out.push('\n');
        self.other.iter().for_each(|line| out.extend([line, "\n"]));
        for (index, name) in &self.classes {
            let _ = writeln!(out, "class {index} {}", encode_text(name, ""));
        }
        for segment in &self.segments {
            let Segment { content, attributes, samples, bytes, first_key, lines } = segment;
            let _ = writeln!(out, "seg {content} {attributes} {samples} {bytes} {first_key}");
            for SampleLine { leaf, bytes, attributes, key } in lines {
                let (names, values): (Vec<_>, Vec<_>) = attributes.iter().cloned().unzip();
                let attributes = Attributes { names: &names, values: &values };
                let _ = writeln!(out, "sample {leaf} {bytes} {attributes} {key}");
            }
        }
        out
    }

    /// Reads a manifest. Checks all that one file can tell: the grammar, the order of keys, classes and segments, and
    /// with [`Detail::Samples`] each segment's digest, count and size against its lines.
    ///
    /// # Errors
    ///
    /// Names the first line that is wrong; `path` is for the message.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, ManifestError> {
        let mut parser = Parser { line: 0 };
        parser.manifest(text).map_err(|what| ManifestError { path: path.to_owned(), line: parser.line, what })
    }
}

struct Parser {
    line: usize,
}

impl Parser {
    fn manifest(&mut self, text: &[u8]) -> Result<Manifest, String> {
        let text = std::str::from_utf8(text).map_err(|error| {
            self.line = 1 + text[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
            "not UTF-8".to_owned()
        })?;
        let mut lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
            Some(line) if line.ends_with('\r') => {
                Err("ends with CR LF; the file was changed in transit".to_owned())
            }
            Some(line) => Ok(line),
            None => Err("the file is cut: the last line has no end".to_owned()),
        });
        let mut next = |parser: &mut Self| {
            parser.line += 1;
            lines.next().transpose()
        };
        for fixed in [FIRST, "hash sha256", "order key"] {
            match next(self)? {
                Some(line) if line == fixed => {}
                Some(line) if fixed == FIRST && line.starts_with("packhorse-manifest ") => {
                    return Err(format!("`{}` is newer: use a newer packhorse", line.escape_debug()));
                }
                Some(line) => return Err(format!("expected `{fixed}`, found `{}`", line.escape_debug())),
                None => return Err(format!("expected `{fixed}`, but the file ends")),
            }
        }
        let cut = next(self)?
            .and_then(cut_rule)
            .ok_or("expected `cut keyhash min=N spread=N max=N` with the numbers of one size")?;
        let detail = match next(self)? {
            Some("detail segments") => Detail::Segments,
            Some("detail samples") => Detail::Samples,
            _ => return Err("expected `detail segments` or `detail samples`".into()),
        };
        let attributes = next(self)?.and_then(attribute_names).ok_or("expected `attrs NAME...`, sorted")?;
        let mut manifest = Manifest {
            cut,
            detail,
            attributes,
            other: Vec::new(),
            classes: Vec::new(),
            segments: Vec::new(),
        };
        while let Some(line) = next(self)? {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            match word {
                "class" => manifest.class(rest)?,
                "seg" => {
                    manifest.check_last_segment()?;
                    manifest.segment(rest)?;
                }
                "sample" => manifest.sample(rest)?,
                "need" => {
                    return Err(format!("this pack needs `{}`: use a newer packhorse", rest.escape_debug()));
                }
                "" => return Err("a blank line".into()),
                _ if word.starts_with(['<', '=', '>', '|']) => {
                    return Err("a mark of an unfinished merge".into());
                }
                _ if !plain(line) || KNOWN.contains(&word) => {
                    return Err(format!("`{}` is out of place", line.escape_debug()));
                }
                _ if manifest.classes.is_empty() && manifest.segments.is_empty() => {
                    manifest.other.push(line.to_owned());
                }
                _ => return Err(format!("unknown line `{}`", line.escape_debug())),
            }
        }
        self.line = self.line.saturating_sub(1);
        manifest.check_last_segment()?;
        if manifest.segments.is_empty() {
            return Err("no segment".into());
        }
        Ok(manifest)
    }
}

impl Manifest {
    fn class(&mut self, rest: &str) -> Result<(), String> {
        if !self.segments.is_empty() {
            return Err("a class line after a segment".into());
        }
        let (index, name) = rest.split_once(' ').ok_or("expected `class INDEX NAME`")?;
        let index = number(index).and_then(|n| u32::try_from(n).ok()).ok_or("expected `class INDEX NAME`")?;
        let name = decode_text(name, "").ok_or("the class name has a wrong percent escape")?;
        if self.classes.last().is_some_and(|(last, _)| *last >= index) {
            return Err(format!("class {index} is out of order, or doubled"));
        }
        // Names are checked for doubles once, at the first segment.
        self.classes.push((index, name.into()));
        Ok(())
    }

    fn segment(&mut self, rest: &str) -> Result<(), String> {
        if self.segments.is_empty() {
            let mut names: Vec<_> = self.classes.iter().map(|(_, name)| name).collect();
            names.sort();
            if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(format!("class {} has two indices", encode_text(twice[0], "")));
            }
        }
        let words: Vec<_> = rest.splitn(5, ' ').collect();
        let parsed = (|| {
            let [content, attributes, samples, bytes, key] = words.as_slice() else { return None };
            Some((content.parse().ok()?, attributes.parse().ok()?, number(samples)?, number(bytes)?, *key))
        })();
        let (content, attributes, samples, bytes, key) =
            parsed.ok_or("expected `seg DIGEST DIGEST SAMPLES BYTES KEY`")?;
        let segment =
            Segment { content, attributes, samples, bytes, first_key: key_of(key)?, lines: Vec::new() };
        if !(1..=packhorse_core::MAX_SAMPLES).contains(&segment.samples) {
            return Err(format!("{} samples in a segment", segment.samples));
        }
        if self.last_key().is_some_and(|last| last >= segment.first_key.as_ref()) {
            return Err(format!("segment {} is out of order", segment.first_key));
        }
        if self.segments.len() == MAX_SEGMENTS {
            return Err(format!("more than {MAX_SEGMENTS} segments"));
        }
        let total =
            self.segments.iter().try_fold(segment.bytes, |sum, segment| sum.checked_add(segment.bytes));
        if total.is_none() {
            return Err("the sizes overflow".into());
        }
        self.segments.push(segment);
        Ok(())
    }

    fn last_key(&self) -> Option<KeyRef<'_>> {
        let segment = self.segments.last()?;
        Some(segment.lines.last().map_or(&segment.first_key, |line| &line.key).as_ref())
    }

    fn sample(&mut self, rest: &str) -> Result<(), String> {
        if self.detail == Detail::Segments {
            return Err("a sample line, although `detail segments`".into());
        }
        let words: Vec<_> = rest.splitn(4, ' ').collect();
        let parsed = (|| {
            let [leaf, bytes, attributes, key] = words.as_slice() else { return None };
            Some((leaf.parse().ok()?, number(bytes)?, Attributes::from_text(attributes)?, *key))
        })();
        let (leaf, bytes, attributes, key) = parsed.ok_or("expected `sample DIGEST BYTES ATTRIBUTES KEY`")?;
        let line = SampleLine { leaf, bytes, attributes, key: key_of(key)? };
        if let Some((name, _)) = line.attributes.iter().find(|(name, _)| !self.attributes.contains(name)) {
            return Err(format!("attribute {name} is not in the attrs line"));
        }
        let segment = self.segments.last_mut().ok_or("a sample line before the first segment")?;
        let in_order = match segment.lines.last() {
            None => segment.first_key == line.key,
            Some(last) => last.key < line.key,
        };
        if !in_order {
            return Err(format!("sample {} is out of order, or doubled", line.key));
        }
        segment.lines.push(line);
        Ok(())
    }

    fn check_last_segment(&self) -> Result<(), String> {
        let Some(segment) = self.segments.last() else { return Ok(()) };
        if self.detail == Detail::Segments {
            return Ok(());
        }
        let mut tree = TreeHasher::new();
        segment.lines.iter().for_each(|line| tree.push(line.leaf));
        let bytes = segment.lines.iter().try_fold(0u64, |sum, line| sum.checked_add(line.bytes));
        if segment.lines.len() as u64 != segment.samples
            || bytes != Some(segment.bytes)
            || tree.root() != segment.content
        {
            return Err(format!("the samples of segment {} do not give its digest", segment.first_key));
        }
        Ok(())
    }
}

fn key_of(text: &str) -> Result<Key, String> {
    Key::from_text(text).map_err(|error| format!("key {}: {error}", text.escape_debug()))
}

/// Words that have one place, or are kept for later.
const KNOWN: [&str; 7] = ["packhorse-manifest", "hash", "order", "cut", "detail", "attrs", "part"];

/// Returns whether a line has single spaces between its words and no control characters.
fn plain(line: &str) -> bool {
    line.split(' ').all(|word| !word.is_empty()) && !line.contains(|c: char| c.is_ascii_control())
}

/// A decimal number without sign and leading zeros.
fn number(text: &str) -> Option<u64> {
    let plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| text.parse().ok()).flatten()
}

fn cut_rule(line: &str) -> Option<CutRule> {
    let words: Vec<_> = line.strip_prefix("cut keyhash ")?.split(' ').collect();
    let [min, spread, max] = words.as_slice() else { return None };
    let value = |word: &str, name: &str| number(word.strip_prefix(name)?.strip_prefix('=')?);
    let cut = CutRule { min: value(min, "min")?, spread: value(spread, "spread")?, max: value(max, "max")? };
    (CutRule::of_size(cut.max / 2) == Some(cut)).then_some(cut)
}

fn attribute_names(line: &str) -> Option<Vec<String>> {
    if line == "attrs" {
        return Some(Vec::new());
    }
    let names: Vec<_> = line.strip_prefix("attrs ")?.split(' ').map(str::to_owned).collect();
    let good =
        names.iter().all(|name| check_attribute_name(name).is_ok()) && names.is_sorted_by(|a, b| a < b);
    good.then_some(names)
}
