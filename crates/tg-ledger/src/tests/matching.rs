//! The bound on offers looked at in a block: a crowd of jobs that fit nowhere starves nobody.

use tg_types::{
    Address, Amount, Digest, DurationMs, GpuModel, Height, JobClass, JobId, JobNeeds, JobOrder,
    Label, Machine, ModeSet, OfferId, OfferTerms, Pricing, TimestampMs, VerificationMode,
};

use super::pruning::{MODEL, network};
use crate::apply::Execution;
use crate::limits::{AUCTION_BIDS_MAX, LOOKS_PER_BLOCK, LOOKS_PER_BLOCK_MAX};
use crate::{Job, JobPhase, JobState, Offer, OpenStage, Provider, State, Step};

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
            retention: tg_types::DurationMs::ZERO,
            needs,
        },
        macs: 1,
        phase: JobPhase::Open {
            stage: OpenStage::Queued,
            escrow: Amount::ZERO,
        },
        history: vec![Step {
            state: JobState::Queued,
            height: Height::ZERO,
            at: TimestampMs::ZERO,
            timestamp: TimestampMs::ZERO,
        }],
        verification_fee: Amount::ZERO,
        storage: crate::Storage::default(),
        declined: 0,
        earlier: vec![],
        excluded: vec![],
        preemptions: 0,
        revealed_in: None,
        owed: Vec::new(),
        escrow_burned: Amount::ZERO,
        served: Amount::ZERO,
        draw: None,
        session: None,
        rent: crate::Rent::default(),
        retention: crate::Retention::default(),
    });
    state.queued.insert(sequence, id);
    state.totals.jobs = state.totals.jobs.max(sequence + 1);
    id
}

/// Offers of [`priced`] but the one with RAM.
const PRICED: u64 = 2_048;

/// More than any of them asks.
const ENOUGH: Amount = Amount::new(1_000_000);

/// What machines of [`priced`] almost have, all but the dearest, which serves another mode.
const HUNGRY: JobNeeds = JobNeeds {
    memory_mib: 3,
    ..JobNeeds::ANY_MACHINE
};

/// A market where each offer asks another price, so that each is looked at by itself.
fn priced() -> State {
    let mut state = network();
    let provider = state.accounts.iter().next().unwrap().address;
    state.put_provider(Provider::new(provider));
    let only_none = ModeSet::of(&[VerificationMode::None]);
    for number in 0..=PRICED {
        let mut offer = offer(number, only_none, provider);
        offer.terms.price_base = Amount::new(1 + u128::from(number));
        offer.terms.machine.memory_mib = 2;
        if number == PRICED {
            offer.terms.modes = ModeSet::of(&[VerificationMode::Proof]);
            offer.terms.machine.memory_mib = 5;
        }
        state.put_offer(offer);
    }
    state.stock_is_stale = true;
    state
}

/// An order that waits, or one that comes in the block of `height`.
fn order(
    state: &mut State,
    (needs, priority): (JobNeeds, u8),
    height: Option<Height>,
) -> tg_types::JobId {
    let sequence = state.totals.jobs;
    let id = waiting_with(state, sequence, VerificationMode::None, needs);
    let mut job = state.job(&id).unwrap().clone();
    job.order.max_price = ENOUGH;
    job.order.needs.priority = priority;
    if let Some(height) = height {
        job.history[0].height = height;
    }
    state.put_job(job);
    id
}

/// What a search for [`HUNGRY`] looks at.
fn looks_of_hungry() -> u64 {
    let mut state = priced();
    order(&mut state, (HUNGRY, 1), None);
    let mut alone = Execution::begin(&state, TimestampMs::new(2_000));
    let each = alone.run_matching().unwrap();
    assert!(each > PRICED, "{each}");
    each
}

