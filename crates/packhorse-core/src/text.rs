use std::borrow::Cow;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Writes bytes as text: the bytes of `%`, of control characters (also those of Unicode and those that change the
/// direction of text), those that are not UTF-8 and the ASCII characters of `also` become `%` and two upper-case
/// hexadecimal digits.
pub fn encode_text<'a>(bytes: &'a [u8], also: &str) -> Cow<'a, str> {
    let escaped = |c: char| c == '%' || steers(c) || also.contains(c);
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.contains(escaped)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    let escape = |out: &mut String, byte: u8| {
        // Writing into a String cannot fail.
        let _ = write!(out, "%{byte:02X}");
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match escaped(c) {
                true => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(&mut out, byte)),
                false => out.push(c),
            }
        }
        for &byte in chunk.invalid() {
            escape(&mut out, byte);
        }
    }
    Cow::Owned(out)
}

/// Returns whether a character steers a terminal or the order of the text around it, instead of being text.
fn steers(c: char) -> bool {
    let order = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    c.is_control()
        || order.contains(&c)
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// Writes a path for people to read: in text form, so that no name can steer a terminal or break a line.
pub fn path_text(path: &Path) -> Cow<'_, str> {
    encode_text(path.as_os_str().as_bytes(), "")
}

/// Reads what [`encode_text`] wrote with the same `also`; `None` where it would not have written this.
pub fn decode_text(text: &str, also: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            rest = tail;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    (encode_text(&out, also) == text).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_forms() {
        assert_eq!(encode_text("é a/漢.png".as_bytes(), ""), "é a/漢.png");
        assert_eq!(encode_text(b"100%\n\xff\x7f", ""), "100%25%0A%FF%7F");
        assert_eq!(encode_text(b"a b", " "), "a%20b");
        assert_eq!(encode_text("\u{9b}2J\u{202e}x".as_bytes(), ""), "%C2%9B2J%E2%80%AEx");
        for wrong in ["%", "%4", "%41", "%0a", "%zz", "a\n", "%+1"] {
            assert_eq!(decode_text(wrong, ""), None, "{wrong:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>) {
            let text = encode_text(&bytes, " ,=:").into_owned();
            assert!(!text.contains(|c: char| c.is_ascii_control() || " ,=:".contains(c)));
            assert_eq!(decode_text(&text, " ,=:"), Some(bytes));
        }
    }
}
