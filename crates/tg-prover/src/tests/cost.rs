//! Programs that are cheap to state and dear to verify are refused before anything is allocated.

use super::models::{Draft, window};
use std::time::{Duration, Instant};
use tg_ir::op::{self, Ranked, Reduction};
use tg_ir::{
    Axis, CompiledModel, ElementType, InputSpec, Node, Op, Program, Requantise, Rescale, Shape,
    TensorId, View, Weights, Window,
};
use tg_proof::commitment::WeightCommitment;
use tg_proof::cost::{MEMORY_MAX, STEPS_MAX, TABLE_ENTRIES_MAX, VerifierCost};
use tg_proof::field::E;
use tg_proof::model::ProofShape;
use tg_proof::security::{registration_report, report};
use tg_proof::{PlanError, PublicModel};

/// What is refused, and at which node; in a moment.
fn refused(program: &Program) -> (&'static str, usize) {
    let start = Instant::now();
    let error = ProofShape::new(program.check().unwrap()).unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2), "{error}");
    match error {
        PlanError::TooCostly {
            node,
            name,
            what,
            cost,
            limit,
        } => {
            assert!(cost > limit);
            assert_eq!(name, program.nodes[node].name);
            (what, node)
        }
        other => panic!("{other}"),
    }
}

fn wide(input: TensorId, range: [i32; 2]) -> Op {
    Op::Requantise(op::Unary {
        input,
        how: Requantise::to_i8(
            vec![Rescale::new(1, 46).unwrap(); 1],
            vec![0],
            range,
            [-128, 127],
        ),
    })
}

#[test]
fn four_thousand_full_segment_tables_are_too_many() {
    let mut draft = Draft::new(1, Shape::vector(1));
    let acc = draft.push(
        Op::Dense(op::Dense {
            input: TensorId::INPUT,
        }),
        Shape::vector(1),
    );
    // 2^14 segments of 2^16 each, less a few.
    let reach = 530_000_000;
    let mut input = draft.push(wide(acc, [-reach, reach]), Shape::vector(1));
    for _ in 0..4_000 {
        input = draft.push(wide(input, [-reach, reach]), Shape::vector(1));
    }
    let (CompiledModel { program, .. }, _) = draft.finish();
    assert_eq!(refused(&program), ("lookup table entries", 17));
    const { assert!(TABLE_ENTRIES_MAX < 17 << 14) };
}

#[test]
fn large_windows_over_large_tensors_are_too_many_steps() {
    let shape = Shape::new(512, 512, 1);
    let mut draft = Draft::new(1, shape);
    let mut input = TensorId::INPUT;
    for _ in 0..100 {
        // 64 x 64 positions at 512 x 512 pixels: 2^30 steps each.
        let acc = draft.push(
            Op::WindowSum(op::WindowSum {
                input,
                window: window(64, 1, [32, 32, 31, 31]),
            }),
            shape,
        );
        input = draft.push(wide(acc, [-600_000, 600_000]), shape);
    }
    let (CompiledModel { program, .. }, _) = draft.finish();
    assert_eq!(refused(&program), ("verifier steps", 0));
    const { assert!(STEPS_MAX < 1 << 30) };
}

#[test]
fn thousands_of_claims_on_a_large_input_are_too_many_steps() {
    let shape = Shape::new(700, 700, 1);
    let mut draft = Draft::new(1, shape);
    let mut sum = TensorId::INPUT;
    for _ in 0..1_000 {
        let inputs = [TensorId::INPUT, sum];
        let acc = draft.push(Op::add(inputs, [1, 1]), shape);
        sum = draft.push(wide(acc, [-300, 300]), shape);
    }
    let (CompiledModel { program, .. }, _) = draft.finish();
    let (what, node) = refused(&program);
    assert_eq!(what, "verifier steps");
    assert!(node > 50 && node < 70, "{node}");
}

