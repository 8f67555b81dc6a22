//! Gas: full blocks, what others pay for them, and who is never kept out.

use tg_ledger::block::body_digest;
use tg_ledger::gas::{BLOCK_GAS_MAX, LANE_GAS_MAX, LEASE_GAS, gas_of};
use tg_ledger::{
    BlockError, Event, Prepaid, PrepaidSubject, TransactionError, apply, check_transaction,
};
use tg_types::CheckedSignatures;
use tg_types::{
    Amount, Encode, Fees, JobId, JobNeeds, LeaseId, SignedTransaction, StorageSubject, Transaction,
    TransactionKind, limits::TRANSACTION_BYTES_MAX,
};

use crate::world::{BASE_FEE, World, address, commit, evidence, fee, lease_fee, tgrid, wallet};

fn pay(milli: u64) -> Transaction {
    Transaction::Transfer {
        to: address("bob"),
        amount: tgrid(milli),
    }
}

/// More transfers of `name` than a block has room for.
fn spam(world: &World, name: &str, fees: Fees) -> Vec<SignedTransaction> {
    let nonce = world.state.nonce(&address(name));
    let count = LANE_GAS_MAX / gas_of(TransactionKind::Transfer) + 20;
    (0..count)
        .map(|index| wallet(name).sign_with_fees(pay(1), nonce + index, fees, world.state.domain()))
        .collect()
}

#[test]
fn a_prepaid_transaction_serves_one_thing_and_others_serve_nothing() {
    let world = World::with_offers();
    let lease = LeaseId::new([7; 32]);
    let of = |name: &str, transaction: Transaction| Prepaid::of(&world.sign(name, transaction));
    let start = of("cheap", Transaction::StartLease { lease });
    let expected = Prepaid {
        kind: TransactionKind::StartLease,
        sender: address("cheap"),
        key: None,
        subject: PrepaidSubject::Lease(lease),
    };
    assert_eq!(start, Some(expected));
    // The same of another kind, lease or sender is another one.
    assert_ne!(of("cheap", commit(lease)), start);
    let other = LeaseId::new([8; 32]);
    assert_ne!(of("cheap", Transaction::StartLease { lease: other }), start);
    assert_ne!(of("dear", Transaction::StartLease { lease }), start);
    // Whatever a validator states of files, it stands in nobody else's place.
    let state = |name, subject: [u8; 32]| {
        let held = vec![StorageSubject::Job(JobId::new(subject))];
        let missing = Vec::new();
        of(name, Transaction::ReportStorage { held, missing })
    };
    let crossed: Vec<u8> = address("alice")
        .as_bytes()
        .iter()
        .zip(address("bob").as_bytes())
        .map(|(a, b)| a ^ b)
        .chain([0; 12])
        .collect();
    let crossed: [u8; 32] = crossed.try_into().unwrap();
    assert_ne!(state("alice", [0; 32]), state("bob", crossed));
    // What a validator says is one for each validator.
    let ready = |name| of(name, Transaction::ReadyForProtocol { version: 9 });
    assert_ne!(ready("alice"), ready("bob"));
    assert_eq!(of("cheap", pay(1)), None);
}

#[test]
fn what_serves_a_lease_is_owed_until_the_lease_ends() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    let start = Prepaid::of(&world.sign("cheap", Transaction::StartLease { lease })).unwrap();
    let other = LeaseId::new([8; 32]);
    let other = Prepaid::of(&world.sign("cheap", Transaction::StartLease { lease: other }));
    let ready = Prepaid::of(&world.sign("alice", Transaction::ReadyForProtocol { version: 9 }));
    let owed =
        |world: &World| [Some(start), other, ready].map(|it| world.state.is_owed(&it.unwrap()));
    assert_eq!(owed(&world), [true, false, true]);
    world.send("alice", Transaction::CancelJob { job });
    assert_eq!(owed(&world), [false, false, true]);
}

