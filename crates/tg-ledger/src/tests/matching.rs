//! The bound on offers looked at in a block: a crowd of jobs that fit nowhere starves nobody.

use std::sync::Arc;

use tg_types::{
    Address, Amount, Digest, DurationMs, Height, JobId, JobNeeds, JobOrder, Label, Machine,
    ModeSet, OfferId, OfferTerms, Pricing, TimestampMs, VerificationMode,
};

use super::pruning::{MODEL, network};
use crate::apply::Execution;
use crate::limits::{LOOKS_PER_BLOCK, LOOKS_PER_BLOCK_MAX};
use crate::{Job, JobState, Offer, Provider, State, Step};

fn numbered(number: u64) -> [u8; 32] {
    tg_types::keccak256(&number.to_be_bytes())
}

pub(super) fn offer(number: u64, modes: ModeSet, provider: Address) -> Offer {
    Offer {
        id: OfferId::new(numbered(number)),
        provider,
        terms: OfferTerms {
            hardware: Label::default(),
            price_base: Amount::new(1),
            price_per_mmac: Amount::ZERO,
            latency_base_ms: DurationMs::new(1),
            speed_mmac_per_s: 1,
            memory_bytes: 100,
            slots: 1,
            collateral_per_lease: Amount::ZERO,
            modes,
            machine: Machine::CPU_ONLY,
            price_per_gpu_second: Amount::ZERO,
            pricing: Pricing::Fixed,
        },
        slots_taken: 0,
        updated_at: TimestampMs::ZERO,
        rent: crate::Rent::default(),
    }
}

pub(super) fn waiting_with(
    state: &mut State,
    sequence: u64,
    mode: VerificationMode,
    needs: JobNeeds,
) -> JobId {
    let id = JobId::new(numbered(1_000_000 + sequence));
    let requestor = state.accounts.iter().next().unwrap().address;
    state.put_job(Job {
        id,
        sequence,
        requestor,
        order: JobOrder {
            model: MODEL,
            input: Digest::default(),
            input_len: 1,
            mode,
            max_price: Amount::new(u128::from(needs.gang)),
            deadline: TimestampMs::new(1_000_000),
            max_attempts: 1,
            needs,
        },
        macs: 1,
        state: JobState::Queued,
        history: vec![Step {
            state: JobState::Queued,
            height: Height::ZERO,
            at: TimestampMs::ZERO,
            timestamp: TimestampMs::ZERO,
        }],
        escrow: Amount::ZERO,
        verification_fee: Amount::ZERO,
        storage: crate::Storage::default(),
        declined: 0,
        leases: vec![],
        excluded: vec![],
        end: None,
        settlement: None,
        preemptions: 0,
        revealed_in: 0,
        stars: 0,
        owed: Vec::new(),
        rent: crate::Rent::default(),
    });
    Arc::make_mut(&mut state.queued).insert(sequence, id);
    state.totals.jobs = state.totals.jobs.max(sequence + 1);
    id
}

#[test]
fn the_next_block_goes_on_where_one_stopped() {
    let mut state = network();
    let provider = state.accounts.iter().next().unwrap().address;
    state.put_provider(Provider::new(provider));
    let only_none = ModeSet::of(&[VerificationMode::None]);
    // Each asks another price, so each is looked at by itself; all in one cohort.
    let offers = 4_096;
    for number in 0..offers {
        let mut offer = offer(number, only_none, provider);
        offer.terms.price_base = Amount::new(1 + u128::from(number));
        state.put_offer(offer);
    }
    state.stock_is_stale = true;
    // The crowd needs RAM that no machine has; the last job would fit anywhere.
    let hungry = JobNeeds {
        memory_mib: 1,
        ..JobNeeds::ANY_MACHINE
    };
    let none = VerificationMode::None;
    waiting_with(&mut state, 0, none, hungry);
    let mut alone = Execution::begin(&state, TimestampMs::new(2_000));
    // Each offer is a group, and asks more than the order pays but for the first.
    let each = alone.run_matching().unwrap();
    assert!((offers..offers + 32).contains(&each), "{each}");
    let per_block = LOOKS_PER_BLOCK[0].div_ceil(each);
    let crowd = 2 * per_block + 3;
    for sequence in 0..crowd {
        waiting_with(&mut state, sequence, none, hungry);
    }
    let last = waiting_with(&mut state, crowd, none, JobNeeds::ANY_MACHINE);
    let mut cursors = Vec::new();
    for block in 1..=3 {
        let mut execution = Execution::begin(&state, TimestampMs::new(2_000 + block));
        execution.run_matching().unwrap();
        state = execution.state;
        cursors.push(state.cursors.posted.unwrap().sequence);
        let expected = match block {
            3 => JobState::Leased,
            _ => JobState::Queued,
        };
        assert_eq!(state.job(&last).unwrap().state, expected, "block {block}");
    }
    // The third block reached the end of the queue and began again at the front.
    assert_eq!(cursors[..2], [per_block, 2 * per_block]);
    assert!(cursors[2] > 0 && cursors[2] < 2 * per_block);
}

