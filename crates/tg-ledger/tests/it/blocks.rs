//! Blocks: the header's fields, replays, and what a mempool takes.

use tg_ledger::limits::NONCES_AHEAD_MAX;
use tg_ledger::tree::kind;
use tg_ledger::{
    BlockError, JobState, LeafKey, Proposal, StateProof, TransactionError, apply, apply_once,
    check_transaction, propose,
};
use tg_types::{
    Address, Amount, CheckedSignatures, Fault, SignatureError, TimestampMs, Transaction,
    TransactionKind,
};

use crate::world::{World, address, fee, tgrid, wallet};

fn pay(milli: u64) -> Transaction {
    Transaction::Transfer {
        to: address("bob"),
        amount: tgrid(milli),
    }
}

#[test]
fn a_block_is_applied_once() {
    let mut world = World::bare();
    let before = world.state.clone();
    world.send("alice", pay(1));
    let block = world.blocks[0].clone();
    assert!(matches!(
        apply(&world.state, &block),
        Err(BlockError::WrongHeight { .. })
    ));
    // From the state before, it leads to the same state again.
    let (again, _) = apply(&before, &block).unwrap();
    assert_eq!(again.root(), world.state.root());
}

/// What a node has looked at before is executed as what it has not, and nothing else holds because of it.
#[test]
fn signatures_that_were_checked_hold_and_no_others() {
    let mut world = World::bare();
    let before = world.state.clone();
    let signed = world.sign("alice", pay(1));
    world.block(vec![signed.clone()], vec![]);
    let block = world.blocks.last().unwrap().clone();
    let checked = CheckedSignatures::new(8);
    check_transaction(&before, &signed, &checked).unwrap();
    assert_eq!(checked.count(), 1);
    let (after, events) = apply_once(&before, &block, &checked).unwrap();
    let (plain, plain_events) = apply(&before, &block).unwrap();
    assert_eq!((after.root(), events), (plain.root(), plain_events));
    assert_eq!(checked.count(), 1, "it is found again");
    // Another amount under the same signature, and another signature of the same.
    let mut forged = [signed.clone(), signed];
    forged[0].transaction = pay(2);
    let tg_types::Authorization::Account(signature) = &mut forged[1].authorization else {
        panic!("a wallet signs for its account");
    };
    signature.s[31] ^= 1;
    for forged in forged {
        let refused = check_transaction(&before, &forged, &checked);
        assert!(
            matches!(refused, Err(TransactionError::Signature(_))),
            "{refused:?}"
        );
        assert_eq!(
            refused,
            check_transaction(&before, &forged, &CheckedSignatures::none())
        );
    }
    assert_eq!(checked.count(), 1);
}

#[test]
fn a_transaction_is_executed_once() {
    let mut world = World::bare();
    let signed = world.sign("alice", pay(1));
    world.block(vec![signed.clone()], vec![]);
    assert_eq!(
        check_transaction(&world.state, &signed, &CheckedSignatures::none()),
        Err(TransactionError::NonceUsed {
            expected: 1,
            got: 0
        })
    );
    let twice = world.sign("alice", pay(2));
    let proposed = world.block(vec![twice.clone(), twice.clone()], vec![]);
    assert_eq!(proposed.block.transactions.len(), 1);
    assert_eq!(
        proposed.refused,
        [(
            twice,
            TransactionError::NonceUsed {
                expected: 2,
                got: 1
            }
        )]
    );
}

#[test]
fn a_mempool_takes_nonces_ahead_within_a_bound() {
    let world = World::bare();
    let at = |nonce| wallet("alice").sign(pay(1), nonce, world.state.domain());
    assert_eq!(
        check_transaction(&world.state, &at(0), &CheckedSignatures::none()),
        Ok(())
    );
    assert_eq!(
        check_transaction(
            &world.state,
            &at(NONCES_AHEAD_MAX),
            &CheckedSignatures::none()
        ),
        Ok(())
    );
    assert_eq!(
        check_transaction(
            &world.state,
            &at(NONCES_AHEAD_MAX + 1),
            &CheckedSignatures::none()
        ),
        Err(TransactionError::NonceTooFarAhead {
            expected: 0,
            got: NONCES_AHEAD_MAX + 1,
            limit: NONCES_AHEAD_MAX,
        })
    );
    let gap = TransactionError::NonceGap {
        expected: 0,
        got: 1,
    };
    assert!(gap.may_hold_later());
}

