//! Graph passes: what they leave of a graph, and that it computes what it did.

use crate::graphs::{Writer, rows};
use tg_compile::passes::{KeptOutputs, PrepareError, PrepareOptions, Prepared, prepare};
use tg_float::tgf::{Budget, run};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};

fn outputs(graph: &Graph, shape: &[usize], row: &[f32]) -> Vec<f32> {
    let given = FloatTensor::of(shape.to_vec(), row.to_vec()).unwrap();
    let found = run(graph, &[&given], &Budget::default()).unwrap();
    found[0].values::<f32>().unwrap().to_vec()
}

/// Operators that are left, in order; the outputs must be what they were.
fn check(graph: &Graph, expected: &[&str]) -> Prepared {
    let prepared = prepare(graph.clone(), &PrepareOptions::default()).unwrap();
    let left: Vec<&str> = prepared
        .graph
        .nodes
        .iter()
        .map(|node| node.op.as_str())
        .collect();
    assert_eq!(left, expected);
    let shape = prepared.shape(prepared.graph.inputs[0].value).to_vec();
    for row in rows(51, 4, shape.iter().product()) {
        let before = outputs(graph, &shape, &row);
        let after = outputs(&prepared.graph, &shape, &row);
        let greatest = before.iter().fold(0f32, |most, x| most.max(x.abs()));
        for (before, after) in before.iter().zip(&after) {
            assert!(
                (before - after).abs() <= 1e-5 * (1.0 + greatest),
                "{before} {after}"
            );
        }
    }
    prepared
}

fn positive(writer: &mut Writer, count: usize) -> ValueId {
    let values = (0..count).map(|c| 0.5 + c as f32 / 4.0).collect();
    writer.constant(&[count], values)
}

#[test]
fn a_batch_normalisation_goes_into_the_convolution() {
    let mut writer = Writer::new(50);
    let x = writer.input("x", DType::F32, &[1, 2, 4, 4]);
    let w = writer.weights(&[3, 2, 3, 3]);
    let y = writer.node("Conv", &[x, w], &[]);
    let [gain, offset, mean] = [0, 1, 2].map(|_| writer.weights(&[3]));
    let variance = positive(&mut writer, 3);
    let y = writer.node(
        "BatchNormalization",
        &[y, gain, offset, mean, variance],
        &[],
    );
    let y = writer.node("Relu", &[y], &[]);
    check(&writer.finish(y), &["Conv", "Relu"]);
}

#[test]
fn factors_and_sums_go_into_the_matrix_before_them() {
    for (op, expected) in [
        ("Mul", vec!["Gemm"]),
        ("Add", vec!["Gemm"]),
        ("Sub", vec!["Gemm"]),
        ("Div", vec!["Gemm"]),
    ] {
        let mut writer = Writer::new(52);
        let x = writer.input("x", DType::F32, &[1, 4]);
        let (w, b) = (writer.weights(&[5, 4]), writer.weights(&[5]));
        let y = writer.node("Gemm", &[x, w, b], &[("transB", Attribute::Int(1))]);
        let c = positive(&mut writer, 5);
        let y = writer.node(op, &[y, c], &[]);
        check(&writer.finish(y), &expected);
    }
}

#[test]
fn a_sum_that_others_read_stays() {
    let mut writer = Writer::new(53);
    let x = writer.input("x", DType::F32, &[1, 4]);
    let (w, b) = (writer.weights(&[4, 4]), writer.weights(&[4]));
    let y = writer.node("Gemm", &[x, w, b], &[]);
    let c = positive(&mut writer, 4);
    let scaled = writer.node("Mul", &[y, c], &[]);
    let z = writer.node("Add", &[scaled, y], &[]);
    check(&writer.finish(z), &["Gemm", "Mul", "Add"]);
}

/// Normalisations from the primitives that exporters write, with gain and offset.
fn primitives(centred: bool, after: bool) -> Graph {
    let mut writer = Writer::new(54);
    let x = writer.input("x", DType::F32, &[1, 3, 6]);
    let axes = [("axes", Attribute::Ints(vec![-1]))];
    let from = if centred {
        let mean = writer.node("ReduceMean", &[x], &axes);
        writer.node("Sub", &[x, mean], &[])
    } else {
        x
    };
    let two = writer.scalar(2.0);
    let square = writer.node("Pow", &[from, two], &[]);
    let variance = writer.node("ReduceMean", &[square], &axes);
    let epsilon = writer.scalar(1e-5);
    let sum = writer.node("Add", &[variance, epsilon], &[]);
    let root = writer.node("Sqrt", &[sum], &[]);
    let y = writer.node("Div", &[from, root], &[]);
    let gain = positive(&mut writer, 6);
    let mut y = writer.node("Mul", &[y, gain], &[]);
    if centred {
        let offset = writer.weights(&[6]);
        y = writer.node("Add", &[y, offset], &[]);
    }
    if after {
        let w = writer.weights(&[6, 4]);
        y = writer.node("MatMul", &[y, w], &[]);
    }
    writer.finish(y)
}

