//! What must hold of every final block, looked at from outside: nothing here asks the code under test whether it is right.
//!
//! | rule | what must hold |
//! |---|---|
//! | `agreement` | validators and gateways have the same block, and the state that its header names, at each height |
//! | `money` | what the records hold, counted one by one, and what was burned is what was minted; what was burned only grows |
//! | `payment` | a job is paid once, to the last unit of its escrow, for a right result, by a verdict in that block, with evidence that validators hold; one that nobody checks for an answer that a quorum holds |
//! | `honest-lost` | no honest provider loses collateral, but ten times its gas where an order leaves too little time; no honest validator loses stake |
//! | `honest-lost` | whoever ordered a job that ends unpaid, and not by its own doing, has all of its escrow back |
//! | `votes` | tiles are drawn by the seed of the receipt's block; a committee is drawn once a quorum holds the opening; a false accusation costs its bond |
//! | `capacity` | no offer has more leases than slots, no GPU more than a whole of its shares and memory |
//! | `job-end` | a job ends in time, with a reason, and goes only from state to state as the protocol says |
//! | `held` | a job waits for a provider only if enough validators have its input |
//! | `replay` | no transaction is executed twice or stands in two blocks, and nonces of an account grow, also when it was removed and opened again |
//! | `forged` | no honest validator votes for a block that does not hold, and none is final |
//! | `light` | a client takes nothing that the final state does not have, whatever a gateway says, and what it has from an honest one |
//! | `kept` | a seat that gives nothing is never found to give what it keeps |
//! | `seats` | the set changes only at the end of an epoch, by bonds and by those who gave their seat back; a bond comes back whole, and after its time |
//! | `final` | a block is final by a quorum of the validators after the last block of the epoch before |
//! | `order` | in a block no transaction comes after something ended for want of time |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tg_ledger::{
    AbandonedBecause, EndReason, Event, Job, JobState, Lease, LeaseEnd, Outcome, QuestionEnd,
    State, Subject,
};
use tg_node::{BlobStore, Finalized};
use tg_types::{
    Address, Amount, BlockId, Digest, JobId, LeaseId, NonceLane, OfferId, Receipt, SignedVoucher,
    StateRoot, TimestampMs, TransactionId, VerificationMode, Vote,
};

use crate::evidence::{Proving, SampleKind, Truth, sample};
use crate::forged::{ForgedBlock, ForgedBlocks};
use crate::sealed::SealedOrder;
use crate::seat_checks::SeatChecks;
use crate::votes::VoteChecks;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// When, in milliseconds of the run.
    pub at_ms: u64,
    /// What was seen.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {} ms: {}", self.rule, self.at_ms, self.what)
    }
}

/// Violations that are kept of one run.
const KEPT_MAX: usize = 8;

/// What the checks know beside blocks.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts {
    /// Providers that do as the protocol says.
    pub(crate) honest: BTreeSet<Address>,
    /// The stores of validators by seat, of honest ones.
    pub(crate) stores: Vec<Option<Arc<BlobStore>>>,
    /// Validators whose statements mean nothing: hostile ones, and those that lost their blobs after they stated that they
    /// have them.
    pub(crate) unsure: usize,
    /// Whether a watcher may find right what is wrong, because it has from the provider what its run gives.
    pub(crate) bribed: bool,
    /// Whether more validators are bribed than the network bears: then a wrong result may be paid, and an honest validator that says so
    /// may lose what an accusation puts up, and no more.
    pub(crate) outvoted: bool,
    /// Requestors to which a provider is honest that cheats all others.
    pub(crate) friends: BTreeSet<Address>,
    /// Seats that give nothing to anybody.
    pub(crate) droppers: BTreeSet<Address>,
    /// Inputs by their digest.
    pub(crate) inputs: BTreeMap<Digest, Vec<u8>>,
    /// Sealed inputs by their digest.
    pub(crate) sealed: BTreeMap<Digest, SealedOrder>,
    /// The last voucher that the requestor of an endpoint signed for a lease.
    pub(crate) vouchers: BTreeMap<LeaseId, SignedVoucher>,
    /// What orders name.
    pub(crate) sample: SampleKind,
    /// How evidence is made.
    pub(crate) proving: Option<Proving>,
    /// Blocks that were proposed and do not hold.
    pub(crate) forged: ForgedBlocks,
}

