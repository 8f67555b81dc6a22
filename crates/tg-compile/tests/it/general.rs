//! Graphs that are none of the usual shapes: several inputs, any number of axes, no weights, constant results; operators
//! that are taken by what they do on trial inputs.

use crate::graphs::{Writer, rows};
use crate::lowering::measured;
use tg_compile::integer::Precision;
use tg_compile::passes::{KeptOutputs, PrepareOptions, prepare};
use tg_compile::{CompileOptions, compile};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};

fn text(text: &str) -> Attribute {
    Attribute::Text(text.as_bytes().to_vec())
}

/// 16 bits are at least this far above the noise.
fn check(name: &str, graph: Graph, least: f64) {
    let length = graph.inputs.iter().map(|input| {
        let axes = input.shape.as_ref().unwrap().iter();
        let size = |dim: &tg_float::Dim| match dim {
            tg_float::Dim::Known(size) => *size,
            _ => 1,
        };
        axes.map(size).product::<usize>()
    });
    let length = length.sum::<usize>().max(1);
    let (_, snr) = measured(graph, &rows(5, 8, length), Precision::Bits16);
    assert!(snr > least, "{name}: {snr:.1} dB");
}

fn of_one(shape: &[usize], build: impl FnOnce(&mut Writer, ValueId) -> ValueId) -> Graph {
    let mut writer = Writer::new(71);
    let x = writer.input("x", DType::F32, shape);
    let y = build(&mut writer, x);
    writer.finish(y)
}

fn of_two(shapes: [&[usize]; 2], op: &str) -> Graph {
    let mut writer = Writer::new(72);
    let x = writer.input("x", DType::F32, shapes[0]);
    let y = writer.input("y", DType::F32, shapes[1]);
    let z = writer.node(op, &[x, y], &[]);
    writer.finish(z)
}

#[test]
fn several_inputs_are_one_after_the_other() {
    for op in ["Add", "Sub", "Mul", "Max"] {
        check(op, of_two([&[2, 3], &[2, 3]], op), 55.0);
        check(op, of_two([&[2, 3, 4], &[4]], op), 55.0);
    }
    check("MatMul", of_two([&[2, 3, 4], &[4, 5]], "MatMul"), 55.0);
    check("MatMul", of_two([&[4], &[4]], "MatMul"), 55.0);
    // A condition beside reals.
    let mut writer = Writer::new(73);
    let c = writer.input("c", DType::Bool, &[6]);
    let x = writer.input("x", DType::F32, &[6]);
    let y = writer.input("y", DType::F32, &[6]);
    let z = writer.node("Where", &[c, x, y], &[]);
    let graph = writer.finish(z);
    let inputs: Vec<Vec<f32>> = rows(9, 8, 18)
        .into_iter()
        .map(|mut row| {
            row[..6]
                .iter_mut()
                .for_each(|c| *c = f32::from(u8::from(*c > 0.0)));
            row
        })
        .collect();
    let (_, snr) = measured(graph, &inputs, Precision::Bits16);
    assert!(snr > 60.0, "{snr}");
}

#[test]
fn an_input_has_any_number_of_axes() {
    for shape in [
        &[][..],
        &[5],
        &[3, 4],
        &[2, 3, 4],
        &[2, 3, 4, 5],
        &[2, 1, 3, 2, 2],
    ] {
        check(
            "Neg",
            of_one(shape, |writer, x| writer.node("Neg", &[x], &[])),
            60.0,
        );
    }
}

#[test]
fn results_that_are_inputs_or_constants_are_given() {
    check(
        "Identity",
        of_one(&[2, 3], |writer, x| writer.node("Identity", &[x], &[])),
        60.0,
    );
    check(
        "Shape",
        of_one(&[2, 3], |writer, x| writer.node("Shape", &[x], &[])),
        100.0,
    );
    let mut writer = Writer::new(74);
    let a = writer.weights(&[2, 3]);
    let y = writer.node("Neg", &[a], &[]);
    check("none", writer.finish(y), 60.0);
    // Zeros go with anything.
    let beside = |writer: &mut Writer, x: ValueId| {
        let zeros = writer.constant(&[2, 3], vec![0.0; 6]);
        writer.node("Concat", &[x, zeros], &[("axis", Attribute::Int(1))])
    };
    check("zeros", of_one(&[2, 3], beside), 60.0);
}

