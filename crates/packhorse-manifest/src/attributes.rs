use std::collections::{BTreeMap, BTreeSet};

use packhorse_core::{
    Attributes, Digest, Fields, KeyRef, MAX_SAMPLES, Malformed, Sha256, TreeHasher, Value, ValueKind,
    attribute_leaf, check_attribute_name, padding, put_zeros,
};
use sha2::Digest as _;

const MAGIC: &[u8; 8] = b"\x89PHA\r\n\x1a\n";
const VERSION: u16 = 1;
const HEADER: u64 = 64;
const COLUMN: u64 = 16;

/// Builds the attribute columns of one segment from its samples in key order.
#[derive(Debug)]
pub struct AttributesBuilder {
    names: Vec<String>,
    columns: Vec<Column>,
    tree: TreeHasher,
    keys: Sha256,
    count: u64,
}

#[derive(Debug, Default)]
struct Column {
    kind: Option<ValueKind>,
    /// Numbers for strings; the values' bits for the other types.
    cells: Vec<u64>,
    present: Vec<bool>,
    strings: BTreeMap<Box<[u8]>, u64>,
}

impl AttributesBuilder {
    /// Starts columns with these names, in byte order.
    pub fn new(names: &[String]) -> Self {
        Self {
            names: names.to_vec(),
            columns: names.iter().map(|_| Column::default()).collect(),
            tree: TreeHasher::new(),
            keys: Sha256::new(),
            count: 0,
        }
    }

    /// Adds the next sample; one value for each column.
    ///
    /// # Errors
    ///
    /// Returns the name of a column whose values so far have another type.
    pub fn push(&mut self, key: KeyRef<'_>, values: &[Value]) -> Result<(), String> {
        put_key(&mut self.keys, key);
        self.tree.push(attribute_leaf(key, Attributes { names: &self.names, values }));
        self.count += 1;
        for ((name, column), value) in self.names.iter().zip(&mut self.columns).zip(values) {
            if let Some(kind) = value.kind()
                && *column.kind.get_or_insert(kind) != kind
            {
                return Err(name.clone());
            }
            let fresh = column.strings.len() as u64;
            column.cells.push(match value {
                Value::Null => 0,
                Value::String(bytes) => match column.strings.get(bytes) {
                    Some(number) => *number,
                    None => *column.strings.entry(bytes.clone()).or_insert(fresh),
                },
                Value::Int(number) => number.cast_unsigned(),
                Value::Float(number) => number.to_bits(),
                Value::Bool(truth) => u64::from(*truth),
            });
            column.present.push(*value != Value::Null);
        }
        Ok(())
    }

    /// Ends the columns.
    pub fn finish(self) -> SegmentAttributes {
        let written: Vec<_> = self
            .names
            .iter()
            .zip(&self.columns)
            .filter_map(|(name, column)| Some((name, column, column.kind?)))
            .collect();
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 6]);
        out.extend(self.count.to_le_bytes());
        out.extend((written.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(Digest::finish(self.keys).0);
        for (name, column, kind) in written {
            let data = column.data(kind);
            out.extend((name.len() as u16).to_le_bytes());
            out.push(kind as u8);
            out.extend([0; 5]);
            out.extend((data.len() as u64).to_le_bytes());
            for part in [name.as_bytes(), &data] {
                out.extend_from_slice(part);
                put_zeros(&mut out, padding(part.len() as u64, 8));
            }
        }
        SegmentAttributes { digest: self.tree.root(), bytes: out }
    }
}

impl Column {
    fn data(&self, kind: ValueKind) -> Vec<u8> {
        let mut out = Vec::new();
        match kind {
            ValueKind::String => {
                let mut sorted = vec![0; self.strings.len()];
                for (new, old) in self.strings.values().enumerate() {
                    sorted[*old as usize] = new as u32;
                }
                let distinct = sorted.len() as u32;
                out.extend(distinct.to_le_bytes());
                out.extend([0; 4]);
                for (cell, present) in self.cells.iter().zip(&self.present) {
                    let number = if *present { sorted[*cell as usize] } else { distinct };
                    out.extend(number.to_le_bytes());
                }
                self.strings.keys().for_each(|text| out.extend((text.len() as u32).to_le_bytes()));
                self.strings.keys().for_each(|text| out.extend_from_slice(text));
            }
            ValueKind::Int | ValueKind::Float => {
                self.cells.iter().for_each(|cell| out.extend(cell.to_le_bytes()));
                for bits in self.present.chunks(8) {
                    out.push(bits.iter().enumerate().fold(0, |byte, (i, bit)| byte | u8::from(*bit) << i));
                }
            }
            ValueKind::Bool => {
                let cells = self.cells.iter().zip(&self.present);
                out.extend(cells.map(|(cell, present)| if *present { *cell as u8 } else { 2 }));
            }
        }
        out
    }
}

