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
    /// The machine is in another region.
    Region = 8,
    /// Its GPUs are of another model.
    GpuModel = 9,
    /// Their compute capability is too low.
    Capability = 10,
    /// They have no tensor cores.
    TensorCores = 11,
    /// They are joined too loosely.
    Link = 12,
    /// They are not shared, or not with this isolation.
    Isolation = 13,
    /// The machine has fewer GPUs.
    GpuCount = 14,
    /// Its GPUs have less memory.
    GpuMemory = 15,
    /// It has less CPU, RAM or disk.
    HostSize = 16,
    /// What it has is held by others at that time.
    Busy = 17,
    /// The tier of capacity is not sold.
    Tier = 18,
    /// The provider's reputation is below the floor.
    Reputation = 19,
    /// Validators cannot reach the provider.
    Offline = 20,
    /// A part of the result is checked only, and the collateral is too small for that.
    Stake = 21,
}

impl Constraint {
    /// Every constraint, in the order of its bit.
    pub const ALL: [Self; 22] = [
        Self::Mode,
        Self::Memory,
        Self::Price,
        Self::Deadline,
        Self::Slots,
        Self::Funds,
        Self::Excluded,
        Self::Suspended,
        Self::Region,
        Self::GpuModel,
        Self::Capability,
        Self::TensorCores,
        Self::Link,
        Self::Isolation,
        Self::GpuCount,
        Self::GpuMemory,
        Self::HostSize,
        Self::Busy,
        Self::Tier,
        Self::Reputation,
        Self::Offline,
        Self::Stake,
    ];

    /// Whether it ends when a lease of somebody else does.
    #[must_use]
    pub const fn is_occupied(self) -> bool {
        matches!(self, Self::Slots | Self::Busy)
    }

    /// Whether it may end without a change of the order or of the offer.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        self.is_occupied() || matches!(self, Self::Suspended | Self::Offline | Self::Funds)
    }

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
            Self::Region => "region",
            Self::GpuModel => "gpu model",
            Self::Capability => "capability",
            Self::TensorCores => "tensor cores",
            Self::Link => "gpu link",
            Self::Isolation => "isolation",
            Self::GpuCount => "gpu count",
            Self::GpuMemory => "gpu memory",
            Self::HostSize => "host size",
            Self::Busy => "busy",
            Self::Tier => "tier",
            Self::Reputation => "reputation",
            Self::Offline => "offline",
            Self::Stake => "stake",
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
            Self::Region => "is in another region",
            Self::GpuModel => "has another GPU model",
            Self::Capability => "has too low a compute capability",
            Self::TensorCores => "has no tensor cores",
            Self::Link => "joins its GPUs too loosely",
            Self::Isolation => "does not share a GPU with this isolation",
            Self::GpuCount => "has fewer GPUs",
            Self::GpuMemory => "has GPUs with less memory",
            Self::HostSize => "has less CPU, RAM or disk",
            Self::Busy => "has too much of its GPUs, CPU, RAM or disk taken at that time",
            Self::Tier => "does not sell this tier of capacity",
            Self::Reputation => "has a reputation below the floor",
            Self::Offline => "cannot be reached by the validators",
            Self::Stake => {
                "puts up too little for what a wrong answer could win in this mode (in mode sync twenty times the value at risk and the price, of a gang the price for each member)"
            }
        }
    }

    const fn bit(self) -> u32 {
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
pub struct ConstraintSet(u32);

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
