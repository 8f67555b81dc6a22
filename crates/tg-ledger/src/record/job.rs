//! Jobs: their states, their money and how they ended.

use tg_types::{
    Address, Amount, Decode, DecodeError, Digest, Encode, Height, JobId, JobOrder, LeaseId, Reader,
    TimestampMs, VerificationMode, Writer, fields, tags, variants,
};

use crate::limits::{DECLINES_MAX, OWED_MAX};
use crate::record::{Record, Retention, Storage};
use crate::rent::{Due, Rent, RentCategory};
use crate::tree::{LeafHead, kind};

tg_types::wire_enum! {
    /// Where a job stands.
    JobState, "job state", {
        /// Escrow is locked; the job waits for a provider.
        Queued = 0 => "Queued",
        /// A provider has it and did not start yet.
        Leased = 1 => "Leased",
        /// A provider works on it.
        Running = 2 => "Running",
        /// The provider committed to a result.
        Committed = 3 => "Committed",
        /// Validators verify the evidence.
        Verifying = 4 => "Verifying",
        /// The result was accepted; settlement follows in the same block.
        Accepted = 5 => "Accepted",
        /// The provider was paid. Final.
        Paid = 6 => "Paid",
        /// The escrow went back after failed attempts. Final.
        Refunded = 7 => "Refunded",
        /// A member of the committee or a challenger disputes the result, or replicas differ; every validator looks at it.
        Disputed = 8 => "Disputed",
        /// The deadline passed before any provider had it; the escrow went back. Final.
        Expired = 9 => "Expired",
        /// The requestor took it back. Final.
        Cancelled = 10 => "Cancelled",
        /// Escrow is locked; too few validators state that they hold its input and its model's files.
        Submitted = 11 => "Submitted",
        /// The provider committed to a result that nobody checks, or a committee ran it whole and found it right; too few validators hold the answer.
        Delivering = 12 => "Delivering",
    }
}

impl JobState {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Paid | Self::Refunded | Self::Expired | Self::Cancelled
        )
    }

    /// Whether `next` may follow: the whole state machine of a job.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (
                Self::Submitted,
                Self::Queued | Self::Refunded | Self::Expired | Self::Cancelled
            ) | (
                Self::Queued,
                Self::Submitted | Self::Leased | Self::Refunded | Self::Expired | Self::Cancelled
            ) | (
                Self::Leased,
                Self::Running | Self::Queued | Self::Refunded | Self::Cancelled
            ) | (
                Self::Running,
                Self::Committed | Self::Accepted | Self::Queued | Self::Refunded | Self::Cancelled
            ) | (
                Self::Committed,
                Self::Verifying | Self::Delivering | Self::Queued | Self::Refunded | Self::Disputed
            ) | (
                Self::Delivering,
                Self::Accepted | Self::Queued | Self::Refunded
            ) | (
                Self::Verifying,
                Self::Delivering | Self::Accepted | Self::Queued | Self::Refunded | Self::Disputed
            ) | (
                Self::Disputed,
                Self::Verifying | Self::Accepted | Self::Queued | Self::Refunded
            ) | (Self::Accepted, Self::Paid)
        )
    }
}

tg_types::wire_enum! {
    /// Why a job ended.
    EndReason, "end reason", {
        /// A result was accepted and paid.
        Fulfilled = 0 => "a result was accepted and paid",
        /// The requestor took the job back.
        CancelledByRequestor = 1 => "the requestor took it back",
        /// The deadline passed and no provider had fitted.
        NoProviderInTime = 2 => "the deadline passed before any provider took it",
        /// The deadline passed after failed attempts.
        DeadlinePassed = 3 => "the deadline passed after failed attempts",
        /// As many leases failed as the order allows.
        AttemptsExhausted = 4 => "as many attempts failed as the order allows",
        /// No offer could guarantee the deadline.
        NotAdmitted = 5 => "no offer could guarantee its deadline",
        /// Its deposit for rent was spent while it waited, or another job paid more for its place.
        RentSpent = 9 => "the rent for its place in the queue was spent",
        /// Its requestor granted no key that opens its sealed input.
        NoKey = 10 => "its requestor granted no key that opens its input",
        /// Its requestor showed its key, so that nothing of it is sealed any more, and its provider was wrong.
        KeyShown = 11 => "its key was shown, as the provider was wrong; nothing of it is sealed any more",
    }
}

