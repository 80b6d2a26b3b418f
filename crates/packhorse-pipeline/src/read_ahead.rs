use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use packhorse_core::{DATA, ImageFacts};
use packhorse_image::{Finding, Format};
use packhorse_source::{Entry, Failure, FileRef, Source};
use rayon::Scope;

use crate::error::{Error, Result};
use crate::schedule::held;

/// Files that are read together: enough that handing them over costs nothing, few enough that memory stays small.
const BATCH_BYTES: u64 = 1 << 20;
const BATCH_FILES: usize = 64;
/// Samples above this size are not held in memory, but hashed and written while they are read.
pub(crate) const LARGE: u64 = 4 << 20;
/// Threads that mostly wait for the disk.
pub(crate) const READERS: usize = 16;

/// Files whose bytes are at hand.
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// The payloads of all files, one after the other.
    pub(crate) buffer: Vec<u8>,
    /// Where each file ends in the buffer.
    pub(crate) ends: Vec<usize>,
    /// What each file shows.
    pub(crate) looks: Vec<Look>,
    pub(crate) failures: Vec<(Entry, Failure)>,
}

/// What a file's header shows.
pub(crate) struct Look {
    pub(crate) findings: Vec<Finding>,
    pub(crate) compressible: bool,
    pub(crate) image: Option<ImageFacts>,
}

/// Returns what the first bytes of an image say; those of a file of any length are enough or are not.
pub(crate) fn image_facts(head: &[u8]) -> Option<ImageFacts> {
    let facts = packhorse_image::facts(&head[..head.len().min(packhorse_image::HEAD)])?;
    Some(ImageFacts { format: facts.format.as_str(), width: facts.width, height: facts.height })
}

impl Look {
    pub(crate) fn at(name: &[u8], head: &[u8], tail: &[u8], len: u64) -> Self {
        let inspection = packhorse_image::inspect(name, head, tail, len);
        let compressed = [
            Format::Jpeg,
            Format::Png,
            Format::Gif,
            Format::WebP,
            Format::Avif,
            Format::Heif,
            Format::Jpeg2000,
            Format::JpegXl,
        ];
        let compressible = !inspection.format.is_some_and(|format| compressed.contains(&format));
        Self { findings: inspection.findings, compressible, image: image_facts(head) }
    }

    pub(crate) fn of(entry: &Entry, file: FileRef<'_>, bytes: &[u8]) -> Self {
        let head = &bytes[..bytes.len().min(packhorse_image::HEAD)];
        let tail = &bytes[bytes.len().saturating_sub(packhorse_image::TAIL)..];
        Self::at(&name(entry, file), head, tail, bytes.len() as u64)
    }

    /// Looks at the head and tail of a file.
    pub(crate) fn take(source: &dyn Source, entry: &Entry, file: FileRef<'_>) -> Result<Self, Failure> {
        let (head, tail) = source.ends(file, packhorse_image::HEAD, packhorse_image::TAIL)?;
        Ok(Self::at(&name(entry, file), &head, &tail, file.blob.size))
    }
}

/// A file's name, whose extension says what it claims to be.
fn name<'a>(entry: &'a Entry, file: FileRef<'a>) -> Cow<'a, [u8]> {
    match file.field {
        DATA => entry.key.as_ref().name().into(),
        field => [entry.key.as_ref().name(), b".", field.as_bytes()].concat().into(),
    }
}

/// The next thing to write.
pub(crate) enum Next {
    Batch(Batch),
    /// A sample that is read while it is written.
    Large(Entry),
}

enum Waiting {
    Batch(Receiver<Batch>),
    Large(Entry),
}

