//! One tensor of weights with several readers: honest proofs, and provers that read other weights at one of them.

use super::models::{Case, Draft, JOB, PROVIDER, window};
use super::zk::in_modes;
use crate::clear::prove_execution;
use crate::walk::Execution;
use crate::{Limits, ProveRequest, ProvingModel, prove};
use tg_exec::IntTensor;
use tg_ir::op;
use tg_ir::{Axis, Coding, CompiledModel, Op, Shape, TensorId};
use tg_proof::error::NodeCheck;
use tg_proof::messages::{self, GadgetProof, InferenceProof};
use tg_proof::model::ProofShape;
use tg_proof::plan::WeightUses;
use tg_proof::{ExpectedStatement, Modes, ProofFile, Statement, VerifyError, Visibility};
use tg_proof::{security, verify};
use tg_types::Digest;

/// Rows of the vocabulary, channels.
const ROWS: u32 = 300;
const CHANNELS: u32 = 40;
/// Nodes of [`tied`].
const EMBED: usize = 0;
const LAYERS: [usize; 3] = [1, 3, 5];
const SCORES: usize = 8;
const MORE: usize = 10;

/// Six tokens; their rows; one layer three times; scores by the rows, and further ones by a product of groups that is
/// tied to another.
fn tied() -> (CompiledModel, IntTensor) {
    let mut draft = Draft::new(31, Shape::new(1, 6, 1)).coded(Coding::Tokens(ROWS));
    let hidden = Shape::new(1, 6, CHANNELS);
    let embed = Op::Embed(op::Embed {
        input: TensorId::INPUT,
        rows: ROWS,
    });
    let rows = draft.push(embed, hidden);
    let plain = |input| Op::conv(input, window(1, 1, [0; 4]));
    let first = draft.push(plain(rows), hidden);
    let mut at = draft.requantise(first, 23, [-128, 127]);
    for _ in 1..LAYERS.len() {
        let next = draft.push_tied(plain(at), hidden, first);
        at = draft.requantise(next, 23, [-128, 127]);
    }
    let grouped = |input| {
        Op::Conv(op::Conv {
            input,
            window: window(1, 1, [0; 4]),
            groups: 4,
            zero: 0,
        })
    };
    let groups = draft.push(grouped(at), hidden);
    let scored = draft.push_tied(plain(at), Shape::new(1, 6, ROWS), rows);
    let narrow = draft.requantise(groups, 22, [-128, 127]);
    let again = draft.push_tied(grouped(narrow), hidden, groups);
    let op = Op::Concat(op::Concat {
        inputs: vec![scored, again],
        axis: Axis::Channels,
    });
    draft.push(op, Shape::new(1, 6, ROWS + CHANNELS));
    draft.finish_tensor()
}

/// The same program in which every node has weights of its own, equal to those it was tied to.
fn untied(model: &CompiledModel) -> CompiledModel {
    let CompiledModel {
        mut program,
        mut weights,
    } = model.clone();
    let weighted = (0..program.nodes.len()).filter(|&n| program.nodes[n].op.has_weights());
    for (layer, node) in weighted.enumerate() {
        let read = model.weights.of_node(&model.program, node).unwrap();
        weights.layers[layer].weights = read.weights.to_vec();
    }
    program.ties.clear();
    program.weights_root = weights.root();
    CompiledModel { program, weights }
}

#[test]
fn nodes_with_one_tensor_of_weights_prove_in_every_way() {
    let (model, input) = tied();
    let case = Case::of_tensor((model.clone(), input.clone()));
    assert_eq!(case.check(&case.file), Ok(()));
    assert!(security::report(&case.public).unwrap().bits >= 100.0);
    // The output is that of the weights written out, and the proof about them is another.
    let apart = untied(&model);
    let trace = tg_exec::execute_tensor(&apart.clone().checked().unwrap(), input.clone()).unwrap();
    assert_eq!(trace.output(), case.trace.output());
    assert_ne!(apart.program.id(), model.program.id());
    // Batches and zero knowledge.
    let reversed: Vec<i32> = input.widened().into_iter().rev().collect();
    let second = IntTensor::of(input.element_type(), &reversed);
    let inputs = vec![input, second.clone(), second];
    let (file, _) = prove(&case.model, ProveRequest::of(inputs), &mut |_| {}).unwrap();
    let verdict = verify(&case.public, &file, &ExpectedStatement::default());
    assert_eq!(verdict, Ok(()));
    let modes = Modes {
        input: Visibility::Public,
        output: Visibility::Hidden,
    };
    let file = in_modes(&case, modes);
    assert_eq!(case.check(&file), Ok(()));
}

