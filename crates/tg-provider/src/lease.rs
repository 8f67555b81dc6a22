//! The next step for one lease: a pure function of what the ledger says, what has been done, and the time.
//!
//! ```text
//!  ledger:  leased ----> running ----> committed ----> verifying ----> (ended)
//!  agent :  pull,        execute,      prove or open,  wait            forget
//!           submit       store output, store evidence,
//!           start        submit        submit it
//!                        commitment
//!  ledger:               running ----> delivering (mode none)     ----> (ended)
//!  agent :                             store the answer again           forget
//! ```
//!
//! - **Before the start** everything that the lease needs is pulled and checked, because a started lease that is given up
//!   costs collateral. Files that are still missing shortly before the start is due are declined by name, which costs nothing
//!   if the validators do not hold them either. A sealed job is pulled once its key is granted; a key that does not open the
//!   input is declined by name.
//! - **Proving** starts while the commitment is still on its way into a block.
//! - **Gangs**: a member that is not the lead commits to its part, and needs no proof.
//! - **Mode `sync`**: a short run, which its committee runs whole, needs a receipt and nothing more.
//! - **Mode `replicate`**: members seal their results, and open them once all have sealed; the lead then submits the answer.
//! - **Results that nobody checks, or that are sealed**: the answer is stored until validators hold it.
//!
//! A transaction without effect is sent again after [`RESEND_MS`]. Failed work is tried again after a growing wait,
//! [`TRIES_MAX`] times; without that limit while the grid cannot be reached, and once a result is sealed, committed to or
//! submitted. A declared throttle holds the last message back until the work has taken as long as a machine of that speed
//! takes.

use tg_sdk::dto::{DisputeTurnDto, JobStateDto, LeaseDto, ModeDto, ReplicasDto, SealingStageDto};
use tg_types::transaction::result_seal;
use tg_types::{DeclineReason, Digest, Transaction};

use crate::worker::{Execution, Stage};

/// After how many milliseconds a transaction without effect is sent again: several block times.
pub const RESEND_MS: u64 = 4_000;

/// Milliseconds after which a pull that failed is tried again.
const LOOK_AGAIN_MS: u64 = 250;

/// Wait before work is tried again that could not reach the grid.
const REACH_AGAIN_MS: u64 = 1_000;

/// Milliseconds after which an answer or evidence that validators do not hold yet is stored again, since the node that took it may have
/// lost it.
pub const STORE_AGAIN_MS: u64 = 3_000;

/// How often work is tried before the lease is given up.
pub const TRIES_MAX: u32 = 4;

/// First wait after failed work, in milliseconds; it doubles, up to eight times as long.
pub const RETRY_MS: u64 = 250;

/// How long before a lease must be started the agent stops trying to get its files, in milliseconds: time for two messages. Until then
/// it tries: declining a lease whose files the validators hold costs money, and the node that this agent asks may be cut off
/// from them only for a while.
pub const DECLINE_BEFORE_MS: u64 = RESEND_MS;

/// How long the agent tries to get a lease's files at least, in milliseconds: where the grid gives little time to start, or the agent was
/// restarted just before.
const PULL_LEAST_MS: u64 = 1_000;

/// The transaction that was sent last.
#[derive(Debug, Clone, Copy)]
struct SentMessage {
    message: Message,
    /// Its nonce, if the grid took it.
    nonce: Option<u64>,
    at: u64,
}

/// A transaction about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Work begins.
    Start,
    /// Work will not begin.
    Decline(DeclineReason),
    /// The receipt of a gang's member.
    Part,
    /// The receipt.
    Commit,
    /// The seal of the result, of mode replicate.
    Seal,
    /// The result that was sealed.
    Open,
    /// The evidence.
    Evidence,
    /// The place at which an accuser's claim is wrong.
    Argue,
    /// What an endpoint earned so far.
    Claim,
    /// The same, and the lease ends.
    End,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Submit a transaction, then call [`LeaseTask::submitted`].
    Submit(Message),
    /// Begin a stage of work, then call [`LeaseTask::begun`] and, when it ends, one of the outcomes.
    Begin(Stage),
    /// Nothing before this time (milliseconds), unless something changes.
    Wait(u64),
    /// Nothing more is to be done for the lease.
    Forget(StopReason),
}

