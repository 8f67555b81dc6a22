//! Weights of linear nodes: from floats, or the file's own integers; and constants as tensors.

use std::rc::Rc;
use tg_ir::requantise::PAIRS_MAX;
use tg_ir::segment::{SEGMENT_BITS_MAX, SEGMENTS_MAX};
use tg_ir::weights::BIAS_MAX;
use tg_ir::{LinearWeights, TensorId};

/// Greatest quantised weight.
pub(super) const WEIGHT_MAX: f64 = 127.0;

/// Weights in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct FileWeights {
    pub(crate) shape: Vec<usize>,
    /// Reals, or integers in units of `scales`.
    pub(crate) values: Vec<f64>,
    /// Units of the file's own integers along an axis, if it has them.
    pub(crate) scales: Option<(Vec<f64>, usize)>,
}

/// Which scales the channels of a layer may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// One scale, so that accumulators of different channels compare.
    PerTensor,
    /// The layer's scale times `2^-j` for j up to this: one multiplier, a few shifts.
    Shifts(i32),
    /// Up to [`PAIRS_MAX`] scales, placed where the channels are.
    Clusters,
}

/// A quantised layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) weights: LinearWeights,
    /// Real value of one unit of the accumulator of a channel of factor 1.
    pub(crate) scale: f64,
    /// Per channel the factor on that, if channels differ.
    pub(crate) channels: Option<Rc<[f64]>>,
}

/// Integer weights that a node of the program has.
#[derive(Debug)]
pub(crate) struct KnownWeights {
    /// What it gives.
    pub(crate) tensor: TensorId,
    /// Real value of one unit of a weight of factor 1.
    pub(crate) unit: f64,
    /// Factors on that per output channel, and which could be chosen; nothing if there is one unit.
    pub(crate) channels: Option<(Rc<[f64]>, Granularity)>,
}

/// Weights of another scale are used again if that is larger than their own by this at most.
pub(super) const COARSER_MAX: f64 = 1.01;
/// In units of the integers, how far from its integer a weight may be: the high digit of two is rounded twice.
pub(super) const NEAR_MAX: f64 = 0.51;

/// Places on the way from the largest scale of a layer to the least one that a cluster may have.
const PLACES: usize = 256;
/// Scales below the largest one times two to minus this are raised to it: a shift reaches no further.
const OCTAVES: f64 = 12.0;
/// Clusters are added until the noise of the rounded weights is at most this times that of scales of their own.
const NOISE_ENOUGH: f64 = 1.05;

/// Quantises `[out][k]` weights and their bias for activations of a scale.
///
/// A scale is large enough for the channel's greatest weight to fit 127 and for its bias to fit [`BIAS_MAX`].
pub(crate) fn quantise(
    weights: &[f64],
    bias: &[f64],
    input_scale: f64,
    granularity: Granularity,
) -> Layer {
    let rows = || {
        weights
            .chunks_exact((weights.len() / bias.len()).max(1))
            .zip(bias)
    };
    let needed: Vec<f64> = rows()
        .map(|(row, &bias)| {
            let greatest = row.iter().fold(0f64, |best, w| best.max(w.abs()));
            let for_bias = bias.abs() / (input_scale * f64::from(BIAS_MAX - 1));
            (greatest / WEIGHT_MAX).max(for_bias)
        })
        .collect();
    let largest = needed.iter().copied().fold(0f64, f64::max);
    let largest = if largest > 0.0 {
        exact(weights, largest).unwrap_or(largest)
    } else {
        1.0 / WEIGHT_MAX
    };
    let factors = match granularity {
        Granularity::PerTensor => vec![1.0; needed.len()],
        Granularity::Shifts(most) => shifts(&needed, largest, most),
        Granularity::Clusters => {
            let reach = rows()
                .zip(&needed)
                .map(|((row, _), needed)| {
                    let sum: f64 = row.iter().map(|w| w.abs()).sum();
                    sum / needed.max(f64::MIN_POSITIVE)
                })
                .fold(0f64, f64::max);
            clusters(&needed, largest, pairs_within(reach))
        }
    };
    let mut quantised = LinearWeights {
        weights: Vec::with_capacity(weights.len()),
        bias: Vec::with_capacity(bias.len()),
    };
    for ((row, &bias), factor) in rows().zip(&factors) {
        let scale = largest * factor;
        quantised
            .weights
            .extend(row.iter().map(|&w| round_i8(w / scale)));
        quantised.bias.push(round_i32(bias / (scale * input_scale)));
    }
    Layer {
        weights: quantised,
        scale: largest * input_scale,
        channels: differing(factors),
    }
}

