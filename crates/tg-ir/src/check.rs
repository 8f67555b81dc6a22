//! Whether a program is well formed: earlier inputs of the right types, attributes in range, shapes that follow.

use crate::op::{Axis, CONCAT_MAX, Norm, Op, Softmax, TERMS_MAX};
use crate::program::{Node, Program, ProgramError, TensorId};
use crate::requantise::TABLE_MAX;
use crate::rescale::MULTIPLIER_MAX;
use crate::shape::{ElementType, Shape};
use crate::{bounds, op};

/// Greatest precision of a normalisation's root, in bits.
pub const NORM_PRECISION_MAX: u8 = 12;
/// Most fraction bits of a normalisation's result.
pub const NORM_FRACTION_MAX: u8 = 14;

/// Checks one node, given that all before it are well formed and the greatest absolute values of their outputs (a program has
/// thousands of nodes: none is looked at once per later one).
pub(crate) fn node(
    program: &Program,
    index: usize,
    magnitudes: &[i64],
) -> Result<(), ProgramError> {
    let Node {
        name, op, shape, ..
    } = &program.nodes[index];
    inputs(program, index)?;
    let bad_shape = || ProgramError::BadShape {
        node: index,
        name: name.clone(),
        op: op.name(),
        stated: *shape,
    };
    if !shape.is_valid() {
        return Err(bad_shape());
    }
    if let Some(attribute) = invalid_attribute(program, index, magnitudes) {
        return Err(ProgramError::BadAttribute {
            node: index,
            name: name.clone(),
            op: op.name(),
            attribute,
        });
    }
    if expected_shape(program, index) == Some(*shape) {
        Ok(())
    } else {
        Err(bad_shape())
    }
}

fn inputs(program: &Program, index: usize) -> Result<(), ProgramError> {
    let Node { name, op, .. } = &program.nodes[index];
    let bad = |tensor: TensorId| ProgramError::BadInput {
        node: index,
        name: name.clone(),
        tensor: tensor.0,
    };
    let read = op.inputs();
    if let Some(&later) = read.iter().find(|input| input.index() > index) {
        return Err(bad(later));
    }
    if !op.takes_accumulators()
        && let Some(&wide) = read
            .iter()
            .find(|&&input| program.element_type(input) == ElementType::I32)
    {
        return Err(bad(wide));
    }
    let alike: &[TensorId] = match op {
        Op::Extremum { inputs, .. } | Op::Compare { inputs, .. } | Op::Select { inputs, .. } => {
            inputs
        }
        Op::Concat { inputs, .. } => inputs,
        _ => &[],
    };
    let types = |id: &TensorId| program.element_type(*id);
    if let Some(&other) = alike.iter().find(|id| types(id) != types(&alike[0])) {
        return Err(bad(other));
    }
    if let Op::Select { condition, .. } = op
        && types(condition) != ElementType::I8
    {
        return Err(bad(*condition));
    }
    Ok(())
}

