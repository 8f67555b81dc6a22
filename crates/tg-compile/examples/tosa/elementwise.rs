//! Operators that work element by element: rescales, tables, sums, comparisons, selections; and reductions.

use tg_ir::op::{self, Axis, Extreme, Reduction, Relation};
use tg_ir::{ElementType, Op, Requantise, Rescale, Shape, TensorId, View};

use crate::builder::{Builder, Handle, Refusal, axis_of, shape_of};
use crate::case::{Case, Kind, Values};

/// The value of a rounding mode "single".
const SINGLE_ROUND: i64 = 1;
/// Greatest factor whose square stays within the field bound.
const FACTOR_MAX: i16 = 32_639;

/// RESCALE: single rounding, signed, 16-bit multipliers, results of 8 or 16 bits.
pub(crate) fn rescale(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    if case.flag("input_unsigned") || case.flag("output_unsigned") {
        return Err("unsigned values");
    }
    if case.integer("rounding_mode") != SINGLE_ROUND {
        return Err("a rounding other than single");
    }
    if case.flag("scale32") {
        return Err("multipliers of 32 bits");
    }
    let (output, clamp) = match case.result.kind {
        Kind::I8 => (ElementType::I8, [-128, 127]),
        Kind::I16 => (ElementType::I16, [-32_767, 32_767]),
        Kind::Bool | Kind::I32 | Kind::Shape => return Err("results of 32 bits"),
    };
    let pairs = rescales(&case.operands[1], &case.operands[2])?;
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    let zero_in = i32::try_from(case.operands[3].scalar()).map_err(|_| "a wide zero point")?;
    let zero_out = i16::try_from(case.operands[4].scalar()).map_err(|_| "a wide zero point")?;
    let mut id = input.id;
    if zero_in != 0 {
        id = builder.add(&[(id, 1)], -zero_in);
    }
    let id = per_channel(
        builder,
        id,
        &pairs,
        |builder, part, pairs, channel_pairs| {
            builder.requantise(part, pairs, channel_pairs, zero_out, clamp, output)
        },
    )?;
    Ok(Handle {
        id,
        axes: input.axes,
    })
}

fn rescales(multipliers: &Values, shifts: &Values) -> Result<Vec<Rescale>, Refusal> {
    let both = multipliers.elements.iter().zip(&shifts.elements);
    both.map(|(&multiplier, &shift)| {
        let narrow = |x: i64| u32::try_from(x).ok();
        narrow(multiplier)
            .zip(narrow(shift))
            .and_then(|(m, s)| Rescale::new(m, s))
            .ok_or("a multiplier or shift outside TGX-1's range")
    })
    .collect()
}

/// Applies one pair to all channels, or one to each: in parts of as many channels as have few enough distinct pairs.
fn per_channel(
    builder: &mut Builder,
    input: TensorId,
    pairs: &[Rescale],
    apply: impl Fn(&mut Builder, TensorId, Vec<Rescale>, Vec<u8>) -> TensorId,
) -> Result<TensorId, Refusal> {
    if let [pair] = pairs {
        return Ok(apply(builder, input, vec![*pair], vec![0]));
    }
    let shape = builder.shape(input);
    let mut parts = Vec::new();
    let mut first = 0;
    while first < pairs.len() {
        let mut distinct: Vec<Rescale> = Vec::new();
        let mut map = Vec::new();
        for pair in &pairs[first..] {
            let at = distinct.iter().position(|known| known == pair);
            let at = at.unwrap_or(distinct.len());
            if at == tg_ir::requantise::PAIRS_MAX {
                break;
            }
            if at == distinct.len() {
                distinct.push(*pair);
            }
            map.push(u8::try_from(at).expect("few pairs"));
        }
        let channels = u32::try_from(map.len()).expect("an axis");
        let part = if map.len() == pairs.len() {
            input
        } else {
            let step = i32::try_from(shape.channels).expect("an axis");
            let pixels = u32::try_from(shape.pixels()).map_err(|_| "too many pixels")?;
            let offset = u32::try_from(first).expect("an axis");
            let view = View::new(offset, &[(pixels, step), (channels, 1)]);
            builder.view(input, shape.with_axis(Axis::Channels, channels), view)
        };
        first += map.len();
        parts.push(apply(builder, part, distinct, map));
    }
    if let [only] = parts[..] {
        return Ok(only);
    }
    let kind = builder.kind(parts[0]);
    let op = Op::Concat(op::Concat {
        inputs: parts,
        axis: Axis::Channels,
    });
    Ok(builder.node(op, shape, kind))
}

