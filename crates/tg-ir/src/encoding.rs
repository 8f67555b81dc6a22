//! The canonical encoding of operators.

use crate::forest::Forest;
use crate::op::{
    Axis, CONCAT_MAX, Extremum, Norm, Op, Ranked, Reduction, Relation, Softmax, TERMS_MAX,
};
use crate::program::TensorId;
use crate::requantise::{Requantise, TABLE_MAX};
use crate::rescale::Rescale;
use crate::view::View;
use crate::window::Window;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

impl Encode for TensorId {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.0);
    }
}

impl Decode for TensorId {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.u32()?))
    }
}

/// A one-byte tag for each of a few values.
macro_rules! tags {
    ($type:ty, $field:literal, $($variant:path => $tag:literal),+) => {
        impl Encode for $type {
            fn encode(&self, writer: &mut Writer) {
                writer.u8(match self { $($variant => $tag),+ });
            }
        }

        impl Decode for $type {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match reader.u8()? {
                    $($tag => Ok($variant),)+
                    other => Err(DecodeError::Invalid { field: $field, value: u64::from(other) }),
                }
            }
        }
    };
}

tags!(Axis, "axis", Axis::Rows => 0, Axis::Columns => 1, Axis::Channels => 2);
tags!(Reduction, "reduction", Reduction::Sum => 0, Reduction::Greatest => 1, Reduction::Least => 2);
tags!(Extremum, "extremum", Extremum::Greater => 0, Extremum::Lesser => 1);
tags!(Relation, "relation", Relation::Equal => 0, Relation::Greater => 1, Relation::GreaterOrEqual => 2);
tags!(Ranked, "ranking", Ranked::Values => 0, Ranked::Channels => 1);

fn flag(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(DecodeError::Invalid {
            field,
            value: u64::from(other),
        }),
    }
}

impl Encode for Softmax {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            rescale,
            table,
            causal,
        } = self;
        rescale.encode(writer);
        writer.count(table.len());
        table.iter().for_each(|&entry| writer.u16(entry));
        writer.u8(u8::from(causal.is_some()));
        causal.iter().for_each(|&offset| writer.u32(offset));
    }
}

impl Decode for Softmax {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let rescale = Rescale::decode(reader)?;
        let count = reader.count("exponentials", TABLE_MAX, 2)?;
        let table = (0..count).map(|_| reader.u16()).collect::<Result<_, _>>()?;
        let causal = match flag(reader, "causal flag")? {
            true => Some(reader.u32()?),
            false => None,
        };
        Ok(Self {
            rescale,
            table,
            causal,
        })
    }
}

impl Encode for Norm {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            centred,
            epsilon,
            precision,
            fraction,
        } = *self;
        writer.u8(u8::from(centred));
        writer.u64(epsilon);
        writer.u8(precision);
        writer.u8(fraction);
    }
}

impl Decode for Norm {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            centred: flag(reader, "centred flag")?,
            epsilon: reader.u64()?,
            precision: reader.u8()?,
            fraction: reader.u8()?,
        })
    }
}

/// The tag of an operator.
const fn tag(op: &Op) -> u8 {
    match op {
        Op::Conv { .. } => 0,
        Op::Dense { .. } => 1,
        Op::WindowSum { .. } => 2,
        Op::Add { .. } => 3,
        Op::Requantise { .. } => 4,
        Op::MaxPool { .. } => 5,
        Op::View { .. } => 6,
        Op::MatMul { .. } => 7,
        Op::Parameter => 8,
        Op::Embed { .. } => 9,
        Op::Mul { .. } => 10,
        Op::Extremum { .. } => 11,
        Op::Compare { .. } => 12,
        Op::Select { .. } => 13,
        Op::Reduce { .. } => 14,
        Op::ArgMax { .. } => 15,
        Op::TopK { .. } => 16,
        Op::Softmax { .. } => 17,
        Op::Norm { .. } => 18,
        Op::Concat { .. } => 19,
        Op::Pad { .. } => 20,
        Op::Gather { .. } => 21,
        Op::Trees { .. } => 22,
    }
}

