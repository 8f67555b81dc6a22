//! Windows of convolutions, poolings and maxima as weights on input pixels.

use super::{Along, ReadShape, Reading, Weights};
use crate::algebra::field::{E, eq_prefix, eq_table};
use crate::algebra::layout::TensorLayout;
use crate::algebra::tally::PublicWork;
use p3_field::PrimeCharacteristicRing;
use tg_ir::op;
use tg_ir::{Op, Program, Shape, TensorId, Window};

/// Calls `visit(output pixel, position, input pixel or nothing)` for every output pixel and kernel position.
fn for_each_source(
    window: &Window,
    input: Shape,
    output: Shape,
    mut visit: impl FnMut(usize, usize, Option<usize>),
) {
    for row in 0..output.height {
        for column in 0..output.width {
            let pixel = row as usize * output.width as usize + column as usize;
            for position in 0..window.positions() {
                visit(pixel, position, window.source(input, row, column, position));
            }
        }
    }
}

/// Whether every output pixel reads the input pixel of its index, and nothing else.
#[must_use]
pub fn is_pointwise(window: &Window) -> bool {
    window.positions() == 1
        && window.stride == [1; 2]
        && window.pads == [0; 4]
        && window.spread == [1; 2]
}

/// What a window's weights take: every position of every output pixel, and tables of input and output pixels.
#[must_use]
pub fn window_tables(
    layouts: &[TensorLayout],
    node: usize,
    input: TensorId,
    window: &Window,
) -> PublicWork {
    let (input, output) = (&layouts[input.index()], &layouts[node + 1]);
    let reads = (output.pixels as u64).saturating_mul(window.positions() as u64);
    let tables = (1u64 << input.pixel_vars) + (1u64 << output.pixel_vars);
    PublicWork::steps(reads).and(PublicWork::tables(tables))
}

/// A window's public weights on input pixels, for one point.
#[derive(Debug)]
pub struct SourceMap<'a> {
    /// The tensor that is read.
    pub input: TensorId,
    window: &'a Window,
    shapes: [Shape; 2],
    positions: Vec<E>,
    pixels: Vec<E>,
}

impl<'a> SourceMap<'a> {
    /// The map of a node's window with weights per position and per output pixel.
    #[must_use]
    pub fn new(
        program: &Program,
        node: usize,
        input: TensorId,
        window: &'a Window,
        positions: Vec<E>,
        pixels: Vec<E>,
    ) -> Self {
        Self {
            input,
            window,
            shapes: [program.shape(input), program.nodes[node].shape],
            positions,
            pixels,
        }
    }

    /// `S(s') = sum over (s, k) with source(s, k) = s' of positions[k] * pixels[s]`, per input pixel, and the sum over
    /// the (s, k) that lie in padding.
    #[must_use]
    pub fn weights(&self) -> (Vec<E>, E) {
        let mut weights = vec![E::ZERO; self.shapes[0].pixels().next_power_of_two()];
        let mut padding = E::ZERO;
        let [input, output] = self.shapes;
        for_each_source(self.window, input, output, |pixel, position, source| {
            let weight = self.positions[position] * self.pixels[pixel];
            match source {
                Some(source) => weights[source] += weight,
                None => padding += weight,
            }
        });
        (weights, padding)
    }
}

/// Where the products of a convolution or dense node were claimed.
#[derive(Debug, Clone, Copy)]
pub struct ConvPoint<'a> {
    /// The point of the claim on the node's output.
    pub claim: &'a [E],
    /// The output channel, if it was summed over (more than one group).
    pub outputs: Option<&'a [E]>,
    /// The kernel position, or input pixel of a dense node.
    pub positions: &'a [E],
    /// The input channel of the group.
    pub channels: &'a [E],
}

/// The shape of [`conv_reading`], and what its weights take.
#[must_use]
pub fn conv_shape(
    program: &Program,
    layouts: &[TensorLayout],
    node: usize,
) -> (ReadShape, PublicWork) {
    let op = &program.nodes[node].op;
    let (summed, work) = match op {
        Op::Conv(op::Conv {
            input,
            window,
            groups,
            ..
        }) => {
            let own = &layouts[input.index()];
            let (outputs, groups) = (layouts[node + 1].channels, *groups as usize);
            let apart = own.channels == groups && outputs == groups;
            let channels = PublicWork::tables(3 << own.channel_vars);
            let summed = [!is_pointwise(window), groups > 1 && !apart];
            let windows = window_tables(layouts, node, *input, window);
            (summed, windows.and(channels))
        }
        _ => ([false; 2], PublicWork::default()),
    };
    let shape = ReadShape {
        inputs: op.inputs(),
        summed,
        unscaled: true,
    };
    (shape, work)
}

/// The window products of a convolution or dense node at a point, as a reading of its input, and what positions in
/// padding add to it.
#[must_use]
pub fn conv_reading(
    program: &Program,
    layouts: &[TensorLayout],
    node: usize,
    at: &ConvPoint<'_>,
) -> (Reading, E) {
    let layout = layouts[node + 1];
    let (pixels, batch, _) = layout.split(at.claim);
    let (input, window, groups, zero) = match &program.nodes[node].op {
        Op::Conv(op::Conv {
            input,
            window,
            groups,
            zero,
        }) => (*input, window, *groups as usize, *zero),
        op => {
            let weights = Weights::Fields {
                pixels: Along::At(at.positions.to_vec()),
                channels: Along::At(at.channels.to_vec()),
            };
            return (Reading::of(op.inputs()[0], weights, batch), E::ZERO);
        }
    };
    let per_group = layouts[input.index()].channels / groups;
    let (channels, used) = group_channels(at, layout.channels, groups, per_group);
    if is_pointwise(window) {
        let pixels = Along::At(pixels.to_vec());
        let weights = Weights::Fields { pixels, channels };
        return (Reading::of(input, weights, batch), E::ZERO);
    }
    let positions = eq_table(at.positions);
    let map = SourceMap::new(program, node, input, window, positions, eq_table(pixels));
    let (sources, padding) = map.weights();
    let constant = padding * E::from_i32(i32::from(zero)) * eq_prefix(batch, layout.batch) * used;
    let weights = Weights::Fields {
        pixels: Along::Sum(sources),
        channels,
    };
    (Reading::of(input, weights, batch), constant)
}

/// How the input channels are weighed, and the sum of all these weights.
fn group_channels(
    at: &ConvPoint<'_>,
    outputs: usize,
    groups: usize,
    per_group: usize,
) -> (Along, E) {
    let used = eq_prefix(at.channels, per_group);
    let Some(outputs_at) = at.outputs else {
        return (Along::At(at.channels.to_vec()), used);
    };
    let used = used * eq_prefix(outputs_at, outputs);
    if per_group == 1 && outputs == groups {
        return (Along::At(outputs_at.to_vec()), used);
    }
    let mut of_group = vec![E::ZERO; groups];
    for (output, weight) in eq_table(outputs_at).into_iter().take(outputs).enumerate() {
        of_group[output * groups / outputs] += weight;
    }
    let inner = eq_table(at.channels);
    let weights = of_group.iter().flat_map(|&group| {
        let inner = inner.iter().take(per_group);
        inner.map(move |&weight| group * weight)
    });
    let mut weights: Vec<E> = weights.collect();
    weights.resize(weights.len().next_power_of_two(), E::ZERO);
    (Along::Sum(weights), used)
}
