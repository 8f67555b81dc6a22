//! The one lookup argument of a proof: its public side.

use crate::algebra::arithmetic::{Arithmetic, Value};
use crate::algebra::field::{E, eq, eq_at, evaluate, identity_at, inner_product};
use crate::algebra::transcript::{Challenger, absorb, draw};
use crate::argument::commitment::Pcs;
use crate::argument::fractional::{self, LeafClaim};
use crate::plan::{LeafBlock, PlacedBlock, Plan};
use crate::verify::messages::{LookupProof, Pushforward, Pushforwards, SumProof};
use crate::verify::{LookupCheck, VerifyError};
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
    /// The point of the last fractional sum.
    pub point: Vec<E>,
    /// The points of the sections' sums, if there are several.
    pub section_points: Vec<Vec<E>>,
    /// Per witness table of n variables its columns at the last n coordinates of its section's point, or of the last.
    pub columns: Vec<Vec<V>>,
    /// What is claimed of the pushforwards, if they are committed.
    pub pushforwards: Option<PushforwardClaims<V>>,
}

impl<V> LookupClaims<V> {
    /// Per section of a plan the point at whose last coordinates its columns are claimed.
    #[must_use]
    pub fn points(&self) -> &[Vec<E>] {
        if self.section_points.is_empty() {
            std::slice::from_ref(&self.point)
        } else {
            &self.section_points
        }
    }
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

/// The messages of the argument.
#[derive(Debug, Clone, Copy)]
pub struct LookupMessages<'a> {
    /// Those of every proof.
    pub proof: &'a LookupProof,
    /// The sums of the sections, if there are several, and the numerator of the tables'.
    pub sums: (&'a [SumProof], E),
}

/// Checks the argument, up to what it leaves to be opened.
///
/// # Errors
/// The part of the argument that fails.
pub fn verify<A: Arithmetic>(
    arithmetic: &mut A,
    (plan, scheme): (&Plan, Option<&Pcs>),
    pulled: &[Pulled<A::Value>],
    messages: LookupMessages<'_>,
    challenger: &mut Challenger,
) -> Result<LookupClaims<A::Value>, VerifyError> {
    let LookupMessages { proof, sums } = messages;
    check_messages(plan, &messages)?;
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
    let (sections, last) = verify_sums(arithmetic, plan, (proof, sums), challenger)?;
    let columns = proof.columns.iter();
    let mut claims = LookupClaims {
        point: last.point.clone(),
        section_points: sections.iter().map(|sum| sum.point.clone()).collect(),
        columns: columns
            .map(|columns| arithmetic.absorb(columns, challenger))
            .collect(),
        pushforwards: None,
    };
    let public = Leaves {
        plan,
        pulled,
        weights: &weights,
        poles: &poles,
        pushforwards: &proof.pushforwards,
    };
    let mut holds = true;
    for (section, sum) in plan.sections.iter().zip(sections) {
        let (numerators, denominators) = public.differences(&section.leaves, &claims.columns, sum);
        holds &= arithmetic.vanishes(numerators) && arithmetic.vanishes(denominators);
    }
    let (numerators, denominators) = public.differences(&plan.leaves, &claims.columns, last);
    holds &= match &proof.pushforwards {
        Pushforwards::Clear(_) => arithmetic.vanishes(numerators),
        // What is missing from the readers' numerators is the tables'.
        Pushforwards::Committed(_) | Pushforwards::Hidden(_) => {
            claims.pushforwards = Some(PushforwardClaims {
                leaves: numerators,
                columns: claimed,
            });
            true
        }
    };
    if !holds || !arithmetic.vanishes(denominators) {
        return Err(VerifyError::Lookup(LookupCheck::Leaves));
    }
    Ok(claims)
}

/// What is left of the sections' sums, and of the last.
type SumClaims<V> = (Vec<LeafClaim<V>>, LeafClaim<V>);

/// Checks all fractional sums down to their leaves: those of the sections, if there are several, and the last. They add
/// up to zero. Stops: a sum of one section that is not its readers', or that another one's does not make up for.
fn verify_sums<A: Arithmetic>(
    arithmetic: &mut A,
    plan: &Plan,
    (proof, (sums, numerator)): (&LookupProof, (&[SumProof], E)),
    challenger: &mut Challenger,
) -> Result<SumClaims<A::Value>, VerifyError> {
    const SUM: VerifyError = VerifyError::Lookup(LookupCheck::Sum);
    let mut claims = Vec::with_capacity(sums.len());
    let (mut total, mut below) = (A::Value::from(E::ZERO), A::Value::from(E::ONE));
    for (section, sum) in plan.sections.iter().zip(sums) {
        let numerator = arithmetic.absorb(&[sum.numerator], challenger).remove(0);
        let root = arithmetic.receive(sum.gkr.root_denominator);
        let shape = ((numerator.clone(), root.clone()), section.leaf_vars);
        claims.push(fractional::verify_sum(arithmetic, &sum.gkr, shape, challenger).ok_or(SUM)?);
        let crossed = arithmetic.product(&numerator, &below);
        total = arithmetic.product(&total, &root) + crossed;
        below = arithmetic.product(&below, &root);
    }
    let last = if sums.is_empty() {
        fractional::verify(arithmetic, &proof.gkr, plan.leaf_vars, challenger)
    } else {
        let numerator = arithmetic.absorb(&[numerator], challenger).remove(0);
        let root = arithmetic.receive(proof.gkr.root_denominator);
        let crossed = arithmetic.product(&numerator, &below);
        let total = arithmetic.product(&total, &root) + crossed;
        if !arithmetic.vanishes(total) {
            return Err(SUM);
        }
        let shape = ((numerator, root), plan.leaf_vars);
        fractional::verify_sum(arithmetic, &proof.gkr, shape, challenger)
    };
    Ok((claims, last.ok_or(SUM)?))
}

/// What the leaves depend on besides the committed columns.
struct Leaves<'a, V> {
    plan: &'a Plan,
    pulled: &'a [Pulled<V>],
    weights: &'a [E],
    poles: &'a [E],
    pushforwards: &'a Pushforwards,
}

