//! Linear operators of `ai.onnx.ml`, as scikit-learn's exporter writes them, as products and sums.

use super::edit::{Writer, float_list, input, int, output, text, uses};
use super::ensembles::label;
use tg_float::{Attribute, DType, FloatTensor, Graph, Node, ValueId};

/// Most keys of an encoder of labels.
const KEYS_MAX: usize = 4_096;

/// Rewrites every operator it knows. A scaler goes into the linear operator that alone reads it.
pub(super) fn rewrite(graph: &mut Graph) {
    let mut index = 0;
    while index < graph.nodes.len() {
        let node = graph.nodes[index].clone();
        if node.domain != "ai.onnx.ml" {
            index += 1;
            continue;
        }
        let written = match node.op.as_str() {
            "LinearClassifier" => classifier(graph, &node),
            "LinearRegressor" => regressor(graph, &node),
            "Normalizer" => normalizer(graph, &node),
            "ArrayFeatureExtractor" => extracted(graph, &node),
            "Imputer" => imputed(graph, &node),
            "LabelEncoder" => encoded(graph, &node),
            "OneHotEncoder" => flagged(graph, &node),
            "FeatureVectorizer" => put_together(graph, &node),
            "ZipMap" => named(graph, &node),
            "SVMRegressor" => super::vectors::regressor(graph, &node),
            "SVMClassifier" => super::vectors::classifier(graph, &node),
            "Scaler" if !read_by_linear(graph, &node) => scaler(graph, &node),
            _ => None,
        };
        if let Some(written) = written {
            let count = written.len();
            graph.nodes.splice(index..=index, written);
            index += count;
        } else {
            index += 1;
        }
    }
    graph.remove_dead();
}

/// Offset and factor of a feature of a scaler.
fn scaling(node: &Node, feature: usize) -> Option<[f32; 2]> {
    let pick = |name: &str, default: f32| match float_list(node, name).as_slice() {
        [] => Some(default),
        [one] => Some(*one),
        list => list.get(feature).copied(),
    };
    Some([pick("offset", 0.0)?, pick("scale", 1.0)?])
}

fn read_by_linear(graph: &Graph, node: &Node) -> bool {
    let Some(value) = output(node) else {
        return false;
    };
    let mut readers = graph
        .nodes
        .iter()
        .filter(|node| node.reads().any(|v| v == value));
    let linear = |node: &Node| {
        node.domain == "ai.onnx.ml" && ["LinearClassifier", "LinearRegressor"].contains(&&*node.op)
    };
    uses(graph)[value.index()] == 1 && readers.next().is_some_and(linear)
}

/// `(x - offset) * scale`.
fn scaler(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = node.inputs.first().copied().flatten()?;
    let features = float_list(node, "offset")
        .len()
        .max(float_list(node, "scale").len())
        .max(1);
    let each: Option<Vec<[f32; 2]>> = (0..features).map(|k| scaling(node, k)).collect();
    let each = each?;
    let mut writer = Writer::new(graph, &node.name);
    let offset = writer.floats(&[features], each.iter().map(|[o, _]| *o).collect());
    let factor = writer.floats(&[features], each.iter().map(|[_, f]| *f).collect());
    let moved = writer.node("Sub", &[x, offset], &[]);
    let scaled = writer.node("Mul", &[moved, factor], &[]);
    Some(writer.finish(scaled, output(node)?))
}

/// Sums of products with the coefficients, `[rows][features]` in the file, and the features that they read.
fn sums(
    graph: &mut Graph,
    node: &Node,
    rows: usize,
    mirrored: bool,
) -> Option<(ValueId, Vec<Node>)> {
    let mut x = node.inputs.first().copied().flatten()?;
    let mut weights = float_list(node, "coefficients");
    let features = weights
        .len()
        .checked_div(rows)
        .filter(|n| n * rows == weights.len())?;
    let mut bias = float_list(node, "intercepts");
    bias.resize(rows, 0.0);
    let producer = graph.producers()[x.index()].map(|at| graph.nodes[at].clone());
    if let Some(scaler) = producer
        && scaler.domain == "ai.onnx.ml"
        && scaler.op == "Scaler"
    {
        for (row, bias) in weights.chunks_exact_mut(features).zip(&mut bias) {
            let mut sum = f64::from(*bias);
            for (feature, weight) in row.iter_mut().enumerate() {
                let [offset, factor] = scaling(&scaler, feature)?;
                *weight *= factor;
                sum -= f64::from(*weight) * f64::from(offset);
            }
            *bias = sum as f32;
        }
        x = scaler.inputs.first().copied().flatten()?;
    }
    if mirrored {
        // Of two classes with one score, the first one has its negative.
        let negated: Vec<f32> = weights.iter().map(|w| -w).collect();
        weights = [negated, weights].concat();
        bias = vec![-bias[0], bias[0]];
    }
    let rows = bias.len();
    let mut writer = Writer::new(graph, &node.name);
    let w = writer.floats(&[rows, features], weights);
    let b = writer.floats(&[rows], bias);
    let sums = writer.node("Gemm", &[x, w, b], &[("transB", Attribute::Int(1))]);
    Some((sums, writer.written))
}