#[test]
fn whoever_fills_blocks_keeps_no_lease_out_and_pays_twice_as_much_every_ten_seconds() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    let fees = Fees::up_to(Amount::from_tgrid(1));
    let start = world.state.base_fee();
    assert_eq!(start, BASE_FEE);
    let duties = [
        Transaction::StartLease { lease },
        commit(lease),
        evidence(lease),
    ];
    let spent = world.balance("mallory");
    for duty in duties {
        // The spam comes first, and with the higher tip.
        let mut all = spam(&world, "mallory", fees);
        let count = all.len();
        let provider = world.balance("cheap");
        all.push(world.sign("cheap", duty));
        let proposed = world.block(all, vec![]);
        let kinds = proposed.block.transactions.iter().rev();
        assert!(kinds.take(1).all(|it| it.transaction.kind().is_prepaid()));
        assert_eq!(proposed.left.len(), 20);
        assert_eq!(proposed.block.transactions.len(), count - 20 + 1);
        assert_eq!(proposed.refused, []);
        // It costs the provider nothing now.
        assert_eq!(world.balance("cheap"), provider);
    }
    assert_eq!(
        world.task(lease).subject(),
        tg_ledger::Subject::Lease(lease)
    );
    let cost = spent.checked_sub(world.balance("mallory")).unwrap();
    assert!(cost > BASE_FEE.saturating_mul(3 * (LANE_GAS_MAX - 21_000)));
    for _ in 0..7 {
        let all = spam(&world, "mallory", fees);
        world.block(all, vec![]);
    }
    let high = world.state.base_fee().get();
    assert!(
        high > start.get() * 19 / 10 && high <= start.get() * 2,
        "{high}"
    );
    // A wallet that offered the old price is told the new one.
    let signed = wallet("alice").sign_with_fees(
        pay(1),
        world.state.nonce(&address("alice")),
        Fees::up_to(start),
        world.state.domain(),
    );
    let expected = TransactionError::FeeTooLow {
        max_fee: start,
        base_fee: world.state.base_fee(),
    };
    assert_eq!(
        check_transaction(&world.state, &signed, &CheckedSignatures::none()),
        Err(expected)
    );
    let proposed = world.block(vec![signed], vec![]);
    assert_eq!(proposed.refused[0].1.code(), "TG-LED-008");
    for _ in 0..20 {
        world.idle();
    }
    assert_eq!(world.state.base_fee(), start);
}

#[test]
fn a_block_above_its_gas_is_refused() {
    let mut world = World::new();
    let all = spam(&world, "mallory", Fees::DEVELOPMENT);
    let before = world.state.clone();
    let mut block = world.block(all.clone(), vec![]).block;
    let full = block.transactions.len();
    assert!(full < 500 && LANE_GAS_MAX * 2 == BLOCK_GAS_MAX);
    block.transactions.push(all[full].clone());
    block.header.body = body_digest(&block.transactions, &block.verdicts);
    let error = apply(&before, &block).unwrap_err();
    let expected = BlockError::TooMuchGas {
        index: full,
        limit: LANE_GAS_MAX,
    };
    assert_eq!(error, expected);
    assert_eq!(error.code(), "TG-LED-099");
}

#[test]
fn the_base_fee_burns_and_the_tip_is_the_proposers() {
    let mut world = World::new();
    let fees = Fees {
        max_fee_per_gas: BASE_FEE.saturating_mul(2),
        max_tip_per_gas: Amount::new(7),
    };
    let nonce = world.state.nonce(&address("alice"));
    let signed = wallet("alice").sign_with_fees(pay(1), nonce, fees, world.state.domain());
    let burned = world.state.totals().burned;
    let proposed = world.block(vec![signed], vec![]);
    let proposer = proposed.block.header.proposer;
    let tip = Amount::new(7 * 21_000);
    assert!(proposed.events.contains(&Event::Rewarded {
        validator: proposer,
        amount: tip,
    }));
    assert_eq!(
        world.state.totals().burned.checked_sub(burned),
        Some(fee(TransactionKind::Transfer))
    );
    // The tip is what is left under the maximum, at most.
    let tight = Fees {
        max_fee_per_gas: BASE_FEE.saturating_add(Amount::new(3)),
        max_tip_per_gas: Amount::new(7),
    };
    assert_eq!(tight.tip(BASE_FEE), Some(Amount::new(3)));
    assert_eq!(Fees::NONE.tip(BASE_FEE), None);
    let quoted = Fees::from_base_fee(BASE_FEE);
    assert_eq!(quoted.max_fee_per_gas, BASE_FEE.saturating_mul(4));
}

