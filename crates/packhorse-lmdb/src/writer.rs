use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, PutFlags};
use packhorse_core::{DATA, DatabaseWriter, Disk, Storage, StreamSample};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::record_key;
use crate::tables::Tables;
use crate::tree::{INTEGER_KEY, MAGIC, META_PAGE, NO_PAGE, PAGE_HEADER, VERSION};

/// The size of pages, whatever the machine's own are: the same files everywhere.
const PAGE: u64 = 4096;

/// Records of a transaction: each commit copies a few pages of the tree.
const BATCH: usize = 4096;

/// Bytes of a transaction, with all of the pages of its records.
const BATCH_BYTES: u64 = 64 << 20;

/// The map grows in steps of this, which every machine's pages divide.
const MAP_STEP: u64 = 1 << 20;

/// Writes records in batches, each a transaction that begins when its records are known: none is alive when the map grows.
///
/// LMDB writes through its map, so that of a payload's pages it touches the first one alone.
pub(crate) struct LmdbWriter {
    file: File,
    /// Bytes of the file that the disk has room for.
    room: u64,
    env: Env,
    database: heed::Database<'static, Bytes, Bytes>,
    tables: Tables,
    waiting: Vec<Record>,
    /// Bytes of the pages that these may take.
    waiting_bytes: u64,
}

struct Record {
    key: Vec<u8>,
    value: Value,
}

enum Value {
    /// Of a table, whose keys are below those of all samples.
    Table(Vec<u8>),
    /// Room for so many bytes.
    Payload(usize),
}

impl LmdbWriter {
    pub(crate) fn create(path: &Path, classes: &[(u32, Box<[u8]>)]) -> io::Result<Self> {
        // LMDB would take the machine's page size, and make the file for its owner alone.
        Disk.create(path)?.write_all(&empty())?;
        let file = OpenOptions::new().write(true).open(path)?;
        make_room(&file, 0, MAP_STEP)?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_STEP as usize);
        // Reading ahead in the map would fill the memory with the empty pages of payloads.
        let fast = EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP | EnvFlags::NO_READ_AHEAD;
        let flags = EnvFlags::NO_LOCK | EnvFlags::NO_SUB_DIR | fast;
        #[expect(unsafe_code, reason = "LMDB maps the file")]
        // SAFETY: The file is new, under a name of this run's own: none else opens it before it is whole, so that it needs
        // neither locks nor syncs on the way.
        let env = unsafe { options.flags(flags).open(path) }.map_err(failed)?;
        let open = |txn| {
            env.create_databases_and_commit(txn, |opener, txn| {
                opener.create_database(txn, None).map(CommitOrAbort::<_, ()>::Commit)
            })
        };
        let database = match env.write_txn().and_then(open).map_err(failed)? {
            CommitOrAbort::Commit(database) => database,
            CommitOrAbort::Abort(()) => return Err(io::ErrorKind::Other.into()),
        };
        let (tables, waiting) = (Tables::new(classes), Vec::new());
        Ok(Self { file, room: MAP_STEP, env, database, tables, waiting, waiting_bytes: 0 })
    }

    fn wait(&mut self, key: Vec<u8>, value: Value) -> io::Result<()> {
        self.waiting_bytes += most_bytes(&key, value.len());
        self.waiting.push(Record { key, value });
        if self.waiting.len() < BATCH && self.waiting_bytes < BATCH_BYTES { Ok(()) } else { self.commit() }
    }

    /// Writes what waits.
    fn commit(&mut self) -> io::Result<()> {
        self.grow()?;
        let mut txn = self.env.write_txn().map_err(failed)?;
        for Record { key, value } in self.waiting.drain(..) {
            match value {
                Value::Table(bytes) => self.database.put(&mut txn, &key, &bytes).map_err(failed)?,
                Value::Payload(len) => {
                    let reserved = self.database.get_or_put_reserved_with_flags(
                        &mut txn,
                        PutFlags::APPEND,
                        &key,
                        len,
                        |space| {
                            #[expect(unsafe_code, reason = "the payload is written later, without LMDB")]
                            // SAFETY: These bytes are a file's: they have values, whatever these are.
                            unsafe {
                                space.assume_written(len);
                            }
                            Ok(())
                        },
                    );
                    if reserved.map_err(failed)?.is_some() {
                        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a key is there twice"));
                    }
                }
            }
        }
        self.waiting_bytes = 0;
        txn.commit().map_err(failed)
    }

    /// Grows the map, so that what waits fits. What is in the file alone decides, for the map's size is noted there.
    fn grow(&mut self) -> io::Result<()> {
        let info = self.env.info();
        let used = (info.last_page_number as u64 + 1) * PAGE;
        let size = (used + self.waiting_bytes + MAP_STEP).next_multiple_of(MAP_STEP);
        let map_size = usize::try_from(size).map_err(io::Error::other)?;
        if map_size <= info.map_size {
            return Ok(());
        }
        make_room(&self.file, self.room, size)?;
        self.room = size;
        #[expect(unsafe_code, reason = "LMDB maps the file anew")]
        // SAFETY: Transactions live within the methods that begin them, after this call.
        unsafe { self.env.resize(map_size) }.map_err(failed)
    }
}

