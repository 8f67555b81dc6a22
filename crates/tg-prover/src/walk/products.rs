//! Convolutions and dense nodes.

use super::Walk;
use super::values::{sum_batch, with_values};
use crate::channel::Channel;
use crate::fold::{Integer, dot, fold};
use crate::sumcheck;
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use tg_ir::op;
use tg_ir::{Op, Shape, Window};
use tg_proof::field::{E, eq_at, eq_prefix, eq_table, signed};
use tg_proof::layout::{TensorLayout, WeightLayout};
use tg_proof::linear::{ConvPoint, conv_reading};
use tg_proof::messages::ProductsProof;
use tg_proof::verify::Claim;

/// The weights of a node folded by the point of its output channel.
struct FoldedWeights {
    /// Per chunk of the output axis its first channel and its fold, `[position][input]` without padding.
    chunks: Vec<(usize, Vec<E>)>,
    /// All of them, padded.
    padded: Vec<E>,
}

impl Walk<'_> {
    pub(super) fn products(
        &mut self,
        node: usize,
        weights: usize,
        claim: &Claim,
        channel: &mut Channel,
    ) -> ProductsProof {
        let program = &self.model.model.program;
        let layout = self.plan.layouts[node + 1];
        let (pixels, batch, outputs) = layout.split(&claim.point);
        let (bias, bias_value) = self.bias(weights, outputs);
        let sent_bias = channel.send_weights(&bias);
        let rows = eq_prefix(pixels, layout.pixels) * eq_prefix(batch, layout.batch);
        let sum = claim.value - bias_value * rows;
        let shape = self.plan.weights[weights];
        let groups = match &program.nodes[node].op {
            Op::Conv(op::Conv { groups, .. }) => *groups as usize,
            _ => 1,
        };
        let (products, at, pieces, reads) = if groups > 1 {
            let window = self.window_products(node, pixels, batch);
            let factors = [
                widened_outputs(outputs, &shape),
                self.padded_weights(weights),
                grouped_products(&window, &shape, groups),
            ];
            let (products, at, [_, _, reads]) = sumcheck::triple(factors, sum, channel);
            let pieces = self.piece_values(weights, &at);
            (products, at, pieces, reads)
        } else {
            let folded = self.fold_weights(weights, outputs);
            let inputs = if matches!(program.nodes[node].op, Op::Dense(_)) {
                self.over_batch(program.nodes[node].op.inputs()[0], batch)
            } else {
                padded_rows(&self.window_products(node, pixels, batch), &shape)
            };
            let FoldedWeights { chunks, padded } = folded;
            let (products, at, [_, reads]) = sumcheck::product(padded, inputs, sum, channel);
            let point = [outputs, &at].concat();
            let pieces = folded_pieces(&shape, &chunks, &point);
            (products, at, pieces, reads)
        };
        let pieces = channel.send_weights(&pieces);
        let [sent] = channel.send([reads]);
        let summed = at.len() - shape.axis_vars()[1] - shape.axis_vars()[2];
        let (outputs_at, rest) = at.split_at(summed);
        let point = if groups > 1 {
            at.clone()
        } else {
            [outputs, &at].concat()
        };
        self.weights[weights] = Some((point, Some(outputs.to_vec())));
        let (positions, channels) = rest.split_at(shape.axis_vars()[1]);
        let at = ConvPoint {
            claim: &claim.point,
            outputs: (groups > 1).then_some(outputs_at),
            positions,
            channels,
        };
        let (reading, constant) = conv_reading(program, &self.plan.layouts, node, &at);
        let read = self.read(&reading, reads - constant, channel);
        ProductsProof {
            bias: std::array::from_fn(|digit| sent_bias[digit]),
            products,
            weights: pieces,
            reads: sent,
            read,
        }
    }

    /// The bias digits at the output channel's point, and the bias.
    fn bias(&self, weights: usize, outputs: &[E]) -> ([E; tg_ir::weights::BIAS_DIGITS], E) {
        let eq = eq_table(outputs);
        let columns = self.model.columns[weights].bias.as_ref();
        let digits = columns.expect("a convolution or dense node has biases");
        let bias = digits.each_ref().map(|column| dot(column, &eq));
        let base = E::from_u32(tg_ir::weights::BIAS_BASE.unsigned_abs());
        let value = bias
            .iter()
            .rev()
            .fold(E::ZERO, |value, &digit| value * base + digit);
        (bias, value)
    }

    fn fold_weights(&self, weights: usize, outputs: &[E]) -> FoldedWeights {
        let shape = self.plan.weights[weights];
        let values = &self.model.model.weights.layers[self.plan.owner(weights)].weights;
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
        FoldedWeights {
            chunks,
            padded: padded_rows(&total, &shape),
        }
    }

    /// The weights of a node over their hypercube.
    fn padded_weights(&self, weights: usize) -> Vec<E> {
        let shape = self.plan.weights[weights];
        let [output_vars, position_vars, input_vars] = shape.axis_vars();
        let mut padded = vec![E::ZERO; 1 << (output_vars + position_vars + input_vars)];
        let values = &self.model.model.weights.layers[self.plan.owner(weights)].weights;
        for (row, values) in values.chunks_exact(shape.inputs).enumerate() {
            let (output, position) = (row / shape.positions, row % shape.positions);
            let start = (output << position_vars | position) << input_vars;
            for (to, &value) in padded[start..].iter_mut().zip(values) {
                *to = signed(i64::from(value)).into();
            }
        }
        padded
    }

    /// `X(k, i) = sum over output pixels s and inputs b of eq(r_s, s) eq(r_e, b) in[source(s, k), b, i]`, without padding;
    /// positions in padding read the node's constant.
    fn window_products(&self, node: usize, pixels: &[E], batch: &[E]) -> Vec<E> {
        let program = &self.model.model.program;
        let Op::Conv(op::Conv {
            input,
            window,
            zero,
            ..
        }) = &program.nodes[node].op
        else {
            unreachable!("only convolutions have windows");
        };
        let place = Windows {
            window,
            from: program.shape(*input),
            to: program.nodes[node].shape,
            layout: self.plan.layouts[input.index()],
        };
        let weights = &eq_table(pixels)[..place.to.pixels()];
        let mut products = with_values!(self.tensor(*input), values => {
            place.products(values, weights, batch)
        });
        if *zero != 0 {
            let used = eq_prefix(batch, place.layout.batch);
            let scale = used * E::from_i32(i32::from(*zero));
            let rows = products.chunks_exact_mut(place.layout.channels);
            for (position, row) in rows.enumerate() {
                let padding = place.padding(weights, position) * scale;
                row.iter_mut().for_each(|value| *value += padding);
            }
        }
        products
    }
}