#[test]
fn normalisations_are_recognised() {
    check(&primitives(true, false), &["LayerNormalization"]);
    check(&primitives(false, false), &["RMSNormalization"]);
}

#[test]
fn gains_and_offsets_go_into_the_products_after_them() {
    let prepared = check(
        &primitives(true, true),
        &["LayerNormalization", "MatMul", "Add"],
    );
    let gain = prepared.graph.nodes[0].inputs[1].unwrap();
    let gain: &[f32] = prepared.graph.constants[&gain].values().unwrap();
    assert!(gain.iter().all(|&g| g == 1.0), "{gain:?}");
    check(&primitives(false, true), &["RMSNormalization", "MatMul"]);
}

#[test]
fn what_does_nothing_goes() {
    let mut writer = Writer::new(55);
    let x = writer.input("x", DType::F32, &[1, 4]);
    let (zero, one) = (writer.scalar(0.0), writer.scalar(1.0));
    let y = writer.node("Identity", &[x], &[]);
    let y = writer.node("Add", &[y, zero], &[]);
    let y = writer.node("Mul", &[one, y], &[]);
    let y = writer.node("Div", &[y, one], &[]);
    let y = writer.node("Dropout", &[y], &[]);
    let y = writer.node("Cast", &[y], &[("to", Attribute::Int(1))]);
    let y = writer.node("Sigmoid", &[y], &[]);
    check(&writer.finish(y), &["Sigmoid"]);
}

#[test]
fn products_with_scalars_are_one_and_divisions_are_products() {
    let mut writer = Writer::new(56);
    let x = writer.input("x", DType::F32, &[1, 4]);
    let (half, three) = (writer.scalar(0.5), writer.scalar(3.0));
    let y = writer.node("Mul", &[x, half], &[]);
    let y = writer.node("Div", &[y, three], &[]);
    let e = writer.node("Exp", &[x], &[]);
    let z = writer.node("Div", &[y, e], &[]);
    check(&writer.finish(z), &["Mul", "Exp", "Reciprocal", "Mul"]);
}

#[test]
fn shapes_are_computed_once() {
    let mut writer = Writer::new(57);
    let x = writer.input("x", DType::F32, &[1, 2, 6]);
    let shape = writer.node("Shape", &[x], &[]);
    let zero = writer.ints(&[0]);
    let first = writer.node("Gather", &[shape, zero], &[]);
    let rest = writer.ints(&[-1]);
    let axis = [("axis", Attribute::Int(0))];
    let shape = writer.node("Concat", &[first, rest], &axis);
    let y = writer.node("Reshape", &[x, shape], &[]);
    let y = writer.node("Tanh", &[y], &[]);
    check(&writer.finish(y), &["Reshape", "Tanh"]);
}

#[test]
fn recurrent_layers_become_their_steps() {
    for (op, gates) in [("LSTM", 4), ("GRU", 3)] {
        let (steps, inputs, hidden) = (3, 2, 4);
        let mut writer = Writer::new(58);
        let x = writer.input("x", DType::F32, &[1, steps, inputs]);
        let order = [("perm", Attribute::Ints(vec![1, 0, 2]))];
        let turned = writer.node("Transpose", &[x], &order);
        let w = writer.weights(&[1, gates * hidden, inputs]);
        let r = writer.weights(&[1, gates * hidden, hidden]);
        let b = writer.weights(&[1, 2 * gates * hidden]);
        let size = [("hidden_size", Attribute::Int(hidden as i64))];
        let y = writer.nodes(("", op), &[turned, w, r, b], &size, 2)[1];
        let graph = writer.finish(y);
        let prepared = prepare(graph.clone(), &PrepareOptions::default()).unwrap();
        let count = |name: &str| {
            let nodes = prepared.graph.nodes.iter();
            nodes.filter(|node| node.op == name).count()
        };
        assert_eq!(count(op), 0);
        // What multiplies the state of zeros before the first step is gone.
        let gates = (gates - 1) * (steps - 1)..=(gates - 1) * steps;
        assert!(
            gates.contains(&count("Sigmoid")),
            "{op}: {}",
            count("Sigmoid")
        );
        for row in rows(59, 4, steps * inputs) {
            let before = outputs(&graph, &[1, steps, inputs], &row);
            let after = outputs(&prepared.graph, &[1, steps, inputs], &row);
            for (before, after) in before.iter().zip(after) {
                assert!((before - after).abs() < 1e-5, "{op}: {before} {after}");
            }
        }
    }
}