fn invalid_attribute(program: &Program, index: usize, magnitudes: &[i64]) -> Option<&'static str> {
    let Node { op, shape, .. } = &program.nodes[index];
    let input_shape = || program.shape(op.inputs()[0]);
    match op {
        Op::Conv { .. } => convolution(program, index),
        Op::WindowSum { window, .. } => {
            (!window.is_valid() || window.spread != [1; 2]).then_some("window")
        }
        Op::MaxPool { window, .. } => {
            let valid = window.is_valid()
                && window.spread == [1; 2]
                && window.output(input_shape()).is_none_or(|[height, width]| {
                    window.covers(input_shape(), Shape::new(height, width, 1))
                });
            (!valid).then_some("window")
        }
        Op::Add {
            inputs,
            multipliers,
            ..
        } => {
            let in_range = |m: &i32| *m != 0 && m.unsigned_abs() <= MULTIPLIER_MAX;
            let counted = (1..=TERMS_MAX).contains(&inputs.len());
            (!counted || multipliers.len() != inputs.len() || !multipliers.iter().all(in_range))
                .then_some("multiplier")
        }
        Op::Requantise { how, .. } => how.invalid(shape.channels as usize),
        Op::Embed { rows, .. } => (*rows == 0 || *rows > 1 << 20).then_some("number of rows"),
        Op::Concat { inputs, .. } => {
            (!(1..=CONCAT_MAX).contains(&inputs.len())).then_some("number of concatenated tensors")
        }
        Op::TopK { .. } => {
            (shape.channels > input_shape().channels).then_some("number of greatest elements")
        }
        Op::Softmax { input, how } => softmax(how, input_shape(), magnitudes[input.index()]),
        Op::Norm { input, how } => norm(how, input_shape(), magnitudes[input.index()]),
        Op::View { view, .. } => {
            let inside = view.is_valid(input_shape().elements());
            (!inside || view.elements() != Some(shape.elements() as u64)).then_some("view")
        }
        Op::Pad { input, value, .. } => {
            (!fits(program.element_type(*input), *value)).then_some("padding value")
        }
        Op::Gather { axis, indices, .. } => {
            let length = input_shape().axis(*axis);
            (indices.iter().any(|&index| index >= length)).then_some("gathered slices")
        }
        Op::Trees { forest, .. } => {
            (!forest.is_valid(input_shape().channels as usize)).then_some("forest")
        }
        Op::Dense { .. }
        | Op::MatMul { .. }
        | Op::Parameter
        | Op::Mul { .. }
        | Op::Extremum { .. }
        | Op::Compare { .. }
        | Op::Select { .. }
        | Op::Reduce { .. }
        | Op::ArgMax { .. } => None,
    }
}

fn convolution(program: &Program, index: usize) -> Option<&'static str> {
    let Node { op, shape, .. } = &program.nodes[index];
    let Op::Conv {
        input,
        window,
        groups,
        zero,
    } = op
    else {
        return None;
    };
    if !window.is_valid() {
        return Some("window");
    }
    let divides = |channels: u32| *groups != 0 && channels.is_multiple_of(*groups);
    if !divides(program.shape(*input).channels) || !divides(shape.channels) {
        return Some("number of groups");
    }
    (!fits(program.element_type(*input), *zero)).then_some("zero point")
}

fn fits(kind: ElementType, value: i16) -> bool {
    match kind {
        ElementType::I8 => i8::try_from(value).is_ok(),
        ElementType::I16 | ElementType::I32 => value != i16::MIN,
    }
}

fn softmax(how: &Softmax, input: Shape, magnitude: i64) -> Option<&'static str> {
    let Softmax { table, .. } = how;
    let entries = (1..=TABLE_MAX).contains(&table.len())
        && table[0] >= 1
        && table.iter().all(|&entry| entry <= op::PROBABILITY_ONE);
    let sum = i64::from(input.channels) * i64::from(op::PROBABILITY_ONE);
    (!entries)
        .then_some("table of exponentials")
        .or_else(|| (sum > bounds::FIELD_BOUND).then_some("number of channels"))
        // Halved, not doubled: magnitudes of nodes before this one are bounded after all nodes were looked at.
        .or_else(|| (magnitude > bounds::FIELD_BOUND / 2).then_some("range of scores"))
}

fn norm(how: &Norm, input: Shape, magnitude: i64) -> Option<&'static str> {
    let Norm {
        epsilon,
        precision,
        fraction,
        ..
    } = *how;
    if precision > NORM_PRECISION_MAX || fraction > NORM_FRACTION_MAX {
        return Some("precision");
    }
    let n = i128::from(input.channels);
    let magnitude = i128::from(magnitude);
    let radicand = (n * n * magnitude * magnitude + i128::from(epsilon)) << (2 * precision);
    let numerator = (2 * n * magnitude) << (precision + fraction);
    let limit = 1i128 << 62;
    let saturates = n << (2 * fraction) > (1 << 30) - (1 << 16);
    (radicand >= limit || numerator >= limit || saturates).then_some("precision")
}