#[test]
fn shared_weights_are_committed_once_and_opened_for_each_reader() {
    let (model, _) = tied();
    let [own, apart] = [model.clone(), untied(&model)].map(|model| {
        let plan = ProofShape::new(model.program.check().unwrap())
            .unwrap()
            .plan;
        let cells = |uses| {
            let tables = plan.weight_tables(2, uses).into_iter();
            tables
                .map(|table| (table.columns << table.vars, table.batches.len()))
                .collect::<Vec<_>>()
        };
        [cells(WeightUses::Once), cells(WeightUses::Each)]
    });
    let sum = |tables: &[(usize, usize)]| tables.iter().map(|table| table.0).sum::<usize>();
    let saved = (ROWS * CHANNELS + 2 * CHANNELS * CHANNELS) as usize;
    assert!(sum(&own[0]) + saved <= sum(&apart[0]));
    // The points are as many as the claims, and an anchor each.
    let opened = |tables: &[(usize, usize)]| tables.iter().map(|t| t.1).sum::<usize>();
    assert_eq!(opened(&apart[0]), opened(&apart[1]));
    let more = opened(&own[1]) - opened(&own[0]);
    let plan = ProofShape::new(model.program.check().unwrap())
        .unwrap()
        .plan;
    let of = |weights: usize| plan.weights[weights].pieces().len();
    assert_eq!(more, of(0) + 2 * of(1) + of(4));
    assert_eq!(plan.readers_of(1).collect::<Vec<_>>(), [1, 2, 3]);
}

fn statement(case: &Case, tensors: &[IntTensor]) -> Statement {
    let blob = |tensor: Option<&IntTensor>| Digest::of_blob(&tensor.unwrap().to_bytes());
    Statement {
        model: case.model.id(),
        job: JOB,
        provider: PROVIDER,
        batch: 1,
        input: blob(tensors.first()),
        output: blob(tensors.last()),
        zk: None,
    }
}

/// A prover that runs and proves, to the end, a program in which one reader has other weights than its owner.
#[test]
fn other_weights_at_one_reader_are_caught_by_the_opening() {
    // Per reader its place among the weights.
    for place in [2, 3, 5, 6] {
        let (model, input) = tied();
        let mut case = Case::of_tensor((model, input.clone()));
        let mut other = untied(&case.model.model);
        other.weights.layers[place].weights[40..80].fill(127);
        other.program.weights_root = other.weights.root();
        let trace = tg_exec::execute_tensor(&other.clone().checked().unwrap(), input).unwrap();
        assert_ne!(trace.output(), case.trace.output());
        let apart = ProvingModel::new(other).unwrap();
        let witness = case.witness_of(trace.tensors()).unwrap();
        let statement = statement(&case, trace.tensors());
        // It walks by its own weights, and opens the committed ones.
        case.model.model = apart.model;
        case.model.columns = apart.columns;
        let execution = Execution {
            shape: &apart.shape,
            tensors: trace.tensors(),
            witness: &witness,
        };
        let limits = Limits::default();
        let proof = prove_execution(&case.model, &execution, &statement, &limits, &mut |_| {});
        let bytes = |tensor: Option<&IntTensor>| tensor.unwrap().to_bytes();
        let file = ProofFile {
            statement,
            input: bytes(trace.tensors().first()),
            output: bytes(trace.tensors().last()),
            proof: messages::encode_inference(&proof.unwrap()),
        };
        let caught = VerifyError::Opening { which: "weights" };
        assert_eq!(case.check(&file), Err(caught), "reader {place}");
    }
}

/// The pieces of the weights that a node's messages state.
fn pieces(proof: &mut InferenceProof, node: usize) -> &mut Vec<tg_proof::field::E> {
    let nodes = proof.nodes.len();
    match &mut proof.nodes[nodes - 1 - node].gadget {
        GadgetProof::Products(products) => &mut products.weights,
        GadgetProof::Embed(embed) => &mut embed.weights,
        other => panic!("{other:?}"),
    }
}

#[test]
fn swapped_claims_of_two_readers_are_caught() {
    let (model, input) = tied();
    let case = Case::of_tensor((model, input));
    let name = |node: usize| case.model.model.program.nodes[node].name.clone();
    for (one, two) in [
        (LAYERS[0], LAYERS[1]),
        (LAYERS[1], LAYERS[2]),
        (EMBED, SCORES),
        (7, MORE),
    ] {
        let verdict = case.forged(|proof| {
            let first = std::mem::take(pieces(proof, one));
            let second = std::mem::replace(pieces(proof, two), first);
            *pieces(proof, one) = second;
        });
        // The walk comes to the later one first.
        let caught = VerifyError::Node {
            node: two,
            name: name(two),
            check: NodeCheck::Products,
        };
        assert_eq!(verdict, caught);
    }
}

/// The opening speaks of each claim at its own point: in another order it shows nothing.
#[test]
fn claims_of_readers_in_another_order_are_caught() {
    let (model, input) = tied();
    let mut case = Case::of_tensor((model, input));
    case.model.shape.plan.tied_to[1].reverse();
    let witness = case.witness();
    let tensors = case.trace.tensors().to_vec();
    assert_eq!(
        case.verdict(&tensors, &witness),
        Err(VerifyError::Opening { which: "weights" })
    );
}