/// An offer of a machine that lies far from all others.
fn lonely(state: &mut State, number: u64, provider: Address) {
    let mut offer = offer(number, ModeSet::ALL, provider);
    let at = i32::try_from(number).unwrap();
    offer.terms.machine.coordinate_us = [1_000 * (at % 256), 1_000 * (at / 256)];
    state.put_offer(offer);
}

/// A market of lonely machines, with the gang orders of an attacker that fit nowhere.
fn attacked(offers: u64, gangs: u64) -> State {
    let mut state = network();
    let provider = state.accounts.iter().next().unwrap().address;
    state.put_provider(Provider::new(provider));
    (0..offers).for_each(|number| lonely(&mut state, number, provider));
    state.stock_is_stale = true;
    for sequence in 0..gangs {
        let needs = JobNeeds {
            gang: 2 + (sequence % 31) as u16,
            neighbourhood_us: 1 + (sequence % 900) as u32,
            ..JobNeeds::ANY_MACHINE
        };
        waiting_with(&mut state, sequence, VerificationMode::None, needs);
    }
    state
}

#[test]
fn gang_orders_that_fit_nowhere_cost_a_block_little_and_starve_nobody() {
    let (offers, gangs) = (2_048, 64);
    let mut state = attacked(offers, gangs);
    let mut seen = Vec::new();
    for block in 0..8 {
        // An honest order comes in each block, behind all of the attacker's.
        let mut execution = Execution::begin(&state, TimestampMs::new(2_000 + block));
        let height = execution.height;
        let state_now = &mut execution.state;
        let sequence = state_now.totals.jobs;
        let (mode, any) = (VerificationMode::None, JobNeeds::ANY_MACHINE);
        let honest = waiting_with(state_now, sequence, mode, any);
        let mut job = state_now.job(&honest).unwrap().clone();
        job.history[0].height = height;
        state_now.put_job(job);
        let looks = execution.run_matching().unwrap();
        state = execution.state;
        assert_eq!(state.job(&honest).unwrap().state, JobState::Leased);
        // One look for each machine, and for no machine whether it has room: there are too few in any neighbourhood.
        // The lane's share and the one gang that exceeds it bound the block.
        let bound = LOOKS_PER_BLOCK[2] + 2 * offers + 64;
        assert!(looks <= bound && bound < LOOKS_PER_BLOCK_MAX, "{looks}");
        seen.push(state.cursors.gang.unwrap().sequence);
    }
    // Each block goes on where the last one stopped, so every gang has its look.
    let per_block = LOOKS_PER_BLOCK[2] / offers;
    assert!(seen[0] >= per_block - 1 && seen[1] > seen[0], "{seen:?}");
    // Two machines come near each other: the gangs of two are placed when their turn comes, not before all others.
    let provider = state.accounts.iter().next().unwrap().address;
    lonely(&mut state, offers + 255, provider);
    let mut near = offer(1_000_000, ModeSet::ALL, provider);
    near.terms.machine.coordinate_us = state
        .offer(&OfferId::new(numbered(offers + 255)))
        .unwrap()
        .terms
        .machine
        .coordinate_us;
    state.put_offer(near);
    state.stock_is_stale = true;
    let mut placed = false;
    for block in 0..8 {
        let mut execution = Execution::begin(&state, TimestampMs::new(3_000 + block));
        execution.run_matching().unwrap();
        state = execution.state;
        placed |= state
            .jobs()
            .iter()
            .any(|job| job.order.needs.gang == 2 && job.state == JobState::Leased);
    }
    assert!(placed);
}
