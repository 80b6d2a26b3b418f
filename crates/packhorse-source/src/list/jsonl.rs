use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use packhorse_core::Value;
use serde_json::value::RawValue;

use super::columns::{Columns, MOST, value};
use super::{Bad, Line, each_line};
use crate::{ColumnType, Error, Failure, JsonObject, Result, SourceOptions};

/// A list with a JSON object on each line.
pub(super) struct Jsonl {
    header: Vec<String>,
    pub(super) columns: Columns,
}

impl Jsonl {
    /// Reads the whole list once, for the names of its columns and the types that their values have.
    pub(super) fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        let mut header: Vec<String> = Vec::new();
        let mut kinds: Vec<Kind> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        each_line(path, &mut |_, line| {
            // What is no object is reported when the line is read for its file.
            for (name, raw) in serde_json::from_slice(line)
                .map_or_else(|_| BTreeMap::new(), |JsonObject::<&RawValue>(object)| object)
            {
                if header.len() > MOST {
                    break;
                }
                let found = Kind::of(raw.get());
                if let Some(at) = known.get(&name) {
                    kinds[*at] = kinds[*at].and(found);
                } else {
                    known.insert(name.clone(), header.len());
                    header.push(name);
                    kinds.push(found);
                }
            }
            Ok(())
        })?;
        let fail = |what: String| Error::NoSource(Failure::new(path, what));
        if header.is_empty() {
            return Err(fail("0 samples: no line of the list is a JSON object".into()));
        }
        let kind = |i: usize| kinds.get(i).map_or(ColumnType::String, |kind| kind.column());
        let columns = Columns::new(path, &header, options, &kind)?;
        Ok(Self { header, columns })
    }

    pub(super) fn read(
        &self,
        path: &Path,
        take: &mut dyn FnMut(Result<Line, Bad>) -> Result<()>,
    ) -> Result<()> {
        each_line(path, &mut |number, line| match line.trim_ascii() {
            b"" => Ok(()),
            line => take(self.line(number, line).map_err(|what| (number, what))),
        })
    }

    fn line(&self, number: u64, line: &[u8]) -> Result<Line, String> {
        let object: JsonObject<&RawValue> = serde_json::from_slice(line).map_err(|error| {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            format!("is no JSON object to read: {what}, column {}", error.column())
        })?;
        let cell = |column: usize| self.header.get(column).and_then(|name| object.0.get(name));
        let values = self.columns.used.iter().map(|column| match cell(column.number) {
            None => Ok(Value::Null),
            Some(raw) => match text(raw.get()).map_err(|what| format!("column {}: {what}", column.name))? {
                // An empty string is one here: nothing is written as null.
                Some(text) if text.is_empty() && column.kind == ColumnType::String => Ok(Value::string("")),
                Some(text) => {
                    value(column.kind, &text).map_err(|what| format!("column {}: {what}", column.name))
                }
                None => Ok(Value::Null),
            },
        });
        let values = values.collect();
        let path = cell(self.columns.path).map_or(Ok(None), |raw| text(raw.get()))?;
        let path = path.unwrap_or_default().into_bytes();
        Ok(Line { number, path, values, sha256: None, whole: None })
    }
}

/// What kind of value a column has in all lines so far.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// None but null.
    Null,
    Bool,
    /// Whole numbers that a float holds as well.
    Int,
    /// Whole numbers of 64 bits, of which a float would change some.
    WideInt,
    Float,
    /// A string, or what no number of 64 bits holds: as it is written.
    Text,
}

impl Kind {
    fn of(raw: &str) -> Self {
        match raw.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't' | b'f') => Self::Bool,
            Some(b'-' | b'0'..=b'9') => match raw.parse::<i64>() {
                Ok(number) if number.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS => Self::Int,
                Ok(_) => Self::WideInt,
                Err(_) if !raw.contains(['.', 'e', 'E']) => Self::Text,
                Err(_) if raw.parse::<f64>().is_ok_and(f64::is_finite) => Self::Float,
                Err(_) => Self::Text,
            },
            _ => Self::Text,
        }
    }

    /// Returns the kind that takes the values of both.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Int, Self::WideInt) | (Self::WideInt, Self::Int) => Self::WideInt,
            (Self::Int, Self::Float) | (Self::Float, Self::Int) => Self::Float,
            _ => Self::Text,
        }
    }

    fn column(self) -> ColumnType {
        match self {
            Self::Bool => ColumnType::Bool,
            Self::Int | Self::WideInt => ColumnType::Int,
            Self::Float => ColumnType::Float,
            Self::Null | Self::Text => ColumnType::String,
        }
    }
}

/// Returns the text of a JSON value: of a string what it says, of others how they are written; `None` for null.
fn text(raw: &str) -> Result<Option<String>, String> {
    match raw {
        "null" => Ok(None),
        _ if raw.starts_with('"') => {
            let text = serde_json::from_str(raw);
            text.map(Some).map_err(|_| format!("{raw} is no text: it has half a surrogate pair"))
        }
        _ => Ok(Some(raw.to_owned())),
    }
}
