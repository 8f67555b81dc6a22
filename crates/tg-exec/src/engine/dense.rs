//! Dense layers.

use super::context::Context;
use super::linear::{elements, sink, width};
use super::values::ValuesMut;
use crate::kernels::{Cpu, Matrix, PackedMatrix, Requantiser, gemm_int};
use tg_ir::op;
use tg_ir::{NodeWeights, Program, TensorId};

/// A dense layer.
#[derive(Debug)]
pub(super) struct Dense {
    input: TensorId,
    weights: PackedMatrix,
    how: Option<Requantiser>,
}

impl Dense {
    pub(super) fn new(
        program: &Program,
        cpu: &Cpu,
        (dense, layer): (&op::Dense, NodeWeights<'_>),
        how: Option<Requantiser>,
    ) -> Self {
        let input = dense.input;
        let size = [layer.bias.len(), program.shape(input).elements()];
        let width = width(program, input);
        Self {
            input,
            weights: PackedMatrix::from_weights(
                cpu.level(),
                width,
                size,
                layer.weights,
                Some(layer.bias),
            ),
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let rows = Matrix {
            values: elements(context.reads.get(self.input)),
            rows: 1,
            stride: self.weights.k(),
        };
        let sink = sink(out, self.weights.n(), self.how.as_ref());
        gemm_int(context.cpu, context.scratch, &rows, &self.weights, sink);
    }
}
