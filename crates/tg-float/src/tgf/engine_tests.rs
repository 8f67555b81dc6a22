#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "tests; some are tables of cases"
)]

use super::super::run::work_of;
use super::super::{OpError, Shortage, run, run_all, run_in_order};
use super::*;
use crate::graph::{Attribute, Input, Node, ValueId};
use crate::tensor::{DType, Data};
use tg_exec::kernels::SimdLevel;
use tg_exec::sample::Numbers;

/// A graph in the making, with inputs of no declared shape.
struct Build {
    graph: Graph,
    numbers: Numbers,
}

impl Build {
    fn new(seed: u64) -> Self {
        Self {
            graph: Graph::default(),
            numbers: Numbers::new(seed),
        }
    }

    fn input(&mut self) -> ValueId {
        let name = format!("x{}", self.graph.inputs.len());
        let value = self.graph.fresh(name.clone());
        self.graph.inputs.push(Input {
            value,
            name,
            dtype: None,
            shape: None,
        });
        value
    }

    fn tensor(&mut self, shape: &[usize]) -> FloatTensor {
        let count = shape.iter().product();
        let mut one = || self.numbers.between(-1_000, 1_000) as f32 / 256.0;
        FloatTensor::of(shape.to_vec(), (0..count).map(|_| one()).collect()).unwrap()
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let tensor = self.tensor(shape);
        self.graph.constant("k", tensor)
    }

    fn node(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        self.node_with(op, inputs, &[])
    }

    fn node_with(
        &mut self,
        op: &str,
        inputs: &[ValueId],
        attributes: &[(&str, Attribute)],
    ) -> ValueId {
        let name = format!("n{}", self.graph.nodes.len());
        let output = self.graph.fresh(name.clone());
        let mut node = Node::new(&name, op, 18, inputs.to_vec(), vec![output]);
        for (name, attribute) in attributes {
            node = node.with(name, attribute.clone());
        }
        self.graph.append(node);
        output
    }
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn bits(tensor: &FloatTensor) -> Vec<u32> {
    let values = tensor.values::<f32>().unwrap();
    values.iter().map(|value| value.to_bits()).collect()
}

fn cpus() -> Vec<Cpu> {
    SimdLevel::available()
        .flat_map(|level| [1, 3].map(|threads| Cpu::with_level(level, threads).unwrap()))
        .collect()
}

/// Runs a graph node by node, once joined, and prepared at every level and number of threads, twice: all the same.
fn check(graph: &Graph, inputs: &[FloatTensor]) -> Vec<FloatTensor> {
    assert_eq!(graph.check(), Ok(()));
    let inputs: Vec<&FloatTensor> = inputs.iter().collect();
    let budget = Budget::default();
    let all = run_all(graph, &inputs, &budget).unwrap();
    let given = |value: &ValueId| graph.inputs.iter().position(|input| input.value == *value);
    let value = |value| match all.get(value) {
        Some(tensor) => tensor.clone(),
        None => inputs[given(value).unwrap()].clone(),
    };
    let expected: Vec<FloatTensor> = graph.outputs.iter().map(value).collect();
    let compare = |found: &[FloatTensor], how: &str| {
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.shape(), expected.shape(), "{how}");
            if expected.dtype() == DType::F32 {
                assert_eq!(bits(found), bits(expected), "{how}");
            } else {
                assert_eq!(found, expected, "{how}");
            }
        }
    };
    compare(&run(graph, &inputs, &budget).unwrap(), "once");
    let in_order = run_in_order(graph, &inputs, &budget);
    compare(&in_order.result.unwrap(), "in order");
    let work = in_order.work;
    for purpose in [Purpose::Once, Purpose::EveryValue, Purpose::Often] {
        assert_eq!(work_of(graph, &inputs, purpose), work, "{purpose:?}");
    }
    for cpu in cpus() {
        let how = format!("{cpu:?}");
        let mut engine = Engine::new(graph.clone(), cpu);
        for _ in 0..3 {
            let found = engine.execute(&inputs, &budget);
            compare(&found.result.unwrap(), &how);
            assert_eq!(found.work, work, "{how}");
        }
    }
    expected
}

