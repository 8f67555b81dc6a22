//! Registration: every committed weight is in [-127, 127] and every padded cell is zero.

use crate::algebra::arithmetic::Clear;
use crate::algebra::field::{E, eq_at, eq_table, identity_at};
use crate::algebra::layout::log2_ceil;
pub use crate::algebra::layout::{Axis, WeightTable, weight_tables};
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::Theorem;
use crate::algebra::transcript::{self, Challenger, absorb, draw, draw_point};
use crate::argument::commitment::{Commitment, Pcs, WeightCommitment, opens_to};
use crate::argument::fractional;
use crate::argument::sumcheck::{self, SumShape};
use crate::plan::shape::WeightsShape;
use crate::verify::messages::{self, PaddingProof, RegistrationProof};
use p3_challenger::CanObserve;
use p3_commit::MultilinearPcs;
use p3_field::PrimeCharacteristicRing;
use p3_sumcheck::PrescribedPointPcs;
use tg_ir::weights::WEIGHT_MAX;
use tg_types::ProgramId;

/// What a registration proof can violate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The proof's bytes are not canonical or its lists of another length.
    #[error("the registration proof is malformed")]
    Malformed,
    /// The committed cells are not all in [-127, 127].
    #[error("the committed weights are not shown to be in range")]
    Range,
    /// Padded cells are not all zero.
    #[error("the padding of the committed weights is not shown to be zero")]
    Padding,
    /// The opening does not verify.
    #[error("the opening of the weights does not verify")]
    Opening,
    /// The opening shows other values than the proof used.
    #[error("the weights open to other values than the registration proof used")]
    Opened,
}

impl RegistrationError {
    /// A stable number for receipts and APIs.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Malformed => 60,
            Self::Range => 61,
            Self::Padding => 62,
            Self::Opening => 63,
            Self::Opened => 64,
        }
    }
}

/// Values a weight may take: -127 to 127.
pub const WEIGHT_VALUES: usize = 2 * WEIGHT_MAX as usize + 1;

/// Where a block of leaves starts: a column of a table, or the multiplicities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeBlock {
    /// Table and column, or nothing for the multiplicities.
    pub cell: Option<(usize, usize)>,
    /// First leaf.
    pub start: usize,
    /// log2 of the number of leaves.
    pub vars: usize,
}

/// The leaves of the range argument, largest blocks first, and log2 of their number.
#[must_use]
pub fn range_leaves(tables: &[WeightTable]) -> (Vec<RangeBlock>, usize) {
    let mut blocks: Vec<(Option<(usize, usize)>, usize)> = tables
        .iter()
        .enumerate()
        .flat_map(|(index, table)| {
            (0..table.columns).map(move |column| (Some((index, column)), table.vars()))
        })
        .collect();
    blocks.push((None, log2_ceil(WEIGHT_VALUES)));
    blocks.sort_by_key(|&(_, vars)| std::cmp::Reverse(vars));
    let mut start = 0;
    let placed = blocks
        .into_iter()
        .map(|(cell, vars)| {
            let block = RangeBlock { cell, start, vars };
            start += 1 << vars;
            block
        })
        .collect();
    (placed, log2_ceil(start).max(1))
}

/// Degree of what the sum of a range argument over 2^vars leaves draws.
#[must_use]
pub(super) fn range_degree(vars: usize) -> f64 {
    let mut counted = Receiver::counting();
    // A sum of no leaves draws nothing.
    let _ = fractional::verify(&mut counted, None, vars);
    let charges = counted.tally.charges.iter();
    charges.map(|charge| charge.degree as f64).sum()
}

/// The point at which a weight commitment is anchored, drawn from the program and the root alone, and the transcript
/// after the draw. A table with n variables is anchored at its last n coordinates.
#[must_use]
pub fn anchor_point(
    program: ProgramId,
    scheme: &Pcs,
    root: &Commitment,
    tables: &[WeightTable],
) -> (Challenger, Vec<E>) {
    let mut challenger = transcript::registration(program);
    scheme.observe_commitment(root, &mut challenger);
    let vars = tables.iter().map(WeightTable::vars).max().unwrap_or(0);
    let point = draw_point(&mut challenger, vars);
    (challenger, point)
}

