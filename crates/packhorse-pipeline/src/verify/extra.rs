use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use packhorse_core::ExtentTable;
use packhorse_manifest::{MANIFEST, Manifest, attributes_path, index_path};
use packhorse_reader::{ContainerKind, EXTENTS, Pack, stream_folder};

use super::{Fault, FaultKind, Faults};
use crate::error::{Error, Result};
use crate::segment::read_table;

/// Finds files that neither the manifest nor an earlier version of it knows; returns whether there are earlier versions.
pub(crate) fn extra_files(pack: &Pack, faults: &mut Faults) -> Result<bool> {
    let root = pack.path();
    let mut known: HashSet<PathBuf> = HashSet::new();
    know(pack, pack.manifest(), &mut known);
    let history = list(&root.join("history"))?;
    for path in &history {
        let text = read_table(path).map_err(Error::io("read", path))?;
        let named = path
            .file_stem()
            .is_some_and(|stem| stem.to_string_lossy() == Manifest::version(&text).to_string());
        match Manifest::parse(&text, path) {
            Ok(manifest) if named => know(pack, &manifest, &mut known),
            _ => faults.add(Fault {
                kind: FaultKind::Manifest,
                path: Some(path.clone()),
                key: None,
                offset: None,
                what: "an earlier version that is damaged: its name is not the SHA-256 of its bytes".into(),
            }),
        }
    }
    let container = pack.container().name();
    for folder in ["index", "attrs", container] {
        for inner in list(&root.join(folder))? {
            for path in if inner.is_dir() { list(&inner)? } else { vec![inner] } {
                if path.strip_prefix(root).is_ok_and(|path| !known.contains(path)) {
                    faults.add(extra(path));
                }
            }
        }
    }
    let lock = format!("{container}.sha256");
    let top = [MANIFEST, &lock, "index", "attrs", container, "history", "changes", "derived"];
    for path in list(root)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Git's own files and the like are not the pack's.
        if !top.contains(&&*name) && !name.starts_with('.') {
            faults.add(extra(path.clone()));
        }
    }
    Ok(!history.is_empty())
}

fn know(pack: &Pack, manifest: &Manifest, known: &mut HashSet<PathBuf>) {
    for segment in &manifest.segments {
        known.insert(index_path(segment.content));
        known.insert(attributes_path(segment.attributes));
        if let ContainerKind::Segments(container) = pack.container() {
            known.extend(container.find(pack.path(), segment.content));
        }
    }
    if !matches!(pack.container(), ContainerKind::Segments(_)) {
        let folder = stream_folder(pack.container().name(), Manifest::version(manifest.text().as_bytes()));
        known.insert(folder.join(EXTENTS));
        // What an earlier version's files are called is in its own table.
        let table = read_table(&pack.path().join(folder.join(EXTENTS))).unwrap_or_default();
        let files = ExtentTable::new(&table).and_then(|table| table.files()).unwrap_or_default();
        known.extend(files.into_iter().map(|file| folder.join(file.name)));
    }
}

fn extra(path: PathBuf) -> Fault {
    let what = "the manifest does not know this file".to_owned();
    Fault { kind: FaultKind::ExtraFile, path: Some(path), key: None, offset: None, what }
}

/// Lists a folder in order; a folder that is not there is empty.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    match fs::read_dir(folder) {
        Ok(entries) => {
            for entry in entries {
                paths.push(entry.map_err(Error::io("list", folder))?.path());
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io("list", folder)(error)),
    }
    paths.sort();
    Ok(paths)
}
