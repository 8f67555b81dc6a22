//! Random chains of gadgets: honest proofs verify.

use super::models::{Draft, JOB, PROVIDER, bytes, window};
use super::values::wide;
use crate::{ProvingModel, prove};
use std::collections::BTreeMap;
use tg_exec::sample::Numbers;
use tg_ir::op::{self, Extreme, Norm, Ranked, Reduction, Softmax};
use tg_ir::{Axis, Op, Rescale, Shape, TensorId};
use tg_proof::{ExpectedStatement, verify};

fn side(numbers: &mut Numbers, low: u32, high: u32) -> u32 {
    u32::try_from(numbers.between(low.into(), high.into())).unwrap()
}

fn random_norm(numbers: &mut Numbers) -> Norm {
    Norm {
        centred: numbers.between(0, 1) == 0,
        epsilon: numbers.next() % 1_000,
        precision: side(numbers, 0, 4) as u8,
        fraction: 12,
    }
}

fn random_softmax(numbers: &mut Numbers) -> Softmax {
    let step = side(numbers, 1, 360) as u16;
    let entries = 0..side(numbers, 1, 90);
    let table = entries.map(|i| 32_767u16.saturating_sub(step * i as u16));
    Softmax {
        table: table.collect(),
        rescale: Rescale::new(side(numbers, 9_000, 32_767), side(numbers, 14, 22)).unwrap(),
        causal: (numbers.between(0, 1) == 0).then(|| side(numbers, 0, 3)),
    }
}

/// A chain of random gadgets after a convolution: every node reads the one before, some also a second activation.
pub(super) fn random_chain(seed: u64) -> (tg_ir::CompiledModel, Vec<i8>) {
    let mut numbers = Numbers::new(seed);
    let channels = side(&mut numbers, 2, 9);
    let input = Shape::new(side(&mut numbers, 1, 3), side(&mut numbers, 1, 4), 3);
    let shape = Shape::new(input.height, input.width, channels);
    let mut draft = Draft::new(seed, input);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    let activation = |draft: &mut Draft, numbers: &mut Numbers, kind: u32| {
        if kind == 0 {
            return draft.requantise(acc, side(numbers, 20, 29), [-128, 127]);
        }
        let shifts: Vec<u32> = (0..side(numbers, 1, 3))
            .map(|_| side(numbers, 0, 14))
            .collect();
        let reach = [300, 5_000, 32_767][side(numbers, 0, 2) as usize];
        draft.push(wide(acc, &shifts, channels, [-reach, reach - 90]), shape)
    };
    let mut kind = side(&mut numbers, 0, 1);
    let mut last = activation(&mut draft, &mut numbers, kind);
    for _ in 0..side(&mut numbers, 1, 2) {
        let op = match side(&mut numbers, 0, 5) {
            0 | 1 => Op::Norm(op::Unary {
                input: last,
                how: random_norm(&mut numbers),
            }),
            2 | 3 => Op::Softmax(op::Unary {
                input: last,
                how: random_softmax(&mut numbers),
            }),
            4 => Op::Extremum(op::Extremum {
                inputs: [last, activation(&mut draft, &mut numbers, kind)],
                which: [Extreme::Greater, Extreme::Lesser][side(&mut numbers, 0, 1) as usize],
            }),
            _ => Op::Select(op::Select {
                condition: activation(&mut draft, &mut numbers, 0),
                inputs: [last, activation(&mut draft, &mut numbers, kind)],
            }),
        };
        if matches!(op, Op::Norm(_) | Op::Softmax(_)) {
            kind = 1;
        }
        last = draft.push(op, shape);
    }
    let pixel = shape.with_axis(Axis::Channels, 1);
    match side(&mut numbers, 0, 4) {
        0 => {
            draft.push(Op::ArgMax(op::ArgMax { input: last }), pixel);
        }
        1 => {
            let reduction =
                [Reduction::Greatest, Reduction::Least][side(&mut numbers, 0, 1) as usize];
            let op = Op::Reduce(op::Reduce {
                input: last,
                reduction,
                axis: Axis::Channels,
            });
            draft.push(op, pixel);
        }
        2 => {
            let count = side(&mut numbers, 1, channels);
            let give = [Ranked::Values, Ranked::Channels][side(&mut numbers, 0, 1) as usize];
            let op = Op::TopK(op::TopK { input: last, give });
            draft.push(op, shape.with_axis(Axis::Channels, count));
        }
        _ => {}
    }
    draft.finish()
}

/// Random chains prove and verify, alone and several inputs at once.
#[test]
pub(super) fn random_chains_prove_and_verify() {
    let mut proved: BTreeMap<&str, u32> = BTreeMap::new();
    let mut refused = Vec::new();
    for seed in 0..120 {
        let (compiled, input) = random_chain(seed);
        let model = match ProvingModel::new(compiled) {
            Ok(model) => model,
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                refused.push(source.unwrap_or_default());
                continue;
            }
        };
        let public = model.register().unwrap();
        let second: Vec<i8> = input.iter().map(|value| value.wrapping_mul(3)).collect();
        let third = vec![seed as i8; input.len()];
        let batch: [&[i8]; 3] = [&input, &second, &third];
        let inputs = &batch[..[1, 3][seed as usize % 2]];
        let request = bytes(inputs).named(JOB, PROVIDER);
        let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
        let verdict = verify(&public, &file, &ExpectedStatement::default());
        let nodes = &model.model.program.nodes;
        assert_eq!(verdict, Ok(()), "seed {seed}: {nodes:#?}");
        for node in nodes {
            *proved.entry(node.op.name()).or_default() += 1;
        }
    }
    for op in [
        "Norm", "Softmax", "Extremum", "Select", "ArgMax", "Reduce", "TopK",
    ] {
        let count = proved.get(op).copied().unwrap_or(0);
        assert!(count >= 5, "{op}: {proved:?} {refused:#?}");
    }
    assert!(refused.len() < 30, "{refused:#?}");
}
