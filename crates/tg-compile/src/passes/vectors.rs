//! Support vector machines of `ai.onnx.ml` as products with the support vectors and a function of each.

use super::edit::{Writer, float_list, input, output, text, uses};
use super::ensembles::label;
use tg_float::{Attribute, Graph, Node, ValueId};

/// A row `[1, vectors]` of the kernel of the input with each support vector.
fn kernel(writer: &mut Writer<'_>, node: &Node, x: ValueId, vectors: usize) -> Option<ValueId> {
    let flat = float_list(node, "support_vectors");
    let features = flat.len().checked_div(vectors)?;
    if features == 0 || features * vectors != flat.len() {
        return None;
    }
    let list = float_list(node, "kernel_params");
    let &[gamma, start, degree] = list.as_slice() else {
        return None;
    };
    let products = |writer: &mut Writer<'_>, factor: f32| {
        let columns = (0..features).flat_map(|f| (0..vectors).map(move |v| v * features + f));
        let matrix = columns.map(|at| flat[at] * factor).collect();
        let matrix = writer.floats(&[features, vectors], matrix);
        writer.node("MatMul", &[x, matrix], &[])
    };
    let added = |writer: &mut Writer<'_>, x: ValueId, number: f32| {
        let number = writer.scalar(number);
        writer.node("Add", &[x, number], &[])
    };
    Some(match text(node, "kernel_type", b"") {
        b"" | b"LINEAR" => products(writer, 1.0),
        b"POLY" => {
            let sums = products(writer, gamma);
            let sums = added(writer, sums, start);
            let degree = writer.scalar(degree);
            writer.node("Pow", &[sums, degree], &[])
        }
        b"SIGMOID" => {
            let sums = products(writer, gamma);
            let sums = added(writer, sums, start);
            writer.node("Tanh", &[sums], &[])
        }
        b"RBF" => {
            // Differences first: the square of a difference of numbers, not a difference of squares.
            let centres = writer.floats(&[vectors, features], flat.clone());
            let apart = writer.node("Sub", &[x, centres], &[]);
            let squares = writer.node("Mul", &[apart, apart], &[]);
            let axes = writer.ints(&[-1]);
            let how = [("keepdims", Attribute::Int(0))];
            let distances = writer.node("ReduceSum", &[squares, axes], &how);
            let exponents = writer.times(distances, -gamma);
            let row = writer.node("Exp", &[exponents], &[]);
            writer.shaped(row, &[1, vectors])
        }
        _ => return None,
    })
}

/// The sum of the kernels with the support vectors, times a coefficient each.
pub(super) fn regressor(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let (weights, rho) = (float_list(node, "coefficients"), float_list(node, "rho"));
    let plain = matches!(text(node, "post_transform", b""), b"" | b"NONE");
    let one_class = matches!(node.attributes.get("one_class"), Some(Attribute::Int(1)));
    let vectors = match node.attributes.get("n_supports") {
        Some(Attribute::Int(count)) => usize::try_from(*count).ok()?,
        _ => 0,
    };
    if !plain || one_class || rho.len() != 1 {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let row = if vectors == 0 {
        x
    } else {
        kernel(&mut writer, node, x, vectors)?
    };
    let column = writer.floats(&[weights.len(), 1], weights);
    let sum = writer.node("MatMul", &[row, column], &[]);
    let rho = writer.floats(&[1], rho);
    let y = writer.node("Add", &[sum, rho], &[]);
    Some(writer.finish(y, value))
}

/// A machine of two classes: their scores, and the label.
pub(super) fn classifier(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let used = uses(graph);
    let read = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten();
        value.filter(|value| used[value.index()] > 0)
    };
    let Some(Attribute::Ints(labels)) = node.attributes.get("classlabels_ints") else {
        return None;
    };
    let Some(Attribute::Ints(counts)) = node.attributes.get("vectors_per_class") else {
        return None;
    };
    let vectors: i64 = counts.iter().sum();
    let vectors = usize::try_from(vectors).ok()?;
    let (weights, rho) = (float_list(node, "coefficients"), float_list(node, "rho"));
    let plain = matches!(text(node, "post_transform", b""), b"" | b"NONE");
    let ([_, _], [rho]) = (labels.as_slice(), rho.as_slice()) else {
        return None;
    };
    if !plain || vectors == 0 || weights.len() != vectors {
        return None;
    }
    let (slope, offset) = (float_list(node, "prob_a"), float_list(node, "prob_b"));
    let mut writer = Writer::new(graph, &node.name);
    let row = kernel(&mut writer, node, x, vectors)?;
    let column = writer.floats(&[vectors, 1], weights);
    let sum = writer.node("MatMul", &[row, column], &[]);
    let rho = writer.floats(&[1], vec![*rho]);
    let score = writer.node("Add", &[sum, rho], &[]);
    // A positive score is the first class; its probability is a logistic function of the score.
    let probable = match (slope.as_slice(), offset.as_slice()) {
        ([slope], [offset]) => {
            let scaled = writer.times(score, -*slope);
            let offset = writer.scalar(-*offset);
            let moved = writer.node("Add", &[scaled, offset], &[]);
            Some(writer.node("Sigmoid", &[moved], &[]))
        }
        ([], []) => None,
        _ => return None,
    };
    let both = |writer: &mut Writer<'_>, first: ValueId, second: ValueId| {
        writer.node("Concat", &[first, second], &[("axis", Attribute::Int(1))])
    };
    let negative = writer.node("Neg", &[score], &[]);
    let scores = both(&mut writer, score, negative);
    let mut written = match (read(1), probable) {
        (None, _) => writer.written,
        (Some(value), Some(first)) => {
            let one = writer.scalar(1.0);
            let second = writer.node("Sub", &[one, first], &[]);
            let result = both(&mut writer, first, second);
            writer.finish(result, value)
        }
        (Some(value), None) => {
            let result = both(&mut writer, negative, score);
            writer.finish(result, value)
        }
    };
    if let Some(value) = read(0) {
        written.extend(label(graph, &node.name, scores, labels, value));
    }
    Some(written)
}
