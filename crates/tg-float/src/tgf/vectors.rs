//! Support vector machines of `ai.onnx.ml`.
//!
//! A kernel is summed feature by feature, a score vector by vector in the order of the file, in `f32`.

use super::call::Entry;
use super::call::Half::Native;
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use super::math;
use super::trees::{Labels, Rows, largest, post_transform};
use crate::convert::canonical;
use crate::tensor::{DType, Data};

/// Most rounds by which probabilities of several classes are found.
const ROUNDS_MAX: usize = 100;
/// Steps of a kernel beside its features.
const KERNEL_STEPS: usize = 32;
/// A pair's probability is at least this far from 0 and 1.
const PROBABILITY_LEAST: f32 = 1e-7;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "SVMClassifier" => classify,
        "SVMRegressor" => regress,
        _ => return None,
    };
    Some((kernel, Native))
}

#[derive(Debug, Clone, Copy)]
enum Kernel {
    Linear,
    Polynomial,
    Sigmoid,
    Radial,
}

/// The support vectors and what is computed of each of them.
struct Vectors<'a> {
    kernel: Kernel,
    parameters: [f32; 3],
    /// `[vectors][features]`.
    flat: &'a [f32],
    count: usize,
}

impl<'a> Vectors<'a> {
    fn new(call: &Call<'a>, count: usize, features: usize) -> Result<Self, OpError> {
        let kernel = match call.text("kernel_type", "LINEAR")? {
            "" | "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Polynomial,
            "SIGMOID" => Kernel::Sigmoid,
            "RBF" => Kernel::Radial,
            _ => {
                return Err(OpError::Attribute {
                    name: "kernel_type",
                });
            }
        };
        let parameters = match *call.floats("kernel_params")?.unwrap_or_default() {
            [] => [0.0; 3],
            [gamma, start, degree] => [gamma, start, degree],
            _ => {
                return Err(OpError::Attribute {
                    name: "kernel_params",
                });
            }
        };
        let flat = call.floats("support_vectors")?.unwrap_or_default();
        if count == 0 || features == 0 || count.checked_mul(features) != Some(flat.len()) {
            return Err(OpError::invalid(
                "the support vectors do not fit the features",
            ));
        }
        Ok(Self {
            kernel,
            parameters,
            flat,
            count,
        })
    }

    /// The kernel of a row with each vector.
    fn kernels(&self, call: &Call<'_>, row: &[f32]) -> Result<Vec<f32>, OpError> {
        call.charge_steps(&[self.count, KERNEL_STEPS.saturating_add(row.len())])?;
        let vectors = self.flat.chunks_exact(row.len().max(1));
        Ok(vectors.map(|vector| self.of(row, vector)).collect())
    }

    fn of(&self, row: &[f32], vector: &[f32]) -> f32 {
        let [gamma, start, degree] = self.parameters;
        let dot = || product(row, vector);
        match self.kernel {
            Kernel::Linear => dot(),
            Kernel::Polynomial => math::pow(gamma.mul_add(dot(), start), degree),
            Kernel::Sigmoid => math::tanh(gamma.mul_add(dot(), start)),
            Kernel::Radial => {
                let apart = row.iter().zip(vector).map(|(x, v)| x - v);
                math::exp(-gamma * apart.fold(0f32, |sum, d| d.mul_add(d, sum)))
            }
        }
    }
}

fn product(row: &[f32], weights: &[f32]) -> f32 {
    let pairs = row.iter().zip(weights);
    pairs.fold(0f32, |sum, (x, w)| x.mul_add(*w, sum))
}

fn regress(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let weights = call.floats("coefficients")?.unwrap_or_default();
    let &[rho] = call.floats("rho")?.unwrap_or_default() else {
        return Err(OpError::Attribute { name: "rho" });
    };
    let count = usize::try_from(call.int("n_supports", 0)?).unwrap_or(0);
    let vectors = if count == 0 {
        None
    } else {
        Some(Vectors::new(call, count, rows.features)?)
    };
    if weights.len() != vectors.as_ref().map_or(rows.features, |own| own.count) {
        return Err(OpError::invalid("there is not one coefficient per vector"));
    }
    let one_class = call.flag("one_class", false)?;
    let mut out = call.filled(&[rows.count, 1], 0f32)?;
    for (row, out) in rows.iter().zip(&mut out) {
        call.charge_steps(&[weights.len().saturating_add(1)])?;
        let sum = match &vectors {
            None => product(row, weights),
            Some(vectors) => product(&vectors.kernels(call, row)?, weights),
        };
        let sum = canonical(sum + rho);
        *out = match (one_class, sum > 0.0) {
            (false, _) => sum,
            (true, true) => 1.0,
            (true, false) => -1.0,
        };
        post_transform(call, std::slice::from_mut(out))?;
    }
    one(vec![rows.count, 1], out)
}