/// The checks of one run.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) facts: KnownFacts,
    pub(crate) violations: Vec<Violation>,
    minted: Amount,
    burned: Amount,
    chain: BTreeMap<u64, BlockId>,
    /// The state roots of the same heights.
    roots: BTreeMap<u64, StateRoot>,
    waiting: BTreeMap<u64, Arc<Finalized>>,
    /// The height up to which states were looked at.
    checked: u64,
    executed: BTreeSet<TransactionId>,
    /// Transactions that stand in blocks, by what their senders signed: counted here, whatever the ledger says that it executed.
    included: BTreeSet<TransactionId>,
    nonces: BTreeMap<NonceLane, u64>,
    jobs: BTreeMap<JobId, JobState>,
    paid: BTreeSet<JobId>,
    /// What leases prepaid for gas, and whether there was too little time for them to be sure to end well.
    prepaid: BTreeMap<LeaseId, Amount>,
    hasty: BTreeSet<LeaseId>,
    /// What leases are paid at most.
    prices: BTreeMap<LeaseId, Amount>,
    votes: VoteChecks,
    seats: SeatChecks,
    /// How often a state of a gateway was looked at.
    pub(crate) looks_at_gateways: u64,
    /// How long paid jobs took, all together.
    pub(crate) paid_ms: u64,
    /// The states after the first and the last block.
    pub(crate) first: Option<Arc<State>>,
    pub(crate) last: Option<Arc<State>>,
    /// What was paid to whom.
    pub(crate) results: BTreeMap<Address, PaidResults>,
}

/// How many results of a provider were paid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaidResults {
    /// Right ones.
    pub right: u64,
    /// Others.
    pub wrong: u64,
}

/// Whether a block has a verdict on the result of a lease.
fn has_verdict(block: &Finalized, lease: LeaseId, is: impl Fn(&Outcome) -> bool) -> bool {
    let verdicts = block.block.verdicts.iter();
    let mut own = verdicts.filter(|it| it.subject == Subject::Lease(lease));
    own.any(|it| is(&it.outcome))
}

/// Whether validators took a result, of a program with what it took.
const fn is_accepted(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::LeaseAccepted | Outcome::ProgramAccepted { .. }
    )
}

impl Checks {
    pub(crate) fn new(minted: Amount, facts: KnownFacts, seats: SeatChecks) -> Self {
        Self {
            facts,
            violations: Vec::new(),
            minted,
            burned: Amount::ZERO,
            chain: BTreeMap::new(),
            roots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            checked: 0,
            executed: BTreeSet::new(),
            included: BTreeSet::new(),
            nonces: BTreeMap::new(),
            jobs: BTreeMap::new(),
            paid: BTreeSet::new(),
            prepaid: BTreeMap::new(),
            hasty: BTreeSet::new(),
            prices: BTreeMap::new(),
            votes: VoteChecks::default(),
            seats,
            looks_at_gateways: 0,
            paid_ms: 0,
            first: None,
            last: None,
            results: BTreeMap::new(),
        }
    }

    pub(crate) fn violated(&mut self, rule: &'static str, at_ms: u64, what: String) {
        if self.violations.len() < KEPT_MAX {
            self.violations.push(Violation { rule, at_ms, what });
        }
    }

    /// How many jobs did not end.
    pub(crate) fn open_jobs(&self) -> usize {
        self.jobs.values().filter(|state| !state.is_final()).count()
    }

    /// How many seats are asked for what they keep.
    pub(crate) fn open_questions(&self) -> usize {
        let last = self.last.as_ref();
        last.map_or(0, |state| state.questions().len())
    }

    /// How many jobs there were.
    pub(crate) fn all_jobs(&self) -> usize {
        self.jobs.len()
    }

    /// How many jobs were paid.
    pub(crate) fn paid_jobs(&self) -> usize {
        self.paid.len()
    }

    /// The height up to which blocks were looked at.
    pub(crate) const fn height(&self) -> u64 {
        self.checked
    }

    /// The block of a height, if any validator had it.
    pub(crate) fn block(&self, height: u64) -> Option<&BlockId> {
        self.chain.get(&height)
    }

