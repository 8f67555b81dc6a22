//! Convolutions.

use super::context::Context;
use super::linear::{elements, sink, width};
use super::values::ValuesMut;
use crate::kernels::{Conv2d, ConvInt, Cpu, Requantiser, Sliding, Width};
use tg_ir::op;
use tg_ir::{NodeWeights, Program, TensorId};

/// A convolution.
#[derive(Debug)]
pub(super) struct Convolution {
    input: TensorId,
    conv: ConvInt,
    how: Option<Requantiser>,
}

impl Convolution {
    /// Of a convolution with so many output channels.
    pub(super) fn new(
        program: &Program,
        cpu: &Cpu,
        (conv, outputs, layer): (&op::Conv, usize, NodeWeights<'_>),
        how: Option<Requantiser>,
    ) -> Self {
        let op::Conv {
            input,
            window,
            groups,
            zero,
        } = conv;
        let image = program.shape(*input);
        let conv = Conv2d {
            sliding: Sliding::of_window([image.height as usize, image.width as usize], window),
            inputs: image.channels as usize,
            outputs,
            groups: *groups as usize,
        };
        let level = cpu.level();
        let width = match width(program, *input) {
            Width::U7 if *zero < 0 => Width::I8,
            width => width,
        };
        let bias = Some(layer.bias);
        let conv = ConvInt::new(level, width, *zero, &conv, layer.weights, bias);
        Self {
            input: *input,
            conv: conv.expect("the window of a valid program fits"),
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let image = elements(context.reads.get(self.input));
        let sink = sink(out, self.conv.sizes().outputs, self.how.as_ref());
        self.conv.run(context.cpu, context.scratch, image, sink);
    }
}
