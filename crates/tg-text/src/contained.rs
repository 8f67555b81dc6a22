//! The one place where a panic of the library is caught.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the library gives, or its error or panic in words.
///
/// `layout` refuses what is known to make it panic or grow without bound; the library has further places that index by what a file
/// says (the tables of `Precompiled` among them), and a file of a stranger may end an input, not the program. Nothing is used
/// after a panic but what was there before: the library changes no state of a tokenizer while it encodes or decodes.
pub(crate) fn contained<T, E: std::fmt::Display>(
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("it is malformed in a way that its reader does not expect".to_owned()),
    }
}