    /// A validator has a block; returns the blocks that nobody had before, in order.
    pub(crate) fn finalised(
        &mut self,
        seat: usize,
        block: &Arc<Finalized>,
        at_ms: u64,
    ) -> Vec<Arc<Finalized>> {
        let height = block.block.header.height.get();
        let known = *self.chain.entry(height).or_insert(block.id);
        if known != block.id {
            let what = format!(
                "seat{seat} has {} at height {height}, another {known}",
                block.id
            );
            self.violated("agreement", at_ms, what);
        }
        if let Some(forged) = self.facts.forged.get(&block.id) {
            let (id, how) = (block.id, forged.how);
            self.violated("forged", at_ms, format!("{id} is final: {how}"));
        }
        let named = block.block.header.state_root;
        if *self.roots.entry(height).or_insert(named) != named {
            let what =
                format!("block {height} of seat{seat} names another state than a gateway has");
            self.violated("agreement", at_ms, what);
        }
        if block.state.root() != named {
            let what = format!("seat{seat} has another state than block {height} names");
            self.violated("agreement", at_ms, what);
        }
        if height > self.checked {
            self.waiting.insert(height, Arc::clone(block));
        }
        let mut new = Vec::new();
        while let Some(next) = self.waiting.remove(&(self.checked + 1)) {
            self.checked += 1;
            self.look(&next, at_ms);
            new.push(next);
        }
        if let Err(what) = self.seats.look_at_certificates(self.checked) {
            self.violated("final", at_ms, what);
        }
        new
    }

    /// An honest validator says this to the others about a view.
    pub(crate) fn voted(&mut self, seat: usize, message: &[u8]) {
        if let Some((id, forged)) = self.facts.forged.named_in(message) {
            let what = format!("seat{seat} votes for {id}: {}", forged.how);
            self.violated("forged", forged.at_ms, what);
        }
    }

    /// Blocks in the place of which another one is final, now that one of this height is.
    pub(crate) fn take_refused(&mut self, height: u64) -> Vec<(BlockId, ForgedBlock)> {
        self.facts.forged.take_refused(height)
    }

    /// A gateway has a state: that of the final block of its height. It is looked at after each page and each start; a block within a page is
    /// the ancestor of the last one, which names it and the states of all.
    pub(crate) fn followed(&mut self, gateway: usize, state: &State, at_ms: u64) {
        let (head, root) = (state.head(), state.root());
        let height = head.height.get();
        let known = *self.chain.entry(height).or_insert(head.block);
        if known != head.block {
            let block = head.block;
            let what = format!("gateway{gateway} has {block} at height {height}, another {known}");
            self.violated("agreement", at_ms, what);
        }
        if *self.roots.entry(height).or_insert(root) != root {
            let what = format!("gateway{gateway} has another state at height {height} than others");
            self.violated("agreement", at_ms, what);
        }
        self.looks_at_gateways += 1;
    }

    /// Whether nobody showed yet that the block of a height is final.
    pub(crate) fn wants_certificate(&self, height: u64) -> bool {
        self.seats.wants_certificate(height)
    }

    /// A validator shows what makes a block final.
    pub(crate) fn certified(&mut self, height: u64, block: BlockId, bytes: Vec<u8>) {
        self.seats.certified(height, block, bytes);
    }

    fn look(&mut self, block: &Finalized, at_ms: u64) {
        let height = self.checked;
        self.first.get_or_insert_with(|| Arc::clone(&block.state));
        self.last = Some(Arc::clone(&block.state));
        let found = [
            ("money", self.money(&block.state)),
            ("seats", self.seats.look(block)),
            (
                "honest-lost",
                self.seats.honest_lost(block, self.facts.outvoted),
            ),
            ("replay", self.replay(block)),
            ("order", order(block)),
            ("capacity", capacity(&block.state)),
            ("honest-lost", self.honest_lost(block)),
            ("honest-lost", self.ungranted(block)),
            ("honest-lost", unreturned(block)),
            ("votes", self.committees(block)),
            ("payment", self.payments(block)),
            ("job-end", self.jobs(block)),
            ("held", self.held(block)),
            ("kept", self.kept(block)),
            ("job-end", unended(&block.state)),
        ];
        for (rule, result) in found {
            if let Err(what) = result {
                self.violated(rule, at_ms, format!("block {height}: {what}"));
            }
        }
    }

    fn money(&mut self, state: &State) -> Result<(), String> {
        let burned = state.totals().burned;
        let found = count(state);
        let before = std::mem::replace(&mut self.burned, burned);
        if burned < before {
            return Err(format!("{before} was burned, now {burned}"));
        }
        if state.totals().minted != self.minted || found != Some(self.minted) {
            return Err(format!("{} was minted, there is {found:?}", self.minted));
        }
        Ok(())
    }

