//! Rent: every record in the state pays for its bytes and time. Rent is burned, and secured by a deposit.
//!
//! The price of each [`RentCategory`] is constant while the category is at most half full, and then doubles with every
//! further twentieth. A category's *meter* is the sum of its price over time. So a record owes its bytes times the advance of
//! the meter, however the price moved, and the meter reading at which a deposit is used up is known when it is paid. Records
//! are therefore sorted by when they end, and cost nothing to keep.

use tg_types::{
    Address, Amount, Decode, DecodeError, Digest, DurationMs, Encode, JobOrder, Reader,
    VerificationMode, Writer, fields,
};

use crate::limits::{
    ACCOUNTS_MAX, BIDS_MAX, ENDED_JOBS_MAX, MODELS_MAX, OFFERS_MAX, OPEN_JOBS_MAX, PREEMPTIONS_MAX,
    PROVIDERS_MAX, RETAINED_UNITS_MAX,
};

const HOUR_MS: u128 = 3_600_000;

/// How often the price doubles between a category that is half full and a full one.
const DOUBLINGS: u32 = 10;

/// Bytes charged for an account, with its leaf and the nodes above.
pub const ACCOUNT_BYTES: u32 = 256;

/// Bytes charged for a session key of an account.
pub const SESSION_BYTES: u32 = 128;

/// Bytes charged for an offer.
pub const OFFER_BYTES: u32 = 1_024;

/// Bytes charged for a provider's record.
pub const PROVIDER_BYTES: u32 = 512;

/// Bytes charged for a provider's sealing key, beside its record.
pub const SEALING_KEY_BYTES_CHARGED: u32 = 1_536;

/// Bytes charged for the keys that the lease of a sealed job has while it lives.
pub const SEALED_LEASE_BYTES: u32 = 2_560;

/// Bytes charged for a model.
pub const MODEL_BYTES: u32 = 512;

/// Bytes charged for a sealed bid.
pub const BID_BYTES: u32 = 256;

/// Bytes charged for a job without its leases.
pub const JOB_BYTES: u32 = 1_024;

/// Bytes charged for each lease that a job may come to have.
pub const LEASE_BYTES: u32 = 512;

/// Bytes charged for a job with one machine and three attempts, for the price of a full category.
const ORDINARY_JOB_BYTES: u32 = JOB_BYTES + LEASE_BYTES * (3 + PREEMPTIONS_MAX as u32);

/// Bytes charged for the record of an answer that validators keep: what bounds how many there are.
pub const RETAINED_RECORD_BYTES: u32 = 64 * 1024;

/// Bytes of answers that validators keep in which their room is counted.
pub(crate) const RETAINED_UNIT: u32 = 64 * 1024;

/// Bytes of an input, which validators keep on their disks, that are charged as one byte of state.
const INPUT_BYTES_CHARGED_AS_ONE: u32 = 256;

/// Bytes charged for a job: it, all leases that its order allows, and its input.
#[must_use]
pub fn job_bytes(order: &JobOrder) -> u32 {
    let attempts = u32::from(order.max_attempts) + u32::from(PREEMPTIONS_MAX);
    let leases = attempts.saturating_mul(u32::from(order.needs.gang.max(1)));
    let keys = match order.mode {
        VerificationMode::Sealed => SEALED_LEASE_BYTES,
        _ => 0,
    };
    JOB_BYTES
        .saturating_add(keys)
        .saturating_add(LEASE_BYTES.saturating_mul(leases))
        .saturating_add(order.input_len / INPUT_BYTES_CHARGED_AS_ONE)
}

/// How long an ended job stays, at the price of its end: who ordered it and who served it look back within a day.
pub const ENDED_JOB_STAYS: DurationMs = DurationMs::from_secs(24 * 3600);

/// How long a refused model stays, at the price of its refusal: long enough to read why.
pub const REFUSED_MODEL_STAYS: DurationMs = DurationMs::from_secs(600);

/// For how long an account's rent is taken from its balance at once.
pub const ACCOUNT_RENEWAL: DurationMs = DurationMs::from_secs(24 * 3600);

