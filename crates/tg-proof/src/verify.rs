//! The walk over the nodes, from the output to the input.

use crate::commitment::{Challenger, opens_to};
use crate::error::{NodeCheck, VerifyError};
use crate::field::{E, eq, eq_at, eq_table, evaluate, point, signed};
use crate::file::{ExpectedStatement, ProofFile};
use crate::layout::{TensorLayout, WeightLayout, WeightPiece};
use crate::linear::{SourceMap, maximum_sum, permutation_weights};
use crate::lookup::{self, Pulled};
use crate::messages::{
    self, AttainedProof, GadgetProof, InferenceProof, MergeProof, NodeProof, SourceProof, Sumcheck,
};
use crate::model::{ProofShape, PublicModel};
use crate::plan::{NodePlan, Plan};
use crate::transcript::{self, absorb, draw, draw_point};
use p3_commit::MultilinearPcs;
use p3_field::PrimeCharacteristicRing;
use p3_multilinear_util::point::Point;
use p3_sumcheck::PrescribedPointPcs;
use tg_ir::bounds::FIELD_BOUND;
use tg_ir::segment::LIMB_CLASS_MAX;
use tg_ir::weights::{BIAS_BASE, BIAS_DIGITS};
use tg_ir::{ElementType, Op, Program, Requantise, Shape, TensorId, Window};
use tg_types::Digest;

/// A claim that a tensor's extension has a value at a point.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The point.
    pub point: Vec<E>,
    /// The value.
    pub value: E,
}

/// Checks a proof file against a registered model.
///
/// The model's registration is checked first, once per [`PublicModel`].
///
/// # Errors
/// The check that failed.
pub fn verify(
    model: &PublicModel,
    file: &ProofFile,
    expected: &ExpectedStatement,
) -> Result<(), VerifyError> {
    if let Some(field) = expected.mismatch(model.id(), &file.statement) {
        return Err(VerifyError::Statement { field });
    }
    let batch = file.statement.batch;
    let refused = || VerifyError::Batch { batch };
    let (input, output) = public_tensors(model.program(), file)?;
    // Stops: a batch whose proofs cost more than is admitted, or reach less than the security level.
    let shape = model.shape_of(batch as usize).map_err(|_| refused())?;
    // Stops: weights in no range, for which no accumulator has a bound.
    model.verify_registration()?;
    let proof: InferenceProof = messages::decode(&file.proof).ok_or(VerifyError::Encoding)?;
    let mut challenger = transcript::inference(model.program_id(), &file.statement);
    model
        .weights_scheme()
        .observe_commitment(&model.weights_commitment().root, &mut challenger);
    shape
        .witness_scheme
        .observe_commitment(&proof.witness, &mut challenger);
    let mut walk = Walk::new(model.program(), &shape.plan);
    walk.run(&proof.nodes, &output, &mut challenger)?;
    // Stops: a proof about another input.
    let layout = walk.plan.layouts[0];
    for claim in &walk.claims[0] {
        if evaluate_tensor(&input, layout, &claim.point) != claim.value {
            return Err(VerifyError::Input);
        }
    }
    let lookup_point = lookup::verify(walk.plan, &walk.pulled, &proof.lookup, &mut challenger)?;
    check_witness(&shape, &proof, &walk, &lookup_point, &mut challenger)?;
    check_weights(model, &proof, &walk, &mut challenger)
}

