//! The pool alone.
#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use tg_ledger::gas;
use tg_types::session::SessionSignature;
use tg_types::{Amount, Authorization, LeaseId, Signature, Transaction};

use super::*;

const NOW: TimestampMs = TimestampMs::new(1_000);
const BASE_FEE: Amount = Amount::new(100);
const RICH: Amount = Amount::from_tgrid(1);

fn sign(sender: u16, nonce: u64, tip: u128, transaction: Transaction) -> Arrival {
    let mut address = [0; 20];
    address[..2].copy_from_slice(&sender.to_be_bytes());
    let fees = Fees {
        max_fee_per_gas: Amount::new(BASE_FEE.get() + tip),
        max_tip_per_gas: Amount::new(tip),
    };
    let mut id = [0; 32];
    id[..2].copy_from_slice(&sender.to_be_bytes());
    id[2..10].copy_from_slice(&nonce.to_le_bytes());
    id[10..26].copy_from_slice(&tip.to_le_bytes());
    id[26] = transaction.kind().tag();
    if let Transaction::Transfer { amount, .. } = &transaction {
        id[27] = u8::try_from(amount.get() % 251).unwrap();
    }
    let gas = gas::charged_gas(&transaction);
    Arrival {
        id: TransactionId::new(id),
        takes: fees.max_fee_per_gas.saturating_mul(gas),
        signed: SignedTransaction {
            transaction,
            nonce,
            fees,
            sender: Address::new(address),
            authorization: Authorization::Account(Signature {
                r: [1; 32],
                s: [1; 32],
                y_parity: 0,
            }),
        },
        at: NOW,
        origin: Origin::Local,
    }
}

fn transfer(sender: u16, nonce: u64, tip: u128) -> Arrival {
    let to = Address::default();
    let amount = Amount::ZERO;
    sign(sender, nonce, tip, Transaction::Transfer { to, amount })
}

fn start(sender: u16, nonce: u64, lease: u16) -> Arrival {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&lease.to_be_bytes());
    let lease = LeaseId::new(bytes);
    sign(sender, nonce, 0, Transaction::StartLease { lease })
}

fn at(next: u64) -> Standing {
    Standing {
        next,
        balance: RICH,
    }
}

fn pool() -> Mempool {
    Mempool::new(BASE_FEE, WaitingNonces::default())
}

fn insert(pool: &mut Mempool, sender: u16, nonce: u64) -> Result<Admission, MempoolError> {
    pool.insert(transfer(sender, nonce, 5), at(0))
}

fn taken(pool: &Mempool, next: u64, count: usize) -> Vec<(u16, u64)> {
    placed(pool.turns(|_| next, BASE_FEE), count, |_| true)
}

fn name(signed: &SignedTransaction) -> (u16, u64) {
    let address = signed.sender.as_bytes();
    (u16::from_be_bytes([address[0], address[1]]), signed.nonce)
}

/// What has a place in a block of so many.
fn placed(
    mut turns: PoolTurns<'_>,
    count: usize,
    holds: impl Fn((u16, u64)) -> bool,
) -> Vec<(u16, u64)> {
    let mut taken = Vec::new();
    while let Some(signed) = turns.next() {
        let has_place = taken.len() < count && holds(name(&signed));
        turns.has_place(has_place);
        taken.extend(has_place.then(|| name(&signed)));
    }
    taken
}

fn reasons(pool: &mut Mempool) -> Vec<DropReason> {
    pool.take_dropped().into_iter().map(|(_, it)| it).collect()
}

#[test]
fn the_higher_tip_goes_first_and_nonces_keep_their_order() {
    let mut pool = pool();
    for (sender, nonce, tip) in [(1, 1, 9), (2, 0, 3), (1, 0, 2), (3, 0, 3), (2, 1, 8)] {
        let admission = pool.insert(transfer(sender, nonce, tip), at(0));
        assert_eq!(admission, Ok(Admission::New));
    }
    assert_eq!(taken(&pool, 0, 9), [(2, 0), (2, 1), (3, 0), (1, 0), (1, 1)]);
    assert_eq!(taken(&pool, 0, 2), [(2, 0), (2, 1)]);
    assert_eq!(taken(&pool, 1, 9), [(1, 1), (2, 1)]);
    assert!(pool.has_ready(|_| 1, BASE_FEE) && !pool.has_ready(|_| 3, BASE_FEE));
    // What offers less than the base fee waits, and so does all behind it.
    let dear = Amount::new(103);
    assert!(!pool.has_ready(|_| 0, Amount::new(110)));
    assert_eq!(placed(pool.turns(|_| 0, dear), 9, |_| true).len(), 3);
}

