//! Input and output as committed tensors, for proofs that do not show them.

use super::PlanError;
use super::draft::{ColumnSet, Draft};
use super::stage::StageDraft;
use crate::algebra::layout::TensorLayout;
use crate::argument::ajtai;
use crate::plan::modes::{Modes, PartModes, Visibility};
use crate::plan::staged::{Constraint, Linear, Mask, Public, Staged, coefficient};
use tg_ir::segment::LIMB_CLASS_MAX;
use tg_ir::{Coding, ElementType, Program, Shape, TensorId};

/// Which elements a committed tensor may have, and the columns that show it. v is an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorCoding {
    /// 8 bits: a byte v + 2^7.
    Bytes,
    /// 16 bits but -2^15: the bytes of v + 2^15, and those of v + 2^15 - 1, which is not negative.
    Words,
    /// At most a number per channel, below 2^15: 8 and 7 bits of v, and of what it falls short by.
    Ranks(Vec<u32>),
    /// Below a number of at most 2^20: 8, 8 and 4 bits of v, and of what it falls short of the last by.
    Tokens(u32),
    /// An output of 32 bits in \[-B, B): the bytes of v + B, the last below 2^7, and what that falls short of 126 by.
    Sums,
}

/// One byte of an element in its tensor's string ([`ajtai::digits`]): a column plus a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digit {
    /// The column.
    pub column: Option<usize>,
    /// What is added.
    pub constant: u32,
}

impl TensorCoding {
    /// What a program takes.
    #[must_use]
    pub fn of_input(program: &Program) -> Self {
        match &program.input.coding {
            Coding::Scaled(ElementType::I8) => Self::Bytes,
            Coding::Scaled(_) | Coding::PerChannel(_) => Self::Words,
            Coding::Ranks(thresholds) => {
                Self::Ranks(thresholds.iter().map(|list| list.len() as u32).collect())
            }
            Coding::Tokens(vocabulary) => Self::Tokens(*vocabulary),
        }
    }

    /// What one output of a program may hold.
    #[must_use]
    pub fn of_output(program: &Program, output: TensorId) -> Self {
        match program.element_type(output) {
            ElementType::I8 => Self::Bytes,
            ElementType::I16 => Self::Words,
            ElementType::I32 => Self::Sums,
        }
    }

    /// The type of its elements.
    #[must_use]
    pub const fn kind(&self) -> ElementType {
        match self {
            Self::Bytes => ElementType::I8,
            Self::Words | Self::Ranks(_) => ElementType::I16,
            Self::Tokens(_) | Self::Sums => ElementType::I32,
        }
    }

    /// Per column the class of its limb.
    #[must_use]
    pub const fn classes(&self) -> &'static [u32] {
        match self {
            Self::Bytes => &[8],
            Self::Words => &[8, 8, 8, 8],
            Self::Ranks(_) => &[8, 7, 8, 7],
            Self::Tokens(_) => &[8, 8, 4, 8, 8, 4],
            Self::Sums => &[8, 8, 8, 7, 7],
        }
    }

    /// The bytes of an element, least first.
    #[must_use]
    pub fn digits(&self) -> Vec<Digit> {
        let digit = |column, constant| Digit { column, constant };
        let plain = |count| (0..count).map(|column| digit(Some(column), 0)).collect();
        match self {
            Self::Bytes => plain(1),
            Self::Words => plain(2),
            Self::Sums => plain(4),
            // Plus 2^15.
            Self::Ranks(_) => vec![digit(Some(0), 0), digit(Some(1), 0x80)],
            // Plus B, whose low 23 bits are 0.
            Self::Tokens(_) => {
                const _: () = assert!(tg_ir::bounds::FIELD_BOUND == 0x3f80_0000);
                let top = digit(None, 0x3f);
                vec![
                    digit(Some(0), 0),
                    digit(Some(1), 0),
                    digit(Some(2), 0x80),
                    top,
                ]
            }
        }
    }

    /// The cells of an element; of one that has none, cells that show nothing.
    #[must_use]
    pub fn cells(&self, channel: usize, value: i32) -> Vec<u32> {
        let value = i64::from(value);
        let limbs = |value: i64, count: u32| {
            let limb = move |place| (value >> (8 * place)) as u32 & 0xff;
            (0..count).map(limb)
        };
        match self {
            Self::Bytes => limbs(value + 128, 1).collect(),
            Self::Words => {
                let shifted = value + (1 << 15);
                limbs(shifted, 2).chain(limbs(shifted - 1, 2)).collect()
            }
            Self::Ranks(most) => {
                let most = i64::from(most.get(channel).copied().unwrap_or_default());
                limbs(value, 2).chain(limbs(most - value, 2)).collect()
            }
            Self::Tokens(count) => {
                let rest = i64::from(*count) - 1 - value;
                limbs(value, 3).chain(limbs(rest, 3)).collect()
            }
            Self::Sums => {
                let mut cells: Vec<u32> =
                    limbs(value + ajtai::offset(ElementType::I32), 4).collect();
                cells.push(126u32.wrapping_sub(cells[3]) & 0xff);
                cells
            }
        }
    }
}

