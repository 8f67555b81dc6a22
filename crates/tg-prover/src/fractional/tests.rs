//! Our prover against the library's, message by message.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{Leaves, LeavesBuilder, prove, prove_sum, sum};
use crate::channel::Channel;
use p3_challenger::{CanObserve, FieldChallenger};
use p3_field::{Field, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::{
    Fraction, FractionGkrProof, LeafNumerator, prove_fractional_gkr, verify_fractional_gkr,
};
use p3_multilinear_util::poly::{Poly, PolyMaybePacked};
use tg_proof::arithmetic::Clear;
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, F, eq_table};
use tg_proof::fractional::{self, LeafClaim};
use tg_proof::receiver::Receiver;
use tg_proof::transcript::{self, absorb, draw};
use tg_types::ProgramId;

/// A challenger to draw from, and to prove with.
fn challenger(seed: u32) -> Challenger {
    let mut challenger = transcript::registration(ProgramId::default());
    challenger.observe(F::from_u32(seed));
    challenger
}

/// Blocks of random columns and fractions of these sizes, largest first; all of them but their padding as vectors.
struct Example {
    vars: usize,
    columns: Vec<(E, Vec<E>, E, Vec<F>)>,
    given: Vec<(Vec<E>, Vec<E>)>,
    /// In which order they come: true for a column.
    order: Vec<bool>,
}

impl Example {
    fn new(vars: usize, blocks: &[(usize, bool)]) -> Self {
        let mut from = challenger(vars as u32);
        let mut example = Self {
            vars,
            columns: Vec::new(),
            given: Vec::new(),
            order: blocks.iter().map(|&(_, column)| column).collect(),
        };
        for &(block_vars, column) in blocks {
            let random = |from: &mut Challenger, count: usize| -> Vec<E> {
                (0..count).map(|_| draw(from)).collect()
            };
            if column {
                let (weight, pole) = (draw(&mut from), draw(&mut from));
                let point = random(&mut from, block_vars);
                let values = (0..1u32 << block_vars).map(|i| F::from_u32(i * i % 1009));
                example
                    .columns
                    .push((weight, point, pole, values.collect()));
            } else {
                let [n, d] = [0, 1].map(|_| random(&mut from, 1 << block_vars));
                example.given.push((n, d));
            }
        }
        example.close();
        example
    }

    /// Changes the last fraction so that all add up to zero.
    fn close(&mut self) {
        let (n, d) = self.vectors();
        let total: E = n.iter().zip(&d).map(|(&n, d)| n * d.inverse()).sum();
        let (n, d) = self.given.last_mut().unwrap();
        *n.last_mut().unwrap() -= total * *d.last().unwrap();
    }

    fn vectors(&self) -> (Vec<E>, Vec<E>) {
        let (mut n, mut d) = (Vec::new(), Vec::new());
        let (mut columns, mut given) = (self.columns.iter(), self.given.iter());
        for &column in &self.order {
            if column {
                let (weight, point, pole, values) = columns.next().unwrap();
                n.extend(eq_table(point).into_iter().map(|eq| *weight * eq));
                d.extend(values.iter().map(|&value| *pole - value));
            } else {
                let (numerators, denominators) = given.next().unwrap();
                n.extend(numerators);
                d.extend(denominators);
            }
        }
        n.resize(1 << self.vars, E::ZERO);
        d.resize(1 << self.vars, E::ONE);
        (n, d)
    }

    fn leaves(&self) -> Leaves<'_> {
        let mut builder = LeavesBuilder::new(self.vars);
        let (mut columns, mut given) = (self.columns.iter(), self.given.iter());
        for &column in &self.order {
            if column {
                let (weight, point, pole, values) = columns.next().unwrap();
                builder.column(*weight, point, *pole, values);
            } else {
                let (n, d) = given.next().unwrap().clone();
                builder.fractions(n, d);
            }
        }
        builder.finish()
    }
}

/// Few leaves, many, all in use, hardly more than half in use, tables before and after columns.
fn examples() -> Vec<Example> {
    let mut examples: Vec<Example> = (1..=13)
        .map(|vars| Example::new(vars, &[(vars - 1, true), (vars - 1, false)]))
        .collect();
    for vars in [6, 9, 12, 14, 15] {
        examples.push(Example::new(vars, &[(vars - 1, true), (0, false)]));
        examples.push(Example::new(
            vars,
            &[
                (vars - 1, true),
                (vars - 3, false),
                (vars - 3, true),
                (2, false),
            ],
        ));
        examples.push(Example::new(vars, &[(vars, false)]));
        examples.push(Example::new(
            vars,
            &[
                (vars - 2, true),
                (vars - 2, false),
                (vars - 2, true),
                (vars - 3, true),
                (vars - 4, true),
                (1, true),
                (0, false),
            ],
        ));
    }
    examples
}