/// TABLE of 8 bits: 256 entries, the first for -128.
pub(crate) fn table(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    if case.operands[0].kind != Kind::I8 {
        return Err("tables with interpolation");
    }
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    let narrow = |&x: &i64| i16::try_from(x).map_err(|_| "a table of 32 bits");
    let entries = case.operands[1].elements.iter().map(narrow);
    let how = Requantise {
        table: Some(entries.collect::<Result<_, _>>()?),
        ..Requantise::to_i8(
            vec![Rescale::new(4, 2).expect("within range")],
            vec![0],
            [-1_000, 1_000],
            [-128, 127],
        )
    };
    let op = Op::Requantise(op::Unary {
        input: input.id,
        how,
    });
    let id = builder.node(op, builder.shape(input.id), ElementType::I8);
    Ok(Handle { id, ..input })
}

/// CLAMP of 8 bits.
pub(crate) fn clamp(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    if case.operands[0].kind != Kind::I8 {
        return Err("a clamp of more than 8 bits");
    }
    let limit = |name: &str| {
        let bytes = case.list(name);
        let byte = bytes.first().and_then(|&byte| u8::try_from(byte).ok());
        byte.map(|byte| i16::from(byte.cast_signed()))
            .ok_or("an unexpected attribute")
    };
    let limits = [limit("min_val")?, limit("max_val")?];
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    let id = builder.identity(input.id, ElementType::I8, limits);
    Ok(Handle { id, ..input })
}

/// The two operands of a case, repeated to the axes of its result.
fn pair(builder: &mut Builder, case: &Case) -> Result<([TensorId; 2], Shape), Refusal> {
    let operands = builder.operands(&[&case.operands[0], &case.operands[1]])?;
    let axes = &case.result.shape;
    let left = builder.broadcast(&operands[0], axes)?;
    let right = builder.broadcast(&operands[1], axes)?;
    Ok(([left, right], shape_of(axes)?))
}

fn result(id: TensorId, case: &Case) -> Handle {
    Handle {
        id,
        axes: case.result.shape.clone(),
    }
}

/// ADD and SUB: `a + sign * b`.
pub(crate) fn sum(builder: &mut Builder, case: &Case, sign: i32) -> Result<Handle, Refusal> {
    let ([left, right], _) = pair(builder, case)?;
    Ok(result(builder.add(&[(left, 1), (right, sign)], 0), case))
}

/// MUL without a shift.
pub(crate) fn product(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    if case
        .operands
        .get(2)
        .is_some_and(|shift| shift.scalar() != 0)
    {
        return Err("a product of more than 32 bits");
    }
    let limit = i64::from(FACTOR_MAX);
    if case.operands[..2].iter().any(|x| x.magnitude() > limit) {
        return Err("32-bit values beyond the field bound");
    }
    let ([left, right], shape) = pair(builder, case)?;
    let inputs = [left, right].map(|id| match builder.kind(id) {
        ElementType::I8 => id,
        _ => builder.identity(id, ElementType::I16, [-FACTOR_MAX, FACTOR_MAX]),
    });
    let id = builder.node(Op::Mul(op::Mul { inputs }), shape, ElementType::I32);
    Ok(result(id, case))
}

/// MAXIMUM and MINIMUM, LOGICAL_OR and LOGICAL_AND.
pub(crate) fn extremum(
    builder: &mut Builder,
    case: &Case,
    which: Extreme,
) -> Result<Handle, Refusal> {
    let (inputs, shape) = pair(builder, case)?;
    let kind = builder.kind(inputs[0]);
    let id = builder.node(Op::Extremum(op::Extremum { inputs, which }), shape, kind);
    Ok(result(id, case))
}

/// EQUAL, GREATER, GREATER_EQUAL.
pub(crate) fn compare(
    builder: &mut Builder,
    case: &Case,
    relation: Relation,
) -> Result<Handle, Refusal> {
    let (inputs, shape) = pair(builder, case)?;
    let id = builder.node(
        Op::Compare(op::Compare { inputs, relation }),
        shape,
        ElementType::I8,
    );
    Ok(result(id, case))
}

/// LOGICAL_XOR: not equal.
pub(crate) fn exclusive_or(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let equal = compare(builder, case, Relation::Equal)?;
    Ok(result(builder.not(equal.id), case))
}

/// LOGICAL_NOT.
pub(crate) fn not(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    Ok(result(builder.not(input.id), case))
}

