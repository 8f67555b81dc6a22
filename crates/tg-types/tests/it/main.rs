//! Tests of the public interface of `tg-types`.
#![allow(clippy::unwrap_used, reason = "tests")]

mod amounts;
mod certificates;
mod chunks;
mod codec;
mod finality;
mod golden;
mod heartbeats;
mod mutations;
mod negative;
mod reader;
mod samples;
mod signatures;
mod trusted;
mod uploads;
mod verdicts;
mod voter;
mod words;

/// Property tests draw the same cases in every run, so a failure is reproduced by running it again.
fn config(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases,
        rng_seed: proptest::test_runner::RngSeed::Fixed(0x7e45),
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    }
}
