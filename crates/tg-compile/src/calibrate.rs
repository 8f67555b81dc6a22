//! Calibration: what each value of a graph takes on real inputs, and how far it is let reach.

use std::collections::{BTreeMap, BTreeSet};
use tg_float::tgf::{self, Budget, RunError};
use tg_float::{FloatTensor, Graph, Input, ValueId, convert};

/// How the reach of a value follows from what it takes on the calibration inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReachRule {
    /// The greatest absolute value.
    Greatest,
    /// The absolute value that this share of all elements, in percent, does not exceed; the rest saturate.
    Percentile(f64),
    /// The one with the least squared error of 8-bit rounding and saturation.
    LeastError,
}

/// Why a graph cannot be calibrated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// No inputs.
    #[error("quantising needs at least one calibration input; give a few dozen typical ones")]
    NoInputs,
    /// A percentile that is not in (0, 100].
    #[error("the calibration percentile is {0}; it must be above 0 and at most 100")]
    Percentile(f64),
    /// An input of another length.
    #[error("calibration input {index} has {got} values, the model takes {expected}")]
    Length {
        /// Which one.
        index: usize,
        /// Elements the model takes.
        expected: usize,
        /// Elements given.
        got: usize,
    },
    /// An input that the graph cannot be executed on.
    #[error("calibration input {index} cannot be executed")]
    Input {
        /// Which one.
        index: usize,
        /// Why.
        source: RunError,
    },
    /// An input that the program's coding does not take.
    #[error("calibration input {index} is not an input of the program")]
    Encode {
        /// Which one.
        index: usize,
        /// Why.
        source: tg_ir::coding::EncodeError,
    },
    /// A value that is not finite.
    #[error("calibration input {index} gives a value `{value}` that is not finite")]
    NotFinite {
        /// Which one.
        index: usize,
        /// The value.
        value: String,
    },
}

/// The name of a value; what passes made has none, and is named by its operator.
fn named(graph: &Graph, value: ValueId) -> String {
    let name = graph.name_of(value);
    let maker = || {
        let mut nodes = graph.nodes.iter();
        nodes.find(|node| node.outputs.contains(&Some(value)))
    };
    match maker().filter(|_| name.is_empty()) {
        Some(node) => format!("{} of {}", node.name, node.op),
        None => name.to_owned(),
    }
}

/// Sampled magnitudes per value.
const SAMPLES_MAX: usize = 1 << 15;
/// Candidates for the reach of least error: this share of the greatest magnitude and more.
const LEAST_SHARE: f32 = 0.3;
/// Steps between that and the greatest.
const SHARES: u16 = 70;

/// What a value took.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics {
    /// Least element.
    pub least: f32,
    /// Greatest element.
    pub greatest: f32,
    /// Magnitudes, sampled evenly.
    samples: Vec<f32>,
    /// Sums per place along the channel axis, and how many were added to each.
    sums: Vec<f64>,
    count: u64,
    /// Greatest magnitude per place along the channel axis.
    peaks: Vec<f32>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self {
            least: f32::INFINITY,
            greatest: f32::NEG_INFINITY,
            samples: Vec::new(),
            sums: Vec::new(),
            count: 0,
            peaks: Vec::new(),
        }
    }
}

impl Statistics {
    /// The greatest magnitude.
    #[must_use]
    pub const fn greatest_magnitude(&self) -> f32 {
        self.greatest.max(-self.least).max(0.0)
    }

    /// The mean square, of the samples.
    #[must_use]
    pub fn power(&self) -> f64 {
        let squares = self.samples.iter().map(|&x| f64::from(x) * f64::from(x));
        squares.sum::<f64>() / self.samples.len().max(1) as f64
    }