impl Encode for Op {
    fn encode(&self, writer: &mut Writer) {
        writer.u8(tag(self));
        if let Self::Add { inputs, .. } | Self::Concat { inputs, .. } = self {
            writer.seq(inputs);
        } else {
            self.inputs().iter().for_each(|input| input.encode(writer));
        }
        match self {
            Self::Dense { .. } | Self::Parameter | Self::Mul { .. } | Self::ArgMax { .. } => {}
            Self::Conv {
                window,
                groups,
                zero,
                ..
            } => {
                window.encode(writer);
                writer.u32(*groups);
                writer.u16(zero.cast_unsigned());
            }
            Self::WindowSum { window, .. } | Self::MaxPool { window, .. } => window.encode(writer),
            Self::Add {
                multipliers, bias, ..
            } => {
                multipliers.iter().for_each(|&value| writer.i32(value));
                writer.i32(*bias);
            }
            Self::Requantise { how, .. } => how.encode(writer),
            Self::View { view, .. } => view.encode(writer),
            Self::MatMul { transposed, .. } => writer.u8(u8::from(*transposed)),
            Self::Embed { rows, .. } => writer.u32(*rows),
            Self::Extremum { which, .. } => which.encode(writer),
            Self::Compare { relation, .. } => relation.encode(writer),
            Self::Select { .. } => {}
            Self::Reduce {
                reduction, axis, ..
            } => {
                reduction.encode(writer);
                axis.encode(writer);
            }
            Self::TopK { give, .. } => give.encode(writer),
            Self::Softmax { how, .. } => how.encode(writer),
            Self::Norm { how, .. } => how.encode(writer),
            Self::Concat { axis, .. } => axis.encode(writer),
            Self::Pad {
                before,
                after,
                value,
                ..
            } => {
                before
                    .iter()
                    .chain(after)
                    .for_each(|&value| writer.u32(value));
                writer.u16(value.cast_unsigned());
            }
            Self::Gather { axis, indices, .. } => {
                axis.encode(writer);
                writer.count(indices.len());
                indices.iter().for_each(|&index| writer.u32(index));
            }
            Self::Trees { forest, .. } => forest.encode(writer),
        }
    }
}

impl Decode for Op {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = reader.u8()?;
        match tag {
            3 | 8 | 19 => decode_lists(tag, reader),
            7 | 10..=13 => decode_pairs(tag, reader),
            _ => decode_one_input(tag, reader),
        }
    }
}

fn decode_lists(tag: u8, reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
    Ok(match tag {
        3 => {
            let inputs: Vec<TensorId> = reader.seq("terms", TERMS_MAX, 4)?;
            let multipliers = inputs
                .iter()
                .map(|_| reader.i32())
                .collect::<Result<_, _>>()?;
            Op::Add {
                inputs,
                multipliers,
                bias: reader.i32()?,
            }
        }
        19 => Op::Concat {
            inputs: reader.seq("concatenated tensors", CONCAT_MAX, 4)?,
            axis: Axis::decode(reader)?,
        },
        _ => Op::Parameter,
    })
}

fn decode_pairs(tag: u8, reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let first = TensorId::decode(reader)?;
    let inputs = [first, TensorId::decode(reader)?];
    Ok(match tag {
        7 => Op::MatMul {
            inputs,
            transposed: flag(reader, "transposed flag")?,
        },
        10 => Op::Mul { inputs },
        11 => Op::Extremum {
            inputs,
            which: Extremum::decode(reader)?,
        },
        12 => Op::Compare {
            inputs,
            relation: Relation::decode(reader)?,
        },
        _ => Op::Select {
            condition: first,
            inputs: [inputs[1], TensorId::decode(reader)?],
        },
    })
}

fn decode_one_input(tag: u8, reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let input = TensorId::decode(reader)?;
    Ok(match tag {
        0 => Op::Conv {
            input,
            window: Window::decode(reader)?,
            groups: reader.u32()?,
            zero: reader.u16()?.cast_signed(),
        },
        1 => Op::Dense { input },
        2 => Op::WindowSum {
            input,
            window: Window::decode(reader)?,
        },
        4 => Op::Requantise {
            input,
            how: Requantise::decode(reader)?,
        },
        5 => Op::MaxPool {
            input,
            window: Window::decode(reader)?,
        },
        6 => Op::View {
            input,
            view: View::decode(reader)?,
        },
        9 => Op::Embed {
            input,
            rows: reader.u32()?,
        },
        14 => Op::Reduce {
            input,
            reduction: Reduction::decode(reader)?,
            axis: Axis::decode(reader)?,
        },
        15 => Op::ArgMax { input },
        16 => Op::TopK {
            input,
            give: Ranked::decode(reader)?,
        },
        17 => Op::Softmax {
            input,
            how: Softmax::decode(reader)?,
        },
        18 => Op::Norm {
            input,
            how: Norm::decode(reader)?,
        },
        20 => decode_pad(input, reader)?,
        21 => {
            let axis = Axis::decode(reader)?;
            let count = reader.count("gathered slices", crate::shape::AXIS_MAX as usize, 4)?;
            Op::Gather {
                input,
                axis,
                indices: (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?,
            }
        }
        22 => Op::Trees {
            input,
            forest: Forest::decode(reader)?,
        },
        _ => {
            return Err(DecodeError::Invalid {
                field: "operator",
                value: u64::from(tag),
            });
        }
    })
}

fn decode_pad(input: TensorId, reader: &mut Reader<'_>) -> Result<Op, DecodeError> {
    let mut widths = [0u32; 6];
    for width in &mut widths {
        *width = reader.u32()?;
    }
    let [b0, b1, b2, a0, a1, a2] = widths;
    Ok(Op::Pad {
        input,
        before: [b0, b1, b2],
        after: [a0, a1, a2],
        value: reader.u16()?.cast_signed(),
    })
}
