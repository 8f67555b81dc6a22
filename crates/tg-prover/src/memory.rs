//! What a proof will need in memory, from its shape alone.

use crate::model::ProvingModel;
use tg_proof::commitment::Pcs;
use tg_proof::layout::TensorLayout;
use tg_proof::model::ProofShape;

/// Bytes of a base field element and of an extension element.
const BASE: u64 = 4;
const EXTENSION: u64 = 20;

/// Bytes at the highest point of a proof, the model's commitment included; an upper bound within about a half.
pub(crate) fn estimate(model: &ProvingModel, shape: &ProofShape) -> u64 {
    let layers = &model.model.weights.layers;
    // The weights, their columns, and the tensors of the execution with their columns of positions.
    let weights: usize = layers.iter().map(|layer| 3 * layer.weights.len()).sum();
    let tensors: usize = shape.plan.layouts.iter().map(TensorLayout::padded).sum();
    let cells: usize = shape
        .plan
        .witness
        .iter()
        .map(|table| table.columns << table.chunk.vars)
        .sum();
    let fixed = weights as u64 + 6 * tensors as u64 + 2 * cells as u64;
    let commitments = committed(&model.shape.weights_scheme) + committed(&shape.witness_scheme);
    // Numerators and denominators, and every layer above them; or an opening's copy and first folded codeword.
    let leaves = (4 * EXTENSION) << shape.plan.leaf_vars;
    let opening = opening(&model.shape.weights_scheme).max(opening(&shape.witness_scheme));
    fixed + commitments + leaves.max(opening)
}

/// Whether a proof is so small that handing parts of it to other threads takes longer than doing them.
pub(crate) fn is_small(shape: &ProofShape) -> bool {
    shape.plan.leaf_vars <= 13 && shape.weights_scheme.num_variables() <= 13
}

/// Bytes that a commitment keeps: columns, stacked polynomial, codeword and hashes of its rows.
fn committed(scheme: &Pcs) -> u64 {
    let vars = scheme.num_variables();
    let rate = scheme.params().starting_log_inv_rate;
    let rows = 1u64 << (vars + rate - scheme.folding_schedule()[0]);
    (2 * BASE << vars) + (BASE << (vars + rate)) + 64 * rows
}

/// Bytes that an opening adds: a copy of columns and polynomial, the folded polynomial and its weights, its codeword.
fn opening(scheme: &Pcs) -> u64 {
    let vars = scheme.num_variables();
    let first = scheme.folding_schedule()[0];
    let codeword = scheme.round_parameters().first().map_or(0, |round| {
        EXTENSION << (round.num_variables + round.log_inv_rate)
    });
    (2 * BASE << vars) + (2 * EXTENSION << (vars - first)) + 2 * codeword
}