/// The function after the sums of a linear operator.
fn after(
    graph: &mut Graph,
    node: &Node,
    (sums, written): (ValueId, Vec<Node>),
    value: ValueId,
) -> Option<Vec<Node>> {
    let mut writer = Writer::new(graph, &format!("{}.scores", node.name));
    writer.written = written;
    let result = match text(node, "post_transform", b"NONE") {
        b"NONE" => sums,
        b"LOGISTIC" => writer.node("Sigmoid", &[sums], &[]),
        b"SOFTMAX" => writer.node("Softmax", &[sums], &[("axis", Attribute::Int(-1))]),
        _ => return None,
    };
    Some(writer.finish(result, value))
}

/// The scores, and the label of the greatest.
fn classifier(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let used = uses(graph);
    let read = |slot: usize| {
        let value = node.outputs.get(slot).copied().flatten();
        value.filter(|value| used[value.index()] > 0)
    };
    let (labels, classes) = match (
        node.attributes.get("classlabels_ints"),
        node.attributes.get("classlabels_strings"),
    ) {
        (Some(Attribute::Ints(labels)), _) if !labels.is_empty() => (labels.clone(), labels.len()),
        (_, Some(Attribute::Texts(names))) => (Vec::new(), names.len()),
        _ => return None,
    };
    if read(0).is_some() && labels.is_empty() {
        return None;
    }
    let intercepts = float_list(node, "intercepts").len();
    let single = classes == 2 && intercepts == 1;
    let rows = if single { 1 } else { classes };
    let (mut sums, mut written) = sums(graph, node, rows, single)?;
    if let Some(value) = read(1) {
        written = after(graph, node, (sums, written), value)?;
        if text(node, "post_transform", b"NONE") == b"NONE" {
            // The scores are the sums, under their name.
            sums = value;
        }
    }
    if let Some(value) = read(0) {
        written.extend(label(graph, &node.name, sums, &labels, value));
    }
    Some(written)
}

/// Elements along the last axis; of a constant list, as one row.
fn extracted(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let (x, chosen) = (input(node, 0)?, input(node, 1)?);
    let list = graph.constants.get(&x).filter(|tensor| tensor.rank() == 1);
    let list = list.map(FloatTensor::len);
    let mut writer = Writer::new(graph, &node.name);
    let x = list.map_or(x, |size| writer.shaped(x, &[1, size]));
    let all = writer.ints(&[-1]);
    let chosen = writer.node("Reshape", &[chosen, all], &[]);
    let y = writer.node("Gather", &[x, chosen], &[("axis", Attribute::Int(-1))]);
    Some(writer.finish(y, output(node)?))
}

/// What is missing is replaced: a number that stands for it, or what is not a number, which no input of a program is.
fn imputed(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let values = float_list(node, "imputed_value_floats");
    let replaced = super::edit::float(node, "replaced_value_float", f32::NAN);
    let mut writer = Writer::new(graph, &node.name);
    if replaced.is_nan() {
        let y = writer.node("Identity", &[x], &[]);
        return Some(writer.finish(y, output(node)?));
    }
    if values.is_empty() {
        return None;
    }
    let missing = writer.scalar(replaced);
    let put = writer.floats(&[values.len()], values);
    let is = writer.node("Equal", &[x, missing], &[]);
    let y = writer.node("Where", &[is, put, x], &[]);
    Some(writer.finish(y, output(node)?))
}

