//! Embeddings of computed tokens: honest proofs, and provers that choose other rows.

use super::models::{Case, Draft, bytes, window};
use crate::{ProvingModel, prove};
use tg_ir::op::{self, Ranked};
use tg_ir::{Axis, Op, Shape, TensorId};
use tg_proof::error::{LookupCheck, NodeCheck};
use tg_proof::plan::NodePlan;
use tg_proof::{ExpectedStatement, VerifyError, verify};

/// The node that embeds.
const EMBED: usize = 2;
const CHANNELS: u32 = 5;

/// Six pixels (or eight), the channels of their greatest elements, a row of a table for each, requantised.
fn draft(width: u32, ranks: u32, rows: u32) -> Draft {
    let shape = Shape::new(2, width, 3);
    let mut draft = Draft::new(21, shape);
    let scores = Shape::new(2, width, CHANNELS);
    let input = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), scores);
    let mut tokens = Shape::new(2, width, ranks);
    let input = if ranks == 1 {
        draft.push(Op::ArgMax(op::ArgMax { input }), tokens)
    } else {
        let give = Ranked::Channels;
        let input = draft.push(Op::TopK(op::TopK { input, give }), tokens);
        let view = tg_ir::View::new(0, &[(2 * width * ranks, 1)]);
        tokens = Shape::new(2 * width, ranks, 1);
        draft.push(Op::View(op::Unary { input, how: view }), tokens)
    };
    let shape = tokens.with_axis(Axis::Channels, 6);
    let embedded = draft.push(Op::Embed(op::Embed { input, rows }), shape);
    let input = draft.narrowed(embedded, 8);
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    draft
}

fn case(width: u32) -> Case {
    Case::of(draft(width, 1, 7).finish())
}

#[test]
fn computed_tokens_prove_alone_and_in_batches() {
    for (width, ranks, rows) in [(3, 1, 7), (4, 1, 5), (3, 2, 6), (4, 1, 300)] {
        let (model, input) = draft(width, ranks, rows).finish();
        let model = ProvingModel::new(model).unwrap();
        let public = model.register().unwrap();
        let second: Vec<i8> = input.iter().map(|value| value.wrapping_mul(7)).collect();
        let third: Vec<i8> = input.iter().rev().copied().collect();
        for count in [1, 3] {
            let inputs = [input.as_slice(), &second, &third];
            let (file, _) = prove(&model, bytes(&inputs[..count]), &mut |_| {}).unwrap();
            let verdict = verify(&public, &file, &ExpectedStatement::default());
            assert_eq!(verdict, Ok(()), "{width} {ranks} {rows}: {count} inputs");
        }
    }
}

/// Any flag of any token.
#[test]
fn every_wrong_flag_is_caught() {
    for width in [3, 4] {
        let case = case(width);
        let (honest, table) = (case.witness(), case.table_of(EMBED));
        let layout = case.model.shape.plan.witness[table].layout;
        assert_eq!(honest.columns[table].len(), 1);
        for pixel in 0..layout.pixels {
            for channel in 0..layout.channels {
                let mut witness = honest.clone();
                witness.columns[table][0][layout.index(pixel, 0, channel)] ^= 1;
                let verdict = case.verdict(case.trace.tensors(), &witness);
                assert_eq!(verdict, case.failed(EMBED, NodeCheck::Relation));
            }
        }
        let mut witness = honest;
        witness.columns[table][0][0] = 2;
        let verdict = case.verdict(case.trace.tensors(), &witness);
        let pulled = Err(VerifyError::Lookup(LookupCheck::Pulled));
        assert!(verdict == pulled || verdict == case.failed(EMBED, NodeCheck::Relation));
    }
}

/// Another row, with its flags and its weights and everything after it; another value of the right row.
#[test]
fn rows_of_other_tokens_are_caught() {
    let case = case(3);
    let honest = case.trace.tensors()[EMBED].widened();
    for pixel in [0, 3, 5] {
        for other in (0..7).filter(|&other| other != honest[pixel]) {
            let mut lie = case.trace.tensors().to_vec();
            super::models::set(&mut lie[EMBED], pixel, other);
            case.recompute(&mut lie, EMBED);
            // What a prover of the other token commits; the token that the flags are compared with is the true one.
            let witness = case.witness_of(&lie).unwrap();
            lie[EMBED] = case.trace.tensors()[EMBED].clone();
            let verdict = case.verdict(&lie, &witness);
            let caught = [NodeCheck::Weights, NodeCheck::Relation];
            assert!(
                caught
                    .iter()
                    .any(|&check| verdict == case.failed(EMBED, check))
            );
            // The other token all the way: it is not the greatest element's channel.
            super::models::set(&mut lie[EMBED], pixel, other);
            let witness = case.witness_of(&lie).unwrap();
            let verdict = case.verdict(&lie, &witness);
            assert_eq!(verdict, case.failed(EMBED - 1, NodeCheck::Relation));
        }
    }
    for element in [0, 17, 35] {
        let value = case.trace.tensors()[EMBED + 1].widened()[element];
        let tensors = case.tensors_with(
            EMBED,
            element,
            if value > 0 { value - 1 } else { value + 1 },
        );
        let witness = case.witness_of(&tensors).unwrap();
        let verdict = case.verdict(&tensors, &witness);
        assert_eq!(verdict, case.failed(EMBED, NodeCheck::Weights));
    }
}