/// A perceptron: a bias that joins its product, a GELU of five nodes, a residual.
#[test]
fn products_take_their_bias_and_elementwise_chains_are_joined() {
    let mut b = Build::new(1);
    let x = b.input();
    let (w, v) = (b.constant(&[40, 72]), b.constant(&[72, 40]));
    let (bias, other) = (b.constant(&[72]), b.constant(&[40]));
    let scalar = |b: &mut Build, value: f32| b.graph.constant("c", FloatTensor::scalar(value));
    let (half, root, one) = (
        scalar(&mut b, 0.5),
        scalar(&mut b, std::f32::consts::FRAC_1_SQRT_2),
        scalar(&mut b, 1.0),
    );
    let product = b.node("MatMul", &[x, w]);
    let y = b.node("Add", &[product, bias]);
    let scaled = b.node("Mul", &[y, root]);
    let erf = b.node("Erf", &[scaled]);
    let above = b.node("Add", &[erf, one]);
    let halved = b.node("Mul", &[y, half]);
    let gelu = b.node("Mul", &[halved, above]);
    let product = b.node("MatMul", &[gelu, v]);
    let y = b.node("Add", &[other, product]);
    let sum = b.node("Add", &[x, y]);
    let out = b.node("Relu", &[sum]);
    b.graph.outputs.push(out);
    let input = b.tensor(&[3, 7, 40]);
    let engine = Engine::new(b.graph.clone(), Cpu::new(1));
    assert_eq!(engine.packed(), 2);
    assert_eq!(engine.steps(), 4, "two products, two joined groups");
    let expected = check(&b.graph, std::slice::from_ref(&input));
    assert_eq!(expected[0].shape(), [3, 7, 40]);
    // One row, and none.
    for shape in [vec![1, 40], vec![40], vec![0, 40]] {
        let input = b.tensor(&shape);
        check(&b.graph, &[input]);
    }
}

/// A bias is added by the product only if nobody else reads the product and it is a row of the right length.
#[test]
fn a_product_that_others_read_keeps_its_value() {
    for case in 0..3 {
        let mut b = Build::new(2);
        let x = b.input();
        let w = b.constant(&[16, 24]);
        let bias = match case {
            0 => b.constant(&[24]),
            1 => b.constant(&[1, 24]),
            _ => b.constant(&[1]),
        };
        let product = b.node("MatMul", &[x, w]);
        let sum = b.node("Add", &[product, bias]);
        b.graph.outputs.push(sum);
        if case == 0 {
            b.graph.outputs.push(product);
        }
        let input = b.tensor(&[5, 16]);
        let engine = Engine::new(b.graph.clone(), Cpu::new(1));
        assert_eq!(engine.steps(), 2);
        check(&b.graph, &[input]);
    }
    // Added to itself: nothing to take as a bias.
    let mut b = Build::new(3);
    let x = b.input();
    let w = b.constant(&[16, 24]);
    let product = b.node("MatMul", &[x, w]);
    let twice = b.node("Add", &[product, product]);
    b.graph.outputs.push(twice);
    let input = b.tensor(&[5, 16]);
    check(&b.graph, &[input]);
}

