//! The one lookup argument of a proof: its public side.

use crate::commitment::{Challenger, OpeningClaims, opens_at};
use crate::error::{LookupCheck, VerifyError};
use crate::field::{E, eq, eq_at, eq_table, evaluate, identity_at, inner_product, of_coefficients};
use crate::messages::{CommittedPushforwards, LookupProof, Pushforward, Pushforwards};
use crate::model::ProofShape;
use crate::plan::{LeafBlock, Plan, PushforwardLayout};
use crate::transcript::{absorb, draw};
use crate::verify::{padded_point, sumcheck};
use p3_commit::MultilinearPcs;
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

/// `sel_t`, the weight at the fractional sum's point of a table's leaves among all, and the rest of that point.
fn table_weight<'a>(plan: &Plan, table: usize, point: &'a [E]) -> Option<(E, &'a [E])> {
    let placed = plan
        .leaves
        .iter()
        .find(|placed| matches!(placed.block, LeafBlock::Table { table: own } if own == table))?;
    let (high, rest) = point.split_at(point.len() - placed.vars);
    Some((eq_at(high, placed.start >> placed.vars), rest))
}

/// The weights of committed pushforwards in the sum of all claims on them: per table first `sel_t eq(rest, v)`, its
/// leaves' part in the fractional sum, and then every column of its table with a power of beta.
#[derive(Debug)]
pub struct PushforwardWeights<'a> {
    plan: &'a Plan,
    layout: &'a PushforwardLayout,
    point: &'a [E],
    beta: E,
}

impl<'a> PushforwardWeights<'a> {
    /// The weights for the fractional sum's point and a challenge.
    #[must_use]
    pub const fn new(
        plan: &'a Plan,
        layout: &'a PushforwardLayout,
        point: &'a [E],
        beta: E,
    ) -> Self {
        Self {
            plan,
            layout,
            point,
            beta,
        }
    }

    /// The sum that is claimed: the leaves' value, and per table and column what its readers pulled.
    #[must_use]
    pub fn claimed(&self, leaves: E, pulled: &[Vec<E>]) -> E {
        let all = std::iter::once(leaves).chain(pulled.iter().flatten().copied());
        all.zip(self.beta.powers())
            .map(|(value, power)| value * power)
            .sum()
    }

    /// The power of beta of each table's first column.
    fn powers(&self) -> impl Iterator<Item = E> {
        let columns = self.plan.tables.iter().map(|table| table.columns.len());
        columns.scan(self.beta, |power, columns| {
            let first = *power;
            *power *= self.beta.exp_u64(columns as u64);
            Some(first)
        })
    }

    /// One weight per entry of the layout's hypercube.
    #[must_use]
    pub fn table(&self) -> Vec<E> {
        let mut weights = vec![E::ZERO; 1 << self.layout.vars];
        let starts = self.layout.starts.iter().zip(self.powers());
        for ((index, table), (&start, first)) in self.plan.tables.iter().enumerate().zip(starts) {
            let weights = &mut weights[start..start + table.len()];
            if let Some((scale, rest)) = table_weight(self.plan, index, self.point) {
                let leaves = weights.iter_mut().zip(eq_table(rest));
                leaves.for_each(|(weight, eq)| *weight = scale * eq);
            }
            for (entries, power) in table.columns.iter().zip(self.beta.shifted_powers(first)) {
                let entries = weights.iter_mut().zip(entries);
                entries.for_each(|(weight, &entry)| *weight += power * entry);
            }
        }
        weights
    }

    /// Their extension at a point. Linear in the tables, which are public.
    #[must_use]
    pub fn at(&self, point: &[E]) -> E {
        let eq = eq_table(point);
        let starts = self.layout.starts.iter().zip(self.powers());
        let tables = self.plan.tables.iter().enumerate().zip(starts);
        tables
            .map(|((index, table), (&start, first))| {
                let eq = &eq[start..start + table.len()];
                let leaves = table_weight(self.plan, index, self.point).map(|(scale, rest)| {
                    let pairs = eq.iter().zip(eq_table(rest));
                    scale * pairs.map(|(&a, b)| a * b).sum::<E>()
                });
                let columns = table.columns.iter().zip(self.beta.shifted_powers(first));
                let columns = columns.map(|(entries, power)| power * inner_product(entries, eq));
                leaves.unwrap_or_default() + columns.sum::<E>()
            })
            .sum()
    }
}

