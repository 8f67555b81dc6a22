//! Operators in integers, each in a graph of its own: how far from tier TGF-1, and which nodes it becomes.

use crate::graphs::{Writer, rows};
use tg_compile::calibrate::{self, ReachRule};
use tg_compile::integer::{self, ChannelScales, LowerOptions, Precision};
use tg_compile::passes::{PrepareOptions, prepare};
use tg_compile::{CompileOptions, Compiled, PrecisionChoice, compile};
use tg_exec::{execute_tensor, range};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};
use tg_ir::SegmentTable;
use tg_ir::coding;
use tg_ir::op;

/// A compiled graph, with the power of its outputs over that of their difference from the floats, in decibels.
pub(crate) fn measured(graph: Graph, inputs: &[Vec<f32>], precision: Precision) -> (Compiled, f64) {
    let options = CompileOptions {
        precision: PrecisionChoice::Fixed(precision),
        ..CompileOptions::default()
    };
    let compiled = compile(graph, inputs, &options)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
    compiled.model.program.validate().unwrap();
    assert_eq!(range::first_violation(&compiled.model), None);
    assert_eq!(range::check(&compiled.model), Ok(()));
    let (mut signal, mut noise) = (0f64, 1e-12f64);
    for row in inputs {
        let encoded = coding::encode(&compiled.model.program.input, row).unwrap();
        let trace = execute_tensor(&compiled.model, encoded).unwrap();
        let floats = compiled.float_output(row).unwrap();
        let integers = compiled.in_file_order(trace.output());
        assert_eq!(floats.len(), integers.len());
        for (float, integer) in floats.iter().zip(integers) {
            let real =
                (f64::from(integer) - compiled.output().zero as f64) * compiled.output().scale;
            signal += f64::from(*float).powi(2);
            noise += (f64::from(*float) - real).powi(2);
        }
    }
    (compiled, 10.0 * (signal / noise).log10())
}

fn operators(compiled: &Compiled) -> Vec<&'static str> {
    let nodes = compiled.model.program.nodes.iter();
    nodes.map(|node| node.op.name()).collect()
}

/// Least decibels with 8 and 16 bits, and the nodes of the program of 8 bits.
fn check(graph: &Graph, length: usize, least: [f64; 2], expected: &[&str]) {
    let inputs = rows(11, 12, length);
    let (narrow, snr) = measured(graph.clone(), &inputs, Precision::Bits8);
    assert_eq!(operators(&narrow), expected);
    assert!(snr > least[0], "8 bits: {snr} dB");
    let (_, snr) = measured(graph.clone(), &inputs, Precision::Bits16);
    assert!(snr > least[1], "16 bits: {snr} dB");
}

/// Sixteen scales of a layer are sixteen times the segments: they must fit, whatever the layer's length.
#[test]
fn segment_tables_have_room_for_the_clusters() {
    for inputs in [16usize, 700, 4096] {
        let outputs = 48;
        let mut writer = Writer::new(3);
        let x = writer.input("x", DType::F32, &[1, inputs]);
        let sizes: Vec<f32> = (0..outputs).map(|c| 0.9f32.powi(c)).collect();
        let weights = sizes.iter().flat_map(|size| {
            let numbers = &mut writer.numbers;
            let row = (0..inputs).map(|_| size * numbers.between(-1000, 1000) as f32 / 1000.0);
            row.collect::<Vec<_>>()
        });
        let weights = weights.collect();
        let w = writer.constant(&[outputs as usize, inputs], weights);
        let transposed = [("transB", Attribute::Int(1))];
        let y = writer.node("Gemm", &[x, w], &transposed);
        let y = writer.node("Relu", &[y], &[]);
        let w = writer.weights(&[outputs as usize, 3]);
        let y = writer.node("Gemm", &[y, w], &[]);
        let prepared = prepare(writer.finish(y), &PrepareOptions::default()).unwrap();
        let (_, order) = integer::input_order(&prepared).unwrap();
        let given: Vec<Vec<FloatTensor>> = rows(21, 4, inputs)
            .iter()
            .map(|r| order.tensors(r))
            .collect();
        let statistics = calibrate::observe(&prepared.graph, &given, ReachRule::Greatest).unwrap();
        let options = LowerOptions {
            name: "clusters".to_owned(),
            precision: Precision::Bits8,
            scales: ChannelScales::Clusters,
            reach: ReachRule::Greatest,
            mean: Vec::new(),
            std: Vec::new(),
        };
        let lowered = integer::lower(&prepared, &statistics, &options).unwrap();
        let mut pairs = Vec::new();
        for node in &lowered.model.program.nodes {
            if let tg_ir::Op::Requantise(op::Unary { how, .. }) = &node.op {
                pairs.push(how.pairs.len());
                SegmentTable::build(how).unwrap_or_else(|error| panic!("{inputs}: {error}"));
            }
        }
        assert!(pairs.iter().any(|&count| count > 4), "{inputs}: {pairs:?}");
    }
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.as_bytes().to_vec())
}

