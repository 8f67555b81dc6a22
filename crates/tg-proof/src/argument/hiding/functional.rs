//! Public linear functionals of the committed columns.

use super::stack::Stack;
use crate::algebra::field::{E, EXTENSION_DEGREE, F, basis, eq, eq_at, eq_table, eq_values};
use crate::algebra::layout::WeightTable;
use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};
use std::collections::BTreeMap;

/// A public linear functional W of the columns of one hiding commitment. Terms add up, in any order.
///
/// A column with index c has 2^v cells, v as the shape was told; all indices and points must be those of the shape.
#[derive(Debug, Clone, Default)]
pub struct Functional {
    evaluations: Vec<(usize, Vec<E>, E)>,
    /// Per column coefficients of its first cells.
    cells: BTreeMap<usize, Vec<E>>,
    /// Per column of [`extension_cells`] coefficients of its first elements: a fifth of what their cells would take.
    elements: BTreeMap<usize, Vec<E>>,
    /// Column, which of its cells are padding, point and coefficient.
    paddings: Vec<(usize, WeightTable, Vec<E>, E)>,
}

impl Functional {
    /// Adds `coefficient * column~(point)`; coordinate 0 is the most significant bit of a cell's index.
    pub fn add_evaluation(&mut self, column: usize, point: &[E], coefficient: E) {
        self.evaluations.push((column, point.to_vec(), coefficient));
    }

    /// Adds `coefficient * sum_x column[x] pad(x) eq(point, x)`, pad being 1 where a table of weights is padded.
    pub fn add_padding(&mut self, column: usize, table: &WeightTable, point: &[E], coefficient: E) {
        let padding = (column, table.clone(), point.to_vec(), coefficient);
        self.paddings.push(padding);
    }

    /// Adds `coefficient * column[cell]`.
    pub fn add_cell(&mut self, column: usize, cell: usize, coefficient: E) {
        add_at(&mut self.cells, (column, cell), coefficient);
    }

    /// Adds `coefficient * element`, the element being that with this index in a column of [`extension_cells`].
    pub fn add_extension(&mut self, column: usize, index: usize, coefficient: E) {
        add_at(&mut self.elements, (column, index), coefficient);
    }

    /// Adds a multiple of another functional.
    pub fn add_scaled(&mut self, other: &Self, factor: E) {
        for (column, point, coefficient) in &other.evaluations {
            self.add_evaluation(*column, point, *coefficient * factor);
        }
        for (&column, cells) in &other.cells {
            for (cell, &coefficient) in cells.iter().enumerate() {
                self.add_cell(column, cell, coefficient * factor);
            }
        }
        for (&column, elements) in &other.elements {
            for (index, &coefficient) in elements.iter().enumerate() {
                self.add_extension(column, index, coefficient * factor);
            }
        }
        for (column, table, point, coefficient) in &other.paddings {
            self.add_padding(*column, table, point, *coefficient * factor);
        }
    }

    /// Whether every term is about a cell or a point of the stack's columns.
    pub(super) fn fits(&self, stack: &Stack) -> bool {
        let vars = |column: usize| stack.columns.get(column).map(|place| place.vars);
        self.evaluations
            .iter()
            .all(|(column, point, _)| vars(*column) == Some(point.len()))
            && self
                .cells
                .iter()
                .all(|(&column, cells)| vars(column).is_some_and(|vars| cells.len() <= 1 << vars))
            && self.elements.iter().all(|(&column, elements)| {
                let cells = EXTENSION_DEGREE * elements.len();
                vars(column).is_some_and(|vars| cells <= 1 << vars)
            })
            && self.paddings.iter().all(|(column, table, point, _)| {
                vars(*column) == Some(point.len()) && table.vars() == point.len()
            })
    }