/// Checks the argument and returns the point of the fractional sum; the columns of a witness table with n variables
/// are claimed at its last n coordinates.
///
/// # Errors
/// The part of the argument that fails.
pub fn verify(
    shape: &ProofShape,
    pulled: &[Pulled],
    proof: &LookupProof,
    challenger: &mut Challenger,
) -> Result<Vec<E>, VerifyError> {
    let plan = &shape.plan;
    check_messages(plan, proof)?;
    let gamma = draw(challenger);
    let weights = group_weights(gamma, plan.groups.len());
    let claimed = claimed_columns(plan, pulled, &weights)?;
    match &proof.pushforwards {
        Pushforwards::Clear(tables) => {
            check_pulled(plan, &claimed, tables)?;
            tables.iter().for_each(|table| absorb(challenger, table));
        }
        Pushforwards::Committed(committed) => {
            let (scheme, _) = shape.pushforwards.as_ref().ok_or(MESSAGES)?;
            scheme.observe_commitment(&committed.root, challenger);
        }
    }
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
                if let Pushforwards::Clear(tables) = &proof.pushforwards {
                    numerator -= selector * evaluate(&tables[table], rest);
                }
                denominator += selector * (poles[table] - identity_at(rest));
            }
        }
    }
    if denominator + E::ONE - covered != output.denominator {
        return Err(VerifyError::Lookup(LookupCheck::Leaves));
    }
    match &proof.pushforwards {
        Pushforwards::Clear(_) if numerator != output.numerator => {
            Err(VerifyError::Lookup(LookupCheck::Leaves))
        }
        Pushforwards::Clear(_) => Ok(point),
        // What is missing from the readers' numerators is the tables': a claim on the committed pushforwards.
        Pushforwards::Committed(committed) => {
            let leaves = numerator - output.numerator;
            check_committed(shape, &point, leaves, &claimed, committed, challenger)?;
            Ok(point)
        }
    }
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
        (Pushforwards::Committed(committed), Some(layout)) => {
            committed.columns.len() == layout.chunks.len()
        }
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
fn claimed_columns(
    plan: &Plan,
    pulled: &[Pulled],
    weights: &[E],
) -> Result<Vec<Vec<E>>, VerifyError> {
    let tables = plan.tables.iter();
    let mut claimed: Vec<Vec<E>> = tables
        .map(|table| vec![E::ZERO; table.columns.len()])
        .collect();
    for ((reader, pulled), &weight) in plan.groups.iter().zip(pulled).zip(weights) {
        if pulled.values.len() != claimed[reader.table].len() {
            return Err(MESSAGES);
        }
        for (sum, &value) in claimed[reader.table].iter_mut().zip(&pulled.values) {
            *sum += weight * value;
        }
    }
    Ok(claimed)
}

/// `<T, Y_t>` is what the readers pulled, for every column T of every table t. Stops: values that no entry of the public
/// table gives.
fn check_pulled(
    plan: &Plan,
    claimed: &[Vec<E>],
    pushforwards: &[Pushforward],
) -> Result<(), VerifyError> {
    for ((table, pushforward), claimed) in plan.tables.iter().zip(pushforwards).zip(claimed) {
        for (entries, &claimed) in table.columns.iter().zip(claimed) {
            if inner_product(entries, pushforward) != claimed {
                return Err(VerifyError::Lookup(LookupCheck::Pulled));
            }
        }
    }
    Ok(())
}

/// The same for committed pushforwards, and that their leaves in the fractional sum are theirs: one sum of Y times
/// weights, which ends in the committed columns at one point.
fn check_committed(
    shape: &ProofShape,
    point: &[E],
    leaves: E,
    claimed: &[Vec<E>],
    proof: &CommittedPushforwards,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    const PULLED: VerifyError = VerifyError::Lookup(LookupCheck::Pulled);
    let plan = &shape.plan;
    let layout = plan.pushforwards.as_ref().ok_or(MESSAGES)?;
    let (scheme, protocol) = shape.pushforwards.as_ref().ok_or(MESSAGES)?;
    let weights = PushforwardWeights::new(plan, layout, point, draw(challenger));
    let sum = weights.claimed(leaves, claimed);
    let (at, last) = sumcheck(&proof.sumcheck, challenger, layout.vars, 2, sum).ok_or(PULLED)?;
    let mut opened = OpeningClaims::default();
    let mut value = E::ZERO;
    for (chunk, columns) in layout.chunks.iter().zip(&proof.columns) {
        absorb(challenger, columns);
        let (high, rest) = at.split_at(at.len() - chunk.vars);
        value += eq_at(high, chunk.start >> chunk.vars) * of_coefficients(columns);
        opened.push(padded_point(rest, chunk.column_vars()), columns.to_vec());
    }
    // Stops: values that no entry of a public table gives, pushforwards that are not those of the sum.
    if last != value * weights.at(&at) {
        return Err(PULLED);
    }
    let argument = &proof.opening;
    if opens_at(scheme, protocol, &proof.root, opened, argument, challenger) {
        Ok(())
    } else {
        Err(VerifyError::Opening {
            which: "pushforwards",
        })
    }
}
