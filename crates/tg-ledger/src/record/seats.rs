//! Who sits among the validators and since when, who waits for a seat, and whose bond is on its way back.

use tg_types::{
    Address, Decode, DecodeError, Encode, Height, Label, Reader, TimestampMs, Writer, fields,
};

use super::account::Validator;
use crate::limits::{APPLICANTS_MAX, SILENCE_BLOCKS, UNBONDING_MAX, VALIDATORS_MAX};

/// What is known of a seat beside who votes with which stake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeatRecord {
    /// Where the others reach it; nothing for one of genesis, which the settings of a network name.
    pub endpoint: Label,
    /// Its newest block, or the height from which it sits.
    pub led: Height,
    /// Whether it has made no block since it sits: of genesis none is.
    pub is_new: bool,
    /// Whether it gives the seat back.
    pub is_leaving: bool,
    /// Votes in committees that it missed in a row.
    pub missed: u16,
    /// Blocks in a row in which it was noted that it did not state to hold answers in time although n - f did. Stops: many answers that were paid in one moment, by which
    /// a validator that was cut off for half a minute would be one that is never there.
    pub unkept: u16,
    /// Whether its program executes the next version of the protocol.
    pub is_ready: bool,
}

/// A version of the protocol that blocks will have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgrade {
    /// The version.
    pub version: u16,
    /// The first block that has it.
    pub from: Height,
}

/// Somebody who bonded for a seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applicant {
    /// Who, with which key and bond.
    pub validator: Validator,
    /// Where the others reach it.
    pub endpoint: Label,
}

/// A bond that is returned later: until then it answers for the votes that were signed before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unbonding {
    /// Who had the seat.
    pub validator: Validator,
    /// When it is returned, in ledger time.
    pub until: TimestampMs,
}

/// The seats of a state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeatBook {
    /// How many sets of validators there were before this one.
    pub term: u64,
    /// The last block that the set before voted on; 0 in the first term.
    pub since: Height,
    /// One for each validator, in their order.
    pub seats: Vec<SeatRecord>,
    /// Who waits, in the order of coming.
    pub applicants: Vec<Applicant>,
    /// Whose bond is not returned yet, in the order of leaving.
    pub unbonding: Vec<Unbonding>,
    /// The next version of the protocol, once it is announced.
    pub upgrade: Option<Upgrade>,
}

fields! { Applicant { validator, endpoint } }
fields! { Unbonding { validator, until } }
fields! { Upgrade { version, from } }

impl Encode for SeatRecord {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            endpoint,
            led,
            is_new,
            is_leaving,
            missed,
            unkept,
            is_ready,
        } = self;
        endpoint.encode(writer);
        led.encode(writer);
        writer.u8(u8::from(*is_new));
        writer.u8(u8::from(*is_leaving));
        writer.u16(*missed);
        writer.u16(*unkept);
        writer.u8(u8::from(*is_ready));
    }
}

impl Decode for SeatRecord {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            endpoint: Label::decode(reader)?,
            led: Height::decode(reader)?,
            is_new: reader.flag("seat is new")?,
            is_leaving: reader.flag("seat is leaving")?,
            missed: reader.u16()?,
            unkept: reader.u16()?,
            is_ready: reader.flag("seat is ready")?,
        })
    }
}

impl SeatRecord {
    /// What it was to state and did not, in a row: votes in committees or answers that are kept, whichever are more.
    #[must_use]
    pub fn silences(&self) -> u16 {
        self.missed.max(self.unkept)
    }

    /// Whether it made no block for as long as ends a seat.
    #[must_use]
    pub const fn is_silent_at(&self, height: Height) -> bool {
        height.get().saturating_sub(self.led.get()) > SILENCE_BLOCKS
    }
}

impl SeatBook {
    /// The book of a genesis with so many validators.
    pub(crate) fn new(validators: usize) -> Self {
        Self {
            seats: vec![SeatRecord::default(); validators],
            ..Self::default()
        }
    }

    /// Bonds that belong to no validator: of those who wait, and of those who left.
    pub fn bonds(&self) -> impl Iterator<Item = &Validator> {
        let applicants = self.applicants.iter().map(|it| &it.validator);
        applicants.chain(self.unbonding.iter().map(|it| &it.validator))
    }

    /// Whether an address has money here.
    pub(crate) fn names(&self, address: &Address) -> bool {
        self.bonds().any(|it| it.address == *address)
    }
}

impl Encode for SeatBook {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            term,
            since,
            seats,
            applicants,
            unbonding,
            upgrade,
        } = self;
        writer.u64(*term);
        since.encode(writer);
        writer.seq(seats);
        writer.seq(applicants);
        writer.seq(unbonding);
        upgrade.encode(writer);
    }
}

impl Decode for SeatBook {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            term: reader.u64()?,
            since: Height::decode(reader)?,
            seats: reader.seq("seats", VALIDATORS_MAX, 16)?,
            applicants: reader.seq("applicants", APPLICANTS_MAX, 72)?,
            unbonding: reader.seq("unbonding", UNBONDING_MAX, 76)?,
            upgrade: Option::decode(reader)?,
        })
    }
}
