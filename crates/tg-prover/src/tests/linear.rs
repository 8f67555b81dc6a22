//! Linear and product gadgets: lies at every node.

use super::models::{Case, Draft};
use crate::{ProveRequest, ProvingModel, prove};
use std::sync::OnceLock;
use tg_exec::IntTensor;
use tg_ir::op::{self, Ranked, Reduction};
use tg_ir::{Axis, Coding, CompiledModel, ElementType, Op, Shape, TensorId, View, Window};
use tg_proof::error::NodeCheck;
use tg_proof::messages::GadgetProof;
use tg_proof::plan::{MapPlan, NodePlan};
use tg_proof::{ExpectedStatement, VerifyError, verify};
use tg_types::{Address, JobId};

const NAMES: (JobId, Address) = (JobId::new([3; 32]), Address::new([4; 20]));

/// Every linear and product operator on tokens: views and matrix products are direct if the tokens are a power of two.
#[expect(clippy::too_many_lines, reason = "one case per operator")]
fn every_operator(tokens: u32) -> (CompiledModel, IntTensor) {
    let mut draft = Draft::new(8, Shape::new(1, tokens, 1)).coded(Coding::Tokens(20));
    let rows = Shape::new(1, tokens, 8);
    let embedded = draft.push(
        Op::Embed(op::Embed {
            input: TensorId::INPUT,
            rows: 17,
        }),
        rows,
    );
    let places = draft.push(Op::Parameter(op::Parameter), rows);
    let sum = Op::Add(op::Add {
        inputs: vec![embedded, places, embedded],
        multipliers: vec![300, -20, 7],
        bias: 41,
    });
    let sum = draft.push(sum, rows);
    let stream = draft.narrowed(sum, 11);
    // Two heads of four channels: (token, head, channel) to (head, token, channel).
    let heads = Shape::new(2, tokens, 4);
    let view = View::transpose(&[tokens, 2, 4], &[1, 0, 2]);
    let queries = draft.push(
        Op::View(op::Unary {
            input: stream,
            how: view,
        }),
        heads,
    );
    let scores = Op::MatMul(op::MatMul {
        inputs: [queries, queries],
        transposed: true,
    });
    let scores = draft.push(scores, Shape::new(2, tokens, tokens));
    let scores = draft.narrowed(scores, 8);
    let mixed = Op::MatMul(op::MatMul {
        inputs: [scores, queries],
        transposed: false,
    });
    let mixed = draft.push(mixed, heads);
    let mixed = draft.narrowed(mixed, 8);
    let product = Op::Mul(op::Mul {
        inputs: [mixed, queries],
    });
    let product = draft.push(product, heads);
    let product = draft.narrowed(product, 8);
    let window = Window {
        dilation: [1, 2],
        ..Window::new([2, 2], [1, 1], [1, 1, 0, 1])
    };
    let shape = heads;
    let conv = Op::Conv(op::Conv {
        input: product,
        window,
        groups: 2,
        zero: -9,
    });
    let conv = draft.push(conv, shape);
    let conv = draft.narrowed(conv, 8);
    let gathered = Op::Gather(op::Gather {
        input: conv,
        axis: Axis::Columns,
        indices: vec![5, 0, 0, 3, 1],
    });
    let gathered = draft.push(gathered, Shape::new(2, 5, 4));
    let joined = Op::Concat(op::Concat {
        inputs: vec![gathered, conv, gathered],
        axis: Axis::Columns,
    });
    let joined = draft.push(joined, Shape::new(2, 10 + tokens, 4));
    let padded = Op::Pad(op::Pad {
        input: joined,
        before: [1, 0, 2],
        after: [0, 1, 0],
        value: 5,
    });
    let padded = draft.push(padded, Shape::new(3, 11 + tokens, 6));
    let reduced = Op::Reduce(op::Reduce {
        input: padded,
        reduction: Reduction::Sum,
        axis: Axis::Columns,
    });
    let reduced = draft.push(reduced, Shape::new(3, 1, 6));
    let reduced = draft.narrowed(reduced, 8);
    let total = Op::Reduce(op::Reduce {
        input: reduced,
        reduction: Reduction::Sum,
        axis: Axis::Channels,
    });
    let total = draft.push(total, Shape::new(3, 1, 1));
    let total = draft.narrowed(total, 8);
    draft.push(Op::Dense(op::Dense { input: total }), Shape::vector(3));
    draft.finish_tensor()
}

