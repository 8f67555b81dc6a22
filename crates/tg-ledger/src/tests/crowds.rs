//! How much a block looks at in markets that attackers filled: steps, which no machine's speed changes. How long that
//! takes is what the example `crowd` measures, at full size.

use tg_types::{
    Amount, CapacityTier, DurationMs, GpuModel, JobClass, JobNeeds, Machine, ModeSet, Pricing,
    TierSet, TimestampMs, VerificationMode, Wallet,
};

use tg_market::reputation::LeaseOutcome;

use super::matching::{offer, waiting_with};
use super::pruning::network;
use crate::apply::Execution;
use crate::limits::{LOOKS_PER_BLOCK, LOOKS_PER_BLOCK_MAX};
use crate::{Account, JobState, Provider, State};

/// Offers of an attacker.
const OFFERS: u64 = 2_000;

/// Orders of an attacker that wait for one machine, and for several.
const ORDERS: u64 = 200;
const GANGS: u64 = 40;

/// A market in miniature.
#[derive(Debug, Clone, Copy)]
struct Shape {
    name: &'static str,
    prices: u64,
    kinds: u64,
    sizes: u64,
    /// Microseconds between machines.
    apart: i32,
    /// The attacker's orders need more RAM than there is; or else a mode that nobody serves.
    almost_fit: bool,
    footprints: u64,
    members: u16,
    /// Most that a block may look at, in looks for each offer.
    each: u64,
}

const LONELY: Shape = Shape {
    name: "lonely machines, each at its price",
    prices: u64::MAX,
    kinds: 1,
    sizes: 1,
    apart: 1_000,
    almost_fit: false,
    footprints: 1,
    members: 2,
    each: 24,
};

const SHAPES: [Shape; 7] = [
    LONELY,
    Shape {
        name: "all alike",
        prices: 1,
        ..LONELY
    },
    Shape {
        name: "orders that almost fit",
        each: 80,
        almost_fit: true,
        ..LONELY
    },
    Shape {
        name: "each machine of its own kind",
        each: 160,
        kinds: u64::MAX,
        ..LONELY
    },
    Shape {
        name: "all sizes, each order its footprint",
        each: 100,
        sizes: 400,
        footprints: 400,
        almost_fit: true,
        ..LONELY
    },
    Shape {
        name: "gangs of 2 among close machines",
        each: 80,
        apart: 0,
        almost_fit: true,
        ..LONELY
    },
    Shape {
        name: "gangs of 32",
        each: 24,
        members: 32,
        apart: 20,
        ..LONELY
    },
];

fn needs(number: u64, shape: &Shape) -> JobNeeds {
    JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        cpu_milli: 2_000 * (number % shape.footprints) as u32,
        reference: DurationMs::new(1),
        ..JobNeeds::ANY_MACHINE
    }
}

/// The market; the honest provider's offer is the dearest.
fn filled(shape: &Shape) -> State {
    let mut state = network();
    let provider = state.accounts.iter().next().unwrap().address;
    state.put_provider(Provider::new(provider));
    for number in 0..=OFFERS {
        let is_honest = number == OFFERS;
        let mut posted = offer(number, ModeSet::of(&[VerificationMode::None]), provider);
        let at = i32::try_from(number).unwrap();
        posted.terms.price_base = Amount::new(0);
        posted.terms.price_per_gpu_second = match is_honest {
            true => Amount::new(4_000),
            false => Amount::new(1_000 + u128::from(number % shape.prices)),
        };
        posted.terms.pricing = Pricing::Fixed;
        posted.terms.slots = 64;
        posted.terms.machine = Machine {
            gpu_count: match is_honest {
                true => 8,
                false => 1,
            },
            gpu: GpuModel::T4,
            gpu_memory_mib: 1_000 + (number % shape.kinds) as u32,
            cpu_milli: 2_000 * (1 + (number % shape.sizes) as u32),
            memory_mib: 1_000,
            coordinate_us: [shape.apart * (at % 256), shape.apart * (at / 256)],
            tiers: TierSet::ANY,
            ..Machine::CPU_ONLY
        };
        state.put_offer(posted);
    }
    for sequence in 0..ORDERS + GANGS {
        let one = needs(sequence, shape);
        let ram = 1_001 * u32::from(shape.almost_fit);
        let (mode, needs) = match (sequence < GANGS, shape.almost_fit) {
            (true, _) => {
                let gang = JobNeeds {
                    gang: shape.members,
                    neighbourhood_us: 1 + (sequence % 19) as u32,
                    memory_mib: ram,
                    ..one
                };
                (VerificationMode::None, gang)
            }
            (false, true) => {
                let more = JobNeeds {
                    memory_mib: ram,
                    ..one
                };
                (VerificationMode::None, more)
            }
            (false, false) => (VerificationMode::Proof, one),
        };
        waiting_with(&mut state, sequence, mode, needs);
    }
    state
}