    fn replay(&mut self, block: &Finalized) -> Result<(), String> {
        for event in block.events.iter() {
            if let Event::TransactionExecuted { id, .. } = event
                && !self.executed.insert(*id)
            {
                return Err(format!("transaction {id} was executed again"));
            }
        }
        for signed in &block.block.transactions {
            let id = signed.id(block.state.domain());
            if !self.included.insert(id) {
                return Err(format!("transaction {id} stands in a second block"));
            }
            let last = self.nonces.insert(signed.lane(), signed.nonce);
            if last.is_some_and(|last| last >= signed.nonce) {
                let (sender, nonce) = (signed.sender, signed.nonce);
                return Err(format!("{sender} comes with {nonce} after {last:?}"));
            }
        }
        Ok(())
    }

    fn honest_lost(&mut self, block: &Finalized) -> Result<(), String> {
        for event in block.events.iter() {
            self.note_lease(&block.state, event);
            let (Event::Slashed {
                lease,
                provider,
                amount,
            }
            | Event::Forfeited {
                lease,
                provider,
                amount,
                ..
            }
            | Event::PenaltySettled {
                lease,
                provider,
                amount,
                is_burned: true,
            }) = event
            else {
                continue;
            };
            if self.facts.honest.contains(provider) && !self.is_risk(lease, *amount) {
                let end = block.state.lease(lease).and_then(|it| it.end().cloned());
                return Err(format!("{provider} lost {amount} by {lease}: {end:?}"));
            }
        }
        Ok(())
    }

    /// Whether nobody pays for a key that did not come who grants keys and shows them.
    fn ungranted(&self, block: &Finalized) -> Result<(), String> {
        for event in block.events.iter() {
            let Event::LeaseEnded {
                lease,
                job,
                end: LeaseEnd::Ungranted,
                ..
            } = event
            else {
                continue;
            };
            let order = block.state.job(job).map(|it| it.order.input);
            let order = order.and_then(|it| self.facts.sealed.get(&it));
            if order.is_some_and(|it| it.is_watched) {
                return Err(format!(
                    "{lease} ended for want of a key that its requestor grants"
                ));
            }
        }
        Ok(())
    }

    /// Notes of a new lease what its provider takes on with it.
    fn note_lease(&mut self, state: &State, event: &Event) {
        match event {
            Event::GasPrepaid { lease, amount, .. } => {
                self.prepaid.insert(*lease, *amount);
            }
            Event::LeaseMade {
                lease,
                job,
                offer,
                price,
                ..
            } => {
                self.prices.insert(*lease, *price);
                let declared = state.offer(offer).zip(state.job(job));
                let declared = declared.map(|(offer, job)| offer.terms.duration(job.macs));
                let turns = state.parameters().least_window(state.validators().len());
                // Members of a gang also wait for the start of the others, and for their parts.
                let is_gang = state.job(job).is_some_and(|job| job.order.needs.gang > 1);
                let turns = match is_gang {
                    true => turns
                        .saturating_mul(2)
                        .saturating_add(state.parameters().start_timeout),
                    false => turns,
                };
                let least = declared.map(|it| it.saturating_add(turns));
                let left = state.job(job).map(|job| {
                    let now = state.head().time;
                    job.order.deadline.saturating_since(now)
                });
                if left < least {
                    self.hasty.insert(*lease);
                }
            }
            _ => {}
        }
    }

    /// Whether a loss is what the ledger says that any provider risks: ten times the gas of a lease that ends before faulty
    /// leaders let go of a result (`docs/LEDGER.md`).
    fn is_risk(&self, lease: &LeaseId, amount: Amount) -> bool {
        let gas = self.prepaid.get(lease).copied().unwrap_or_default();
        amount.is_zero() || (self.hasty.contains(lease) && amount <= gas.saturating_mul(10))
    }

    /// Whether results are put to the vote as they must be.
    fn committees(&mut self, block: &Finalized) -> Result<(), String> {
        for opened in self.votes.look(block)? {
            let now = block.state.head().time;
            self.is_held(now, &opened)
                .map_err(|what| format!("a committee votes on an opening: {what}"))?;
        }
        Ok(())
    }

    /// Whether seats that give nothing pass for some that do.
    fn kept(&self, block: &Finalized) -> Result<(), String> {
        let served = block.events.iter().find_map(|event| match event {
            Event::AnswerQuestionEnded {
                seat,
                job,
                end: QuestionEnd::Served,
                ..
            } if self.facts.droppers.contains(seat) => Some((seat, job)),
            _ => None,
        });
        match served {
            Some((seat, job)) => Err(format!(
                "{seat} gave the answer of {job}, and gives nothing"
            )),
            None => Ok(()),
        }
    }

