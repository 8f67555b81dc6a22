//! Mistakes that are made on purpose, each of which the checks must find: else a run without a violation says nothing.
//!
//! Two are made outside the code under test and are always here; the others are lines of ledger and validator that exist with the
//! feature `canary` only, which nothing but `cargo xtask nightly canaries` turns on.

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canary {
    /// A disk says that votes are synced and loses the newest ones in a power cut: they were sent before they were durable.
    VoteBeforeDurable,
    /// `2 f` votes are enough: of `3 f + 1` seats as many sign for each of two sides that do not hear each other.
    QuorumOfTwoFaults,
    /// A notarized block is taken for final.
    #[cfg(feature = "canary")]
    NotarizedIsFinal,
    /// A validator starts from whatever snapshot it finds, and it is an old one.
    #[cfg(feature = "canary")]
    StaleSnapshot,
    /// Whoever ordered a job that is paid gets its escrow back too.
    #[cfg(feature = "canary")]
    RefundAndPay,
    /// `f` statements are enough for an input to count as held.
    #[cfg(feature = "canary")]
    ReceiptQuorumOfFaults,
    /// What is late ends before the transactions of the block.
    #[cfg(feature = "canary")]
    TimeoutFirst,
    /// A committee votes on an opening that no quorum holds.
    #[cfg(feature = "canary")]
    VoteWithoutOpening,
    /// Half of a committee is enough.
    #[cfg(feature = "canary")]
    HalfCommittee,
    /// A false accusation costs nothing.
    #[cfg(feature = "canary")]
    FreeAccusation,
    /// Tiles are drawn by the seed of the block before the receipt's.
    #[cfg(feature = "canary")]
    EarlySeed,
    /// A vote for right counts whatever its member computed.
    #[cfg(feature = "canary")]
    AnyChecksum,
    /// A result is accepted because somebody claimed something wrong of it.
    #[cfg(feature = "canary")]
    FailedClaimAccepts,
    /// After a change of the set those of the set before go on to vote.
    #[cfg(feature = "canary")]
    OldSet,
    /// An answer that nobody checks is paid before a quorum holds it.
    #[cfg(feature = "canary")]
    PaidBeforeHeld,
    /// One validator that says at once that it does not get a file is enough to charge who keeps it.
    #[cfg(feature = "canary")]
    MissingOfOne,
    /// A bond is returned an epoch too early.
    #[cfg(feature = "canary")]
    ShortUnbonding,
    /// An account that is opened again takes what was signed for it before it was removed.
    #[cfg(feature = "canary")]
    NoncesFromZero,
}

impl Canary {
    /// All that this build can make.
    pub const ALL: &[Self] = &[
        Self::VoteBeforeDurable,
        Self::QuorumOfTwoFaults,
        #[cfg(feature = "canary")]
        Self::NotarizedIsFinal,
        #[cfg(feature = "canary")]
        Self::StaleSnapshot,
        #[cfg(feature = "canary")]
        Self::RefundAndPay,
        #[cfg(feature = "canary")]
        Self::ReceiptQuorumOfFaults,
        #[cfg(feature = "canary")]
        Self::TimeoutFirst,
        #[cfg(feature = "canary")]
        Self::VoteWithoutOpening,
        #[cfg(feature = "canary")]
        Self::HalfCommittee,
        #[cfg(feature = "canary")]
        Self::FreeAccusation,
        #[cfg(feature = "canary")]
        Self::EarlySeed,
        #[cfg(feature = "canary")]
        Self::AnyChecksum,
        #[cfg(feature = "canary")]
        Self::FailedClaimAccepts,
        #[cfg(feature = "canary")]
        Self::OldSet,
        #[cfg(feature = "canary")]
        Self::PaidBeforeHeld,
        #[cfg(feature = "canary")]
        Self::MissingOfOne,
        #[cfg(feature = "canary")]
        Self::ShortUnbonding,
        #[cfg(feature = "canary")]
        Self::NoncesFromZero,
    ];
}

/// Makes a mistake, or none, on this thread from now on.
pub(crate) fn arm(canary: Option<Canary>) {
    #[cfg(feature = "canary")]
    {
        use Canary as C;
        use tg_ledger::canary::LedgerCanary as Ledger;
        use tg_node::canary::NodeCanary as Node;
        tg_ledger::canary::arm(match canary {
            Some(C::RefundAndPay) => Some(Ledger::RefundAndPay),
            Some(C::ReceiptQuorumOfFaults) => Some(Ledger::ReceiptQuorumOfFaults),
            Some(C::TimeoutFirst) => Some(Ledger::TimeoutFirst),
            Some(C::VoteWithoutOpening) => Some(Ledger::VoteWithoutOpening),
            Some(C::HalfCommittee) => Some(Ledger::HalfCommittee),
            Some(C::FreeAccusation) => Some(Ledger::FreeAccusation),
            Some(C::EarlySeed) => Some(Ledger::EarlySeed),
            Some(C::AnyChecksum) => Some(Ledger::AnyChecksum),
            Some(C::FailedClaimAccepts) => Some(Ledger::FailedClaimAccepts),
            Some(C::PaidBeforeHeld) => Some(Ledger::PaidBeforeHeld),
            Some(C::MissingOfOne) => Some(Ledger::MissingOfOne),
            Some(C::ShortUnbonding) => Some(Ledger::ShortUnbonding),
            Some(C::NoncesFromZero) => Some(Ledger::NoncesFromZero),
            _ => None,
        });
        tg_node::canary::arm(match canary {
            Some(C::NotarizedIsFinal) => Some(Node::NotarizedIsFinal),
            Some(C::StaleSnapshot) => Some(Node::StaleSnapshot),
            Some(C::OldSet) => Some(Node::OldSet),
            _ => None,
        });
    }
    #[cfg(not(feature = "canary"))]
    let _: Option<Canary> = canary;
}
