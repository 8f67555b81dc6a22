//! A job that pays least waits, but not for ever: the bound on its wait, where others that pay eight times as much never
//! stop coming.

use tg_types::{
    Amount, Digest, DurationMs, GpuModel, JobId, JobNeeds, JobOrder, Machine, OfferId, OfferTerms,
    Pricing, SharingSet, TimestampMs, VerificationMode,
};

use super::pruning::MODEL;
use super::random::{Market, TICK_MS, bytes_of, requestor, terms, work};
use crate::apply::Execution;
use crate::{Event, JobState, State};

/// Markets that are run.
const MARKETS: u64 = 24;

/// The longest that one job may take the machine: from its lease to its result, in blocks.
const SERVICE_BLOCKS: u64 = 8;

/// A market with one machine that serves one job at a time.
fn single(seed: u64) -> Market {
    let mut market = Market::new(0x57 << 32 | seed, |index| index);
    let first = OfferId::new(bytes_of(3, 0));
    let others: Vec<OfferId> = market.state.offers().iter().map(|it| it.id).collect();
    for offer in others.iter().filter(|it| **it != first) {
        market.state.remove_offer(offer);
    }
    let mut offer = market.state.offer(&first).unwrap().clone();
    let drawn = terms(&mut market.draws);
    offer.terms = OfferTerms {
        slots: 1,
        pricing: Pricing::Fixed,
        price_per_gpu_second: Amount::new(1),
        machine: Machine {
            gpu_count: 1,
            gpu: GpuModel::T4,
            sharing: SharingSet::of(&[]),
            ..drawn.machine
        },
        ..drawn
    };
    market.state.put_offer(offer);
    market
}

fn order(market: &mut Market, now: TimestampMs, priority: u8) -> JobOrder {
    JobOrder {
        model: MODEL,
        input: Digest::default(),
        input_len: 1,
        mode: VerificationMode::None,
        max_price: Amount::new(1_000_000),
        deadline: TimestampMs::new(now.get() + 4 * 3_600_000),
        max_attempts: 3,
        needs: JobNeeds {
            gpus: 1,
            gpu_milli: 1_000,
            reference: DurationMs::from_secs(1 + market.draws.below(30)),
            priority,
            ..JobNeeds::ANY_MACHINE
        },
    }
}

/// The next block, in which jobs of these priorities are ordered; the jobs, and what happened.
fn block(market: &mut Market, priorities: &[u8]) -> (Vec<JobId>, Vec<Event>) {
    let now = TimestampMs::new(market.state.head().time.get() + TICK_MS);
    let mut execution = Execution::begin(&market.state, now);
    work(&mut execution, now);
    let mut ids = Vec::new();
    for priority in priorities {
        let order = order(market, now, *priority);
        let id = JobId::new(bytes_of(4, market.jobs));
        market.jobs += 1;
        execution
            .submit_as(id, requestor(market.jobs % 3), &order)
            .unwrap();
        ids.push(id);
    }
    let proposer = market.state.validators()[0].address;
    let (state, events, _) = execution.finish(proposer).unwrap();
    market.state = state;
    (ids, events)
}

#[test]
fn the_wait_of_whoever_pays_least_is_bounded() {
    let (mut overtaken, mut waited_most) = (0, 0_u64);
    for seed in 0..MARKETS {
        let mut market = single(seed);
        // The machine is taken when it comes.
        block(&mut market, &[8, 8]);
        let (ids, _) = block(&mut market, &[1]);
        let low = ids[0];
        let (since, patience) = {
            let waiting = State::waiting(market.state.job(&low).unwrap());
            (waiting.since, waiting.patience())
        };
        let mut blocks = 0;
        while market.state.job(&low).unwrap().state == JobState::Queued {
            let arrivals = 1 + market.draws.below(2) as usize;
            let (_, events) = block(&mut market, &[8, 8][..arrivals]);
            let waited = market.state.head().time.saturating_since(since);
            let leases = |it: &&Event| matches!(it, Event::LeaseMade { job, .. } if *job != low);
            let others = events.iter().filter(leases).count();
            overtaken += others;
            if waited >= patience {
                assert_eq!(others, 0, "whoever waited long enough is next, seed {seed}");
            }
            blocks += 1;
            let most = patience.get() / TICK_MS + SERVICE_BLOCKS;
            assert!(blocks <= most, "seed {seed}: {blocks} blocks");
        }
        waited_most += u64::from(blocks * TICK_MS >= patience.get());
    }
    // They did overtake it, and it did come to its bound: or else nothing was shown.
    assert!(overtaken > 500, "{overtaken}");
    assert!(waited_most > 0);
}
