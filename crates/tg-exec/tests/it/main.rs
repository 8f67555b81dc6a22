//! The vectors of the protocol document, and tiles of executions.

mod tiles;
mod vectors;

#[test]
fn the_document_is_what_the_code_does() {
    vectors::check_document(&mut |_, _, _, _| {});
}