/// What all segments share: the source, the buffers, and whether to go on.
pub(crate) struct Readers<'a> {
    pub(crate) source: &'a dyn Source,
    /// Batches that one segment has in flight.
    pub(crate) depth: usize,
    pub(crate) stop: AtomicBool,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl<'a> Readers<'a> {
    pub(crate) fn new(source: &'a dyn Source, depth: usize) -> Self {
        Self { source, depth, stop: AtomicBool::new(false), spare: Mutex::new(Vec::new()) }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Gives a buffer back.
    pub(crate) fn recycle(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() as u64 <= 4 * BATCH_BYTES {
            held(&self.spare).push(buffer);
        }
    }

    fn read(&self, entries: Vec<Entry>) -> Batch {
        let total: u64 = entries.iter().map(Entry::size).sum();
        let mut buffer = held(&self.spare).pop().unwrap_or_default();
        buffer.reserve(total as usize);
        let mut batch = Batch {
            entries: Vec::with_capacity(entries.len()),
            buffer,
            ends: Vec::with_capacity(entries.len()),
            looks: Vec::with_capacity(entries.len()),
            failures: Vec::new(),
        };
        for entry in entries {
            if self.stopped() {
                break;
            }
            let (start, files) = (batch.buffer.len(), batch.ends.len());
            let read = entry.files().try_for_each(|file| {
                let start = batch.buffer.len();
                self.source.read(file, &mut batch.buffer)?;
                batch.looks.push(Look::of(&entry, file, &batch.buffer[start..]));
                batch.ends.push(batch.buffer.len());
                Ok(())
            });
            match read {
                Ok(()) => batch.entries.push(entry),
                Err(failure) => {
                    batch.buffer.truncate(start);
                    batch.ends.truncate(files);
                    batch.looks.truncate(files);
                    batch.failures.push((entry, failure));
                }
            }
        }
        batch
    }
}

/// Reads a segment's files ahead of its writer, in the writer's order.
pub(crate) struct ReadAhead<'a, 'scope, I: Iterator> {
    readers: &'scope Readers<'scope>,
    scope: &'a Scope<'scope>,
    entries: std::iter::Peekable<I>,
    waiting: VecDeque<Waiting>,
}

impl<'a, 'scope, I: Iterator<Item = Result<Entry>>> ReadAhead<'a, 'scope, I> {
    pub(crate) fn new(readers: &'scope Readers<'scope>, scope: &'a Scope<'scope>, entries: I) -> Self {
        Self { readers, scope, entries: entries.peekable(), waiting: VecDeque::new() }
    }

    /// Returns the next batch, or large sample; `None` at the end of the segment.
    pub(crate) fn next(&mut self) -> Result<Option<Next>> {
        while self.waiting.len() < self.readers.depth && self.ask()? {}
        match self.waiting.pop_front() {
            None => Ok(None),
            Some(Waiting::Large(entry)) => Ok(Some(Next::Large(entry))),
            Some(Waiting::Batch(batch)) => Ok(Some(Next::Batch(batch.recv().map_err(|_| Error::Stopped)?))),
        }
    }

    /// Asks for one more batch; false where there is none.
    fn ask(&mut self) -> Result<bool> {
        let (mut batch, mut bytes) = (Vec::new(), 0u64);
        while let Some(entry) = self.entries.next_if(|entry| match entry {
            Err(_) => true,
            Ok(entry) if entry.size() > LARGE => batch.is_empty(),
            Ok(entry) => {
                batch.is_empty() || (batch.len() < BATCH_FILES && bytes + entry.size() <= BATCH_BYTES)
            }
        }) {
            let entry = entry?;
            if entry.size() > LARGE {
                self.waiting.push_back(Waiting::Large(entry));
                return Ok(true);
            }
            bytes += entry.size();
            batch.push(entry);
        }
        if batch.is_empty() {
            return Ok(false);
        }
        let (send, receive) = sync_channel(1);
        let readers = self.readers;
        self.scope.spawn(move |_| {
            // A writer that is gone has stopped.
            let _ = send.send(readers.read(batch));
        });
        self.waiting.push_back(Waiting::Batch(receive));
        Ok(true)
    }
}
