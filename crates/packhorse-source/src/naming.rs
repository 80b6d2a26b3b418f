use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use packhorse_core::{DATA, Key, Value, check_field_name, encode_text};

use crate::{
    Blob, Entry, Error, HashSplit, KeyStyle, Labels, Payload, Report, Result, SourceOptions, Splits,
};

/// How a file's path, and what a list says of it, become a sample's key, field and attributes.
#[derive(Debug)]
pub(crate) struct Naming {
    /// The names of the attributes, in byte order.
    pub(crate) attributes: Vec<String>,
    class: From,
    split: From,
    hash: Option<(HashSplit, Option<usize>)>,
    key: KeyStyle,
    pub(crate) group: bool,
}

fn wrong<T>(what: String) -> Result<T> {
    Err(Error::Option(what))
}

/// The longest name that a file can be unpacked to.
const LONGEST_NAME: usize = 255;

/// Returns whether a part of a path is longer than a file's name can be.
pub(crate) fn has_long_name(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').any(|part| part.len() > LONGEST_NAME)
}

/// Where class or split come from, and their number among the attributes.
#[derive(Clone, Copy, Debug)]
enum From {
    Nowhere,
    Folder(usize),
    Row(usize),
}

impl Naming {
    /// `columns` are the attributes that a list gives, `class` and `split` among them where it has such columns.
    pub(crate) fn new(options: &SourceOptions, labels: Labels, columns: Vec<String>) -> Result<Self> {
        let mut attributes = columns.clone();
        let mut from = |name: &str, folder: bool, hash: bool| {
            let in_row = columns.iter().any(|column| column == name);
            if in_row && (folder || hash) {
                let from = if folder { "folders" } else { "hashes" };
                return wrong(format!(
                    "there is a column {name}, and {name} should come from {from} as well"
                ));
            }
            if folder || hash {
                attributes.push(name.to_owned());
            }
            Ok((in_row, folder))
        };
        let class = from("class", labels == Labels::Folder, false)?;
        let hash = match &options.splits {
            Some(Splits::Hash(hash)) => Some(hash.clone()),
            _ => None,
        };
        let split = from("split", options.splits == Some(Splits::Folder), hash.is_some())?;
        attributes.sort();
        let at = |name: &str| attributes.iter().position(|known| known == name);
        let place = |name: &str, (in_row, folder): (bool, bool)| match at(name) {
            Some(at) if folder => From::Folder(at),
            Some(at) if in_row => From::Row(at),
            _ => From::Nowhere,
        };
        let (class, split) = (place("class", class), place("split", split));
        let by = match &options.split_by {
            None => None,
            Some(_) if hash.is_none() => return wrong("--split-by goes with --split hash:SHARE".into()),
            Some(name) => match at(name).filter(|_| name != "split") {
                None => {
                    return wrong(format!(
                        "--split-by {name}: there is no such attribute, only {}",
                        attributes.join(", ")
                    ));
                }
                by => by,
            },
        };
        if !options.require.is_empty() && !options.group {
            return wrong("--require goes with --group".into());
        }
        for name in &options.require {
            check_field_name(name).map_err(|rule| Error::Option(format!("--require {name:?}: {rule}")))?;
            if name.starts_with('.') {
                return wrong(format!("--require {name}: without the dot, as fields are named"));
            }
        }
        let hash = hash.map(|hash| (hash, by));
        Ok(Self { attributes, class, split, hash, key: options.key, group: options.group })
    }

    /// Returns whether keys are in the order of paths.
    pub(crate) fn keeps_order(&self) -> bool {
        self.key == KeyStyle::Path && !self.group
    }