#[test]
fn gemm_takes_factors_in_every_form() {
    for case in 0..16 {
        let mut b = Build::new(4);
        let x = b.input();
        let (turn_a, turn_b) = (case & 1, case >> 1 & 1);
        let w = b.constant(if turn_b == 1 { &[24, 16] } else { &[16, 24] });
        let c = match case >> 2 {
            0 => b.constant(&[24]),
            1 => b.constant(&[1, 24]),
            2 => b.constant(&[5, 1]),
            _ => b.constant(&[]),
        };
        let mut attributes = vec![
            ("transA", Attribute::Int(turn_a)),
            ("transB", Attribute::Int(turn_b)),
        ];
        if case % 5 == 0 {
            attributes.extend([
                ("alpha", Attribute::Float(0.5)),
                ("beta", Attribute::Float(3.0)),
            ]);
        }
        let out = b.node_with("Gemm", &[x, w, c], &attributes);
        b.graph.outputs.push(out);
        let input = b.tensor(if turn_a == 1 { &[16, 5] } else { &[5, 16] });
        let [a, w, c] = [&input, &b.graph.constants[&w], &b.graph.constants[&c]]
            .map(|t| t.values::<f32>().unwrap().to_vec());
        let (alpha, beta) = if case % 5 == 0 {
            (0.5, 3.0)
        } else {
            (1.0, 1.0)
        };
        let found = check(&b.graph, std::slice::from_ref(&input));
        for (place, &value) in found[0].values::<f32>().unwrap().iter().enumerate() {
            let (i, j) = (place / 24, place % 24);
            let mut sum = 0f32;
            for k in 0..16 {
                let left = if turn_a == 1 {
                    a[k * 5 + i]
                } else {
                    a[i * 16 + k]
                };
                let right = if turn_b == 1 {
                    w[j * 16 + k]
                } else {
                    w[k * 24 + j]
                };
                sum = left.mul_add(right, sum);
            }
            let added = match case >> 2 {
                0 | 1 => c[j],
                2 => c[i],
                _ => c[0],
            };
            let expected = if beta == 1.0 {
                sum * alpha + added
            } else {
                sum * alpha + added * beta
            };
            assert_eq!(value.to_bits(), expected.to_bits(), "case {case}, {i} {j}");
        }
    }
}

/// Convolutions, pools, normalisations, softmax and turns between joined nodes.
#[test]
fn a_network_of_many_operators_is_the_same_everywhere() {
    let mut b = Build::new(5);
    let x = b.input();
    let (w, bias) = (b.constant(&[12, 4, 3, 3]), b.constant(&[12]));
    let conv = b.node_with("Conv", &[x, w, bias], &[("pads", ints(&[1; 4]))]);
    let slope = b.node_with("LeakyRelu", &[conv], &[("alpha", Attribute::Float(0.1))]);
    let gain = b.constant(&[1, 12, 1, 1]);
    let scaled = b.node("Mul", &[slope, gain]);
    let depthwise = b.constant(&[12, 1, 3, 3]);
    let depthwise = b.node_with(
        "Conv",
        &[scaled, depthwise],
        &[("pads", ints(&[1; 4])), ("group", Attribute::Int(12))],
    );
    let sum = b.node("Add", &[scaled, depthwise]);
    let pool = [
        ("kernel_shape", ints(&[3, 3])),
        ("strides", ints(&[2, 2])),
        ("pads", ints(&[1; 4])),
    ];
    let top = b.node_with("MaxPool", &[sum], &pool);
    let mean = b.node_with("AveragePool", &[sum], &pool);
    let gate = b.node("Sigmoid", &[mean]);
    let gated = b.node("Mul", &[top, gate]);
    let rows = b.node_with("Transpose", &[gated], &[("perm", ints(&[0, 2, 3, 1]))]);
    let (scale, offset) = (b.constant(&[12]), b.constant(&[12]));
    let normal = b.node("LayerNormalization", &[rows, scale, offset]);
    let probabilities = b.node_with("Softmax", &[normal], &[("axis", Attribute::Int(-1))]);
    let turned = b.node_with("Transpose", &[normal], &[("perm", ints(&[0, 1, 3, 2]))]);
    let scores = b.node("MatMul", &[turned, probabilities]);
    let out = b.node("Tanh", &[scores]);
    b.graph.outputs.extend([out, probabilities]);
    let input = b.tensor(&[2, 4, 19, 17]);
    check(&b.graph, &[input]);
}

