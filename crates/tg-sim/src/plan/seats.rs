//! Seats that change hands: who bonds for one, and who gives its own back.
//!
//! A newcomer may be silent for good. Any other one signs nothing from the block at which it sits to the next end of an epoch, so it counts as faulty for so long: one
//! is drawn only where the set bears it beside all that are hostile or lose what they signed. A seat is given back only where
//! at least four are left, and enough of them are honest.
//!
//! No seat ends by silence here: that takes 1,024 blocks, or 256 votes of committees in a row, and a run has 200 to 500 blocks.

use std::fmt;

use crate::draw::SeedStream;

/// Somebody who bonds for a seat, follows the chain until it has it, and then votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewcomerPlan {
    /// When it bonds and begins to follow, in milliseconds of the run.
    pub at_ms: u64,
    /// The validator that it asks first.
    pub gateway: usize,
    /// Whether it begins at a snapshot, if there is one.
    pub snapshot: bool,
    /// When it loses power, and for how long, if it does.
    pub power_cut: Option<(u64, u64)>,
    /// Whether it bonds and nothing more: a seat with nobody behind it.
    pub is_silent: bool,
}

/// A validator that gives its seat back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaverPlan {
    /// When, in milliseconds of the run.
    pub at_ms: u64,
    /// Which.
    pub seat: usize,
}

/// Who comes and who goes; `None` was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedSeats {
    /// Their seats have the places after those of the founders.
    pub newcomers: Vec<Option<NewcomerPlan>>,
    /// Founders that leave.
    pub leavers: Vec<Option<LeaverPlan>>,
}

/// How many of 1,000 seeds have seats that change hands, if their faults leave room for it: about a third of all.
const CHANGES_PERMILLE: u64 = 630;

/// How many faults a set of so many bears.
const fn faults_max(seats: usize) -> usize {
    (seats - 1) / 3
}

impl PlannedSeats {
    /// Whether no seat changes hands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newcomers.iter().all(Option::is_none) && self.leavers.iter().all(Option::is_none)
    }

    /// Writes a line for each, if there are so many founders.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, founders: usize) -> fmt::Result {
        for (index, newcomer) in self.newcomers.iter().enumerate() {
            if let Some(newcomer) = newcomer {
                let seat = founders + index;
                writeln!(f, "  newcomer{index}, seat{seat}: {newcomer:?}")?;
            }
        }
        for (index, leaver) in self.leavers.iter().enumerate() {
            if let Some(LeaverPlan { at_ms, seat }) = leaver {
                writeln!(f, "  leaver{index}: at {at_ms} ms seat{seat} is given back")?;
            }
        }
        Ok(())
    }

    /// What a seed draws for `count` founders, of whom these are honest, and `losing` of those lose what they signed.
    pub(super) fn drawn(seed: u64, (count, honest): (usize, &[usize]), losing: usize) -> Self {
        let mut draw = SeedStream::new(seed, "seats");
        let hostile = count - honest.len();
        let faulty = hostile + losing;
        let may_join = |seats: usize| faulty < faults_max(seats);
        // Hostile ones may lose their seats too, by what they sign.
        let may_leave = |joined: usize| {
            count + joined > hostile + 4 && (count == 4 || faulty <= faults_max(count - 1))
        };
        let (wants_join, wants_leave) = draw.pick(&[(true, false), (false, true), (true, true)]);
        let (is_twice, is_drawn) = (draw.chance(250), draw.chance(CHANGES_PERMILLE));
        let mut newcomer = || NewcomerPlan {
            at_ms: draw.between(500, 9_000),
            gateway: draw.pick(honest),
            snapshot: draw.chance(500),
            power_cut: (draw.chance(300))
                .then(|| (draw.between(6_000, 24_000), draw.between(20, 4_000))),
            is_silent: false,
        };
        let newcomers = [newcomer(), newcomer()];
        let mut at_ms = || draw.between(500, 12_000);
        let leavers = [at_ms(), at_ms()];
        // The first validator is the one that is asked first where the seed draws nothing.
        let honest = honest.iter().filter(|it| **it > 0);
        let honest: Vec<usize> = honest.copied().collect();
        let mut all = Self::default();
        if !is_drawn || honest.is_empty() {
            return all;
        }
        let (joins, leaves) = match (wants_join, wants_leave) {
            (true, true) if may_join(count) && may_leave(1) => (1, 1),
            (_, true) if may_leave(0) => (0, 1),
            (true, _) | (_, true) if may_join(count + 1) => (1, 0),
            (true, _) if may_leave(0) => (0, 1),
            _ => (0, 0),
        };
        // Two where nothing else is faulty: the ledger takes as many at a time as the set bears.
        let joins = joins + usize::from(joins == 1 && leaves == 0 && is_twice && faulty == 0);
        all.newcomers
            .extend(newcomers.into_iter().take(joins).map(Some));
        let leaving = leavers.into_iter().take(leaves).map(|at_ms| {
            let seat = draw.pick(&honest);
            Some(LeaverPlan { at_ms, seat })
        });
        all.leavers.extend(leaving);
        // Behind a silent one nobody else gets a seat where the set bears one fault.
        if let [Some(only)] = &mut all.newcomers[..] {
            only.is_silent = draw.chance(150);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_change_hands_only_where_the_set_bears_it() {
        let mut changed = 0;
        for seed in 0..3_000 {
            let count = [4, 5, 6, 7][usize::try_from(seed % 4).unwrap_or(0)];
            let hostile = usize::try_from(seed / 4 % 3).unwrap_or(0);
            if hostile > faults_max(count) {
                continue;
            }
            let honest: Vec<usize> = (0..count - hostile).collect();
            let planned = PlannedSeats::drawn(seed, (count, &honest), 0);
            let (joins, leaves) = (planned.newcomers.len(), planned.leavers.len());
            changed += usize::from(joins + leaves > 0);
            if joins > 0 {
                assert!(hostile < faults_max(count + 1 - leaves), "{planned:?}");
            }
            assert!(joins < 2 || hostile == 0, "{planned:?}");
            if leaves > 0 {
                assert!(count + joins - leaves >= 4 + hostile, "{planned:?}");
            }
            for leaver in planned.leavers.iter().flatten() {
                assert!(leaver.seat > 0 && honest.contains(&leaver.seat));
            }
        }
        assert!(changed > 500, "{changed}");
    }
}
