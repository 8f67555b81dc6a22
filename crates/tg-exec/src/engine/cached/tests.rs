#![allow(clippy::unwrap_used, reason = "tests")]

use super::causal_tests::random_causal_program;
use super::*;
use crate::kernels::SimdLevel;
use crate::sample::Numbers;
use crate::sample::wide::random_program;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tg_ir::causality;

/// The rows that an engine gives when it takes its inputs in parts of such lengths.
fn rows(engine: &mut CachedEngine, input: &IntTensor, numbers: &mut Numbers) -> Vec<i32> {
    let channels = engine.model.program.input.shape.channels as usize;
    let input = Values::from(input);
    let (mut first, mut output) = (0, Vec::new());
    while first < engine.window() {
        let left = i64::try_from(engine.window() - first).unwrap();
        let count = usize::try_from(numbers.between(1, left)).unwrap();
        let part = input.part(first * channels, count * channels);
        let mut each = |step: usize, row: Values<'_>| {
            assert!((first..first + count).contains(&step));
            output.extend((0..row.len()).map(|index| row.at(index)));
        };
        engine.extend(first, part, &mut each).unwrap();
        first += count;
    }
    output
}

/// Whether the rows are those of an execution over the whole window, at every level of the processor; nothing if the engine
/// does not take the model.
fn agrees(model: &CompiledModel, inputs: &[IntTensor], seed: u64) -> Option<usize> {
    let model = &model.clone().checked().unwrap();
    let mut whole_nodes = None;
    for level in SimdLevel::available() {
        let cpu = Cpu::with_level(level, 1).unwrap();
        let together = usize::try_from(Numbers::new(seed ^ 7).between(1, 5)).unwrap();
        let mut engine = CachedEngine::with_rows(model, cpu, together)?;
        whole_nodes = Some(engine.whole_nodes());
        let mut numbers = Numbers::new(seed);
        // What an earlier sequence left is not seen.
        for input in inputs {
            let trace = crate::execute_tensor(model, input.clone()).unwrap();
            let found = rows(&mut engine, input, &mut numbers);
            assert_eq!(
                found,
                trace.output().widened(),
                "seed {seed} {level} {together} rows {}",
                described(&engine)
            );
        }
    }
    whole_nodes
}

/// The nodes and how they are computed, for messages.
fn described(engine: &CachedEngine) -> String {
    let nodes = engine.model.program.nodes.iter().zip(&engine.plan.nodes);
    let line = |(node, planned): (&tg_ir::Node, &forms::Planned)| {
        let (name, inputs) = (node.op.name(), node.op.inputs());
        format!(
            "\n{name} {inputs:?} {} {:?} {:?}",
            node.shape, planned.form, planned.reads
        )
    };
    nodes.map(line).collect()
}

fn other_input(model: &CompiledModel, input: &IntTensor, seed: u64) -> IntTensor {
    let mut numbers = Numbers::new(seed ^ 0x006f_7468_6572);
    let mut elements = input.widened();
    for index in (1..elements.len()).rev() {
        let other = usize::try_from(numbers.between(0, i64::try_from(index).unwrap())).unwrap();
        elements.swap(index, other);
    }
    IntTensor::of(model.program.input.element_type(), &elements)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_causal_programs_give_the_rows_of_whole_runs(seed in any::<u64>()) {
        let (model, input) = random_causal_program(seed);
        let other = other_input(&model, &input, seed);
        prop_assert!(agrees(&model, &[input, other], seed).is_some(), "a causal program is taken");
    }
}

/// The drawn programs have what generation is for, and most of their nodes are computed in slices.
#[test]
fn most_nodes_are_sliced() {
    let (mut all, mut whole, mut attended) = (0, 0, 0);
    let mut whole_by_name = BTreeMap::<&str, u32>::new();
    for seed in 0..300 {
        let (model, _) = random_causal_program(seed);
        let plan = StepPlan::of(&model.program).unwrap();
        all += plan.nodes.len();
        for (planned, node) in plan.nodes.iter().zip(&model.program.nodes) {
            if matches!(planned.form, StepForm::Whole(_)) {
                whole += 1;
                *whole_by_name.entry(node.op.name()).or_default() += 1;
            }
            attended += u32::from(node.op.name() == "MatMul");
        }
    }
    assert!(attended > 100, "{attended}");
    assert!(whole * 5 < all, "{whole} of {all}: {whole_by_name:?}");
}

/// Programs of any kind: those that are causal and take a sequence are taken, and no other.
#[test]
fn programs_are_taken_if_they_are_causal() {
    let mut taken = 0;
    for seed in 0..3_000 {
        let (model, input) = random_program(seed);
        let shape = model.program.input.shape;
        let sequence = shape.height == 1 || shape.width == 1;
        let causal = sequence && causality::check(&model.program).is_ok();
        let found = agrees(&model, &[input], seed);
        assert_eq!(found.is_some(), causal, "seed {seed}: {:?}", model.program);
        taken += u32::from(causal);
    }
    assert!(taken > 100, "{taken}");
}
