//! What a unit of work costs: nanoseconds a unit for operators of every kind, on this machine.
//!
//! `cargo run --release -p tg-float --example work` (`-- scalar` without vector instructions)
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::too_many_lines,
    reason = "an example; its cases are a table"
)]

use std::time::Instant;
use tg_exec::kernels::{Cpu, SimdLevel};
use tg_float::tgf::{Budget, run_in_order, with_cpu};
use tg_float::{Attribute, DType, Data, FloatTensor, Graph, Input, Node};

/// A node: operator, inputs as type and sizes, attributes.
struct Case(
    &'static str,
    &'static [(DType, &'static [usize])],
    Vec<(&'static str, Attribute)>,
);

fn cases() -> Vec<Case> {
    use DType::{Bool, F32, F64, I64, U8};
    let ints = |values: &[i64]| Attribute::Ints(values.to_vec());
    let text = |value: &str| Attribute::Text(value.as_bytes().to_vec());
    vec![
        Case("MatMul", &[(F32, &[512, 512]), (F32, &[512, 512])], vec![]),
        Case("MatMul", &[(F32, &[1, 2048]), (F32, &[2048, 2048])], vec![]),
        Case(
            "MatMul",
            &[(F32, &[4096, 8, 8]), (F32, &[4096, 8, 8])],
            vec![],
        ),
        Case("MatMul", &[(F64, &[128, 256]), (F64, &[256, 128])], vec![]),
        Case("MatMul", &[(I64, &[128, 128]), (I64, &[128, 128])], vec![]),
        Case(
            "MatMulInteger",
            &[(U8, &[128, 256]), (U8, &[256, 128])],
            vec![],
        ),
        Case(
            "Conv",
            &[(F32, &[1, 64, 56, 56]), (F32, &[64, 64, 3, 3])],
            vec![("pads", ints(&[1; 4]))],
        ),
        Case(
            "Conv",
            &[(F32, &[1, 64, 56, 56]), (F32, &[64, 1, 3, 3])],
            vec![("pads", ints(&[1; 4])), ("group", Attribute::Int(64))],
        ),
        Case(
            "Conv",
            &[(F32, &[1, 8, 16, 16, 16]), (F32, &[8, 8, 3, 3, 3])],
            vec![],
        ),
        Case(
            "ConvTranspose",
            &[(F32, &[1, 32, 28, 28]), (F32, &[32, 32, 3, 3])],
            vec![],
        ),
        Case(
            "ConvInteger",
            &[(U8, &[1, 16, 28, 28]), (U8, &[16, 16, 3, 3])],
            vec![],
        ),
        Case(
            "DeformConv",
            &[
                (F32, &[1, 8, 16, 16]),
                (F32, &[8, 8, 3, 3]),
                (F32, &[1, 18, 14, 14]),
            ],
            vec![],
        ),
        Case(
            "LSTM",
            &[
                (F32, &[16, 8, 64]),
                (F32, &[1, 256, 64]),
                (F32, &[1, 256, 64]),
            ],
            vec![],
        ),
        Case(
            "GRU",
            &[
                (F32, &[16, 8, 64]),
                (F32, &[1, 192, 64]),
                (F32, &[1, 192, 64]),
            ],
            vec![],
        ),
        Case(
            "Attention",
            &[
                (F32, &[1, 8, 128, 64]),
                (F32, &[1, 8, 128, 64]),
                (F32, &[1, 8, 128, 64]),
            ],
            vec![],
        ),
        Case(
            "Einsum",
            &[(F32, &[64, 64]), (F32, &[64, 64])],
            vec![("equation", text("ij,jk->ik"))],
        ),
        Case(
            "Einsum",
            &[(F32, &[32, 32]), (F32, &[32, 32]), (F32, &[32])],
            vec![("equation", text("ij,jk,k->i"))],
        ),
        Case("Det", &[(F32, &[64, 16, 16])], vec![]),
        Case(
            "MaxPool",
            &[(F32, &[1, 64, 56, 56])],
            vec![("kernel_shape", ints(&[3, 3])), ("strides", ints(&[2, 2]))],
        ),
        Case(
            "AveragePool",
            &[(F32, &[1, 64, 56, 56])],
            vec![("kernel_shape", ints(&[3, 3]))],
        ),
        Case(
            "MaxPool",
            &[(F32, &[1, 8, 16, 16, 16])],
            vec![("kernel_shape", ints(&[2, 2, 2]))],
        ),
        Case(
            "LpPool",
            &[(F32, &[1, 8, 32, 32])],
            vec![("kernel_shape", ints(&[3, 3])), ("p", Attribute::Int(3))],
        ),
        Case(
            "GridSample",
            &[(F32, &[1, 8, 32, 32]), (F32, &[1, 32, 32, 2])],
            vec![],
        ),
        Case(
            "GridSample",
            &[(F32, &[1, 4, 8, 8, 8]), (F32, &[1, 8, 8, 8, 3])],
            vec![("mode", text("cubic"))],
        ),
        Case(
            "DFT",
            &[(F32, &[4, 512, 1])],
            vec![("axis", Attribute::Int(1))],
        ),
        Case("Add", &[(F32, &[1 << 20]), (F32, &[1 << 20])], vec![]),
        Case("Add", &[(I64, &[1 << 18]), (I64, &[1 << 18])], vec![]),
        Case("Div", &[(I64, &[1 << 18]), (I64, &[1 << 18])], vec![]),
        Case("Relu", &[(F32, &[1 << 20])], vec![]),
        Case("Exp", &[(F32, &[1 << 20])], vec![]),
        Case("Exp", &[(F64, &[1 << 18])], vec![]),
        Case("Sin", &[(F32, &[1 << 18])], vec![]),
        Case("Atanh", &[(F32, &[1 << 18])], vec![]),
        Case("Pow", &[(F32, &[1 << 18]), (F32, &[1 << 18])], vec![]),
        Case("Pow", &[(F64, &[1 << 16]), (F64, &[1 << 16])], vec![]),
        Case(
            "Mod",
            &[(F32, &[1 << 18]), (F32, &[1 << 18])],
            vec![("fmod", Attribute::Int(1))],
        ),
        Case("Erf", &[(F32, &[1 << 20])], vec![]),
        Case("Gelu", &[(F32, &[1 << 20])], vec![]),
        Case("Softmax", &[(F32, &[1 << 10, 1 << 10])], vec![]),
        Case(
            "Softmax",
            &[(F32, &[64, 64, 64])],
            vec![("axis", Attribute::Int(1))],
        ),
        Case(
            "LayerNormalization",
            &[(F32, &[1 << 10, 768]), (F32, &[768]), (F32, &[768])],
            vec![],
        ),
        Case(
            "LRN",
            &[(F32, &[1, 32, 32, 32])],
            vec![("size", Attribute::Int(5))],
        ),
        Case("ReduceSum", &[(F32, &[1 << 10, 1 << 10])], vec![]),
        Case("ArgMax", &[(F32, &[1 << 10, 1 << 10])], vec![]),
        Case("CumSum", &[(F32, &[1 << 10, 1 << 8]), (I64, &[])], vec![]),
        Case("Transpose", &[(F32, &[1 << 10, 1 << 10])], vec![]),
        Case(
            "Transpose",
            &[(U8, &[64, 64, 64, 4])],
            vec![("perm", ints(&[3, 1, 2, 0]))],
        ),
        Case(
            "Cast",
            &[(F32, &[1 << 18])],
            vec![("to", Attribute::Int(10))],
        ),
        Case(
            "Cast",
            &[(F32, &[1 << 14])],
            vec![("to", Attribute::Int(8))],
        ),
        Case("QuantizeLinear", &[(F32, &[1 << 18]), (F32, &[])], vec![]),
        Case(
            "Where",
            &[(Bool, &[1 << 18]), (F32, &[1 << 18]), (F32, &[1 << 18])],
            vec![],
        ),
        Case(
            "TopK",
            &[(F32, &[16, 1 << 14])],
            vec![("axis", Attribute::Int(1)), ("k", Attribute::Int(5))],
        ),
        Case("Unique", &[(F32, &[1 << 16])], vec![]),
        Case("NonZero", &[(F32, &[1 << 18])], vec![]),
        Case(
            "ScatterElements",
            &[(F32, &[256, 256]), (I64, &[256, 256]), (F32, &[256, 256])],
            vec![],
        ),
        Case(
            "GatherElements",
            &[(F32, &[256, 256]), (I64, &[256, 256])],
            vec![],
        ),
        Case(
            "Gather",
            &[(F32, &[1 << 12, 64]), (I64, &[1 << 12])],
            vec![],
        ),
        Case("Neg", &[(F32, &[1])], vec![]),
        Case("Reshape", &[(F32, &[1, 1, 1]), (I64, &[1])], vec![]),
    ]
}