/// The flag of a padded pixel counts for nothing.
#[test]
fn flags_of_padding_are_masked() {
    let case = case(3);
    let (mut witness, table) = (case.witness(), case.table_of(EMBED));
    let layout = case.model.shape.plan.witness[table].layout;
    let row = layout.index(6, 0, 2);
    assert_eq!(layout.element_at(row), None);
    witness.columns[table][0][row] = 1;
    assert_eq!(case.verdict(case.trace.tensors(), &witness), Ok(()));
}

/// A token beyond the table reads its last row when the program runs, and no proof shows that: a program in which there may be
/// one has no proofs, and nobody is bound to make one.
#[test]
fn tokens_that_may_lie_beyond_the_table_are_refused_before_anything_runs() {
    for (rows, fits) in [(2, false), (4, false), (5, true)] {
        let made = ProvingModel::new(draft(3, 1, rows).finish().0);
        let why = made.err().map(|error| {
            let source = std::error::Error::source(&error).unwrap();
            source.to_string()
        });
        assert_eq!(why.is_none(), fits, "{rows}");
        let named = |why: String| why.contains("its tokens may lie beyond the table");
        assert!(why.is_none_or(named), "{rows}");
    }
}

/// What is embedded is a product already: a layer right after it has a third factor.
#[test]
fn layers_right_after_computed_tokens_are_refused() {
    let shape = Shape::new(2, 3, 3);
    let mut draft = Draft::new(21, shape);
    let input = draft.push(
        Op::ArgMax(op::ArgMax {
            input: TensorId::INPUT,
        }),
        Shape::new(2, 3, 1),
    );
    let input = draft.push(Op::Embed(op::Embed { input, rows: 3 }), Shape::new(2, 3, 4));
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    let error = ProvingModel::new(draft.finish().0).err().unwrap();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.contains("it multiplies what is not committed"),
        "{source}"
    );
    let case = case(3);
    assert!(matches!(
        case.model.shape.plan.nodes[EMBED],
        NodePlan::Chosen { .. }
    ));
}

#[test]
fn changed_messages_are_refused() {
    use tg_proof::field::E;
    use tg_proof::messages::{ChosenProof, GadgetProof};
    let case = case(3);
    let place = case.model.model.program.nodes.len() - 1 - EMBED;
    let refusal = |change: &dyn Fn(&mut ChosenProof)| {
        Err(case.forged(|proof| match &mut proof.nodes[place].gadget {
            GadgetProof::Chosen(proof) => change(proof),
            other => panic!("not an embedding of computed tokens: {other:?}"),
        }))
    };
    let failed = |check| case.failed(EMBED, check);
    let chosen = refusal(&|proof| proof.chosen = E::default());
    assert_eq!(chosen, failed(NodeCheck::Weights));
    let pieces = refusal(&|proof| proof.rows.weights.clear());
    assert_eq!(pieces, failed(NodeCheck::Messages));
    let stages = refusal(&|proof| proof.stages.truncate(1));
    assert_eq!(stages, failed(NodeCheck::Messages));
    let swapped = refusal(&|proof| proof.stages.swap(0, 1));
    assert_eq!(swapped, failed(NodeCheck::Relation));
}

/// The greatest of more scores than 2^15, whose channels add up to nearly p.
#[test]
fn ranks_of_a_large_vocabulary() {
    let (_, input) = draft(3, 1, 7).finish();
    for (channels, provable) in [(50_257, true), (65_279, true), (65_280, false)] {
        let mut draft = Draft::new(22, Shape::vector(2));
        let scores = Shape::vector(channels);
        let scores = draft.push(Op::conv(TensorId::INPUT, window(1, 1, [0; 4])), scores);
        let give = Ranked::Channels;
        draft.push(
            Op::TopK(op::TopK {
                input: scores,
                give,
            }),
            Shape::vector(2),
        );
        let (model, _) = draft.finish();
        let Ok(model) = ProvingModel::new(model) else {
            assert!(!provable, "{channels}");
            continue;
        };
        assert!(provable, "{channels}");
        if channels > 60_000 {
            continue;
        }
        let public = model.register().unwrap();
        let (file, _) = prove(&model, bytes(&[&input[..2]]), &mut |_| {}).unwrap();
        let verdict = verify(&public, &file, &ExpectedStatement::default());
        assert_eq!(verdict, Ok(()), "{channels}");
    }
}
