use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use packhorse_core::{Digest, IndexView, KeyGuard, Malformed, encode_text};
use packhorse_manifest::{AttributesView, Cutter, Manifest, attributes_path, index_path};

use super::{Fault, FaultKind, Faults};
use crate::error::{Error, Result};
use crate::segment::{field_names, key_and_size, keys, manifest_of, read_table, segment};

/// What checking a manifest against index and attributes found.
#[derive(Debug)]
pub struct ManifestCheck {
    /// The version id.
    pub version: Digest,
    /// What is wrong.
    pub faults: Faults,
}

/// Checks a manifest: its grammar and order, and each segment's line against the index and attributes it names. Reads
/// no payload. Holds after a text merge of two branches exactly where the result is a pack.
///
/// # Errors
///
/// Fails where there is no manifest.
pub fn check_manifest(pack: impl AsRef<Path>) -> Result<ManifestCheck> {
    let (path, folder) = manifest_of(pack.as_ref());
    let text = read_table(&path).map_err(Error::io("read", &path))?;
    let mut check = ManifestCheck { version: Manifest::version(&text), faults: Faults::default() };
    let mut wrong = |path: PathBuf, what: String| {
        check.faults.add(Fault {
            kind: FaultKind::Manifest,
            path: Some(path),
            key: None,
            offset: None,
            what,
        });
    };
    let manifest = match Manifest::parse(&text, &path) {
        Ok(manifest) => manifest,
        Err(error) => {
            wrong(path, format!("line {}: {}", error.line, error.what));
            return Ok(check);
        }
    };
    if manifest.text().as_bytes() != text {
        wrong(path.clone(), "is not written as the format wants it".into());
    }
    let mut before: Option<Cutter> = None;
    let (mut named, mut guard) = (BTreeSet::new(), KeyGuard::default());
    let mut all_read = true;
    for line in &manifest.segments {
        let index_file = folder.join(index_path(line.content));
        let columns_file = folder.join(attributes_path(line.attributes));
        let read = |path: &Path| read_table(path).map_err(|error| (path.to_owned(), error.to_string()));
        let checked = (|| {
            let (index, columns) = (read(&index_file)?, read(&columns_file)?);
            let bad = |path: &Path| {
                let path = path.to_owned();
                move |what: Malformed| (path.clone(), what.to_string())
            };
            let view = IndexView::new(&index).map_err(bad(&index_file))?;
            let content = view.check().map_err(bad(&index_file))?;
            let attributes = AttributesView::new(&columns)
                .and_then(|attributes| attributes.check(&columns, keys(&view)?.into_iter()))
                .map_err(bad(&columns_file))?;
            let right =
                segment(content, attributes, manifest.detail, &index, &columns).map_err(bad(&index_file))?;
            if right != *line {
                return Err((
                    path.clone(),
                    format!("segment {} does not follow from its index", line.first_key),
                ));
            }
            let mut cutter = before.take().unwrap_or_else(|| Cutter::new(manifest.cut));
            for i in 0..view.len() {
                let (key, size) = key_and_size(&view, i).map_err(bad(&index_file))?;
                let fields = field_names(&view, i).map_err(bad(&index_file))?;
                guard.push(key.as_ref(), &fields).map_err(|what| (index_file.clone(), what))?;
                if cutter.push(key.as_ref(), size) != (i == 0) {
                    return Err((path.clone(), format!("the cut rule does not give the segment of {key}")));
                }
            }
            before = Some(cutter);
            let attributes = AttributesView::new(&columns).map_err(bad(&columns_file))?;
            named.extend(attributes.names().map(str::to_owned));
            for class in attributes.distinct("class").map_err(bad(&columns_file))? {
                if manifest.class_index(&class).is_none() {
                    return Err((path.clone(), format!("class {} has no line", encode_text(&class, ""))));
                }
            }
            Ok(())
        })();
        if let Err((path, what)) = checked {
            all_read = false;
            wrong(path, what);
        }
    }
    if all_read && !named.iter().eq(&manifest.attributes) {
        wrong(path, "the attrs line does not name just the attributes that samples have".into());
    }
    Ok(check)
}