/// An order that came in the block.
fn order(execution: &mut Execution, mode: VerificationMode, needs: JobNeeds) -> tg_types::JobId {
    let height = execution.height;
    let state = &mut execution.state;
    let id = waiting_with(state, state.totals.jobs, mode, needs);
    let mut job = state.job(&id).unwrap().clone();
    job.history[0].height = height;
    job.order.max_price = Amount::new(1_000_000);
    job.order.deadline = TimestampMs::new(1_000_000_000);
    state.put_job(job);
    id
}

#[test]
fn what_a_block_looks_at_is_bounded_in_every_shape_of_an_attack() {
    for shape in &SHAPES {
        let mut state = filled(shape);
        let mut most = 0;
        for block in 0..4 {
            let now = TimestampMs::new(2_000 + block);
            let mut execution = Execution::begin(&state, now);
            let none = VerificationMode::None;
            let honest = order(&mut execution, none, needs(0, shape));
            // The attacker's, in the same block: some for every lane.
            let ram = 1_001 * u32::from(shape.almost_fit);
            for number in 0..4 {
                let one = JobNeeds {
                    memory_mib: ram,
                    ..needs(number, shape)
                };
                let mode = match shape.almost_fit {
                    true => none,
                    false => VerificationMode::Proof,
                };
                order(&mut execution, mode, one);
                let guaranteed = JobNeeds {
                    guaranteed: true,
                    tier: CapacityTier::Reserved,
                    ..one
                };
                order(&mut execution, mode, guaranteed);
            }
            let looks = execution.run_matching().unwrap();
            let height = execution.height;
            state = execution.state;
            // What came in this block did not come in the next.
            state.head.height = height;
            assert_eq!(
                state.job(&honest).unwrap().state(),
                JobState::Leased,
                "{}, block {block}",
                shape.name
            );
            most = most.max(looks);
        }
        // What the lanes have, and in each of them the one search that reaches its bound: it may look at each offer for
        // its group, for its place, and as often as starts are tried.
        let searches = LOOKS_PER_BLOCK.len() as u64 * 2 * (OFFERS + 1) * 13;
        assert!(
            most <= LOOKS_PER_BLOCK_MAX + searches,
            "{}: {most}",
            shape.name
        );
        assert!(most <= shape.each * OFFERS, "{}: {most}", shape.name);
    }
}

/// Owners with an offer each, of which the first few have verified results; an order's usual maximum price.
fn usual_price(known: u64, asks: &[u128]) -> Amount {
    let mut state = network();
    for (number, ask) in (0..).zip(asks) {
        let owner = Wallet::from_seed(format!("owner {number}").as_bytes()).address();
        state.put_account(Account::new(owner, Amount::from_tgrid(10)));
        let mut provider = Provider::new(owner);
        for _ in 0..4 * u64::from(number < known) {
            provider.observe(JobClass::Inference, LeaseOutcome::Accepted, 0);
        }
        state.put_provider(provider);
        let mut posted = offer(number, ModeSet::UNSEALED, owner);
        posted.terms.price_base = Amount::new(*ask);
        posted.terms.pricing = Pricing::Fixed;
        state.put_offer(posted);
    }
    state.stock_is_stale = true;
    state.refresh_stock(TimestampMs::new(2_000)).unwrap();
    let needs = JobNeeds::ANY_MACHINE;
    let id = waiting_with(&mut state, 0, VerificationMode::Proof, needs);
    let mut order = state.job(&id).unwrap().order.clone();
    order.max_attempts = 3;
    state.usual_max_price(&order).unwrap()
}

#[test]
fn cheap_offers_of_owners_that_never_served_do_not_lower_the_usual_price() {
    let unit = 1_000_000_000_000_000_000;
    let asks = [50, 60, 70, 80, 1, 2, 3, 4].map(|it| it * unit);
    assert_eq!(usual_price(4, &asks).get(), 2 * 70 * unit);
    // With fewer owners that served than the order has attempts, all count.
    assert_eq!(usual_price(2, &asks).get(), 2 * 3 * unit);
}
