#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "tests; some are tables of cases"
)]

use super::tests::{bits, eval, f32s, i64s, ints, numbers, try_eval};
use super::*;
use crate::graph::Attribute;
use crate::tensor::FloatTensor;
use tg_exec::kernels::{Cpu, SimdLevel};

const NAN: f32 = f32::from_bits(0x7fc0_0000);

/// Runs at every level with one and three threads; all give the same bits.
fn everywhere(run: impl Fn() -> FloatTensor) -> FloatTensor {
    let first = run();
    for level in SimdLevel::available() {
        for threads in [1, 3] {
            let found = with_cpu(Cpu::with_level(level, threads).unwrap(), &run);
            assert_eq!(found.shape(), first.shape());
            assert_eq!(bits(&found), bits(&first), "{level} {threads}");
        }
    }
    first
}

/// Windows over two axes against the same windows over three, which are walked one element at a time.
#[test]
fn pools_over_planes_are_those_over_volumes() {
    for case in 0..400i64 {
        let part = |shift: u32, below: i64| (case.wrapping_mul(2_654_435_761) >> shift) % below;
        let (height, width) = (1 + part(3, 12), 1 + part(7, 40));
        let kernel = [1 + part(11, 4), 1 + part(13, 4)];
        let strides = [1 + part(15, 3), 1 + part(17, 3)];
        let dilations = [1 + part(19, 2), 1 + part(21, 2)];
        let pads = [part(23, 2), part(24, 3), part(25, 2), part(26, 3)];
        let mut values = numbers(case as u32, (2 * 3 * height * width) as usize);
        for (index, value) in values.iter_mut().enumerate().step_by(7) {
            *value = [f32::from_bits(0xffc0_0007), -0.0, f32::NEG_INFINITY, 0.0][index % 4];
        }
        let flat = f32s(&[2, 3, height as usize, width as usize], &values);
        let deep = f32s(&[2, 3, 1, height as usize, width as usize], &values);
        let attributes = |deep: bool| {
            let one = |list: [i64; 2]| {
                let front: &[i64] = if deep { &[1] } else { &[] };
                Attribute::Ints([front, &list].concat())
            };
            let pads = if deep {
                vec![0, pads[0], pads[1], 0, pads[2], pads[3]]
            } else {
                pads.to_vec()
            };
            vec![
                ("kernel_shape", one(kernel)),
                ("strides", one(strides)),
                ("dilations", one(dilations)),
                ("pads", Attribute::Ints(pads)),
                ("ceil_mode", Attribute::Int(case % 2)),
                ("count_include_pad", Attribute::Int(case / 2 % 2)),
            ]
        };
        for op in ["MaxPool", "AveragePool"] {
            let run = |deep_one: bool| {
                let input = if deep_one { &deep } else { &flat };
                // One output asked for: indices would be walked one by one as well.
                let node = super::tests::node(op, 19, &attributes(deep_one), 1, 1);
                evaluate(&node, &[Some(input)], &Budget::default())
            };
            match (run(false), run(true)) {
                (Ok(flat_out), Ok(deep_out)) => {
                    let found = everywhere(|| run(false).unwrap().remove(0));
                    assert_eq!(bits(&flat_out[0]), bits(&deep_out[0]), "{op} {case}");
                    assert_eq!(bits(&found), bits(&deep_out[0]), "{op} {case}");
                }
                (Err(flat_error), Err(deep_error)) => assert_eq!(flat_error, deep_error),
                (flat, deep) => panic!("{op} {case}: {flat:?} {deep:?}"),
            }
        }
    }
}

#[test]
fn pools_over_lines_and_bytes() {
    let x = f32s(&[1, 1, 5], &[1.0, 5.0, 2.0, NAN, 0.0]);
    let node =
        |op: &str, attributes: &[(&str, Attribute)]| super::tests::node(op, 19, attributes, 1, 1);
    let pair = [("kernel_shape", ints(&[2]))];
    let run = |op: &str, x: &FloatTensor| {
        evaluate(&node(op, &pair), &[Some(x)], &Budget::default())
            .unwrap()
            .remove(0)
    };
    let top = run("MaxPool", &x);
    assert_eq!(bits(&top), bits(&f32s(&[1, 1, 4], &[5.0, 5.0, NAN, NAN])));
    let mean = run("AveragePool", &x);
    assert_eq!(bits(&mean), bits(&f32s(&[1, 1, 4], &[3.0, 3.5, NAN, NAN])));
    let bytes = FloatTensor::of(vec![1, 1, 3], vec![-128i8, -127, -128]).unwrap();
    let top = run("MaxPool", &bytes);
    assert_eq!(top.values::<i8>(), Some([-127i8, -127].as_slice()));
}

