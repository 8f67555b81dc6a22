//! The one lookup argument of a proof: the prover's side.

use crate::pack::{self, PackedE, PackedF};
use crate::witness::{Witness, integer};
use p3_field::{PackedFieldExtension, PackedValue, PrimeCharacteristicRing};
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::{Fraction, LeafNumerator, prove_fractional_gkr};
use p3_multilinear_util::poly::{Poly, PolyMaybePacked};
use std::collections::BTreeMap;
use std::sync::Arc;
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, F, eq_table, inner_product};
use tg_proof::lookup::{chunk_weights, group_weights};
use tg_proof::messages::{LookupProof, Pushforward};
use tg_proof::plan::{LeafBlock, Plan};
use tg_proof::transcript::{absorb, draw};

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
pub(crate) fn prove(
    plan: &Plan,
    columns: &Columns<'_>,
    reads: &[Read],
    challenger: &mut Challenger,
) -> (LookupProof, Vec<E>) {
    let gamma = draw(challenger);
    let weights = group_weights(gamma, plan.groups.len());
    let pushforwards = combine(plan, reads, &weights);
    pushforwards
        .iter()
        .for_each(|pushforward| absorb(challenger, pushforward));
    let poles: Vec<E> = plan.tables.iter().map(|_| draw(challenger)).collect();
    let (numerators, denominators) = leaves(plan, columns, reads, &weights, &pushforwards, &poles);
    #[cfg(test)]
    let numerators = closed(numerators, &denominators);
    let fraction = Fraction {
        n: LeafNumerator::Ext(&numerators),
        d: &denominators,
    };
    let (gkr, output) = prove_fractional_gkr::<F, E, Challenger>(fraction, challenger);
    drop(numerators);
    drop(denominators);
    let point = output.point.as_slice().to_vec();
    let columns = evaluate_columns(plan, columns, &point);
    columns
        .iter()
        .for_each(|columns| absorb(challenger, columns));
    (
        LookupProof {
            pushforwards: pushforwards.into_iter().map(Pushforward).collect(),
            gkr,
            columns,
        },
        point,
    )
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

/// Numerators and denominators of the fractional sum.
type Leaves = (PolyMaybePacked<F, E>, PolyMaybePacked<F, E>);

/// The leaves, as vectors. Blocks come largest first, so those shorter than a vector are at the end.
fn leaves(
    plan: &Plan,
    columns: &Columns<'_>,
    reads: &[Read],
    weights: &[E],
    pushforwards: &[Vec<E>],
    poles: &[E],
) -> Leaves {
    let whole = 1usize << plan.leaf_vars.max(pack::WIDTH.ilog2() as usize);
    let mut numerators = PackedE::zero_vec(whole / pack::WIDTH);
    let mut denominators = vec![PackedE::ONE; whole / pack::WIDTH];
    let (mut n, mut d) = (numerators.as_mut_slice(), denominators.as_mut_slice());
    let (mut tail_n, mut tail_d) = (Vec::new(), Vec::new());
    let mut blocks = Vec::new();
    for placed in &plan.leaves {
        let length = 1usize << placed.vars;
        if length >= pack::WIDTH {
            let (head, rest) = n.split_at_mut(length / pack::WIDTH);
            let (head_d, rest_d) = d.split_at_mut(length / pack::WIDTH);
            (n, d) = (rest, rest_d);
            blocks.push((placed, head, head_d));
        } else {
            let (values, places) = block_values(
                plan,
                columns,
                reads,
                (weights, pushforwards, poles),
                placed.block,
                length,
            );
            tail_n.extend(values);
            tail_d.extend(places);
        }
    }
    blocks.into_par_iter().for_each(|(placed, n, d)| {
        fill_block(
            plan,
            columns,
            reads,
            (weights, pushforwards, poles),
            placed.block,
            (n, d),
        );
    });
    let vectors = tail_n.len().div_ceil(pack::WIDTH);
    tail_n.resize(vectors * pack::WIDTH, E::ZERO);
    tail_d.resize(vectors * pack::WIDTH, E::ONE);
    let tails = tail_n
        .chunks_exact(pack::WIDTH)
        .zip(tail_d.chunks_exact(pack::WIDTH));
    for ((n, d), (values, places)) in n.iter_mut().zip(d).zip(tails) {
        *n = PackedE::from_ext_slice(values);
        *d = PackedE::from_ext_slice(places);
    }
    let [numerators, denominators] =
        [numerators, denominators].map(|leaves| PolyMaybePacked::Packed(Poly::new(leaves)));
    if plan.leaf_vars < pack::WIDTH.ilog2() as usize {
        let short = |leaves: PolyMaybePacked<F, E>| {
            let values = leaves.unpack().into_evals();
            PolyMaybePacked::Scalar(Poly::new(values[..1 << plan.leaf_vars].to_vec()))
        };
        return (short(numerators), short(denominators));
    }
    (numerators, denominators)
}

/// What the leaves depend on besides columns and points: weights of readers, pushforwards, poles.
type Drawn<'a> = (&'a [E], &'a [Vec<E>], &'a [E]);

