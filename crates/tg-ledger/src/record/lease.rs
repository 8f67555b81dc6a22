//! Leases: the match of a job with an offer, from the moment its collateral is locked to its end.

use tg_types::{
    Address, Amount, DeclineReason, Digest, Domain, Height, JobId, KeyGrant, Label, LeaseId,
    OfferId, Receipt, TimestampMs, fields, keccak256_of, tags, variants,
};

use crate::record::{
    EndpointMeter, Evidence, Grant, Job, Record, Sealing, SessionRisk, Storage, SyncCheck,
};
use crate::tree::{LeafHead, kind};

/// Leases beside the one that leads a gang.
const MEMBERS_MAX: usize = tg_types::resources::GANG_MEMBERS_MAX as usize - 1;

/// What was missing when a lease ran out of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LatePhase {
    /// No receipt was committed.
    Running = 0,
    /// A receipt was committed, but no evidence was named.
    Committed = 1,
    /// A result was sealed, but not opened.
    Sealed = 2,
}

/// In which way a provider walked away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AbandonedBecause {
    /// It never started the lease.
    NotStarted = 0,
    /// It named evidence, or an answer that nobody checks, that the validators could not get in time.
    EvidenceNotDelivered = 1,
    /// The validators could not reach it.
    ProviderLost = 2,
}

/// How a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The result was accepted and paid.
    Fulfilled,
    /// The evidence was rejected; the collateral was burned.
    Rejected {
        /// Code of the failed check.
        code: u16,
        /// Name of the failed check.
        check: Label,
    },
    /// It ran past its deadline; what was at risk was burned.
    Late(LatePhase),
    /// The provider walked away; what was at risk was burned, or a penalty if it never started.
    Abandoned(AbandonedBecause),
    /// It made room for a job that goes first; the collateral went back.
    Preempted,
    /// Another member of its gang failed; the collateral went back.
    Released,
    /// The provider declined before it started.
    Declined(DeclineReason),
    /// Validators do not hold what it needs any more; the collateral went back.
    Unavailable,
    /// The requestor took the job back and paid for what was done; the collateral went back.
    Cancelled,
    /// The requestor granted no key in time that opens the input of its sealed job, and paid for what was done; the collateral went back.
    Ungranted,
}

impl LeaseEnd {
    /// The end's name.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fulfilled => "Fulfilled",
            Self::Rejected { .. } => "Rejected",
            Self::Late(_) => "Late",
            Self::Abandoned(_) => "Abandoned",
            Self::Preempted => "Preempted",
            Self::Released => "Released",
            Self::Declined(_) => "Declined",
            Self::Unavailable => "Unavailable",
            Self::Cancelled => "Cancelled",
            Self::Ungranted => "Ungranted",
        }
    }
}

impl std::fmt::Display for LeaseEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fulfilled => f.write_str("result accepted"),
            Self::Rejected { code, check } => {
                write!(f, "evidence rejected by check {check} (code {code})")
            }
            Self::Late(LatePhase::Running) => f.write_str("late: no receipt in time"),
            Self::Late(LatePhase::Committed) => f.write_str("late: no evidence in time"),
            Self::Late(LatePhase::Sealed) => {
                f.write_str("late: a sealed result was not opened in time")
            }
            Self::Abandoned(AbandonedBecause::NotStarted) => f.write_str("never started"),
            Self::Abandoned(AbandonedBecause::EvidenceNotDelivered) => {
                f.write_str("answer or evidence named but not delivered")
            }
            Self::Abandoned(AbandonedBecause::ProviderLost) => {
                f.write_str("validators could not reach the provider")
            }
            Self::Preempted => f.write_str("made room for a job that goes first"),
            Self::Released => f.write_str("another member of the gang failed"),
            Self::Declined(DeclineReason::Unwilling) => f.write_str("declined by the provider"),
            Self::Declined(DeclineReason::InputMissing) => {
                f.write_str("declined: the provider could not get the input")
            }
            Self::Declined(DeclineReason::ModelMissing) => {
                f.write_str("declined: the provider could not get the model")
            }
            Self::Declined(DeclineReason::Key) => {
                f.write_str("declined: the provider said that the key does not open the input")
            }
            Self::Unavailable => f.write_str("validators do not hold what it needs"),
            Self::Cancelled => f.write_str("the requestor took the job back"),
            Self::Ungranted => f.write_str("the requestor granted no key that opens the input"),
        }
    }
}

