//! Control flow: `If`, `Loop`, `Scan`.
//!
//! A body is executed with the rules and the budget of the whole; its captured values are the node's last inputs.

use super::call::Entry;
use super::call::Half::Native;
use super::call::{Call, Means, Results, tensor};
use super::error::{Budget, OpError};
use super::work::{NODE, OPERAND};
use crate::graph::{Attribute, Subgraph};
use crate::tensor::{Data, FloatTensor};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "If" => (branch, Native),
        "Loop" => (repeat, Native),
        "Scan" => (scan, Native),
        _ => return None,
    })
}

fn body<'a>(call: &Call<'a>, name: &'static str) -> Result<&'a Subgraph, OpError> {
    match call.attribute(name) {
        Some(Attribute::Graph(body)) => Ok(body),
        _ => Err(OpError::Attribute { name }),
    }
}

/// The node's own inputs, without captured values.
fn own_inputs(call: &Call<'_>) -> usize {
    let captured = call
        .node
        .attributes
        .values()
        .map(|attribute| match attribute {
            Attribute::Graph(body) => body.captures.len(),
            _ => 0,
        });
    call.inputs.len().saturating_sub(captured.sum())
}

/// Executes a body with these inputs and its captured values.
fn execute(call: &Call<'_>, body: &Subgraph, inputs: &[&FloatTensor]) -> Results {
    let mut all = inputs.to_vec();
    for &index in &body.captures {
        all.push(call.input(index)?);
    }
    let Means { budget, meter, run } = call.means;
    let named = body.graph.inputs.len() + body.graph.outputs.len();
    meter.charge(NODE.saturating_add(OPERAND.saturating_mul(named as u64)))?;
    let budget = Budget {
        bytes: call.left(),
        ..budget
    };
    run(&body.graph, &all, &budget, meter).map_err(|error| OpError::Body(Box::new(error)))
}

fn truth(tensor: &FloatTensor) -> Result<bool, OpError> {
    match tensor.values::<bool>() {
        Some([value]) => Ok(*value),
        _ => Err(OpError::invalid("a condition is not one truth value")),
    }
}

fn branch(call: &Call<'_>) -> Results {
    let name = if truth(call.input(0)?)? {
        "then_branch"
    } else {
        "else_branch"
    };
    execute(call, body(call, name)?, &[])
}

/// Results of the iterations, one after another along a new or given axis.
struct Collected {
    parts: Vec<FloatTensor>,
}

impl Collected {
    /// Stacks along `axis` of the result.
    fn stack(self, call: &Call<'_>, axis: i64, reverse: bool) -> Result<FloatTensor, OpError> {
        let Self { mut parts } = self;
        if reverse {
            parts.reverse();
        }
        let Some(first) = parts.first() else {
            return call.refuse("stacking the results of no iteration");
        };
        let axis = Call::axis(axis, first.rank() + 1)?;
        let mut shape = first.shape().to_vec();
        shape.insert(axis, parts.len());
        let outer: usize = shape[..axis].iter().product();
        let inner: usize = shape[axis + 1..].iter().product();
        call.reserve_shape(&shape, first.dtype())?;
        let mut data = Data::zeros(first.dtype(), 0);
        for row in 0..outer {
            for part in &parts {
                if part.shape() != first.shape() {
                    return Err(OpError::invalid(
                        "the results of iterations differ in shape",
                    ));
                }
                let appended = data.append_run(part.data(), row * inner, inner);
                appended
                    .ok_or_else(|| OpError::invalid("the results of iterations differ in type"))?;
            }
        }
        tensor(shape, data)
    }
}

fn repeat(call: &Call<'_>) -> Results {
    let body = body(call, "body")?;
    let own = own_inputs(call);
    let limit = call.optional_integer(0)?;
    let mut going = match call.optional(1) {
        Some(condition) => truth(condition)?,
        None => true,
    };
    let mut states: Vec<FloatTensor> = Vec::new();
    for index in 2..own {
        states.push(call.input(index)?.clone());
    }
    let scans = body.graph.outputs.len().checked_sub(1 + states.len());
    let scans = scans.ok_or_else(|| OpError::invalid("the body gives too few results"))?;
    let mut collected: Vec<Collected> = (0..scans)
        .map(|_| Collected { parts: Vec::new() })
        .collect();
    let mut iteration = 0i64;
    while going && limit.is_none_or(|limit| iteration < limit) {
        if iteration as usize >= call.means.budget.iterations {
            return call.refuse("more iterations than the budget");
        }
        let (number, condition) = (FloatTensor::scalar(iteration), FloatTensor::scalar(true));
        let mut inputs = vec![&number, &condition];
        inputs.extend(&states);
        let mut results = execute(call, body, &inputs)?.into_iter();
        going = match results.next() {
            Some(condition) => truth(&condition)?,
            None => false,
        };
        states = results.by_ref().take(states.len()).collect();
        for (collected, part) in collected.iter_mut().zip(results) {
            call.reserve(part.len(), part.dtype())?;
            collected.parts.push(part);
        }
        iteration += 1;
    }
    for collected in collected {
        states.push(collected.stack(call, 0, false)?);
    }
    Ok(states)
}

