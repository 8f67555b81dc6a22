//! JSON of strangers: how much memory its values may take is known before one of them is made.
//!
//! Seven bytes, `{"":0},`, become a node of 632 bytes in a `serde_json::Value`, so that a bound of bytes is none of memory. One pass over
//! the bytes counts what would be made of them; what is beyond a [`JsonLimit`] is refused unread.

use serde::Deserialize;

/// Most memory of an object: the first node of its tree, and its place in what holds it.
const OBJECT_BYTES: usize = 680;

/// Most memory of a further field: nodes of a tree are at least five elevenths full.
const FIELD_BYTES: usize = 144;

/// Most memory of an array: four places, and its own in what holds it.
const ARRAY_BYTES: usize = 160;

/// Most memory of a further item of an array, which has up to twice the places of its items.
const ITEM_BYTES: usize = 64;

/// Memory of a text beside its bytes.
const TEXT_BYTES: usize = 32;

/// Deepest nesting that any limit allows: which containers are open is a bit for each.
const DEPTH_MAX: u32 = 64;

/// How much a text of JSON may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimit {
    /// Most objects and arrays inside each other, at most 64.
    pub depth: u32,
    /// Most values: objects, arrays and their items.
    pub values: usize,
    /// Most bytes of memory that the values may take.
    pub memory_bytes: usize,
}

impl JsonLimit {
    /// Of the body of a request: a list of 256 Ki tokens, or 20,000 messages.
    pub const REQUEST: Self = Self {
        depth: DEPTH_MAX,
        values: 1 << 18,
        memory_bytes: 24 << 20,
    };

    /// Of the body of a provider's answer, of at most 1.5 MiB: a vector for each of many texts among them.
    pub const ANSWER: Self = Self {
        depth: DEPTH_MAX,
        values: 1 << 19,
        memory_bytes: 48 << 20,
    };

    /// Of a piece of an answer, or of a refusal of a provider's server.
    pub const PIECE: Self = Self {
        depth: 16,
        values: 1 << 12,
        memory_bytes: 1 << 20,
    };
}

/// Why a text of JSON is not read.
#[derive(Debug, thiserror::Error)]
pub enum JsonRefusal {
    /// It is nested too deeply.
    #[error("its objects and lists are nested more than {limit} deep: nest them less")]
    Depth {
        /// The limit.
        limit: u32,
    },
    /// It has too many values.
    #[error("it has more than {limit} values: send it in several requests")]
    Values {
        /// The limit.
        limit: usize,
    },
    /// Its values take too much memory.
    #[error(
        "its values may take more than {limit} bytes of memory: send fewer objects and lists at once"
    )]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// It is none, or none of the type that is read.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
}

/// Reads a text of JSON that keeps within a limit.
///
/// # Errors
/// What is beyond the limit, or where it is no JSON of this type.
pub fn read_json<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    limit: &JsonLimit,
) -> Result<T, JsonRefusal> {
    check(bytes, limit)?;
    Ok(serde_json::from_slice(bytes)?)
}

/// What was counted of a text of JSON so far.
#[derive(Debug, Default)]
struct JsonCount {
    depth: u32,
    /// For each open container, the innermost last, whether it is an object.
    objects: u64,
    values: usize,
    memory: usize,
}

impl JsonCount {
    fn open(&mut self, is_object: bool) {
        self.depth += 1;
        self.objects = self.objects << 1 | u64::from(is_object);
        self.add(if is_object { OBJECT_BYTES } else { ARRAY_BYTES });
    }

    fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.objects >>= 1;
    }

    fn next_item(&mut self) {
        let is_object = self.objects & 1 == 1;
        self.add(if is_object { FIELD_BYTES } else { ITEM_BYTES });
    }

    fn add(&mut self, memory: usize) {
        self.values += 1;
        self.memory = self.memory.saturating_add(memory);
    }

    fn fits(&self, limit: &JsonLimit) -> Result<(), JsonRefusal> {
        let depth = limit.depth.min(DEPTH_MAX);
        if self.depth > depth {
            return Err(JsonRefusal::Depth { limit: depth });
        }
        if self.values > limit.values {
            let limit = limit.values;
            return Err(JsonRefusal::Values { limit });
        }
        if self.memory > limit.memory_bytes {
            let limit = limit.memory_bytes;
            return Err(JsonRefusal::Memory { limit });
        }
        Ok(())
    }
}

/// Counts a text of JSON. Of what is none, at least as much is counted as a reader makes before it sees that.
fn check(bytes: &[u8], limit: &JsonLimit) -> Result<(), JsonRefusal> {
    let mut count = JsonCount::default();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => {
                let end = end_of_text(bytes, at);
                count.memory = count.memory.saturating_add(end - at + TEXT_BYTES);
                at = end;
            }
            b'{' => count.open(true),
            b'[' => count.open(false),
            b'}' | b']' => count.close(),
            b',' => count.next_item(),
            _ => continue,
        }
        count.fits(limit)?;
    }
    Ok(())
}

/// Where a text ends that begins at `at`: after its closing quotation mark.
fn end_of_text(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'\\' => at += 1,
            b'"' => break,
            _ => {}
        }
    }
    at.min(bytes.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn refusal(text: &str) -> JsonRefusal {
        read_json::<Value>(text.as_bytes(), &JsonLimit::REQUEST).unwrap_err()
    }

    /// The body of 4 MiB that would take 400 MB.
    #[test]
    fn many_small_objects_are_refused_before_they_are_made() {
        let text = format!("[{}0]", "{\"\":0},".repeat((4 << 20) / 7));
        assert!(matches!(refusal(&text), JsonRefusal::Memory { .. }));
        let lists = format!("[{}0]", "[0],".repeat(1 << 20));
        assert!(matches!(refusal(&lists), JsonRefusal::Memory { .. }));
        let numbers = format!("[{}0]", "0,".repeat(1 << 20));
        assert!(matches!(refusal(&numbers), JsonRefusal::Values { .. }));
        let deep = "[".repeat(65);
        assert!(matches!(refusal(&deep), JsonRefusal::Depth { limit: 64 }));
        for broken in ["{", "\"", "\"\\", "]]]]", "}", ""] {
            assert!(
                matches!(refusal(broken), JsonRefusal::Syntax(_)),
                "{broken}"
            );
        }
    }

    #[test]
    fn bodies_of_the_api_are_read() {
        let tokens: Vec<u32> = (0..200_000).collect();
        let messages = vec![json!({"role": "user", "content": "[{,\"\\"}); 10_000];
        let long = "x".repeat(4 << 20);
        for body in [json!(tokens), json!(messages), json!(long), json!({})] {
            let text = body.to_string();
            let read: Value = read_json(text.as_bytes(), &JsonLimit::REQUEST).unwrap();
            assert_eq!(read, body);
        }
    }

    /// What is in a text counts as its bytes, whatever they are.
    #[test]
    fn texts_end_where_a_reader_ends_them() {
        for (text, end) in [
            ("a\"b", 2),
            ("\\\"\"", 3),
            ("\\\\\"", 3),
            ("", 0),
            ("\\", 1),
        ] {
            assert_eq!(end_of_text(text.as_bytes(), 0), end, "{text}");
        }
    }
}
