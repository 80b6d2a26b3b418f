use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packhorse_core::{DATA, Foreign, Found, Malformed, PassedOver, Value, path_text};

use crate::archive::{KEPT, Span, SpanPayload, unchanged};
use crate::files::{open_source_file, read_ends, stamp};
use crate::naming::{Naming, has_long_name};
use crate::source::{reason, shown};
use crate::{
    Blob, Entry, Error, Failure, FileRef, Labels, Payload, Place, Report, Result, Rules, Source,
    SourceFormat, SourceOptions, Stamp,
};

/// Containers that packhorse did not write, as a source. A scan finds the samples; payloads are read where they lie.
pub struct ContainerSource {
    path: PathBuf,
    foreign: Box<dyn Foreign>,
    parts: Vec<Part>,
    rules: Rules,
    naming: Naming,
    /// Files that lie beside the containers.
    beside: Vec<PathBuf>,
}

/// A file of the container.
struct Part {
    kept: Option<Arc<File>>,
    stamp: Stamp,
}

impl ContainerSource {
    /// Takes the files of a container as the source that lies at `path`; `beside` are files there that are none of them.
    ///
    /// Classes are the attribute `class` where samples may have it, else the top folder of the key.
    ///
    /// # Errors
    ///
    /// Fails where a file cannot be opened, and for options that do not fit.
    pub fn new(
        path: &Path,
        foreign: Box<dyn Foreign>,
        beside: Vec<PathBuf>,
        options: &SourceOptions,
    ) -> Result<Self> {
        options.check(SourceFormat::Container)?;
        let columns = foreign.attributes().to_vec();
        let usual = if columns.iter().any(|name| name == "class") { Labels::None } else { Labels::Folder };
        let naming = Naming::new(options, options.labels.clone().unwrap_or(usual), columns)?;
        let rules = Rules::new(&options.include, &options.exclude, true).map_err(Error::Option)?;
        let keep = foreign.files().len() <= KEPT;
        let part = |path: &PathBuf| {
            let (file, stat) = open_source_file(path)?;
            Ok(Part { kept: keep.then(|| Arc::new(file)), stamp: stamp(&stat) })
        };
        let parts = foreign.files().iter().map(part).collect::<Result<_>>()?;
        Ok(Self { path: path.to_owned(), foreign, parts, rules, naming, beside })
    }

    /// Finds a payload.
    fn find(&self, file: FileRef<'_>) -> Result<(Span, Stamp), Failure> {
        let fail = |what: String| self.failure(file, what);
        let Place { file: number, at } = file.blob.place;
        let (Some(part), Some(path)) = (self.parts.get(number as usize), self.foreign.file(number as usize))
        else {
            return Err(fail("was not found by the scan".into()));
        };
        let opened = match &part.kept {
            Some(kept) => kept.clone(),
            None => Arc::new(File::open(path).map_err(|error| fail(reason(&error)))?),
        };
        unchanged(&opened, part.stamp).map_err(fail)?;
        Ok((Span { file: opened, at, left: file.blob.size }, part.stamp))
    }
}

impl Source for ContainerSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn attributes(&self) -> &[String] {
        &self.naming.attributes
    }

    fn sorted(&self) -> bool {
        false
    }

    fn scan(&self, _scratch: &Path, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report> {
        let mut others = PassedOver::default();
        let mut scan = Scan { source: self, report: Report::default(), sink, number: 0, last: None };
        for (number, path) in self.foreign.files().iter().enumerate() {
            (scan.number, scan.last) = (number, None);
            let mut stopped = None;
            let scanned = self.foreign.scan(number, &mut |found| {
                let taken = match found {
                    Ok(found) => scan.sample(&found),
                    Err(malformed) => {
                        scan.damaged(&malformed);
                        Ok(())
                    }
                };
                match taken {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        stopped = Some(error);
                        ControlFlow::Break(())
                    }
                }
            });
            others.merge(scanned.map_err(|error| Error::NoSource(Failure::new(path, reason(&error))))?);
            if let Some(error) = stopped {
                return Err(error);
            }
            let opened = open_source_file(path)?.0;
            if let Err(what) = unchanged(&opened, self.parts[number].stamp) {
                scan.report.failures.push(Failure::new(path, what));
            }
        }
        let mut report = scan.report;
        if !self.beside.is_empty() {
            let names: Vec<_> = self.beside.iter().map(|path| path_text(path).to_string()).collect();
            let what =
                format!("left out beside the {} files: {}", self.foreign.container(), names.join(", "));
            report.remarks.push(what);
        }
        if others.count > 0 {
            let more = if others.count > others.names.len() as u64 { ", ..." } else { "" };
            report.remarks.push(format!(
                "{} passed over, as no samples: {}{more}",
                others.count,
                others.names.join(", ")
            ));
        }
        self.naming.finish(&mut report, "--labels none leaves it out");
        Ok(report)
    }

    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure> {
        let (span, stamp) = self.find(file)?;
        Ok(Box::new(SpanPayload::plain(span, stamp)))
    }

    fn in_place(&self, file: u32) -> Option<(&'static str, &Path)> {
        Some((self.foreign.container(), self.foreign.file(file as usize)?))
    }

    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        let (span, _) = self.find(file)?;
        read_ends(&span.file, span.at, span.left, head, tail)
            .map_err(|error| self.failure(file, error.to_string()))
    }

    fn name(&self, file: FileRef<'_>) -> String {
        let Place { file: number, at } = file.blob.place;
        let name = self.foreign.file(number as usize).and_then(Path::file_name).unwrap_or_default();
        format!("{} at byte {at} of {}", shown(file.locator), path_text(Path::new(name)))
    }

    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        let Place { file: number, at } = file.blob.place;
        let path = self.foreign.file(number as usize).unwrap_or(&self.path);
        Failure::new(path, format!("sample {} at byte {at}: {what}", shown(file.locator)))
    }
}

