//! How many messages and products a proof has, and how many bytes they take, from its public shapes alone: the walk without
//! values.

use super::MatMulPoint;
use crate::algebra::field::E;
use crate::algebra::linear::{Along, Reading, Weights, is_pointwise};
use crate::algebra::tape::Secrets;
use crate::plan::staged::{Stage, Staged};
use crate::plan::{ColumnSet, MapPlan, MaximumShape, NodePlan, Plan, branch_reading};
use crate::verify::wire;
use p3_field::PrimeCharacteristicRing;
use tg_ir::op;
use tg_ir::weights::BIAS_DIGITS;
use tg_ir::{Op, Program, TensorId};

/// The walk's messages and products, counted.
struct Count<'a> {
    program: &'a Program,
    plan: &'a Plan,
    secrets: Secrets,
    /// Bytes of the nodes' messages.
    bytes: u64,
    /// Per tensor how often it is claimed.
    claims: Vec<usize>,
}

/// The secrets of a proof: a pad for every message that depends on the witness, a triple for every product of two.
#[must_use]
pub fn secrets(program: &Program, plan: &Plan) -> Secrets {
    let mut count = nodes(program, plan);
    if plan.looks_up() {
        count.lookup();
    }
    count.secrets
}

/// Bytes of the messages of a proof's nodes.
pub(crate) fn node_bytes(program: &Program, plan: &Plan) -> u64 {
    nodes(program, plan).bytes
}

/// The messages of all nodes, counted.
fn nodes<'a>(program: &'a Program, plan: &'a Plan) -> Count<'a> {
    let nodes = program.nodes.len();
    let mut count = Count {
        program,
        plan,
        secrets: Secrets::default(),
        bytes: wire::LENGTH,
        claims: vec![0; nodes + 1],
    };
    count.claims[nodes] = 1;
    if let Some(output) = &plan.output {
        count.bytes += NODE_TAGS;
        count.messages(1);
        count.stage(&output.staged.elements);
    }
    for node in (0..nodes).rev() {
        count.node(node);
    }
    if let Some(input) = &plan.input {
        count.bytes += NODE_TAGS + wire::LENGTH;
        count.merge(TensorId::INPUT);
        count.stage(&input.staged.elements);
    }
    if let Some(salts) = &plan.salts {
        count.bytes += NODE_TAGS + wire::LENGTH;
        count.stage(&salts.staged.elements);
    }
    count
}

/// Whether there is a merge, and which gadget it is.
const NODE_TAGS: u64 = 2;

/// A point whose coordinates stand for drawn ones: all different, none 0 or 1.
fn somewhere(vars: usize) -> Vec<E> {
    (2..).take(vars).map(E::from_u32).collect()
}

