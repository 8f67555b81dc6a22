//! The bound on offers looked at in a block: a crowd of jobs that fit nowhere starves nobody.

use std::sync::Arc;

use tg_types::{
    Address, Amount, Digest, DurationMs, Height, JobId, JobNeeds, JobOrder, Label, Machine,
    ModeSet, OfferId, OfferTerms, Pricing, TimestampMs, VerificationMode,
};

use super::pruning::{MODEL, network};
use crate::apply::Execution;
use crate::limits::LOOKS_PER_BLOCK_MAX;
use crate::{Job, JobState, Offer, Provider, State, Step};

fn numbered(number: u64) -> [u8; 32] {
    tg_types::keccak256(&number.to_be_bytes())
}

fn offer(number: u64, modes: ModeSet, provider: Address) -> Offer {
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

fn waiting(state: &mut State, sequence: u64, mode: VerificationMode) -> JobId {
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
            max_price: Amount::new(1),
            deadline: TimestampMs::new(1_000_000),
            max_attempts: 1,
            needs: JobNeeds::ANY_MACHINE,
        },
        macs: 1,
        state: JobState::Queued,
        history: vec![Step {
            state: JobState::Queued,
            height: Height::ZERO,
            at: TimestampMs::ZERO,
        }],
        escrow: Amount::ZERO,
        verification_fee: Amount::ZERO,
        prize: Amount::ZERO,
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
    // The crowd asks for a mode that no offer serves; the last job would fit anywhere.
    let per_block = LOOKS_PER_BLOCK_MAX.div_ceil(offers + 1);
    let crowd = 2 * per_block + 3;
    for sequence in 0..crowd {
        waiting(&mut state, sequence, VerificationMode::Zk);
    }
    let last = waiting(&mut state, crowd, VerificationMode::None);
    let mut cursors = Vec::new();
    for block in 1..=3 {
        let mut execution = Execution::begin(&state, TimestampMs::new(2_000 + block)).unwrap();
        execution.run_matching().unwrap();
        state = execution.state;
        cursors.push(state.match_cursor);
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
