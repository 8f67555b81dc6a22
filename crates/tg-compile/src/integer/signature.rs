//! What a program's integers mean in the file: names, shapes, units.

use super::builder::short;
use crate::passes::Prepared;
use tg_ir::signature::{PORTS_MAX, RANK_MAX};
use tg_ir::{InputPort, OutputPort, Signature};

/// The signature of a program for its graph's inputs and an output of a unit, a zero point and a shape, whose axes it stores
/// in this order; nothing for a file beyond what a signature holds: its answers are integers.
pub(super) fn of(
    prepared: &Prepared,
    (scale, zero): (f64, i64),
    (shape, order): (&[usize], &[usize]),
) -> Option<Signature> {
    let inputs = prepared.graph.inputs.iter().map(|input| {
        Some(InputPort {
            name: short(&input.name),
            shape: axes(prepared.shape(input.value))?,
        })
    });
    let inputs: Vec<InputPort> = inputs.collect::<Option<_>>()?;
    let order = order.iter().map(|&axis| u8::try_from(axis).ok());
    let port = OutputPort {
        name: short(&prepared.output_name),
        // A finite number above 0.
        scale: (scale as f32).clamp(f32::MIN_POSITIVE, f32::MAX),
        zero: i32::try_from(zero).ok()?,
        shape: axes(shape)?,
        order: order.collect::<Option<_>>()?,
        labels: Vec::new(),
    };
    (inputs.len() <= PORTS_MAX).then(|| Signature {
        inputs,
        outputs: vec![port],
    })
}

fn axes(shape: &[usize]) -> Option<Vec<u32>> {
    let lengths = shape.iter().map(|&axis| u32::try_from(axis).ok());
    (shape.len() <= RANK_MAX).then(|| lengths.collect())?
}
