//! Deliberate mistakes with which tests show that the simulator's checks find them. They exist only with the feature
//! `canary`; without it none can be switched on, and the query for one is a constant.

/// A mistake in the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerCanary {
    /// Whoever ordered a job that is paid gets its whole escrow back too.
    RefundAndPay,
    /// `f` statements are enough for files to count as held.
    ReceiptQuorumOfFaults,
    /// What is late ends before the transactions of a block.
    TimeoutFirst,
    /// A committee votes on an opening that no quorum holds.
    VoteWithoutOpening,
    /// Half of a committee is enough.
    HalfCommittee,
    /// A false accusation costs nothing.
    FreeAccusation,
    /// Tiles are drawn by the seed of the block before the receipt's.
    EarlySeed,
    /// A vote for right counts whatever its member computed.
    AnyChecksum,
    /// A result is accepted because somebody claimed something wrong of it.
    FailedClaimAccepts,
    /// An answer that nobody checks is paid before a quorum holds it.
    PaidBeforeHeld,
    /// One validator that says at once that it does not get a file is enough to charge who keeps it.
    MissingOfOne,
    /// A bond is returned an epoch too early.
    ShortUnbonding,
    /// An account that is opened again begins with the nonce of one that never was.
    NoncesFromZero,
}

#[cfg(feature = "canary")]
thread_local! {
    static ARMED: std::cell::Cell<Option<LedgerCanary>> = const { std::cell::Cell::new(None) };
}

/// Makes a mistake on this thread from now on, or none.
#[cfg(feature = "canary")]
pub fn arm(canary: Option<LedgerCanary>) {
    ARMED.set(canary);
}

/// Whether a mistake is to be made.
#[cfg(feature = "canary")]
pub(crate) fn is_armed(canary: LedgerCanary) -> bool {
    ARMED.get() == Some(canary)
}

/// Whether a mistake is to be made: never.
#[cfg(not(feature = "canary"))]
pub(crate) const fn is_armed(_: LedgerCanary) -> bool {
    false
}
