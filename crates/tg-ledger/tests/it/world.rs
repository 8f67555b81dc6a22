//! A small network to test with: four validators, a requestor, providers, and one active model.
//!
//! Each block is proposed and then applied as another validator would; after each one, money is counted by walking
//! every record, state and events of both must be the same, and an auditor who
//! saw only the events must know every balance.

use tg_ledger::gas::{LEASE_GAS, gas_of};
use tg_ledger::{
    Block, ConsensusKey, Event, EvidenceTask, Genesis, Job, JobState, Lease, LeaseEnd, ModelFacts,
    Outcome, Parameters, Proposal, Proposed, State, Subject, TransactionError, Validator, Verdict,
    apply, check_transaction, development_domain, propose,
};
use tg_types::CheckedSignatures;
use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, JobNeeds, JobOrder, Label, LeaseId, Machine,
    ModeSet, ModelId, OfferId, OfferTerms, Pricing, ProgramId, Receipt, SignedTransaction, Tier,
    TimestampMs, Transaction, TransactionKind, VerificationMode, Wallet, job_id, offer_id,
};

/// Time of the genesis block.
pub(crate) const START: u64 = 1_000_000;

/// Time between two blocks.
pub(crate) const TICK: u64 = 1_000;

/// Longer than any step of a test's clock.
pub(crate) const LEAP: DurationMs = DurationMs::from_secs(365 * 24 * 3600);

pub(crate) const MODEL: ModelId = ModelId::new([0x11; 32]);
pub(crate) const PROGRAM: ProgramId = ProgramId::new([0x10; 32]);
pub(crate) const INPUT: Digest = Digest::new([0x31; 32]);

pub(crate) fn wallet(name: &str) -> Wallet {
    Wallet::from_seed(name.as_bytes())
}

pub(crate) fn address(name: &str) -> Address {
    wallet(name).address()
}

pub(crate) fn tgrid(milli: u64) -> Amount {
    Amount::new(u128::from(milli) * 1_000_000_000_000_000)
}

/// What a unit of gas costs while blocks are not full: a transfer 0.00105 TGRID.
pub(crate) const BASE_FEE: Amount = Amount::new(50_000_000_000);

/// What a transaction of a kind costs then.
pub(crate) fn fee(kind: TransactionKind) -> Amount {
    BASE_FEE.saturating_mul(gas_of(kind))
}

/// What a provider prepays for a lease then.
pub(crate) fn lease_fee() -> Amount {
    BASE_FEE.saturating_mul(LEASE_GAS)
}

/// Round fees and no rent, so that settlements can be read off: verification 0.01, registration 0.1 TGRID.
pub(crate) fn parameters() -> Parameters {
    Parameters {
        base_fee_min: BASE_FEE,
        verification_fee_zk: tgrid(10),
        registration_fee: tgrid(100),
        // Rounder windows, and leaps in time: outages are a test of their own.
        auction_slot: DurationMs::from_secs(2),
        preempt_grace: DurationMs::from_secs(5),
        leader_timeout: DurationMs::new(300),
        time_step_max: LEAP,
        outage_min: LEAP,
        // All collateral is at risk: unknown models are a test of their own.
        owners_paid_min: 0,
        // Rent has its own tests; elsewhere settlements are read off without it.
        rent_full_hour: Amount::ZERO,
        // Tests of runs that a committee repeats whole set it.
        whole_run_macs_max: 0,
        ..Parameters::development()
    }
}

use crate::audit::Auditor;

pub(crate) const PEOPLE: [&str; 6] = ["alice", "bob", "mallory", "cheap", "middle", "dear"];

pub(crate) fn genesis() -> Genesis {
    let mut accounts: Vec<_> = PEOPLE
        .iter()
        .map(|name| (address(name), Amount::from_tgrid(100)))
        .collect();
    accounts.sort();
    let mut validators: Vec<_> = (0..4u8)
        .map(|index| Validator {
            address: address(&format!("validator {index}")),
            key: ConsensusKey::new([index; 32]),
            stake: Amount::from_tgrid(1_000),
        })
        .collect();
    validators.sort_by_key(|it| it.address);
    Genesis {
        domain: development_domain(),
        parameters: parameters(),
        timestamp: TimestampMs::new(START),
        accounts,
        validators,
    }
}

