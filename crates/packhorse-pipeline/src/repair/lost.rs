use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use packhorse_core::{Container, Digest, IndexView, KeyRef, Malformed, Sha256};
use packhorse_manifest::{CutRule, Detail, Lock, MANIFEST, MAX_SEGMENTS, Manifest, Segment, index_path};
use packhorse_shard::Shard;
use sha2::Digest as _;

use super::evidence::Evidence;
use super::survey::Line;
use super::{Repair, RepairReport};
use crate::classes::as_published;
use crate::derived::{LastRun, source_options};
use crate::error::{Error, Result};
use crate::pack::manifest;
use crate::plan::{Cuts, DETAIL_SAMPLES, OnError, Plan, PlannedSegment, nothing_to_pack};
use crate::rebuild::find_cut;
use crate::schedule::{default_threads, heaviest_first, held, pool};
use crate::segment::{check_index, content_of, files_below, read_table};

/// What helps where a manifest cannot be made again.
const COPY: &str = "take dataset.phm from git or from a copy; `packhorse manifest rebuild PACK` makes it from good container \
                    files; a pack whose classes a file numbered needs --classes as well; where it is right as it is, remove derived/last";

impl Repair<'_> {
    /// Mends a pack without a manifest: the source says which segments there are, the pack which of them it has.
    pub(super) fn without_manifest(self) -> Result<RepairReport> {
        let versions = self.versions();
        let named = Named::read(&self.evidence, self.pack);
        let known = self.evidence.last.is_some();
        if !known && !versions.is_empty() {
            let what = "the manifest is lost, and earlier versions may have numbered the classes otherwise";
            return Err(Error::refused(what, COPY));
        }
        let indexes = self.indexes()?;
        let (cut, detail) = self.shape(&indexes)?;
        let on_error = if known { OnError::Skip } else { OnError::Stop };
        let plan = Plan::scan(self.source, Cuts::Rule(cut), &self.output.partial(), on_error, self.progress)?;
        if plan.samples == 0 {
            return Err(nothing_to_pack(self.source.path(), &plan.report, plan.report.failures.clone()));
        }
        if plan.segments.len() > MAX_SEGMENTS {
            let what = format!("{} segments, more than {MAX_SEGMENTS}", plan.segments.len());
            return Err(Error::refused(what, "give the --shard-size that the pack was made with"));
        }
        let by_size = if plan.samples <= DETAIL_SAMPLES { Detail::Samples } else { Detail::Segments };
        let detail = detail.unwrap_or(by_size);
        let lines = self.lines(&plan, &indexes)?;
        drop(indexes);
        let mut found = self.survey(&lines)?;
        let segments: Option<Vec<Segment>> =
            self.segments(&lines, &mut found, &plan, detail)?.into_iter().collect();
        let made =
            segments.and_then(|segments| self.published(&versions, &named, &plan, (cut, detail), &segments));
        let files: Option<Vec<_>> = found.iter().map(|found| found.file.clone()).collect();
        let lock = files.map(Lock::new);
        let lock = lock.filter(|lock| made.as_ref().is_none_or(|made| self.is_published(made, lock)));
        if let (Some(manifest), Some(lock)) = (&made, lock) {
            let source = if known { source_options(self.pack)? } else { self.options.source.clone() };
            let written = self.publisher.version(
                self.output,
                manifest,
                Shard::default().name(),
                &lock,
                source.as_ref(),
            )?;
            self.note_written(written, source.is_some());
            self.one_file_each(&found, &lock);
        } else {
            self.withdraw();
            let what = match held(&self.unmended).is_empty() {
                true if !known => {
                    "the source gives other segments or labels than those that the pack's files name"
                }
                true => "the source gives another one than that which was published",
                false => "it cannot be made before its segments are whole",
            };
            self.fail(MANIFEST, None, what.to_owned(), COPY);
        }
        let assumed_numbers = !known && made.as_ref().is_some_and(|made| !made.classes.is_empty());
        let report = self.report(made.as_ref(), lines.len(), Some(plan.report))?;
        Ok(RepairReport { assumed_numbers, ..report })
    }

    /// Returns the earlier versions that can be read; their class numbers may be those of the lost one.
    fn versions(&self) -> Vec<Manifest> {
        let files = fs::read_dir(self.pack.join("history")).into_iter().flatten().flatten();
        files.filter_map(|file| Manifest::parse(&read_table(&file.path()).ok()?, &file.path()).ok()).collect()
    }

    /// Returns all good index files and indexes of good container files, with their contents, by first key.
    fn indexes(&self) -> Result<Vec<(Digest, Vec<u8>)>> {
        let folders = ["index", Shard::default().name()];
        let files = folders.into_iter().flat_map(|folder| files_below(&self.pack.join(folder)));
        let contents: BTreeSet<Digest> = files.filter_map(|path| content_of(&path)).collect();
        let contents: Vec<Digest> = contents.into_iter().collect();
        let workers = pool("repair", default_threads())?;
        let indexes = heaviest_first(&workers, &vec![0; contents.len()], |i| {
            let content = contents[i];
            let index = read_table(&self.pack.join(index_path(content))).ok();
            let index = index.filter(|index| check_index(index) == Some(content));
            let index = index.or_else(|| self.good_file(content).map(|(_, index)| index));
            Ok(index.map(|index| (content, index)))
        })?;
        let mut indexes: Vec<_> = indexes.into_iter().flatten().collect();
        indexes.sort_by_cached_key(|(_, index)| {
            IndexView::new(index).and_then(|view| Ok(view.row(0)?.key.to_key())).ok()
        });
        Ok(indexes)
    }

    /// Returns where segments end and what the manifest said of samples.
    fn shape(&self, indexes: &[(Digest, Vec<u8>)]) -> Result<(CutRule, Option<Detail>)> {
        let last = self.evidence.last.as_ref().map(|last| last.shape());
        let detail = self.options.detail.or(last.map(|(_, detail)| detail));
        if let Some(cut) = self.options.cut.or(last.map(|(cut, _)| cut)) {
            return Ok((cut, detail));
        }
        let indexes: Vec<_> = indexes.iter().map(|(_, index)| index.as_slice()).collect();
        match find_cut(&indexes, None) {
            Some(cut) => Ok((cut, detail)),
            None => Err(Error::refused(
                "the manifest is lost, and no segment size gives the segments that are left",
                "give the --shard-size that the pack was made with",
            )),
        }
    }

    /// Finds the content of planned segments: that of an index with the same keys and sizes.
    fn lines(&self, plan: &Plan, indexes: &[(Digest, Vec<u8>)]) -> Result<Vec<Line<'static>>> {
        let mut contents: HashMap<Digest, Vec<Digest>> = HashMap::new();
        for (content, index) in indexes {
            if let Ok(outline) = outline_of_index(index) {
                contents.entry(outline).or_default().push(*content);
            }
        }
        let locked = self.evidence.contents();
        let line = |planned: &PlannedSegment| {
            let found = contents.get(&outline_of_rows(plan, planned)?).map(Vec::as_slice).unwrap_or_default();
            let known = |content: &&Digest| locked.as_ref().is_none_or(|all| all.contains(*content));
            // Where two versions have the same keys and sizes, only the source tells.
            let content = match *found.iter().filter(known).collect::<Vec<_>>() {
                [content] => Some(*content),
                _ => None,
            };
            Ok(Line { content, bytes: planned.bytes, ..Line::default() })
        };
        plan.segments.iter().map(line).collect()
    }

    /// Makes the manifest: the one that was published, or where nothing says which that was, one that has all segments and
    /// labels that the pack's files name, and no others.
    fn published(
        &self,
        versions: &[Manifest],
        named: &Named,
        plan: &Plan,
        (cut, detail): (CutRule, Detail),
        segments: &[Segment],
    ) -> Option<Manifest> {
        let published: Vec<Digest> =
            self.evidence.last.iter().flat_map(LastRun::versions).map(|(version, _)| version).collect();
        if published.is_empty() && *named != Named::of(segments) {
            return None;
        }
        as_published(&published, versions, self.options.classes.as_ref(), &plan.classes, |old, classes| {
            manifest(plan, old, cut, detail, classes, self.source, segments.to_vec())
        })
    }

    /// Removes new files of segments of which it is not certain that the pack had them.
    fn withdraw(&self) {
        let new = std::mem::take(&mut *held(&self.new));
        held(&self.mended).retain(|mended| !new.contains(&mended.path));
        for path in new {
            // One that stays is unknown to every version, and `verify` says so.
            let _ = fs::remove_file(self.pack.join(path));
        }
    }

    /// Returns whether the source as it was opened gives just the pack's samples and attributes.
    pub(super) fn fits(&self, lines: &[Line<'_>], plan: &Plan) -> bool {
        let fits = |(line, planned): (&Line<'_>, &PlannedSegment)| {
            let index = read_table(&self.pack.join(index_path(line.content?))).ok()?;
            let same = outline_of_index(&index).ok()? == outline_of_rows(plan, planned).ok()?;
            Some(same && self.columns_of(plan, planned).ok()?.digest == line.attributes?)
        };
        lines.len() == plan.segments.len()
            && lines.iter().zip(&plan.segments).all(|pair| fits(pair) == Some(true))
    }
}

