//! Outputs that repeat their inputs: what is said as hidden and shown all the same.

use tg_ir::op;
use tg_ir::{Op, Program};
use tg_proof::{ProofFile, Visibility};

/// What is said of a proof whose public output shows elements of an input that is not public.
pub(crate) const REVEALED: &str =
    "the output repeats elements of the input, at most times a number: it reveals them";

/// Whether some elements of the outputs are elements of the input, moved and at most scaled. Nothing is said of outputs that
/// tell of the input in other ways: with a public model most do.
pub(crate) fn output_repeats_input(program: &Program) -> bool {
    let mut repeats = vec![true];
    for node in &program.nodes {
        let inputs = node.op.inputs();
        let any = inputs.iter().any(|input| repeats[input.index()]);
        repeats.push(match &node.op {
            Op::View(_) | Op::Gather(_) | Op::Concat(_) | Op::Pad(_) => any,
            Op::Add(op::Add { inputs, .. }) => any && inputs.len() == 1,
            _ => false,
        });
    }
    let outputs = program.outputs().into_iter();
    let mut repeated = outputs.map(|output| repeats.get(output.index()));
    repeated.any(|repeats| repeats.copied().unwrap_or_default())
}

/// Whether a proof says that its input is not shown, and its public output shows some of it.
pub(crate) fn reveals(program: &Program, file: &ProofFile) -> bool {
    let modes = file.statement.modes();
    modes.input != Visibility::Public
        && modes.output == Visibility::Public
        && output_repeats_input(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_ir::{InputSpec, Node, Shape, TensorId, View, Weights};

    fn repeats(ops: Vec<Op>) -> bool {
        let shape = Shape::vector(2);
        let node = |op: Op| Node {
            name: op.name().to_owned(),
            op,
            shape,
            scale: 1.0,
        };
        output_repeats_input(&Program {
            name: "moved".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes: ops.into_iter().map(node).collect(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        })
    }

    #[test]
    fn what_is_only_moved_repeats_the_input() {
        let moved = |input| {
            let how = View::transpose(&[1, 2], &[1, 0]);
            Op::View(op::Unary {
                input: TensorId(input),
                how,
            })
        };
        let scaled = |input| {
            Op::Add(op::Add {
                inputs: vec![TensorId(input)],
                multipliers: vec![-7],
                bias: 3,
            })
        };
        let dense = |input| {
            Op::Dense(op::Dense {
                input: TensorId(input),
            })
        };
        let parameter = || Op::Parameter(op::Parameter);
        let joined = |a, b| {
            Op::Concat(op::Concat {
                inputs: vec![TensorId(a), TensorId(b)],
                axis: tg_ir::Axis::Channels,
            })
        };
        assert!(repeats(vec![moved(0)]));
        assert!(repeats(vec![moved(0), scaled(1)]));
        assert!(!repeats(vec![dense(0)]));
        assert!(!repeats(vec![dense(0), moved(1)]));
        assert!(!repeats(vec![parameter()]));
        assert!(repeats(vec![dense(0), joined(1, 0)]));
        assert!(!repeats(vec![Op::add([TensorId(0); 2], [1, 2])]));
    }
}