/// Why nothing more is to be done for a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The ledger ended it.
    Ended,
    /// Its time is over; the ledger will end it.
    Late,
    /// The work failed too often.
    Failed,
    /// The agent has declined it.
    Declined,
}

/// Evidence that is stored where validators find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u32,
}

/// How far the work on a lease is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WorkDone {
    Nothing,
    /// Model and input are pulled.
    Pulled,
    Executed(Execution),
    Proved(Execution, Evidence),
}

/// What the agent knows about one lease.
#[derive(Debug, Clone)]
pub struct LeaseTask {
    lease: LeaseDto,
    mode: ModeDto,
    done: WorkDone,
    busy: Option<Stage>,
    sent: Option<SentMessage>,
    failures: u32,
    /// What could not be pulled, if that is why work failed last.
    missing: Option<DeclineReason>,
    retry_at: u64,
    /// When the first pull began.
    pulling_since: Option<u64>,
    began_at: Option<u64>,
    /// The answer to an accuser's claim, once it is stored, and which claim.
    refutation: Option<(Digest, Evidence)>,
    /// When the evidence or the answer was stored last.
    stored_at: u64,
    work_ms_min: u64,
    /// Which of an endpoint's earnings are to be claimed.
    claim: ClaimWanted,
}

/// Which of an endpoint's earnings are to be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimWanted {
    Nothing,
    SoFar,
    /// All that is left: it is no longer served.
    Last,
}

impl LeaseTask {
    /// A new lease. `work_ms_min` is how long the work has to take at least: a declared throttle.
    #[must_use]
    pub const fn new(lease: LeaseDto, mode: ModeDto, work_ms_min: u64) -> Self {
        Self {
            lease,
            mode,
            done: WorkDone::Nothing,
            busy: None,
            sent: None,
            failures: 0,
            missing: None,
            retry_at: 0,
            pulling_since: None,
            began_at: None,
            refutation: None,
            stored_at: 0,
            work_ms_min,
            claim: ClaimWanted::Nothing,
        }
    }

    /// The lease as the ledger last showed it.
    #[must_use]
    pub const fn lease(&self) -> &LeaseDto {
        &self.lease
    }

    /// How the job's result is checked.
    #[must_use]
    pub const fn mode(&self) -> ModeDto {
        self.mode
    }

    /// The execution, once it was done.
    #[must_use]
    pub const fn execution(&self) -> Option<&Execution> {
        match &self.done {
            WorkDone::Nothing | WorkDone::Pulled => None,
            WorkDone::Executed(execution) | WorkDone::Proved(execution, _) => Some(execution),
        }
    }

    /// The evidence, once it is stored.
    #[must_use]
    pub const fn evidence(&self) -> Option<Evidence> {
        match &self.done {
            WorkDone::Proved(_, evidence) => Some(*evidence),
            WorkDone::Nothing | WorkDone::Pulled | WorkDone::Executed(_) => None,
        }
    }

    /// The seed that draws the parts to open, once validators have signed it.
    #[must_use]
    pub fn seed(&self) -> Option<Digest> {
        self.lease.check.as_ref()?.seed
    }

    /// How often the work failed.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether its work failed so often that it is given up.
    #[must_use]
    pub const fn gives_up(&self) -> bool {
        self.failures >= TRIES_MAX && !self.must_answer()
    }