pub(crate) fn facts() -> ModelFacts {
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

/// An offer whose price for the test model is `price` thousandths of a TGRID.
pub(crate) fn terms(price: u64) -> OfferTerms {
    OfferTerms {
        hardware: Label::lossy("2 CPU cores"),
        price_base: tgrid(price),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::new(500),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 20,
        slots: 2,
        collateral_per_lease: tgrid(500),
        modes: ModeSet::UNSEALED,
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

pub(crate) fn receipt() -> Receipt {
    Receipt {
        program: PROGRAM,
        model: MODEL,
        input: INPUT,
        output: Digest::new([0x34; 32]),
        trace: Digest::new([0x35; 32]),
        tier: Tier::Tgx1,
    }
}

pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) time: u64,
    pub(crate) blocks: Vec<Block>,
    auditor: Auditor,
}

impl World {
    /// A network without models.
    pub(crate) fn bare() -> Self {
        Self::with(&genesis())
    }

    pub(crate) fn with(genesis: &Genesis) -> Self {
        Self {
            state: State::genesis(genesis).unwrap(),
            time: START,
            blocks: Vec::new(),
            auditor: Auditor::new(genesis),
        }
    }

    /// A network whose test model is active.
    pub(crate) fn new() -> Self {
        let mut world = Self::bare();
        world.activate_model(facts());
        world
    }

    pub(crate) fn activate_model(&mut self, facts: ModelFacts) {
        self.send("bob", register());
        let task = self.state.pending_evidence().next().unwrap();
        self.decide(&task, Outcome::ModelAccepted(facts));
    }

    /// A network with the test model and one offer each of `cheap` (30), `middle` (40) and `dear` (50).
    pub(crate) fn with_offers() -> Self {
        let mut world = Self::new();
        for (name, price) in [("cheap", 30), ("middle", 40), ("dear", 50)] {
            world.post(name, terms(price));
        }
        world
    }

    pub(crate) fn now(&self) -> TimestampMs {
        TimestampMs::new(self.time)
    }

    /// Signs with the account's next nonce.
    pub(crate) fn sign(&self, name: &str, transaction: Transaction) -> SignedTransaction {
        let wallet = wallet(name);
        let nonce = self.state.nonce(&wallet.address());
        wallet.sign(transaction, nonce, self.state.domain())
    }

    /// Makes the next block one tick later, and checks everything that every block must keep.
    pub(crate) fn block(
        &mut self,
        transactions: Vec<SignedTransaction>,
        verdicts: Vec<Verdict>,
    ) -> Proposed {
        let validators = self.state.validators();
        let turn = usize::try_from(self.state.head().height.get()).unwrap() % validators.len();
        let proposer = validators[turn].address;
        self.block_by(proposer, transactions, verdicts)
    }

    /// As [`Self::block`], by a validator out of its turn.
    pub(crate) fn block_by(
        &mut self,
        proposer: Address,
        transactions: Vec<SignedTransaction>,
        verdicts: Vec<Verdict>,
    ) -> Proposed {
        self.time += TICK;
        let proposal = Proposal {
            proposer,
            timestamp: self.now(),
            transactions,
            verdicts,
        };
        let proposed = propose(&self.state, proposal).unwrap();
        let (applied, events) = apply(&self.state, &proposed.block).unwrap();
        assert_eq!(applied.root(), proposed.state.root());
        assert_eq!(applied.head(), proposed.state.head());
        assert_eq!(events, proposed.events);
        assert_conserved(&applied);
        let transactions = &proposed.block.transactions;
        self.auditor.read(&applied, transactions, &events);
        self.auditor.agree(&applied);
        self.state = applied;
        self.blocks.push(proposed.block.clone());
        proposed
    }

    /// One block with one transaction that must hold.
    pub(crate) fn send(&mut self, name: &str, transaction: Transaction) -> Vec<Event> {
        let signed = self.sign(name, transaction);
        assert_eq!(
            check_transaction(&self.state, &signed, &CheckedSignatures::none()),
            Ok(())
        );
        let proposed = self.block(vec![signed], vec![]);
        assert_eq!(proposed.refused, []);
        proposed.events
    }

    /// Why a transaction is refused; it must be refused at admission and in a block alike.
    pub(crate) fn refusal(&mut self, name: &str, transaction: Transaction) -> TransactionError {
        let signed = self.sign(name, transaction);
        let before = self.state.clone();
        let admission =
            check_transaction(&self.state, &signed, &CheckedSignatures::none()).unwrap_err();
        let proposed = self.block(vec![signed.clone()], vec![]);
        assert_eq!(proposed.refused.len(), 1);
        assert_eq!(proposed.refused[0].1.code(), admission.code());
        assert_eq!(
            self.state.nonce(&signed.sender),
            before.nonce(&signed.sender)
        );
        let (_, error) = proposed.refused[0];
        error
    }

    pub(crate) fn idle(&mut self) -> Vec<Event> {
        self.block(vec![], vec![]).events
    }

    /// Lets time pass until it is at least `time`.
    pub(crate) fn wait_until(&mut self, time: u64) -> Vec<Event> {
        self.time = self.time.max(time.saturating_sub(TICK));
        self.idle()
    }

    pub(crate) fn decide(&mut self, task: &EvidenceTask, outcome: Outcome) -> Vec<Event> {
        let proposed = self.block(vec![], vec![task.verdict(outcome)]);
        assert_eq!(proposed.refused_verdicts, []);
        proposed.events
    }

    pub(crate) fn post(&mut self, name: &str, terms: OfferTerms) -> OfferId {
        let signed = self.sign(name, Transaction::PostOffer { terms });
        let id = offer_id(signed.id(self.state.domain()));
        let proposed = self.block(vec![signed], vec![]);
        assert_eq!(proposed.refused, []);
        id
    }

    /// An order of the test model that every offer of [`World::with_offers`] fits.
    pub(crate) fn order(&self) -> JobOrder {
        JobOrder {
            model: MODEL,
            input: INPUT,
            input_len: 784,
            mode: VerificationMode::Proof,
            max_price: tgrid(100),
            deadline: TimestampMs::new(self.time + 600_000),
            max_attempts: 3,
            retention: tg_types::DurationMs::ZERO,
            needs: JobNeeds::ANY_MACHINE,
        }
    }

    pub(crate) fn submit(&mut self, name: &str, order: JobOrder) -> JobId {
        let signed = self.sign(name, Transaction::SubmitJob { order });
        assert_eq!(
            check_transaction(&self.state, &signed, &CheckedSignatures::none()),
            Ok(())
        );
        let id = job_id(signed.id(self.state.domain()));
        let proposed = self.block(vec![signed], vec![]);
        assert_eq!(proposed.refused, []);
        id
    }

    pub(crate) fn job(&self, id: JobId) -> &Job {
        self.state.job(&id).unwrap()
    }

    /// How many attempts at a job failed: its leases that ended, but for those that made room for another job or were declined.
    pub(crate) fn attempts_failed(&self, id: JobId) -> usize {
        let job = self.job(id);
        let free = usize::from(job.preemptions) + usize::from(job.declined);
        job.earlier.len().saturating_sub(free)
    }

    pub(crate) fn lease(&self, job: JobId) -> &Lease {
        let id = *self.job(job).leases().last().unwrap();
        self.state.lease(&id).unwrap()
    }

    /// The name of the account that holds a job's last lease.
    pub(crate) fn holder(&self, job: JobId) -> &'static str {
        let provider = self.lease(job).provider;
        PEOPLE
            .into_iter()
            .find(|name| address(name) == provider)
            .unwrap()
    }

    /// Starts and commits a job's lease, and names evidence for it.
    pub(crate) fn work(&mut self, job: JobId) -> EvidenceTask {
        let (name, lease) = (self.holder(job), self.lease(job).id);
        self.send(name, Transaction::StartLease { lease });
        self.send(name, commit(lease));
        self.send(name, evidence(lease));
        self.task(lease)
    }

    pub(crate) fn task(&self, lease: LeaseId) -> EvidenceTask {
        self.state
            .pending_evidence()
            .find(|task| task.subject() == Subject::Lease(lease))
            .unwrap()
    }

    /// What not starting a lease costs at the state's time, if it is the provider's first: the test offers declare less
    /// than the start timeout.
    pub(crate) fn penalty(&self, lease: &Lease) -> Amount {
        let held = self.now().saturating_since(lease.matched_at).get();
        let whole = self.state.parameters().start_timeout.get();
        let counted = lease.price.saturating_mul(10);
        let counted = counted.max(self.state.parameters().collateral_min);
        let most = self.job(lease.job).order.max_price.min(counted);
        let time = most.checked_mul_div_ceil(held.min(whole), whole);
        time.unwrap().max(lease_fee())
    }

    pub(crate) fn balance(&self, name: &str) -> Amount {
        self.state.balance(&address(name))
    }

    pub(crate) fn states(&self, job: JobId) -> Vec<JobState> {
        self.job(job)
            .history
            .iter()
            .map(|step| step.state)
            .collect()
    }
}

