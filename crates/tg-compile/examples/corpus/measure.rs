//! How far two sets of answers lie apart, and what a task makes of them.

use tg_float::{FloatTensor, tgf};

/// What the task of an entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// Right classes.
    Accuracy,
    /// Perplexity of the next token.
    Perplexity,
    /// Nothing: weights are random.
    Noise,
}

/// The floats of a tensor.
pub(crate) fn floats(tensor: &FloatTensor) -> Option<Vec<f64>> {
    if let Some(values) = tensor.values::<f32>() {
        return Some(values.iter().map(|&x| f64::from(x)).collect());
    }
    tensor.values::<f64>().map(<[f64]>::to_vec)
}

/// The greatest difference over the greatest absolute value expected; infinite where one is not a number and the
/// other is.
pub(crate) fn relative_error(got: &[f64], expected: &[f64]) -> f64 {
    if got.len() != expected.len() {
        return f64::INFINITY;
    }
    let scale = expected.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let mut greatest = 0.0f64;
    for (got, expected) in got.iter().zip(expected) {
        let difference = (got - expected).abs();
        if difference.is_nan() {
            if got.is_nan() != expected.is_nan() {
                return f64::INFINITY;
            }
        } else {
            greatest = greatest.max(difference);
        }
    }
    if greatest == 0.0 {
        0.0
    } else {
        greatest / scale
    }
}

/// The index of the greatest value, the lowest of equal ones.
pub(crate) fn top(values: &[f64]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

/// Running sums over the samples of an entry.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Score {
    rows: usize,
    agreeing: usize,
    right: [usize; 2],
    surprise: [f64; 2],
    classes: usize,
    signal: f64,
    noise: f64,
    /// The greatest relative error of a sample.
    pub(crate) error: f64,
}

impl Score {
    /// Adds one sample: rows of `classes` scores, got and expected, and a label per row where there are some.
    pub(crate) fn add(&mut self, got: &[f64], expected: &[f64], classes: usize, labels: &[i64]) {
        self.error = self.error.max(relative_error(got, expected));
        if got.len() != expected.len() || classes == 0 {
            return;
        }
        self.classes = classes;
        for (got, expected) in got.iter().zip(expected) {
            self.signal += expected.powi(2);
            self.noise += (got - expected).powi(2);
        }
        let rows = got
            .chunks_exact(classes)
            .zip(expected.chunks_exact(classes));
        for (row, (got, expected)) in rows.enumerate() {
            self.rows += 1;
            self.agreeing += usize::from(top(got) == top(expected));
            let Some(label) = labels.get(row).and_then(|&x| usize::try_from(x).ok()) else {
                continue;
            };
            for (side, scores) in [got, expected].into_iter().enumerate() {
                self.right[side] += usize::from(top(scores) == label);
                self.surprise[side] += surprise(scores, label);
            }
        }
    }

    /// Power of the expected answers over that of the differences, in decibels.
    pub(crate) fn snr_db(&self) -> f64 {
        10.0 * (self.signal / self.noise.max(f64::MIN_POSITIVE)).log10()
    }

    /// Elements of a row.
    pub(crate) const fn classes(&self) -> usize {
        self.classes
    }

    /// Rows that we and that the expected answers have right.
    pub(crate) const fn right(&self) -> [usize; 2] {
        self.right
    }

    /// Share of rows whose greatest score is at one index, in per cent.
    pub(crate) fn agreement(&self) -> f64 {
        percent(self.agreeing, self.rows)
    }

    /// The task's measure of our answers and of the expected ones.
    pub(crate) fn task(&self, task: Task) -> Option<[f64; 2]> {
        if self.rows == 0 {
            return None;
        }
        match task {
            Task::Accuracy => Some(self.right.map(|right| percent(right, self.rows))),
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            Task::Perplexity => Some(self.surprise.map(|sum| (sum / self.rows as f64).exp())),
            Task::Noise => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Minus the logarithm of the probability that a softmax of the scores gives the label.
fn surprise(scores: &[f64], label: usize) -> f64 {
    let Some(&score) = scores.get(label) else {
        return f64::INFINITY;
    };
    let greatest = scores
        .iter()
        .fold(f64::NEG_INFINITY, |most, x| most.max(*x));
    let sum: f64 = scores.iter().map(|x| (x - greatest).exp()).sum();
    sum.ln() + greatest - score
}

/// The budget of one run.
pub(crate) fn budget() -> tgf::Budget {
    tgf::Budget::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_greatest_value() {
        let check = |got: &[f64], expected: &[f64], error: f64| {
            assert!((relative_error(got, expected) - error).abs() < 1e-12 || error.is_infinite());
            assert_eq!(
                relative_error(got, expected).is_infinite(),
                error.is_infinite()
            );
        };
        check(&[1.0, 2.0], &[1.0, 2.0], 0.0);
        check(&[1.0, 2.5], &[1.0, 2.0], 0.25);
        check(&[0.0], &[0.0], 0.0);
        check(&[1.0], &[1.0, 2.0], f64::INFINITY);
        check(&[f64::NAN], &[1.0], f64::INFINITY);
        check(&[f64::NAN], &[f64::NAN], 0.0);
    }

    #[test]
    fn scores_count_rows() {
        let mut score = Score::default();
        score.add(&[1.0, 3.0, 5.0, 2.0], &[1.0, 4.0, 1.0, 2.0], 2, &[1, 1]);
        assert!((score.agreement() - 50.0).abs() < 1e-9);
        assert_eq!(score.task(Task::Accuracy), Some([50.0, 100.0]));
        assert_eq!(score.task(Task::Noise), None);
        assert_eq!((score.classes(), score.right()), (2, [1, 2]));
        assert!((score.snr_db() - 10.0 * (22.0f64 / 17.0).log10()).abs() < 1e-9);
        let [ours, theirs] = score.task(Task::Perplexity).expect("rows with labels");
        assert!(ours > theirs, "{ours} {theirs}");
        let mut even = Score::default();
        even.add(&[0.0; 4], &[0.0; 4], 4, &[2]);
        let [ours, _] = even.task(Task::Perplexity).expect("a row with a label");
        assert!((ours - 4.0).abs() < 1e-9);
    }
}