/// Every order of four axes, with sides that squares do not divide.
#[test]
fn every_turn_puts_each_element_in_its_place() {
    let shape = [3usize, 18, 5, 33];
    let values: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|v| v as f32)
        .collect();
    let x = f32s(&shape, &values);
    let wide =
        FloatTensor::of(shape.to_vec(), (0..values.len() as i64).collect::<Vec<_>>()).unwrap();
    for order in 0..256usize {
        let perm: Vec<usize> = (0..4).map(|axis| order >> (2 * axis) & 3).collect();
        if (0..4).any(|axis| !perm.contains(&axis)) {
            continue;
        }
        let attribute = [(
            "perm",
            Attribute::Ints(perm.iter().map(|&axis| axis as i64).collect()),
        )];
        let turned = eval("Transpose", &attribute, std::slice::from_ref(&x));
        let out: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
        assert_eq!(turned.shape(), out);
        let (own, steps) = (crate::tensor::strides(&out), crate::tensor::strides(&shape));
        let expected = |place: usize| -> usize {
            (0..4)
                .map(|axis| place / own[axis] % out[axis] * steps[perm[axis]])
                .sum()
        };
        let found = turned.values::<f32>().unwrap();
        assert!(
            (0..found.len()).all(|place| found[place] == values[expected(place)]),
            "{perm:?}"
        );
        let turned = eval("Transpose", &attribute, std::slice::from_ref(&wide));
        let found = turned.values::<i64>().unwrap();
        assert!(
            (0..found.len()).all(|place| found[place] == expected(place) as i64),
            "{perm:?}"
        );
    }
}

/// Sums of rows are in ascending order whatever runs beside them.
#[test]
fn sums_of_rows_are_in_order() {
    for (rows, size) in [(1, 1), (3, 50), (8, 17), (19, 5), (40, 600)] {
        let values = numbers(3, rows * size);
        let x = f32s(&[rows, size], &values);
        let flat = [("keepdims", Attribute::Int(0))];
        let lines = || values.chunks(size);
        let sums: Vec<f32> = lines()
            .map(|row| row.iter().fold(0f32, |sum, v| sum + v))
            .collect();
        let squares: Vec<f32> = lines()
            .map(|row| row.iter().fold(0f32, |sum, v| v.mul_add(*v, sum)))
            .collect();
        let reduce = |op: &str| everywhere(|| eval(op, &flat, &[x.clone(), i64s(&[-1])]));
        assert_eq!(bits(&reduce("ReduceSum")), bits(&f32s(&[rows], &sums)));
        assert_eq!(
            bits(&reduce("ReduceSumSquare")),
            bits(&f32s(&[rows], &squares))
        );
        let means: Vec<f32> = sums.iter().map(|sum| sum / size as f32).collect();
        assert_eq!(bits(&reduce("ReduceMean")), bits(&f32s(&[rows], &means)));
        let norms: Vec<f32> = squares.iter().map(|sum| sum.sqrt()).collect();
        assert_eq!(bits(&reduce("ReduceL2")), bits(&f32s(&[rows], &norms)));
    }
}

