//! Everything that can be wrong with what is accepted otherwise, one thing at a time, each with its own error.

use std::collections::BTreeSet;

use tg_ledger::block::body_digest;
use tg_ledger::{
    Block, BlockError, BlockHeader, JobState, ModelFacts, Outcome, Proposal, Subject,
    TransactionError, UnverifiedJobs, Verdict, VerdictError, apply, propose,
};
use tg_types::limits::{ATTEMPTS_MAX, EVIDENCE_BYTES_MAX, INPUT_BYTES_MAX, SLOTS_MAX};
use tg_types::{
    Address, Amount, BlockId, Digest, Fault, Height, JobId, JobOrder, LeaseId, ModeSet, ModelId,
    OfferId, OfferTerms, ProgramId, Receipt, StateRoot, Tier, TimestampMs, Transaction,
    TransactionKind, VerificationMode,
};

use crate::world::{
    INPUT, MODEL, PROGRAM, World, address, commit, evidence, facts, fee, receipt, register,
    rejected, terms, tgrid,
};

/// Orders with one field that does not hold, at a block time.
fn order_cases(world: &World, now: TimestampMs) -> Vec<(JobOrder, TransactionError)> {
    type Change = fn(&mut JobOrder);
    let latest = now.saturating_add(world.state.parameters().job_horizon);
    let floor = world.state.parameters().job_price_min;
    let cases: Vec<(Change, TransactionError)> = vec![
        (
            |it| it.model = ModelId::new([9; 32]),
            TransactionError::UnknownModel {
                model: ModelId::new([9; 32]),
            },
        ),
        (
            |it| it.input_len = 783,
            TransactionError::WrongInputLength {
                expected: 784,
                got: 783,
            },
        ),
        (
            |it| it.max_price = Amount::ZERO,
            TransactionError::PriceTooLow {
                max_price: Amount::ZERO,
                floor,
            },
        ),
        (
            |it| it.max_price = Amount::MAX,
            TransactionError::InsufficientFunds {
                needed: Amount::MAX,
                balance: Amount::from_tgrid(100),
            },
        ),
        (
            |it| it.deadline = TimestampMs::ZERO,
            TransactionError::DeadlineInThePast {
                deadline: TimestampMs::ZERO,
                now,
            },
        ),
        (
            |it| it.deadline = TimestampMs::new(u64::MAX),
            TransactionError::DeadlineTooFar {
                deadline: TimestampMs::new(u64::MAX),
                latest,
            },
        ),
        (|it| it.max_attempts = 0, bad_attempts(0)),
        (
            |it| it.max_attempts = ATTEMPTS_MAX + 1,
            bad_attempts(ATTEMPTS_MAX + 1),
        ),
    ];
    let changed = |change: Change| {
        let mut order = world.order();
        change(&mut order);
        order
    };
    let cases = cases.into_iter();
    cases.map(|(it, error)| (changed(it), error)).collect()
}

const fn bad_attempts(got: u8) -> TransactionError {
    TransactionError::BadAttempts {
        got,
        limit: ATTEMPTS_MAX,
    }
}

#[test]
fn each_field_of_an_order() {
    let world = World::new();
    let now = TimestampMs::new(world.time + crate::world::TICK);
    for (order, expected) in order_cases(&world, now) {
        let mut world = World::new();
        assert_eq!(
            world.refusal("alice", Transaction::SubmitJob { order }),
            expected
        );
    }
}

#[test]
fn a_mode_needs_the_network_and_the_model() {
    let mut genesis = crate::world::genesis();
    genesis.parameters.unverified_jobs = UnverifiedJobs::Refused;
    let mut world = World::with(&genesis);
    let mut unprovable = facts();
    unprovable.provable = false;
    world.activate_model(unprovable);
    let order = world.order();
    assert_eq!(
        world.refusal(
            "alice",
            Transaction::SubmitJob {
                order: order.clone()
            }
        ),
        TransactionError::ModelNotProvable { model: MODEL }
    );
    // Validators run models again up to a size.
    for (macs, memory) in [
        (1 << 34, (4 << 30) + 1),
        ((1 << 34) + 1, 4 << 30),
        (1 << 34, 4 << 30),
    ] {
        let mut world = World::with(&genesis);
        world.activate_model(ModelFacts {
            macs,
            memory,
            ..facts()
        });
        let order = JobOrder {
            mode: VerificationMode::Recompute,
            ..world.order()
        };
        if macs == 1 << 34 && memory == 4 << 30 {
            world.submit("alice", order);
        } else {
            assert_eq!(
                world.refusal("alice", Transaction::SubmitJob { order }),
                TransactionError::ModelNotRecomputable { model: MODEL }
            );
        }
    }
    let order = JobOrder {
        mode: VerificationMode::None,
        ..order
    };
    assert_eq!(
        world.refusal("alice", Transaction::SubmitJob { order }),
        TransactionError::UnverifiedJobsRefused
    );
}

