//! A zero-knowledge proof of one linear functional of hidden columns: the verifier.
//!
//! Statement: `sum_i <F_i, W_i> = s`. F_i is what the i-th hiding commitment stacks: base columns of the caller
//! ([`Columns`]) and blocks of this module. W_i ([`Functional`]) and s are public and follow from what the transcript has
//! absorbed. Nothing but that is revealed.
//!
//! 1. **Commitment.** Every F_i has a block of uniform cells on which W_i is zero; F_0 has the coefficients of a mask
//!    `g(x) = c_0 + sum_j (a_j x_j + b_j x_j^2)` and a uniform vector d of as many elements. An element is the extension
//!    of eight uniform base cells at a fixed point u, so that it is uniform, and so that
//!    `(1 - t) c~(z) + t d~(z)` is F_0~ at one point (block, t, u, z).
//! 2. **Sum.** The prover sends `G = sum_x g(x)`; eps is drawn. A sumcheck of degree 2 over
//!    `sum_x (sum_i F_i W_i + eps g)(x) = s + eps G`, a shorter F_i in the trailing variables, ends at rho. (Libra, ePrint
//!    2019/317: with uniform coefficients G and all rounds are uniform among those that close.)
//! 3. **Values.** The prover sends F_i(rho), uniform by the blocks of 1, and `delta = <d, lambda>`, lambda the powers of
//!    rho's coordinates by which `g(rho) = <c, lambda>`. The last value of the sum fixes g(rho).
//! 4. **Mask.** t is drawn; the prover sends `R = (1 - t) c + t d`, uniform by d; `<R, lambda> = (1 - t) g(rho) + t delta` is
//!    checked. z is drawn.
//! 5. **Opening.** By hiding WHIR (ePrint 2026/391): F_i(rho), and F_0~(block, t, u, z) = R~(z), which R gives already.
//!    Leaves of all its trees are salted: without salts a tree whose random rows have been opened could be computed again
//!    from a guess of the columns.
//!
//! *Soundness.* Error of 2: (1 + 2 rounds)/|E|. If g(rho) is not <c, lambda>, then for all but one t, `(1 - t) c + t d` is
//! not R, and R~(z) not F_0's value but for 6/|E|. All is charged over the candidates of the roots; the openings' errors
//! are in [`HidingShape::report`].
//!
//! *Zero knowledge*, honest verifier and so, with a random oracle, non-interactive. A simulator that knows rho, t, z
//! draws G, the rounds (closing), F_i(rho) and R uniformly, computes delta from 4, and simulates the openings of those
//! values. What is drawn is as in a proof: the rounds by c, F_i(rho) by its block unless the 128 weights of it span less
//! than E (less than 2^-120), R by d unless t = 0. Hiding WHIR is simulated as its paper does; salts of 155 bits make unopened
//! leaves uniform in the random oracle model.

mod bound;
mod config;
mod functional;
mod kept;
mod scheme;
mod shape;
mod stack;

pub use config::Strength;
pub use functional::{Functional, extension_cells};
pub use kept::{Anchor, KeptShape, OPENINGS_MAX};
pub use scheme::{HidingMmcs, HidingOpening, HidingPcs};
pub use shape::HidingShape;
pub use stack::{COEFFICIENT_VARS, Columns, Place, STACK_VARS_MIN, Stack, coefficient_weights};

use crate::algebra::arithmetic::Clear;
use crate::algebra::field::{E, evaluate, point};
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::Theorem;
use crate::algebra::transcript::{Challenger, absorb, draw, draw_point};
use crate::argument::commitment::Commitment;
use crate::argument::sumcheck::{self, SumShape, Sumcheck};
use p3_challenger::CanObserve;
use p3_commit::MultilinearPcs;
use p3_field::{Field, PrimeCharacteristicRing};
use p3_multilinear_util::point::Point;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};

/// The proof of one functional.
#[derive(Clone, Serialize, Deserialize)]
pub struct HidingProof {
    /// G, the sum of the mask.
    pub mask_sum: E,
    /// Sum of all columns times their weights, and of the mask.
    pub sumcheck: Sumcheck,
    /// Per commitment its polynomial at the sum's point.
    pub values: Vec<E>,
    /// delta, the second vector's inner product with the weights of the mask's coefficients.
    pub second: E,
    /// R, the combination of both vectors.
    pub blinded: Vec<E>,
    /// Per commitment its opening. The values that it shows are those above: none is in it.
    pub openings: Vec<HidingOpening>,
}

impl std::fmt::Debug for HidingProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HidingProof")
            .field("openings", &self.openings.len())
            .finish_non_exhaustive()
    }
}

/// Why a proof of a functional is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HidingError {
    /// Lists of another length, or a functional of other columns.
    #[error("the hiding proof has another shape")]
    Messages,
    /// The functional has another value.
    #[error("the hidden columns are not shown to have the stated functional")]
    Sum,
    /// The mask is not the committed one.
    #[error("the mask of the hidden sum is not the committed one")]
    Mask,
    /// An opening does not verify.
    #[error("the opening of hiding commitment {commitment} does not verify")]
    Opening {
        /// Which.
        commitment: usize,
    },
}

/// Absorbs a hiding commitment.
pub fn observe(commitment: &Commitment, challenger: &mut Challenger) {
    challenger.observe(commitment.clone());
}