#[test]
fn einsum_is_a_product_in_another_order() {
    // Two computed tensors: heads of a sequence, "bqhd,bkhd->bhqk".
    let mut writer = Writer::new(1);
    let x = writer.input("x", DType::F32, &[1, 5, 6]);
    let w = writer.weights(&[6, 12]);
    let y = writer.node("MatMul", &[x, w], &[]);
    let shape = writer.ints(&[1, 5, 3, 4]);
    let a = writer.node("Reshape", &[y, shape], &[]);
    let w = writer.weights(&[6, 12]);
    let y = writer.node("MatMul", &[x, w], &[]);
    let b = writer.node("Reshape", &[y, shape], &[]);
    let equation = [("equation", text("bqhd,bkhd->bhqk"))];
    let z = writer.node("Einsum", &[a, b], &equation);
    let graph = writer.finish(z);
    check(
        &graph,
        30,
        [35.0, 45.0],
        &[
            "View",
            "Conv",
            "Conv",
            "Requantise",
            "Requantise",
            "View",
            "View",
            "MatMul",
            "View",
        ],
    );
}

#[test]
fn top_k_gives_values_and_places() {
    let graph = |slot: usize| {
        let mut writer = Writer::new(2);
        let x = writer.input("x", DType::F32, &[1, 9]);
        let k = writer.ints(&[3]);
        let outputs = writer.nodes(("", "TopK"), &[x, k], &[], 2);
        writer.finish(outputs[slot])
    };
    check(&graph(0), 9, [35.0, 70.0], &["TopK"]);
    let inputs = rows(3, 20, 9);
    let (compiled, _) = measured(graph(0), &inputs, Precision::Bits16);
    assert_eq!(operators(&compiled), ["TopK"]);
    // Places are exact where the inputs differ by more than a unit.
    let (places, snr) = measured(graph(1), &inputs, Precision::Bits16);
    assert_eq!(places.output().scale, 1.0);
    assert!(snr > 100.0, "{snr} dB");
}

#[test]
fn a_transposed_convolution_is_one_over_spread_pixels() {
    let graph = |attributes: &[(&str, Attribute)]| {
        let mut writer = Writer::new(4);
        let x = writer.input("x", DType::F32, &[1, 4, 5, 5]);
        let w = writer.weights(&[4, 3, 3, 3]);
        let b = writer.weights(&[3]);
        let y = writer.node("ConvTranspose", &[x, w, b], attributes);
        writer.finish(y)
    };
    let twos = Attribute::Ints(vec![2, 2]);
    let plain = graph(&[("strides", twos.clone())]);
    check(&plain, 100, [38.0, 40.0], &["Conv"]);
    let padded = graph(&[
        ("strides", twos),
        ("pads", Attribute::Ints(vec![1; 4])),
        ("output_padding", Attribute::Ints(vec![1, 1])),
    ]);
    check(&padded, 100, [38.0, 40.0], &["Conv"]);
    let (compiled, _) = measured(padded, &rows(5, 4, 100), Precision::Bits8);
    let shape = compiled.model.program.nodes[0].shape;
    assert_eq!((shape.height, shape.width, shape.channels), (10, 10, 3));
}