/// One step of a job through its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The state it entered.
    pub state: JobState,
    /// In which block.
    pub height: Height,
    /// At which ledger time.
    pub at: TimestampMs,
    /// At which block time: what clocks said.
    pub timestamp: TimestampMs,
}

fields! { Step { state, height, at, timestamp } }

/// Where the money of an ended job went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settlement {
    /// Paid to the provider for its result.
    pub price: Amount,
    /// Paid to the providers of the other members of a gang.
    pub members: Amount,
    /// Paid to the validators.
    pub verification_fee: Amount,
    /// Given back to the requestor.
    pub refund: Amount,
    /// Burned of the verification fee.
    pub burned: Amount,
    /// Paid to the provider on top of the price for its reputation; out of the verification fee.
    pub bonus: Amount,
    /// Paid to the providers of leases that made room.
    pub compensation: Amount,
}

fields! { Settlement { price, members, verification_fee, refund, burned, bonus, compensation } }

/// What a job owes to a provider that made room for it; paid if its result is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// The lease that ended.
    pub lease: LeaseId,
    /// Whose lease.
    pub provider: Address,
    /// The part of the lease's price that its work was worth.
    pub amount: Amount,
}

fields! { Owed { lease, provider, amount } }

/// Where a job stands that did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenStage {
    /// Too few validators state that they hold its input and its model's files.
    Submitted,
    /// It waits for a provider.
    Queued,
    /// A provider has it by this lease and did not start yet.
    Leased(LeaseId),
    /// A provider works on it.
    Running(LeaseId),
    /// The provider committed to a result.
    Committed(LeaseId),
    /// Validators verify the evidence.
    Verifying(LeaseId),
    /// A member of the committee disputes the result.
    Disputed(LeaseId),
    /// Validators fetch the answer, which nobody checks or a committee has found.
    Delivering(LeaseId),
}

variants! {
    OpenStage: "open stage" {
        0 = Submitted {},
        1 = Queued {},
        2 = Leased(lease),
        3 = Running(lease),
        4 = Committed(lease),
        5 = Verifying(lease),
        6 = Disputed(lease),
        7 = Delivering(lease),
    }
}

impl OpenStage {
    /// The stage's name.
    #[must_use]
    pub const fn state(&self) -> JobState {
        match self {
            Self::Submitted => JobState::Submitted,
            Self::Queued => JobState::Queued,
            Self::Leased(_) => JobState::Leased,
            Self::Running(_) => JobState::Running,
            Self::Committed(_) => JobState::Committed,
            Self::Verifying(_) => JobState::Verifying,
            Self::Disputed(_) => JobState::Disputed,
            Self::Delivering(_) => JobState::Delivering,
        }
    }

    /// The lease that lives.
    #[must_use]
    pub const fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Submitted | Self::Queued => None,
            Self::Leased(lease)
            | Self::Running(lease)
            | Self::Committed(lease)
            | Self::Verifying(lease)
            | Self::Disputed(lease)
            | Self::Delivering(lease) => Some(*lease),
        }
    }
}

/// Why a job ended for which nobody was paid. Whether it had leases decides how that is named ([`Job::end`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unpaid {
    /// The requestor took it back.
    TakenBack,
    /// Its deadline passed.
    Deadline,
    /// As many leases failed as the order allows.
    Attempts,
    /// No offer could guarantee the deadline.
    NotAdmitted,
    /// Its deposit for rent was spent while it waited, or another job paid more for its place.
    Rent,
    /// Its requestor granted no key that opens its sealed input.
    NoKey,
    /// Its requestor showed its key, and its provider was wrong.
    KeyShown,
}

tags! {
    Unpaid: "unpaid because" {
        TakenBack = 0, Deadline = 1, Attempts = 2, NotAdmitted = 3, Rent = 4, NoKey = 5, KeyShown = 6,
    }
}

