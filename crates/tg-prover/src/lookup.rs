//! The one lookup argument of a proof: the prover's side.

use crate::witness::Witness;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use p3_multi_stark::fractional_gkr::{Fraction, LeafNumerator, prove_fractional_gkr};
use p3_multilinear_util::poly::{Poly, PolyMaybePacked};
use p3_sumcheck::layout::Table;
use std::collections::BTreeMap;
use std::rc::Rc;
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, F, eq_table, inner_product};
use tg_proof::lookup::group_weights;
use tg_proof::messages::LookupProof;
use tg_proof::plan::{LeafBlock, Plan};
use tg_proof::transcript::{absorb, draw};

/// What a reader has read: its equality weights and its pushforward.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// `eq(r, x)` over the tensor's rows.
    pub(crate) eq: Rc<Vec<E>>,
    /// Per table entry the weight of the rows that read it.
    pub(crate) pushforward: Vec<E>,
}

impl Read {
    /// Reads a group's columns at a point given by its equality weights.
    pub(crate) fn new(plan: &Plan, witness: &Witness, group: usize, eq: &Rc<Vec<E>>) -> Self {
        let reader = &plan.groups[group];
        let mut pushforward = vec![E::ZERO; plan.tables[reader.table].len()];
        for table in reader.witness.clone() {
            let chunk = plan.witness[table].chunk;
            let weights = &eq[chunk.start..chunk.start + chunk.rows()];
            for (&value, &weight) in witness.columns[table][reader.column].iter().zip(weights) {
                let position = F::from_u32(value) + F::from_u32(reader.offset);
                // A position outside the table reads nothing; the fractional sum will not vanish.
                if let Some(entry) = pushforward.get_mut(position.as_canonical_u32() as usize) {
                    *entry += weight;
                }
            }
        }
        Self {
            eq: Rc::clone(eq),
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

/// Proves the argument and returns the point of the fractional sum.
pub(crate) fn prove(
    plan: &Plan,
    witness: &Witness,
    tables: &[Table<F>],
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
    #[cfg_attr(not(test), expect(unused_mut, reason = "tests close a false sum"))]
    let (mut numerators, denominators) =
        leaves(plan, witness, reads, &weights, &pushforwards, &poles);
    #[cfg(test)]
    close(&mut numerators, &denominators);
    let [numerators, denominators] = [numerators, denominators].map(pack);
    let fraction = Fraction {
        n: LeafNumerator::Ext(&numerators),
        d: &denominators,
    };
    let (gkr, output) = prove_fractional_gkr::<F, E, Challenger>(fraction, challenger);
    let point = output.point.as_slice().to_vec();
    let columns = evaluate_columns(plan, tables, &point);
    columns
        .iter()
        .for_each(|columns| absorb(challenger, columns));
    (
        LookupProof {
            pushforwards,
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

fn leaves(
    plan: &Plan,
    witness: &Witness,
    reads: &[Read],
    weights: &[E],
    pushforwards: &[Vec<E>],
    poles: &[E],
) -> (Vec<E>, Vec<E>) {
    let mut numerators = vec![E::ZERO; 1 << plan.leaf_vars];
    let mut denominators = vec![E::ONE; 1 << plan.leaf_vars];
    for placed in &plan.leaves {
        let range = placed.start..placed.start + (1 << placed.vars);
        match placed.block {
            LeafBlock::Reader {
                group,
                witness: table,
            } => {
                let reader = &plan.groups[group];
                let chunk = plan.witness[table].chunk;
                let eq = &reads[group].eq[chunk.start..chunk.start + chunk.rows()];
                for (leaf, &value) in numerators[range.clone()].iter_mut().zip(eq) {
                    *leaf = weights[group] * value;
                }
                let pole = poles[reader.table] - E::from_u32(reader.offset);
                let column = &witness.columns[table][reader.column];
                for (leaf, &value) in denominators[range].iter_mut().zip(column) {
                    *leaf = pole - F::from_u32(value);
                }
            }
            LeafBlock::Table { table } => {
                for (leaf, &value) in numerators[range.clone()]
                    .iter_mut()
                    .zip(&pushforwards[table])
                {
                    *leaf = -value;
                }
                for (entry, leaf) in denominators[range].iter_mut().enumerate() {
                    *leaf = poles[table] - F::from_usize(entry);
                }
            }
        }
    }
    (numerators, denominators)
}

/// Values over the hypercube in the library's vectorised form.
pub(crate) fn pack(values: Vec<E>) -> PolyMaybePacked<F, E> {
    PolyMaybePacked::Packed(Poly::new(values).pack::<F, E>())
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
fn evaluate_columns(plan: &Plan, tables: &[Table<F>], point: &[E]) -> Vec<Vec<E>> {
    let mut weights = BTreeMap::new();
    plan.witness
        .iter()
        .zip(tables)
        .map(|(table, columns)| {
            let vars = table.chunk.vars;
            let eq = weights
                .entry(vars)
                .or_insert_with(|| eq_table(&point[point.len() - vars..]));
            (0..table.columns)
                .map(|column| inner_product(columns.poly(column).as_slice(), eq))
                .collect()
        })
        .collect()
}
