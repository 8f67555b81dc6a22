//! The walk over the nodes from the output to the input, in step with the verifier's.

use crate::fold::{Dots, dot, fold};
use crate::lookup::Read;
use crate::model::ProvingModel;
use crate::prove::ProveError;
use crate::sumcheck;
use crate::witness::{Witness, integer};
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use tg_ir::{Op, TensorId, Window};
use tg_model::Tensor;
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, eq_at, eq_table, signed};
use tg_proof::layout::{TensorLayout, WeightLayout, log2_ceil};
use tg_proof::linear::{SourceMap, maximum_sum, permutation_weights};
use tg_proof::messages::{AttainedProof, GadgetProof, MergeProof, NodeProof, SourceProof};
use tg_proof::plan::{NodePlan, Plan};
use tg_proof::transcript::{absorb, draw, draw_point};
use tg_proof::verify::{Claim, eq_prefix, piece_point};

/// The weights of a node folded by the point of its output channel.
struct FoldedWeights {
    /// Per chunk of the output axis its first channel and its fold, `[position][input]` without padding.
    chunks: Vec<(usize, Vec<E>)>,
    /// All of them, padded.
    padded: Vec<E>,
    bias: [E; tg_ir::weights::BIAS_DIGITS],
    /// The claim less the bias.
    sum: E,
}

