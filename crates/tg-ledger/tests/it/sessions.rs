//! Session keys: what they may sign, what it counts, and when they sign no longer.

use tg_ledger::limits::{SESSION_TIME_MAX, SESSIONS_PER_ACCOUNT_MAX};
use tg_ledger::{
    JobState, LeaseEnd, Outcome, Parameters, Session, TransactionError, check_transaction,
};
use tg_types::CheckedSignatures;
use tg_types::limits::RETENTION_MIN;
use tg_types::transaction::bid_commitment;
use tg_types::{
    Amount, DeclineReason, Digest, DurationMs, Fees, JobClass, JobNeeds, JobOrder, SessionScope,
    SessionWallet, SignatureError, SignedTransaction, TimestampMs, Transaction, TransactionKind,
    VerificationMode, bid_id, job_id,
};

use crate::lanes::gpu_needs;
use crate::sync::{SIGNATURE, deal, seed_task};
use crate::world::{
    TICK, World, address, commit, evidence, facts, fee, genesis, receipt, rejected, terms, tgrid,
    wallet,
};

/// A session key of an account by a number.
pub(crate) fn key(name: &str, number: u8) -> SessionWallet {
    SessionWallet::from_secret(&[number; 32], address(name))
}

pub(crate) fn register(
    world: &World,
    key: &SessionWallet,
    scope: SessionScope,
    cap: Amount,
) -> Transaction {
    Transaction::RegisterSessionKey {
        key: key.public(),
        scope,
        cap,
        expires: TimestampMs::new(world.time + 600_000),
    }
}

/// A network with offers in which `name` has a key.
fn with_key(name: &str, scope: SessionScope, cap: Amount) -> (World, SessionWallet) {
    let mut world = World::with_offers();
    let key = key(name, 7);
    let register = register(&world, &key, scope, cap);
    world.send(name, register);
    (world, key)
}

fn session<'a>(world: &'a World, key: &SessionWallet) -> &'a Session {
    let account = world.state.account(&key.account()).unwrap();
    account.session(&key.public()).unwrap()
}

/// Signs with the key's next nonce.
pub(crate) fn sign(
    world: &World,
    key: &SessionWallet,
    transaction: Transaction,
) -> SignedTransaction {
    let nonce = world.state.nonce_in(&key.lane());
    key.sign_with_fees(transaction, nonce, Fees::DEVELOPMENT, world.state.domain())
}

pub(crate) fn send(world: &mut World, key: &SessionWallet, transaction: Transaction) {
    let signed = sign(world, key, transaction);
    assert_eq!(
        check_transaction(&world.state, &signed, &CheckedSignatures::none()),
        Ok(())
    );
    let proposed = world.block(vec![signed], vec![]);
    assert_eq!(proposed.refused, []);
}

/// Why a transaction of a key is refused, at admission and in a block alike.
pub(crate) fn refusal(
    world: &mut World,
    key: &SessionWallet,
    transaction: Transaction,
) -> TransactionError {
    let signed = sign(world, key, transaction);
    let admission =
        check_transaction(&world.state, &signed, &CheckedSignatures::none()).unwrap_err();
    let proposed = world.block(vec![signed], vec![]);
    assert_eq!(proposed.refused.len(), 1);
    assert_eq!(proposed.refused[0].1.code(), admission.code());
    proposed.refused[0].1
}

#[test]
fn a_key_orders_up_to_its_cap_in_a_sequence_of_its_own() {
    let (mut world, key) = with_key("alice", SessionScope::Order, tgrid(250));
    let (account, own) = (address("alice"), world.state.nonce(&address("alice")));
    let balance = world.state.balance(&account);
    let order = world.order();
    let needed = order.max_price.saturating_add(tgrid(10));
    let gas = fee(TransactionKind::SubmitJob);
    let signed = sign(
        &world,
        &key,
        Transaction::SubmitJob {
            order: order.clone(),
        },
    );
    let job = job_id(signed.id(world.state.domain()));
    world.block(vec![signed.clone()], vec![]);
    assert_eq!(world.job(job).requestor, account);
    assert_eq!(
        world.state.nonce(&account),
        own,
        "the account's own lane stands"
    );
    let counted = needed.saturating_add(gas);
    assert_eq!(session(&world, &key).spent, counted);
    assert_eq!(
        world.state.balance(&account),
        balance.saturating_sub(counted)
    );
    // The same again is not.
    let again = world.block(vec![signed], vec![]);
    assert!(matches!(
        again.refused[0].1,
        TransactionError::NonceUsed { .. }
    ));
    send(
        &mut world,
        &key,
        Transaction::SubmitJob {
            order: order.clone(),
        },
    );
    // What comes back of an order does not count again: a cap is for good.
    let left = session(&world, &key).left();
    assert!(left < counted);
    let refused = refusal(&mut world, &key, Transaction::SubmitJob { order });
    assert_eq!(
        refused,
        TransactionError::OverSessionCap {
            needed: counted,
            left
        }
    );
    // What costs no more than is left, and another order with another key.
    let cancelled = world.state.queued_jobs().next().map(|job| job.id);
    if let Some(job) = cancelled {
        send(&mut world, &key, Transaction::CancelJob { job });
    }
}

