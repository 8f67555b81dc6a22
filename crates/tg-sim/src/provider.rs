//! A provider: the lease logic of the agent of production, over a simulated way to the grid. What it hands in depends on how
//! it behaves; when it does what is decided by [`LeaseTask`] alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use tg_ledger::{Job, Lease, State};
use tg_node::limits::{BLOB_TOTAL_BYTES_DEFAULT, EVIDENCE_BYTES_MAX};
use tg_privacy::{JobKey, SealedFor, SealingKey};
use tg_provider::Stage;
use tg_provider::lease::{Evidence, LeaseTask, Message, Step, StopReason};
use tg_provider::worker::Execution;
use tg_types::sealing::SEALED_INPUT_OVERHEAD;
use tg_types::{
    Address, Amount, DeclineReason, Digest, Domain, DurationMs, JobId, KeyGrant, Label, LeaseId,
    Machine, ModeSet, ModelId, OfferId, OfferTerms, Pricing, SignedVoucher, Transaction,
    VerificationMode, Wallet,
};

use crate::draw::SeedStream;
use crate::evidence::{
    SampleModel, TaskOwner, is_drawn, simulated_answer, wrong_all_over, wrong_in_one_part,
};
use crate::grid::{ClientAccount, Context, SimGrid, fate, now_ms, sleep_ms};
use crate::plan::{ProviderPlan, ProviderRole};

/// How often a provider looks for leases.
const POLL_MS: u64 = 250;

/// How long an offer may take to appear.
const OFFER_APPEARS_MS: u64 = 5_000;

/// How many times its price an offer must put up for a job of mode sync (`docs/MARKET.md`).
const SYNC_STAKE_FACTOR: u64 = 20;

/// When a price goes up, and when back, in milliseconds of the run.
const SHOCK_MS: [u64; 2] = [12_000, 20_000];

/// A lease that the provider has.
struct HeldLease {
    task: LeaseTask,
    owner: TaskOwner,
    requestor: Address,
    input: Digest,
    /// The stage that is done, when, and the seed that was known when it began.
    work: Option<(Stage, u64, Option<Digest>)>,
    /// The content of the input, once it is pulled.
    input_bytes: Option<Vec<u8>>,
    /// What was granted of a sealed job's key, and by whom.
    granted: Option<(KeyGrant, Address)>,
    /// The key of a sealed job, once it opened the input.
    key: Option<JobKey>,
}

/// A provider.
pub(crate) struct SimProvider {
    index: usize,
    plan: ProviderPlan,
    account: ClientAccount,
    draw: SeedStream,
    leases: BTreeMap<LeaseId, HeldLease>,
    posted_at: Option<u64>,
    registered_at: Option<u64>,
    shocks: usize,
}

/// The terms of an offer.
fn terms(plan: &ProviderPlan, price_milli: u64, seals: bool) -> OfferTerms {
    OfferTerms {
        hardware: Label::new("simulated machine").expect("a short name"),
        price_base: Amount::new(u128::from(price_milli) * 1_000_000_000_000_000),
        price_per_mmac: Amount::ZERO,
        latency_base_ms: DurationMs::from_secs(2),
        speed_mmac_per_s: 1_000,
        memory_bytes: 1 << 30,
        slots: plan.slots,
        // What a job of mode sync asks for while the price is the usual one.
        collateral_per_lease: Amount::new(
            u128::from(plan.price_milli * SYNC_STAKE_FACTOR) * 1_000_000_000_000_000,
        ),
        modes: match seals {
            true => ModeSet::ALL,
            false => ModeSet::UNSEALED,
        },
        machine: Machine::CPU_ONLY,
        price_per_gpu_second: Amount::ZERO,
        pricing: Pricing::Fixed,
    }
}

impl SimProvider {
    pub(crate) fn new(index: usize, plan: ProviderPlan, account: ClientAccount, seed: u64) -> Self {
        Self {
            index,
            plan,
            account,
            draw: SeedStream::new(seed, &format!("provider {index}")),
            leases: BTreeMap::new(),
            posted_at: None,
            registered_at: None,
            shocks: 0,
        }
    }

