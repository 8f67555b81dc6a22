//! The agent against the API in front of the real ledger; proofs are made and verified for real.
#![allow(clippy::unwrap_used, reason = "tests")]

mod agent;
mod endpoint;
#[path = "../../../tg-api/tests/it/grid.rs"]
#[expect(dead_code, reason = "the API's own tests use the rest")]
mod grid;
mod session;