/// Random chains over values of random shapes that broadcast, with NaN, infinities and subnormals among them.
#[test]
fn random_elementwise_graphs_are_the_same_joined() {
    const UNARY: [&str; 14] = [
        "Relu",
        "LeakyRelu",
        "HardSigmoid",
        "HardSwish",
        "Sigmoid",
        "Tanh",
        "Erf",
        "Exp",
        "Sqrt",
        "Reciprocal",
        "Neg",
        "Abs",
        "Softplus",
        "Gelu",
    ];
    const BINARY: [&str; 6] = ["Add", "Sub", "Mul", "Div", "Max", "Min"];
    const SPECIAL: [f32; 8] = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        0.0,
        1e-42,
        f32::MAX,
        f32::MIN_POSITIVE,
    ];
    for seed in 0..60 {
        let mut b = Build::new(seed);
        let pick = |b: &mut Build, below: usize| {
            usize::try_from(b.numbers.between(0, below as i64 - 1)).unwrap()
        };
        let full = [2, 3, 1 + pick(&mut b, 700)];
        let mut values = Vec::new();
        let mut inputs = Vec::new();
        for _ in 0..3 {
            let mask = pick(&mut b, 8);
            let cut = pick(&mut b, 3);
            let axis = |axis: usize| if mask >> axis & 1 == 1 { 1 } else { full[axis] };
            let shape: Vec<usize> = (0..3).map(axis).skip(cut).collect();
            let (shape, mut data) = b.tensor(&shape).into_parts();
            if let Data::F32(values) = &mut data {
                for value in values.iter_mut().step_by(5) {
                    *value = SPECIAL[pick(&mut b, 8)];
                }
            }
            inputs.push(FloatTensor::new(shape, data).unwrap());
            values.push(b.input());
        }
        let two = b.graph.constant("two", FloatTensor::scalar(2f32));
        for _ in 0..2 + pick(&mut b, 14) {
            let recent = values.len().saturating_sub(1 + pick(&mut b, 4));
            let other = pick(&mut b, values.len());
            let (x, y) = (values[recent], values[other]);
            let value = match pick(&mut b, 5) {
                0 | 1 => {
                    let op = UNARY[pick(&mut b, UNARY.len())];
                    b.node(op, &[x])
                }
                2 if pick(&mut b, 3) == 0 => b.node("Pow", &[x, two]),
                _ => {
                    let op = BINARY[pick(&mut b, BINARY.len())];
                    b.node(op, &[x, y])
                }
            };
            values.push(value);
        }
        let last = *values.last().unwrap();
        let middle = values[3 + pick(&mut b, values.len() - 3)];
        b.graph.outputs.extend([last, middle]);
        b.graph.remove_dead();
        check(&b.graph, &inputs);
    }
}

/// Integers, doubles and halves take no part in joined groups, and mean what they do alone.
#[test]
fn other_types_run_node_by_node() {
    let mut b = Build::new(6);
    let x = b.input();
    let y = b.node("Add", &[x, x]);
    let z = b.node("Mul", &[y, x]);
    let out = b.node("Neg", &[z]);
    b.graph.outputs.push(out);
    let whole = check(&b.graph, &[FloatTensor::vector(vec![3i64, -4])]);
    assert_eq!(whole[0], FloatTensor::vector(vec![-18i64, -32]));
    let wide = check(&b.graph, &[FloatTensor::vector(vec![0.5f64])]);
    assert_eq!(wide[0], FloatTensor::vector(vec![-0.5f64]));
    let half = |value: f32| {
        let bits = crate::convert::f32_to_f16(value);
        FloatTensor::new(vec![1], Data::F16(vec![bits])).unwrap()
    };
    // 2049 is not a half: each operator rounds once.
    assert_eq!(check(&b.graph, &[half(32.0)])[0], half(-2048.0));
    assert_eq!(check(&b.graph, &[half(3.001)])[0].dtype(), DType::F16);
}

/// A value that is read again later, an input, and an output are not overwritten.
#[test]
fn values_in_use_are_not_overwritten() {
    let mut b = Build::new(7);
    let x = b.input();
    let a = b.node("Relu", &[x]);
    let shape = b.graph.constant("shape", FloatTensor::vector(vec![-1i64]));
    let flat = b.node("Reshape", &[a, shape]);
    let other = b.node("Exp", &[flat]);
    let c = b.node("Neg", &[a]);
    let sum = b.node("ReduceSum", &[a]);
    let d = b.node("Mul", &[c, sum]);
    b.graph.outputs.extend([d, other, a, x, flat]);
    let input = b.tensor(&[4, 300]);
    let found = check(&b.graph, std::slice::from_ref(&input));
    assert_eq!(bits(&found[3]), bits(&input));
    assert_eq!(bits(&found[2]), bits(&found[4]));
}

