//! Integration tests of the profile.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::field_reassign_with_default,
    reason = "tests"
)]

mod assembler;
mod claims;
mod hostile;
mod programs;
mod random;
mod trace;