/// Softmax and the norms, from their formulas in the protocol.
#[test]
fn rows_are_normalised_by_the_stated_steps() {
    for (rows, size) in [(1, 1), (3, 10), (8, 33), (21, 64), (500, 40)] {
        let values = numbers(5, rows * size);
        let x = f32s(&[rows, size], &values);
        let (scale, bias) = (numbers(6, size), numbers(7, size));
        let (s, b) = (f32s(&[size], &scale), f32s(&[size], &bias));
        let epsilon = 1e-5f32;
        let (mut soft, mut layer, mut rms) = (Vec::new(), Vec::new(), Vec::new());
        for row in values.chunks(size) {
            let top = row.iter().fold(f32::NEG_INFINITY, |top, &v| top.max(v));
            let powers: Vec<f32> = row.iter().map(|v| math::exp(v - top)).collect();
            let sum = powers.iter().fold(0f32, |sum, v| sum + v);
            soft.extend(powers.iter().map(|power| power / sum));
            let mean = row.iter().fold(0f32, |sum, v| sum + v) / size as f32;
            let squares = row
                .iter()
                .fold(0f32, |sum, v| (v - mean).mul_add(v - mean, sum));
            let factor = 1.0 / (squares / size as f32 + epsilon).sqrt();
            let pairs = row.iter().zip(scale.iter().zip(&bias));
            layer.extend(pairs.map(|(v, (s, b))| ((v - mean) * factor).mul_add(*s, *b)));
            let squares = row.iter().fold(0f32, |sum, v| v.mul_add(*v, sum));
            let factor = 1.0 / (squares / size as f32 + epsilon).sqrt();
            rms.extend(row.iter().zip(&scale).map(|(v, s)| v * factor * s));
        }
        let found = everywhere(|| eval("Softmax", &[], std::slice::from_ref(&x)));
        assert_eq!(
            bits(&found),
            bits(&f32s(&[rows, size], &soft)),
            "{rows} {size}"
        );
        let found = everywhere(|| {
            eval(
                "LayerNormalization",
                &[],
                &[x.clone(), s.clone(), b.clone()],
            )
        });
        assert_eq!(
            bits(&found),
            bits(&f32s(&[rows, size], &layer)),
            "{rows} {size}"
        );
        let found = everywhere(|| eval("RMSNormalization", &[], &[x.clone(), s.clone()]));
        assert_eq!(
            bits(&found),
            bits(&f32s(&[rows, size], &rms)),
            "{rows} {size}"
        );
    }
}

#[test]
fn groups_of_channels_are_normalised_like_rows() {
    // Two groups of two channels of two elements each.
    let x = f32s(&[1, 4, 2], &[1.0, 3.0, 5.0, 7.0, 2.0, 2.0, 2.0, 2.0]);
    let (scale, bias) = (
        f32s(&[4], &[1.0, 2.0, 1.0, 1.0]),
        f32s(&[4], &[0.0, 0.0, 0.5, 1.5]),
    );
    let attributes = [
        ("num_groups", Attribute::Int(2)),
        ("epsilon", Attribute::Float(0.0)),
    ];
    let y = eval(
        "GroupNormalization",
        &attributes,
        &[x.clone(), scale.clone(), bias.clone()],
    );
    // Mean 4, variance 5 in the first group; the second is constant, and 0 / 0 is NaN.
    let root = 1.0 / 5f32.sqrt();
    let found = y.values::<f32>().unwrap();
    assert_eq!(
        found[..4],
        [-3.0 * root, -root, root * 2.0, 3.0 * root * 2.0]
    );
    assert!(
        found[4..]
            .iter()
            .all(|value| value.to_bits() == NAN.to_bits())
    );
    let y = eval(
        "InstanceNormalization",
        &[("epsilon", Attribute::Float(0.0))],
        &[x, scale, bias],
    );
    assert_eq!(y.values::<f32>().unwrap()[..4], [-1.0, 1.0, -2.0, 2.0]);
}

#[test]
fn attention_products_share_their_packed_keys() {
    for (heads, queries, keys, size) in [(1, 5, 7, 4), (6, 9, 16, 32), (3, 1, 40, 8), (2, 4, 3, 0)]
    {
        let (a, b) = (
            numbers(1, heads * queries * size),
            numbers(2, heads * size * keys),
        );
        let x = f32s(&[1, heads, queries, size], &a);
        let y = f32s(&[heads, size, keys], &b);
        let found = everywhere(|| eval("MatMul", &[], &[x.clone(), y.clone()]));
        assert_eq!(found.shape(), [1, heads, queries, keys]);
        let mut expected = Vec::new();
        for (head, row) in (0..heads).flat_map(|head| (0..queries).map(move |row| (head, row))) {
            for column in 0..keys {
                let term = |sum: f32, k: usize| {
                    a[(head * queries + row) * size + k]
                        .mul_add(b[(head * size + k) * keys + column], sum)
                };
                expected.push((0..size).fold(0f32, term));
            }
        }
        assert_eq!(
            bits(&found),
            bits(&f32s(&[1, heads, queries, keys], &expected))
        );
    }
}