    fn payments(&mut self, block: &Finalized) -> Result<(), String> {
        for event in block.events.iter() {
            let Event::JobEnded {
                job,
                provider: Some(provider),
                ..
            } = event
            else {
                continue;
            };
            if !self.paid.insert(*job) {
                return Err(format!("{job} is paid again"));
            }
            let record = block.state.job(job);
            let record = record.ok_or_else(|| format!("{job} is paid and not there"))?;
            if record.is_endpoint() {
                self.served(&block.state, record)?;
                continue;
            }
            let ordered = record.ordered_at();
            self.paid_ms += block.state.head().time.get().saturating_sub(ordered.get());
            let truth = self.truth(&block.state, record);
            let results = self.results.entry(*provider).or_default();
            match truth {
                Truth::Right => results.right += 1,
                Truth::OnePart | Truth::Wrong => results.wrong += 1,
            }
            self.payment(block, record, (provider, truth))?;
        }
        Ok(())
    }

    /// How far the result of a paid job is from the right one.
    fn truth(&self, state: &State, job: &Job) -> Truth {
        let leases = job.leases();
        let leases = leases.iter().filter_map(|it| state.lease(it));
        let mut fulfilled = leases.filter(|it| it.end() == Some(&LeaseEnd::Fulfilled));
        let Some(lease) = fulfilled.next() else {
            return Truth::Wrong;
        };
        let Some(receipt) = lease.receipt() else {
            return Truth::Wrong;
        };
        if job.order.mode == VerificationMode::Sealed {
            return self.sealed_truth(&lease.id, receipt);
        }
        let input = self.facts.inputs.get(&receipt.input).map(Vec::as_slice);
        let proving = self.facts.proving.unwrap_or(Proving::Simulated);
        sample(self.facts.sample).truth(receipt, input, proving)
    }

    /// The same of a sealed job: its answer opens, and is the right one.
    fn sealed_truth(&self, lease: &LeaseId, receipt: &Receipt) -> Truth {
        let right = sample(self.facts.sample).simulated_output(&receipt.input);
        let order = self.facts.sealed.get(&receipt.input);
        match order.is_some_and(|it| it.answer(lease, &right) == receipt.output) {
            true => Truth::Right,
            false => Truth::Wrong,
        }
    }

    /// Whether a sealed job was paid for an answer that opens and is right, unless nobody looks at it, and that a quorum holds.
    fn sealed(&self, job: &Job, (receipt, truth): (&Receipt, Truth)) -> Result<(), String> {
        let id = job.id;
        let order = self.facts.sealed.get(&job.order.input);
        let is_watched = order.is_some_and(|it| it.is_watched);
        if receipt.input != job.order.input || is_watched && truth != Truth::Right {
            return Err(format!(
                "{id} is paid for an answer that does not open, or is wrong"
            ));
        }
        self.is_held(job.ordered_at(), &receipt.output)
            .map_err(|what| format!("{id} is paid, its answer {what}"))
    }

    /// Whether an endpoint paid for no more than its time and what its requestor signed for, and gave the rest back.
    fn served(&self, state: &State, job: &Job) -> Result<(), String> {
        let id = job.id;
        let mut most = Amount::ZERO;
        for lease in job.leases().iter().filter_map(|it| state.lease(it)) {
            let (Some(meter), Some(start)) = (lease.meter, lease.started_at()) else {
                continue;
            };
            let signed = self.facts.vouchers.get(&lease.id);
            let signed = signed.map_or(Amount::ZERO, |it| it.voucher.amount);
            if meter.vouchers > signed {
                return Err(format!("{id} paid vouchers that nobody signed"));
            }
            let end = lease.ended_at().unwrap_or(state.head().time);
            let time = end.min(lease.deadline).saturating_since(start).get();
            let time = meter.minute.checked_mul_div_ceil(time, 60_000);
            let earned = time.unwrap_or(Amount::MAX).saturating_add(signed);
            if meter.paid > earned {
                return Err(format!("{id} paid {} for {earned}", meter.paid));
            }
            most = most.saturating_add(meter.paid);
        }
        let settled = job.settlement().copied().unwrap_or_default();
        let all = settled
            .price
            .saturating_add(settled.refund)
            .saturating_add(job.escrow_burned);
        match settled.price == most && all == job.order.max_price {
            true => Ok(()),
            false => Err(format!(
                "{id} was served for {most} and settled {settled:?}"
            )),
        }
    }

