//! Moving prices: what nobody could serve raises them not, and what nobody could have lowers them not.

use tg_ledger::JobState;
use tg_types::{Amount, DurationMs, GpuModel, JobNeeds, OfferTerms, Pricing};

use crate::lanes::{gpu_needs, gpu_terms};
use crate::world::{World, tgrid};

fn price(world: &World) -> Amount {
    world.state.schedule().prices[usize::from(GpuModel::T4.tag())]
}

/// A machine of two GPUs for 0.01 TGRID a second at least, whose price follows demand.
fn moving() -> World {
    let mut world = World::new();
    world.post(
        "cheap",
        OfferTerms {
            pricing: Pricing::Dynamic,
            ..gpu_terms(GpuModel::T4, 2, 10)
        },
    );
    world.idle();
    assert_eq!(price(&world), tgrid(10));
    world
}

#[test]
fn an_order_that_no_machine_could_serve_raises_no_price() {
    let mut world = moving();
    let needs = JobNeeds {
        disk_gib: u32::MAX,
        ..gpu_needs(2, 60)
    };
    let order = world.order_for(needs);
    world.submit("mallory", order);
    for _ in 0..20 {
        world.idle();
    }
    assert_eq!(price(&world), tgrid(10));
}

#[test]
fn orders_of_a_moment_count_as_little_as_they_take() {
    let mut world = moving();
    // One of two GPUs is taken for a minute: less than the target, so only what waits raises the price.
    let order = world.order_for(gpu_needs(1, 60));
    let runs = world.submit("alice", order);
    world.live(runs);
    let order = world.order_for(JobNeeds {
        reference: DurationMs::new(1),
        ..gpu_needs(2, 60)
    });
    let waits = world.submit("mallory", order);
    world.idle();
    world.idle();
    assert_eq!(world.job(waits).state(), JobState::Queued);
    assert_eq!(price(&world), tgrid(10));
    // As many GPUs for a minute do.
    let order = world.order_for(gpu_needs(2, 60));
    world.submit("bob", order);
    world.idle();
    assert!(price(&world) > tgrid(10));
}

#[test]
fn an_offer_whose_provider_has_no_collateral_lowers_no_price() {
    let mut world = moving();
    // More than it has.
    let collateral = Amount::from_tgrid(1_000);
    world.post(
        "mallory",
        OfferTerms {
            pricing: Pricing::Dynamic,
            price_per_gpu_second: Amount::new(1),
            collateral_per_lease: collateral,
            ..gpu_terms(GpuModel::T4, 8, 10)
        },
    );
    for _ in 0..3 {
        world.idle();
    }
    assert_eq!(price(&world), tgrid(10));
    // Nor is it capacity that is free: what runs and waits is most of what there is.
    for _ in 0..4 {
        let order = world.order_for(gpu_needs(2, 60));
        world.submit("alice", order);
    }
    assert!(price(&world) > tgrid(10));
}
