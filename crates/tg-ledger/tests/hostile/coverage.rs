//! What a run reached: kinds of transactions, ends of leases and jobs, windows that ended, errors.

use std::collections::BTreeMap;

use tg_ledger::{
    AbandonedBecause, Event, KeyStep, LatePhase, LeaseEnd, LeaseProgress, ModelState, QuestionEnd,
    State,
};
use tg_types::{DeclineReason, TransactionKind};

use crate::files::refusal;

/// How often each thing happened, by its name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Coverage {
    seen: BTreeMap<String, u64>,
}

/// Everything that a run must reach beside the kinds of transactions.
const NEEDED: &[&str] = &[
    "lease Fulfilled",
    "lease Rejected",
    "lease Late running",
    "lease Late committed",
    "lease Abandoned not started",
    "lease Abandoned evidence not delivered",
    "lease Abandoned provider lost",
    "lease Preempted",
    "lease Released",
    "lease Declined unwilling",
    "lease Declined input missing",
    "lease Declined model missing",
    "lease Unavailable",
    "lease Cancelled",
    "job: a result was accepted and paid",
    "job: the requestor took it back",
    "job: the deadline passed before any provider took it",
    "job: the deadline passed after failed attempts",
    "job: as many attempts failed as the order allows",
    "job: no offer could guarantee its deadline",
    "job: the rent for its place in the queue was spent",
    "model refused: proof rejected",
    "model refused: not delivered in time",
    "model held",
    "bid forfeited",
    "bid revealed",
    "auction cleared",
    "penalty returned",
    "penalty burned by an answer",
    "penalty burned by silence",
    "handed in within the grace of a preemption",
    "leased again after a suspension",
    "leased again after the window of leases not started",
    "provider lost",
    "provider back",
    "an outage kept a window open",
    "a validator lost its stake",
    "a member of a gang was paid",
    "who made room was paid",
    "rent of an account for a day",
    "record expired: account",
    "record expired: offer",
    "record expired: provider",
    "record expired: model",
    "record expired: job",
    "rent of an ended job was spent",
    "an answer that nobody checks was held",
    "an answer that nobody checks was not held in time",
    "an answer is kept",
    "an answer is kept no longer",
    "a seat is asked for an answer",
    "a seat gave what it was asked for",
    "a seat does not have what it keeps",
    "seed signed",
    "a member disputes a result",
    "a member was refuted",
    "lease Declined key",
    "lease Ungranted",
    "job: its requestor granted no key that opens its input",
    "job: its key was shown, as the provider was wrong; nothing of it is sealed any more",
    "a key was granted",
    "a provider says that its key opens nothing",
    "a key was shown",
    "branches given up",
    "states written down and read back",
];

impl Coverage {
    pub(crate) fn note(&mut self, what: &str) {
        if let Some(count) = self.seen.get_mut(what) {
            *count += 1;
        } else {
            self.seen.insert(what.to_owned(), 1);
        }
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.seen.get(what).copied().unwrap_or(0)
    }

    /// Takes note of what a block did.
    pub(crate) fn read(&mut self, before: &State, state: &State, events: &[Event]) {
        for event in events {
            match event {
                Event::TransactionExecuted { kind, .. } => self.note(kind_name(*kind)),
                Event::LeaseEnded { lease, end, .. } => {
                    self.note(end_name(end));
                    let reached = state.lease(lease).map(tg_ledger::Lease::progress);
                    if let Some(LeaseProgress::Delivering { .. }) = reached {
                        self.note(match end {
                            LeaseEnd::Fulfilled => "an answer that nobody checks was held",
                            _ => "an answer that nobody checks was not held in time",
                        });
                    }
                    let told = state.lease(lease).and_then(|it| it.preemption);
                    if told.is_some() && *end == LeaseEnd::Fulfilled {
                        self.note("handed in within the grace of a preemption");
                    }
                }
                Event::JobEnded { reason, .. } => self.note(&format!("job: {reason}")),
                Event::ModelChanged { state, .. } => match state {
                    ModelState::Refused(because) => self.note(refusal(because)),
                    ModelState::Pending => self.note("model pending"),
                    ModelState::Active(_) => self.note("model active"),
                },
                Event::PenaltySettled {
                    lease, is_burned, ..
                } => self.penalty(before, state, lease, *is_burned),
                Event::LeaseMade { provider, .. } => self.leased(before, state, provider),
                Event::LivenessChanged { is_offline, .. } => self.note(match is_offline {
                    true => "provider lost",
                    false => "provider back",
                }),
                Event::AccountRent {
                    opened: None,
                    account,
                    ..
                } if state.account(account).is_some() => self.note("rent of an account for a day"),
                Event::RecordExpired { kind, record, .. } => {
                    self.note(match *kind {
                        1 => "record expired: account",
                        2 => "record expired: offer",
                        3 => "record expired: provider",
                        4 => "record expired: model",
                        _ => "record expired: job",
                    });
                    let job = tg_types::JobId::new(*record.as_bytes());
                    if before.job(&job).is_some_and(|it| it.state().is_final()) {
                        self.note("rent of an ended job was spent");
                    }
                }
                other => self.note(other_name(other)),
            }
        }
    }

