//! A hiding commitment that is opened more than once: random rows for a number of openings.
//!
//! Rows of the code are cells of the stack that follow each other, so that all rows after the columns can be uniform. The
//! argument that so many openings show nothing stands in `docs/PROOF.md`, "Private weights".

use super::bound;
use super::config::{Strength, fold_plan, least_config};
use super::scheme::Config;
use super::stack::{Columns, STACK_VARS_MIN, Stack};
use crate::algebra::field::E;
use crate::algebra::layout::log2_ceil;
use crate::argument::commitment::{CommitmentError, STACK_VARS_MAX};

/// Most openings that may be asked for: the argument counts so many.
pub const OPENINGS_MAX: usize = 1_000;
/// log2 of the cells of a row, at least and at most. Values at drawn points are hidden by these variables of a row.
const ROW_VARS: std::ops::RangeInclusive<usize> = 4..=7;
/// log2 of the longest code that the field has.
const PLACES_VARS_MAX: usize = 24;

/// What one value of the stacked polynomial is known to be, by whoever knows the commitment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// As many coordinates as the stack has variables.
    pub point: Vec<E>,
    /// The value there.
    pub value: E,
}

/// What both sides derive for a commitment that is opened more than once.
#[derive(Debug, Clone)]
pub struct KeptShape {
    pub(super) stack: Stack,
    pub(super) config: Config,
    openings: usize,
}

impl KeptShape {
    /// The shape for the columns, with random rows for at least so many openings.
    ///
    /// # Errors
    /// If no commitment holds them, or no parameters reach the target.
    pub fn new(columns: &Columns, openings: usize) -> Result<Self, CommitmentError> {
        Self::with_strength(columns, openings, Strength::FULL)
    }

    /// A shape whose openings withstand less: for statistics over many of them.
    ///
    /// # Errors
    /// Those of [`KeptShape::new`].
    pub fn with_strength(
        columns: &Columns,
        openings: usize,
        strength: Strength,
    ) -> Result<Self, CommitmentError> {
        let (places, end) = Stack::place(&columns.vars);
        let no_parameters = CommitmentError::NoParameters {
            vars: log2_ceil(end.min(1 << 30)),
        };
        if !(1..=OPENINGS_MAX).contains(&openings) {
            return Err(no_parameters);
        }
        for vars in log2_ceil(end.min(1 << 30)).max(STACK_VARS_MIN)..=STACK_VARS_MAX {
            // The widest rows that cost no further variable: the next word is the smaller.
            for fold in ROW_VARS.rev() {
                let rate = if vars <= 24 { 3 } else { 2 };
                let start = end.next_multiple_of(1 << fold);
                let rows = ((1usize << vars).saturating_sub(start)) >> fold;
                if vars < fold + 7 || vars - fold + rate > PLACES_VARS_MAX || rows <= openings {
                    continue;
                }
                let (folds, rates) = fold_plan(vars, fold);
                let Ok(config) = least_config(vars, (rate, folds, rates), strength) else {
                    continue;
                };
                let of_rows = rows.saturating_sub(2) / (config.oracle_randomness()[0] + 2);
                if of_rows >= openings {
                    let stack = Stack::kept(places, (start, fold), vars);
                    return Ok(Self {
                        stack,
                        config,
                        openings: of_rows.min(OPENINGS_MAX),
                    });
                }
            }
        }
        Err(no_parameters)
    }

    /// How many openings its random rows serve, at least as many as were asked for.
    #[must_use]
    pub const fn openings(&self) -> usize {
        self.openings
    }

    /// How it is stacked.
    #[must_use]
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// log2 of the number of polynomials that the root leaves open.
    #[must_use]
    pub fn candidate_bits(&self) -> f64 {
        bound::candidate_bits(&self.config)
    }

    /// Most rows that one opening shows.
    #[must_use]
    pub fn rows_shown(&self) -> usize {
        self.config.oracle_randomness()[0]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Every size has a shape with enough random rows, which withstands enough and has three words at most.
    #[test]
    fn every_size_has_room_for_its_openings() {
        for (vars, openings) in [
            (7, 1),
            (7, 65),
            (12, 65),
            (16, 65),
            (19, 65),
            (22, 200),
            (26, 65),
        ] {
            let shape = KeptShape::new(&Columns { vars: vec![vars] }, openings).unwrap();
            let (start, fold) = shape.stack.rows().unwrap();
            assert!(start >= 1 << vars && shape.openings() >= openings);
            let rows = ((1 << shape.stack.vars) - start) >> fold;
            let (shown, all) = (shape.rows_shown(), shape.openings());
            assert!(all * shown + 2 * (all + 1) <= rows);
            let terms = bound::opening(&shape.config);
            assert!(bound::bits(&terms) >= Strength::FULL.bits, "{terms:?}");
            assert!(shape.config.n_rounds() < 3);
        }
        for openings in [0, OPENINGS_MAX + 1] {
            assert!(KeptShape::new(&Columns { vars: vec![7] }, openings).is_err());
        }
        assert!(KeptShape::new(&Columns { vars: vec![27] }, 1).is_err());
    }
}