#[test]
fn movement_is_found_by_moving() {
    let pad = |mode: &'static str| {
        move |writer: &mut Writer, x: ValueId| {
            let pads = writer
                .graph
                .constant("pads", FloatTensor::vector(vec![0i64, 1, 2, 0, 2, 1]));
            writer.node("Pad", &[x, pads], &[("mode", text(mode))])
        }
    };
    for mode in ["reflect", "edge"] {
        check(mode, of_one(&[2, 3, 4], pad(mode)), 60.0);
    }
    let reverse = |writer: &mut Writer, x: ValueId| {
        let lengths = writer
            .graph
            .constant("lengths", FloatTensor::vector(vec![4i64, 2, 1]));
        writer.node("ReverseSequence", &[x, lengths], &[])
    };
    check("ReverseSequence", of_one(&[4, 3], reverse), 60.0);
    let depth = |writer: &mut Writer, x: ValueId| {
        let how = [("blocksize", Attribute::Int(2)), ("mode", text("CRD"))];
        writer.node("SpaceToDepth", &[x], &how)
    };
    check("SpaceToDepth", of_one(&[1, 2, 4, 4], depth), 60.0);
}

#[test]
fn interpolation_is_a_product_along_each_axis() {
    for (mode, coordinates) in [
        ("linear", "half_pixel"),
        ("linear", "align_corners"),
        ("cubic", "half_pixel"),
    ] {
        let resize = |writer: &mut Writer, x: ValueId| {
            let sizes = FloatTensor::vector(vec![1i64, 2, 7, 9]);
            let sizes = writer.graph.constant("sizes", sizes);
            let none = writer.constant(&[0], Vec::new());
            let how = [
                ("mode", text(mode)),
                ("coordinate_transformation_mode", text(coordinates)),
            ];
            writer.node("Resize", &[x, none, none, sizes], &how)
        };
        check(mode, of_one(&[1, 2, 4, 5], resize), 40.0);
    }
}

/// On numbers that never choose the constant, the least of two is linear.
#[test]
fn what_is_linear_on_some_numbers_only_is_not_taken_for_linear() {
    let least = of_one(&[1, 4], |writer, x| {
        let places = FloatTensor::of(vec![1, 4], vec![0i64, 1, 2, 3]).unwrap();
        let places = writer.graph.constant("places", places);
        let limits = writer.constant(&[1, 4], vec![2.0, 30.0, 400.0, 5000.0]);
        let how = [("reduction", text("min")), ("axis", Attribute::Int(1))];
        writer.node("ScatterElements", &[x, places, limits], &how)
    });
    let mut least = least;
    least.nodes[0].version = 18;
    let prepared = prepare(least, &PrepareOptions::default()).unwrap();
    assert_eq!(prepared.graph.nodes[0].op, "ScatterElements");
}

#[test]
fn windows_over_any_axes_are_gathered() {
    let conv = |shape: [usize; 5]| {
        move |writer: &mut Writer, x: ValueId| {
            let w = writer.weights(&shape[..]);
            let b = writer.weights(&shape[..1]);
            writer.node("Conv", &[x, w, b], &[("pads", Attribute::Ints(vec![1; 6]))])
        }
    };
    check(
        "Conv3d",
        of_one(&[1, 2, 4, 4, 4], conv([3, 2, 3, 3, 3])),
        45.0,
    );
    let images = |writer: &mut Writer, x: ValueId| {
        let w = writer.weights(&[3, 2, 3, 3]);
        writer.node("Conv", &[x, w], &[])
    };
    check("two images", of_one(&[2, 2, 5, 5], images), 45.0);
    check(
        "computed weights",
        of_two([&[1, 2, 5, 5], &[3, 2, 3, 3]], "Conv"),
        50.0,
    );
    let pool = |writer: &mut Writer, x: ValueId| {
        let how = [("kernel_shape", Attribute::Ints(vec![2, 2, 2]))];
        writer.node("MaxPool", &[x], &how)
    };
    check("MaxPool", of_one(&[2, 2, 4, 4, 4], pool), 60.0);
}