impl Unpaid {
    /// The state of a job that ended so; of one that never had a lease, if it `is_untouched`.
    const fn state(self, is_untouched: bool) -> JobState {
        match (self, is_untouched) {
            (Self::TakenBack, _) => JobState::Cancelled,
            (Self::Deadline | Self::Rent, true) => JobState::Expired,
            (Self::Deadline | Self::Rent, false)
            | (Self::Attempts | Self::NotAdmitted | Self::NoKey | Self::KeyShown, _) => {
                JobState::Refunded
            }
        }
    }

    /// The reason that users read; of a job that never had a lease, if it `is_untouched`.
    const fn reason(self, is_untouched: bool) -> EndReason {
        match (self, is_untouched) {
            (Self::TakenBack, _) => EndReason::CancelledByRequestor,
            (Self::Deadline, true) => EndReason::NoProviderInTime,
            (Self::Deadline, false) => EndReason::DeadlinePassed,
            (Self::Attempts, _) => EndReason::AttemptsExhausted,
            (Self::NotAdmitted, _) => EndReason::NotAdmitted,
            (Self::Rent, _) => EndReason::RentSpent,
            (Self::NoKey, _) => EndReason::NoKey,
            (Self::KeyShown, _) => EndReason::KeyShown,
        }
    }
}

/// What a requestor gives a provider: 1 to 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stars(u8);

impl Stars {
    /// Stars of a number; `None` if it is not 1 to 5.
    #[must_use]
    pub const fn new(stars: u8) -> Option<Self> {
        match stars {
            1..=5 => Some(Self(stars)),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Encode for Stars {
    fn encode(&self, writer: &mut Writer) {
        let Self(stars) = self;
        writer.u8(*stars);
    }
}

impl Decode for Stars {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let stars = reader.u8()?;
        Self::new(stars).ok_or(DecodeError::Invalid {
            field: "stars",
            value: u64::from(stars),
        })
    }
}

/// Where a job stands and where its money is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobPhase {
    /// It did not end.
    Open {
        /// What it waits for.
        stage: OpenStage,
        /// Locked: the maximum price and the verification fee, without what was burned of it.
        escrow: Amount,
    },
    /// A result was accepted and paid.
    Paid {
        /// The lease whose result it was.
        lease: LeaseId,
        /// Where its money went.
        settlement: Settlement,
        /// What its requestor gave the provider, if anything.
        stars: Option<Stars>,
    },
    /// It ended without a result that was paid.
    Unpaid {
        /// Why.
        because: Unpaid,
        /// Where its money went.
        settlement: Settlement,
    },
}

variants! {
    JobPhase: "job phase" {
        0 = Open { stage, escrow },
        1 = Paid { lease, settlement, stars },
        2 = Unpaid { because, settlement },
    }
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The job.
    pub id: JobId,
    /// How many jobs were ordered before it; the order of the queue.
    pub sequence: u64,
    /// Who ordered it.
    pub requestor: Address,
    /// What was ordered.
    pub order: JobOrder,
    /// Multiply-accumulates of the model.
    pub macs: u64,
    /// Where it stands.
    pub phase: JobPhase,
    /// Every state it entered.
    pub history: Vec<Step>,
    /// The part of the escrow that validators get for an accepted result.
    pub verification_fee: Amount,
    /// Its leases that ended without a result, oldest first.
    pub earlier: Vec<LeaseId>,
    /// Providers that failed it and do not get it again.
    pub excluded: Vec<Address>,
    /// How many of its leases made room for others.
    pub preemptions: u8,
    /// Slot in which its bid was revealed; `None` for jobs outside the auction.
    pub revealed_in: Option<u64>,
    /// What it owes to those who made room for it.
    pub owed: Vec<Owed>,
    /// What was burned of its escrow: for machines that were held back for it, and for leases that ran out of the GPU time
    /// that it states.
    pub escrow_burned: Amount,
    /// What was paid of its escrow while it is open: to the providers of an endpoint.
    pub served: Amount,
    /// Which validators hold its input.
    pub storage: Storage,
    /// How many of its leases ended before they started.
    pub declined: u8,
    /// What secures its rent, of an open job or of an ended one.
    pub rent: Rent,
    /// What it locks so that its answer is kept, until it ends.
    pub retention: Retention,
    /// By what its members are drawn, if it is of mode `replicate` and waits for them, or by what they were.
    pub draw: Option<ReplicaDraw>,
    /// The session key that ordered it, which may take it back too.
    pub session: Option<[u8; 32]>,
}

/// The drawing of the members of a job of mode `replicate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaDraw {
    /// The block whose seed draws.
    pub from: Height,
    /// When it was made: the offers that stood then take part.
    pub since: TimestampMs,
    /// The seed, once it is known.
    pub seed: Option<Digest>,
    /// The drawings before it, which found too few: the offers that took part in one keep their order, and go before those that came after it.
    pub earlier: Vec<PastDraw>,
}

