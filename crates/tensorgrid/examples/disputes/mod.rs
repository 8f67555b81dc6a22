//! Claims about a run that are right but for one part of it, which is chosen by what it computes.

use std::error::Error;

use tg_float::Graph;
use tg_float::job::trace::{FloatClaim, RunRecord};
use tg_float::job::{FloatModel, is_float_file};
use tg_ir::{CompiledModel, Op, Program, TensorId};
use tg_types::leaves::leaves_of;
use tg_types::{Decode as _, Digest, Encode as _};

/// Why something cannot be done.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// A part of a run of which something false is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DisputedPart {
    /// Of the product with weights that takes most: the longest sums of integers, or the most work in floats.
    Product,
    /// Of a product of two computed tensors: the scores of an attention.
    Scores,
    /// Of the softmax of an attention.
    Softmax,
}

impl DisputedPart {
    /// The part of a word, if it is one.
    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "product" => Some(Self::Product),
            "scores" => Some(Self::Scores),
            "softmax" => Some(Self::Softmax),
            _ => None,
        }
    }
}

/// A claim about a run of a model that says the same as `claim`, but something else of one part. Of a float model it says another bill too:
/// a claim with the answer and the bill of the receipt accuses nobody.
pub(crate) fn forged(
    model_file: &[u8],
    claim: &[u8],
    part: DisputedPart,
) -> Result<Vec<u8>, Failure> {
    let lacks = || format!("the model has no {part:?}");
    if is_float_file(model_file) {
        let model = FloatModel::read(model_file)?;
        let mut claim = FloatClaim::from_bytes(claim)?;
        let node = node_of_graph(model.graph(), &claim.record, part).ok_or_else(lacks)?;
        let gave = claim.record.0.get_mut(node);
        let value = gave.and_then(|it| it.values.first_mut());
        value.ok_or_else(lacks)?.digest = Digest::of_blob(b"another value");
        claim.answer.work += 1;
        let last = claim.record.0.last_mut().ok_or_else(lacks)?;
        last.work += 1;
        return Ok(claim.to_bytes());
    }
    let model = CompiledModel::read(model_file)?;
    let program = &model.program;
    let node = node_of_program(program, part).ok_or_else(lacks)?;
    let leaves = |node: usize| {
        let tensor = TensorId::of_node(node);
        let bytes = program.shape(tensor).elements() * program.element_type(tensor).bytes();
        usize::try_from(leaves_of(bytes as u64))
    };
    let behind = (node + 1..program.nodes.len()).map(leaves);
    let behind = behind.sum::<Result<usize, _>>()?;
    // The leaves of all nodes are the end of a claim: the one in the middle of the node's.
    let back = 32 * (behind + leaves(node)?.div_ceil(2));
    let mut forged = claim.to_vec();
    let place = forged.len().checked_sub(back).ok_or("the claim is short")?;
    forged[place] ^= 1;
    Ok(forged)
}

/// The node of a model of integers.
fn node_of_program(program: &Program, part: DisputedPart) -> Option<usize> {
    let is_one = |op: &Op| match part {
        DisputedPart::Product => matches!(op, Op::Conv(_) | Op::Dense(_)),
        DisputedPart::Scores => matches!(op, Op::MatMul(_)),
        DisputedPart::Softmax => matches!(op, Op::Softmax(_)),
    };
    let nodes = (0..program.nodes.len()).filter(|node| is_one(&program.nodes[*node].op));
    match part {
        DisputedPart::Product => nodes.max_by_key(|node| program.reduction(*node)),
        DisputedPart::Scores | DisputedPart::Softmax => middle(nodes),
    }
}

/// The node of a float model.
fn node_of_graph(graph: &Graph, record: &RunRecord, part: DisputedPart) -> Option<usize> {
    let is_one = |node: &tg_float::Node| {
        let mut inputs = node.inputs.iter().flatten();
        let has_weights = inputs.any(|it| graph.constants.contains_key(it));
        let op = node.op.as_str();
        match part {
            DisputedPart::Product => has_weights && matches!(op, "Conv" | "Gemm" | "MatMul"),
            DisputedPart::Scores => !has_weights && op == "MatMul",
            DisputedPart::Softmax => op == "Softmax",
        }
    };
    let nodes = (0..graph.nodes.len()).filter(|node| is_one(&graph.nodes[*node]));
    let work = |node: usize| {
        let after = |node: usize| record.0.get(node).map_or(0, |it| it.work);
        after(node) - node.checked_sub(1).map_or(0, after)
    };
    match part {
        DisputedPart::Product => nodes.max_by_key(|node| work(*node)),
        DisputedPart::Scores | DisputedPart::Softmax => middle(nodes),
    }
}

fn middle(nodes: impl Iterator<Item = usize>) -> Option<usize> {
    let nodes: Vec<usize> = nodes.collect();
    nodes.get(nodes.len() / 2).copied()
}
