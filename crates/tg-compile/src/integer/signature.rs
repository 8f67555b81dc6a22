//! What a program's integers mean in the file: names, shapes, units.

use super::builder::short;
use super::{Site, Step, unsupported};
use crate::passes::Prepared;
use tg_ir::signature::{PORTS_MAX, RANK_MAX};
use tg_ir::{InputPort, OutputPort, Signature};

/// The signature of a program for its graph's inputs and an output of a shape, whose axes it stores in this order.
pub(super) fn of(
    prepared: &Prepared,
    output: &Site,
    (shape, order): (&[usize], &[usize]),
) -> Step<Signature> {
    let graph = &prepared.graph;
    if graph.inputs.len() > PORTS_MAX {
        return unsupported("more than 16 inputs");
    }
    let inputs = graph.inputs.iter().map(|input| {
        Ok(InputPort {
            name: short(&input.name),
            shape: axes(prepared.shape(input.value))?,
        })
    });
    let order = order.iter().filter_map(|&axis| u8::try_from(axis).ok());
    let Ok(zero) = i32::try_from(output.zero) else {
        return unsupported("what stands for 0 in its result is no 32-bit number");
    };
    let port = OutputPort {
        name: short(&prepared.output_name),
        scale: unit(output.scale),
        zero,
        shape: axes(shape)?,
        order: order.collect(),
        labels: Vec::new(),
    };
    Ok(Signature {
        inputs: inputs.collect::<Step<_>>()?,
        outputs: vec![port],
    })
}

/// A unit as a finite number above 0.
fn unit(scale: f64) -> f32 {
    (scale as f32).clamp(f32::MIN_POSITIVE, f32::MAX)
}

fn axes(shape: &[usize]) -> Step<Vec<u32>> {
    let lengths: Option<Vec<u32>> = shape.iter().map(|&axis| u32::try_from(axis).ok()).collect();
    match lengths {
        Some(lengths) if lengths.len() <= RANK_MAX => Ok(lengths),
        _ => unsupported("an input or output has more than 8 axes, or one too long"),
    }
}
