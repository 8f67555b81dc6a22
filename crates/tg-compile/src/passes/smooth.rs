//! Outliers of activations into weights, as SmoothQuant does (Xiao et al. 2023, equation 4).
//!
//! A channel j of a normalisation's result that reaches further than the others takes most of the range of 8 bits. It
//! is divided by `s_j = max |x_j|^a / max |w_j|^(1-a)` and the weights that multiply it are multiplied by the same, so
//! the product stays. Here `s_j` is a power of two: the floats of the model do not change by a bit, and in the integer
//! program the division is a shift of the requantisation that was there before.

use super::affine::{absorb_gain, linear_readers, set_norm};
use super::edit::{floats_of, input, int, output};
use super::{Fact, Prepared};
use std::collections::BTreeMap;
use tg_float::{Graph, Node, ValueId};

/// Factors are powers of two from minus this to this exponent: with the middle one, 15 pairs of a requantisation.
const EXPONENT_MAX: f64 = 7.0;

/// Moves outliers of normalisations into the linear nodes that alone read them; how many normalisations changed.
///
/// `peaks` has the greatest magnitude of each channel (last axis) of values. `strength` is the exponent a: 0 leaves all
/// to the activations, 1 to the weights.
pub fn smooth(
    prepared: &mut Prepared,
    peaks: &BTreeMap<ValueId, Vec<f32>>,
    strength: f64,
) -> usize {
    let Prepared { graph, facts, .. } = prepared;
    let mut changed = 0;
    let mut index = 0;
    while index < graph.nodes.len() {
        changed += usize::from(smooth_norm(graph, index, facts, peaks, strength).is_some());
        index += 1;
    }
    graph.remove_dead();
    for (value, tensor) in &graph.constants {
        facts.entry(*value).or_insert_with(|| Fact {
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        });
    }
    changed
}

fn smooth_norm(
    graph: &mut Graph,
    at: usize,
    facts: &BTreeMap<ValueId, Fact>,
    peaks: &BTreeMap<ValueId, Vec<f32>>,
    strength: f64,
) -> Option<()> {
    let node = graph.nodes[at].clone();
    let value = output(&node)?;
    let readers = linear_readers(graph, at, facts)?;
    let peaks = peaks.get(&value)?;
    let all = |slot: usize, wanted: f32| {
        input(&node, slot).is_none_or(|own| {
            floats_of(graph, Some(own))
                .is_some_and(|(_, values)| values.iter().all(|&v| v == wanted))
        })
    };
    // Its own gain and offset were folded before.
    if !all(1, 1.0) || !all(2, 0.0) {
        return None;
    }
    let mut weights = vec![0f32; peaks.len()];
    for &reader in &readers {
        for (peak, own) in weights
            .iter_mut()
            .zip(row_peaks(graph, &graph.nodes[reader])?)
        {
            *peak = peak.max(own);
        }
    }
    let factors = factors(peaks, &weights, strength);
    if factors.iter().all(|&factor| factor == 1.0) {
        return None;
    }
    let none = vec![0.0; factors.len()];
    for &reader in readers.iter().rev() {
        absorb_gain(graph, reader, &factors, &none)?;
    }
    let gain = factors.iter().map(|factor| 1.0 / factor).collect();
    let layer = node.op == "LayerNormalization";
    set_norm(graph, at, gain, layer.then_some(none));
    Some(())
}

/// The greatest magnitude of the weights that multiply each channel.
fn row_peaks(graph: &Graph, node: &Node) -> Option<Vec<f32>> {
    let (shape, values) = floats_of(graph, input(node, 1))?;
    let &[rows, columns] = shape else {
        return None;
    };
    let transposed = node.op == "Gemm" && int(node, "transB", 0) != 0;
    let mut peaks = vec![0f32; if transposed { columns } else { rows }];
    for (index, weight) in values.iter().enumerate() {
        let channel = if transposed {
            index % columns
        } else {
            index / columns
        };
        peaks[channel] = peaks[channel].max(weight.abs());
    }
    Some(peaks)
}

/// Powers of two near `activation^a / weight^(1-a)` over the middle one of all.
fn factors(activations: &[f32], weights: &[f32], strength: f64) -> Vec<f32> {
    let exponent = |(&x, &w): (&f32, &f32)| {
        let used = x > 0.0 && w > 0.0;
        used.then(|| strength * f64::from(x).log2() - (1.0 - strength) * f64::from(w).log2())
    };
    let exponents: Vec<Option<f64>> = activations.iter().zip(weights).map(exponent).collect();
    let mut sorted: Vec<f64> = exponents.iter().copied().flatten().collect();
    sorted.sort_by(f64::total_cmp);
    let Some(&middle) = sorted.get(sorted.len() / 2) else {
        return vec![1.0; activations.len()];
    };
    let rounded = |own: f64| (own - middle).round().clamp(-EXPONENT_MAX, EXPONENT_MAX);
    exponents
        .iter()
        .map(|own| own.map_or(1.0, |own| rounded(own).exp2() as f32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_balance_activations_and_weights() {
        let got = factors(&[1.0, 64.0, 1.0, 0.0], &[1.0, 1.0, 0.25, 1.0], 0.5);
        assert_eq!(got, [0.5, 4.0, 1.0, 1.0]);
        let to_weights = factors(&[1.0, 64.0, 1.0], &[1.0, 1.0, 0.25], 1.0);
        assert_eq!(to_weights, [1.0, 64.0, 1.0]);
        let limited = factors(&[1.0, 1e9, 1.0], &[1.0; 3], 1.0);
        assert_eq!(limited, [1.0, 128.0, 1.0]);
        assert_eq!(factors(&[0.0], &[1.0], 0.5), [1.0]);
    }
}