    /// Offers and works until the run ends.
    pub(crate) async fn run(mut self, grid: Arc<SimGrid>, context: Context) {
        loop {
            if let Some(state) = self.account.state(&grid, &context) {
                self.offer(&grid, &context, &state).await;
                self.look(&state);
                self.look_for_lost(&grid, &context);
                let ids: Vec<LeaseId> = self.leases.keys().copied().collect();
                for id in ids {
                    self.finish(&grid, &context, id);
                    while self.drive(&grid, &context, id).await {}
                }
            }
            let now = now_ms(&context);
            let done = self.leases.values().filter_map(|it| it.work);
            let next = done.map(|(_, at, _)| at).min().unwrap_or(u64::MAX);
            let wait = next.saturating_sub(now).clamp(1, POLL_MS);
            sleep_ms(&context, wait).await;
        }
    }

    /// Makes sure that an offer stands, at the price of the time.
    async fn offer(&mut self, grid: &SimGrid, context: &Context, state: &State) {
        let now = now_ms(context);
        let me = self.account.wallet.address();
        let standing = state.offers().iter().find(|it| it.provider == me);
        let is_known = state.model(&grid.sample().id).is_some();
        let record = state.provider(&me);
        let has_key = record.is_some_and(|it| it.sealing.is_some());
        let price = self.plan.price_milli;
        match standing {
            Some(offer) => {
                let id = offer.id;
                self.shock(grid, context, id, now).await;
            }
            None if !is_known => {}
            None if grid.plan.seals && !has_key => self.register(grid, context, now).await,
            None => {
                let is_due = self.posted_at.is_none_or(|at| now >= at + OFFER_APPEARS_MS);
                if is_due {
                    let terms = terms(&self.plan, price, grid.plan.seals);
                    let sent = Transaction::PostOffer { terms };
                    let sent = self.account.send(grid, context, sent).await;
                    self.posted_at = sent.ok().map(|_| now);
                }
            }
        }
    }

    /// Registers the key to which keys of sealed jobs are granted.
    async fn register(&mut self, grid: &SimGrid, context: &Context, now: u64) {
        let is_due = self
            .registered_at
            .is_none_or(|at| now >= at + OFFER_APPEARS_MS);
        if is_due {
            let key = SealingKey::of(&self.account.wallet).to_register();
            let sent = Transaction::RegisterSealingKey { key };
            let sent = self.account.send(grid, context, sent).await;
            self.registered_at = sent.ok().map(|_| now);
        }
    }

    async fn shock(&mut self, grid: &SimGrid, context: &Context, offer: OfferId, now: u64) {
        let due = SHOCK_MS.get(self.shocks);
        if !self.plan.price_shock || due.is_none_or(|due| now < *due) {
            return;
        }
        let factor = if self.shocks == 0 { 4 } else { 1 };
        self.shocks += 1;
        let price = self.plan.price_milli * factor;
        let terms = terms(&self.plan, price, grid.plan.seals);
        let update = Transaction::UpdateOffer { offer, terms };
        let sent = self.account.send(grid, context, update).await;
        let what = format!("price times {factor}, {}", fate(&sent));
        self.tell(grid, context, &what);
    }

    fn tell(&self, grid: &SimGrid, context: &Context, what: &str) {
        grid.line(context, &format!("provider{}", self.index), what);
    }