/// What Hugging Face writes for attention: rows that may look at nothing would be no numbers.
#[test]
fn a_softmax_that_is_checked_for_numbers_is_a_softmax() {
    let attention = of_one(&[1, 4, 6], |writer, x| {
        let mask = (0..24).map(|at| if at % 6 > 4 { f32::NEG_INFINITY } else { 0.0 });
        let mask = writer.constant(&[4, 6], mask.collect());
        let masked = writer.node("Add", &[x, mask], &[]);
        let weights = writer.node("Softmax", &[masked], &[("axis", Attribute::Int(-1))]);
        let nan = writer.node("IsNaN", &[weights], &[]);
        let zero = writer.scalar(0.0);
        writer.node("Where", &[nan, zero, weights], &[])
    });
    check("attention", attention, 45.0);
}

#[test]
fn a_shape_that_an_input_sets_is_refused_by_name() {
    let mut writer = Writer::new(76);
    let x = writer.input("x", DType::F32, &[1, 3]);
    let pads = writer.input("pads", DType::I64, &[4]);
    let y = writer.node("Pad", &[x, pads], &[]);
    let graph = writer.finish(y);
    let rows = vec![vec![0.5, -0.25, 1.0, 0.0, 1.0, 0.0, 2.0]];
    let error = compile(graph, &rows, &CompileOptions::default()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.contains("Pad") && source.contains("--bind"),
        "{source}"
    );
}

#[test]
fn statistics_of_training_are_not_those_of_inference() {
    let graph = of_one(&[2, 3, 4], |writer, x| {
        let ones = writer.constant(&[3], vec![1.0; 3]);
        let zeros = writer.constant(&[3], vec![0.0; 3]);
        let how = [("training_mode", Attribute::Int(1))];
        writer.node("BatchNormalization", &[x, ones, zeros, zeros, ones], &how)
    });
    check("BatchNormalization", graph, 40.0);
}

#[test]
fn computed_places_choose_by_flags() {
    let mut writer = Writer::new(77);
    let x = writer.input("x", DType::F32, &[3, 4]);
    let places = writer.input("places", DType::I64, &[2]);
    let y = writer.nodes(
        ("", "Gather"),
        &[x, places],
        &[("axis", Attribute::Int(1))],
        1,
    )[0];
    let graph = writer.finish(y);
    let inputs: Vec<Vec<f32>> = rows(9, 8, 14)
        .into_iter()
        .enumerate()
        .map(|(at, mut row)| {
            row[12] = (at % 4) as f32;
            row[13] = -1.0 - (at % 3) as f32;
            row
        })
        .collect();
    let (_, snr) = measured(graph, &inputs, Precision::Bits16);
    assert!(snr > 50.0, "{snr}");
    let least = of_one(&[1, 6], |writer, x| {
        let k = writer.ints(&[2]);
        let how = [("largest", Attribute::Int(0))];
        writer.nodes(("", "TopK"), &[x, k], &how, 2)[0]
    });
    check("TopK", least, 60.0);
}

/// The label that an exporter writes before the scores: the place of the greatest, looked up in a list.
#[test]
fn scores_are_kept_before_labels() {
    let mut writer = Writer::new(78);
    let x = writer.input("x", DType::F32, &[1, 3]);
    let scores = writer.node("Softmax", &[x], &[]);
    let place = writer.node("ArgMax", &[scores], &[("axis", Attribute::Int(1))]);
    let names = writer.ints(&[7, 8, 9]);
    let label = writer.nodes(
        ("ai.onnx.ml", "ArrayFeatureExtractor"),
        &[names, place],
        &[],
        1,
    )[0];
    let mut graph = writer.finish(label);
    graph.outputs.push(scores);
    let options = PrepareOptions {
        keep: KeptOutputs::Scores,
        ..PrepareOptions::default()
    };
    let prepared = prepare(graph.clone(), &options).unwrap();
    let all = prepare(graph, &PrepareOptions::default()).unwrap();
    assert_eq!(all.graph.outputs.len(), 2);
    assert_eq!(prepared.graph.nodes.len(), 1);
    assert_eq!(prepared.graph.nodes[0].op, "Softmax");
}