/// Per element of a list attribute with a default of zeros.
fn list(call: &Call<'_>, name: &'static str, count: usize) -> Result<Vec<i64>, OpError> {
    let values = call
        .ints(name)?
        .map_or_else(|| vec![0; count], <[i64]>::to_vec);
    if values.len() == count {
        Ok(values)
    } else {
        Err(OpError::Attribute { name })
    }
}

/// The slice `index` of an axis, without the axis.
fn slice(
    call: &Call<'_>,
    tensor_of: &FloatTensor,
    axis: usize,
    index: usize,
) -> Result<FloatTensor, OpError> {
    let shape = tensor_of.shape();
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let starts: Vec<usize> = (0..outer)
        .map(|row| (row * shape[axis] + index) * inner)
        .collect();
    let mut rest = shape.to_vec();
    rest.remove(axis);
    call.reserve_shape(&rest, tensor_of.dtype())?;
    let slice = tensor(rest, tensor_of.data().gather_runs(&starts, inner))?;
    call.release(slice.len(), slice.dtype());
    Ok(slice)
}

fn scan(call: &Call<'_>) -> Results {
    if call.node.version < 9 {
        return call.refuse("a Scan of version 8, which has a batch axis of its own");
    }
    let body = body(call, "body")?;
    let own = own_inputs(call);
    let scanned = usize::try_from(call.int("num_scan_inputs", 0)?).unwrap_or(0);
    let count = own.checked_sub(scanned).filter(|_| scanned > 0);
    let count =
        count.ok_or_else(|| OpError::invalid("`num_scan_inputs` does not fit the inputs"))?;
    let outputs = body.graph.outputs.len().checked_sub(count);
    let outputs = outputs.ok_or_else(|| OpError::invalid("the body gives too few results"))?;
    let axes = list(call, "scan_input_axes", scanned)?;
    let directions = list(call, "scan_input_directions", scanned)?;
    let output_axes = list(call, "scan_output_axes", outputs)?;
    let output_directions = list(call, "scan_output_directions", outputs)?;
    let mut states: Vec<FloatTensor> = Vec::new();
    for index in 0..count {
        states.push(call.input(index)?.clone());
    }
    let mut walked: Vec<(&FloatTensor, usize)> = Vec::new();
    for (index, &axis) in axes.iter().enumerate() {
        let input = call.input(count + index)?;
        walked.push((input, Call::axis(axis, input.rank())?));
    }
    let (first, axis) = walked[0];
    let length = first.shape()[axis];
    if walked
        .iter()
        .any(|(input, axis)| input.shape()[*axis] != length)
    {
        return Err(OpError::invalid("the scanned axes have different sizes"));
    }
    if length > call.means.budget.iterations {
        return call.refuse("more iterations than the budget");
    }
    let mut collected: Vec<Collected> = (0..outputs)
        .map(|_| Collected { parts: Vec::new() })
        .collect();
    for step in 0..length {
        let mut slices = Vec::with_capacity(scanned);
        for (&(input, axis), &direction) in walked.iter().zip(&directions) {
            let index = if direction == 0 {
                step
            } else {
                length - 1 - step
            };
            slices.push(slice(call, input, axis, index)?);
        }
        let inputs: Vec<&FloatTensor> = states.iter().chain(&slices).collect();
        let mut results = execute(call, body, &inputs)?.into_iter();
        states = results.by_ref().take(count).collect();
        for (collected, part) in collected.iter_mut().zip(results) {
            call.reserve(part.len(), part.dtype())?;
            collected.parts.push(part);
        }
    }
    let stacked = collected
        .into_iter()
        .zip(output_axes)
        .zip(output_directions);
    for ((collected, axis), direction) in stacked {
        states.push(collected.stack(call, axis, direction != 0)?);
    }
    Ok(states)
}
