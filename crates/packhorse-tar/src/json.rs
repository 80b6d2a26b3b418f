use packhorse_core::{Attributes, KeyRef, Value, encode_text};

/// Returns the attributes as a JSON object in byte order of names, with the key where that is asked for; `None` where
/// there is nothing to say.
pub(crate) fn text(attributes: &Attributes<'_>, key: Option<KeyRef<'_>>) -> Option<String> {
    let mut object = serde_json::Map::new();
    for (name, value) in attributes.names.iter().zip(attributes.values) {
        let value = match value {
            Value::Null => continue,
            Value::String(bytes) => text_of(bytes).into(),
            Value::Int(number) => (*number).into(),
            // JSON has no infinity.
            Value::Float(number) if !number.is_finite() => number.to_string().into(),
            Value::Float(number) => (*number).into(),
            Value::Bool(truth) => (*truth).into(),
        };
        object.insert(name.clone(), value);
    }
    if let Some(key) = key {
        object.insert("__packhorse_key__".into(), text_of(key.as_bytes()).into());
    }
    (!object.is_empty()).then(|| serde_json::Value::Object(object).to_string())
}

/// UTF-8 as it is; other bytes in the text form of keys.
fn text_of(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| encode_text(bytes, "").into_owned(), str::to_owned)
}
