use std::fmt;

use crate::{decode_text, encode_text};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A string: UTF-8 wherever its source is; a folder's name may be any bytes.
    String(Box<[u8]>),
    /// A 64-bit integer.
    Int(i64),
    /// A number that is not NaN; zero has no sign.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

/// The type of a value that is not null, by its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "named as the values")]
pub enum ValueKind {
    String = 1,
    Int = 2,
    Float = 3,
    Bool = 4,
}

const ALSO: &str = " ,=:";

impl Value {
    /// Makes a string value.
    pub fn string(bytes: impl AsRef<[u8]>) -> Self {
        Self::String(bytes.as_ref().into())
    }

    /// Makes a float value; `None` for NaN. -0 becomes 0.
    pub fn float(number: f64) -> Option<Self> {
        (!number.is_nan()).then_some(Self::Float(number + 0.0))
    }

    /// Returns the value's type, or `None` for null.
    pub fn kind(&self) -> Option<ValueKind> {
        match self {
            Self::Null => None,
            Self::String(_) => Some(ValueKind::String),
            Self::Int(_) => Some(ValueKind::Int),
            Self::Float(_) => Some(ValueKind::Float),
            Self::Bool(_) => Some(ValueKind::Bool),
        }
    }

    /// Returns the bytes of a string.
    pub fn as_string(&self) -> Option<&[u8]> {
        match self {
            Self::String(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Appends the type byte and the value, as they are hashed.
    pub(crate) fn put_canonical(&self, out: &mut Vec<u8>) {
        let Some(kind) = self.kind() else { return };
        out.push(kind as u8);
        match self {
            Self::Null => {}
            Self::String(bytes) => {
                out.extend((bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Self::Int(number) => out.extend(number.to_le_bytes()),
            Self::Float(number) => out.extend(number.to_bits().to_le_bytes()),
            Self::Bool(truth) => out.push(u8::from(*truth)),
        }
    }

    /// Reads the form that `Display` writes.
    pub fn from_text(text: &str) -> Option<Self> {
        let value = match text.split_once(':') {
            None => Self::String(
                match text.strip_prefix("%2D") {
                    Some(rest) => [b"-", decode_text(rest, ALSO)?.as_slice()].concat(),
                    None => decode_text(text, ALSO)?,
                }
                .into(),
            ),
            Some(("i", digits)) => Self::Int(digits.parse().ok()?),
            Some(("f", digits)) => Self::float(digits.parse().ok()?)?,
            Some(("b", truth)) => Self::Bool(truth.parse().ok()?),
            Some(_) => return None,
        };
        (value.to_string() == text).then_some(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::String(bytes) => match bytes.strip_prefix(b"-") {
                Some(rest) => write!(f, "%2D{}", encode_text(rest, ALSO)),
                None => f.write_str(&encode_text(bytes, ALSO)),
            },
            Self::Int(number) => write!(f, "i:{number}"),
            Self::Float(number) => write!(f, "f:{number}"),
            Self::Bool(truth) => write!(f, "b:{truth}"),
        }
    }
}

/// The attributes of one sample: names in byte order, beside their values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// The names, in byte order.
    pub names: &'a [String],
    /// A value for each name.
    pub values: &'a [Value],
}

impl<'a> Attributes<'a> {
    /// Returns the attributes that are not null, in order.
    pub fn present(self) -> impl Iterator<Item = (&'a str, &'a Value)> + Clone {
        self.names.iter().map(String::as_str).zip(self.values).filter(|(_, value)| **value != Value::Null)
    }

    /// Returns the value of `name`, or `None` where it is null.
    pub fn get(self, name: &str) -> Option<&'a Value> {
        self.present().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// Reads the form that `Display` writes, as pairs.
    pub fn from_text(text: &str) -> Option<Vec<(String, Value)>> {
        if text == "-" {
            return Some(Vec::new());
        }
        let mut pairs: Vec<(String, Value)> = Vec::new();
        for pair in text.split(',') {
            let (name, value) = pair.split_once('=')?;
            check_attribute_name(name).ok()?;
            if pairs.last().is_some_and(|(last, _)| last.as_str() >= name) {
                return None;
            }
            pairs.push((name.to_owned(), Value::from_text(value)?));
        }
        Some(pairs)
    }
}

impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (name, value) in self.present() {
            write!(f, "{}{name}={value}", if first { "" } else { "," })?;
            first = false;
        }
        if first { f.write_str("-") } else { Ok(()) }
    }
}

/// The rule for names of attributes, for messages.
pub const ATTRIBUTE_NAME: &str = "1 to 255 visible ASCII characters without '=', ',' and '%'";

/// Checks the name of an attribute.
///
/// # Errors
///
/// Returns [`ATTRIBUTE_NAME`].
pub fn check_attribute_name(name: &str) -> Result<(), &'static str> {
    let good = |b: u8| b.is_ascii_graphic() && !matches!(b, b'=' | b',' | b'%');
    if (1..=255).contains(&name.len()) && name.bytes().all(good) { Ok(()) } else { Err(ATTRIBUTE_NAME) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<Vec<u8>>().prop_map(Value::string),
            "[-:=, %a-z0-9]{0,6}".prop_map(Value::string),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_filter_map("NaN", Value::float),
            any::<bool>().prop_map(Value::Bool),
        ]
    }

    proptest! {
        #[test]
        fn text_form_comes_back(values in prop::collection::vec(value(), 0..4)) {
            let names: Vec<_> = (0..values.len()).map(|i| format!("n{i}")).collect();
            let text = Attributes { names: &names, values: &values }.to_string();
            prop_assert!(!text.contains(' '));
            let pairs: Vec<_> = names.into_iter().zip(values).collect();
            prop_assert_eq!(Attributes::from_text(&text), Some(pairs));
        }
    }

    #[test]
    fn labels_that_look_like_numbers_stay_text() {
        for text in ["007", "7", "1e5", "NaN", "NA", "null", "1", "1.0", "true", ""] {
            assert_eq!(Value::from_text(text), Some(Value::string(text)));
        }
        assert_eq!(Value::from_text("i:007"), None);
        assert_eq!(Value::float(f64::NAN), None);
        assert_eq!(Value::float(-0.0).map(|v| v.to_string()).as_deref(), Some("f:0"));
    }
}
