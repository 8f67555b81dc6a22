//! The one lookup argument of a proof: the prover's side.

use crate::channel::Channel;
use crate::fractional::{self, Leaves, LeavesBuilder};
use crate::pack;
use crate::prove::ProveError;
use crate::pushforward::{self, Committed};
use crate::witness::{Witness, integer};
use p3_challenger::CanObserve;
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::OpeningProtocol;
use std::collections::BTreeMap;
use std::sync::Arc;
use tg_proof::commitment::{Commitment, Pcs};
use tg_proof::field::{E, F, eq_table, inner_product};
use tg_proof::lookup::{chunk_weights, group_weights};
use tg_proof::messages::{LookupProof, Pushforward, Pushforwards};
use tg_proof::plan::{LeafBlock, Plan};

/// Rows whose weights one task scatters.
const TASK_ROWS: usize = 1 << 14;

/// What a reader has read: its point and its pushforward.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// Where the column was read.
    pub(crate) point: Arc<[E]>,
    /// Per table entry the weight of the rows that read it.
    pub(crate) pushforward: Vec<E>,
}

impl Read {
    /// Reads a group's columns at a point with its equality weights.
    pub(crate) fn new(
        plan: &Plan,
        witness: &Witness,
        group: usize,
        point: &Arc<[E]>,
        eq: &[E],
    ) -> Self {
        let reader = &plan.groups[group];
        let entries = plan.tables[reader.table].len();
        let mut pushforward = vec![E::ZERO; entries];
        for table in reader.witness.clone() {
            let chunk = plan.witness[table].chunk;
            let weights = &eq[chunk.start..chunk.start + chunk.rows()];
            let column = &witness.columns[table][reader.column][..chunk.rows()];
            let parts: Vec<Vec<E>> = column
                .par_chunks(TASK_ROWS)
                .zip(weights.par_chunks(TASK_ROWS))
                .map(|(values, weights)| {
                    let mut sums = vec![E::ZERO; entries];
                    for (&value, &weight) in values.iter().zip(weights) {
                        let position = position(integer(value), reader.offset);
                        // A position outside the table reads nothing; the fractional sum will not vanish.
                        if let Some(sum) = sums.get_mut(position) {
                            *sum += weight;
                        }
                    }
                    sums
                })
                .collect();
            for part in parts {
                let sums = pushforward.iter_mut().zip(part);
                sums.for_each(|(sum, value)| *sum += value);
            }
        }
        Self {
            point: Arc::clone(point),
            pushforward,
        }
    }

    /// The pulled value of a table column.
    pub(crate) fn pull(&self, plan: &Plan, group: usize, column: usize) -> E {
        inner_product(
            &plan.tables[plan.groups[group].table].columns[column],
            &self.pushforward,
        )
    }
}

/// The position that a committed value names, modulo the prime.
const fn position(value: u32, offset: u32) -> usize {
    ((value as u64 + offset as u64) % PRIME) as usize
}

const PRIME: u64 = (1 << 31) - (1 << 24) + 1;

/// Proves the argument and returns the point of the fractional sum.
pub(crate) fn prove<'a>(
    plan: &'a Plan,
    pushing: Pushing<'a>,
    columns: &Columns<'_>,
    reads: &[Read],
    channel: &mut Channel,
) -> Result<(LookupProof, Vec<E>), ProveError> {
    let gamma = channel.draw();
    let weights = group_weights(gamma, plan.groups.len());
    let pushforwards = combine(plan, reads, &weights);
    #[cfg(test)]
    let pushforwards = crate::tests::pushforwards::lied(pushforwards);
    let pushed = pushing.commit(plan, &pushforwards, channel)?;
    let poles: Vec<E> = plan.tables.iter().map(|_| channel.draw()).collect();
    let drawn = Drawn {
        weights: &weights,
        pushforwards: &pushforwards,
        poles: &poles,
    };
    let leaves = leaves(plan, columns, reads, &drawn);
    #[cfg(test)]
    let leaves = closed(leaves);
    let (gkr, point) = fractional::prove(&leaves, channel);
    drop(leaves);
    let columns = evaluate_columns(plan, columns, &point).into_iter();
    let columns = columns.map(|columns| channel.send_all(&columns)).collect();
    let pushforwards = match pushed {
        Pushed::Clear => Pushforwards::Clear(pushforwards.into_iter().map(Pushforward).collect()),
        Pushed::Committed(committed) => committed.open(plan, &point, channel)?,
        Pushed::Hidden(root) => Pushforwards::Hidden(root),
    };
    let proof = LookupProof {
        pushforwards,
        gkr,
        columns,
    };
    Ok((proof, point))
}

/// A hiding commitment to the pushforwards of all tables.
pub(crate) type Hide<'a> = &'a mut dyn FnMut(&[Vec<E>]) -> Result<Commitment, ProveError>;

