//! Round provers of the sumchecks, vectorised and on every core.

use crate::channel::Channel;
use crate::pack::{self, PackedE, unpack};
use p3_field::PrimeCharacteristicRing;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::generic_degree::RoundProver;
use tg_proof::field::E;
use tg_proof::messages::Sumcheck;

/// `sum_x prod_j factors_j(x)`, vectorised as long as there is more than one vector.
#[derive(Debug)]
enum Product {
    Packed(Vec<Poly<PackedE>>),
    Scalar(Vec<Poly<E>>),
}

impl Product {
    fn new(factors: Vec<Vec<E>>) -> Self {
        let packed = factors.iter().all(|factor| factor.len() > pack::WIDTH);
        if packed {
            Self::Packed(factors.into_iter().map(pack::poly).collect())
        } else {
            Self::Scalar(factors.into_iter().map(Poly::new).collect())
        }
    }

    fn rounds(&self) -> usize {
        match self {
            Self::Packed(factors) => factors[0].num_variables() + pack::WIDTH.ilog2() as usize,
            Self::Scalar(factors) => factors[0].num_variables(),
        }
    }

    /// The factors at the final point.
    fn values(&self) -> Vec<E> {
        match self {
            Self::Packed(_) => Vec::new(),
            Self::Scalar(factors) => factors.iter().map(|factor| factor.as_slice()[0]).collect(),
        }
    }
}

impl RoundProver<E> for Product {
    fn fold(&mut self, r: E) {
        match self {
            Self::Packed(factors) => {
                for factor in factors.iter_mut() {
                    factor.fix_prefix_var_mut(PackedE::from(r));
                }
                if factors[0].num_evals() == 1 {
                    *self = Self::Scalar(factors.iter().map(unpack).collect());
                }
            }
            Self::Scalar(factors) => factors
                .iter_mut()
                .for_each(|factor| factor.fix_prefix_var_mut(r)),
        }
    }

    fn round_poly(&self) -> Vec<E> {
        match self {
            Self::Packed(factors) => round_poly(factors)
                .into_iter()
                .map(|value| pack::sum_lanes([value]))
                .collect(),
            Self::Scalar(factors) => round_poly(factors),
        }
    }
}

/// The sum of products at 0, 2, 3, ... up to the number of factors.
fn round_poly<A>(factors: &[Poly<A>]) -> Vec<A>
where
    A: PrimeCharacteristicRing + Copy + Send + Sync,
{
    let halves = pack::halves(factors);
    pack::summed(halves[0].0.len(), 256, |range| match halves.as_slice() {
        [a, b] => pair_sums(a, b, range),
        many => many_sums(many, range),
    })
}

fn pair_sums<A: PrimeCharacteristicRing + Copy>(
    a: &(&[A], &[A]),
    b: &(&[A], &[A]),
    range: std::ops::Range<usize>,
) -> Vec<A> {
    let (mut at_0, mut at_2) = (A::ZERO, A::ZERO);
    let (a_low, a_high) = (&a.0[range.clone()], &a.1[range.clone()]);
    let (b_low, b_high) = (&b.0[range.clone()], &b.1[range]);
    for (((&a0, &a1), &b0), &b1) in a_low.iter().zip(a_high).zip(b_low).zip(b_high) {
        at_0 += a0 * b0;
        at_2 += (a1.double() - a0) * (b1.double() - b0);
    }
    vec![at_0, at_2]
}

fn many_sums<A: PrimeCharacteristicRing + Copy>(
    factors: &[(&[A], &[A])],
    range: std::ops::Range<usize>,
) -> Vec<A> {
    let degree = factors.len();
    let mut sums = vec![A::ZERO; degree];
    let mut products = vec![A::ONE; degree];
    for x in range {
        products.fill(A::ONE);
        for (low, high) in factors {
            let (low, high) = (low[x], high[x]);
            let step = high - low;
            products[0] *= low;
            let mut value = high;
            for product in &mut products[1..] {
                value += step;
                *product *= value;
            }
        }
        for (sum, &product) in sums.iter_mut().zip(&products) {
            *sum += product;
        }
    }
    sums
}

pub(crate) fn prove(
    factors: Vec<Vec<E>>,
    sum: E,
    channel: &mut Channel,
) -> (Sumcheck, Vec<E>, Vec<E>) {
    let degree = factors.len();
    let mut state = Product::new(factors);
    let rounds = state.rounds();
    let (proof, point) = channel.sumcheck(&mut state, (rounds, degree), sum);
    (proof, point, state.values())
}

/// Proves `sum_x a(x) b(x) = sum` and returns the point and both factors there.
pub(crate) fn product(
    a: Vec<E>,
    b: Vec<E>,
    sum: E,
    channel: &mut Channel,
) -> (Sumcheck, Vec<E>, [E; 2]) {
    let (proof, point, values) = prove(vec![a, b], sum, channel);
    (proof, point, [values[0], values[1]])
}

/// Proves `sum_x a(x) b(x) c(x) = sum` and returns the point and the factors there.
pub(crate) fn triple(
    factors: [Vec<E>; 3],
    sum: E,
    channel: &mut Channel,
) -> (Sumcheck, Vec<E>, [E; 3]) {
    let (proof, point, values) = prove(factors.into(), sum, channel);
    (proof, point, [values[0], values[1], values[2]])
}

/// A sum of products, all over one hypercube.
struct Terms(Vec<Product>);

impl RoundProver<E> for Terms {
    fn fold(&mut self, r: E) {
        self.0.iter_mut().for_each(|term| term.fold(r));
    }

    fn round_poly(&self) -> Vec<E> {
        let mut terms = self.0.iter().map(Product::round_poly);
        let first = terms.next().unwrap_or_default();
        terms.fold(first, |sums, term| {
            sums.into_iter().zip(term).map(|(a, b)| a + b).collect()
        })
    }
}

/// Proves `sum_x sum_t a_t(x) b_t(x) = sum` and returns the point and the first factors there.
pub(crate) fn products(
    terms: Vec<(Vec<E>, Vec<E>)>,
    sum: E,
    channel: &mut Channel,
) -> (Sumcheck, Vec<E>, Vec<E>) {
    let terms = terms.into_iter().map(|(a, b)| Product::new(vec![a, b]));
    let mut state = Terms(terms.collect());
    let rounds = state.0[0].rounds();
    let (proof, point) = channel.sumcheck(&mut state, (rounds, 2), sum);
    let values = state.0.iter().map(|term| term.values()[0]).collect();
    (proof, point, values)
}