fn put_key(keys: &mut Sha256, key: KeyRef<'_>) {
    keys.update((key.as_bytes().len() as u32).to_le_bytes());
    keys.update(key.as_bytes());
}

/// Finished columns: the bytes of a `.pha` file and the segment's attribute digest.
#[derive(Debug)]
pub struct SegmentAttributes {
    /// The attribute digest.
    pub digest: Digest,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// A segment's attribute columns, read in place.
#[derive(Clone, Debug)]
pub struct AttributesView<'a> {
    samples: u64,
    keys: Digest,
    columns: Vec<ColumnView<'a>>,
}

#[derive(Clone, Debug)]
struct ColumnView<'a> {
    name: &'a str,
    kind: ValueKind,
    at: u64,
    data: &'a [u8],
    /// Where each string begins among the strings; empty unless that was asked for.
    starts: Vec<u64>,
}

impl<'a> AttributesView<'a> {
    /// Opens the columns.
    ///
    /// # Errors
    ///
    /// Says which part of the header or of a column's head is wrong, or that the length does not fit.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let fields = Fields(bytes);
        fields.magic(MAGIC, VERSION, 0)?;
        let (samples, count) = (fields.u64(16)?, fields.u32(24)?);
        fields.zeros(28, 4)?;
        if !(1..=MAX_SAMPLES).contains(&samples) {
            return Err(Malformed::new(16, format!("{samples} samples; 1 to {MAX_SAMPLES} are allowed")));
        }
        let keys = Digest(fields.array(32)?);
        let mut columns: Vec<ColumnView<'a>> = Vec::new();
        let mut at = HEADER;
        for _ in 0..count {
            let name_len = u64::from(fields.u16(at)?);
            let kind = match fields.array::<6>(at + 2)? {
                [1, 0, 0, 0, 0, 0] => ValueKind::String,
                [2, 0, 0, 0, 0, 0] => ValueKind::Int,
                [3, 0, 0, 0, 0, 0] => ValueKind::Float,
                [4, 0, 0, 0, 0, 0] => ValueKind::Bool,
                [kind, ..] => return Err(Malformed::new(at + 2, format!("unknown type {kind}"))),
            };
            let len = fields.u64(at + 8)?;
            let name_at = at + COLUMN;
            let name = std::str::from_utf8(fields.bytes(name_at, name_len)?).unwrap_or_default();
            check_attribute_name(name)
                .map_err(|what| Malformed::new(name_at, format!("a name has {what}")))?;
            if columns.last().is_some_and(|last| last.name >= name) {
                return Err(Malformed::new(name_at, "names are out of order"));
            }
            if matches!(name, "class" | "split") && kind != ValueKind::String {
                return Err(Malformed::new(at + 2, format!("{name} is a string")));
            }
            let data_at = name_at + name_len + padding(name_len, 8);
            fields.zeros(name_at + name_len, padding(name_len, 8))?;
            let data = fields.bytes(data_at, len)?;
            fields.zeros(data_at + len, padding(len, 8))?;
            columns.push(ColumnView { name, kind, at: data_at, data, starts: Vec::new() });
            at = data_at + len + padding(len, 8);
        }
        if at != bytes.len() as u64 {
            return Err(Malformed::new(at, "bytes that no column accounts for"));
        }
        Ok(Self { samples, keys, columns })
    }

    /// Finds where each string lies, for readers of many samples: [`AttributesView::get`] then costs the same for each,
    /// however many distinct strings there are. Takes one pass over their lengths, and eight bytes for each.
    ///
    /// # Errors
    ///
    /// Fails where the lengths of a column's strings do not fit it.
    pub fn indexed(mut self) -> Result<Self, Malformed> {
        for column in self.columns.iter_mut().filter(|column| column.kind == ValueKind::String) {
            let fields = Fields(column.data);
            let distinct = fields.u32(0).map_err(|what| what.shifted(column.at))?;
            let lengths = fields.bytes(8 + 4 * self.samples, 4 * u64::from(distinct));
            let lengths = lengths.map_err(|what| what.shifted(column.at))?.as_chunks::<4>().0;
            let mut start = 0;
            column.starts.extend(lengths.iter().map(|len| {
                let here = start;
                start += u64::from(u32::from_le_bytes(*len));
                here
            }));
        }
        Ok(self)
    }

    /// Returns the number of samples.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// Returns false: a segment has at least one sample.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Returns the digest over the keys of the segment that the columns were written for.
    pub fn keys(&self) -> Digest {
        self.keys
    }

    /// Returns the digest that [`AttributesView::keys`] has where the keys are these.
    pub fn digest_of_keys<'k>(keys: impl Iterator<Item = KeyRef<'k>>) -> Digest {
        let mut hasher = Sha256::new();
        keys.for_each(|key| put_key(&mut hasher, key));
        Digest::finish(hasher)
    }

    /// Returns the names of the columns, in byte order.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.columns.iter().map(|column| column.name)
    }

    /// Returns the value of sample `i` in the column `name`: null where there is no such column.
    ///
    /// # Errors
    ///
    /// Fails where there is no such sample, or the column is damaged.
    pub fn get(&self, name: &str, i: u64) -> Result<Value, Malformed> {
        if i >= self.samples {
            return Err(Malformed::new(16, format!("sample {i} of {}", self.samples)));
        }
        match self.columns.iter().find(|column| column.name == name) {
            None => Ok(Value::Null),
            Some(column) => column.get(i, self.samples).map_err(|what| what.shifted(column.at)),
        }
    }

    /// Returns the distinct strings of the column `name`.
    ///
    /// # Errors
    ///
    /// Fails where the column is damaged.
    pub fn distinct(&self, name: &str) -> Result<BTreeSet<Box<[u8]>>, Malformed> {
        let mut found = BTreeSet::new();
        if let Some(column) = self.columns.iter().find(|c| c.name == name && c.kind == ValueKind::String) {
            let distinct = u64::from(Fields(column.data).u32(0)?);
            for number in 0..distinct {
                let text =
                    column.text(number, distinct, self.samples).map_err(|what| what.shifted(column.at))?;
                found.insert(text.into());
            }
        }
        Ok(found)
    }

    /// Checks every byte against the keys of the segment; returns the attribute digest.
    ///
    /// # Errors
    ///
    /// Names the first byte that is wrong.
    pub fn check<'k>(
        &self,
        bytes: &[u8],
        keys: impl Iterator<Item = KeyRef<'k>>,
    ) -> Result<Digest, Malformed> {
        let names: Vec<_> = self.names().map(str::to_owned).collect();
        let view = self.clone().indexed()?;
        let mut again = AttributesBuilder::new(&names);
        let mut i = 0;
        for key in keys {
            let mut values = Vec::with_capacity(names.len());
            for name in &names {
                values.push(view.get(name, i)?);
            }
            again
                .push(key, &values)
                .map_err(|name| Malformed::new(HEADER, format!("mixed types in {name}")))?;
            i += 1;
        }
        if i != self.samples {
            return Err(Malformed::new(16, format!("{} samples, the index has {i}", self.samples)));
        }
        let again = again.finish();
        match again.bytes.iter().zip(bytes).position(|(right, here)| right != here) {
            None if again.bytes.len() == bytes.len() => Ok(again.digest),
            at => Err(Malformed::new(at.unwrap_or(0) as u64, "does not follow from the keys and values")),
        }
    }
}

