//! Linear and product gadgets: they commit nothing but weights.

use super::PlanError;
use super::draft::Draft;
use crate::algebra::layout::{TensorLayout, WeightLayout};
use crate::algebra::linear::{MapPlan, Rearrangement, SeparableMap, is_separable};
use crate::plan::cost::Added;
use tg_ir::op;
use tg_ir::{Axis, Op, Program, TensorId};

impl Draft {
    /// The weights of a node; gives their index.
    pub(super) fn plan_weights(&mut self, program: &Program, node: usize) -> usize {
        let axes = program.weight_axes(node);
        let [outputs, positions, inputs] = axes.expect("a node with weights");
        let own = self.weights.len();
        // An owner is an earlier node, so that it is planned already.
        let tied = self.weighted.get(&program.weights_owner(node)).copied();
        if let Some(owner) = tied {
            self.tied_to[owner].push(own);
        }
        self.weighted.insert(node, own);
        self.tied_to.push(Vec::new());
        self.weights.push(WeightLayout {
            outputs,
            positions,
            inputs,
            biased: program.nodes[node].op.has_bias(),
            tied,
        });
        own
    }

    pub(super) fn plan_map(
        &mut self,
        program: &Program,
        node: usize,
    ) -> Result<MapPlan, PlanError> {
        let fields = |pixels, channels| MapPlan::Fields { pixels, channels };
        let shape = program.nodes[node].shape;
        if matches!(program.nodes[node].op, Op::View(_) | Op::Gather(_)) {
            // Planning looks at every pixel and every channel of both sides.
            let looks = program.nodes[node].op.inputs().into_iter();
            let looks = looks.chain([TensorId::of_node(node)]).map(|tensor| {
                let layout = TensorLayout::of(program.shape(tensor));
                (1u64 << layout.pixel_vars) + (1 << layout.channel_vars)
            });
            let looks = Added::tables(looks.sum());
            self.cost.add(program, node, looks)?;
        }
        let plan = match &program.nodes[node].op {
            Op::Add(_) => fields(false, false),
            Op::WindowSum(_) => fields(true, false),
            Op::View(op::Unary { how: view, .. })
                if !is_separable(view, shape.channels as usize) =>
            {
                MapPlan::Elements
            }
            Op::View(op::Unary { input, how: view }) => {
                moved_plan(program, node, *input, &|element| view.source(element))
            }
            Op::Gather(op::Gather {
                input,
                axis,
                indices,
            }) => {
                let source =
                    crate::algebra::linear::gathered(program, node, *input, *axis, indices);
                moved_plan(program, node, *input, &source)
            }
            Op::Concat(op::Concat { axis, .. }) => {
                fields(*axis != Axis::Channels, *axis == Axis::Channels)
            }
            Op::Pad(op::Pad { input, .. }) => {
                let from = program.shape(*input);
                fields(
                    from.pixels() != shape.pixels(),
                    from.channels != shape.channels,
                )
            }
            Op::Reduce(op::Reduce {
                reduction: tg_ir::op::Reduction::Sum,
                axis,
                ..
            })
            | Op::RunningSum(op::RunningSum { axis, .. }) => {
                fields(*axis != Axis::Channels, *axis == Axis::Channels)
            }
            _ => {
                let why = "no proof of this operator exists yet";
                return Err(PlanError::unprovable(program, node, why));
            }
        };
        Ok(plan)
    }
}

/// How a separable map that gives each output element one input element is shown.
fn moved_plan(
    program: &Program,
    node: usize,
    input: TensorId,
    source: &dyn Fn(usize) -> usize,
) -> MapPlan {
    let from = TensorLayout::of(program.shape(input));
    let to = TensorLayout::of(program.nodes[node].shape);
    let map = SeparableMap::new(to, source);
    if let Some(how) = Rearrangement::of(from, to, &map) {
        return MapPlan::Rearranged(how);
    }
    let SeparableMap { pixels, channels } = map;
    let whole = from.channels == to.channels
        && (0..).zip(&channels).all(|(own, &shown)| own == shown)
        && pixels
            .iter()
            .all(|source| source.is_multiple_of(from.channels));
    let in_place = from.pixels == to.pixels
        && (0..).zip(&pixels).all(|(own, &source)| {
            source.checked_sub(own * from.channels) == pixels.first().copied()
        })
        && channels
            .iter()
            .all(|channel| pixels[0] + channel < from.channels);
    match (whole, in_place) {
        (true, _) => MapPlan::Fields {
            pixels: true,
            channels: false,
        },
        (false, true) => MapPlan::Fields {
            pixels: false,
            channels: true,
        },
        (false, false) => MapPlan::Elements,
    }
}