/// Stops: transactions that do not hold, behind a gap where nobody looks at them, that take the place of others in a block.
#[test]
fn what_has_no_place_takes_nothing_of_a_block_and_what_is_behind_it_is_not_looked_at() {
    let mut pool = pool();
    for (sender, nonce, tip) in [
        (1, 0, 9),
        (1, 1, 9),
        (1, 2, 9),
        (2, 0, 3),
        (3, 0, 2),
        (3, 1, 2),
    ] {
        pool.insert(transfer(sender, nonce, tip), at(0)).unwrap();
    }
    let mut turns = pool.turns(|_| 0, BASE_FEE);
    let mut shown = Vec::new();
    while let Some(signed) = turns.next() {
        let it = name(&signed);
        shown.push(it);
        turns.has_place(it != (1, 1));
    }
    assert_eq!(shown, [(1, 0), (1, 1), (2, 0), (3, 0), (3, 1)]);
    // However many there are, looking at them ends.
    for sender in 10..10 + u16::try_from(WITHOUT_PLACE_MAX).unwrap() {
        pool.insert(transfer(sender, 0, 9), at(0)).unwrap();
    }
    let all = placed(pool.turns(|_| 0, BASE_FEE), 9, |it| {
        it.0 < 10 && it != (1, 1)
    });
    assert_eq!(all, [(1, 0)]);
}

/// Stops: a lane that is full, or filled with what does not hold, and keeps the other one empty.
#[test]
fn prepaid_ones_without_a_place_leave_the_paid_ones_theirs() {
    let mut pool = pool();
    let many = u16::try_from(WITHOUT_PLACE_MAX).unwrap() + 200;
    for sender in 10..10 + many {
        pool.insert(start(sender, 0, sender), at(0)).unwrap();
    }
    insert(&mut pool, 1, 0).unwrap();
    let all = placed(pool.turns(|_| 0, BASE_FEE), 9, |it| it.0 < 10);
    assert_eq!(all, [(1, 0)]);
}

/// Stops: a stolen session key whose transactions wait behind a gap, so that the account's own find their places taken.
#[test]
fn what_a_session_key_has_waiting_takes_no_place_of_its_account() {
    let mut pool = pool();
    let of_key = |nonce| {
        let mut arrival = start(1, nonce, 7);
        arrival.id = TransactionId::new([9; 32]);
        arrival.signed.authorization = Authorization::Session(SessionSignature {
            key: [3; 32],
            signature: [1; 64],
        });
        arrival
    };
    pool.insert(of_key(5), at(0)).unwrap();
    pool.insert(start(1, 0, 7), at(0)).unwrap();
    let all = placed(pool.turns(|_| 0, BASE_FEE), 9, |_| true);
    assert_eq!(all, [(1, 0)]);
}

#[test]
fn what_is_prepaid_goes_first_with_what_stands_before_it() {
    let mut pool = pool();
    pool.insert(transfer(1, 0, 9), at(0)).unwrap();
    pool.insert(transfer(2, 0, 0), at(0)).unwrap();
    pool.insert(start(2, 1, 7), at(0)).unwrap();
    pool.insert(transfer(2, 2, 0), at(0)).unwrap();
    assert_eq!(taken(&pool, 0, 9), [(2, 0), (2, 1), (1, 0), (2, 2)]);
    // One for each lease and kind; the earlier nonce counts, as its signer may have started anew.
    let again = MempoolError::NonceTaken {
        sender: Address::new({
            let mut bytes = [0; 20];
            bytes[1] = 2;
            bytes
        }),
        nonce: 1,
    };
    assert_eq!(pool.insert(start(2, 3, 7), at(0)), Err(again));
    pool.insert(start(2, 3, 8), at(0)).unwrap();
    // It takes the place of what its sender merely wants, and the later one of its lease goes.
    assert_eq!(pool.insert(start(2, 2, 8), at(0)), Ok(Admission::New));
    assert_eq!(reasons(&mut pool), [DropReason::Replaced; 2]);
    assert_eq!(taken(&pool, 0, 9), [(2, 0), (2, 1), (2, 2), (1, 0)]);
}

