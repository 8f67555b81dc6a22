//! Decision trees: honest proofs, and provers that take another way.

use super::models::{Case, Draft, bytes, set, window};
use crate::{ProvingModel, prove};
use tg_exec::sample::Numbers;
use tg_ir::forest::{Branch, Child};
use tg_ir::op;
use tg_ir::{Forest, Op, Shape, TensorId};
use tg_proof::error::{LookupCheck, NodeCheck};
use tg_proof::plan::{NodePlan, TreesPlan};
use tg_proof::{ExpectedStatement, VerifyError, verify};

/// Random trees with branches of greater index below, some of a single leaf.
fn random_forest(numbers: &mut Numbers, features: u32, trees: usize, outputs: usize) -> Forest {
    let mut pick = |low: i64, high: i64| numbers.between(low, high);
    let mut branches: Vec<Option<Branch>> = Vec::new();
    let leaves = 7;
    let mut roots = Vec::new();
    for tree in 0..trees {
        let mut open = Vec::new();
        let mut child = |branches: &mut Vec<Option<Branch>>, open: &mut Vec<usize>, chance: i64| {
            if chance > 0 {
                branches.push(None);
                open.push(branches.len() - 1);
                Child::Branch(branches.len() as u32 - 1)
            } else {
                Child::Leaf(pick(0, leaves - 1) as u32)
            }
        };
        let start = branches.len();
        // Every third tree is a single leaf.
        let first = (tree as i64 + 1) % 3;
        roots.push(child(&mut branches, &mut open, first));
        while let Some(index) = open.pop() {
            let depth = branches.len() - start;
            let [left, right] = [(5 - depth as i64).max(0), (4 - depth as i64).max(0)];
            let below = child(&mut branches, &mut open, left);
            let above = child(&mut branches, &mut open, right);
            branches[index] = Some(Branch {
                feature: (index as u32 * 7 % features) as u16,
                threshold: (index as i16 * 37) % 90 - 40,
                below,
                above,
            });
        }
    }
    Forest {
        roots,
        branches: branches.into_iter().map(Option::unwrap).collect(),
        leaves: (0..leaves as usize * outputs)
            .map(|_| numbers.between(-50_000, 50_000) as i32)
            .collect(),
        bias: (0..outputs)
            .map(|_| numbers.between(-900, 900) as i32)
            .collect(),
    }
}

/// Features that a layer computes, and trees on them.
pub(super) fn draft(seed: u64, features: u32, trees: usize, outputs: usize) -> Draft {
    let mut draft = Draft::new(seed, Shape::new(1, 1, 6));
    let shape = Shape::vector(features);
    let acc = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), shape);
    let input = draft.requantise(acc, 24, [-128, 127]);
    let forest = random_forest(&mut Numbers::new(seed), features, trees, outputs);
    draft.push(
        Op::Trees(op::Trees { input, forest }),
        Shape::vector(outputs as u32),
    );
    draft
}

const TREES: usize = 2;

fn trees(case: &Case) -> &TreesPlan {
    match &case.model.shape.plan.nodes[TREES] {
        NodePlan::Trees(plan) => plan,
        other => panic!("not trees: {other:?}"),
    }
}

#[test]
fn random_forests_prove_alone_and_in_batches() {
    for seed in 0..16u64 {
        let (features, count) = (1 + seed as u32 % 6, 1 + seed as usize % 9);
        let (model, input) = draft(seed, features, count, 1 + seed as usize % 4).finish();
        let model = ProvingModel::new(model).unwrap();
        let public = model.register().unwrap();
        let second: Vec<i8> = input.iter().map(|value| value.wrapping_mul(5)).collect();
        let third: Vec<i8> = input.iter().rev().copied().collect();
        for count in [1, 3] {
            let inputs = [input.as_slice(), &second, &third];
            let (file, _) = prove(&model, bytes(&inputs[..count]), &mut |_| {}).unwrap();
            let verdict = verify(&public, &file, &ExpectedStatement::default());
            assert_eq!(verdict, Ok(()), "seed {seed}: {count} inputs");
        }
    }
}

/// Any cell of any column of a branch or a leaf.
#[test]
fn every_wrong_cell_is_caught() {
    let case = Case::of(draft(4, 5, 5, 3).finish());
    assert_eq!(case.check(&case.file), Ok(()));
    let honest = case.witness();
    let caught = [
        Err(VerifyError::Lookup(LookupCheck::Pulled)),
        case.failed(TREES, NodeCheck::Relation),
        case.failed(TREES, NodeCheck::Addition),
    ];
    let tables = case.model.shape.plan.witness.iter().enumerate();
    let mut parts = 0;
    for (index, table) in tables.filter(|(_, table)| table.node == TREES) {
        parts += 1;
        for column in 0..table.columns {
            for row in 0..table.layout.channels {
                for change in [1, 1 << 9] {
                    let mut witness = honest.clone();
                    witness.columns[index][column][row] ^= change;
                    let verdict = case.verdict(case.trace.tensors(), &witness);
                    let place = format!("part {} column {column} row {row}", table.part);
                    assert!(caught.contains(&verdict), "{place}: {verdict:?}");
                }
            }
        }
    }
    assert_eq!(parts, 2);
}