/// A classifier by votes of each two classes.
struct Machine<'a> {
    vectors: Vectors<'a>,
    /// First vector of each class, and one more.
    starts: Vec<usize>,
    /// `[classes - 1][vectors]`.
    weights: &'a [f32],
    rho: &'a [f32],
    /// Slope and offset of the probability of each two classes, if there are any.
    probable: Option<(&'a [f32], &'a [f32])>,
}

impl<'a> Machine<'a> {
    fn new(call: &Call<'a>, classes: usize, features: usize) -> Result<Self, OpError> {
        let mut starts = vec![0usize];
        for &count in call.ints("vectors_per_class")?.unwrap_or_default() {
            let count = usize::try_from(count).ok();
            let end = count.and_then(|count| starts.last()?.checked_add(count));
            starts.push(end.ok_or(OpError::Attribute {
                name: "vectors_per_class",
            })?);
        }
        let count = starts.last().copied().unwrap_or(0);
        let pairs = classes.saturating_mul(classes.saturating_sub(1)) / 2;
        let weights = call.floats("coefficients")?.unwrap_or_default();
        let rho = call.floats("rho")?.unwrap_or_default();
        let fits = classes >= 2
            && starts.len() == classes + 1
            && rho.len() == pairs
            && count.checked_mul(classes - 1) == Some(weights.len());
        if !fits {
            return Err(OpError::invalid("the coefficients do not fit the classes"));
        }
        let list = |name| Ok::<_, OpError>(call.floats(name)?.unwrap_or_default());
        let probable = match (list("prob_a")?, list("prob_b")?) {
            ([], []) => None,
            (slopes, offsets) if [slopes.len(), offsets.len()] == [pairs; 2] => {
                Some((slopes, offsets))
            }
            _ => return Err(OpError::Attribute { name: "prob_a" }),
        };
        Ok(Self {
            vectors: Vectors::new(call, count, features)?,
            starts,
            weights,
            rho,
            probable,
        })
    }

    const fn classes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The score of each two classes: positive for the first of them.
    fn scores(&self, call: &Call<'_>, row: &[f32]) -> Result<Vec<f32>, OpError> {
        let kernels = self.vectors.kernels(call, row)?;
        let classes = self.classes();
        call.charge_steps(&[kernels.len(), classes])?;
        call.charge_steps(&[classes, classes, 4])?;
        let of = |weights: usize, class: usize| {
            let own = self.starts[class]..self.starts[class + 1];
            let weights = &self.weights[weights * self.vectors.count..][own.clone()];
            product(&kernels[own], weights)
        };
        let pairs = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| (a, b)));
        let scores = pairs.zip(self.rho);
        Ok(scores
            .map(|((a, b), rho)| canonical(of(b - 1, a) + of(a, b) + rho))
            .collect())
    }

    fn votes(&self, scores: &[f32]) -> Vec<f32> {
        let classes = self.classes();
        let mut votes = vec![0f32; classes];
        let pairs = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| [a, b]));
        for ([a, b], score) in pairs.zip(scores) {
            votes[if *score > 0.0 { a } else { b }] += 1.0;
        }
        votes
    }

    /// The probability of each class, from those of each two.
    fn probabilities(
        &self,
        call: &Call<'_>,
        scores: &[f32],
        (slopes, offsets): (&[f32], &[f32]),
    ) -> Result<Vec<f32>, OpError> {
        let classes = self.classes();
        call.charge_steps(&[ROUNDS_MAX, classes, classes, 4])?;
        let mut between = vec![0f32; classes * classes];
        let pairs = (0..classes).flat_map(|a| (a + 1..classes).map(move |b| [a, b]));
        for (pair, [a, b]) in pairs.enumerate() {
            let logit = scores[pair].mul_add(slopes[pair], offsets[pair]);
            let first = 1.0 - math::sigmoid(logit);
            let first = first.clamp(PROBABILITY_LEAST, 1.0 - PROBABILITY_LEAST);
            between[a * classes + b] = first;
            between[b * classes + a] = 1.0 - first;
        }
        Ok(coupled(&between, classes))
    }
}