tags! {
    LatePhase: "late phase" { Running = 0, Committed = 1, Sealed = 2 }
    AbandonedBecause: "abandoned because" {
        NotStarted = 0, EvidenceNotDelivered = 1, ProviderLost = 2,
    }
}

variants! {
    LeaseEnd: "lease end" {
        0 = Fulfilled {},
        1 = Rejected { code, check },
        2 = Late(phase),
        3 = Abandoned(because),
        4 = Preempted {},
        5 = Released {},
        6 = Declined(reason),
        7 = Unavailable {},
        8 = Cancelled {},
        9 = Ungranted {},
    }
}

/// The order to make room for a job that goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    /// When the lease ends.
    pub at: TimestampMs,
    /// For which job.
    pub by: JobId,
}

fields! { Preemption { at, by } }

/// How far a provider came with a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseProgress {
    /// It did not start.
    Waiting,
    /// It works.
    Running {
        /// When it started.
        started_at: TimestampMs,
    },
    /// It sealed a result, in mode `replicate`.
    Sealed {
        /// When it started.
        started_at: TimestampMs,
        /// [`tg_types::transaction::result_seal`] of it.
        seal: Digest,
    },
    /// It committed to a result, or a member of a gang to its part.
    Committed {
        /// When it started.
        started_at: TimestampMs,
        /// What it committed to.
        receipt: Receipt,
    },
    /// It named its evidence.
    Verifying {
        /// When it started.
        started_at: TimestampMs,
        /// What it committed to.
        receipt: Receipt,
        /// The evidence.
        evidence: Evidence,
        /// Until when validators wait for the evidence.
        verify_by: TimestampMs,
    },
    /// It committed to a result that nobody checks, or that a committee ran whole and found right; validators fetch the answer.
    Delivering {
        /// When it started.
        started_at: TimestampMs,
        /// What it committed to.
        receipt: Receipt,
        /// Who holds the answer.
        storage: Storage,
        /// Until when validators wait for it.
        deliver_by: TimestampMs,
    },
}

variants! {
    LeaseProgress: "lease progress" {
        0 = Waiting {},
        1 = Running { started_at },
        2 = Committed { started_at, receipt },
        3 = Verifying { started_at, receipt, evidence, verify_by },
        4 = Sealed { started_at, seal },
        5 = Delivering { started_at, receipt, storage, deliver_by },
    }
}

/// Where the members of a job of mode `replicate` stand, once all have sealed what they found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaStage {
    /// They open it.
    Opening {
        /// Until when.
        open_by: TimestampMs,
    },
    /// All found the same; the one that leads names the answer, so that validators fetch it.
    Agreed {
        /// Until when it must have.
        deliver_by: TimestampMs,
    },
    /// They found different things: every validator runs the program.
    Differ,
}

variants! {
    ReplicaStage: "stage of replicas" {
        0 = Opening { open_by },
        1 = Agreed { deliver_by },
        2 = Differ {},
    }
}

impl ReplicaStage {
    /// The name that users read.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Opening { .. } => "the members open what they sealed",
            Self::Agreed { .. } => "all members found the same",
            Self::Differ => "the members differ: every validator runs the program",
        }
    }
}

/// Where a lease stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeasePhase {
    /// It lives: collateral and gas are locked.
    Live(LeaseProgress),
    /// It ended.
    Ended {
        /// How far the provider had come.
        reached: LeaseProgress,
        /// How it ended.
        end: LeaseEnd,
        /// When it ended.
        at: TimestampMs,
        /// What of the collateral is still locked: the penalty of a declined lease that waits for an answer.
        penalty: Amount,
    },
}

variants! {
    LeasePhase: "lease phase" {
        0 = Live(progress),
        1 = Ended { reached, end, at, penalty },
    }
}

/// The place of a lease among those of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GangRole {
    /// The lease whose receipt is the job's.
    Leads {
        /// Leases of the other members; empty if the job has one machine.
        members: Vec<LeaseId>,
    },
    /// Another member of a gang.
    Follows {
        /// The lease that leads.
        lead: LeaseId,
    },
}

variants! {
    GangRole: "gang role" {
        0 = Leads { members: seq("members", MEMBERS_MAX, 32) },
        1 = Follows { lead },
    }
}