/// The public bytes as integers, with lengths, digests and bounds checked.
fn public_tensors(
    program: &Program,
    file: &ProofFile,
) -> Result<(Vec<i32>, Vec<i32>), VerifyError> {
    let batch = file.statement.batch as usize;
    let elements = program.input.shape.elements();
    let expected = batch.saturating_mul(elements);
    if file.input.len() != expected {
        return Err(VerifyError::Length {
            which: "input",
            expected,
            got: file.input.len(),
        });
    }
    let expected = batch.saturating_mul(program.output_bytes());
    if file.output.len() != expected {
        return Err(VerifyError::Length {
            which: "output",
            expected,
            got: file.output.len(),
        });
    }
    for (which, bytes, digest) in [
        ("input", &file.input, file.statement.input),
        ("output", &file.output, file.statement.output),
    ] {
        if Digest::of_blob(bytes) != digest {
            return Err(VerifyError::Digest { which });
        }
    }
    let bytes = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|&byte| i32::from(byte.cast_signed()))
            .collect::<Vec<_>>()
    };
    let output = match program.element_type(program.output()) {
        ElementType::I8 => bytes(&file.output),
        ElementType::I16 => file
            .output
            .as_chunks::<2>()
            .0
            .iter()
            .map(|&word| i32::from(i16::from_le_bytes(word)))
            .collect(),
        ElementType::I32 => file
            .output
            .as_chunks::<4>()
            .0
            .iter()
            .map(|&word| i32::from_le_bytes(word))
            .collect(),
    };
    // Stops: an output that is right modulo p only.
    match output
        .iter()
        .position(|&value| i64::from(value).abs() > FIELD_BOUND)
    {
        Some(index) => Err(VerifyError::OutputBound { index }),
        None => Ok((
            interleaved(bytes(&file.input), program.input.shape, batch),
            interleaved(output, program.shape(program.output()), batch),
        )),
    }
}

/// Tensors one after the other as one batched tensor: pixels, then inputs, then channels.
#[must_use]
pub fn interleaved<T: Copy>(values: Vec<T>, shape: Shape, batch: usize) -> Vec<T> {
    if batch <= 1 {
        return values;
    }
    let (channels, elements) = (shape.channels as usize, shape.elements());
    let mut out = Vec::with_capacity(values.len());
    for pixel in 0..shape.pixels() {
        for tensor in values.chunks_exact(elements) {
            out.extend_from_slice(&tensor[pixel * channels..][..channels]);
        }
    }
    out
}

/// The extension of a batched tensor given in storage order.
#[must_use]
pub fn evaluate_tensor(values: &[i32], layout: TensorLayout, at: &[E]) -> E {
    let (pixels, batch, channels) = layout.split(at);
    let (pixels, batch, channels) = (eq_table(pixels), eq_table(batch), eq_table(channels));
    values
        .chunks_exact(layout.batch * layout.channels)
        .zip(pixels)
        .map(|(rows, weight)| {
            let rows = rows.chunks_exact(layout.channels).zip(&batch);
            let sum: E = rows
                .map(|(row, &input)| {
                    let terms = row.iter().zip(&channels);
                    input * terms.map(|(&v, &eq)| eq * signed(i64::from(v))).sum::<E>()
                })
                .sum();
            weight * sum
        })
        .sum()
}

/// The state of the walk: open claims per tensor, what was pulled, and what must be opened.
#[derive(Debug)]
pub struct Walk<'a> {
    program: &'a Program,
    plan: &'a Plan,
    claims: Vec<Vec<Claim>>,
    pulled: Vec<Pulled>,
    /// Per weighted node the claim on its weights and the claims on its bias digits.
    weights: Vec<Option<WeightClaims>>,
    /// Per witness table of a maximum the point and values of its zero-check.
    attained: Vec<Option<(Vec<E>, Vec<E>)>>,
}

