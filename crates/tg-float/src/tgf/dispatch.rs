//! From a node to the function of its operator, and its call.

use super::call::{self, Call, Entry, Half, Means};
use super::error::{Budget, OpError};
use super::product::Prepared;
use super::work::{self, CostedTensor};
use super::{
    activation, arithmetic, attention, cast, control, conv, elementwise, encoders, grid, linear,
    loss, movement, norm, pad, pool, quant, reduce, resize, rnn, scatter, select, signal, trees,
    vectors,
};
use crate::convert;
use crate::graph::Node;
use crate::tensor::{DType, Data, FloatTensor};

/// The function of a node's operator. Each family knows its own names; the order does not matter.
pub(super) fn lookup(node: &Node) -> Option<Entry> {
    let op = node.op.as_str();
    match node.domain.as_str() {
        "" => arithmetic::lookup(op)
            .or_else(|| elementwise::lookup(op))
            .or_else(|| cast::lookup(op))
            .or_else(|| activation::lookup(op))
            .or_else(|| reduce::lookup(op))
            .or_else(|| movement::lookup(op))
            .or_else(|| pad::lookup(op))
            .or_else(|| select::lookup(op))
            .or_else(|| scatter::lookup(op))
            .or_else(|| norm::lookup(op))
            .or_else(|| linear::lookup(op))
            .or_else(|| conv::lookup(op))
            .or_else(|| pool::lookup(op))
            .or_else(|| resize::lookup(op))
            .or_else(|| grid::lookup(op))
            .or_else(|| quant::lookup(op))
            .or_else(|| rnn::lookup(op))
            .or_else(|| attention::lookup(op))
            .or_else(|| signal::lookup(op))
            .or_else(|| loss::lookup(op))
            .or_else(|| control::lookup(op)),
        "ai.onnx.ml" => trees::lookup(op)
            .or_else(|| vectors::lookup(op))
            .or_else(|| encoders::lookup(op)),
        "com.microsoft" => attention::lookup_microsoft(op).or_else(|| quant::lookup_microsoft(op)),
        _ => None,
    }
}

/// Evaluates a node with the function of its operator, and what was prepared of its constants; its work is charged.
pub(super) fn call_entry(
    entry: Entry,
    node: &Node,
    prepared: Option<&Prepared>,
    inputs: &[Option<&FloatTensor>],
    means: Means<'_>,
) -> Result<Vec<FloatTensor>, OpError> {
    let operands: Vec<Option<CostedTensor<'_>>> = inputs
        .iter()
        .map(|input| input.map(CostedTensor::of))
        .collect();
    means.meter.charge(work::of_node(node, &operands))?;
    let results = call_kernel(entry, node, prepared, inputs, means)?;
    for result in &results {
        means.meter.charge(CostedTensor::of(result).units())?;
    }
    Ok(results)
}

fn call_kernel(
    (kernel, half): Entry,
    node: &Node,
    prepared: Option<&Prepared>,
    inputs: &[Option<&FloatTensor>],
    means: Means<'_>,
) -> Result<Vec<FloatTensor>, OpError> {
    let halves = inputs
        .iter()
        .flatten()
        .find(|tensor| tensor.dtype().is_half());
    let Some(target) = halves.filter(|_| half == Half::Widen).map(|t| t.dtype()) else {
        let mut call = Call::new(node, inputs, means);
        call.prepared = prepared;
        return kernel(&call);
    };
    if prepared.is_some() {
        // What was prepared is of another type than this input.
        return Err(OpError::Type {
            index: 0,
            got: target,
        });
    }
    let wide: Vec<Option<FloatTensor>> = inputs.iter().map(|input| widen(*input)).collect();
    let wide_bytes: usize = wide.iter().flatten().map(FloatTensor::bytes).sum();
    let budget = means.budget;
    let left = budget.bytes.checked_sub(wide_bytes);
    let left = left.ok_or(OpError::Memory {
        bytes: wide_bytes,
        left: budget.bytes,
    })?;
    let widened: Vec<Option<&FloatTensor>> = wide
        .iter()
        .zip(inputs)
        .map(|(wide, input)| wide.as_ref().or(*input))
        .collect();
    let budget = Budget {
        bytes: left,
        ..budget
    };
    let results = kernel(&Call::new(node, &widened, Means { budget, ..means }))?;
    results
        .into_iter()
        .map(|result| narrow(result, target))
        .collect()
}

fn widen(input: Option<&FloatTensor>) -> Option<FloatTensor> {
    let tensor = input.filter(|tensor| tensor.dtype().is_half())?;
    let values = convert::to_f32(tensor.data())?;
    FloatTensor::of(tensor.shape().to_vec(), values).ok()
}

fn narrow(result: FloatTensor, target: DType) -> Result<FloatTensor, OpError> {
    let (shape, data) = result.into_parts();
    let data = match data {
        Data::F32(values) => convert::from_f32(values, target).ok_or(OpError::Unknown)?,
        other => other,
    };
    call::tensor(shape, data)
}
