use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use packhorse_core::ValueKind;
use serde::{Deserialize, Serialize};

use crate::{Error, HashSplit, Result};

/// How a source becomes samples. What a kind of source has no use for is refused.
///
/// The fields that do not depend on the place can be stored with a pack, so that it is verified in the way it was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceOptions {
    /// Where classes come from; `None` for what is usual for the source: the top folder of trees, archives and lists of
    /// checksums; of other lists the column or label, where they have one.
    pub labels: Option<Labels>,
    /// Where splits come from; `None` for the column `split` of a list that has one.
    pub splits: Option<Splits>,
    /// The attribute whose hash, in place of that of the key, draws the split.
    pub split_by: Option<String>,
    /// How keys are made.
    pub key: KeyStyle,
    /// Whether files that share a path up to the first dot of the name are fields of one sample.
    pub group: bool,
    /// The fields that each sample must have, in any case of letters.
    pub require: Vec<String>,
    /// What happens to symbolic links.
    pub links: Links,
    /// Whether hidden files are taken in.
    pub hidden: bool,
    /// Which files to take; all where empty. See [`Rules::new`](crate::Rules::new).
    pub include: Vec<String>,
    /// Which files and folders to leave out.
    pub exclude: Vec<String>,
    /// How many folders are taken off the paths in archives.
    pub strip_components: usize,
    /// The column of a list that holds paths; `None` for one of the usual names.
    pub path_column: Option<String>,
    /// What is put after each path of a list, such as `.jpg`.
    pub path_suffix: String,
    /// Types of columns; the others of CSV and TSV are strings, those of JSONL what the values are.
    pub types: BTreeMap<String, ColumnType>,
    /// The folder that the paths of a list are relative to; `None` for the list's own.
    #[serde(skip)]
    pub root: Option<PathBuf>,
    /// What kind of source it is; `None` to tell by name and content.
    #[serde(skip)]
    pub format: Option<SourceFormat>,
}

impl SourceOptions {
    /// Refuses options that a kind of source has no use for.
    pub(crate) fn check(&self, format: SourceFormat) -> Result<()> {
        let table = matches!(format, SourceFormat::Csv | SourceFormat::Tsv | SourceFormat::Jsonl);
        let list = table || matches!(format, SourceFormat::Pairs | SourceFormat::Checksums);
        let archive = matches!(format, SourceFormat::Tar | SourceFormat::Zip);
        let column = match (&self.labels, &self.splits) {
            (Some(Labels::Column(column)), _) | (_, Some(Splits::Column(column))) => Some(column),
            _ => None,
        };
        let tables = "CSV, TSV and JSONL";
        let misplaced = match self {
            Self { group: true, .. } if format == SourceFormat::Container => {
                ("--group", "files: samples of containers have their fields")
            }
            _ if let Some(column) = column
                && !table =>
            {
                return Err(Error::Option(format!("{format} has no column {column}: {tables} have")));
            }
            Self { path_column: Some(_), .. } if !table => ("--path-column", tables),
            Self { types, .. } if !table && !types.is_empty() => ("--types", tables),
            Self { path_suffix, .. } if !list && !path_suffix.is_empty() => ("--path-suffix", "lists"),
            Self { root: Some(_), .. } if !list => {
                ("--root", "lists: paths of a folder or an archive are its own")
            }
            Self { strip_components: 1.., .. } if !archive => ("--strip-components", "archives"),
            _ => return Ok(()),
        };
        Err(Error::Option(format!("{} is for {}, this is {format}", misplaced.0, misplaced.1)))
    }
}

/// A kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceFormat {
    /// A folder.
    Folder,
    /// Comma-separated values with a header.
    Csv,
    /// Tab-separated values with a header.
    Tsv,
    /// A JSON object a line.
    Jsonl,
    /// Lines of path and label.
    Pairs,
    /// The output of `sha256sum`.
    Checksums,
    /// A tar archive, plain or compressed with gzip or zstd.
    Tar,
    /// A zip archive.
    Zip,
    /// A TFRecord, LMDB or HDF5 file, or a folder of them.
    Container,
}

impl fmt::Display for SourceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "a folder",
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Jsonl => "JSONL",
            Self::Pairs => "a list of paths and labels",
            Self::Checksums => "a list of checksums",
            Self::Tar => "a tar",
            Self::Zip => "a zip",
            Self::Container => "a container",
        })
    }
}

/// Where a sample's class comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Labels {
    /// The top folder, below that of the split; deeper folders belong to it.
    Folder,
    /// Samples have no class.
    None,
    /// A column of a list.
    Column(String),
}

/// Where a sample's split comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Splits {
    /// The top folder.
    Folder,
    /// Samples have no split.
    None,
    /// A column of a list.
    Column(String),
    /// A hash of the key, or of another attribute.
    Hash(HashSplit),
}

/// How keys are made of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyStyle {
    /// The path relative to the root.
    #[default]
    Path,
    /// The path without the folders of split and class, so that a move between classes changes an attribute and no key.
    Name,
}

/// What to do about symbolic links. Those in archives are always refused, unless they are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Links {
    /// Take what they lead to, inside the source or outside. A link to a folder that it lies in itself is not followed.
    #[default]
    Follow,
    /// Leave them out.
    Skip,
    /// Refuse them.
    Error,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named as the values")]
pub enum ColumnType {
    String,
    Int,
    Float,
    Bool,
}

impl From<ColumnType> for ValueKind {
    fn from(kind: ColumnType) -> Self {
        match kind {
            ColumnType::String => Self::String,
            ColumnType::Int => Self::Int,
            ColumnType::Float => Self::Float,
            ColumnType::Bool => Self::Bool,
        }
    }
}

impl FromStr for ColumnType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "string" | "str" => Ok(Self::String),
            "int" | "i64" => Ok(Self::Int),
            "float" | "f64" => Ok(Self::Float),
            "bool" => Ok(Self::Bool),
            _ => Err("a type is string, int, float or bool".into()),
        }
    }
}

impl FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("column:")) {
            ("folder", _) => Ok(Self::Folder),
            ("none", _) => Ok(Self::None),
            (_, Some(column)) if !column.is_empty() => Ok(Self::Column(column.into())),
            _ => Err("folder, none or column:NAME".into()),
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder => f.write_str("folder"),
            Self::None => f.write_str("none"),
            Self::Column(column) => write!(f, "column:{column}"),
        }
    }
}

impl FromStr for Splits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(shares) = text.strip_prefix("hash:") {
            return shares.parse().map(Self::Hash);
        }
        match text.parse() {
            Ok(Labels::Folder) => Ok(Self::Folder),
            Ok(Labels::None) => Ok(Self::None),
            Ok(Labels::Column(column)) => Ok(Self::Column(column)),
            Err(_) => Err("folder, none, column:NAME, hash:SHARE or hash:NAME=SHARE,NAME=SHARE".into()),
        }
    }
}

impl fmt::Display for Splits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder => f.write_str("folder"),
            Self::None => f.write_str("none"),
            Self::Column(column) => write!(f, "column:{column}"),
            Self::Hash(split) => write!(f, "hash:{split}"),
        }
    }
}

impl TryFrom<String> for Labels {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Labels> for String {
    fn from(labels: Labels) -> Self {
        labels.to_string()
    }
}

impl TryFrom<String> for Splits {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Splits> for String {
    fn from(splits: Splits) -> Self {
        splits.to_string()
    }
}
