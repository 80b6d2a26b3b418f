use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use packhorse_core::Value;

use super::payload::{Bytes, Span, unchanged};
use super::spool::{Stopped, decompress};
use super::tar::{Members, looks_like_tar};
use super::{Archives, Kind, Part, zip};
use crate::files::{size, stamp, tidy};
use crate::naming::has_long_name;
use crate::source::{reason, shown};
use crate::{Blob, Entry, Error, Failure, LeftOut, Links, Payload, Place, Report, Result, Stamp};

/// What an archive says of a member.
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    /// Where messages place it.
    pub(super) byte: u64,
    pub(super) size: u64,
    pub(super) what: What,
}

/// What a member is.
pub(super) enum What {
    File,
    /// No sample.
    Folder,
    /// Left out where links are skipped, else refused for this reason.
    Link(String),
    Refused(String),
}

/// A scan of archives.
pub(super) struct Scan<'s> {
    source: &'s Archives,
    report: Report,
    /// Archives inside that were opened.
    opened: u64,
    sink: &'s mut dyn FnMut(Entry) -> Result<()>,
}

/// The archive that members are in.
#[derive(Clone, Copy)]
pub(super) struct Within<'a> {
    pub(super) number: u32,
    pub(super) part: &'a Part,
    pub(super) stamp: Stamp,
    /// The tidied path of the archive inside it that they are in.
    inner: Option<&'a [u8]>,
}

impl<'s> Scan<'s> {
    pub(super) fn new(source: &'s Archives, sink: &'s mut dyn FnMut(Entry) -> Result<()>) -> Self {
        Self { source, report: Report::default(), opened: 0, sink }
    }

    /// Scans one archive. A compressed one is copied to the spool, which is made where there is none.
    pub(super) fn part(
        &mut self,
        number: u32,
        part: &Part,
        scratch: &Path,
        spool: &mut Option<(Arc<File>, u64)>,
    ) -> Result<Bytes> {
        let broken = |what: String| Error::NoSource(Failure::new(&part.path, what));
        let file = part.file()?;
        let stat = rustix::fs::fstat(&file).map_err(|error| broken(reason(&error.into())))?;
        let within = Within { number, part, stamp: stamp(&stat), inner: None };
        let bytes = match part.kind {
            Kind::Tar => {
                self.tar(within, &file, 0, size(&stat))?;
                Bytes::InPlace
            }
            Kind::Zip => Bytes::Zip(zip::scan(self, within, &file, size(&stat))?),
            Kind::Gzip | Kind::Zstd => {
                let no_copy = |error: std::io::Error| {
                    let folder = packhorse_core::path_text(scratch);
                    broken(format!("cannot write what it decompresses to in {folder}: {}", reason(&error)))
                };
                let (copy, start) = match spool.take() {
                    Some(spool) => spool,
                    None => (Arc::new(tempfile::tempfile_in(scratch).map_err(no_copy)?), 0),
                };
                let mut written = 0;
                let mut writer = copy.try_clone().map_err(no_copy)?;
                let archive = Span { file: file.clone(), at: 0, left: size(&stat) };
                let stopped = decompress(archive, part.kind, &mut writer, &mut written);
                if let Err(Stopped::Copy(error)) = stopped {
                    return Err(no_copy(error));
                }
                copy.set_len(start.saturating_add(written)).map_err(no_copy)?;
                self.tar(within, &copy, start, written)?;
                if let Err(Stopped::Stream(what)) = stopped {
                    self.fail(
                        within,
                        "",
                        format!("the compressed stream stops after byte {written}: {what}"),
                    );
                }
                *spool = Some((copy.clone(), start.saturating_add(written)));
                Bytes::Spool(copy, start)
            }
        };
        if let Err(what) = unchanged(&file, within.stamp) {
            self.fail(within, "", what);
        }
        Ok(bytes)
    }

    /// Scans the tar of `len` bytes that begins at `base`.
    fn tar(&mut self, within: Within<'_>, file: &File, base: u64, len: u64) -> Result<()> {
        let is_nested = self.is_nested(file, base, len);
        for member in Members::new(file, base, 0..len) {
            let member = match member {
                Ok(member) => member,
                Err(what) => {
                    self.fail(within, "", what);
                    continue;
                }
            };
            let path = tidy(&member.name);
            if !is_nested || !matches!(member.what, What::File) || self.is_left_out_as_folder(&path) {
                self.member(within, member.byte, member)?;
                continue;
            }
            self.opened += 1;
            let within = Within { inner: Some(&path), ..within };
            for inner in Members::new(file, base, member.byte..member.byte.saturating_add(member.size)) {
                match inner {
                    Ok(inner) => self.member(within, inner.byte, inner)?,
                    Err(what) => self.fail(within, "", format!("in {}: {what}", shown(&path))),
                }
            }
        }
        Ok(())
    }

    /// Returns whether all files in a tar are named as tars, and some is one. Most tars are told at their first file.
    fn is_nested(&self, file: &File, base: u64, len: u64) -> bool {
        let mut some = false;
        for member in Members::new(file, base, 0..len).map_while(Result::ok) {
            let path = tidy(&member.name);
            if matches!(member.what, What::File) && !self.is_left_out_as_folder(&path) {
                if folder_of(&path).is_none() {
                    return false;
                }
                some |= looks_like_tar(file, base.saturating_add(member.byte), member.size);
            }
        }
        some
    }