#[test]
fn indices_are_a_gather_in_floats_too() {
    let mut writer = Writer::new(60);
    let x = writer.input("x", DType::F32, &[1, 3, 4]);
    let places = FloatTensor::of(vec![2, 2], vec![0i64, -1, 0, 1]).unwrap();
    let places = writer.graph.constant("places", places);
    let picked = writer.node("GatherND", &[x, places], &[]);
    check(&writer.finish(picked), &["Reshape", "Gather", "Reshape"]);
    let mut writer = Writer::new(61);
    let x = writer.input("x", DType::F32, &[1, 3, 4]);
    let places = FloatTensor::of(vec![1, 1, 4], vec![2i64, 0, -2, 1]).unwrap();
    let places = writer.graph.constant("places", places);
    let updates = writer.weights(&[1, 1, 4]);
    let axis = [("axis", Attribute::Int(1))];
    let y = writer.node("ScatterElements", &[x, places, updates], &axis);
    check(
        &writer.finish(y),
        &["Reshape", "Concat", "Gather", "Reshape"],
    );
}

#[test]
fn a_quantised_convolution_becomes_a_float_one_between_integers() {
    let mut writer = Writer::new(62);
    let x = writer.input("x", DType::F32, &[1, 2, 4, 4]);
    let (scale, zero) = (writer.scalar(0.01), writer.zero_point(128));
    let q = writer.node("QuantizeLinear", &[x, scale, zero], &[]);
    let w = writer.bytes(&[3, 2, 3, 3], true);
    let w_scale = writer.scalar(0.02);
    let w_zero = writer.graph.constant("zero", FloatTensor::scalar(0i8));
    let (y_scale, y_zero) = (writer.scalar(0.03), writer.zero_point(100));
    let inputs = [q, scale, zero, w, w_scale, w_zero, y_scale, y_zero];
    let y = writer.node("QLinearConv", &inputs, &[]);
    let y = writer.node("DequantizeLinear", &[y, y_scale, y_zero], &[]);
    let prepared = prepare(writer.finish(y), &PrepareOptions::default()).unwrap();
    let left: Vec<&str> = prepared.graph.nodes.iter().map(|n| n.op.as_str()).collect();
    let around = ["QuantizeLinear", "DequantizeLinear"];
    assert_eq!(
        left,
        [
            around[0], around[1], around[1], "Conv", around[0], around[1]
        ]
    );
}

#[test]
fn what_cannot_be_prepared_is_named() {
    let graph = |shape: Option<usize>| {
        let mut writer = Writer::new(63);
        let x = writer.input("x", DType::F32, &[1, 4]);
        if shape.is_none() {
            use tg_float::graph::Dim;
            writer.graph.inputs[0].shape = Some(vec![Dim::Known(1), Dim::Named("n".to_owned())]);
        }
        let y = writer.node("Relu", &[x], &[]);
        writer.finish(y)
    };
    let error = prepare(graph(None), &PrepareOptions::default()).unwrap_err();
    assert!(
        matches!(error, PrepareError::Axis { axis: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("--axis n=SIZE"), "{error}");
    let mut sized = PrepareOptions::default();
    sized.axes.insert("n".to_owned(), 3);
    let prepared = prepare(graph(None), &sized).unwrap();
    assert_eq!(prepared.shape(prepared.graph.outputs[0]), [1, 3]);
    let named = PrepareOptions {
        keep: KeptOutputs::Named(vec!["z".to_owned()]),
        ..PrepareOptions::default()
    };
    let error = prepare(graph(Some(4)), &named).unwrap_err();
    assert_eq!(error, PrepareError::Output("z".to_owned()));
    let mut bound = PrepareOptions::default();
    bound.bind.insert("x".to_owned(), 1.0);
    let prepared = prepare(graph(Some(4)), &bound).unwrap();
    assert!(prepared.graph.inputs.is_empty());
}

#[test]
fn attention_with_groups_says_what_it_does_not_take() {
    let refused = |attributes: &[(&str, i64)]| {
        let mut writer = Writer::new(64);
        let x = writer.input("x", DType::F32, &[1, 3, 8]);
        let mut all = vec![("num_heads", 2), ("kv_num_heads", 2)];
        all.extend(attributes);
        let all: Vec<(&str, Attribute)> = all
            .into_iter()
            .map(|(name, value)| (name, Attribute::Int(value)))
            .collect();
        let domain = ("com.microsoft", "GroupQueryAttention");
        let y = writer.nodes(domain, &[x, x, x], &all, 1)[0];
        match prepare(writer.finish(y), &PrepareOptions::default()) {
            Err(PrepareError::Node { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    let check = |attributes: &[(&str, i64)], text: &str| {
        let reason = refused(attributes);
        assert!(reason.contains(text), "{reason}");
    };
    check(&[("local_window_size", 4)], "a window of positions");
    check(&[("do_rotary", 1)], "angles that are not given");
    check(
        &[("do_rotary", 1), ("rotary_interleaved", 1)],
        "interleaved",
    );
    check(&[("kv_num_heads", 0)], "no number of heads");
    check(&[("num_heads", 3)], "do not divide");
}
