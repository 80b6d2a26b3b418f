//! Finds the samples of a file of packhorse's own layout.

use hdf5::types::TypeDescriptor;
use hdf5::{Dataset, File, Group};
use packhorse_core::{DATA, FoundField, Value, check_attribute_name, decode_text, encode_text};

use super::scan::Scan;
use crate::raw::{Fail, Heaps};
use crate::read::{self, BLOCK, Pieces, said};
use crate::tables::{FORMAT, VERSION, link_name};

/// Returns the names of attributes; `None` where the file is not of packhorse's own layout.
pub(super) fn attributes(file: &File) -> Result<Option<Vec<String>>, String> {
    if !file.attr_names().map_err(said)?.iter().any(|name| name == FORMAT) {
        return Ok(None);
    }
    let version = file.attr(FORMAT).and_then(|attr| attr.read_scalar::<i64>()).map_err(said)?;
    if version != VERSION {
        return Err(format!("layout of version {version}; this packhorse reads {VERSION}"));
    }
    let Some(group) = group(file, "attributes")? else { return Ok(Some(Vec::new())) };
    let mut names = Vec::new();
    for link in group.member_names().map_err(said)? {
        let name = decode_text(&link, "/").or_else(|| (link == "%2E").then(|| b".".to_vec()));
        match name
            .and_then(|name| String::from_utf8(name).ok())
            .filter(|name| check_attribute_name(name).is_ok())
        {
            Some(name) => names.push(name),
            None => return Err(format!("attributes/{link}: no name of an attribute")),
        }
    }
    Ok(Some(names))
}

fn group(file: &File, name: &str) -> Result<Option<Group>, String> {
    file.link_exists(name).then(|| file.group(name).map_err(said)).transpose()
}

/// An attribute's values, and which of them are null.
struct Column {
    name: String,
    values: Dataset,
    kind: TypeDescriptor,
    nulls: Option<Dataset>,
}

/// The tables of a file.
struct Tables {
    data: Pieces,
    size: u64,
    keys: Dataset,
    samples: usize,
    offsets: Dataset,
    fields: Option<(Dataset, Dataset)>,
    columns: Vec<Column>,
}

impl Tables {
    fn open(scan: &Scan<'_, '_, '_>, file: &File) -> Result<Self, String> {
        let data = file.dataset(DATA).map_err(said)?;
        let size = read::len(&data)? as u64;
        let data = Pieces::of(&data).map_err(|what| format!("`{DATA}`: {what}"))?;
        let open = |name: &str, len: Option<usize>| {
            let set = scan.table(file, name)?;
            let found = read::len(&set)?;
            match len.filter(|len| *len != found) {
                None => Ok((set, found)),
                Some(len) => Err(format!("`{name}` has {found} entries, not {len}")),
            }
        };
        let (keys, samples) = open("keys", None)?;
        let (offsets, ends) = open("offsets", None)?;
        let payloads = ends.checked_sub(1).ok_or("`offsets` is empty")?;
        let fields = match file.link_exists("sample_fields") {
            true => {
                let (counts, _) = open("sample_fields", Some(samples + 1))?;
                Some((counts, open("field_names", Some(payloads))?.0))
            }
            false if payloads == samples => None,
            false => return Err(format!("`offsets` has {ends} entries, not {}", samples + 1)),
        };
        let nulls = group(file, "nulls")?;
        let mut columns = Vec::new();
        for name in attributes(file)?.unwrap_or_default() {
            let link = link_name(&name);
            let (values, _) = open(&format!("attributes/{link}"), Some(samples))?;
            let has_nulls = nulls.as_ref().is_some_and(|nulls| nulls.link_exists(&link));
            let nulls = has_nulls.then(|| open(&format!("nulls/{link}"), Some(samples))).transpose()?;
            let kind = values.dtype().and_then(|datatype| datatype.to_descriptor()).map_err(said)?;
            columns.push(Column { name, values, kind, nulls: nulls.map(|(set, _)| set) });
        }
        Ok(Self { data, size, keys, samples, offsets, fields, columns })
    }
}

