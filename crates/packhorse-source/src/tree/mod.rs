mod walk;

use std::io::Read;
use std::path::{Path, PathBuf};

use self::walk::walk;
use crate::files::Files;
use crate::naming::Naming;
use crate::{
    Entry, Error, Failure, FileRef, Labels, Links, Report, Result, Rules, Source, SourceFormat, SourceOptions,
};

/// A folder as a source.
#[derive(Debug)]
pub struct Tree {
    files: Files,
    links: Links,
    rules: Rules,
    naming: Naming,
    require: Vec<String>,
}

impl Tree {
    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// Fails where there is no such folder, or an option is wrong.
    pub fn open(root: impl Into<PathBuf>, options: &SourceOptions) -> Result<Self> {
        options.check(SourceFormat::Folder)?;
        let files = Files::open(root.into())?;
        let labels = options.labels.clone().unwrap_or(Labels::Folder);
        let naming = Naming::new(options, labels, Vec::new())?;
        let rules = Rules::new(&options.include, &options.exclude, options.hidden).map_err(Error::Option)?;
        Ok(Self { files, links: options.links, rules, naming, require: options.require.clone() })
    }
}

impl Source for Tree {
    fn path(&self) -> &Path {
        &self.files.root
    }

    fn attributes(&self) -> &[String] {
        &self.naming.attributes
    }

    fn sorted(&self) -> bool {
        self.naming.keeps_order()
    }

    fn require(&self) -> &[String] {
        &self.require
    }

    fn scan(&self, _scratch: &Path, sink: &mut dyn FnMut(Entry) -> Result<()>) -> Result<Report> {
        walk(self, sink)
    }

    fn read(&self, file: FileRef<'_>, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        self.files.read(file, buffer)
    }

    fn open(&self, file: FileRef<'_>) -> Result<Box<dyn Read + Send + '_>, Failure> {
        self.files.reader(file)
    }

    fn ends(&self, file: FileRef<'_>, head: usize, tail: usize) -> Result<(Vec<u8>, Vec<u8>), Failure> {
        self.files.ends(file, head, tail)
    }

    fn failure(&self, file: FileRef<'_>, what: String) -> Failure {
        Failure::new(self.files.full(file.locator), what)
    }
}
