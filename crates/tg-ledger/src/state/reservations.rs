//! Machines that are held back for jobs that waited long enough ([`tg_market::lane::backfill`]).

use tg_market::Hold;
use tg_market::lane::backfill::IdleRate;
use tg_types::{
    Amount, Decode, DecodeError, DurationMs, Encode, JobId, OfferId, Reader, TimestampMs, Writer,
    fields,
};

use crate::record::{Grant, Job, lease_id};

/// A machine that is held back, and what the job would pay there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldPlace {
    /// The offer.
    pub offer: OfferId,
    /// What the job would hold of its machine.
    pub grant: Grant,
    /// What it costs the job while it is idle, and the price there, as it was when it was chosen.
    pub rate: IdleRate,
}

impl Encode for HeldPlace {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            offer,
            grant,
            rate:
                IdleRate {
                    price,
                    duration,
                    second,
                },
        } = self;
        offer.encode(writer);
        grant.encode(writer);
        price.encode(writer);
        duration.encode(writer);
        second.encode(writer);
    }
}

impl Decode for HeldPlace {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            offer: OfferId::decode(reader)?,
            grant: Grant::decode(reader)?,
            rate: IdleRate {
                price: Amount::decode(reader)?,
                duration: DurationMs::decode(reader)?,
                second: Amount::decode(reader)?,
            },
        })
    }
}

/// The machines that are held back for one job that waits: one, or one for each member of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The job.
    pub job: JobId,
    /// From when on nobody else has them.
    pub from: TimestampMs,
    /// How long the job may hold them at the latest.
    pub until: TimestampMs,
    /// The machines.
    pub places: Vec<HeldPlace>,
}

/// Machines held back for one job.
const PLACES_MAX: usize = tg_types::resources::GANG_MEMBERS_MAX as usize;

fields! { Reservation { job, from, until, places: seq("places", PLACES_MAX, 90) } }

impl Reservation {
    /// What it holds as if it were the next lease of `job`, of each machine; from `now` on nothing else fits there that would
    /// be in its way.
    pub(crate) fn holds(&self, job: &Job, now: TimestampMs) -> Vec<Hold> {
        let soon = TimestampMs::new(now.get().saturating_add(1));
        let hold = |(member, place): (u16, &HeldPlace)| {
            Some(Hold {
                lease: lease_id(job, member),
                offer: place.offer,
                devices: place.grant.devices,
                partition: place.grant.partition,
                request: place.grant.request(&job.order.needs)?,
                // What is due and was not placed yet is not to be taken for a lease that begins.
                from: self.from.max(soon),
                until: self.until.max(soon),
            })
        };
        (0..).zip(&self.places).filter_map(hold).collect()
    }

    /// What the job would pay on all of them.
    pub(crate) fn price(&self) -> Amount {
        let prices = self.places.iter().map(|it| it.rate.price);
        prices.fold(Amount::ZERO, Amount::saturating_add)
    }
}