    /// Whether a paid job was paid for the right thing.
    fn payment(
        &self,
        block: &Finalized,
        job: &Job,
        (provider, truth): (&Address, Truth),
    ) -> Result<(), String> {
        let id = job.id;
        let leases = job.leases();
        let fulfilled = leases.iter().filter_map(|it| block.state.lease(it));
        let fulfilled: Vec<_> = fulfilled
            .filter(|it| it.end() == Some(&LeaseEnd::Fulfilled))
            .collect();
        let [lease] = fulfilled[..] else {
            return Err(format!("{id} is paid with {} results", fulfilled.len()));
        };
        if lease.provider != *provider {
            return Err(format!("{id} is paid to {provider}, who did not do it"));
        }
        let settled = job.settlement().copied().unwrap_or_default();
        let spent = [
            settled.price,
            settled.members,
            settled.verification_fee,
            settled.refund,
            settled.burned,
            settled.bonus,
            settled.compensation,
            job.escrow_burned,
        ];
        let spent = spent
            .into_iter()
            .try_fold(Amount::ZERO, Amount::checked_add);
        let locked = job.order.max_price.checked_add(job.verification_fee);
        if spent != locked || settled.price > job.order.max_price {
            return Err(format!("{id} locked {locked:?} and paid {spent:?}"));
        }
        let Some(receipt) = lease.receipt() else {
            return Err(format!("{id} is paid without a receipt"));
        };
        self.billed(job, lease)?;
        if job.order.mode == VerificationMode::Sealed {
            return self.sealed(job, (receipt, truth));
        }
        if !job.order.mode.is_checked() {
            return self
                .is_delivered(job.ordered_at(), &receipt.output)
                .map_err(|what| format!("{id} is paid, its answer {what}"));
        }
        // All validators ran it again: of mode sync only where a committee would have.
        let is_upheld = || {
            let disputed = Subject::Accusation(lease.id, Vote::WrongRun);
            let mut verdicts = block.block.verdicts.iter();
            verdicts.any(|it| it.subject == disputed && is_accepted(&it.outcome))
        };
        let is_sampled =
            job.order.mode == VerificationMode::Sync && !block.state.is_run_whole(&job.order);
        let accepted = match job.order.mode {
            VerificationMode::Sync => is_upheld() || self.votes.accepts(&lease.id),
            VerificationMode::Optimistic => is_upheld() || self.votes.stands(block, &lease.id),
            VerificationMode::Replicate => return self.replicated(block, job, (lease, truth)),
            _ => has_verdict(block, lease.id, is_accepted),
        };
        // A run that was repeated whole may have waited for others to have its answer.
        let shown = lease.evidence().map(|it| it.digest);
        let shown = shown.or_else(|| lease.delivered().map(|_| receipt.output));
        let Some(evidence) = shown.filter(|_| accepted) else {
            return Err(format!("{id} is paid without accepted evidence"));
        };
        let is_right = match truth {
            Truth::Right => true,
            // What no tile shows that was drawn is paid: that is what one in twenty means.
            Truth::OnePart => is_sampled && self.votes.missed(lease),
            // As long as nobody challenges.
            Truth::Wrong => job.order.mode == VerificationMode::Optimistic && self.facts.bribed,
        };
        if receipt.input != job.order.input || !(is_right || self.facts.outvoted) {
            return Err(format!("{id} is paid for a wrong result"));
        }
        self.is_held(job.ordered_at(), &evidence)
            .map_err(|what| format!("{id} is paid, its evidence {what}"))
    }

    /// Whether a run is paid by what it took: of a program or a float model the part of the price that it took of what it may, and no less than a quarter;
    /// all of it where nobody checks what it took, or where it was seen by a watcher that is bribed.
    fn billed(&self, job: &Job, lease: &Lease) -> Result<(), String> {
        let (id, input) = (job.id, &job.order.input);
        let agreed = self.prices.get(&lease.id).copied().unwrap_or_default();
        let sample = sample(self.facts.sample);
        let (most, used) = (sample.facts.macs, sample.work(input));
        let counts = self.facts.sample.is_counted() && job.order.mode.is_checked();
        let bill = match counts {
            true => agreed.checked_mul_div_ceil(used.max(most / 4), most),
            false => Some(agreed),
        };
        let is_bribed = job.order.mode == VerificationMode::Optimistic && self.facts.bribed;
        match Some(lease.price) == bill || is_bribed && lease.price <= agreed {
            true => Ok(()),
            false => Err(format!(
                "{id} is paid {} for a run that took {used} of {most}, at {agreed} for all",
                lease.price
            )),
        }
    }

