use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use packhorse_core::{Digest, encode_text};
use packhorse_manifest::Manifest;
use packhorse_source::JsonObject;

use crate::error::{Error, Result};
use crate::segment::read_table;

/// The numbers of classes, by number.
pub type Classes = Vec<(u32, Box<[u8]>)>;

/// Returns the numbers by class.
pub(crate) fn by_name(classes: &Classes) -> HashMap<&[u8], u32> {
    classes.iter().map(|(number, class)| (&**class, *number)).collect()
}

/// Reads a file that numbers classes: a name a line, from 0 on; a JSON array of names; or a JSON object of names and
/// numbers, such as torchvision's `class_to_idx`.
///
/// # Errors
///
/// Fails where the file cannot be read or is none of these, and where a name or a number is there twice.
pub fn read_classes(path: &Path) -> Result<Classes> {
    let bytes = read_table(path).map_err(Error::io("read", path))?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let refused = |what: String| {
        let what = format!("{}: {what}", packhorse_core::path_text(path));
        Error::refused(what, "a class a line, or a JSON object of names and numbers")
    };
    let name = |name: String| name.into_bytes().into_boxed_slice();
    let mut classes: Classes = match bytes.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice::<JsonObject<u32>>(bytes)
            .map_err(|error| refused(error.to_string()))?
            .0
            .into_iter()
            .map(|(class, number)| (number, name(class)))
            .collect(),
        Some(b'[') => {
            let names: Vec<String> =
                serde_json::from_slice(bytes).map_err(|error| refused(error.to_string()))?;
            (0..).zip(names.into_iter().map(name)).collect()
        }
        _ => {
            let mut lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
            lines.pop_if(|last| last.is_empty());
            let plain = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).into();
            (0..).zip(lines.into_iter().map(plain)).collect()
        }
    };
    classes.sort();
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (number, class) in &classes {
        if class.is_empty() {
            return Err(refused(format!("class {number} has no name")));
        }
        if !names.insert(class) || !numbers.insert(number) {
            return Err(refused(format!(
                "class {} or its number {number} is there twice",
                encode_text(class, "")
            )));
        }
    }
    Ok(classes)
}

/// Numbers the classes of a pack: as they are pinned, or as the old version numbers them, and new ones after those.
pub(crate) fn number(
    old: Option<&Classes>,
    pinned: Option<&Classes>,
    found: &BTreeSet<Box<[u8]>>,
) -> Result<Classes> {
    let mut classes = old.cloned().unwrap_or_default();
    if let Some(pinned) = pinned {
        let moved = classes.iter().find(|known| !pinned.contains(known));
        if let Some((number, class)) = moved {
            let what =
                format!("the pack numbers class {} as {number}, --classes does not", encode_text(class, ""));
            return Err(Error::refused(
                what,
                "labels would change their meaning: make a new pack for other numbers",
            ));
        }
        let known: HashSet<_> = pinned.iter().map(|(_, class)| class).collect();
        let lacking: Vec<_> = found.iter().filter(|class| !known.contains(class)).collect();
        if !lacking.is_empty() {
            let names: Vec<_> = lacking.iter().take(10).map(|class| encode_text(class, "")).collect();
            let more = if lacking.len() > names.len() { ", ..." } else { "" };
            let what = format!(
                "--classes has no number for {} of the classes that have samples: {}{more}",
                lacking.len(),
                names.join(", ")
            );
            return Err(Error::refused(what, "add them to the file"));
        }
        return Ok(pinned.clone());
    }
    let known: BTreeSet<_> = classes.iter().map(|(_, name)| name.clone()).collect();
    let next = classes.last().map_or(0, |(index, _)| u64::from(*index) + 1);
    for (number, class) in (next..).zip(found.difference(&known)) {
        let Ok(number) = u32::try_from(number) else {
            let what = format!("class {} gets no number: the last one is taken", encode_text(class, ""));
            return Err(Error::refused(what, "make a new pack, whose classes have lower numbers"));
        };
        classes.push((number, class.clone()));
    }
    Ok(classes)
}

/// Says where classes that are named by numbers get others than their names say.
pub(crate) fn remark(old: Option<&Classes>, pinned: Option<&Classes>, classes: &Classes) -> Option<String> {
    let other = |(number, name): &&(u32, Box<[u8]>)| {
        let named = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
        named.is_some_and(|named| named != *number)
    };
    let (number, name) = classes.iter().find(other).filter(|_| old.is_none() && pinned.is_none())?;
    Some(format!(
        "classes are numbered in byte order of their names: the class {} has the number {number}; --classes FILE, in a new \
         pack, gives others",
        encode_text(name, "")
    ))
}

/// Finds the manifest that was published, where digests of such are known: of those that `make` makes with the class numbers of a
/// first pack, and of the versions in `history/`. The pinned numbers, if any, must be kept by all.
pub(crate) fn as_published(
    published: &[Digest],
    versions: &[Manifest],
    pinned: Option<&Classes>,
    found: &BTreeSet<Box<[u8]>>,
    make: impl Fn(Option<&Manifest>, Classes) -> Manifest,
) -> Option<Manifest> {
    let first = std::iter::once(None);
    first.chain(versions.iter().map(Some)).find_map(|old| {
        let classes = number(old.map(|old| &old.classes), pinned, found).ok()?;
        let made = make(old, classes);
        let version = Manifest::version(made.text().as_bytes());
        (published.is_empty() || published.contains(&version)).then_some(made)
    })
}