    /// Whether a result of it is sealed, committed to before a check, or submitted, so that a provider that falls silent now loses its
    /// collateral, in most modes all of it. Then work is retried until the ledger ends the lease: the node that is asked for files may not
    /// have them yet.
    const fn must_answer(&self) -> bool {
        let lease = &self.lease;
        let is_handed_in = matches!(
            lease.state,
            JobStateDto::Verifying | JobStateDto::Delivering | JobStateDto::Disputed
        );
        lease.check.is_some() || lease.replicas.is_some() || lease.sealed || is_handed_in
    }

    /// What to do next at `now` (milliseconds of the ledger's time). `is_closing` says that the agent takes on nothing new.
    #[must_use]
    pub fn next(&self, now: u64, is_closing: bool) -> Step {
        if self.lease.end.is_some() {
            return Step::Forget(StopReason::Ended);
        }
        // Results that validators check have windows of their own, and the validators sign the seed.
        let is_drawn = matches!(self.mode, ModeDto::Sync | ModeDto::Optimistic);
        let is_checked = is_drawn && self.lease.check.is_some();
        let is_handed_in = is_checked
            || self.lease.replicas.is_some()
            || self.lease.state == JobStateDto::Verifying
            || self.lease.state == JobStateDto::Delivering
            || self.mode == ModeDto::Endpoint
            // The ledger gives a sealed answer that was revealed a window of its own.
            || self.mode == ModeDto::Sealed && self.lease.state == JobStateDto::Disputed;
        if now >= self.lease.finish_by_ms && !is_handed_in {
            return Step::Forget(StopReason::Late);
        }
        if self.lease.state == JobStateDto::Leased && !self.lease.started {
            return self.next_leased(now, is_closing);
        }
        if self.gives_up() {
            return Step::Forget(StopReason::Failed);
        }
        match self.lease.state {
            // The other members of the gang have yet to start.
            JobStateDto::Leased => Step::Wait(u64::MAX),
            JobStateDto::Running if self.mode == ModeDto::Replicate => self.next_sealed(now),
            JobStateDto::Committed if self.lease.replicas == Some(ReplicasDto::Opening) => {
                self.next_opening(now)
            }
            JobStateDto::Running if self.lease.lead.is_some() => self.next_part(now),
            // The lead submits the result.
            _ if self.lease.lead.is_some() => Step::Wait(u64::MAX),
            JobStateDto::Running if self.mode == ModeDto::Endpoint => self.next_serving(now),
            JobStateDto::Running => self.next_running(now),
            JobStateDto::Committed => self.next_committed(now),
            JobStateDto::Verifying if self.mode == ModeDto::Sealed => self.next_sealed_answer(now),
            JobStateDto::Verifying if is_checked => self.next_opened(now),
            JobStateDto::Verifying => self.next_named(now),
            JobStateDto::Disputed => self.next_disputed(now),
            JobStateDto::Delivering => self.next_delivered(now),
            JobStateDto::Submitted
            | JobStateDto::Queued
            | JobStateDto::Accepted
            | JobStateDto::Paid
            | JobStateDto::Refunded
            | JobStateDto::Expired
            | JobStateDto::Cancelled => Step::Wait(u64::MAX),
        }
    }

    /// The step before the start: everything that is needed is pulled, or the lease is declined.
    fn next_leased(&self, now: u64, is_closing: bool) -> Step {
        if let Some(sent) = self.sent
            && matches!(sent.message, Message::Decline(_))
            && now < sent.at + RESEND_MS
        {
            return Step::Forget(StopReason::Declined);
        }
        match self.lease.sealing.as_ref().map(|it| it.stage) {
            // The ledger accepts nothing until the requestor or the validators have answered.
            Some(SealingStageDto::Questioned | SealingStageDto::Revealed) => {
                return Step::Wait(u64::MAX);
            }
            Some(SealingStageDto::Granted | SealingStageDto::AwaitsKey) | None => {}
        }
        if is_closing && self.sent.is_none() {
            return Step::Submit(Message::Decline(DeclineReason::Unwilling));
        }
        if self.waits_for_key() {
            return Step::Wait(u64::MAX);
        }
        // A key that does not open the input now never will.
        if self.missing == Some(DeclineReason::Key) {
            return Step::Submit(Message::Decline(DeclineReason::Key));
        }
        if self.failures >= TRIES_MAX && self.missing.is_none() {
            return Step::Submit(Message::Decline(DeclineReason::Unwilling));
        }
        match &self.done {
            WorkDone::Nothing => self.next_pull(now),
            // Booked for later.
            _ if now < self.lease.begins_ms => Step::Wait(self.lease.begins_ms),
            _ => self.submit(Message::Start, now),
        }
    }

