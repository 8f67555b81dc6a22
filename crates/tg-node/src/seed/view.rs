//! The inputs and effects of the seed machine.

use commonware_p2p::Recipients;

use crate::peers::Peer;
use crate::wire::SeedMessage;

/// What the final state says about the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedView {
    /// The round of key generation. Rounds only grow, those that failed included.
    pub round: u64,
    /// The consensus keys of its participants, each once; their order says nothing.
    pub participants: Vec<[u8; 32]>,
    /// How far the round is.
    pub phase: SeedPhase,
    /// Heights that are final and whose seeds are asked for, lowest first.
    pub wanted: Vec<u64>,
}

/// How far a round is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeedPhase {
    /// Dealers make their logs and post them.
    Dealing {
        /// The participants whose logs are in the state.
        dealt: Vec<[u8; 32]>,
    },
    /// The list of logs is closed and makes a key.
    Ready {
        /// The key that [`key_of_dealings`](super::key_of_dealings) gives.
        key: [u8; 96],
        /// The logs, in the order of the state. They are read once in a round, and in the first view after a start: later
        /// views may leave them out.
        dealings: Vec<Vec<u8>>,
    },
}

/// What the machine wants done, in this order.
#[derive(Debug, Clone)]
pub enum SeedEffect {
    /// Send a message on the channel of seeds.
    Send(Recipients<Peer>, SeedMessage),
    /// Write these bytes, in place of those kept before, and only then send what follows. They are secret.
    Keep(Vec<u8>),
    /// A message of a peer was dropped.
    Refuse(Peer, SeedRefusal),
}

/// Why a message was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SeedRefusal {
    /// It is of a round that is not the current one here.
    #[error("message of round {theirs}, and the round here is {ours:?}")]
    OtherRound {
        /// The round here, if there is one.
        ours: Option<u64>,
        /// That of the message.
        theirs: u64,
    },
    /// Its sender has no part in the round.
    #[error("the sender has no part in the round")]
    Outsider,
    /// A dealing that is none: not points and a scalar, another degree, or a share beside the polynomial.
    #[error("the dealing is not valid")]
    Dealing,
    /// A dealing that differs from one of the same dealer which was acknowledged.
    #[error("second dealing of one dealer")]
    SecondDealing,
    /// The signature of an acknowledgement is not that of its sender over what this validator dealt.
    #[error("the acknowledgement is not valid")]
    Acknowledgement,
    /// A partial signature is not that of its sender over the height.
    #[error("the partial signature of height {height} is not valid")]
    Partial {
        /// The height.
        height: u64,
    },
}

impl SeedRefusal {
    /// Whether no honest validator sends such a message, as far as the receiver can tell: another round or a seat in an
    /// older set are honest delays, and a second dealing is what a validator sends that lost its disk.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        match self {
            Self::OtherRound { .. } | Self::Outsider | Self::SecondDealing => false,
            Self::Dealing | Self::Acknowledgement | Self::Partial { .. } => true,
        }
    }
}

/// What a validator has of the key of its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeedStanding {
    /// There is no round, or it has no part in it.
    Outside,
    /// The list of logs is open, and it deals or has dealt.
    Dealing,
    /// The list is open, and it does not deal: its disk does not say whether it did already. It deals in the next round.
    Watching,
    /// It has its share and signs.
    Holding,
    /// The key is there without a share of this validator: it signs nothing in this round, and recovers what others sign.
    Without(NoShare),
}

/// Why a validator has no share of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoShare {
    /// It acknowledged dealings that are not on its disk any more.
    #[error("dealings that this validator acknowledged are not on its disk")]
    Lost,
    /// The logs of the state do not give the key of the state: more than f validators err or lie, or this one does.
    #[error("the state's dealings do not make the state's key")]
    OtherKey,
}
