//! A chain of blocks, and the one that follows it as a voter does.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use tg_ledger::{
    ConsensusKey, Event, EvidenceTask, Genesis, JobState, ModelFacts, Outcome, Parameters,
    Proposal, State, TransactionError, Validator, apply, development_domain, propose,
};
use tg_types::{
    Address, Amount, Decode, Digest, Encode, Fees, Label, ModelId, ProgramId, Receipt,
    SignedTransaction, Tier, TimestampMs, Transaction, Wallet,
};

pub(crate) const MODEL: ModelId = ModelId::new([0x11; 32]);

/// The input of every order.
pub(crate) const INPUT: Digest = Digest::new([0x31; 32]);

const PROGRAM: ProgramId = ProgramId::new([0x10; 32]);

/// Between two blocks: as long as one waits for the next where there is nothing to do.
pub(crate) const TICK_MS: u64 = 400;

/// What anybody pays at most for a unit of gas.
const FEES: Fees = Fees::up_to(Amount::new(1_000_000_000_000_000));

/// What one block took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    /// CPU time of the thread, in microseconds.
    pub(crate) cpu_us: u64,
    /// Wall time, in microseconds.
    pub(crate) wall_us: u64,
}

pub(crate) struct Chain {
    pub(crate) state: State,
    /// The same state, with nothing of the first one's memory.
    voter: Option<State>,
    proposer: Address,
    wallets: BTreeMap<Address, Wallet>,
    nonces: BTreeMap<Address, u64>,
    left: VecDeque<SignedTransaction>,
    pub(crate) blocks: u64,
}

/// CPU time of this thread in nanoseconds.
pub(crate) fn thread_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// Runs `work`, and says what it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Took) {
    let (cpu, wall) = (thread_ns(), Instant::now());
    let done = work();
    let took = Took {
        cpu_us: (thread_ns() - cpu) / 1_000,
        wall_us: u64::try_from(wall.elapsed().as_micros()).unwrap(),
    };
    (done, took)
}

impl Chain {
    pub(crate) fn new(wallets: Vec<Wallet>) -> Self {
        let mut accounts: Vec<_> = wallets
            .iter()
            .map(|it| (it.address(), Amount::from_tgrid(1_000_000)))
            .collect();
        accounts.sort();
        let proposer = Wallet::from_seed(b"validator").address();
        let genesis = Genesis {
            domain: development_domain(),
            parameters: Parameters::development(),
            timestamp: TimestampMs::new(1_000_000),
            accounts,
            validators: vec![Validator {
                address: proposer,
                key: ConsensusKey::new([1; 32]),
                stake: Amount::from_tgrid(1),
            }],
        };
        Self {
            state: State::genesis(&genesis).unwrap(),
            voter: None,
            proposer,
            wallets: wallets.into_iter().map(|it| (it.address(), it)).collect(),
            nonces: BTreeMap::new(),
            left: VecDeque::new(),
            blocks: 0,
        }
    }

    /// Signs with the next nonce of `sender`.
    pub(crate) fn sign(&mut self, sender: Address, transaction: Transaction) -> SignedTransaction {
        let nonce = self.nonces.entry(sender).or_insert(0);
        *nonce += 1;
        let wallet = &self.wallets[&sender];
        wallet.sign_with_fees(transaction, *nonce - 1, FEES, self.state.domain())
    }

    fn proposal(&self, transactions: Vec<SignedTransaction>) -> Proposal {
        let time = self.state.head().timestamp.get() + TICK_MS;
        Proposal {
            transactions,
            ..Proposal::empty(self.proposer, TimestampMs::new(time))
        }
    }

    /// Puts transactions into as many blocks as they need; providers start what they are given.
    pub(crate) fn fill(&mut self, transactions: Vec<SignedTransaction>) {
        self.left.extend(transactions);
        while !self.left.is_empty() {
            let next: Vec<_> = self.left.drain(..self.left.len().min(1_000)).collect();
            let proposed = propose(&self.state, self.proposal(next)).unwrap();
            let mut left = proposed.left;
            for (transaction, error) in proposed.refused {
                // What stands behind one that found no room.
                assert!(
                    matches!(error, TransactionError::NonceGap { .. }),
                    "{error}"
                );
                left.push(transaction);
            }
            self.state = proposed.state;
            self.blocks += 1;
            for event in &proposed.events {
                if let Event::LeaseMade {
                    lease, provider, ..
                } = event
                {
                    let start = Transaction::StartLease { lease: *lease };
                    left.insert(0, self.sign(*provider, start));
                }
            }
            left.sort_by_key(|it| (!it.transaction.kind().is_prepaid(), it.nonce));
            for transaction in left.into_iter().rev() {
                self.left.push_front(transaction);
            }
        }
    }