    /// The files of a lease are pulled until shortly before the start is due. Declining then costs the time for which the lease was held;
    /// not starting costs more of that, and counts as a lost lease. Files that only come slowly are not reported as missing, since validators
    /// hold them.
    fn next_pull(&self, now: u64) -> Step {
        let last = self.lease.start_by_ms.saturating_sub(DECLINE_BEFORE_MS);
        let until = self.pulling_since.map_or(u64::MAX, |since| {
            last.max(since.saturating_add(PULL_LEAST_MS))
        });
        if now >= until {
            let reason = self.missing.unwrap_or(DeclineReason::Unwilling);
            return Step::Submit(Message::Decline(reason));
        }
        match self.begin(Stage::Pull, now) {
            Step::Wait(at) => Step::Wait(at.min(until)),
            begin => begin,
        }
    }

    /// Whether the requestor has yet to grant the key of its sealed job.
    fn waits_for_key(&self) -> bool {
        let stage = self.lease.sealing.as_ref().map(|it| it.stage);
        stage == Some(SealingStageDto::AwaitsKey)
    }

    /// A sealed answer is stored again until enough validators hold it, like one that nobody checks.
    fn next_sealed_answer(&self, now: u64) -> Step {
        let sealing = self.lease.sealing.as_ref();
        let is_held =
            sealing.is_none_or(|it| it.may_reveal || it.stage != SealingStageDto::Granted);
        match is_held {
            true => Step::Wait(u64::MAX),
            false => self.next_delivered(now),
        }
    }

    /// The step of a gang's member that is not its lead.
    fn next_part(&self, now: u64) -> Step {
        match &self.done {
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            WorkDone::Executed(_) | WorkDone::Proved(..) if self.lease.receipt.is_none() => {
                self.submit(Message::Part, now)
            }
            WorkDone::Executed(_) | WorkDone::Proved(..) => Step::Wait(u64::MAX),
        }
    }

    /// The step of a member of mode replicate before any result is opened: it seals its own.
    fn next_sealed(&self, now: u64) -> Step {
        match &self.done {
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            // The other members have yet to seal.
            WorkDone::Executed(_) | WorkDone::Proved(..) if self.lease.sealed => {
                Step::Wait(u64::MAX)
            }
            WorkDone::Executed(_) | WorkDone::Proved(..) => {
                self.submit_throttled(Message::Seal, now)
            }
        }
    }

    /// All members have sealed their results: this one must be opened, or all of the collateral is lost.
    fn next_opening(&self, now: u64) -> Step {
        match &self.done {
            _ if !self.lease.sealed => Step::Wait(u64::MAX),
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            WorkDone::Executed(_) | WorkDone::Proved(..) => self.submit(Message::Open, now),
        }
    }

    /// An endpoint is served until its end; its earnings are claimed now and then.
    fn next_serving(&self, now: u64) -> Step {
        match (self.claim, &self.done) {
            (ClaimWanted::Last, _) => self.submit(Message::End, now),
            // After a restart.
            (_, WorkDone::Nothing) => self.begin(Stage::Pull, now),
            (ClaimWanted::SoFar, _) => self.submit(Message::Claim, now),
            (ClaimWanted::Nothing, _) => self.begin(Stage::Serve, now),
        }
    }

