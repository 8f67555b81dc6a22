//! The field of all relations, its extension, and multilinear evaluation.

use p3_field::extension::QuinticTrinomialExtensionField;
use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};
use p3_koala_bear::KoalaBear;
use p3_multilinear_util::point::Point;
use p3_multilinear_util::poly::Poly;

/// KoalaBear, p = 2^31 - 2^24 + 1.
pub type F = KoalaBear;
/// The quintic extension of [`F`], more than 154 bits.
pub type E = QuinticTrinomialExtensionField<F>;

/// The representative of a signed integer with |v| <= (p-1)/2.
#[must_use]
pub fn signed(value: i64) -> F {
    let magnitude = F::from_u64(value.unsigned_abs());
    if value < 0 { -magnitude } else { magnitude }
}

/// All values `eq(point, x)`, x over the hypercube, coordinate 0 most significant.
#[must_use]
pub fn eq_table(point: &[E]) -> Vec<E> {
    if point.is_empty() {
        vec![E::ONE]
    } else {
        Poly::<E>::new_from_point(point, E::ONE).into_evals()
    }
}

/// `eq(p, q)` for two points of one length.
#[must_use]
pub fn eq(p: &[E], q: &[E]) -> E {
    debug_assert_eq!(p.len(), q.len());
    p.iter()
        .zip(q)
        .map(|(&a, &b)| (a * b).double() + E::ONE - a - b)
        .product()
}

/// `eq(point, index)` for a vertex of the hypercube.
#[must_use]
pub fn eq_at(point: &[E], index: usize) -> E {
    let last = point.len();
    point
        .iter()
        .enumerate()
        .map(|(i, &coordinate)| {
            if index >> (last - 1 - i) & 1 == 1 {
                coordinate
            } else {
                E::ONE - coordinate
            }
        })
        .product()
}

/// `eq(point, index)` for all vertices of the hypercube, in the order of [`eq_table`], from two tables of about the square
/// root of their number: for what is looked at once and is large.
pub fn eq_values(point: &[E]) -> impl Iterator<Item = E> {
    let (high, low) = point.split_at(point.len() / 2);
    let (vars, high, low) = (low.len(), eq_table(high), eq_table(low));
    (0..1usize << point.len()).map(move |at| high[at >> vars] * low[at & ((1 << vars) - 1)])
}

/// `sum over x < count of eq(at, x)`.
#[must_use]
pub fn eq_prefix(at: &[E], count: usize) -> E {
    if count >> at.len() != 0 {
        return E::ONE;
    }
    let (mut sum, mut matched) = (E::ZERO, E::ONE);
    for (i, &coordinate) in at.iter().enumerate() {
        if count >> (at.len() - 1 - i) & 1 == 1 {
            sum += matched * (E::ONE - coordinate);
            matched *= coordinate;
        } else {
            matched *= E::ONE - coordinate;
        }
    }
    sum
}

/// The multilinear extension of `x -> x` (as an integer) at a point.
#[must_use]
pub fn identity_at(point: &[E]) -> E {
    point
        .iter()
        .fold(E::ZERO, |value, &coordinate| value.double() + coordinate)
}

/// The multilinear extension of a table of extension values, shorter than the cube by implied zeros.
#[must_use]
pub fn evaluate(table: &[E], point: &[E]) -> E {
    table
        .iter()
        .zip(eq_values(point))
        .map(|(&value, weight)| value * weight)
        .sum()
}

/// `<table, weights>`.
#[must_use]
pub fn inner_product(table: &[F], weights: &[E]) -> E {
    table
        .iter()
        .zip(weights)
        .map(|(&value, &weight)| weight * value)
        .sum()
}

/// The element whose coefficient of one degree is 1.
#[must_use]
pub fn basis(degree: usize) -> E {
    E::from_basis_coefficients_fn(|own| F::from_bool(own == degree))
}

/// A point of the library from our slice.
#[must_use]
pub fn point(coordinates: &[E]) -> Point<E> {
    Point::new(coordinates.to_vec())
}

/// A claim's point for a column that is padded in front.
#[must_use]
pub fn padded_point(at: &[E], vars: usize) -> Point<E> {
    point(&[vec![E::ZERO; vars - at.len()], at.to_vec()].concat())
}

/// The number of base coefficients of an extension element.
pub const EXTENSION_DEGREE: usize = <E as BasedVectorSpace<F>>::DIMENSION;
