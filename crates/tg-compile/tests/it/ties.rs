//! Weights that a file has once: the program has them once too, and computes what the floats do.

use crate::graphs::{Writer, rows};
use crate::lowering::measured;
use tg_compile::Compiled;
use tg_compile::integer::Precision;
use tg_exec::sample::Numbers;
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};
use tg_ir::op;
use tg_ir::{Op, Tie};

const VOCABULARY: usize = 40;
const WIDTH: usize = 16;
const TOKENS: usize = 6;

/// Rows of tokens.
fn tokens(count: usize) -> Vec<Vec<f32>> {
    let mut numbers = Numbers::new(4);
    let mut row = || {
        let token = |_| numbers.between(0, VOCABULARY as i64 - 1) as f32;
        (0..TOKENS).map(token).collect()
    };
    (0..count).map(|_| row()).collect()
}

/// How a file writes the product with the embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Transpose,
    Gemm,
    Copy,
    /// Another matrix.
    Apart,
}

/// Rows of tokens, a layer, a normalisation with gains, scores of the vocabulary.
fn language_model(written: Written) -> Graph {
    let mut writer = Writer::new(9);
    let x = writer.input("tokens", DType::I64, &[1, TOKENS]);
    let table = writer.weights(&[VOCABULARY, WIDTH]);
    let x = writer.node("Gather", &[table, x], &[]);
    let w = writer.weights(&[WIDTH, WIDTH]);
    let y = writer.node("MatMul", &[x, w], &[]);
    let x = writer.node("Add", &[x, y], &[]);
    let gains = (0..WIDTH).map(|i| 0.5 + i as f32 / 8.0).collect();
    let gain = writer.constant(&[WIDTH], gains);
    let offset = writer.weights(&[WIDTH]);
    let axis = [("axis", Attribute::Int(-1))];
    let x = writer.node("LayerNormalization", &[x, gain, offset], &axis);
    let y = match written {
        Written::Transpose => {
            let order = [("perm", Attribute::Ints(vec![1, 0]))];
            let transposed = writer.node("Transpose", &[table], &order);
            writer.node("MatMul", &[x, transposed], &[])
        }
        Written::Gemm => {
            let shape = writer.ints(&[TOKENS as i64, WIDTH as i64]);
            let flat = writer.node("Reshape", &[x, shape], &[]);
            writer.node("Gemm", &[flat, table], &[("transB", Attribute::Int(1))])
        }
        Written::Copy => {
            let copy = transposed(&writer, table);
            let w = writer.constant(&[WIDTH, VOCABULARY], copy);
            writer.node("MatMul", &[x, w], &[])
        }
        Written::Apart => {
            let w = writer.weights(&[WIDTH, VOCABULARY]);
            writer.node("MatMul", &[x, w], &[])
        }
    };
    writer.finish(y)
}

fn transposed(writer: &Writer, table: ValueId) -> Vec<f32> {
    let tensor: &FloatTensor = &writer.graph.constants[&table];
    let values = tg_float::convert::to_f32(tensor.data()).unwrap();
    let place = |index: usize| values[index % VOCABULARY * WIDTH + index / VOCABULARY];
    (0..values.len()).map(place).collect()
}

/// The operators of the nodes that are tied, and of their owners.
fn ties(compiled: &Compiled) -> Vec<[&'static str; 2]> {
    let program = &compiled.model.program;
    let name = |node: u32| program.nodes[node as usize].op.name();
    let pair = |&Tie { node, to }: &Tie| [name(node), name(to)];
    program.ties.iter().map(pair).collect()
}

#[test]
fn tied_embeddings_are_one_tensor_however_they_are_written() {
    let inputs = tokens(12);
    for written in [Written::Transpose, Written::Gemm, Written::Copy] {
        for (precision, least) in [
            (Precision::Bits8, 25.0),
            (Precision::Mixed, 25.0),
            (Precision::Bits16, 25.0),
        ] {
            let (compiled, snr) = measured(language_model(written), &inputs, precision);
            let place = format!("{written:?} {precision:?}");
            assert_eq!(ties(&compiled), [["Conv", "Embed"]], "{place}");
            assert!(snr > least, "{place}: {snr} dB");
            let program = &compiled.model.program;
            let Tie { node, to } = program.ties[0];
            assert_eq!(node as usize + 1, program.nodes.len(), "{place}");
            let Op::Embed(op::Embed { rows, .. }) = program.nodes[to as usize].op else {
                panic!("{place}");
            };
            assert_eq!(rows as usize, VOCABULARY);
            let held: usize = compiled
                .model
                .weights
                .layers
                .iter()
                .map(|l| l.weights.len())
                .sum();
            let tables = if precision == Precision::Bits8 { 1 } else { 2 };
            // The gains of the normalisation stay a layer of their own.
            assert_eq!(
                held,
                tables * VOCABULARY * WIDTH + WIDTH * WIDTH + WIDTH,
                "{place}"
            );
        }
    }
    let (compiled, _) = measured(language_model(Written::Apart), &inputs, Precision::Bits8);
    assert_eq!(ties(&compiled), [[""; 2]; 0]);
}

/// A matrix and a kernel that two nodes read, whatever comes between.
#[test]
fn layers_that_are_used_again_are_one_tensor() {
    let matrix = || {
        let mut writer = Writer::new(5);
        let mut x = writer.input("x", DType::F32, &[1, 5, 8]);
        let w = writer.weights(&[8, 8]);
        for _ in 0..2 {
            let bias = writer.weights(&[8]);
            let y = writer.node("MatMul", &[x, w], &[]);
            let y = writer.node("Add", &[y, bias], &[]);
            x = writer.node("Relu", &[y], &[]);
        }
        let last = writer.weights(&[8, 3]);
        let y = writer.node("MatMul", &[x, last], &[]);
        writer.finish(y)
    };
    let kernel = || {
        let mut writer = Writer::new(6);
        let mut x = writer.input("x", DType::F32, &[1, 2, 6, 6]);
        let w = writer.weights(&[2, 2, 3, 3]);
        let pads = [("pads", Attribute::Ints(vec![1; 4]))];
        for _ in 0..3 {
            let bias = writer.weights(&[2]);
            let y = writer.node("Conv", &[x, w, bias], &pads);
            x = writer.node("Relu", &[y], &[]);
        }
        let last = writer.weights(&[1, 2, 1, 1]);
        let y = writer.node("Conv", &[x, last], &[]);
        writer.finish(y)
    };
    for (graph, length, uses) in [(matrix(), 40, 2), (kernel(), 72, 3)] {
        let inputs = rows(11, 12, length);
        for precision in [Precision::Bits8, Precision::Bits16] {
            let (compiled, snr) = measured(graph.clone(), &inputs, precision);
            assert_eq!(
                ties(&compiled),
                vec![["Conv"; 2]; uses - 1],
                "{precision:?}"
            );
            assert!(snr > 25.0, "{precision:?}: {snr} dB");
            let biases = compiled.model.weights.layers.iter().map(|l| l.bias.clone());
            let biases: Vec<Vec<i32>> = biases.collect();
            assert_ne!(biases[0], biases[1], "a bias stays its node's own");
        }
    }
}