/// The segments and labels that files of a pack name: those that are damaged or missing are named by others.
#[derive(PartialEq)]
struct Named {
    contents: BTreeSet<Digest>,
    attributes: BTreeSet<Digest>,
}

impl Named {
    fn read(evidence: &Evidence, pack: &Path) -> Self {
        let below =
            |folder: &str| files_below(&pack.join(folder)).into_iter().filter_map(|path| content_of(&path));
        let mut contents: BTreeSet<Digest> = below("index").chain(below(Shard::default().name())).collect();
        contents.extend(evidence.named());
        Self { contents, attributes: below("attrs").collect() }
    }

    fn of(segments: &[Segment]) -> Self {
        Self {
            contents: segments.iter().map(|segment| segment.content).collect(),
            attributes: segments.iter().map(|segment| segment.attributes).collect(),
        }
    }
}

/// A digest over keys, field names and sizes: what a scan tells of a segment without its bytes.
#[derive(Default)]
struct Outline(Sha256);

impl Outline {
    fn sample<'f>(&mut self, key: KeyRef<'_>, fields: impl Iterator<Item = (&'f str, u64)>) {
        let mut put = |bytes: &[u8], number: u64| {
            self.0.update((bytes.len() as u64).to_le_bytes());
            self.0.update(bytes);
            self.0.update(number.to_le_bytes());
        };
        let fields: Vec<_> = fields.collect();
        put(key.as_bytes(), fields.len() as u64);
        fields.into_iter().for_each(|(name, size)| put(name.as_bytes(), size));
    }

    fn finish(self) -> Digest {
        Digest::finish(self.0)
    }
}

fn outline_of_index(index: &[u8]) -> Result<Digest, Malformed> {
    let view = IndexView::new(index)?;
    let mut outline = Outline::default();
    for i in 0..view.len() {
        let row = view.row(i)?;
        let fields = view.fields(row).collect::<Result<Vec<_>, _>>()?;
        outline.sample(row.key, fields.iter().map(|field| (field.name, field.size)));
    }
    Ok(outline.finish())
}

fn outline_of_rows(plan: &Plan, planned: &PlannedSegment) -> Result<Digest> {
    let mut outline = Outline::default();
    for entry in plan.rows(planned) {
        let entry = entry?;
        outline.sample(entry.key.as_ref(), entry.files().map(|file| (file.field, file.blob.size)));
    }
    Ok(outline.finish())
}
