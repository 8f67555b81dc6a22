//! Round provers of the sumchecks.

use p3_field::PrimeCharacteristicRing;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::generic_degree::RoundProver;
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, F};
use tg_proof::messages::Sumcheck;

/// `sum_x a(x) b(x)`.
#[derive(Debug)]
struct Product {
    a: Poly<E>,
    b: Poly<E>,
}

impl RoundProver<E> for Product {
    fn fold(&mut self, r: E) {
        self.a.fix_prefix_var_mut(r);
        self.b.fix_prefix_var_mut(r);
    }

    fn round_poly(&self) -> Vec<E> {
        let half = self.a.num_evals() / 2;
        let (a_low, a_high) = self.a.as_slice().split_at(half);
        let (b_low, b_high) = self.b.as_slice().split_at(half);
        let (mut at_0, mut at_2) = (E::ZERO, E::ZERO);
        for (((&a0, &a1), &b0), &b1) in a_low.iter().zip(a_high).zip(b_low).zip(b_high) {
            at_0 += a0 * b0;
            at_2 += (a1.double() - a0) * (b1.double() - b0);
        }
        vec![at_0, at_2]
    }
}

/// Proves `sum_x a(x) b(x) = sum` and returns the point and both factors there.
pub(crate) fn product(
    a: Vec<E>,
    b: Vec<E>,
    sum: E,
    challenger: &mut Challenger,
) -> (Sumcheck, Vec<E>, [E; 2]) {
    let mut state = Product {
        a: Poly::new(a),
        b: Poly::new(b),
    };
    let rounds = state.a.num_variables();
    let (proof, point) = state.prove::<F, _>(challenger, rounds, 2, 0, sum);
    let factors = [state.a.as_slice()[0], state.b.as_slice()[0]];
    (proof, point.as_slice().to_vec(), factors)
}

/// `sum_x prod_j factors_j(x)`.
#[derive(Debug)]
struct ManyProduct {
    factors: Vec<Poly<E>>,
}

impl RoundProver<E> for ManyProduct {
    fn fold(&mut self, r: E) {
        self.factors
            .iter_mut()
            .for_each(|factor| factor.fix_prefix_var_mut(r));
    }

    fn round_poly(&self) -> Vec<E> {
        let degree = self.factors.len();
        let half = self.factors[0].num_evals() / 2;
        let mut sums = vec![E::ZERO; degree + 1];
        let mut products = vec![E::ONE; degree + 1];
        for x in 0..half {
            products.fill(E::ONE);
            for factor in &self.factors {
                let (low, high) = (factor.as_slice()[x], factor.as_slice()[x + half]);
                let (mut value, step) = (low, high - low);
                for product in &mut products {
                    *product *= value;
                    value += step;
                }
            }
            sums.iter_mut()
                .zip(&products)
                .for_each(|(sum, &product)| *sum += product);
        }
        let _at_1 = sums.remove(1);
        sums
    }
}

/// Proves `sum_x prod_j factors_j(x) = 0` and returns the point and the factors there.
pub(crate) fn zero_product(
    factors: Vec<Vec<E>>,
    challenger: &mut Challenger,
) -> (Sumcheck, Vec<E>, Vec<E>) {
    let mut state = ManyProduct {
        factors: factors.into_iter().map(Poly::new).collect(),
    };
    let (rounds, degree) = (state.factors[0].num_variables(), state.factors.len());
    let (proof, point) = state.prove::<F, _>(challenger, rounds, degree, 0, E::ZERO);
    let values = state
        .factors
        .iter()
        .map(|factor| factor.as_slice()[0])
        .collect();
    (proof, point.as_slice().to_vec(), values)
}
