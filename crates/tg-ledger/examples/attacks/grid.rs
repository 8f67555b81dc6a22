//! A small grid with honest people who do what their software does, and room for attackers among them.
//!
//! Every block is proposed and applied by the ledger itself; all transactions are signed. Ledger time advances by a second
//! a block. Honest people act on the state alone, so the same people can be run with and without an attack.

use std::collections::BTreeMap;

use tg_ledger::rent::{Rent, RentCategory};
use tg_ledger::{
    ConsensusKey, EvidenceTask, Genesis, Job, JobState, Lease, ModelFacts, Outcome, Parameters,
    Proposal, State, StorageRule, StoredFile, Subject, Validator, Verdict, apply,
    development_domain, propose,
};
use tg_types::limits::STORAGE_STATEMENTS_MAX;
use tg_types::transaction::bid_commitment;
use tg_types::{
    Address, Amount, BidId, DeclineReason, Digest, DurationMs, Fees, GpuModel, JobId, JobNeeds,
    JobOrder, Label, LeaseId, Machine, ModeSet, ModelId, OfferId, OfferTerms, Pricing, ProgramId,
    Receipt, SignedTransaction, Tier, TierSet, TimestampMs, Transaction, TransactionKind,
    VerificationMode, Wallet, bid_id, job_id,
};

/// Time between two blocks.
pub(crate) const TICK: u64 = 1_000;

/// Time that honest providers declare for a job without GPU time.
pub(crate) const DECLARED: u64 = 12_000;

/// Time that they take for it, from start to receipt.
const TAKEN: u64 = 9_000;

/// What honest providers put up for a lease, in thousandths of a TGRID.
const COLLATERAL: u64 = 1_000;

/// Providers of the usual market, their asks for a job in thousandths of a TGRID.
pub(crate) const MARKET: [(&str, u64); 5] = [
    ("ann", 30),
    ("ben", 31),
    ("cat", 32),
    ("dan", 33),
    ("eve", 34),
];

/// Requestors of the usual market.
pub(crate) const REQUESTORS: [&str; 3] = ["rosa", "raul", "ruth"];

/// Accounts of attackers that have money from the start; their names begin with `x`, as those of all attackers.
pub(crate) const ATTACKERS: [&str; 18] = [
    "x0",
    "x1",
    "x2",
    "x3",
    "x4",
    "x5",
    "x6",
    "x7",
    "x8",
    "x9",
    "x10",
    "x11",
    "x12",
    "x13",
    "x14",
    "x15",
    "x requestor",
    "x provider",
];

pub(crate) const MODEL: ModelId = ModelId::new([0x11; 32]);
const PROGRAM: ProgramId = ProgramId::new([0x10; 32]);

/// An input that everybody holds.
pub(crate) const INPUT: Digest = Digest::new([0x31; 32]);

/// An input that only those validators hold that the attack gave it to.
pub(crate) const SECRET: Digest = Digest::new([0xaa; 32]);

/// Evidence that holds, that does not, and that nobody can get.
pub(crate) const GOOD: Digest = Digest::new([0x36; 32]);
pub(crate) const BAD: Digest = Digest::new([0x66; 32]);
pub(crate) const ABSENT: Digest = Digest::new([0x77; 32]);

pub(crate) fn milli(thousandths: u64) -> Amount {
    Amount::new(u128::from(thousandths) * 1_000_000_000_000_000)
}

/// What honest people of a run do.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) parameters: Parameters,
    /// Providers, with their offers.
    pub(crate) offers: Vec<(&'static str, OfferTerms)>,
    pub(crate) wants: Vec<Want>,
    /// Validators that are the attacker's; of four.
    pub(crate) corrupt: usize,
    /// Blocks, long enough for everything to end.
    pub(crate) steps: u64,
}

/// An order of an honest requestor.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    /// The block in which it comes.
    pub(crate) at: u64,
    pub(crate) by: &'static str,
    pub(crate) needs: JobNeeds,
    pub(crate) max_price: Amount,
    /// Time to its deadline.
    pub(crate) patience: u64,
    /// Which model.
    pub(crate) model: ModelId,
}