/// Another leaf of a tree, marked and summed; two leaves, and none; with the decisions turned or not.
#[test]
fn other_leaves_are_caught() {
    let case = Case::of(draft(4, 5, 5, 3).finish());
    let shape = trees(&case).shape.clone();
    let Op::Trees(op::Trees { forest, .. }) = &case.model.model.program.nodes[TREES].op else {
        panic!("not trees");
    };
    let honest = case.witness();
    let flags = trees(&case).flags.witness.start;
    let decisions = trees(&case).columns.witness.start;
    let output = case.trace.output().accumulators().unwrap().to_vec();
    let marked: Vec<usize> = (0..shape.places.len())
        .filter(|&place| honest.columns[flags][0][place] == 1)
        .collect();
    assert_eq!(marked.len(), shape.firsts.len());
    let mut lies = 0;
    for &own in &marked {
        for other in 0..shape.places.len() {
            if other == own || shape.places[other].0 != shape.places[own].0 {
                continue;
            }
            for (mark, unmark) in [(true, true), (true, false), (false, true)] {
                let mut witness = honest.clone();
                let mut tensors = case.trace.tensors().to_vec();
                let changes = [(other, mark, 1), (own, unmark, -1)];
                for (place, _, sign) in changes.into_iter().filter(|change| change.1) {
                    witness.columns[flags][0][place] ^= 1;
                    let leaf = shape.places[place].1 as usize;
                    for (element, value) in forest.leaves[3 * leaf..][..3].iter().enumerate() {
                        let now = tensors[TREES + 1].accumulators().unwrap()[element];
                        set(&mut tensors[TREES + 1], element, now + sign * value);
                    }
                }
                let both = mark && unmark;
                let check = if both {
                    NodeCheck::Relation
                } else {
                    NodeCheck::Addition
                };
                let verdict = case.verdict(&tensors, &witness);
                let caught = [
                    case.failed(TREES, check),
                    case.failed(TREES, NodeCheck::Relation),
                ];
                assert!(caught.contains(&verdict), "{own} {other}: {verdict:?}");
                // With the bits of the decisions on the way turned: these do not hold.
                for (branch, range) in shape.ranges.iter().enumerate() {
                    let [start, middle, end] = range.map(|end| end as usize);
                    if (start..end).contains(&other) {
                        let last = witness.columns[decisions].len() - 1;
                        let below = u32::from((start..middle).contains(&other));
                        witness.columns[decisions][last][branch] = below;
                    }
                }
                let verdict = case.verdict(&tensors, &witness);
                assert!(caught.contains(&verdict), "{own} {other}: {verdict:?}");
                lies += 1;
            }
        }
    }
    assert!(lies >= 12, "{lies}");
    assert_eq!(output, case.trace.output().accumulators().unwrap());
}

/// Outputs one off, and decisions about another input.
#[test]
fn other_outputs_and_inputs_are_caught() {
    let case = Case::of(draft(9, 4, 6, 2).finish());
    for element in [0, 1] {
        let honest = case.trace.output().accumulators().unwrap()[element];
        for change in [1, -1, 40_000] {
            let tensors = case.tensors_with(TREES, element, honest + change);
            let witness = case.witness_of(&tensors).unwrap();
            let verdict = case.verdict(&tensors, &witness);
            assert_eq!(verdict, case.failed(TREES, NodeCheck::Addition));
        }
    }
    // The decisions of another input, and its leaves.
    let mut tensors = case.trace.tensors().to_vec();
    let honest = tensors[TREES].widened();
    for (element, &value) in honest.iter().enumerate() {
        let other = if value > 0 { -100 } else { 100 };
        set(&mut tensors[TREES], element, other);
    }
    case.recompute(&mut tensors, TREES);
    let witness = case.witness_of(&tensors).unwrap();
    tensors[TREES] = case.trace.tensors()[TREES].clone();
    let verdict = case.verdict(&tensors, &witness);
    assert_eq!(verdict, case.failed(TREES, NodeCheck::Relation));
}

#[test]
fn changed_messages_are_refused() {
    use tg_proof::field::E;
    use tg_proof::messages::{GadgetProof, TreesProof};
    let case = Case::of(draft(9, 4, 6, 2).finish());
    let change = |change: &dyn Fn(&mut TreesProof)| {
        case.forged(|proof| match &mut proof.nodes[0].gadget {
            GadgetProof::Trees(proof) => change(proof),
            other => panic!("not trees: {other:?}"),
        })
    };
    let name = case.model.model.program.nodes[TREES].name.clone();
    let failed = |check| VerifyError::Node {
        node: TREES,
        name: name.clone(),
        check,
    };
    let flag = change(&|proof| proof.flag = E::default());
    assert_eq!(flag, failed(NodeCheck::Addition));
    let short = change(&|proof| drop(proof.leaves.round_polys.pop()));
    assert_eq!(short, failed(NodeCheck::Addition));
    let read = change(&|proof| proof.read.inputs.clear());
    assert_eq!(read, failed(NodeCheck::Messages));
    let none = change(&|proof| proof.read.sumcheck = None);
    assert_eq!(none, failed(NodeCheck::Messages));
    let decisions = change(&|proof| proof.decisions.values.truncate(2));
    assert_eq!(decisions, failed(NodeCheck::Messages));
}

/// Branches that two others lead to are refused by name.
#[test]
fn shared_branches_are_refused() {
    let mut draft = Draft::new(3, Shape::new(1, 1, 4));
    let acc = draft.push(
        Op::conv(TensorId::INPUT, window(1, 1, [0; 4])),
        Shape::vector(4),
    );
    let input = draft.requantise(acc, 24, [-128, 127]);
    let branch = |below, above| Branch {
        feature: 0,
        threshold: 1,
        below,
        above,
    };
    let forest = Forest {
        roots: vec![Child::Branch(0)],
        branches: vec![
            branch(Child::Branch(1), Child::Branch(1)),
            branch(Child::Leaf(0), Child::Leaf(1)),
        ],
        leaves: vec![3, 4],
        bias: vec![0],
    };
    draft.push(Op::Trees(op::Trees { input, forest }), Shape::vector(1));
    let error = ProvingModel::new(draft.finish().0).err().unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("(Trees)"), "{source}");
}
