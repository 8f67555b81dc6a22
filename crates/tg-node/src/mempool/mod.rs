//! Transactions that wait for a block: a pure data structure, no clock and no network.
//!
//! There are two sections. **Paid** kinds: transactions of one sender are taken in the order of their nonces without gaps;
//! between senders the higher tip goes first, then the earlier arrival. At most [`MEMPOOL_TRANSACTIONS_MAX`] of them wait, and
//! [`MEMPOOL_SENDER_MAX`] of one sender. When the pool is full, the last transaction of the sender that pays least is dropped,
//! those behind a gap before all others. **Prepaid** kinds have a section of their own and come first in a block, together
//! with what their nonces wait for: one of each sender for each lease, bid or duty and kind, so that everything in it was
//! paid for at a match. When it is full, a transaction whose turn can come replaces one behind a gap, of the sender with most
//! of these: they cost their sender nothing, and may never be executed.
//!
//! A *sender* is a lane of nonces: an account, or one of its at most eight session keys.
//! The sender of every waiting transaction can pay: the maximum fees and amounts of all that wait in a lane are at most the
//! account's balance, unless there is only one, whose turn it is and which the ledger checked. A transaction replaces another
//! one with its nonce if it offers a tenth more.
//!
//! - `status`: the status of transactions
//! - `tests`: the pool alone

mod status;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use tg_ledger::{Prepaid, TransactionError, TransactionSource};
use tg_types::{
    Address, Amount, Encode as _, Fees, NonceLane, SignedTransaction, TimestampMs, TransactionId,
};

use crate::limits::{
    MEMPOOL_AGE_MAX, MEMPOOL_PREPAID_MAX, MEMPOOL_REPLACEMENT_PERCENT, MEMPOOL_SENDER_MAX,
    MEMPOOL_TRANSACTIONS_MAX,
};
use crate::nonces::WaitingNonces;
pub(crate) use status::Statuses;
pub use status::{DropReason, TransactionStatus};

/// Why the pool did not take a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MempoolError {
    /// The pool is full of transactions that pay as much; offer more, or try again when blocks have made room.
    #[error("{limit} transactions that pay as much are waiting already")]
    Full {
        /// The limit.
        limit: usize,
    },
    /// The sender has too many transactions waiting.
    #[error("{limit} transactions of {sender} are waiting already")]
    SenderFull {
        /// The sender.
        sender: Address,
        /// The limit.
        limit: usize,
    },
    /// The nonce was used by a final transaction.
    #[error("nonce {nonce} of {sender} is used, the next one is {next}")]
    NonceUsed {
        /// The sender.
        sender: Address,
        /// The nonce given.
        nonce: u64,
        /// The next free nonce.
        next: u64,
    },
    /// The nonce is further ahead than the pool keeps.
    #[error("nonce {nonce} of {sender} is more than {limit} ahead of the next one, {next}")]
    NonceTooFar {
        /// The sender.
        sender: Address,
        /// The nonce given.
        nonce: u64,
        /// The next free nonce.
        next: u64,
        /// How far ahead a nonce may be.
        limit: usize,
    },
    /// Another transaction with this nonce, or for the same lease and step, is waiting and stays.
    #[error("another transaction of {sender} with nonce {nonce} is waiting")]
    NonceTaken {
        /// The sender.
        sender: Address,
        /// The nonce of the one that waits.
        nonce: u64,
    },
    /// To take the place of the waiting one it must offer more.
    #[error(
        "to replace nonce {nonce} of {sender} takes a maximum fee of {max_fee} and a tip of {max_tip} TGRID per gas"
    )]
    ReplacementTooCheap {
        /// The sender.
        sender: Address,
        /// The nonce.
        nonce: u64,
        /// The least maximum fee.
        max_fee: Amount,
        /// The least tip.
        max_tip: Amount,
    },
    /// The sender could not pay for all that it would have waiting.
    #[error("all that {sender} has waiting may take {needed} TGRID, and it has {balance}")]
    Unfunded {
        /// The sender.
        sender: Address,
        /// What it could need.
        needed: Amount,
        /// What it has.
        balance: Amount,
    },
}

/// Where a transaction came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Submitted to this validator, which keeps telling the others about it.
    Local,
    /// Told by another validator.
    Peer,
}

/// What became of an accepted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is new.
    New,
    /// It was here already.
    Known,
}

/// A sender on the last final state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its next free nonce.
    pub(crate) next: u64,
    /// What it can spend.
    pub(crate) balance: Amount,
}

