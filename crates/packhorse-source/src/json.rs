use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

/// A JSON object in which no name is there twice: libraries differ in which of the two they take.
#[derive(Debug)]
pub struct JsonObject<V>(
    /// The values, by name.
    pub BTreeMap<String, V>,
);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for JsonObject<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Names<V> {
            type Value = JsonObject<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut object = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, V>()? {
                    if object.insert(name.clone(), value).is_some() {
                        return Err(A::Error::custom(format_args!("{name:?} is there twice")));
                    }
                }
                Ok(JsonObject(object))
            }
        }

        from.deserialize_map(Names(PhantomData))
    }
}
