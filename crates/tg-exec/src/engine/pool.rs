//! Sums and maxima over windows.

use super::context::Context;
use super::element::activations;
use super::values::{Values, ValuesMut};
use crate::kernels::{Requantiser, Sliding, max_pool, window_sum};
use tg_ir::{Program, Shape, TensorId, Window, op};

fn sliding(program: &Program, input: TensorId, window: &Window) -> Sliding {
    let image = program.shape(input);
    Sliding::of_window([image.height as usize, image.width as usize], window)
}

/// Sums of windows, and their requantisation.
#[derive(Debug)]
pub(super) struct WindowSum {
    input: TensorId,
    sliding: Sliding,
    channels: usize,
    how: Option<(Requantiser, Vec<i32>)>,
}

impl WindowSum {
    pub(super) fn new(
        program: &Program,
        sum: &op::WindowSum,
        output: Shape,
        how: Option<Requantiser>,
    ) -> Self {
        let op::WindowSum { input, window } = sum;
        Self {
            input: *input,
            sliding: sliding(program, *input, window),
            channels: output.channels as usize,
            how: how.map(|how| (how, vec![0; output.elements()])),
        }
    }

    pub(super) fn run(&mut self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let (cpu, channels) = (context.cpu, self.channels);
        let sum = |sums: &mut [i32]| match context.reads.get(self.input) {
            Values::I8(image) => window_sum(cpu, &self.sliding, channels, image, sums),
            Values::I16(image) => window_sum(cpu, &self.sliding, channels, image, sums),
            Values::I32(_) => unreachable!("a valid program sums activations"),
        };
        match (&mut self.how, out) {
            (None, ValuesMut::I32(out)) => sum(out),
            (Some((how, sums)), out) => {
                sum(sums);
                how.requantise(cpu, sums, channels, activations(out));
            }
            (None, _) => unreachable!("sums are accumulators"),
        }
    }
}

/// Maxima of windows.
#[derive(Debug)]
pub(super) struct MaxPool {
    input: TensorId,
    sliding: Sliding,
    channels: usize,
}

impl MaxPool {
    pub(super) fn new(program: &Program, pool: &op::MaxPool) -> Self {
        let op::MaxPool { input, window } = pool;
        Self {
            input: *input,
            sliding: sliding(program, *input, window),
            channels: program.shape(*input).channels as usize,
        }
    }

    pub(super) fn run(&self, context: &Context<'_>, out: ValuesMut<'_>) {
        let (cpu, sliding, channels) = (context.cpu, &self.sliding, self.channels);
        match (context.reads.get(self.input), out) {
            (Values::I8(image), ValuesMut::I8(out)) => {
                max_pool(cpu, sliding, channels, image, out);
            }
            (Values::I16(image), ValuesMut::I16(out)) => {
                max_pool(cpu, sliding, channels, image, out);
            }
            _ => unreachable!("a valid program pools activations"),
        }
    }
}
