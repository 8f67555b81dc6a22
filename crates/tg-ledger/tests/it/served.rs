//! Served models: leases of a card go to its provider's server alone, and cost tokens.

use tg_ledger::{
    EvidenceTask, JobState, ModelFacts, ModelState, Outcome, RefusedBecause, TransactionError,
};
use tg_types::{
    Amount, Digest, JobId, JobOrder, Label, ModeSet, OfferTerms, ServedCard, SignedVoucher, Tier,
    TimestampMs, Transaction, VerificationMode, Voucher,
};

use crate::world::{World, address, facts, terms, tgrid, wallet};

fn card(provider: &str) -> ServedCard {
    ServedCard {
        provider: address(provider),
        name: Label::lossy("parrot"),
        context: 1_000,
        calls: 1,
        prompt_price: tgrid(1),
        completion_price: tgrid(2),
        issued: TimestampMs::ZERO,
    }
}

/// What validators find in a card.
fn facts_of(card: &ServedCard) -> ModelFacts {
    ModelFacts {
        program: card.program_id(),
        tier: Tier::Served,
        macs: 0,
        provable: false,
        proof_bytes: 0,
        work: 0,
        memory: 0,
        trace_bytes: 0,
        read_bytes: 0,
        looks: 0,
        ..facts()
    }
}

/// Registers a card and has validators accept it as one.
fn register(world: &mut World, owner: &str, card: &ServedCard) -> ModelState {
    let file = Digest::of_blob(&card.file());
    let register = Transaction::RegisterModel {
        model: card.model_id(),
        public_blob: file,
        weights_blob: file,
        name: card.name.clone(),
    };
    world.send(owner, register);
    let task = EvidenceTask::Model {
        model: card.model_id(),
        public_blob: file,
    };
    world.decide(&task, Outcome::ModelAccepted(facts_of(card)));
    world.state.model(&card.model_id()).unwrap().state.clone()
}

/// An offer of a server, and of a machine, of one price for any job.
fn serving(price: u64) -> OfferTerms {
    OfferTerms {
        memory_bytes: 0,
        modes: ModeSet::of(&[VerificationMode::Endpoint]),
        ..terms(price)
    }
}

fn order(world: &World, card: &ServedCard) -> JobOrder {
    JobOrder {
        model: card.model_id(),
        mode: VerificationMode::Endpoint,
        input: Digest::default(),
        input_len: 0,
        max_price: tgrid(1_000),
        deadline: TimestampMs::new(world.time + 600_000),
        ..world.order()
    }
}

/// A network in which `dear` serves a model by a server of its own, and others have cheaper machines and servers; with an endpoint.
fn ordered() -> (World, JobId) {
    let mut world = World::new();
    let card = card("dear");
    assert!(matches!(
        register(&mut world, "dear", &card),
        ModelState::Active(_)
    ));
    world.post("cheap", terms(10));
    world.post("middle", serving(0));
    world.post("dear", terms(20));
    let order = order(&world, &card);
    let job = world.submit("alice", order);
    (world, job)
}

#[test]
fn only_a_server_of_the_cards_provider_gets_its_leases() {
    let (mut world, job) = ordered();
    assert_eq!(world.job(job).state(), JobState::Queued);
    let why = world.state.why_waiting(&job).unwrap();
    assert!(why.assessments.is_empty(), "{why:?}");
    world.post("dear", serving(50));
    assert_eq!(world.holder(job), "dear");
    let lease = world.lease(job).clone();
    assert_eq!(lease.price, Amount::ZERO);
    // Nor does a server get what a machine is for.
    let plain = world.order();
    let other = world.submit("alice", plain);
    assert_eq!(world.holder(other), "cheap");
}

#[test]
fn time_costs_nothing_and_tokens_are_paid_by_vouchers() {
    let (mut world, job) = ordered();
    world.post("dear", serving(50));
    let lease = world.lease(job).id;
    world.send("dear", Transaction::StartLease { lease });
    world.wait_until(world.time + 120_000);
    let voucher = Voucher {
        lease,
        answered: 3,
        amount: tgrid(7),
        asks: Digest::default(),
    };
    let signed: SignedVoucher = voucher.sign(&wallet("alice"), world.state.domain());
    let claim = Transaction::SettleEndpoint {
        lease,
        voucher: Some(signed),
        ends: false,
    };
    world.send("dear", claim);
    assert_eq!(world.job(job).served, tgrid(7));
    assert_eq!(world.job(job).escrow(), tgrid(993));
}

#[test]
fn a_served_model_has_no_other_jobs_than_endpoints() {
    let (mut world, _) = ordered();
    let card = card("dear");
    for mode in VerificationMode::ALL {
        if mode == VerificationMode::Endpoint {
            continue;
        }
        let order = JobOrder {
            mode,
            input_len: 784,
            ..order(&world, &card)
        };
        let refused = world.refusal("alice", Transaction::SubmitJob { order });
        let model = card.model_id();
        assert_eq!(refused, TransactionError::ServedAsEndpoint { model });
    }
}

#[test]
fn a_card_is_its_providers_to_register() {
    let mut world = World::new();
    let card = card("dear");
    let state = register(&mut world, "cheap", &card);
    let ModelState::Refused(RefusedBecause::Check { code, .. }) = state else {
        panic!("{state:?}");
    };
    assert_eq!(code, 96);
    // The provider still can.
    assert!(matches!(
        register(&mut world, "dear", &card),
        ModelState::Active(_)
    ));
}
