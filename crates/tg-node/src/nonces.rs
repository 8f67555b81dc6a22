//! The next nonce of an account, as far as one node knows: the first one that is neither final nor waits in its pool.
//!
//! The ledger's nonce alone would be given out twice while transactions wait. Counting on from the last one given out is not
//! enough either: a transaction that was dropped, or lost with a node that crashed, leaves a gap, and everything behind a gap
//! waits until it is filled. A provider whose messages wait there is late with each of them, and loses its collateral.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tg_types::NonceLane;

/// The nonces of an account, or of a session key.
#[derive(Debug, Default)]
struct AccountNonces {
    /// The ledger's, when the pool last looked.
    settled: u64,
    waiting: BTreeSet<u64>,
}

/// The nonces that wait in a node's pool, which writes them; what the node shows its clients reads them.
#[derive(Debug, Clone, Default)]
pub(crate) struct WaitingNonces(Arc<Mutex<BTreeMap<NonceLane, AccountNonces>>>);

impl WaitingNonces {
    fn accounts(&self) -> MutexGuard<'_, BTreeMap<NonceLane, AccountNonces>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction waits.
    pub(crate) fn add(&self, lane: NonceLane, nonce: u64) {
        let mut accounts = self.accounts();
        accounts.entry(lane).or_default().waiting.insert(nonce);
    }

    /// A transaction waits no longer.
    pub(crate) fn remove(&self, lane: &NonceLane, nonce: u64) {
        if let Some(account) = self.accounts().get_mut(lane) {
            account.waiting.remove(&nonce);
        }
    }

    /// Notes the ledger's nonce of an account of which something waits or has waited.
    pub(crate) fn settle(&self, lane: &NonceLane, settled: u64) {
        if let Some(account) = self.accounts().get_mut(lane) {
            account.settled = settled;
        }
    }

    /// Forgets accounts of which nothing waits. Not called between a block that takes the last of them out of the pool and
    /// the publication of that block: whoever reads the state before it is told the nonce after it.
    pub(crate) fn forget_idle(&self) {
        self.accounts().retain(|_, it| !it.waiting.is_empty());
    }

    /// The nonces of an account that wait.
    pub(crate) fn waiting(&self, lane: &NonceLane) -> Vec<u64> {
        let accounts = self.accounts();
        let account = accounts.get(lane);
        account.map_or_else(Vec::new, |it| it.waiting.iter().copied().collect())
    }

    /// The first nonce from `settled`, the ledger's, on that does not wait.
    pub(crate) fn next(&self, lane: &NonceLane, settled: u64) -> u64 {
        let accounts = self.accounts();
        let Some(account) = accounts.get(lane) else {
            return settled;
        };
        let from = settled.max(account.settled);
        let waiting = account.waiting.range(from..);
        let run = waiting.zip(from..).take_while(|(nonce, it)| *nonce == it);
        from + run.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: NonceLane = NonceLane::Account(tg_types::Address::new([1; 20]));

    /// Found by `tensorgrid sim --seed 9`: a requestor took a job back while its provider's start was on the way; the start was
    /// dropped, all that the provider sent for other leases stood behind it, and it lost the collateral of each.
    #[test]
    fn the_place_of_what_waits_no_longer_is_given_out_again() {
        let nonces = WaitingNonces::default();
        assert_eq!(nonces.next(&SENDER, 5), 5);
        for nonce in 5..9 {
            nonces.add(SENDER, nonce);
        }
        assert_eq!(nonces.next(&SENDER, 5), 9);
        nonces.remove(&SENDER, 6);
        assert_eq!(nonces.next(&SENDER, 5), 6);
        nonces.add(SENDER, 6);
        assert_eq!(nonces.next(&SENDER, 5), 9);
        // The ledger has gone on.
        assert_eq!(nonces.next(&SENDER, 8), 9);
        assert_eq!(nonces.next(&SENDER, 12), 12);
    }

    /// Found by `tensorgrid sim --seed 5`: what a gateway had taken was lost when it crashed. It could not tell who had taken
    /// the nonces that stood before what it took afterwards, counted on from the last, and the gap stayed.
    #[test]
    fn a_gap_before_what_waits_is_filled_first() {
        let nonces = WaitingNonces::default();
        nonces.add(SENDER, 7);
        nonces.add(SENDER, 8);
        assert_eq!(nonces.next(&SENDER, 5), 5);
        nonces.add(SENDER, 5);
        assert_eq!(nonces.next(&SENDER, 5), 6);
        nonces.add(SENDER, 6);
        assert_eq!(nonces.next(&SENDER, 5), 9);
    }

    #[test]
    fn what_left_with_a_block_is_not_given_out_before_the_block_is_told() {
        let nonces = WaitingNonces::default();
        nonces.add(SENDER, 5);
        nonces.forget_idle();
        nonces.remove(&SENDER, 5);
        nonces.settle(&SENDER, 6);
        // The state that clients see is still the one before.
        assert_eq!(nonces.next(&SENDER, 5), 6);
        nonces.forget_idle();
        assert_eq!(nonces.next(&SENDER, 6), 6);
        assert!(nonces.accounts().is_empty());
    }
}