    /// How far the value is let reach.
    #[must_use]
    pub fn reach(&self, rule: ReachRule) -> f32 {
        let greatest = self.greatest_magnitude();
        match rule {
            ReachRule::Greatest => greatest,
            ReachRule::Percentile(percent) => {
                let mut sorted = self.samples.clone();
                sorted.sort_by(f32::total_cmp);
                let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
                let at = rank.clamp(1, sorted.len().max(1)) - 1;
                sorted
                    .get(at)
                    .copied()
                    .filter(|_| percent < 100.0)
                    .unwrap_or(greatest)
            }
            ReachRule::LeastError => self.least_error(greatest),
        }
    }

    fn least_error(&self, greatest: f32) -> f32 {
        let error = |reach: f32| -> f64 {
            let unit = reach / 127.0;
            let one = |&x: &f32| f64::from((x / unit).round().min(127.0) * unit - x).powi(2);
            self.samples.iter().map(one).sum()
        };
        let share =
            |step: u16| LEAST_SHARE + (1.0 - LEAST_SHARE) * f32::from(step) / f32::from(SHARES);
        let candidates = (0..=SHARES).rev().map(|step| greatest * share(step));
        let mut best = (greatest, f64::INFINITY);
        for reach in candidates.filter(|reach| *reach > 0.0) {
            let found = error(reach);
            if found < best.1 {
                best = (reach, found);
            }
        }
        best.0
    }

    /// The mean per place along the channel axis, where it was observed.
    #[must_use]
    pub fn means(&self) -> Vec<f64> {
        let count = self.count.max(1) as f64;
        self.sums.iter().map(|sum| sum / count).collect()
    }

    /// The greatest magnitude per place along the channel axis, where it was observed.
    #[must_use]
    pub fn peaks(&self) -> &[f32] {
        &self.peaks
    }

    fn add(&mut self, values: &[f32], step: usize) {
        for &value in values.iter().filter(|value| value.is_finite()) {
            self.least = self.least.min(value);
            self.greatest = self.greatest.max(value);
        }
        // One of each stretch, at a place that no row length of an image meets again and again.
        let stretches = values.chunks(step.max(1)).enumerate();
        let sampled = stretches.map(|(stretch, values)| values[spread(stretch) % values.len()]);
        let finite = sampled.filter(|value| value.is_finite());
        self.samples.extend(finite.map(f32::abs));
    }

    fn add_means(&mut self, values: &[f32], shape: &[usize], axis: usize) {
        let channels = shape[axis];
        let inner: usize = shape[axis + 1..].iter().product();
        self.sums.resize(channels, 0.0);
        self.peaks.resize(channels, 0.0);
        for (run, values) in values.chunks_exact(inner.max(1)).enumerate() {
            let channel = run % channels;
            self.sums[channel] += values.iter().map(|&v| f64::from(v)).sum::<f64>();
            let peak = &mut self.peaks[channel];
            *peak = values.iter().fold(*peak, |most, v| most.max(v.abs()));
        }
        self.count += (values.len() / channels.max(1)) as u64;
    }
}