#[test]
fn nearest_neighbours_are_a_view() {
    let mut writer = Writer::new(6);
    let x = writer.input("x", DType::F32, &[1, 2, 3, 4]);
    let [roi, scales] = [vec![], vec![1.0, 1.0, 2.0, 3.0]].map(|values: Vec<f32>| {
        let shape = [values.len()];
        writer.constant(&shape, values)
    });
    let attributes = [
        ("mode", text("nearest")),
        ("nearest_mode", text("floor")),
        ("coordinate_transformation_mode", text("asymmetric")),
    ];
    let y = writer.node("Resize", &[x, roi, scales], &attributes);
    let graph = writer.finish(y);
    check(&graph, 24, [38.0, 80.0], &["View"]);
}

/// `x cos + rotate(x) sin`, as exporters write rotary embeddings.
fn rotary(writer: &mut Writer, x: ValueId, steps: usize, size: usize) -> ValueId {
    let angles: Vec<f32> = (0..steps * size)
        .map(|at| {
            let (position, pair) = (at / size, at % size % (size / 2));
            position as f32 * 0.5f32.powi(pair as i32)
        })
        .collect();
    let [cosines, sines] = [f32::cos, f32::sin].map(|function: fn(f32) -> f32| {
        let values = angles.iter().map(|&angle| function(angle)).collect();
        writer.constant(&[1, 1, steps, size], values)
    });
    let half = (size / 2) as i64;
    let last = writer.ints(&[-1]);
    let [zero, middle, end] = [0, half, 2 * half].map(|at| writer.ints(&[at]));
    let first = writer.node("Slice", &[x, zero, middle, last], &[]);
    let second = writer.node("Slice", &[x, middle, end, last], &[]);
    let negated = writer.node("Neg", &[second], &[]);
    let axis = [("axis", Attribute::Int(-1))];
    let turned = writer.node("Concat", &[negated, first], &axis);
    let a = writer.node("Mul", &[x, cosines], &[]);
    let b = writer.node("Mul", &[turned, sines], &[]);
    writer.node("Add", &[a, b], &[])
}

#[test]
fn rotary_embeddings_follow_their_floats() {
    let (steps, heads, size) = (5, 2, 4);
    let mut writer = Writer::new(7);
    let x = writer.input("x", DType::F32, &[1, steps, heads * size]);
    let w = writer.weights(&[heads * size, heads * size]);
    let y = writer.node("MatMul", &[x, w], &[]);
    let shape = writer.ints(&[1, steps as i64, heads as i64, size as i64]);
    let apart = writer.node("Reshape", &[y, shape], &[]);
    let order = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
    let q = writer.node("Transpose", &[apart], &order);
    let turned = rotary(&mut writer, q, steps, size);
    let graph = writer.finish(turned);
    let inputs = rows(8, 12, 40);
    for (precision, least) in [
        (Precision::Bits8, 30.0),
        (Precision::Mixed, 38.0),
        (Precision::Bits16, 45.0),
    ] {
        let (compiled, snr) = measured(graph.clone(), &inputs, precision);
        assert!(snr > least, "{precision:?}: {snr} dB");
        let names = operators(&compiled);
        let count = |name: &str| names.iter().filter(|own| **own == name).count();
        assert_eq!(count("Mul"), 2, "{names:?}");
        assert_eq!(count("Conv") + count("Dense"), 1, "{names:?}");
    }
}

const STEPS: usize = 6;
const SIZE: usize = 4;

