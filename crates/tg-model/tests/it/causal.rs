//! The causal rule: row i of a causal program depends on rows up to i alone, bit for bit.

use crate::graphs::Writer;
use proptest::prelude::*;
use tg_model::integer::Precision;
use tg_model::net::{Attribute, DType, Graph, Tensor, ValueId};
use tg_model::{CompileOptions, Compiled, PrecisionChoice, compile, execute_tensor, input};

const VOCABULARY: usize = 11;
const WIDTH: usize = 8;
const HEADS: usize = 2;

impl Writer {
    fn norm(&mut self, x: ValueId) -> ValueId {
        let [gain, offset] = [0, 1].map(|_| self.weights(&[WIDTH]));
        let axis = [("axis", Attribute::Int(-1))];
        self.node("LayerNormalization", &[x, gain, offset], &axis)
    }

    /// `[1, T, WIDTH]` to heads `[1, HEADS, T, WIDTH / HEADS]`, or with the last axes swapped.
    fn heads(&mut self, x: ValueId, steps: usize, order: [i64; 4]) -> ValueId {
        let split = self.ints(&[1, steps as i64, HEADS as i64, (WIDTH / HEADS) as i64]);
        let apart = self.node("Reshape", &[x, split], &[]);
        self.node(
            "Transpose",
            &[apart],
            &[("perm", Attribute::Ints(order.to_vec()))],
        )
    }

    fn attention(&mut self, x: ValueId, steps: usize) -> ValueId {
        let [q, k, v] = [0, 1, 2].map(|_| {
            let w = self.weights(&[WIDTH, WIDTH]);
            self.node("MatMul", &[x, w], &[])
        });
        let q = self.heads(q, steps, [0, 2, 1, 3]);
        let k = self.heads(k, steps, [0, 2, 3, 1]);
        let v = self.heads(v, steps, [0, 2, 1, 3]);
        let scores = self.node("MatMul", &[q, k], &[]);
        let mask = (0..steps * steps).map(|at| {
            if at % steps > at / steps {
                f32::MIN
            } else {
                0.0
            }
        });
        let mask = Tensor::of(vec![1, 1, steps, steps], mask.collect()).unwrap();
        let mask = self.graph.constant("mask", mask);
        let masked = self.node("Add", &[scores, mask], &[]);
        let weights = self.node("Softmax", &[masked], &[("axis", Attribute::Int(-1))]);
        let mixed = self.node("MatMul", &[weights, v], &[]);
        let order = Attribute::Ints(vec![0, 2, 1, 3]);
        let back = self.node("Transpose", &[mixed], &[("perm", order)]);
        let join = self.ints(&[1, steps as i64, WIDTH as i64]);
        let joined = self.node("Reshape", &[back, join], &[]);
        let w = self.weights(&[WIDTH, WIDTH]);
        self.node("MatMul", &[joined, w], &[])
    }
}

/// One block of a transformer over so many positions.
fn transformer(seed: u64, steps: usize) -> Graph {
    let mut writer = Writer::new(seed);
    let tokens = writer.input("tokens", DType::I64, &[1, steps]);
    let table = writer.weights(&[VOCABULARY, WIDTH]);
    // The same positions for every length: a shorter sequence is a prefix.
    let places = writer.weights(&[16, WIDTH]);
    let range = writer.ints(&(0..steps as i64).collect::<Vec<_>>());
    let embedded = writer.node("Gather", &[table, tokens], &[]);
    let places = writer.node("Gather", &[places, range], &[]);
    let x = writer.node("Add", &[embedded, places], &[]);
    let normed = writer.norm(x);
    let attended = writer.attention(normed, steps);
    let x = writer.node("Add", &[x, attended], &[]);
    let normed = writer.norm(x);
    let w = writer.weights(&[WIDTH, 2 * WIDTH]);
    let hidden = writer.node("MatMul", &[normed, w], &[]);
    let hidden = writer.node("Tanh", &[hidden], &[]);
    let w = writer.weights(&[2 * WIDTH, WIDTH]);
    let fed = writer.node("MatMul", &[hidden, w], &[]);
    let x = writer.node("Add", &[x, fed], &[]);
    let w = writer.weights(&[WIDTH, VOCABULARY]);
    let scores = writer.node("MatMul", &[x, w], &[]);
    writer.graph.outputs.push(scores);
    writer.graph
}

fn compiled(seed: u64, steps: usize, precision: Precision) -> Compiled {
    let calibration: Vec<Vec<f32>> = (0..8)
        .map(|row| {
            (0..steps)
                .map(|at| ((at * 7 + row * 3) % VOCABULARY) as f32)
                .collect()
        })
        .collect();
    let options = CompileOptions {
        precision: PrecisionChoice::Fixed(precision),
        ..CompileOptions::default()
    };
    compile(transformer(seed, steps), &calibration, &options).unwrap()
}

fn run(model: &Compiled, tokens: &[usize]) -> Vec<i32> {
    let reals: Vec<f32> = tokens.iter().map(|&token| token as f32).collect();
    let encoded = input::encode(&model.model.program.input, &reals).unwrap();
    let trace = execute_tensor(&model.model, encoded).unwrap();
    trace.output().widened()
}

#[test]
fn a_transformer_follows_its_floats() {
    for (precision, least) in [
        (Precision::Bits8, 15.0),
        (Precision::Mixed, 20.0),
        (Precision::Bits16, 30.0),
    ] {
        let model = compiled(7, 6, precision);
        let found = model.report.output_snr_db();
        assert!(found > least, "{precision:?}: {found} dB");
        let causal = model.model.program.nodes.iter().any(
            |node| matches!(&node.op, tg_ir::Op::Softmax { how, .. } if how.causal == Some(0)),
        );
        assert!(causal, "the mask is taken into the softmax");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Later tokens change nothing in earlier rows: what a prefill gives for a prefix, and what decoding token by
    /// token gives, is what one pass over the whole sequence gives.
    #[test]
    fn rows_depend_on_earlier_rows_alone(
        seed in 0u64..1000,
        tokens in prop::collection::vec(0..VOCABULARY, 6),
        others in prop::collection::vec(0..VOCABULARY, 6),
        kept in 1usize..6,
        precision in prop::sample::select(vec![Precision::Bits8, Precision::Mixed, Precision::Bits16]),
    ) {
        let model = compiled(seed, 6, precision);
        let mut changed = others;
        changed[..kept].copy_from_slice(&tokens[..kept]);
        let (whole, prefix) = (run(&model, &tokens), run(&model, &changed));
        prop_assert_eq!(&whole[..kept * VOCABULARY], &prefix[..kept * VOCABULARY]);
    }
}