/// A transaction whose signature was checked, on its way into the pool.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) id: TransactionId,
    pub(crate) signed: SignedTransaction,
    /// The most that it may take from its sender.
    pub(crate) takes: Amount,
    pub(crate) at: TimestampMs,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone)]
struct Entry {
    arrival: Arrival,
    prepaid: Option<Prepaid>,
    number: u64,
}

impl Entry {
    const fn fees(&self) -> Fees {
        self.arrival.signed.fees
    }
}

/// What a sender's last paid transaction is worth keeping; the least makes room first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// No nonce before it is missing.
    is_ready: bool,
    /// It and all before it offer the base fee.
    pays: bool,
    /// The least tip of it and those before it, or the least maximum fee if it does not pay.
    price: Amount,
    number: Reverse<u64>,
}

/// Whose turn it is in a block: prepaid kinds and what they wait for, then the higher tip, then the earlier arrival.
type Turn = (bool, Reverse<Amount>, u64);

#[derive(Debug, Default)]
struct Sender {
    waiting: BTreeMap<u64, Entry>,
    /// Nonces of what is prepaid.
    prepaid: BTreeSet<u64>,
    next: u64,
    rank: Option<Rank>,
    /// How many of what is prepaid stand behind a gap.
    gapped: usize,
}

impl Sender {
    /// Whether no nonce from `next` up to `nonce` is missing.
    fn leads_to(&self, next: u64, nonce: u64) -> bool {
        self.waiting.range(next..nonce).count() as u64 == nonce.saturating_sub(next)
    }

    /// The prepaid nonces behind the first gap.
    fn behind_gap(&self) -> impl DoubleEndedIterator<Item = u64> {
        let missing = self.waiting.range(self.next..).zip(self.next..);
        let links = missing.take_while(|((nonce, _), link)| *nonce == link);
        let gap = self.next + links.count() as u64;
        self.prepaid.range(gap..).copied()
    }

    fn paid(&self) -> impl DoubleEndedIterator<Item = (&u64, &Entry)> {
        self.waiting.iter().filter(|(_, it)| it.prepaid.is_none())
    }

    /// The rank of the last paid transaction.
    fn ranked(&self, base_fee: Amount) -> Option<Rank> {
        let (last, tail) = self.paid().next_back()?;
        let end = self.next.max(*last);
        let links = self.waiting.range(self.next..=end).count() as u64;
        let tips = self.paid().map(|(_, it)| it.fees().tip(base_fee));
        let least = tips.min().flatten();
        let offers = self.paid().map(|(_, it)| it.fees().max_fee_per_gas);
        Some(Rank {
            is_ready: *last >= self.next && links == last - self.next + 1,
            pays: least.is_some(),
            price: least.or_else(|| offers.min()).unwrap_or_default(),
            number: Reverse(tail.number),
        })
    }

    /// The turn of a nonce; nothing if there is none, or it does not offer the base fee.
    fn turn(&self, nonce: u64, base_fee: Amount) -> Option<Turn> {
        let entry = self.waiting.get(&nonce)?;
        let tip = match entry.prepaid {
            Some(_) => Amount::ZERO,
            None => entry.fees().tip(base_fee)?,
        };
        let is_late = self.prepaid.last().is_none_or(|last| *last < nonce);
        Some((is_late, Reverse(tip), entry.number))
    }

    /// The first nonce at which the paid transactions may take more than `balance`, if there is one.
    fn unfunded_from(&self, balance: Amount) -> Option<(u64, Amount)> {
        let mut sum = Amount::ZERO;
        for (place, (nonce, entry)) in self.paid().enumerate() {
            sum = sum.saturating_add(entry.arrival.takes);
            let is_checked = place == 0 && *nonce == self.next;
            if sum > balance && !is_checked {
                return Some((*nonce, sum));
            }
        }
        None
    }
}

/// The pool.
#[derive(Debug, Default)]
pub(crate) struct Mempool {
    /// By lane: an account and each of its session keys have a sequence of their own.
    senders: BTreeMap<NonceLane, Sender>,
    /// Senders by what they pay, those that make room first in front.
    ranks: BTreeSet<(Rank, NonceLane)>,
    /// Lane and nonce of what is prepaid.
    prepaid: BTreeMap<Prepaid, (NonceLane, u64)>,
    /// Senders by how many of what is prepaid stand behind a gap.
    gaps: BTreeSet<(usize, NonceLane)>,
    count: usize,
    numbers: u64,
    base_fee: Amount,
    /// The last sender whose turn was looked at again.
    looked: NonceLane,
    /// The last transaction that was told to the others again.
    told: (NonceLane, u64),
    dropped: Vec<(TransactionId, DropReason)>,
    /// Which nonces wait, for those who sign the next ones.
    nonces: WaitingNonces,
}