/// What the walk leaves behind: the messages, the reads of the lookup argument, and the points of the openings.
pub(crate) struct Walk<'a> {
    model: &'a ProvingModel,
    plan: &'a Plan,
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
        plan: &'a Plan,
        tensors: &'a [Tensor],
        witness: &'a Witness,
    ) -> Self {
        Self {
            model,
            plan,
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
        visited: &mut dyn FnMut(usize) -> Result<(), ProveError>,
    ) -> Result<Vec<NodeProof>, ProveError> {
        let nodes = self.model.model.program.nodes.len();
        let layout = self.plan().layouts[nodes];
        let point = draw_point(challenger, layout.vars());
        let value = evaluate(&self.tensors[nodes], layout, &point);
        self.claims[nodes].push(Claim { point, value });
        (0..nodes)
            .rev()
            .enumerate()
            .map(|(done, node)| {
                let proof = self.node(node, challenger);
                visited(done + 1)?;
                Ok(proof)
            })
            .collect()
    }

    const fn plan(&self) -> &'a Plan {
        self.plan
    }

    fn node(&mut self, node: usize, challenger: &mut Challenger) -> NodeProof {
        let (claim, merge) = self.single_claim(node, challenger);
        let model = self.model;
        let gadget = match (&model.model.program.nodes[node].op, &self.plan.nodes[node]) {
            (Op::Conv { input, window, .. }, NodePlan::Linear { weights }) => {
                self.conv(node, *input, window, *weights, &claim, challenger)
            }
            (Op::Dense { input }, NodePlan::Linear { weights }) => {
                self.dense(node, *input, *weights, &claim, challenger)
            }
            (Op::WindowSum { input, window }, _) => {
                let (pixels, inner) = claim
                    .point
                    .split_at(self.plan().layouts[node + 1].pixel_vars);
                let program = &model.model.program;
                let ones = vec![E::ONE; window.positions()];
                let map = SourceMap::new(program, node, *input, window, ones, eq_table(pixels));
                GadgetProof::WindowSum {
                    sources: self.sources(&map, claim.value, inner, challenger),
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

    /// A tensor over its padded hypercube.
    fn padded(&self, tensor: TensorId) -> Vec<E> {
        let layout = self.plan().layouts[tensor.index()];
        let mut padded = vec![E::ZERO; 1 << layout.vars()];
        let tensor = &self.tensors[tensor.index()];
        if let Some(values) = tensor.activations() {
            let table = small_integers();
            for (element, &value) in values.iter().enumerate() {
                padded[layout.index_of_element(element)] =
                    table[usize::from(value.cast_unsigned())];
            }
        } else {
            for (element, value) in tensor.widened().into_iter().enumerate() {
                padded[layout.index_of_element(element)] = signed(i64::from(value)).into();
            }
        }
        padded
    }

    /// A tensor over pixels and channels, the inputs of the batch summed with weights.
    fn over_batch(&self, tensor: TensorId, batch: &[E]) -> Vec<E> {
        let layout = self.plan().layouts[tensor.index()];
        let all = self.padded(tensor);
        if layout.batch == 1 {
            return all;
        }
        let weights = eq_table(batch);
        let channels = 1 << layout.channel_vars;
        let mut values = vec![E::ZERO; 1 << (layout.pixel_vars + layout.channel_vars)];
        let pixels = all.chunks_exact(1 << layout.inner_vars());
        for (sums, rows) in values.chunks_exact_mut(channels).zip(pixels) {
            for (row, &weight) in rows.chunks_exact(channels).zip(&weights) {
                let terms = sums.iter_mut().zip(row);
                terms.for_each(|(sum, &value)| *sum += weight * value);
            }
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
    ) -> FoldedWeights {
        let layout = self.plan().layouts[node + 1];
        let (pixels, batch, outputs) = layout.split(&claim.point);
        let eq = eq_table(outputs);
        let digits = &self.model.columns[weights].bias;
        let bias = digits.each_ref().map(|column| dot(column, &eq));
        absorb(challenger, &bias);
        let base = E::from_u32(tg_ir::weights::BIAS_BASE.unsigned_abs());
        let bias_value = bias
            .iter()
            .rev()
            .fold(E::ZERO, |value, &digit| value * base + digit);
        let shape = self.plan().weights[weights];
        let values = &self.model.model.weights.layers[weights].weights;
        let width = shape.positions * shape.inputs;
        let mut chunks: Vec<(usize, Vec<E>)> = Vec::new();
        let mut total = vec![E::ZERO; width];
        for piece in shape.pieces() {
            let (start, vars) = (piece.start[0], piece.vars[0]);
            if chunks.iter().any(|&(known, _)| known == start) {
                continue;
            }
            let (high, low) = outputs.split_at(outputs.len() - vars);
            let row = |output: usize| Some(&values[(start + output) * width..][..width]);
            let folded = fold(width, &eq_table(low)[..piece.count[0]], row);
            let scale = eq_at(high, start >> vars);
            total
                .iter_mut()
                .zip(&folded)
                .for_each(|(sum, &value)| *sum += scale * value);
            chunks.push((start, folded));
        }
        let rows = eq_prefix(pixels, layout.pixels) * eq_prefix(batch, layout.batch);
        FoldedWeights {
            chunks,
            padded: padded_rows(&total, &shape),
            bias,
            sum: claim.value - bias_value * rows,
        }
    }

    /// The pieces of the weights at their parts of a point.
    fn piece_values(&self, weights: usize, folded: &FoldedWeights, point: &[E]) -> Vec<E> {
        let layout = self.plan().weights[weights];
        let values = layout.pieces().into_iter().map(|piece| {
            let (rest, _) = piece_point(&layout, &piece, point);
            let inner = &rest[piece.vars[0]..];
            let (positions, inputs) = inner.split_at(piece.vars[1]);
            let (positions, inputs) = (eq_table(positions), eq_table(inputs));
            let start = |&&(start, _): &&(usize, Vec<E>)| start == piece.start[0];
            let folded = folded.chunks.iter().find(start);
            let folded = &folded.expect("every chunk of outputs is folded").1;
            let rows = positions.iter().take(piece.count[1]).enumerate();
            rows.map(|(position, &weight)| {
                let at = (piece.start[1] + position) * layout.inputs + piece.start[2];
                let row = &folded[at..at + piece.count[2]];
                weight * row.iter().zip(&inputs).map(|(&a, &b)| a * b).sum::<E>()
            })
            .sum()
        });
        values.collect()
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
        let mut folded = self.fold_weights(node, weights, claim, challenger);
        let (pixels, batch, outputs) = self.plan().layouts[node + 1].split(&claim.point);
        let pixels = eq_table(pixels);
        let shape = self.plan().weights[weights];
        let products = self.window_products(node, input, window, &pixels, batch);
        let factor = std::mem::take(&mut folded.padded);
        let (products, at, [_, reads]) = sumcheck::product(
            factor,
            padded_rows(&products, &shape),
            folded.sum,
            challenger,
        );
        let point = [outputs, &at].concat();
        let pieces = self.piece_values(weights, &folded, &point);
        absorb(challenger, &pieces);
        absorb(challenger, &[reads]);
        self.weights[weights] = Some((point, outputs.to_vec()));
        let (positions, channels) = at.split_at(shape.axis_vars()[1]);
        let inner = [batch, channels].concat();
        let map = SourceMap::new(program, node, input, window, eq_table(positions), pixels);
        let sources = self.sources(&map, reads, &inner, challenger);
        GadgetProof::Conv {
            bias: folded.bias,
            products,
            weights: pieces,
            reads,
            sources,
        }
    }

    /// `X(k, i) = sum over output pixels s and inputs b of pixels[s] * eq(batch, b) * in[source(s, k), b, i]`, without
    /// padding.
    fn window_products(
        &self,
        node: usize,
        input: TensorId,
        window: &Window,
        pixels: &[E],
        batch: &[E],
    ) -> Vec<E> {
        let program = &self.model.model.program;
        let (from, to) = (program.shape(input), program.nodes[node].shape);
        let layout = self.plan().layouts[input.index()];
        let (values, width) = (self.activations(input), layout.batch * layout.channels);
        let weights = &pixels[..to.pixels()];
        let positions: Vec<usize> = (0..window.positions()).collect();
        let folded: Vec<Vec<E>> = positions
            .into_par_iter()
            .map(|position| {
                fold(width, weights, |pixel| {
                    let (row, column) = (pixel as u32 / to.width, pixel as u32 % to.width);
                    let source = window.source(from, row, column, position)?;
                    Some(&values[source * width..][..width])
                })
            })
            .collect();
        if layout.batch == 1 {
            return folded.concat();
        }
        let inputs = eq_table(batch);
        let rows = folded.iter().flat_map(|wide| {
            let mut sums = vec![E::ZERO; layout.channels];
            for (row, &weight) in wide.chunks_exact(layout.channels).zip(&inputs) {
                let terms = sums.iter_mut().zip(row);
                terms.for_each(|(sum, &value)| *sum += weight * value);
            }
            sums
        });
        rows.collect()
    }

    fn sources(
        &mut self,
        map: &SourceMap<'_>,
        sum: E,
        inner: &[E],
        challenger: &mut Challenger,
    ) -> SourceProof {
        let layout = self.plan().layouts[map.input.index()];
        let width = layout.batch * layout.channels;
        let mut values =
            Dots::new(&inner_weights(layout, inner)).dot_rows(width, self.activations(map.input));
        values.resize(1 << layout.pixel_vars, E::ZERO);
        let (sumcheck, mut point, [input, _]) =
            sumcheck::product(values, map.weights(), sum, challenger);
        absorb(challenger, &[input]);
        point.extend_from_slice(inner);
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
        let mut folded = self.fold_weights(node, weights, claim, challenger);
        let (_, batch, outputs) = self.plan().layouts[node + 1].split(&claim.point);
        let factor = std::mem::take(&mut folded.padded);
        let values = self.over_batch(input, batch);
        let (products, at, [_, value]) = sumcheck::product(factor, values, folded.sum, challenger);
        let point = [outputs, &at].concat();
        let pieces = self.piece_values(weights, &folded, &point);
        absorb(challenger, &pieces);
        absorb(challenger, &[value]);
        self.weights[weights] = Some((point, outputs.to_vec()));
        let (pixels, channels) = at.split_at(self.plan().layouts[input.index()].pixel_vars);
        self.claims[input.index()].push(Claim {
            point: [pixels, batch, channels].concat(),
            value,
        });
        GadgetProof::Dense {
            bias: folded.bias,
            products,
            weights: pieces,
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
            evaluate(&self.tensors[input.index()], layout, &claim.point)
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
        let eq = eq_table(&claim.point);
        let point: Arc<[E]> = claim.point.as_slice().into();
        let [segment, high, low] = [0, 1, 2]
            .map(|offset| Read::new(plan, self.witness, first_group + offset, &point, &eq));
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
        let eq = eq_table(&claim.point);
        let point: Arc<[E]> = claim.point.as_slice().into();
        let differences: Vec<E> = (first_group..first_group + positions)
            .map(|group| {
                let read = Read::new(plan, self.witness, group, &point, &eq);
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
                .map(|&value| E::from_u32(integer(value)))
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
        let program = &self.model.model.program;
        let shapes = [program.shape(input), program.nodes[node].shape];
        let (pixels, batch, channels) = self.plan().layouts[node + 1].split(&claim.point);
        let at = [pixels, channels].concat();
        let weights = permutation_weights(source, shapes[0], shapes[1], &at);
        let values = self.over_batch(input, batch);
        let (sumcheck, point, [value, _]) =
            sumcheck::product(values, weights, claim.value, challenger);
        absorb(challenger, &[value]);
        let (pixels, channels) = point.split_at(self.plan().layouts[input.index()].pixel_vars);
        self.claims[input.index()].push(Claim {
            point: [pixels, batch, channels].concat(),
            value,
        });
        GadgetProof::Permute {
            sumcheck,
            input: value,
        }
    }
}

/// Rows of input channels, one per position, each padded to a power of two.
fn padded_rows(values: &[E], layout: &WeightLayout) -> Vec<E> {
    let [_, position_vars, input_vars] = layout.axis_vars();
    let mut padded = vec![E::ZERO; 1 << (position_vars + input_vars)];
    let rows = padded.chunks_exact_mut(1 << input_vars);
    for (to, from) in rows.zip(values.chunks_exact(layout.inputs)) {
        to[..layout.inputs].copy_from_slice(from);
    }
    padded
}

/// `eq` of a point of inputs and channels, without padding.
fn inner_weights(layout: TensorLayout, inner: &[E]) -> Vec<E> {
    let (batch, channels) = inner.split_at(layout.batch_vars);
    let channels = eq_table(channels);
    let batch = eq_table(batch);
    let rows = batch.iter().take(layout.batch).flat_map(|&input| {
        let row = channels.iter().take(layout.channels);
        row.map(move |&channel| input * channel)
    });
    rows.collect()
}

/// The extension of a tensor at a point.
fn evaluate(tensor: &Tensor, layout: TensorLayout, at: &[E]) -> E {
    let (pixels, inner) = at.split_at(layout.pixel_vars);
    let pixels = eq_table(pixels);
    let weights = inner_weights(layout, inner);
    if let Some(values) = tensor.activations() {
        let rows = Dots::new(&weights).dot_rows(weights.len(), values);
        return rows.iter().zip(&pixels).map(|(&a, &b)| a * b).sum();
    }
    let values = tensor.widened();
    let rows = values.chunks_exact(weights.len()).zip(&pixels);
    rows.map(|(row, &pixel)| {
        let terms = row.iter().zip(&weights);
        pixel
            * terms
                .map(|(&value, &weight)| weight * signed(i64::from(value)))
                .sum::<E>()
    })
    .sum()
}

/// The element of each byte.
fn small_integers() -> Vec<E> {
    (0..=u8::MAX)
        .map(|byte| signed(i64::from(byte.cast_signed())).into())
        .collect()
}
