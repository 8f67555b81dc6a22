//! Folders that `save_pretrained` wrote give what transformers computes, and malformed ones are refused.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    clippy::print_stdout,
    reason = "differences and seeds are read under --nocapture"
)]

mod folders;
mod refused;
