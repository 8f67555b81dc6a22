//! Entries for fuzzing.

use crate::tokenizer::{Text, TextTokenizer};
use crate::tokens::TextLength;

/// Texts that reach most of a tokenizer: words, accents, digits, spaces, controls, scripts without spaces.
const TEXTS: [&str; 4] = [
    "Hello, world! it's 1234 lower-newest",
    "  \u{e9}te\u{301} \u{fdfa}\u{3000}\t\n x",
    "\u{6771}\u{4eac} \u{1f600}\u{200d}\u{1f600} <s>[CLS]</s>",
    "a",
];

/// Any bytes as a `tokenizer.json`; what it makes of texts, and texts of what it makes.
pub fn tokenizer(bytes: &[u8]) {
    let Ok(tokenizer) = TextTokenizer::read(bytes) else {
        return;
    };
    for first in TEXTS {
        for second in [None, Some(TEXTS[0])] {
            let text = Text { first, second };
            for length in [
                TextLength::Own,
                TextLength::AtMost(3),
                TextLength::Exactly(9),
            ] {
                if let Ok(tokens) = tokenizer.encode(text, length) {
                    let _text = tokenizer.decode(&tokens.ids);
                }
            }
        }
    }
}
