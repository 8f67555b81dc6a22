//! What TGX-1 executes and TGP-1 does not prove, refused by operator name.

use super::PlanError;
use crate::plan::modes::Visibility;
use tg_ir::op::{self, Reduction};
use tg_ir::{Axis, Op, Program, TensorId};

/// Most factors, each fixed before the first challenge, of a product in an uncommitted tensor.
const DEGREE_MAX: u32 = 2;

/// Every node must reach an output, or its columns would be bound to nothing.
pub(super) fn dead_nodes(program: &Program) -> Result<(), PlanError> {
    let mut used = vec![false; program.nodes.len() + 1];
    let outputs = program.outputs().into_iter();
    outputs.for_each(|output| used[output.index()] = true);
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
pub(super) fn deep_nodes(program: &Program, public: Visibility) -> Result<(), PlanError> {
    let mut degrees = vec![1u32];
    for (node, description) in program.nodes.iter().enumerate() {
        let inputs = description.op.inputs();
        let of = inputs.iter().map(|input| degrees[input.index()]);
        let degree = match &description.op {
            // Products with committed weights, and of two tensors.
            Op::Conv(_) | Op::Dense(_) => of.sum::<u32>() + 1,
            Op::Mul(_) | Op::MatMul(_) => of.sum(),
            // Committed flags times weights; public tokens choose weights alone.
            Op::Embed(op::Embed { input, .. }) if *input != TensorId::INPUT || public != Visibility::Public => 2,
            Op::WindowSum(_)
            | Op::Add(_)
            | Op::View(_)
            | Op::Gather(_)
            | Op::Concat(_)
            | Op::Pad(_)
            | Op::RunningSum(_)
            | Op::Extremum(_)
            // A maximum is an element plus a committed difference.
            | Op::MaxPool(_)
            | Op::Reduce(op::Reduce {
                reduction: Reduction::Sum,
                ..
            })
            | Op::Reduce(op::Reduce {
                axis: Axis::Rows | Axis::Columns,
                ..
            }) => of.max().unwrap_or(1),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_ir::{InputSpec, Node, Shape, Weights, Window};

    /// Whether a chain of nodes on one input is refused for its depth, and at which node.
    fn refused(ops: Vec<Op>) -> Option<usize> {
        refused_for(ops, Visibility::Public)
    }

    fn refused_for(ops: Vec<Op>, input: Visibility) -> Option<usize> {
        let shape = Shape::new(1, 2, 2);
        let node = |op: Op| Node {
            name: op.name().to_owned(),
            op,
            shape,
            scale: 1.0,
        };
        let program = Program {
            name: "deep".to_owned(),
            input: InputSpec::scaled(shape, 1.0),
            nodes: ops.into_iter().map(node).collect(),
            outputs: Vec::new(),
            ties: Vec::new(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        };
        match deep_nodes(&program, input) {
            Ok(()) => None,
            Err(PlanError::Unprovable { node, .. }) => Some(node),
            Err(other) => panic!("{other}"),
        }
    }

    /// Types admit no third factor today: products are accumulators, which no product takes. The rule does not rest on it.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a list of programs")]
    fn a_third_factor_is_refused() {
        let t = TensorId;
        let mul = |a, b| {
            Op::Mul(op::Mul {
                inputs: [t(a), t(b)],
            })
        };
        let matmul = |a, b| {
            Op::MatMul(op::MatMul {
                inputs: [t(a), t(b)],
                transposed: false,
            })
        };
        let conv = |input| Op::conv(t(input), Window::new([1; 2], [1; 2], [0; 4]));
        let sum = |input| {
            Op::Reduce(op::Reduce {
                input: t(input),
                reduction: Reduction::Sum,
                axis: tg_ir::Axis::Rows,
            })
        };
        let norm = |input| {
            Op::Norm(op::Unary {
                input: t(input),
                how: tg_ir::op::Norm {
                    centred: false,
                    epsilon: 1,
                    precision: 2,
                    fraction: 10,
                },
            })
        };
        assert_eq!(refused(vec![mul(0, 0)]), None);
        assert_eq!(refused(vec![conv(0)]), None);
        assert_eq!(refused(vec![mul(0, 0), mul(1, 0)]), Some(1));
        assert_eq!(refused(vec![matmul(0, 0), matmul(0, 1)]), Some(1));
        assert_eq!(refused(vec![conv(0), conv(1)]), Some(1));
        assert_eq!(
            refused(vec![mul(0, 0), Op::Dense(op::Dense { input: t(1) })]),
            Some(1)
        );
        // Linear maps keep the degree of their widest input, and greater ones are linear in what is committed.
        assert_eq!(refused(vec![mul(0, 0), sum(1), mul(2, 0)]), Some(2));
        let add = Op::add([t(0), t(1)], [1, 1]);
        assert_eq!(refused(vec![mul(0, 0), add, mul(2, 0)]), Some(2));
        let greater = Op::Extremum(op::Extremum {
            inputs: [t(1), t(0)],
            which: tg_ir::op::Extreme::Greater,
        });
        assert_eq!(refused(vec![mul(0, 0), greater, mul(2, 0)]), Some(2));
        // Rows that computed tokens choose are a product of flags and weights.
        let embed = |input| {
            Op::Embed(op::Embed {
                input: t(input),
                rows: 3,
            })
        };
        assert_eq!(refused(vec![embed(0), mul(1, 1)]), None);
        assert_eq!(refused(vec![norm(0), embed(1), mul(2, 1)]), Some(2));
        // So are those of hidden ones.
        for input in [Visibility::Hidden, Visibility::Committed] {
            assert_eq!(refused_for(vec![embed(0), norm(1)], input), None);
            assert_eq!(refused_for(vec![embed(0), mul(1, 1)], input), Some(1));
            assert_eq!(refused_for(vec![embed(0), conv(1)], input), Some(1));
        }
        // The greatest of windows, rows or columns is as deep as they are; along channels it is committed.
        let greatest = |input, axis| {
            Op::Reduce(op::Reduce {
                input: t(input),
                reduction: Reduction::Greatest,
                axis,
            })
        };
        let pool = |input| {
            Op::MaxPool(op::MaxPool {
                input: t(input),
                window: Window::new([2; 2], [1; 2], [0; 4]),
            })
        };
        assert_eq!(refused(vec![norm(0), embed(1), pool(2), conv(3)]), Some(3));
        assert_eq!(
            refused(vec![mul(0, 0), greatest(1, Axis::Rows), mul(2, 0)]),
            Some(2)
        );
        assert_eq!(
            refused(vec![mul(0, 0), greatest(1, Axis::Channels), mul(2, 0)]),
            None
        );
        // Committed columns start again.
        assert_eq!(refused(vec![mul(0, 0), norm(1), mul(2, 2)]), None);
    }
}
