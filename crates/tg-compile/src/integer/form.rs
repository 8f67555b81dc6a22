//! Forms: tensors, and functions of tensors that are computed when a reader asks.

use super::strided::Strided;
use std::rc::Rc;
use tg_float::ValueId;
use tg_ir::{ElementType, TensorId};

/// A value: elements of a form, seen through a layout.
#[derive(Debug, Clone)]
pub(crate) struct Lowered {
    pub(crate) form: usize,
    pub(crate) layout: Strided,
}

/// A tensor, or a function of it element by element.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    /// The value whose statistics say how far it reaches.
    pub(crate) value: ValueId,
    pub(crate) tensor: TensorId,
    /// Real value of one unit of the tensor.
    pub(crate) scale: f64,
    /// What stands for 0 in the tensor.
    pub(crate) zero: i64,
    /// Per channel of the tensor the factor on the scale, if channels differ.
    pub(crate) channels: Option<Rc<[f64]>>,
    /// The function: nodes, and the value that the tensor is. None: the tensor itself.
    pub(crate) function: Option<(ValueId, Rc<[usize]>)>,
}

/// A form as activations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    pub(super) tensor: TensorId,
    pub(super) scale: f64,
    pub(super) zero: i64,
    pub(super) kind: ElementType,
    pub(super) limit: i64,
    pub(super) forced: bool,
}

/// A value as a reader gets it.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) tensor: TensorId,
    pub(crate) layout: Strided,
    pub(crate) scale: f64,
    pub(crate) zero: i64,
}

/// Real value of one unit, so that the reach is this many.
pub(crate) fn unit(reach: f32, units: f32) -> f32 {
    if reach > f32::MIN_POSITIVE * 65_536.0 {
        reach / units
    } else {
        1.0 / units
    }
}