#[test]
fn what_a_lease_did_not_use_goes_back_unless_its_provider_failed() {
    let mut world = World::with_offers();
    let needs = JobNeeds {
        gang: 2,
        neighbourhood_us: 1_000,
        ..JobNeeds::ANY_MACHINE
    };
    let mut order = world.order();
    order.needs = needs;
    let job = world.submit("alice", order);
    let lead = world.lease(job).clone();
    assert_eq!(lead.gas, lease_fee());
    let member = world.state.lease(&lead.members()[0]).unwrap().clone();
    // One starts, the other never does.
    let name = world.holder(job);
    world.send(name, Transaction::StartLease { lease: lead.id });
    let events = world.wait_until(lead.start_by.get() + 1);
    let settled = |lease: LeaseId| {
        let mut found = events.iter().filter_map(|event| match event {
            Event::GasSettled {
                lease: it,
                burned,
                returned,
                ..
            } if *it == lease => Some((*burned, *returned)),
            _ => None,
        });
        found.next().unwrap()
    };
    let used = fee(TransactionKind::StartLease);
    let rest = BASE_FEE.saturating_mul(LEASE_GAS - gas_of(TransactionKind::StartLease));
    assert_eq!(settled(lead.id), (used, rest));
    assert_eq!(settled(member.id), (lease_fee(), Amount::ZERO));
}

#[test]
fn the_table_counts_the_longest_encodings() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    let mut terms = crate::world::terms(1);
    terms.hardware = tg_types::Label::lossy(&"x".repeat(64));
    let order = world.order();
    let (salt, bid) = (tg_types::Digest::default(), tg_types::BidId::default());
    let many = vec![address("alice"); 32];
    let all = [
        pay(1),
        crate::world::register(),
        Transaction::PostOffer {
            terms: terms.clone(),
        },
        Transaction::UpdateOffer {
            offer: tg_types::OfferId::default(),
            terms,
        },
        Transaction::SubmitJob {
            order: order.clone(),
        },
        Transaction::RevealBid { bid, salt, order },
        Transaction::StartLease { lease },
        commit(lease),
        evidence(lease),
        Transaction::ReportLiveness {
            epoch: 1,
            lost: many.clone(),
            back: many,
        },
    ];
    for transaction in all {
        let kind = transaction.kind();
        let bytes = world.sign("alice", transaction).to_bytes().len();
        assert!(bytes <= TRANSACTION_BYTES_MAX, "{kind}: {bytes}");
        // A signature, its bytes and one record are the least of it.
        let least = 10_000 + 16 * bytes as u64 + 4_000;
        assert!(gas_of(kind) >= least, "{kind}: {bytes}");
    }
}

#[test]
fn nothing_waits_behind_a_gap_for_those_who_have_nothing_at_stake() {
    let mut world = World::with_offers();
    let job = world.submit("alice", world.order());
    let lease = world.lease(job).id;
    let ahead = |name: &str, transaction| {
        let next = world.state.nonce(&address(name));
        wallet(name).sign(transaction, next + 2, world.state.domain())
    };
    let check = |signed| check_transaction(&world.state, &signed, &CheckedSignatures::none());
    let sender = address("stranger");
    let unknown = TransactionError::NoAccount { sender };
    assert_eq!(check(ahead("stranger", pay(1))), Err(unknown));
    assert_eq!(unknown.code(), "TG-LED-009");
    assert_eq!(check(ahead("alice", pay(1))), Ok(()));
    let holder = world.holder(job);
    let start = Transaction::StartLease { lease };
    assert_eq!(check(ahead(holder, start.clone())), Ok(()));
    assert_eq!(
        check(ahead("alice", start)).unwrap_err().code(),
        "TG-LED-051"
    );
    let report = Transaction::ReportLiveness {
        epoch: 0,
        lost: vec![],
        back: vec![],
    };
    assert_eq!(
        check(ahead("alice", report)).unwrap_err().code(),
        "TG-LED-075"
    );
    let reveal = Transaction::RevealBid {
        bid: tg_types::BidId::default(),
        salt: tg_types::Digest::default(),
        order: world.order(),
    };
    assert_eq!(
        check(ahead("alice", reveal)).unwrap_err().code(),
        "TG-LED-036"
    );
}
