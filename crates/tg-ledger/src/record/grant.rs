//! The share of a machine that a lease holds.

use tg_market::cluster::Request;
use tg_market::mig::{MigInstance, MigProfile};
use tg_market::view::{node_spec, request_of};
use tg_types::{
    Decode, DecodeError, Encode, JobNeeds, Machine, Reader, SharingMode, TimestampMs, Writer,
};

/// What a lease holds of the machine of its offer, beside a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The GPUs, a bit for each.
    pub devices: u8,
    /// Share of each in thousandths.
    pub gpu_milli: u16,
    /// Memory of each in MiB.
    pub gpu_memory_mib: u32,
    /// How the GPUs are shared with other leases.
    pub sharing: SharingMode,
    /// The hardware partition, if that is how.
    pub partition: Option<MigInstance>,
    /// When it begins; later than the match for a booking.
    pub from: TimestampMs,
}

impl Grant {
    /// A slot and nothing of a GPU, from `from` on.
    #[must_use]
    pub const fn slot(from: TimestampMs) -> Self {
        Self {
            devices: 0,
            gpu_milli: 0,
            gpu_memory_mib: 0,
            sharing: SharingMode::Whole,
            partition: None,
            from,
        }
    }

    /// What a job with `needs` is granted on `devices` of `machine`, from `from` on: what it asks for, or the
    /// `partition` that gives as much.
    #[must_use]
    pub fn of(
        needs: &JobNeeds,
        machine: &Machine,
        (devices, partition): (u8, Option<MigInstance>),
        from: TimestampMs,
    ) -> Self {
        let request = request_of(needs).ok().filter(|it| it.gpus() > 0);
        let demand = request.and_then(|it| Some((it, node_spec(machine).gpu.demand(&it)?)));
        let Some((request, demand)) = demand else {
            return Self::slot(from);
        };
        let sharing = match (request.is_fraction(), partition) {
            (true, Some(_)) => Some(SharingMode::Mig),
            (true, None) => machine.sharing.at_least(needs.isolation),
            (false, _) => None,
        };
        Self {
            devices,
            gpu_milli: demand.milli,
            gpu_memory_mib: demand.memory_mib,
            sharing: sharing.unwrap_or(SharingMode::Whole),
            partition,
            from,
        }
    }

    /// How many GPUs it touches.
    #[must_use]
    pub const fn gpus(&self) -> u32 {
        self.devices.count_ones()
    }

    /// What the market takes for it: `needs` with the memory that was granted.
    #[must_use]
    pub fn request(&self, needs: &JobNeeds) -> Option<Request> {
        let request = request_of(needs).ok()?;
        Some(match request.is_fraction() {
            true => request.with_gpu_memory(self.gpu_memory_mib),
            false => request,
        })
    }
}

impl Encode for Grant {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            devices,
            gpu_milli,
            gpu_memory_mib,
            sharing,
            partition,
            from,
        } = self;
        writer.u8(*devices);
        writer.u16(*gpu_milli);
        writer.u32(*gpu_memory_mib);
        sharing.encode(writer);
        let (profile, start) = partition.map_or((0, 0), |it| (it.profile as u8 + 1, it.start));
        writer.u8(profile);
        writer.u8(start);
        from.encode(writer);
    }
}

impl Decode for Grant {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            devices: reader.u8()?,
            gpu_milli: reader.u16()?,
            gpu_memory_mib: reader.u32()?,
            sharing: SharingMode::decode(reader)?,
            partition: decode_partition(reader)?,
            from: TimestampMs::decode(reader)?,
        })
    }
}

/// One more than the tag of the profile, or 0 for none, and the memory slice where it starts.
fn decode_partition(reader: &mut Reader<'_>) -> Result<Option<MigInstance>, DecodeError> {
    let (profile, start) = (reader.u8()?, reader.u8()?);
    let invalid = || DecodeError::Invalid {
        field: "partition",
        value: (u64::from(profile) << 8) | u64::from(start),
    };
    let Some(index) = usize::from(profile).checked_sub(1) else {
        return if start == 0 { Ok(None) } else { Err(invalid()) };
    };
    let profile = MigProfile::ALL.get(index).copied().ok_or_else(invalid)?;
    match profile.starts().contains(&start) {
        true => Ok(Some(MigInstance { profile, start })),
        false => Err(invalid()),
    }
}