#[test]
fn each_field_of_an_offer_that_the_ledger_judges() {
    let mut world = World::new();
    let floor = world.state.parameters().collateral_min;
    let good = terms(30);
    let cases: Vec<(OfferTerms, TransactionError)> = vec![
        (
            OfferTerms {
                slots: 0,
                ..good.clone()
            },
            TransactionError::BadSlots {
                got: 0,
                limit: SLOTS_MAX,
            },
        ),
        (
            OfferTerms {
                slots: SLOTS_MAX + 1,
                ..good.clone()
            },
            TransactionError::BadSlots {
                got: SLOTS_MAX + 1,
                limit: SLOTS_MAX,
            },
        ),
        (
            OfferTerms {
                modes: ModeSet::EMPTY,
                ..good.clone()
            },
            TransactionError::NoModes,
        ),
        (
            OfferTerms {
                speed_mmac_per_s: 0,
                ..good.clone()
            },
            TransactionError::NoSpeed,
        ),
        (
            OfferTerms {
                collateral_per_lease: Amount::ZERO,
                ..good
            },
            TransactionError::CollateralTooLow {
                got: Amount::ZERO,
                floor,
            },
        ),
    ];
    for (terms, expected) in cases {
        assert_eq!(
            world.refusal("cheap", Transaction::PostOffer { terms }),
            expected
        );
    }
}

#[test]
fn offers_and_jobs_of_nobody_and_of_others() {
    let mut world = World::new();
    let offer = OfferId::new([9; 32]);
    assert_eq!(
        world.refusal("cheap", Transaction::WithdrawOffer { offer }),
        TransactionError::UnknownOffer { offer }
    );
    let offer = world.post("cheap", terms(30));
    assert_eq!(
        world.refusal("dear", Transaction::WithdrawOffer { offer }),
        TransactionError::NotOfferOwner {
            offer,
            provider: address("cheap")
        }
    );
    let job = JobId::new([9; 32]);
    assert_eq!(
        world.refusal("alice", Transaction::CancelJob { job }),
        TransactionError::UnknownJob { job }
    );
}

#[test]
fn each_field_of_a_receipt_that_is_known_before_the_evidence() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    let (model, program) = (ModelId::new([9; 32]), ProgramId::new([9; 32]));
    let input = Digest::new([9; 32]);
    let cases: Vec<(Receipt, TransactionError)> = vec![
        (
            Receipt {
                program,
                ..receipt()
            },
            TransactionError::WrongProgram {
                expected: PROGRAM,
                got: program,
            },
        ),
        (
            Receipt { model, ..receipt() },
            TransactionError::WrongModel {
                expected: MODEL,
                got: model,
            },
        ),
        (
            Receipt { input, ..receipt() },
            TransactionError::WrongInput {
                expected: INPUT,
                got: input,
            },
        ),
        (
            Receipt {
                tier: Tier::Wasm1,
                ..receipt()
            },
            TransactionError::WrongTier {
                expected: Tier::Tgx1,
                got: Tier::Wasm1,
            },
        ),
    ];
    for (receipt, expected) in cases {
        let commit = Transaction::CommitReceipt { lease, receipt };
        assert_eq!(world.refusal("cheap", commit), expected);
    }
    // Output and trace are the provider's claim: they are taken, and the evidence must show them.
    let claim = Receipt {
        output: Digest::new([9; 32]),
        trace: Digest::new([8; 32]),
        ..receipt()
    };
    let receipt = claim.clone();
    world.send("cheap", Transaction::CommitReceipt { lease, receipt });
    assert_eq!(world.lease(job).receipt(), Some(&claim));
}