#[test]
fn a_signature_of_another_network_is_refused() {
    let world = World::bare();
    let mut elsewhere = *world.state.domain();
    elsewhere.chain_id = 1;
    let signed = wallet("alice").sign(pay(1), 0, &elsewhere);
    let error = check_transaction(&world.state, &signed, &CheckedSignatures::none()).unwrap_err();
    assert!(matches!(
        error,
        TransactionError::Signature(SignatureError::WrongSigner { .. })
    ));
    assert_eq!(error.fault(), Fault::Peer);
}

#[test]
fn a_proposer_needs_a_seat_and_a_later_time() {
    let world = World::bare();
    let stranger = address("alice");
    let later = TimestampMs::new(world.time + 1);
    assert_eq!(
        propose(&world.state, Proposal::empty(stranger, later)).unwrap_err(),
        BlockError::UnknownProposer { proposer: stranger }
    );
    let validator = world.state.validators()[0].address;
    assert_eq!(
        propose(&world.state, Proposal::empty(validator, world.now())).unwrap_err(),
        BlockError::TimeNotIncreasing {
            parent: world.now(),
            got: world.now(),
        }
    );
}

#[test]
fn a_block_with_anything_wrong_in_it_is_refused_whole() {
    let mut world = World::bare();
    let good = world.sign("alice", pay(1));
    let broke = wallet("pauper").sign(pay(1), 0, world.state.domain());
    let before = world.state.clone();
    let mut block = world.block(vec![good], vec![]).block;
    block.transactions.push(broke);
    block.header.body = tg_ledger::block::body_digest(&block.transactions, &block.verdicts);
    assert_eq!(
        apply(&before, &block).unwrap_err(),
        BlockError::Transaction {
            index: 1,
            source: TransactionError::InsufficientFunds {
                needed: tgrid(1).saturating_add(fee(TransactionKind::Transfer)),
                balance: tgrid(0),
            },
        }
    );
}

#[test]
fn forks_share_nothing_that_changes() {
    let mut world = World::with_offers();
    let fork = world.state.clone();
    let root = fork.root();
    let bytes = tg_types::Encode::to_bytes(&fork);
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    world.decide(&task, tg_ledger::Outcome::LeaseAccepted);
    assert_eq!(fork.root(), root);
    assert_eq!(tg_types::Encode::to_bytes(&fork), bytes);
}

#[test]
fn proofs_need_the_root_alone() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let root = world.state.root();
    let verify = |proof: &StateProof, kind, key: &[u8]| {
        let found = proof.verify(&root, &LeafKey::of(kind, key)).unwrap();
        found.map(|(head, _)| (head.owner, head.state, head.amount))
    };
    let alice = address("alice");
    let proof = world.state.prove_account(&alice);
    let found = verify(&proof, kind::ACCOUNT, alice.as_ref());
    assert_eq!(found, Some((alice, 0, world.balance("alice"))));
    let proof = world.state.prove_account(&Address::default());
    assert_eq!(verify(&proof, kind::ACCOUNT, &[0; 20]), None);
    // The job, and what it locks apart from it.
    let proof = world.state.prove_job(&job);
    let found = verify(&proof, kind::JOB, job.as_ref());
    assert_eq!(found, Some((alice, JobState::Leased.tag(), Amount::ZERO)));
    let proof = world.state.prove_escrow(&job);
    let found = verify(&proof, kind::ESCROW, job.as_ref());
    assert_eq!(found, Some((alice, 0, world.job(job).escrow())));
    let lease = world.lease(job).clone();
    let proof = world.state.prove_collateral(&lease.id);
    let found = verify(&proof, kind::COLLATERAL, lease.id.as_ref());
    assert_eq!(found, Some((lease.provider, 0, lease.locked())));
    // What ended locks nothing, and that is proved too.
    let task = world.work(job);
    world.decide(&task, tg_ledger::Outcome::LeaseAccepted);
    let root = world.state.root();
    let key = LeafKey::of(kind::ESCROW, job.as_ref());
    let proof = world.state.prove_escrow(&job);
    assert_eq!(proof.verify(&root, &key), Ok(None));
    let key = LeafKey::of(kind::COLLATERAL, lease.id.as_ref());
    let proof = world.state.prove_collateral(&lease.id);
    assert_eq!(proof.verify(&root, &key), Ok(None));
}
