use std::collections::BTreeMap;

use packhorse_core::{Value, check_attribute_name};

use super::features::{Features, Place, Scalar};

/// Features that may be the payload; the first of them counts.
const PAYLOADS: [&str; 8] = [ENCODED, "image", "image_raw", "img", "jpg", "jpeg", "png", "data"];
const ENCODED: &str = "image/encoded";

/// Features that may be the key; the first of them counts.
const KEYS: [&str; 4] = [FILE_NAME, "filename", "__key__", "key"];
const FILE_NAME: &str = "image/filename";

const CLASS: &str = "class";
const CLASS_TEXT: &str = "image/class/text";
const CLASS_LABEL: &str = "image/class/label";

/// Features that say what the payload or another feature says, and so are no attributes.
const SAID: [&str; 8] = [
    FILE_NAME,
    CLASS_TEXT,
    CLASS_LABEL,
    "image/channels",
    "image/colorspace",
    "image/format",
    "image/height",
    "image/width",
];

/// What an Example says of a sample.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) key: Option<Box<[u8]>>,
    /// `None` where no feature is known to be the payload.
    pub(super) payload: Option<Place>,
    pub(super) attributes: BTreeMap<String, Value>,
}

impl Parts {
    pub(super) fn new(mut features: Features) -> Self {
        let (payload, label) = match payload(&features) {
            // Its number is `image/class/label`; so `label` is another attribute.
            Some((ENCODED, place)) => (Some(place), None),
            Some((_, place)) => (Some(place), Some("label")),
            None => (None, Some("label")),
        };
        features.retain(|_, value| !matches!(value, Scalar::Bytes { place, .. } if Some(*place) == payload));
        let key = KEYS.iter().find_map(|name| match features.get(*name)? {
            Scalar::Bytes { bytes: Some(bytes), .. } if !bytes.is_empty() => Some((*name, bytes.clone())),
            _ => None,
        });
        let key = key.map(|(name, key)| {
            features.remove(name);
            key
        });
        let class = [CLASS_TEXT, CLASS].into_iter().find_map(|name| features.remove(name)?.into_value());
        let class = class.or_else(|| {
            [Some(CLASS_LABEL), label].into_iter().flatten().find_map(|name| match features.get(name)? {
                Scalar::Int(number) => {
                    let number = number.to_string();
                    features.remove(name);
                    Some(Value::string(number))
                }
                _ => None,
            })
        });
        let mut attributes: BTreeMap<_, _> = features
            .into_iter()
            .filter(|(name, _)| !SAID.contains(&name.as_str()) && check_attribute_name(name).is_ok())
            .filter_map(|(name, value)| Some((name, value.into_value()?)))
            .collect();
        attributes.extend(class.map(|class| (CLASS.to_owned(), class)));
        Self { key, payload, attributes }
    }
}

/// Returns the feature that is the payload.
fn payload(features: &Features) -> Option<(&str, Place)> {
    let place = |value: &Scalar| match value {
        Scalar::Bytes { place, .. } => Some(*place),
        _ => None,
    };
    if let Some(found) = PAYLOADS.iter().find_map(|name| Some((*name, place(features.get(*name)?)?))) {
        return Some(found);
    }
    let other = |name: &str| KEYS.contains(&name) || SAID.contains(&name) || name == CLASS;
    let mut bytes = features
        .iter()
        .filter(|(name, _)| !other(name))
        .filter_map(|(name, value)| Some((name.as_str(), place(value)?)));
    bytes.next().filter(|_| bytes.next().is_none())
}

impl Scalar {
    /// Returns the value of an attribute; `None` for NaN, and for bytes that are too long.
    fn into_value(self) -> Option<Value> {
        match self {
            Self::Bytes { bytes, .. } => bytes.map(Value::String),
            Self::Float(number) => Value::float(number.into()),
            Self::Int(number) => Some(Value::Int(number)),
        }
    }
}

/// Returns a value as a string, for attributes whose values have several types.
pub(super) fn text(value: &Value) -> Value {
    match value {
        Value::Int(number) => Value::string(number.to_string()),
        // Files have 32 bits: more would be told with more digits.
        Value::Float(number) => Value::string((*number as f32).to_string()),
        _ => value.clone(),
    }
}
