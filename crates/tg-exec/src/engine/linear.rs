//! What products share: their factors and where their sums go.

use super::values::{Values, ValuesMut};
use crate::kernels::{Elements, Requantiser, Sink, Width};
use tg_ir::ElementType;

pub(super) fn elements(values: Values<'_>) -> Elements<'_> {
    match values {
        Values::I8(values) => Elements::I8(values),
        Values::I16(values) => Elements::I16(values),
        Values::I32(_) => unreachable!("a valid program multiplies activations"),
    }
}

pub(super) fn width(kind: ElementType) -> Width {
    match kind {
        ElementType::I8 => Width::I8,
        ElementType::I16 => Width::I16,
        ElementType::I32 => unreachable!("a valid program multiplies activations"),
    }
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
