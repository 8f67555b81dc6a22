//! Texts give the tokens that Hugging Face's `tokenizers` 0.23.3 for Python gives, and malformed files are refused.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "seeds are read under --nocapture")]

mod drawn;
mod encode;
mod files;
mod refused;
mod templates;
