#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::convert;
use crate::graph::{Attribute, Graph, Input, Node, ValueId};
use crate::tensor::{DType, Data, FloatTensor};
use proptest::prelude::*;
use tg_exec::kernels::{Cpu, SimdLevel};

/// A node of this operator with as many inputs and outputs.
pub(super) fn node(
    op: &str,
    version: i64,
    attributes: &[(&str, Attribute)],
    ins: usize,
    outs: usize,
) -> Node {
    let ids = |from: u32, count: usize| (from..from + count as u32).map(ValueId::new).collect();
    let mut node = Node::new("n", op, version, ids(0, ins), ids(100, outs));
    for (name, attribute) in attributes {
        node = node.with(name, attribute.clone());
    }
    node
}

pub(super) fn try_eval(
    op: &str,
    version: i64,
    attributes: &[(&str, Attribute)],
    inputs: &[Option<FloatTensor>],
) -> Result<Vec<FloatTensor>, OpError> {
    let node = node(op, version, attributes, inputs.len(), 4);
    let borrowed: Vec<Option<&FloatTensor>> = inputs.iter().map(Option::as_ref).collect();
    evaluate(&node, &borrowed, &Budget::default())
}

pub(super) fn eval(
    op: &str,
    attributes: &[(&str, Attribute)],
    inputs: &[FloatTensor],
) -> FloatTensor {
    let inputs: Vec<Option<FloatTensor>> = inputs.iter().cloned().map(Some).collect();
    try_eval(op, 21, attributes, &inputs).unwrap().remove(0)
}

pub(super) fn f32s(shape: &[usize], values: &[f32]) -> FloatTensor {
    FloatTensor::of(shape.to_vec(), values.to_vec()).unwrap()
}

pub(super) fn i64s(values: &[i64]) -> FloatTensor {
    FloatTensor::vector(values.to_vec())
}

pub(super) fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// `count` numbers in [-1, 1), the same for the same seed.
pub(super) fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