/// Functions of one number at the places where they are special.
#[test]
fn functions_at_their_special_places() {
    let (inf, sub) = (f32::INFINITY, f32::from_bits(1));
    let check = |op: &str, attributes: &[(&str, Attribute)], pairs: &[(f32, f32)]| {
        let inputs: Vec<f32> = pairs.iter().map(|pair| pair.0).collect();
        let expected: Vec<f32> = pairs.iter().map(|pair| pair.1).collect();
        let found = everywhere(|| eval(op, attributes, &[f32s(&[inputs.len()], &inputs)]));
        assert_eq!(
            bits(&found),
            bits(&f32s(&[inputs.len()], &expected)),
            "{op}"
        );
    };
    check(
        "Relu",
        &[],
        &[
            (-0.0, 0.0),
            (-1.0, 0.0),
            (sub, sub),
            (NAN, NAN),
            (-inf, 0.0),
            (inf, inf),
        ],
    );
    check("Neg", &[], &[(0.0, -0.0), (-inf, inf), (NAN, NAN)]);
    check("Abs", &[], &[(-0.0, 0.0), (-inf, inf), (-3.5, 3.5)]);
    check(
        "Sqrt",
        &[],
        &[(-0.0, -0.0), (-1.0, NAN), (4.0, 2.0), (inf, inf)],
    );
    check(
        "Reciprocal",
        &[],
        &[(0.0, inf), (-0.0, -inf), (inf, 0.0), (4.0, 0.25)],
    );
    check(
        "Exp",
        &[],
        &[
            (-inf, 0.0),
            (inf, inf),
            (0.0, 1.0),
            (-200.0, 0.0),
            (200.0, inf),
            (NAN, NAN),
        ],
    );
    check(
        "Log",
        &[],
        &[
            (0.0, -inf),
            (-0.0, -inf),
            (-1.0, NAN),
            (1.0, 0.0),
            (inf, inf),
        ],
    );
    check(
        "Tanh",
        &[],
        &[
            (inf, 1.0),
            (-inf, -1.0),
            (0.0, 0.0),
            (-0.0, -0.0),
            (NAN, NAN),
        ],
    );
    check(
        "Sigmoid",
        &[],
        &[(inf, 1.0), (-inf, 0.0), (0.0, 0.5), (NAN, NAN)],
    );
    check(
        "Erf",
        &[],
        &[(inf, 1.0), (-inf, -1.0), (0.0, 0.0), (5.0, 1.0), (NAN, NAN)],
    );
    check(
        "Sign",
        &[],
        &[(-0.0, -0.0), (-3.0, -1.0), (inf, 1.0), (NAN, NAN)],
    );
    check("Floor", &[], &[(-0.5, -1.0), (1.5, 1.0), (inf, inf)]);
    check("Ceil", &[], &[(-0.5, -0.0), (1.5, 2.0)]);
    check(
        "Round",
        &[],
        &[(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0)],
    );
    check(
        "HardSigmoid",
        &[],
        &[(0.0, 0.5), (10.0, 1.0), (-10.0, 0.0), (NAN, NAN)],
    );
    check("HardSwish", &[], &[(3.0, 3.0), (-3.0, -0.0), (0.0, 0.0)]);
    check(
        "LeakyRelu",
        &[("alpha", Attribute::Float(0.5))],
        &[(-2.0, -1.0), (3.0, 3.0), (NAN, NAN)],
    );
    check(
        "Elu",
        &[("alpha", Attribute::Float(2.0))],
        &[(-inf, -2.0), (1.0, 1.0), (0.0, 0.0)],
    );
    check("Softsign", &[], &[(1.0, 0.5), (-3.0, -0.75), (inf, NAN)]);
    check(
        "Softplus",
        &[],
        &[(inf, inf), (-inf, 0.0), (0.0, std::f32::consts::LN_2)],
    );
    check(
        "Gelu",
        &[],
        &[(0.0, 0.0), (10.0, 10.0), (NAN, NAN), (inf, inf)],
    );
    check(
        "Shrink",
        &[("bias", Attribute::Float(1.0))],
        &[(2.0, 1.0), (-2.0, -1.0), (0.25, 0.0)],
    );
}