#[test]
fn a_key_signs_what_its_scope_says_and_nothing_else() {
    let (mut world, orders) = with_key("alice", SessionScope::Order, tgrid(50_000));
    let serves = key("alice", 8);
    let register_second = register(&world, &serves, SessionScope::Serve, tgrid(50_000));
    world.send("alice", register_second);
    let to = address("mallory");
    let theft = [
        Transaction::Transfer {
            to,
            amount: tgrid(1),
        },
        register(&world, &key("alice", 9), SessionScope::Order, tgrid(1)),
        Transaction::RevokeSessionKey {
            key: serves.public(),
        },
        Transaction::PostOffer {
            terms: crate::world::terms(30),
        },
        Transaction::LeaveValidators { key: [1; 32] },
        Transaction::PayRent {
            record: tg_types::Digest::default(),
            amount: tgrid(1),
        },
    ];
    for transaction in theft {
        let kind = transaction.kind();
        for (key, scope) in [
            (&orders, SessionScope::Order),
            (&serves, SessionScope::Serve),
        ] {
            let refused = refusal(&mut world, key, transaction.clone());
            assert_eq!(
                refused,
                TransactionError::NotOfSession { kind, scope },
                "{kind}"
            );
        }
    }
    // One does not do the other's work.
    let order = Transaction::SubmitJob {
        order: world.order(),
    };
    let refused = refusal(&mut world, &serves, order.clone());
    assert!(matches!(refused, TransactionError::NotOfSession { .. }));
    send(&mut world, &orders, order);
}

#[test]
fn a_key_answers_for_the_collateral_of_leases_while_they_last() {
    let (mut world, key) = with_key("cheap", SessionScope::Serve, tgrid(10_000));
    let job = world.submit("alice", world.order());
    assert_eq!(world.holder(job), "cheap");
    let lease = world.lease(job).id;
    let collateral = world.lease(job).collateral;
    assert!(!collateral.is_zero());
    send(&mut world, &key, Transaction::StartLease { lease });
    let risk = world.lease(job).session.unwrap();
    assert_eq!((risk.key, risk.amount), (key.public(), collateral));
    assert_eq!(session(&world, &key).at_risk, collateral);
    send(
        &mut world,
        &key,
        Transaction::CommitReceipt {
            lease,
            receipt: receipt(),
        },
    );
    assert_eq!(
        session(&world, &key).at_risk,
        collateral,
        "a lease counts once"
    );
    send(&mut world, &key, evidence(lease));
    let task = world.state.pending_evidence().next().unwrap();
    let outcome = Outcome::LeaseAccepted;
    world.decide(&task, outcome);
    assert_eq!(world.job(job).state(), JobState::Paid);
    let after = session(&world, &key);
    assert_eq!((after.at_risk, after.spent), (Amount::ZERO, Amount::ZERO));
    // A wrong result: what is lost counts for good.
    let job = world.submit("alice", world.order());
    assert_eq!(world.holder(job), "cheap");
    let lease = world.lease(job).id;
    world.send("cheap", Transaction::StartLease { lease });
    send(&mut world, &key, commit(lease));
    assert_eq!(session(&world, &key).at_risk, collateral);
    send(&mut world, &key, evidence(lease));
    let task = world.state.pending_evidence().next().unwrap();
    world.decide(&task, rejected());
    let first = world.state.lease(&lease).unwrap();
    assert!(matches!(first.end(), Some(LeaseEnd::Rejected { .. })));
    let after = session(&world, &key);
    assert_eq!((after.at_risk, after.spent), (Amount::ZERO, collateral));
}

