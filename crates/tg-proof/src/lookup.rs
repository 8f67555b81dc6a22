//! The one lookup argument of a proof: its public side.

use crate::arithmetic::Arithmetic;
use crate::commitment::{Challenger, Pcs};
use crate::error::{LookupCheck, VerifyError};
use crate::field::{E, eq, eq_at, evaluate, identity_at, inner_product};
use crate::fractional;
use crate::messages::{LookupProof, Pushforward, Pushforwards};
use crate::plan::{LeafBlock, Plan};
use crate::transcript::{absorb, draw};
use p3_challenger::CanObserve;
use p3_commit::MultilinearPcs;
use p3_field::PrimeCharacteristicRing;

/// What a reader claims to have pulled.
#[derive(Debug, Clone)]
pub struct Pulled<V = E> {
    /// The point at which the column was read.
    pub point: Vec<E>,
    /// One value per column of the table.
    pub values: Vec<V>,
}

/// What the argument leaves to be opened.
#[derive(Debug, Clone)]
pub struct LookupClaims<V = E> {
    /// The point of the fractional sum; the columns of a witness table with n variables are claimed at its last n
    /// coordinates.
    pub point: Vec<E>,
    /// Per witness table its columns there.
    pub columns: Vec<Vec<V>>,
    /// What is claimed of the pushforwards, if they are committed.
    pub pushforwards: Option<PushforwardClaims<V>>,
}