/// The library absorbs the shapes of all tables of columns with each opening of one: 115 MB for 800 of them.
#[test]
fn thousands_of_short_columns_are_too_many_steps() {
    let chain = |nodes: usize| {
        let mut draft = Draft::new(1, Shape::vector(1));
        let acc = Op::Dense(op::Dense {
            input: TensorId::INPUT,
        });
        let acc = draft.push(acc, Shape::vector(1));
        let mut input = draft.push(wide(acc, [-20_000, 20_000]), Shape::vector(1));
        for _ in 0..nodes {
            input = draft.push(wide(input, [-300, 300]), Shape::vector(1));
        }
        draft.finish().0.program
    };
    assert_eq!(refused(&chain(3_000)), ("verifier steps", 3_001));
    let cost = ProofShape::new(chain(500).check().unwrap())
        .unwrap()
        .plan
        .cost;
    assert!(cost.steps > 4 * 500 * 500, "{cost:?}");
}

#[test]
fn public_bytes_beyond_a_proof_file_are_refused() {
    for shape in [Shape::new(1024, 1024, 2), Shape::new(1, 1, 1 << 16)] {
        let mut draft = Draft::new(1, shape);
        let multipliers = [1, 1];
        let inputs = [TensorId::INPUT; 2];
        let acc = draft.push(Op::add(inputs, multipliers), shape);
        draft.push(wide(acc, [-300, 300]), shape);
        let (CompiledModel { program, .. }, _) = draft.finish();
        let cost = VerifierCost::of(&program);
        let large = shape.elements() > 1 << 20;
        assert_eq!(cost.is_err(), large);
        if large {
            assert_eq!(refused(&program), ("bytes of input and output", 0));
        }
    }
}

/// Maps over tensors of 2^26 elements cost a verifier pixels and channels, and are planned for as much. Looking at every
/// element took seconds a node, which a program of some hundred bytes could ask for some thousand times.
#[test]
fn maps_of_large_tensors_are_planned_in_a_moment() {
    let large = Shape::new(1 << 10, 1, 1 << 16);
    let mut draft = Draft::new(1, Shape::vector(1));
    let acc = draft.push(
        Op::Dense(op::Dense {
            input: TensorId::INPUT,
        }),
        Shape::vector(1),
    );
    let input = draft.push(wide(acc, [-9_000_000, 9_000_000]), Shape::vector(1));
    let view = View::new(0, &[(1 << 10, 0), (1 << 16, 0)]);
    let mut last = draft.push(Op::View(op::Unary { input, how: view }), large);
    for step in 0..20 {
        let indices = (0..1 << 10).map(|row| (row * 5 + step) % (1 << 10));
        let gather = Op::Gather(op::Gather {
            input: last,
            axis: Axis::Rows,
            indices: indices.collect(),
        });
        let moved = draft.push(gather, large);
        let view = View::new(1023 << 16, &[(1 << 10, -(1 << 16)), (1 << 16, 1)]);
        last = draft.push(
            Op::View(op::Unary {
                input: moved,
                how: view,
            }),
            large,
        );
    }
    for axis in [Axis::Channels, Axis::Rows] {
        let op = Op::Reduce(op::Reduce {
            input: last,
            reduction: Reduction::Sum,
            axis,
        });
        let shape = draft.shape(last).with_axis(axis, 1);
        last = draft.push(op, shape);
        last = draft.push(wide(last, [-9_000_000, 9_000_000]), shape);
    }
    let (CompiledModel { program, .. }, _) = draft.finish();
    let start = Instant::now();
    let shape = ProofShape::new(program.check().unwrap()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2));
    assert!(shape.plan.cost.steps < STEPS_MAX);
}

