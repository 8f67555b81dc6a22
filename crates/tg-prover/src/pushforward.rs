//! Committed pushforwards of the lookup argument: the prover's side.

use crate::channel::Channel;
use crate::error::ProveError;
use crate::sumcheck;
use p3_commit::MultilinearPcs;
use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};
use p3_matrix::dense::RowMajorMatrix;
use p3_sumcheck::layout::{Layout, Table};
use p3_sumcheck::{OpeningProtocol, PrescribedPointPcs};
use tg_proof::commitment::{Challenger, Commitment, Pcs, Stacking};
use tg_proof::field::{E, EXTENSION_DEGREE, F, eq_table, inner_product};
use tg_proof::layout::Chunk;
use tg_proof::messages::{CommittedPushforwards, Pushforwards};
use tg_proof::plan::{Plan, PushforwardLayout};
use tg_proof::pushforward::PushforwardWeights;
use tg_proof::verify::padded_point;

const FAILED: ProveError = ProveError::Commitment {
    which: "pushforwards",
};

/// Pushforwards that are committed and absorbed.
pub(crate) struct Committed<'a> {
    layout: &'a PushforwardLayout,
    scheme: &'a Pcs,
    protocol: &'a OpeningProtocol,
    root: Commitment,
    data: <Pcs as MultilinearPcs<E, Challenger>>::ProverData,
    /// All tables' entries, zeros to the end of the hypercube.
    values: Vec<E>,
}

/// Commits the pushforwards of all tables.
pub(crate) fn commit<'a>(
    layout: &'a PushforwardLayout,
    (scheme, protocol): &'a (Pcs, OpeningProtocol),
    pushforwards: &[Vec<E>],
    channel: &mut Channel,
) -> Result<Committed<'a>, ProveError> {
    let mut values = pushforwards.concat();
    values.resize(1 << layout.vars, E::ZERO);
    let tables = layout.chunks.iter().map(|chunk| {
        let rows = 1 << chunk.column_vars();
        let cells = columns(chunk, &values).flat_map(|mut column| {
            column.resize(rows, F::ZERO);
            column
        });
        Table::new(RowMajorMatrix::new(cells.collect(), rows))
    });
    let fold = scheme.folding_schedule()[0];
    let stacked = Stacking::new_witness(tables.collect(), fold);
    let (root, data) = scheme
        .commit(stacked, channel.challenger())
        .map_err(|_| FAILED)?;
    Ok(Committed {
        layout,
        scheme,
        protocol,
        root,
        data,
        values,
    })
}

/// The columns of a chunk: per degree its entries' coefficients.
fn columns<'a>(chunk: &Chunk, values: &'a [E]) -> impl Iterator<Item = Vec<F>> + use<'a> {
    let entries = &values[chunk.start..chunk.start + chunk.rows()];
    (0..EXTENSION_DEGREE).map(move |degree| {
        let coefficient = |value: &E| {
            let coefficients: &[F] = value.as_basis_coefficients_slice();
            coefficients[degree]
        };
        entries.iter().map(coefficient).collect()
    })
}

impl Committed<'_> {
    /// Shows what the fractional sum at its point and the tables' columns claim of the pushforwards.
    pub(crate) fn open(
        self,
        plan: &Plan,
        point: &[E],
        channel: &mut Channel,
    ) -> Result<Pushforwards, ProveError> {
        let weights = PushforwardWeights::new(plan, self.layout, point, channel.draw()).table();
        let terms = weights.iter().zip(&self.values);
        let sum = terms.map(|(&weight, &value)| weight * value).sum();
        let values = self.values;
        let (sumcheck, at, _) = sumcheck::product(weights, values.clone(), sum, channel);
        let (mut points, mut opened) = (Vec::new(), Vec::new());
        for chunk in &self.layout.chunks {
            let rest = &at[at.len() - chunk.vars..];
            let eq = eq_table(rest);
            let mut own = [E::ZERO; EXTENSION_DEGREE];
            for (value, column) in own.iter_mut().zip(columns(chunk, &values)) {
                *value = inner_product(&column, &eq);
            }
            channel.send_public(&own);
            opened.push(own);
            points.push(padded_point(rest, chunk.column_vars()));
        }
        let opening = self
            .scheme
            .open_at(self.data, self.protocol, &points, channel.challenger())
            .map_err(|_| FAILED)?;
        Ok(Pushforwards::Committed(Box::new(CommittedPushforwards {
            root: self.root,
            sumcheck,
            columns: opened,
            opening: opening.whir,
        })))
    }
}
