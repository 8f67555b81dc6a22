//! Statements of validators about the files that a job or a model needs.

use tg_types::{Decode, DecodeError, Encode, Reader, TimestampMs, Writer, fields};

use crate::limits::VALIDATORS_MAX;

const _: () = assert!(VALIDATORS_MAX <= u128::BITS as usize);

/// Validators, by their place in the order of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeatSet(u128);

impl SeatSet {
    /// How many there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the validator at a place is one of them.
    #[must_use]
    pub const fn contains(self, seat: u8) -> bool {
        seat < 128 && self.0 >> seat & 1 == 1
    }

    /// The same validators at the places that they have now, by the places that they had; who has none is left out.
    pub(crate) fn moved(self, places: &[Option<u8>]) -> Self {
        let mut moved = Self::default();
        for (place, now) in (0u8..).zip(places) {
            if let Some(now) = now.filter(|_| self.contains(place)) {
                moved.insert(now);
            }
        }
        moved
    }

    /// Takes the validator at a place out.
    pub(crate) const fn remove(&mut self, seat: u8) {
        assert!((seat as usize) < VALIDATORS_MAX, "a validator has a place");
        self.0 &= !(1 << seat);
    }

    /// Adds the validator at a place.
    pub(crate) const fn insert(&mut self, seat: u8) {
        assert!((seat as usize) < VALIDATORS_MAX, "a validator has a place");
        self.0 |= 1 << seat;
    }
}

impl Encode for SeatSet {
    fn encode(&self, writer: &mut Writer) {
        writer.u128(self.0);
    }
}

impl Decode for SeatSet {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.u128()?))
    }
}

/// The question whether what was held still is, after a provider could not get it.
///
/// The penalties that wait for the answer stay in the declined leases (`State::declined`), so there may be any number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recheck {
    /// Until when validators may answer.
    pub until: TimestampMs,
    /// Who still holds it.
    pub held: SeatSet,
    /// Who does not.
    pub missing: SeatSet,
}

fields! { Recheck { until, held, missing } }

/// Which validators state that they hold an input or the files of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Storage {
    /// Who holds it.
    pub held: SeatSet,
    /// Whether it is asked again.
    pub recheck: Option<Recheck>,
}

impl Storage {
    /// Whether a validator has an answer to give: it did not say that it holds it, or it is asked again.
    #[must_use]
    pub fn waits_for(&self, seat: u8) -> bool {
        let answered = |it: &Recheck| it.held.contains(seat) || it.missing.contains(seat);
        match &self.recheck {
            Some(recheck) if self.held.contains(seat) => !answered(recheck),
            Some(_) | None => !self.held.contains(seat),
        }
    }
}

impl Storage {
    /// The same statements with other places of those who made them.
    pub(crate) fn moved(&self, places: impl Fn(SeatSet) -> SeatSet) -> Self {
        let moved = |it: &Recheck| Recheck {
            until: it.until,
            held: places(it.held),
            missing: places(it.missing),
        };
        Self {
            held: places(self.held),
            recheck: self.recheck.as_ref().map(moved),
        }
    }
}

fields! { Storage { held, recheck } }
