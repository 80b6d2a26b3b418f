//! `tf.train.Example` in protocol buffers: a map of names and features, each of which is a list of one value.

/// Wire types.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_tag(out: &mut Vec<u8>, field: u64, wire: u64) {
    put_varint(out, field << 3 | wire);
}

/// The head of a part of a message that is `len` bytes long.
fn head(field: u64, len: u64) -> Vec<u8> {
    let mut head = Vec::new();
    put_tag(&mut head, field, LENGTH);
    put_varint(&mut head, len);
    head
}

/// The head of the example around features of `len` bytes: `Example.features`.
pub(crate) fn wrap(len: u64) -> Vec<u8> {
    head(1, len)
}

/// All that precedes the last `len` bytes of an entry of the map, which are the value itself. `kind` is the number of the
/// list in `Feature`, `value` the head of the value in it.
fn entry_head(name: &str, kind: u64, value: &[u8], len: u64) -> Vec<u8> {
    let list = value.len() as u64 + len;
    let list_head = head(kind, list);
    let feature = list_head.len() as u64 + list;
    let feature_head = head(2, feature);
    let mut key = head(1, name.len() as u64);
    key.extend(name.bytes());
    let entry = key.len() as u64 + feature_head.len() as u64 + feature;
    [&head(1, entry)[..], &key, &feature_head, &list_head, value].concat()
}

/// What precedes the bytes of a feature of bytes.
pub(crate) fn bytes_head(name: &str, len: u64) -> Vec<u8> {
    entry_head(name, 1, &head(1, len), len)
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    out.extend(bytes_head(name, bytes.len() as u64));
    out.extend(bytes);
}

pub(crate) fn put_int(out: &mut Vec<u8>, name: &str, number: i64) {
    let mut value = Vec::new();
    put_varint(&mut value, number.cast_unsigned());
    let mut tag = Vec::new();
    put_tag(&mut tag, 1, VARINT);
    out.extend(entry_head(name, 3, &tag, value.len() as u64));
    out.extend(value);
}

pub(crate) fn put_float(out: &mut Vec<u8>, name: &str, number: f32) {
    // Packed, as floats of a list are.
    out.extend(entry_head(name, 2, &head(1, 4), 4));
    out.extend(number.to_le_bytes());
}
