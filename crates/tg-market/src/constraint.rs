//! Why an offer does not fit a job.

/// One thing a job needs and an offer may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Constraint {
    /// The provider does not serve the verification mode.
    Mode = 0,
    /// The job needs more memory than is offered.
    Memory = 1,
    /// The offer asks more than the job's maximum price.
    Price = 2,
    /// The declared speed misses the job's deadline.
    Deadline = 3,
    /// Every slot holds a lease.
    Slots = 4,
    /// The provider cannot lock the collateral it declared.
    Funds = 5,
    /// The provider failed this job before.
    Excluded = 6,
    /// The provider failed lately and gets no leases for a while.
    Suspended = 7,
}

impl Constraint {
    /// Every constraint, in the order of its bit.
    pub const ALL: [Self; 8] = [
        Self::Mode,
        Self::Memory,
        Self::Price,
        Self::Deadline,
        Self::Slots,
        Self::Funds,
        Self::Excluded,
        Self::Suspended,
    ];

    /// The name used in answers to users.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Memory => "memory",
            Self::Price => "price",
            Self::Deadline => "deadline",
            Self::Slots => "slots",
            Self::Funds => "funds",
            Self::Excluded => "excluded",
            Self::Suspended => "suspended",
        }
    }

    /// What it means, as a sentence about the offer.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Mode => "does not serve the job's verification mode",
            Self::Memory => "has less memory than the job needs",
            Self::Price => "asks more than the job's maximum price",
            Self::Deadline => "is too slow for the job's deadline",
            Self::Slots => "has no free slot",
            Self::Funds => "cannot lock the collateral it declared",
            Self::Excluded => "failed this job before",
            Self::Suspended => "is suspended after a failed lease",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl std::fmt::Display for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The constraints that one offer breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ConstraintSet(u8);

impl ConstraintSet {
    /// None broken.
    pub const EMPTY: Self = Self(0);

    /// Whether the offer fits.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `constraint` is broken.
    #[must_use]
    pub const fn contains(self, constraint: Constraint) -> bool {
        self.0 & constraint.bit() != 0
    }

    /// The broken ones, in their order.
    pub fn iter(self) -> impl Iterator<Item = Constraint> {
        Constraint::ALL
            .into_iter()
            .filter(move |constraint| self.contains(*constraint))
    }

    /// Notes whether `constraint` holds.
    pub(crate) const fn require(&mut self, constraint: Constraint, holds: bool) {
        if !holds {
            self.0 |= constraint.bit();
        }
    }
}

/// How many offers break each constraint. An offer that breaks several is counted under each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rejections {
    counts: [u32; Constraint::ALL.len()],
}

impl Rejections {
    /// How many offers break `constraint`.
    #[must_use]
    pub const fn count(&self, constraint: Constraint) -> u32 {
        self.counts[constraint as usize]
    }

    /// The constraints broken by any offer, with how many break it.
    pub fn iter(&self) -> impl Iterator<Item = (Constraint, u32)> + '_ {
        Constraint::ALL
            .into_iter()
            .map(|constraint| (constraint, self.count(constraint)))
            .filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, broken: ConstraintSet) {
        for constraint in broken.iter() {
            let count = &mut self.counts[constraint as usize];
            *count = count.saturating_add(1);
        }
    }
}
