//! Operators that move, repeat or leave out elements.

use tg_ir::op::{self, Axis};
use tg_ir::{ElementType, Op, TensorId, View};

use crate::builder::{Builder, Handle, RANK_MAX, Refusal, axis_of, shape_of};
use crate::case::{Case, Kind};
use crate::linear::image;

fn strides(axes: &[u32]) -> Result<Vec<i32>, Refusal> {
    let mut out = vec![1i32; axes.len()];
    for axis in (1..axes.len()).rev() {
        let side = i32::try_from(axes[axis]).map_err(|_| "an axis beyond 2^16 elements")?;
        out[axis - 1] = out[axis] * side;
    }
    Ok(out)
}

fn only_operand(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    Ok(builder.operands(&[&case.operands[0]])?.remove(0))
}

fn viewed(
    builder: &mut Builder,
    input: TensorId,
    view: View,
    axes: &[u32],
) -> Result<Handle, Refusal> {
    let view = if view.axes.is_empty() {
        View::new(view.offset, &[(1, 0)])
    } else {
        view
    };
    Ok(Handle {
        id: builder.view(input, shape_of(axes)?, view),
        axes: axes.to_vec(),
    })
}

/// The axes of a result with more than three: those of length 1 are dropped, outer ones joined.
fn stored(axes: &[u32]) -> Vec<u32> {
    if axes.len() <= RANK_MAX {
        return axes.to_vec();
    }
    let mut kept: Vec<u32> = axes.iter().copied().filter(|&side| side != 1).collect();
    while kept.len() > RANK_MAX {
        let inner = kept.remove(1);
        kept[0] *= inner;
    }
    kept
}

/// RESHAPE and IDENTITY: elements keep their order.
pub(crate) fn reshape(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = only_operand(builder, case)?;
    let axes = stored(&case.result.shape);
    let elements = axes.iter().product();
    viewed(builder, input.id, View::new(0, &[(elements, 1)]), &axes)
}

/// SLICE: start and size of each axis.
pub(crate) fn slice(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = only_operand(builder, case)?;
    let steps = strides(&input.axes)?;
    let mut offset = 0i64;
    for (start, step) in case.operands[1].elements.iter().zip(&steps) {
        offset += start * i64::from(*step);
    }
    let offset = u32::try_from(offset).map_err(|_| "a negative start")?;
    let axes: Vec<_> = case.result.shape.iter().copied().zip(steps).collect();
    viewed(
        builder,
        input.id,
        View::new(offset, &axes),
        &case.result.shape,
    )
}

/// TRANSPOSE.
pub(crate) fn transpose(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = only_operand(builder, case)?;
    let order: Vec<usize> = case
        .list("perms")
        .into_iter()
        .map(|axis| usize::try_from(axis).map_err(|_| "a negative axis"))
        .collect::<Result<_, _>>()?;
    let view = View::transpose(&input.axes, &order);
    viewed(builder, input.id, view, &case.result.shape)
}

/// REVERSE along one axis.
pub(crate) fn reverse(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = only_operand(builder, case)?;
    let axis = usize::try_from(case.integer("axis")).map_err(|_| "a negative axis")?;
    let mut steps = strides(&input.axes)?;
    let side = input.axes[axis];
    let offset = (side - 1) * steps[axis].unsigned_abs();
    steps[axis] = -steps[axis];
    let axes: Vec<_> = input.axes.iter().copied().zip(steps).collect();
    viewed(builder, input.id, View::new(offset, &axes), &input.axes)
}

/// TILE: every axis repeated as often as stated.
pub(crate) fn tile(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = only_operand(builder, case)?;
    let steps = strides(&input.axes)?;
    let mut axes = Vec::new();
    for (index, &times) in case.operands[1].elements.iter().enumerate() {
        axes.push((u32::try_from(times).map_err(|_| "a negative size")?, 0));
        axes.push((input.axes[index], steps[index]));
    }
    viewed(builder, input.id, View::new(0, &axes), &case.result.shape)
}

/// PAD by a constant. One beyond 16 bits is reached by taking it away first and adding it at the end.
pub(crate) fn pad(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = only_operand(builder, case)?;
    let amounts: Vec<u32> = case.operands[1]
        .elements
        .iter()
        .map(|&amount| u32::try_from(amount).map_err(|_| "a negative size"))
        .collect::<Result<_, _>>()?;
    let constant = case.operands[2].scalar();
    let mut before = [0; RANK_MAX];
    let mut after = [0; RANK_MAX];
    let outer = RANK_MAX - input.axes.len();
    for (axis, pair) in amounts.chunks_exact(2).enumerate() {
        [before[outer + axis], after[outer + axis]] = [pair[0], pair[1]];
    }
    let fits = match builder.kind(input.id) {
        ElementType::I8 => i8::try_from(constant).is_ok(),
        ElementType::I16 | ElementType::I32 => constant.abs() <= i64::from(i16::MAX),
    };
    let shift = if fits { 0 } else { constant };
    let shift = i32::try_from(shift).map_err(|_| "32-bit values beyond the field bound")?;
    let value = if fits { constant } else { 0 };
    let mut id = input.id;
    if shift != 0 {
        let less = shift.checked_neg();
        id = builder.add(
            &[(id, 1)],
            less.ok_or("32-bit values beyond the field bound")?,
        );
    }
    let op = Op::Pad(op::Pad {
        input: id,
        before,
        after,
        value: i16::try_from(value).expect("16 bits"),
    });
    let kind = builder.kind(id);
    let mut id = builder.node(op, shape_of(&case.result.shape)?, kind);
    if shift != 0 {
        id = builder.add(&[(id, 1)], shift);
    }
    Ok(Handle {
        id,
        axes: case.result.shape.clone(),
    })
}