/// Stops: a stolen key that hands in results and opens none, on a model for which being late costs little: all is lost then.
#[test]
fn what_is_lost_by_showing_nothing_counts_whole() {
    let mut genesis = genesis();
    genesis.parameters.owners_paid_min = 3;
    genesis.parameters.leader_timeout = DurationMs::new(1_500);
    genesis.parameters.auction_slot = DurationMs::from_secs(9);
    genesis.parameters.preempt_grace = DurationMs::from_secs(9);
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    world.post("cheap", terms(20));
    deal(&mut world, 0);
    let key = key("cheap", 7);
    let registered = register(&world, &key, SessionScope::Serve, tgrid(10_000));
    world.send("cheap", registered);
    let mut order = world.order();
    order.mode = VerificationMode::Optimistic;
    let job = world.submit("alice", order);
    let lease = world.lease(job).clone();
    assert!(lease.at_risk < lease.collateral);
    let start = Transaction::StartLease { lease: lease.id };
    send(&mut world, &key, start);
    send(&mut world, &key, commit(lease.id));
    let task = seed_task(&world, world.state.head().height);
    world.decide(&task, Outcome::Seed(SIGNATURE));
    let window = world.state.parameters().verification_timeout.get();
    world.wait_until(world.time + window + 2 * TICK);
    let ended = world.state.lease(&lease.id).unwrap();
    assert!(matches!(ended.end(), Some(LeaseEnd::Late(_))));
    let after = session(&world, &key);
    let expected = (Amount::ZERO, lease.collateral);
    assert_eq!((after.at_risk, after.spent), expected);
}

/// Stops: a stolen key that declines one lease after the other, of which each costs twice as much as the one before.
#[test]
fn what_a_decline_costs_counts_for_good() {
    let (mut world, key) = with_key("cheap", SessionScope::Serve, tgrid(10_000));
    let mut lost = Amount::ZERO;
    for times in [1, 2] {
        let job = world.submit("alice", world.order());
        assert_eq!(world.holder(job), "cheap");
        let lease = world.lease(job).clone();
        let reason = DeclineReason::Unwilling;
        let decline = Transaction::DeclineLease {
            lease: lease.id,
            reason,
        };
        send(&mut world, &key, decline);
        let ended = world.state.lease(&lease.id).unwrap();
        assert_eq!(ended.end(), Some(&LeaseEnd::Declined(reason)));
        let penalty = world.penalty(&lease).saturating_mul(times);
        assert!(!penalty.is_zero());
        lost = lost.saturating_add(penalty);
        let after = session(&world, &key);
        assert_eq!((after.at_risk, after.spent), (Amount::ZERO, lost));
        world.send("alice", Transaction::CancelJob { job });
        let provider = world.state.provider(&address("cheap")).unwrap();
        world.wait_until(provider.suspended_until.get());
    }
}

/// Stops: a key of little worth that hands in a wrong result of a lease that another key began, or a key that was taken back.
#[test]
fn a_lease_that_another_key_goes_on_with_counts_with_that_one() {
    let (mut world, first) = with_key("cheap", SessionScope::Serve, tgrid(10_000));
    let (second, poor) = (key("cheap", 8), key("cheap", 9));
    for (key, cap) in [(&second, 10_000), (&poor, 1)] {
        let register = register(&world, key, SessionScope::Serve, tgrid(cap));
        world.send("cheap", register);
    }
    let job = world.submit("alice", world.order());
    let (lease, collateral) = (world.lease(job).id, world.lease(job).collateral);
    send(&mut world, &first, Transaction::StartLease { lease });
    let refused = refusal(&mut world, &poor, commit(lease));
    assert!(matches!(refused, TransactionError::OverSessionCap { .. }));
    // Registered anew it is another one, which has nothing of that lease.
    let revoke = Transaction::RevokeSessionKey {
        key: first.public(),
    };
    world.send("cheap", revoke);
    let again = register(&world, &first, SessionScope::Serve, tgrid(10_000));
    world.send("cheap", again);
    assert_eq!(session(&world, &first).at_risk, Amount::ZERO);
    send(&mut world, &second, commit(lease));
    assert_eq!(session(&world, &second).at_risk, collateral);
    send(&mut world, &first, evidence(lease));
    let risks = [&first, &second].map(|key| session(&world, key).at_risk);
    assert_eq!(risks, [collateral, Amount::ZERO]);
    let task = world.state.pending_evidence().next().unwrap();
    world.decide(&task, rejected());
    let after = [&first, &second].map(|key| session(&world, key).spent);
    assert_eq!(after, [collateral, Amount::ZERO]);
}

