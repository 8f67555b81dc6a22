//! Text to tokens and back, as a `tokenizer.json` of Hugging Face says.
//!
//! [`TextTokenizer::read`] takes the bytes of the file: BPE, WordPiece, Unigram or WordLevel with their normalisers, splitters, special
//! tokens and decoders. The crate `tokenizers`, which wrote the format, does the work; this one makes it safe for files of
//! strangers. [`ChatTemplate`] makes a text of a conversation, in the form that a model was trained on. A file is checked before it is used (`layout`), texts are bounded, and a panic of the library is an error
//! (`contained`). Tokens are the same on every machine: a file that draws them by chance is refused.
//!
//! ```
//! use tg_text::{Text, TextLength, TextTokenizer};
//!
//! let file = r#"{"model": {"type": "WordLevel", "vocab": {"no": 0, "yes": 1}, "unk_token": "no"},
//!     "pre_tokenizer": {"type": "Whitespace"}}"#;
//! let tokenizer = TextTokenizer::read(file.as_bytes())?;
//! let tokens = tokenizer.encode(Text::of("yes no yes"), TextLength::Own)?;
//! assert_eq!(tokens.ids, [1, 0, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod charsmap;
mod contained;
mod layout;
mod template;
mod tokenizer;
mod tokens;

#[doc(hidden)]
pub mod fuzz;

pub use layout::{FILE_BYTES_MAX, LayoutError};
pub use template::{ChatLine, ChatTemplate, TEMPLATE_BYTES_MAX, TEMPLATE_STEPS_MAX, TemplateError};
pub use tokenizer::{TEXT_BYTES_MAX, Text, TextError, TextTokenizer, TokenizerError};
pub use tokens::{PadRule, PadSide, TextLength, TextTokens};
