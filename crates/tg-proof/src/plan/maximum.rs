//! Maxima and minima of few elements: of windows, and along rows or columns.

use super::LIMB_CLASS_LIMIT;
use super::PlanError;
use super::draft::{ColumnSet, Draft};
use super::stage::limb_classes;
use crate::algebra::arithmetic::Value;
use crate::algebra::field::{E, F};
use p3_field::PrimeCharacteristicRing;
use tg_ir::op::{self, Reduction};
use tg_ir::segment::LIMB_CLASS_MAX;
use tg_ir::{Axis, ElementType, Op, Program, TensorId, Window};

/// Most elements of a maximum that can be proved: the zero-check has one more degree than there are elements.
pub const MAXIMUM_POSITIONS_MAX: usize = 16;
/// Most bits of a difference: both sides of `m - z = delta` have one representative.
const DIFFERENCE_BITS_MAX: u32 = 29;

/// Of what a maximum is one, and what its columns are cut by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaximumShape {
    /// The window of input pixels of which each output is the greatest or least.
    pub window: Window,
    /// Whether it is the least.
    pub least: bool,
    /// What padding counts as: no element is less. There is none in a window whose least element is wanted.
    pub padding: i32,
    /// Classes of the limbs of a difference, least first. A kernel position has a column for each.
    pub classes: Vec<u32>,
}

impl MaximumShape {
    /// Columns: kernel positions times limbs.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.window.positions() * self.classes.len()
    }

    /// A difference from its limbs.
    #[must_use]
    pub fn joined<V: Value>(&self, limbs: &[V]) -> V {
        let places = limbs.iter().zip(0u32..);
        places
            .map(|(limb, place)| limb.clone() * F::from_u32(1 << (LIMB_CLASS_LIMIT * place)))
            .sum()
    }

    /// What the elements of a window must sum to under weights of the positions, `padding` being the weight of those in
    /// padding: each is the maximum less its difference, or the minimum and its difference.
    #[must_use]
    pub fn sum<V: Value>(&self, positions: &[E], padding: E, extreme: &V, differences: &[V]) -> V {
        let sign = if self.least { E::ONE } else { -E::ONE };
        let elements = differences.iter().zip(positions);
        let elements: V = elements
            .map(|(own, &weight)| (extreme.clone() + own.clone() * sign) * weight)
            .sum();
        elements - V::from(padding * E::from_i32(self.padding))
    }
}

/// A maximum with its columns.
#[derive(Debug)]
pub(super) struct MaximumPlan {
    pub(super) shape: MaximumShape,
    pub(super) first_group: usize,
    pub(super) columns: ColumnSet,
}

impl Draft {
    /// A maximum over windows, or a maximum or minimum along rows or columns.
    pub(super) fn plan_maximum(
        &mut self,
        program: &Program,
        node: usize,
        input: TensorId,
    ) -> Result<MaximumPlan, PlanError> {
        let unprovable = |why| PlanError::unprovable(program, node, why);
        let from = program.shape(input);
        let along = |kernel| Window::new(kernel, [1; 2], [0; 4]);
        let (window, least) = match &program.nodes[node].op {
            Op::MaxPool(op::MaxPool { window, .. }) => (*window, false),
            Op::Reduce(op::Reduce {
                axis, reduction, ..
            }) => {
                let kernel = match axis {
                    Axis::Rows => [from.height, 1],
                    Axis::Columns => [1, from.width],
                    // The plan of those along channels has columns per row.
                    Axis::Channels => {
                        return Err(unprovable("no proof of this operator exists yet"));
                    }
                };
                (along(kernel), *reduction == Reduction::Least)
            }
            _ => return Err(unprovable("no proof of this operator exists yet")),
        };
        if window.positions() > MAXIMUM_POSITIONS_MAX {
            return Err(unprovable("it compares more than 16 elements"));
        }
        let magnitude = self.magnitudes[input.index()];
        let bits = i64::BITS - (2 * magnitude).leading_zeros();
        let (classes, padding, limit) = match self.types[input.index()] {
            ElementType::I8 => (vec![LIMB_CLASS_MAX], -128, LIMB_CLASS_MAX),
            _ if bits > DIFFERENCE_BITS_MAX => {
                return Err(unprovable(
                    "it compares elements that differ by 2^29 or more",
                ));
            }
            _ => (limb_classes(bits), -(magnitude as i32), LIMB_CLASS_LIMIT),
        };
        let shape = MaximumShape {
            window,
            least,
            padding,
            classes,
        };
        let limbs = self.limb_table(program, node, limit)?;
        // All differences once more, at the point of their zero-check.
        let openings = [(0..shape.columns()).collect()];
        let columns = self.add_columns(
            program,
            node,
            self.layouts[node + 1],
            shape.columns(),
            &openings,
        )?;
        let first_group = self.groups.len();
        for column in 0..shape.columns() {
            let class = shape.classes[column % shape.classes.len()];
            let offset = (1 << class) - 1;
            self.add_reader(program, node, (&columns, column), (limbs, offset))?;
        }
        Ok(MaximumPlan {
            shape,
            first_group,
            columns,
        })
    }
}