pub(crate) fn register() -> Transaction {
    Transaction::RegisterModel {
        model: MODEL,
        public_blob: Digest::new([0x12; 32]),
        weights_blob: Digest::new([0x13; 32]),
        name: Label::lossy("lenet"),
    }
}

pub(crate) fn commit(lease: LeaseId) -> Transaction {
    Transaction::CommitReceipt {
        lease,
        receipt: receipt(),
    }
}

pub(crate) fn part(lease: LeaseId) -> Transaction {
    Transaction::CommitPart {
        lease,
        receipt: receipt(),
    }
}

pub(crate) fn evidence(lease: LeaseId) -> Transaction {
    Transaction::SubmitEvidence {
        lease,
        evidence: Digest::new([0x36; 32]),
        size: 200_000,
    }
}

pub(crate) fn rejected() -> Outcome {
    Outcome::Rejected {
        code: 7,
        check: Label::lossy("sumcheck of layer 2"),
    }
}

pub(crate) fn rejected_end() -> LeaseEnd {
    LeaseEnd::Rejected {
        code: 7,
        check: Label::lossy("sumcheck of layer 2"),
    }
}

/// Counts all money by walking every record, and compares with the sums that the tables keep.
pub(crate) fn assert_conserved(state: &State) {
    let sum = |amounts: &mut dyn Iterator<Item = Amount>| {
        amounts.fold(Amount::ZERO, |sum, it| sum.checked_add(it).unwrap())
    };
    let report = state.money();
    assert_eq!(
        sum(&mut state.accounts().iter().map(|it| it.balance)),
        report.balances
    );
    assert_eq!(
        sum(&mut state
            .leases()
            .iter()
            .flat_map(|it| [it.locked(), it.gas_locked(), it.held()])),
        report.collateral
    );
    let jobs = state.jobs().iter().map(|it| it.escrow());
    let bids = state.bids().iter().map(|it| it.deposit);
    let deposits = (state.offers().iter().map(|it| it.rent.deposit))
        .chain(state.providers().iter().map(|it| it.rent.deposit))
        .chain(state.models().iter().map(|it| it.rent.deposit))
        .chain(state.jobs().iter().map(|it| it.rent.deposit))
        .chain(state.jobs().iter().map(|it| it.retention.fee));
    assert_eq!(sum(&mut deposits.into_iter()), report.deposits);
    assert_eq!(sum(&mut jobs.chain(bids)), report.escrow);
    assert!(report.is_conserved(), "{report:?}");
    assert_shape(state);
}

