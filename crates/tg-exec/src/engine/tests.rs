#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::kernels::SimdLevel;
use crate::sample::wide::random_program;
use crate::sample::{Numbers, random_model};
use proptest::prelude::*;
use tg_ir::op;
use tg_ir::{ElementType, InputSpec, LinearWeights, Node, Op, Shape, Weights, Window, scalar};

fn cpus() -> Vec<Cpu> {
    SimdLevel::available()
        .flat_map(|level| [1, 3].map(|threads| Cpu::with_level(level, threads).unwrap()))
        .collect()
}

/// Every element of a trace by the scalar semantics, and the output of an engine that fuses, at every level.
fn check(model: &CompiledModel, input: &IntTensor) {
    let model = &model.clone().checked().unwrap();
    let trace = crate::execute_tensor(model, input.clone()).unwrap();
    let widened: Vec<Vec<i32>> = trace.tensors().iter().map(IntTensor::widened).collect();
    for (node, description) in model.program.nodes.iter().enumerate() {
        for (element, &value) in widened[node + 1].iter().enumerate() {
            let expected = scalar::element(&model.program, &model.weights, node, element, &widened);
            assert_eq!(
                value, expected,
                "node {node} {:?} {element}",
                description.op
            );
        }
    }
    for cpu in cpus() {
        let (level, threads) = (cpu.level(), cpu.threads());
        let mut engine = Engine::for_trace(model, cpu);
        let again = engine.trace(Values::from(input)).unwrap();
        assert_eq!(again, trace, "{level} {threads}");
        let cpu = Cpu::with_level(level, threads).unwrap();
        let mut engine = Engine::new(model, cpu);
        assert!(engine.steps() <= model.program.nodes.len());
        for _ in 0..2 {
            let output = engine.run(Values::from(input)).unwrap().to_tensor();
            assert_eq!(&output, trace.output(), "{level} {threads}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_models_agree_with_the_scalar_semantics(seed in any::<u64>()) {
        let (model, input) = random_model(seed);
        check(&model, &IntTensor::I8(input));
    }

    #[test]
    fn random_programs_of_every_operator_agree_with_the_scalar_semantics(seed in any::<u64>()) {
        let (model, input) = random_program(seed);
        check(&model, &input);
    }
}

fn program(input: Shape, nodes: Vec<(Op, Shape)>, layers: Vec<LinearWeights>) -> CompiledModel {
    let weights = Weights { layers };
    let nodes = nodes.into_iter().map(|(op, shape)| Node {
        name: "node".to_owned(),
        op,
        shape,
        scale: 1.0,
    });
    let program = Program {
        name: String::new(),
        input: InputSpec::scaled(input, 1.0),
        nodes: nodes.collect(),
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
        weights_root: weights.root(),
    };
    program.validate().unwrap();
    weights.check(&program).unwrap();
    CompiledModel { program, weights }
}

fn bytes(numbers: &mut Numbers, count: usize) -> Vec<i8> {
    (0..count).map(|_| numbers.activation().max(-127)).collect()
}

/// Every window over a few small images: all kernels, strides and paddings up to 3.
#[test]
fn every_small_window_agrees_with_the_scalar_semantics() {
    let mut numbers = Numbers::new(1);
    let axis: Vec<[u32; 4]> = (1..=3)
        .flat_map(|k| (1..=3).map(move |s| (k, s)))
        .flat_map(|(k, s)| (0..k).map(move |before| (k, s, before)))
        .flat_map(|(k, s, before)| (0..k).map(move |after| [k, s, before, after]))
        .collect();
    let input = Shape::new(5, 3, 2);
    for (index, &[ky, sy, top, bottom]) in axis.iter().enumerate() {
        let &[kx, sx, left, right] = &axis[(index * 7 + 3) % axis.len()];
        let window = Window::new([ky, kx], [sy, sx], [top, left, bottom, right]);
        let [height, width] = window.output(input).unwrap();
        let pooled = Shape::new(height, width, 2);
        let of = TensorId::INPUT;
        let nodes = vec![
            (Op::MaxPool(op::MaxPool { input: of, window }), pooled),
            (Op::WindowSum(op::WindowSum { input: of, window }), pooled),
            (Op::conv(of, window), Shape::new(height, width, 3)),
        ];
        let layer = LinearWeights {
            weights: bytes(&mut numbers, 3 * window.positions() * 2),
            bias: vec![-5, 0, 70_000],
        };
        let model = program(input, nodes, vec![layer]);
        let values = IntTensor::I8(bytes(&mut numbers, input.elements()));
        check(&model, &values);
    }
}

/// The widest sums a valid program can hold do not wrap.
#[test]
fn the_greatest_sums_are_exact() {
    let reduction = 65_022u32;
    let layer = LinearWeights {
        weights: [
            vec![127; reduction as usize],
            vec![-127; reduction as usize],
        ]
        .concat(),
        bias: vec![-tg_ir::weights::BIAS_MAX, tg_ir::weights::BIAS_MAX],
    };
    let dense = Op::Dense(op::Dense {
        input: TensorId::INPUT,
    });
    let model = program(
        Shape::vector(reduction),
        vec![(dense, Shape::vector(2))],
        vec![layer],
    );
    check(&model, &IntTensor::I8(vec![-128; reduction as usize]));
}

/// Tensors take turns: a chain of any length needs the memory of its widest neighbours.
#[test]
fn memory_is_used_again_and_sums_are_fused_away() {
    let shape = Shape::new(8, 8, 4);
    let mut numbers = Numbers::new(3);
    let mut nodes = Vec::new();
    let mut layers = Vec::new();
    for step in 0..10u32 {
        let window = Window::new([3, 3], [1, 1], [1; 4]);
        nodes.push((Op::conv(TensorId(2 * step), window), shape));
        layers.push(LinearWeights {
            weights: bytes(&mut numbers, 4 * 9 * 4),
            bias: vec![0; 4],
        });
        let rescale = tg_ir::Rescale::new(20_000, 24).unwrap();
        let how =
            tg_ir::Requantise::to_i8(vec![rescale], vec![0], [-700_000, 700_000], [-128, 127]);
        let input = TensorId(2 * step + 1);
        nodes.push((Op::Requantise(op::Unary { input, how }), shape));
    }
    let model = program(shape, nodes, layers);
    let engine = Engine::new(&model.clone().checked().unwrap(), Cpu::default());
    assert_eq!(engine.steps(), 10);
    assert_eq!(engine.tensor_bytes(), 2 * shape.elements());
    let values = bytes(&mut numbers, shape.elements());
    check(&model, &IntTensor::I8(values));
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let (model, input) = random_model(3);
    let mut engine = Engine::new(&model.checked().unwrap(), Cpu::default());
    let short = engine.run(Values::I8(&input[1..]));
    assert!(matches!(short, Err(ExecuteError::InputLength { .. })));
    let wide: Vec<i16> = input.iter().map(|&value| i16::from(value)).collect();
    assert_eq!(
        engine.run(Values::I16(&wide)),
        Err(ExecuteError::InputType {
            expected: ElementType::I8,
            got: ElementType::I16,
        })
    );
    assert!(engine.run(Values::I8(&input)).is_ok());
}
