//! Seats of validators: who has one and since when, who waits for one, and whose bond is being returned.

use tg_types::{
    Address, Decode, DecodeError, Encode, Height, Label, Reader, TimestampMs, Writer, fields,
};

use super::account::Validator;
use crate::limits::{
    APPLICANTS_MAX, MISSED_VOTES_MAX, SILENCE_BLOCKS, UNBONDING_MAX, VALIDATORS_MAX,
};

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
    /// Blocks in a row in which it missed votes in committees, and none of its own counted. Stops: many results that were handed in in one moment, by
    /// which a validator that was away for half a minute, or had too much to look at, would be one that is never there.
    pub missed: u16,
    /// The first of these blocks.
    pub missed_since: Height,
    /// The newest block in which a vote of it counted, or was missed.
    pub voted_at: Height,
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
            missed_since,
            voted_at,
            unkept,
            is_ready,
        } = self;
        endpoint.encode(writer);
        led.encode(writer);
        writer.u8(u8::from(*is_new));
        writer.u8(u8::from(*is_leaving));
        writer.u16(*missed);
        missed_since.encode(writer);
        voted_at.encode(writer);
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
            missed_since: Height::decode(reader)?,
            voted_at: Height::decode(reader)?,
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

    /// Notes that a vote of it counted in the block of `height`.
    pub(crate) const fn note_vote(&mut self, height: Height) {
        self.missed = 0;
        self.voted_at = height;
    }

    /// Notes that it missed a vote in the block of `height`: once in a block, and in none in which another one counted.
    pub(crate) const fn note_missed(&mut self, height: Height) {
        if self.voted_at.get() >= height.get() {
            return;
        }
        if self.missed == 0 {
            self.missed_since = height;
        }
        self.missed = self.missed.saturating_add(1);
        self.voted_at = height;
    }

    /// Whether it votes on no results, for as long as ends a seat that makes no blocks.
    #[must_use]
    pub const fn is_voteless_at(&self, height: Height) -> bool {
        let span = height.get().saturating_sub(self.missed_since.get());
        self.missed >= MISSED_VOTES_MAX && span > SILENCE_BLOCKS
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn votes_missed_in_one_block_count_once_and_a_short_absence_ends_no_seat() {
        let mut seat = SeatRecord::default();
        for _ in 0..1_000 {
            seat.note_missed(Height::new(10));
        }
        assert_eq!((seat.missed, seat.missed_since), (1, Height::new(10)));
        // In each block of half a minute.
        let mut height = 10;
        while height < 10 + SILENCE_BLOCKS {
            height += 1;
            seat.note_missed(Height::new(height));
            assert!(!seat.is_voteless_at(Height::new(height)), "{height}");
        }
        assert!(seat.missed >= MISSED_VOTES_MAX);
        assert!(seat.is_voteless_at(Height::new(height + 1)));
        // One vote that counts, and those missed in its block do not.
        seat.note_vote(Height::new(height + 1));
        seat.note_missed(Height::new(height + 1));
        assert_eq!(seat.missed, 0);
        assert!(!seat.is_voteless_at(Height::new(height + 10_000)));
    }
}
