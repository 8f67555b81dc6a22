//! Outputs that repeat their inputs: what is said as hidden and shown all the same.

use tg_ir::op;
use tg_ir::{Op, Program};
use tg_proof::{Modes, Visibility};

/// What is said of a proof whose public output shows elements of an input that is not public.
pub(crate) const REVEALED: &str =
    "the output repeats elements of the input, at most times a number: it reveals them";

/// The same where some inputs are shown and others are not: which of them an output repeats is not looked at.
pub(crate) const MAYBE_REVEALED: &str = "an output that is shown repeats elements of the inputs, at most times a number: it may reveal those that are not shown";

/// Whether some elements of the outputs are elements of the input, moved and at most scaled. Nothing is said of outputs that
/// tell of the input in other ways: with a public model most do.
pub(crate) fn output_repeats_input(program: &Program) -> bool {
    repeating_outputs(program).contains(&true)
}

/// Per output, whether some of its elements are elements of the input.
fn repeating_outputs(program: &Program) -> Vec<bool> {
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
    let repeated = outputs.map(|output| repeats.get(output.index()).copied());
    repeated.map(Option::unwrap_or_default).collect()
}

/// What is said of a proof that does not show its input, or not all of it, if a public output shows some of it.
pub(crate) fn revealed(program: &Program, modes: Modes) -> Option<&'static str> {
    let repeated = repeating_outputs(program);
    let shown = modes.output.of_parts(repeated.len());
    let mut outputs = repeated.iter().zip(shown);
    let repeats = outputs.any(|(&repeats, mode)| repeats && mode == Visibility::Public);
    match modes.input {
        _ if !repeats => None,
        Visibility::Public => None,
        Visibility::Committed | Visibility::Hidden => Some(REVEALED),
        Visibility::Each(_) => Some(MAYBE_REVEALED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_ir::{InputSpec, Node, Shape, TensorId, View, Weights};
    use tg_proof::PartModes;

    fn program(ops: Vec<Op>, outputs: Vec<TensorId>) -> Program {
        let shape = Shape::vector(2);
        let node = |op: Op| Node {
            name: op.name().to_owned(),
            op,
            shape,
            scale: 1.0,
        };
        Program {
            name: "moved".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes: ops.into_iter().map(node).collect(),
            outputs,
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        }
    }

    fn repeats(ops: Vec<Op>) -> bool {
        output_repeats_input(&program(ops, Vec::new()))
    }

    #[test]
    fn an_output_reveals_only_if_it_is_shown() {
        use Visibility::{Committed, Hidden, Public};
        let each =
            |modes: [Visibility; 2]| Visibility::Each(PartModes::new(&modes).expect("a list"));
        let input = TensorId::INPUT;
        let moved = Op::Add(op::Add {
            inputs: vec![input],
            multipliers: vec![2],
            bias: 0,
        });
        let dense = Op::Dense(op::Dense { input });
        let program = program(vec![moved, dense], vec![TensorId(1), TensorId(2)]);
        let of = |input, output| revealed(&program, Modes { input, output });
        assert_eq!(of(Public, Public), None);
        assert_eq!(of(Hidden, Public), Some(REVEALED));
        assert_eq!(of(Committed, each([Public, Hidden])), Some(REVEALED));
        assert_eq!(of(Hidden, each([Hidden, Public])), None);
        assert_eq!(of(Hidden, Hidden), None);
        let some = each([Public, Hidden]);
        assert_eq!(of(some, Public), Some(MAYBE_REVEALED));
        assert_eq!(of(some, each([Committed, Public])), None);
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