/// Values near one, places and lengths near nothing.
fn tensor(dtype: DType, shape: &[usize]) -> FloatTensor {
    let count: usize = shape.iter().product();
    let at = |index: usize| (index * 2_654_435_761 % 1_000) as f64 / 1_000.0;
    let data = match dtype {
        DType::F32 => Data::F32((0..count).map(|index| at(index) as f32 + 0.001).collect()),
        DType::F64 => Data::F64((0..count).map(|index| at(index) + 0.001).collect()),
        DType::I64 => Data::I64(vec![1; count]),
        DType::Bool => Data::Bool((0..count).map(|index| at(index) < 0.5).collect()),
        other => Data::zeros(other, count),
    };
    FloatTensor::new(shape.to_vec(), data).unwrap()
}

fn main() {
    let scalar = std::env::args().any(|word| word == "scalar");
    let cpu = || {
        if scalar {
            Cpu::with_level(SimdLevel::Scalar, 1).unwrap()
        } else {
            Cpu::new(1)
        }
    };
    println!(
        "{:<20} {:>14} {:>12} {:>10}",
        "operator", "units", "us", "ns/unit"
    );
    for Case(op, inputs, attributes) in cases() {
        let mut graph = Graph::default();
        let mut values = Vec::new();
        for (index, _) in inputs.iter().enumerate() {
            let value = graph.fresh(format!("x{index}"));
            graph.inputs.push(Input {
                value,
                name: String::new(),
                dtype: None,
                shape: None,
            });
            values.push(value);
        }
        let output = graph.fresh("y");
        let mut node = Node::new(op, op, 22, values, vec![output]);
        let described = attributes
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(" ");
        for (name, attribute) in attributes {
            node = node.with(name, attribute);
        }
        graph.append(node);
        graph.outputs.push(output);
        let tensors: Vec<FloatTensor> = inputs
            .iter()
            .map(|(dtype, shape)| tensor(*dtype, shape))
            .collect();
        let given: Vec<&FloatTensor> = tensors.iter().collect();
        with_cpu(cpu(), || {
            let first = run_in_order(&graph, &given, &Budget::default());
            if let Err(error) = &first.result {
                println!("{op}: {error:?}");
                return;
            }
            let (start, mut rounds) = (Instant::now(), 0u32);
            while rounds < 3 || start.elapsed().as_millis() < 60 {
                let _ = run_in_order(&graph, &given, &Budget::default());
                rounds += 1;
            }
            let us = start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
            let per_unit = us * 1e3 / first.work as f64;
            println!(
                "{op:<20} {:>14} {us:>12.1} {per_unit:>10.3}  {:?} {described}",
                first.work, inputs[0].1
            );
        });
    }
}
