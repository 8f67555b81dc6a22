//! Stages under construction: variables, columns and their readers.

use super::LIMB_CLASS_LIMIT;
use super::PlanError;
use super::draft::{ColumnSet, Draft};
use crate::algebra::layout::TensorLayout;
use crate::plan::cost::Added;
use crate::plan::staged::{Constraint, Linear, Mask, Public, Reading, Slot, Stage};
use tg_ir::{Program, TensorId};

/// The classes of the limbs of a number of `bits` bits, least first.
#[must_use]
pub fn limb_classes(bits: u32) -> Vec<u32> {
    let whole = (bits / LIMB_CLASS_LIMIT) as usize;
    let rest = bits % LIMB_CLASS_LIMIT;
    let mut classes = vec![LIMB_CLASS_LIMIT; whole];
    if rest > 0 || whole == 0 {
        classes.push(rest);
    }
    classes
}

/// A reader that is not added yet.
struct DraftReading {
    /// The column set it reads, if not the stage's own.
    columns: Option<ColumnSet>,
    column: usize,
    table: usize,
    offset: u32,
    slots: Vec<Slot>,
}

/// A stage under construction.
pub(super) struct StageDraft {
    stage: Stage,
    readings: Vec<DraftReading>,
    own: usize,
    limb_table: usize,
}

impl StageDraft {
    pub(super) fn new(
        plan: &mut Draft,
        program: &Program,
        node: usize,
        layout: TensorLayout,
        mask: Mask,
    ) -> Result<Self, PlanError> {
        Self::with_limbs(plan, program, node, (layout, mask), LIMB_CLASS_LIMIT)
    }

    /// The same with a limb table of its own greatest class.
    pub(super) fn with_limbs(
        plan: &mut Draft,
        program: &Program,
        node: usize,
        (layout, mask): (TensorLayout, Mask),
        class_max: u32,
    ) -> Result<Self, PlanError> {
        let limb_table = plan.limb_table(program, node, class_max)?;
        Ok(Self {
            stage: Stage {
                layout,
                mask,
                variables: 0,
                readings: Vec::new(),
                tensors: Vec::new(),
                publics: Vec::new(),
                outputs: Vec::new(),
                constraints: Vec::new(),
                sums: Vec::new(),
            },
            readings: Vec::new(),
            own: 0,
            limb_table,
        })
    }

    /// A variable whose value the prover sends: what a slot gives, or a sum.
    pub(super) const fn variable(&mut self) -> usize {
        self.stage.variables += 1;
        self.stage.variables - 1
    }

    /// A tensor over the stage's hypercube.
    pub(super) fn tensor(&mut self, tensor: TensorId) -> usize {
        let variable = self.variable();
        self.stage.tensors.push((variable, tensor));
        variable
    }

    /// A public function.
    pub(super) fn public(&mut self, public: Public) -> usize {
        let variable = self.variable();
        self.stage.publics.push((variable, public));
        variable
    }

    /// A column of positions in a table.
    pub(super) fn lookup(&mut self, table: usize, slots: Vec<Slot>) {
        let reading = DraftReading {
            columns: None,
            column: self.own,
            table,
            offset: 0,
            slots,
        };
        self.own += 1;
        self.readings.push(reading);
    }

    /// A column of positions in the limb table: gives the variable of the limbs, whose class is a variable.
    pub(super) fn limb_of_class(&mut self, class: usize) -> usize {
        let variable = self.variable();
        let slots = vec![Slot::Variable(variable), Slot::Variable(class)];
        self.lookup(self.limb_table, slots);
        variable
    }

    /// A column of values below `2^class`.
    pub(super) fn limb(&mut self, class: u32) -> usize {
        let column = self.own;
        self.own += 1;
        self.read_limb(None, column, class)
    }

    /// Columns of the limbs of a number of `bits` bits, least first.
    pub(super) fn limbs(&mut self, bits: u32) -> Vec<usize> {
        let classes = limb_classes(bits);
        classes.into_iter().map(|class| self.limb(class)).collect()
    }

    /// Columns of the limbs of an integer in `[-2^(bits - 1), 2^(bits - 1))`.
    pub(super) fn signed(&mut self, bits: u32) -> Linear {
        let limbs = self.limbs(bits);
        Linear::limbs(&limbs, LIMB_CLASS_LIMIT).and(-(1 << (bits - 1)))
    }

    /// Reads columns of a row stage, whose limbs have `bits` bits, at the rows of this stage's point.
    pub(super) fn row_limbs(&mut self, columns: &ColumnSet, first: usize, bits: u32) -> Vec<usize> {
        let classes = limb_classes(bits).into_iter().enumerate();
        classes
            .map(|(limb, class)| self.read_limb(Some(columns.clone()), first + limb, class))
            .collect()
    }

    fn read_limb(&mut self, columns: Option<ColumnSet>, column: usize, class: u32) -> usize {
        let variable = self.variable();
        self.readings.push(DraftReading {
            columns,
            column,
            table: self.limb_table,
            offset: (1 << class) - 1,
            slots: vec![Slot::Variable(variable), Slot::Class(class)],
        });
        variable
    }

    /// The column that the next limb will be.
    pub(super) const fn next_column(&self) -> usize {
        self.own
    }

    /// The node's output, or the one of its next channel.
    pub(super) fn output(&mut self, constraint: Constraint) {
        self.stage.outputs.push(constraint);
    }

    /// What vanishes on every element in use.
    pub(super) fn vanishes(&mut self, constraint: Constraint) {
        self.stage.constraints.push(constraint);
    }

    /// What is summed along channels.
    pub(super) fn sum(&mut self, constraint: Constraint) {
        self.stage.sums.push(constraint);
    }

    /// Commits the columns, if there are any, and adds the readers.
    ///
    /// # Errors
    /// [`PlanError::TooCostly`] if columns, readers or relations so far are too many.
    pub(super) fn finish(
        self,
        plan: &mut Draft,
        program: &Program,
        node: usize,
    ) -> Result<(Stage, ColumnSet), PlanError> {
        let Self {
            mut stage,
            readings,
            own,
            limb_table: _,
        } = self;
        let relations = stage.own().chain(&stage.sums);
        let added = Added {
            terms: relations.map(Constraint::terms).sum::<usize>() as u64,
            ..Added::default()
        };
        plan.cost.add(program, node, added)?;
        let set = if own == 0 {
            let next = plan.witness.len();
            ColumnSet {
                layout: stage.layout,
                witness: next..next,
                covered: 0,
            }
        } else {
            plan.add_columns(program, node, stage.layout, own, &[])?
        };
        for reading in readings {
            let rows = reading.columns.is_some();
            let columns = reading.columns.as_ref().unwrap_or(&set);
            let DraftReading {
                column,
                table,
                offset,
                ..
            } = reading;
            let group = plan.add_reader(program, node, (columns, column), (table, offset))?;
            stage.readings.push(Reading {
                group,
                rows,
                covered: columns.covered,
                slots: reading.slots,
            });
        }
        Ok((stage, set))
    }
}

/// The hypercube of a tensor's rows.
pub(super) const fn rows_of(layout: TensorLayout) -> TensorLayout {
    TensorLayout {
        channels: 1,
        channel_vars: 0,
        ..layout
    }
}