/// What every state keeps beside money: counters agree with records, and what ended holds nothing.
fn assert_shape(state: &State) {
    for job in state.jobs().iter() {
        assert_eq!(job.state().is_final(), job.end().is_some());
        assert_eq!(job.end().is_some(), job.settlement().is_some());
        if job.state().is_final() {
            assert!(job.escrow().is_zero());
        }
        let steps = job.history.windows(2);
        assert!(steps.clone().all(|it| it[0].state.may_become(it[1].state)));
        let counted = job.leases().len() - usize::from(job.preemptions) - usize::from(job.declined);
        assert!(counted <= usize::from(job.order.max_attempts));
        for (index, id) in job.leases().iter().enumerate() {
            let lease = state.lease(id).unwrap();
            let is_live = job.live_lease() == Some(*id);
            assert_eq!(is_live, lease.end().is_none());
            assert_eq!(
                is_live,
                index + 1 == job.leases().len() && job.live_lease().is_some()
            );
            assert!(is_live || lease.gas_locked().is_zero());
            let is_declined = matches!(lease.end(), Some(LeaseEnd::Declined(_)));
            assert!(is_live || lease.locked().is_zero() || is_declined);
            for member in lease.members() {
                let member = state.lease(member).unwrap();
                assert_eq!(member.lead(), Some(lease.id));
                assert_eq!(member.end().is_none(), is_live);
                assert!(is_live || member.locked().is_zero() && member.gas_locked().is_zero());
            }
        }
    }
    for account in state.accounts().iter() {
        let mine = state
            .jobs()
            .iter()
            .filter(|it| it.requestor == account.address);
        let open = mine.filter(|it| !it.state().is_final()).count();
        assert_eq!(account.open_jobs as usize, open);
        let offers = state.offers().iter();
        let offers = offers.filter(|it| it.provider == account.address).count();
        assert_eq!(account.offers as usize, offers);
        let models = state.models().iter();
        let models = models.filter(|it| it.owner == account.address).count();
        assert_eq!(account.models as usize, models);
    }
    for offer in state.offers().iter() {
        let live = state
            .live_members()
            .filter(|(job, lease)| lease.offer == offer.id && job.takes_slots())
            .count();
        assert_eq!(usize::from(offer.slots_taken), live);
        assert!(offer.slots_taken <= offer.terms.slots);
    }
    assert_stock(state);
    let waiting = state.submitted_jobs().count() + state.queued_jobs().count();
    let queues = waiting + state.live_leases().count();
    assert_eq!(queues + state.ended_jobs().count(), state.jobs().len());
}