    fn penalty(&mut self, before: &State, state: &State, lease: &tg_types::LeaseId, burned: bool) {
        let lease = before.lease(lease);
        let job = lease.and_then(|it| before.job(&it.job));
        let model = job.and_then(|it| before.model(&it.order.model));
        let storage = match lease.and_then(|it| it.end()) {
            Some(LeaseEnd::Declined(DeclineReason::InputMissing)) => job.map(|it| &it.storage),
            Some(LeaseEnd::Declined(DeclineReason::ModelMissing)) => model.map(|it| &it.storage),
            _ => None,
        };
        let recheck = storage.and_then(|it| it.recheck.as_ref());
        let silent = recheck.is_some_and(|it| it.until < state.head().time);
        self.note(match (burned, silent) {
            (false, _) => "penalty returned",
            (true, true) => "penalty burned by silence",
            (true, false) => "penalty burned by an answer",
        });
    }

    fn leased(&mut self, before: &State, state: &State, provider: &tg_types::Address) {
        let Some(record) = before.provider(provider) else {
            return;
        };
        if record.suspended_until.get() > 0 {
            self.note("leased again after a suspension");
        }
        let since = state.head().time.saturating_since(record.unstarted_since);
        if record.unstarted > 0 && since.get() > 3_600_000 {
            self.note("leased again after the window of leases not started");
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (what, count) in &other.seen {
            *self.seen.entry(what.clone()).or_default() += count;
        }
    }

    /// What was not reached.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let kinds = TransactionKind::ALL.into_iter().map(kind_name);
        let all = NEEDED.iter().copied().chain(kinds);
        all.filter(|what| self.count(what) == 0).collect()
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.seen
            .iter()
            .try_for_each(|(what, count)| writeln!(f, "{count:>9}  {what}"))
    }
}

const fn kind_name(kind: TransactionKind) -> &'static str {
    kind.as_str()
}

const fn end_name(end: &LeaseEnd) -> &'static str {
    use tg_types::DeclineReason;
    match end {
        LeaseEnd::Fulfilled => "lease Fulfilled",
        LeaseEnd::Rejected { .. } => "lease Rejected",
        LeaseEnd::Late(LatePhase::Running) => "lease Late running",
        LeaseEnd::Late(LatePhase::Committed) => "lease Late committed",
        LeaseEnd::Late(LatePhase::Sealed) => "lease Late sealed",
        LeaseEnd::Abandoned(AbandonedBecause::NotStarted) => "lease Abandoned not started",
        LeaseEnd::Abandoned(AbandonedBecause::EvidenceNotDelivered) => {
            "lease Abandoned evidence not delivered"
        }
        LeaseEnd::Abandoned(AbandonedBecause::ProviderLost) => "lease Abandoned provider lost",
        LeaseEnd::Preempted => "lease Preempted",
        LeaseEnd::Released => "lease Released",
        LeaseEnd::Declined(DeclineReason::Unwilling) => "lease Declined unwilling",
        LeaseEnd::Declined(DeclineReason::InputMissing) => "lease Declined input missing",
        LeaseEnd::Declined(DeclineReason::ModelMissing) => "lease Declined model missing",
        LeaseEnd::Declined(DeclineReason::Key) => "lease Declined key",
        LeaseEnd::Ungranted => "lease Ungranted",
        LeaseEnd::Unavailable => "lease Unavailable",
        LeaseEnd::Cancelled => "lease Cancelled",
    }
}

fn other_name(event: &Event) -> &'static str {
    match event {
        Event::BidForfeited { .. } => "bid forfeited",
        Event::BidRevealed { .. } => "bid revealed",
        Event::ValidatorSlashed { .. } => "a validator lost its stake",
        Event::ModelHeld { .. } => "model held",
        Event::MemberPaid { .. } => "a member of a gang was paid",
        Event::Compensated { .. } => "who made room was paid",
        Event::HolderPaid { .. } => "a holder was paid",
        Event::EscrowBurned { .. } => "escrow burned",
        Event::Slashed { .. } => "slashed",
        Event::SeedSigned { .. } => "seed signed",
        Event::ResultDisputed { .. } => "a member disputes a result",
        Event::ResultArgued { .. } => "a side hands in its file in a dispute",
        Event::ReplicasDiffer { .. } => "the members of a job differ",
        Event::KeyChanged { step, .. } => match step {
            KeyStep::Granted => "a key was granted",
            KeyStep::Questioned => "a provider says that its key opens nothing",
            KeyStep::Revealed => "a key was shown",
        },
        Event::RunCharged { .. } => "a run of all was paid",
        Event::AccusationRefuted { .. } => "a member was refuted",
        Event::ChallengeHeld { .. } => "a challenge is held",
        Event::ChallengeShared { .. } => "a challenge was shared",
        Event::ChallengeReturned { .. } => "a challenge was right",
        Event::VoteRefuted { .. } => "a vote for a wrong result was refuted",
        Event::Forfeited { .. } => "forfeited",
        Event::Scheduled { decisions, .. } => {
            let cleared =
                |it: &tg_ledger::Decision| matches!(it, tg_ledger::Decision::Cleared { .. });
            match decisions.iter().any(cleared) {
                true => "auction cleared",
                false => "scheduled",
            }
        }
        Event::AccountRent { .. } => "rent paid at once",
        Event::AnswerKept { .. } => "an answer is kept",
        Event::AnswerReleased { .. } => "an answer is kept no longer",
        Event::AnswerAsked { .. } => "a seat is asked for an answer",
        Event::AnswerQuestionEnded { end, .. } => match end {
            QuestionEnd::Served => "a seat gave what it was asked for",
            QuestionEnd::Undecided => "a question stays open",
            QuestionEnd::Missing { .. } => "a seat does not have what it keeps",
        },
        _ => "other events",
    }
}
