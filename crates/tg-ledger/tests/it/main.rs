//! Tests of the public interface of `tg-ledger`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod answers;
mod attacks;
mod auction;
mod audit;
mod blocks;
mod committees;
mod delivery;
mod dispute;
mod due;
mod endpoint;
mod equivocation;
mod fault;
mod gangs;
mod gas;
mod golden;
mod journal;
mod lanes;
mod lifecycle;
mod limits;
mod market;
mod markets;
#[path = "../../../tg-types/tests/it/mutations.rs"]
mod mutations;
mod negative;
mod optimistic;
mod prices;
mod property;
mod records;
mod refusals;
mod rent;
mod replicas;
mod retention;
mod scenarios;
mod sealed;
mod seats;
mod seeds;
mod served;
mod sessions;
mod sharing;
mod storage;
mod sync;
mod ties;
mod timeouts;
mod upgrade;
mod verdicts;
mod voter;
mod whole;
mod world;

/// Property tests draw the same cases in every run, so a failure is reproduced by running it again.
fn config(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x1ed6),
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}