/// The scale for weights that are whole numbers, which then stay exact: the least power of two that is large enough.
fn exact(weights: &[f64], needed: f64) -> Option<f64> {
    let scale = needed.log2().ceil().exp2();
    let whole = weights.iter().all(|weight| weight.fract() == 0.0);
    (whole && scale <= 1.0).then_some(scale)
}

/// Per channel the least `2^-j`, j up to `most`, that leaves it the scale it needs.
fn shifts(needed: &[f64], largest: f64, most: i32) -> Vec<f64> {
    let factor = |needed: &f64| {
        let fits = |halvings: &i32| largest * 0.5f64.powi(*halvings) >= *needed;
        0.5f64.powi((0..=most).rev().find(fits).unwrap_or(0))
    };
    needed.iter().map(factor).collect()
}

/// Pairs for which a segment table has room, if the magnitudes of a channel's integer weights sum up to `reach`: each
/// pair covers all that any channel reaches, in segments of at most `2^SEGMENT_BITS_MAX` and two per output.
fn pairs_within(reach: f64) -> usize {
    let range = 256.0 * reach + 2.0 * f64::from(BIAS_MAX);
    let segments = range / f64::from(1u32 << SEGMENT_BITS_MAX) + 520.0;
    ((SEGMENTS_MAX as f64 / segments) as usize).clamp(1, PAIRS_MAX)
}

/// Channels whose scales lie close together.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The largest scale needed, as a share of the layer's largest.
    greatest: f64,
    channels: f64,
    /// Sum of `1 / needed^2`.
    inverse_squares: f64,
}

/// Per channel the factor of its cluster: as few clusters as keep the noise of rounding, relative to each channel's
/// weights, near what scales of their own would have, and at most [`PAIRS_MAX`].
fn clusters(needed: &[f64], largest: f64, most: usize) -> Vec<f64> {
    let share = |needed: f64| (needed / largest).clamp((-OCTAVES).exp2(), 1.0);
    let place = |needed: f64| {
        let along = -share(needed).log2() / OCTAVES * (PLACES - 1) as f64;
        (along.floor() as usize).min(PLACES - 1)
    };
    let mut places = [Place::default(); PLACES];
    for &own in needed.iter().filter(|own| **own > 0.0) {
        let found = &mut places[place(own)];
        found.greatest = found.greatest.max(share(own));
        found.channels += 1.0;
        found.inverse_squares += share(own).powi(-2);
    }
    let taken: Vec<usize> = (0..PLACES)
        .filter(|&at| places[at].channels > 0.0)
        .collect();
    let list: Vec<Place> = taken.iter().map(|&at| places[at]).collect();
    let starts = cluster_starts(&list, most);
    let factor_at = |at: usize| {
        let position = taken.partition_point(|&own| own < at);
        let cluster = starts.partition_point(|&start| start <= position);
        starts
            .get(cluster.saturating_sub(1))
            .map_or(1.0, |&start| list[start].greatest)
    };
    needed
        .iter()
        .map(|&own| {
            if own > 0.0 {
                factor_at(place(own))
            } else {
                1.0
            }
        })
        .collect()
}

/// Where each cluster starts in a list of places, largest scale first: the split of least noise, found by dynamic
/// programming over the number of clusters.
fn cluster_starts(list: &[Place], most: usize) -> Vec<usize> {
    let count = list.len();
    let channels: f64 = list.iter().map(|place| place.channels).sum();
    let mut sums = vec![0.0; count + 1];
    for (at, place) in list.iter().enumerate() {
        sums[at + 1] = sums[at] + place.inverse_squares;
    }
    let noise = |from: usize, to: usize| list[from].greatest.powi(2) * (sums[to] - sums[from]);
    // least[to]: of the first `to` places in the clusters so far; from[k][to]: where the last of k + 1 starts.
    let mut least: Vec<f64> = (0..=count)
        .map(|to| if to == 0 { 0.0 } else { noise(0, to) })
        .collect();
    let mut from: Vec<Vec<usize>> = vec![vec![0; count + 1]];
    while from.len() < most.min(count) && least[count] > NOISE_ENOUGH * channels {
        let mut next = least.clone();
        let mut starts = vec![usize::MAX; count + 1];
        for to in 1..=count {
            for (start, before) in least.iter().enumerate().take(to).skip(1) {
                let found = before + noise(start, to);
                if found < next[to] {
                    (next[to], starts[to]) = (found, start);
                }
            }
        }
        from.push(starts);
        least = next;
    }
    let mut starts = Vec::new();
    let mut to = count;
    for level in from.iter().rev() {
        // One cluster fewer does as well up to here.
        if level[to] == usize::MAX {
            continue;
        }
        to = level[to];
        starts.push(to);
        if to == 0 {
            break;
        }
    }
    starts.reverse();
    starts
}