fields! { ReplicaDraw { from, since, seed, earlier: seq("earlier drawings", DRAWS_MAX, 40) } }

/// A drawing that found too few members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastDraw {
    /// When it was made.
    pub since: TimestampMs,
    /// Its seed.
    pub seed: Digest,
}

fields! { PastDraw { since, seed } }

/// Most drawings of one job that are kept: each is made after twice as long as the one before, and the last one again and again.
pub(crate) const DRAWS_MAX: usize = 8;

impl Job {
    /// The name of where it stands.
    #[must_use]
    pub const fn state(&self) -> JobState {
        match &self.phase {
            JobPhase::Open { stage, .. } => stage.state(),
            JobPhase::Paid { .. } => JobState::Paid,
            JobPhase::Unpaid { because, .. } => because.state(self.earlier.is_empty()),
        }
    }

    /// Why it ended; `None` while it is open.
    #[must_use]
    pub const fn end(&self) -> Option<EndReason> {
        match &self.phase {
            JobPhase::Open { .. } => None,
            JobPhase::Paid { .. } => Some(EndReason::Fulfilled),
            JobPhase::Unpaid { because, .. } => Some(because.reason(self.earlier.is_empty())),
        }
    }

    /// Where its money went; `None` while it is open.
    #[must_use]
    pub const fn settlement(&self) -> Option<&Settlement> {
        match &self.phase {
            JobPhase::Open { .. } => None,
            JobPhase::Paid { settlement, .. } | JobPhase::Unpaid { settlement, .. } => {
                Some(settlement)
            }
        }
    }

    /// What its requestor gave the provider.
    #[must_use]
    pub const fn stars(&self) -> Option<Stars> {
        match &self.phase {
            JobPhase::Paid { stars, .. } => *stars,
            JobPhase::Open { .. } | JobPhase::Unpaid { .. } => None,
        }
    }

    /// What is locked for it: nothing after the end.
    #[must_use]
    pub const fn escrow(&self) -> Amount {
        match &self.phase {
            JobPhase::Open { escrow, .. } => *escrow,
            JobPhase::Paid { .. } | JobPhase::Unpaid { .. } => Amount::ZERO,
        }
    }