    /// Its extension at a point of the stacked polynomial.
    pub(super) fn at(&self, stack: &Stack, at: &[E]) -> E {
        let place = |column: usize| {
            let place = stack.columns[column];
            let (high, rest) = at.split_at(at.len() - place.vars);
            (eq_at(high, place.start >> place.vars), rest)
        };
        let evaluations = self.evaluations.iter().map(|(column, point, coefficient)| {
            let (scale, rest) = place(*column);
            scale * *coefficient * eq(point, rest)
        });
        let cells = self.cells.iter().map(|(&column, cells)| {
            let (scale, rest) = place(column);
            let terms = cells.iter().zip(eq_values(rest));
            scale * terms.map(|(&a, b)| a * b).sum::<E>()
        });
        let powers: [E; EXTENSION_DEGREE] = std::array::from_fn(basis);
        let elements = self.elements.iter().map(|(&column, elements)| {
            let (scale, rest) = place(column);
            let mut weights = eq_values(rest);
            let mut weight = || -> E {
                let cells = powers.iter().zip(&mut weights);
                cells.map(|(&power, eq)| power * eq).sum()
            };
            let terms = elements.iter().map(|&coefficient| coefficient * weight());
            scale * terms.sum::<E>()
        });
        let paddings = self.paddings.iter();
        let paddings = paddings.map(|(column, table, point, coefficient)| {
            let (scale, rest) = place(*column);
            scale * *coefficient * table.padding_at(point, rest)
        });
        let cells = cells.chain(elements);
        evaluations.chain(cells).chain(paddings).sum()
    }

    /// One weight per cell of the stacked polynomial.
    ///
    /// # Panics
    /// If a term is about no cell or point of the stack's columns.
    #[must_use]
    pub fn table(&self, stack: &Stack) -> Vec<E> {
        assert!(self.fits(stack), "a functional of these columns");
        let mut table = vec![E::ZERO; 1 << stack.vars];
        for (column, point, coefficient) in &self.evaluations {
            let start = stack.columns[*column].start;
            let weights = table[start..].iter_mut().zip(eq_table(point));
            weights.for_each(|(weight, eq)| *weight += *coefficient * eq);
        }
        for (&column, cells) in &self.cells {
            let start = stack.columns[column].start;
            let weights = table[start..].iter_mut().zip(cells);
            weights.for_each(|(weight, &coefficient)| *weight += coefficient);
        }
        for (&column, elements) in &self.elements {
            let start = stack.columns[column].start;
            let (cells, _) = table[start..].as_chunks_mut::<EXTENSION_DEGREE>();
            for (cells, &coefficient) in cells.iter_mut().zip(elements) {
                for (degree, weight) in cells.iter_mut().enumerate() {
                    *weight += coefficient * basis(degree);
                }
            }
        }
        for (column, of, point, coefficient) in &self.paddings {
            let start = stack.columns[*column].start;
            let weights = table[start..].iter_mut().zip(of.padding_weights(point));
            weights.for_each(|(weight, padding)| *weight += *coefficient * padding);
        }
        table
    }
}

/// Adds to one of the coefficients of a column; those before it are zero if there are none yet.
fn add_at(
    coefficients: &mut BTreeMap<usize, Vec<E>>,
    (column, place): (usize, usize),
    coefficient: E,
) {
    let own = coefficients.entry(column).or_default();
    if own.len() <= place {
        own.resize(place + 1, E::ZERO);
    }
    own[place] += coefficient;
}

/// The cells of a vector of elements, five each, its coefficients in ascending order; zeros up to 2^vars.
///
/// # Panics
/// If they are more than 2^vars.
#[must_use]
pub fn extension_cells(values: &[E], vars: usize) -> Vec<F> {
    let mut cells = Vec::with_capacity(1 << vars);
    for value in values {
        cells.extend_from_slice(value.as_basis_coefficients_slice());
    }
    assert!(cells.len() <= 1 << vars, "more cells than the column has");
    cells.resize(1 << vars, F::ZERO);
    cells
}