/// Queries, keys and values of an attention, `heads` of queries and `shared` of the others.
fn projections(writer: &mut Writer, heads: usize, shared: usize) -> [ValueId; 3] {
    let x = writer.input("x", DType::F32, &[1, STEPS, 8]);
    [heads, shared, shared].map(|count| {
        let w = writer.weights(&[8, count * SIZE]);
        writer.node("MatMul", &[x, w], &[])
    })
}

/// The operator of `com.microsoft`.
fn grouped(heads: usize, shared: usize, rotary: bool) -> Graph {
    let mut writer = Writer::new(9);
    let [q, k, v] = projections(&mut writer, heads, shared);
    let mut inputs = vec![Some(q), Some(k), Some(v)];
    if rotary {
        let half = SIZE / 2;
        let angle = |at: usize| (at / half) as f32 * 0.3f32.powi((at % half) as i32);
        let tables = [f32::cos, f32::sin].map(|function: fn(f32) -> f32| {
            let values = (0..16 * half).map(|at| function(angle(at))).collect();
            writer.constant(&[16, half], values)
        });
        inputs.extend([None; 4]);
        inputs.extend(tables.map(Some));
    }
    let attributes = [
        ("num_heads", Attribute::Int(heads as i64)),
        ("kv_num_heads", Attribute::Int(shared as i64)),
        ("do_rotary", Attribute::Int(i64::from(rotary))),
    ];
    let given: Vec<ValueId> = inputs.iter().copied().flatten().collect();
    let domain = ("com.microsoft", "GroupQueryAttention");
    let outputs = writer.nodes(domain, &given, &attributes, 3);
    let last = writer.graph.nodes.len() - 1;
    writer.graph.nodes[last].inputs = inputs;
    writer.finish(outputs[0])
}