    /// Looks at the ledger: leases that came, moved or ended.
    fn look(&mut self, state: &State) {
        let me = self.account.wallet.address();
        let mine: Vec<(&Job, &Lease)> = state
            .live_members()
            .filter(|(_, lease)| lease.provider == me)
            .collect();
        self.leases
            .retain(|id, _| mine.iter().any(|(_, lease)| lease.id == *id));
        for (job, lease) in mine {
            let shown = tg_api::view::lease(state, job, lease);
            let granted = lease.granted();
            let granted = granted.map(|(grant, _)| (grant.clone(), job.requestor));
            if let Some(entry) = self.leases.get_mut(&lease.id) {
                entry.task.seen(shown);
                entry.granted = granted;
                continue;
            }
            let mode = job.order.mode;
            let entry = HeldLease {
                owner: TaskOwner {
                    lease: lease.id,
                    job: job.id,
                    provider: me,
                    mode,
                    is_run_whole: shown.run_whole,
                },
                task: LeaseTask::new(shown, mode.into(), 0),
                requestor: job.requestor,
                input: job.order.input,
                work: None,
                input_bytes: None,
                granted,
                key: None,
            };
            self.leases.insert(lease.id, entry);
        }
    }

    /// Finds out which messages are lost, as the agent does.
    fn look_for_lost(&mut self, grid: &SimGrid, context: &Context) {
        let now = now_ms(context);
        if let Some(next) = self.account.next_nonce(grid, now) {
            for entry in self.leases.values_mut() {
                entry.task.told_nonce(next);
            }
        }
    }

    /// Does the next thing of a lease; returns whether there may be more.
    async fn drive(&mut self, grid: &SimGrid, context: &Context, id: LeaseId) -> bool {
        let now = now_ms(context);
        let Some(entry) = self.leases.get_mut(&id) else {
            return false;
        };
        match entry.task.next(now, false) {
            Step::Wait(_) => false,
            Step::Forget(StopReason::Ended) => {
                self.leases.remove(&id);
                false
            }
            // A lease that was left stays until the ledger ends it, or it would come again.
            Step::Forget(_) => false,
            Step::Begin(stage) => {
                if stage == Stage::Execute && self.plan.role == ProviderRole::Idle {
                    return false;
                }
                entry.task.begun(stage, now);
                let takes = match stage {
                    Stage::Pull => self.draw.between(10, 80),
                    Stage::Execute | Stage::Prove | Stage::Refute => self.plan.work_ms / 2 + 1,
                    Stage::Deliver => 1,
                    Stage::Serve => self.draw.between(1_000, 5_000),
                };
                // What is opened is settled when the work begins, as in production: another gateway may be behind.
                entry.work = Some((stage, now + takes, entry.task.seed()));
                false
            }
            Step::Submit(Message::Start) if self.plan.role == ProviderRole::Absent => false,
            Step::Submit(message) => {
                let message = said(self.plan.role, &id, message);
                self.submit(grid, context, id, message).await
            }
        }
    }

    async fn submit(
        &mut self,
        grid: &SimGrid,
        context: &Context,
        id: LeaseId,
        message: Message,
    ) -> bool {
        let now = now_ms(context);
        let Some(entry) = self.leases.get(&id) else {
            return false;
        };
        let voucher = grid.checks().facts.vouchers.get(&id).copied();
        let wallet = &self.account.wallet;
        let salt = wallet.derived_secret(Domain::ResultSalt, id.as_bytes());
        let Some(transaction) = transaction(&entry.task, message, (voucher, salt)) else {
            return false;
        };
        let sent = self.account.send(grid, context, transaction).await;
        let what = format!("{message:?} of {id}, {}", fate(&sent));
        self.tell(grid, context, &what);
        let Some(entry) = self.leases.get_mut(&id) else {
            return false;
        };
        match sent {
            Ok(sent) => entry.task.submitted(message, sent.nonce, now),
            Err(_) => entry.task.refused(message, now),
        }
        sent.is_ok()
    }