/// The weights of the mask's coefficients at a point: 1, and a coordinate and its square each.
#[must_use]
pub fn mask_weights(at: &[E]) -> Vec<E> {
    let rounds = at.iter().flat_map(|&x| [x, x.square()]);
    std::iter::once(E::ONE).chain(rounds).collect()
}

/// The weight at the sum's point of a polynomial with fewer variables, and its own part of the point.
#[must_use]
pub fn trailing(at: &[E], vars: usize) -> (E, &[E]) {
    let (lead, rest) = at.split_at(at.len() - vars);
    (lead.iter().map(|&x| E::ONE - x).product(), rest)
}

/// Checks that the committed columns have a functional: `sum_i <F_i, W_i> = sum`.
///
/// The challenges are drawn from a transcript that has absorbed the commitments and whatever W and the sum follow from.
///
/// # Errors
/// The check that fails.
pub fn verify(
    shape: &HidingShape,
    commitments: &[Commitment],
    functionals: &[Functional],
    sum: E,
    proof: &HidingProof,
    challenger: &mut Challenger,
) -> Result<(), HidingError> {
    verify_kept(
        shape,
        commitments,
        None,
        functionals,
        sum,
        proof,
        challenger,
    )
}

/// The same, the last commitment being one that is kept and shows its anchor too, if one is given.
///
/// # Errors
/// Those of [`verify()`].
pub fn verify_kept(
    shape: &HidingShape,
    commitments: &[Commitment],
    anchor: Option<&Anchor>,
    functionals: &[Functional],
    sum: E,
    proof: &HidingProof,
    challenger: &mut Challenger,
) -> Result<(), HidingError> {
    check_messages(shape, commitments, functionals, proof)?;
    absorb(challenger, &[proof.mask_sum]);
    let eps = draw(challenger);
    let claimed = sum + eps * proof.mask_sum;
    let rounds = SumShape {
        rounds: shape.rounds(),
        degree: 2,
        theorem: Theorem::Sum,
    };
    let mut channel = Receiver::new(Clear, challenger);
    // Stops: another value of the functional.
    let (at, last) = sumcheck::verify(&mut channel, Some(&proof.sumcheck), rounds, claimed)
        .ok_or(HidingError::Sum)?;
    absorb(challenger, &proof.values);
    absorb(challenger, &[proof.second]);
    let stacks = shape.stacks.iter().zip(functionals).zip(&proof.values);
    let columns: E = stacks
        .map(|((stack, functional), &value)| {
            let (scale, rest) = trailing(&at, stack.vars);
            scale * value * functional.at(stack, rest)
        })
        .sum();
    let mask = (last - columns) * eps.try_inverse().ok_or(HidingError::Sum)?;
    let t = draw(challenger);
    absorb(challenger, &proof.blinded);
    let weights = mask_weights(&at);
    let blinded: E = proof.blinded.iter().zip(weights).map(|(&r, w)| r * w).sum();
    // Stops: a mask at the sum's point that makes up for another functional.
    if blinded != (E::ONE - t) * mask + t * proof.second {
        return Err(HidingError::Mask);
    }
    let z = draw_point(challenger, COEFFICIENT_VARS);
    for (index, (commitment, opening)) in commitments.iter().zip(&proof.openings).enumerate() {
        let stack = &shape.stacks[index];
        let mut points = vec![point(&stack.committed_point(trailing(&at, stack.vars).1))];
        let mut values = vec![proof.values[index]];
        if stack.rows().is_some() {
            // Stops: another polynomial near the root than the one that is anchored.
            let anchor = anchor.filter(|anchor| anchor.point.len() == stack.vars);
            let anchor = anchor.ok_or(HidingError::Messages)?;
            points.push(point(&stack.committed_point(&anchor.point)));
            values.push(anchor.value);
        }
        if stack.mask.is_some() {
            points.push(point(&stack.mask_point(t, &z)));
            values.push(evaluate(&proof.blinded, &z));
        }
        // Stops: values that are not the committed polynomial's, a combination that is not that of its vectors.
        if !opens(
            shape,
            index,
            commitment,
            (points, values),
            opening,
            challenger,
        ) {
            return Err(HidingError::Opening { commitment: index });
        }
    }
    Ok(())
}

fn opens(
    shape: &HidingShape,
    index: usize,
    commitment: &Commitment,
    (points, values): (Vec<Point<E>>, Vec<E>),
    opening: &HidingOpening,
    challenger: &mut Challenger,
) -> bool {
    // Stops: a second encoding.
    if !opening.evals.is_empty() {
        return false;
    }
    let opening = HidingOpening {
        evals: values,
        ..opening.clone()
    };
    // Verifiers draw nothing from it.
    let scheme = shape.scheme(index, StdRng::from_seed([0; 32]));
    scheme
        .verify(commitment, &opening, challenger, points)
        .is_ok()
}

fn check_messages(
    shape: &HidingShape,
    commitments: &[Commitment],
    functionals: &[Functional],
    proof: &HidingProof,
) -> Result<(), HidingError> {
    let count = shape.stacks.len();
    let lists = [
        commitments.len(),
        functionals.len(),
        proof.values.len(),
        proof.openings.len(),
    ];
    let fit = |(stack, functional): (&Stack, &Functional)| functional.fits(stack);
    if lists.iter().any(|&length| length != count)
        || proof.blinded.len() != shape.coefficients()
        || !shape.stacks.iter().zip(functionals).all(fit)
    {
        return Err(HidingError::Messages);
    }
    Ok(())
}