#[derive(Debug, Clone)]
struct WeightClaims {
    /// Output channel, position and input channel.
    point: Vec<E>,
    pieces: Vec<E>,
    bias_point: Vec<E>,
    bias: [E; BIAS_DIGITS],
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, plan: &'a Plan) -> Self {
        Self {
            program,
            plan,
            claims: vec![Vec::new(); program.nodes.len() + 1],
            pulled: vec![Pulled::default(); plan.groups.len()],
            weights: vec![None; plan.weights.len()],
            attained: vec![None; plan.witness.len()],
        }
    }

    fn run(
        &mut self,
        proofs: &[NodeProof],
        output: &[i32],
        challenger: &mut Challenger,
    ) -> Result<(), VerifyError> {
        let nodes = self.program.nodes.len();
        if proofs.len() != nodes {
            return Err(VerifyError::Nodes {
                expected: nodes,
                got: proofs.len(),
            });
        }
        let layout = self.plan.layouts[nodes];
        let drawn = draw_point(challenger, layout.vars());
        // Stops: another output than the one proved.
        let value = evaluate_tensor(output, layout, &drawn);
        self.claims[nodes].push(Claim {
            point: drawn,
            value,
        });
        for (node, proof) in (0..nodes).rev().zip(proofs) {
            self.node(node, proof, challenger).map_err(|check| {
                let name = self.program.nodes[node].name.clone();
                VerifyError::Node { node, name, check }
            })?;
        }
        Ok(())
    }

    fn node(
        &mut self,
        node: usize,
        proof: &NodeProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let claim = self.single_claim(node, proof.merge.as_ref(), challenger)?;
        let (program, plan) = (self.program, self.plan);
        match (&program.nodes[node].op, &plan.nodes[node]) {
            (Op::Conv { input, window, .. }, NodePlan::Linear { weights }) => self.conv(
                node,
                *input,
                window,
                *weights,
                &claim,
                &proof.gadget,
                challenger,
            ),
            (Op::Dense { input }, NodePlan::Linear { weights }) => {
                self.dense(node, *input, *weights, &claim, &proof.gadget, challenger)
            }
            (Op::WindowSum { input, window }, NodePlan::Free) => {
                self.window_sum(node, *input, window, &claim, &proof.gadget, challenger)
            }
            (
                Op::Add {
                    inputs,
                    multipliers,
                    ..
                },
                NodePlan::Free,
            ) => self.add(inputs, multipliers, &claim, &proof.gadget, challenger),
            (
                Op::Requantise { input, how },
                NodePlan::Requantise {
                    first_group,
                    witness,
                    ..
                },
            ) => {
                let covered = covered_rows(plan, witness);
                self.requantise(
                    *input,
                    how,
                    *first_group,
                    covered,
                    claim,
                    &proof.gadget,
                    challenger,
                )
            }
            (
                Op::MaxPool { input, window },
                NodePlan::Maximum {
                    first_group,
                    witness,
                },
            ) => {
                let place = MaximumPlace {
                    node,
                    input: *input,
                    window,
                    first_group: *first_group,
                    witness,
                };
                self.maximum(&place, &claim, &proof.gadget, challenger)
            }
            (Op::View { input, view }, NodePlan::Free) => {
                let sources = view.sources();
                self.permute(node, *input, &sources, &claim, &proof.gadget, challenger)
            }
            _ => Err(NodeCheck::Messages),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one gadget")]
    fn conv(
        &mut self,
        node: usize,
        input: TensorId,
        window: &Window,
        weights: usize,
        claim: &Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::Conv {
            bias,
            products,
            weights: pieces,
            reads,
            sources,
        } = gadget
        else {
            return Err(NodeCheck::Messages);
        };
        let (claims, at) = self.products(
            node,
            weights,
            claim,
            bias,
            products,
            (pieces, *reads),
            challenger,
        )?;
        self.weights[weights] = Some(claims);
        let (positions, channels) = at.split_at(self.plan.weights[weights].axis_vars()[1]);
        let (pixels, batch, _) = self.plan.layouts[node + 1].split(&claim.point);
        let inner = [batch, channels].concat();
        let map = SourceMap::new(
            self.program,
            node,
            input,
            window,
            eq_table(positions),
            eq_table(pixels),
        );
        self.sources(&map, *reads, &inner, sources, challenger)
    }

    fn dense(
        &mut self,
        node: usize,
        input: TensorId,
        weights: usize,
        claim: &Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::Dense {
            bias,
            products,
            weights: pieces,
            input: value,
        } = gadget
        else {
            return Err(NodeCheck::Messages);
        };
        let (claims, at) = self.products(
            node,
            weights,
            claim,
            bias,
            products,
            (pieces, *value),
            challenger,
        )?;
        self.weights[weights] = Some(claims);
        let (_, batch, _) = self.plan.layouts[node + 1].split(&claim.point);
        let (pixels, channels) = at.split_at(self.plan.layouts[input.index()].pixel_vars);
        self.claims[input.index()].push(Claim {
            point: [pixels, batch, channels].concat(),
            value: *value,
        });
        Ok(())
    }

    fn window_sum(
        &mut self,
        node: usize,
        input: TensorId,
        window: &Window,
        claim: &Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::WindowSum { sources } = gadget else {
            return Err(NodeCheck::Messages);
        };
        let (pixels, channels) = claim.point.split_at(self.plan.layouts[node + 1].pixel_vars);
        let ones = vec![E::ONE; window.positions()];
        let map = SourceMap::new(self.program, node, input, window, ones, eq_table(pixels));
        self.sources(&map, claim.value, channels, sources, challenger)
    }

    fn add(
        &mut self,
        inputs: &[TensorId],
        multipliers: &[i32],
        claim: &Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::Add { inputs: values } = gadget else {
            return Err(NodeCheck::Messages);
        };
        absorb(challenger, values);
        // Stops: inputs that do not add up to the claim.
        let terms = values.iter().zip(multipliers);
        let sum: E = terms.map(|(&value, &m)| value * E::from_i32(m)).sum();
        if sum != claim.value {
            return Err(NodeCheck::Addition);
        }
        for (input, &value) in inputs.iter().zip(values) {
            self.claims[input.index()].push(Claim {
                point: claim.point.clone(),
                value,
            });
        }
        Ok(())
    }

    /// The one claim on a node's output, merged if there are several.
    fn single_claim(
        &mut self,
        node: usize,
        merge: Option<&MergeProof>,
        challenger: &mut Challenger,
    ) -> Result<Claim, NodeCheck> {
        let mut claims = std::mem::take(&mut self.claims[node + 1]);
        match (claims.len(), merge) {
            (1, None) => Ok(claims.remove(0)),
            (2.., Some(proof)) => {
                let alpha = draw(challenger);
                let powers: Vec<E> = alpha.powers().take(claims.len()).collect();
                let sum = claims
                    .iter()
                    .zip(&powers)
                    .map(|(claim, &power)| claim.value * power)
                    .sum();
                let vars = self.plan.layouts[node + 1].vars();
                let (point, last) =
                    sumcheck(&proof.sumcheck, challenger, vars, 2, sum).ok_or(NodeCheck::Merge)?;
                absorb(challenger, &[proof.value]);
                let weight: E = claims
                    .iter()
                    .zip(&powers)
                    .map(|(claim, &power)| power * eq(&claim.point, &point))
                    .sum();
                if last != weight * proof.value {
                    return Err(NodeCheck::Merge);
                }
                Ok(Claim {
                    point,
                    value: proof.value,
                })
            }
            _ => Err(NodeCheck::Messages),
        }
    }

    /// Step 1 of a convolution or dense node: the sum over positions and input channels.
    #[expect(clippy::too_many_arguments, reason = "the messages of one gadget")]
    fn products(
        &self,
        node: usize,
        weights: usize,
        claim: &Claim,
        bias: &[E; BIAS_DIGITS],
        proof: &Sumcheck,
        (pieces, read): (&[E], E),
        challenger: &mut Challenger,
    ) -> Result<(WeightClaims, Vec<E>), NodeCheck> {
        let layout = self.plan.layouts[node + 1];
        let (pixels, batch, outputs) = layout.split(&claim.point);
        absorb(challenger, bias);
        let base = E::from_u32(BIAS_BASE.unsigned_abs());
        let bias_value = bias
            .iter()
            .rev()
            .fold(E::ZERO, |value, &digit| value * base + digit);
        let rows = eq_prefix(pixels, layout.pixels) * eq_prefix(batch, layout.batch);
        let sum = claim.value - bias_value * rows;
        let weight_layout = self.plan.weights[weights];
        let [_, position_vars, input_vars] = weight_layout.axis_vars();
        let (at, last) = sumcheck(proof, challenger, position_vars + input_vars, 2, sum)
            .ok_or(NodeCheck::Products)?;
        absorb(challenger, pieces);
        absorb(challenger, &[read]);
        let point = [outputs, &at].concat();
        let weight = combine_pieces(&weight_layout, &point, pieces).ok_or(NodeCheck::Messages)?;
        // Stops: accumulators that are not the products of the committed weights.
        if last != weight * read {
            return Err(NodeCheck::Products);
        }
        Ok((
            WeightClaims {
                point,
                pieces: pieces.to_vec(),
                bias_point: outputs.to_vec(),
                bias: *bias,
            },
            at,
        ))
    }

    /// Step 2: a public weight per input pixel.
    fn sources(
        &mut self,
        map: &SourceMap<'_>,
        sum: E,
        inner: &[E],
        proof: &SourceProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let vars = self.plan.layouts[map.input.index()].pixel_vars;
        let (mut point, last) =
            sumcheck(&proof.sumcheck, challenger, vars, 2, sum).ok_or(NodeCheck::Sources)?;
        absorb(challenger, &[proof.input]);
        // Stops: reading other pixels than the window's.
        if last != evaluate(&map.weights(), &point) * proof.input {
            return Err(NodeCheck::Sources);
        }
        point.extend_from_slice(inner);
        self.claims[map.input.index()].push(Claim {
            point,
            value: proof.input,
        });
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one gadget")]
    fn requantise(
        &mut self,
        input: TensorId,
        how: &Requantise,
        first_group: usize,
        covered: usize,
        claim: Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::Requantise { pulled } = gadget else {
            return Err(NodeCheck::Messages);
        };
        absorb(challenger, pulled);
        let [base, class_high, class_low, high, low] = *pulled;
        let layout = self.plan.layouts[input.index()];
        let pair = pair_at(how, layout, covered, &claim.point);
        let readers = [
            vec![base, claim.value, class_high, class_low, pair],
            vec![high, class_high],
            vec![low, class_low],
        ];
        for (offset, values) in readers.into_iter().enumerate() {
            self.pulled[first_group + offset] = Pulled {
                point: claim.point.clone(),
                values,
            };
        }
        let value = base + high * E::from_u32(256) + low;
        self.claims[input.index()].push(Claim {
            point: claim.point,
            value,
        });
        Ok(())
    }

    fn maximum(
        &mut self,
        place: &MaximumPlace<'_>,
        claim: &Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::Maximum {
            differences,
            sources,
            attained,
        } = gadget
        else {
            return Err(NodeCheck::Messages);
        };
        let &MaximumPlace {
            node,
            input,
            window,
            first_group,
            witness,
        } = place;
        let (layout, positions) = (self.plan.layouts[node + 1], window.positions());
        if differences.len() != positions {
            return Err(NodeCheck::Messages);
        }
        absorb(challenger, differences);
        let class =
            E::from_u32(LIMB_CLASS_MAX) * eq_prefix(&claim.point, covered_rows(self.plan, witness));
        for (position, &difference) in differences.iter().enumerate() {
            let values = vec![difference, class];
            self.pulled[first_group + position] = Pulled {
                point: claim.point.clone(),
                values,
            };
        }
        let tau = draw_point(challenger, crate::layout::log2_ceil(positions));
        let (pixels, channels) = claim.point.split_at(layout.pixel_vars);
        let map = SourceMap::new(
            self.program,
            node,
            input,
            window,
            eq_table(&tau),
            eq_table(pixels),
        );
        let sum = maximum_sum(&map, claim.value, differences);
        self.sources(&map, sum, channels, sources, challenger)?;
        self.attained(witness.clone(), positions, attained, challenger)
    }

    /// Some difference of every window is zero, chunk by chunk.
    fn attained(
        &mut self,
        witness: std::ops::Range<usize>,
        positions: usize,
        proofs: &[AttainedProof],
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        if proofs.len() != witness.len() {
            return Err(NodeCheck::Messages);
        }
        for (table, proof) in witness.zip(proofs) {
            let vars = self.plan.witness[table].chunk.vars;
            let drawn = draw_point(challenger, vars);
            let (at, last) = sumcheck(&proof.sumcheck, challenger, vars, positions + 1, E::ZERO)
                .ok_or(NodeCheck::Attained)?;
            if proof.differences.len() != positions {
                return Err(NodeCheck::Messages);
            }
            absorb(challenger, &proof.differences);
            // Stops: a maximum above every element of its window.
            if last != eq(&drawn, &at) * proof.differences.iter().copied().product::<E>() {
                return Err(NodeCheck::Attained);
            }
            self.attained[table] = Some((at, proof.differences.clone()));
        }
        Ok(())
    }

    fn permute(
        &mut self,
        node: usize,
        input: TensorId,
        source: &[u32],
        claim: &Claim,
        gadget: &GadgetProof,
        challenger: &mut Challenger,
    ) -> Result<(), NodeCheck> {
        let GadgetProof::Permute {
            sumcheck: proof,
            input: value,
        } = gadget
        else {
            return Err(NodeCheck::Messages);
        };
        let shapes = [self.program.shape(input), self.program.nodes[node].shape];
        let from = self.plan.layouts[input.index()];
        let (pixels, batch, channels) = self.plan.layouts[node + 1].split(&claim.point);
        let rounds = from.pixel_vars + from.channel_vars;
        let (point, last) =
            sumcheck(proof, challenger, rounds, 2, claim.value).ok_or(NodeCheck::Permutation)?;
        absorb(challenger, &[*value]);
        let at = [pixels, channels].concat();
        let weight = evaluate(
            &permutation_weights(source, shapes[0], shapes[1], &at),
            &point,
        );
        // Stops: elements moved elsewhere.
        if last != weight * *value {
            return Err(NodeCheck::Permutation);
        }
        let (pixels, channels) = point.split_at(from.pixel_vars);
        self.claims[input.index()].push(Claim {
            point: [pixels, batch, channels].concat(),
            value: *value,
        });
        Ok(())
    }
}

/// Where a maximum stands in the plan.
struct MaximumPlace<'a> {
    node: usize,
    input: TensorId,
    window: &'a Window,
    first_group: usize,
    witness: &'a std::ops::Range<usize>,
}

/// `sum over x < count of eq(at, x)`.
#[must_use]
pub fn eq_prefix(at: &[E], count: usize) -> E {
    if count >> at.len() != 0 {
        return E::ONE;
    }
    let (mut sum, mut matched) = (E::ZERO, E::ONE);
    for (i, &coordinate) in at.iter().enumerate() {
        if count >> (at.len() - 1 - i) & 1 == 1 {
            sum += matched * (E::ONE - coordinate);
            matched *= coordinate;
        } else {
            matched *= E::ONE - coordinate;
        }
    }
    sum
}

/// Rows that the chunks of a node cover.
#[must_use]
pub fn covered_rows(plan: &Plan, witness: &std::ops::Range<usize>) -> usize {
    plan.witness[witness.clone()]
        .last()
        .map_or(0, |table| table.chunk.start + table.chunk.rows())
}

/// The pair of a channel, padding included.
#[must_use]
pub fn padded_pair(how: &Requantise, channel: usize) -> u8 {
    match how.channel_pairs.len() {
        1 => how.channel_pairs[0],
        channels if channel < channels => how.channel_pairs[channel],
        _ => 0,
    }
}

/// The extension of the public map from covered rows to pairs; rows of every input of the padded batch have one.
fn pair_at(how: &Requantise, layout: TensorLayout, covered: usize, at: &[E]) -> E {
    let (pixels, _, channels) = layout.split(at);
    let per_channel: E = eq_table(channels)
        .into_iter()
        .enumerate()
        .map(|(channel, weight)| weight * E::from_u8(padded_pair(how, channel)))
        .sum();
    eq_prefix(pixels, covered >> layout.inner_vars()) * per_channel
}

/// The part of a point of the weights that belongs to a piece, and the weight of the piece at it.
#[must_use]
pub fn piece_point(layout: &WeightLayout, piece: &WeightPiece, point: &[E]) -> (Vec<E>, E) {
    let (mut rest, mut scale, mut start) = (Vec::new(), E::ONE, 0);
    for (axis, vars) in layout.axis_vars().into_iter().enumerate() {
        let coordinates = &point[start..start + vars];
        let (high, low) = coordinates.split_at(vars - piece.vars[axis]);
        scale *= eq_at(high, piece.start[axis] >> piece.vars[axis]);
        rest.extend_from_slice(low);
        start += vars;
    }
    (rest, scale)
}

/// The weights at a point from their pieces at its parts; nothing if these are not the pieces' number.
fn combine_pieces(layout: &WeightLayout, point: &[E], values: &[E]) -> Option<E> {
    let pieces = layout.pieces();
    (pieces.len() == values.len()).then(|| {
        let terms = pieces.iter().zip(values);
        terms
            .map(|(piece, &value)| piece_point(layout, piece, point).1 * value)
            .sum()
    })
}

/// Runs a sumcheck and checks its claimed sum; nothing if it does not close.
fn sumcheck(
    proof: &Sumcheck,
    challenger: &mut Challenger,
    rounds: usize,
    degree: usize,
    sum: E,
) -> Option<(Vec<E>, E)> {
    if proof.claimed_sum != sum {
        return None;
    }
    let (point, last) = proof.verify(challenger, rounds, degree, 0).ok()?;
    Some((point.as_slice().to_vec(), last))
}

/// A claim's point for a column that is padded in front.
#[must_use]
pub fn padded_point(at: &[E], vars: usize) -> Point<E> {
    point(&[vec![E::ZERO; vars - at.len()], at.to_vec()].concat())
}

fn check_witness(
    shape: &ProofShape,
    proof: &InferenceProof,
    walk: &Walk<'_>,
    lookup_point: &[E],
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    let (mut points, mut expected) = (Vec::new(), Vec::new());
    for (index, table) in walk.plan.witness.iter().enumerate() {
        let vars = table.chunk.column_vars();
        points.push(padded_point(
            &lookup_point[lookup_point.len() - table.chunk.vars..],
            vars,
        ));
        expected.push(&proof.lookup.columns[index]);
        if let Some((at, values)) = &walk.attained[index] {
            points.push(padded_point(at, vars));
            expected.push(values);
        }
    }
    let opened = shape
        .witness_scheme
        .verify_at(
            &proof.witness,
            &proof.witness_opening,
            &shape.witness_protocol,
            &points,
            challenger,
        )
        .map_err(|_| VerifyError::Opening { which: "witness" })?;
    if opens_to(&opened, &expected) {
        Ok(())
    } else {
        Err(VerifyError::Opened { which: "witness" })
    }
}

fn check_weights(
    model: &PublicModel,
    proof: &InferenceProof,
    walk: &Walk<'_>,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    let (mut points, mut expected) = (Vec::new(), Vec::new());
    let at = model.anchor_point();
    let mut anchors = model.weights_commitment().anchor.iter();
    let mut anchor = |vars: usize| {
        let values = anchors.next().cloned().unwrap_or_default();
        (point(&at[at.len() - vars..]), values)
    };
    for (layout, claims) in walk.plan.weights.iter().zip(&walk.weights) {
        let Some(claims) = claims else {
            return Err(VerifyError::Opened { which: "weights" });
        };
        let WeightClaims {
            point,
            pieces,
            bias_point,
            bias,
        } = claims;
        // Per column the claim, and the anchor. Stops: other weights near the root than the registered ones.
        for (piece, &value) in layout.pieces().iter().zip(pieces) {
            let vars = piece.column_vars();
            points.push(padded_point(&piece_point(layout, piece, point).0, vars));
            expected.push(vec![value]);
            let (at, values) = anchor(vars);
            points.push(at);
            expected.push(values);
        }
        let vars = layout.bias_vars();
        points.push(padded_point(bias_point, vars));
        expected.push(bias.to_vec());
        let (at, values) = anchor(vars);
        points.push(at);
        expected.push(values);
    }
    let opened = model
        .weights_scheme()
        .verify_at(
            &model.weights_commitment().root,
            &proof.weights_opening,
            model.weights_protocol(),
            &points,
            challenger,
        )
        .map_err(|_| VerifyError::Opening { which: "weights" })?;
    if opens_to(&opened, &expected) {
        Ok(())
    } else {
        Err(VerifyError::Opened { which: "weights" })
    }
}