#[test]
fn what_has_no_program_is_named_before_anything_else() {
    let mut writer = Writer::new(79);
    let x = writer.input("x", DType::F32, &[1, 4]);
    let before = writer.node("Relu", &[x], &[]);
    // An input without axes and no calibration: neither is looked at.
    writer.graph.inputs[0].shape = None;
    let z = writer.node("Unique", &[before], &[]);
    let graph = writer.finish(z);
    let name = graph.name_of(before).to_owned();
    let error = compile(graph, &[], &CompileOptions::default()).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("(Unique)"), "{source}");
    assert!(source.contains(&format!("--keep {name}")), "{source}");
}

/// Rows of two matrices and a condition for each element of their product.
fn masked_rows(least: f32) -> Vec<Vec<f32>> {
    let flag = |at: usize, value: f32| {
        if at < 128 {
            value
        } else {
            f32::from(u8::from(value > 0.0))
        }
    };
    let row = |row: Vec<f32>| -> Vec<f32> {
        let values = row.into_iter().enumerate();
        values
            .map(|(at, value)| flag(at, if at < 64 { value * least } else { value }))
            .collect()
    };
    rows(19, 8, 144).into_iter().map(row).collect()
}

/// `condition ? x y : far`, and what becomes of it.
fn masked(far: f32, then: impl FnOnce(&mut Writer, ValueId) -> ValueId) -> Graph {
    let mut writer = Writer::new(78);
    let x = writer.input("x", DType::F32, &[4, 16]);
    let y = writer.input("y", DType::F32, &[16, 4]);
    let keeps = writer.input("keeps", DType::Bool, &[4, 4]);
    let scores = writer.node("MatMul", &[x, y], &[]);
    let far = writer.scalar(far);
    let chosen = writer.node("Where", &[keeps, scores, far], &[]);
    let end = then(&mut writer, chosen);
    writer.finish(end)
}

/// `scores.masked_fill(mask == 0, -inf)` before a softmax: in a unit that held the constant, the scores had 17 dB.
#[test]
fn scores_keep_their_digits_beside_a_mask() {
    for far in [f32::NEG_INFINITY, -1e9, -1e4, -1e3] {
        let attention = masked(far, |writer, x| {
            writer.node("Softmax", &[x], &[("axis", Attribute::Int(-1))])
        });
        for precision in [Precision::Bits16, Precision::Bits8] {
            let (_, snr) = measured(attention.clone(), &masked_rows(0.5), precision);
            let least = if precision == Precision::Bits16 {
                40.0
            } else {
                20.0
            };
            assert!(snr > least, "{far} {precision:?}: {snr:.1} dB");
        }
    }
}

/// The shift to a much coarser unit has no proof here: what looked for another way met itself, until the stack was full.
#[test]
fn accumulators_of_the_whole_field_are_shifted_far() {
    let far = masked(-1e4, |writer, x| writer.node("Identity", &[x], &[]));
    for precision in [Precision::Bits16, Precision::Mixed, Precision::Bits8] {
        let (_, snr) = measured(far.clone(), &masked_rows(0.125), precision);
        assert!(snr > 30.0, "{precision:?}: {snr:.1} dB");
    }
}

/// Exporters write a slope for all channels as `[1, 1]`, more axes than a list of trial inputs has.
#[test]
fn a_slope_for_all_channels_may_have_axes() {
    let slope = of_one(&[1, 12], |writer, x| {
        let curved = writer.node("Softplus", &[x], &[]);
        let half = writer.scalar(0.5);
        let moved = writer.node("Sub", &[curved, half], &[]);
        let slope = writer.constant(&[1, 1], vec![0.25]);
        writer.node("PRelu", &[moved, slope], &[])
    });
    check("PRelu", slope, 45.0);
}