/// A part of the state with its own capacity and price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RentCategory {
    /// Accounts; their rent comes from their balance.
    Accounts = 0,
    /// Offers.
    Offers = 1,
    /// Records of providers.
    Providers = 2,
    /// Models.
    Models = 3,
    /// Jobs that did not end.
    OpenJobs = 4,
    /// Jobs that ended.
    EndedJobs = 5,
    /// Sealed bids, which pay when they come and leave within seconds.
    Bids = 6,
    /// Answers that validators keep, in units of room on their disks; paid with the order for a time that is fixed by it.
    Retained = 7,
}

impl RentCategory {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Accounts,
        Self::Offers,
        Self::Providers,
        Self::Models,
        Self::OpenJobs,
        Self::EndedJobs,
        Self::Bids,
        Self::Retained,
    ];

    /// How many records fit.
    #[must_use]
    pub const fn capacity(self) -> usize {
        match self {
            Self::Accounts => ACCOUNTS_MAX,
            Self::Offers => OFFERS_MAX,
            Self::Providers => PROVIDERS_MAX,
            Self::Models => MODELS_MAX,
            Self::OpenJobs => OPEN_JOBS_MAX,
            Self::EndedJobs => ENDED_JOBS_MAX,
            Self::Bids => BIDS_MAX,
            Self::Retained => RETAINED_UNITS_MAX,
        }
    }

    /// Bytes of the record that the price of a full category is set by.
    const fn bytes(self) -> u32 {
        match self {
            Self::Accounts => ACCOUNT_BYTES,
            Self::Offers => OFFER_BYTES,
            Self::Providers => PROVIDER_BYTES,
            Self::Models => MODEL_BYTES,
            Self::OpenJobs | Self::EndedJobs => ORDINARY_JOB_BYTES,
            Self::Bids => BID_BYTES,
            Self::Retained => RETAINED_UNIT,
        }
    }

    /// A full category costs the parameter divided by this: ended jobs are history that nobody waits for.
    const fn cheaper(self) -> u128 {
        match self {
            Self::EndedJobs => 16,
            _ => 1,
        }
    }

    /// For how long rent is burned at once when a record comes: it makes coming and going cost something.
    #[must_use]
    pub const fn entry(self) -> DurationMs {
        match self {
            Self::Accounts => DurationMs::from_secs(30 * 24 * 3600),
            Self::Offers | Self::Providers | Self::Models => DurationMs::from_secs(3600),
            Self::OpenJobs => DurationMs::from_secs(60),
            Self::EndedJobs | Self::Retained => DurationMs::ZERO,
            Self::Bids => DurationMs::from_secs(10),
        }
    }

    /// For how long the first deposit lasts at the price of the day; more may be paid at any time.
    #[must_use]
    pub const fn term(self) -> DurationMs {
        match self {
            Self::Offers | Self::Providers | Self::Models => DurationMs::from_secs(7 * 24 * 3600),
            Self::EndedJobs => ENDED_JOB_STAYS,
            Self::Accounts | Self::OpenJobs | Self::Bids | Self::Retained => DurationMs::ZERO,
        }
    }

    /// The price of a byte for a millisecond, in base units, when the category holds `len` records. `full_hour` is what all
    /// records of a full category pay together in an hour.
    #[must_use]
    pub fn price(self, full_hour: Amount, len: usize) -> u128 {
        let capacity = self.capacity() as u128;
        let above_half = (2 * len as u128).saturating_sub(capacity);
        let doublings = (above_half * u128::from(DOUBLINGS) / capacity).min(u128::from(DOUBLINGS));
        let full = capacity * u128::from(self.bytes()) * HOUR_MS * self.cheaper();
        // Divided last, so that the price of an empty category is not rounded to nothing.
        full_hour.get().saturating_mul(1 << doublings) / (full << DOUBLINGS)
    }
}

/// How far the meter of each category went: base units for a byte since genesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Meters([u128; RentCategory::ALL.len()]);