/// A match of a job with an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The lease.
    pub id: LeaseId,
    /// The job.
    pub job: JobId,
    /// The offer.
    pub offer: OfferId,
    /// Whose offer it was.
    pub provider: Address,
    /// What the provider is paid if its result is accepted.
    pub price: Amount,
    /// What the provider put up.
    pub collateral: Amount,
    /// What of it is lost if the provider starts and is late or gone; all of it is lost for a wrong result.
    pub at_risk: Amount,
    /// What the provider put up for the gas of its transactions; settled at the end.
    pub gas: Amount,
    /// When the match was made.
    pub matched_at: TimestampMs,
    /// In which block the match was made.
    pub matched_height: Height,
    /// Until when it must be started.
    pub start_by: TimestampMs,
    /// Until when receipt and evidence must be in.
    pub deadline: TimestampMs,
    /// Where it stands.
    pub phase: LeasePhase,
    /// What it holds of the offer's machine.
    pub grant: Grant,
    /// For whom it must make room, if it has no receipt by then.
    pub preemption: Option<Preemption>,
    /// Its place among the leases of its job.
    pub role: GangRole,
    /// How validators check its result, if its job is of mode `sync` or `optimistic` and it has one.
    pub check: Option<SyncCheck>,
    /// What it counts, if its job is an endpoint.
    pub meter: Option<EndpointMeter>,
    /// Where the members stand, if it leads a job of mode `replicate` whose members have sealed what they found.
    pub replicas: Option<ReplicaStage>,
    /// The session key that answers for its collateral, if one served it.
    pub session: Option<SessionRisk>,
    /// Where the key of its job is, if that is sealed; while it lives.
    pub sealing: Option<Box<Sealing>>,
}

fields! {
    Lease {
        id,
        job,
        offer,
        provider,
        price,
        collateral,
        at_risk,
        gas,
        matched_at,
        matched_height,
        start_by,
        deadline,
        phase,
        grant,
        preemption,
        role,
        check,
        meter,
        replicas,
        session,
        sealing,
    }
}

/// A lease would take a step that does not follow from where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("lease {lease} cannot take this step from where it stands")]
pub struct BadLeaseStep {
    /// The lease.
    pub lease: LeaseId,
}

impl LeaseProgress {
    /// When the provider started.
    #[must_use]
    pub const fn started_at(&self) -> Option<TimestampMs> {
        match self {
            Self::Waiting => None,
            Self::Running { started_at }
            | Self::Sealed { started_at, .. }
            | Self::Committed { started_at, .. }
            | Self::Verifying { started_at, .. }
            | Self::Delivering { started_at, .. } => Some(*started_at),
        }
    }

    /// What the provider committed to.
    #[must_use]
    pub const fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Waiting | Self::Running { .. } | Self::Sealed { .. } => None,
            Self::Committed { receipt, .. }
            | Self::Verifying { receipt, .. }
            | Self::Delivering { receipt, .. } => Some(receipt),
        }
    }

    /// The evidence that the provider named.
    #[must_use]
    pub const fn evidence(&self) -> Option<Evidence> {
        match self {
            Self::Verifying { evidence, .. } => Some(*evidence),
            Self::Waiting
            | Self::Running { .. }
            | Self::Sealed { .. }
            | Self::Committed { .. }
            | Self::Delivering { .. } => None,
        }
    }
}

impl Lease {
    /// How far the provider came: so far, or before the end.
    #[must_use]
    pub const fn progress(&self) -> &LeaseProgress {
        match &self.phase {
            LeasePhase::Live(progress) => progress,
            LeasePhase::Ended { reached, .. } => reached,
        }
    }

    /// When the provider started.
    #[must_use]
    pub const fn started_at(&self) -> Option<TimestampMs> {
        self.progress().started_at()
    }

    /// What the provider committed to.
    #[must_use]
    pub const fn receipt(&self) -> Option<&Receipt> {
        self.progress().receipt()
    }

    /// The evidence that the provider named.
    #[must_use]
    pub const fn evidence(&self) -> Option<Evidence> {
        self.progress().evidence()
    }

    /// Until when validators wait for its evidence, while they do.
    #[must_use]
    pub const fn verify_by(&self) -> Option<TimestampMs> {
        match &self.phase {
            LeasePhase::Live(LeaseProgress::Verifying { verify_by, .. }) => Some(*verify_by),
            LeasePhase::Live(_) | LeasePhase::Ended { .. } => None,
        }
    }