    /// Its leases, oldest first: those that lead, of gangs.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseId> {
        let last = match &self.phase {
            JobPhase::Open { stage, .. } => stage.lease(),
            JobPhase::Paid { lease, .. } => Some(*lease),
            JobPhase::Unpaid { .. } => None,
        };
        self.earlier.iter().copied().chain(last).collect()
    }

    /// Moves an open job to a stage; a lease that it leaves is an earlier one.
    pub(crate) fn set_stage(&mut self, next: OpenStage) {
        if let JobPhase::Open { stage, .. } = &mut self.phase {
            let left = stage.lease().filter(|it| next.lease() != Some(*it));
            self.earlier.extend(left);
            *stage = next;
        }
    }

    /// Ends it without anybody paid for a result; a lease that it has is an earlier one.
    pub(crate) fn close_unpaid(&mut self, because: Unpaid, settlement: Settlement) -> EndReason {
        self.earlier.extend(self.live_lease());
        self.phase = JobPhase::Unpaid {
            because,
            settlement,
        };
        because.reason(self.earlier.is_empty())
    }

    /// What it owes in all.
    #[must_use]
    pub fn owed_sum(&self) -> Amount {
        let owed = self.owed.iter();
        owed.fold(Amount::ZERO, |sum, it| sum.saturating_add(it.amount))
    }

    /// What it may still pay for leases: its maximum price without what it owes and what was paid or burned of its escrow.
    #[must_use]
    pub fn purse(&self) -> Amount {
        let left = self.order.max_price.saturating_sub(self.escrow_burned);
        let left = left.saturating_sub(self.served);
        left.saturating_sub(self.owed_sum())
    }

    /// Whether it is a service for some time.
    #[must_use]
    pub fn is_endpoint(&self) -> bool {
        self.order.mode == VerificationMode::Endpoint
    }

    /// Since when it waits or waited first: what ageing in the queue goes by.
    #[must_use]
    pub fn ordered_at(&self) -> TimestampMs {
        self.history.first().map_or(TimestampMs::ZERO, |it| it.at)
    }

    /// Whether its live lease holds what was granted of a machine; validators need none of it any more.
    #[must_use]
    pub const fn holds_machine(&self) -> bool {
        matches!(
            self.state(),
            JobState::Leased | JobState::Running | JobState::Committed
        )
    }

    /// Whether its live leases take slots of their offers: until its answer is all that is waited for, or they end.
    #[must_use]
    pub const fn takes_slots(&self) -> bool {
        !matches!(self.state(), JobState::Delivering)
    }

    /// The lease that lives.
    #[must_use]
    pub const fn live_lease(&self) -> Option<LeaseId> {
        match &self.phase {
            JobPhase::Open { stage, .. } => stage.lease(),
            JobPhase::Paid { .. } | JobPhase::Unpaid { .. } => None,
        }
    }
}

/// Leases a job may have: one for each attempt, those that made room for others, and those that were never started.
const LEASES_MAX: usize = tg_types::limits::ATTEMPTS_MAX as usize
    + crate::limits::PREEMPTIONS_MAX as usize
    + DECLINES_MAX;

/// Providers that may have failed a job: all members of a gang with each lease.
const EXCLUDED_MAX: usize = LEASES_MAX * tg_types::resources::GANG_MEMBERS_MAX as usize;

/// States a job may enter: up to seven for each attempt, and the end.
const STEPS_MAX: usize = LEASES_MAX * 7 + 3;

fields! {
    Job {
        id,
        sequence,
        requestor,
        order,
        macs,
        phase,
        history: seq("history", STEPS_MAX, 25),
        verification_fee,
        earlier: seq("leases", LEASES_MAX, 32),
        excluded: seq("excluded", EXCLUDED_MAX, 20),
        preemptions,
        revealed_in,
        owed: seq("owed", OWED_MAX, 68),
        escrow_burned,
        served,
        storage,
        declined,
        rent,
        retention,
        draw,
        session,
    }
}

impl Record for Job {
    type Key = JobId;
    const KIND: u8 = kind::JOB;
    const NAME: &'static str = "jobs";
    const MONEY_KIND: Option<u8> = Some(kind::ESCROW);

    fn key(&self) -> JobId {
        self.id
    }

    fn head(&self) -> LeafHead {
        LeafHead {
            state: self.state().tag(),
            ..LeafHead::of(Self::KIND, self.requestor).with_deposit(self.rent.payer, self.deposit())
        }
    }

    fn money_head(&self) -> Option<LeafHead> {
        let amount = self.money();
        (!amount.is_zero()).then(|| LeafHead {
            amount,
            ..LeafHead::of(kind::ESCROW, self.requestor)
        })
    }

    fn money(&self) -> Amount {
        self.escrow()
    }

    fn deposit(&self) -> Amount {
        self.rent.deposit.saturating_add(self.retention.fee)
    }

    fn due(&self) -> Option<Due> {
        // A job that somebody works on is referred to by its lease.
        let category = match &self.phase {
            JobPhase::Open { stage, .. } if stage.lease().is_some() => return None,
            JobPhase::Open { .. } => RentCategory::OpenJobs,
            JobPhase::Paid { .. } | JobPhase::Unpaid { .. } => RentCategory::EndedJobs,
        };
        self.rent.due(category, self.sequence)
    }
}