/// SELECT.
pub(crate) fn select(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let operands = builder.operands(&case.operands.iter().collect::<Vec<_>>())?;
    let axes = &case.result.shape;
    let mut ids = Vec::new();
    for operand in &operands {
        ids.push(builder.broadcast(operand, axes)?);
    }
    let op = Op::Select(op::Select {
        condition: ids[0],
        inputs: [ids[1], ids[2]],
    });
    let kind = builder.kind(ids[1]);
    Ok(result(builder.node(op, shape_of(axes)?, kind), case))
}

/// NEGATE: `(zero_in - x) + zero_out`, saturated to its type; BITWISE_NOT: `-x - 1`; ABS: the greater of x and -x.
pub(crate) fn negate(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let zero = |index: usize| case.operands.get(index).map_or(0, Values::scalar);
    let bias = i32::try_from(zero(1) + zero(2)).map_err(|_| "a wide zero point")?;
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    let negated = builder.add(&[(input.id, -1)], bias);
    let id = match case.result.kind {
        Kind::I8 => builder.identity(negated, ElementType::I8, [-128, 127]),
        Kind::I16 => builder.identity(negated, ElementType::I16, [-32_767, 32_767]),
        Kind::Bool | Kind::I32 | Kind::Shape => negated,
    };
    Ok(result(id, case))
}

/// BITWISE_NOT.
pub(crate) fn complement(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    Ok(result(builder.add(&[(input.id, -1)], -1), case))
}

/// ABS.
pub(crate) fn absolute(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = builder.operands(&[&case.operands[0]])?.remove(0).id;
    let (plus, minus) = (
        builder.add(&[(input, 1)], 0),
        builder.add(&[(input, -1)], 0),
    );
    let op = Op::Extremum(op::Extremum {
        inputs: [plus, minus],
        which: Extreme::Greater,
    });
    let id = builder.node(op, builder.shape(input), ElementType::I32);
    Ok(result(id, case))
}

/// CAST that keeps the value, or asks whether it is 0.
pub(crate) fn cast(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let from = case.operands[0].kind;
    let rank = |kind| match kind {
        Kind::Bool => 0,
        Kind::I8 => 1,
        Kind::I16 => 2,
        Kind::I32 | Kind::Shape => 3,
    };
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    if case.result.kind == Kind::Bool {
        let inputs = [input.id, builder.zeros_like(input.id)];
        let op = Op::Compare(op::Compare {
            inputs,
            relation: Relation::Equal,
        });
        let is_zero = builder.node(op, builder.shape(input.id), ElementType::I8);
        return Ok(result(builder.not(is_zero), case));
    }
    if rank(case.result.kind) < rank(from) {
        return Err("a cast that wraps around");
    }
    let id = builder.add(&[(input.id, 1)], 0);
    Ok(result(id, case))
}

/// REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL.
pub(crate) fn reduce(
    builder: &mut Builder,
    case: &Case,
    how: Reduction,
) -> Result<Handle, Refusal> {
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    let axis = axis_of(input.axes.len(), case.integer("axis"))?;
    let kind = match (how, builder.kind(input.id)) {
        (Reduction::Sum, ElementType::I32) => return Err("a sum of accumulators"),
        (Reduction::Sum, _) => ElementType::I32,
        (_, kind) => kind,
    };
    let op = Op::Reduce(op::Reduce {
        input: input.id,
        reduction: how,
        axis,
    });
    let shape = builder.shape(input.id).with_axis(axis, 1);
    Ok(result(builder.node(op, shape, kind), case))
}

/// ARGMAX: the axis is made the channels first.
pub(crate) fn argmax(builder: &mut Builder, case: &Case) -> Result<Handle, Refusal> {
    let input = builder.operands(&[&case.operands[0]])?.remove(0);
    let axis = usize::try_from(case.integer("axis")).map_err(|_| "a negative axis")?;
    let mut order: Vec<usize> = (0..input.axes.len()).filter(|&a| a != axis).collect();
    order.push(axis);
    let axes: Vec<u32> = order.iter().map(|&a| input.axes[a]).collect();
    let shape = shape_of(&axes)?;
    let turned = builder.view(input.id, shape, View::transpose(&input.axes, &order));
    let op = Op::ArgMax(op::ArgMax { input: turned });
    let id = builder.node(op, shape.with_axis(Axis::Channels, 1), ElementType::I32);
    Ok(result(id, case))
}