impl ColumnView<'_> {
    fn get(&self, i: u64, n: u64) -> Result<Value, Malformed> {
        let fields = Fields(self.data);
        Ok(match self.kind {
            ValueKind::String => {
                let distinct = fields.u32(0)?;
                let number = fields.u32(8 + 4 * i)?;
                if number == distinct {
                    return Ok(Value::Null);
                }
                if number > distinct {
                    return Err(Malformed::new(8 + 4 * i, format!("string {number} of {distinct}")));
                }
                Value::string(self.text(u64::from(number), u64::from(distinct), n)?)
            }
            ValueKind::Int | ValueKind::Float => {
                let bits = fields.u64(8 * i)?;
                let [present] = fields.array(8 * n + i / 8)?;
                match (present >> (i % 8) & 1, self.kind) {
                    (0, _) => Value::Null,
                    (_, ValueKind::Int) => Value::Int(bits.cast_signed()),
                    _ => Value::float(f64::from_bits(bits)).ok_or_else(|| Malformed::new(8 * i, "NaN"))?,
                }
            }
            ValueKind::Bool => match fields.array(i)? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [2] => Value::Null,
                [byte] => return Err(Malformed::new(i, format!("boolean {byte}"))),
            },
        })
    }

    /// The bytes of string `number`. Costs a pass over the lengths before it, unless they were indexed.
    fn text(&self, number: u64, distinct: u64, n: u64) -> Result<&[u8], Malformed> {
        let fields = Fields(self.data);
        let before = match self.starts.get(number as usize) {
            Some(start) => *start,
            None => {
                let lengths = fields.bytes(8 + 4 * n, 4 * distinct)?.as_chunks::<4>().0;
                lengths.iter().take(number as usize).map(|len| u64::from(u32::from_le_bytes(*len))).sum()
            }
        };
        let start = 8 + 4 * n + 4 * distinct + before;
        fields.bytes(start, u64::from(fields.u32(8 + 4 * n + 4 * number)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(count: usize) -> Vec<packhorse_core::Key> {
        (0..count).map(|i| packhorse_core::Key::new(format!("{i:04}").into_bytes()).unwrap()).collect()
    }

    fn build(names: &[String], rows: &[Vec<Value>]) -> SegmentAttributes {
        let mut builder = AttributesBuilder::new(names);
        for (key, row) in keys(rows.len()).iter().zip(rows) {
            builder.push(key.as_ref(), row).unwrap();
        }
        builder.finish()
    }

    fn columns() -> Vec<String> {
        ["age", "class", "flag", "score"].map(str::to_owned).to_vec()
    }

    fn rows() -> impl Strategy<Value = Vec<Vec<Value>>> {
        let cell = |value: BoxedStrategy<Value>| prop_oneof![1 => Just(Value::Null), 3 => value];
        let row = (
            cell(any::<i64>().prop_map(Value::Int).boxed()),
            cell("[a-d]{0,2}".prop_map(Value::string).boxed()),
            cell(any::<bool>().prop_map(Value::Bool).boxed()),
            cell(any::<f64>().prop_filter_map("NaN", Value::float).boxed()),
        );
        prop::collection::vec(row.prop_map(|(a, b, c, d)| vec![a, b, c, d]), 1..40)
    }

    proptest! {
        #[test]
        fn values_come_back(rows in rows()) {
            let built = build(&columns(), &rows);
            let view = AttributesView::new(&built.bytes).unwrap();
            let indexed = view.clone().indexed().unwrap();
            for (i, row) in rows.iter().enumerate() {
                for (name, value) in columns().iter().zip(row) {
                    prop_assert_eq!(&view.get(name, i as u64).unwrap(), value);
                    prop_assert_eq!(&indexed.get(name, i as u64).unwrap(), value);
                }
            }
            let keys = keys(rows.len());
            prop_assert_eq!(view.check(&built.bytes, keys.iter().map(|k| k.as_ref())), Ok(built.digest));
        }

        #[test]
        fn a_flipped_bit_is_seen(rows in rows(), bit: prop::sample::Index) {
            let built = build(&columns(), &rows);
            let mut bad = built.bytes.clone();
            let bit = bit.index(bad.len() * 8);
            bad[bit / 8] ^= 1 << (bit % 8);
            let keys = keys(rows.len());
            let seen = AttributesView::new(&bad).and_then(|v| v.check(&bad, keys.iter().map(|k| k.as_ref())));
            prop_assert_ne!(seen, Ok(built.digest));
        }
    }

    #[test]
    fn an_empty_column_changes_nothing_and_mixed_types_are_refused() {
        let with = build(&["class".into(), "x".into()], &[vec![Value::string("a"), Value::Null]]);
        let without = build(&["class".into()], &[vec![Value::string("a")]]);
        assert_eq!((with.digest, with.bytes), (without.digest, without.bytes));
        let mut builder = AttributesBuilder::new(&["x".into()]);
        let keys = keys(2);
        builder.push(keys[0].as_ref(), &[Value::Int(1)]).unwrap();
        assert_eq!(builder.push(keys[1].as_ref(), &[Value::string("1")]), Err("x".into()));
    }
}