#[test]
fn shapes_that_do_not_fit_are_named_by_their_node() {
    let mut b = Build::new(8);
    let (x, y) = (b.input(), b.input());
    let sum = b.node("Add", &[x, y]);
    let out = b.node("Relu", &[sum]);
    b.graph.outputs.push(out);
    let (p, q) = (b.tensor(&[2, 3]), b.tensor(&[2, 4]));
    let mut engine = Engine::new(b.graph.clone(), Cpu::new(1));
    match engine.run(&[&p, &q], &Budget::default()) {
        Err(RunError::Node {
            node, op, inputs, ..
        }) => {
            assert_eq!((node.as_str(), op.as_str()), ("n0", "Add"));
            assert_eq!(inputs, "F32[2, 3] F32[2, 4]");
        }
        other => panic!("{other:?}"),
    }
    // The engine is as good as new.
    let fine = engine.run(&[&p, &p], &Budget::default()).unwrap();
    assert_eq!(fine[0].shape(), [2, 3]);
    assert!(matches!(
        engine.run(&[&p], &Budget::default()),
        Err(RunError::Inputs {
            expected: 2,
            got: 1
        })
    ));
}

#[test]
fn a_budget_bounds_what_lives_at_one_time() {
    let mut b = Build::new(9);
    let x = b.input();
    let mut y = x;
    for _ in 0..20 {
        // Softmax is not joined: each needs a result beside its input.
        y = b.node("Softmax", &[y]);
        y = b.node("Neg", &[y]);
    }
    b.graph.outputs.push(y);
    let input = b.tensor(&[10, 100]);
    let bytes = input.bytes();
    let budget = |bytes: usize| Budget {
        bytes,
        ..Budget::default()
    };
    let mut engine = Engine::new(b.graph.clone(), Cpu::new(1));
    let enough = engine.run(&[&input], &budget(2 * bytes)).unwrap();
    assert_eq!(
        enough,
        run(&b.graph, &[&input], &Budget::default()).unwrap()
    );
    for little in [0, bytes - 1, 2 * bytes - 1] {
        let found = engine.run(&[&input], &budget(little));
        assert!(matches!(found, Err(RunError::Node { .. })), "{little}");
    }
}

/// What was prepared for `f32` does not pass for a half.
#[test]
fn a_prepared_product_refuses_another_type() {
    let mut b = Build::new(10);
    let x = b.input();
    let w = b.constant(&[8, 16]);
    let out = b.node("MatMul", &[x, w]);
    b.graph.outputs.push(out);
    let mut engine = Engine::new(b.graph.clone(), Cpu::new(1));
    let half = FloatTensor::new(vec![1, 8], Data::F16(vec![0x3c00; 8])).unwrap();
    assert!(engine.run(&[&half], &Budget::default()).is_err());
    let narrow = b.tensor(&[1, 7]);
    let error = engine.run(&[&narrow], &Budget::default()).unwrap_err();
    assert!(error.to_string().contains("MatMul"), "{error}");
}

/// The node that a run with this much work fails at.
fn fails_at(graph: &Graph, inputs: &[&FloatTensor], work: u64) -> Option<(String, u64)> {
    let budget = Budget {
        work,
        ..Budget::default()
    };
    let execution = run_in_order(graph, inputs, &budget);
    match execution.result {
        Ok(_) => None,
        Err(RunError::Node { node, source, .. }) => {
            assert_eq!(source.shortage(), Some(Shortage::Work), "{source}");
            Some((node, execution.work))
        }
        Err(other) => unreachable!("{other}"),
    }
}