/// Checks the registration proof of a program's weights, whose tables are given, against their commitment.
///
/// # Errors
/// The part that fails.
pub(crate) fn verify(
    program: ProgramId,
    tables: &[WeightTable],
    committed: Option<(&WeightsShape, &WeightCommitment)>,
    proof: &[u8],
) -> Result<(), RegistrationError> {
    let Some((weights, commitment)) = committed else {
        // Without weights there is nothing to show, and one way to show it.
        return match proof {
            [] => Ok(()),
            _ => Err(RegistrationError::Malformed),
        };
    };
    let proof: RegistrationProof = messages::decode(proof).ok_or(RegistrationError::Malformed)?;
    // Every cell is counted once. Stops: a second encoding, by adding p to a multiplicity.
    let cells: u64 = tables
        .iter()
        .map(|table| (table.columns as u64) << table.vars())
        .sum();
    let counted: u64 = proof.multiplicities.iter().map(|&m| u64::from(m)).sum();
    let shape = counted == cells
        && proof.multiplicities.len() == WEIGHT_VALUES
        && proof.columns.len() == tables.len()
        && proof
            .columns
            .iter()
            .zip(tables)
            .all(|(columns, table)| columns.len() == table.columns)
        && proof.padding.len() == tables.len()
        && proof
            .padding
            .iter()
            .zip(tables)
            .all(|(padding, table)| padding.columns.len() == table.columns);
    if !shape {
        return Err(RegistrationError::Malformed);
    }
    let WeightCommitment { root, anchor } = commitment;
    let (mut challenger, anchored_at) = anchor_point(program, &weights.scheme, root, tables);
    anchor
        .iter()
        .for_each(|columns| absorb(&mut challenger, columns));
    let range_point = verify_range(tables, &proof, &mut challenger)?;
    let mut points = Vec::new();
    let mut expected = Vec::new();
    let messages = proof.columns.iter().zip(&proof.padding).zip(anchor);
    for (table, ((columns, padding), anchor)) in tables.iter().zip(messages) {
        let at = verify_padding(table, padding, &mut challenger)?;
        points.push(table.last_coordinates(&range_point));
        expected.push(columns);
        points.push(crate::algebra::field::point(&at));
        expected.push(&padding.columns);
        // Stops: weights that are registered as one polynomial near the root and used as another.
        points.push(table.last_coordinates(&anchored_at));
        expected.push(anchor);
    }
    let opened = weights
        .scheme
        .verify_at(
            root,
            &proof.opening,
            &weights.registration,
            &points,
            &mut challenger,
        )
        .map_err(|_| RegistrationError::Opening)?;
    if opens_to(&opened, &expected) {
        Ok(())
    } else {
        Err(RegistrationError::Opened)
    }
}

fn verify_range(
    tables: &[WeightTable],
    proof: &RegistrationProof,
    challenger: &mut Challenger,
) -> Result<Vec<E>, RegistrationError> {
    let (blocks, vars) = range_leaves(tables);
    absorb_multiplicities(&proof.multiplicities, challenger);
    let pole = draw(challenger);
    let mut channel = Receiver::new(Clear, challenger);
    let output =
        fractional::verify(&mut channel, Some(&proof.gkr), vars).ok_or(RegistrationError::Range)?;
    let point = output.point;
    proof
        .columns
        .iter()
        .for_each(|columns| absorb(challenger, columns));
    let (mut numerator, mut denominator, mut covered) = (E::ZERO, E::ZERO, E::ZERO);
    for block in &blocks {
        let (high, rest) = point.split_at(point.len() - block.vars);
        let selector = eq_at(high, block.start >> block.vars);
        covered += selector;
        match block.cell {
            Some((table, column)) => {
                numerator += selector;
                denominator += selector
                    * (pole - E::from_u32(WEIGHT_MAX as u32) - proof.columns[table][column]);
            }
            None => {
                let multiplicity: E = eq_table(rest)
                    .into_iter()
                    .zip(&proof.multiplicities)
                    .map(|(weight, &count)| weight * E::from_u32(count))
                    .sum();
                numerator -= selector * multiplicity;
                denominator += selector * (pole - identity_at(rest));
            }
        }
    }
    // Stops: leaves that are not (1, pole - 127 - cell), that is, a weight outside [-127, 127].
    if numerator != output.numerator || denominator + E::ONE - covered != output.denominator {
        return Err(RegistrationError::Range);
    }
    Ok(point)
}

fn verify_padding(
    table: &WeightTable,
    proof: &PaddingProof,
    challenger: &mut Challenger,
) -> Result<Vec<E>, RegistrationError> {
    let lambda = draw(challenger);
    let at = draw_point(challenger, table.vars());
    // Stops: hidden weights in padded cells.
    let shape = SumShape {
        rounds: table.vars(),
        degree: 2,
        theorem: Theorem::Sum,
    };
    let mut channel = Receiver::new(Clear, challenger);
    let (point, last) = sumcheck::verify(&mut channel, Some(&proof.sumcheck), shape, E::ZERO)
        .ok_or(RegistrationError::Padding)?;
    absorb(challenger, &proof.columns);
    let combined: E = proof
        .columns
        .iter()
        .zip(lambda.powers())
        .map(|(&value, power)| value * power)
        .sum();
    if last != combined * table.padding_at(&at, &point) {
        return Err(RegistrationError::Padding);
    }
    Ok(point)
}

/// Absorbs the multiplicities, before the pole is drawn.
pub fn absorb_multiplicities(multiplicities: &[u32], challenger: &mut Challenger) {
    multiplicities
        .iter()
        .for_each(|&count| challenger.observe(crate::algebra::field::F::from_u32(count)));
}
