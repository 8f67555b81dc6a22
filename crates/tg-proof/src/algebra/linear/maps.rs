//! Operators that are public linear maps of their inputs: Add, WindowSum, View, Gather, Concat, Pad, sums and running sums.

use super::{Along, ReadShape, Reading, Rearrangement, SourceMap, Term, Weights, window_tables};
use crate::algebra::field::{E, eq_prefix, eq_table};
use crate::algebra::layout::TensorLayout;
use crate::algebra::tally::PublicWork;
use p3_field::PrimeCharacteristicRing;
use tg_ir::op;
use tg_ir::{Axis, Op, Program, Shape, TensorId};

/// How a public linear map is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapPlan {
    /// The claim is handed on at a rearranged point.
    Rearranged(Rearrangement),
    /// The weights are a product of weights of pixels and of channels; which of them are summed over.
    Fields {
        /// The pixels.
        pixels: bool,
        /// The channels.
        channels: bool,
    },
    /// A weight per element, summed over.
    Elements,
}

/// The shape of the reading of a public linear map, see [`map_reading`].
#[must_use]
pub fn map_shape(op: &Op, how: &MapPlan) -> ReadShape {
    ReadShape {
        inputs: op.inputs(),
        summed: match how {
            MapPlan::Rearranged(_) => [false; 2],
            MapPlan::Fields { pixels, channels } => [*pixels, *channels],
            MapPlan::Elements => [true; 2],
        },
        unscaled: match (op, how) {
            (Op::Add(op::Add { multipliers, .. }), _) => multipliers == &[1],
            (_, MapPlan::Rearranged(how)) => how.is_unscaled(),
            (_, MapPlan::Fields { .. } | MapPlan::Elements) => true,
        },
    }
}

/// What the weights of a public linear map take: tables of the output's fields that are summed over, and of the inputs'.
#[must_use]
pub fn map_tables(
    program: &Program,
    layouts: &[TensorLayout],
    node: usize,
    shape: &ReadShape,
) -> PublicWork {
    if let Op::WindowSum(op::WindowSum { input, window }) = &program.nodes[node].op {
        return window_tables(layouts, node, *input, window);
    }
    let output = &layouts[node + 1];
    let own = match shape.summed {
        [false, false] => 0,
        [true, false] => 1u64 << output.pixel_vars,
        [false, true] => 1u64 << output.channel_vars,
        [true, true] => 1u64 << (output.pixel_vars + output.channel_vars),
    };
    PublicWork::tables(own.saturating_add(shape.entries(layouts)))
}

/// What a claim at `at` on the output of a public linear map says: a reading of the inputs, and a constant. Nothing if the
/// node is no public linear map; the plan names those that are.
#[must_use]
pub fn map_reading(
    program: &Program,
    layouts: &[TensorLayout],
    node: usize,
    how: &MapPlan,
    at: &[E],
) -> Option<(Reading, E)> {
    let map = Map {
        program,
        layout: layouts[node + 1],
        how,
        shape: program.nodes[node].shape,
        at: layouts[node + 1].split(at),
    };
    Some(match &program.nodes[node].op {
        Op::Add(op::Add {
            inputs,
            multipliers,
            bias,
        }) => map.sum(inputs, multipliers, *bias),
        Op::WindowSum(op::WindowSum { input, window }) => {
            let ones = vec![E::ONE; window.positions()];
            let pixels = eq_table(map.at.0);
            let sources = SourceMap::new(program, node, *input, window, ones, pixels);
            let pixels = Along::Sum(sources.weights().0);
            (map.one(*input, map.fields(pixels, map.channels())), E::ZERO)
        }
        Op::View(op::Unary { input, how: view }) => {
            map.moved(*input, &|element| view.source(element))
        }
        Op::Gather(op::Gather {
            input,
            axis,
            indices,
        }) => map.moved(*input, &gathered(program, node, *input, *axis, indices)),
        Op::Concat(op::Concat { inputs, axis }) => map.joined(inputs, *axis),
        Op::Pad(op::Pad {
            input,
            before,
            value,
            ..
        }) => map.bordered(*input, before, *value),
        Op::Reduce(op::Reduce { input, axis, .. }) => map.reduced(*input, *axis),
        Op::RunningSum(op::RunningSum { input, axis }) => map.running(*input, *axis),
        _ => return None,
    })
}

/// The input element of each output element of a gather.
pub(crate) fn gathered<'a>(
    program: &Program,
    node: usize,
    input: TensorId,
    axis: Axis,
    indices: &'a [u32],
) -> impl Fn(usize) -> usize + 'a {
    let (from, to) = (program.shape(input), program.nodes[node].shape);
    move |element| {
        let mut place = place_of(to, element);
        let moved = match axis {
            Axis::Rows => &mut place[0],
            Axis::Columns => &mut place[1],
            Axis::Channels => &mut place[2],
        };
        *moved = indices[*moved] as usize;
        element_of(from, place)
    }
}

