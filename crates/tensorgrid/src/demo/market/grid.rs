//! Four replicas of the ledger that execute the same blocks.

use std::collections::BTreeMap;

use tg_ledger::{
    Entry, Event, Genesis, JournalWriter, Proposal, Proposed, State, Verdict, apply, propose,
};
use tg_types::{Address, SignedTransaction, TimestampMs, Transaction, Wallet};

use super::cast::VALIDATORS;
use crate::outcome::say;

/// Time between two blocks.
pub(super) const TICK_MS: u64 = 1_000;

/// The replicas, and what was written down about them.
pub(super) struct Grid {
    replicas: Vec<State>,
    journal: JournalWriter,
    queue: Vec<SignedTransaction>,
    nonces: BTreeMap<Address, u64>,
    time: u64,
    is_loud: bool,
    /// Blocks after which not all replicas had the same roots.
    pub(super) disagreements: u32,
    /// Blocks after which the stock was not the one that follows from the records, or money was not conserved.
    pub(super) broken: u32,
    /// Transactions that were refused.
    pub(super) refused: u32,
    /// Decisions made.
    pub(super) decisions: usize,
}

impl Grid {
    pub(super) fn new(genesis: &Genesis, is_loud: bool) -> anyhow::Result<Self> {
        let replicas: Result<Vec<State>, _> =
            (0..VALIDATORS).map(|_| State::genesis(genesis)).collect();
        Ok(Self {
            replicas: replicas?,
            journal: JournalWriter::new(genesis),
            queue: Vec::new(),
            nonces: BTreeMap::new(),
            time: genesis.timestamp.get(),
            is_loud,
            disagreements: 0,
            broken: 0,
            refused: 0,
            decisions: 0,
        })
    }

    /// The state after the last block.
    pub(super) fn state(&self) -> &State {
        &self.replicas[0]
    }

    /// The time of the next block.
    pub(super) const fn next_time(&self) -> TimestampMs {
        TimestampMs::new(self.time + TICK_MS)
    }

    /// Signs a transaction for the next block; returns it as it will stand there.
    pub(super) fn send(&mut self, wallet: &Wallet, transaction: Transaction) -> SignedTransaction {
        let address = wallet.address();
        let known = self.replicas[0].nonce(&address);
        let nonce = self.nonces.entry(address).or_insert(known);
        let signed = wallet.sign(transaction, *nonce, self.replicas[0].domain());
        *nonce += 1;
        self.queue.push(signed.clone());
        signed
    }

    /// Makes the next block of what was sent; every replica executes it.
    pub(super) fn step(&mut self, verdicts: Vec<Verdict>) -> anyhow::Result<Vec<Event>> {
        self.time += TICK_MS;
        self.nonces.clear();
        let height = self.state().head().height.get() as usize;
        let proposer = self.state().validators()[height % VALIDATORS].address;
        let transactions = std::mem::take(&mut self.queue);
        let Proposed {
            block,
            events,
            refused,
            left,
            ..
        } = propose(
            self.state(),
            Proposal {
                proposer,
                timestamp: TimestampMs::new(self.time),
                transactions,
                verdicts,
            },
        )?;
        self.refused += u32::try_from(refused.len() + left.len())?;
        for replica in &mut self.replicas {
            *replica = apply(replica, &block)?.0;
        }
        let first = &self.replicas[0];
        let entry = Entry::of(&block, first, &events);
        self.decisions += entry.decisions.len();
        self.journal.append(&entry);
        let agrees =
            |it: &State| it.root() == first.root() && it.schedule().root == first.schedule().root;
        self.disagreements += u32::from(!self.replicas.iter().all(agrees));
        let now = first.head().timestamp;
        let sound = first.money().is_conserved() && first.rebuilt_stock(now)? == *first.stock();
        self.broken += u32::from(!sound);
        if self.is_loud {
            self.tell(&entry);
        }
        Ok(events)
    }

    /// One line for a block: what waits and runs, and the schedule root of each validator.
    fn tell(&self, entry: &Entry) {
        let state = self.state();
        let roots: Vec<String> = self
            .replicas
            .iter()
            .map(|it| it.schedule().root.to_string().chars().take(10).collect())
            .collect();
        say(format_args!(
            "block {:>3}  {:>3} wait  {:>3} run  {:>4} ended  {:>3} decisions  schedule {}",
            state.head().height,
            state.queued_jobs().count(),
            state.live_leases().count(),
            state.ended_jobs().count(),
            entry.decisions.len(),
            roots.join(" = "),
        ));
    }

    /// The journal of all blocks.
    pub(super) fn journal(&self) -> Vec<u8> {
        self.journal.clone().into_bytes()
    }
}
