//! Quantising the weights of one linear node.

use tg_ir::weights::BIAS_MAX;
use tg_ir::{LinearWeights, Rescale};

/// Channel scales are the layer's largest one times 2^-j for j up to this: one multiplier, a few shifts.
const HALVINGS_MAX: u8 = 3;
/// Greatest quantised weight.
const WEIGHT_MAX: f64 = 127.0;

/// Whether the channels of a layer may have different scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// Each channel takes the layer's scale, or a half, a quarter or an eighth of it.
    PerChannel,
    /// One scale, so that accumulators of different channels compare.
    PerTensor,
}

/// A quantised layer.
#[derive(Debug)]
pub(crate) struct QuantisedLayer {
    pub(crate) weights: LinearWeights,
    /// Real value of one unit of the accumulator of a channel that is not halved.
    pub(crate) scale: f64,
    /// Per channel, how often its scale is half of that.
    pub(crate) halvings: Vec<u8>,
}

/// Quantises `[out][k]` weights and their bias for activations of a scale.
///
/// A scale is large enough for the channel's greatest weight to fit 127 and for its bias to fit [`BIAS_MAX`].
pub(crate) fn quantise(
    weights: &[f32],
    bias: &[f32],
    input_scale: f64,
    granularity: Granularity,
) -> QuantisedLayer {
    let rows = || weights.chunks_exact(weights.len() / bias.len()).zip(bias);
    let needed: Vec<f64> = rows()
        .map(|(row, &bias)| {
            let greatest = row.iter().fold(0f32, |best, w| best.max(w.abs()));
            let for_bias = f64::from(bias.abs()) / (input_scale * f64::from(BIAS_MAX - 1));
            (f64::from(greatest) / WEIGHT_MAX).max(for_bias)
        })
        .collect();
    let largest = needed.iter().copied().fold(0f64, f64::max);
    let largest = if largest > 0.0 {
        largest
    } else {
        1.0 / WEIGHT_MAX
    };
    let most = match granularity {
        Granularity::PerChannel => HALVINGS_MAX,
        Granularity::PerTensor => 0,
    };
    let halvings: Vec<u8> = needed
        .iter()
        .map(|&needed| {
            let fits = |&halvings: &u8| largest * half(halvings) >= needed;
            (0..=most).rev().find(fits).unwrap_or(0)
        })
        .collect();
    let mut quantised = LinearWeights {
        weights: Vec::with_capacity(weights.len()),
        bias: Vec::with_capacity(bias.len()),
    };
    for ((row, &bias), &halvings) in rows().zip(&halvings) {
        let scale = largest * half(halvings);
        quantised
            .weights
            .extend(row.iter().map(|&w| round_i8(f64::from(w) / scale)));
        quantised
            .bias
            .push(round_i32(f64::from(bias) / (scale * input_scale)));
    }
    QuantisedLayer {
        weights: quantised,
        scale: largest * input_scale,
        halvings,
    }
}

/// The pairs of a layer and the pair of each channel, for a factor of the channels that are not halved; nothing if a
/// factor is out of range.
pub(crate) fn pairs(factor: f64, halvings: &[u8]) -> Option<(Vec<Rescale>, Vec<u8>)> {
    let first = Rescale::nearest(factor)?;
    let mut used = halvings.to_vec();
    used.sort_unstable();
    used.dedup();
    let pairs: Option<Vec<Rescale>> = used
        .iter()
        .map(|&halvings| Rescale::new(first.multiplier(), first.shift() + u32::from(halvings)))
        .collect();
    let position = |halvings: &u8| {
        let found = used
            .binary_search(halvings)
            .expect("collected from the same list");
        u8::try_from(found).expect("at most four")
    };
    let channels = if used.len() == 1 {
        vec![0]
    } else {
        halvings.iter().map(position).collect()
    };
    Some((pairs?, channels))
}

fn half(halvings: u8) -> f64 {
    1.0 / f64::from(1u32 << halvings)
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
fn round_i8(value: f64) -> i8 {
    value.round().clamp(-WEIGHT_MAX, WEIGHT_MAX) as i8
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range")]
fn round_i32(value: f64) -> i32 {
    value
        .round()
        .clamp(-f64::from(BIAS_MAX), f64::from(BIAS_MAX)) as i32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn weights_are_within_half_a_unit(
            weights in proptest::collection::vec(-3f32..3.0, 12),
            bias in proptest::collection::vec(-2f32..2.0, 3),
            input_scale in 1e-3f64..0.1,
        ) {
            for granularity in [Granularity::PerChannel, Granularity::PerTensor] {
                let layer = quantise(&weights, &bias, input_scale, granularity);
                for (index, &weight) in weights.iter().enumerate() {
                    let unit = layer.scale / input_scale * half(layer.halvings[index / 4]);
                    let back = f64::from(layer.weights.weights[index]) * unit;
                    prop_assert!((back - f64::from(weight)).abs() <= unit * 0.5001);
                }
                for (channel, &bias) in bias.iter().enumerate() {
                    let unit = layer.scale * half(layer.halvings[channel]);
                    let back = f64::from(layer.weights.bias[channel]) * unit;
                    prop_assert!((back - f64::from(bias)).abs() <= unit * 0.5001);
                }
            }
        }
    }

    #[test]
    fn small_channels_take_smaller_scales_and_share_the_multiplier() {
        let weights = [1.0, 0.5, 0.3, 0.2, 0.01, -0.02, 0.0, 0.0];
        let layer = quantise(&weights, &[0.0; 4], 0.01, Granularity::PerChannel);
        assert_eq!(layer.halvings, [0, 1, 3, 3]);
        assert_eq!(layer.weights.weights[0], 127);
        let (pairs, channels) = pairs(layer.scale / 0.02, &layer.halvings).unwrap();
        assert_eq!(channels, [0, 1, 2, 2]);
        assert!(
            pairs
                .iter()
                .all(|p| p.multiplier() == pairs[0].multiplier())
        );
        assert_eq!(pairs[2].shift() - pairs[0].shift(), 3);
        let tensor = quantise(&weights, &[0.0; 4], 0.01, Granularity::PerTensor);
        assert_eq!(tensor.halvings, [0; 4]);
    }

    #[test]
    fn a_large_bias_widens_the_scale() {
        let layer = quantise(&[0.001], &[1000.0], 0.001, Granularity::PerChannel);
        assert!(layer.weights.bias[0] <= BIAS_MAX);
        let back = f64::from(layer.weights.bias[0]) * layer.scale;
        assert!((back - 1000.0).abs() < 0.01, "{back}");
    }

    #[test]
    fn a_layer_of_zeros_is_quantised() {
        let layer = quantise(&[0.0; 4], &[0.0; 2], 0.1, Granularity::PerChannel);
        assert_eq!(layer.weights.weights, [0; 4]);
        assert!(layer.scale > 0.0);
    }
}