#[test]
fn a_full_pool_of_others_still_takes_what_is_prepaid_and_puts_it_into_the_next_block() {
    let mut pool = pool();
    let senders = u16::try_from(MEMPOOL_TRANSACTIONS_MAX / MEMPOOL_SENDER_MAX).unwrap();
    for sender in 0..senders {
        for nonce in 0..MEMPOOL_SENDER_MAX as u64 {
            insert(&mut pool, sender, nonce).unwrap();
        }
    }
    assert_eq!(pool.len(), MEMPOOL_TRANSACTIONS_MAX);
    let full = Err(MempoolError::Full {
        limit: MEMPOOL_TRANSACTIONS_MAX,
    });
    assert_eq!(insert(&mut pool, 999, 0), full);
    assert_eq!(pool.take_dropped(), []);
    assert_eq!(pool.insert(start(999, 0, 1), at(0)), Ok(Admission::New));
    assert_eq!(taken(&pool, 0, 1_024)[0], (999, 0));
    // Whoever pays more than the least takes the place of that.
    assert_eq!(pool.insert(transfer(998, 0, 6), at(0)), Ok(Admission::New));
    assert_eq!(reasons(&mut pool), [DropReason::Evicted]);
    assert_eq!(pool.len(), MEMPOOL_TRANSACTIONS_MAX + 1);
}

#[test]
fn what_stands_behind_a_gap_makes_room_before_all_others() {
    let mut pool = pool();
    pool.insert(transfer(7, 3, 1_000), at(0)).unwrap();
    let mut sender = 0;
    while pool.len() < MEMPOOL_TRANSACTIONS_MAX {
        sender += 10;
        for nonce in 0..MEMPOOL_SENDER_MAX as u64 {
            if pool.len() < MEMPOOL_TRANSACTIONS_MAX {
                insert(&mut pool, sender, nonce).unwrap();
            }
        }
    }
    let gapped = pool.entry(&transfer(7, 3, 1_000).signed.lane(), 3).unwrap();
    let gapped = gapped.arrival.id;
    insert(&mut pool, 9_999, 0).unwrap();
    assert_eq!(pool.take_dropped(), [(gapped, DropReason::Evicted)]);
    // A new one behind a gap is no better than what waits.
    assert!(matches!(
        pool.insert(transfer(8, 3, 1_000), at(0)),
        Err(MempoolError::Full { .. })
    ));
}

#[test]
fn what_is_prepaid_and_behind_a_gap_makes_room_for_what_has_its_turn() {
    let mut pool = pool();
    let per_sender = 200;
    let fill = |pool: &mut Mempool, first: u64| {
        for place in 0..MEMPOOL_PREPAID_MAX {
            let (sender, lease) = (place / per_sender, place);
            let nonce = first + (place % per_sender) as u64;
            let start = start(
                u16::try_from(sender).unwrap(),
                nonce,
                u16::try_from(lease).unwrap(),
            );
            pool.insert(start, at(0)).unwrap();
        }
    };
    // Nothing that anybody sends has its turn: the nonce 0 of each is missing.
    fill(&mut pool, 1);
    let full = Err(MempoolError::Full {
        limit: MEMPOOL_PREPAID_MAX,
    });
    assert_eq!(pool.insert(start(60_000, 3, 60_000), at(0)), full);
    for nonce in 0..3 {
        let lease = 60_000 + u16::try_from(nonce).unwrap();
        let admission = pool.insert(start(60_000, nonce, lease), at(0));
        assert_eq!(admission, Ok(Admission::New), "{nonce}");
    }
    assert_eq!(reasons(&mut pool), [DropReason::Evicted; 3]);
    assert_eq!(pool.len(), MEMPOOL_PREPAID_MAX);
    assert_eq!(taken(&pool, 0, 9), [(60_000, 0), (60_000, 1), (60_000, 2)]);
    // Once the missing ones are there nothing makes room.
    let mut pool = self::pool();
    fill(&mut pool, 0);
    assert_eq!(pool.insert(start(60_000, 0, 60_000), at(0)), full);
    assert_eq!(reasons(&mut pool), []);
}

