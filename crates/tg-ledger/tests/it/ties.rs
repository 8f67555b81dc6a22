//! The seed by which equal offers are told apart: it is the newest that validators signed, which no proposer chooses.

use std::collections::BTreeSet;

use tg_ledger::limits::EPOCH_BLOCKS;
use tg_ledger::{EvidenceTask, Outcome, SignedSeed, State, seed_of};
use tg_types::{Decode as _, Digest, DurationMs, Encode as _, Height, Transaction};

use crate::sync::{SIGNATURE, committed, deal, seed_task};
use crate::world::{World, address, facts, genesis, terms, tgrid};

/// A network with offers, whose validators have dealt a key.
pub(crate) fn with_key() -> World {
    let mut genesis = genesis();
    // Windows in which several blocks of a second fit.
    genesis.parameters.leader_timeout = DurationMs::new(1_500);
    genesis.parameters.auction_slot = DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = DurationMs::from_secs(9);
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    for (name, price) in [("cheap", 20), ("middle", 25)] {
        world.post(name, terms(price));
    }
    deal(&mut world, 0);
    world
}

fn height(world: &World) -> u64 {
    world.state.head().height.get()
}

fn idle_until(world: &mut World, last: u64) {
    assert!(height(world) <= last, "{}", height(world));
    while height(world) < last {
        world.idle();
    }
}

fn tie_seed(world: &World) -> Digest {
    world.state.schedule().tie_seed
}

/// What the seed of a height gives.
fn tie_of(height: Height) -> Digest {
    let seed = seed_of(&SIGNATURE);
    SignedSeed { height, seed }.tie_seed()
}

/// A block whose contents its proposer might have chosen otherwise.
fn choose(world: &mut World, choice: u64) {
    let (to, amount) = (address("mallory"), tgrid(choice));
    world.send("bob", Transaction::Transfer { to, amount });
}

/// A result of which the seed is wanted, and that.
fn wanted(world: &mut World) -> EvidenceTask {
    committed(world);
    let height = world.state.head().height;
    seed_task(world, height)
}

/// The seed of ties of epoch 1, and what it was without a signed seed, if a seed was signed between two choices of proposers.
fn chosen(before: u64, after: u64) -> (World, Digest) {
    let mut world = with_key();
    choose(&mut world, before);
    let task = wanted(&mut world);
    let from = world.state.head().height;
    choose(&mut world, before);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    choose(&mut world, after);
    idle_until(&mut world, EPOCH_BLOCKS - 1);
    // A stored state goes on alike.
    let stored = State::from_bytes(&world.state.to_bytes()).unwrap();
    assert_eq!(stored.schedule(), world.state.schedule());
    assert_eq!(stored.root(), world.state.root());
    let unsigned = world.state.schedule().next_seed;
    world.idle();
    assert_eq!(tie_seed(&world), tie_of(from));
    (world, unsigned)
}

#[test]
fn no_proposer_chooses_the_ties_of_an_epoch_after_one_in_which_a_seed_was_signed() {
    let (first, by_blocks) = chosen(1, 1);
    for (before, after) in [(2, 1), (1, 2), (3, 4)] {
        let (other, other_by_blocks) = chosen(before, after);
        assert_eq!(tie_seed(&first), tie_seed(&other), "{before} {after}");
        // By the ids of blocks alone they were other ones.
        assert_ne!(by_blocks, other_by_blocks);
    }
}

/// Never less than it was before: block ids, where nobody signed a seed.
#[test]
fn without_a_signed_seed_the_ids_of_blocks_break_ties() {
    let of = |choice| {
        let mut world = with_key();
        choose(&mut world, choice);
        idle_until(&mut world, EPOCH_BLOCKS - 1);
        let next = world.state.schedule().next_seed;
        world.idle();
        assert_eq!(tie_seed(&world), next);
        tie_seed(&world)
    };
    assert_ne!(of(1), of(2));
    // A seed is used for one epoch: what follows on one in which none was signed goes by block ids again.
    let (mut world, _) = chosen(1, 1);
    assert_eq!(world.state.schedule().signed, None);
    idle_until(&mut world, 2 * EPOCH_BLOCKS - 1);
    let next = world.state.schedule().next_seed;
    world.idle();
    assert_eq!(tie_seed(&world), next);
}

/// Two seeds are wanted shortly before an epoch ends; which are named in its last block, and in which order.
fn named_last(named: &[usize]) -> (World, [Height; 2]) {
    let mut world = with_key();
    idle_until(&mut world, EPOCH_BLOCKS - 10);
    let tasks = [wanted(&mut world), wanted(&mut world)];
    let heights = [0, 1].map(|it: usize| match tasks[it] {
        EvidenceTask::Seed { height, .. } => height,
        _ => panic!("a seed is wanted"),
    });
    idle_until(&mut world, EPOCH_BLOCKS - 2);
    let verdicts = named.iter();
    let verdicts = verdicts.map(|it| tasks[*it].verdict(Outcome::Seed(SIGNATURE)));
    let proposed = world.block(vec![], verdicts.collect());
    assert_eq!(proposed.refused_verdicts, []);
    world.idle();
    (world, heights)
}

#[test]
fn the_order_in_which_a_proposer_names_seeds_does_not_matter() {
    for order in [[0, 1], [1, 0]] {
        let (world, [_, last]) = named_last(&order);
        assert_eq!(tie_seed(&world), tie_of(last), "{order:?}");
    }
}

/// Of s seeds that nobody has named the last proposer names the highest that it likes, or none: s + 1 choices.
#[test]
fn of_two_seeds_that_wait_the_last_proposer_has_three_choices() {
    let named: [&[usize]; 5] = [&[], &[0], &[1], &[0, 1], &[1, 0]];
    let chosen = named.map(|named| tie_seed(&named_last(named).0));
    assert_eq!(BTreeSet::from(chosen).len(), 3);
    let (_, [before, last]) = named_last(&[]);
    assert_eq!(chosen[1], tie_of(before));
    assert_eq!(chosen[2..], [tie_of(last); 3]);
}

/// What is left to the last proposer: it may leave out a seed that it knows, so that the one before counts, and nothing else.
#[test]
fn a_proposer_that_leaves_the_last_seed_out_has_the_one_before() {
    let (mut world, [before, last]) = named_last(&[0]);
    assert_eq!(tie_seed(&world), tie_of(before));
    // It is signed in the next epoch, and counts there.
    let task = seed_task(&world, last);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    let signed = world.state.schedule().signed;
    assert_eq!(signed.map(|it| it.height), Some(last));
}