pub(super) fn bits(tensor: &FloatTensor) -> Vec<u32> {
    let values = tensor.values::<f32>().unwrap();
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn arithmetic_broadcasts_and_keeps_one_nan() {
    let a = f32s(&[2, 1], &[1.0, 2.0]);
    let b = f32s(&[3], &[10.0, 20.0, 30.0]);
    let sum = eval("Add", &[], &[a, b]);
    assert_eq!(sum, f32s(&[2, 3], &[11.0, 21.0, 31.0, 12.0, 22.0, 32.0]));
    let odd = f32s(&[2], &[f32::from_bits(0xffc0_0001), f32::INFINITY]);
    let nan = eval("Sub", &[], &[odd.clone(), odd]);
    assert_eq!(bits(&nan), [0x7fc0_0000; 2]);
    let ints = eval("Div", &[], &[i64s(&[7, -7]), i64s(&[2, 2])]);
    assert_eq!(ints, i64s(&[3, -3]));
    let zero = try_eval("Div", 14, &[], &[Some(i64s(&[1])), Some(i64s(&[0]))]);
    assert!(matches!(zero, Err(OpError::Invalid { .. })));
    let bytes = FloatTensor::vector(vec![200u8, 100]);
    let wrapped = eval("Add", &[], &[bytes.clone(), bytes]);
    assert_eq!(wrapped, FloatTensor::vector(vec![144u8, 200]));
}

#[test]
fn remainders_take_the_sign_that_is_asked_for() {
    let (a, b) = (i64s(&[-4, 7, 5]), i64s(&[3, -3, 8]));
    assert_eq!(eval("Mod", &[], &[a.clone(), b.clone()]), i64s(&[2, -2, 5]));
    let fmod = [("fmod", Attribute::Int(1))];
    assert_eq!(eval("Mod", &fmod, &[a, b]), i64s(&[-1, 1, 5]));
}

#[test]
fn halves_are_widened_and_rounded_once() {
    let one = |value: f32| {
        FloatTensor::new(vec![1], Data::F16(vec![convert::f32_to_f16(value)])).unwrap()
    };
    // 1 + 2^-11 + 2^-11 in f16 would stay 1 if rounded in between.
    let third = eval(
        "Sum",
        &[],
        &[one(1.0), one(0.000_488_281_25), one(0.000_488_281_25)],
    );
    assert_eq!(third.data(), one(1.000_976_6).data());
}

#[test]
fn reductions_run_over_named_axes() {
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let sum = eval("ReduceSum", &[], &[x.clone(), i64s(&[0])]);
    assert_eq!(sum, f32s(&[1, 3], &[5.0, 7.0, 9.0]));
    let flat = [("keepdims", Attribute::Int(0))];
    let mean = eval("ReduceMean", &flat, &[x.clone(), i64s(&[-1])]);
    assert_eq!(mean, f32s(&[2], &[2.0, 5.0]));
    let norm = eval("ReduceL2", &flat, &[f32s(&[2], &[3.0, 4.0])]);
    assert_eq!(norm, f32s(&[], &[5.0]));
    let top = eval(
        "ArgMax",
        &[("axis", Attribute::Int(1))],
        &[f32s(&[1, 3], &[2.0, 5.0, 5.0])],
    );
    assert_eq!(top, FloatTensor::of(vec![1, 1], vec![1i64]).unwrap());
    let scan = eval(
        "CumSum",
        &[("reverse", Attribute::Int(1))],
        &[x, FloatTensor::scalar(1i64)],
    );
    assert_eq!(scan, f32s(&[2, 3], &[6.0, 5.0, 3.0, 15.0, 11.0, 6.0]));
}

#[test]
fn data_moves_without_a_changed_bit() {
    let x = f32s(
        &[2, 3],
        &[0.0, f32::from_bits(0x7fa0_0001), 2.0, 3.0, -0.0, 5.0],
    );
    let turned = eval("Transpose", &[], std::slice::from_ref(&x));
    assert_eq!(bits(&turned)[2], 0x7fa0_0001);
    assert_eq!(bits(&eval("Transpose", &[], &[turned])), bits(&x));
    let shape = eval("Reshape", &[], &[x, i64s(&[0, -1, 1])]);
    assert_eq!(shape.shape(), [2, 3, 1]);
    let y = f32s(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let reversed = eval(
        "Slice",
        &[],
        &[
            y.clone(),
            i64s(&[-1]),
            i64s(&[i64::MIN]),
            i64s(&[1]),
            i64s(&[-2]),
        ],
    );
    assert_eq!(reversed, f32s(&[2, 2], &[2.0, 0.0, 5.0, 3.0]));
    let parts = try_eval(
        "Split",
        18,
        &[("axis", Attribute::Int(1))],
        &[Some(y.clone()), Some(i64s(&[1, 2]))],
    );
    assert_eq!(parts.unwrap()[1], f32s(&[2, 2], &[1.0, 2.0, 4.0, 5.0]));
    let mode = [("mode", Attribute::Text(b"reflect".to_vec()))];
    let padded = eval("Pad", &mode, &[f32s(&[3], &[0.0, 1.0, 2.0]), i64s(&[2, 3])]);
    assert_eq!(
        padded,
        f32s(&[8], &[2.0, 1.0, 0.0, 1.0, 2.0, 1.0, 0.0, 1.0])
    );
    let joined = eval(
        "Concat",
        &[("axis", Attribute::Int(0))],
        &[y.clone(), y.clone()],
    );
    assert_eq!(joined.shape(), [4, 3]);
    assert_eq!(
        eval("Tile", &[], &[i64s(&[1, 2]), i64s(&[2])]),
        i64s(&[1, 2, 1, 2])
    );
    assert_eq!(
        eval("Expand", &[], &[i64s(&[7]), i64s(&[3])]),
        i64s(&[7, 7, 7])
    );
    let lower = eval("Trilu", &[("upper", Attribute::Int(0))], &[y]);
    assert_eq!(lower, f32s(&[2, 3], &[0.0, 0.0, 0.0, 3.0, 4.0, 0.0]));
}

#[test]
fn elements_are_chosen_and_put() {
    let x = f32s(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let rows = eval("Gather", &[], &[x.clone(), i64s(&[-1, 0])]);
    assert_eq!(rows, f32s(&[2, 2], &[4.0, 5.0, 0.0, 1.0]));
    let beyond = try_eval("Gather", 13, &[], &[Some(x.clone()), Some(i64s(&[3]))]);
    assert!(matches!(beyond, Err(OpError::Invalid { .. })));
    let indices = FloatTensor::of(vec![1, 2], vec![2i64, 1]).unwrap();
    let point = eval("GatherND", &[], &[x.clone(), indices.clone()]);
    assert_eq!(point, f32s(&[1], &[5.0]));
    let add = [("reduction", Attribute::Text(b"add".to_vec()))];
    let put = eval("ScatterND", &add, &[x, indices, f32s(&[1], &[10.0])]);
    assert_eq!(put.values::<f32>().unwrap()[5], 15.0);
    let top = try_eval(
        "TopK",
        11,
        &[("axis", Attribute::Int(0))],
        &[Some(i64s(&[3, 9, 9])), Some(i64s(&[2]))],
    );
    let top = top.unwrap();
    assert_eq!(
        (&top[0], &top[1]),
        (&i64s(&[9, 9]), &i64s(&[1, 2])),
        "ties take the lowest index"
    );
    let found = eval(
        "NonZero",
        &[],
        &[FloatTensor::of(vec![2, 2], vec![1i32, 0, 0, 4]).unwrap()],
    );
    assert_eq!(
        found,
        FloatTensor::of(vec![2, 2], vec![0i64, 1, 0, 1]).unwrap()
    );
    let unique = try_eval("Unique", 11, &[], &[Some(i64s(&[5, 2, 5]))]).unwrap();
    assert_eq!(
        unique,
        [
            i64s(&[2, 5]),
            i64s(&[1, 0]),
            i64s(&[1, 0, 1]),
            i64s(&[1, 2])
        ]
    );
}

#[test]
fn softmax_rows_sum_to_one_and_masked_places_are_zero() {
    let x = f32s(&[1, 3], &[1000.0, f32::NEG_INFINITY, 1000.0]);
    assert_eq!(eval("Softmax", &[], &[x]), f32s(&[1, 3], &[0.5, 0.0, 0.5]));
    let old = try_eval("Softmax", 11, &[], &[Some(f32s(&[1, 2, 2], &[0.0; 4]))]);
    assert_eq!(
        old.unwrap()[0],
        f32s(&[1, 2, 2], &[0.25; 4]),
        "one row before version 13"
    );
}

#[test]
fn layers_are_normalised() {
    let x = f32s(&[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let scale = f32s(&[4], &[1.0, 1.0, 1.0, 2.0]);
    let y = eval(
        "LayerNormalization",
        &[("epsilon", Attribute::Float(0.0))],
        &[x, scale],
    );
    let expected = [-1.341_640_8, -0.447_213_6, 0.447_213_6, 2.683_281_6];
    for (got, want) in y.values::<f32>().unwrap().iter().zip(expected) {
        assert!((got - want).abs() < 1e-6);
    }
    let one = f32s(&[1], &[1.0]);
    let zero = f32s(&[1], &[0.0]);
    let x = f32s(&[1, 1, 2], &[3.0, 5.0]);
    let batch = eval(
        "BatchNormalization",
        &[("epsilon", Attribute::Float(0.0))],
        &[x, one, zero, f32s(&[1], &[4.0]), f32s(&[1], &[4.0])],
    );
    assert_eq!(batch, f32s(&[1, 1, 2], &[-0.5, 0.5]));
}

#[test]
fn products_follow_the_stated_order() {
    let (a, b) = (numbers(1, 5 * 33), numbers(2, 33 * 7));
    let got = eval("MatMul", &[], &[f32s(&[5, 33], &a), f32s(&[33, 7], &b)]);
    let expected: Vec<u32> = (0..35)
        .map(|i| {
            let term = |sum: f32, p: usize| a[i / 7 * 33 + p].mul_add(b[p * 7 + i % 7], sum);
            (0..33).fold(0f32, term).to_bits()
        })
        .collect();
    assert_eq!(bits(&got), expected);
    let equation = [("equation", Attribute::Text(b"bij, jk -> bik".to_vec()))];
    let summed = eval(
        "Einsum",
        &equation,
        &[f32s(&[1, 5, 33], &a), f32s(&[33, 7], &b)],
    );
    assert_eq!(bits(&summed), expected);
    let gemm = [
        ("transB", Attribute::Int(1)),
        ("beta", Attribute::Float(2.0)),
    ];
    let y = eval(
        "Gemm",
        &gemm,
        &[
            f32s(&[1, 2], &[1.0, 2.0]),
            f32s(&[1, 2], &[3.0, 4.0]),
            f32s(&[], &[0.5]),
        ],
    );
    assert_eq!(y, f32s(&[1, 1], &[12.0]));
}

/// The definition, one output at a time: channels, then taps, padding as +0, bias last.
fn naive_conv(
    x: &[f32],
    w: &[f32],
    [c, h, wd]: [usize; 3],
    [o, kh, kw]: [usize; 3],
    pad: usize,
    stride: usize,
) -> Vec<u32> {
    let side = |size: usize, k: usize| (size + 2 * pad - k) / stride + 1;
    let (oh, ow) = (side(h, kh), side(wd, kw));
    let mut out = Vec::new();
    for output in 0..o {
        for row in 0..oh {
            for column in 0..ow {
                let mut sum = 0f32;
                for tap in 0..c * kh * kw {
                    let (channel, i, j) = (tap / (kh * kw), tap / kw % kh, tap % kw);
                    let place = (row * stride + i)
                        .checked_sub(pad)
                        .zip((column * stride + j).checked_sub(pad));
                    let value = place.filter(|&(r, q)| r < h && q < wd);
                    let value = value.map_or(0.0, |(r, q)| x[(channel * h + r) * wd + q]);
                    sum = w[output * c * kh * kw + tap].mul_add(value, sum);
                }
                out.push((sum + output as f32).to_bits());
            }
        }
    }
    out
}

#[test]
fn convolutions_follow_the_stated_order_at_every_level() {
    for (stride, pad) in [(1, 1), (2, 0), (2, 2)] {
        let (x, w) = (numbers(3, 3 * 9 * 8), numbers(4, 5 * 3 * 3 * 2));
        let bias: Vec<f32> = (0..5).map(|k| k as f32).collect();
        let inputs = [
            f32s(&[1, 3, 9, 8], &x),
            f32s(&[5, 3, 3, 2], &w),
            f32s(&[5], &bias),
        ];
        let (s, p) = (stride as i64, pad as i64);
        let attributes = [("strides", ints(&[s, s])), ("pads", ints(&[p, p, p, p]))];
        let expected = naive_conv(&x, &w, [3, 9, 8], [5, 3, 2], pad, stride);
        for level in SimdLevel::available() {
            let cpu = Cpu::with_level(level, 2).unwrap();
            let got = with_cpu(cpu, || eval("Conv", &attributes, &inputs));
            assert_eq!(bits(&got), expected, "{level:?}");
        }
        // The same through the general path: a third spatial axis of one.
        let deep = [
            f32s(&[1, 3, 1, 9, 8], &x),
            f32s(&[5, 3, 1, 3, 2], &w),
            f32s(&[5], &bias),
        ];
        let attributes = [
            ("strides", ints(&[1, s, s])),
            ("pads", ints(&[0, p, p, 0, p, p])),
        ];
        assert_eq!(bits(&eval("Conv", &attributes, &deep)), expected);
    }
}

#[test]
fn functions_are_bit_equal_at_every_level() {
    let x = f32s(
        &[4096],
        &numbers(9, 4096)
            .iter()
            .map(|v| v * 20.0)
            .collect::<Vec<_>>(),
    );
    for op in [
        "Exp", "Log", "Tanh", "Erf", "Sigmoid", "Gelu", "Softmax", "Softplus", "Sin",
    ] {
        let of = |level| {
            with_cpu(Cpu::with_level(level, 1).unwrap(), || {
                bits(&eval(op, &[], std::slice::from_ref(&x)))
            })
        };
        let scalar = of(SimdLevel::Scalar);
        for level in SimdLevel::available() {
            assert_eq!(of(level), scalar, "{op} {level:?}");
        }
    }
}

#[test]
fn windows_are_pooled() {
    let x = f32s(
        &[1, 1, 3, 3],
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    );
    let kernel = ("kernel_shape", ints(&[2, 2]));
    let max = try_eval(
        "MaxPool",
        12,
        std::slice::from_ref(&kernel),
        &[Some(x.clone())],
    )
    .unwrap();
    assert_eq!(max[0], f32s(&[1, 1, 2, 2], &[5.0, 6.0, 8.0, 9.0]));
    assert_eq!(max[1].values::<i64>(), Some(&[4i64, 5, 7, 8][..]));
    let pads = ("pads", ints(&[1, 1, 0, 0]));
    let mean = eval(
        "AveragePool",
        &[kernel.clone(), pads.clone()],
        std::slice::from_ref(&x),
    );
    assert_eq!(mean.values::<f32>().unwrap()[..4], [1.0, 1.5, 2.5, 2.5]);
    let counted = [kernel, pads, ("count_include_pad", Attribute::Int(1))];
    let mean = eval("AveragePool", &counted, &[x]);
    assert_eq!(mean.values::<f32>().unwrap()[..3], [0.25, 0.75, 1.25]);
}

#[test]
fn quantised_operators_round_to_even() {
    let x = f32s(&[4], &[0.5, 1.5, -2.5, 1000.0]);
    let q = eval(
        "QuantizeLinear",
        &[],
        &[x, FloatTensor::scalar(1f32), FloatTensor::scalar(3u8)],
    );
    assert_eq!(q, FloatTensor::vector(vec![3u8, 5, 1, 255]));
    let d = eval(
        "DequantizeLinear",
        &[],
        &[q, FloatTensor::scalar(0.5f32), FloatTensor::scalar(3u8)],
    );
    assert_eq!(d, f32s(&[4], &[0.0, 1.0, -1.0, 126.0]));
    let a = FloatTensor::of(vec![1, 2], vec![3u8, 4]).unwrap();
    let b = FloatTensor::of(vec![2, 1], vec![5i8, -6]).unwrap();
    let sums = eval(
        "MatMulInteger",
        &[],
        &[a, b, FloatTensor::scalar(1u8), FloatTensor::scalar(0i8)],
    );
    assert_eq!(sums, FloatTensor::of(vec![1, 1], vec![-8i32]).unwrap());
}

#[test]
fn a_long_memory_keeps_what_its_gates_say() {
    // Zero weights, biases that open input and output and close forget: c = tanh(1), h = tanh(c), almost.
    let mut bias = vec![0f32; 8];
    bias[..4].copy_from_slice(&[30.0, 30.0, -30.0, 1.0]);
    let inputs = [
        f32s(&[1, 1, 1], &[7.0]),
        f32s(&[1, 4, 1], &[0.0; 4]),
        f32s(&[1, 4, 1], &[0.0; 4]),
        f32s(&[1, 8], &bias),
    ];
    let inputs: Vec<Option<FloatTensor>> = inputs.into_iter().map(Some).collect();
    let out = try_eval("LSTM", 14, &[("hidden_size", Attribute::Int(1))], &inputs).unwrap();
    let memory = out[2].values::<f32>().unwrap()[0];
    assert!((memory - 1f32.tanh()).abs() < 1e-6);
    assert!((out[1].values::<f32>().unwrap()[0] - memory.tanh()).abs() < 1e-6);
    assert_eq!(out[0].shape(), [1, 1, 1, 1]);
}

#[test]
fn attention_looks_back_and_never_ahead() {
    let (q, k) = (
        f32s(&[1, 1, 2, 1], &[1.0, 1.0]),
        f32s(&[1, 1, 2, 1], &[0.0, 0.0]),
    );
    let v = f32s(&[1, 1, 2, 1], &[2.0, 4.0]);
    let causal = [("is_causal", Attribute::Int(1))];
    let y = eval("Attention", &causal, &[q.clone(), k.clone(), v.clone()]);
    assert_eq!(y, f32s(&[1, 1, 2, 1], &[2.0, 3.0]));
    let mask = FloatTensor::of(vec![2, 2], vec![false, true, false, false]).unwrap();
    let y = eval("Attention", &[], &[q, k, v, mask]);
    assert_eq!(
        y,
        f32s(&[1, 1, 2, 1], &[4.0, 0.0]),
        "a row that sees nothing is zero"
    );
}

#[test]
fn trees_decide() {
    let list =
        |values: &[&str]| Attribute::Texts(values.iter().map(|v| v.as_bytes().to_vec()).collect());
    let attributes = [
        ("nodes_treeids", ints(&[0, 0, 0])),
        ("nodes_nodeids", ints(&[0, 1, 2])),
        ("nodes_featureids", ints(&[1, 0, 0])),
        ("nodes_truenodeids", ints(&[1, 0, 0])),
        ("nodes_falsenodeids", ints(&[2, 0, 0])),
        ("nodes_modes", list(&["BRANCH_LEQ", "LEAF", "LEAF"])),
        ("nodes_values", Attribute::Floats(vec![0.5, 0.0, 0.0])),
        ("target_treeids", ints(&[0, 0])),
        ("target_nodeids", ints(&[1, 2])),
        ("target_ids", ints(&[0, 0])),
        ("target_weights", Attribute::Floats(vec![-1.0, 7.0])),
    ];
    let mut tree = node("TreeEnsembleRegressor", 3, &attributes, 1, 1);
    tree.domain = "ai.onnx.ml".to_owned();
    let x = f32s(&[2, 2], &[9.0, 0.5, 9.0, 0.6]);
    let y = evaluate(&tree, &[Some(&x)], &Budget::default()).unwrap();
    assert_eq!(y[0], f32s(&[2, 1], &[-1.0, 7.0]));
    // A node that is its own child never reaches a leaf.
    let modes = list(&["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"]);
    for (name, attribute) in [
        ("nodes_truenodeids", ints(&[1, 1, 0])),
        ("nodes_falsenodeids", ints(&[2, 1, 0])),
        ("nodes_modes", modes),
    ] {
        tree.attributes.insert(name.to_owned(), attribute);
    }
    let circle = evaluate(&tree, &[Some(&x)], &Budget::default());
    assert!(matches!(circle, Err(OpError::Invalid { .. })));
}

#[test]
fn images_are_resampled() {
    let x = f32s(&[1, 1, 1, 2], &[1.0, 3.0]);
    let none = FloatTensor::vector(Vec::<f32>::new());
    let scales = FloatTensor::vector(vec![1f32, 1.0, 1.0, 2.0]);
    let linear = [("mode", Attribute::Text(b"linear".to_vec()))];
    let y = eval(
        "Resize",
        &linear,
        &[x.clone(), none.clone(), scales.clone()],
    );
    assert_eq!(y, f32s(&[1, 1, 1, 4], &[1.0, 1.5, 2.5, 3.0]));
    let nearest = eval("Resize", &[], &[x, none, scales]);
    assert_eq!(nearest, f32s(&[1, 1, 1, 4], &[1.0, 1.0, 3.0, 3.0]));
}

/// x -> Exp -> a; a + x -> y, with a second output a.
fn small_graph() -> Graph {
    let mut graph = Graph::default();
    let [x, a, y] = ["x", "a", "y"].map(|name| graph.fresh(name));
    graph.inputs.push(Input {
        value: x,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: None,
    });
    graph.append(Node::new("e", "Exp", 13, vec![x], vec![a]));
    graph.append(Node::new("s", "Add", 13, vec![a, x], vec![y]));
    graph.outputs = vec![y, a, y];
    graph
}

#[test]
fn graphs_run_within_their_budget() {
    let graph = small_graph();
    let x = f32s(&[2], &[0.0, 0.0]);
    let results = run(&graph, &[&x], &Budget::default()).unwrap();
    assert_eq!(
        results,
        [
            f32s(&[2], &[1.0; 2]),
            f32s(&[2], &[1.0; 2]),
            f32s(&[2], &[1.0; 2])
        ]
    );
    let all = run_all(&graph, &[&x], &Budget::default()).unwrap();
    assert_eq!(all.len(), 2);
    let tight = Budget {
        bytes: 12,
        ..Budget::default()
    };
    let error = run(&graph, &[&x], &tight).unwrap_err();
    assert!(matches!(
        &error,
        RunError::Node { op, source: OpError::Memory { bytes: 8, left: 4 }, .. } if op == "Add"
    ));
    let wrong = run(&graph, &[&i64s(&[1])], &Budget::default()).unwrap_err();
    assert!(matches!(wrong, RunError::Input { .. }));
    let mut fixed = small_graph();
    fixed.inputs[0].shape = Some(vec![crate::Dim::Known(3)]);
    let wrong = run(&fixed, &[&x], &Budget::default()).unwrap_err();
    assert!(matches!(wrong, RunError::Input { .. }));
    assert!(matches!(
        run(&graph, &[], &Budget::default()),
        Err(RunError::Inputs { .. })
    ));
}

#[test]
fn hostile_sizes_are_refused_before_memory_is_taken() {
    let huge = i64s(&[1 << 40, 1 << 40]);
    let memory = |result: Result<Vec<FloatTensor>, OpError>| {
        assert!(matches!(result, Err(OpError::Memory { .. })), "{result:?}");
    };
    memory(try_eval("ConstantOfShape", 9, &[], &[Some(huge.clone())]));
    memory(try_eval("Expand", 13, &[], &[Some(i64s(&[1])), Some(huge)]));
    memory(try_eval(
        "Tile",
        13,
        &[],
        &[Some(i64s(&[1, 2])), Some(i64s(&[i64::MAX]))],
    ));
    let scalar = |v: i64| Some(FloatTensor::scalar(v));
    memory(try_eval(
        "Range",
        11,
        &[],
        &[scalar(0), scalar(i64::MAX), scalar(1)],
    ));
    memory(try_eval(
        "Pad",
        18,
        &[],
        &[Some(i64s(&[1])), Some(i64s(&[1 << 50, 1 << 50]))],
    ));
    let x = f32s(&[1, 1, 2, 2], &[0.0; 4]);
    let pads = [("pads", ints(&[1 << 30; 4]))];
    // Its padding alone is more work than can be counted.
    let conv = try_eval("Conv", 11, &pads, &[Some(x.clone()), Some(x)]);
    assert!(matches!(conv, Err(OpError::Work { .. })), "{conv:?}");
    assert_eq!(try_eval("Nothing", 1, &[], &[]), Err(OpError::Unknown));
}

proptest! {
    /// Splitting and joining, padding and slicing, gathering by a permutation and its inverse: each gives `x` back.
    #[test]
    fn movements_undo_each_other(rows in 1usize..5, columns in 1usize..6, cut in 0usize..6, seed in any::<u32>()) {
        let x = f32s(&[rows, columns], &numbers(seed, rows * columns));
        let cut = cut.min(columns) as i64;
        let axis = [("axis", Attribute::Int(1))];
        let parts = try_eval("Split", 13, &axis, &[Some(x.clone()), Some(i64s(&[cut, columns as i64 - cut]))]).unwrap();
        prop_assert_eq!(&eval("Concat", &axis, &parts[..2]), &x);
        let padded = eval("Pad", &[], &[x.clone(), i64s(&[1, cut, 2, 3])]);
        let (from, to) = (i64s(&[1, cut]), i64s(&[1 + rows as i64, cut + columns as i64]));
        prop_assert_eq!(&eval("Slice", &[], &[padded, from, to]), &x);
        let order: Vec<i64> = (0..columns as i64).map(|k| (k + cut) % columns as i64).collect();
        let mut back = vec![0i64; columns];
        for (k, &place) in order.iter().enumerate() {
            back[place as usize] = k as i64;
        }
        let there = eval("Gather", &axis, &[x.clone(), i64s(&order)]);
        prop_assert_eq!(&eval("Gather", &axis, &[there, i64s(&back)]), &x);
    }

    /// A product of a batch is the products of its items.
    #[test]
    fn batches_are_independent(batch in 1usize..4, m in 1usize..5, n in 1usize..20, k in 1usize..9, seed in any::<u32>()) {
        let (a, b) = (numbers(seed, batch * m * k), numbers(seed ^ 1, k * n));
        let all = eval("MatMul", &[], &[f32s(&[batch, m, k], &a), f32s(&[k, n], &b)]);
        let items: Vec<u32> = a
            .chunks(m * k)
            .flat_map(|a| bits(&eval("MatMul", &[], &[f32s(&[m, k], a), f32s(&[k, n], &b)])))
            .collect();
        prop_assert_eq!(bits(&all), items);
    }

    /// Softmax, norms and sums of a row do not depend on the rows beside it.
    #[test]
    fn rows_are_independent(rows in 1usize..20, size in 1usize..9, seed in any::<u32>()) {
        let x = numbers(seed, rows * size);
        for op in ["Softmax", "LayerNormalization", "LogSoftmax"] {
            let inputs = |shape: &[usize], values: &[f32]| {
                let mut inputs = vec![f32s(shape, values)];
                if op == "LayerNormalization" {
                    inputs.push(f32s(&[1], &[1.5]));
                }
                inputs
            };
            let all = bits(&eval(op, &[], &inputs(&[rows, size], &x)));
            let each: Vec<u32> = x
                .chunks(size)
                .flat_map(|row| bits(&eval(op, &[], &inputs(&[1, size], row))))
                .collect();
            prop_assert_eq!(all, each);
        }
    }
}
