//! Index, attributes and extents of samples whose places are known.

use std::ffi::OsStr;
use std::sync::Mutex;

use packhorse_core::{Digest, ExtentTableBuilder, FieldRow, IndexBuilder, Order, StreamFile};
use packhorse_manifest::{AttributesBuilder, Detail, Lock, LockLine, Segment, attributes_path, index_path};
use packhorse_reader::{EXTENTS, stream_folder};

use super::places::Places;
use super::write::{Unreadable, Writing};
use crate::error::{Error, Result};
use crate::journal::{Finished, Journal};
use crate::plan::Plan;
use crate::report::Findings;
use crate::schedule::held;
use crate::segment::segment;

/// What a run wrote: all of it under temporary names, but for index and attributes.
pub(super) struct WrittenStream {
    pub(super) segments: Vec<Segment>,
    pub(super) findings: Findings,
    pub(super) files: Vec<StreamFile>,
    /// Bytes that this run wrote.
    pub(super) bytes: u64,
    /// Files that an interrupted run finished.
    pub(super) resumed: usize,
    pub(super) table: ExtentTableBuilder,
    pub(super) name: &'static str,
    pub(super) options: u8,
    pub(super) order: Order,
}

impl WrittenStream {
    /// Gives the folder its name, which is that of the version. Returns the lock.
    pub(super) fn publish(self, writing: &Writing<'_>, version: Digest) -> Result<Lock> {
        let publisher = writing.publisher;
        let table = self.table.finish(version, self.options, self.order, &self.files);
        let temporary = &writing.finished;
        std::fs::create_dir_all(temporary).map_err(Error::io("create", temporary))?;
        // What an interrupted run left, and this one had no use for.
        let known =
            |name: &OsStr| self.order != Order::Found && self.files.iter().any(|file| *file.name == *name);
        for entry in std::fs::read_dir(temporary).map_err(Error::io("list", temporary))? {
            let entry = entry.map_err(Error::io("list", temporary))?;
            if !known(&entry.file_name()) {
                std::fs::remove_file(entry.path()).map_err(Error::io("remove", &entry.path()))?;
            }
        }
        publisher.write(&writing.partial.join("extents"), &[&table])?.commit(&temporary.join(EXTENTS))?;
        let folder = stream_folder(self.name, version);
        publisher.commit_folder(temporary, &folder, &writing.partial.join("old"))?;
        let line = |file: StreamFile| LockLine {
            path: match self.order {
                Order::Found => file.name,
                _ => folder.join(file.name).to_string_lossy().into_owned(),
            },
            sha256: file.sha256,
        };
        Ok(Lock::new(self.files.into_iter().map(line).collect()))
    }
}

/// Makes the index, the attributes and the extents of all segments; or returns the samples whose bytes are not those
/// that the source promised.
pub(super) fn tables(
    writing: &Writing<'_>,
    plan: &Plan,
    journal: &Mutex<Journal>,
    places: &Places,
    detail: Detail,
) -> Result<Result<(Vec<Segment>, ExtentTableBuilder), Unreadable>> {
    let Writing { source, publisher, .. } = *writing;
    let (mut table, mut segments, mut wrong) = (ExtentTableBuilder::new(), Vec::new(), Unreadable::new());
    let mut j = 0;
    for planned in &plan.segments {
        table.segment();
        let (mut index, mut columns) = (IndexBuilder::new(), AttributesBuilder::new(source.attributes()));
        for entry in plan.rows(planned) {
            let entry = entry?;
            let found = places.get(j, entry.files().count() as u64)?;
            j += found.len() as u64;
            let mut fields = Vec::with_capacity(found.len());
            for (file, place) in entry.files().zip(&found) {
                table.push(place.file, &place.extent);
                fields.push(FieldRow { name: file.field, size: file.blob.size, sha256: place.sha256 });
                if let Some(promised) = file.blob.sha256.filter(|promised| *promised != place.sha256) {
                    let what = format!("SHA-256 {promised} was promised, {} was found", place.sha256);
                    wrong.push((entry.key.clone(), source.failure(file, what)));
                }
            }
            index.push(entry.key.as_ref(), &fields);
            writing.columns(&mut columns, &entry)?;
        }
        let (index, columns) = (index.finish(), columns.finish());
        // Whatever becomes of this run, the next one knows of these files.
        held(journal).add(Finished {
            plan: planned.digest.0,
            content: index.digest.0,
            attributes: columns.digest.0,
            file: [0; 32],
        })?;
        let temporary = |extension: &str| writing.partial.join(format!("table.{extension}"));
        let bytes = index.parts().concat();
        let file = publisher.write(&temporary("phi"), &[&bytes])?;
        publisher.commit(file, &index_path(index.digest))?;
        let file = publisher.write(&temporary("pha"), &[&columns.bytes])?;
        publisher.commit(file, &attributes_path(columns.digest))?;
        let segment = segment(index.digest, columns.digest, detail, &bytes, &columns.bytes);
        segments.push(segment.map_err(|what| what.at(&temporary("phi")))?);
    }
    Ok(if wrong.is_empty() { Ok((segments, table)) } else { Err(wrong) })
}