/// The largest commitments that are admitted still reach the security level; the level is enforced, not reported only.
#[test]
fn the_largest_programs_reach_a_hundred_bits() {
    let mut draft = Draft::new(1, Shape::new(900, 900, 1));
    draft.push(
        Op::conv(TensorId::INPUT, window(1, 1, [0; 4])),
        Shape::new(900, 900, 1),
    );
    let acc = TensorId::of_node(0);
    let shape = Shape::new(900, 900, 1);
    let mut input = draft.push(wide(acc, [-9_000_000, 9_000_000]), shape);
    let sum = |input| {
        Op::WindowSum(op::WindowSum {
            input,
            window: window(900 / 16, 900 / 16, [0; 4]),
        })
    };
    for _ in 0..20 {
        input = draft.push(wide(input, [-300, 300]), shape);
    }
    let acc = draft.push(sum(input), Shape::new(16, 16, 1));
    let input = draft.push(wide(acc, [-600_000, 600_000]), Shape::new(16, 16, 1));
    let acc = draft.push(Op::Dense(op::Dense { input }), Shape::vector(1));
    draft.push(wide(acc, [-20_000_000, 20_000_000]), Shape::vector(1));
    let (CompiledModel { mut program, .. }, _) = draft.finish();
    // 2^24 weights, in 2^16 rows of 256.
    let last = program.nodes.len() - 1;
    for node in [last - 1, last] {
        program.nodes[node].shape = Shape::vector(1 << 16);
    }
    let shape = ProofShape::new(program.check().unwrap()).unwrap();
    let tables = tg_proof::registration::weight_tables(&shape.plan.weights);
    assert!(tables.iter().any(|table| table.vars() == 24));
    assert!(shape.plan.leaf_vars >= 26, "{}", shape.plan.leaf_vars);
    let commitment = WeightCommitment {
        root: super::models::case()
            .public
            .weights_commitment()
            .unwrap()
            .root
            .clone(),
        anchor: tables
            .iter()
            .map(|table| vec![E::default(); table.columns])
            .collect(),
    };
    let public = PublicModel::new(program, commitment, Vec::new()).unwrap();
    for report in [report(&public), registration_report(&public)] {
        let bits = report.unwrap().bits;
        assert!((100.0..106.0).contains(&bits), "{bits}");
    }
}

