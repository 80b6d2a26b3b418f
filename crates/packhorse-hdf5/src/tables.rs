use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hdf5::dataset::{AllocTime, FillTime};
use hdf5::types::VarLenUnicode;
use hdf5::{Dataset, DatasetBuilder, Group, H5Type, LocationType};
use packhorse_core::{DATA, Ends, FileEnds, StreamSample, Value, encode_text, open_regular};

use crate::ffi;
use crate::raw::Heaps;
use crate::read::{self, BLOCK, said};

/// The version of the layout, in the attribute [`FORMAT`] of the root.
pub(crate) const VERSION: i64 = 1;
pub(crate) const FORMAT: &str = "packhorse_format";

/// The tables of a file: all that is in it beside the payloads.
#[derive(Debug, Default)]
pub struct Tables {
    classes: Vec<Box<[u8]>>,
    class_numbers: Vec<i64>,
    keys: Vec<Box<[u8]>>,
    labels: Vec<i64>,
    /// Where each payload begins, but for the first; the last is the size of all.
    ends: Vec<u64>,
    attributes: BTreeMap<String, Column>,
    sample_fields: Vec<u64>,
    field_names: Vec<Box<[u8]>>,
    /// Whether some sample is not one file.
    named: bool,
}

/// The values of an attribute, with one in place of each null.
#[derive(Debug)]
struct Column {
    values: Values,
    nulls: Vec<u8>,
}

#[derive(Debug)]
enum Values {
    Strings(Vec<Box<[u8]>>),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Bools(Vec<bool>),
}

impl Column {
    fn new(value: &Value) -> Option<Self> {
        let values = match value {
            Value::Null => return None,
            Value::String(_) => Values::Strings(Vec::new()),
            Value::Int(_) => Values::Ints(Vec::new()),
            Value::Float(_) => Values::Floats(Vec::new()),
            Value::Bool(_) => Values::Bools(Vec::new()),
        };
        Some(Self { values, nulls: Vec::new() })
    }

    /// Adds a value of sample `number`, and nulls for those that are missing before it; `false` where it is of another type.
    fn push(&mut self, number: usize, value: &Value) -> bool {
        self.fill(number);
        match (&mut self.values, value) {
            (Values::Strings(all), Value::String(one)) => all.push(one.clone()),
            (Values::Ints(all), Value::Int(one)) => all.push(*one),
            (Values::Floats(all), Value::Float(one)) => all.push(*one),
            (Values::Bools(all), Value::Bool(one)) => all.push(*one),
            _ => return false,
        }
        self.nulls.push(0);
        true
    }

    fn fill(&mut self, len: usize) {
        self.nulls.resize(len, 1);
        match &mut self.values {
            Values::Strings(all) => all.resize(len, Box::default()),
            Values::Ints(all) => all.resize(len, 0),
            Values::Floats(all) => all.resize(len, 0.0),
            Values::Bools(all) => all.resize(len, false),
        }
    }
}