impl Mempool {
    /// An empty pool while the base fee is `base_fee`, which writes into `nonces` what waits.
    pub(crate) fn new(base_fee: Amount, nonces: WaitingNonces) -> Self {
        Self {
            base_fee,
            nonces,
            ..Self::default()
        }
    }

    /// Transactions waiting.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }

    /// Adds a transaction that the ledger would take, now or when those before it are in.
    pub(crate) fn insert(
        &mut self,
        arrival: Arrival,
        standing: Standing,
    ) -> Result<Admission, MempoolError> {
        let (sender, nonce) = (arrival.signed.lane(), arrival.signed.nonce);
        let prepaid = Prepaid::of(&arrival.signed);
        self.check_nonce(sender, nonce, standing.next)?;
        let known = self.entry(&sender, nonce);
        if known.is_some_and(|it| it.arrival.id == arrival.id) {
            return Ok(Admission::Known);
        }
        if let Some(known) = known {
            check_replacement(known, &arrival, prepaid)?;
        } else {
            self.check_share(sender)?;
        }
        match prepaid {
            Some(prepaid) => self.check_prepaid(&prepaid, (sender, nonce), standing.next)?,
            None => self.check_funds(&arrival, standing)?,
        }
        let id = arrival.id;
        self.remove(&sender, nonce, DropReason::Replaced);
        self.put(arrival, prepaid, standing.next);
        match self.make_room(&id) {
            true => Ok(Admission::New),
            false => Err(MempoolError::Full {
                limit: MEMPOOL_TRANSACTIONS_MAX,
            }),
        }
    }

    fn check_nonce(&self, sender: NonceLane, nonce: u64, next: u64) -> Result<(), MempoolError> {
        if nonce < next {
            return Err(MempoolError::NonceUsed {
                sender: sender.account(),
                nonce,
                next,
            });
        }
        if nonce - next >= MEMPOOL_SENDER_MAX as u64 {
            return Err(MempoolError::NonceTooFar {
                sender: sender.account(),
                nonce,
                next,
                limit: MEMPOOL_SENDER_MAX,
            });
        }
        Ok(())
    }

    fn check_share(&self, sender: NonceLane) -> Result<(), MempoolError> {
        let of_sender = self.senders.get(&sender).map_or(0, |it| it.waiting.len());
        if of_sender >= MEMPOOL_SENDER_MAX {
            return Err(MempoolError::SenderFull {
                sender: sender.account(),
                limit: MEMPOOL_SENDER_MAX,
            });
        }
        Ok(())
    }

    /// One for each lease and kind: the one with the lower nonce, which comes earlier. Makes room if all places are taken.
    fn check_prepaid(
        &mut self,
        prepaid: &Prepaid,
        (sender, nonce): (NonceLane, u64),
        next: u64,
    ) -> Result<(), MempoolError> {
        match self.prepaid.get(prepaid).copied() {
            Some((lane, known)) if lane == sender && known > nonce => {
                self.remove(&sender, known, DropReason::Replaced);
                Ok(())
            }
            Some((lane, nonce)) => Err(MempoolError::NonceTaken {
                sender: lane.account(),
                nonce,
            }),
            None if self.prepaid.len() < MEMPOOL_PREPAID_MAX => Ok(()),
            None => {
                let known = self.senders.get(&sender);
                let has_turn = known.map_or(nonce == next, |it| it.leads_to(next, nonce));
                match has_turn && self.evict_behind_gap() {
                    true => Ok(()),
                    false => Err(MempoolError::Full {
                        limit: MEMPOOL_PREPAID_MAX,
                    }),
                }
            }
        }
    }

    /// Drops the last prepaid transaction of the sender that has most of them behind a gap; false if none stands there.
    /// Stops: a pool that is full of what never comes to a turn, so that nobody's start, receipt or vote has a place.
    fn evict_behind_gap(&mut self) -> bool {
        let most = self.gaps.last().map(|(_, lane)| *lane);
        let sender = most.and_then(|lane| Some((lane, self.senders.get(&lane)?)));
        let last = sender.and_then(|(lane, it)| Some((lane, it.behind_gap().next_back()?)));
        let Some((lane, nonce)) = last else {
            return false;
        };
        self.remove(&lane, nonce, DropReason::Evicted);
        true
    }