/// What is free on the machines is what follows from the records, and nothing is given away twice.
fn assert_stock(state: &State) {
    let now = state.head().time;
    assert_eq!(state.rebuilt_stock(now).unwrap(), *state.stock());
    assert_eq!(state.rebuilt_book(), state.current_book());
    for offer in state.offers().iter() {
        let machine = &offer.terms.machine;
        let (mut milli, mut memory) = ([0_u32; 8], [0_u64; 8]);
        let (mut cpu, mut ram) = (0_u64, 0_u64);
        // What was booked and waits for what should have ended holds nothing.
        let booked: Vec<_> = state.stock().bookings(&offer.id).collect();
        let held = state.live_members().filter(|(job, lease)| {
            let waits = booked.iter().any(|hold| hold.lease == lease.id);
            job.holds_machine() && lease.offer == offer.id && lease.grant.from <= now && !waits
        });
        for (job, lease) in held {
            let grant = lease.grant;
            cpu += u64::from(job.order.needs.cpu_milli);
            ram += u64::from(job.order.needs.memory_mib);
            assert_eq!(grant.gpus(), u32::from(job.order.needs.gpus));
            for device in (0..8).filter(|device| grant.devices >> device & 1 == 1) {
                milli[device] += u32::from(grant.gpu_milli);
                memory[device] += u64::from(grant.gpu_memory_mib);
            }
        }
        let gpus = usize::from(machine.gpu_count);
        assert!(milli[..gpus].iter().all(|it| *it <= 1_000));
        assert!(milli[gpus..].iter().all(|it| *it == 0));
        let most = u64::from(machine.gpu_memory_mib);
        assert!(
            memory.iter().all(|it| *it <= most),
            "memory is oversubscribed"
        );
        assert!(cpu <= u64::from(machine.cpu_milli) && ram <= u64::from(machine.memory_mib));
    }
}