/// The windows of a convolution.
struct Windows<'a> {
    window: &'a Window,
    from: Shape,
    to: Shape,
    layout: TensorLayout,
}

impl Windows<'_> {
    fn source(&self, pixel: usize, position: usize) -> Option<usize> {
        let (row, column) = (pixel as u32 / self.to.width, pixel as u32 % self.to.width);
        self.window.source(self.from, row, column, position)
    }

    fn products<T: Integer>(&self, values: &[T], weights: &[E], batch: &[E]) -> Vec<E> {
        let width = self.layout.batch * self.layout.channels;
        let positions: Vec<usize> = (0..self.window.positions()).collect();
        let rows: Vec<Vec<E>> = positions
            .into_par_iter()
            .map(|position| {
                let wide = fold(width, weights, |pixel| {
                    let source = self.source(pixel, position)?;
                    Some(&values[source * width..][..width])
                });
                sum_batch(wide, self.layout, batch)
            })
            .collect();
        rows.concat()
    }

    /// The weight of the output pixels that read padding at a position.
    fn padding(&self, weights: &[E], position: usize) -> E {
        let pixels = weights.iter().enumerate();
        pixels
            .filter(|&(pixel, _)| self.source(pixel, position).is_none())
            .map(|(_, &weight)| weight)
            .sum()
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

/// `eq` of the output channel's point over (output, position, input of the group).
fn widened_outputs(outputs: &[E], layout: &WeightLayout) -> Vec<E> {
    let [_, position_vars, input_vars] = layout.axis_vars();
    let eq = eq_table(outputs);
    let rows = eq
        .into_iter()
        .flat_map(|weight| std::iter::repeat_n(weight, 1 << (position_vars + input_vars)));
    rows.collect()
}

/// Per (output, position, input of the group) the window product of the input channel that it reads.
fn grouped_products(products: &[E], layout: &WeightLayout, groups: usize) -> Vec<E> {
    let [output_vars, position_vars, input_vars] = layout.axis_vars();
    let channels = layout.inputs * groups;
    let mut values = vec![E::ZERO; 1 << (output_vars + position_vars + input_vars)];
    for output in 0..layout.outputs {
        let first = output * groups / layout.outputs * layout.inputs;
        for position in 0..layout.positions {
            let start = (output << position_vars | position) << input_vars;
            values[start..start + layout.inputs]
                .copy_from_slice(&products[position * channels + first..][..layout.inputs]);
        }
    }
    values
}

/// The pieces of the weights at their parts of a point, from the folds by their output channel.
fn folded_pieces(layout: &WeightLayout, chunks: &[(usize, Vec<E>)], point: &[E]) -> Vec<E> {
    let values = layout.pieces().into_iter().map(|piece| {
        let (rest, _) = layout.piece_point(&piece, point);
        let inner = &rest[piece.vars[0]..];
        let (positions, inputs) = inner.split_at(piece.vars[1]);
        let (positions, inputs) = (eq_table(positions), eq_table(inputs));
        let folded = chunks.iter().find(|(start, _)| *start == piece.start[0]);
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
