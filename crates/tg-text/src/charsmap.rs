//! `precompiled_charsmap`: the table of a `Precompiled` normaliser, checked before the library reads it.
//!
//! In base64: the bytes of a trie (u32), the trie, then the texts that characters are replaced by, each ended by a zero byte.

/// Most bytes that stand for one character.
pub(crate) const REPLACEMENT_BYTES_MAX: usize = 64;

/// What is wrong with a table, if something is.
pub(crate) fn problem(text: &str) -> Option<&'static str> {
    let Some(bytes) = decoded(text) else {
        return Some("is not base64");
    };
    let size = bytes
        .first_chunk::<4>()
        .map(|size| u32::from_le_bytes(*size) as usize);
    let Some(texts) = size.and_then(|size| bytes.get(4 + size / 4 * 4..)) else {
        return Some("is shorter than it says");
    };
    let long = |text: &[u8]| text.len() > REPLACEMENT_BYTES_MAX;
    if texts.split(|byte| *byte == 0).any(long) {
        return Some("replaces a character by more than 64 bytes");
    }
    None
}

/// The bytes of a text in base64, padded or not.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').bytes();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read() {
        assert_eq!(decoded("Zm9vYmFy").as_deref(), Some(&b"foobar"[..]));
        assert_eq!(decoded("Zm9vYg==").as_deref(), Some(&b"foob"[..]));
        assert_eq!(decoded(""), Some(Vec::new()));
        assert_eq!(decoded("Zm9v*"), None);
    }

    #[test]
    fn tables_that_are_too_short_or_replace_too_much_are_refused() {
        assert_eq!(problem("AAAAAAAA"), None);
        assert_eq!(problem("AA=="), Some("is shorter than it says"));
        // A trie of 2^32 - 1 bytes, which the library would make room for.
        assert_eq!(problem("/////w=="), Some("is shorter than it says"));
        let long = format!("AAAAAA{}", "YWFh".repeat(30));
        assert_eq!(
            problem(&long),
            Some("replaces a character by more than 64 bytes")
        );
        assert_eq!(problem("?"), Some("is not base64"));
    }
}