impl Meters {
    /// The reading of a category's meter.
    #[must_use]
    pub const fn of(&self, category: RentCategory) -> u128 {
        self.0[category as usize]
    }

    /// Lets a meter run for some time at a price.
    pub(crate) const fn run(&mut self, category: RentCategory, price: u128, time: DurationMs) {
        let meter = &mut self.0[category as usize];
        *meter = meter.saturating_add(price.saturating_mul(time.get() as u128));
    }
}

impl Encode for Meters {
    fn encode(&self, writer: &mut Writer) {
        self.0.iter().for_each(|reading| writer.u128(*reading));
    }
}

impl Decode for Meters {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut meters = Self::default();
        for reading in &mut meters.0 {
            *reading = reader.u128()?;
        }
        Ok(meters)
    }
}

/// What secures the rent of a record. The default is a record that pays none: those of genesis and of tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rent {
    /// Who gets back what is left when the record ends, and nobody else.
    pub payer: Address,
    /// What is left of the deposit, but for the rent since [`Self::paid_to`].
    pub deposit: Amount,
    /// The reading of the category's meter up to which rent was burned.
    pub paid_to: u128,
    /// Bytes that are paid for; none if the record pays nothing.
    pub bytes: u32,
}

impl Rent {
    /// What the record owes at a reading of its category's meter: at most its deposit.
    #[must_use]
    pub fn owed(&self, reading: u128) -> Amount {
        let passed = reading.saturating_sub(self.paid_to);
        Amount::new(passed.saturating_mul(u128::from(self.bytes))).min(self.deposit)
    }

    /// At which reading of the meter the deposit is used up; `None` if the record pays nothing.
    #[must_use]
    pub fn ends_at(&self) -> Option<u128> {
        let lasts = self.deposit.get().checked_div(u128::from(self.bytes))?;
        Some(self.paid_to.saturating_add(lasts))
    }

    /// When a record with this rent leaves if nothing refers to it; `None` if it pays nothing.
    pub(crate) fn due(&self, category: RentCategory, order: u64) -> Option<Due> {
        let ends_at = self.ends_at()?;
        Some(Due {
            category,
            ends_at,
            order,
        })
    }
}

fields! { Rent { payer, deposit, paid_to, bytes } }

/// When a record leaves for want of rent, if nothing refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Where it stands.
    pub category: RentCategory,
    /// The reading of the category's meter after which it goes.
    pub ends_at: u128,
    /// The number of the record: of those that end together the least goes first.
    pub order: u64,
}

/// What a new record costs: a part that is burned at once, and a deposit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// Bytes that are paid for.
    pub bytes: u32,
    /// Burned at once.
    pub entry: Amount,
    /// Given back but for the rent.
    pub deposit: Amount,
}

impl Charge {
    /// Both parts.
    #[must_use]
    pub const fn total(&self) -> Amount {
        self.entry.saturating_add(self.deposit)
    }
}

/// The rent of a record as it stands at one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RentStanding {
    /// Which capacity the record counts against.
    pub category: RentCategory,
    /// Who gets back what is left of the deposit when the record ends.
    pub payer: Address,
    /// What is left of the deposit now.
    pub left: Amount,
    /// What a day costs at the price of now.
    pub per_day: Amount,
    /// For how long the deposit lasts at the price of now.
    pub lasts: DurationMs,
}

/// The name of an account's records in events and in `PayRent`: its address after twelve zero bytes.
#[must_use]
pub fn name_of_address(address: &Address) -> Digest {
    let mut bytes = [0; 32];
    bytes[12..].copy_from_slice(address.as_bytes());
    Digest::new(bytes)
}

/// The address whose record is named so.
#[must_use]
pub fn address_of_name(name: &Digest) -> Option<Address> {
    let (zeros, address) = name.as_bytes().split_at(12);
    let address: [u8; 20] = address.try_into().ok()?;
    zeros
        .iter()
        .all(|byte| *byte == 0)
        .then(|| Address::new(address))
}