    /// Until when validators wait for its answer, and who states that they hold it, while they do.
    #[must_use]
    pub const fn delivery(&self) -> Option<(TimestampMs, &Storage)> {
        match &self.phase {
            LeasePhase::Live(LeaseProgress::Delivering {
                deliver_by,
                storage,
                ..
            }) => Some((*deliver_by, storage)),
            LeasePhase::Live(_) | LeasePhase::Ended { .. } => None,
        }
    }

    /// Who stated that they hold its answer, once it was paid for that.
    #[must_use]
    pub const fn delivered(&self) -> Option<&Storage> {
        match &self.phase {
            LeasePhase::Ended {
                reached: LeaseProgress::Delivering { storage, .. },
                end: LeaseEnd::Fulfilled,
                ..
            } => Some(storage),
            LeasePhase::Live(_) | LeasePhase::Ended { .. } => None,
        }
    }

    /// Who holds the file that validators have to hold before its job goes on, or its answer that was delivered.
    pub(crate) const fn storage_mut(&mut self) -> Option<&mut Storage> {
        match (&mut self.phase, &mut self.check) {
            (
                LeasePhase::Live(LeaseProgress::Delivering { storage, .. })
                | LeasePhase::Ended {
                    reached: LeaseProgress::Delivering { storage, .. },
                    ..
                },
                _,
            ) => Some(storage),
            (_, Some(check)) => check.stage.storage_mut(),
            _ => None,
        }
    }

    /// How it ended; `None` while it lives.
    #[must_use]
    pub const fn end(&self) -> Option<&LeaseEnd> {
        match &self.phase {
            LeasePhase::Live(_) => None,
            LeasePhase::Ended { end, .. } => Some(end),
        }
    }

    /// When it ended; `None` while it lives.
    #[must_use]
    pub const fn ended_at(&self) -> Option<TimestampMs> {
        match &self.phase {
            LeasePhase::Live(_) => None,
            LeasePhase::Ended { at, .. } => Some(*at),
        }
    }

    /// What of its collateral is locked: all of it while it lives, then a penalty that waits for an answer.
    #[must_use]
    pub const fn locked(&self) -> Amount {
        match &self.phase {
            LeasePhase::Live(_) => self.collateral,
            LeasePhase::Ended { penalty, .. } => *penalty,
        }
    }

    /// What is locked for the gas of its transactions: nothing after the end.
    #[must_use]
    pub const fn gas_locked(&self) -> Amount {
        match &self.phase {
            LeasePhase::Live(_) => self.gas,
            LeasePhase::Ended { .. } => Amount::ZERO,
        }
    }

    /// What is held of the fees of those who challenge its result, until their disputes are decided.
    #[must_use]
    pub fn held(&self) -> Amount {
        let dispute = self.check.as_ref().and_then(|it| it.stage.tile_dispute());
        dispute.map_or(Amount::ZERO, |it| it.held)
    }

    /// Leases of the other members of its gang, if it leads one.
    #[must_use]
    pub fn members(&self) -> &[LeaseId] {
        match &self.role {
            GangRole::Leads { members } => members,
            GangRole::Follows { .. } => &[],
        }
    }

    /// The lease that leads its gang, if it follows one.
    #[must_use]
    pub const fn lead(&self) -> Option<LeaseId> {
        match &self.role {
            GangRole::Leads { .. } => None,
            GangRole::Follows { lead } => Some(*lead),
        }
    }

    /// Whether other leases of its job are to start with it.
    pub(crate) fn is_of_gang(&self) -> bool {
        self.lead().is_some() || !self.members().is_empty()
    }

    /// Whether it serves an endpoint that its requestor took back.
    #[must_use]
    pub fn is_taken_back(&self) -> bool {
        self.meter.is_some_and(|it| it.ends_at.is_some())
    }

    /// The key of its sealed job as it was granted to its provider, and when.
    #[must_use]
    pub fn granted(&self) -> Option<(&KeyGrant, TimestampMs)> {
        self.sealing.as_ref()?.stage.grant()
    }

    /// The key of its sealed job, if its requestor showed it.
    #[must_use]
    pub fn revealed(&self) -> Option<&[u8; 32]> {
        self.sealing.as_ref()?.stage.secret()
    }

