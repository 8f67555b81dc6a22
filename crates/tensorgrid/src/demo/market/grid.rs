//! Four replicas of the ledger that execute the same blocks.

use std::collections::BTreeMap;

use tg_ledger::{
    Entry, Event, Genesis, JournalWriter, Proposal, Proposed, State, Verdict, apply, propose,
};
use tg_types::{Address, SignedTransaction, TimestampMs, Transaction, Wallet};

use super::participants::VALIDATORS;
use tg_console::outcome::say;

/// Blocks printed in one line, unless something else is printed between.
const BLOCKS_PER_LINE: u64 = 20;

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
    /// The first block that was not printed yet, and the decisions since.
    untold: (u64, usize),
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
            untold: (1, 0),
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
        let now = first.head().time;
        let sound = first.money().is_conserved() && first.rebuilt_stock(now)? == *first.stock();
        self.broken += u32::from(!sound);
        self.untold.1 += entry.decisions.len();
        if self.state().head().height.get() >= self.untold.0 + BLOCKS_PER_LINE - 1 {
            self.print();
        }
        Ok(events)
    }

    /// One line for the blocks since the last one: how often the validators agreed, what waits and runs now, and the
    /// schedule root of each validator in the last block.
    pub(super) fn print(&mut self) {
        let (from, decisions) = self.untold;
        let until = self.state().head().height.get();
        self.untold = (until + 1, 0);
        if !self.is_loud || until < from {
            return;
        }
        let state = self.state();
        let agreed = match self.disagreements {
            0 => format!("{VALIDATORS} of {VALIDATORS} validators agree"),
            count => format!("validators differed in {count} blocks"),
        };
        let roots: Vec<String> = self
            .replicas
            .iter()
            .map(|it| it.schedule().root.to_string().chars().take(10).collect())
            .collect();
        say(format_args!(
            "blocks {from:>3}-{until:<3}  {:>3} wait  {:>3} run  {:>4} ended  {decisions:>4} decisions  {agreed}, schedule {}",
            state.queued_jobs().count(),
            state.live_leases().count(),
            state.ended_jobs().count(),
            roots.join(" = "),
        ));
    }

    /// The journal of all blocks.
    pub(super) fn journal(&self) -> Vec<u8> {
        self.journal.clone().into_bytes()
    }
}