#[test]
fn two_operands_follow_the_rules_of_nan_and_zero() {
    let inf = f32::INFINITY;
    let check = |op: &str, rows: &[(f32, f32, f32)]| {
        let column = |pick: fn(&(f32, f32, f32)) -> f32| {
            f32s(&[rows.len()], &rows.iter().map(pick).collect::<Vec<_>>())
        };
        let found = everywhere(|| eval(op, &[], &[column(|row| row.0), column(|row| row.1)]));
        assert_eq!(bits(&found), bits(&column(|row| row.2)), "{op}");
    };
    check(
        "Add",
        &[
            (inf, -inf, NAN),
            (-0.0, -0.0, -0.0),
            (-0.0, 0.0, 0.0),
            (1e38, 3e38, inf),
        ],
    );
    check(
        "Sub",
        &[(inf, inf, NAN), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0)],
    );
    check(
        "Mul",
        &[(0.0, inf, NAN), (-0.0, 5.0, -0.0), (1e-30, 1e-30, 0.0)],
    );
    check(
        "Div",
        &[
            (0.0, 0.0, NAN),
            (1.0, 0.0, inf),
            (1.0, -0.0, -inf),
            (1.0, 3.0, 1.0 / 3.0),
        ],
    );
    check(
        "Max",
        &[
            (NAN, 1.0, NAN),
            (1.0, NAN, NAN),
            (-0.0, 0.0, -0.0),
            (0.0, -0.0, 0.0),
            (1.0, 2.0, 2.0),
        ],
    );
    check("Min", &[(NAN, 1.0, NAN), (0.0, -0.0, 0.0), (1.0, 2.0, 1.0)]);
    check(
        "Pow",
        &[
            (2.0, 3.0, 8.0),
            (4.0, 0.5, 2.0),
            (0.0, 0.0, 1.0),
            (-2.0, 3.0, -8.0),
            (-2.0, 0.5, NAN),
        ],
    );
    check(
        "PRelu",
        &[(-2.0, 0.25, -0.5), (2.0, 0.25, 2.0), (-0.0, 3.0, -0.0)],
    );
    check("Mod", &[]);
}

#[test]
fn empty_tensors_stay_empty_or_are_refused() {
    let none = f32s(&[0, 3], &[]);
    for op in ["Relu", "Exp", "Softmax", "Neg", "Identity", "Transpose"] {
        assert_eq!(eval(op, &[], std::slice::from_ref(&none)).len(), 0, "{op}");
    }
    let sum = eval("Add", &[], &[none.clone(), f32s(&[3], &[1.0; 3])]);
    assert_eq!(sum.shape(), [0, 3]);
    let product = eval("MatMul", &[], &[none.clone(), f32s(&[3, 2], &[1.0; 6])]);
    assert_eq!(product.shape(), [0, 2]);
    // A sum of nothing is +0.
    let product = eval("MatMul", &[], &[f32s(&[2, 0], &[]), f32s(&[0, 2], &[])]);
    assert_eq!(bits(&product), [0; 4]);
    let total = eval(
        "ReduceSum",
        &[("keepdims", Attribute::Int(0))],
        std::slice::from_ref(&none),
    );
    assert_eq!(bits(&total), [0]);
    let node = super::tests::node("MaxPool", 19, &[("kernel_shape", ints(&[1]))], 1, 1);
    let image = f32s(&[1, 1, 0], &[]);
    assert!(evaluate(&node, &[Some(&image)], &Budget::default()).is_err());
}

#[test]
fn axes_count_from_either_end_and_not_beyond() {
    let x = f32s(&[2, 3, 4], &numbers(1, 24));
    for (op, negative, positive) in [
        ("Softmax", -1, 2),
        ("LogSoftmax", -2, 1),
        ("Hardmax", -3, 0),
        ("Flatten", -2, 1),
    ] {
        let run = |axis: i64| {
            eval(
                op,
                &[("axis", Attribute::Int(axis))],
                std::slice::from_ref(&x),
            )
        };
        assert_eq!(run(negative), run(positive), "{op}");
        for beyond in [3, -4, i64::MAX, i64::MIN] {
            if op == "Flatten" && beyond == 3 {
                continue;
            }
            let wrong = try_eval(
                op,
                21,
                &[("axis", Attribute::Int(beyond))],
                &[Some(x.clone())],
            );
            assert_eq!(
                wrong,
                Err(OpError::Axis {
                    axis: beyond,
                    rank: 3
                }),
                "{op}"
            );
        }
    }
    let last = eval(
        "Concat",
        &[("axis", Attribute::Int(-1))],
        &[x.clone(), x.clone()],
    );
    assert_eq!(last.shape(), [2, 3, 8]);
    let parts = try_eval(
        "Split",
        18,
        &[
            ("axis", Attribute::Int(-2)),
            ("num_outputs", Attribute::Int(2)),
        ],
        &[Some(x)],
    );
    assert_eq!(parts.unwrap()[1].shape(), [2, 1, 4]);
    let twice = try_eval(
        "Squeeze",
        13,
        &[],
        &[Some(f32s(&[1, 1], &[0.0])), Some(i64s(&[0, -2]))],
    );
    assert!(matches!(twice, Err(OpError::Invalid { .. })));
}