/// The file's own integers, and a bias in units of their scales.
pub(crate) fn given(weights: &[f64], scales: &[f64], bias: &[f64], input_scale: f64) -> Layer {
    let first = scales.first().copied().unwrap_or(1.0);
    let of = |channel: usize| scales.get(channel).copied().unwrap_or(first);
    let each = bias.iter().enumerate();
    Layer {
        weights: LinearWeights {
            weights: weights.iter().map(|&w| round_i8(w)).collect(),
            bias: each
                .map(|(c, &b)| round_i32(b / (input_scale * of(c))))
                .collect(),
        },
        scale: first * input_scale,
        channels: differing((0..bias.len()).map(|channel| of(channel) / first).collect()),
    }
}

fn differing(factors: Vec<f64>) -> Option<Rc<[f64]>> {
    let differ = factors.iter().any(|&factor| factor != 1.0);
    differ.then(|| factors.into())
}

pub(crate) fn round_i8(value: f64) -> i8 {
    value.round().clamp(-WEIGHT_MAX, WEIGHT_MAX) as i8
}

pub(super) fn round_i32(value: f64) -> i32 {
    let most = f64::from(BIAS_MAX);
    value.round().clamp(-most, most) as i32
}

impl KnownWeights {
    pub(super) fn factor(&self, channel: usize) -> f64 {
        let factors = self.channels.as_ref();
        factors.map_or(1.0, |(factors, _)| factors[channel])
    }
}

/// Greatest magnitude of two joined digits.
pub(crate) const WIDE: i32 = 127 * 256 + 127;