    /// Takes note that its provider started.
    pub(crate) fn start(&mut self, at: TimestampMs) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(LeaseProgress::Waiting) = self.phase else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Live(LeaseProgress::Running { started_at: at });
        Ok(())
    }

    /// Whether its provider sealed or committed to a result.
    #[must_use]
    pub(crate) const fn has_result(&self) -> bool {
        match self.progress() {
            LeaseProgress::Waiting | LeaseProgress::Running { .. } => false,
            LeaseProgress::Sealed { .. }
            | LeaseProgress::Committed { .. }
            | LeaseProgress::Verifying { .. }
            | LeaseProgress::Delivering { .. } => true,
        }
    }

    /// Takes note of the result that its provider seals.
    pub(crate) fn seal(&mut self, seal: Digest) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(LeaseProgress::Running { started_at }) = self.phase else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Live(LeaseProgress::Sealed { started_at, seal });
        Ok(())
    }

    /// Takes note of what its provider had sealed.
    pub(crate) fn open(&mut self, receipt: Receipt) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(LeaseProgress::Sealed { started_at, .. }) = self.phase else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Live(LeaseProgress::Committed {
            started_at,
            receipt,
        });
        Ok(())
    }

    /// Takes note of what its provider commits to.
    pub(crate) fn commit(&mut self, receipt: Receipt) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(LeaseProgress::Running { started_at }) = self.phase else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Live(LeaseProgress::Committed {
            started_at,
            receipt,
        });
        Ok(())
    }

    /// Takes note of the evidence that its provider names; validators wait for it until `verify_by`.
    pub(crate) fn name_evidence(
        &mut self,
        evidence: Evidence,
        verify_by: TimestampMs,
    ) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(LeaseProgress::Committed {
            started_at,
            receipt,
        }) = &self.phase
        else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Live(LeaseProgress::Verifying {
            started_at: *started_at,
            receipt: receipt.clone(),
            evidence,
            verify_by,
        });
        Ok(())
    }

    /// Takes note that validators fetch its answer; they wait for it until `deliver_by`.
    pub(crate) fn deliver(&mut self, deliver_by: TimestampMs) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(
            LeaseProgress::Committed {
                started_at,
                receipt,
            }
            | LeaseProgress::Verifying {
                started_at,
                receipt,
                ..
            },
        ) = &self.phase
        else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Live(LeaseProgress::Delivering {
            started_at: *started_at,
            receipt: receipt.clone(),
            storage: Storage::default(),
            deliver_by,
        });
        Ok(())
    }

    /// Ends it; of its collateral `penalty` stays locked.
    pub(crate) fn close(
        &mut self,
        end: LeaseEnd,
        at: TimestampMs,
        penalty: Amount,
    ) -> Result<(), BadLeaseStep> {
        let LeasePhase::Live(reached) = &self.phase else {
            return Err(self.bad_step());
        };
        self.phase = LeasePhase::Ended {
            reached: reached.clone(),
            end,
            at,
            penalty,
        };
        // It is long, and nobody needs it any more.
        self.sealing = None;
        Ok(())
    }

    const fn bad_step(&self) -> BadLeaseStep {
        BadLeaseStep { lease: self.id }
    }
}

/// The name of the next lease of a job that waits, or of another member of its gang.
pub(crate) fn lease_id(job: &Job, member: u16) -> LeaseId {
    let mut bytes = job.id.as_bytes().to_vec();
    bytes.extend_from_slice(&(job.earlier.len() as u64).to_be_bytes());
    if member > 0 {
        bytes.extend_from_slice(&member.to_be_bytes());
    }
    LeaseId::new(keccak256_of(Domain::Lease, &bytes))
}

impl Record for Lease {
    type Key = LeaseId;
    const KIND: u8 = kind::LEASE;
    const NAME: &'static str = "leases";
    const MONEY_KIND: Option<u8> = Some(kind::COLLATERAL);

    fn key(&self) -> LeaseId {
        self.id
    }

    fn head(&self) -> LeafHead {
        LeafHead {
            state: u8::from(self.end().is_some()),
            ..LeafHead::of(Self::KIND, self.provider)
        }
    }

    fn money_head(&self) -> Option<LeafHead> {
        let locked = self.locked();
        (!locked.is_zero()).then(|| LeafHead {
            amount: locked,
            ..LeafHead::of(kind::COLLATERAL, self.provider)
        })
    }

    fn money(&self) -> Amount {
        let own = self.locked().saturating_add(self.gas_locked());
        own.saturating_add(self.held())
    }
}
