//! Tables whose features reach differently far: units of their own, where everything that reads them can take that in.

use crate::graphs::{Writer, rows};
use crate::lowering::measured;
use tg_compile::integer::Precision;
use tg_compile::passes::{PrepareOptions, own_units, prepare};
use tg_float::tgf::{self, Budget};
use tg_float::{Attribute, DType, FloatTensor, Graph, ValueId};
use tg_ir::Coding;

/// How far each feature reaches.
const REACH: [f32; 6] = [1.0, 0.01, 2_500.0, 30.0, 5.0, 0.2];

/// Rows of such a table, of which the features lie between half and all of their reach.
fn table(seed: u64) -> Vec<Vec<f32>> {
    let mut table = rows(seed, 16, REACH.len());
    for row in &mut table {
        for (value, reach) in row.iter_mut().zip(REACH) {
            *value = (0.75 + 0.25 * value.clamp(-1.0, 1.0)) * reach;
        }
    }
    table
}

fn graph(build: impl FnOnce(&mut Writer, ValueId) -> ValueId) -> Graph {
    let mut writer = Writer::new(41);
    let x = writer.input("x", DType::F32, &[1, REACH.len()]);
    let y = build(&mut writer, x);
    writer.finish(y)
}

/// Weights for which every feature counts alike.
fn balanced(writer: &mut Writer, outputs: usize) -> ValueId {
    let numbers = &mut writer.numbers;
    let mut weight = |reach: f32| numbers.between(-1000, 1000) as f32 / 1000.0 / reach;
    let weights = REACH.iter().flat_map(|&reach| vec![reach; outputs]);
    let weights = weights.map(&mut weight).collect();
    writer.constant(&[REACH.len(), outputs], weights)
}

/// `(x - mean) / deviation`.
fn standardised(writer: &mut Writer, x: ValueId) -> ValueId {
    let mean = writer.constant(&[REACH.len()], REACH.map(|reach| 0.75 * reach).to_vec());
    let deviation = writer.constant(&[1, REACH.len()], REACH.map(|reach| 0.2 * reach).to_vec());
    let centred = writer.node("Sub", &[x, mean], &[]);
    writer.node("Div", &[centred, deviation], &[])
}

fn network(writer: &mut Writer, x: ValueId) -> ValueId {
    let w = writer.weights(&[REACH.len(), 8]);
    let hidden = writer.node("MatMul", &[x, w], &[]);
    let hidden = writer.node("Relu", &[hidden], &[]);
    let w = writer.weights(&[8, 3]);
    writer.node("MatMul", &[hidden, w], &[])
}

fn cases() -> Vec<(&'static str, Graph)> {
    let weights = graph(|writer, x| {
        let w = balanced(writer, 4);
        writer.node("MatMul", &[x, w], &[])
    });
    let gemm = graph(|writer, x| {
        let w = balanced(writer, 3);
        let b = writer.weights(&[3]);
        let half = [("alpha", Attribute::Float(0.5))];
        writer.node("Gemm", &[x, w, b], &half)
    });
    let scaler = graph(standardised);
    let scaled = graph(|writer, x| {
        let x = standardised(writer, x);
        network(writer, x)
    });
    let factors = graph(|writer, x| {
        let factor = writer.constant(&[REACH.len()], REACH.map(|reach| 2.0 / reach).to_vec());
        let x = writer.node("Mul", &[factor, x], &[]);
        let offset = writer.constant(&[REACH.len()], vec![-1.5; REACH.len()]);
        let x = writer.node("Add", &[x, offset], &[]);
        network(writer, x)
    });
    let twice = graph(|writer, x| {
        let w = balanced(writer, 6);
        let sums = writer.node("MatMul", &[x, w], &[]);
        let scaled = standardised(writer, x);
        writer.node("Add", &[sums, scaled], &[])
    });
    vec![
        ("weights", weights),
        ("Gemm", gemm),
        ("scaler", scaler),
        ("scaled network", scaled),
        ("factors", factors),
        ("two readers", twice),
    ]
}

#[test]
fn features_of_any_reach_keep_their_digits() {
    for (name, graph) in cases() {
        let (compiled, snr) = measured(graph, &table(42), Precision::Bits16);
        let coding = &compiled.model.program.input.coding;
        assert!(
            matches!(coding, Coding::PerChannel(_)),
            "{name}: {coding:?}"
        );
        assert!(snr > 33.0, "{name}: {snr:.1} dB");
    }
}

/// The float model is the same, bit for bit.
#[test]
fn units_of_features_change_no_float() {
    for (name, graph) in cases() {
        let before = prepare(graph, &PrepareOptions::default()).unwrap();
        let mut after = before.clone();
        assert!(own_units(&mut after, &REACH), "{name}");
        for row in table(43) {
            let x = FloatTensor::of(vec![1, REACH.len()], row).unwrap();
            let run = |graph: &Graph| tgf::run(graph, &[&x], &Budget::default()).unwrap();
            assert_eq!(run(&before.graph), run(&after.graph), "{name}");
        }
    }
}

/// Features that reach equally far, or that something reads which has no place for their units, have one unit.
#[test]
fn other_inputs_have_one_unit() {
    let one = |graph: Graph, table: &[Vec<f32>]| {
        let (compiled, _) = measured(graph, table, Precision::Bits16);
        assert!(matches!(
            compiled.model.program.input.coding,
            Coding::Scaled(_)
        ));
    };
    one(graph(network), &rows(44, 12, REACH.len()));
    one(
        graph(|writer, x| writer.node("Relu", &[x], &[])),
        &table(45),
    );
    let both = graph(|writer, x| {
        let scaled = standardised(writer, x);
        let axes = writer.ints(&[1]);
        let sum = writer.node("ReduceSum", &[x, axes], &[]);
        writer.node("Add", &[scaled, sum], &[])
    });
    one(both, &table(46));
    let given = graph(|writer, x| {
        let scaled = standardised(writer, x);
        writer.graph.outputs.push(x);
        scaled
    });
    let mut given = prepare(given, &PrepareOptions::default()).unwrap();
    assert_eq!(given.graph.outputs.len(), 2);
    assert!(!own_units(&mut given, &REACH));
}

/// A number of a customer beside four shares: each input has a unit of its own.
#[test]
fn inputs_of_any_reach_keep_their_digits() {
    let mut writer = Writer::new(47);
    let number = writer.input("number", DType::I64, &[1, 1]);
    let shares = writer.input("shares", DType::F32, &[1, 4]);
    let number = writer.node("Cast", &[number], &[("to", Attribute::Int(1))]);
    let factor = writer.constant(&[1, 3], vec![1e-4, -5e-5, 2e-5]);
    let own = writer.node("MatMul", &[number, factor], &[]);
    let w = writer.weights(&[4, 3]);
    let others = writer.node("MatMul", &[shares, w], &[]);
    let y = writer.node("Add", &[own, others], &[]);
    let graph = writer.finish(y);
    let mut table = rows(48, 16, 5);
    for row in &mut table {
        row[0] = ((row[0] + 1.0) * 15_000.0).floor();
        row[1..].iter_mut().for_each(|share| *share *= 0.05);
    }
    let (compiled, snr) = measured(graph, &table, Precision::Bits16);
    let Coding::PerChannel(units) = &compiled.model.program.input.coding else {
        panic!("one unit for all");
    };
    assert_eq!(units[0], 1.0);
    assert!(
        units[1..]
            .iter()
            .all(|&unit| unit == units[1] && unit < 1e-5)
    );
    assert!(snr > 38.0, "{snr:.1} dB");
}
