use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use packhorse_core::Value;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::columns::{Columns, MOST, value};
use super::{Bad, Line, each_line};
use crate::{ColumnType, Error, Failure, Result, SourceOptions};

/// A list with a JSON object on each line.
pub(super) struct Jsonl {
    header: Vec<String>,
    pub(super) columns: Columns,
}

/// A JSON object whose values are not read yet.
#[derive(Default)]
struct Object<'a>(BTreeMap<String, &'a RawValue>);

impl<'a, 'de: 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;

        impl<'de> Visitor<'de> for Names {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut object = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    // Libraries differ in which of the two they take.
                    if object.insert(name.clone(), value).is_some() {
                        return Err(A::Error::custom(format_args!("{name:?} is there twice")));
                    }
                }
                Ok(Object(object))
            }
        }

        from.deserialize_map(Names)
    }
}

impl Jsonl {
    /// Reads the whole list once, for the names of its columns and the types that their values have.
    pub(super) fn open(path: &Path, options: &SourceOptions) -> Result<Self> {
        let mut header: Vec<String> = Vec::new();
        let mut kinds: Vec<Option<ColumnType>> = Vec::new();
        each_line(path, &mut |_, line| {
            // What is no object is reported when the line is read for its file.
            for (name, raw) in serde_json::from_slice::<Object<'_>>(line).unwrap_or_default().0 {
                if header.len() > MOST {
                    break;
                }
                let at = header.iter().position(|known| *known == name).unwrap_or_else(|| {
                    header.push(name);
                    kinds.push(None);
                    header.len() - 1
                });
                if let Some(found) = kind(raw.get()) {
                    kinds[at] = Some(kinds[at].map_or(found, |known| common(known, found)));
                }
            }
            Ok(())
        })?;
        let fail = |what: String| Error::NoSource(Failure::new(path, what));
        if header.is_empty() {
            return Err(fail("0 samples: no line of the list is a JSON object".into()));
        }
        let kind = |i: usize| kinds.get(i).copied().flatten().unwrap_or(ColumnType::String);
        let columns = Columns::new(&header, options, &kind).map_err(|error| fail(error.to_string()))?;
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
        let object: Object<'_> = serde_json::from_slice(line).map_err(|error| {
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
        let values = values.collect::<Result<_, String>>()?;
        let path = cell(self.columns.path).map_or(Ok(None), |raw| text(raw.get()))?;
        let path = path.unwrap_or_default().into_bytes();
        Ok(Line { number, path, values, sha256: None, whole: None })
    }
}

/// Returns the type of a JSON value; `None` for null.
fn kind(raw: &str) -> Option<ColumnType> {
    match raw.as_bytes().first()? {
        b'n' => None,
        b't' | b'f' => Some(ColumnType::Bool),
        b'-' | b'0'..=b'9' if raw.parse::<i64>().is_ok() => Some(ColumnType::Int),
        b'-' | b'0'..=b'9' if raw.bytes().any(|b| matches!(b, b'.' | b'e' | b'E')) => Some(ColumnType::Float),
        // A string, or what no number of 64 bits holds: as it is written.
        _ => Some(ColumnType::String),
    }
}

/// Returns the type that takes values of both.
fn common(a: ColumnType, b: ColumnType) -> ColumnType {
    match (a, b) {
        (a, b) if a == b => a,
        (ColumnType::Int, ColumnType::Float) | (ColumnType::Float, ColumnType::Int) => ColumnType::Float,
        _ => ColumnType::String,
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
