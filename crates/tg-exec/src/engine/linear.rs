//! What products share: their factors and where their sums go.

use super::values::{Values, ValuesMut};
use crate::kernels::{Elements, Requantiser, Sink, Width};
use tg_ir::op;
use tg_ir::{ElementType, Op, Program, TensorId};

pub(super) fn elements(values: Values<'_>) -> Elements<'_> {
    match values {
        Values::I8(values) => Elements::I8(values),
        Values::I16(values) => Elements::I16(values),
        Values::I32(_) => unreachable!("a valid program multiplies activations"),
    }
}

/// The width of a product's left factor.
pub(super) fn width(program: &Program, tensor: TensorId) -> Width {
    match program.element_type(tensor) {
        ElementType::I8 if is_natural(program, tensor) => Width::U7,
        ElementType::I8 => Width::I8,
        ElementType::I16 => Width::I16,
        ElementType::I32 => unreachable!("a valid program multiplies activations"),
    }
}

/// Whether no element of a tensor of 8 bits can be negative, as far as the node that gives it shows: a rectifier, also
/// through a pool of its greatest values and moved elements.
fn is_natural(program: &Program, mut tensor: TensorId) -> bool {
    while let Some(node) = tensor.index().checked_sub(1) {
        tensor = match &program.nodes[node].op {
            Op::Requantise(op::Unary { how, .. }) => {
                let table = how.table.as_ref();
                return table.map_or(how.clamp[0] >= 0, |table| table.iter().all(|&y| y >= 0));
            }
            // With a dilation a window may lie in its padding, whose greatest value is the least there is.
            Op::MaxPool(pool) if pool.window.dilation == [1, 1] => pool.input,
            Op::View(view) => view.input,
            _ => return false,
        };
    }
    false
}

/// Where the sums go: accumulators, or activations through a requantisation.
pub(super) fn sink<'a>(
    out: ValuesMut<'a>,
    stride: usize,
    how: Option<&'a Requantiser>,
) -> Sink<'a> {
    match (out, how) {
        (ValuesMut::I32(out), None) => Sink::Sums { out, stride },
        (ValuesMut::I8(out), Some(how)) => Sink::I8 { out, stride, how },
        (ValuesMut::I16(out), Some(how)) => Sink::I16 { out, stride, how },
        _ => unreachable!("sums are accumulators, requantised ones activations"),
    }
}
