//! `sum_x eq(s, x) prod_j f_j(x)` over committed columns, the sumcheck that shows that some factor vanishes everywhere.
//!
//! The messages are those of the product with the equality as one more factor. Its bound variables are a scalar and the
//! round's variable is a line, so that a round needs one value less of a product of one factor less (ePrint 2024/108,
//! section 3); the first round is in the base field, where the columns are.

use crate::channel::Channel;
use crate::pack::{self, PackedE, PackedF, unpack};
use p3_field::{Field, PackedValue, PrimeCharacteristicRing};
use p3_maybe_rayon::prelude::*;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::generic_degree::RoundProver;
use std::cell::Cell;
use std::ops::{Mul, Range};
use tg_proof::field::{E, F, eq_table};
use tg_proof::messages::Sumcheck;
use tg_proof::sumcheck::Rounds;

/// Pairs of rows that one task adds up.
const TASK_PAIRS: usize = 256;

/// The factors over the variables that are not bound yet, and the equality over those after the next.
enum Factors {
    Base(Vec<Vec<F>>, Poly<PackedE>),
    Packed(Vec<Poly<PackedE>>, Poly<PackedE>),
    Scalar(Vec<Poly<E>>, Poly<E>),
}

struct ZeroProduct<'a> {
    /// The coordinates of s that are not bound yet.
    point: &'a [E],
    factors: Factors,
    /// Equality of the bound variables.
    scale: E,
    /// What the products with the equality of the other variables add up to.
    sum: E,
    /// How many factors there are.
    degree: usize,
    /// Polynomials of that degree.
    products: Rounds,
    /// What this round's products add up to, given the variable.
    messages: Cell<Option<(Vec<E>, E)>>,
}

/// Proves `sum_x eq(point, x) prod_j factors_j(x) = 0` for at least one factor; gives the final point and the factors there.
pub(crate) fn prove(
    point: &[E],
    factors: Vec<Vec<F>>,
    channel: &mut Channel,
) -> (Sumcheck, Vec<E>, Vec<E>) {
    let degree = factors.len();
    let rest = eq_table(point.get(1..).unwrap_or_default());
    let mut state = ZeroProduct {
        point,
        degree,
        products: Rounds::new(degree),
        // Without a variable there is nothing to bind, and the factors are values.
        factors: if rest.len() >= pack::WIDTH && !point.is_empty() {
            Factors::Base(factors, pack::poly(rest))
        } else {
            let lift = |column: Vec<F>| Poly::new(column.into_iter().map(E::from).collect());
            Factors::Scalar(factors.into_iter().map(lift).collect(), Poly::new(rest))
        },
        scale: E::ONE,
        sum: E::ZERO,
        messages: Cell::new(None),
    };
    let (proof, at) = channel.sumcheck(&mut state, (point.len(), degree + 1), E::ZERO);
    (proof, at, state.values())
}

/// `sum_x rest(x) prod_j f_j(t, x)` at t = 0, 2, 3, ..., the number of factors; at 1 instead of 0 if asked for.
fn sums<A, W>(factors: &[&[A]], rest: &[W], one: bool) -> Vec<W>
where
    A: PrimeCharacteristicRing + Copy + Send + Sync,
    W: PrimeCharacteristicRing + Copy + Send + Sync + Mul<A, Output = W>,
{
    let halves: Vec<(&[A], &[A])> = factors.iter().map(|f| f.split_at(rest.len())).collect();
    let part = |range: Range<usize>| {
        let mut sums = vec![W::ZERO; factors.len()];
        let mut products = vec![A::ONE; factors.len()];
        for x in range {
            products.fill(A::ONE);
            for (low, high) in &halves {
                let (low, high) = (low[x], high[x]);
                let step = high - low;
                products[0] *= if one { high } else { low };
                let mut value = high;
                for product in &mut products[1..] {
                    value += step;
                    *product *= value;
                }
            }
            for (sum, &product) in sums.iter_mut().zip(&products) {
                *sum += rest[x] * product;
            }
        }
        sums
    };
    pack::summed(rest.len(), TASK_PAIRS, part)
}

impl ZeroProduct<'_> {
    fn sums(&self, one: bool) -> Vec<E> {
        let lanes = |sums: Vec<PackedE>| sums.into_iter().map(|sum| pack::sum_lanes([sum]));
        match &self.factors {
            Factors::Base(factors, rest) => {
                let factors: Vec<&[PackedF]> =
                    factors.iter().map(|f| PackedF::pack_slice(f)).collect();
                lanes(sums(&factors, rest.as_slice(), one)).collect()
            }
            Factors::Packed(factors, rest) => {
                let factors: Vec<&[PackedE]> = factors.iter().map(Poly::as_slice).collect();
                lanes(sums(&factors, rest.as_slice(), one)).collect()
            }
            Factors::Scalar(factors, rest) => {
                let factors: Vec<&[E]> = factors.iter().map(Poly::as_slice).collect();
                sums(&factors, rest.as_slice(), one)
            }
        }
    }

    /// The factors at the final point.
    fn values(&self) -> Vec<E> {
        match &self.factors {
            Factors::Scalar(factors, _) => factors.iter().map(|f| f.as_slice()[0]).collect(),
            _ => Vec::new(),
        }
    }
}