    /// Whether the sender could pay for this one and all that it has waiting.
    fn check_funds(&self, arrival: &Arrival, standing: Standing) -> Result<(), MempoolError> {
        let (sender, nonce) = (arrival.signed.lane(), arrival.signed.nonce);
        let others = self.senders.get(&sender).into_iter();
        let others = others
            .flat_map(Sender::paid)
            .filter(|(it, _)| **it != nonce);
        let (mut needed, mut is_alone) = (arrival.takes, true);
        for (_, other) in others {
            needed = needed.saturating_add(other.arrival.takes);
            is_alone = false;
        }
        let is_checked = is_alone && nonce == standing.next;
        if needed > standing.balance && !is_checked {
            return Err(MempoolError::Unfunded {
                sender: sender.account(),
                needed,
                balance: standing.balance,
            });
        }
        Ok(())
    }

    fn put(&mut self, arrival: Arrival, prepaid: Option<Prepaid>, next: u64) {
        let (address, nonce) = (arrival.signed.lane(), arrival.signed.nonce);
        let sender = self.senders.entry(address).or_default();
        sender.next = next;
        if let Some(prepaid) = prepaid {
            self.prepaid.insert(prepaid, (address, nonce));
            sender.prepaid.insert(nonce);
        }
        let entry = Entry {
            arrival,
            prepaid,
            number: self.numbers,
        };
        sender.waiting.insert(nonce, entry);
        self.nonces.add(address, nonce);
        self.numbers += 1;
        self.count += 1;
        self.rank(&address);
    }

    /// While too many paid transactions wait, drops the least; false if that was the new one.
    fn make_room(&mut self, new: &TransactionId) -> bool {
        while self.count - self.prepaid.len() > MEMPOOL_TRANSACTIONS_MAX {
            let Some((_, address)) = self.ranks.first().copied() else {
                return true;
            };
            let last = self
                .senders
                .get(&address)
                .and_then(|it| it.paid().next_back());
            let Some((nonce, id)) = last.map(|(nonce, it)| (*nonce, it.arrival.id)) else {
                return true;
            };
            self.remove(&address, nonce, DropReason::Evicted);
            if id == *new {
                // It was never taken, so it was not dropped.
                self.dropped.pop();
                return false;
            }
        }
        true
    }

    /// Whether a transaction could go into a block on a state with these next nonces and this base fee.
    pub(crate) fn has_ready(
        &self,
        next_nonce: impl Fn(&NonceLane) -> u64,
        base_fee: Amount,
    ) -> bool {
        let mut senders = self.senders.iter();
        senders.any(|(address, sender)| sender.turn(next_nonce(address), base_fee).is_some())
    }

