//! Element by element: weighted sums, products, requantisation, comparisons.

use super::context::Context;
use super::values::{Values, ValuesMut, each, same, wide};
use crate::kernels::memory::of_thread;
use crate::kernels::requantise::{Activations, map_table};
use crate::kernels::{Cpu, Requantiser};
use std::ops::Range;
use tg_ir::op::{self, Extreme, Relation};
use tg_ir::{ElementType, Requantise, TensorId};

/// Elements computed together: their sums stay in the first-level cache.
const PART: usize = 4_096;

/// The activations of an output.
pub(super) fn activations(out: ValuesMut<'_>) -> Activations<'_> {
    match out {
        ValuesMut::I8(out) => Activations::I8(out),
        ValuesMut::I16(out) => Activations::I16(out),
        ValuesMut::I32(_) => unreachable!("requantisation gives activations"),
    }
}

/// Fills an output with sums, or with their activations.
fn fill(
    context: &mut Context<'_>,
    channels: usize,
    how: Option<&Requantiser>,
    out: ValuesMut<'_>,
    sums: &(dyn Fn(Range<usize>, &mut [i32]) + Sync),
) {
    let cpu = context.cpu;
    let buffers = context.scratch.threads(cpu.threads());
    let part = match how {
        Some(how) if !how.is_uniform() => channels * (PART / channels).max(1),
        _ => PART,
    };
    let range = |index: usize, count: usize| index * part..index * part + count;
    match (out, how) {
        (ValuesMut::I32(out), None) => cpu.pool().run_parts(out, part, &|_, index, out| {
            cpu.vectorised(|| sums(range(index, out.len()), out));
        }),
        (ValuesMut::I8(out), Some(how)) => {
            cpu.pool().run_parts(out, part, &|thread, index, out| {
                let mut buffer = of_thread(buffers, thread);
                let buffer = buffer.numbers_mut::<i32>(out.len());
                cpu.vectorised(|| sums(range(index, out.len()), buffer));
                how.requantise_part(cpu, buffer, channels, Activations::I8(out));
            })
        }
        (ValuesMut::I16(out), Some(how)) => {
            cpu.pool().run_parts(out, part, &|thread, index, out| {
                let mut buffer = of_thread(buffers, thread);
                let buffer = buffer.numbers_mut::<i32>(out.len());
                cpu.vectorised(|| sums(range(index, out.len()), buffer));
                how.requantise_part(cpu, buffer, channels, Activations::I16(out));
            });
        }
        _ => unreachable!("sums are accumulators, requantised ones activations"),
    }
}

/// A weighted sum.
#[derive(Debug)]
pub(super) struct Weighted {
    sum: op::Add,
    channels: usize,
    how: Option<Requantiser>,
}

impl Weighted {
    pub(super) fn new(sum: &op::Add, channels: usize, how: Option<Requantiser>) -> Self {
        let sum = sum.clone();
        Self { sum, channels, how }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let reads = context.reads;
        fill(
            context,
            self.channels,
            self.how.as_ref(),
            out,
            &|range, sums| {
                sums.fill(self.sum.bias);
                for (&input, &multiplier) in self.sum.inputs.iter().zip(&self.sum.multipliers) {
                    each!(reads.get(input), values => add(sums, &values[range.clone()], multiplier));
                }
            },
        );
    }
}

#[inline(always)]
fn add<S: Copy + Into<i32>>(sums: &mut [i32], values: &[S], multiplier: i32) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = sum.wrapping_add(value.into().wrapping_mul(multiplier));
    }
}

/// A product of two tensors.
#[derive(Debug)]
pub(super) struct Product {
    inputs: [TensorId; 2],
    channels: usize,
    how: Option<Requantiser>,
}

impl Product {
    pub(super) const fn new(product: &op::Mul, channels: usize, how: Option<Requantiser>) -> Self {
        Self {
            inputs: product.inputs,
            channels,
            how,
        }
    }

    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let [left, right] = self.inputs.map(|input| context.reads.get(input));
        fill(
            context,
            self.channels,
            self.how.as_ref(),
            out,
            &|range, sums| {
                sums.fill(0);
                each!(left, values => add(sums, &values[range.clone()], 1));
                each!(right, values => scale(sums, &values[range]));
            },
        );
    }
}

#[inline(always)]
fn scale<S: Copy + Into<i32>>(sums: &mut [i32], values: &[S]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum = sum.wrapping_mul(value.into());
    }
}

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

/// Comparisons and choices.
#[derive(Debug)]
pub(super) enum Combine {
    Extremum(op::Extremum),
    Compare(op::Compare),
    Select(op::Select),
}

impl Combine {
    pub(super) fn run(&self, context: &mut Context<'_>, out: ValuesMut<'_>) {
        let cpu = context.cpu;
        match self {
            Self::Extremum(op::Extremum { inputs, which }) => {
                let [a, b] = inputs.map(|input| context.reads.get(input));
                same!(out, out, [a => a, b => b], extremum(cpu, *which, [a, b], out));
            }
            Self::Compare(op::Compare { inputs, relation }) => {
                let [a, b] = inputs.map(|input| context.reads.get(input));
                let ValuesMut::I8(out) = out else {
                    unreachable!("a comparison gives bytes")
                };
                match (a, b) {
                    (Values::I8(a), Values::I8(b)) => compare(cpu, *relation, [a, b], out),
                    (Values::I16(a), Values::I16(b)) => compare(cpu, *relation, [a, b], out),
                    (Values::I32(a), Values::I32(b)) => compare(cpu, *relation, [a, b], out),
                    _ => unreachable!("a valid program compares one type"),
                }
            }
            Self::Select(op::Select { condition, inputs }) => {
                let [a, b] = inputs.map(|input| context.reads.get(input));
                let Values::I8(condition) = context.reads.get(*condition) else {
                    unreachable!("a condition is of bytes")
                };
                same!(out, out, [a => a, b => b], select(cpu, condition, [a, b], out));
            }
        }
    }
}

fn extremum<T: Copy + Ord>(cpu: &Cpu, which: Extreme, [a, b]: [&[T]; 2], out: &mut [T]) {
    cpu.vectorised(|| {
        let pairs = a.iter().zip(b);
        for (out, (&a, &b)) in out.iter_mut().zip(pairs) {
            *out = match which {
                Extreme::Greater => a.max(b),
                Extreme::Lesser => a.min(b),
            };
        }
    });
}

fn compare<T: Copy + Ord>(cpu: &Cpu, relation: Relation, [a, b]: [&[T]; 2], out: &mut [i8]) {
    cpu.vectorised(|| {
        let pairs = a.iter().zip(b);
        for (out, (a, b)) in out.iter_mut().zip(pairs) {
            *out = i8::from(match relation {
                Relation::Equal => a == b,
                Relation::Greater => a > b,
                Relation::GreaterOrEqual => a >= b,
            });
        }
    });
}

fn select<T: Copy>(cpu: &Cpu, condition: &[i8], [a, b]: [&[T]; 2], out: &mut [T]) {
    cpu.vectorised(|| {
        let pairs = a.iter().zip(b);
        for ((out, (&a, &b)), &condition) in out.iter_mut().zip(pairs).zip(condition) {
            *out = if condition != 0 { a } else { b };
        }
    });
}
