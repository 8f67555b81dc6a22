//! What a model costs a validator at most: the worst that a search found, measured again.
//!
//! `cargo run --release -p tg-node --example hardest -- SECONDS [SEED] [FOLDER]` searches. [`program`] says what a list of
//! genes stands for, [`measure`] what a validator does with it, [`allocations`] counts bytes.

pub(crate) mod allocations;
pub(crate) mod measure;
pub(crate) mod program;
