use std::io::{self, Read, Write};
use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, PutFlags};
use packhorse_core::{DatabaseWriter, Disk, FieldStream, KeyRef, Storage, StreamSample};

use crate::tables::Tables;
use crate::tree::{INTEGER_KEY, MAGIC, META_PAGE, NO_PAGE, PAGE_HEADER, VERSION};
use crate::{MAX_PAYLOAD, record_key};

/// The size of pages, whatever the machine's own are: the same files everywhere.
const PAGE: u64 = 4096;

/// Bytes that a transaction takes: each commit copies a few pages of the tree, and memory holds them twice.
const BATCH: usize = 8 << 20;

/// The map grows in steps of this, which every machine's pages divide.
const MAP_STEP: u64 = 1 << 20;

/// Writes records in batches, each a transaction that begins when its records are at hand: none is alive when the map grows.
pub(crate) struct LmdbWriter {
    env: Env,
    database: heed::Database<'static, Bytes, Bytes>,
    /// Until all samples are told of.
    tables: Option<Tables>,
    /// Keys and values that wait, one after the other.
    bytes: Vec<u8>,
    /// Where each key and each value ends.
    ends: Vec<(usize, usize)>,
}

impl LmdbWriter {
    pub(crate) fn create(path: &Path, classes: &[(u32, Box<[u8]>)]) -> io::Result<Self> {
        // LMDB would take the machine's page size, and make the file for its owner alone.
        Disk.create(path)?.write_all(&empty())?;
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_STEP as usize);
        let flags = EnvFlags::NO_LOCK | EnvFlags::NO_SUB_DIR | EnvFlags::NO_SYNC;
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
        let tables = Some(Tables::new(classes));
        Ok(Self { env, database, tables, bytes: Vec::new(), ends: Vec::new() })
    }

    /// Writes the tables of samples when the last one was told of. From then on keys come in order.
    fn end_tables(&mut self) -> io::Result<()> {
        let Some(tables) = self.tables.take() else { return Ok(()) };
        tables.finish(&mut |key, value| self.record(key, value, PutFlags::empty()))?;
        self.commit(PutFlags::empty())
    }

    fn record(&mut self, key: &[u8], value: &[u8], flags: PutFlags) -> io::Result<()> {
        if value.len() > BATCH {
            return self.large(key, value.len() as u64, &mut &*value, flags)?;
        }
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.end_record(key_end, flags)
    }

    fn end_record(&mut self, key_end: usize, flags: PutFlags) -> io::Result<()> {
        self.ends.push((key_end, self.bytes.len()));
        if self.waiting() < BATCH { Ok(()) } else { self.commit(flags) }
    }

    /// Bytes that wait, with some for each record.
    fn waiting(&self) -> usize {
        self.bytes.len() + size_of::<(usize, usize)>() * self.ends.len()
    }

    /// Writes what waits.
    fn commit(&mut self, flags: PutFlags) -> io::Result<()> {
        if self.ends.is_empty() {
            return Ok(());
        }
        self.make_room(self.waiting() as u64)?;
        let mut txn = self.env.write_txn().map_err(failed)?;
        let mut start = 0;
        for &(key_end, end) in &self.ends {
            let (key, value) = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
            self.database.put_with_flags(&mut txn, flags, key, value).map_err(failed)?;
            start = end;
        }
        txn.commit().map_err(failed)?;
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }

    /// Writes a value in a transaction of its own, while it is read. LMDB holds it in memory.
    fn large(
        &mut self,
        key: &[u8],
        size: u64,
        from: &mut dyn Read,
        flags: PutFlags,
    ) -> io::Result<io::Result<()>> {
        let len = match usize::try_from(size) {
            Ok(len) if size <= MAX_PAYLOAD => len,
            _ => {
                let what = format!("a record of {size} bytes, more than the {MAX_PAYLOAD} that LMDB writes");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
        };
        self.commit(flags)?;
        self.make_room(size)?;
        let mut txn = self.env.write_txn().map_err(failed)?;
        let mut read = Ok(());
        let done = self.database.get_or_put_reserved_with_flags(&mut txn, flags, key, len, |space| {
            read = copy(size, from, space);
            match read {
                Ok(()) => Ok(()),
                Err(_) => Err(io::ErrorKind::Other.into()),
            }
        });
        if read.is_err() {
            return Ok(read);
        }
        done.map_err(failed)?;
        txn.commit().map_err(failed)?;
        Ok(Ok(()))
    }

    /// Grows the map, so that records of so many bytes fit whatever pages they take: a page is at least half full, or that of
    /// one value of more than a third of a page. What is in the file alone decides, for the map's size is noted there.
    fn make_room(&self, bytes: u64) -> io::Result<()> {
        let info = self.env.info();
        let used = (info.last_page_number as u64 + 1) * PAGE;
        let size = (used + 4 * bytes + MAP_STEP).next_multiple_of(MAP_STEP);
        let size = usize::try_from(size).map_err(io::Error::other)?;
        if size <= info.map_size {
            return Ok(());
        }
        #[expect(unsafe_code, reason = "LMDB maps the file anew")]
        // SAFETY: Transactions live within the methods that begin them, after this call.
        unsafe { self.env.resize(size) }.map_err(failed)
    }
}

impl DatabaseWriter for LmdbWriter {
    fn announce(&mut self, sample: &StreamSample<'_>) -> io::Result<()> {
        let Some(mut tables) = self.tables.take() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a sample is told of after the first is put",
            ));
        };
        tables.push(sample, &mut |key, value| self.record(key, value, PutFlags::empty()))?;
        self.tables = Some(tables);
        Ok(())
    }

    fn put(&mut self, key: KeyRef<'_>, field: Option<&str>, bytes: &[u8]) -> io::Result<()> {
        self.end_tables()?;
        self.record(&record_key(key, field), bytes, PutFlags::APPEND)
    }

    fn put_stream(
        &mut self,
        key: KeyRef<'_>,
        named: bool,
        from: &mut FieldStream<'_>,
    ) -> io::Result<io::Result<()>> {
        self.end_tables()?;
        let key = record_key(key, named.then_some(from.name));
        if from.size > BATCH as u64 {
            return self.large(&key, from.size, from.from, PutFlags::APPEND);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&key);
        let key_end = self.bytes.len();
        if let Err(error) = copy(from.size, from.from, &mut self.bytes) {
            self.bytes.truncate(start);
            return Ok(Err(error));
        }
        self.end_record(key_end, PutFlags::APPEND)?;
        Ok(Ok(()))
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.end_tables()?;
        self.commit(PutFlags::APPEND)
    }
}

/// Copies a stream of just `size` bytes.
fn copy(size: u64, from: &mut dyn Read, to: &mut dyn Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    // One byte more is asked for, so that a stream that is too long is seen.
    let mut from = from.take(size.saturating_add(1));
    let mut done = 0;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        done += read as u64;
        if (read == 0 && done < size) || done > size {
            let at_least = if done > size { "at least " } else { "" };
            let what = format!("expected {size} bytes, found {at_least}{done}");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read])?;
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
