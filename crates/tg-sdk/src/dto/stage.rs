//! Where a job stands, and how a lease ended.

use serde::{Deserialize, Serialize};

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum JobStateDto {
    /// Waits for an offer.
    Queued,
    /// Has a lease that was not started yet.
    Leased,
    /// A provider works on it.
    Running,
    /// A receipt is posted.
    Committed,
    /// Validators check the evidence.
    Verifying,
    /// The result is accepted.
    Accepted,
    /// The provider is paid.
    Paid,
    /// The escrow went back: attempts or deadline ran out.
    Refunded,
    /// Its result is disputed.
    Disputed,
    /// Its deadline passed before any provider took it.
    Expired,
    /// Its requestor took it back.
    Cancelled,
    /// Too few validators hold its input and its model's files.
    Submitted,
    /// A receipt is posted that nobody checks; too few validators hold the answer.
    Delivering,
}

impl JobStateDto {
    /// Whether nothing more will happen to the job.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Paid | Self::Refunded | Self::Expired | Self::Cancelled
        )
    }

    /// The state's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Queued => "queued",
            Self::Leased => "leased",
            Self::Running => "running",
            Self::Committed => "committed",
            Self::Verifying => "verifying",
            Self::Accepted => "accepted",
            Self::Paid => "paid",
            Self::Refunded => "refunded",
            Self::Disputed => "disputed",
            Self::Delivering => "delivering",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for JobStateDto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LeaseEndDto {
    /// Its result was accepted.
    Fulfilled,
    /// Its result was rejected, and its collateral burned.
    Rejected,
    /// It did not finish in time.
    Late,
    /// It was not started in time, its evidence or answer was not delivered, or its provider was lost.
    Abandoned,
    /// It made room for a job that goes first.
    Preempted,
    /// Another member of its gang failed.
    Released,
    /// Its provider declined before it started.
    Declined,
    /// Validators do not hold what it needs any more.
    Unavailable,
    /// The requestor took the job back.
    Cancelled,
    /// The requestor granted no key that opens the input of its sealed job.
    Ungranted,
}

impl std::fmt::Display for LeaseEndDto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Fulfilled => "fulfilled",
            Self::Rejected => "rejected",
            Self::Late => "late",
            Self::Abandoned => "abandoned",
            Self::Preempted => "preempted",
            Self::Released => "released",
            Self::Declined => "declined",
            Self::Unavailable => "unavailable",
            Self::Cancelled => "cancelled",
            Self::Ungranted => "ungranted",
        })
    }
}
