//! Entries for fuzzing.

/// Any bytes as the body of each OpenAI route that reads one, as the file of a batch, and as a query.
pub fn openai_body(bytes: &[u8]) {
    crate::openai::read_any(bytes);
}

/// Any bytes as a form of files.
pub fn openai_form(bytes: &[u8]) {
    crate::openai::read_form(bytes);
}