impl Count<'_> {
    fn messages(&mut self, messages: usize) {
        self.secrets.messages += messages;
        self.bytes += messages as u64 * wire::EXTENSION;
    }

    fn sumcheck(&mut self, rounds: usize, degree: usize) {
        self.messages(1 + rounds * degree);
        self.bytes += wire::sumcheck_lengths(rounds);
    }

    /// A list of messages.
    fn list(&mut self, messages: usize) {
        self.messages(messages);
        self.bytes += wire::LENGTH;
    }

    /// Values of a node's weights, secret if they are private, and products with them.
    fn weights(&mut self, weights: usize, products: usize) {
        let layout = self.plan.weights[weights];
        let bias = if layout.biased { BIAS_DIGITS } else { 0 };
        let values = layout.pieces().len() + bias;
        self.bytes += wire::LENGTH;
        if self.plan.private_weights {
            self.messages(values);
            self.secrets.products += products;
        } else {
            self.bytes += values as u64 * wire::EXTENSION;
        }
    }

    fn merge(&mut self, tensor: TensorId) {
        // What is committed and nobody reads is claimed all the same: the sum of no claims ends at a drawn point.
        if self.claims[tensor.index()] != 1 {
            self.sumcheck(self.plan.layouts[tensor.index()].vars(), 2);
            self.messages(1);
        }
    }

    fn node(&mut self, node: usize) {
        let layout = self.plan.layouts[node + 1];
        let (vars, plan) = (layout.vars(), self.plan);
        self.bytes += NODE_TAGS;
        self.merge(TensorId::of_node(node));
        match (&self.program.nodes[node].op, &plan.nodes[node]) {
            (op @ (Op::Conv(_) | Op::Dense(_)), NodePlan::Weighted { weights }) => {
                let [outputs, positions, inputs] = plan.weights[*weights].axis_vars();
                match op {
                    Op::Conv(op::Conv { groups, .. }) if *groups > 1 => {
                        self.sumcheck(outputs + positions + inputs, 3);
                    }
                    _ => self.sumcheck(positions + inputs, 2),
                }
                self.messages(1);
                self.weights(*weights, 1);
                self.conv_read(node);
            }
            (Op::Embed(_), NodePlan::Weighted { weights }) => {
                self.sumcheck(plan.weights[*weights].axis_vars()[0], 2);
                self.weights(*weights, 0);
            }
            (Op::Parameter(op::Parameter), NodePlan::Weighted { weights }) => {
                self.weights(*weights, 0)
            }
            (Op::Embed(_), NodePlan::Chosen { weights, gadget }) => {
                self.sumcheck(plan.weights[*weights].axis_vars()[0], 2);
                self.messages(1);
                self.weights(*weights, 1);
                self.bytes += wire::LENGTH;
                self.stages(&gadget.staged);
            }
            (Op::Trees(op::Trees { input, forest }), NodePlan::Trees(trees)) => {
                let stage = &trees.decisions.elements;
                self.stage(stage);
                let from = plan.layouts[input.index()];
                let at = somewhere(stage.layout.vars());
                self.read(&branch_reading(*input, from, forest, &at));
                self.sumcheck(trees.flags.layout.vars(), 2);
                self.messages(1);
            }
            (op, NodePlan::Map(map)) => self.map(op, map),
            (Op::Mul(op::Mul { inputs }), _) => {
                self.sumcheck(vars, 3);
                self.messages(2);
                self.secrets.products += 1;
                inputs.iter().for_each(|&input| self.claim(input));
            }
            (Op::MatMul(_), _) => self.matmul(node),
            (Op::Requantise(op::Unary { input, .. }), NodePlan::Requantise { .. }) => {
                self.messages(5);
                self.claim(*input);
            }
            (_, NodePlan::Maximum { shape, columns, .. }) => self.maximum(node, shape, columns),
            (_, NodePlan::Gadget(gadget)) => {
                self.bytes += wire::LENGTH;
                self.stages(&gadget.staged);
            }
            _ => {}
        }
    }

    fn claim(&mut self, tensor: TensorId) {
        self.claims[tensor.index()] += 1;
    }

    fn read(&mut self, reading: &Reading) {
        let inputs: Vec<TensorId> = reading.terms.iter().map(|term| term.input).collect();
        self.read_of(&inputs, reading.summed(), reading.unscaled);
    }

    /// A public linear form of some tensors, by which of their fields are summed over: its weights, which take time, do not
    /// matter.
    fn read_of(&mut self, inputs: &[TensorId], summed: [bool; 2], unscaled: bool) {
        // Whether there is a sum, and the inputs' list.
        self.bytes += 1 + wire::LENGTH;
        if summed != [false; 2] || inputs.len() > 1 || !unscaled {
            if summed != [false; 2] {
                let layouts = inputs.iter().map(|input| &self.plan.layouts[input.index()]);
                let vars = layouts.fold([0; 2], |[pixels, channels], layout| {
                    [
                        layout.pixel_vars.max(pixels),
                        layout.channel_vars.max(channels),
                    ]
                });
                let vars = vars.into_iter().zip(summed);
                let rounds = vars.filter(|(_, summed)| *summed).map(|(vars, _)| vars);
                self.sumcheck(rounds.sum(), 2);
            }
            self.messages(inputs.len());
        }
        inputs.iter().for_each(|&input| self.claim(input));
    }

    fn map(&mut self, op: &Op, map: &MapPlan) {
        let unscaled = match (op, map) {
            (Op::Add(op::Add { multipliers, .. }), _) => multipliers == &[1],
            (_, MapPlan::Rearranged(how)) => how.is_unscaled(),
            (_, MapPlan::Fields { .. } | MapPlan::Elements) => true,
        };
        let summed = match map {
            MapPlan::Rearranged(_) => [false; 2],
            MapPlan::Fields { pixels, channels } => [*pixels, *channels],
            MapPlan::Elements => [true; 2],
        };
        self.read_of(&op.inputs(), summed, unscaled);
    }

    /// The input of a convolution or dense node.
    fn conv_read(&mut self, node: usize) {
        let op = &self.program.nodes[node].op;
        let summed = match op {
            Op::Conv(op::Conv {
                input,
                window,
                groups,
                ..
            }) => {
                let outputs = self.plan.layouts[node + 1].channels;
                let inputs = self.plan.layouts[input.index()].channels;
                let groups = *groups as usize;
                let apart = inputs == groups && outputs == groups;
                [!is_pointwise(window), groups > 1 && !apart]
            }
            _ => [false; 2],
        };
        self.read_of(&op.inputs(), summed, true);
    }

    fn matmul(&mut self, node: usize) {
        let claim = somewhere(self.plan.layouts[node + 1].vars());
        let at = MatMulPoint::new(self.program, self.plan, node, &claim);
        let inner = self.plan.layouts[at.inputs[0].index()].channel_vars;
        let vars = [at.matrix_vars(), at.batch.len(), inner];
        self.sumcheck(vars.iter().sum(), 3);
        self.messages(2);
        self.secrets.products += 1;
        let [matrix, batch, inner] = vars.map(somewhere);
        self.read(&at.left(self.plan, &matrix, &batch, &inner));
        self.read(&at.right(self.plan, &matrix, &batch, &inner));
    }

    fn maximum(&mut self, node: usize, shape: &MaximumShape, columns: &ColumnSet) {
        let positions = shape.window.positions();
        self.list(shape.columns());
        self.bytes += wire::LENGTH;
        let input = self.program.nodes[node].op.inputs()[0];
        let layout = self.plan.layouts[input.index()];
        let weights = Weights::Fields {
            pixels: Along::Sum(vec![E::ZERO; 1 << layout.pixel_vars]),
            channels: Along::At(somewhere(layout.channel_vars)),
        };
        self.read(&Reading::of(input, weights, &somewhere(layout.batch_vars)));
        for table in columns.witness.clone() {
            self.sumcheck(self.plan.witness[table].chunk.vars, positions + 1);
            self.list(shape.columns());
            self.secrets.products += positions - 1;
        }
    }

    fn stages(&mut self, staged: &Staged) {
        let rows = staged.rows.as_ref().map(|(rows, _)| rows);
        let stages = rows.into_iter().chain([&staged.elements]);
        stages.for_each(|stage| self.stage(stage));
    }

    fn stage(&mut self, stage: &Stage) {
        self.sumcheck(stage.layout.vars(), stage.degree());
        self.list(stage.sent().len());
        let relations = stage.own().chain(&stage.sums);
        let products = relations.map(|relation| relation.products.len());
        self.secrets.products += products.sum::<usize>();
        let tensors = stage.tensors.iter();
        tensors.for_each(|&(_, tensor)| self.claim(tensor));
    }

    /// The root and its inverse, the layers, the columns.
    fn lookup(&mut self) {
        self.messages(1);
        self.secrets.products += 1;
        self.secrets.inverses = true;
        for rounds in 0..self.plan.leaf_vars {
            self.messages(3 * rounds + 4);
            self.secrets.products += 2;
        }
        let columns = self.plan.witness.iter().map(|table| table.columns);
        self.messages(columns.sum());
    }
}
