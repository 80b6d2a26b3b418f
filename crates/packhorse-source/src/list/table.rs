use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::columns::{Columns, value};
use super::{Bad, Line, cannot_read, open_text};
use crate::{ColumnType, Error, Failure, Result, SourceOptions};

/// A CSV or TSV list, by RFC 4180: quoting, doubled quotes, line ends in quotes.
pub(super) struct Table {
    delimiter: u8,
    header: usize,
    pub(super) columns: Columns,
}

impl Table {
    pub(super) fn open(path: &Path, delimiter: u8, options: &SourceOptions) -> Result<Self> {
        let mut record = csv::ByteRecord::new();
        let mut reader = reader(path, delimiter)?;
        reader.read_byte_record(&mut record).map_err(|error| cannot_read(path, &error.into()))?;
        let header: Vec<String> =
            record.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
        if header.is_empty() {
            let what = "0 samples: the list is empty, without even a header";
            return Err(Error::NoSource(Failure::new(path, what)));
        }
        let columns = Columns::new(&header, options, &|_| ColumnType::String)
            .map_err(|error| Error::NoSource(Failure::new(path, error.to_string())))?;
        Ok(Self { delimiter, header: header.len(), columns })
    }

    pub(super) fn read(
        &self,
        path: &Path,
        take: &mut dyn FnMut(Result<Line, Bad>) -> Result<()>,
    ) -> Result<()> {
        let fail = |error: std::io::Error| cannot_read(path, &error);
        let mut record = csv::ByteRecord::new();
        let mut reader = reader(path, self.delimiter)?;
        let mut text = Text { from: open_text(path)?, at: 0, line: 1 };
        let mut is_header = true;
        while reader.read_byte_record(&mut record).map_err(|error| fail(error.into()))? {
            let start = record.position().map_or(0, csv::Position::byte);
            let number = text.line_at(start).map_err(fail)?;
            if !std::mem::take(&mut is_header) {
                take(self.line(number, &record).map_err(|what| (number, what)))?;
            }
        }
        // The reader takes the end of the file for the end of a quoted field.
        let mut last = Vec::new();
        text.from.read_to_end(&mut last).map_err(fail)?;
        if ends_in_quotes(&last, self.delimiter) {
            take(Err((text.line, "a quote that begins in this record is never closed".into())))?;
        }
        Ok(())
    }

    fn line(&self, number: u64, record: &csv::ByteRecord) -> Result<Line, String> {
        if record.len() != self.header {
            return Err(format!("{} fields, the header has {}", record.len(), self.header));
        }
        let values = self.columns.used.iter().map(|column| {
            let cell = record.get(column.number).unwrap_or_default();
            let text =
                std::str::from_utf8(cell).map_err(|_| format!("column {} is not UTF-8", column.name))?;
            value(column.kind, text).map_err(|what| format!("column {}: {what}", column.name))
        });
        let values = values.collect::<Result<_, String>>()?;
        let path = record.get(self.columns.path).unwrap_or_default().to_vec();
        Ok(Line { number, path, values, sha256: None, whole: None })
    }
}

/// The text of a table, read a second time to count its lines: the reader's own count is off after blank ones.
struct Text {
    from: BufReader<File>,
    at: u64,
    line: u64,
}

impl Text {
    /// Goes on to the record that begins at a byte, or after blank lines from there on; returns its line.
    fn line_at(&mut self, byte: u64) -> io::Result<u64> {
        loop {
            let bytes = self.from.fill_buf()?;
            let before = usize::try_from(byte.saturating_sub(self.at)).unwrap_or(usize::MAX).min(bytes.len());
            let ends = bytes[before..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
            let passed = &bytes[..before + ends];
            self.line += passed.iter().filter(|&&b| b == b'\n').count() as u64;
            let (passed, all) = (passed.len(), bytes.len());
            self.from.consume(passed);
            self.at += passed as u64;
            if passed < all || all == 0 {
                return Ok(self.line);
            }
        }
    }
}

fn reader(path: &Path, delimiter: u8) -> Result<csv::Reader<BufReader<File>>> {
    let text = open_text(path)?;
    Ok(csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).has_headers(false).from_reader(text))
}

/// Returns whether a record, up to the end of the file, leaves a quoted field open.
fn ends_in_quotes(record: &[u8], delimiter: u8) -> bool {
    let (mut quoted, mut begins) = (false, true);
    for &b in record {
        quoted ^= b == b'"' && (quoted || begins);
        // A quote after one that closed makes both a quote of the text.
        begins = !quoted && (b == delimiter || matches!(b, b'\n' | b'\r' | b'"'));
    }
    quoted
}