/// A number up to [`WIDE`] as two digits, `256 high + low`.
pub(crate) fn digits(value: f64) -> (i8, i8) {
    let rounded = value.round().clamp(-f64::from(WIDE), f64::from(WIDE));
    let high = (rounded / 256.0).round();
    (round_i8(high), round_i8(rounded - high * 256.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use proptest::prelude::*;

    /// Power of the rounding of weights over that of the weights, per channel.
    fn noise(weights: &[f64], channels: usize, granularity: Granularity) -> Vec<f64> {
        let layer = quantise(weights, &vec![0.0; channels], 1.0, granularity);
        let row = weights.len() / channels;
        (0..channels)
            .map(|channel| {
                let factor = layer.channels.as_ref().map_or(1.0, |f| f[channel]);
                let at = channel * row..(channel + 1) * row;
                let error = at.clone().map(|i| {
                    let rounded = f64::from(layer.weights.weights[i]) * layer.scale * factor;
                    (weights[i] - rounded).powi(2)
                });
                error.sum::<f64>() / at.map(|i| weights[i].powi(2)).sum::<f64>()
            })
            .collect()
    }

    /// Channels whose greatest weights are spread over `octaves`.
    fn spread(seed: u64, channels: usize, row: usize, octaves: i32) -> Vec<f64> {
        let mut numbers = tg_exec::sample::Numbers::new(seed);
        let mut weights = Vec::new();
        for _ in 0..channels {
            let size = (-(numbers.between(0, 1000) as f64) / 1000.0 * f64::from(octaves)).exp2();
            weights.extend((0..row).map(|_| size * numbers.between(-1000, 1000) as f64 / 1000.0));
        }
        weights
    }

    #[test]
    fn clusters_are_few_and_near_the_best() {
        for octaves in [1, 3, 6, 10] {
            let weights = spread(octaves as u64, 200, 64, octaves);
            let layer = quantise(&weights, &[0.0; 200], 1.0, Granularity::Clusters);
            let mut scales = layer.channels.unwrap().to_vec();
            scales.sort_by(f64::total_cmp);
            scales.dedup();
            assert!(scales.len() <= PAIRS_MAX, "{octaves}: {}", scales.len());
            // Weights of a channel are even in [-1, 1] of its size: a step of 1 / 127 of that has a noise of
            // (1 / 127)^2 / 12 over a power of 1 / 3.
            let least = 0.25 / 127f64.powi(2);
            let got = noise(&weights, 200, Granularity::Clusters);
            let mean = got.iter().sum::<f64>() / 200.0;
            let room = if octaves > 6 { 1.6 } else { 1.25 };
            assert!(mean < room * least, "{octaves}: {mean} {least}");
        }
    }

    #[test]
    fn a_single_size_is_a_single_scale() {
        let weights: Vec<f64> = (0..64).map(|i| f64::from(i - 32) / 32.0).collect();
        for granularity in [Granularity::Clusters, Granularity::Shifts(3)] {
            let layer = quantise(&weights.repeat(8), &[0.0; 8], 1.0, granularity);
            assert!(layer.channels.is_none(), "{granularity:?}");
            assert!((layer.scale - 1.0 / 127.0).abs() < 1e-12);
        }
    }

    #[test]
    fn two_sizes_are_two_clusters() {
        let row: Vec<f64> = (0..64).map(|i| f64::from(i - 32) / 32.0).collect();
        let small: Vec<f64> = row.iter().map(|w| w * 0.3).collect();
        let weights = [row.clone(), small.clone(), row, small].concat();
        let layer = quantise(&weights, &[0.0; 4], 1.0, Granularity::Clusters);
        let factors = layer.channels.unwrap();
        assert!((factors[0] - 1.0).abs() < 1e-9 && (factors[2] - 1.0).abs() < 1e-9);
        assert!((factors[1] - 0.3).abs() < 1e-9 && (factors[3] - 0.3).abs() < 1e-9);
    }

    #[test]
    fn long_sums_leave_room_for_fewer_pairs() {
        assert_eq!(pairs_within(0.0), 16);
        assert_eq!(pairs_within(127.0 * 64.0), 16);
        assert!(pairs_within(127.0 * 4096.0) < 8);
        assert_eq!(pairs_within(1e9), 1);
    }

    #[test]
    fn shifts_halve_where_a_channel_fits() {
        let needed = [1.0, 0.51, 0.5, 0.1, 0.0];
        assert_eq!(shifts(&needed, 1.0, 3), [1.0, 1.0, 0.5, 0.125, 0.125]);
        assert_eq!(shifts(&needed, 1.0, 15)[4], 0.5f64.powi(15));
    }

    #[test]
    fn a_large_bias_widens_its_channel() {
        let bias = [f64::from(BIAS_MAX) * 3.0, 0.0];
        let layer = quantise(&[1.0, 1.0], &bias, 1.0, Granularity::PerTensor);
        assert!(layer.weights.bias[0] <= BIAS_MAX && layer.weights.bias[0] > BIAS_MAX - 16);
        assert!(layer.scale > 2.9);
    }

    proptest! {
        /// Whatever the weights: they fit 8 bits, at most 16 factors, none above 1, and no cluster is too narrow.
        #[test]
        fn scales_hold_their_channels(
            seed in any::<u64>(),
            channels in 1usize..40,
            octaves in 0i32..20,
            which in 0usize..3,
        ) {
            let granularity =
                [Granularity::Clusters, Granularity::Shifts(3), Granularity::Shifts(15)][which];
            let weights = spread(seed, channels, 5, octaves);
            let layer = quantise(&weights, &vec![0.0; channels], 0.5, granularity);
            let factors = layer.channels.as_ref().map_or(vec![1.0; channels], |f| f.to_vec());
            let mut distinct = factors.clone();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup();
            prop_assert!(distinct.len() <= PAIRS_MAX);
            for (channel, factor) in factors.iter().enumerate() {
                prop_assert!(*factor <= 1.0 && *factor > 0.0);
                let scale = layer.scale / 0.5 * factor;
                let own = channel * 5..channel * 5 + 5;
                let pairs = weights[own.clone()].iter().zip(&layer.weights.weights[own]);
                for (weight, rounded) in pairs {
                    prop_assert!(weight.abs() <= scale * WEIGHT_MAX * (1.0 + 1e-9));
                    let rounded = f64::from(*rounded) * scale;
                    prop_assert!((weight - rounded).abs() <= scale * 0.5 * (1.0 + 1e-9));
                }
            }
        }

        #[test]
        fn two_digits_are_the_number(value in -WIDE..=WIDE) {
            let (high, low) = digits(f64::from(value));
            // A low digit of 128 or -128 has no place in eight bits around 0.
            let off = i32::from(value.rem_euclid(256) == 128);
            prop_assert_eq!((256 * i32::from(high) + i32::from(low) - value).abs(), off);
        }
    }
}
