//! Folders that `save_pretrained` wrote give what transformers computes, and malformed ones are refused.
#![allow(clippy::unwrap_used, reason = "tests")]

mod folders;
mod refused;