    fn is_left_out_as_folder(&self, path: &[u8]) -> bool {
        self.source.rules.leaves_out_in_folders(Path::new(OsStr::from_bytes(path)), true).is_some()
    }

    /// Takes a member in, or says why not. `at` is its place in the archive.
    pub(super) fn member(&mut self, within: Within<'_>, at: u64, member: Member) -> Result<()> {
        if matches!(member.what, What::Folder) {
            return Ok(());
        }
        let tidied = tidy(&member.name);
        let locator = within.inner.map_or_else(|| tidied.clone(), |inner| [inner, &tidied].join(&b'/'));
        let text = member_text(&locator, member.byte);
        let mut path = match within.inner {
            Some(inner) => [folder_of(inner).unwrap_or(inner), &tidied].join(&b'/'),
            None => tidied.clone(),
        };
        if tidied.is_empty() {
            return self.refuse(within, &text, "has no name");
        }
        if tidied.starts_with(b"/") || path.starts_with(b"/") {
            return self.refuse(within, &text, "has an absolute path");
        }
        if path.split(|&b| b == b'/').any(|part| part == b"..") {
            return self.refuse(within, &text, "leaves the archive by `..`");
        }
        if has_long_name(&path) {
            return self.refuse(
                within,
                &text,
                "has a name of more than 255 bytes, which no file system takes",
            );
        }
        let strip = self.source.strip;
        let stripped = without_folders(&path, strip).map(<[u8]>::to_vec);
        let too_short = stripped.is_none();
        path = stripped.unwrap_or(path);
        let as_path = Path::new(OsStr::from_bytes(&path));
        let mut left_out = self.source.rules.leaves_out_in_folders(as_path, false);
        if left_out.is_none() && matches!(member.what, What::Link(_)) && self.source.links == Links::Skip {
            left_out = Some(LeftOut::Link);
        }
        if let Some(reason) = left_out {
            self.report.left_out.entry(reason).or_default().add(as_path);
            return Ok(());
        }
        match member.what {
            What::Link(what) | What::Refused(what) => return self.refuse(within, &text, what),
            What::File | What::Folder => {}
        }
        if too_short {
            return self.refuse(
                within,
                &text,
                format!("lies in fewer than {strip} folders, which are taken off"),
            );
        }
        let blob = Blob {
            locator: None,
            place: Place { file: within.number, at },
            size: member.size,
            stamp: within.stamp,
            sha256: None,
        };
        let naming = &self.source.naming;
        match naming.entry(path, vec![Value::Null; naming.attributes.len()], blob) {
            Ok(mut entry) => {
                naming.note(&entry, &mut self.report);
                locate(&mut entry, locator);
                (self.sink)(entry)
            }
            Err(what) => self.refuse(within, &text, what),
        }
    }

    fn refuse(&mut self, within: Within<'_>, text: &str, what: impl Into<String>) -> Result<()> {
        self.fail(within, text, what);
        Ok(())
    }

    pub(super) fn remark(&mut self, what: String) {
        self.report.remarks.push(what);
    }

    pub(super) fn fail(&mut self, within: Within<'_>, text: &str, what: impl Into<String>) {
        self.report.failures.push(failure(within.part, text, what));
    }

    pub(super) fn finish(mut self) -> Report {
        if self.opened > 0 {
            let archives = if self.opened == 1 { "archive inside was" } else { "archives inside were" };
            self.report.remarks.push(format!("{} {archives} opened as folders", self.opened));
        }
        let take_off = format!("--strip-components {} takes it off", self.source.strip.saturating_add(1));
        self.source.naming.finish(&mut self.report, &take_off);
        self.report
    }
}

/// Sets the path in the archive where it is not the key.
fn locate(entry: &mut Entry, locator: Vec<u8>) {
    let is_key = entry.key.as_ref().as_bytes() == locator;
    let locator = (!is_key).then(|| locator.into_boxed_slice());
    match &mut entry.payload {
        Payload::File(blob) => blob.locator = locator,
        Payload::Fields(fields) => fields.iter_mut().for_each(|(_, blob)| blob.locator.clone_from(&locator)),
    }
}

/// Returns the path of a tar without `.tar`: the folder that it is opened as.
fn folder_of(path: &[u8]) -> Option<&[u8]> {
    let (folder, end) = path.split_at_checked(path.len().checked_sub(4)?)?;
    let named = !folder.is_empty() && !folder.ends_with(b"/");
    (named && end.eq_ignore_ascii_case(b".tar")).then_some(folder)
}

/// Takes folders off a path; `None` where there are not as many.
fn without_folders(path: &[u8], folders: usize) -> Option<&[u8]> {
    (0..folders).try_fold(path, |rest, _| {
        let slash = rest.iter().position(|&b| b == b'/')?;
        rest.get(slash + 1..)
    })
}

/// Names a member.
pub(super) fn member_text(locator: &[u8], byte: u64) -> String {
    format!("member {} at byte {byte}: ", shown(locator))
}

/// Makes a failure of an archive; `text` names the member.
pub(super) fn failure(part: &Part, text: &str, what: impl Into<String>) -> Failure {
    let decompressed = if part.kind.is_compressed() { "decompressed: " } else { "" };
    Failure::new(&part.path, format!("{decompressed}{text}{}", what.into()))
}
