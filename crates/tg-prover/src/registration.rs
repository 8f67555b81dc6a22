//! The registration proof: every committed weight is in [-127, 127], every padded cell is zero.

use crate::channel::Channel;
use crate::columns::cells;
use crate::estimate;
use crate::model::{ModelError, ProvingModel};
use crate::{sumcheck, workers};
use p3_field::{PackedValue, PrimeCharacteristicRing};
use p3_maybe_rayon::prelude::*;
use p3_multi_stark::fractional_gkr::{Fraction, LeafNumerator, prove_fractional_gkr};
use p3_multilinear_util::poly::{Poly, PolyMaybePacked};
use p3_sumcheck::PrescribedPointPcs;
use tg_ir::weights::WEIGHT_MAX;
use tg_proof::PublicModel;
use tg_proof::commitment::{Challenger, WeightCommitment};
use tg_proof::field::{E, F, point, signed};
use tg_proof::messages::{self, PaddingProof, RegistrationProof};
use tg_proof::registration::{
    WEIGHT_VALUES, WeightTable, absorb_multiplicities, anchor_point, range_leaves, weight_tables,
};
use tg_proof::transcript::{absorb, draw};

use crate::fold::{dot, fold};
use crate::pack::{self, PackedE, PackedF};

impl ProvingModel {
    /// The public model with its registration proof (a few times the cost of the commitment).
    ///
    /// # Errors
    /// If the program cannot be proved or the commitment not be opened.
    pub fn register(&self) -> Result<PublicModel, ModelError> {
        let small = estimate::is_small(&self.shape);
        let proof = workers::run(small, || prove(self))?;
        Ok(PublicModel::new(
            self.model.program.clone(),
            self.commitment.clone(),
            proof,
        )?)
    }
}

/// The canonical bytes of the registration proof.
///
/// # Errors
/// If the commitment cannot be opened.
pub fn prove(model: &ProvingModel) -> Result<Vec<u8>, ModelError> {
    let Some((weights, commitment)) = model.shape.weights.as_ref().zip(model.commitment.as_ref())
    else {
        // Without weights there is nothing to show.
        return Ok(Vec::new());
    };
    let tables = weight_tables(&model.shape.plan.weights);
    let cells = cells(&model.columns);
    let WeightCommitment { root, anchor } = commitment;
    let scheme = &weights.scheme;
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
    let mut channel = Channel::clear(challenger);
    for (table, columns) in tables.iter().zip(&cells) {
        let (proof, at) = prove_padding(table, columns, &mut channel);
        points.push(table.last_coordinates(&range_point));
        points.push(point(&at));
        points.push(table.last_coordinates(&anchored_at));
        padding.push(proof);
    }
    let opening = scheme
        .open_at(
            model.data.clone().ok_or(ModelError::Commit)?,
            &weights.registration,
            &points,
            channel.challenger(),
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

/// How often each value from -127 to 127 occurs. A value outside is counted as the least, and the proof will not verify.
pub(crate) fn count(cells: &[Vec<&[i8]>]) -> Vec<u32> {
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
    let mut numerators = F::zero_vec(1 << vars);
    let mut denominators = vec![PackedE::ONE; (1 << vars) / pack::WIDTH];
    let offset = PackedE::from(pole - E::from_u32(WEIGHT_MAX.unsigned_abs()));
    let elements: Vec<F> = (0..=u8::MAX)
        .map(|byte| signed(i64::from(byte.cast_signed())))
        .collect();
    for block in &blocks {
        let numerators = &mut numerators[block.start..block.start + (1 << block.vars)];
        // Blocks have at least as many leaves as a column has rows: whole vectors.
        let first = block.start / pack::WIDTH;
        let denominators = &mut denominators[first..first + (1 << block.vars) / pack::WIDTH];
        match block.cell {
            Some((table, column)) => {
                numerators.fill(F::ONE);
                let cells = cells[table][column].par_chunks(pack::WIDTH);
                denominators
                    .par_iter_mut()
                    .zip(cells)
                    .for_each(|(leaf, cells)| {
                        let cell = |lane: usize| elements[usize::from(cells[lane].cast_unsigned())];
                        *leaf = offset - PackedF::from_fn(cell);
                    });
            }
            None => {
                for (leaf, &count) in numerators.iter_mut().zip(multiplicities) {
                    *leaf = -F::from_u32(count);
                }
                for (vector, leaf) in denominators.iter_mut().enumerate() {
                    let entry = |lane| F::from_usize(vector * pack::WIDTH + lane);
                    *leaf = PackedE::from(pole) - PackedF::from_fn(entry);
                }
            }
        }
    }
    let numerators = Poly::new(numerators);
    let denominators = PolyMaybePacked::<F, E>::Packed(Poly::new(denominators));
    #[cfg(test)]
    if let Some(output) = prove_closed(
        numerators.as_slice(),
        denominators.clone().unpack().as_slice(),
        challenger,
    ) {
        return output;
    }
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
    use crate::lookup::close;
    let honest: Vec<E> = numerators.iter().map(|&value| value.into()).collect();
    let mut closed = honest.clone();
    close(&mut closed, denominators);
    if closed == honest {
        return None;
    }
    let [numerators, denominators] = [closed, denominators.to_vec()].map(pack::maybe);
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
    channel: &mut Channel,
) -> (PaddingProof, Vec<E>) {
    let lambda = channel.draw();
    let at = channel.draw_point(table.vars());
    let powers: Vec<E> = lambda.powers().take(columns.len()).collect();
    let combined = fold(1 << table.vars(), &powers, |column| Some(columns[column]));
    let (sumcheck, point, _) =
        sumcheck::product(combined, table.padding_weights(&at), E::ZERO, channel);
    let eq = tg_proof::field::eq_table(&point);
    let columns: Vec<E> = columns.iter().map(|column| dot(column, &eq)).collect();
    channel.send_public(&columns);
    (PaddingProof { sumcheck, columns }, point)
}