    /// Takes the outcome of work that is done.
    fn finish(&mut self, grid: &SimGrid, context: &Context, id: LeaseId) {
        let now = now_ms(context);
        let Some(entry) = self.leases.get_mut(&id) else {
            return;
        };
        let Some((stage, _, seed)) = entry.work.take_if(|(_, at, _)| *at <= now) else {
            return;
        };
        let Some(node) = grid.gateway(self.account.gateway, now) else {
            entry.task.failed(now, None);
            return;
        };
        let store = node.blobs();
        // As in production, work on a lease that is seen first when it runs begins with pulling what it needs.
        let needs_input = VerificationMode::from(entry.task.mode()) != VerificationMode::Endpoint;
        if stage != Stage::Prove && entry.input_bytes.is_none() {
            let input = needs_input.then_some(&entry.input);
            match pulled(grid.sample(), store, input, entry.owner.mode) {
                Ok(input) => entry.input_bytes = Some(input),
                Err(missing) => {
                    // As the API does when it is asked for a blob that it lacks.
                    node.needs_blob(entry.input);
                    entry.task.failed(now, Some(missing));
                    let holders = grid.holders(&entry.input);
                    let what = format!("lacks for {id}: {missing}, held by {holders:?}");
                    self.tell(grid, context, &what);
                    return;
                }
            }
        }
        let role = role_towards(grid, self.plan.role, &entry.requestor);
        let who = (&self.account.wallet, role);
        if let Err(missing) = entry.open(who, grid.sample().id) {
            entry.task.failed(now, missing);
            return;
        }
        let input = entry.input_bytes.clone().unwrap_or_default();
        match stage {
            Stage::Pull => entry.task.pulled(),
            Stage::Execute => {
                let executed = executed_as(grid, role, entry, &input);
                // A full store is tried again with the work.
                if is_delivered(role, entry)
                    && store
                        .put(&executed.output, BLOB_TOTAL_BYTES_DEFAULT)
                        .is_err()
                {
                    entry.task.failed(now, None);
                    return;
                }
                entry.task.executed(executed, now);
            }
            Stage::Deliver => {
                let output = entry.task.execution().map(|it| it.output.as_slice());
                if is_delivered(role, entry) {
                    // What cannot be stored is missing, as a lost upload is.
                    let _ = store.put(output.unwrap_or_default(), BLOB_TOTAL_BYTES_DEFAULT);
                }
                entry.task.stored(now);
            }
            Stage::Serve => serve(&mut entry.task, role, now),
            Stage::Refute => {
                let is_stored = gives(role);
                refute(&mut entry.task, store, is_stored, now);
            }
            Stage::Prove => {
                let state = node.snapshot().state.clone();
                self.prove(grid, &state, store, (id, &input, seed, now));
            }
        }
    }

    /// Makes the evidence of a lease, or what is handed in for it.
    fn prove(
        &mut self,
        grid: &SimGrid,
        state: &State,
        store: &tg_node::BlobStore,
        (id, input, seed, now): (LeaseId, &[u8], Option<Digest>, u64),
    ) {
        let me = self.account.wallet.address();
        let Some(entry) = self.leases.get_mut(&id) else {
            return;
        };
        let role = role_towards(grid, self.plan.role, &entry.requestor);
        let Some(claimed) = entry.task.execution().cloned() else {
            return;
        };
        let owner = entry.owner;
        let sample = grid.sample();
        let mut bytes = sample.evidence(owner, seed, (input, &claimed), grid.proving);
        let earlier = match role {
            ProviderRole::Stale => shown(state, |it| it.provider == me && it.id != id),
            ProviderRole::Copied => shown(state, |it| it.provider != me),
            _ => None,
        };
        if matches!(role, ProviderRole::Stale | ProviderRole::Copied) && earlier.is_none() {
            // Where there is none yet: that of a job that nobody ordered.
            let other = TaskOwner {
                job: JobId::default(),
                ..owner
            };
            let input = vec![0; sample.input_len];
            let executed = sample.execute(other, &input, (grid.proving, false));
            let seed = seed.map(|_| Digest::default());
            bytes = sample.evidence(other, seed, (&input, &executed), grid.proving);
        }
        if role == ProviderRole::Partial {
            bytes.truncate(bytes.len() / 2);
        }
        let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let evidence = match earlier {
            Some((digest, size)) => Evidence { digest, size },
            None => Evidence {
                digest: Digest::of_blob(&bytes),
                size: size(&bytes),
            },
        };
        let is_drawn = seed.is_some_and(|seed| is_drawn(&seed, &id));
        // What cannot be stored is missing, as a lost upload is.
        match role {
            ProviderRole::Withheld => {}
            ProviderRole::Picker if is_drawn => {}
            ProviderRole::Selective | ProviderRole::SelectiveLiar => {
                for friend in grid.friends() {
                    let _ = friend.put(&bytes, EVIDENCE_BYTES_MAX);
                }
            }
            _ => {
                let _ = store.put(&bytes, EVIDENCE_BYTES_MAX);
            }
        }
        entry.task.proved(evidence, now);
    }
}

