//! The walk over the nodes from the output to the input, in step with the verifier's.

use crate::fold::{Fold, dot};
use crate::lookup::Read;
use crate::model::ProvingModel;
use crate::sumcheck;
use crate::witness::Witness;
use p3_field::PrimeCharacteristicRing;
use std::ops::Range;
use std::rc::Rc;
use tg_ir::{Op, TensorId, Window};
use tg_model::Tensor;
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, eq_table};
use tg_proof::layout::log2_ceil;
use tg_proof::messages::{AttainedProof, GadgetProof, MergeProof, NodeProof, SourceProof};
use tg_proof::plan::{NodePlan, Plan};
use tg_proof::transcript::{absorb, draw, draw_point};
use tg_proof::verify::{
    Claim, SourceMap, eq_prefix, evaluate_tensor, maximum_sum, permutation_weights,
};

/// What the walk leaves behind: the messages, the reads of the lookup argument, and the points of the openings.
pub(crate) struct Walk<'a> {
    model: &'a ProvingModel,
    tensors: &'a [Tensor],
    witness: &'a Witness,
    claims: Vec<Vec<Claim>>,
    pub(crate) reads: Vec<Option<Read>>,
    /// Per weighted node the points of its weights and its bias digits.
    pub(crate) weights: Vec<Option<(Vec<E>, Vec<E>)>>,
    /// Per witness table of a maximum the point of its zero-check.
    pub(crate) attained: Vec<Option<Vec<E>>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(
        model: &'a ProvingModel,
        tensors: &'a [Tensor],
        witness: &'a Witness,
    ) -> Self {
        let plan = &model.shape.plan;
        Self {
            model,
            tensors,
            witness,
            claims: vec![Vec::new(); plan.layouts.len()],
            reads: vec![None; plan.groups.len()],
            weights: vec![None; plan.weights.len()],
            attained: vec![None; plan.witness.len()],
        }
    }

    /// The messages of all nodes, from the last to the first. `visited` hears how many are done.
    pub(crate) fn run(
        &mut self,
        challenger: &mut Challenger,
        visited: &mut dyn FnMut(usize),
    ) -> Vec<NodeProof> {
        let nodes = self.model.model.program.nodes.len();
        let layout = self.plan().layouts[nodes];
        let point = draw_point(challenger, layout.vars());
        let value = evaluate_tensor(&self.tensors[nodes].widened(), layout, &point);
        self.claims[nodes].push(Claim { point, value });
        (0..nodes)
            .rev()
            .enumerate()
            .map(|(done, node)| {
                let proof = self.node(node, challenger);
                visited(done + 1);
                proof
            })
            .collect()
    }

    fn plan(&self) -> &'a Plan {
        &self.model.shape.plan
    }

    fn node(&mut self, node: usize, challenger: &mut Challenger) -> NodeProof {
        let (claim, merge) = self.single_claim(node, challenger);
        let model = self.model;
        let gadget = match (
            &model.model.program.nodes[node].op,
            &model.shape.plan.nodes[node],
        ) {
            (Op::Conv { input, window, .. }, NodePlan::Linear { weights }) => {
                self.conv(node, *input, window, *weights, &claim, challenger)
            }
            (Op::Dense { input }, NodePlan::Linear { weights }) => {
                self.dense(node, *input, *weights, &claim, challenger)
            }
            (Op::WindowSum { input, window }, _) => {
                let (pixels, channels) = claim
                    .point
                    .split_at(self.plan().layouts[node + 1].pixel_vars);
                let ones = vec![E::ONE; window.positions()];
                let map = SourceMap::new(
                    &model.model.program,
                    node,
                    *input,
                    window,
                    ones,
                    eq_table(pixels),
                );
                GadgetProof::WindowSum {
                    sources: self.sources(&map, claim.value, channels, challenger),
                }
            }
            (Op::Add { inputs, .. }, _) => self.add([inputs[0], inputs[1]], &claim, challenger),
            (Op::Requantise { input, .. }, NodePlan::Requantise { first_group, .. }) => {
                self.requantise(*input, *first_group, claim, challenger)
            }
            (
                Op::MaxPool { input, window },
                NodePlan::Maximum {
                    first_group,
                    witness,
                },
            ) => self.maximum(
                node,
                *input,
                window,
                *first_group,
                witness.clone(),
                &claim,
                challenger,
            ),
            (Op::View { input, view }, _) => {
                self.permute(node, *input, &view.sources(), &claim, challenger)
            }
            _ => unreachable!("the plan follows the program's operators"),
        };
        NodeProof { merge, gadget }
    }

    fn single_claim(
        &mut self,
        node: usize,
        challenger: &mut Challenger,
    ) -> (Claim, Option<MergeProof>) {
        let mut claims = std::mem::take(&mut self.claims[node + 1]);
        if claims.len() == 1 {
            return (claims.remove(0), None);
        }
        let alpha = draw(challenger);
        let layout = self.plan().layouts[node + 1];
        let mut weights = vec![E::ZERO; 1 << layout.vars()];
        let mut sum = E::ZERO;
        for (claim, power) in claims.iter().zip(alpha.powers()) {
            sum += claim.value * power;
            for (weight, eq) in weights.iter_mut().zip(eq_table(&claim.point)) {
                *weight += power * eq;
            }
        }
        let values = self.padded(TensorId::of_node(node));
        let (sumcheck, point, [value, _]) = sumcheck::product(values, weights, sum, challenger);
        absorb(challenger, &[value]);
        (Claim { point, value }, Some(MergeProof { sumcheck, value }))
    }

    /// An activation tensor over its padded hypercube.
    fn padded(&self, tensor: TensorId) -> Vec<E> {
        let layout = self.plan().layouts[tensor.index()];
        let mut values = vec![E::ZERO; 1 << layout.vars()];
        for (element, &value) in self.tensors[tensor.index()].widened().iter().enumerate() {
            values[layout.index_of_element(element)] =
                tg_proof::field::signed(i64::from(value)).into();
        }
        values
    }

    /// The activations of a tensor.
    fn activations(&self, tensor: TensorId) -> &'a [i8] {
        self.tensors[tensor.index()]
            .activations()
            .expect("a linear node reads activations")
    }

    /// Bias digits at a point, the weights folded by it, and the claim less the bias.
    fn fold_weights(
        &self,
        node: usize,
        weights: usize,
        claim: &Claim,
        challenger: &mut Challenger,
    ) -> ([E; tg_ir::weights::BIAS_DIGITS], Vec<E>, E) {
        let layout = self.plan().layouts[node + 1];
        let (pixels, outputs) = claim.point.split_at(layout.pixel_vars);
        let eq = eq_table(outputs);
        let columns = &self.model.columns[weights];
        let bias = columns.bias.each_ref().map(|column| dot(column, &eq));
        absorb(challenger, &bias);
        let base = E::from_u32(tg_ir::weights::BIAS_BASE.unsigned_abs());
        let bias_value = bias
            .iter()
            .rev()
            .fold(E::ZERO, |value, &digit| value * base + digit);
        let [_, positions, inputs] = self.plan().weights[weights].axis_vars();
        let row = 1 << (positions + inputs);
        let mut fold = Fold::new(row);
        for (values, &weight) in columns.weights.chunks_exact(row).zip(&eq) {
            fold.add(0, weight, values);
        }
        (
            bias,
            fold.finish(),
            claim.value - bias_value * eq_prefix(pixels, layout.pixels),
        )
    }

    fn conv(
        &mut self,
        node: usize,
        input: TensorId,
        window: &'a Window,
        weights: usize,
        claim: &Claim,
        challenger: &mut Challenger,
    ) -> GadgetProof {
        let program = &self.model.model.program;
        let (bias, folded, sum) = self.fold_weights(node, weights, claim, challenger);
        let (pixels, outputs) = claim
            .point
            .split_at(self.plan().layouts[node + 1].pixel_vars);
        let pixels = eq_table(pixels);
        let [_, position_vars, input_vars] = self.plan().weights[weights].axis_vars();
        let products = self.window_products(node, input, window, &pixels, folded.len(), input_vars);
        let (products, at, [weight, reads]) = sumcheck::product(folded, products, sum, challenger);
        absorb(challenger, &[weight, reads]);
        self.weights[weights] = Some(([outputs, &at].concat(), outputs.to_vec()));
        let (positions, channels) = at.split_at(position_vars);
        let map = SourceMap::new(program, node, input, window, eq_table(positions), pixels);
        let sources = self.sources(&map, reads, channels, challenger);
        GadgetProof::Conv {
            bias,
            products,
            weight,
            reads,
            sources,
        }
    }

    /// `X(k, i) = sum over output pixels s of pixels[s] * in[source(s, k), i]`.
    fn window_products(
        &self,
        node: usize,
        input: TensorId,
        window: &Window,
        pixels: &[E],
        len: usize,
        input_vars: usize,
    ) -> Vec<E> {
        let program = &self.model.model.program;
        let (from, to) = (program.shape(input), program.nodes[node].shape);
        let (values, channels) = (self.activations(input), from.channels as usize);
        let mut fold = Fold::new(len);
        for row in 0..to.height {
            for column in 0..to.width {
                let weight = pixels[row as usize * to.width as usize + column as usize];
                for position in 0..window.positions() {
                    if let Some(source) = window.source(from, row, column, position) {
                        fold.add(
                            position << input_vars,
                            weight,
                            &values[source * channels..][..channels],
                        );
                    }
                }
            }
        }
        fold.finish()
    }

    fn sources(
        &mut self,
        map: &SourceMap<'_>,
        sum: E,
        channels: &[E],
        challenger: &mut Challenger,
    ) -> SourceProof {
        let layout = self.plan().layouts[map.input.index()];
        let eq = eq_table(channels);
        let mut values = vec![E::ZERO; 1 << layout.pixel_vars];
        for (value, row) in values
            .iter_mut()
            .zip(self.activations(map.input).chunks_exact(layout.channels))
        {
            *value = dot(row, &eq);
        }
        let (sumcheck, mut point, [input, _]) =
            sumcheck::product(values, map.weights(), sum, challenger);
        absorb(challenger, &[input]);
        point.extend_from_slice(channels);
        self.claims[map.input.index()].push(Claim {
            point,
            value: input,
        });
        SourceProof { sumcheck, input }
    }

    fn dense(
        &mut self,
        node: usize,
        input: TensorId,
        weights: usize,
        claim: &Claim,
        challenger: &mut Challenger,
    ) -> GadgetProof {
        let (bias, folded, sum) = self.fold_weights(node, weights, claim, challenger);
        let outputs = &claim.point[self.plan().layouts[node + 1].pixel_vars..];
        let (products, at, [weight, value]) =
            sumcheck::product(folded, self.padded(input), sum, challenger);
        absorb(challenger, &[weight, value]);
        self.weights[weights] = Some(([outputs, &at].concat(), outputs.to_vec()));
        self.claims[input.index()].push(Claim { point: at, value });
        GadgetProof::Dense {
            bias,
            products,
            weight,
            input: value,
        }
    }

    fn add(
        &mut self,
        inputs: [TensorId; 2],
        claim: &Claim,
        challenger: &mut Challenger,
    ) -> GadgetProof {
        let values = inputs.map(|input| {
            let layout = self.plan().layouts[input.index()];
            evaluate_tensor(&self.tensors[input.index()].widened(), layout, &claim.point)
        });
        absorb(challenger, &values);
        for (input, value) in inputs.into_iter().zip(values) {
            self.claims[input.index()].push(Claim {
                point: claim.point.clone(),
                value,
            });
        }
        GadgetProof::Add { inputs: values }
    }

    fn requantise(
        &mut self,
        input: TensorId,
        first_group: usize,
        claim: Claim,
        challenger: &mut Challenger,
    ) -> GadgetProof {
        let plan = self.plan();
        let eq = Rc::new(eq_table(&claim.point));
        let [segment, high, low] =
            [0, 1, 2].map(|offset| Read::new(plan, self.witness, first_group + offset, &eq));
        let pulled = [
            segment.pull(plan, first_group, 0),
            segment.pull(plan, first_group, 2),
            segment.pull(plan, first_group, 3),
            high.pull(plan, first_group + 1, 0),
            low.pull(plan, first_group + 2, 0),
        ];
        absorb(challenger, &pulled);
        for (offset, read) in [segment, high, low].into_iter().enumerate() {
            self.reads[first_group + offset] = Some(read);
        }
        let value = pulled[0] + pulled[3] * E::from_u32(256) + pulled[4];
        self.claims[input.index()].push(Claim {
            point: claim.point,
            value,
        });
        GadgetProof::Requantise { pulled }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one gadget")]
    fn maximum(
        &mut self,
        node: usize,
        input: TensorId,
        window: &'a Window,
        first_group: usize,
        witness: Range<usize>,
        claim: &Claim,
        challenger: &mut Challenger,
    ) -> GadgetProof {
        let (plan, positions) = (self.plan(), window.positions());
        let eq = Rc::new(eq_table(&claim.point));
        let differences: Vec<E> = (first_group..first_group + positions)
            .map(|group| {
                let read = Read::new(plan, self.witness, group, &eq);
                let difference = read.pull(plan, group, 0);
                self.reads[group] = Some(read);
                difference
            })
            .collect();
        absorb(challenger, &differences);
        let tau = draw_point(challenger, log2_ceil(positions));
        let (pixels, channels) = claim.point.split_at(plan.layouts[node + 1].pixel_vars);
        let program = &self.model.model.program;
        let map = SourceMap::new(
            program,
            node,
            input,
            window,
            eq_table(&tau),
            eq_table(pixels),
        );
        let sum = maximum_sum(&map, claim.value, &differences);
        let sources = self.sources(&map, sum, channels, challenger);
        let attained = witness
            .map(|table| self.attained(table, challenger))
            .collect();
        GadgetProof::Maximum {
            differences,
            sources,
            attained,
        }
    }

    fn attained(&mut self, table: usize, challenger: &mut Challenger) -> AttainedProof {
        let chunk = self.plan().witness[table].chunk;
        let drawn = draw_point(challenger, chunk.vars);
        let mut factors = vec![eq_table(&drawn)];
        factors.extend(self.witness.columns[table].iter().map(|column| {
            column[..chunk.rows()]
                .iter()
                .map(|&value| E::from_u32(value))
                .collect::<Vec<_>>()
        }));
        let (sumcheck, at, values) = sumcheck::zero_product(factors, challenger);
        let differences = values[1..].to_vec();
        absorb(challenger, &differences);
        self.attained[table] = Some(at);
        AttainedProof {
            sumcheck,
            differences,
        }
    }

    fn permute(
        &mut self,
        node: usize,
        input: TensorId,
        source: &[u32],
        claim: &Claim,
        challenger: &mut Challenger,
    ) -> GadgetProof {
        let (from, to) = (
            self.plan().layouts[input.index()],
            self.plan().layouts[node + 1],
        );
        let weights = permutation_weights(source, from, to, &claim.point);
        let (sumcheck, point, [value, _]) =
            sumcheck::product(self.padded(input), weights, claim.value, challenger);
        absorb(challenger, &[value]);
        self.claims[input.index()].push(Claim { point, value });
        GadgetProof::Permute {
            sumcheck,
            input: value,
        }
    }
}
