//! What a lease holds of a machine.

use tg_market::cluster::Request;
use tg_market::view::request_of;
use tg_types::{
    Decode, DecodeError, Encode, JobNeeds, Reader, SharingMode, SharingSet, TimestampMs, Writer,
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
            from,
        }
    }

    /// What a job with `needs` is granted on `devices` of a machine whose GPUs have `device_mib` and are shared by
    /// `sharing`.
    #[must_use]
    pub fn of(
        needs: &JobNeeds,
        devices: u8,
        device_mib: u32,
        sharing: SharingSet,
        from: TimestampMs,
    ) -> Self {
        let Some(request) = request_of(needs).ok().filter(|it| it.gpus() > 0) else {
            return Self::slot(from);
        };
        let sharing = match request.is_fraction() {
            true => sharing.at_least(needs.isolation),
            false => None,
        };
        Self {
            devices,
            gpu_milli: request.gpu_milli(),
            gpu_memory_mib: request.gpu_memory_on(device_mib),
            sharing: sharing.unwrap_or(SharingMode::Whole),
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
            from,
        } = self;
        writer.u8(*devices);
        writer.u16(*gpu_milli);
        writer.u32(*gpu_memory_mib);
        sharing.encode(writer);
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
            from: TimestampMs::decode(reader)?,
        })
    }
}