    /// The transactions for a block on a state with these next nonces and this base fee, in their turns.
    pub(crate) fn turns(
        &self,
        next_nonce: impl Fn(&NonceLane) -> u64,
        base_fee: Amount,
    ) -> PoolTurns<'_> {
        let heads = self.senders.iter().filter_map(|(address, sender)| {
            let nonce = next_nonce(address);
            Some((sender.turn(nonce, base_fee)?, *address, nonce))
        });
        PoolTurns {
            heads: heads.collect(),
            pool: self,
            base_fee,
            shown: None,
            without: [0; 2],
        }
    }

    /// Forgets a transaction that no block can hold.
    pub(crate) fn refuse(&mut self, sender: &NonceLane, nonce: u64, error: TransactionError) {
        self.remove(sender, nonce, DropReason::Refused(error));
    }

    /// Forgets transactions that the final state has no place for: used nonces, what is prepaid and not owed any more, what
    /// its sender cannot pay, and what waited too long.
    pub(crate) fn prune(
        &mut self,
        standing: impl Fn(&NonceLane) -> Option<Standing>,
        is_owed: impl Fn(&Prepaid) -> bool,
        base_fee: Amount,
        now: TimestampMs,
    ) {
        self.base_fee = base_fee;
        self.nonces.forget_idle();
        let age_max = u64::try_from(MEMPOOL_AGE_MAX.as_millis()).unwrap_or(u64::MAX);
        let addresses: Vec<NonceLane> = self.senders.keys().copied().collect();
        for address in addresses {
            let standing = standing(&address);
            let next = standing.map_or(0, |it| it.next);
            let Some(sender) = self.senders.get_mut(&address) else {
                continue;
            };
            sender.next = next;
            self.nonces.settle(&address, next);
            let reason = |nonce: u64, entry: &Entry| {
                if nonce < next {
                    return Some(DropReason::NonceUsed);
                }
                if standing.is_none() {
                    return Some(DropReason::Unfunded);
                }
                let is_old = now.saturating_since(entry.arrival.at).get() > age_max;
                is_old.then_some(DropReason::TooOld)
            };
            let gone = sender.waiting.iter();
            let gone: Vec<_> = gone
                .filter_map(|(nonce, entry)| Some((*nonce, reason(*nonce, entry)?)))
                .collect();
            let lapsed = sender.waiting.iter().filter(|(_, entry)| {
                let prepaid = entry.prepaid.as_ref();
                prepaid.is_some_and(|prepaid| !is_owed(prepaid))
            });
            let lapsed: Vec<u64> = lapsed.map(|(nonce, _)| *nonce).collect();
            for (nonce, reason) in gone {
                self.remove(&address, nonce, reason);
            }
            for nonce in lapsed {
                self.remove(&address, nonce, DropReason::Lapsed);
            }
            if let Some(standing) = standing {
                self.drop_unfunded(&address, standing.balance);
            }
            self.rank(&address);
        }
    }

    fn drop_unfunded(&mut self, address: &NonceLane, balance: Amount) {
        let Some(sender) = self.senders.get(address) else {
            return;
        };
        let Some((from, _)) = sender.unfunded_from(balance) else {
            return;
        };
        let paid = sender.paid().map(|(nonce, _)| *nonce);
        let gone: Vec<u64> = paid.filter(|nonce| *nonce >= from).collect();
        for nonce in gone {
            self.remove(address, nonce, DropReason::Unfunded);
        }
    }

    /// Forgets what the ledger takes no more, though its turn has come: `holds` says why. At most `limit` senders are looked
    /// at, from where the last call stopped. Who fills a block notices by itself; a node that does so seldom, or never,
    /// would keep such a transaction, and give its clients nonces that come after it.
    pub(crate) fn forget_refused(
        &mut self,
        limit: usize,
        holds: impl Fn(&SignedTransaction) -> Result<(), TransactionError>,
    ) {
        let looked = self.looked;
        let next = self
            .senders
            .range((Bound::Excluded(looked), Bound::Unbounded));
        let again = self.senders.range(..=looked);
        let turn: Vec<(&NonceLane, &Sender)> = next.chain(again).take(limit).collect();
        let last = turn.last().map_or(looked, |(address, _)| **address);
        let due = turn.into_iter().filter_map(|(address, sender)| {
            sender.turn(sender.next, self.base_fee)?;
            let entry = sender.waiting.get(&sender.next)?;
            let refused = holds(&entry.arrival.signed).err()?;
            Some((*address, sender.next, refused))
        });
        let due: Vec<(NonceLane, u64, TransactionError)> = due.collect();
        self.looked = last;
        for (sender, nonce, error) in due {
            self.refuse(&sender, nonce, error);
        }
    }

    /// Encodings of at most `limit` waiting transactions that were submitted to this validator: the next ones, from where
    /// the last call stopped.
    pub(crate) fn local(&mut self, limit: usize) -> Vec<Vec<u8>> {
        let all = || {
            let entries = self.senders.iter().flat_map(|(address, sender)| {
                let waiting = sender.waiting.iter();
                waiting.map(move |(nonce, entry)| ((*address, *nonce), entry))
            });
            entries.filter(|(_, entry)| entry.arrival.origin == Origin::Local)
        };
        let told = self.told;
        let next = all().filter(|(key, _)| *key > told);
        let again = all().filter(|(key, _)| *key <= told);
        let turn: Vec<_> = next.chain(again).take(limit).collect();
        let last = turn.last().map_or(told, |(key, _)| *key);
        let bytes = turn
            .iter()
            .map(|(_, entry)| entry.arrival.signed.to_bytes());
        let bytes = bytes.collect();
        self.told = last;
        bytes
    }

    /// What left the pool without a block since the last call.
    pub(crate) fn take_dropped(&mut self) -> Vec<(TransactionId, DropReason)> {
        std::mem::take(&mut self.dropped)
    }

    fn entry(&self, sender: &NonceLane, nonce: u64) -> Option<&Entry> {
        self.senders.get(sender)?.waiting.get(&nonce)
    }

    fn remove(&mut self, address: &NonceLane, nonce: u64, reason: DropReason) {
        let Some(sender) = self.senders.get_mut(address) else {
            return;
        };
        let Some(entry) = sender.waiting.remove(&nonce) else {
            return;
        };
        self.count -= 1;
        self.nonces.remove(address, nonce);
        self.dropped.push((entry.arrival.id, reason));
        if let Some(prepaid) = entry.prepaid {
            sender.prepaid.remove(&nonce);
            self.prepaid.remove(&prepaid);
        }
        self.rank(address);
    }

    /// Brings the rank of a sender up to date, and forgets it if nothing of it waits.
    fn rank(&mut self, address: &NonceLane) {
        let Some(sender) = self.senders.get_mut(address) else {
            return;
        };
        let gapped = sender.behind_gap().count();
        let known = std::mem::replace(&mut sender.gapped, gapped);
        if known != gapped {
            self.gaps.remove(&(known, *address));
            if gapped > 0 {
                self.gaps.insert((gapped, *address));
            }
        }
        let rank = sender.ranked(self.base_fee);
        let old = std::mem::replace(&mut sender.rank, rank);
        if old != rank {
            if let Some(old) = old {
                self.ranks.remove(&(old, *address));
            }
            if let Some(rank) = rank {
                self.ranks.insert((rank, *address));
            }
        }
        if sender.waiting.is_empty() {
            self.senders.remove(address);
        }
    }
}

