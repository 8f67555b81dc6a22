//! Operators that are linear in what is computed, whatever their attributes, as products with constant matrices: the matrix
//! is found by executing the operator on one element at a time.
//!
//! Interpolation and averages work along each axis alone, so that they are one small matrix an axis; a transform of rows, or
//! a convolution, is one matrix for all rows or images. Both are found from a few executions, and compared with one on
//! numbers without pattern before they are taken.

use super::Fact;
use super::edit::{Writer, gives_first_alone, int, output, rewrite_each, text};
use super::moved::executed;
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Most executions of an operator.
const EXECUTIONS_MAX: usize = 2048;
/// Most elements of a matrix.
const MATRIX_MAX: usize = 1 << 21;
/// Greatest difference from an execution, as a share of the greatest result.
const NEAR: f64 = 1e-4;

/// Rewrites every linear operator that lowering does not take; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| {
        may_be_linear(graph, node, facts)
            .then(|| LinearNode::new(graph, node, facts)?.written(graph))
            .flatten()
    })
}

/// Whether an operator may be linear in the one value that is computed.
fn may_be_linear(graph: &Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> bool {
    if !node.domain.is_empty() || !gives_first_alone(graph, node) {
        return false;
    }
    // Only what is known to be data may be computed: no execution shows what a place or a region might do.
    let data: &[usize] = match node.op.as_str() {
        "ScatterElements" | "ScatterND" => &[0, 2],
        _ => &[0],
    };
    let computed = |value: ValueId| !graph.constants.contains_key(&value);
    let other = |(slot, value): (usize, &Option<ValueId>)| {
        !data.contains(&slot) && value.is_some_and(computed)
    };
    if node.inputs.iter().enumerate().any(other) {
        return false;
    }
    let Some(x) = node.inputs.first().copied().flatten() else {
        return false;
    };
    let rank = facts.get(&x).map_or(0, |fact| fact.shape.len());
    match node.op.as_str() {
        "Resize" | "Upsample" => {
            let mode = text(node, "mode", b"");
            !(mode.is_empty() || mode == b"nearest")
        }
        // Elements that the border leaves out make averages differ.
        "AveragePool" => {
            let padded = match node.attributes.get("pads") {
                Some(Attribute::Ints(pads)) => pads.iter().any(|&pad| pad != 0),
                _ => false,
            };
            let same = text(node, "auto_pad", b"").starts_with(b"SAME");
            let partial = padded || same || int(node, "ceil_mode", 0) != 0;
            let images = facts.get(&x).map_or(1, |fact| fact.shape[0]);
            int(node, "count_include_pad", 0) == 0 && partial || rank > 4 || images != 1
        }
        "DFT" | "Col2Im" | "GridSample" | "AffineGrid" | "DeformConv" | "ScatterElements"
        | "ScatterND" => true,
        "Einsum" => graph.constants.len() < 1 << 20 && node.reads().count() == 1,
        _ => false,
    }
}

/// A linear operator of one computed value.
struct LinearNode<'a> {
    node: &'a Node,
    x: ValueId,
    value: ValueId,
    input: Fact,
    shape: Vec<usize>,
    /// What it gives for zeros.
    offset: Vec<f64>,
}

impl<'a> LinearNode<'a> {
    fn new(graph: &Graph, node: &'a Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Self> {
        let mut computed = node
            .reads()
            .filter(|value| !graph.constants.contains_key(value));
        let (x, None) = (computed.next()?, computed.next()) else {
            return None;
        };
        let value = output(node)?;
        let mut found = Self {
            node,
            x,
            value,
            input: facts.get(&x)?.clone(),
            shape: facts.get(&value)?.shape.clone(),
            offset: Vec::new(),
        };
        if !found.input.dtype.is_float() || found.input.shape.contains(&0) {
            return None;
        }
        found.offset = found.execute(graph, &|_| 0.0)?;
        Some(found)
    }

    fn execute(&self, graph: &Graph, number: &dyn Fn(usize) -> f64) -> Option<Vec<f64>> {
        let inputs = [(self.x, self.input.clone())];
        let result = executed(graph, self.node, &inputs, number)?;
        result
            .iter()
            .all(|value| value.is_finite())
            .then_some(result)
    }

    /// The result for these numbers less that for zeros.
    fn respond(&self, graph: &Graph, number: &dyn Fn(usize) -> f64) -> Option<Vec<f64>> {
        let result = self.execute(graph, number)?;
        Some(
            result
                .iter()
                .zip(&self.offset)
                .map(|(y, b)| y - b)
                .collect(),
        )
    }