#[test]
fn cheap_offers_that_never_serve_such_a_job_are_passed_over_together() {
    let more = JobNeeds {
        memory_mib: 4,
        ..HUNGRY
    };
    for (mode, needs) in [
        (VerificationMode::None, more),
        (VerificationMode::Proof, JobNeeds::ANY_MACHINE),
        (VerificationMode::Proof, more),
    ] {
        let mut state = priced();
        let id = waiting_with(&mut state, 0, mode, needs);
        let mut job = state.job(&id).unwrap().clone();
        job.order.max_price = ENOUGH;
        state.put_job(job);
        let mut alone = Execution::begin(&state, TimestampMs::new(2_000));
        let looks = alone.run_matching().unwrap();
        assert!(looks < 64, "{mode}, {needs:?}: {looks}");
        let expected = match mode {
            VerificationMode::None => JobState::Queued,
            VerificationMode::Proof
            | VerificationMode::Recompute
            | VerificationMode::Sync
            | VerificationMode::Optimistic
            | VerificationMode::Replicate
            | VerificationMode::Endpoint
            | VerificationMode::Sealed => JobState::Leased,
        };
        assert_eq!(alone.state.job(&id).unwrap().state(), expected);
    }
}

#[test]
fn the_next_block_goes_on_where_one_stopped() {
    let mut state = priced();
    // The crowd fits nowhere; the last job would fit anywhere.
    let per_block = LOOKS_PER_BLOCK[0] / looks_of_hungry();
    let crowd = 2 * per_block + 3;
    for _ in 0..crowd {
        order(&mut state, (HUNGRY, 1), None);
    }
    let last = order(&mut state, (JobNeeds::ANY_MACHINE, 1), None);
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
        assert_eq!(state.job(&last).unwrap().state(), expected, "block {block}");
    }
    // The third block reached the end of the queue and began again at the front.
    assert_eq!(cursors[..2], [per_block, 2 * per_block]);
    assert!(cursors[2] < 2 * per_block);
}

#[test]
fn a_crowd_that_comes_in_one_block_and_pays_more_keeps_no_order_from_being_looked_at() {
    let mut state = priced();
    let mut execution = Execution::begin(&state, TimestampMs::new(2_000));
    let height = Some(execution.height);
    // More than the share of those that come has looks for, with earlier turns.
    let crowd = LOOKS_PER_BLOCK[1] / looks_of_hungry() + 20;
    for _ in 0..crowd {
        order(&mut execution.state, (HUNGRY, 8), height);
    }
    let honest = order(&mut execution.state, (JobNeeds::ANY_MACHINE, 1), height);
    let looks = execution.run_matching().unwrap();
    state = execution.state;
    assert_eq!(state.job(&honest).unwrap().state(), JobState::Leased);
    // All of its share was used, and no search went beyond it but by what notices that.
    let most = LOOKS_PER_BLOCK[1] + crowd * 8;
    assert!((most / 2..=most).contains(&looks), "{looks}");
}

#[test]
fn orders_that_keep_coming_with_earlier_turns_do_not_hold_up_a_round() {
    let mut state = priced();
    let per_block = LOOKS_PER_BLOCK[0] / looks_of_hungry();
    let before = 3 * per_block;
    for _ in 0..before {
        order(&mut state, (HUNGRY, 8), None);
    }
    let honest = order(&mut state, (JobNeeds::ANY_MACHINE, 1), None);
    let mut blocks = 0;
    while state.job(&honest).unwrap().state() == JobState::Queued {
        // As many as a block can look at come in every block.
        let mut execution = Execution::begin(&state, TimestampMs::new(2_000 + blocks));
        for _ in 0..per_block {
            order(&mut execution.state, (HUNGRY, 8), None);
        }
        execution.run_matching().unwrap();
        state = execution.state;
        blocks += 1;
        assert!(
            blocks <= 2 + (before + per_block) / per_block,
            "block {blocks}"
        );
    }
    // It was not served before those that were there.
    assert!(blocks > before / per_block, "{blocks}");
}

