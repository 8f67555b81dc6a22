//! Every operator that goes element by element, chooses, or sums: alone in a graph, in integers of 8 and of 16 bits,
//! beside tier TGF-1.

use crate::graphs::{Writer, rows};
use crate::lowering::measured;
use tg_compile::integer::Precision;
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};

const SHAPE: [usize; 3] = [1, 3, 8];

/// A graph on one input, and the least decibels with 8 and with 16 bits.
struct Case {
    name: String,
    graph: Graph,
    least: [f64; 2],
}

fn case(name: &str, least: [f64; 2], build: impl FnOnce(&mut Writer, ValueId) -> ValueId) -> Case {
    let mut writer = Writer::new(31);
    let x = writer.input("x", DType::F32, &SHAPE);
    let y = build(&mut writer, x);
    Case {
        name: name.to_owned(),
        graph: writer.finish(y),
        least,
    }
}

fn check(cases: Vec<Case>) {
    let inputs = rows(32, 12, SHAPE.iter().product());
    for Case { name, graph, least } in cases {
        for (precision, least) in [Precision::Bits8, Precision::Bits16].into_iter().zip(least) {
            let (_, snr) = measured(graph.clone(), &inputs, precision);
            assert!(
                snr > least,
                "{name}, {precision:?}: {snr:.1} dB, {least} wanted"
            );
        }
    }
}

/// x + shift, so that functions with a restricted domain are inside it.
fn shifted(writer: &mut Writer, x: ValueId, shift: f32) -> ValueId {
    let shift = writer.scalar(shift);
    writer.node("Add", &[x, shift], &[])
}

/// A second computed tensor of the same shape.
fn other(writer: &mut Writer, x: ValueId) -> ValueId {
    let factors = writer.weights(&SHAPE);
    writer.node("Mul", &[x, factors], &[])
}

#[test]
fn functions_of_one_number() {
    let plain = [
        "Abs",
        "Neg",
        "Erf",
        "Exp",
        "Sigmoid",
        "Tanh",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Elu",
        "Relu",
    ];
    let mut cases: Vec<Case> = plain
        .iter()
        .map(|op| case(op, [33.0, 60.0], |writer, x| writer.node(op, &[x], &[])))
        .collect();
    for (op, shift) in [("Log", 1.5), ("Sqrt", 1.5), ("Reciprocal", 2.0)] {
        cases.push(case(op, [28.0, 55.0], |writer, x| {
            let x = shifted(writer, x, shift);
            writer.node(op, &[x], &[])
        }));
    }
    for exponent in [2.0, 3.0] {
        cases.push(case("Pow", [28.0, 55.0], |writer, x| {
            let exponent = writer.scalar(exponent);
            writer.node("Pow", &[x, exponent], &[])
        }));
    }
    cases.push(case("PRelu", [33.0, 55.0], |writer, x| {
        let slope = writer.weights(&[8]);
        writer.node("PRelu", &[x, slope], &[])
    }));
    check(cases);
}

#[test]
fn functions_of_two_numbers() {
    let mut cases = Vec::new();
    for op in ["Add", "Sub", "Mul", "Div", "Min", "Max"] {
        let shift = if op == "Div" { 3.0 } else { 0.0 };
        cases.push(case(op, [28.0, 50.0], |writer, x| {
            let y = other(writer, x);
            let y = shifted(writer, y, shift);
            writer.node(op, &[x, y], &[])
        }));
        cases.push(case(op, [28.0, 50.0], |writer, x| {
            let y = writer.weights(&SHAPE);
            let y = shifted(writer, y, shift);
            writer.node(op, &[x, y], &[])
        }));
    }
    check(cases);
}

/// A choice may fall the other way where both sides are nearly equal: the values then are, too.
#[test]
fn comparisons_and_what_they_choose() {
    let mut cases = Vec::new();
    for op in ["Less", "Greater", "LessOrEqual", "GreaterOrEqual"] {
        cases.push(case(op, [25.0, 50.0], |writer, x| {
            let y = other(writer, x);
            let chosen = writer.node(op, &[x, y], &[]);
            writer.node("Where", &[chosen, x, y], &[])
        }));
    }
    cases.push(case("Equal", [20.0, 50.0], |writer, x| {
        let zero = writer.scalar(0.0);
        let positive = writer.node("Relu", &[x], &[]);
        let clipped = writer.node("Equal", &[positive, zero], &[]);
        let y = shifted(writer, positive, 1.0);
        writer.node("Where", &[clipped, x, y], &[])
    }));
    for op in ["And", "Or"] {
        cases.push(case(op, [25.0, 50.0], |writer, x| {
            let y = other(writer, x);
            let zero = writer.scalar(0.0);
            let a = writer.node("Greater", &[x, zero], &[]);
            let b = writer.node("Greater", &[y, zero], &[]);
            let both = writer.node(op, &[a, b], &[]);
            let neither = writer.node("Not", &[both], &[]);
            let zeros = writer.node("Mul", &[x, zero], &[]);
            writer.node("Where", &[neither, x, zeros], &[])
        }));
    }
    check(cases);
}

