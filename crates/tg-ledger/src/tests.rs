#![allow(clippy::unwrap_used, reason = "tests")]

mod pruning;
mod tables;
mod trees;