    pub(crate) fn activate_model(&mut self, owner: Address) {
        let register = Transaction::RegisterModel {
            model: MODEL,
            public_blob: Digest::new([0x12; 32]),
            weights_blob: Digest::new([0x13; 32]),
            name: Label::lossy("crowd"),
        };
        let signed = self.sign(owner, register);
        self.fill(vec![signed]);
        let task = self.state.pending_evidence().next().unwrap();
        let facts = ModelFacts {
            program: PROGRAM,
            tier: tg_types::Tier::Tgx1,
            macs: 420_000,
            input_len: 784,
            output_len: 10,
            provable: true,
            proof_bytes: 200_000,
            work: 420_000,
            memory: 1 << 20,
            trace_bytes: 1,
            read_bytes: 1,
            looks: 0,
        };
        let mut proposal = self.proposal(Vec::new());
        proposal.verdicts = vec![task.verdict(Outcome::ModelAccepted(facts))];
        self.state = propose(&self.state, proposal).unwrap().state;
    }

    /// What a provider that does its work has to do next for each of its leases.
    pub(crate) fn duties(&mut self, provider: Address) -> Vec<SignedTransaction> {
        let now = self.state.head().timestamp.get() + TICK_MS;
        let live = self.state.live_leases();
        let own = live.filter(|(_, lease)| lease.provider == provider);
        let duty = |(job, lease): (&tg_ledger::Job, &tg_ledger::Lease)| {
            let ready = lease
                .started_at()
                .map(|it| it.get() + job.order.needs.reference.get());
            let lease = lease.id;
            match job.state() {
                JobState::Leased => Some(Transaction::StartLease { lease }),
                JobState::Running if ready <= Some(now) => Some(Transaction::CommitReceipt {
                    lease,
                    receipt: Receipt {
                        program: PROGRAM,
                        model: MODEL,
                        input: INPUT,
                        output: Digest::new([0x34; 32]),
                        trace: Digest::new([0x35; 32]),
                        tier: Tier::Tgx1,
                    },
                }),
                JobState::Committed => Some(Transaction::SubmitEvidence {
                    lease,
                    evidence: Digest::new([0x36; 32]),
                    size: 200_000,
                }),
                _ => None,
            }
        };
        let duties: Vec<Transaction> = own.filter_map(duty).collect();
        duties
            .into_iter()
            .map(|duty| self.sign(provider, duty))
            .collect()
    }

    /// The voter has what a restart reads back.
    pub(crate) fn part_voter(&mut self) {
        self.voter = Some(State::from_bytes(&self.state.to_bytes()).unwrap());
    }

    /// One block with these transactions: what it took to propose and to execute it. What finds no room comes in the next
    /// one.
    pub(crate) fn block(
        &mut self,
        transactions: Vec<SignedTransaction>,
    ) -> (Took, Took, Vec<Event>) {
        let mut all = transactions;
        all.extend(self.left.drain(..));
        let mut proposal = self.proposal(all);
        let pending = self.state.pending_evidence();
        let leases = pending.filter(|it| matches!(it, EvidenceTask::Lease { .. }));
        proposal.verdicts = leases
            .map(|task| task.verdict(Outcome::LeaseAccepted))
            .collect();
        let (proposed, proposing) = timed(|| propose(&self.state, proposal).unwrap());
        for (transaction, error) in proposed.refused {
            // What stands behind one that found no room, or was taken back or served meanwhile.
            if matches!(error, TransactionError::NonceGap { .. }) {
                self.left.push_back(transaction);
            }
        }
        self.left.extend(proposed.left);
        self.left
            .make_contiguous()
            .sort_by_key(|transaction| transaction.nonce);
        let voter = self.voter.take().unwrap();
        let ((state, events), executing) = timed(|| apply(&voter, &proposed.block).unwrap());
        self.voter = Some(state);
        self.state = proposed.state;
        (proposing, executing, events)
    }
}