/// A committed input or output.
///
/// The claim on the tensor is `sum over elements in use of eq(r, x) v(x)`, so that padding is zero by definition, as in
/// every gadget as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorPlan {
    /// Its relation.
    pub staged: Staged,
    /// Its columns.
    pub columns: ColumnSet,
    /// What they hold.
    pub coding: TensorCoding,
    /// Its column of [`SaltPlan`], if the statement names its commitment.
    pub salt: Option<usize>,
    /// The inputs of the file within it that are public or named by commitments of their own, then the elements of no input.
    pub parts: Vec<PartPlan>,
}

impl TensorPlan {
    /// Its elements, of all inferences.
    #[must_use]
    pub const fn elements(&self) -> usize {
        let layout = self.columns.layout;
        layout.pixels * layout.batch * layout.channels
    }
}

/// An input of the file within a committed tensor, of which a statement says more than that it is there; or, as the last, the
/// elements of no input, which are 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartPlan {
    /// Per element in the order of the file its place in the tensor of one inference.
    pub places: Vec<usize>,
    /// Its column of [`SaltPlan`], if the statement names its commitment; else it is public.
    pub salt: Option<usize>,
}

/// The bytes that hide the tensors whose commitments a statement names: a column each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaltPlan {
    /// Nothing but that they are bytes.
    pub staged: Staged,
    /// Their columns.
    pub columns: ColumnSet,
}

/// What is committed of a statement.
#[derive(Debug, Default)]
pub(super) struct StatementPlan {
    pub(super) input: Option<TensorPlan>,
    pub(super) outputs: Vec<Option<TensorPlan>>,
    pub(super) salts: Option<SaltPlan>,
}

/// A tensor of the statement: input, outputs and salts stand in witness tables of their own, under numbers of nodes beyond the
/// last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementTable {
    /// The input.
    Input,
    /// An output, by its place in the program's list.
    Output(usize),
    /// The salts.
    Salts,
}

impl StatementTable {
    /// The number beyond the last node: further outputs come after the salts, as they came to be.
    const fn number(self) -> usize {
        match self {
            Self::Input => 0,
            Self::Output(0) => 1,
            Self::Salts => 2,
            Self::Output(index) => 2 + index,
        }
    }

    /// The table of a number beyond the last node.
    #[must_use]
    pub const fn of_number(number: usize) -> Self {
        match number {
            0 => Self::Input,
            1 => Self::Output(0),
            2 => Self::Salts,
            further => Self::Output(further - 2),
        }
    }
}

impl Draft {
    /// Commits what is not public of input and outputs. Their columns stand after those of all nodes.
    pub(super) fn plan_statement(
        &mut self,
        program: &Program,
        modes: Modes,
    ) -> Result<StatementPlan, PlanError> {
        let mut statement = StatementPlan::default();
        let nodes = program.nodes.len();
        let mut salts = 0;
        let mut salt = |mode| {
            (mode == Visibility::Committed).then(|| {
                salts += 1;
                salts - 1
            })
        };
        if modes.input != Visibility::Public {
            let node = nodes + StatementTable::Input.number();
            let place = (TensorId::INPUT, node, salt(modes.input));
            let coding = TensorCoding::of_input(program);
            let mut input = self.plan_tensor(program, place, coding)?;
            if let Visibility::Each(each) = modes.input {
                input.parts = self.parts(program, each, &mut salt)?;
            }
            statement.input = Some(input);
        }
        let ids = program.outputs();
        // Stops: modes of other outputs than the program's.
        if let Visibility::Each(each) = modes.output
            && each.count() != ids.len()
        {
            return Err(PlanError::Modes);
        }
        if modes.output != Visibility::Public {
            let modes = modes.output.of_parts(ids.len());
            for (index, (output, mode)) in ids.into_iter().zip(modes).enumerate() {
                let node = nodes + StatementTable::Output(index).number();
                let place = (output, node, salt(mode));
                let coding = TensorCoding::of_output(program, output);
                let hidden = mode != Visibility::Public;
                let planned = hidden.then(|| self.plan_tensor(program, place, coding));
                statement.outputs.push(planned.transpose()?);
            }
        }
        if salts > 0 {
            statement.salts = Some(self.plan_salts(program, salts)?);
        }
        Ok(statement)
    }