/// What a provider of a role says in the place of a message: one that declines says of every second lease that its input is missing.
const fn said(role: ProviderRole, lease: &LeaseId, message: Message) -> Message {
    match (role, message) {
        (ProviderRole::Decliner, Message::Start) => {
            Message::Decline(match lease.as_bytes()[0] & 1 {
                0 => DeclineReason::Unwilling,
                _ => DeclineReason::InputMissing,
            })
        }
        _ => message,
    }
}

/// How a provider of a role behaves towards a requestor.
fn role_towards(grid: &SimGrid, role: ProviderRole, requestor: &Address) -> ProviderRole {
    let is_friend = grid.checks().facts.friends.contains(requestor);
    match role {
        ProviderRole::SelectiveLiar if is_friend => ProviderRole::Honest,
        _ => role,
    }
}

/// A run by a provider of a role, which may change what it gives.
fn executed_as(grid: &SimGrid, role: ProviderRole, entry: &HeldLease, input: &[u8]) -> Execution {
    let (owner, overcharges) = (entry.owner, role == ProviderRole::Overcharger);
    let mut executed = (grid.sample()).execute(owner, input, (grid.proving, overcharges));
    executed.output = match role {
        ProviderRole::Wrong | ProviderRole::SelectiveLiar => wrong_all_over(executed.output),
        ProviderRole::OnePart | ProviderRole::Picker => wrong_in_one_part(executed.output),
        _ => executed.output,
    };
    if let Some(key) = &entry.key {
        let sealed = key.seal_answer(&owner.lease, &executed.output);
        executed.output = sealed.expect("an answer is not too long for the cipher");
        if role == ProviderRole::Partial {
            executed.output.truncate(executed.output.len() / 2);
        }
    }
    executed.receipt.output = Digest::of_blob(&executed.output);
    executed
}

/// Serves an endpoint on, until its time is over or its requestor takes it back.
fn serve(task: &mut LeaseTask, role: ProviderRole, now: u64) {
    let lease = task.lease();
    let is_taken_back = lease.meter.as_ref().is_some_and(|it| it.ends_ms.is_some());
    let ends = is_taken_back || now >= lease.finish_by_ms;
    match ends || role == ProviderRole::Idle {
        true => task.served(),
        false => {
            task.pulled();
            task.claim_wanted();
        }
    }
}

impl HeldLease {
    /// Opens the input of a sealed job, if that is pulled and was not opened before. What cannot be opened is declined by name; whoever denies keys
    /// says so of each.
    fn open(
        &mut self,
        (wallet, role): (&Wallet, ProviderRole),
        model: ModelId,
    ) -> Result<(), Option<DeclineReason>> {
        let is_sealed = self.owner.mode == VerificationMode::Sealed;
        let sealed = self.input_bytes.as_ref().filter(|_| is_sealed);
        let Some(sealed) = sealed.filter(|_| self.key.is_none()) else {
            return Ok(());
        };
        let Some((grant, requestor)) = &self.granted else {
            return Err(None);
        };
        let purpose = SealedFor {
            model,
            requestor: *requestor,
        };
        let key = SealingKey::of(wallet).open_grant(&self.owner.lease, grant);
        let opens = |key: &JobKey| key.open_input(&purpose, sealed).is_ok();
        let key = key.ok().filter(opens);
        self.key = key.filter(|_| role != ProviderRole::KeyDenier);
        match self.key {
            Some(_) => Ok(()),
            None => Err(Some(DeclineReason::Key)),
        }
    }
}