/// CONCAT along one axis.
pub(crate) fn concat(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let operands = builder.operands(&case.operands.iter().collect::<Vec<_>>())?;
    let axis = axis_of(case.result.shape.len(), case.integer("axis"))?;
    let inputs: Vec<TensorId> = operands.iter().map(|operand| operand.id).collect();
    let kind = builder.kind(inputs[0]);
    let shape = shape_of(&case.result.shape)?;
    Ok(Handle {
        id: builder.node(Op::Concat(op::Concat { inputs, axis }), shape, kind),
        axes: case.result.shape.clone(),
    })
}

fn indices(values: &[i64]) -> Result<Vec<u32>, Refusal> {
    let narrow = |&index: &i64| u32::try_from(index).map_err(|_| "a negative index");
    values.iter().map(narrow).collect()
}

/// GATHER of rows, the indices being constants of the program.
pub(crate) fn gather(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    if case.operands[0].shape.first() != Some(&1) {
        return Err("a batch of several tables");
    }
    let input = only_operand(builder, case)?;
    let op = Op::Gather(op::Gather {
        input: input.id,
        axis: Axis::Columns,
        indices: indices(&case.operands[1].elements)?,
    });
    let kind = builder.kind(input.id);
    Ok(Handle {
        id: builder.node(op, shape_of(&case.result.shape)?, kind),
        axes: case.result.shape.clone(),
    })
}

/// SCATTER of rows, the indices being constants of the program: a choice among the old and the new rows.
pub(crate) fn scatter(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let [old, places, new] = &case.operands[..] else {
        return Err("an unexpected attribute");
    };
    let [1, rows, _] = old.shape[..] else {
        return Err("a batch of several tables");
    };
    let operands = builder.operands(&[old, new])?;
    let mut source: Vec<u32> = (0..rows).collect();
    for (row, place) in (rows..).zip(indices(&places.elements)?) {
        source[place as usize] = row;
    }
    let both = builder
        .shape(operands[0].id)
        .with_axis(Axis::Columns, rows + new.shape[1]);
    let kind = builder.kind(operands[0].id);
    let op = Op::Concat(op::Concat {
        inputs: vec![operands[0].id, operands[1].id],
        axis: Axis::Columns,
    });
    let input = builder.node(op, both, kind);
    let op = Op::Gather(op::Gather {
        input,
        axis: Axis::Columns,
        indices: source,
    });
    Ok(Handle {
        id: builder.node(op, shape_of(&case.result.shape)?, kind),
        axes: case.result.shape.clone(),
    })
}

/// RESIZE to the nearest pixel: rows and columns picked.
pub(crate) fn resize(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    const NEAREST: i64 = 1;
    if case.integer("mode") != NEAREST || case.result.kind != Kind::I8 {
        return Err("bilinear resizing");
    }
    let source = image(&case.operands[0])?;
    let [scale, offset] = [1, 2].map(|index| &case.operands[index].elements);
    let mut id = builder.operands(&[&source])?.remove(0).id;
    for (index, axis) in [Axis::Rows, Axis::Columns].into_iter().enumerate() {
        let (numerator, denominator) = (scale[2 * index], scale[2 * index + 1]);
        let length = i64::from(builder.shape(id).axis(axis));
        let picked: Vec<u32> = (0..i64::from(case.result.shape[1 + index]))
            .map(|at| {
                let place = at * denominator + offset[index];
                let down = place.div_euclid(numerator);
                let nearer_up = 2 * place.rem_euclid(numerator) >= numerator;
                let source = (down + i64::from(nearer_up)).clamp(0, length - 1);
                u32::try_from(source).expect("within the axis")
            })
            .collect();
        let count = u32::try_from(picked.len()).expect("an axis");
        let shape = builder.shape(id).with_axis(axis, count);
        let kind = builder.kind(id);
        let op = Op::Gather(op::Gather {
            input: id,
            axis,
            indices: picked,
        });
        id = builder.node(op, shape, kind);
    }
    Ok(Handle {
        id,
        axes: case.result.shape.clone(),
    })
}
