//! Seeds that are known and not named, or that nobody signs: what that costs, and that nothing weaker takes their place.

use tg_ledger::{JobState, Outcome, SyncStage, TransactionError, seed_of};
use tg_types::{JobId, LeaseId};

use crate::sync::{SIGNATURE, VALIDATORS, committed, deal, seed_task, stage};
use crate::ties::with_key;
use crate::world::{World, address, evidence};

/// A block without a seed: nobody may open anything, nobody votes, and nothing is accepted.
fn wait(world: &mut World, job: JobId, lease: LeaseId) {
    let provider = world.holder(job);
    let early = world.refusal(provider, evidence(lease));
    assert_eq!(early, TransactionError::NotChallenged { lease });
    assert_eq!(stage(world, lease), SyncStage::AwaitsSeed);
    assert_eq!(world.job(job).state(), JobState::Committed);
    for name in VALIDATORS {
        assert_eq!(world.state.vote_tasks(&address(name)), []);
    }
}

/// The attack: a proposer that knows the seed of a result, and leaves it out because of what it draws.
#[test]
fn a_known_seed_that_is_left_out_is_the_same_one_later() {
    for left_out in [0_u64, 1, 4] {
        let mut world = with_key();
        let (job, lease) = committed(&mut world);
        let from = world.state.head().height;
        let task = seed_task(&world, from);
        for _ in 0..left_out {
            wait(&mut world, job, lease);
        }
        // It costs the blocks that are made without it, and changes nothing.
        assert_eq!(world.state.seeds_wanted(), [from]);
        world.decide(&task, Outcome::Seed(SIGNATURE));
        let SyncStage::Challenged { seed, .. } = stage(&world, lease) else {
            panic!("its parts are drawn");
        };
        assert_eq!(seed, seed_of(&SIGNATURE));
        let waited = world.state.head().height.get() - from.get();
        assert_eq!(waited, left_out + 1);
    }
}

/// The attack: more than f withhold their parts, or every proposer leaves the seed out, until the validators deal another key.
#[test]
fn a_seed_that_nobody_signs_waits_for_another_key_and_for_nothing_else() {
    let mut world = with_key();
    let (job, lease) = committed(&mut world);
    let (from, since) = (world.state.head().height, world.time);
    let old = seed_task(&world, from);
    while world.state.seeds().round == 0 {
        wait(&mut world, job, lease);
    }
    let waited = world.time - since;
    assert!((15_000..=18_000).contains(&waited), "{waited} ms");
    // Now a seed of the old key is none, before there is another one and after.
    assert_eq!(world.state.seeds_wanted(), []);
    let is_refused = |world: &mut World| {
        let late = old.verdict(Outcome::Seed(SIGNATURE));
        world.block(vec![], vec![late]).refused_verdicts.len() == 1
    };
    assert!(is_refused(&mut world));
    wait(&mut world, job, lease);
    deal(&mut world, 1);
    assert!(is_refused(&mut world));
    wait(&mut world, job, lease);
    // The same height, once more unknown to everybody, and the tie seed has none of the dropped key.
    assert_eq!(world.state.schedule().signed, None);
    let task = seed_task(&world, from);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    assert!(matches!(stage(&world, lease), SyncStage::Challenged { .. }));
    let waited = world.time - since;
    assert!(waited <= 26_000, "{waited} ms");
}
