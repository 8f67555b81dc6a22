//! The one lookup argument of a proof: its public side.

use crate::commitment::Challenger;
use crate::error::{LookupCheck, VerifyError};
use crate::field::{E, eq, eq_at, evaluate, identity_at, inner_product};
use crate::messages::LookupProof;
use crate::plan::{LeafBlock, Plan};
use crate::transcript::{absorb, draw};
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::verify_fractional_gkr;

/// What a reader claims to have pulled.
#[derive(Debug, Clone, Default)]
pub struct Pulled {
    /// The point at which the column was read.
    pub point: Vec<E>,
    /// One value per column of the table.
    pub values: Vec<E>,
}

/// Powers of one challenge, one per reader group.
#[must_use]
pub fn group_weights(gamma: E, groups: usize) -> Vec<E> {
    gamma.powers().take(groups).collect()
}

/// The scale and the point of a reader's leaves in one chunk: `eq(r, start + x) = scale * eq(rest, x)`.
#[must_use]
pub fn chunk_weights<'a>(plan: &Plan, witness: usize, point: &'a [E]) -> (E, &'a [E]) {
    let chunk = plan.witness[witness].chunk;
    let (high, rest) = point.split_at(point.len() - chunk.vars);
    (eq_at(high, chunk.start >> chunk.vars), rest)
}

/// Checks the argument and returns the point of the fractional sum; the columns of a witness table with n variables
/// are claimed at its last n coordinates.
///
/// # Errors
/// The part of the argument that fails.
pub fn verify(
    plan: &Plan,
    pulled: &[Pulled],
    proof: &LookupProof,
    challenger: &mut Challenger,
) -> Result<Vec<E>, VerifyError> {
    check_messages(plan, proof)?;
    let gamma = draw(challenger);
    let weights = group_weights(gamma, plan.groups.len());
    check_pulled(plan, pulled, &weights, proof)?;
    proof
        .pushforwards
        .iter()
        .for_each(|pushforward| absorb(challenger, pushforward));
    let poles: Vec<E> = plan.tables.iter().map(|_| draw(challenger)).collect();
    let output = verify_fractional_gkr(&proof.gkr, plan.leaf_vars, challenger)
        .map_err(|_| VerifyError::Lookup(LookupCheck::Sum))?;
    let point = output.point.as_slice().to_vec();
    proof
        .columns
        .iter()
        .for_each(|columns| absorb(challenger, columns));

    // The leaves at the final point, from public values and claimed columns. Stops: leaves that are not
    // (weight of the reader, pole - committed position) and (-pushforward, pole - entry).
    let (mut numerator, mut denominator, mut covered) = (E::ZERO, E::ZERO, E::ZERO);
    for placed in &plan.leaves {
        let (high, rest) = point.split_at(point.len() - placed.vars);
        let selector = eq_at(high, placed.start >> placed.vars);
        covered += selector;
        match placed.block {
            LeafBlock::Reader { group, witness } => {
                let reader = &plan.groups[group];
                let (scale, read_at) = chunk_weights(plan, witness, &pulled[group].point);
                let position = proof.columns[witness][reader.column] + E::from_u32(reader.offset);
                numerator += selector * weights[group] * scale * eq(read_at, rest);
                denominator += selector * (poles[reader.table] - position);
            }
            LeafBlock::Table { table } => {
                numerator -= selector * evaluate(&proof.pushforwards[table], rest);
                denominator += selector * (poles[table] - identity_at(rest));
            }
        }
    }
    if numerator != output.numerator || denominator + E::ONE - covered != output.denominator {
        return Err(VerifyError::Lookup(LookupCheck::Leaves));
    }
    Ok(point)
}

fn check_messages(plan: &Plan, proof: &LookupProof) -> Result<(), VerifyError> {
    let tables = proof.pushforwards.len() == plan.tables.len()
        && proof
            .pushforwards
            .iter()
            .zip(&plan.tables)
            .all(|(pushforward, table)| pushforward.len() == table.len());
    let columns = proof.columns.len() == plan.witness.len()
        && proof
            .columns
            .iter()
            .zip(&plan.witness)
            .all(|(columns, table)| columns.len() == table.columns);
    if tables && columns {
        Ok(())
    } else {
        Err(VerifyError::Lookup(LookupCheck::Messages))
    }
}

/// `<T, Y_t> = sum over readers of t of gamma^g pulled` for every column T of every table t. Stops: values that no
/// entry of the public table gives.
fn check_pulled(
    plan: &Plan,
    pulled: &[Pulled],
    weights: &[E],
    proof: &LookupProof,
) -> Result<(), VerifyError> {
    let mut claimed: Vec<Vec<E>> = plan
        .tables
        .iter()
        .map(|table| vec![E::ZERO; table.columns.len()])
        .collect();
    for ((reader, pulled), &weight) in plan.groups.iter().zip(pulled).zip(weights) {
        if pulled.values.len() != claimed[reader.table].len() {
            return Err(VerifyError::Lookup(LookupCheck::Messages));
        }
        for (sum, &value) in claimed[reader.table].iter_mut().zip(&pulled.values) {
            *sum += weight * value;
        }
    }
    for ((table, pushforward), claimed) in plan.tables.iter().zip(&proof.pushforwards).zip(&claimed)
    {
        for (entries, &claimed) in table.columns.iter().zip(claimed) {
            if inner_product(entries, pushforward) != claimed {
                return Err(VerifyError::Lookup(LookupCheck::Pulled));
            }
        }
    }
    Ok(())
}