#[test]
fn each_field_of_lease_transactions() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    let unknown = LeaseId::new([9; 32]);
    let wrong_state = |state, needed| TransactionError::WrongJobState {
        lease,
        state,
        needed,
    };
    for transaction in [
        Transaction::StartLease { lease: unknown },
        commit(unknown),
        evidence(unknown),
    ] {
        assert_eq!(
            world.refusal("cheap", transaction),
            TransactionError::UnknownLease { lease: unknown }
        );
    }
    for transaction in [
        Transaction::StartLease { lease },
        commit(lease),
        evidence(lease),
    ] {
        assert_eq!(
            world.refusal("mallory", transaction),
            TransactionError::NotLeaseHolder {
                lease,
                provider: address("cheap")
            }
        );
    }
    assert_eq!(
        world.refusal("cheap", commit(lease)),
        wrong_state(JobState::Leased, JobState::Running)
    );
    world.send("cheap", Transaction::StartLease { lease });
    assert_eq!(
        world.refusal("cheap", Transaction::StartLease { lease }),
        wrong_state(JobState::Running, JobState::Leased)
    );
    assert_eq!(
        world.refusal("cheap", evidence(lease)),
        wrong_state(JobState::Running, JobState::Committed)
    );
    world.send("cheap", commit(lease));
    let sized = |size| Transaction::SubmitEvidence {
        lease,
        evidence: Digest::new([1; 32]),
        size,
    };
    assert_eq!(
        world.refusal("cheap", sized(0)),
        TransactionError::EvidenceEmpty
    );
    assert_eq!(
        world.refusal("cheap", sized(EVIDENCE_BYTES_MAX + 1)),
        TransactionError::EvidenceTooLarge {
            size: EVIDENCE_BYTES_MAX + 1,
            limit: EVIDENCE_BYTES_MAX
        }
    );
    world.send("cheap", sized(EVIDENCE_BYTES_MAX));
    // Evidence is named once.
    assert_eq!(
        world.refusal("cheap", sized(1)),
        wrong_state(JobState::Verifying, JobState::Committed)
    );
}

#[test]
fn each_way_to_have_no_money() {
    let mut world = World::new();
    let all = world.balance("alice");
    let needed = all.saturating_add(fee(TransactionKind::Transfer));
    assert_eq!(
        world.refusal(
            "alice",
            Transaction::Transfer {
                to: address("bob"),
                amount: all
            }
        ),
        TransactionError::InsufficientFunds {
            needed,
            balance: all
        }
    );
    let keep = |milli: u64| {
        let kept = tgrid(milli).saturating_add(fee(TransactionKind::Transfer));
        all.saturating_sub(kept)
    };
    world.send(
        "alice",
        Transaction::Transfer {
            to: address("bob"),
            amount: keep(110),
        },
    );
    // 110 are left: the escrow alone, without the fee.
    let order = world.order();
    assert_eq!(
        world.refusal("alice", Transaction::SubmitJob { order }),
        TransactionError::InsufficientFunds {
            needed: tgrid(110).saturating_add(fee(TransactionKind::SubmitJob)),
            balance: tgrid(110)
        }
    );
    assert_eq!(
        world.refusal("stranger", Transaction::PostOffer { terms: terms(30) }),
        TransactionError::InsufficientFunds {
            needed: fee(TransactionKind::PostOffer),
            balance: Amount::ZERO
        }
    );
}

/// A block that follows from the state of [`World::with_offers`].
fn good_block(world: &World) -> Block {
    let order = world.order();
    let proposal = Proposal {
        proposer: world.state.validators()[0].address,
        timestamp: TimestampMs::new(world.time + 10),
        transactions: vec![world.sign("alice", Transaction::SubmitJob { order })],
        verdicts: vec![],
    };
    propose(&world.state, proposal).unwrap().block
}

#[test]
fn a_new_account_needs_a_beginning() {
    let mut world = World::bare();
    let (to, floor) = (address("nobody yet"), world.state.parameters().account_min);
    let amount = floor.saturating_sub(Amount::new(1));
    assert_eq!(
        world.refusal("alice", Transaction::Transfer { to, amount }),
        TransactionError::TooLittleForNewAccount {
            to,
            got: amount,
            floor
        }
    );
    world.send("alice", Transaction::Transfer { to, amount: floor });
    // Once it exists, any amount reaches it.
    world.send("alice", Transaction::Transfer { to, amount });
}