    fn written(&self, graph: &mut Graph) -> Option<Vec<Node>> {
        if let Some(matrices) = self.by_axis(graph) {
            return self.products_by_axis(graph, &matrices);
        }
        let (rows, matrix) = self.by_rows(graph)?;
        self.product_of_rows(graph, rows, &matrix)
    }

    // ------------------------------------------------------------ one matrix an axis

    /// Per axis the matrix `[from][to]`, if the operator is their product.
    fn by_axis(&self, graph: &Graph) -> Option<Vec<Vec<f64>>> {
        let (from, to) = (&self.input.shape, &self.shape);
        let executions: usize = from.iter().sum();
        if from.len() != to.len() || from.is_empty() || executions > EXECUTIONS_MAX {
            return None;
        }
        if self.offset.iter().any(|&b| b != 0.0) {
            return None;
        }
        let ones = self.respond(graph, &|_| 1.0)?;
        let greatest = ones.iter().map(|y| y.abs()).fold(0.0, f64::max);
        // A place of the result that has much of everything.
        let pivot = ones.iter().position(|y| y.abs() == greatest)?;
        let strides = tg_float::tensor::strides(to);
        let mut matrices = Vec::new();
        for axis in 0..from.len() {
            let stride: usize = from[axis + 1..].iter().product();
            let size = from[axis];
            let mut matrix = Vec::with_capacity(size * to[axis]);
            let own = pivot / strides[axis] % to[axis];
            for wanted in 0..size {
                let only = |at: usize| f64::from(u8::from(at / stride % size == wanted));
                let result = self.respond(graph, &only)?;
                let start = pivot - own * strides[axis];
                matrix
                    .extend((0..to[axis]).map(|at| result[start + at * strides[axis]] / greatest));
            }
            matrices.push(matrix);
        }
        // Each matrix has the others' sums at the pivot in it, which are its own sum's share of what ones give.
        let factor = greatest * ones[pivot].signum().powi(from.len() as i32 - 1);
        let axes = 0..from.len();
        let mixes = |&axis: &usize| !is_identity(&matrices[axis], from[axis], to[axis]);
        let scaled = axes.rev().find(mixes).unwrap_or(0);
        matrices[scaled].iter_mut().for_each(|w| *w *= factor);
        self.matches(graph, &|values| apply_by_axis(values, from, to, &matrices))
            .then_some(matrices)
    }

    /// Whether products give what the operator gives, on numbers without pattern.
    fn matches(&self, graph: &Graph, product: &dyn Fn(&[f64]) -> Vec<f64>) -> bool {
        let count: usize = self.input.shape.iter().product();
        // Small numbers and large ones: an extreme with a constant is linear in numbers that it never chooses.
        let sizes = [1.0, -1.0, 1e-3, -1e-3, 1e4, -1e4, 1e8, -1e8];
        sizes.into_iter().enumerate().all(|(at, size)| {
            let seed = (at / 2) as u64 + 1;
            let number = |at: usize| {
                let mixed = (at as u64 + seed * 0x1000_0001).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                size * ((mixed >> 44) as f64 / f64::from(1 << 19) - 1.0)
            };
            let Some(expected) = self.respond(graph, &number) else {
                return false;
            };
            let values: Vec<f64> = (0..count).map(number).collect();
            let got = product(&values);
            let greatest = expected
                .iter()
                .map(|y| y.abs())
                .fold(1e-6 * f64::abs(size), f64::max);
            got.len() == expected.len()
                && got
                    .iter()
                    .zip(&expected)
                    .all(|(got, expected)| (got - expected).abs() <= NEAR * greatest)
        })
    }

    fn products_by_axis(&self, graph: &mut Graph, matrices: &[Vec<f64>]) -> Option<Vec<Node>> {
        let mut shape = self.input.shape.clone();
        let last = shape.len() - 1;
        let mut writer = Writer::new(graph, &self.node.name);
        let mut value = self.x;
        for (axis, matrix) in matrices.iter().enumerate() {
            let (from, to) = (shape[axis], self.shape[axis]);
            if is_identity(matrix, from, to) {
                continue;
            }
            let mut order: Vec<i64> = (0..shape.len() as i64).collect();
            order.swap(axis, last);
            let order = [("perm", Attribute::Ints(order))];
            let weights = matrix.iter().map(|&w| w as f32).collect();
            let weights = writer.floats(&[from, to], weights);
            if axis != last {
                value = writer.node("Transpose", &[value], &order);
            }
            value = writer.node("MatMul", &[value, weights], &[]);
            if axis != last {
                value = writer.node("Transpose", &[value], &order);
            }
            shape[axis] = to;
        }
        Some(writer.finish(value, self.value))
    }

