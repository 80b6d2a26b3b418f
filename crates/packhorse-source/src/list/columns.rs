use std::collections::BTreeMap;
use std::path::Path;

use packhorse_core::{Value, check_attribute_name, path_text};

use crate::{ColumnType, Error, Labels, Result, SourceOptions, Splits};

/// Names that columns of paths usually have.
const PATHS: [&str; 9] =
    ["path", "file_name", "filename", "filepath", "file_path", "file", "image", "image_path", "img"];
/// Names that columns of classes usually have.
const CLASSES: [&str; 4] = ["class", "label", "category", "class_name"];

/// The most columns of a list.
pub(super) const MOST: usize = 4096;

/// What the columns of a list are.
#[derive(Debug)]
pub(super) struct Columns {
    /// The number of the column of paths.
    pub(super) path: usize,
    /// The columns that are attributes.
    pub(super) used: Vec<Column>,
    /// What is worth a line: columns with other names, and without one.
    pub(super) remarks: Vec<String>,
}

/// A column that is an attribute.
#[derive(Debug)]
pub(super) struct Column {
    /// Its number in the list.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) kind: ColumnType,
    pub(super) attribute: String,
}

impl Columns {
    /// Sorts the columns of a header into path, class, split and other attributes. `kind` gives the type of a column that
    /// the options do not.
    pub(super) fn new(
        list: &Path,
        header: &[String],
        options: &SourceOptions,
        kind: &dyn Fn(usize) -> ColumnType,
    ) -> Result<Self> {
        let wrong = |what: String| Error::Option(format!("{}: {what}", path_text(list)));
        if header.len() > MOST {
            return Err(wrong(format!("{} columns are more than {MOST}", header.len())));
        }
        let all = || header.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        let find = |name: &str| {
            let exact = header.iter().position(|column| column == name);
            exact.or_else(|| header.iter().position(|column| column.eq_ignore_ascii_case(name)))
        };
        // A name in other letters is taken where it can mean one column alone.
        let asked = |name: &str, option: &str| {
            let alike = header.iter().filter(|column| column.eq_ignore_ascii_case(name)).count();
            let exact = header.iter().filter(|column| *column == name).count();
            match find(name) {
                Some(_) if exact > 1 || (exact == 0 && alike > 1) => {
                    Err(wrong(format!("{option} {name}: several columns have that name, in {}", all())))
                }
                Some(number) => Ok(number),
                None => Err(wrong(format!("{option} {name}: the list has only the columns {}", all()))),
            }
        };
        let path = match &options.path_column {
            Some(name) => asked(name, "--path-column")?,
            None => PATHS.iter().find_map(|name| find(name)).ok_or_else(|| {
                let why = match header {
                    [one] if one.contains(';') => "columns are separated by commas, not by semicolons",
                    [one] if one.contains('\t') => "columns are separated by tabs: it is TSV, see --from",
                    _ => "name it with --path-column; a list needs a header",
                };
                wrong(format!("no column is named like one of paths, in {}: {why}", all()))
            })?,
        };
        let class = match &options.labels {
            Some(Labels::Column(name)) => Some(asked(name, "--labels column:")?),
            Some(Labels::Folder | Labels::None) => None,
            None => CLASSES.iter().find_map(|name| find(name)),
        };
        let mut remarks = Vec::new();
        if class.is_none() && options.labels.is_none() {
            remarks.push(format!(
                "no column is named {}: samples have no class (--labels column:NAME, or --labels folder)",
                CLASSES.join(", ")
            ));
        }
        let split = match &options.splits {
            Some(Splits::Column(name)) => Some(asked(name, "--split column:")?),
            Some(Splits::Folder | Splits::None | Splits::Hash(_)) => None,
            None => find("split"),
        };
        for (what, column) in [("--labels", class), ("--split", split)] {
            if column == Some(path) {
                return Err(wrong(format!("{what} column:{}: that is the column of paths", header[path])));
            }
        }
        if let Some(both) = class.filter(|_| class == split) {
            return Err(wrong(format!("the column {:?} cannot be both class and split", header[both])));
        }
        for number in [Some(path), class, split].into_iter().flatten() {
            let again = |other: &String| header[number].eq_ignore_ascii_case(other);
            if header.iter().filter(|other| again(other)).count() > 1 {
                return Err(wrong(format!("two columns are named {:?}, in {}", header[number], all())));
            }
        }
        let mut types: BTreeMap<usize, ColumnType> = BTreeMap::new();
        for (name, kind) in &options.types {
            let number = asked(name, "--types")?;
            if number == path {
                return Err(wrong(format!("--types {name}: that is the column of paths")));
            }
            if types.insert(number, *kind).is_some() {
                return Err(wrong(format!("--types names the column {} twice", header[number])));
            }
        }
        let mut columns = Self { path, used: Vec::new(), remarks };
        for (number, name) in header.iter().enumerate().filter(|(number, _)| *number != path) {
            let is = |column: Option<usize>| column == Some(number);
            let attribute = match name {
                _ if is(class) => "class".to_owned(),
                _ if is(split) => "split".to_owned(),
                name if name.trim().is_empty() => {
                    columns.remarks.push(format!("column {} has no name and is left out", number + 1));
                    continue;
                }
                name => attribute_name(name),
            };
            let unwanted = (attribute == "class" && options.labels == Some(Labels::None))
                || (attribute == "split" && options.splits == Some(Splits::None));
            if unwanted {
                columns.remarks.push(format!("column {name} is left out, as the options say"));
                continue;
            }
            if attribute != *name && !is(class) && !is(split) {
                columns.remarks.push(format!("column {name:?} is the attribute {attribute}"));
            }
            check_attribute_name(&attribute)
                .map_err(|rule| wrong(format!("column {name:?} cannot name an attribute: {rule}")))?;
            if let Some(other) = columns.used.iter().find(|other| other.attribute == attribute) {
                let what = format!(
                    "the columns {:?} and {name:?} would both be the attribute {attribute}",
                    other.name
                );
                return Err(wrong(what));
            }
            let text = attribute == "class" || attribute == "split";
            let kind = match types.get(&number) {
                Some(kind) if text && *kind != ColumnType::String => {
                    return Err(wrong(format!("--types {name}: {attribute} is always a string")));
                }
                Some(kind) => *kind,
                None if text => ColumnType::String,
                None => kind(number),
            };
            columns.used.push(Column { number, name: name.clone(), kind, attribute });
        }
        Ok(columns)
    }
}