/// A number without regularity: the upper half of a product with the golden ratio's fraction.
const fn spread(stretch: usize) -> usize {
    ((stretch as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Runs a graph on calibration inputs and notes what each value takes.
///
/// # Errors
/// If there is no input, the rule is not one, or an input cannot be executed or gives values that are not finite.
pub fn observe(
    graph: &Graph,
    inputs: &[Vec<FloatTensor>],
    rule: ReachRule,
) -> Result<BTreeMap<ValueId, Statistics>, CalibrationError> {
    if inputs.is_empty() {
        return Err(CalibrationError::NoInputs);
    }
    if let ReachRule::Percentile(percent) = rule
        && !(percent > 0.0 && percent <= 100.0)
    {
        return Err(CalibrationError::Percentile(percent));
    }
    let axes = channel_axes(graph);
    let masks = masked(graph);
    let mut known: BTreeMap<ValueId, Statistics> = BTreeMap::new();
    for (index, tensors) in inputs.iter().enumerate() {
        let given: Vec<&FloatTensor> = tensors.iter().collect();
        let mut values = tgf::run_all(graph, &given, &Budget::default())
            .map_err(|source| CalibrationError::Input { index, source })?;
        for (input, tensor) in graph.inputs.iter().zip(tensors) {
            values.insert(input.value, tensor.clone());
        }
        for (id, tensor) in values {
            let Some(floats) = convert::to_f32(tensor.data()) else {
                continue;
            };
            if !masks.contains(&id) && floats.iter().any(|value| !value.is_finite()) {
                return Err(CalibrationError::NotFinite {
                    index,
                    value: named(graph, id),
                });
            }
            let step = (floats.len() * inputs.len()).div_ceil(SAMPLES_MAX);
            let statistics = known.entry(id).or_default();
            statistics.add(&floats, step);
            match axes.get(&id) {
                Some(ChannelAxis::Second) if tensor.rank() > 1 => {
                    statistics.add_means(&floats, tensor.shape(), 1);
                }
                Some(ChannelAxis::Last) if tensor.rank() > 0 => {
                    statistics.add_means(&floats, tensor.shape(), tensor.rank() - 1);
                }
                _ => {}
            }
        }
    }
    Ok(known)
}

/// Which axis of a value its channels are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelAxis {
    Second,
    Last,
}

/// The channel axis of each value that a linear node multiplies by constant weights, and of inputs that are tables.
fn channel_axes(graph: &Graph) -> BTreeMap<ValueId, ChannelAxis> {
    let table = |input: &&Input| input.shape.as_ref().is_some_and(|axes| axes.len() <= 2);
    let tables = graph.inputs.iter().filter(table);
    let mut axes: BTreeMap<ValueId, ChannelAxis> = tables
        .map(|input| (input.value, ChannelAxis::Last))
        .collect();
    for node in graph.nodes.iter().filter(|node| node.domain.is_empty()) {
        let axis = match node.op.as_str() {
            "Conv" => ChannelAxis::Second,
            "Gemm" | "MatMul" => ChannelAxis::Last,
            _ => continue,
        };
        if let Some(&Some(value)) = node.inputs.first() {
            axes.entry(value).or_insert(axis);
        }
    }
    axes
}

/// Values that may be infinite: masks on their way to a softmax, none of which is an output.
pub(crate) fn masked(graph: &Graph) -> BTreeSet<ValueId> {
    let mut masks = BTreeSet::new();
    for node in graph.nodes.iter().rev() {
        let softmax = node.is("Softmax") || node.is("LogSoftmax");
        let passes = [
            "Add",
            "Where",
            "Mul",
            "Expand",
            "Unsqueeze",
            "Reshape",
            "Cast",
        ];
        let reaches = node.gives().any(|value| masks.contains(&value));
        if softmax || (reaches && passes.contains(&node.op.as_str())) {
            let reads = node.reads();
            masks.extend(reads.filter(|value| !graph.outputs.contains(value)));
        }
    }
    masks
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_float::DType;
    use tg_float::graph::{Dim, Input, Node};

    fn doubling() -> (Graph, [ValueId; 2]) {
        let mut graph = Graph::default();
        let x = graph.fresh("x");
        let y = graph.fresh("y");
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(vec![Dim::Known(1), Dim::Known(100)]),
        });
        graph.append(Node::new("double", "Add", 13, vec![x, x], vec![y]));
        graph.outputs.push(y);
        (graph, [x, y])
    }

    fn ramp(factor: f32) -> Vec<FloatTensor> {
        let values = (1..=100u8).map(|i| f32::from(i) * factor).collect();
        vec![FloatTensor::of(vec![1, 100], values).unwrap()]
    }

    fn reaches(inputs: &[Vec<FloatTensor>], rule: ReachRule) -> Result<[f32; 2], CalibrationError> {
        let (graph, values) = doubling();
        let known = observe(&graph, inputs, rule)?;
        Ok(values.map(|value| known[&value].reach(rule)))
    }

    #[test]
    fn the_greatest_absolute_value_counts() {
        let got = reaches(&[ramp(0.1), ramp(-0.5)], ReachRule::Greatest);
        assert_eq!(got, Ok([50.0, 100.0]));
    }

    #[test]
    fn a_percentile_leaves_outliers_out() {
        let got = reaches(&[ramp(1.0)], ReachRule::Percentile(90.0));
        assert_eq!(got, Ok([90.0, 180.0]));
        let all = reaches(&[ramp(1.0)], ReachRule::Percentile(100.0));
        assert_eq!(all, Ok([100.0, 200.0]));
    }

    #[test]
    fn the_least_error_saturates_a_lone_outlier() {
        let mut values = vec![0.0; 100];
        (0..99u8).for_each(|i| values[usize::from(i)] = f32::from(i) / 99.0);
        values[99] = 1.02;
        let even = vec![FloatTensor::of(vec![1, 100], values.clone()).unwrap()];
        assert!(reaches(&[even], ReachRule::LeastError).unwrap()[0] > 0.98);
        let mut many: Vec<Vec<FloatTensor>> = (0..300)
            .map(|_| vec![FloatTensor::of(vec![1, 100], values.clone()).unwrap()])
            .collect();
        values[99] = 3.0;
        many.push(vec![FloatTensor::of(vec![1, 100], values).unwrap()]);
        let got = reaches(&many, ReachRule::LeastError).unwrap()[0];
        assert!(got < 2.9, "{got}");
    }

    /// An image's rows are as long as the stretch that one sample stands for: every column is sampled all the same.
    #[test]
    fn samples_are_of_every_column() {
        let (rows, columns) = (64, 32);
        let mut statistics = Statistics::default();
        let image: Vec<f32> = (0..rows * columns).map(|i| (i % columns) as f32).collect();
        statistics.add(&image, columns);
        assert_eq!(statistics.samples.len(), rows);
        let mut seen = statistics.samples.clone();
        seen.sort_by(f32::total_cmp);
        seen.dedup();
        assert!(seen.len() > columns / 2, "{} columns", seen.len());
    }

    #[test]
    fn channels_have_means_and_peaks() {
        let mut statistics = Statistics::default();
        statistics.add_means(&[1.0, -2.0, 3.0, 4.0, 5.0, -6.0], &[1, 3, 2], 2);
        assert_eq!(statistics.means(), [3.0, -4.0 / 3.0]);
        assert_eq!(statistics.peaks(), [5.0, 6.0]);
        let mut statistics = Statistics::default();
        statistics.add_means(&[1.0, -2.0, 3.0, 4.0, 5.0, -6.0], &[1, 3, 2], 1);
        assert_eq!(statistics.means(), [-0.5, 3.5, -0.5]);
        assert_eq!(statistics.peaks(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn a_value_without_a_name_is_named_by_its_operator() {
        let (mut graph, [_, y]) = doubling();
        assert_eq!(named(&graph, y), "y");
        let unnamed = graph.fresh("");
        graph.nodes[0].outputs[0] = Some(unnamed);
        assert_eq!(named(&graph, unnamed), "double of Add");
    }

    #[test]
    fn bad_calibrations_are_named() {
        let check = |inputs: &[Vec<FloatTensor>], rule, expected| {
            assert_eq!(reaches(inputs, rule), Err(expected));
        };
        check(&[], ReachRule::Greatest, CalibrationError::NoInputs);
        check(
            &[ramp(1.0)],
            ReachRule::Percentile(0.0),
            CalibrationError::Percentile(0.0),
        );
        let infinite = CalibrationError::NotFinite {
            index: 0,
            value: "y".to_owned(),
        };
        check(&[ramp(f32::MAX / 101.0)], ReachRule::Greatest, infinite);
    }
}
