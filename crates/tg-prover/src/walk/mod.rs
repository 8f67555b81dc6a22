//! The walk over the nodes from the outputs to the input, in step with the verifier's: a file per gadget, under the
//! verifier's names.

mod matmul;
mod maximum;
mod merge;
mod mul;
mod products;
mod read;
mod requantise;
mod staged;
mod state;
mod trees;
mod values;
mod weights;

pub(crate) use state::{Walk, WeightPoints};

use crate::channel::Channel;
use crate::error::ProveError;
use crate::lookup::Read;
use crate::model::ProvingModel;
use crate::witness::Witness;
use tg_exec::IntTensor;
use tg_ir::op;
use tg_ir::{Op, Program, TensorId};
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, eq_table};
use tg_proof::messages::{GadgetProof, NodeProof, OutputProof};
use tg_proof::plan::NodePlan;
use tg_proof::shape::ProofShape;
use tg_proof::verify::{Claim, ShownElements, replay};

/// What is proved: batched tensors and their columns, true or not.
pub(crate) struct Execution<'a> {
    pub(crate) shape: &'a ProofShape,
    pub(crate) tensors: &'a [IntTensor],
    pub(crate) witness: &'a Witness,
}

/// What the walk leaves behind: the reads of the lookup argument, and the points of the openings.
pub(crate) struct Walked {
    /// Per reader group what it read.
    pub(crate) reads: Vec<Read>,
    /// Per weighted node the points of its weights and, if it has some, its bias digits.
    pub(crate) weights: Vec<Option<WeightPoints>>,
    /// Per witness table the points at which it is opened besides the one of the lookup argument.
    pub(crate) opened: Vec<Vec<Vec<E>>>,
}

impl Walked {
    /// From the messages of all nodes, as their verifier plays them; nothing if it would refuse them.
    pub(crate) fn replay(
        model: &ProvingModel,
        &Execution {
            shape,
            tensors,
            witness,
        }: &Execution<'_>,
        nodes: &[NodeProof],
        challenger: &mut Challenger,
    ) -> Option<Self> {
        let program = &model.model.program;
        let (input, outputs) = shown(program, tensors);
        let shown = ShownElements {
            input: &input,
            outputs: &outputs,
        };
        let replayed = replay(program, &shape.plan, shown, nodes, challenger).ok()?;
        let reads = replayed.pulled.into_iter().enumerate().map(|(group, own)| {
            let eq = eq_table(&own.point);
            Read::new(&shape.plan, witness, group, &own.point.into(), &eq)
        });
        let weights = replayed.weights.into_iter().map(|claims| {
            let claims = claims?;
            Some((claims.point, claims.bias.map(|bias| bias.point)))
        });
        let opened = replayed.opened.into_iter().map(|claims| {
            let points = claims.into_iter().map(|claim| claim.point);
            points.collect()
        });
        Some(Self {
            reads: reads.collect(),
            weights: weights.collect(),
            opened: opened.collect(),
        })
    }
}

/// The elements of the input and of each output, batched as the tensors are.
pub(crate) fn shown(program: &Program, tensors: &[IntTensor]) -> (Vec<i32>, Vec<Vec<i32>>) {
    let widened = |tensor: TensorId| tensors[tensor.index()].widened();
    let outputs = program.outputs().into_iter().map(widened);
    (widened(TensorId::INPUT), outputs.collect())
}