    fn next_running(&self, now: u64) -> Step {
        if matches!(self.done, WorkDone::Nothing | WorkDone::Pulled) {
            return self.begin(Stage::Execute, now);
        }
        let commit = match self.mode {
            ModeDto::None | ModeDto::Endpoint | ModeDto::Sealed => {
                self.submit_throttled(Message::Commit, now)
            }
            // No evidence follows.
            _ if self.lease.run_whole => self.submit_throttled(Message::Commit, now),
            ModeDto::Proof
            | ModeDto::Recompute
            | ModeDto::Sync
            | ModeDto::Optimistic
            | ModeDto::Replicate => self.submit(Message::Commit, now),
        };
        match (&self.done, self.mode, &commit) {
            (WorkDone::Executed(_), ModeDto::Proof | ModeDto::Recompute, Step::Wait(_)) => {
                self.begin(Stage::Prove, now)
            }
            _ => commit,
        }
    }

    fn next_committed(&self, now: u64) -> Step {
        let has_seed = self.seed().is_some();
        match (self.mode, &self.done) {
            (ModeDto::None | ModeDto::Endpoint | ModeDto::Sealed, _) => Step::Wait(u64::MAX),
            // The seed that draws the parts is not signed yet.
            (ModeDto::Sync | ModeDto::Optimistic, WorkDone::Executed(_)) if !has_seed => {
                Step::Wait(u64::MAX)
            }
            (_, WorkDone::Nothing | WorkDone::Pulled) => self.begin(Stage::Execute, now),
            (_, WorkDone::Executed(_)) => self.begin(Stage::Prove, now),
            (_, WorkDone::Proved(..)) => self.submit_throttled(Message::Evidence, now),
        }
    }

    /// Until a committee is drawn the validators must hold the opening, or all of the collateral is lost. So it is stored again, and made
    /// again after a restart; the same seed gives the same bytes.
    fn next_opened(&self, now: u64) -> Step {
        let is_held = self.lease.check.as_ref().is_none_or(|it| it.members > 0);
        match &self.done {
            // A committee that repeats the whole run needs no opening.
            _ if is_held || self.lease.run_whole => Step::Wait(u64::MAX),
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            WorkDone::Executed(_) => self.begin(Stage::Prove, now),
            WorkDone::Proved(..) if now < self.stored_at + STORE_AGAIN_MS => {
                Step::Wait(self.stored_at + STORE_AGAIN_MS)
            }
            WorkDone::Proved(..) => self.begin(Stage::Prove, now),
        }
    }

    /// Validators must be able to fetch a proof until they have judged it, and the answer of replicas until they hold it, or the collateral
    /// at risk is lost. So it is stored again, and made again after a restart. An answer has the same bytes then, and so has a proof that is
    /// not masked. A masked proof gets new randomness and another name, for which nobody looks: it is lost with the agent that made it.
    /// Agents keep no proofs on disk, where files would have to be found, bounded and removed for the few seconds until the verdict.
    fn next_named(&self, now: u64) -> Step {
        let again = self.stored_at + STORE_AGAIN_MS;
        let named = self.lease.evidence;
        match &self.done {
            _ if !matches!(self.mode, ModeDto::Proof | ModeDto::Replicate) => Step::Wait(u64::MAX),
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            WorkDone::Executed(_) => self.begin(Stage::Prove, now),
            WorkDone::Proved(_, made) if named.is_some_and(|it| it != made.digest) => {
                Step::Wait(u64::MAX)
            }
            WorkDone::Proved(..) if now < again => Step::Wait(again),
            WorkDone::Proved(..) => self.begin(Stage::Prove, now),
        }
    }

    /// Validators must be able to fetch an answer that nobody checks until enough of them hold it, or the provider is not paid and loses the
    /// collateral at risk. So it is stored again, and made again after a restart.
    const fn next_delivered(&self, now: u64) -> Step {
        let again = self.stored_at + STORE_AGAIN_MS;
        match &self.done {
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            WorkDone::Executed(_) | WorkDone::Proved(..) if now < again => Step::Wait(again),
            WorkDone::Executed(_) | WorkDone::Proved(..) => self.begin(Stage::Deliver, now),
        }
    }

