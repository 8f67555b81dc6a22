//! Which parts a proof has: a program without weights has no opening of weights, and one that commits nothing of its
//! execution has neither witness nor lookup argument.
//!
//! Both follow from the public model, so that a proof has no choice. That a part is missing is absorbed, never a root of
//! nothing.

/// How weights or the witness are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// There are none.
    Absent,
    /// By commitments that are opened.
    Committed,
}

impl Part {
    /// Committed, if there is something to commit.
    #[must_use]
    pub const fn of(there: bool) -> Self {
        if there { Self::Committed } else { Self::Absent }
    }

    /// Whether there are commitments.
    #[must_use]
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Committed)
    }

    /// The byte that the transcript absorbs.
    const fn tag(self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Committed => 1,
        }
    }
}

/// The parts of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// How the weights are bound.
    pub weights: Part,
    /// How the columns of the execution are bound; without them there is no lookup argument.
    pub witness: Part,
}

impl Parts {
    /// Both committed: what every proof had before programs without one of them could be proved.
    pub const ALL: Self = Self {
        weights: Part::Committed,
        witness: Part::Committed,
    };

    /// What the transcript absorbs of them; nothing if both are committed.
    #[must_use]
    pub fn tags(self) -> Option<[u8; 2]> {
        (self != Self::ALL).then(|| [self.weights.tag(), self.witness.tag()])
    }
}
