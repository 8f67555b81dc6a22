//! How columns and the blocks that hide them stand in one polynomial.

use crate::algebra::field::{E, EXTENSION_DEGREE, basis};
use crate::algebra::layout::log2_ceil;
use p3_field::PrimeCharacteristicRing;

/// Variables of the block of uniform cells that hides the value of a stacked polynomial at a drawn point. That value is
/// uniform unless the eq of the point at the block's 128 cells span less than E over F.
pub(super) const BLINDING_VARS: usize = 7;
/// Variables of a coefficient's number: at most 2^6 coefficients of the mask of a sumcheck, one and two per round.
pub const COEFFICIENT_VARS: usize = 6;
/// Variables of a coefficient's cells.
const CELL_VARS: usize = 3;
/// Variables of the block of both vectors of coefficients.
const MASK_VARS: usize = 1 + CELL_VARS + COEFFICIENT_VARS;
/// Least variables of a stacked polynomial: its first code has room for as many random rows as are opened.
pub const STACK_VARS_MIN: usize = 11;

/// The columns of one hiding commitment in the caller's order: column c has 2^vars\[c\] cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Variables per column.
    pub vars: Vec<usize>,
}

/// Where a column stands in its stacked polynomial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// First cell, a multiple of 2^vars.
    pub start: usize,
    /// Variables.
    pub vars: usize,
}

/// How the columns of a commitment and the blocks that hide it are stacked into one polynomial, largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// Per column its place.
    pub columns: Vec<Place>,
    /// The coefficients of the sumcheck's mask, in the first commitment.
    pub mask: Option<Place>,
    /// The random rows of a commitment that is opened more than once: the first cell, and log2 of the cells of a row. All
    /// cells from there on are uniform.
    rows: Option<(usize, usize)>,
    /// The cells that hide the value at a drawn point.
    pub blinding: Place,
    /// Variables of the stacked polynomial.
    pub vars: usize,
}

impl Stack {
    pub(super) fn of(columns: &Columns, masked: bool) -> Self {
        let blocks = [(BLINDING_VARS, true), (MASK_VARS, masked)];
        let blocks = blocks
            .iter()
            .filter(|(_, used)| *used)
            .map(|(vars, _)| *vars);
        let vars: Vec<usize> = columns.vars.iter().copied().chain(blocks).collect();
        let (mut places, start) = Self::place(&vars);
        let mask = masked.then(|| places.pop()).flatten();
        let blinding = places.pop().unwrap_or(Place { start: 0, vars: 0 });
        Self {
            columns: places,
            mask,
            rows: None,
            blinding,
            vars: log2_ceil(start.min(1 << 30)).max(STACK_VARS_MIN),
        }
    }

    /// Columns one after the other, largest first; the cell after the last.
    pub(super) fn place(vars: &[usize]) -> (Vec<Place>, usize) {
        let mut order: Vec<usize> = (0..vars.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(vars[index]));
        let mut places = vec![Place { start: 0, vars: 0 }; vars.len()];
        let mut start = 0usize;
        for index in order {
            let vars = vars[index];
            places[index] = Place { start, vars };
            start = start.saturating_add(1usize.checked_shl(vars as u32).unwrap_or(usize::MAX));
        }
        (places, start)
    }

    /// Columns in their places, and random rows.
    pub(super) const fn kept(columns: Vec<Place>, rows: (usize, usize), vars: usize) -> Self {
        Self {
            columns,
            mask: None,
            rows: Some(rows),
            blinding: Place { start: 0, vars: 0 },
            vars,
        }
    }

    /// The first cell of the random rows and log2 of the cells of a row, if there are some.
    #[must_use]
    pub const fn rows(&self) -> Option<(usize, usize)> {
        self.rows
    }

    /// A point of the stack as one of the committed polynomial: with random rows the variables within a row lead.
    #[must_use]
    pub fn committed_point(&self, at: &[E]) -> Vec<E> {
        let within = self.rows.map_or(0, |(_, fold)| fold);
        let (row, within) = at.split_at(at.len() - within);
        [within, row].concat()
    }

    /// The point of the stacked polynomial whose value is `(1 - t) c~(z) + t d~(z)`, c and d the two vectors of
    /// coefficients.
    #[must_use]
    pub fn mask_point(&self, t: E, z: &[E]) -> Vec<E> {
        let start = self.mask.map_or(0, |mask| mask.start) >> MASK_VARS;
        let high = (0..self.vars - MASK_VARS).rev();
        let high =
            high.map(|bit| E::from(crate::algebra::field::F::from_bool(start >> bit & 1 == 1)));
        let cells = coefficient_point();
        high.chain([t])
            .chain(cells)
            .chain(z.iter().copied())
            .collect()
    }

    /// The cell of one coefficient: of c or d (`second`), its number, and which of its cells.
    #[must_use]
    pub fn mask_cell(&self, second: bool, coefficient: usize, cell: usize) -> usize {
        let start = self.mask.map_or(0, |mask| mask.start);
        start + ((usize::from(second) << CELL_VARS | cell) << COEFFICIENT_VARS | coefficient)
    }
}

/// A coefficient of a mask is the extension of its eight base cells at this point. The products of its coordinates span
/// E (1, X, X^2, X X^2, X^4), so that uniform cells give a uniform coefficient.
pub(super) fn coefficient_point() -> [E; CELL_VARS] {
    const _: () = assert!(EXTENSION_DEGREE == 5);
    [basis(1), basis(2), basis(4)]
}

/// Per cell its weight in a coefficient.
#[must_use]
pub fn coefficient_weights() -> Vec<E> {
    crate::algebra::field::eq_table(&coefficient_point())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Places are aligned, disjoint and within the stack, whatever the order of sizes.
    #[test]
    fn columns_and_blocks_have_places_of_their_own() {
        for vars in [vec![], vec![0, 0, 3], vec![3, 12, 7, 12], vec![10; 5]] {
            for masked in [false, true] {
                let stack = Stack::of(&Columns { vars: vars.clone() }, masked);
                let blocks = stack
                    .columns
                    .iter()
                    .chain(&stack.mask)
                    .chain([&stack.blinding]);
                let mut taken = vec![false; 1 << stack.vars];
                for place in blocks {
                    assert_eq!(place.start % (1 << place.vars), 0);
                    for cell in &mut taken[place.start..place.start + (1 << place.vars)] {
                        assert!(!std::mem::replace(cell, true));
                    }
                }
                assert_eq!(stack.mask.is_some(), masked);
            }
        }
    }

    /// The weights of a coefficient's cells span the extension: a matrix of their coefficients has rank five.
    #[test]
    fn uniform_cells_give_uniform_coefficients() {
        use p3_field::{BasedVectorSpace, Field};
        let mut rows: Vec<Vec<crate::algebra::field::F>> = coefficient_weights()
            .iter()
            .map(|weight| weight.as_basis_coefficients_slice().to_vec())
            .collect();
        let mut rank = 0;
        for column in 0..EXTENSION_DEGREE {
            let Some(pivot) = (rank..rows.len()).find(|&row| !rows[row][column].is_zero()) else {
                continue;
            };
            rows.swap(rank, pivot);
            let (own, inverse) = (rows[rank].clone(), rows[rank][column].inverse());
            for row in &mut rows[rank + 1..] {
                let factor = row[column] * inverse;
                row.iter_mut()
                    .zip(&own)
                    .for_each(|(a, &b)| *a -= factor * b);
            }
            rank += 1;
        }
        assert_eq!(rank, EXTENSION_DEGREE);
    }
}