/// What is claimed of committed pushforwards Y.
#[derive(Debug, Clone)]
pub struct PushforwardClaims<V = E> {
    /// The sum over all tables t of `sel_t Y_t~(rest of the point)`, sel_t the weight of the table's block of leaves.
    pub leaves: V,
    /// Per table and column T of it `<T, Y_t>`.
    pub columns: Vec<Vec<V>>,
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

/// Checks the argument, up to what it leaves to be opened.
///
/// # Errors
/// The part of the argument that fails.
pub fn verify<A: Arithmetic>(
    arithmetic: &mut A,
    (plan, scheme): (&Plan, Option<&Pcs>),
    pulled: &[Pulled<A::Value>],
    proof: &LookupProof,
    challenger: &mut Challenger,
) -> Result<LookupClaims<A::Value>, VerifyError> {
    check_messages(plan, proof)?;
    let gamma = draw(challenger);
    let weights = group_weights(gamma, plan.groups.len());
    let claimed = claimed_columns::<A>(plan, pulled, &weights)?;
    match &proof.pushforwards {
        Pushforwards::Clear(tables) => {
            check_pulled(arithmetic, plan, &claimed, tables)?;
            tables.iter().for_each(|table| absorb(challenger, table));
        }
        Pushforwards::Committed(committed) => {
            let scheme = scheme.ok_or(MESSAGES)?;
            scheme.observe_commitment(&committed.root, challenger);
        }
        Pushforwards::Hidden(root) => challenger.observe(root.clone()),
    }
    let poles: Vec<E> = plan.tables.iter().map(|_| draw(challenger)).collect();
    let sum = fractional::verify(arithmetic, &proof.gkr, plan.leaf_vars, challenger)
        .ok_or(VerifyError::Lookup(LookupCheck::Sum))?;
    let columns = proof.columns.iter();
    let mut claims = LookupClaims {
        point: sum.point,
        columns: columns
            .map(|columns| arithmetic.absorb(columns, challenger))
            .collect(),
        pushforwards: None,
    };
    let point = &claims.point;

    // The leaves at the final point, from public values and claimed columns. Stops: leaves that are not
    // (weight of the reader, pole - committed position) and (-pushforward, pole - entry).
    let (mut numerator, mut denominator, mut covered) = (E::ZERO, E::ONE, E::ZERO);
    let mut positions = A::Value::from(E::ZERO);
    for placed in &plan.leaves {
        let (high, rest) = point.split_at(point.len() - placed.vars);
        let selector = eq_at(high, placed.start >> placed.vars);
        covered += selector;
        match placed.block {
            LeafBlock::Reader { group, witness } => {
                let reader = &plan.groups[group];
                let (scale, read_at) = chunk_weights(plan, witness, &pulled[group].point);
                numerator += selector * weights[group] * scale * eq(read_at, rest);
                denominator += selector * (poles[reader.table] - E::from_u32(reader.offset));
                let position = claims.columns[witness][reader.column].clone();
                positions = positions + position * selector;
            }
            LeafBlock::Table { table } => {
                if let Pushforwards::Clear(tables) = &proof.pushforwards {
                    numerator -= selector * evaluate(&tables[table], rest);
                }
                denominator += selector * (poles[table] - identity_at(rest));
            }
        }
    }
    let denominator = A::Value::from(denominator - covered) - positions;
    let leaves = A::Value::from(numerator) - sum.numerator;
    let numerators = match &proof.pushforwards {
        Pushforwards::Clear(_) => arithmetic.vanishes(leaves),
        // What is missing from the readers' numerators is the tables'.
        Pushforwards::Committed(_) | Pushforwards::Hidden(_) => {
            claims.pushforwards = Some(PushforwardClaims {
                leaves,
                columns: claimed,
            });
            true
        }
    };
    if !numerators || !arithmetic.vanishes(denominator - sum.denominator) {
        return Err(VerifyError::Lookup(LookupCheck::Leaves));
    }
    Ok(claims)
}

const MESSAGES: VerifyError = VerifyError::Lookup(LookupCheck::Messages);

fn check_messages(plan: &Plan, proof: &LookupProof) -> Result<(), VerifyError> {
    let tables = match (&proof.pushforwards, &plan.pushforwards) {
        (Pushforwards::Clear(tables), None) => {
            tables.len() == plan.tables.len()
                && tables
                    .iter()
                    .zip(&plan.tables)
                    .all(|(pushforward, table)| pushforward.len() == table.len())
        }
        (Pushforwards::Committed(committed), Some(layout)) if !plan.hidden => {
            committed.columns.len() == layout.chunks.len()
        }
        // Stops: a proof in zero knowledge that hides nothing, and one in the clear that is not bound.
        (Pushforwards::Hidden(_), Some(_)) => plan.hidden,
        _ => false,
    };
    let columns = proof.columns.len() == plan.witness.len()
        && proof
            .columns
            .iter()
            .zip(&plan.witness)
            .all(|(columns, table)| columns.len() == table.columns);
    if tables && columns {
        Ok(())
    } else {
        Err(MESSAGES)
    }
}

/// Per column T of every table t, `sum over readers of t of gamma^g pulled`.
fn claimed_columns<A: Arithmetic>(
    plan: &Plan,
    pulled: &[Pulled<A::Value>],
    weights: &[E],
) -> Result<Vec<Vec<A::Value>>, VerifyError> {
    let tables = plan.tables.iter();
    let mut claimed: Vec<Vec<A::Value>> = tables
        .map(|table| vec![A::Value::from(E::ZERO); table.columns.len()])
        .collect();
    for ((reader, pulled), &weight) in plan.groups.iter().zip(pulled).zip(weights) {
        if pulled.values.len() != claimed[reader.table].len() {
            return Err(MESSAGES);
        }
        for (sum, value) in claimed[reader.table].iter_mut().zip(&pulled.values) {
            *sum = sum.clone() + value.clone() * weight;
        }
    }
    Ok(claimed)
}

/// `<T, Y_t>` is what the readers pulled, for every column T of every table t. Stops: values that no entry of the public
/// table gives.
fn check_pulled<A: Arithmetic>(
    arithmetic: &mut A,
    plan: &Plan,
    claimed: &[Vec<A::Value>],
    pushforwards: &[Pushforward],
) -> Result<(), VerifyError> {
    for ((table, pushforward), claimed) in plan.tables.iter().zip(pushforwards).zip(claimed) {
        for (entries, claimed) in table.columns.iter().zip(claimed) {
            let given = A::Value::from(inner_product(entries, pushforward));
            if !arithmetic.vanishes(given - claimed.clone()) {
                return Err(VerifyError::Lookup(LookupCheck::Pulled));
            }
        }
    }
    Ok(())
}
