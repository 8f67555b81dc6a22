//! Greater and lesser elements, relations and selections.

use super::context::Context;
use super::values::{Values, ValuesMut, same};
use crate::kernels::Cpu;
use tg_ir::op::{self, Extreme, Relation};

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
