//! How the provider of a lease gets the key of a sealed job ([ADR 43]).
//!
//! ```text
//!  AwaitsKey ──GrantKey──► Granted ──StartLease──► runs as any lease; RevealKey while its result may be challenged: Revealed
//!      │                      │ DeclineLease (key)
//!      │ in time nothing      ▼
//!      └───► the job ends  Questioned ──RevealKey──► Revealed ──► the lease ends against whoever was wrong
//!                 ▲           │ in time nothing
//!                 └───────────┘
//! ```
//!
//! [ADR 43]: https://github.com/tensorgrid/tensorgrid/blob/main/docs/adr/0043-sealed-jobs.md

use tg_types::{DurationMs, KeyGrant, SealingPublicKey, TimestampMs, fields, variants};

/// What a lease of a sealed job has while it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealing {
    /// The provider's sealing key when the match was made: another one that it registers later is for later leases.
    pub key: SealingPublicKey,
    /// The time that the offer declared when the match was made: what it declares later, or that it is taken back, changes nothing here.
    pub declared: DurationMs,
    /// Where the key of the job is.
    pub stage: SealingStage,
}

/// Where the key of a sealed job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SealingStage {
    /// The requestor has it.
    AwaitsKey,
    /// The provider has it too.
    Granted {
        /// What was granted.
        grant: KeyGrant,
        /// When.
        at: TimestampMs,
    },
    /// The provider says that what was granted does not open the input; the requestor may show the key.
    Questioned {
        /// What was granted.
        grant: KeyGrant,
        /// When.
        at: TimestampMs,
        /// Until when the requestor may show the key.
        until: TimestampMs,
    },
    /// The requestor showed the key: validators look at the grant, or at the result if there is one.
    Revealed {
        /// What was granted.
        grant: KeyGrant,
        /// When.
        at: TimestampMs,
        /// The key.
        secret: [u8; 32],
    },
}

fields! { Sealing { key, declared, stage } }

variants! {
    SealingStage: "stage of a key" {
        0 = AwaitsKey {},
        1 = Granted { grant, at },
        2 = Questioned { grant, at, until },
        3 = Revealed { grant, at, secret },
    }
}

impl SealingStage {
    /// What was granted, and when.
    #[must_use]
    pub const fn grant(&self) -> Option<(&KeyGrant, TimestampMs)> {
        match self {
            Self::AwaitsKey => None,
            Self::Granted { grant, at }
            | Self::Questioned { grant, at, .. }
            | Self::Revealed { grant, at, .. } => Some((grant, *at)),
        }
    }

    /// The key that the requestor showed.
    #[must_use]
    pub const fn secret(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Revealed { secret, .. } => Some(secret),
            Self::AwaitsKey | Self::Granted { .. } | Self::Questioned { .. } => None,
        }
    }

    /// The name that users read.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::AwaitsKey => "waits for the key of its job",
            Self::Granted { .. } => "has the key of its job",
            Self::Questioned { .. } => "its provider says that the key does not open the input",
            Self::Revealed { .. } => "the key was shown to everybody, and validators look",
        }
    }
}
