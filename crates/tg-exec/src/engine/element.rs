//! What goes element by element shares: sums made part by part, and requantised if the next node does so.

use super::context::Context;
use super::values::ValuesMut;
use crate::kernels::Requantiser;
use crate::kernels::memory::of_thread;
use crate::kernels::requantise::Activations;
use std::ops::Range;

/// Elements computed together: their sums stay in the first-level cache.
pub(super) const PART: usize = 4_096;

/// The activations of an output.
pub(super) fn activations(out: ValuesMut<'_>) -> Activations<'_> {
    match out {
        ValuesMut::I8(out) => Activations::I8(out),
        ValuesMut::I16(out) => Activations::I16(out),
        ValuesMut::I32(_) => unreachable!("requantisation gives activations"),
    }
}

/// Fills an output with sums, or with their activations.
pub(super) fn fill(
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