#[test]
fn an_order_that_takes_more_looks_than_its_share_is_looked_at_to_the_end() {
    // Two searches beyond the share of gangs, which only the next blocks may make.
    let (offers, members) = (2 * LOOKS_PER_BLOCK[2] / 13, 32);
    let mut state = network();
    let provider = state.accounts.iter().next().unwrap().address;
    state.put_provider(Provider::new(provider));
    for number in 0..offers {
        state.put_offer(offer(number, ModeSet::UNSEALED, provider));
    }
    state.stock_is_stale = true;
    let needs = JobNeeds {
        gang: members,
        neighbourhood_us: 1,
        ..JobNeeds::ANY_MACHINE
    };
    let gangs = [
        order(&mut state, (needs, 1), None),
        order(&mut state, (needs, 1), None),
    ];
    let leased = |state: &State| {
        let of = |id: &tg_types::JobId| state.job(id).unwrap().state() == JobState::Leased;
        gangs.iter().filter(|it| of(it)).count()
    };
    for (block, expected) in [(0, 0), (1, 1), (2, 2)] {
        let mut execution = Execution::begin(&state, TimestampMs::new(2_000 + block));
        execution.run_matching().unwrap();
        state = execution.state;
        assert_eq!(leased(&state), expected, "block {block}");
    }
}

/// A bid that was opened in the first slot, for one GPU and `millis` of a T4.
fn bid(state: &mut State, disk_gib: u32, millis: u64) -> JobId {
    let sequence = state.totals.jobs;
    let needs = JobNeeds {
        class: JobClass::Batch,
        gpus: 1,
        gpu_milli: 1_000,
        disk_gib,
        reference: DurationMs::new(millis),
        ..JobNeeds::ANY_MACHINE
    };
    let id = waiting_with(state, sequence, VerificationMode::None, needs);
    let mut job = state.job(&id).unwrap().clone();
    job.order.max_price = ENOUGH;
    job.revealed_in = Some(1);
    state.put_job(job);
    id
}

#[test]
fn bids_that_nothing_can_serve_hold_up_no_other() {
    let mut state = network();
    let provider = state.accounts.iter().next().unwrap().address;
    state.put_provider(Provider::new(provider));
    let mut posted = offer(0, ModeSet::UNSEALED, provider);
    posted.terms.price_per_gpu_second = Amount::new(1);
    posted.terms.machine = Machine {
        gpu_count: 1,
        gpu: GpuModel::T4,
        gpu_memory_mib: 16_384,
        ..Machine::CPU_ONLY
    };
    state.put_offer(posted);
    state.stock_is_stale = true;
    // The shortest go first, so all of the crowd is before the one that fits, and nothing ever serves the crowd.
    for _ in 0..2 * AUCTION_BIDS_MAX {
        bid(&mut state, u32::MAX, 1);
    }
    let honest = bid(&mut state, 0, 1_000);
    let slot = state.parameters.auction_slot.get();
    let mut slots = 0;
    while state.job(&honest).unwrap().state() == JobState::Queued {
        slots += 1;
        assert!(slots <= 9, "a slot looks at a third of the bids or more");
        let mut execution = Execution::begin(&state, TimestampMs::new(slot * (1 + slots)));
        execution.run_matching().unwrap();
        state = execution.state;
    }
    assert_eq!(state.job(&honest).unwrap().state(), JobState::Leased);
}

/// An offer of a machine that lies far from all others.
fn lonely(state: &mut State, number: u64, provider: Address) {
    let mut offer = offer(number, ModeSet::UNSEALED, provider);
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
        assert_eq!(state.job(&honest).unwrap().state(), JobState::Leased);
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
    let mut near = offer(1_000_000, ModeSet::UNSEALED, provider);
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
            .any(|job| job.order.needs.gang == 2 && job.state() == JobState::Leased);
    }
    assert!(placed);
}