#[test]
fn errors_say_what_the_operator_got() {
    let text = |result: Result<Vec<FloatTensor>, OpError>| {
        let error = result.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    };
    let x = f32s(&[2, 3], &[0.0; 6]);
    let check = |found: String, parts: &[&str]| {
        for part in parts {
            assert!(found.contains(part), "`{found}` does not say `{part}`");
        }
    };
    check(
        text(try_eval("Nothing", 13, &[], &[])),
        &["not an operator that is supported"],
    );
    check(text(try_eval("Relu", 13, &[], &[])), &["no input 0"]);
    check(
        text(try_eval(
            "MatMul",
            13,
            &[],
            &[Some(x.clone()), Some(x.clone())],
        )),
        &["[2, 3]", "cannot be multiplied"],
    );
    let (a, b) = (f32s(&[2], &[0.0; 2]), f32s(&[3], &[0.0; 3]));
    check(
        text(try_eval("Add", 13, &[], &[Some(a), Some(b)])),
        &["[[2], [3]]", "broadcast"],
    );
    check(
        text(try_eval(
            "Softmax",
            13,
            &[("axis", Attribute::Int(9))],
            &[Some(x.clone())],
        )),
        &["axis 9 of 2"],
    );
    check(
        text(try_eval(
            "Softmax",
            13,
            &[("axis", Attribute::Float(1.0))],
            &[Some(x.clone())],
        )),
        &["`axis`"],
    );
    check(
        text(try_eval("Exp", 13, &[], &[Some(i64s(&[1]))])),
        &["I64", "input 0"],
    );
    check(
        text(try_eval(
            "Reshape",
            13,
            &[],
            &[Some(x.clone()), Some(i64s(&[4, 4]))],
        )),
        &["[4, 4]", "6 elements"],
    );
    let node = super::tests::node("Exp", 13, &[], 1, 1);
    let little = Budget {
        bytes: 10,
        ..Budget::default()
    };
    check(
        text(evaluate(&node, &[Some(&x)], &little)),
        &["needs 24 bytes, 10 are left"],
    );
    let w = f32s(&[1, 2, 3, 3], &[0.0; 18]);
    check(
        text(try_eval(
            "Conv",
            13,
            &[],
            &[Some(f32s(&[1, 3, 4, 4], &[0.0; 48])), Some(w)],
        )),
        &["[1, 3, 4, 4]", "[1, 2, 3, 3]"],
    );
}

#[test]
fn windows_over_one_column_are_laid_out_and_still_in_order() {
    // A kernel as wide as the image, as text classifiers have it: one output per row.
    let (rows, width, outputs) = (20usize, 50usize, 3usize);
    let (x, w) = (numbers(1, rows * width), numbers(2, outputs * 2 * width));
    let inputs = [
        f32s(&[1, 1, rows, width], &x),
        f32s(&[outputs, 1, 2, width], &w),
    ];
    let found = everywhere(|| eval("Conv", &[], &inputs));
    assert_eq!(found.shape(), [1, outputs, rows - 1, 1]);
    let mut expected = Vec::new();
    for output in 0..outputs {
        for row in 0..rows - 1 {
            let term =
                |sum: f32, k: usize| w[output * 2 * width + k].mul_add(x[row * width + k], sum);
            expected.push((0..2 * width).fold(0f32, term));
        }
    }
    assert_eq!(bits(&found), bits(&f32s(&[outputs, rows - 1], &expected)));
}