impl RoundProver<E> for ZeroProduct<'_> {
    fn round_poly(&self) -> Vec<E> {
        let point = self.point[0];
        let own = self.sums(false);
        // sum = (1 - s) h(0) + s h(1); a coordinate 0 is as good as never drawn.
        let at_one = match point.try_inverse() {
            Some(inverse) => (self.sum - (E::ONE - point) * own[0]) * inverse,
            None => self.sums(true)[0],
        };
        let both = own[0] + at_one;
        let line = |at: usize| (E::ONE - point) + (point.double() - E::ONE) * F::from_usize(at);
        let last = self.degree + 1;
        let beyond = self
            .products
            .evaluate(&own, both, E::from(F::from_usize(last)));
        let places = std::iter::once(0).chain(2..=last);
        let values = own.iter().copied().chain([beyond]);
        let poly = places.zip(values);
        let poly = poly
            .map(|(at, value)| self.scale * line(at) * value)
            .collect();
        self.messages.set(Some((own, both)));
        poly
    }

    fn fold(&mut self, r: E) {
        let point = self.point[0];
        self.point = &self.point[1..];
        self.scale *= (E::ONE - point) * (E::ONE - r) + point * r;
        if let Some((own, both)) = self.messages.take() {
            self.sum = self.products.evaluate(&own, both, r);
        }
        let none = Factors::Scalar(Vec::new(), Poly::new(vec![E::ONE]));
        let factors = std::mem::replace(&mut self.factors, none);
        self.factors = factors.bind(r, self.point.is_empty());
    }
}

impl Factors {
    /// With the next variable bound, which may be the last.
    fn bind(self, r: E, last: bool) -> Self {
        let (factors, rest) = match self {
            Self::Base(factors, rest) => {
                let factors = factors.iter().map(|f| bind_base(f, r)).collect();
                (factors, rest)
            }
            Self::Packed(mut factors, rest) => {
                let bound = factors.iter_mut();
                bound.for_each(|f| f.fix_prefix_var_mut(PackedE::from(r)));
                (factors, rest)
            }
            Self::Scalar(mut factors, rest) => {
                factors.iter_mut().for_each(|f| f.fix_prefix_var_mut(r));
                let rest = if last { rest } else { sum_of_halves(&rest) };
                return Self::Scalar(factors, rest);
            }
        };
        if rest.num_evals() > 1 {
            return Self::Packed(factors, sum_of_halves(&rest));
        }
        // What is left are the variables within a vector.
        let rest = unpack(&rest);
        let rest = if last { rest } else { sum_of_halves(&rest) };
        Self::Scalar(factors.iter().map(unpack).collect(), rest)
    }
}

/// A column with its first variable bound.
fn bind_base(column: &[F], r: E) -> Poly<PackedE> {
    let column = PackedF::pack_slice(column);
    let (low, high) = column.split_at(column.len() / 2);
    let r = PackedE::from(r);
    let pairs = low.par_iter().zip(high).with_min_len(TASK_PAIRS);
    Poly::new(pairs.map(|(&low, &high)| r * (high - low) + low).collect())
}

/// An equality without its first variable: both of whose values add up to one.
fn sum_of_halves<A: PrimeCharacteristicRing + Copy + Send + Sync>(rest: &Poly<A>) -> Poly<A> {
    let (low, high) = rest.as_slice().split_at(rest.num_evals() / 2);
    Poly::new(low.iter().zip(high).map(|(&a, &b)| a + b).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sumcheck;
    use p3_field::BasedVectorSpace;
    use tg_exec::sample::Numbers;
    use tg_proof::transcript;
    use tg_types::ProgramId;

    fn channel() -> Channel {
        Channel::clear(transcript::registration(ProgramId::default()))
    }

    /// The messages are those of the product with the equality as one more factor, at every size and at points with zeros.
    #[test]
    fn messages_are_those_of_the_plain_product() {
        let mut numbers = Numbers::new(8);
        let mut element = || E::from_basis_coefficients_fn(|_| F::from_u64(numbers.next() >> 34));
        let drawn: Vec<E> = (0..9).map(|_| element()).collect();
        let mut numbers = Numbers::new(9);
        for vars in 0..=9 {
            for count in [1, 2, 4, 9] {
                let mut columns = vec![vec![F::ZERO; 1 << vars]; count];
                for row in 0..1 << vars {
                    let zero = numbers.next() as usize % count;
                    for (index, column) in columns.iter_mut().enumerate() {
                        let value = F::from_u64(numbers.next() % 511);
                        column[row] = if index == zero { F::ZERO } else { value };
                    }
                }
                let mut point = drawn[..vars].to_vec();
                if vars > 0 && count == 2 {
                    point[vars / 2] = E::ZERO;
                }
                let lifted = |column: &Vec<F>| column.iter().map(|&value| value.into()).collect();
                let mut plain = vec![eq_table(&point)];
                plain.extend(columns.iter().map(lifted));
                let expected = sumcheck::prove(plain, E::ZERO, &mut channel());
                let (proof, at, values) = prove(&point, columns, &mut channel());
                let name = format!("{vars} variables, {count} factors");
                assert_eq!(proof.claimed_sum, E::ZERO);
                assert_eq!(proof.round_polys, expected.0.round_polys, "{name}");
                assert_eq!(at, expected.1, "{name}");
                assert_eq!(values, expected.2[1..], "{name}");
            }
        }
    }
}
