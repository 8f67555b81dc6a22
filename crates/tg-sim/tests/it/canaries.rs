//! Mistakes that the checks must find. Those made outside the code under test are found at a known seed in every build; with
//! the feature `canary` all of them are looked for, from seed 0 on.

use tg_sim::{Canary, SimOptions, SimPlan, run};

/// Seeds within which every mistake must be found.
const SEEDS_MAX: u64 = 1_000;

/// The first seed from `from` on at which a mistake breaks a rule that holds without it, and the rule.
fn found(canary: Canary, from: u64, seeds: u64) -> Option<(u64, &'static str)> {
    (from..from + seeds).find_map(|seed| {
        let options = SimOptions {
            canary: Some(canary),
            ..SimOptions::default()
        };
        let report = run(&SimPlan::drawn(seed), options);
        let first = report.violations.first();
        first.map(|it| (seed, it.rule))
    })
}

/// In the first seed a validator is off for some milliseconds, in a view that is still open when it comes back. A change of what
/// seeds draw moves that to another one: so it is looked for in some more.
#[test]
fn a_vote_that_was_sent_before_it_was_durable_is_found() {
    let rule = found(Canary::VoteBeforeDurable, 4, 30).map(|(_, rule)| rule);
    assert_eq!(rule, Some("accused"));
}

/// Two sides that do not hear each other have final blocks each.
#[test]
fn a_quorum_of_two_f_is_found() {
    let rule = found(Canary::QuorumOfTwoFaults, 0, 10).map(|(_, rule)| rule);
    assert_eq!(rule, Some("agreement"));
}

#[cfg(feature = "canary")]
#[test]
#[expect(clippy::print_stdout, reason = "what is found is the result")]
fn canaries_are_all_found_within_a_thousand_seeds() {
    for canary in Canary::ALL {
        let found = found(*canary, 0, SEEDS_MAX);
        println!("{canary:?}: {found:?}");
        assert!(found.is_some(), "{canary:?} was not found");
    }
}

#[test]
fn a_mistake_is_looked_for_in_as_many_seeds_as_the_document_says() {
    let document = include_str!("../../../../docs/SIMULATOR.md");
    let text = format!("up to {},{:03}", SEEDS_MAX / 1_000, SEEDS_MAX % 1_000);
    assert!(document.contains(&text), "{text}");
}
