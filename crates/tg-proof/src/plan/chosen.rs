//! Rows of an embedding that computed tokens choose.
//!
//! Per token a flag for each row of the table. Exactly one is set, at the channel that the token is: the sum of the flags is
//! 1, that of flag times channel the token. What is embedded is the product of the flags and the table. The flags that the
//! product takes are the masked ones, an output of their stage, so that no flag of padding counts. *Stops: the row of
//! another token, a mix of rows, a token beyond the table, values in padding.*

use super::PlanError;
use super::draft::{Draft, Gadget};
use super::stage::{StageDraft, rows_of};
use crate::algebra::layout::{TensorLayout, log2_ceil};
use crate::plan::staged::{Constraint, Linear, Mask, Public, Staged};
use tg_ir::{Program, TensorId};

impl Draft {
    pub(super) fn plan_chosen(
        &mut self,
        program: &Program,
        node: usize,
        (input, table_rows): (TensorId, u32),
    ) -> Result<Gadget, PlanError> {
        let [least, greatest] = self.intervals[input.index()];
        // Stops: a token that execution reads as the nearest row and no proof has a flag for, at whoever runs it. Those of an
        // input are looked at by who gives it.
        let computed = input != TensorId::INPUT;
        if computed && (least < 0 || greatest >= i64::from(table_rows)) {
            let why = "its tokens may lie beyond the table";
            return Err(PlanError::unprovable(program, node, why));
        }
        let (of, linear) = (Linear::of, Constraint::linear);
        let channels = table_rows as usize;
        let layout = TensorLayout {
            channels,
            channel_vars: log2_ceil(channels),
            ..self.layouts[input.index()]
        };
        let mut rows = StageDraft::new(self, program, node, rows_of(layout), Mask::ALL)?;
        let token = rows.tensor(input);
        let sums: Vec<usize> = (0..2).map(|_| rows.variable()).collect();
        rows.vanishes(linear(of(sums[0]).and(-1)));
        rows.vanishes(linear(of(sums[1]).plus(token, -1)));
        let (rows, _) = rows.finish(self, program, node)?;
        let mut elements = StageDraft::new(self, program, node, layout, Mask::ALL)?;
        let channel = elements.public(Public::Channel);
        let flag = elements.limb(1);
        elements.output(linear(of(flag)));
        elements.sum(linear(of(flag)));
        elements.sum(Constraint::default().times(of(flag), of(channel)));
        let (elements, columns) = elements.finish(self, program, node)?;
        Ok(Gadget {
            staged: Staged {
                rows: Some((rows, sums)),
                elements,
            },
            row_columns: None,
            columns,
        })
    }
}