#[test]
fn the_messages_are_the_librarys() {
    for example in examples() {
        let (n, d) = example.vectors();
        let [n, d] = [n, d].map(|values| PolyMaybePacked::<F, E>::Scalar(Poly::new(values)));
        let fraction = Fraction {
            n: LeafNumerator::Ext(&n),
            d: &d,
        };
        let (mut theirs, ours, mut verifier) = (challenger(7), challenger(7), challenger(7));
        let (expected, output) = prove_fractional_gkr::<F, E, Challenger>(fraction, &mut theirs);
        let mut ours = Channel::clear(ours);
        let (proof, point) = prove(&example.leaves(), &mut ours);
        assert_eq!(proof, expected, "{} variables", example.vars);
        assert_eq!(point, output.point.as_slice());
        let states =
            [&mut theirs, ours.challenger()].map(FieldChallenger::<F>::sample_algebra_element::<E>);
        assert_eq!(states[0], states[1]);
        let claim = check(&proof, example.vars, &mut verifier).unwrap();
        assert_eq!(claim.point, point);
        assert_eq!(claim.numerator, output.numerator);
        assert_eq!(claim.denominator, output.denominator);
        assert_eq!(draw(&mut verifier), states[0]);
    }
}

/// What a verifier makes of a sum.
fn check(proof: &FractionGkrProof<E>, vars: usize, verifier: &mut Challenger) -> Option<LeafClaim> {
    let mut channel = Receiver::new(Clear, verifier);
    fractional::verify(&mut channel, Some(proof), vars)
}

#[test]
fn leaves_that_do_not_add_up_are_refused() {
    for mut example in examples() {
        let (n, _) = example.given.last_mut().unwrap();
        *n.last_mut().unwrap() += E::ONE;
        assert_ne!(sum(&example.leaves()).0, E::ZERO);
        let (proof, _) = prove(&example.leaves(), &mut Channel::clear(challenger(7)));
        let verdict = verify_fractional_gkr(&proof, example.vars, &mut challenger(7));
        assert!(verdict.is_err(), "{} variables", example.vars);
        let own = check(&proof, example.vars, &mut challenger(7));
        assert_eq!(own, None, "{} variables", example.vars);
    }
}

/// A sum that is another than zero is shown with its numerator, and no other numerator is.
#[test]
fn sums_other_than_zero_are_shown() {
    for mut example in examples() {
        let (n, _) = example.given.last_mut().unwrap();
        *n.last_mut().unwrap() += E::ONE;
        let (numerator, denominator) = sum(&example.leaves());
        let (proof, point) = prove_sum(&example.leaves(), &mut Channel::clear(challenger(7)));
        assert_eq!(proof.numerator, numerator);
        assert_eq!(proof.gkr.root_denominator, denominator);
        let verdict = |numerator: E| {
            let mut verifier = challenger(7);
            absorb(&mut verifier, &[proof.numerator]);
            let sum = fractional::Fraction {
                numerator,
                denominator,
            };
            let mut channel = Receiver::new(Clear, &mut verifier);
            fractional::verify_sum(&mut channel, Some(&proof.gkr), sum, example.vars)
        };
        assert_eq!(verdict(numerator).unwrap().point, point);
        assert_eq!(verdict(numerator + E::ONE), None);
        assert_eq!(verdict(E::ZERO), None);
    }
}

/// Every message changed by itself, and messages of another shape: our checks refuse what the library's refuse.
#[test]
fn changed_messages_have_the_librarys_verdict() {
    type Proof = FractionGkrProof<E>;
    let example = Example::new(4, &[(3, true), (3, false)]);
    let (honest, _) = prove(&example.leaves(), &mut Channel::clear(challenger(7)));
    let mut changed: Vec<Proof> = Vec::new();
    let mut change = |by: &dyn Fn(&mut Proof)| {
        let mut proof = honest.clone();
        by(&mut proof);
        changed.push(proof);
    };
    change(&|proof| proof.root_denominator += E::ONE);
    change(&|proof| proof.root_denominator = E::ZERO);
    change(&|proof| drop(proof.layers.pop()));
    change(&|proof| proof.layers.push(proof.layers[3].clone()));
    change(&|proof| proof.layers.swap(1, 2));
    for layer in 0..4 {
        change(&|proof| proof.layers[layer].claims.n0 += E::ONE);
        change(&|proof| proof.layers[layer].claims.d0 += E::ONE);
        change(&|proof| proof.layers[layer].claims.n1 += E::ONE);
        change(&|proof| proof.layers[layer].claims.d1 += E::ONE);
        change(&|proof| proof.layers[layer].round_polys.push([E::ONE; 3]));
        for round in 0..layer {
            for place in 0..3 {
                change(&|proof| proof.layers[layer].round_polys[round][place] += E::ONE);
            }
        }
    }
    for proof in changed {
        let theirs = verify_fractional_gkr(&proof, 4, &mut challenger(7)).ok();
        let ours = check(&proof, 4, &mut challenger(7));
        let theirs = theirs.map(|output| LeafClaim {
            point: output.point.as_slice().to_vec(),
            numerator: output.numerator,
            denominator: output.denominator,
        });
        assert_eq!(ours, theirs);
    }
}