    /// Makes an entry of a file at `path`. `values` has a place for each attribute; those that a list gives are filled in.
    ///
    /// # Errors
    ///
    /// Says why this path cannot be a sample's.
    pub(crate) fn entry(
        &self,
        path: Vec<u8>,
        mut values: Vec<Value>,
        mut blob: Blob,
    ) -> Result<Entry, String> {
        let mut rest = &path[..];
        let mut folder = |from: From| {
            let From::Folder(at) = from else { return };
            if let Some(slash) = rest.iter().position(|&b| b == b'/') {
                values[at] = Value::string(&rest[..slash]);
                rest = &rest[slash + 1..];
            }
        };
        folder(self.split);
        folder(self.class);
        let start = if self.key == KeyStyle::Name { path.len() - rest.len() } else { 0 };
        let (end, field) = if self.group { field(&path, start)? } else { (path.len(), None) };
        if let Some((hash, by)) = &self.hash {
            let part = match by {
                None => Some(hash.part(&path[start..end])),
                Some(by) => hash.part_of_value(&values[*by]),
            };
            let by = by.map_or("", |by| &self.attributes[by]);
            let part = part.ok_or_else(|| format!("has no {by}, by which its split is drawn"))?;
            if let Some(at) = self.attributes.iter().position(|name| name == "split") {
                values[at] = Value::string(part);
            }
        }
        let (key, payload) = if (start, end) == (0, path.len()) && !self.group {
            (Key::new(path), Payload::File(blob))
        } else {
            let key = Key::new(&path[start..end]);
            let field = field.map_or(DATA.into(), Box::from);
            blob.locator = Some(path.clone().into());
            (key, if self.group { Payload::Fields(vec![(field, blob)]) } else { Payload::File(blob) })
        };
        Ok(Entry { key: key.map_err(|error| error.to_string())?, payload, values })
    }

    /// Counts a sample without the class or split that was asked for.
    pub(crate) fn note(&self, entry: &Entry, report: &mut Report) {
        let Some(file) = entry.files().next() else { return };
        let lacks = |from: From| match from {
            From::Nowhere => false,
            From::Folder(at) | From::Row(at) => entry.values[at] == Value::Null,
        };
        if lacks(self.class) {
            report.unlabelled.add(OsStr::from_bytes(file.locator));
        }
        if lacks(self.split) {
            report.unsplit.add(OsStr::from_bytes(file.locator));
        }
        if let From::Folder(at) = self.class {
            let folders = if matches!(self.split, From::Folder(_)) { 2 } else { 1 };
            report.top.see(entry.values[at].as_string(), file.locator, folders);
        }
    }

    /// Says where one folder around all the others was taken for the class. `take_off` says how it is not.
    pub(crate) fn finish(&self, report: &mut Report, take_off: &str) {
        let top = std::mem::take(&mut report.top);
        if let Top { class: Some(class), several: false, deep: true } = top {
            report.remarks.push(format!(
                "all samples have the class {}, and some lie in folders below it: {take_off} (into a new pack: this one keeps the \
                 class)",
                encode_text(&class, "")
            ));
        }
    }
}

/// The folder that all samples lie in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Top {
    class: Option<Box<[u8]>>,
    several: bool,
    /// Whether some lie in folders below it.
    deep: bool,
}

impl Top {
    /// Looks at the class of a file and the path that it came from, whose first `folders` are split and class.
    fn see(&mut self, class: Option<&[u8]>, path: &[u8], folders: usize) {
        if self.several {
            return;
        }
        self.deep |= path.iter().filter(|&&b| b == b'/').count() > folders;
        match (&self.class, class) {
            (None, Some(class)) => self.class = Some(class.into()),
            (Some(known), Some(class)) if **known == *class => {}
            _ => self.several = true,
        }
    }
}

/// Splits a path, from `start` on, at the first dot of the file name that does not begin it: where the key ends, and the
/// name of the field; a file without an extension is its key's one field.
fn field(path: &[u8], start: usize) -> Result<(usize, Option<&str>), String> {
    let name = path.iter().rposition(|&b| b == b'/').map_or(start, |slash| slash + 1);
    let dots = path[name..].iter().take_while(|&&b| b == b'.').count();
    let dot = path[name + dots..].iter().position(|&b| b == b'.').map(|dot| name + dots + dot);
    let Some(dot) = dot.filter(|dot| dot + 1 < path.len()) else { return Ok((path.len(), None)) };
    let field = std::str::from_utf8(&path[dot + 1..]).map_err(|_| "the extension is not UTF-8".to_owned())?;
    check_field_name(field).map_err(|rule| format!("the extension cannot name a field: {rule}"))?;
    if field == DATA {
        return Err("the extension `data` is the name of a field that files without an extension have".into());
    }
    Ok((dot, Some(field)))
}