impl Want {
    pub(crate) fn usual(at: u64, by: &'static str) -> Self {
        Self {
            at,
            by,
            needs: JobNeeds::ANY_MACHINE,
            max_price: milli(64),
            patience: 600_000,
            model: MODEL,
        }
    }
}

impl Plan {
    /// The usual market: eight orders in the first block, by which the model becomes known, and then one every ten seconds
    /// from the hundredth second on, six in all.
    pub(crate) fn usual() -> Self {
        let first = (0..8).map(|index| Want::usual(1, REQUESTORS[index % 3]));
        let later =
            (0..6).map(|index| Want::usual(100 + 10 * index, REQUESTORS[index as usize % 3]));
        Self {
            parameters: Parameters {
                storage: StorageRule::Stated,
                ..Parameters::development()
            },
            offers: MARKET.map(|(name, price)| (name, terms(price))).to_vec(),
            wants: first.chain(later).collect(),
            corrupt: 0,
            steps: 330,
        }
    }

    pub(crate) fn with_corrupt(self, corrupt: usize) -> Self {
        Self { corrupt, ..self }
    }
}

/// An offer for `price` thousandths of a TGRID a job.
pub(crate) fn terms(price: u64) -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy("2 CPU cores"),
        price_base: milli(price),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(DECLARED - 1),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 20,
        slots: 2,
        collateral_per_lease: milli(COLLATERAL),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

/// A machine with one T4 that asks `price` thousandths of a TGRID for a second of it.
pub(crate) fn gpu_terms(price: u64) -> OfferTerms {
    OfferTerms {
        machine: Machine {
            gpu_count: 1,
            gpu: GpuModel::T4,
            gpu_memory_mib: 16_384,
            capability: 75,
            tensor_cores: true,
            cpu_milli: 64_000,
            memory_mib: 262_144,
            disk_gib: 1_000,
            tiers: TierSet::ANY,
            ..Machine::CPU_ONLY
        },
        price_per_gpu_second: milli(price),
        latency_base_ms: DurationMs::from_secs(4),
        slots: 8,
        ..terms(0)
    }
}

/// A job of `seconds` on a whole T4.
pub(crate) fn gpu_needs(seconds: u64) -> JobNeeds {
    JobNeeds {
        gpus: 1,
        gpu_milli: 1_000,
        reference: DurationMs::from_secs(seconds),
        ..JobNeeds::ANY_MACHINE
    }
}

/// An attacker's offer: so cheap that it is preferred to all others, with as little put up as may be.
pub(crate) fn bait(price: u64) -> OfferTerms {
    OfferTerms {
        collateral_per_lease: milli(10),
        ..terms(price)
    }
}

fn facts() -> ModelFacts {
    ModelFacts {
        program: PROGRAM,
        tier: tg_types::Tier::Tgx1,
        macs: 420_000,
        input_len: 784,
        output_len: 10,
        provable: true,
        proof_bytes: 40_000,
        work: 100_000_000,
        memory: 784 + 10,
        trace_bytes: 4_096,
        read_bytes: 4_096,
        looks: 0,
    }
}

pub(crate) fn register(model: ModelId) -> Transaction {
    Transaction::RegisterModel {
        model,
        public_blob: Digest::new([0x12; 32]),
        weights_blob: Digest::new([0x13; 32]),
        name: Label::lossy("model"),
    }
}

pub(crate) fn receipt(job: &Job) -> Receipt {
    Receipt {
        program: PROGRAM,
        model: job.order.model,
        input: job.order.input,
        output: Digest::new([0x34; 32]),
        trace: Digest::new([0x35; 32]),
        tier: Tier::Tgx1,
    }
}

/// A sealed bid of an honest requestor.
struct Sealed {
    want: usize,
    by: &'static str,
    bid: BidId,
    order: JobOrder,
}

/// What of honest transactions a corrupt leader leaves out of its blocks.
pub(crate) type Censor = fn(&Transaction) -> bool;