    /// The inputs of the file that are not hidden, where they lie in the program's tensor.
    fn parts(
        &self,
        program: &Program,
        modes: PartModes,
        salt: &mut impl FnMut(Visibility) -> Option<usize>,
    ) -> Result<Vec<PartPlan>, PlanError> {
        let signature = program.signature.as_ref();
        let places = signature.and_then(|own| own.input_places(program.input.shape));
        // Stops: modes of other inputs than the file's, or of a program that does not say what they are.
        let places = places.filter(|places| places.len() == modes.count());
        let places = places.ok_or(PlanError::Modes)?;
        let batch = self.layouts[0].batch;
        let mut parts = Vec::new();
        let rest = tg_ir::unnamed_places(&places, program.input.shape);
        for (mode, places) in modes.iter().zip(places) {
            if mode == Visibility::Hidden {
                continue;
            }
            let salt = salt(mode);
            if salt.is_some() && places.len().saturating_mul(batch) > ajtai::ELEMENTS_MAX as usize {
                return Err(PlanError::CommittedTensor);
            }
            parts.push(PartPlan { places, salt });
        }
        // Stops: elements that nobody is shown, by which a program gives any output on inputs that are.
        if !rest.is_empty() {
            // Of ranks 0 is not what nothing is coded as.
            if matches!(program.input.coding, Coding::Ranks(_)) {
                return Err(PlanError::Modes);
            }
            let (places, salt) = (rest, None);
            parts.push(PartPlan { places, salt });
        }
        Ok(parts)
    }

    fn plan_tensor(
        &mut self,
        program: &Program,
        (tensor, node, salt): (TensorId, usize, Option<usize>),
        coding: TensorCoding,
    ) -> Result<TensorPlan, PlanError> {
        let layout = self.layouts[tensor.index()];
        // What is no node's is charged to the last.
        let last = program.nodes.len() - 1;
        if salt.is_some() {
            let elements = layout.pixels * layout.batch * layout.channels;
            if elements > ajtai::ELEMENTS_MAX as usize {
                return Err(PlanError::CommittedTensor);
            }
        }
        let of = (layout, Mask::ALL);
        let mut draft = StageDraft::with_limbs(self, program, last, of, LIMB_CLASS_MAX)?;
        let classes = coding.classes();
        let limbs: Vec<usize> = classes.iter().map(|&class| draft.limb(class)).collect();
        let linear = Constraint::linear;
        let number = |limbs: &[usize]| Linear::limbs(limbs, 8);
        // Stops: an element that no coding gives, for which no accumulator has a bound, and a second one that is equal
        // modulo p.
        match &coding {
            TensorCoding::Bytes => draft.output(linear(number(&limbs).and(-128))),
            TensorCoding::Words => {
                draft.output(linear(number(&limbs[..2]).and(-(1 << 15))));
                let rest = number(&limbs[..2]).plus_form(&number(&limbs[2..]), -1);
                draft.vanishes(linear(rest.and(-1)));
            }
            TensorCoding::Ranks(most) => {
                let most = most.iter().map(|&most| coefficient(i128::from(most)));
                let most = draft.public(Public::PerChannel(most.collect()));
                draft.output(linear(number(&limbs[..2])));
                let both = number(&limbs[..2]).plus_form(&number(&limbs[2..]), 1);
                draft.vanishes(linear(both.plus(most, -1)));
            }
            TensorCoding::Tokens(count) => {
                draft.output(linear(number(&limbs[..3])));
                let both = number(&limbs[..3]).plus_form(&number(&limbs[3..]), 1);
                draft.vanishes(linear(both.and(1 - i128::from(*count))));
            }
            TensorCoding::Sums => {
                let offset = ajtai::offset(ElementType::I32);
                draft.output(linear(number(&limbs[..4]).and(-i128::from(offset))));
                draft.vanishes(linear(Linear::of(limbs[3]).plus(limbs[4], 1).and(-126)));
            }
        }
        let (elements, columns) = draft.finish(self, program, node)?;
        Ok(TensorPlan {
            staged: Staged {
                rows: None,
                elements,
            },
            columns,
            coding,
            salt,
            parts: Vec::new(),
        })
    }

    fn plan_salts(&mut self, program: &Program, count: usize) -> Result<SaltPlan, PlanError> {
        let nodes = program.nodes.len();
        let layout = TensorLayout::of(Shape::vector(1 << ajtai::BLINDING_VARS));
        let of = (layout, Mask::ALL);
        let mut draft = StageDraft::with_limbs(self, program, nodes - 1, of, LIMB_CLASS_MAX)?;
        // Stops: an opening of a commitment in something else than bytes, of which every commitment has many.
        (0..count).for_each(|_| {
            draft.limb(LIMB_CLASS_MAX);
        });
        draft.output(Constraint::default());
        let (elements, columns) =
            draft.finish(self, program, nodes + StatementTable::Salts.number())?;
        Ok(SaltPlan {
            staged: Staged {
                rows: None,
                elements,
            },
            columns,
        })
    }
}