pub(super) fn linear() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| Case::of_tensor(every_operator(6)))
}

fn direct() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| Case::of_tensor(every_operator(8)))
}

/// A wrong element of any node's output is caught at that node, whatever its reader does with it.
#[test]
fn wrong_elements_are_caught_at_their_node() {
    wrong_elements(linear());
    wrong_elements(direct());
}

/// Running sums along an axis, of rows, columns and channels that are no powers of two.
fn running(axis: Axis) -> Case {
    let shape = Shape::new(3, 5, 6);
    let mut draft = Draft::new(9, shape);
    let conv = Op::conv(TensorId::INPUT, Window::new([1; 2], [1; 2], [0; 4]));
    let input = draft.push(conv, shape);
    let input = draft.narrowed(input, 8);
    let sums = draft.push(Op::RunningSum(op::RunningSum { input, axis }), shape);
    let input = draft.narrowed(sums, 8);
    draft.push(Op::Dense(op::Dense { input }), Shape::vector(3));
    Case::of_tensor(draft.finish_tensor())
}

#[test]
fn wrong_running_sums_are_caught_at_their_node() {
    for axis in [Axis::Rows, Axis::Columns, Axis::Channels] {
        wrong_elements(&running(axis));
    }
}

fn wrong_elements(case: &Case) {
    assert_eq!(case.check(&case.file), Ok(()));
    let program = &case.model.model.program;
    for (node, description) in program.nodes.iter().enumerate() {
        let check = match &description.op {
            Op::Requantise(_) => continue,
            Op::Embed(_) | Op::Parameter(op::Parameter) => NodeCheck::Weights,
            Op::Add(_) => NodeCheck::Addition,
            Op::Conv(_) | Op::Dense(_) | Op::MatMul(_) => NodeCheck::Products,
            Op::Mul(_) => NodeCheck::Multiplication,
            _ => NodeCheck::Permutation,
        };
        let honest = case.trace.tensors()[node + 1].widened();
        for element in [0, honest.len() / 2, honest.len() - 1] {
            for change in [1, -2] {
                let value = honest[element] + change;
                if program.element_type(TensorId::of_node(node)) == ElementType::I8
                    && i8::try_from(value).is_err()
                {
                    continue;
                }
                let tensors = case.tensors_with(node, element, value);
                let witness = case.witness_of(&tensors).unwrap();
                let plan = &case.model.shape.plan.nodes[node];
                let direct = matches!(plan, NodePlan::Map(MapPlan::Rearranged(_)));
                let verdict = case.verdict(&tensors, &witness);
                if direct {
                    // The claim is handed on at a rearranged point: the node before gives another tensor.
                    assert!(
                        matches!(verdict, Err(VerifyError::Lookup(_))),
                        "{}: {verdict:?}",
                        description.name
                    );
                } else {
                    assert_eq!(verdict, case.failed(node, check), "element {element}");
                }
            }
        }
    }
}

/// An element of padding other than zero is caught by the committed output it comes from.
#[test]
fn another_output_of_a_requantisation_is_caught_by_the_lookup() {
    let case = linear();
    let program = &case.model.model.program;
    for (node, description) in program.nodes.iter().enumerate() {
        if !matches!(description.op, Op::Requantise(_)) {
            continue;
        }
        let honest = case.trace.tensors()[node + 1].widened()[1];
        let lie = if honest > 0 { honest - 1 } else { honest + 1 };
        let tensors = case.tensors_with(node, 1, lie);
        let witness = case.witness_of(&tensors).unwrap();
        let pulled = tg_proof::error::LookupCheck::Pulled;
        let expected = Err(VerifyError::Lookup(pulled));
        assert_eq!(
            case.verdict(&tensors, &witness),
            expected,
            "{}",
            description.name
        );
    }
}

