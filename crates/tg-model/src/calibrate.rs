//! Calibration: how far each value of a float graph reaches on real inputs.

use crate::graph::FloatGraph;
use crate::reference::{ReferenceError, storage_shape, to_file_order};

/// How the reach of a value follows from what it takes on the calibration inputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReachRule {
    /// The greatest absolute value.
    Greatest,
    /// The absolute value that this share of all elements, in percent, does not exceed; the rest saturate.
    Percentile(f64),
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
    /// An input that the graph cannot be executed on.
    #[error("calibration input {index} cannot be executed")]
    Input {
        /// Which one.
        index: usize,
        /// Why.
        source: ReferenceError,
    },
}

/// Bins of the histogram behind a percentile.
const BINS: usize = 4096;

/// The reach of every value (index 0 is the input) over some inputs, each in storage order (row, column, channel).
///
/// # Errors
/// If there is no input, or one cannot be executed.
///
/// # Panics
/// If the graph's input is not a vector or an image: an imported graph's is.
pub fn reach(
    graph: &FloatGraph,
    inputs: &[Vec<f32>],
    rule: ReachRule,
) -> Result<Vec<f32>, CalibrationError> {
    if inputs.is_empty() {
        return Err(CalibrationError::NoInputs);
    }
    let mut greatest = vec![0f32; graph.nodes.len() + 1];
    for_each_run(graph, inputs, |value, elements| {
        let largest = elements.iter().fold(0f32, |best, x| best.max(x.abs()));
        greatest[value] = greatest[value].max(largest);
    })?;
    let ReachRule::Percentile(percent) = rule else {
        return Ok(greatest);
    };
    if !(percent > 0.0 && percent <= 100.0) {
        return Err(CalibrationError::Percentile(percent));
    }
    let mut histograms = vec![vec![0u64; BINS]; greatest.len()];
    for_each_run(graph, inputs, |value, elements| {
        for element in elements {
            histograms[value][bin(element.abs(), greatest[value])] += 1;
        }
    })?;
    let each = greatest.iter().zip(&histograms);
    Ok(each
        .map(|(&greatest, histogram)| quantile(histogram, percent) * greatest)
        .collect())
}

fn for_each_run(
    graph: &FloatGraph,
    inputs: &[Vec<f32>],
    mut visit: impl FnMut(usize, &[f32]),
) -> Result<(), CalibrationError> {
    let shape = storage_shape(&graph.input).expect("an imported graph takes a vector or an image");
    for (index, input) in inputs.iter().enumerate() {
        let failed = |source| CalibrationError::Input { index, source };
        if input.len() != shape.elements() {
            return Err(failed(ReferenceError::InputLength {
                expected: shape.elements(),
                got: input.len(),
            }));
        }
        let values = graph.run(&to_file_order(input, shape)).map_err(failed)?;
        for (value, elements) in values.iter().enumerate() {
            visit(value, elements);
        }
    }
    Ok(())
}

fn bin(size: f32, greatest: f32) -> usize {
    if greatest == 0.0 {
        return 0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share in [0, 1] of a few thousand bins"
    )]
    let bin = (size / greatest * BINS as f32) as usize;
    bin.min(BINS - 1)
}

/// The upper end, as a share of the greatest value, of the first bin at which `percent` of all elements are reached.
fn quantile(histogram: &[u64], percent: f64) -> f32 {
    let total: u64 = histogram.iter().sum();
    let mut seen = 0u64;
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts far below 2^52, bins below 2^24"
    )]
    for (bin, count) in histogram.iter().enumerate() {
        seen += count;
        if seen as f64 * 100.0 >= percent * total as f64 {
            return (bin + 1) as f32 / BINS as f32;
        }
    }
    1.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::graph::{FloatNode, FloatOp, Value};

    fn doubling() -> FloatGraph {
        FloatGraph {
            name: "doubling".to_owned(),
            input: vec![1, 100],
            nodes: vec![FloatNode {
                name: "double".to_owned(),
                operator: "Add".to_owned(),
                op: FloatOp::Add,
                inputs: vec![Value::INPUT; 2],
                shape: vec![1, 100],
                clamp: None,
            }],
            output: Value(1),
        }
    }

    fn ramp(factor: f32) -> Vec<f32> {
        (1..=100u8).map(|i| f32::from(i) * factor).collect()
    }

    #[test]
    fn the_greatest_absolute_value_counts() {
        let inputs = [ramp(0.1), ramp(-0.5)];
        let got = reach(&doubling(), &inputs, ReachRule::Greatest).unwrap();
        assert_eq!(got, [50.0, 100.0]);
    }

    #[test]
    fn a_percentile_leaves_outliers_out() {
        let got = reach(&doubling(), &[ramp(1.0)], ReachRule::Percentile(90.0)).unwrap();
        assert!((got[0] - 90.0).abs() < 0.1, "{got:?}");
        assert!((got[1] - 180.0).abs() < 0.2, "{got:?}");
        let all = reach(&doubling(), &[ramp(1.0)], ReachRule::Percentile(100.0)).unwrap();
        assert_eq!(all, [100.0, 200.0]);
    }

    #[test]
    fn bad_calibrations_are_named() {
        let graph = doubling();
        let check = |inputs: &[Vec<f32>], rule, expected| {
            assert_eq!(reach(&graph, inputs, rule), Err(expected));
        };
        check(&[], ReachRule::Greatest, CalibrationError::NoInputs);
        check(
            &[ramp(1.0)],
            ReachRule::Percentile(0.0),
            CalibrationError::Percentile(0.0),
        );
        let bad = |index, source| CalibrationError::Input { index, source };
        let short = ReferenceError::InputLength {
            expected: 100,
            got: 99,
        };
        check(
            &[ramp(1.0), vec![0.0; 99]],
            ReachRule::Greatest,
            bad(1, short),
        );
        check(
            &[vec![f32::NAN; 100]],
            ReachRule::Greatest,
            bad(0, ReferenceError::InputNotFinite { index: 0 }),
        );
        check(
            &[vec![f32::MAX; 100]],
            ReachRule::Greatest,
            bad(
                0,
                ReferenceError::NotFinite {
                    node: "double".to_owned(),
                },
            ),
        );
    }
}