impl Walk<'_> {
    /// The messages of all nodes, from the last to the first. `visited` hears how many are done.
    pub(crate) fn run(
        &mut self,
        channel: &mut Channel,
        visited: &mut dyn FnMut(usize) -> Result<(), ProveError>,
    ) -> Result<Vec<NodeProof>, ProveError> {
        let program = &self.model.model.program;
        let nodes = program.nodes.len();
        let outputs = program.outputs();
        let mut proofs = Vec::with_capacity(nodes + outputs.len() + 2);
        for (index, output) in outputs.into_iter().enumerate() {
            let point = channel.draw_point(self.plan.layouts[output.index()].vars());
            let value = self.evaluate(output, &point);
            if let Some(Some(hidden)) = self.plan.outputs.get(index) {
                let point = point.clone();
                let [sent] = channel.send([value]);
                let mut stages = self.staged(&hidden.staged, &Claim { point, value }, channel);
                let stage = stages.pop().expect("a gadget has a stage");
                let gadget = GadgetProof::Output(OutputProof { value: sent, stage });
                let merge = None;
                proofs.push(NodeProof { merge, gadget });
            }
            self.claim(output, point, value);
        }
        for (done, node) in (0..nodes).rev().enumerate() {
            proofs.push(self.node(node, channel));
            visited(done + 1)?;
        }
        if let Some(input) = &self.plan.input {
            let (claim, merge) = self.single_claim(TensorId::INPUT, channel);
            let gadget = GadgetProof::Staged(self.staged(&input.staged, &claim, channel));
            proofs.push(NodeProof { merge, gadget });
        }
        if let Some(salts) = &self.plan.salts {
            let claim = Claim {
                point: channel.draw_point(salts.columns.layout.vars()),
                value: E::default(),
            };
            let gadget = GadgetProof::Staged(self.staged(&salts.staged, &claim, channel));
            let merge = None;
            proofs.push(NodeProof { merge, gadget });
        }
        Ok(proofs)
    }

    /// What is left when all nodes are visited.
    pub(crate) fn walked(self) -> Walked {
        let reads = self.reads.into_iter();
        let reads = reads.map(|read| read.expect("every reader is visited"));
        Walked {
            reads: reads.collect(),
            weights: self.weights,
            opened: self.opened,
        }
    }

    fn node(&mut self, node: usize, channel: &mut Channel) -> NodeProof {
        let (claim, merge) = self.single_claim(TensorId::of_node(node), channel);
        let (model, plan) = (self.model, self.plan);
        let gadget = match (&model.model.program.nodes[node].op, &plan.nodes[node]) {
            (Op::Conv(_) | Op::Dense(_), NodePlan::Weighted { weights }) => {
                GadgetProof::Products(self.products(node, *weights, &claim, channel))
            }
            (Op::Parameter(op::Parameter), NodePlan::Weighted { weights }) => {
                GadgetProof::Parameter(self.parameter(node, *weights, &claim, channel))
            }
            (Op::Embed(_), NodePlan::Weighted { weights }) => {
                GadgetProof::Embed(self.embed(node, *weights, &claim, channel))
            }
            (_, NodePlan::Trees(trees)) => {
                GadgetProof::Trees(self.trees(node, trees, &claim, channel))
            }
            (_, NodePlan::Chosen { weights, gadget }) => {
                let place = (*weights, gadget.as_ref());
                GadgetProof::Chosen(self.embed_chosen(node, place, &claim, channel))
            }
            (_, NodePlan::Map(how)) => GadgetProof::Map(self.map(node, how, &claim, channel)),
            (Op::Mul(op::Mul { inputs }), _) => {
                GadgetProof::Mul(self.mul(*inputs, &claim, channel))
            }
            (Op::MatMul(_), _) => GadgetProof::MatMul(self.matmul(node, &claim, channel)),
            (Op::Requantise(op::Unary { input, .. }), NodePlan::Requantise { first_group, .. }) => {
                GadgetProof::Requantise(self.requantise(*input, *first_group, claim, channel))
            }
            (
                _,
                NodePlan::Maximum {
                    shape,
                    first_group,
                    columns,
                },
            ) => {
                let place = (*first_group, columns);
                GadgetProof::Maximum(self.maximum(node, shape, place, &claim, channel))
            }
            (_, NodePlan::Gadget(gadget)) => {
                GadgetProof::Staged(self.staged(&gadget.staged, &claim, channel))
            }
            _ => unreachable!("the plan follows the program's operators"),
        };
        NodeProof { merge, gadget }
    }
}