/// Fills a block of whole vectors.
fn fill_block(
    plan: &Plan,
    columns: &Columns<'_>,
    reads: &[Read],
    (weights, pushforwards, poles): Drawn<'_>,
    block: LeafBlock,
    (n, d): (&mut [PackedE], &mut [PackedE]),
) {
    match block {
        LeafBlock::Reader { group, witness } => {
            let reader = &plan.groups[group];
            let (scale, rest) = chunk_weights(plan, witness, &reads[group].point);
            let weight = weights[group] * scale;
            // A claim on a slice does not concern the other chunks; the library takes no weight of zero.
            if weight == E::ZERO {
                n.fill(PackedE::ZERO);
            } else {
                let eq = Poly::new_packed_from_point::<F, E>(rest, weight);
                n.copy_from_slice(eq.as_slice());
            }
            let pole = PackedE::from(poles[reader.table] - E::from_u32(reader.offset));
            let column = columns.column(witness, reader.column);
            let values = PackedF::pack_slice(&column[..n.len() * pack::WIDTH]);
            for (leaf, &value) in d.iter_mut().zip(values) {
                *leaf = pole - value;
            }
        }
        LeafBlock::Table { table } => {
            let mut values: Vec<E> = pushforwards[table].iter().map(|&value| -value).collect();
            values.resize(n.len() * pack::WIDTH, E::ZERO);
            let places: Vec<E> = (0..values.len())
                .map(|entry| poles[table] - F::from_usize(entry))
                .collect();
            n.copy_from_slice(pack::poly(values).as_slice());
            d.copy_from_slice(pack::poly(places).as_slice());
        }
    }
}

/// The leaves of a block shorter than a vector.
fn block_values(
    plan: &Plan,
    columns: &Columns<'_>,
    reads: &[Read],
    (weights, pushforwards, poles): Drawn<'_>,
    block: LeafBlock,
    length: usize,
) -> (Vec<E>, Vec<E>) {
    match block {
        LeafBlock::Reader { group, witness } => {
            let reader = &plan.groups[group];
            let (scale, rest) = chunk_weights(plan, witness, &reads[group].point);
            let eq = eq_table(rest).into_iter();
            let pole = poles[reader.table] - E::from_u32(reader.offset);
            let column = &columns.column(witness, reader.column)[..length];
            (
                eq.map(|value| weights[group] * scale * value).collect(),
                column.iter().map(|&value| pole - value).collect(),
            )
        }
        LeafBlock::Table { table } => {
            let mut values: Vec<E> = pushforwards[table].iter().map(|&value| -value).collect();
            values.resize(length, E::ZERO);
            let places = (0..length).map(|entry| poles[table] - F::from_usize(entry));
            (values, places.collect())
        }
    }
}

/// The committed columns, wherever the commitment keeps them.
pub(crate) struct Columns<'a>(pub(crate) &'a (dyn Fn(usize, usize) -> &'a [F] + Sync));

impl<'a> Columns<'a> {
    /// A column of a witness table.
    fn column(&self, table: usize, column: usize) -> &'a [F] {
        (self.0)(table, column)
    }
}

/// The numerators with a lie in the last one that makes the sum vanish.
#[cfg(test)]
fn closed(
    numerators: PolyMaybePacked<F, E>,
    denominators: &PolyMaybePacked<F, E>,
) -> PolyMaybePacked<F, E> {
    let packed = matches!(numerators, PolyMaybePacked::Packed(_));
    let mut values = numerators.unpack().into_evals();
    close(&mut values, denominators.clone().unpack().as_slice());
    if packed {
        pack::maybe(values)
    } else {
        PolyMaybePacked::Scalar(Poly::new(values))
    }
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