/// Probabilities of all classes that agree best with those of each two, by the second method of Wu, Lin and Weng,
/// "Probability Estimates for Multi-class Classification by Pairwise Coupling", section 4.2.
fn coupled(between: &[f32], classes: usize) -> Vec<f32> {
    let mut matrix = vec![0f32; classes * classes];
    for a in 0..classes {
        for b in (0..classes).filter(|&b| b != a) {
            let [there, back] = [between[b * classes + a], between[a * classes + b]];
            matrix[a * classes + a] += there * there;
            matrix[a * classes + b] = -there * back;
        }
    }
    let mut p = vec![1.0 / classes as f32; classes];
    let near = 0.005 / classes as f32;
    for _ in 0..ROUNDS_MAX {
        let rows = matrix.chunks_exact(classes);
        let mut sums: Vec<f32> = rows.map(|row| product(row, &p)).collect();
        let mut all = product(&p, &sums);
        let apart = sums.iter().map(|sum| (sum - all).abs());
        if apart.fold(0f32, f32::max) < near {
            break;
        }
        for a in 0..classes {
            let own = matrix[a * classes + a];
            let step = (all - sums[a]) / own;
            p[a] += step;
            let scale = 1.0 + step;
            all = (all + step * step.mul_add(own, 2.0 * sums[a])) / scale / scale;
            for b in 0..classes {
                sums[b] = step.mul_add(matrix[a * classes + b], sums[b]) / scale;
                p[b] /= scale;
            }
        }
    }
    p.into_iter().map(canonical).collect()
}

