//! The input as a committed tensor, for proofs that do not show it.

use super::stage::StageDraft;
use super::{ColumnSet, Plan};
use crate::error::PlanError;
use crate::staged::{Constraint, Linear, Mask, Staged};
use tg_ir::segment::LIMB_CLASS_MAX;
use tg_ir::{Coding, ElementType, Program};

/// A committed input: one column x + 128, looked up in the bytes.
///
/// The claim on the input is `sum over elements in use of eq(r, x) (column(x) - 128)`, so that padding is zero by
/// definition, as in every gadget as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputPlan {
    /// Its relation.
    pub staged: Staged,
    /// Its column.
    pub columns: ColumnSet,
}

impl Plan {
    /// Commits the input. Its columns stand after those of all nodes, under the number of nodes.
    pub(super) fn plan_input(&mut self, program: &Program) -> Result<InputPlan, PlanError> {
        if program.input.coding != Coding::Scaled(ElementType::I8) {
            return Err(PlanError::HiddenInput);
        }
        let mut draft = StageDraft::with_limbs(
            self,
            program,
            0,
            (self.layouts[0], Mask::ALL),
            LIMB_CLASS_MAX,
        )?;
        // Stops: an input that no coding gives, for which no accumulator has a bound.
        let byte = draft.limb(LIMB_CLASS_MAX);
        draft.output(Constraint::linear(Linear::of(byte).and(-128)));
        let (elements, columns) = draft.finish(self, program.nodes.len());
        Ok(InputPlan {
            staged: Staged {
                rows: None,
                elements,
            },
            columns,
        })
    }
}
