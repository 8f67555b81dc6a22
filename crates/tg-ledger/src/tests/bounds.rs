//! The bounds of the whole network, reached by filling the tables directly.

use tg_types::CheckedSignatures;
use tg_types::transaction::bid_commitment;
use tg_types::{
    Address, Amount, BidId, Digest, DurationMs, JobClass, JobId, JobNeeds, JobOrder, Label,
    Machine, ModeSet, ModelId, OfferId, OfferTerms, Pricing, SignedTransaction, TimestampMs,
    Transaction, VerificationMode, Wallet, keccak256,
};

use super::pruning::{MODEL, network};
use crate::apply::check_transaction;
use crate::error::TransactionError;
use crate::limits::{MODELS_MAX, OFFERS_MAX, OPEN_JOBS_MAX};
use crate::record::{Bid, Offer};
use crate::state::State;

fn sign(state: &State, transaction: Transaction) -> SignedTransaction {
    Wallet::from_seed(b"alice").sign(transaction, 0, state.domain())
}

pub(super) fn terms() -> OfferTerms {
    OfferTerms {
        hardware: Label::default(),
        price_base: Amount::new(1),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(1),
        speed_mmac_per_s: 1,
        memory_bytes: 0,
        slots: 1,
        collateral_per_lease: Amount::from_tgrid(1),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

#[test]
fn the_network_has_at_most_so_many_offers() {
    let mut state = network();
    let post = sign(&state, Transaction::PostOffer { terms: terms() });
    for number in 0..OFFERS_MAX as u64 {
        if number + 1 == OFFERS_MAX as u64 {
            assert_eq!(
                check_transaction(&state, &post, &CheckedSignatures::none()),
                Ok(())
            );
        }
        state.put_offer(Offer {
            id: OfferId::new(keccak256(&number.to_be_bytes())),
            provider: Address::default(),
            terms: terms(),
            slots_taken: 0,
            updated_at: TimestampMs::ZERO,
            rent: crate::Rent::default(),
        });
    }
    assert_eq!(
        check_transaction(&state, &post, &CheckedSignatures::none()),
        Err(TransactionError::TooManyOffers { limit: OFFERS_MAX })
    );
}

#[test]
fn the_network_has_at_most_so_many_models() {
    let mut state = network();
    let register = |id| Transaction::RegisterModel {
        model: ModelId::new(id),
        public_blob: Digest::default(),
        weights_blob: Digest::default(),
        name: Label::default(),
    };
    let template = state.model(&MODEL).unwrap().clone();
    for number in 1..MODELS_MAX as u64 {
        let mut model = template.clone();
        model.id = ModelId::new(keccak256(&number.to_be_bytes()));
        state.put_model(model);
    }
    let new = sign(&state, register([7; 32]));
    assert_eq!(
        check_transaction(&state, &new, &CheckedSignatures::none()),
        Err(TransactionError::TooManyModels { limit: MODELS_MAX })
    );
    // A refused model makes room for itself.
    let mut refused = template;
    refused.state = crate::ModelState::Refused(crate::RefusedBecause::NotDelivered);
    state.put_model(refused);
    let again = sign(&state, register(*MODEL.as_bytes()));
    assert_eq!(
        check_transaction(&state, &again, &CheckedSignatures::none()),
        Ok(())
    );
}

#[test]
fn the_network_has_at_most_so_many_open_jobs() {
    let mut state = network();
    let order = JobOrder {
        model: MODEL,
        input: Digest::default(),
        input_len: 1,
        mode: VerificationMode::None,
        max_price: Amount::from_tgrid(1),
        deadline: TimestampMs::new(100_000),
        max_attempts: 1,
        retention: tg_types::DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    };
    let submit = sign(&state, Transaction::SubmitJob { order });
    // Waiting and leased jobs count together.
    let half = OPEN_JOBS_MAX as u64 / 2;
    let id = |number: u64| (number, JobId::new(keccak256(&number.to_be_bytes())));
    state.queued.extend((0..half).map(id));
    state.live.extend((half..2 * half - 1).map(id));
    assert_eq!(
        check_transaction(&state, &submit, &CheckedSignatures::none()),
        Ok(())
    );
    state.live.extend([id(2 * half)]);
    assert_eq!(
        check_transaction(&state, &submit, &CheckedSignatures::none()),
        Err(TransactionError::TooManyOpenJobs {
            limit: OPEN_JOBS_MAX
        })
    );
}

/// Stops: open jobs that others fill while bids are sealed, so that these cannot be opened and lose their deposits.
#[test]
fn a_sealed_bid_keeps_a_place_among_the_open_jobs_for_what_it_opens() {
    let mut state = network();
    let order = JobOrder {
        model: MODEL,
        input: Digest::default(),
        input_len: 1,
        mode: VerificationMode::None,
        max_price: Amount::from_tgrid(1),
        deadline: TimestampMs::new(100_000),
        max_attempts: 1,
        retention: DurationMs::ZERO,
        needs: JobNeeds::ANY_MACHINE,
    };
    let batch = JobOrder {
        needs: JobNeeds {
            class: JobClass::Batch,
            gpus: 1,
            gpu_milli: 1_000,
            reference: DurationMs::from_secs(1),
            ..JobNeeds::ANY_MACHINE
        },
        ..order
    };
    let alice = Wallet::from_seed(b"alice").address();
    let (id, salt) = (BidId::new([7; 32]), Digest::new([7; 32]));
    let commitment = bid_commitment(&batch, &salt, &alice);
    let deposit = state.parameters.bid_deposit_min;
    let submit = sign(&state, Transaction::SubmitJob { order });
    let commit = Transaction::CommitBid {
        commitment,
        deposit,
    };
    let commit = sign(&state, commit);
    let reveal = Transaction::RevealBid {
        bid: id,
        salt,
        order: batch,
    };
    let reveal = sign(&state, reveal);
    let check = |state: &State, transaction: &SignedTransaction| {
        check_transaction(state, transaction, &CheckedSignatures::none())
    };
    let job = |number: u64| (number, JobId::new(keccak256(&number.to_be_bytes())));
    state.queued.extend((1..OPEN_JOBS_MAX as u64).map(job));
    assert_eq!(check(&state, &submit), Ok(()));
    assert_eq!(check(&state, &commit), Ok(()));
    let slot = state.parameters.slot(state.head.time);
    state.put_bid(Bid {
        id,
        bidder: alice,
        commitment,
        deposit,
        slot: slot - 1,
    });
    let limit = OPEN_JOBS_MAX;
    let full = Err(TransactionError::TooManyOpenJobs { limit });
    assert_eq!(check(&state, &submit), full);
    assert_eq!(check(&state, &commit), full);
    assert_eq!(check(&state, &reveal), Ok(()));
}