/// The grid while it runs.
pub(crate) struct Grid {
    pub(crate) state: State,
    pub(crate) step: u64,
    time: u64,
    plan: Plan,
    wallets: BTreeMap<String, Wallet>,
    names: BTreeMap<Address, String>,
    seats: Vec<String>,
    /// What attackers send in the next block, before all others.
    outgoing: Vec<(String, Transaction, Fees)>,
    sealed: Vec<Sealed>,
    /// When each honest order came.
    pub(crate) begun: BTreeMap<usize, u64>,
    /// The job of each honest order, once it was taken.
    pub(crate) jobs: BTreeMap<usize, JobId>,
    /// How many honest validators hold [`SECRET`], the first ones.
    pub(crate) holders: usize,
    /// What corrupt leaders leave out.
    pub(crate) censor: Option<Censor>,
    /// By how much corrupt leaders delay their blocks.
    pub(crate) delay: u64,
    /// A pause before the next block.
    pub(crate) pause: u64,
    /// A model that honest providers start and cannot finish.
    pub(crate) unprovable: Option<ModelId>,
    /// How long attackers' orders take, whatever they state, in milliseconds.
    pub(crate) hostile_takes: Option<u64>,
    /// Transactions of attackers that were executed and refused.
    pub(crate) sent: (usize, usize),
    /// Names of what attackers keep in mind.
    pub(crate) noted: BTreeMap<&'static str, u64>,
}

