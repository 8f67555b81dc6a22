//! Quantised operators as onnxruntime writes them: the file's own integers, at most one step off per rounding.

use crate::graphs::{Writer, rows};
use tg_compile::integer::Precision;
use tg_compile::{CompileOptions, PrecisionChoice, compile};
use tg_exec::execute_tensor;
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};
use tg_ir::coding;

/// Scale and zero point of a value, as constants.
fn unit(writer: &mut Writer, scale: f32, zero: u8) -> [ValueId; 2] {
    [writer.scalar(scale), writer.zero_point(zero)]
}

fn quantised_input(writer: &mut Writer, shape: &[usize], unit: [ValueId; 2]) -> ValueId {
    let x = writer.input("x", DType::F32, shape);
    writer.node("QuantizeLinear", &[x, unit[0], unit[1]], &[])
}

/// Steps by which the program differs from the graph in floats, at most, and the share of outputs that do.
fn steps(graph: Graph, length: usize, scale: f64) -> (f64, f64) {
    let inputs = rows(31, 24, length);
    let options = CompileOptions {
        precision: PrecisionChoice::Fixed(Precision::Bits8),
        ..CompileOptions::default()
    };
    let compiled = compile(graph, &inputs, &options)
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
    let (mut greatest, mut differing, mut count) = (0f64, 0u32, 0u32);
    for row in &inputs {
        let encoded = coding::encode(&compiled.model.program.input, row).unwrap();
        let trace = execute_tensor(&compiled.model, encoded).unwrap();
        let integers = compiled.in_file_order(trace.output());
        for (float, integer) in compiled.float_output(row).unwrap().iter().zip(integers) {
            let real =
                (f64::from(integer) - compiled.output().zero as f64) * compiled.output().scale;
            let off = ((f64::from(*float) - real) / scale).abs();
            greatest = greatest.max(off);
            differing += u32::from(off > 0.5);
            count += 1;
        }
    }
    (greatest, f64::from(differing) / f64::from(count))
}

/// One rounding of products and two of sums may fall the other way, rarely.
fn check(graph: Graph, length: usize, scale: f64, most: f64) {
    let (greatest, share) = steps(graph, length, scale);
    assert!(greatest < most + 0.01, "{greatest} steps");
    assert!(share < 0.1, "{share}");
}

fn dequantised(writer: &mut Writer, value: ValueId, unit: [ValueId; 2]) -> ValueId {
    writer.node("DequantizeLinear", &[value, unit[0], unit[1]], &[])
}

#[test]
fn a_quantised_gemm_is_within_a_step() {
    let mut writer = Writer::new(30);
    let a = unit(&mut writer, 1.0 / 127.0, 128);
    let x = quantised_input(&mut writer, &[1, 20], a);
    let w = writer.bytes(&[7, 20], true);
    let scales = writer.constant(&[7], (1..8).map(|c| 0.002 * c as f32).collect());
    let zeros = writer
        .graph
        .constant("zeros", FloatTensor::of(vec![7], vec![0i8; 7]).unwrap());
    let bias =
        FloatTensor::of(vec![7], (0..7).map(|b| b * 100 - 300).collect::<Vec<i32>>()).unwrap();
    let bias = writer.graph.constant("bias", bias);
    let y = unit(&mut writer, 0.02, 120);
    let inputs = [x, a[0], a[1], w, scales, zeros, bias, y[0], y[1]];
    let attributes = [("transB", Attribute::Int(1))];
    let result = writer.nodes(("com.microsoft", "QGemm"), &inputs, &attributes, 1)[0];
    let real = dequantised(&mut writer, result, y);
    check(writer.finish(real), 20, f64::from(0.02f32), 1.0);
}

#[test]
fn a_quantised_sum_is_within_a_step() {
    let mut writer = Writer::new(32);
    let a = unit(&mut writer, 1.0 / 127.0, 128);
    let x = quantised_input(&mut writer, &[1, 30], a);
    let b = unit(&mut writer, 0.013, 3);
    let real = dequantised(&mut writer, x, a);
    let clipped = writer.node("Relu", &[real], &[]);
    let second = writer.node("QuantizeLinear", &[clipped, b[0], b[1]], &[]);
    let y = unit(&mut writer, 0.021, 90);
    let inputs = [x, a[0], a[1], second, b[0], b[1], y[0], y[1]];
    let result = writer.nodes(("com.microsoft", "QLinearAdd"), &inputs, &[], 1)[0];
    let real = dequantised(&mut writer, result, y);
    check(writer.finish(real), 30, f64::from(0.021f32), 1.0);
}

#[test]
fn a_quantised_average_is_within_a_step() {
    let mut writer = Writer::new(33);
    let a = unit(&mut writer, 1.0 / 127.0, 128);
    let x = quantised_input(&mut writer, &[1, 3, 4, 4], a);
    let y = unit(&mut writer, 0.004, 100);
    let inputs = [x, a[0], a[1], y[0], y[1]];
    let domain = ("com.microsoft", "QLinearGlobalAveragePool");
    let result = writer.nodes(domain, &inputs, &[], 1)[0];
    let real = dequantised(&mut writer, result, y);
    check(writer.finish(real), 48, f64::from(0.004f32), 1.0);
}

/// Scales that every input chooses become scales of calibration: near the file's own result, not equal.
#[test]
fn dynamic_quantisation_becomes_static() {
    let mut writer = Writer::new(34);
    let x = writer.input("x", DType::F32, &[1, 16]);
    let [q, scale, zero] = writer.nodes(("", "DynamicQuantizeLinear"), &[x], &[], 3)[..] else {
        panic!("three outputs");
    };
    let w = writer.bytes(&[16, 5], true);
    let sums = writer.node("MatMulInteger", &[q, w, zero], &[]);
    let floats = writer.node("Cast", &[sums], &[("to", Attribute::Int(1))]);
    let unit = writer.scalar(0.01);
    let both = writer.node("Mul", &[scale, unit], &[]);
    let y = writer.node("Mul", &[floats, both], &[]);
    let graph = writer.finish(y);
    let inputs = rows(35, 24, 16);
    let compiled = compile(graph.clone(), &inputs, &CompileOptions::default()).unwrap();
    assert!(compiled.report.output_snr_db() > 38.0);
    let names: Vec<&str> = compiled
        .model
        .program
        .nodes
        .iter()
        .map(|node| node.op.name())
        .collect();
    assert_eq!(names, ["Dense"]);
    // The file itself, with its dynamic scale, is as near as 8 bits are.
    for row in &inputs {
        let given = FloatTensor::of(vec![1, 16], row.clone()).unwrap();
        let budget = tg_float::tgf::Budget::default();
        let own = tg_float::tgf::run(&graph, &[&given], &budget).unwrap();
        let own: &[f32] = own[0].values().unwrap();
        for (own, ours) in own.iter().zip(compiled.float_output(row).unwrap()) {
            assert!((own - ours).abs() < 0.1, "{own} {ours}");
        }
    }
}
