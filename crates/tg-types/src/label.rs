//! Short text that strangers choose and terminals show.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::limits::LABEL_BYTES_MAX;

/// At most 64 bytes of UTF-8 without control characters, so that it cannot drive a terminal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Label(String);

/// Why a text is no label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// Too many bytes.
    #[error("a label has at most 64 bytes, this one has {length}")]
    TooLong {
        /// How many bytes were given.
        length: usize,
    },
    /// A control character.
    #[error("a label has no control characters, this one has U+{character:04X}")]
    Control {
        /// The first one.
        character: u32,
    },
}

impl Label {
    /// A label from a text.
    ///
    /// # Errors
    /// If the text is too long or has control characters.
    pub fn new(text: &str) -> Result<Self, LabelError> {
        if text.len() > LABEL_BYTES_MAX {
            return Err(LabelError::TooLong { length: text.len() });
        }
        match text.chars().find(|character| character.is_control()) {
            Some(character) => Err(LabelError::Control {
                character: u32::from(character),
            }),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// A label from any text: control characters become spaces, and it is cut at a character border.
    #[must_use]
    pub fn lossy(text: &str) -> Self {
        let mut label = String::new();
        for character in text.chars() {
            let character = if character.is_control() {
                ' '
            } else {
                character
            };
            if label.len() + character.len_utf8() > LABEL_BYTES_MAX {
                break;
            }
            label.push(character);
        }
        Self(label)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl Encode for Label {
    fn encode(&self, writer: &mut Writer) {
        writer.str(&self.0);
    }
}

impl Decode for Label {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let text = reader.str("label", LABEL_BYTES_MAX)?;
        Self::new(text).map_err(|error| DecodeError::Invalid {
            field: "label",
            value: match error {
                LabelError::TooLong { length } => length as u64,
                LabelError::Control { character } => u64::from(character),
            },
        })
    }
}
