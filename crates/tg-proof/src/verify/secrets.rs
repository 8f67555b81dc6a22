//! How many messages and products a proof has, from its public shapes alone: the walk without values.

use super::MatMulPoint;
use crate::field::E;
use crate::linear::{Along, ConvPoint, Reading, Weights, conv_reading, map_reading};
use crate::plan::{ColumnSet, MaximumShape, NodePlan, Plan, branch_reading};
use crate::staged::{Stage, Staged};
use crate::tape::Secrets;
use p3_field::PrimeCharacteristicRing;
use tg_ir::weights::BIAS_DIGITS;
use tg_ir::{Op, Program, TensorId};

/// The walk's messages and products, counted.
struct Count<'a> {
    program: &'a Program,
    plan: &'a Plan,
    secrets: Secrets,
    /// Per tensor how often it is claimed.
    claims: Vec<usize>,
}

/// The secrets of a proof: a pad for every message that depends on the witness, a triple for every product of two.
#[must_use]
pub fn secrets(program: &Program, plan: &Plan) -> Secrets {
    let nodes = program.nodes.len();
    let mut count = Count {
        program,
        plan,
        secrets: Secrets::default(),
        claims: vec![0; nodes + 1],
    };
    count.claims[nodes] = 1;
    if let Some(output) = &plan.output {
        count.messages(1);
        count.stage(&output.staged.elements);
    }
    for node in (0..nodes).rev() {
        count.node(node);
    }
    if let Some(input) = &plan.input {
        count.merge(TensorId::INPUT);
        count.stage(&input.staged.elements);
    }
    if let Some(salts) = &plan.salts {
        count.stage(&salts.staged.elements);
    }
    count.lookup();
    count.secrets
}

/// A point whose coordinates stand for drawn ones: all different, none 0 or 1.
fn somewhere(vars: usize) -> Vec<E> {
    (2..).take(vars).map(E::from_u32).collect()
}

impl Count<'_> {
    fn messages(&mut self, messages: usize) {
        self.secrets.messages += messages;
    }

    fn sumcheck(&mut self, rounds: usize, degree: usize) {
        self.messages(1 + rounds * degree);
    }

    /// Values of a node's weights, if they are private, and products with them.
    fn weights(&mut self, weights: usize, products: usize) {
        if self.plan.private_weights {
            let layout = self.plan.weights[weights];
            let bias = if layout.biased { BIAS_DIGITS } else { 0 };
            self.messages(layout.pieces().len() + bias);
            self.secrets.products += products;
        }
    }

    fn merge(&mut self, tensor: TensorId) {
        if self.claims[tensor.index()] > 1 {
            self.sumcheck(self.plan.layouts[tensor.index()].vars(), 2);
            self.messages(1);
        }
    }

    fn node(&mut self, node: usize) {
        let layout = self.plan.layouts[node + 1];
        let (vars, plan) = (layout.vars(), self.plan);
        self.merge(TensorId::of_node(node));
        match (&self.program.nodes[node].op, &plan.nodes[node]) {
            (op @ (Op::Conv { .. } | Op::Dense { .. }), NodePlan::Weighted { weights }) => {
                let [outputs, positions, inputs] = plan.weights[*weights].axis_vars();
                match op {
                    Op::Conv { groups, .. } if *groups > 1 => {
                        self.sumcheck(outputs + positions + inputs, 3);
                    }
                    _ => self.sumcheck(positions + inputs, 2),
                }
                self.messages(1);
                self.weights(*weights, 1);
                self.conv_read(node, [outputs, positions, inputs]);
            }
            (Op::Embed { .. }, NodePlan::Weighted { weights }) => {
                self.sumcheck(plan.weights[*weights].axis_vars()[0], 2);
                self.weights(*weights, 0);
            }
            (Op::Parameter, NodePlan::Weighted { weights }) => self.weights(*weights, 0),
            (Op::Embed { .. }, NodePlan::Chosen { weights, gadget }) => {
                self.sumcheck(plan.weights[*weights].axis_vars()[0], 2);
                self.messages(1);
                self.weights(*weights, 1);
                self.stages(&gadget.staged);
            }
            (Op::Trees { input, forest }, NodePlan::Trees(trees)) => {
                let stage = &trees.decisions.elements;
                self.stage(stage);
                let from = plan.layouts[input.index()];
                let at = somewhere(stage.layout.vars());
                self.read(&branch_reading(*input, from, forest, &at));
                self.sumcheck(trees.flags.layout.vars(), 2);
                self.messages(1);
            }
            (_, NodePlan::Map(_)) => {
                let (reading, _) = map_reading(self.program, plan, node, &somewhere(vars));
                self.read(&reading);
            }
            (Op::Mul { inputs }, _) => {
                self.sumcheck(vars, 3);
                self.messages(2);
                self.secrets.products += 1;
                inputs.iter().for_each(|&input| self.claim(input));
            }
            (Op::MatMul { .. }, _) => self.matmul(node),
            (Op::Requantise { input, .. }, NodePlan::Requantise { .. }) => {
                self.messages(5);
                self.claim(*input);
            }
            (_, NodePlan::Maximum { shape, columns, .. }) => self.maximum(node, shape, columns),
            (_, NodePlan::Gadget(gadget)) => self.stages(&gadget.staged),
            _ => {}
        }
    }

    fn claim(&mut self, tensor: TensorId) {
        self.claims[tensor.index()] += 1;
    }

    fn read(&mut self, reading: &Reading) {
        if !reading.is_direct() {
            if reading.summed() != [false; 2] {
                self.sumcheck(reading.summed_vars(self.plan).iter().sum(), 2);
            }
            self.messages(reading.terms.len());
        }
        reading.terms.iter().for_each(|term| self.claim(term.input));
    }

    fn conv_read(&mut self, node: usize, [outputs, positions, inputs]: [usize; 3]) {
        let grouped =
            matches!(&self.program.nodes[node].op, Op::Conv { groups, .. } if *groups > 1);
        let [outputs, positions, channels] = [outputs, positions, inputs].map(somewhere);
        let at = ConvPoint {
            claim: &somewhere(self.plan.layouts[node + 1].vars()),
            outputs: grouped.then_some(outputs.as_slice()),
            positions: &positions,
            channels: &channels,
        };
        let (reading, _) = conv_reading(self.program, self.plan, node, &at);
        self.read(&reading);
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
        self.messages(shape.columns());
        let input = self.program.nodes[node].op.inputs()[0];
        let layout = self.plan.layouts[input.index()];
        let weights = Weights::Fields {
            pixels: Along::Sum(vec![E::ZERO; 1 << layout.pixel_vars]),
            channels: Along::At(somewhere(layout.channel_vars)),
        };
        self.read(&Reading::of(input, weights, &somewhere(layout.batch_vars)));
        for table in columns.witness.clone() {
            self.sumcheck(self.plan.witness[table].chunk.vars, positions + 1);
            self.messages(shape.columns());
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
        self.messages(stage.sent().len());
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
        for rounds in 0..self.plan.leaf_vars {
            self.messages(3 * rounds + 4);
            self.secrets.products += 2;
        }
        let columns = self.plan.witness.iter().map(|table| table.columns);
        self.messages(columns.sum());
    }
}