/// A scan of a container.
struct Scan<'s> {
    source: &'s ContainerSource,
    report: Report,
    sink: &'s mut dyn FnMut(Entry) -> Result<()>,
    /// The number of the file.
    number: usize,
    /// The key of the last sample in it.
    last: Option<String>,
}

impl Scan<'_> {
    /// Takes a sample in, or says why not.
    fn sample(&mut self, found: &Found<'_>) -> Result<()> {
        let naming = &self.source.naming;
        let path = key_of(found.key);
        let text = shown(&path);
        self.last = Some(text.clone());
        let at = found.fields.first().map_or(0, |field| field.offset);
        let as_path = Path::new(OsStr::from_bytes(&path));
        if let Some(reason) = self.source.rules.leaves_out_in_folders(as_path, false) {
            self.report.left_out.entry(reason).or_default().add(as_path);
            return Ok(());
        }
        let mut values = vec![Value::Null; naming.attributes.len()];
        for (name, value) in found.values {
            match naming.attributes.iter().position(|known| known == name) {
                Some(at) => values[at] = value.clone(),
                None => {
                    let what = format!("has the attribute {name}, which none of the first samples has");
                    self.fail(format!("sample {text} at byte {at}: {what}"));
                    return Ok(());
                }
            }
        }
        let stamp = self.source.parts[self.number].stamp;
        let blob = |offset: u64, size: u64| Blob {
            locator: None,
            place: Place { file: self.number as u32, at: offset },
            size,
            stamp,
            sha256: None,
        };
        let first = found.fields.first().map_or_else(|| blob(0, 0), |field| blob(field.offset, field.len));
        let entry = match has_long_name(&path) {
            true => Err("has a name of more than 255 bytes, which no file system takes".to_owned()),
            false => naming.entry(path, values, first),
        };
        match entry {
            Ok(mut entry) => {
                if !matches!(found.fields, [field] if field.name == DATA) {
                    let fields = found.fields.iter().map(|field| {
                        let locator = Some(Box::from(entry.key.as_ref().as_bytes()));
                        (field.name.into(), Blob { locator, ..blob(field.offset, field.len) })
                    });
                    entry.payload = Payload::Fields(fields.collect());
                }
                naming.note(&entry, &mut self.report);
                (self.sink)(entry)
            }
            Err(what) => {
                self.fail(format!("sample {text} at byte {at}: {what}"));
                Ok(())
            }
        }
    }

    fn damaged(&mut self, malformed: &Malformed) {
        let last = match &self.last {
            Some(last) => format!("the last whole sample before it is {last}"),
            None => "no whole sample is before it".to_owned(),
        };
        self.fail(format!("byte {}: {}; {last}", malformed.offset, malformed.what));
    }

    fn fail(&mut self, what: String) {
        let path = self.source.foreign.file(self.number).unwrap_or(&self.source.path);
        self.report.failures.push(Failure::new(path, what));
    }
}

/// Returns the key of a sample: those with zero bytes, which are numbers most often, in hexadecimal digits.
fn key_of(key: &[u8]) -> Vec<u8> {
    match key.contains(&0) {
        true => key.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect(),
        false => key.to_vec(),
    }
}