/// Whether a provider gives files to whoever asks.
const fn gives(role: ProviderRole) -> bool {
    !matches!(
        role,
        ProviderRole::Withheld | ProviderRole::Selective | ProviderRole::SelectiveLiar
    )
}

/// Whether a provider stores what it found: one that withholds does not, where the answer is what is paid for or what shows it.
fn is_delivered(role: ProviderRole, entry: &HeldLease) -> bool {
    let mode = VerificationMode::from(entry.task.mode());
    let is_shown_apart = matches!(mode, VerificationMode::Proof)
        || mode == VerificationMode::Sync && !entry.owner.is_run_whole;
    is_shown_apart || gives(role)
}

/// Says of a claim that it is wrong in one tile; a liar says so of a right claim too, which shows nothing.
fn refute(task: &mut LeaseTask, store: &tg_node::BlobStore, is_stored: bool, now: u64) {
    let claim = task.claim().unwrap_or_default();
    let answer = simulated_answer(&claim);
    let digest = Digest::of_blob(&answer);
    let size = u32::try_from(answer.len()).unwrap_or(u32::MAX);
    if is_stored {
        // What cannot be stored is missing, as a lost upload is.
        let _ = store.put(&answer, EVIDENCE_BYTES_MAX);
    }
    task.refuted(claim, Evidence { digest, size }, now);
}

/// The input, if a validator has it and the model's files.
fn pulled(
    model: &SampleModel,
    store: &tg_node::BlobStore,
    input: Option<&Digest>,
    mode: VerificationMode,
) -> Result<Vec<u8>, DeclineReason> {
    let files = [&model.public, &model.weights];
    if !files.iter().all(|it| store.contains(&Digest::of_blob(it))) {
        return Err(DeclineReason::ModelMissing);
    }
    // Inputs of endpoints come with requests.
    let Some(input) = input else {
        return Ok(Vec::new());
    };
    let longer = match mode {
        VerificationMode::Sealed => SEALED_INPUT_OVERHEAD as usize,
        _ => 0,
    };
    match store.get(input, 1 << 20) {
        Ok(Some(bytes)) if bytes.len() == model.input_len + longer => Ok(bytes),
        _ => Err(DeclineReason::InputMissing),
    }
}

/// The evidence of some other lease.
fn shown(state: &State, of: impl Fn(&Lease) -> bool) -> Option<(Digest, u32)> {
    let mut leases = state.leases().iter();
    let lease = leases.find(|it| it.evidence().is_some() && of(it))?;
    lease.evidence().map(|it| (it.digest, it.size))
}

/// The transaction of a message; nothing if what it speaks of is not at hand.
fn transaction(
    task: &LeaseTask,
    message: Message,
    (voucher, salt): (Option<SignedVoucher>, Digest),
) -> Option<Transaction> {
    let lease = task.lease().id;
    Some(match message {
        Message::Start => Transaction::StartLease { lease },
        Message::Decline(reason) => Transaction::DeclineLease { lease, reason },
        Message::Part => Transaction::CommitPart {
            lease,
            receipt: task.execution()?.receipt.clone(),
        },
        Message::Seal | Message::Open => task.sealing(message, salt)?,
        Message::Commit => Transaction::CommitReceipt {
            lease,
            receipt: task.execution()?.receipt.clone(),
        },
        Message::Claim | Message::End => {
            let claimed = task
                .lease()
                .meter
                .as_ref()
                .map_or(Amount::ZERO, |it| it.vouchers);
            Transaction::SettleEndpoint {
                lease,
                voucher: voucher.filter(|it| it.voucher.is_later_than(claimed)),
                ends: message == Message::End,
            }
        }
        Message::Argue => {
            let Evidence { digest, size } = task.refutation()?;
            Transaction::ArgueResult {
                lease,
                file: digest,
                size,
            }
        }
        Message::Evidence => {
            let Evidence { digest, size } = task.evidence()?;
            Transaction::SubmitEvidence {
                lease,
                evidence: digest,
                size,
            }
        }
    })
}
