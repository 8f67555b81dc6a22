//! A dispute that ends at one tile (of float models at one node, of programs at one call): the files that accuser and provider
//! have submitted so far.
//!
//! ```text
//!  Claiming ──► Claimed ──► Answering ──► Answered ──► Judged ──► the accuser was wrong: the next one, or the vote goes on
//!  (accuser)    (n - f       (provider)    (n - f        │
//!               hold it)                   hold it)      └─────► the provider was wrong
//!     └────────────┴──► the accuser was wrong  └───────────────► the provider was wrong
//! ```
//! Each of the first four has a time limit, after which the side whose turn it is loses.

use tg_types::{Address, Amount, TimestampMs, fields, variants};

use crate::limits::CHALLENGERS_WAITING_MAX;
use crate::record::{Evidence, Storage};

/// A dispute about a run that is too much for every validator to run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileDispute {
    /// Where it stands.
    pub step: DisputeStep,
    /// Until when somebody has to do something; without effect once it is judged.
    pub until: TimestampMs,
    /// Of the fees of those who challenge what is the provider's if they are wrong.
    pub held: Amount,
    /// Who challenged meanwhile, the first one first: each has a dispute of its own if the ones before were wrong.
    pub waiting: Vec<Address>,
}

/// Where a dispute stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisputeStep {
    /// The accuser submits its claim: what a right run gives.
    Claiming,
    /// Validators fetch that.
    Claimed {
        /// The claim.
        claim: Evidence,
        /// Who holds it.
        storage: Storage,
    },
    /// The provider shows where the claim is wrong.
    Answering {
        /// The claim.
        claim: Evidence,
    },
    /// Validators fetch that.
    Answered {
        /// The claim.
        claim: Evidence,
        /// The answer.
        answer: Evidence,
        /// Who holds the answer.
        storage: Storage,
    },
    /// Every validator computes one tile, or node.
    Judged {
        /// The claim.
        claim: Evidence,
        /// The answer.
        answer: Evidence,
    },
}

/// Whose turn it is in a dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisputeTurn {
    /// Of whoever accused.
    Accuser,
    /// Of the provider.
    Provider,
    /// Of the validators.
    Validators,
}

fields! {
    TileDispute {
        step,
        until,
        held,
        waiting: seq("waiting challengers", CHALLENGERS_WAITING_MAX, 20),
    }
}

variants! {
    DisputeStep: "step of a dispute" {
        0 = Claiming {},
        1 = Claimed { claim, storage },
        2 = Answering { claim },
        3 = Answered { claim, answer, storage },
        4 = Judged { claim, answer },
    }
}

impl DisputeStep {
    /// Whose turn it is: against whom its time runs.
    #[must_use]
    pub const fn turn(&self) -> DisputeTurn {
        match self {
            Self::Claiming | Self::Claimed { .. } => DisputeTurn::Accuser,
            Self::Answering { .. } | Self::Answered { .. } => DisputeTurn::Provider,
            Self::Judged { .. } => DisputeTurn::Validators,
        }
    }

    /// Whether the side whose turn it is has to submit a file; otherwise validators have to hold the one that was submitted.
    #[must_use]
    pub const fn waits_for_file(&self) -> bool {
        matches!(self, Self::Claiming | Self::Answering { .. })
    }

    /// The file that validators have to hold, and who does.
    #[must_use]
    pub const fn wanted(&self) -> Option<(Evidence, &Storage)> {
        match self {
            Self::Claimed { claim, storage } => Some((*claim, storage)),
            Self::Answered {
                answer, storage, ..
            } => Some((*answer, storage)),
            Self::Claiming | Self::Answering { .. } | Self::Judged { .. } => None,
        }
    }

    /// The claim, once it is named.
    #[must_use]
    pub const fn claim(&self) -> Option<Evidence> {
        match self {
            Self::Claiming => None,
            Self::Claimed { claim, .. }
            | Self::Answering { claim }
            | Self::Answered { claim, .. }
            | Self::Judged { claim, .. } => Some(*claim),
        }
    }

    /// The answer, once it is named.
    #[must_use]
    pub const fn answer(&self) -> Option<Evidence> {
        match self {
            Self::Claiming | Self::Claimed { .. } | Self::Answering { .. } => None,
            Self::Answered { answer, .. } | Self::Judged { answer, .. } => Some(*answer),
        }
    }

    /// Who holds the file that validators have to hold.
    pub(crate) const fn storage_mut(&mut self) -> Option<&mut Storage> {
        match self {
            Self::Claimed { storage, .. } | Self::Answered { storage, .. } => Some(storage),
            Self::Claiming | Self::Answering { .. } | Self::Judged { .. } => None,
        }
    }

    /// The name that users read.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Claiming => "the accuser says what a right run gives",
            Self::Claimed { .. } => "validators fetch the accuser's claim",
            Self::Answering { .. } => "the provider shows where the claim is wrong",
            Self::Answered { .. } => "validators fetch the provider's answer",
            Self::Judged { .. } => "every validator computes the disputed part",
        }
    }
}