    /// The step in a dispute that ends at one tile: the answer to the accuser's claim is computed and submitted, and the validators must hold
    /// it, or all of the collateral is lost.
    fn next_disputed(&self, now: u64) -> Step {
        let dispute = self.lease.check.as_ref().and_then(|it| it.dispute.as_ref());
        let dispute = dispute.filter(|it| it.turn == DisputeTurnDto::Provider);
        let Some((dispute, claim)) = dispute.and_then(|it| Some((it, it.claim?))) else {
            return Step::Wait(u64::MAX);
        };
        let is_answered = self.refutation.is_some_and(|(of, _)| of == claim);
        let again = self.stored_at + STORE_AGAIN_MS;
        match &self.done {
            WorkDone::Nothing | WorkDone::Pulled => self.begin(Stage::Execute, now),
            _ if !is_answered => self.begin(Stage::Refute, now),
            _ if dispute.waits_for_file => self.submit(Message::Argue, now),
            _ if now < again => Step::Wait(again),
            _ => self.begin(Stage::Refute, now),
        }
    }

    const fn begin(&self, stage: Stage, now: u64) -> Step {
        if self.busy.is_some() {
            Step::Wait(u64::MAX)
        } else if now < self.retry_at {
            Step::Wait(self.retry_at)
        } else {
            Step::Begin(stage)
        }
    }

    fn submit(&self, message: Message, now: u64) -> Step {
        match self.sent {
            Some(sent) if sent.message == message && now < sent.at + RESEND_MS => {
                Step::Wait(sent.at + RESEND_MS)
            }
            _ => Step::Submit(message),
        }
    }

    /// As `submit`, but not before the work has taken its declared time: for the last message.
    fn submit_throttled(&self, message: Message, now: u64) -> Step {
        let done_at = self.began_at.unwrap_or(0).saturating_add(self.work_ms_min);
        if now < done_at {
            return Step::Wait(done_at);
        }
        self.submit(message, now)
    }

    /// Updates the lease to what the ledger shows now.
    pub fn seen(&mut self, lease: LeaseDto) {
        self.lease = lease;
    }

    /// Whether a transaction was sent lately whose effect is not seen yet.
    #[must_use]
    pub fn waits_for_effect(&self, now: u64) -> bool {
        self.sent
            .is_some_and(|sent| sent.nonce.is_some() && now < sent.at + RESEND_MS)
    }

    /// Notes that `next` is the account's first unused nonce: a message that was sent with it or a later one is lost, and is sent again now.
    pub fn told_nonce(&mut self, next: u64) {
        let is_lost = |sent: &SentMessage| sent.nonce.is_some_and(|nonce| nonce >= next);
        self.sent = self.sent.filter(|sent| !is_lost(sent));
    }

    /// The transaction that seals the result, or opens it; `None` before there is a result. `salt` follows from the provider's key, so that
    /// a restarted provider can open what it sealed.
    #[must_use]
    pub fn sealing(&self, message: Message, salt: Digest) -> Option<Transaction> {
        let (lease, receipt) = (self.lease.id, self.execution()?.receipt.clone());
        Some(match message {
            Message::Seal => Transaction::SealResult {
                lease,
                seal: result_seal(&lease, &receipt, &salt),
            },
            _ => Transaction::OpenResult {
                lease,
                receipt,
                salt,
            },
        })
    }

    /// Notes that a transaction with this nonce was sent at `now`.
    pub fn submitted(&mut self, message: Message, nonce: u64, now: u64) {
        let nonce = Some(nonce);
        self.sent = Some(SentMessage {
            message,
            nonce,
            at: now,
        });
        if message == Message::Claim {
            // If it is lost, the next claim includes it.
            self.claim = ClaimWanted::Nothing;
        }
    }