impl Value {
    fn len(&self) -> usize {
        match self {
            Self::Table(bytes) => bytes.len(),
            Self::Payload(len) => *len,
        }
    }
}

/// Returns how many bytes of pages a record takes at most: those of a large value, and its share of the tree's, which are half
/// full or better, and copied by a later transaction.
fn most_bytes(key: &[u8], len: usize) -> u64 {
    let (key, len) = (key.len() as u64, len as u64);
    let in_tree = |bytes: u64| 8 * (bytes + 32);
    match key + len < PAGE / 2 {
        true => in_tree(key + len),
        false => in_tree(key) + (PAGE_HEADER + len).next_multiple_of(PAGE),
    }
}

/// Has the disk set bytes aside: through a map, a full one would end the process.
fn make_room(mut file: &File, from: u64, to: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), from, to.saturating_sub(from)) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let (len, zeros) = (file.metadata()?.len(), vec![0; MAP_STEP as usize]);
    let mut at = io::Seek::seek(&mut file, io::SeekFrom::Start(from.max(len)))?;
    while at < to {
        let some = (to - at).min(MAP_STEP);
        file.write_all(&zeros[..some as usize])?;
        at += some;
    }
    Ok(())
}

impl DatabaseWriter for LmdbWriter {
    fn push(&mut self, sample: &StreamSample<'_>) -> io::Result<()> {
        let single = matches!(sample.fields, [field] if field.name == DATA);
        for field in sample.fields {
            let key = record_key(sample.key, (!single).then_some(field.name));
            self.wait(key, Value::Payload(usize::try_from(field.size).map_err(io::Error::other)?))?;
        }
        for (key, value) in self.tables.push(sample) {
            self.wait(key, Value::Table(value))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        for (key, value) in std::mem::take(&mut self.tables).finish() {
            self.wait(key, Value::Table(value))?;
        }
        self.commit()?;
        let pages = self.env.info().last_page_number as u64 + 1;
        let Self { file, env, .. } = *self;
        env.prepare_for_closing().wait();
        file.set_len(pages * PAGE)
    }
}

/// Returns the two meta pages of a file without records.
fn empty() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * PAGE as usize);
    for number in 0..2_u64 {
        bytes.extend(number.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(META_PAGE.to_le_bytes());
        bytes.resize((number * PAGE + PAGE_HEADER) as usize, 0);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(0_u64.to_le_bytes());
        bytes.extend(MAP_STEP.to_le_bytes());
        // The databases of free pages, which has the page size, and of records.
        for (page_size, flags) in [(PAGE as u32, INTEGER_KEY), (0, 0)] {
            bytes.extend(page_size.to_le_bytes());
            bytes.extend(flags.to_le_bytes());
            bytes.extend([0; 2 + 4 * 8]);
            bytes.extend(NO_PAGE.to_le_bytes());
        }
        bytes.extend(1_u64.to_le_bytes());
        bytes.resize(((number + 1) * PAGE) as usize, 0);
    }
    bytes
}

fn failed(error: heed::Error) -> io::Error {
    match error {
        // LMDB tells this of a write that was cut short as well.
        heed::Error::Io(error) if error.raw_os_error() == Some(EIO) => {
            io::Error::other(format!("the disk is full, or fails: {error}"))
        }
        heed::Error::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

/// The number of an input or output error, on every Unix.
const EIO: i32 = 5;