/// How the pushforwards travel, unless they are sent.
pub(crate) enum Pushing<'a> {
    /// In the clear, or committed if the plan says so.
    Plain(Option<&'a (Pcs, OpeningProtocol)>),
    /// In a hiding commitment.
    Hidden(Hide<'a>),
}

/// Pushforwards that are bound.
enum Pushed<'a> {
    Clear,
    Committed(Committed<'a>),
    Hidden(Commitment),
}

impl<'a> Pushing<'a> {
    /// Sends or commits the pushforwards.
    fn commit(
        self,
        plan: &'a Plan,
        pushforwards: &[Vec<E>],
        channel: &mut Channel,
    ) -> Result<Pushed<'a>, ProveError> {
        match (self, &plan.pushforwards) {
            (Self::Hidden(hide), _) => {
                let root = hide(pushforwards)?;
                channel.challenger().observe(root.clone());
                Ok(Pushed::Hidden(root))
            }
            (Self::Plain(Some(scheme)), Some(layout)) => {
                let committed = pushforward::commit(layout, scheme, pushforwards, channel)?;
                Ok(Pushed::Committed(committed))
            }
            (Self::Plain(_), _) => {
                let tables = pushforwards.iter();
                tables.for_each(|table| channel.send_public(table));
                Ok(Pushed::Clear)
            }
        }
    }
}

/// Per table the sum of its readers' pushforwards.
fn combine(plan: &Plan, reads: &[Read], weights: &[E]) -> Vec<Vec<E>> {
    let mut pushforwards: Vec<Vec<E>> = plan
        .tables
        .iter()
        .map(|table| vec![E::ZERO; table.len()])
        .collect();
    for ((reader, read), &weight) in plan.groups.iter().zip(reads).zip(weights) {
        for (sum, &value) in pushforwards[reader.table].iter_mut().zip(&read.pushforward) {
            *sum += weight * value;
        }
    }
    pushforwards
}

/// What the leaves depend on besides columns and points.
struct Drawn<'a> {
    weights: &'a [E],
    pushforwards: &'a [Vec<E>],
    poles: &'a [E],
}

/// The leaves of the fractional sum.
fn leaves<'a>(plan: &Plan, columns: &Columns<'a>, reads: &[Read], drawn: &Drawn<'_>) -> Leaves<'a> {
    let mut leaves = LeavesBuilder::new(plan.leaf_vars);
    for placed in &plan.leaves {
        let length = 1usize << placed.vars;
        match placed.block {
            LeafBlock::Reader { group, witness } => {
                let reader = &plan.groups[group];
                let (scale, rest) = chunk_weights(plan, witness, &reads[group].point);
                let pole = drawn.poles[reader.table] - E::from_u32(reader.offset);
                let column = &columns.column(witness, reader.column)[..length];
                leaves.column(drawn.weights[group] * scale, rest, pole, column);
            }
            LeafBlock::Table { table } => {
                let values = drawn.pushforwards[table].iter().map(|&value| -value);
                let mut values: Vec<E> = values.collect();
                values.resize(length, E::ZERO);
                let pole = drawn.poles[table];
                let places = (0..length).map(|entry| pole - F::from_usize(entry));
                leaves.fractions(values, places.collect());
            }
        }
    }
    leaves.finish()
}

/// The committed columns, wherever the commitment keeps them.
pub(crate) struct Columns<'a>(pub(crate) &'a (dyn Fn(usize, usize) -> &'a [F] + Sync));

impl<'a> Columns<'a> {
    /// A column of a witness table.
    fn column(&self, table: usize, column: usize) -> &'a [F] {
        (self.0)(table, column)
    }
}

/// The leaves with a lie in the last numerator that makes the sum vanish.
#[cfg(test)]
fn closed(mut leaves: Leaves<'_>) -> Leaves<'_> {
    leaves.close();
    leaves
}

/// Makes a sum of fractions vanish by a lie in its last numerator, so that a lying prover can go on: the library's
/// prover stops at a sum that does not vanish.
#[cfg(test)]
pub(crate) fn close(numerators: &mut [E], denominators: &[E]) {
    use p3_field::Field;
    let fractions = numerators.iter().zip(denominators);
    let sum: E = fractions.map(|(&n, d)| n * d.inverse()).sum();
    if let Some((numerator, denominator)) = numerators.last_mut().zip(denominators.last()) {
        *numerator -= sum * *denominator;
    }
}

/// Per witness table its columns at the last coordinates of the point.
fn evaluate_columns(plan: &Plan, columns: &Columns<'_>, point: &[E]) -> Vec<Vec<E>> {
    let mut weights = BTreeMap::new();
    let short = pack::WIDTH.ilog2() as usize;
    let tables = plan.witness.iter().enumerate();
    tables
        .map(|(index, table)| {
            let vars = table.chunk.vars;
            let rest = &point[point.len() - vars..];
            let column = |column| &columns.column(index, column)[..1 << vars];
            if vars < short {
                let eq = eq_table(rest);
                return (0..table.columns)
                    .map(|index| inner_product(column(index), &eq))
                    .collect();
            }
            let eq = weights
                .entry(vars)
                .or_insert_with(|| Poly::new_packed_from_point::<F, E>(rest, E::ONE));
            (0..table.columns)
                .map(|index| pack::inner_product(column(index), eq.as_slice()))
                .collect()
        })
        .collect()
}
