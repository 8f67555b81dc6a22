//! The scheduler's decisions in one block, and the root that commits to them.

use tg_types::{
    Amount, Digest, Domain, JobId, LeaseId, OfferId, TimestampMs, Writer, keccak256_of, variants,
};

/// One decision of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A job was given to an offer.
    Placed {
        /// The job.
        job: JobId,
        /// The lease.
        lease: LeaseId,
        /// The offer.
        offer: OfferId,
        /// What the provider is paid.
        price: Amount,
        /// The GPUs, a bit for each.
        devices: u8,
        /// When it begins.
        from: TimestampMs,
    },
    /// A job with a guaranteed deadline was not admitted.
    Refused {
        /// The job.
        job: JobId,
    },
    /// A lease was told to end for a job that goes first.
    Preempted {
        /// The lease.
        lease: LeaseId,
        /// The job it makes room for.
        by: JobId,
    },
    /// An auction was cleared for one class of GPUs.
    Cleared {
        /// The slot.
        slot: u64,
        /// Tag of the GPU model.
        class: u8,
        /// Price of a second of a T4.
        price: Amount,
    },
    /// A lease ended because its provider cannot be reached.
    Lost {
        /// The lease.
        lease: LeaseId,
    },
    /// A machine is held back for a job that waited long enough: one for each member of a gang.
    Reserved {
        /// The job.
        job: JobId,
        /// The offer.
        offer: OfferId,
        /// From when on nobody else has it.
        from: TimestampMs,
    },
}

impl Decision {
    /// The name of its kind.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Placed { .. } => "placed",
            Self::Refused { .. } => "refused",
            Self::Preempted { .. } => "preempted",
            Self::Cleared { .. } => "cleared",
            Self::Lost { .. } => "lost",
            Self::Reserved { .. } => "reserved",
        }
    }
}

impl std::fmt::Display for Decision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Placed {
                job, offer, price, ..
            } => write!(f, "job {job} placed on offer {offer} for {price}"),
            Self::Refused { job } => write!(f, "job {job} not admitted"),
            Self::Preempted { lease, by } => write!(f, "lease {lease} makes room for job {by}"),
            Self::Cleared { slot, class, price } => {
                write!(f, "slot {slot}, class {class} cleared at {price}")
            }
            Self::Lost { lease } => write!(f, "lease {lease} ended: its provider is lost"),
            Self::Reserved { job, offer, from } => {
                write!(
                    f,
                    "offer {offer} is held back for job {job} from {} ms on",
                    from.get()
                )
            }
        }
    }
}

variants! {
    Decision: "decision" {
        0 = Placed { job, lease, offer, price, devices, from },
        1 = Refused { job },
        2 = Preempted { lease, by },
        3 = Cleared { slot, class, price },
        4 = Lost { lease },
        5 = Reserved { job, offer, from },
    }
}

/// The root of a block's decisions: a hash over all of them in their order, and over the height.
#[must_use]
pub fn schedule_root(height: u64, decisions: &[Decision]) -> Digest {
    let mut writer = Writer::new();
    writer.u64(height);
    writer.seq(decisions);
    Digest::new(keccak256_of(Domain::Schedule, &writer.into_bytes()))
}