impl Grid {
    pub(crate) fn new(plan: Plan) -> Self {
        let people = plan
            .offers
            .iter()
            .map(|it| it.0)
            .chain(REQUESTORS)
            .chain(["mia"]);
        let mut names: Vec<String> = people.chain(ATTACKERS).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        let seats: Vec<String> = (0..4)
            .map(|seat| match seat + plan.corrupt >= 4 {
                true => format!("x validator {seat}"),
                false => format!("validator {seat}"),
            })
            .collect();
        let wallets: BTreeMap<String, Wallet> = names
            .iter()
            .chain(&seats)
            .map(|name| (name.clone(), Wallet::from_seed(name.as_bytes())))
            .collect();
        let wealth = Amount::from_tgrid(100_000);
        let mut accounts: Vec<_> = names
            .iter()
            .map(|name| (wallets[name].address(), wealth))
            .collect();
        accounts.sort();
        let mut validators: Vec<_> = seats
            .iter()
            .enumerate()
            .map(|(index, name)| Validator {
                address: wallets[name].address(),
                key: ConsensusKey::new([index as u8; 32]),
                stake: Amount::from_tgrid(1_000),
            })
            .collect();
        validators.sort_by_key(|it| it.address);
        let time = 1_000_000;
        let genesis = Genesis {
            domain: development_domain(),
            parameters: plan.parameters,
            timestamp: TimestampMs::new(time),
            accounts,
            validators,
        };
        let names = wallets
            .iter()
            .map(|(name, wallet)| (wallet.address(), name.clone()))
            .collect();
        Self {
            state: State::genesis(&genesis).unwrap(),
            step: 0,
            time,
            plan,
            wallets,
            names,
            seats,
            outgoing: Vec::new(),
            sealed: Vec::new(),
            begun: BTreeMap::new(),
            jobs: BTreeMap::new(),
            holders: 0,
            censor: None,
            delay: 0,
            pause: 0,
            unprovable: None,
            hostile_takes: None,
            sent: (0, 0),
            noted: BTreeMap::new(),
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn address(&mut self, name: &str) -> Address {
        if let Some(wallet) = self.wallets.get(name) {
            return wallet.address();
        }
        let wallet = Wallet::from_seed(name.as_bytes());
        let address = wallet.address();
        self.wallets.insert(name.to_owned(), wallet);
        self.names.insert(address, name.to_owned());
        address
    }

    /// Whose address it is; nothing for addresses that nobody here has.
    pub(crate) fn name(&self, address: &Address) -> &str {
        self.names.get(address).map_or("", String::as_str)
    }

    /// Whether an account is an attacker's.
    pub(crate) fn is_hostile(&self, address: &Address) -> bool {
        self.name(address).starts_with('x')
    }

    /// Wall time in the state's block.
    pub(crate) fn now(&self) -> u64 {
        self.state.head().time.get()
    }

    /// Puts an attacker's transaction before all others of the next block.
    pub(crate) fn send(&mut self, name: &str, transaction: Transaction) {
        let fees = Fees::from_base_fee(self.state.base_fee());
        self.send_with(name, transaction, fees);
    }

    pub(crate) fn send_with(&mut self, name: &str, transaction: Transaction, fees: Fees) {
        self.address(name);
        self.outgoing.push((name.to_owned(), transaction, fees));
    }

    /// An order with the input that everybody holds.
    pub(crate) fn order(&self, max_price: u64, patience: u64) -> JobOrder {
        JobOrder {
            model: MODEL,
            input: INPUT,
            input_len: 784,
            mode: VerificationMode::Proof,
            max_price: milli(max_price),
            deadline: TimestampMs::new(self.now() + patience),
            max_attempts: 3,
            retention: tg_types::DurationMs::ZERO,
            needs: JobNeeds::ANY_MACHINE,
        }
    }

    pub(crate) fn submit(&mut self, name: &str, order: JobOrder) {
        self.send(name, Transaction::SubmitJob { order });
    }

    /// The open jobs of an account.
    pub(crate) fn open_jobs(&self, name: &str) -> Vec<Job> {
        let address = self.wallets[name].address();
        let jobs = self.state.jobs().iter();
        jobs.filter(|job| job.requestor == address && !job.state().is_final())
            .cloned()
            .collect()
    }

    /// The live leases of an account, with their jobs; those of gangs too.
    pub(crate) fn leases(&self, name: &str) -> Vec<(Job, Lease)> {
        let address = self.wallets[name].address();
        let leads = self.state.live_leases();
        let all = leads.flat_map(|(job, lead)| {
            let members = lead.members().iter().filter_map(|id| self.state.lease(id));
            std::iter::once(lead)
                .chain(members)
                .map(move |lease| (job.clone(), lease.clone()))
        });
        all.filter(|(_, lease)| lease.provider == address).collect()
    }

    pub(crate) fn offers_of(&self, name: &str) -> Vec<OfferId> {
        let address = self.wallets[name].address();
        let offers = self.state.offers().iter();
        offers
            .filter(|it| it.provider == address)
            .map(|it| it.id)
            .collect()
    }

    /// Whether an attacker's validator leads the next block.
    pub(crate) fn is_corrupt_turn(&self) -> bool {
        let proposer = self.proposer();
        self.is_hostile(&proposer)
    }

    /// The name of the attacker's validator.
    pub(crate) fn corrupt_name(&self) -> String {
        self.seats.last().cloned().unwrap_or_default()
    }

    fn proposer(&self) -> Address {
        let validators = self.state.validators();
        let turn = self.state.head().height.get() as usize % validators.len();
        validators[turn].address
    }

    /// Makes the next block: attackers first, then everybody else.
    pub(crate) fn advance(&mut self) {
        self.step += 1;
        self.time += TICK + std::mem::take(&mut self.pause);
        let is_corrupt = self.is_corrupt_turn();
        if is_corrupt {
            self.time += self.delay;
        }
        let hostile = std::mem::take(&mut self.outgoing);
        let mut all: Vec<(String, Transaction, Fees)> = hostile;
        let attackers = all.len();
        let mut verdicts = self.verdicts();
        let mut honest = self.honest();
        if let Some(censor) = self.censor.filter(|_| is_corrupt) {
            honest.retain(|(_, transaction, _)| !censor(transaction));
            verdicts.clear();
        }
        all.extend(honest);
        let signed = self.sign(all);
        let ids: BTreeMap<_, usize> = signed
            .iter()
            .take(attackers)
            .enumerate()
            .map(|(index, it)| (it.id(self.state.domain()), index))
            .collect();
        let proposal = Proposal {
            proposer: self.proposer(),
            timestamp: TimestampMs::new(self.time),
            transactions: signed,
            verdicts,
        };
        let proposed = propose(&self.state, proposal).unwrap();
        let (applied, _) = apply(&self.state, &proposed.block).unwrap();
        assert_eq!(applied.root(), proposed.state.root());
        assert!(applied.money().is_conserved(), "{:?}", applied.money());
        let domain = *applied.domain();
        let taken = proposed.block.transactions.iter();
        self.sent.0 += taken.filter(|it| ids.contains_key(&it.id(&domain))).count();
        for (refused, error) in &proposed.refused {
            if ids.contains_key(&refused.id(&domain)) {
                self.sent.1 += 1;
                self.explain(refused, error);
            }
        }
        self.state = applied;
    }

    /// How leases ended, for whom and of whom: for whoever writes an attack.
    #[allow(clippy::print_stderr, reason = "asked for by the environment")]
    pub(crate) fn summary(&self) {
        if std::env::var_os("TENSORGRID_ATTACKS_EXPLAIN").is_none() {
            return;
        }
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for lease in self.state.leases().iter() {
            let job = self.state.job(&lease.job);
            let order = job.map_or("", |it| self.name(&it.requestor));
            let end = lease.end().map_or("Live", |it| it.as_str());
            *ends
                .entry(format!(
                    "{order} with {}: {end}",
                    self.name(&lease.provider)
                ))
                .or_default() += 1;
        }
        eprintln!("{:?} {ends:?}", self.sent);
    }

    #[allow(clippy::print_stderr, reason = "asked for by the environment")]
    fn explain(&self, refused: &SignedTransaction, error: &tg_ledger::TransactionError) {
        if std::env::var_os("TENSORGRID_ATTACKS_EXPLAIN").is_some() {
            let who = self.name(&refused.sender);
            let kind = refused.transaction.kind();
            eprintln!("block {}: {kind} of {who}: {error}", self.step);
        }
    }

    fn sign(&self, all: Vec<(String, Transaction, Fees)>) -> Vec<SignedTransaction> {
        let mut nonces: BTreeMap<String, u64> = BTreeMap::new();
        let signed = all.into_iter().map(|(name, transaction, fees)| {
            let wallet = &self.wallets[&name];
            let next = nonces
                .entry(name)
                .or_insert_with(|| self.state.nonce(&wallet.address()));
            let nonce = *next;
            *next += 1;
            wallet.sign_with_fees(transaction, nonce, fees, self.state.domain())
        });
        signed.collect()
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let decide = |task: EvidenceTask| match task.subject() {
            Subject::Model(_) => Some(task.verdict(Outcome::ModelAccepted(facts()))),
            Subject::Lease(lease) => {
                let evidence = self.state.lease(&lease)?.evidence()?;
                match evidence.digest {
                    BAD => Some(task.verdict(Outcome::Rejected {
                        code: 7,
                        check: Label::lossy("sumcheck of layer 2"),
                    })),
                    ABSENT => None,
                    _ => Some(task.verdict(Outcome::LeaseAccepted)),
                }
            }
            // No job of these games is of mode sync, or sealed.
            Subject::SeedKey(_)
            | Subject::Seed(_)
            | Subject::Accusation(..)
            | Subject::Grant(_) => None,
        };
        self.state.pending_evidence().filter_map(decide).collect()
    }

    /// What honest people send in this block.
    fn honest(&mut self) -> Vec<(String, Transaction, Fees)> {
        let fees = Fees::from_base_fee(self.state.base_fee());
        let mut all = Vec::new();
        for seat in 0..self.seats.len() - self.plan.corrupt {
            let report = self.storage_report(seat);
            all.extend(report.map(|it| (self.seats[seat].clone(), it, fees)));
        }
        if self.step == 1 {
            all.push(("mia".to_owned(), register(MODEL), fees));
        }
        if self.step == 3 {
            let posts = self.plan.offers.iter().map(|(name, terms)| {
                let terms = terms.clone();
                ((*name).to_owned(), Transaction::PostOffer { terms }, fees)
            });
            all.extend(posts);
        }
        let mut providers: Vec<&str> = self.plan.offers.iter().map(|it| it.0).collect();
        providers.sort_unstable();
        providers.dedup();
        for name in providers {
            for (job, lease) in self.leases(name) {
                let duty = self.duty(&job, &lease);
                all.extend(duty.map(|it| (name.to_owned(), it, fees)));
            }
        }
        all.extend(self.orders(fees));
        all
    }

    /// What an honest provider does with a lease in the next block.
    pub(crate) fn duty(&self, job: &Job, lease: &Lease) -> Option<Transaction> {
        let id = lease.id;
        let now = self.now() + TICK;
        let Some(started) = lease.started_at() else {
            let is_there = job.order.input != SECRET || self.holders > 0;
            return match (is_there, lease.grant.from.get() <= now) {
                (true, true) => Some(Transaction::StartLease { lease: id }),
                (true, false) => None,
                (false, _) => Some(Transaction::DeclineLease {
                    lease: id,
                    reason: DeclineReason::InputMissing,
                }),
            };
        };
        let stated = job.order.needs.reference.get();
        let takes = self
            .hostile_takes
            .filter(|_| self.is_hostile(&job.requestor));
        let reference = takes.unwrap_or(stated);
        if now < started.get() + reference.max(TAKEN) {
            return None;
        }
        if self.unprovable == Some(job.order.model) {
            return None;
        }
        let receipt = receipt(job);
        match (job.state(), lease.lead(), &lease.receipt()) {
            (JobState::Running, Some(_), None) => {
                Some(Transaction::CommitPart { lease: id, receipt })
            }
            (JobState::Running, None, None) => {
                let mut members = lease.members().iter().filter_map(|id| self.state.lease(id));
                let is_ready = members.all(|it| it.receipt().is_some());
                is_ready.then_some(Transaction::CommitReceipt { lease: id, receipt })
            }
            (JobState::Committed, None, Some(_)) => Some(evidence(id, GOOD)),
            _ => None,
        }
    }

    /// What a validator states about storage: the truth.
    fn storage_report(&self, seat: usize) -> Option<Transaction> {
        let validator = self.wallets[&self.seats[seat]].address();
        let (mut held, mut missing) = (Vec::new(), Vec::new());
        for task in self.state.storage_tasks(&validator) {
            if held.len() + missing.len() == STORAGE_STATEMENTS_MAX {
                break;
            }
            let lacks = task.files.iter().any(|file| match file {
                StoredFile::Input { digest, .. } => *digest == SECRET && seat >= self.holders,
                StoredFile::Opening { .. }
                | StoredFile::Answer { .. }
                | StoredFile::PublicModel { .. }
                | StoredFile::Weights { .. } => false,
            });
            match (lacks, task.is_recheck) {
                (false, _) => held.push(task.subject),
                (true, true) => missing.push(task.subject),
                (true, false) => {}
            }
        }
        held.sort_unstable();
        missing.sort_unstable();
        let is_empty = held.is_empty() && missing.is_empty();
        (!is_empty).then_some(Transaction::ReportStorage { held, missing })
    }

    /// Orders that came and were not taken yet.
    fn orders(&mut self, fees: Fees) -> Vec<(String, Transaction, Fees)> {
        let begin = self.now() + TICK;
        let mut all = Vec::new();
        let wants = self.plan.wants.clone();
        // Jobs count from the fifth block on: then the model is known and the offers are there.
        let mut nonces: BTreeMap<&str, u64> = BTreeMap::new();
        let sealed = std::mem::take(&mut self.sealed);
        for sealed in sealed {
            self.reveal(sealed, fees, &mut nonces, &mut all);
        }
        for (index, want) in wants.iter().enumerate() {
            let known = self.jobs.get(&index);
            let is_taken = known.is_some_and(|id| self.state.job(id).is_some());
            let is_sealed = self.sealed.iter().any(|it| it.want == index);
            if is_taken || is_sealed || self.step < want.at + 4 {
                continue;
            }
            self.begun.entry(index).or_insert(self.time);
            let order = JobOrder {
                model: want.model,
                input: INPUT,
                input_len: 784,
                mode: VerificationMode::Proof,
                max_price: want.max_price,
                deadline: TimestampMs::new(begin + want.patience),
                max_attempts: 3,
                retention: tg_types::DurationMs::ZERO,
                needs: want.needs,
            };
            let is_bid = want.needs.lane() == tg_types::Lane::Auction;
            let transaction = match is_bid {
                true => Transaction::CommitBid {
                    commitment: bid_commitment(&order, &INPUT, &self.wallets[want.by].address()),
                    deposit: milli(20),
                },
                false => Transaction::SubmitJob {
                    order: order.clone(),
                },
            };
            let id = self.will_be(want.by, &transaction, fees, &mut nonces);
            match is_bid {
                true => self.sealed.push(Sealed {
                    want: index,
                    by: want.by,
                    bid: bid_id(id),
                    order,
                }),
                false => {
                    self.jobs.insert(index, job_id(id));
                }
            }
            all.push((want.by.to_owned(), transaction, fees));
        }
        all
    }

    /// Opens a bid in its slot, or seals it anew if it was not taken.
    fn reveal(
        &mut self,
        sealed: Sealed,
        fees: Fees,
        nonces: &mut BTreeMap<&str, u64>,
        all: &mut Vec<(String, Transaction, Fees)>,
    ) {
        let Some(bid) = self.state.bid(&sealed.bid) else {
            // It was opened, or it never came in.
            return;
        };
        let next = TimestampMs::new(self.now() + TICK);
        let slot = self.plan.parameters.slot(next);
        if slot == bid.slot + 1 {
            let transaction = Transaction::RevealBid {
                bid: sealed.bid,
                salt: INPUT,
                order: sealed.order.clone(),
            };
            let id = self.will_be(sealed.by, &transaction, fees, nonces);
            self.jobs.insert(sealed.want, job_id(id));
            all.push((sealed.by.to_owned(), transaction, fees));
        }
        self.sealed.push(sealed);
    }

    /// The id of the transaction that `name` sends next in this block.
    fn will_be<'a>(
        &self,
        name: &'a str,
        transaction: &Transaction,
        fees: Fees,
        nonces: &mut BTreeMap<&'a str, u64>,
    ) -> tg_types::TransactionId {
        let wallet = &self.wallets[name];
        let next = nonces
            .entry(name)
            .or_insert_with(|| self.state.nonce(&wallet.address()));
        let nonce = *next;
        *next += 1;
        let signed = wallet.sign_with_fees(transaction.clone(), nonce, fees, self.state.domain());
        signed.id(self.state.domain())
    }

    /// Everything that belongs to accounts for which `belongs` says so: balances, and what is locked and comes back.
    pub(crate) fn worth(&self, belongs: impl Fn(&str) -> bool) -> i128 {
        let state = &self.state;
        let mine = |address: &Address| belongs(self.name(address));
        let mut sum = 0_i128;
        let mut add = |owner: &Address, amount: Amount| {
            if mine(owner) {
                sum += amount.get() as i128;
            }
        };
        state
            .accounts()
            .iter()
            .for_each(|it| add(&it.address, it.balance));
        state
            .jobs()
            .iter()
            .for_each(|it| add(&it.requestor, it.escrow()));
        state
            .bids()
            .iter()
            .for_each(|it| add(&it.bidder, it.deposit));
        for lease in state.leases().iter() {
            add(&lease.provider, lease.locked());
            add(&lease.provider, lease.gas_locked());
        }
        let left = |rent: &Rent, category: RentCategory| {
            let reading = state.meters().of(category);
            rent.deposit.saturating_sub(rent.owed(reading))
        };
        for it in state.offers().iter() {
            add(&it.rent.payer, left(&it.rent, RentCategory::Offers));
        }
        for it in state.providers().iter() {
            add(&it.rent.payer, left(&it.rent, RentCategory::Providers));
        }
        for it in state.models().iter() {
            add(&it.rent.payer, left(&it.rent, RentCategory::Models));
        }
        for it in state.jobs().iter() {
            let category = match it.state().is_final() {
                true => RentCategory::EndedJobs,
                false => RentCategory::OpenJobs,
            };
            add(&it.rent.payer, left(&it.rent, category));
            add(&it.requestor, it.retention.fee);
        }
        sum
    }
}

pub(crate) fn evidence(lease: LeaseId, digest: Digest) -> Transaction {
    Transaction::SubmitEvidence {
        lease,
        evidence: digest,
        size: 40_000,
    }
}

/// Whether leaders that want to harm leave a transaction out: whatever is demanded of somebody.
pub(crate) fn demanded(transaction: &Transaction) -> bool {
    matches!(
        transaction.kind(),
        TransactionKind::StartLease
            | TransactionKind::CommitReceipt
            | TransactionKind::CommitPart
            | TransactionKind::SubmitEvidence
            | TransactionKind::RevealBid
            | TransactionKind::ReportStorage
            | TransactionKind::SubmitJob
            | TransactionKind::CommitBid
            | TransactionKind::SealResult
            | TransactionKind::OpenResult
            | TransactionKind::ArgueResult
            | TransactionKind::CommitVotes
            | TransactionKind::RevealVotes
            | TransactionKind::PostDealing
            | TransactionKind::GrantKey
            | TransactionKind::RevealKey
    )
}