#[test]
fn work_that_does_not_suffice_ends_a_run_at_the_node_that_takes_too_much() {
    let mut b = Build::new(11);
    let x = b.input();
    let w = b.constant(&[64, 64]);
    let y = b.node("Relu", &[x]);
    let y = b.node("MatMul", &[y, w]);
    let out = b.node("Softmax", &[y]);
    b.graph.outputs.push(out);
    let input = b.tensor(&[10, 64]);
    let inputs = [&input];
    let whole = run_in_order(&b.graph, &inputs, &Budget::default()).work;
    // Three nodes and eight operands; inputs and results; the product; the softmax's functions.
    let (element, step) = (super::super::work::ELEMENT, super::super::STEP);
    let nodes = 3 * super::super::work::NODE + 7 * super::super::work::OPERAND;
    let elements = (6 * 640 + 64 * 64) * element;
    let product = 10 * 64 * 64 + 16 * step;
    assert_eq!(whole, nodes + elements + product + 640 * 2 * step);
    assert_eq!(fails_at(&b.graph, &inputs, whole), None);
    for (work, node) in [(whole - 1, "n2"), (whole / 2, "n1"), (0, "n0")] {
        let found = fails_at(&b.graph, &inputs, work).unwrap();
        assert_eq!(found, (node.to_owned(), work));
    }
}

/// A loop whose body adds its state to itself, with as many rounds as the first input says.
fn doubling() -> Graph {
    let mut body = Build::new(12);
    let (_number, going, state) = (body.input(), body.input(), body.input());
    let twice = body.node("Add", &[state, state]);
    body.graph.outputs.extend([going, twice, twice]);
    let body = crate::Subgraph {
        graph: body.graph,
        captures: Vec::new(),
    };
    let mut b = Build::new(13);
    let (rounds, x) = (b.input(), b.input());
    let last = b.graph.fresh("last");
    let all = b.graph.fresh("all");
    let mut node = Node::new("loop", "Loop", 16, vec![rounds], vec![last, all]);
    node.inputs.extend([None, Some(x)]);
    b.graph
        .append(node.with("body", Attribute::Graph(Box::new(body))));
    b.graph.outputs.extend([last, all]);
    b.graph
}

#[test]
fn loops_are_charged_for_every_round_and_their_results_are_kept_within_the_budget() {
    let graph = doubling();
    let x = FloatTensor::vector(vec![1f32; 100]);
    let rounds = |count: i64| FloatTensor::scalar(count);
    let work = |count: i64| {
        let execution = run_in_order(&graph, &[&rounds(count), &x], &Budget::default());
        execution.result.unwrap();
        execution.work
    };
    check(&graph, &[rounds(3), x.clone()]);
    let (one, two, nine) = (work(1), work(2), work(9));
    assert_eq!(nine - one, 8 * (two - one));
    assert!(two - one > super::super::work::NODE);
    // A loop without end is ended by its work, one that collects too much by memory.
    let endless = fails_at(&graph, &[&rounds(i64::MAX), &x], 1 << 24).unwrap();
    assert_eq!(endless, ("loop".to_owned(), 1 << 24));
    let budget = Budget {
        bytes: 4_000,
        ..Budget::default()
    };
    let error = run_in_order(&graph, &[&rounds(50), &x], &budget)
        .result
        .unwrap_err();
    let RunError::Node { source, .. } = error else {
        unreachable!("{error}")
    };
    assert_eq!(source.shortage(), Some(Shortage::Memory));
    assert!(!matches!(source, OpError::Work { .. }));
}

#[test]
fn a_body_is_not_planned_in_proportion_to_its_names() {
    let mut graph = doubling();
    let Some(Attribute::Graph(body)) = graph.nodes[0].attributes.get_mut("body") else {
        unreachable!("the loop has a body")
    };
    // A million values that nothing gives: a round must not look at each.
    body.graph.names.resize(1 << 20, String::new());
    let x = FloatTensor::scalar(1f32);
    let rounds = FloatTensor::scalar(5_000i64);
    let start = std::time::Instant::now();
    let execution = run_in_order(&graph, &[&rounds, &x], &Budget::default());
    assert!(execution.result.is_ok());
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}
