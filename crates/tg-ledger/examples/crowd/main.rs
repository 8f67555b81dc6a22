//! What a block costs where an attacker has filled the market, and whether an honest order is served in its block.
//!
//! 65,000 offers, 9,000 waiting orders and 1,000 gang orders in many shapes ([`shape::SHAPES`]), put there by transactions.
//! Then blocks with one honest order each, executed by a voter whose memory is its own. Times are CPU times of the
//! thread that executes, beside wall times, as machines are shared.
//!
//! `cargo run --release -p tg-ledger --example crowd [-- WORDS OF A SHAPE'S NAME]`, or `-- --draw N SEED` for N shapes
//! that are drawn.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example that measures"
)]

mod chain;
mod crowd;
mod draw;
mod shape;

use chain::{Took, sole_validator, timed};
use crowd::Crowd;
use shape::{SHAPES, Shape};
use tg_ledger::{Event, JobState};
use tg_types::{TimestampMs, Transaction, VerificationMode, job_id};

/// Blocks that are measured; the first ones bring a voter's memory up to date, which a restart does too.
const MEASURED: usize = 40;

/// A block with an honest order in it: what it took, and in how many blocks the order was leased, 1 if in its own.
fn step(crowd: &mut Crowd) -> Step {
    let order = crowd.order_of(VerificationMode::None, Shape::honest_job());
    let honest = crowd.honest;
    let signed = crowd.chain.sign(honest, Transaction::SubmitJob { order });
    let job = job_id(signed.id(crowd.chain.state.domain()));
    let mut transactions = vec![signed];
    transactions.extend(crowd.churn());
    let (proposing, executing, events) = crowd.chain.block(transactions);
    let leases = events
        .iter()
        .filter(|it| matches!(it, Event::LeaseMade { .. }));
    Step {
        proposing,
        executing,
        leases: leases.count(),
        is_served: crowd.chain.state.job(&job).unwrap().state == JobState::Leased,
    }
}

struct Step {
    proposing: Took,
    executing: Took,
    leases: usize,
    is_served: bool,
}

/// What the blocks of one shape cost.
pub(crate) struct Cost {
    pub(crate) worst_us: u64,
    pub(crate) median_us: u64,
}

/// Fills a market and executes blocks; prints one line.
pub(crate) fn measure(shape: &Shape, blocks: usize) -> Cost {
    let mut crowd = Crowd::new(shape, vec![sole_validator()], TimestampMs::new(1_000_000));
    let burned = crowd.chain.state.totals().burned;
    let ((), filling) = timed(|| crowd.fill());
    let burned = crowd.chain.state.totals().burned.saturating_sub(burned);
    let waiting = crowd.chain.state.queued_jobs().count();
    let steps: Vec<Step> = (0..blocks).map(|_| step(&mut crowd)).collect();
    let of = |took: fn(&Step) -> u64| {
        let mut times: Vec<u64> = steps.iter().map(took).collect();
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() - 1])
    };
    let (median, worst) = of(|it| it.executing.cpu_us);
    let (wall, wall_worst) = of(|it| it.executing.wall_us);
    let (own, own_worst) = of(|it| it.proposing.cpu_us);
    let served = steps.iter().filter(|it| it.is_served).count();
    let leases: usize = steps.iter().map(|it| it.leases).sum();
    let ms = |us: u64| us.div_ceil(1_000);
    println!(
        "{}: CPU {} ms in the middle, {} at most (wall {} and {}; proposing {} and {}); {served} of {blocks} honest orders \
         leased at once, {leases} leases; {waiting} wait; filled in {} blocks for {} TGRID burned, {} s",
        shape.name,
        ms(median),
        ms(worst),
        ms(wall),
        ms(wall_worst),
        ms(own),
        ms(own_worst),
        crowd.chain.blocks,
        burned.get() / 10_u128.pow(18),
        filling.wall_us / 1_000_000,
    );
    Cost {
        worst_us: worst,
        median_us: median,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|it| it == "--draw") {
        let number = |at: usize| arguments.get(at).map_or(1, |it| it.parse().unwrap());
        draw::search(number(1), number(2));
        return;
    }
    let words = arguments.join(" ");
    for shape in SHAPES.iter().filter(|it| it.name.contains(&words)) {
        measure(shape, MEASURED);
    }
}