    // ------------------------------------------------------------ one matrix for all rows

    /// How many rows the input is, and the matrix `[from][to]` of each.
    fn by_rows(&self, graph: &Graph) -> Option<(usize, Vec<f64>)> {
        let (from, to) = (&self.input.shape, &self.shape);
        let all: usize = from.iter().product();
        let given: usize = to.iter().product();
        let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        for axes in (0..=common).rev() {
            let rows: usize = from[..axes].iter().product();
            if rows == 0 || !all.is_multiple_of(rows) || !given.is_multiple_of(rows) {
                continue;
            }
            let (length, results) = (all / rows, given / rows);
            if length > EXECUTIONS_MAX || length * results > MATRIX_MAX {
                return None;
            }
            let mut matrix = Vec::with_capacity(length * results);
            for wanted in 0..length {
                let only = |at: usize| f64::from(u8::from(at == wanted));
                matrix.extend_from_slice(&self.respond(graph, &only)?[..results]);
            }
            let product = |values: &[f64]| {
                let rows = values.chunks_exact(length);
                rows.flat_map(|row| apply(row, &matrix, results)).collect()
            };
            if self.matches(graph, &product) {
                return Some((rows, matrix));
            }
        }
        None
    }

    fn product_of_rows(&self, graph: &mut Graph, rows: usize, matrix: &[f64]) -> Option<Vec<Node>> {
        let length = self.input.shape.iter().product::<usize>() / rows;
        let results = matrix.len() / length.max(1);
        let mut writer = Writer::new(graph, &self.node.name);
        let shape = writer.ints(&[rows as i64, length as i64]);
        let flat = writer.node("Reshape", &[self.x, shape], &[]);
        let weights = matrix.iter().map(|&w| w as f32).collect();
        let weights = writer.floats(&[length, results], weights);
        let product = writer.node("MatMul", &[flat, weights], &[]);
        let shape: Vec<i64> = self.shape.iter().map(|&size| size as i64).collect();
        let shape = writer.ints(&shape);
        let mut value = writer.node("Reshape", &[product, shape], &[]);
        if self.offset.iter().any(|&b| b != 0.0) {
            let offset = self.offset.iter().map(|&b| b as f32).collect();
            let offset = writer.floats(&self.shape, offset);
            value = writer.node("Add", &[value, offset], &[]);
        }
        Some(writer.finish(value, self.value))
    }
}

/// `x M`, M `[from][to]`.
fn apply(row: &[f64], matrix: &[f64], results: usize) -> Vec<f64> {
    let mut sums = vec![0.0; results];
    for (x, weights) in row.iter().zip(matrix.chunks_exact(results.max(1))) {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += x * weight;
        }
    }
    sums
}

/// Each axis by its matrix.
fn apply_by_axis(values: &[f64], from: &[usize], to: &[usize], matrices: &[Vec<f64>]) -> Vec<f64> {
    let mut values = values.to_vec();
    let mut shape = from.to_vec();
    for (axis, matrix) in matrices.iter().enumerate() {
        let inner: usize = shape[axis + 1..].iter().product();
        let outer: usize = shape[..axis].iter().product();
        let (size, results) = (shape[axis], to[axis]);
        let mut next = vec![0.0; outer * results * inner];
        for block in 0..outer {
            for place in 0..inner {
                let row: Vec<f64> = (0..size)
                    .map(|at| values[(block * size + at) * inner + place])
                    .collect();
                for (at, y) in apply(&row, matrix, results).into_iter().enumerate() {
                    next[(block * results + at) * inner + place] = y;
                }
            }
        }
        values = next;
        shape[axis] = results;
    }
    values
}

fn is_identity(matrix: &[f64], from: usize, to: usize) -> bool {
    from == to
        && matrix.iter().enumerate().all(|(at, &w)| {
            let wanted = f64::from(u8::from(at / to == at % to));
            (w - wanted).abs() < 1e-6
        })
}