/// Row, column and channel of an element.
const fn place_of(shape: Shape, element: usize) -> [usize; 3] {
    let (width, channels) = (shape.width as usize, shape.channels as usize);
    let pixel = element / channels;
    [pixel / width, pixel % width, element % channels]
}

const fn element_of(shape: Shape, [row, column, channel]: [usize; 3]) -> usize {
    (row * shape.width as usize + column) * shape.channels as usize + channel
}

/// A node that is a public linear map, and the claim's pixel, input and channel points.
struct Map<'a> {
    program: &'a Program,
    layout: TensorLayout,
    how: &'a MapPlan,
    shape: Shape,
    at: (&'a [E], &'a [E], &'a [E]),
}

impl Map<'_> {
    fn pixels(&self) -> Along {
        Along::At(self.at.0.to_vec())
    }

    fn channels(&self) -> Along {
        Along::At(self.at.2.to_vec())
    }

    const fn fields(&self, pixels: Along, channels: Along) -> Weights {
        Weights::Fields { pixels, channels }
    }

    fn one(&self, input: TensorId, weights: Weights) -> Reading {
        Reading::of(input, weights, self.at.1)
    }

    /// `sum over elements in use of eq(at, element)`.
    fn used(&self) -> E {
        let layout = self.layout;
        eq_prefix(self.at.0, layout.pixels)
            * eq_prefix(self.at.1, layout.batch)
            * eq_prefix(self.at.2, layout.channels)
    }

    fn sum(&self, inputs: &[TensorId], multipliers: &[i32], bias: i32) -> (Reading, E) {
        let term = |(&input, &multiplier): (&TensorId, &i32)| Term {
            input,
            scale: E::from_i32(multiplier),
            weights: self.fields(self.pixels(), self.channels()),
        };
        let reading = Reading {
            terms: inputs.iter().zip(multipliers).map(term).collect(),
            batch: self.at.1.to_vec(),
            unscaled: multipliers == [1],
        };
        (reading, E::from_i32(bias) * self.used())
    }

    /// A map that gives each output element one input element.
    fn moved(&self, input: TensorId, source: &dyn Fn(usize) -> usize) -> (Reading, E) {
        let from = TensorLayout::of(self.program.shape(input));
        let to = TensorLayout::of(self.shape);
        let (pixels, _, channels) = self.at;
        let weights = match self.how {
            MapPlan::Rearranged(how) => {
                let (point, scale) = how.apply(&[pixels, channels].concat());
                let (pixels, channels) = point.split_at(from.pixel_vars);
                let [pixels, channels] = [pixels, channels].map(|point| Along::At(point.to_vec()));
                let mut reading = self.one(input, self.fields(pixels, channels));
                reading.terms[0].scale = scale;
                reading.unscaled = how.is_unscaled();
                return (reading, E::ZERO);
            }
            MapPlan::Fields {
                pixels: true,
                channels: false,
            } => {
                let eq = eq_table(pixels);
                let mut weights = vec![E::ZERO; 1 << from.pixel_vars];
                for (pixel, &weight) in eq.iter().take(to.pixels).enumerate() {
                    weights[source(pixel * to.channels) / from.channels] += weight;
                }
                self.fields(Along::Sum(weights), self.channels())
            }
            MapPlan::Fields {
                pixels: false,
                channels: true,
            } => {
                let eq = eq_table(channels);
                let mut weights = vec![E::ZERO; 1 << from.channel_vars];
                for (channel, &weight) in eq.iter().take(to.channels).enumerate() {
                    weights[source(channel)] += weight;
                }
                self.fields(self.pixels(), Along::Sum(weights))
            }
            MapPlan::Fields { .. } | MapPlan::Elements => {
                let eq = eq_table(&[pixels, channels].concat());
                let mut weights = vec![E::ZERO; from.padded()];
                for element in 0..self.shape.elements() {
                    weights[from.index_of_element(source(element))] +=
                        eq[to.index_of_element(element)];
                }
                Weights::Elements(weights)
            }
        };
        (self.one(input, weights), E::ZERO)
    }

    fn joined(&self, inputs: &[TensorId], axis: Axis) -> (Reading, E) {
        let mut start = 0;
        let eq = eq_table(match axis {
            Axis::Channels => self.at.2,
            Axis::Rows | Axis::Columns => self.at.0,
        });
        let term = |&input: &TensorId| {
            let shape = self.program.shape(input);
            let along = |vars: usize, place: &dyn Fn(usize) -> usize, count: usize| {
                let mut weights = vec![E::ZERO; 1 << vars];
                for (index, weight) in weights.iter_mut().take(count).enumerate() {
                    *weight = eq[place(index)];
                }
                Along::Sum(weights)
            };
            let layout = TensorLayout::of(shape);
            let weights = if axis == Axis::Channels {
                let channels = along(layout.channel_vars, &|c| start + c, layout.channels);
                self.fields(self.pixels(), channels)
            } else {
                let (width, all) = (shape.width as usize, self.shape.width as usize);
                let place = |pixel: usize| match axis {
                    Axis::Rows => start * all + pixel,
                    _ => pixel / width * all + start + pixel % width,
                };
                let pixels = along(layout.pixel_vars, &place, layout.pixels);
                self.fields(pixels, self.channels())
            };
            start += shape.axis(axis) as usize;
            Term {
                input,
                scale: E::ONE,
                weights,
            }
        };
        let reading = Reading {
            terms: inputs.iter().map(term).collect(),
            batch: self.at.1.to_vec(),
            unscaled: true,
        };
        (reading, E::ZERO)
    }

    fn bordered(&self, input: TensorId, before: &[u32; 3], value: i16) -> (Reading, E) {
        let shape = self.program.shape(input);
        let layout = TensorLayout::of(shape);
        let [top, left, first] = before.map(|count| count as usize);
        let (mut inside_pixels, mut inside_channels) = (E::ZERO, E::ZERO);
        let pixels = if layout.pixels == self.shape.pixels() {
            inside_pixels = eq_prefix(self.at.0, layout.pixels);
            self.pixels()
        } else {
            let eq = eq_table(self.at.0);
            let mut weights = vec![E::ZERO; 1 << layout.pixel_vars];
            for (pixel, weight) in weights.iter_mut().take(layout.pixels).enumerate() {
                let (row, column) = (pixel / shape.width as usize, pixel % shape.width as usize);
                *weight = eq[(top + row) * self.shape.width as usize + left + column];
                inside_pixels += *weight;
            }
            Along::Sum(weights)
        };
        let channels = if layout.channels == self.shape.channels as usize {
            inside_channels = eq_prefix(self.at.2, layout.channels);
            self.channels()
        } else {
            let eq = eq_table(self.at.2);
            let mut weights = vec![E::ZERO; 1 << layout.channel_vars];
            for (channel, weight) in weights.iter_mut().take(layout.channels).enumerate() {
                *weight = eq[first + channel];
                inside_channels += *weight;
            }
            Along::Sum(weights)
        };
        let batch = eq_prefix(self.at.1, self.layout.batch);
        let border = self.used() - inside_pixels * inside_channels * batch;
        let reading = self.one(input, self.fields(pixels, channels));
        (reading, border * E::from_i32(i32::from(value)))
    }

    fn reduced(&self, input: TensorId, axis: Axis) -> (Reading, E) {
        let shape = self.program.shape(input);
        let layout = TensorLayout::of(shape);
        if axis == Axis::Channels {
            // Not at the middle of the hypercube, which sums too: there errors of a committed input would cancel.
            let mut ones = vec![E::ONE; layout.channels];
            ones.resize(1 << layout.channel_vars, E::ZERO);
            let weights = self.fields(self.pixels(), Along::Sum(ones));
            return (self.one(input, weights), E::ZERO);
        }
        let eq = eq_table(self.at.0);
        let mut weights = vec![E::ZERO; 1 << layout.pixel_vars];
        let width = shape.width as usize;
        for (pixel, weight) in weights.iter_mut().take(layout.pixels).enumerate() {
            *weight = match axis {
                Axis::Rows => eq[pixel % width],
                _ => eq[pixel / width],
            };
        }
        let weights = self.fields(Along::Sum(weights), self.channels());
        (self.one(input, weights), E::ZERO)
    }

    /// Element j is in all sums from its own on: its weight is that of these outputs together.
    fn running(&self, input: TensorId, axis: Axis) -> (Reading, E) {
        let layout = TensorLayout::of(self.shape);
        let width = self.shape.width as usize;
        // The places that are summed, from one to the next along the axis, and how many hang together.
        let (point, used, step, line) = match axis {
            Axis::Channels => (self.at.2, layout.channels, 1, layout.channels),
            Axis::Columns => (self.at.0, layout.pixels, 1, width),
            Axis::Rows => (self.at.0, layout.pixels, width, layout.pixels),
        };
        let mut weights = eq_table(point);
        weights[used..].fill(E::ZERO);
        for along in weights[..used].chunks_exact_mut(line) {
            for at in (0..line - step).rev() {
                let later = along[at + step];
                along[at] += later;
            }
        }
        let summed = Along::Sum(weights);
        let weights = match axis {
            Axis::Channels => self.fields(self.pixels(), summed),
            Axis::Rows | Axis::Columns => self.fields(summed, self.channels()),
        };
        (self.one(input, weights), E::ZERO)
    }
}
