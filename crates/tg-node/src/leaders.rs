//! In which order validators lead.
//!
//! Consensus has epochs of its own, one for each set of validators ([`crate::term`]). In view `v` of epoch `e` that one of `n` seats leads
//! which stands at place `(e + v) mod n` of the epoch's order. The order is a permutation: the seats, by their places in the ascending order of
//! consensus keys, sorted by `SHA-256(block || place)`, with the id of a block and four bytes of the place, the highest first. So in any
//! `n` views of an epoch each seat leads once, and `f` faulty ones lead at most `f` views in a row, which is what the windows of the ledger
//! assume (`docs/adr/0007-headers-and-ledger-time.md`). Where one epoch follows on another they may lead the last `f` views of the one and the
//! first `f` of the other, whatever the orders are; a window has room for `3 (f + 1)`.
//!
//! **The block** is the last one that the set before voted on; genesis for the first set. Every validator has it, or what shows that it is
//! final, when it enters the epoch, after a restart, and when it began at a snapshot (`open::last_of_set_before`); so no field of
//! a state or a block is needed. Light clients check certificates, which say nothing of leaders.
//!
//! *Who knows it when.* Nobody before that block is made. From then on the order is known until the set changes again: a set that never
//! changes keeps the order that genesis gave it, which whoever writes genesis chooses.
//!
//! *Who gains if it fails on purpose.* Whoever makes that block chooses among as many orders as it can make blocks within its turn (another
//! time, other transactions): of four seats it has all 24 orders. It can choose who leads first, and put faulty seats side by side, `f` at most,
//! which all windows have room for, and which a choice of keys could do when leaders were in the order of keys. It cannot give a seat
//! fewer turns, or more. By leaving the block out it has another one made by the next leader, which it does not know.
//! A seed that n - f validators sign could not be chosen; but no state or header keeps one, one is signed only when a result waits for
//! it, and its key goes with the set ([`tg_ledger::SeedBook`]).

use commonware_consensus::simplex::elector::RoundRobin;
use commonware_cryptography::Sha256;
use tg_types::BlockId;

/// Says who leads a view.
pub type Leaders = RoundRobin<Sha256>;

/// The leaders of an epoch whose order the id of a block gives.
pub(crate) fn leaders(block: &BlockId) -> Leaders {
    RoundRobin::shuffled(block.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use commonware_consensus::simplex::elector::{Config, Elector as _};
    use commonware_consensus::types::{Epoch, Round, View};
    use commonware_utils::ordered::Set;

    use super::*;
    use crate::key::ValidatorKey;
    use crate::peers::{Peer, Scheme};

    fn seats(count: u64) -> Set<Peer> {
        Set::from_iter_dedup((0..count).map(|seed| ValidatorKey::from_seed(seed).peer()))
    }

    fn block(number: u64) -> BlockId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        BlockId::new(bytes)
    }

    /// Who leads the first views of an epoch.
    fn led(seats: &Set<Peer>, block: &BlockId, epoch: u64, views: usize) -> Vec<usize> {
        let elector = <Leaders as Config<Scheme>>::build(leaders(block), seats);
        let rounds = (1..).map(|view| Round::new(Epoch::new(epoch), View::new(view)));
        let led = rounds.map(|round| usize::from(elector.elect(round, ())));
        led.take(views).collect()
    }

    #[test]
    fn each_seat_leads_once_in_any_n_views() {
        for count in [1, 2, 4, 7, 64] {
            let seats = seats(count);
            let all: Vec<usize> = (0..seats.len()).collect();
            for number in 0..8 {
                let led = led(&seats, &block(number), number, 3 * seats.len());
                for views in led.windows(seats.len()) {
                    let mut views = views.to_vec();
                    views.sort_unstable();
                    assert_eq!(views, all, "block {number}, {count} seats");
                }
            }
        }
    }

    #[test]
    fn a_block_gives_one_order_and_other_blocks_others() {
        let seats = seats(64);
        let mut orders = BTreeSet::new();
        for number in 0..32 {
            let order = led(&seats, &block(number), 1, 64);
            assert_eq!(order, led(&seats, &block(number), 1, 64));
            orders.insert(order);
        }
        assert_eq!(orders.len(), 32);
    }

    /// Of four seats every order comes, and each seat is first about as often as the others.
    #[test]
    fn no_order_is_preferred() {
        let seats = seats(4);
        let mut orders = BTreeSet::new();
        let mut first = [0; 4];
        for number in 0..1_000 {
            // The view of epoch 3 that follows on a whole round.
            let order = led(&seats, &block(number), 3, 4);
            first[order[0]] += 1;
            orders.insert(order);
        }
        assert_eq!(orders.len(), 24);
        assert!(
            first.iter().all(|times| (200..300).contains(times)),
            "{first:?}"
        );
    }

    /// Stops: another version of the library that sorts otherwise, so that validators with both know different leaders.
    #[test]
    fn the_order_is_what_the_document_says() {
        let (seats, block) = (seats(7), BlockId::new([7; 32]));
        let order = vec![1, 2, 5, 4, 6, 0, 3];
        // The first view of epoch 6 begins a round, that of epoch 0 is one place on.
        assert_eq!(led(&seats, &block, 6, 7), order);
        let mut next = order;
        next.rotate_left(1);
        assert_eq!(led(&seats, &block, 0, 7), next);
    }
}