/// Numbers for numbers: a sum over the keys, and the default where none is equal.
fn encoded(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let numbers = |kind: &str| -> Option<Vec<f32>> {
        match node.attributes.get(&format!("{kind}_int64s")) {
            Some(Attribute::Ints(list)) => Some(list.iter().map(|&value| value as f32).collect()),
            _ => Some(float_list(node, &format!("{kind}_floats"))).filter(|list| !list.is_empty()),
        }
    };
    let (keys, values) = (numbers("keys")?, numbers("values")?);
    let whole = node.attributes.contains_key("values_int64s");
    let default = if whole {
        int(node, "default_int64", -1) as f32
    } else {
        super::edit::float(node, "default_float", -0.0)
    };
    if keys.len() != values.len() || keys.len() > KEYS_MAX {
        return None;
    }
    let count = keys.len();
    let steps = values.iter().map(|value| value - default).collect();
    let mut writer = Writer::new(graph, &node.name);
    let cast = |writer: &mut Writer<'_>, x: ValueId, to: DType| {
        writer.node(
            "Cast",
            &[x],
            &[("to", Attribute::Int(i64::from(to.to_onnx())))],
        )
    };
    let last = writer.ints(&[-1]);
    let wide = cast(&mut writer, x, DType::F32);
    let wide = writer.node("Unsqueeze", &[wide, last], &[]);
    let keys = writer.floats(&[count], keys);
    let flags = writer.node("Equal", &[wide, keys], &[]);
    let flags = cast(&mut writer, flags, DType::F32);
    let steps = writer.floats(&[count, 1], steps);
    let sums = writer.node("MatMul", &[flags, steps], &[]);
    let sums = writer.node("Squeeze", &[sums, last], &[]);
    let default = writer.scalar(default);
    let mut y = writer.node("Add", &[sums, default], &[]);
    if whole {
        y = cast(&mut writer, y, DType::I64);
    }
    Some(writer.finish(y, output(node)?))
}

/// A flag for each category of whole numbers, along a new last axis.
fn flagged(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let Some(Attribute::Ints(categories)) = node.attributes.get("cats_int64s") else {
        return None;
    };
    if categories.is_empty() || categories.len() > KEYS_MAX {
        return None;
    }
    let mut writer = Writer::new(graph, &node.name);
    let last = writer.ints(&[-1]);
    // Fractions are cut off first.
    let whole = writer.cast(x, DType::I64);
    let wide = writer.node("Unsqueeze", &[whole, last], &[]);
    let categories = writer.ints(categories);
    let flags = writer.node("Equal", &[wide, categories], &[]);
    let flags = writer.cast(flags, DType::F32);
    Some(writer.finish(flags, output(node)?))
}

/// Features of all inputs side by side.
fn put_together(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let parts: Vec<ValueId> = node.reads().collect();
    let mut writer = Writer::new(graph, &node.name);
    let parts: Vec<ValueId> = parts
        .into_iter()
        .map(|part| writer.cast(part, DType::F32))
        .collect();
    let y = writer.node("Concat", &parts, &[("axis", Attribute::Int(-1))]);
    Some(writer.finish(y, output(node)?))
}

/// Columns that have names: the numbers as they are, in the order of the names.
fn named(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = input(node, 0)?;
    let mut writer = Writer::new(graph, &node.name);
    let y = writer.node("Identity", &[x], &[]);
    Some(writer.finish(y, output(node)?))
}

fn regressor(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let targets = usize::try_from(int(node, "targets", 1)).ok()?;
    let sums = sums(graph, node, targets, false)?;
    after(graph, node, sums, output(node)?)
}

/// Rows over their greatest magnitude, or the sum of magnitudes, or the root of the sum of squares.
fn normalizer(graph: &mut Graph, node: &Node) -> Option<Vec<Node>> {
    let x = node.inputs.first().copied().flatten()?;
    let value = output(node)?;
    let softmax = graph.producers()[x.index()].is_some_and(|at| graph.nodes[at].is("Softmax"));
    let mut writer = Writer::new(graph, &node.name);
    let last = ("axes", Attribute::Ints(vec![-1]));
    let norm = match text(node, "norm", b"MAX") {
        // Probabilities sum to one.
        b"L1" if softmax => return Some(writer.finish(x, value)),
        b"MAX" => {
            let magnitude = writer.node("Abs", &[x], &[]);
            writer.node("ReduceMax", &[magnitude], &[last])
        }
        b"L1" => {
            let magnitude = writer.node("Abs", &[x], &[]);
            let axes = writer.ints(&[-1]);
            writer.node("ReduceSum", &[magnitude, axes], &[])
        }
        b"L2" => {
            let square = writer.node("Mul", &[x, x], &[]);
            let axes = writer.ints(&[-1]);
            let sum = writer.node("ReduceSum", &[square, axes], &[]);
            writer.node("Sqrt", &[sum], &[])
        }
        _ => return None,
    };
    // A row of zeros stays: it is divided by a number, not by 0.
    let name = format!("{}.least", node.name);
    let least = writer
        .graph
        .constant(name, FloatTensor::scalar(f32::MIN_POSITIVE));
    let norm = writer.node("Max", &[norm, least], &[]);
    let divided = writer.node("Div", &[x, norm], &[]);
    Some(writer.finish(divided, value))
}
