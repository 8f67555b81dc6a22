//! The scheduler's decisions in one block, and the root that names them all.

use tg_types::{
    Amount, Decode, DecodeError, Digest, Domain, Encode, JobId, LeaseId, OfferId, Reader,
    TimestampMs, Writer, keccak256_of,
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
        }
    }
}

impl Encode for Decision {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Placed {
                job,
                lease,
                offer,
                price,
                devices,
                from,
            } => {
                writer.u8(0);
                job.encode(writer);
                lease.encode(writer);
                offer.encode(writer);
                price.encode(writer);
                writer.u8(*devices);
                from.encode(writer);
            }
            Self::Refused { job } => {
                writer.u8(1);
                job.encode(writer);
            }
            Self::Preempted { lease, by } => {
                writer.u8(2);
                lease.encode(writer);
                by.encode(writer);
            }
            Self::Cleared { slot, class, price } => {
                writer.u8(3);
                writer.u64(*slot);
                writer.u8(*class);
                price.encode(writer);
            }
            Self::Lost { lease } => {
                writer.u8(4);
                lease.encode(writer);
            }
        }
    }
}

impl Decode for Decision {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Placed {
                job: JobId::decode(reader)?,
                lease: LeaseId::decode(reader)?,
                offer: OfferId::decode(reader)?,
                price: Amount::decode(reader)?,
                devices: reader.u8()?,
                from: TimestampMs::decode(reader)?,
            },
            1 => Self::Refused {
                job: JobId::decode(reader)?,
            },
            2 => Self::Preempted {
                lease: LeaseId::decode(reader)?,
                by: JobId::decode(reader)?,
            },
            3 => Self::Cleared {
                slot: reader.u64()?,
                class: reader.u8()?,
                price: Amount::decode(reader)?,
            },
            4 => Self::Lost {
                lease: LeaseId::decode(reader)?,
            },
            tag => {
                return Err(DecodeError::Invalid {
                    field: "decision",
                    value: u64::from(tag),
                });
            }
        })
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
