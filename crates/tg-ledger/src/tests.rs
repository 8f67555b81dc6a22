#![allow(clippy::unwrap_used, reason = "tests")]

mod matching;
mod pruning;
mod tables;
mod trees;