/// Stops: a stolen key that takes back what the account and its other keys ordered, for which whoever holds it is paid.
#[test]
fn a_key_takes_back_what_it_ordered_alone() {
    let (mut world, own) = with_key("alice", SessionScope::Order, tgrid(50_000));
    let other = key("alice", 8);
    let register = register(&world, &other, SessionScope::Order, tgrid(50_000));
    world.send("alice", register);
    let by_account = world.submit("alice", world.order());
    let order = Transaction::SubmitJob {
        order: world.order(),
    };
    send(&mut world, &own, order);
    let all = world.state.live_leases().map(|(job, _)| job.id);
    let all = all.chain(world.state.queued_jobs().map(|job| job.id));
    let mine = all.filter(|job| *job != by_account).last().unwrap();
    for (key, job) in [(&own, by_account), (&other, mine)] {
        let refused = refusal(&mut world, key, Transaction::CancelJob { job });
        assert!(matches!(refused, TransactionError::NotOfSession { .. }));
    }
    send(&mut world, &own, Transaction::CancelJob { job: mine });
    world.send("alice", Transaction::CancelJob { job: by_account });
}

/// Stops: a stolen key that gives every provider of the account one star.
#[test]
fn a_key_rates_what_it_ordered_alone() {
    let (mut world, key) = with_key("alice", SessionScope::Order, tgrid(50_000));
    let job = world.submit("alice", world.order());
    let task = world.work(job);
    world.decide(&task, Outcome::LeaseAccepted);
    let rating = Transaction::RateJob { job, stars: 1 };
    let refused = refusal(&mut world, &key, rating.clone());
    assert!(matches!(refused, TransactionError::NotOfSession { .. }));
    world.send("alice", rating);
}

/// Stops: a stolen key that opens bids whose answers are to be kept, which costs more than the order.
#[test]
fn what_keeping_the_answer_of_a_bid_costs_counts() {
    let mut genesis = genesis();
    genesis.parameters.rent_full_hour = Parameters::development().rent_full_hour;
    let mut world = World::with(&genesis);
    world.activate_model(facts());
    let key = key("alice", 7);
    let registered = register(&world, &key, SessionScope::Order, tgrid(50_000));
    world.send("alice", registered);
    let order = JobOrder {
        retention: RETENTION_MIN,
        ..world.order_for(JobNeeds {
            class: JobClass::Batch,
            ..gpu_needs(1, 60)
        })
    };
    let salt = Digest::new([7; 32]);
    let sealed = Transaction::CommitBid {
        commitment: bid_commitment(&order, &salt, &address("alice")),
        deposit: tgrid(20),
    };
    let signed = sign(&world, &key, sealed);
    let bid = bid_id(signed.id(world.state.domain()));
    assert_eq!(world.block(vec![signed], vec![]).refused, []);
    world.next_slot();
    let kept = world.state.retention_charge(&order, world.now()).total();
    assert!(!kept.is_zero());
    let before = (session(&world, &key).spent, world.balance("alice"));
    send(
        &mut world,
        &key,
        Transaction::RevealBid { bid, salt, order },
    );
    let counted = session(&world, &key).spent.checked_sub(before.0).unwrap();
    let left = before.1.checked_sub(world.balance("alice")).unwrap();
    assert!(counted >= left, "{counted:?} of {left:?}");
}

#[test]
fn a_lease_beyond_the_cap_is_not_served() {
    let (mut world, key) = with_key("cheap", SessionScope::Serve, tgrid(1));
    let job = world.submit("alice", world.order());
    assert_eq!(world.holder(job), "cheap");
    let (lease, collateral) = (world.lease(job).id, world.lease(job).collateral);
    let refused = refusal(&mut world, &key, Transaction::StartLease { lease });
    let left = tgrid(1);
    assert_eq!(
        refused,
        TransactionError::OverSessionCap {
            needed: collateral,
            left
        }
    );
    world.send("cheap", Transaction::StartLease { lease });
}

#[test]
fn a_revocation_acts_in_its_own_block() {
    let (mut world, key) = with_key("alice", SessionScope::Order, tgrid(50_000));
    let order = |world: &World| Transaction::SubmitJob {
        order: world.order(),
    };
    let signed = sign(&world, &key, order(&world));
    let revoke = world.sign("alice", Transaction::RevokeSessionKey { key: key.public() });
    let proposed = world.block(vec![revoke, signed.clone()], vec![]);
    let gone = TransactionError::NoSession { key: key.public() };
    assert_eq!(proposed.refused, [(signed.clone(), gone)]);
    let asked = order(&world);
    assert_eq!(refusal(&mut world, &key, asked), gone);
    assert_eq!(
        world.refusal("alice", Transaction::RevokeSessionKey { key: key.public() }),
        gone
    );
    // The key again: what it signed before holds no more, as its nonces begin above.
    let again = register(&world, &key, SessionScope::Order, tgrid(50_000));
    world.send("alice", again);
    let proposed = world.block(vec![signed], vec![]);
    assert!(matches!(
        proposed.refused[0].1,
        TransactionError::NonceUsed { .. }
    ));
    let asked = order(&world);
    send(&mut world, &key, asked);
}