/// The shape an operator gives for its inputs; what is a node's own to state (channels of a node with weights, k of
/// the greatest elements) is taken from it.
fn expected_shape(program: &Program, index: usize) -> Option<Shape> {
    let Node {
        op, shape: stated, ..
    } = &program.nodes[index];
    let of = |id: &TensorId| program.shape(*id);
    let alike = |ids: &[TensorId]| {
        let first = of(ids.first()?);
        ids.iter().all(|id| of(id) == first).then_some(first)
    };
    match op {
        Op::Conv { input, window, .. } => window
            .output(of(input))
            .map(|[height, width]| Shape::new(height, width, stated.channels)),
        Op::WindowSum { input, window } | Op::MaxPool { input, window } => window
            .output(of(input))
            .map(|[height, width]| Shape::new(height, width, of(input).channels)),
        Op::Dense { .. } => Some(Shape::vector(stated.channels)),
        Op::Parameter => Some(*stated),
        Op::Embed { input, .. } => {
            (of(input).channels == 1).then(|| of(input).with_axis(Axis::Channels, stated.channels))
        }
        Op::MatMul { inputs, transposed } => matmul(of(&inputs[0]), of(&inputs[1]), *transposed),
        Op::Add { inputs, .. } => alike(inputs),
        Op::Mul { inputs } | Op::Extremum { inputs, .. } | Op::Compare { inputs, .. } => {
            alike(inputs)
        }
        Op::Select { condition, inputs } => alike(&[*condition, inputs[0], inputs[1]]),
        Op::Requantise { input, .. } | Op::Softmax { input, .. } | Op::Norm { input, .. } => {
            Some(of(input))
        }
        Op::Reduce { input, axis, .. } => Some(of(input).with_axis(*axis, 1)),
        Op::ArgMax { input } => Some(of(input).with_axis(Axis::Channels, 1)),
        Op::TopK { input, .. } => Some(of(input).with_axis(Axis::Channels, stated.channels)),
        Op::View { .. } => Some(*stated),
        Op::Concat { inputs, axis } => concat(&inputs.iter().map(of).collect::<Vec<_>>(), *axis),
        Op::Pad {
            input,
            before,
            after,
            ..
        } => pad(of(input), *before, *after),
        Op::Gather {
            input,
            axis,
            indices,
        } => Some(of(input).with_axis(*axis, u32::try_from(indices.len()).ok()?)),
        Op::Trees { input, forest } => {
            let outputs = u32::try_from(forest.outputs()).ok()?;
            (of(input).pixels() == 1).then(|| Shape::vector(outputs))
        }
    }
}

fn matmul(left: Shape, right: Shape, transposed: bool) -> Option<Shape> {
    let (inner, columns) = if transposed {
        (right.channels, right.width)
    } else {
        (right.width, right.channels)
    };
    (left.height.is_multiple_of(right.height) && left.channels == inner)
        .then(|| Shape::new(left.height, left.width, columns))
}

fn concat(shapes: &[Shape], axis: Axis) -> Option<Shape> {
    let first = *shapes.first()?;
    let mut length = 0u32;
    for shape in shapes {
        if shape.with_axis(axis, 1) != first.with_axis(axis, 1) {
            return None;
        }
        length = length.checked_add(shape.axis(axis))?;
    }
    Some(first.with_axis(axis, length))
}

fn pad(input: Shape, before: [u32; 3], after: [u32; 3]) -> Option<Shape> {
    let side =
        |index: usize, length: u32| length.checked_add(before[index])?.checked_add(after[index]);
    Some(Shape::new(
        side(0, input.height)?,
        side(1, input.width)?,
        side(2, input.channels)?,
    ))
}
