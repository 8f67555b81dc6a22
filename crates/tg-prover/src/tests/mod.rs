//! Honest proofs verify; everything else is refused by the check that stops it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod batch;
mod chains;
mod cheat;
mod codings;
mod cost;
mod every;
mod facts;
pub(crate) mod fuzz;
mod hidden;
mod honest;
mod isolate;
mod linear;
mod maximum;
mod models;
pub(crate) mod mutate;
mod private;
mod programs;
pub(crate) mod pushforwards;
mod random;
mod registration;
mod relations;
mod resume;
pub(crate) mod sections;
mod sequence;
mod statement;
mod sums;
mod ties;
mod tokens;
mod trees;
mod values;
pub(crate) mod zk;