#[test]
fn nothing_waits_that_its_sender_cannot_pay() {
    let mut pool = pool();
    let one = transfer(1, 0, 5).takes;
    let poor = Standing {
        next: 0,
        balance: one.saturating_mul(2),
    };
    let unfunded = |needed, balance| {
        Err(MempoolError::Unfunded {
            sender: transfer(1, 0, 5).signed.sender,
            needed,
            balance,
        })
    };
    let empty = Standing {
        next: 0,
        balance: Amount::ZERO,
    };
    // Behind a gap, without money.
    let got = pool.insert(transfer(1, 1, 5), empty);
    assert_eq!(got, unfunded(one, Amount::ZERO));
    // The next one was checked by the ledger at the price of now.
    assert_eq!(pool.insert(transfer(1, 0, 5), empty), Ok(Admission::New));
    assert_eq!(pool.insert(transfer(1, 1, 5), poor), Ok(Admission::New));
    let got = pool.insert(transfer(1, 2, 5), poor);
    assert_eq!(got, unfunded(one.saturating_mul(3), poor.balance));
    // The money goes elsewhere: what it does not cover any more leaves.
    let less = Standing {
        balance: one,
        ..poor
    };
    pool.prune(|_| Some(less), |_| true, BASE_FEE, NOW);
    assert_eq!(reasons(&mut pool), [DropReason::Unfunded]);
    assert_eq!(taken(&pool, 0, 9), [(1, 0)]);
    pool.prune(|_| None, |_| true, BASE_FEE, NOW);
    assert_eq!((pool.len(), pool.ranks.len()), (0, 0));
}

#[test]
fn a_replacement_offers_a_tenth_more() {
    let mut pool = pool();
    pool.insert(transfer(1, 0, 100), at(0)).unwrap();
    assert_eq!(
        pool.insert(transfer(1, 0, 100), at(0)),
        Ok(Admission::Known)
    );
    let sender = transfer(1, 0, 1).signed.sender;
    let cheap = Err(MempoolError::ReplacementTooCheap {
        sender,
        nonce: 0,
        max_fee: Amount::new(220),
        max_tip: Amount::new(110),
    });
    assert_eq!(pool.insert(transfer(1, 0, 119), at(0)), cheap);
    assert_eq!(pool.insert(transfer(1, 0, 120), at(0)), Ok(Admission::New));
    assert_eq!(reasons(&mut pool), [DropReason::Replaced]);
    assert_eq!(pool.len(), 1);
}

#[test]
fn what_cannot_be_taken_is_named() {
    let mut pool = pool();
    let sender = transfer(1, 4, 5).signed.sender;
    let insert = |pool: &mut Mempool, nonce| pool.insert(transfer(1, nonce, 5), at(3));
    assert_eq!(insert(&mut pool, 4), Ok(Admission::New));
    assert_eq!(
        insert(&mut pool, 2),
        Err(MempoolError::NonceUsed {
            sender,
            nonce: 2,
            next: 3
        })
    );
    let limit = MEMPOOL_SENDER_MAX;
    assert_eq!(
        insert(&mut pool, 3 + limit as u64),
        Err(MempoolError::NonceTooFar {
            sender,
            nonce: 3 + limit as u64,
            next: 3,
            limit
        })
    );
    assert_eq!(pool.len(), 1);
}

#[test]
fn used_old_and_lapsed_transactions_leave() {
    let mut pool = pool();
    insert(&mut pool, 1, 0).unwrap();
    insert(&mut pool, 1, 1).unwrap();
    pool.insert(start(2, 1, 7), at(0)).unwrap();
    pool.prune(|_| Some(at(1)), |_| false, BASE_FEE, NOW);
    let mut dropped = reasons(&mut pool);
    dropped.sort_by_key(DropReason::code);
    assert_eq!(dropped, [DropReason::NonceUsed, DropReason::Lapsed]);
    assert_eq!(taken(&pool, 1, 9), [(1, 1)]);
    let age = u64::try_from(MEMPOOL_AGE_MAX.as_millis()).unwrap();
    let later = |more| TimestampMs::new(1_000 + age + more);
    pool.prune(|_| Some(at(0)), |_| true, BASE_FEE, later(0));
    assert_eq!(pool.len(), 1);
    pool.prune(|_| Some(at(0)), |_| true, BASE_FEE, later(1));
    assert_eq!((pool.len(), pool.prepaid.len()), (0, 0));
    assert_eq!(reasons(&mut pool), [DropReason::TooOld]);
}