/// Transactions of a lane that have no place in a block, after which it is not looked for more of that lane: what their checks take is
/// bounded, and a full lane leaves the rest. The other lane has its turn all the same.
const WITHOUT_PLACE_MAX: usize = 1_024;

/// The transactions of a pool one after the other. What comes after one that has no place in the block is left out: so it takes nothing of the
/// block's gas, whether it would hold or not.
#[derive(Debug)]
pub(crate) struct PoolTurns<'a> {
    pool: &'a Mempool,
    heads: BTreeSet<(Turn, NonceLane, u64)>,
    base_fee: Amount,
    /// What was shown last, and whether it is prepaid.
    shown: Option<(NonceLane, u64, bool)>,
    /// How many had no place: paid ones, and prepaid ones.
    without: [usize; 2],
}

impl TransactionSource for PoolTurns<'_> {
    fn next(&mut self) -> Option<SignedTransaction> {
        while let Some((_, address, nonce)) = self.heads.pop_first() {
            if let Some(entry) = self.pool.entry(&address, nonce) {
                let is_prepaid = entry.prepaid.is_some();
                if self.without[usize::from(is_prepaid)] >= WITHOUT_PLACE_MAX {
                    continue;
                }
                self.shown = Some((address, nonce, is_prepaid));
                return Some(entry.arrival.signed.clone());
            }
        }
        None
    }

    fn has_place(&mut self, has_place: bool) {
        let Some((address, nonce, is_prepaid)) = self.shown.take() else {
            return;
        };
        if !has_place {
            self.without[usize::from(is_prepaid)] += 1;
            return;
        }
        let sender = self.pool.senders.get(&address);
        if let Some(turn) = sender.and_then(|it| it.turn(nonce + 1, self.base_fee)) {
            self.heads.insert((turn, address, nonce + 1));
        }
    }
}

/// Whether a transaction may take the place of the waiting one with its nonce.
fn check_replacement(
    known: &Entry,
    arrival: &Arrival,
    prepaid: Option<Prepaid>,
) -> Result<(), MempoolError> {
    let (sender, nonce) = (arrival.signed.lane(), arrival.signed.nonce);
    if known.prepaid.is_some() {
        return Err(MempoolError::NonceTaken {
            sender: sender.account(),
            nonce,
        });
    }
    // What is demanded of the sender under threat of a loss goes before what it merely wants.
    if prepaid.is_some() {
        return Ok(());
    }
    let more = |old: Amount| {
        let part = old.get().div_ceil(100 / MEMPOOL_REPLACEMENT_PERCENT);
        old.saturating_add(Amount::new(part))
    };
    let (max_fee, max_tip) = (
        more(known.fees().max_fee_per_gas),
        more(known.fees().max_tip_per_gas),
    );
    let offered = arrival.signed.fees;
    if offered.max_fee_per_gas < max_fee || offered.max_tip_per_gas < max_tip {
        return Err(MempoolError::ReplacementTooCheap {
            sender: sender.account(),
            nonce,
            max_fee,
            max_tip,
        });
    }
    Ok(())
}