/// Labels, and probabilities or scores: of two classes those of both, of more each two classes' score.
fn classify(call: &Call<'_>) -> Results {
    let rows = Rows::new(call)?;
    let labels = Labels::new(call, "classlabels_ints", "classlabels_strings")?;
    let classes = labels.len();
    if labels.has_texts() {
        call.reserve(rows.count, DType::String)?;
    }
    if call
        .ints("vectors_per_class")?
        .unwrap_or_default()
        .is_empty()
    {
        return call.refuse("a classifier without support vectors");
    }
    let machine = Machine::new(call, classes, rows.features)?;
    let width = match (&machine.probable, classes) {
        (Some(_), _) | (None, 2) => classes,
        (None, _) => machine.rho.len(),
    };
    let mut out = call.filled(&[rows.count, width], 0f32)?;
    let mut places = Vec::with_capacity(rows.count);
    for (row, out) in rows.iter().zip(out.chunks_exact_mut(width)) {
        let scores = machine.scores(call, row)?;
        places.push(largest(&machine.votes(&scores)));
        match (machine.probable, scores.as_slice()) {
            (Some(probable), _) => {
                out.copy_from_slice(&machine.probabilities(call, &scores, probable)?);
            }
            (None, [score]) => out.copy_from_slice(&[-score, *score]),
            (None, scores) => out.copy_from_slice(scores),
        }
        post_transform(call, out)?;
    }
    Ok(vec![
        labels.pick(&places),
        tensor(vec![rows.count, width], Data::F32(out))?,
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::tests::node;
    use super::super::{Budget, OpError, evaluate};
    use crate::graph::{Attribute, Node};
    use crate::tensor::FloatTensor;

    const COEFFICIENTS: [f32; 10] = [0.5, -1.0, 0.75, -0.25, 1.25, 0.3, -0.6, 0.9, -1.1, 0.4];

    fn floats(values: &[f32]) -> Attribute {
        Attribute::Floats(values.to_vec())
    }

    fn machine(op: &str, kernel: &str, parameters: [f32; 3], coefficients: usize) -> Node {
        let vectors = [0.5, 1.0, -1.0, 0.25, 2.0, -0.5, 0.0, 1.5, -0.75, -1.25];
        let attributes = [
            ("kernel_type", Attribute::Text(kernel.as_bytes().to_vec())),
            ("kernel_params", floats(&parameters)),
            ("support_vectors", floats(&vectors)),
            ("coefficients", floats(&COEFFICIENTS[..coefficients])),
        ];
        let outputs = if op == "SVMClassifier" { 2 } else { 1 };
        let mut node = node(op, 1, &attributes, 1, outputs);
        "ai.onnx.ml".clone_into(&mut node.domain);
        node
    }

    fn of(node: &Node) -> Vec<FloatTensor> {
        let x = FloatTensor::of(vec![3, 2], vec![0.5f32, -1.0, 2.0, 0.25, -0.75, 1.5]).unwrap();
        evaluate(node, &[Some(&x)], &Budget::default()).unwrap()
    }

    fn near(got: &FloatTensor, expected: &[f32]) {
        let got = got.values::<f32>().unwrap();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!(
                (got - expected).abs() < 2e-6 * expected.abs().max(1.0),
                "{got} {expected}"
            );
        }
    }

    type Expected = (&'static str, [f32; 3], [f32; 9], [f32; 9]);

    /// Kernel, parameters, scores and probabilities of three rows: onnxruntime's, 1.31.1.
    const EXPECTED: [Expected; 3] = [
        (
            "RBF",
            [0.5, 0.0, 3.0],
            [
                0.224_216,
                0.306_102_7,
                0.692_701_64,
                0.762_060_7,
                -0.123_897,
                0.914_158_6,
                -0.328_125_3,
                -0.316_544_7,
                -0.518_429_5,
            ],
            [
                0.415_052_92,
                0.385_716_86,
                0.199_230_34,
                0.502_608_8,
                0.285_771_52,
                0.211_619_69,
                0.301_271_74,
                0.231_988_34,
                0.466_739_98,
            ],
        ),
        (
            "POLY",
            [0.5, 1.0, 3.0],
            [
                3.993_554_6,
                3.439_831_5,
                6.294_433_6,
                20.837_397,
                1.088_316_4,
                21.270_983,
                -4.207_739_4,
                -1.293_635_6,
                -10.240_785,
            ],
            [
                0.926_034_9,
                0.010_721_841,
                0.063_243_37,
                0.797_281_74,
                0.049_641_61,
                0.153_076_65,
                0.181_642_79,
                0.071_171_49,
                0.747_185_77,
            ],
        ),
        (
            "SIGMOID",
            [0.25, 0.5, 3.0],
            [
                0.445_486_13,
                0.479_355_16,
                1.043_180_6,
                0.961_217_05,
                0.050_466_77,
                0.542_295_16,
                -0.470_180_57,
                -0.183_274_24,
                -0.553_376_6,
            ],
            [
                0.487_545_04,
                0.351_227_25,
                0.161_227_66,
                0.517_094_25,
                0.226_378_14,
                0.256_527_5,
                0.292_898_6,
                0.236_946_75,
                0.470_154_58,
            ],
        ),
    ];

    #[test]
    fn three_classes_have_scores_or_probabilities() {
        let of_kernel = |kernel, parameters, scores: &[f32], probabilities: &[f32]| {
            let machine = machine("SVMClassifier", kernel, parameters, 10)
                .with("rho", floats(&[0.1, -0.2, 0.3]))
                .with("vectors_per_class", Attribute::Ints(vec![2, 2, 1]))
                .with("classlabels_ints", Attribute::Ints(vec![4, 5, 9]));
            let results = of(&machine);
            assert_eq!(results[0].values::<i64>().unwrap(), [4, 4, 9]);
            near(&results[1], scores);
            let machine = machine
                .with("prob_a", floats(&[-1.5, -0.5, -2.0]))
                .with("prob_b", floats(&[0.1, -0.2, 0.3]));
            let results = of(&machine);
            assert_eq!(results[0].values::<i64>().unwrap(), [4, 4, 9]);
            near(&results[1], probabilities);
        };
        for (kernel, parameters, scores, probabilities) in &EXPECTED {
            of_kernel(kernel, *parameters, scores, probabilities);
        }
    }

    #[test]
    fn rows_without_features_have_no_vectors() {
        let machine = machine("SVMClassifier", "LINEAR", [0.0; 3], 5)
            .with("support_vectors", floats(&[]))
            .with("rho", floats(&[0.1]))
            .with("vectors_per_class", Attribute::Ints(vec![3, 2]))
            .with("classlabels_ints", Attribute::Ints(vec![0, 1]));
        let x = FloatTensor::of(vec![1, 0], Vec::<f32>::new()).unwrap();
        let result = evaluate(&machine, &[Some(&x)], &Budget::default());
        assert!(matches!(result, Err(OpError::Invalid { .. })), "{result:?}");
    }

    /// The numbers are onnxruntime's, 1.31.1.
    #[test]
    fn two_classes_and_numbers() {
        let machine = machine("SVMRegressor", "RBF", [0.5, 0.0, 3.0], 5)
            .with("rho", floats(&[0.1]))
            .with("n_supports", Attribute::Int(5));
        near(&of(&machine)[0], &[0.778_900_15, 0.771_311, -0.299_632_6]);
        let outlier = machine.with("one_class", Attribute::Int(1));
        near(&of(&outlier)[0], &[1.0, 1.0, -1.0]);
        let texts = ["no", "yes"].map(|text| text.as_bytes().to_vec());
        let machine = self::machine("SVMClassifier", "RBF", [0.5, 0.0, 3.0], 5)
            .with("rho", floats(&[0.1]))
            .with("vectors_per_class", Attribute::Ints(vec![3, 2]))
            .with("classlabels_strings", Attribute::Texts(texts.to_vec()));
        let results = of(&machine);
        let labels = ["no", "no", "yes"].map(str::to_owned);
        assert_eq!(results[0], FloatTensor::vector(labels.to_vec()));
        near(
            &results[1],
            &[
                -0.778_900_15,
                0.778_900_15,
                -0.771_311,
                0.771_311,
                0.299_632_58,
                -0.299_632_58,
            ],
        );
        let probable = machine
            .with("prob_a", floats(&[-1.5]))
            .with("prob_b", floats(&[0.1]));
        near(
            &of(&probable)[1],
            &[
                0.744_282_9,
                0.255_717_07,
                0.742_110_3,
                0.257_889_7,
                0.363_126_37,
                0.636_873_54,
            ],
        );
    }
}