impl Columns {
    /// Returns the attribute that an option names, by itself or by its column; what names none as it is.
    ///
    /// # Errors
    ///
    /// Fails where the name can mean several.
    pub(super) fn attribute_of(&self, name: &str) -> Result<String> {
        let by = |same: &dyn Fn(&Column) -> bool| -> Vec<&Column> {
            self.used.iter().filter(|column| same(column)).collect()
        };
        for found in [
            by(&|column| column.attribute == name),
            by(&|column| column.name == name),
            by(&|column| column.name.eq_ignore_ascii_case(name)),
        ] {
            match found.as_slice() {
                [] => {}
                [one] => return Ok(one.attribute.clone()),
                [a, b, ..] => {
                    return Err(Error::Option(format!(
                        "{name} can be the column {:?} or {:?}",
                        a.name, b.name
                    )));
                }
            }
        }
        Ok(name.to_owned())
    }
}

/// Puts an underscore in the place of what no attribute's name has.
fn attribute_name(column: &str) -> String {
    let mut name = String::new();
    for c in column.trim().chars() {
        let good = c.is_ascii_graphic() && !matches!(c, '=' | ',' | '%');
        match good {
            true => name.push(c),
            false if name.ends_with('_') => {}
            false => name.push('_'),
        }
    }
    name
}

/// Reads a cell. An empty one has no value.
pub(super) fn value(kind: ColumnType, text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let value = match kind {
        ColumnType::String => Some(Value::string(text)),
        ColumnType::Int => text.trim().parse().ok().map(Value::Int),
        ColumnType::Float => float(text.trim()).and_then(Value::float),
        ColumnType::Bool => match &*text.trim().to_ascii_lowercase() {
            "true" | "1" => Some(Value::Bool(true)),
            "false" | "0" => Some(Value::Bool(false)),
            _ => None,
        },
    };
    value.ok_or_else(|| {
        let kind = match kind {
            ColumnType::String => "string",
            ColumnType::Int => "whole number of 64 bits",
            ColumnType::Float => "number",
            ColumnType::Bool => "true or false",
        };
        format!("{text:?} is no {kind}")
    })
}

/// Reads a number; `None` where it is too large, which is not the infinity that some write as `inf`.
fn float(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() || !text.contains(|c: char| c.is_ascii_digit())).then_some(number)
}