#[test]
fn each_field_of_a_header() {
    type Change = fn(&mut BlockHeader);
    let world = World::with_offers();
    let good = good_block(&world);
    assert!(apply(&world.state, &good).is_ok());
    let head = world.state.head();
    let cases: Vec<(Change, BlockError)> = vec![
        (
            |it| it.height = Height::new(99),
            BlockError::WrongHeight {
                expected: head.height.next(),
                got: Height::new(99),
            },
        ),
        (
            |it| it.parent = BlockId::new([9; 32]),
            BlockError::WrongParent {
                expected: head.block,
                got: BlockId::new([9; 32]),
            },
        ),
        (
            |it| it.timestamp = TimestampMs::new(1),
            BlockError::TimeNotIncreasing {
                parent: head.time,
                got: TimestampMs::new(1),
            },
        ),
        (
            |it| it.proposer = Address::new([9; 20]),
            BlockError::UnknownProposer {
                proposer: Address::new([9; 20]),
            },
        ),
        (
            |it| it.body = Digest::new([9; 32]),
            BlockError::WrongBody {
                expected: Digest::new([9; 32]),
                got: good.header.body,
            },
        ),
        (
            |it| it.state_root = StateRoot::new([9; 32]),
            BlockError::WrongStateRoot {
                expected: StateRoot::new([9; 32]),
                got: good.header.state_root,
            },
        ),
    ];
    for (change, expected) in cases {
        let mut block = good.clone();
        change(&mut block.header);
        assert_ne!(block.id(), good.id());
        assert_eq!(apply(&world.state, &block).unwrap_err(), expected);
    }
}

#[test]
fn a_valid_time_and_a_valid_proposer_make_another_state() {
    let world = World::with_offers();
    let good = good_block(&world);
    let mut later = good.clone();
    later.header.timestamp = TimestampMs::new(world.time + 11);
    assert!(matches!(
        apply(&world.state, &later).unwrap_err(),
        BlockError::WrongStateRoot { .. }
    ));
    // Nothing is rewarded in this block, but the state tells whose last block it is.
    let mut moved = good.clone();
    let mut validators = world.state.validators().iter().map(|it| it.address);
    let other = validators.find(|it| *it != good.header.proposer);
    moved.header.proposer = other.unwrap();
    assert!(matches!(
        apply(&world.state, &moved).unwrap_err(),
        BlockError::WrongStateRoot { .. }
    ));
}

#[test]
fn each_part_of_a_body() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    let before = world.state.clone();
    let pay = Transaction::Transfer {
        to: address("bob"),
        amount: tgrid(1),
    };
    let signed = world.sign("alice", pay);
    let good = world
        .block(vec![signed], vec![task.verdict(Outcome::LeaseAccepted)])
        .block;
    let refusal = |change: &dyn Fn(&mut Block)| {
        let mut block = good.clone();
        change(&mut block);
        block.header.body = body_digest(&block.transactions, &block.verdicts);
        apply(&before, &block).unwrap_err()
    };
    assert!(matches!(
        refusal(&|it| it.transactions[0].nonce += 1),
        BlockError::Transaction {
            index: 0,
            source: TransactionError::Signature(_)
        }
    ));
    assert!(matches!(
        refusal(&|it| it.transactions.clear()),
        BlockError::WrongStateRoot { .. }
    ));
    assert!(matches!(
        refusal(&|it| it.verdicts.clear()),
        BlockError::WrongStateRoot { .. }
    ));
    assert!(matches!(
        refusal(&|it| it.transactions.push(it.transactions[0].clone())),
        BlockError::Transaction {
            index: 1,
            source: TransactionError::NonceUsed { .. }
        }
    ));
    assert!(matches!(
        refusal(&|it| it.transactions = vec![it.transactions[0].clone(); 1_025]),
        BlockError::TooManyTransactions { count: 1_025, .. }
    ));
    assert!(matches!(
        refusal(&|it| it.verdicts = vec![it.verdicts[0].clone(); 257]),
        BlockError::TooManyVerdicts { count: 257, .. }
    ));
}