    /// Whether a job of mode replicate was paid for what all of its members found, or for what every validator found where they
    /// differ: wrong only if no member is honest.
    fn replicated(
        &self,
        block: &Finalized,
        job: &Job,
        (lease, truth): (&Lease, Truth),
    ) -> Result<(), String> {
        let id = job.id;
        let is_delivered = has_verdict(block, lease.id, |it| *it == Outcome::LeaseAccepted);
        let gang: Vec<&Lease> = block.state.gang_of(lease).collect();
        let is_run = gang
            .iter()
            .any(|it| has_verdict(block, it.id, |it| matches!(it, Outcome::ReplicasRun { .. })));
        if !is_delivered && !is_run {
            return Err(format!("{id} is paid without accepted evidence"));
        }
        let is_honest = |it: &&Lease| self.facts.honest.contains(&it.provider);
        if truth != Truth::Right && (is_run || gang.iter().any(is_honest)) {
            return Err(format!("{id} is paid for a wrong result"));
        }
        let paid = gang
            .iter()
            .filter(|it| it.end() == Some(&LeaseEnd::Fulfilled));
        if paid.clone().any(|it| it.receipt() != lease.receipt()) {
            return Err(format!("{id} pays members for different results"));
        }
        let output = lease.receipt().map(|it| it.output).unwrap_or_default();
        self.is_held(job.ordered_at(), &output)
            .map_err(|what| format!("{id} is paid, its answer {what}"))
    }

    /// Whether a quorum holds an answer, and it is as long as what the model gives.
    fn is_delivered(&self, since: TimestampMs, answer: &Digest) -> Result<(), String> {
        self.is_held(since, answer)?;
        let stores = self.facts.stores.iter().flatten();
        let expected = sample(self.facts.sample).output_len as u64;
        let mut sizes = stores.filter_map(|store| store.size(answer));
        match sizes.find(|size| *size != expected) {
            Some(size) => Err(format!("{answer} has {size} bytes")),
            None => Ok(()),
        }
    }

    /// Whether as many honest validators have a blob as must, if all that are not honest say that they have it.
    /// Of the sets since a time the smallest counts: what its quorum held is held.
    fn is_held(&self, since: TimestampMs, blob: &Digest) -> Result<(), String> {
        let stores = self.facts.stores.iter().flatten();
        let have = stores.filter(|store| store.contains(blob)).count();
        let validators = self.seats.least_since(since);
        let quorum = validators - (validators - 1) / 3;
        if have + self.facts.unsure < quorum {
            return Err(format!("{blob} is held by {have} of {validators}"));
        }
        Ok(())
    }

