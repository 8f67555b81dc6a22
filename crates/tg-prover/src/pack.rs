//! Vectors of field elements, and tasks for every core.

use p3_field::{ExtensionField, Field, PackedFieldExtension, PackedValue, PrimeCharacteristicRing};
use p3_maybe_rayon::prelude::*;
use p3_multilinear_util::poly::Poly;
#[cfg(test)]
use p3_multilinear_util::poly::PolyMaybePacked;
use std::ops::Range;
use tg_proof::field::{E, F};

/// Vectors of base field elements.
pub(crate) type PackedF = <F as Field>::Packing;
/// Vectors of extension elements.
pub(crate) type PackedE = <E as ExtensionField<F>>::ExtensionPacking;
/// Elements of a vector.
pub(crate) const WIDTH: usize = <PackedF as PackedValue>::WIDTH;

/// Values over the hypercube as vectors; there are at least [`WIDTH`].
pub(crate) fn poly(values: Vec<E>) -> Poly<PackedE> {
    Poly::new(values).pack::<F, E>()
}

/// Values over the hypercube in the library's form for the fractional sum.
#[cfg(test)]
pub(crate) fn maybe(values: Vec<E>) -> PolyMaybePacked<F, E> {
    PolyMaybePacked::Packed(poly(values))
}

/// Vectors as values.
pub(crate) fn unpack(values: &Poly<PackedE>) -> Poly<E> {
    values.unpack::<F, E>()
}

/// `0..count` in ranges of at least `least`, so many that every core has some.
pub(crate) fn tasks(count: usize, least: usize) -> Vec<Range<usize>> {
    let step = count.div_ceil(64).max(least).max(1);
    (0..count)
        .step_by(step)
        .map(|start| start..(start + step).min(count))
        .collect()
}

/// Lists of sums over ranges of `0..count`, made on every core and added up; none if the count is zero.
pub(crate) fn summed<A>(
    count: usize,
    least: usize,
    part: impl Fn(Range<usize>) -> Vec<A> + Send + Sync,
) -> Vec<A>
where
    A: PrimeCharacteristicRing + Copy + Send,
{
    let parts: Vec<Vec<A>> = tasks(count, least).into_par_iter().map(part).collect();
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |sums, part| {
        sums.into_iter().zip(part).map(|(a, b)| a + b).collect()
    })
}

/// The values of each factor where its first variable is 0, and where it is 1.
pub(crate) fn halves<A: Copy + Send + Sync>(factors: &[Poly<A>]) -> Vec<(&[A], &[A])> {
    let halves = factors.iter().map(Poly::as_slice);
    halves
        .map(|values| values.split_at(values.len() / 2))
        .collect()
}

/// `sum_i values[i] * weights[i]`, the weights as vectors; both have as many elements.
pub(crate) fn inner_product(values: &[F], weights: &[PackedE]) -> E {
    let values = PackedF::pack_slice(values);
    let parts: Vec<PackedE> = tasks(weights.len(), 1 << 10)
        .into_par_iter()
        .map(|range| {
            let terms = weights[range.clone()].iter().zip(&values[range]);
            terms.map(|(&weight, &value)| weight * value).sum()
        })
        .collect();
    sum_lanes(parts)
}

/// The sum of all lanes of some vectors.
pub(crate) fn sum_lanes(vectors: impl IntoIterator<Item = PackedE>) -> E {
    <PackedE as PackedFieldExtension<F, E>>::to_ext_iter(vectors).sum()
}
