#![allow(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod committee;
mod crowds;
mod leaves;
mod matching;
mod pruning;
mod random;
mod rent;
mod starvation;
mod stored;
mod tables;
mod trees;