/// Shapes whose products do not fit 32 or 64 bits, and commitments beyond the limit, are refused, not computed.
#[test]
fn huge_weights_are_refused_without_their_allocation() {
    let input = Shape::new(1, 1, 60_000);
    let (CompiledModel { mut program, .. }, _) = {
        let mut draft = Draft::new(1, input);
        let acc = draft.push(
            Op::Dense(op::Dense {
                input: TensorId::INPUT,
            }),
            Shape::vector(1),
        );
        let last = draft.push(wide(acc, [-300, 300]), Shape::vector(1));
        draft.push(wide(last, [-300, 300]), Shape::vector(1));
        draft.finish()
    };
    for node in &mut program.nodes {
        node.shape = Shape::vector(60_000);
    }
    let start = Instant::now();
    let error = ProofShape::new(program.check().unwrap()).unwrap_err();
    assert!(matches!(error, PlanError::Commitment(_)), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    // Shapes that no decoder lets through, in a program built in code.
    for shape in [
        Shape::new(u32::MAX, u32::MAX, u32::MAX),
        Shape::new(0, 1, 1),
        Shape::new(1 << 16, 1 << 16, 1),
    ] {
        let mut hostile = program.clone();
        hostile.input.shape = shape;
        assert!(hostile.validate().is_err());
        let mut hostile = program.clone();
        hostile.nodes[1].shape = shape;
        assert!(hostile.validate().is_err());
        hostile.nodes[1].op = Op::View(op::Unary {
            input: TensorId(1),
            how: View::new(0, &[(1, 0)]),
        });
        assert!(hostile.validate().is_err());
    }
}

/// Nodes and their shapes, one after the other, with weights that nobody has.
fn chain(input: Shape, ops: impl IntoIterator<Item = (Op, Shape)>) -> Program {
    let node = |(op, shape): (Op, Shape)| Node {
        name: op.name().to_owned(),
        op,
        shape,
        scale: 1.0,
    };
    Program {
        name: "chain".to_owned(),
        input: InputSpec::scaled(input, 1.0),
        nodes: ops.into_iter().map(node).collect(),
        outputs: Vec::new(),
        ties: Vec::new(),
        signature: None,
        tokenizer: None,
        weights_root: Weights { layers: Vec::new() }.root(),
    }
}

fn dense() -> Op {
    Op::Dense(op::Dense {
        input: TensorId::INPUT,
    })
}

/// A dense layer and thousands of rankings of 32 channels: 100 kB that took 617 MiB to plan, as much again for each batch.
#[test]
fn thousands_of_rankings_are_refused_for_their_readers() {
    let shape = Shape::vector(32);
    let ranked = |node: u32| {
        Op::TopK(op::TopK {
            input: TensorId(node),
            give: Ranked::Values,
        })
    };
    let ranks = (1..=4_000).map(|node| (ranked(node), shape));
    let program = chain(shape, std::iter::once((dense(), shape)).chain(ranks));
    let (what, node) = refused(&program);
    assert_eq!(what, "readers of tables");
    assert!(node < 100, "{node}");
    // Less than a hundred are admitted by their readers, and their proof is counted: no evidence holds it.
    let ops = std::iter::once((dense(), shape)).chain((1..=60).map(|node| (ranked(node), shape)));
    let last = Op::Requantise(op::Unary {
        input: TensorId(61),
        how: Requantise::to_i8(
            vec![Rescale::new(1 << 14, 30).unwrap()],
            vec![0],
            [-9_000_000, 9_000_000],
            [-128, 127],
        ),
    });
    let program = chain(shape, ops.chain([(last, shape)]));
    let plan = ProofShape::new(program.check().unwrap()).unwrap();
    assert!(tg_proof::size::proof_file(&program, &plan) > 1 << 20);
    assert!(plan.plan.cost.memory() < MEMORY_MAX);
}

/// Value tables of 4,096 equal entries under 16 factors: a few segments each, but 65,536 entries to look at, 1,900 times.
#[test]
fn flat_value_tables_are_looked_at_a_limited_number_of_times() {
    let shape = Shape::vector(16);
    let flat = |input: u32| {
        Op::Requantise(op::Unary {
            input: TensorId(input),
            how: Requantise {
                pairs: (0..16)
                    .map(|pair| Rescale::new(1 << 14, 10 + pair).unwrap())
                    .collect(),
                channel_pairs: (0..16).collect(),
                zero: 0,
                range: [-4_000_000, 4_000_000],
                clamp: [-2_048, 2_047],
                table: Some(vec![7; 4_096]),
                output: ElementType::I8,
            },
        })
    };
    // Few enough that their lists alone do not take the memory.
    let tables = (1..=100).map(|node| (flat(node), shape));
    let program = chain(shape, std::iter::once((dense(), shape)).chain(tables));
    let (what, node) = refused(&program);
    assert_eq!((what, node), ("entries of value tables", 65));
}

/// Whether windows with dilation meet their input is found out in a step or two per node, not one per pixel.
#[test]
fn thousands_of_wide_maxima_are_validated_in_a_moment() {
    let side = 1 << 16;
    let mut window = Window::new([2, 1], [1; 2], [0; 4]);
    window.dilation = [64, 1];
    window.pads = [32, 0, 32, 0];
    let shape = Shape::new(side, 1, 1);
    let maxima = (0..4_096).map(|node| {
        let input = TensorId(node);
        (Op::MaxPool(op::MaxPool { input, window }), shape)
    });
    let program = chain(shape, maxima);
    let start = Instant::now();
    assert_eq!(program.validate(), Ok(()));
    assert!(start.elapsed() < Duration::from_millis(500));
    assert!(ProofShape::new(program.check().unwrap()).is_err());
}

/// A chain of views and joins of 256 of them each: every input's type was found out along the whole chain.
#[test]
fn thousands_of_joins_of_long_chains_are_validated_in_a_moment() {
    let shape = Shape::new(1, 1, 1);
    let view = |input: u32| {
        Op::View(op::Unary {
            input: TensorId(input),
            how: View::new(0, &[(1, 0)]),
        })
    };
    let views = (0..2_048).map(|node| (view(node), shape));
    let joined = Shape::new(1, 1, 256);
    let join = |first: u32| {
        Op::Concat(op::Concat {
            inputs: (0..256)
                .map(|at| TensorId(2_048 - (first + at) % 256))
                .collect(),
            axis: Axis::Channels,
        })
    };
    let joins = (0..2_047).map(|first| (join(first), joined));
    let program = chain(shape, views.chain(joins));
    let start = Instant::now();
    assert_eq!(program.validate(), Ok(()));
    assert!(start.elapsed() < Duration::from_secs(1));
    let (what, _) = refused(&chain(
        shape,
        (0..2_048).map(|node| (view(node), shape)).chain(
            (0..2_000)
                .map(|at| {
                    let inputs = vec![
                        if at == 0 {
                            TensorId(2_048)
                        } else {
                            TensorId(2_048 + at)
                        };
                        1
                    ];
                    let more = vec![TensorId(2_048); 255];
                    let shape = Shape::new(1, 1, 256 + 255 * at.min(200));
                    let inputs = [inputs, more].concat();
                    let axis = Axis::Channels;
                    (Op::Concat(op::Concat { inputs, axis }), shape)
                })
                .take(200),
        ),
    ));
    assert_eq!(what, "claims on tensors");
}