/// A dataset beside the payloads.
#[derive(Clone, Copy)]
enum Table<'t> {
    Strings(&'t [Box<[u8]>]),
    Ints(&'t [i64]),
    Places(&'t [u64]),
    Floats(&'t [f64]),
    Bools(&'t [bool]),
    Nulls(&'t [u8]),
}

impl Tables {
    /// Starts the tables of a file; `classes` are all there are, by number.
    pub fn new(classes: &[(u32, Box<[u8]>)]) -> Self {
        Self {
            classes: classes.iter().map(|(_, name)| name.clone()).collect(),
            class_numbers: classes.iter().map(|(number, _)| i64::from(*number)).collect(),
            ends: vec![0],
            sample_fields: vec![0],
            ..Self::default()
        }
    }

    fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Returns the datasets, in the order in which they are written.
    fn all(&self) -> Vec<(Cow<'static, str>, Table<'_>)> {
        let mut all: Vec<(Cow<'static, str>, _)> = vec![
            ("keys".into(), Table::Strings(&self.keys)),
            ("offsets".into(), Table::Places(&self.ends)),
            ("labels".into(), Table::Ints(&self.labels)),
            ("classes".into(), Table::Strings(&self.classes)),
            ("class_numbers".into(), Table::Ints(&self.class_numbers)),
        ];
        if self.named {
            all.push(("sample_fields".into(), Table::Places(&self.sample_fields)));
            all.push(("field_names".into(), Table::Strings(&self.field_names)));
        }
        for (name, column) in &self.attributes {
            let name = link_name(name);
            let table = match &column.values {
                Values::Strings(all) => Table::Strings(all),
                Values::Ints(all) => Table::Ints(all),
                Values::Floats(all) => Table::Floats(all),
                Values::Bools(all) => Table::Bools(all),
            };
            all.push((format!("attributes/{name}").into(), table));
            if column.nulls.contains(&1) {
                all.push((format!("nulls/{name}").into(), Table::Nulls(&column.nulls)));
            }
        }
        all
    }

    /// Writes a file that has all but the payloads; returns where these begin.
    fn write(&self, path: &Path) -> hdf5::Result<Option<u64>> {
        let file = ffi::create(path)?;
        file.new_attr::<i64>().create(FORMAT)?.write_scalar(&VERSION)?;
        for (name, table) in self.all() {
            table.write(&file, &name)?;
        }
        // Allocated, but not written: the file is sparse there.
        let data = (builder(&file).alloc_time(Some(AllocTime::Early)).fill_time(FillTime::Never))
            .empty::<u8>()
            .shape(self.size() as usize)
            .create(DATA)?;
        let begin = data.offset();
        drop(data);
        file.close()?;
        Ok(begin)
    }

    /// Makes the ends of the file, with one at `scratch` that is not removed.
    fn make(&self, scratch: &Path) -> Result<Ends, String> {
        let begin = self.write(scratch).map_err(said)?;
        let cut = |error: io::Error| format!("cannot read what libhdf5 wrote: {error}");
        let file = File::open(scratch).map_err(cut)?;
        let len = file.metadata().map_err(cut)?.len();
        let begin = match begin {
            Some(begin) => begin,
            // Nothing has no place.
            None if self.size() == 0 => len,
            None => return Err("libhdf5 gave the dataset `data` no place".into()),
        };
        let read = |from: u64, to: u64| {
            let mut bytes = vec![0; to.saturating_sub(from) as usize];
            file.read_exact_at(&mut bytes, from).map(|()| bytes).map_err(cut)
        };
        Ok(Ends { head: read(0, begin)?, tail: read(begin + self.size(), len)? })
    }

    /// Compares the tables of a file, whatever bytes they take.
    fn compare_content(&self, path: &Path, begin: u64) -> Result<(), String> {
        let file = ffi::open(path).map_err(said)?;
        let format = file.attr(FORMAT).and_then(|attr| attr.read_scalar::<i64>()).map_err(said)?;
        if format != VERSION {
            return Err(format!("the attribute `{FORMAT}` is {format}, not {VERSION}"));
        }
        let data = file.dataset(DATA).map_err(said)?;
        let place = read::span(&data, self.size())?;
        if self.size() > 0 && place != begin {
            return Err(format!("`data` begins at byte {place}, not at {begin}"));
        }
        let all = self.all();
        let mut expected: Vec<_> = all.iter().map(|(name, _)| name.to_string()).collect();
        expected.push(DATA.into());
        expected.sort();
        let mut found = Vec::new();
        members(&file, "", &mut found)?;
        found.sort();
        if let Some(name) = expected.iter().find(|name| !found.contains(name)) {
            return Err(format!("`{name}` is missing"));
        }
        if let Some(name) = found.iter().find(|name| !expected.contains(name)) {
            return Err(format!("`{name}` is more than there should be"));
        }
        let bytes = open_regular(path).map_err(|error| format!("cannot open it: {error}"))?;
        let mut heaps = Heaps::new(&bytes).map_err(|error| format!("cannot read it: {error}"))?;
        all.into_iter().try_for_each(|(name, table)| {
            let set = file.dataset(&name).map_err(said)?;
            table.compare(&set, &mut heaps).map_err(|what| format!("`{name}`: {what}"))
        })
    }
}

impl FileEnds for Tables {
    fn push(&mut self, sample: &StreamSample<'_>) -> Result<(), String> {
        check(sample)?;
        let number = self.keys.len();
        for (name, value) in sample.attributes.present() {
            if !self.attributes.contains_key(name)
                && let Some(column) = Column::new(value)
            {
                self.attributes.insert(name.to_owned(), column);
            }
            if self.attributes.get_mut(name).is_some_and(|column| !column.push(number, value)) {
                return Err(format!("its attribute {name} is of another type than those before it"));
            }
        }
        for field in sample.fields {
            let end = self.size().checked_add(field.size).filter(|end| i64::try_from(*end).is_ok());
            self.ends.push(end.ok_or("the payloads of its file are more than 2^63 bytes")?);
            self.field_names.push(field.name.as_bytes().into());
        }
        self.named |= !matches!(sample.fields, [field] if field.name == DATA);
        self.sample_fields.push(self.ends.len() as u64 - 1);
        self.labels.push(sample.label.map_or(-1, i64::from));
        self.keys.push(sample.key.as_bytes().into());
        let len = self.keys.len();
        self.attributes.values_mut().for_each(|column| column.fill(len));
        Ok(())
    }

    fn finish(self: Box<Self>, scratch: &Path) -> Result<Ends, String> {
        let made = self.make(scratch);
        let _ = fs::remove_file(scratch);
        made
    }

    fn compare(self: Box<Self>, path: &Path, payloads: Range<u64>, scratch: &Path) -> Result<bool, String> {
        if payloads.end.checked_sub(payloads.start) != Some(self.size()) {
            return Err(format!("the payloads lie at {payloads:?}, and are {} bytes", self.size()));
        }
        let made = self.make(scratch);
        let _ = fs::remove_file(scratch);
        match made?.compare(path, &payloads) {
            Ok(()) => Ok(true),
            // Another libhdf5 places things elsewhere.
            Err(_) => self.compare_content(path, payloads.start).map(|()| false),
        }
    }
}

impl Table<'_> {
    fn write(self, group: &Group, name: &str) -> hdf5::Result<()> {
        match self {
            Self::Ints(all) => numbers(group, name, all),
            Self::Places(all) => numbers(group, name, all),
            Self::Floats(all) => numbers(group, name, all),
            Self::Bools(all) => numbers(group, name, all),
            Self::Nulls(all) => numbers(group, name, all),
            Self::Strings(all) => {
                let texts: Option<Vec<&str>> = all.iter().map(|one| str::from_utf8(one).ok()).collect();
                match texts {
                    Some(texts) => strings(group, name, &texts, |text| {
                        text.parse().unwrap_or_else(|_| VarLenUnicode::new())
                    }),
                    None => strings(group, name, all, |one| ffi::bytes(one)),
                }
            }
        }
    }

    fn compare(self, set: &Dataset, heaps: &mut Heaps<'_>) -> Result<(), String> {
        match self {
            Self::Ints(all) => same(set, all),
            Self::Places(all) => same(set, all),
            Self::Floats(all) => same(set, all),
            Self::Bools(all) => same(set, all),
            Self::Nulls(all) => same(set, all),
            Self::Strings(all) => {
                let found = read::strings(set, 0, same_len(set, all)?, heaps);
                difference(&found.map_err(|fail| fail.to_string())?, all)
            }
        }
    }
}

fn builder(group: &Group) -> DatasetBuilder {
    group.new_dataset_builder().no_chunk().obj_track_times(false)
}

fn numbers<T: H5Type>(group: &Group, name: &str, all: &[T]) -> hdf5::Result<()> {
    builder(group).with_data(all).create(name).map(|_| ())
}

/// Writes strings some at a time, because each is copied for libhdf5.
fn strings<S, T: H5Type>(group: &Group, name: &str, all: &[S], copy: impl Fn(&S) -> T) -> hdf5::Result<()> {
    let set = builder(group).empty::<T>().shape(all.len()).create(name)?;
    for (number, block) in all.chunks(BLOCK).enumerate() {
        let begin = number * BLOCK;
        let copies: Vec<T> = block.iter().map(&copy).collect();
        set.write_slice(&copies, begin..begin + block.len())?;
    }
    Ok(())
}

fn same<T: H5Type + PartialEq>(set: &Dataset, expected: &[T]) -> Result<(), String> {
    let descriptor = set.dtype().and_then(|datatype| datatype.to_descriptor()).map_err(said)?;
    if descriptor != T::type_descriptor() {
        return Err(format!("is of type {descriptor}, not {}", T::type_descriptor()));
    }
    difference(&read::numbers::<T>(set, 0, same_len(set, expected)?)?, expected)
}

fn same_len<T>(set: &Dataset, expected: &[T]) -> Result<usize, String> {
    match read::len(set)? {
        len if len == expected.len() => Ok(len),
        len => Err(format!("has {len} entries, not {}", expected.len())),
    }
}

fn difference<T: PartialEq>(found: &[T], expected: &[T]) -> Result<(), String> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("entry {at} is another")),
    }
}

/// Lists the datasets of a group and of those in it, as paths.
fn members(group: &Group, path: &str, all: &mut Vec<String>) -> Result<(), String> {
    for name in group.member_names().map_err(said)? {
        let member = format!("{path}{name}");
        match group.loc_type_by_name(&name).map_err(said)? {
            LocationType::Group if path.is_empty() => {
                members(&group.group(&name).map_err(said)?, &format!("{member}/"), all)?;
            }
            _ => all.push(member),
        }
    }
    Ok(())
}

/// Checks that HDF5 can hold the attributes of a sample.
pub(crate) fn check(sample: &StreamSample<'_>) -> Result<(), String> {
    let zero = |value: &Value| value.as_string().is_some_and(|bytes| bytes.contains(&0));
    match sample.attributes.present().find(|(_, value)| zero(value)) {
        None => Ok(()),
        Some((name, _)) => Err(format!("its attribute {name} has a zero byte: strings of HDF5 end there")),
    }
}

/// Writes the name of an attribute as that of a dataset: `/` and `.` are not names in HDF5.
pub(crate) fn link_name(name: &str) -> Cow<'_, str> {
    if name == "." { "%2E".into() } else { encode_text(name.as_bytes(), "/") }
}
