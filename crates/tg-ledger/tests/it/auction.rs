//! Bids of the auction that hardly any machine can serve, beside honest ones: they neither raise a price nor leave nothing.

use tg_ledger::JobState;
use tg_types::{Amount, GpuModel, JobId, JobNeeds, Machine, OfferTerms, RegionSet};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{World, tgrid};

/// A region in which there is one machine.
const FAR: u8 = 5;

/// Four machines of one class that ask 0.01 TGRID for a second, one of them far away. Alice bids 0.05 for one of them and a hundred seconds;
/// mallory sends `bids` at `milli` thousandths, for ten seconds each, that only the far machine can serve. The slot is cleared: alice's job and mallory's.
fn slot_with(bids: u8, milli: u64) -> (World, JobId, Vec<JobId>) {
    let mut world = World::new();
    world.post("cheap", gpu_terms(GpuModel::T4, 3, 10));
    let near = gpu_terms(GpuModel::T4, 1, 10);
    let far = Machine {
        region: FAR,
        ..near.machine
    };
    world.post(
        "dear",
        OfferTerms {
            machine: far,
            ..near
        },
    );
    world.next_slot();
    world.time -= 970;
    let honest = world.bid("alice", 7, gpu_needs(1, 100), Amount::from_tgrid(5));
    let only_far = JobNeeds {
        regions: RegionSet::only(FAR),
        ..gpu_needs(1, 10)
    };
    let sealed: Vec<_> = (0..bids)
        .map(|salt| {
            world.time -= 970;
            world.bid("mallory", salt, only_far, tgrid(10 * milli))
        })
        .collect();
    world.next_slot();
    world.time -= 970;
    let honest = world.reveal("alice", honest);
    let phantoms = sealed.into_iter().map(|bid| {
        world.time -= 970;
        world.reveal("mallory", bid)
    });
    let phantoms = phantoms.collect();
    world.next_slot();
    (world, honest, phantoms)
}

fn leased(world: &World, jobs: &[JobId]) -> usize {
    let is_leased = |it: &&JobId| world.job(**it).state() == JobState::Leased;
    jobs.iter().filter(is_leased).count()
}

#[test]
fn bids_that_find_no_machine_raise_no_price() {
    let (world, honest, phantoms) = slot_with(3, 49);
    assert_eq!(world.job(honest).state(), JobState::Leased);
    assert_eq!(leased(&world, &phantoms), 1);
    // Two of four machines are sold: what the machines ask, not what mallory bids.
    assert_eq!(world.lease(honest).price, Amount::from_tgrid(1));
}

#[test]
fn bids_that_find_no_machine_leave_the_others_theirs() {
    // They win all machines, again and again, and more of them are left than a slot tries.
    let (world, honest, phantoms) = slot_with(24, 60);
    assert_eq!(leased(&world, &phantoms), 1);
    assert_eq!(world.job(honest).state(), JobState::Leased);
    assert_eq!(world.lease(honest).price, Amount::from_tgrid(1));
}
