//! Seeds that must pass, and do the same when they are run again.

use tg_sim::{SimOptions, SimPlan, run};

/// Runs a seed twice.
fn check(seed: u64) {
    let plan = SimPlan::drawn(seed);
    let first = run(&plan, SimOptions::default());
    assert!(first.violations.is_empty(), "{plan}{:?}", first.violations);
    let second = run(&plan, SimOptions::default());
    assert_eq!(first.hash, second.hash, "runs of seed {seed} differ");
}

#[test]
fn seed_0_passes_twice() {
    check(0);
}
