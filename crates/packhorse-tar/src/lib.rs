#![doc = include_str!("../README.md")]

mod header;
mod json;

use packhorse_core::{DATA, Ends, FileEnds, KeyRef, Stream, StreamSample, padding};

use crate::header::{BLOCK, member, put_header};

/// The tar container.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tar {
    /// How members are named.
    pub names: Names,
}

/// How members are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// As their keys are, and refused where WebDataset would read them as something else.
    #[default]
    Keys,
    /// Dots in the file's name become underscores, and its last extension follows: `a/b.c.jpg` is `a/b_c_jpg.jpg`. The
    /// attributes have the key.
    Safe,
}

/// The end mark of a tar.
static END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

impl Tar {
    /// Returns the name that WebDataset gives to the sample, and by which its members are named.
    fn base<'k>(self, key: &'k [u8], has_fields: bool) -> Result<std::borrow::Cow<'k, [u8]>, String> {
        let start = key.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
        let name = &key[start..];
        let dot = name.iter().position(|&b| b == b'.');
        match (self.names, dot) {
            (Names::Safe, _) => {
                let mut safe = key.to_vec();
                safe[start..].iter_mut().filter(|b| **b == b'.').for_each(|b| *b = b'_');
                Ok(safe.into())
            }
            (Names::Keys, Some(0)) => Err("begins with a dot: WebDataset passes over it".into()),
            (Names::Keys, None) if has_fields => Ok(key.into()),
            (Names::Keys, None) => Err("has no extension: WebDataset passes over it".into()),
            (Names::Keys, Some(_)) if has_fields => Err("has a dot: WebDataset ends the key there".into()),
            (Names::Keys, Some(dot)) => match name[dot + 1..].contains(&b'.') {
                true => Err("has several dots: WebDataset ends the key at the first one".into()),
                false if dot + 1 == name.len() => Err("ends with a dot: its kind has no name".into()),
                false => Ok(key[..start + dot].into()),
            },
        }
    }

    /// Returns the kind, the part after the dot, of a sample's only file.
    fn kind(key: &[u8]) -> &[u8] {
        let name = key.rsplit(|&b| b == b'/').next().unwrap_or(key);
        match name.iter().rposition(|&b| b == b'.').map(|dot| &name[dot + 1..]) {
            None | Some(b"") => b"bin",
            Some(kind) => kind,
        }
    }
}

impl Stream for Tar {
    fn name(&self) -> &'static str {
        "tar"
    }

    fn options(&self) -> u8 {
        match self.names {
            Names::Keys => 0,
            Names::Safe => 1,
        }
    }

    fn with_options(&self, options: u8) -> Option<Box<dyn Stream>> {
        let names = match options {
            0 => Names::Keys,
            1 => Names::Safe,
            _ => return None,
        };
        Some(Box::new(Self { names }))
    }

    fn file_name(&self, number: u32, _of: u32) -> String {
        format!("data-{number:06}.tar")
    }

    fn mend(&self) -> &'static str {
        match self.names {
            Names::Keys => "--safe-names gives it another name there",
            Names::Safe => "rename the file",
        }
    }

    fn reading_name<'k>(&self, key: KeyRef<'k>, has_fields: bool) -> std::borrow::Cow<'k, [u8]> {
        self.base(key.as_bytes(), has_fields).unwrap_or(key.as_bytes().into())
    }

    fn frame(&self, sample: &StreamSample<'_>) -> Result<Vec<Vec<u8>>, String> {
        let key = sample.key.as_bytes();
        let single = matches!(sample.fields, [field] if field.name == DATA);
        let base = self.base(key, !single)?;
        let taken = |name: &str| match single {
            true => Self::kind(key).eq_ignore_ascii_case(name.as_bytes()),
            false => sample.fields.iter().any(|field| field.name.eq_ignore_ascii_case(name)),
        };
        let named = |kind: &[u8]| [&base, &b"."[..], kind].concat();
        let mut pieces = Vec::with_capacity(sample.fields.len() + 1);
        let mut piece = Vec::new();
        for field in sample.fields {
            let kind = if single { Self::kind(key) } else { field.name.as_bytes() };
            put_header(&mut piece, &named(kind), field.size)?;
            pieces.push(std::mem::take(&mut piece));
            piece.resize(padding(field.size, BLOCK as u64) as usize, 0);
        }
        // A field of the sample's own is what its readers expect under that name.
        if let Some(label) = sample.label.filter(|_| !taken("cls")) {
            member(&mut piece, &named(b"cls"), label.to_string().as_bytes())?;
        }
        let original = (self.names == Names::Safe).then_some(sample.key);
        if let Some(text) = json::text(sample.attributes, original) {
            let kind = if taken("json") { "attributes.json" } else { "json" };
            member(&mut piece, &named(kind.as_bytes()), text.as_bytes())?;
        }
        pieces.push(piece);
        Ok(pieces)
    }

    fn ends(&self, _classes: &[(u32, Box<[u8]>)]) -> Box<dyn FileEnds> {
        Box::new(Ends { head: Vec::new(), tail: END.to_vec() })
    }
}
