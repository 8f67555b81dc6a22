//! Requantisations: by rescales, or by a table of all bytes.

use super::context::Context;
use super::element::{activations, fill};
use super::values::{Values, ValuesMut, each, wide};
use crate::kernels::Requantiser;
use crate::kernels::requantise::map_table;
use tg_ir::{ElementType, Requantise, TensorId};

/// A requantisation by itself.
#[derive(Debug)]
pub(super) struct Requantised {
    input: TensorId,
    channels: usize,
    how: Requantiser,
}

impl Requantised {
    pub(super) fn new(input: TensorId, how: &Requantise, channels: usize) -> Self {
        Self {
            input,
            channels,
            how: Requantiser::new(how, channels),
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let input = context.reads.get(self.input);
        if let Values::I32(sums) = input {
            let out = activations(out);
            self.how.requantise(context.cpu, sums, self.channels, out);
            return;
        }
        fill(
            context,
            self.channels,
            Some(&self.how),
            out,
            &|range, sums| {
                each!(input, values => {
                    for (sum, &value) in sums.iter_mut().zip(&values[range]) {
                        *sum = wide(value);
                    }
                });
            },
        );
    }
}

/// A requantisation of bytes by one rescale: a table of its 256 values.
#[derive(Debug)]
pub(super) struct Mapped {
    input: TensorId,
    /// Entry `x + 128`.
    table: Box<[i16; 256]>,
    bytes: Option<Box<[i8; 256]>>,
}

impl Mapped {
    pub(super) fn of_bytes(input: TensorId, kind: ElementType, how: &Requantise) -> Option<Self> {
        if kind != ElementType::I8 || how.channel_pairs.len() != 1 {
            return None;
        }
        let how_one = Requantiser::new(how, 1);
        let mut table = Box::new([0i16; 256]);
        for (entry, x) in table.iter_mut().zip(-128i64..) {
            *entry = how_one.output(0, x);
        }
        let bytes = (how.output == ElementType::I8).then(|| {
            let narrow = |y: i16| i8::try_from(y).expect("an 8-bit output holds 8-bit values");
            Box::new(table.map(narrow))
        });
        Some(Self {
            input,
            table,
            bytes,
        })
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let Values::I8(values) = context.reads.get(self.input) else {
            unreachable!("made for bytes")
        };
        match (&self.bytes, out) {
            (Some(table), ValuesMut::I8(out)) => map_table(context.cpu, table, values, out),
            (None, ValuesMut::I16(out)) => {
                for (out, &value) in out.iter_mut().zip(values) {
                    *out = self.table[usize::from(value.cast_unsigned() ^ 0x80)];
                }
            }
            _ => unreachable!("made for the output's type"),
        }
    }
}
