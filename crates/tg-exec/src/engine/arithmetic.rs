//! Weighted sums and products of two tensors, element by element.

use super::context::Context;
use super::element::fill;
use super::values::{ValuesMut, each};
use crate::kernels::Requantiser;
use tg_ir::TensorId;
use tg_ir::op;

/// A weighted sum.
#[derive(Debug)]
pub(super) struct Weighted {
    sum: op::Add,
    channels: usize,
    how: Option<Requantiser>,
}

impl Weighted {
    pub(super) fn new(sum: &op::Add, channels: usize, how: Option<Requantiser>) -> Self {
        let sum = sum.clone();
        Self { sum, channels, how }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let reads = context.reads;
        fill(
            context,
            self.channels,
            self.how.as_ref(),
            out,
            &|range, sums| {
                sums.fill(self.sum.bias);
                for (&input, &multiplier) in self.sum.inputs.iter().zip(&self.sum.multipliers) {
                    each!(reads.get(input), values => add(sums, &values[range.clone()], multiplier));
                }
            },
        );
    }
}

#[inline(always)]
fn add<S: Copy + Into<i32>>(sums: &mut [i32], values: &[S], multiplier: i32) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = sum.wrapping_add(value.into().wrapping_mul(multiplier));
    }
}

/// A product of two tensors.
#[derive(Debug)]
pub(super) struct Product {
    inputs: [TensorId; 2],
    channels: usize,
    how: Option<Requantiser>,
}

impl Product {
    pub(super) const fn new(product: &op::Mul, channels: usize, how: Option<Requantiser>) -> Self {
        Self {
            inputs: product.inputs,
            channels,
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let [left, right] = self.inputs.map(|input| context.reads.get(input));
        fill(
            context,
            self.channels,
            self.how.as_ref(),
            out,
            &|range, sums| {
                sums.fill(0);
                each!(left, values => add(sums, &values[range.clone()], 1));
                each!(right, values => scale(sums, &values[range]));
            },
        );
    }
}

#[inline(always)]
fn scale<S: Copy + Into<i32>>(sums: &mut [i32], values: &[S]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = sum.wrapping_mul(value.into());
    }
}
