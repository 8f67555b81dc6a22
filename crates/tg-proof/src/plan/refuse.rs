//! What TGX-1 executes and TGP-1 does not prove, refused by operator name.

use crate::error::PlanError;
use tg_ir::op::Reduction;
use tg_ir::{ElementType, Op, Program, TensorId};

/// Most factors, each fixed before the first challenge, of a product in an uncommitted tensor.
const DEGREE_MAX: u32 = 2;

/// What is refused within the operators that have gadgets.
pub(super) fn unproved(program: &Program, node: usize) -> Result<(), PlanError> {
    let unprovable = |why| Err(PlanError::unprovable(program, node, why));
    let wide = |tensor: &TensorId| program.element_type(*tensor) != ElementType::I8;
    match &program.nodes[node].op {
        Op::MaxPool { input, .. } if wide(input) => {
            unprovable("maxima of 16-bit activations are not proved yet")
        }
        Op::MaxPool { window, .. } if !window.is_plain() => {
            unprovable("a maximum with dilation is not proved yet")
        }
        Op::Embed { input, .. } if *input != TensorId::INPUT => {
            unprovable("an embedding of computed tokens is not proved yet")
        }
        _ => Ok(()),
    }
}

/// Every node must reach the output, or its columns would be bound to nothing.
pub(super) fn dead_nodes(program: &Program) -> Result<(), PlanError> {
    let mut used = vec![false; program.nodes.len() + 1];
    used[program.output().index()] = true;
    for node in (0..program.nodes.len()).rev() {
        if !used[node + 1] {
            return Err(PlanError::unprovable(
                program,
                node,
                "nothing reads its output",
            ));
        }
        program.nodes[node]
            .op
            .inputs()
            .iter()
            .for_each(|input| used[input.index()] = true);
    }
    Ok(())
}

/// No uncommitted stretch is deeper than one product. Stops: a program that computes the challenges it will meet, which
/// takes an uncommitted circuit that evaluates the hash.
pub(super) fn deep_nodes(program: &Program) -> Result<(), PlanError> {
    let mut degrees = vec![1u32];
    for (node, description) in program.nodes.iter().enumerate() {
        let inputs = description.op.inputs();
        let of = inputs.iter().map(|input| degrees[input.index()]);
        let degree = match &description.op {
            // Products with committed weights, and of two tensors.
            Op::Conv { .. } | Op::Dense { .. } => of.sum::<u32>() + 1,
            Op::Mul { .. } | Op::MatMul { .. } => of.sum(),
            Op::WindowSum { .. }
            | Op::Add { .. }
            | Op::View { .. }
            | Op::Gather { .. }
            | Op::Concat { .. }
            | Op::Pad { .. }
            | Op::Extremum { .. }
            | Op::Reduce {
                reduction: Reduction::Sum,
                ..
            } => of.max().unwrap_or(1),
            // Everything else is weights, or fixed by committed columns.
            _ => 1,
        };
        if degree > DEGREE_MAX {
            let why = "it multiplies what is not committed";
            return Err(PlanError::unprovable(program, node, why));
        }
        degrees.push(degree);
    }
    Ok(())
}