#[test]
fn a_key_signs_until_it_expires() {
    let (mut world, key) = with_key("alice", SessionScope::Order, tgrid(50_000));
    let expires = session(&world, &key).expires;
    world.wait_until(expires.get() - TICK);
    let order = |world: &World| Transaction::SubmitJob {
        order: world.order(),
    };
    let asked = order(&world);
    send(&mut world, &key, asked);
    // The time of that block was the last; the pool goes by it, and the next block comes later.
    world.idle();
    let asked = order(&world);
    let refused = refusal(&mut world, &key, asked);
    assert!(
        matches!(refused, TransactionError::SessionExpired { .. }),
        "{refused:?}"
    );
}

#[test]
fn only_keys_and_few_of_them_are_registered_and_for_a_while() {
    let (mut world, first) = with_key("alice", SessionScope::Order, tgrid(1));
    let with = |key: [u8; 32], expires: u64| Transaction::RegisterSessionKey {
        key,
        scope: SessionScope::Serve,
        cap: tgrid(1),
        expires: TimestampMs::new(expires),
    };
    let soon = world.time + 600_000;
    let mut small = [0; 32];
    small[0] = 1;
    for bad in [small, [0xff; 32]] {
        let refused = with(bad, soon);
        assert_eq!(
            world.refusal("alice", refused),
            TransactionError::BadSessionKey { key: bad }
        );
    }
    let twice = with(first.public(), soon);
    let exists = TransactionError::SessionExists {
        key: first.public(),
    };
    assert_eq!(world.refusal("alice", twice), exists);
    let late = world.time + SESSION_TIME_MAX.get() + 10 * TICK;
    for expires in [0, world.time, late] {
        let bad = with(key("alice", 9).public(), expires);
        let refused = world.refusal("alice", bad);
        assert!(
            matches!(refused, TransactionError::BadSessionTime { .. }),
            "{refused:?}"
        );
    }
    for number in 1..SESSIONS_PER_ACCOUNT_MAX {
        let one = with(
            key("alice", 100 + number as u8).public(),
            world.time + 600_000,
        );
        world.send("alice", one);
    }
    let one = with(key("alice", 9).public(), world.time + 600_000);
    let limit = SESSIONS_PER_ACCOUNT_MAX;
    assert_eq!(
        world.refusal("alice", one),
        TransactionError::TooManySessions { limit }
    );
    // Those that have expired make room.
    world.wait_until(world.time + 700_000);
    let one = with(key("alice", 9).public(), world.time + 600_000);
    world.send("alice", one);
    assert_eq!(
        world
            .state
            .account(&address("alice"))
            .unwrap()
            .sessions
            .len(),
        1
    );
}

#[test]
fn a_signature_is_of_one_account_one_key_and_one_place() {
    let (mut world, key) = with_key("alice", SessionScope::Order, tgrid(50_000));
    let good = sign(
        &world,
        &key,
        Transaction::SubmitJob {
            order: world.order(),
        },
    );
    let is_wrong = |signed: &SignedTransaction| {
        let refused =
            check_transaction(&world.state, signed, &CheckedSignatures::none()).unwrap_err();
        matches!(
            refused,
            TransactionError::Signature(SignatureError::WrongSessionKey { .. })
        )
    };
    let mut other = good.clone();
    other.sender = address("bob");
    assert!(is_wrong(&other));
    let mut other = good.clone();
    other.nonce += 1;
    assert!(is_wrong(&other));
    let mut other = good.clone();
    let order = JobOrder {
        max_price: tgrid(99),
        ..world.order()
    };
    other.transaction = Transaction::SubmitJob { order };
    assert!(is_wrong(&other));
    // An account's signature of the same is not one of the key's lane, and a key of the account is not the account.
    let own = wallet("alice").sign(good.transaction.clone(), good.nonce, world.state.domain());
    let mut mixed = good.clone();
    mixed.authorization = own.authorization;
    assert!(check_transaction(&world.state, &mixed, &CheckedSignatures::none()).is_err());
    world.block(vec![good], vec![]);
    let unknown = SessionWallet::from_secret(&[3; 32], address("alice"));
    let order = Transaction::SubmitJob {
        order: world.order(),
    };
    let refused = refusal(&mut world, &unknown, order);
    assert_eq!(
        refused,
        TransactionError::NoSession {
            key: unknown.public()
        }
    );
}
