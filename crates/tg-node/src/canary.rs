//! Deliberate mistakes with which tests show that the simulator's checks find them. They exist only with the feature
//! `canary`; without it none can be switched on, and the query for one is a constant.

/// A mistake of a validator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCanary {
    /// A notarized block is taken for final.
    NotarizedIsFinal,
    /// The snapshot that is written is old, and is started from unchecked.
    StaleSnapshot,
    /// After a change of the set those of the set before go on to vote.
    OldSet,
}

#[cfg(feature = "canary")]
thread_local! {
    static ARMED: std::cell::Cell<Option<NodeCanary>> = const { std::cell::Cell::new(None) };
}

/// Makes a mistake on this thread from now on, or none.
#[cfg(feature = "canary")]
pub fn arm(canary: Option<NodeCanary>) {
    ARMED.set(canary);
}

/// Whether a mistake is to be made.
#[cfg(feature = "canary")]
pub(crate) fn is_armed(canary: NodeCanary) -> bool {
    ARMED.get() == Some(canary)
}

/// Whether a mistake is to be made: never.
#[cfg(not(feature = "canary"))]
pub(crate) const fn is_armed(_: NodeCanary) -> bool {
    false
}
