//! The lists of values in an Example.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BytesList {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(crate) value: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FloatList {
    #[prost(float, repeated, tag = "1")]
    pub(crate) value: Vec<f32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct IntList {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) value: Vec<i64>,
}