impl Column {
    /// Reads the values of samples `begin` to `end`.
    fn read(&self, begin: usize, end: usize, heaps: &mut Heaps<'_>) -> Result<Vec<Value>, Fail> {
        let mut values: Vec<Value> = match self.kind {
            TypeDescriptor::Integer(_) => {
                read::numbers(&self.values, begin, end)?.into_iter().map(Value::Int).collect()
            }
            TypeDescriptor::Float(_) => (read::numbers(&self.values, begin, end)?.into_iter())
                .map(|number| Value::float(number).unwrap_or(Value::Null))
                .collect(),
            // As bytes: another one than 0 and 1 would be no bool.
            TypeDescriptor::Boolean => (read::numbers::<i8>(&self.values, begin, end)?.into_iter())
                .map(|truth| Value::Bool(truth != 0))
                .collect(),
            _ => read::strings(&self.values, begin, end, heaps)?.into_iter().map(Value::String).collect(),
        };
        if let Some(nulls) = &self.nulls {
            let nulls = read::numbers::<u8>(nulls, begin, end)?;
            values
                .iter_mut()
                .zip(nulls)
                .filter(|(_, null)| *null != 0)
                .for_each(|(value, _)| *value = Value::Null);
        }
        Ok(values)
    }
}

/// Goes through the samples.
pub(super) fn scan(scan: &mut Scan<'_, '_, '_>, file: &File) -> Result<(), Fail> {
    let tables = Tables::open(scan, file)?;
    let mut heaps = scan.heaps()?;
    for begin in (0..tables.samples).step_by(BLOCK) {
        let end = tables.samples.min(begin + BLOCK);
        tables.block(scan, begin, end, &mut heaps)?;
    }
    Ok(())
}

impl Tables {
    /// Goes through samples `begin` to `end`.
    fn block(
        &self,
        scan: &mut Scan<'_, '_, '_>,
        begin: usize,
        end: usize,
        heaps: &mut Heaps<'_>,
    ) -> Result<(), Fail> {
        let keys = read::strings(&self.keys, begin, end, heaps)?;
        let columns: Result<Vec<_>, _> =
            self.columns.iter().map(|column| column.read(begin, end, heaps)).collect();
        let mut columns: Vec<_> = columns?.into_iter().map(Vec::into_iter).collect();
        // The number of the first field of each sample, and that after the last one.
        let firsts: Vec<usize> = match &self.fields {
            None => (begin..=end).collect(),
            Some((firsts, _)) => read::numbers::<usize>(firsts, begin, end + 1)?,
        };
        let (first, last) = (firsts[0], firsts[end - begin]);
        let payloads = read::len(&self.offsets)? - 1;
        if !firsts.is_sorted() || last > payloads {
            return Err(Fail::from(format!(
                "`sample_fields` of samples {begin} to {end} do not ascend, or exceed {payloads}"
            )));
        }
        let offsets = read::numbers::<u64>(&self.offsets, first, last + 1)?;
        let names = (self.fields.as_ref()).map(|(_, names)| read::strings(names, first, last, heaps));
        let names = names.transpose()?;
        for (key, range) in keys.iter().zip(firsts.windows(2)) {
            let values: Vec<_> = (self.columns.iter().zip(&mut columns))
                .filter_map(|(column, values)| Some((column.name.as_str(), values.next()?)))
                .filter(|(_, value)| *value != Value::Null)
                .collect();
            let fields: Result<Vec<_>, _> = (range[0]..range[1])
                .map(|number| {
                    let (offset, end) = (offsets[number - first], offsets[number - first + 1]);
                    let len = end.checked_sub(offset).filter(|_| end <= self.size);
                    let len =
                        len.ok_or_else(|| format!("payload {number} ends at {end} of {}", self.size))?;
                    let name =
                        names.as_ref().map_or(Ok(DATA), |names| str::from_utf8(&names[number - first]));
                    let name = name.map_err(|_| format!("the name of field {number} is not UTF-8"))?;
                    Ok::<_, String>(FoundField { name, offset: self.data.span(offset, end)?, len })
                })
                .collect();
            match fields {
                Ok(fields) => scan.sample(key, &fields, &values)?,
                Err(what) => {
                    scan.bad(0, format!("{}: {what}", encode_text(key, "")))?;
                }
            }
        }
        Ok(())
    }
}