#[test]
fn each_field_of_a_verdict() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    let good = task.verdict(Outcome::LeaseAccepted);
    let lease = world.lease(job).id;
    let validator = world.state.validators()[0].address;
    let timestamp = TimestampMs::new(world.time + 1);
    let refusal = |verdict: Verdict| {
        let proposal = Proposal {
            proposer: validator,
            timestamp,
            transactions: vec![],
            verdicts: vec![verdict.clone()],
        };
        let proposed = propose(&world.state, proposal).unwrap();
        let [(_, refused)] = proposed.refused_verdicts[..] else {
            panic!("accepted: {verdict:?}");
        };
        // A block with it in is refused for the same reason.
        let mut block = proposed.block;
        block.verdicts.push(verdict);
        block.header.body = body_digest(&block.transactions, &block.verdicts);
        assert_eq!(
            apply(&world.state, &block).unwrap_err(),
            BlockError::Verdict {
                index: 0,
                source: refused
            }
        );
        refused
    };
    for subject in [
        Subject::Lease(LeaseId::new([9; 32])),
        Subject::Model(ModelId::new([9; 32])),
    ] {
        let unknown = Verdict {
            subject,
            ..good.clone()
        };
        assert_eq!(refusal(unknown), VerdictError::UnknownSubject { subject });
    }
    let subject = Subject::Model(MODEL);
    let decided = Verdict {
        subject,
        ..good.clone()
    };
    assert_eq!(refusal(decided), VerdictError::NotPending { subject });
    let subject = Subject::Lease(lease);
    let other = Digest::new([9; 32]);
    assert_eq!(
        refusal(Verdict {
            evidence: other,
            ..good.clone()
        }),
        VerdictError::WrongEvidence {
            subject,
            expected: good.evidence,
            got: other
        }
    );
    // A proof shows no bill: only a program's lease is accepted with one.
    let bill = Outcome::ProgramAccepted { macs: 0 };
    for outcome in [Outcome::ModelAccepted(facts()), bill] {
        let wrong = Verdict {
            outcome,
            ..good.clone()
        };
        assert_eq!(refusal(wrong), VerdictError::WrongOutcome { subject });
    }
}

#[test]
fn verdicts_on_models_are_checked_too() {
    let mut world = World::bare();
    world.send("bob", register());
    let task = world.state.pending_evidence().next().unwrap();
    let subject = task.subject();
    let mut refusal = |outcome| {
        let proposed = world.block(vec![], vec![task.verdict(outcome)]);
        proposed.refused_verdicts[0].1
    };
    assert_eq!(
        refusal(Outcome::LeaseAccepted),
        VerdictError::WrongOutcome { subject }
    );
    for (field, value, facts) in [
        (
            "input_len",
            0,
            ModelFacts {
                input_len: 0,
                ..facts()
            },
        ),
        (
            "input_len",
            INPUT_BYTES_MAX + 1,
            ModelFacts {
                input_len: INPUT_BYTES_MAX + 1,
                ..facts()
            },
        ),
        (
            "output_len",
            0,
            ModelFacts {
                output_len: 0,
                ..facts()
            },
        ),
        (
            "proof_bytes",
            EVIDENCE_BYTES_MAX + 1,
            ModelFacts {
                proof_bytes: EVIDENCE_BYTES_MAX + 1,
                ..facts()
            },
        ),
    ] {
        assert_eq!(
            refusal(Outcome::ModelAccepted(facts)),
            VerdictError::FactsOutOfBounds {
                subject,
                field,
                value: u64::from(value)
            }
        );
    }
}

#[test]
fn a_verdict_before_the_evidence_does_not_count() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    let early = Verdict {
        subject: Subject::Lease(lease),
        evidence: Digest::new([0x36; 32]),
        outcome: rejected(),
    };
    let proposed = world.block(vec![], vec![early]);
    assert_eq!(
        proposed.refused_verdicts[0].1,
        VerdictError::NotPending {
            subject: Subject::Lease(lease)
        }
    );
    assert_eq!(world.job(job).state(), JobState::Leased);
}

#[test]
fn codes_are_stable_and_unique() {
    let sources = concat!(
        include_str!("../../src/error.rs"),
        include_str!("../../src/error/transaction.rs")
    );
    let codes: Vec<&str> = sources
        .match_indices("\"TG-LED-")
        .map(|(at, _)| &sources[at + 1..at + 11])
        .collect();
    let unique: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(unique.len(), codes.len());
    assert_eq!(
        codes.len(),
        79 + 5 + 14 + 3 + 7 + 2 + 10 + 2 + 5 + 5 + 1 + 2 + 1 + 1 + 8 + 6 + 7 + 1
    );
    let model = MODEL;
    let error = TransactionError::UnknownModel { model };
    assert_eq!((error.code(), error.fault()), ("TG-LED-020", Fault::Client));
    let subject = Subject::Model(model);
    let error = VerdictError::NotPending { subject };
    assert_eq!((error.code(), error.fault()), ("TG-LED-071", Fault::Peer));
    let error = BlockError::Invariant(tg_ledger::InvariantError::TreeFull);
    assert_eq!((error.code(), error.fault()), ("TG-LED-091", Fault::Ours));
}