/// What the operator means, in f64: row by row, from its definition.
fn grouped_by_hand(row: &[f32], heads: usize, shared: usize, rotary: bool) -> Vec<f64> {
    let mut writer = Writer::new(9);
    projections(&mut writer, heads, shared);
    let tensors: Vec<Vec<f64>> = writer
        .graph
        .constants
        .values()
        .map(|tensor| {
            let values: &[f32] = tensor.values().unwrap();
            values.iter().map(|&w| f64::from(w)).collect()
        })
        .collect();
    let project = |which: usize, count: usize| -> Vec<Vec<f64>> {
        let columns = count * SIZE;
        let of = |step: usize, column: usize| -> f64 {
            let terms =
                (0..8).map(|k| f64::from(row[step * 8 + k]) * tensors[which][k * columns + column]);
            terms.sum()
        };
        (0..STEPS)
            .map(|step| (0..columns).map(|column| of(step, column)).collect())
            .collect()
    };
    let turn = |mut rows: Vec<Vec<f64>>| {
        for (position, row) in rows.iter_mut().enumerate().filter(|_| rotary) {
            for head in row.chunks_exact_mut(SIZE) {
                for pair in 0..SIZE / 2 {
                    let angle = position as f64 * 0.3f64.powi(pair as i32);
                    let (a, b) = (head[pair], head[pair + SIZE / 2]);
                    head[pair] = a * angle.cos() - b * angle.sin();
                    head[pair + SIZE / 2] = a * angle.sin() + b * angle.cos();
                }
            }
        }
        rows
    };
    let (q, k, v) = (
        turn(project(0, heads)),
        turn(project(1, shared)),
        project(2, shared),
    );
    let mut out = Vec::new();
    for (step, queries) in q.iter().enumerate() {
        for head in 0..heads {
            let own = head * SIZE..(head + 1) * SIZE;
            let group = head / (heads / shared) * SIZE;
            let score = |other: usize| -> f64 {
                let pairs = queries[own.clone()].iter().zip(&k[other][group..]);
                pairs.map(|(a, b)| a * b).sum::<f64>() / (SIZE as f64).sqrt()
            };
            let weights: Vec<f64> = (0..=step).map(|other| score(other).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for at in 0..SIZE {
                let mixed = weights
                    .iter()
                    .enumerate()
                    .map(|(o, w)| w * v[o][group + at]);
                out.push(mixed.sum::<f64>() / sum);
            }
        }
    }
    out
}

#[test]
fn grouped_queries_share_their_keys() {
    for (heads, shared, rotary) in [(4, 2, false), (4, 1, true), (2, 2, true)] {
        let graph = grouped(heads, shared, rotary);
        let inputs = rows(10, 12, STEPS * 8);
        for (precision, least) in [(Precision::Bits8, 25.0), (Precision::Bits16, 40.0)] {
            let (compiled, snr) = measured(graph.clone(), &inputs, precision);
            assert!(snr > least, "{heads} {shared} {precision:?}: {snr} dB");
            // The floats it is compared with are the operator's.
            let floats = compiled.float_output(&inputs[0]).unwrap();
            let expected = grouped_by_hand(&inputs[0], heads, shared, rotary);
            for (float, expected) in floats.iter().zip(expected) {
                assert!(
                    (f64::from(*float) - expected).abs() < 1e-5,
                    "{float} {expected}"
                );
            }
            let causal = |node: &tg_ir::Node| matches!(&node.op, tg_ir::Op::Softmax(op::Unary { how, .. }) if how.causal == Some(0));
            let masks = compiled.model.program.nodes.iter().filter(|n| causal(n));
            assert_eq!(masks.count(), 1);
            let products = operators(&compiled);
            let products = products.iter().filter(|name| **name == "MatMul").count();
            assert_eq!(
                products, 2,
                "keys and values are repeated by the product itself"
            );
        }
    }
}

#[test]
fn constant_places_are_a_gather() {
    let mut writer = Writer::new(12);
    let x = writer.input("x", DType::F32, &[1, 3, 4]);
    let places = FloatTensor::of(vec![1, 3, 2], vec![0i64, -1, 3, 1, 2, 2]).unwrap();
    let places = writer.graph.constant("places", places);
    let y = writer.node(
        "GatherElements",
        &[x, places],
        &[("axis", Attribute::Int(2))],
    );
    let graph = writer.finish(y);
    check(&graph, 12, [38.0, 80.0], &["View", "Gather", "View"]);
}

#[test]
fn updates_at_constant_places_are_a_gather_of_both() {
    let mut writer = Writer::new(13);
    let x = writer.input("x", DType::F32, &[1, 6]);
    let square = writer.node("Mul", &[x, x], &[]);
    let two = writer.ints(&[2]);
    let zero = writer.ints(&[0]);
    let axis = writer.ints(&[1]);
    let updates = writer.node("Slice", &[square, zero, two, axis], &[]);
    let shape = writer.ints(&[2]);
    let updates = writer.node("Reshape", &[updates, shape], &[]);
    let places = FloatTensor::of(vec![2, 2], vec![0i64, 5, 0, -3]).unwrap();
    let places = writer.graph.constant("places", places);
    let y = writer.node("ScatterND", &[x, places, updates], &[]);
    let graph = writer.finish(y);
    let (compiled, snr) = measured(graph, &rows(14, 12, 6), Precision::Bits8);
    assert!(snr > 30.0, "{snr} dB");
    assert!(operators(&compiled).contains(&"Gather"));
}

/// scikit-learn's scaler, linear classifier and normaliser.
#[test]
fn linear_classifiers_are_one_product() {
    let graph = |transform: &str, classes: usize, intercepts: usize| {
        let mut writer = Writer::new(15);
        let x = writer.input("x", DType::F32, &[1, 5]);
        let floats = |writer: &mut Writer, count: i64| {
            let numbers = (0..count).map(|_| writer.numbers.between(-1000, 1000) as f32 / 500.0);
            Attribute::Floats(numbers.collect())
        };
        let scaler = [
            ("offset", floats(&mut writer, 5)),
            ("scale", floats(&mut writer, 5)),
        ];
        let scaled = writer.nodes(("ai.onnx.ml", "Scaler"), &[x], &scaler, 1)[0];
        let attributes = [
            ("coefficients", floats(&mut writer, 5 * intercepts as i64)),
            ("intercepts", floats(&mut writer, intercepts as i64)),
            (
                "classlabels_ints",
                Attribute::Ints((0..classes as i64).collect()),
            ),
            ("post_transform", text(transform)),
        ];
        let domain = ("ai.onnx.ml", "LinearClassifier");
        let scores = writer.nodes(domain, &[scaled], &attributes, 2)[1];
        let norm = [("norm", text("L1"))];
        let scores = writer.nodes(("ai.onnx.ml", "Normalizer"), &[scores], &norm, 1)[0];
        writer.finish(scores)
    };
    let softmax = graph("SOFTMAX", 3, 3);
    check(&softmax, 5, [30.0, 35.0], &["Dense", "Softmax"]);
    let inputs = rows(16, 12, 5);
    let (compiled, snr) = measured(graph("LOGISTIC", 3, 3), &inputs, Precision::Bits16);
    assert!(snr > 30.0, "{snr} dB {:?}", operators(&compiled));
    let (compiled, snr) = measured(graph("SOFTMAX", 2, 1), &inputs, Precision::Bits8);
    assert!(snr > 30.0, "{snr} dB");
    assert_eq!(operators(&compiled), ["Dense", "Softmax"]);
}

#[test]
fn normalisers_divide_rows() {
    for norm in ["MAX", "L1", "L2"] {
        let mut writer = Writer::new(17);
        let x = writer.input("x", DType::F32, &[1, 6]);
        let attributes = [("norm", text(norm))];
        let y = writer.nodes(("ai.onnx.ml", "Normalizer"), &[x], &attributes, 1)[0];
        let (_, snr) = measured(writer.finish(y), &rows(18, 12, 6), Precision::Bits16);
        assert!(snr > 25.0, "{norm}: {snr} dB");
    }
}

/// One channel of the input far larger than the others: what it costs with 8 bits, and what moving it into the weights
/// gives back.
#[test]
fn outliers_move_into_the_weights() {
    let mut writer = Writer::new(19);
    let width = 32;
    let x = writer.input("x", DType::F32, &[1, 4, width]);
    let one = writer.constant(&[width], vec![1.0; width]);
    let sizes = (0..width)
        .map(|c| if c == 5 { 12.0 } else { 0.3 })
        .collect();
    let sizes = writer.constant(&[width], sizes);
    let large = writer.node("Mul", &[x, sizes], &[]);
    let axis = [("axis", Attribute::Int(-1))];
    let normed = writer.node("LayerNormalization", &[large, one], &axis);
    let w = writer.weights(&[width, width]);
    let y = writer.node("MatMul", &[normed, w], &[]);
    let hidden = writer.node("Relu", &[y], &[]);
    let w = writer.weights(&[width, 8]);
    let y = writer.node("MatMul", &[hidden, w], &[]);
    let graph = writer.finish(y);
    let inputs = rows(20, 16, 4 * width);
    let with = |smooth: Option<f64>| {
        let options = CompileOptions {
            precision: PrecisionChoice::Fixed(Precision::Mixed),
            smooth,
            ..CompileOptions::default()
        };
        compile(graph.clone(), &inputs, &options).unwrap()
    };
    let (plain, smooth) = (with(None), with(Some(0.5)));
    let (before, after) = (plain.report.output_snr_db(), smooth.report.output_snr_db());
    assert!(after > before + 1.0, "{before} dB, then {after} dB");
    // The float model is the same, bit for bit, and the program has not one node more.
    for row in &inputs {
        let both = [&plain, &smooth].map(|model| model.float_output(row).unwrap());
        assert_eq!(both[0], both[1]);
    }
    assert_eq!(operators(&plain), operators(&smooth));
}
