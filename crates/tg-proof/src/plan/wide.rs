//! Requantisation to 16 bits by shifts.
//!
//! A column names a segment of the node's public table, others the step and the rest within it. The segment gives base,
//! first output, whether steps show (1 inside the clamp, 0 where it is met), the width of a step, the classes of step and
//! rest, and the pair. Shown on every element in use: the pair is the channel's; `in = base + width step + rest`; the
//! output is `first + shows step`. Every integer of a segment is at most B in absolute value and so is the accumulator;
//! equal modulo p, they are equal, and every integer of a segment maps to the output it names (`tg_ir::wide`, tested
//! against the formula at the ends of every step). *Stops: neighbouring outputs, a saturated output inside the clamp and
//! the reverse, rests of other widths, another channel's shift, quotients right modulo p only.*

use super::PlanError;
use super::draft::{Draft, Gadget};
use super::stage::StageDraft;
use super::tables::LookupTable;
use crate::plan::staged::{Constraint, Linear, Mask, Public, Slot, Staged, coefficient};
use tg_ir::wide::WIDE_LIMB_BITS;
use tg_ir::{Program, Requantise, WideError, WideSegment, WideTable};

impl Draft {
    pub(super) fn plan_wide(
        &mut self,
        program: &Program,
        node: usize,
        how: &Requantise,
    ) -> Result<(WideTable, Gadget), PlanError> {
        let segments = WideTable::build(how).map_err(|error| {
            let why = match error {
                WideError::Table => "its value table needs more than 2^14 segments",
                WideError::Factor => {
                    "its segment table is too long, and its factors are not powers of two from 2^-24 to 1"
                }
                WideError::TooMany => "its table of segments is too long",
                WideError::Field => "its range is too close to the field bound",
            };
            PlanError::unprovable(program, node, why)
        })?;
        let two = segments.rest_limbs() == 2;
        let table = self.add_table(program, node, wide_table(&segments))?;
        let layout = self.layouts[node + 1];
        let mut draft = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let input = draft.tensor(program.nodes[node].op.inputs()[0]);
        let pairs = (0..layout.channels).map(|channel| coefficient(how.pair_of(channel).into()));
        let own_pair = draft.public(Public::PerChannel(pairs.collect()));
        let [base, first, shows, width, step_class, low_class, pair] =
            std::array::from_fn(|_| draft.variable());
        let mut slots = vec![base, first, shows, width, step_class, low_class, pair];
        let high_class = two.then(|| draft.variable());
        slots.extend(high_class);
        let slots = slots.into_iter().map(Slot::Variable).collect();
        draft.lookup(table, slots);
        let step = draft.limb_of_class(step_class);
        let mut rest = Linear::of(draft.limb_of_class(low_class));
        if let Some(class) = high_class {
            rest = rest.plus(draft.limb_of_class(class), 1 << WIDE_LIMB_BITS);
        }
        let of = Linear::of;
        draft.output(Constraint::linear(of(first)).times(of(shows), of(step)));
        // Stops: the shift of another channel.
        draft.vanishes(Constraint::linear(of(pair).plus(own_pair, -1)));
        // Stops: another accumulator than the one whose output is named.
        let whole = of(base).plus_form(&rest, 1).plus(input, -1);
        draft.vanishes(Constraint::linear(whole).times(of(width), of(step)));
        let (elements, columns) = draft.finish(self, program, node)?;
        Ok((
            segments,
            Gadget {
                staged: Staged {
                    rows: None,
                    elements,
                },
                row_columns: None,
                columns,
            },
        ))
    }
}

/// Base, first output, whether steps show, width of a step, classes of step and rest, pair; last the rest's high class.
fn wide_table(segments: &WideTable) -> LookupTable {
    let column = |value: fn(&WideSegment) -> i64| segments.segments().iter().map(value).collect();
    let mut columns: Vec<Vec<i64>> = vec![
        column(|s| s.base.into()),
        column(|s| s.output.into()),
        column(|s| i64::from(!s.clamped)),
        column(|s| 1 << s.scale),
        column(|s| s.bits.into()),
        column(|s| s.class_low().into()),
        column(|s| s.pair.into()),
    ];
    if segments.rest_limbs() == 2 {
        columns.push(column(|s| s.class_high().into()));
    }
    LookupTable::of_integers(columns)
}
