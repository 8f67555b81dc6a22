//! What a program's integers mean in the file: names, shapes, units.

use super::Site;
use super::builder::short;
use super::strided::default_groups;
use crate::passes::Prepared;
use tg_ir::signature::{PORTS_MAX, RANK_MAX};
use tg_ir::{InputPort, OutputPort, Signature};

/// The signature of a program for its graph's inputs and outputs, which it stores as lowering leaves them; nothing for a file
/// beyond what a signature holds: its answers are integers.
pub(super) fn of(prepared: &Prepared, sites: &[Site]) -> Option<Signature> {
    let inputs = prepared.graph.inputs.iter().map(|input| {
        Some(InputPort {
            name: short(&input.name),
            shape: axes(prepared.shape(input.value))?,
        })
    });
    let inputs: Vec<InputPort> = inputs.collect::<Option<_>>()?;
    let names = prepared.output_names.iter().zip(&prepared.output_labels);
    let outputs = names.zip(sites);
    let outputs = outputs.map(|((name, labels), site)| port(prepared, name, labels, site));
    let outputs: Vec<OutputPort> = outputs.collect::<Option<_>>()?;
    let few = inputs.len() <= PORTS_MAX;
    few.then_some(Signature { inputs, outputs })
}

fn port(prepared: &Prepared, name: &str, labels: &[String], site: &Site) -> Option<OutputPort> {
    let shape = prepared.shape(site.value);
    let order = default_groups(shape).into_iter().flatten();
    let order = order.map(|axis| u8::try_from(axis).ok());
    Some(OutputPort {
        name: short(name),
        // A finite number above 0.
        scale: (site.scale as f32).clamp(f32::MIN_POSITIVE, f32::MAX),
        zero: i32::try_from(site.zero).ok()?,
        shape: axes(shape)?,
        order: order.collect::<Option<_>>()?,
        labels: labels.to_vec(),
    })
}

fn axes(shape: &[usize]) -> Option<Vec<u32>> {
    let lengths = shape.iter().map(|&axis| u32::try_from(axis).ok());
    (shape.len() <= RANK_MAX).then(|| lengths.collect())?
}
