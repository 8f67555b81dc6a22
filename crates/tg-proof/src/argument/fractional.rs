//! The checks of a fractional sum (ePrint 2023/1284): that fractions add up to zero, down to a claim on all of them.
//!
//! Transcript and messages are those of `p3_multi_stark::fractional_gkr`; the checks are ours so that they hold for any
//! [`Arithmetic`].

use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, F, eq};
use crate::algebra::transcript::Challenger;
use crate::argument::sumcheck::Rounds;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::transcript::{FractionGkrVerifierTranscript, ROUND_POLY_LEN};
use p3_multi_stark::fractional_gkr::{FractionGkrProof, FractionGkrShape};

/// What is left to show of a fractional sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafClaim<V = E> {
    /// Where.
    pub point: Vec<E>,
    /// The numerators' extension there.
    pub numerator: V,
    /// The denominators' extension there.
    pub denominator: V,
}

/// Checks that 2^vars fractions add up to zero; nothing if they do not or the messages have another shape.
pub fn verify<A: Arithmetic>(
    arithmetic: &mut A,
    proof: &FractionGkrProof<E>,
    vars: usize,
    challenger: &mut Challenger,
) -> Option<LeafClaim<A::Value>> {
    let root = arithmetic.receive(proof.root_denominator);
    let sum = (A::Value::from(E::ZERO), root);
    verify_sum(arithmetic, proof, (sum, vars), challenger)
}

/// Checks that 2^vars fractions add up to one with a given numerator, which is absorbed already, and the root's
/// denominator, which is received already and not zero.
pub fn verify_sum<A: Arithmetic>(
    arithmetic: &mut A,
    proof: &FractionGkrProof<E>,
    ((numerator, root), vars): ((A::Value, A::Value), usize),
    challenger: &mut Challenger,
) -> Option<LeafClaim<A::Value>> {
    let mut layers = proof.layers.iter().enumerate();
    let shape =
        proof.layers.len() == vars && layers.all(|(index, layer)| layer.round_polys.len() == index);
    if !shape || vars == 0 {
        return None;
    }
    // Stops: 0/0, which is every sum.
    if !arithmetic.is_not_zero(&root) {
        return None;
    }
    let mut transcript = FractionGkrVerifierTranscript::<Challenger, F, E>::new(
        challenger,
        FractionGkrShape {
            num_variables: vars,
        },
        proof.root_denominator,
    );
    let interpolation = Rounds::new(ROUND_POLY_LEN);
    let mut claim = LeafClaim {
        point: Vec::new(),
        numerator,
        denominator: root,
    };
    // The transcript is played to its end whatever the verdict: it must not be dropped before.
    let mut holds = true;
    for layer in &proof.layers {
        let lambda = transcript.begin_layer();
        let mut running = claim.numerator + claim.denominator * lambda;
        let mut point = Vec::with_capacity(vars);
        for poly in &layer.round_polys {
            let messages = arithmetic.receive_all(poly);
            let challenge = transcript.round(poly);
            running = interpolation.evaluate(&messages, running, challenge);
            point.push(challenge);
        }
        let children = &layer.claims;
        let [n0, d0, n1, d1] = [children.n0, children.d0, children.n1, children.d1]
            .map(|message| arithmetic.receive(message));
        // The sum of both children, numerator + lambda denominator.
        let gate = arithmetic.product(&d1, &n0)
            + arithmetic.product(&d0, &(n1.clone() + d1.clone() * lambda));
        // Stops: children whose sum is not their parent.
        holds &= arithmetic.vanishes(gate * eq(&claim.point, &point) - running);
        let branch = transcript.end_layer(children);
        let between = |zero: A::Value, one: A::Value| zero.clone() + (one - zero) * branch;
        claim = LeafClaim {
            point: std::iter::once(branch).chain(point).collect(),
            numerator: between(n0, n1),
            denominator: between(d0, d1),
        };
    }
    transcript.finish();
    holds.then_some(claim)
}
