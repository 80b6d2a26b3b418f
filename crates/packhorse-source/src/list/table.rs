use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::columns::{Columns, MOST, value};
use super::{Bad, LONGEST, Line, cannot_read, open_text};
use crate::{ColumnType, Error, Failure, Result, SourceOptions};

/// A CSV or TSV list, by RFC 4180: quoting, doubled quotes, line ends in quotes.
pub(super) struct Table {
    delimiter: u8,
    header: usize,
    pub(super) columns: Columns,
}

impl Table {
    pub(super) fn open(path: &Path, delimiter: u8, options: &SourceOptions) -> Result<Self> {
        let fail = |what: String| Error::NoSource(Failure::new(path, what));
        let mut records = Records::open(path, delimiter)?;
        match records.next()? {
            Some((_, Ok(()))) => {}
            Some((line, Err(what))) => return Err(fail(format!("line {line}: {what}"))),
            None => return Err(fail("0 samples: the list is empty, without even a header".into())),
        }
        let names = records.fields().map(|name| String::from_utf8_lossy(name).trim().to_owned());
        let header: Vec<String> = names.collect();
        let columns = Columns::new(path, &header, options, &|_| ColumnType::String)?;
        Ok(Self { delimiter, header: header.len(), columns })
    }

    pub(super) fn read(
        &self,
        path: &Path,
        take: &mut dyn FnMut(Result<Line, Bad>) -> Result<()>,
    ) -> Result<()> {
        let mut records = Records::open(path, self.delimiter)?;
        let _header = records.next()?;
        while let Some((number, whole)) = records.next()? {
            let line = whole.and_then(|()| self.line(number, &records));
            take(line.map_err(|what| (number, what)))?;
        }
        Ok(())
    }

    fn line(&self, number: u64, record: &Records) -> Result<Line, String> {
        let fields = record.ends.len();
        if fields != self.header {
            return Err(format!("{fields} fields, the header has {}", self.header));
        }
        let values = self.columns.used.iter().map(|column| {
            let text = std::str::from_utf8(record.field(column.number))
                .map_err(|_| format!("column {} is not UTF-8", column.name))?;
            value(column.kind, text).map_err(|what| format!("column {}: {what}", column.name))
        });
        let values = values.collect();
        let path = record.field(self.columns.path).to_vec();
        Ok(Line { number, path, values, sha256: None, whole: None })
    }
}

/// The records of a table, one after the other. Where each begins and ends is found here, and whether its quotes are in
/// order: the library takes a record whose quotes are not, and what follows, for something.
struct Records<'p> {
    path: &'p Path,
    from: BufReader<File>,
    delimiter: u8,
    parser: csv_core::Reader,
    /// The number of the line that is read next, from 1 on, and whether its end may have another byte.
    line: u64,
    after_return: bool,
    raw: Vec<u8>,
    /// The fields of the record, without quotes, and where each ends.
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// What a byte of a record stands in.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    /// The beginning of a field.
    Start,
    Plain,
    Quotes,
    /// After a quote that closes, or is the first of two.
    Closed,
    /// A record that is given up.
    Wrong,
}

impl<'p> Records<'p> {
    fn open(path: &'p Path, delimiter: u8) -> Result<Self> {
        Ok(Self {
            path,
            from: open_text(path)?,
            delimiter,
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            line: 1,
            after_return: false,
            raw: Vec::new(),
            text: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Reads the next record that is not blank; returns its line, and whether it is one.
    fn next(&mut self) -> Result<Option<(u64, Result<(), String>)>> {
        self.raw.clear();
        let (mut within, mut begin) = (Within::Start, self.line);
        loop {
            let bytes = self.from.fill_buf().map_err(|error| cannot_read(self.path, &error))?;
            if bytes.is_empty() {
                if self.raw.is_empty() && within == Within::Start {
                    return Ok(None);
                }
                break;
            }
            let mut passed = bytes.len();
            let mut ended = false;
            for (i, &b) in bytes.iter().enumerate() {
                let second = b == b'\n' && std::mem::take(&mut self.after_return);
                self.after_return = b == b'\r';
                let line_end = matches!(b, b'\n' | b'\r');
                self.line += u64::from(line_end && !second);
                if line_end && within != Within::Quotes {
                    (passed, ended) = (i + 1, true);
                    self.raw.extend_from_slice(&bytes[..i]);
                    break;
                }
                within = match (within, b) {
                    (Within::Wrong, _) => Within::Wrong,
                    (Within::Start, b'"') | (Within::Closed, b'"') => Within::Quotes,
                    (Within::Quotes, b'"') => Within::Closed,
                    (Within::Quotes, _) => Within::Quotes,
                    (_, b) if b == self.delimiter => Within::Start,
                    (Within::Closed, _) => Within::Wrong,
                    (Within::Start | Within::Plain, _) => Within::Plain,
                };
            }
            if !ended {
                self.raw.extend_from_slice(bytes);
            }
            self.from.consume(passed);
            if self.raw.len() as u64 > LONGEST {
                let what = format!("line {begin}: is longer than {LONGEST} bytes: is a quote never closed?");
                return Err(Error::NoSource(Failure::new(self.path, what)));
            }
            match ended {
                true if self.raw.is_empty() => begin = self.line,
                true => break,
                false => {}
            }
        }
        Ok(Some((begin, self.parse(within, begin))))
    }

    /// Splits the record into fields.
    fn parse(&mut self, within: Within, begin: u64) -> Result<(), String> {
        match within {
            Within::Quotes => return Err("a quote that begins in this record is never closed".into()),
            Within::Wrong if self.line - begin > 1 => {
                let last = self.line - 1;
                return Err(format!(
                    "text follows the quote that closes, on line {last}: is one missing before?"
                ));
            }
            Within::Wrong => return Err("text follows the quote that closes".into()),
            Within::Start | Within::Plain | Within::Closed => {}
        }
        self.raw.push(b'\n');
        self.text.resize(self.raw.len(), 0);
        self.ends.resize(MOST + 1, 0);
        let (result, .., fields) = self.parser.read_record(&self.raw, &mut self.text, &mut self.ends);
        self.ends.truncate(fields);
        match result {
            csv_core::ReadRecordResult::Record => Ok(()),
            _ => {
                self.parser.reset();
                Err(format!("has more than {MOST} fields"))
            }
        }
    }

    fn field(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[i]]
    }

    fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|i| self.field(i))
    }
}