#[test]
fn what_is_told_again_takes_turns_over_all_senders() {
    let mut pool = pool();
    for sender in 0..5 {
        insert(&mut pool, sender, 0).unwrap();
    }
    let mut peer = transfer(9, 0, 5);
    peer.origin = Origin::Peer;
    pool.insert(peer, at(0)).unwrap();
    let mut seen = BTreeSet::new();
    let first = pool.local(2);
    let second = pool.local(2);
    let third = pool.local(2);
    assert!(first[0] != second[0] && third.len() == 2);
    seen.extend(first.into_iter().chain(second).chain(third));
    assert_eq!(seen.len(), 5);
    assert_eq!(pool.local(9).len(), 5);
}

/// Found by `tensorgrid sim --seed 5` with endpoints of 40 base prices a minute: a provider handed its evidence in twice, as
/// the first one was long under way. The second one stayed in the pool of a gateway that proposed no block, and everything
/// that the provider sent there afterwards stood behind it.
#[test]
fn what_is_refused_when_its_turn_has_come_leaves_also_where_no_block_is_built() {
    let mut pool = pool();
    for (sender, nonce) in [(1, 0), (1, 1), (2, 0), (3, 1)] {
        insert(&mut pool, sender, nonce).unwrap();
    }
    insert(&mut pool, 4, 0).unwrap();
    let (first, second) = (transfer(1, 0, 5).signed, transfer(3, 1, 5).signed);
    let refused = TransactionError::NoAccount {
        sender: first.sender,
    };
    let holds = |signed: &SignedTransaction| match signed.sender {
        it if it == first.sender || it == second.sender => Err(refused),
        _ => Ok(()),
    };
    // All senders get their turn, two at a time.
    pool.forget_refused(2, holds);
    pool.forget_refused(2, holds);
    assert_eq!(reasons(&mut pool), [DropReason::Refused(refused)]);
    // Its place is free. What is behind a gap is not asked about.
    assert_eq!(pool.nonces.next(&first.lane(), 0), 0);
    assert_eq!(pool.len(), 4);
    insert(&mut pool, 1, 0).unwrap();
    assert_eq!(pool.nonces.next(&first.lane(), 0), 2);
}

proptest! {
    #[test]
    fn candidates_never_skip_a_nonce_and_the_books_agree(
        steps in prop::collection::vec((0u16..4, 0u64..6, 0u128..40, 0u64..4), 0..60),
        next in 0u64..4,
    ) {
        let mut pool = pool();
        for (sender, nonce, tip, kind) in steps {
            let _ = match kind {
                0 => pool.insert(start(sender, nonce, sender * 2 + u16::from(tip > 20)), at(0)),
                _ => pool.insert(transfer(sender, nonce, tip), at(0)),
            };
            if kind == 3 {
                let address = transfer(sender, 0, 0).signed.sender;
                pool.remove(&address.into(), nonce / 2, DropReason::Evicted);
            }
        }
        let mut expected: BTreeMap<u16, u64> = BTreeMap::new();
        for (sender, nonce) in taken(&pool, next, usize::MAX) {
            let counter = expected.entry(sender).or_insert(next);
            prop_assert_eq!(nonce, *counter);
            *counter += 1;
        }
        let held: usize = pool.senders.values().map(|it| it.waiting.len()).sum();
        prop_assert_eq!(pool.len(), held);
        for (address, sender) in &pool.senders {
            let free = (next..).find(|nonce| !sender.waiting.contains_key(nonce));
            prop_assert_eq!(Some(pool.nonces.next(address, next)), free);
        }
        let prepaid: usize = pool.senders.values().map(|it| it.prepaid.len()).sum();
        prop_assert_eq!(pool.prepaid.len(), prepaid);
        let ranked: BTreeSet<_> = pool
            .senders
            .iter()
            .filter_map(|(address, it)| Some((it.ranked(BASE_FEE)?, *address)))
            .collect();
        prop_assert_eq!(&pool.ranks, &ranked);
    }
}