    /// Requests a claim of what the endpoint has earned so far.
    pub fn claim_wanted(&mut self) {
        if self.claim == ClaimWanted::Nothing {
            self.claim = ClaimWanted::SoFar;
        }
    }

    /// Notes that the endpoint is no longer served.
    pub const fn served(&mut self) {
        self.busy = None;
        self.claim = ClaimWanted::Last;
    }

    /// Notes that a transaction was refused at `now` for a reason that may pass: it is sent again like lost ones.
    pub const fn refused(&mut self, message: Message, now: u64) {
        self.sent = Some(SentMessage {
            message,
            nonce: None,
            at: now.saturating_sub(RESEND_MS - RETRY_MS),
        });
    }

    /// Notes that a stage of work began at `now`.
    pub fn begun(&mut self, stage: Stage, now: u64) {
        assert!(self.busy.is_none(), "one stage at a time");
        self.busy = Some(stage);
        match stage {
            Stage::Pull => self.pulling_since.get_or_insert(now),
            // The throttle is measured from here.
            _ => self.began_at.get_or_insert(now),
        };
    }

    /// Notes that model and input were pulled, with the right lengths and digests.
    pub fn pulled(&mut self) {
        self.busy = None;
        self.failures = 0;
        if self.done == WorkDone::Nothing {
            self.done = WorkDone::Pulled;
        }
    }

    /// Notes that the execution ended and its output was stored at `now`.
    pub fn executed(&mut self, execution: Execution, now: u64) {
        self.busy = None;
        self.stored_at = now;
        self.done = WorkDone::Executed(execution);
    }

    /// Notes that the proof was made and stored at `now`.
    pub fn proved(&mut self, evidence: Evidence, now: u64) {
        self.busy = None;
        self.stored_at = now;
        let done = std::mem::replace(&mut self.done, WorkDone::Pulled);
        if let WorkDone::Executed(execution) | WorkDone::Proved(execution, _) = done {
            self.done = WorkDone::Proved(execution, evidence);
        }
    }

    /// Notes that the answer to an accuser's claim was computed and stored at `now`.
    pub const fn refuted(&mut self, claim: Digest, answer: Evidence, now: u64) {
        self.busy = None;
        self.stored_at = now;
        self.refutation = Some((claim, answer));
    }

    /// The claim that is to be answered.
    #[must_use]
    pub fn claim(&self) -> Option<Digest> {
        let dispute = self.lease.check.as_ref()?.dispute.as_ref()?;
        dispute.claim
    }

    /// The answer to the claim, once it is stored.
    #[must_use]
    pub fn refutation(&self) -> Option<Evidence> {
        let (_, answer) = self
            .refutation
            .filter(|(of, _)| Some(*of) == self.claim())?;
        Some(answer)
    }

    /// Notes that the answer or the evidence was stored again at `now`.
    pub const fn stored(&mut self, now: u64) {
        self.busy = None;
        self.failures = 0;
        self.stored_at = now;
    }

    /// Notes that a stage of work could not reach the grid at `now`. That does not count as a failure: giving up a started lease because the
    /// gateway restarts would cost the collateral although time is left.
    pub const fn unreachable(&mut self, now: u64) {
        self.busy = None;
        self.retry_at = now.saturating_add(REACH_AGAIN_MS);
    }

    /// Notes that a stage of work failed at `now`; `missing` says what could not be pulled, if that is why.
    pub const fn failed(&mut self, now: u64, missing: Option<DeclineReason>) {
        self.busy = None;
        self.missing = missing;
        let doubled = if self.failures < TRIES_MAX {
            self.failures
        } else {
            TRIES_MAX - 1
        };
        // Another try to pull costs next to nothing, and one too few costs a decline.
        self.retry_at = now.saturating_add(match missing {
            Some(_) => LOOK_AGAIN_MS,
            None => RETRY_MS << doubled,
        });
        self.failures = self.failures.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