/// A proof about other tokens: what is embedded is public.
#[test]
fn other_tokens_are_caught_at_the_embedding() {
    let case = linear();
    let mut tensors = case.trace.tensors().to_vec();
    let IntTensor::I32(tokens) = &mut tensors[0] else {
        panic!("tokens");
    };
    tokens[2] = (tokens[2] + 1) % 17;
    // The rows stay those of the old tokens.
    let verdict = case.verdict(&tensors, &case.witness());
    assert_eq!(verdict, case.failed(0, NodeCheck::Weights));
}

#[test]
fn inputs_that_no_coding_gives_are_refused() {
    let case = linear();
    for token in [-1, 20, i32::MAX] {
        let mut tensors = case.trace.tensors().to_vec();
        super::models::set(&mut tensors[0], 3, token);
        let verdict = case.verdict(&tensors, &case.witness());
        assert_eq!(verdict, Err(VerifyError::InputCoding { index: 3 }));
    }
    // Tokens above the table's rows read its last row.
    let (compiled, input) = every_operator(6);
    let IntTensor::I32(mut tokens) = input else {
        panic!("tokens");
    };
    (tokens[0], tokens[4]) = (19, 17);
    let model = ProvingModel::new(compiled).unwrap();
    let request = ProveRequest::of(vec![IntTensor::I32(tokens)]).named(NAMES.0, NAMES.1);
    let (file, _) = prove(&model, request, &mut |_| {}).unwrap();
    assert_eq!(
        verify(&case.public, &file, &ExpectedStatement::default()),
        Ok(())
    );
}

/// The two sides of a product exchanged: their product is the same, but the claims are of the other tensor.
#[test]
fn swapped_factors_are_refused() {
    for case in [linear(), direct()] {
        let nodes = &case.model.model.program.nodes;
        let place = |name: &str| {
            nodes
                .iter()
                .position(|node| node.op.name() == name)
                .unwrap()
        };
        let forged = |node: usize, change: &dyn Fn(&mut GadgetProof)| {
            case.forged(|proof| change(&mut proof.nodes[nodes.len() - 1 - node].gadget))
        };
        let (mul, matmul) = (place("Mul"), place("MatMul"));
        for (place, own) in [(mul, false), (matmul, std::ptr::eq(case, linear()))] {
            let refusal = forged(place, &|gadget| match gadget {
                GadgetProof::Mul(proof) => proof.factors.swap(0, 1),
                GadgetProof::MatMul(proof) => proof.factors.swap(0, 1),
                other => panic!("{other:?}"),
            });
            let earlier = matches!(&refusal, VerifyError::Node { node, .. } if *node < place);
            let sources = case.failed(place, NodeCheck::Sources);
            assert!(
                if own {
                    Err(refusal.clone()) == sources
                } else {
                    earlier
                },
                "{refusal:?}"
            );
        }
        // Messages of one gadget for another.
        let other = forged(mul, &|gadget| *gadget = GadgetProof::Parameter(Vec::new()));
        assert_eq!(Err(other), case.failed(mul, NodeCheck::Messages));
    }
}

/// What a plan refuses names the operator.
#[test]
fn what_is_not_proved_is_refused_by_name() {
    let refused = |op: Op, from: Shape, shape: Shape| {
        let mut draft = Draft::new(1, from);
        let last = draft.push(op, shape);
        let flat = draft.push(Op::Dense(op::Dense { input: last }), Shape::vector(2));
        draft.narrowed(flat, 8);
        ProvingModel::new(draft.finish().0).err().map(|error| {
            let source = std::error::Error::source(&error).unwrap();
            source.to_string()
        })
    };
    let input = TensorId::INPUT;
    let least = Op::Reduce(op::Reduce {
        input,
        reduction: Reduction::Least,
        axis: Axis::Rows,
    });
    let many = Op::TopK(op::TopK {
        input: TensorId::INPUT,
        give: Ranked::Values,
    });
    for (op, from, shape, name) in [
        (least, Shape::new(20, 2, 3), Shape::new(1, 2, 3), "(Reduce)"),
        (many, Shape::vector(40), Shape::vector(33), "(TopK)"),
    ] {
        let refusal = refused(op, from, shape).unwrap();
        assert!(refusal.contains(name), "{refusal}");
    }
}