    fn jobs(&mut self, block: &Finalized) -> Result<(), String> {
        for event in block.events.iter() {
            match event {
                Event::JobChanged { job, state, .. } => {
                    let before = self.jobs.insert(*job, *state);
                    let is_step = before.map_or(
                        matches!(state, JobState::Submitted | JobState::Queued),
                        |before| before.may_become(*state),
                    );
                    if !is_step {
                        return Err(format!("{job} goes from {before:?} to {state:?}"));
                    }
                }
                Event::JobEnded { job, .. } => {
                    let record = block.state.job(job);
                    let ended = record.is_none_or(|it| {
                        it.end().is_some() && it.settlement().is_some() && it.escrow().is_zero()
                    });
                    if !ended {
                        return Err(format!("{job} ended without a reason or with escrow"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn held(&self, block: &Finalized) -> Result<(), String> {
        for event in block.events.iter() {
            if let Event::JobChanged {
                job,
                state: JobState::Queued,
                ..
            } = event
                && let Some(record) = block.state.job(job)
                // Its requests go to its provider.
                && !record.is_endpoint()
            {
                let (id, input) = (record.id, record.order.input);
                self.is_held(block.state.head().time, &input)
                    .map_err(|what| format!("{id} waits for a provider, its input {what}"))?;
            }
        }
        Ok(())
    }
}

/// All money, record by record.
fn count(state: &State) -> Option<Amount> {
    let accounts = state.accounts().iter().map(|it| it.balance);
    let stakes = state.validators().iter().chain(state.seats().bonds());
    let stakes = stakes.map(|it| it.stake);
    let jobs = state.jobs().iter();
    let jobs = jobs.flat_map(|it| [it.escrow(), it.rent.deposit, it.retention.fee]);
    let leases = state
        .leases()
        .iter()
        .flat_map(|it| [it.locked(), it.gas_locked(), it.held()]);
    let bids = state.bids().iter().map(|it| it.deposit);
    let offers = state.offers().iter().map(|it| it.rent.deposit);
    let models = state.models().iter().map(|it| it.rent.deposit);
    let providers = state.providers().iter().map(|it| it.rent.deposit);
    accounts
        .chain(stakes)
        .chain(jobs)
        .chain(leases)
        .chain(bids)
        .chain(offers)
        .chain(models)
        .chain(providers)
        .try_fold(state.totals().burned, Amount::checked_add)
}

/// Whether whoever ordered a job that ends unpaid, and not by its own doing, has its escrow back: it lost gas and time. An endpoint pays for the
/// time that it was served.
fn unreturned(block: &Finalized) -> Result<(), String> {
    for event in block.events.iter() {
        let Event::JobEnded {
            job,
            provider: None,
            reason,
            settlement,
            ..
        } = event
        else {
            continue;
        };
        let is_own = matches!(
            reason,
            EndReason::CancelledByRequestor | EndReason::RentSpent | EndReason::NoKey
        );
        let record = block.state.job(job);
        let Some(record) = record.filter(|it| !is_own && !it.is_endpoint()) else {
            continue;
        };
        let locked = record.order.max_price.checked_add(record.verification_fee);
        if Some(settlement.refund) != locked {
            let refund = settlement.refund;
            return Err(format!(
                "{job} ended unpaid, {reason}: {refund} of {locked:?} came back"
            ));
        }
    }
    Ok(())
}

/// Whether transactions come before what ends for want of time.
fn order(block: &Finalized) -> Result<(), String> {
    let mut lapsed = None;
    for event in block.events.iter() {
        match event {
            Event::LeaseEnded {
                lease,
                end:
                    LeaseEnd::Late(_)
                    | LeaseEnd::Abandoned(
                        AbandonedBecause::NotStarted | AbandonedBecause::EvidenceNotDelivered,
                    ),
                ..
            } => lapsed = Some(lease),
            Event::TransactionExecuted { id, .. } => {
                if let Some(lease) = lapsed {
                    return Err(format!("{lease} ended by time before transaction {id}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether any machine is promised twice.
fn capacity(state: &State) -> Result<(), String> {
    let mut taken: BTreeMap<OfferId, (u16, [u64; 8], [u64; 8])> = BTreeMap::new();
    for (job, lease) in state.live_members() {
        if !job.holds_machine() {
            continue;
        }
        let Some(offer) = state.offer(&lease.offer) else {
            continue;
        };
        let (slots, milli, memory) = taken.entry(lease.offer).or_default();
        *slots += 1;
        if *slots > offer.terms.slots {
            return Err(format!("{} has {slots} leases", offer.id));
        }
        for device in (0..8).filter(|device| lease.grant.devices >> device & 1 == 1) {
            milli[device] += u64::from(lease.grant.gpu_milli);
            memory[device] += u64::from(lease.grant.gpu_memory_mib);
            let room = u64::from(offer.terms.machine.gpu_memory_mib);
            if milli[device] > 1_000 || memory[device] > room {
                return Err(format!("GPU {device} of {} is promised twice", offer.id));
            }
        }
    }
    Ok(())
}

/// Whether a job is still there although its time is over.
fn unended(state: &State) -> Result<(), String> {
    let parameters = state.parameters();
    let now = state.head().time.get();
    let slack = parameters.verification_timeout.get() + 3 * parameters.outage_grace.get() + 5_000;
    let open = state.submitted_jobs().chain(state.queued_jobs());
    let open = open.chain(state.live_leases().map(|(job, _)| job));
    for job in open {
        if now > job.order.deadline.get() + slack {
            let (id, late) = (job.id, now - job.order.deadline.get());
            let leases = job.leases();
            let mut leases = leases.iter().filter_map(|it| state.lease(it));
            let check = leases.find_map(|it| Some(it.check.as_ref()?.stage.as_str()));
            return Err(format!(
                "{id} is {} {late} ms after its deadline, {}",
                job.state(),
                check.unwrap_or("unsampled")
            ));
        }
    }
    Ok(())
}