#[test]
fn sums_and_extremes_along_an_axis() {
    let mut cases = Vec::new();
    for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"] {
        for axis in [1i64, 2] {
            for keep in [0, 1] {
                cases.push(case(op, [28.0, 50.0], |writer, x| {
                    let keep = ("keepdims", Attribute::Int(keep));
                    if op == "ReduceSum" {
                        let axes = writer.ints(&[axis]);
                        return writer.node(op, &[x, axes], &[keep]);
                    }
                    let axes = ("axes", Attribute::Ints(vec![axis]));
                    writer.node(op, &[x], &[axes, keep])
                }));
            }
        }
    }
    check(cases);
}

#[test]
fn sums_of_the_elements_so_far() {
    let mut cases = Vec::new();
    for axis in [1i64, -1] {
        for exclusive in [0, 1] {
            for reverse in [0, 1] {
                cases.push(case("CumSum", [28.0, 50.0], |writer, x| {
                    let axis = writer.ints(&[axis]);
                    let attributes = [("exclusive", exclusive), ("reverse", reverse)];
                    let attributes = attributes.map(|(name, it)| (name, Attribute::Int(it)));
                    writer.node("CumSum", &[x, axis], &attributes)
                }));
            }
        }
    }
    check(cases);
}

#[test]
fn rows_that_are_normalised() {
    let axis = ("axis", Attribute::Int(-1));
    check(vec![
        case("Softmax", [28.0, 60.0], |writer, x| {
            writer.node("Softmax", &[x], std::slice::from_ref(&axis))
        }),
        case("LogSoftmax", [28.0, 45.0], |writer, x| {
            writer.node("LogSoftmax", &[x], std::slice::from_ref(&axis))
        }),
        case(
            "Softmax of an older operator set",
            [20.0, 50.0],
            |writer, x| {
                let y = writer.node("Softmax", &[x], &[]);
                writer.graph.nodes[0].version = 11;
                y
            },
        ),
        case(
            "LogSoftmax of an older operator set",
            [28.0, 45.0],
            |writer, x| {
                let y = writer.node("LogSoftmax", &[x], &[("axis", Attribute::Int(2))]);
                writer.graph.nodes[0].version = 11;
                y
            },
        ),
        case("LayerNormalization", [28.0, 45.0], |writer, x| {
            let gain = writer.weights(&[8]);
            writer.node(
                "LayerNormalization",
                &[x, gain],
                std::slice::from_ref(&axis),
            )
        }),
        case("InstanceNormalization", [28.0, 45.0], |writer, x| {
            let [gain, offset] = [0; 2].map(|_| writer.weights(&[3]));
            writer.node("InstanceNormalization", &[x, gain, offset], &[])
        }),
    ]);
}

#[test]
fn moves_lose_nothing_but_the_input() {
    let least = [38.0, 80.0];
    let constant = |writer: &mut Writer, value: Vec<i64>| {
        writer.graph.constant("ints", FloatTensor::vector(value))
    };
    check(vec![
        case("Tile", least, |writer, x| {
            let times = constant(writer, vec![1, 2, 3]);
            writer.node("Tile", &[x, times], &[])
        }),
        case("Expand", least, |writer, x| {
            let shape = constant(writer, vec![2, 3, 8]);
            writer.node("Expand", &[x, shape], &[])
        }),
        case("Unsqueeze and Squeeze", least, |writer, x| {
            let axes = constant(writer, vec![1]);
            let wide = writer.node("Unsqueeze", &[x, axes], &[]);
            let axes = constant(writer, vec![0]);
            writer.node("Squeeze", &[wide, axes], &[])
        }),
        case("Pad", least, |writer, x| {
            let pads = constant(writer, vec![0, 1, 2, 0, 0, 3]);
            writer.node("Pad", &[x, pads], &[])
        }),
        case("Pad of an older operator set", least, |writer, x| {
            let wide = Attribute::Ints(vec![0, 1, 2, 0, 0, 3]);
            let attributes = [("pads", wide), ("value", Attribute::Float(0.5))];
            let y = writer.node("Pad", &[x], &attributes);
            writer.graph.nodes[0].version = 10;
            y
        }),
        case("Pad of one axis, older", least, |writer, x| {
            let wide = Attribute::Ints(vec![0, 0, 2, 0, 0, 3]);
            let attributes = [("pads", wide), ("value", Attribute::Float(-0.25))];
            let y = writer.node("Pad", &[x], &attributes);
            writer.graph.nodes[0].version = 10;
            y
        }),
        case("Split", least, |writer, x| {
            let sizes = constant(writer, vec![3, 5]);
            let axis = [("axis", Attribute::Int(2))];
            let parts = writer.nodes(("", "Split"), &[x, sizes], &axis, 2);
            writer.node("Concat", &[parts[1], parts[0]], &axis)
        }),
        case("Cast", least, |writer, x| {
            let double = writer.node("Cast", &[x], &[("to", Attribute::Int(11))]);
            writer.node("Cast", &[double], &[("to", Attribute::Int(1))])
        }),
        case("Gather", least, |writer, x| {
            let places = constant(writer, vec![7, 0, -2]);
            writer.node("Gather", &[x, places], &[("axis", Attribute::Int(2))])
        }),
        case("Slice", least, |writer, x| {
            let [start, end, axis, step] =
                [-1, 1, 2, -2].map(|value| constant(writer, vec![value]));
            writer.node("Slice", &[x, start, end, axis, step], &[])
        }),
    ]);
}
