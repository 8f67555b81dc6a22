//! The registration proof: every committed weight is in [-127, 127], every padded cell is zero.

use crate::model::{ModelError, NodeColumns, ProvingModel};
use crate::sumcheck;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::{Fraction, LeafNumerator, prove_fractional_gkr};
use p3_multilinear_util::poly::{Poly, PolyMaybePacked};
use p3_sumcheck::PrescribedPointPcs;
use tg_ir::weights::WEIGHT_MAX;
use tg_proof::commitment::{Challenger, WeightCommitment};
use tg_proof::field::{E, F, point, signed};
use tg_proof::messages::{self, PaddingProof, RegistrationProof};
use tg_proof::registration::{
    WEIGHT_VALUES, WeightTable, absorb_multiplicities, anchor_point, range_leaves, weight_tables,
};
use tg_proof::transcript::{absorb, draw, draw_point};

use crate::fold::{Fold, dot};

/// The canonical bytes of the registration proof.
///
/// # Errors
/// If the commitment cannot be opened.
pub fn prove(model: &ProvingModel) -> Result<Vec<u8>, ModelError> {
    let tables = weight_tables(&model.shape.plan);
    let cells = cells(&model.columns);
    let WeightCommitment { root, anchor } = &model.commitment;
    let scheme = &model.shape.weights_scheme;
    let (mut challenger, anchored_at) = anchor_point(model.program_id, scheme, root, &tables);
    anchor
        .iter()
        .for_each(|columns| absorb(&mut challenger, columns));
    let multiplicities = count(&cells);
    let (gkr, range_point) = prove_range(&tables, &cells, &multiplicities, &mut challenger);
    let columns: Vec<Vec<E>> = tables
        .iter()
        .zip(&cells)
        .map(|(table, columns)| {
            let eq = tg_proof::field::eq_table(&range_point[range_point.len() - table.vars()..]);
            columns.iter().map(|column| dot(column, &eq)).collect()
        })
        .collect();
    columns
        .iter()
        .for_each(|columns| absorb(&mut challenger, columns));
    let mut points = Vec::new();
    let mut padding = Vec::new();
    for (table, columns) in tables.iter().zip(&cells) {
        let (proof, at) = prove_padding(table, columns, &mut challenger);
        points.push(table.last_coordinates(&range_point));
        points.push(point(&at));
        points.push(table.last_coordinates(&anchored_at));
        padding.push(proof);
    }
    let opening = scheme
        .open_at(
            model.data.clone(),
            &model.shape.registration_protocol,
            &points,
            &mut challenger,
        )
        .map_err(|_| ModelError::Commit)?;
    Ok(messages::encode(&RegistrationProof {
        multiplicities,
        gkr,
        columns,
        padding,
        opening,
    }))
}

/// Per weight table its columns.
pub(crate) fn cells(columns: &[NodeColumns]) -> Vec<Vec<&[i8]>> {
    columns
        .iter()
        .flat_map(|node| {
            [
                vec![node.weights.as_slice()],
                node.bias.iter().map(Vec::as_slice).collect(),
            ]
        })
        .collect()
}

/// How often each value from -127 to 127 occurs. A value outside is counted as the least, and the proof will not verify.
fn count(cells: &[Vec<&[i8]>]) -> Vec<u32> {
    let mut counts = vec![0u32; WEIGHT_VALUES];
    for &cell in cells.iter().flatten().copied().flatten() {
        counts[usize::try_from(i32::from(cell) + WEIGHT_MAX).unwrap_or(0)] += 1;
    }
    counts
}

fn prove_range(
    tables: &[WeightTable],
    cells: &[Vec<&[i8]>],
    multiplicities: &[u32],
    challenger: &mut Challenger,
) -> (p3_multi_stark::fractional_gkr::FractionGkrProof<E>, Vec<E>) {
    let (blocks, vars) = range_leaves(tables);
    absorb_multiplicities(multiplicities, challenger);
    let pole = draw(challenger);
    let mut numerators = vec![F::ZERO; 1 << vars];
    let mut denominators = vec![E::ONE; 1 << vars];
    for block in &blocks {
        let leaves = block.start..block.start + (1 << block.vars);
        match block.cell {
            Some((table, column)) => {
                numerators[leaves.clone()].fill(F::ONE);
                for (leaf, &cell) in denominators[leaves].iter_mut().zip(cells[table][column]) {
                    *leaf = pole - signed(i64::from(cell) + i64::from(WEIGHT_MAX));
                }
            }
            None => {
                for (leaf, &count) in numerators[leaves.clone()].iter_mut().zip(multiplicities) {
                    *leaf = -F::from_u32(count);
                }
                for (value, leaf) in denominators[leaves].iter_mut().enumerate() {
                    *leaf = pole - F::from_usize(value);
                }
            }
        }
    }
    #[cfg(test)]
    if let Some(output) = prove_closed(&numerators, &denominators, challenger) {
        return output;
    }
    let numerators = Poly::new(numerators);
    let denominators = PolyMaybePacked::<F, E>::Packed(Poly::new(denominators).pack::<F, E>());
    let fraction = Fraction {
        n: LeafNumerator::Base(&numerators),
        d: &denominators,
    };
    let (gkr, output) = prove_fractional_gkr::<F, E, Challenger>(fraction, challenger);
    (gkr, output.point.as_slice().to_vec())
}

/// Proves a false sum by a lie in its last numerator; nothing if the sum is true.
#[cfg(test)]
fn prove_closed(
    numerators: &[F],
    denominators: &[E],
    challenger: &mut Challenger,
) -> Option<(p3_multi_stark::fractional_gkr::FractionGkrProof<E>, Vec<E>)> {
    use crate::lookup::{close, pack};
    let honest: Vec<E> = numerators.iter().map(|&value| value.into()).collect();
    let mut closed = honest.clone();
    close(&mut closed, denominators);
    if closed == honest {
        return None;
    }
    let [numerators, denominators] = [closed, denominators.to_vec()].map(pack);
    let fraction = Fraction {
        n: LeafNumerator::Ext(&numerators),
        d: &denominators,
    };
    let (gkr, output) = prove_fractional_gkr::<F, E, Challenger>(fraction, challenger);
    Some((gkr, output.point.as_slice().to_vec()))
}

fn prove_padding(
    table: &WeightTable,
    columns: &[&[i8]],
    challenger: &mut Challenger,
) -> (PaddingProof, Vec<E>) {
    let lambda = draw(challenger);
    let at = draw_point(challenger, table.vars());
    let mut combined = Fold::new(1 << table.vars());
    for (column, power) in columns.iter().zip(lambda.powers()) {
        combined.add(0, power, column);
    }
    let (sumcheck, point, _) = sumcheck::product(
        combined.finish(),
        table.padding_weights(&at),
        E::ZERO,
        challenger,
    );
    let eq = tg_proof::field::eq_table(&point);
    let columns: Vec<E> = columns.iter().map(|column| dot(column, &eq)).collect();
    absorb(challenger, &columns);
    (PaddingProof { sumcheck, columns }, point)
}