impl<V: Value> Leaves<'_, V> {
    /// The leaves of a sum at its final point, from public values and claimed columns, less what the sum claims there.
    /// Stops: leaves that are not (weight of the reader, pole - committed position) and (-pushforward, pole - entry).
    fn differences(&self, leaves: &[PlacedBlock], columns: &[Vec<V>], sum: LeafClaim<V>) -> (V, V) {
        let (mut numerator, mut denominator, mut covered) = (E::ZERO, E::ONE, E::ZERO);
        let mut positions = V::from(E::ZERO);
        for placed in leaves {
            let (high, rest) = sum.point.split_at(sum.point.len() - placed.vars);
            let selector = eq_at(high, placed.start >> placed.vars);
            covered += selector;
            match placed.block {
                LeafBlock::Reader { group, witness } => {
                    let reader = &self.plan.groups[group];
                    let (scale, read_at) =
                        chunk_weights(self.plan, witness, &self.pulled[group].point);
                    numerator += selector * self.weights[group] * scale * eq(read_at, rest);
                    denominator +=
                        selector * (self.poles[reader.table] - E::from_u32(reader.offset));
                    let position = columns[witness][reader.column].clone();
                    positions = positions + position * selector;
                }
                LeafBlock::Table { table } => {
                    if let Pushforwards::Clear(tables) = self.pushforwards {
                        numerator -= selector * evaluate(&tables[table], rest);
                    }
                    denominator += selector * (self.poles[table] - identity_at(rest));
                }
            }
        }
        let denominators = V::from(denominator - covered) - positions;
        (
            V::from(numerator) - sum.numerator,
            denominators - sum.denominator,
        )
    }
}

const MESSAGES: VerifyError = VerifyError::Lookup(LookupCheck::Messages);

fn check_messages(plan: &Plan, messages: &LookupMessages<'_>) -> Result<(), VerifyError> {
    let LookupMessages { proof, sums } = messages;
    let expected = if plan.is_anchored() {
        plan.sections.len()
    } else {
        0
    };
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
    // Stops: a section without a sum.
    if tables && columns && sums.0.len() == expected {
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
