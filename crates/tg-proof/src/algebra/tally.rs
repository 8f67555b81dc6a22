//! What a run of the checks notes of itself: the shapes of messages, what is drawn, and what is computed.

use crate::algebra::field::EXTENSION_DEGREE;
use crate::algebra::tape::Secrets;

/// Bytes of an extension element in a proof.
const ELEMENT: u64 = 4 * EXTENSION_DEGREE as u64;
/// Bytes of a list's length.
const LENGTH: u64 = 4;

/// How many parts of each kind some messages have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MessageSize {
    /// Extension elements.
    pub elements: u64,
    /// Lengths of lists.
    pub lengths: u64,
    /// Tags of variants and options.
    pub tags: u64,
}

impl MessageSize {
    /// What came after some of it.
    #[must_use]
    pub const fn after(self, first: Self) -> Self {
        Self {
            elements: self.elements - first.elements,
            lengths: self.lengths - first.lengths,
            tags: self.tags - first.tags,
        }
    }

    /// Bytes of the messages.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.elements * ELEMENT + self.lengths * LENGTH + self.tags
    }
}

/// What a challenge shows, and where the bound of its error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theorem {
    /// The point at which the output is compared.
    OutputPoint,
    /// Several claims on one tensor are one.
    Merge,
    /// A product of matrices.
    Products,
    /// Another sum.
    Sum,
    /// Polynomials that agree at a point agree.
    Identities,
    /// What readers pulled is what their tables give, and their columns lie in these.
    Readers,
    /// All readers of a table are one.
    ReaderBatching,
    /// Poles of tables.
    Poles,
    /// A fractional sum.
    Fractions,
    /// All claims on committed pushforwards are one, and its sum.
    Pushforwards,
    /// The opening of a tensor's commitment.
    TensorCommitments,
    /// The public part of a tensor that is committed.
    PublicParts,
}

impl Theorem {
    /// What is shown by it.
    #[must_use]
    pub const fn what(self) -> &'static str {
        match self {
            Self::OutputPoint => "output point",
            Self::Merge => "claim merge",
            Self::Products => "products",
            Self::Sum => "sums",
            Self::Identities => "identities",
            Self::Readers => "readers",
            Self::ReaderBatching => "reader batching",
            Self::Poles => "table poles",
            Self::Fractions => "fractional sum",
            Self::Pushforwards => "pushforwards",
            Self::TensorCommitments => "tensor commitments",
            Self::PublicParts => "public inputs beside hidden ones",
        }
    }

    /// Where it stands.
    #[must_use]
    pub const fn source(self) -> &'static str {
        match self {
            Self::OutputPoint | Self::Identities | Self::ReaderBatching | Self::PublicParts => {
                "Schwartz-Zippel"
            }
            Self::Merge | Self::Sum => "sumcheck, LFKN 1992",
            Self::Products => "sumcheck; Thaler 2013, section 4.4",
            Self::Readers => "Schwartz-Zippel, pulled values and columns within their tables",
            Self::Poles => "logUp, ePrint 2022/1530, lemma 5",
            Self::Fractions => "GKR, ePrint 2023/1284",
            Self::Pushforwards => "Schwartz-Zippel and sumcheck, LFKN 1992",
            Self::TensorCommitments => "Schwartz-Zippel; Ring-SIS is assumed",
        }
    }
}

/// Which commitments are absorbed when something is drawn: each leaves a few polynomials open, and an error counts once for
/// every choice of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// The witness.
    pub witness: bool,
    /// The weights.
    pub weights: bool,
    /// The pushforwards.
    pub pushforwards: bool,
}

/// What may pass at what was drawn at one place for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawCharge {
    /// The place: a node, or what is beside the nodes.
    pub place: usize,
    /// What bounds it.
    pub theorem: Theorem,
    /// The commitments over whose candidates it counts.
    pub open: Open,
    /// Degree of the polynomial that would have to vanish at what is drawn.
    pub degree: u64,
}

/// What a public computation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublicWork {
    /// Steps in the extension field.
    pub steps: u64,
    /// Extension elements held at once.
    pub held: u64,
}

impl PublicWork {
    /// `eq` of two points, or a prefix of a hypercube at a point.
    pub const EQ: Self = Self::steps(64);

    /// Steps alone.
    #[must_use]
    pub const fn steps(steps: u64) -> Self {
        Self { steps, held: 0 }
    }

    /// Tables of so many entries, each filled in one step.
    #[must_use]
    pub const fn tables(entries: u64) -> Self {
        Self {
            steps: entries,
            held: entries,
        }
    }

    /// This and another one.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            steps: self.steps.saturating_add(other.steps),
            held: self.held.saturating_add(other.held),
        }
    }
}

/// What the checks of all proofs of a plan receive, draw and multiply, from a run without a proof.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WalkCount {
    /// Pads and triples of a proof in zero knowledge.
    pub secrets: Secrets,
    /// Messages of the nodes.
    pub nodes: MessageSize,
    /// Messages after them, up to the openings; without pushforwards that are sent.
    pub rest: MessageSize,
    /// What was drawn.
    pub charges: Vec<DrawCharge>,
}

/// What a run has noted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// All messages.
    pub size: MessageSize,
    /// All that was drawn.
    pub charges: Vec<DrawCharge>,
    /// Per place what was computed.
    pub work: Vec<PublicWork>,
    place: usize,
    open: Open,
}

impl Tally {
    /// Of a run with so many places, which stands at the first.
    #[must_use]
    pub fn new(places: usize, open: Open) -> Self {
        Self {
            work: vec![PublicWork::default(); places],
            open,
            ..Self::default()
        }
    }

    /// What is noted from now on is of a place.
    pub const fn come_to(&mut self, place: usize) {
        self.place = place;
    }

    /// The pushforwards are committed from now on.
    pub const fn commit_pushforwards(&mut self) {
        self.open.pushforwards = true;
    }

    /// Notes a draw, or an identity at what is drawn already.
    pub fn charge(&mut self, theorem: Theorem, degree: usize) {
        let Self {
            charges,
            place,
            open,
            ..
        } = self;
        let mut own = charges.iter_mut().rev();
        let mut own = own.by_ref().take_while(|charge| charge.place == *place);
        match own.find(|charge| charge.theorem == theorem && charge.open == *open) {
            Some(charge) => charge.degree += degree as u64,
            None if degree > 0 => charges.push(DrawCharge {
                place: *place,
                theorem,
                open: *open,
                degree: degree as u64,
            }),
            None => {}
        }
    }

    /// Notes messages.
    pub const fn send(&mut self, elements: usize, lengths: usize) {
        self.size.elements += elements as u64;
        self.size.lengths += lengths as u64;
    }

    /// Notes tags.
    pub const fn tag(&mut self, tags: u64) {
        self.size.tags += tags;
    }

    /// Notes a public computation.
    pub fn compute(&mut self, work: PublicWork) {
        if let Some(own) = self.work.get_mut(self.place) {
            *own = own.and(work);
        }
    }
}
