//! The checks of a fractional sum (ePrint 2023/1284): that fractions add up to zero, down to a claim on all of them.
//!
//! Transcript and messages are those of `p3_multi_stark::fractional_gkr`; the checks are ours so that they hold for any
//! [`Arithmetic`].

use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, F, eq};
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::Theorem;
use crate::algebra::transcript::Challenger;
use crate::argument::sumcheck::Rounds;
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::transcript::{FractionGkrVerifierTranscript, ROUND_POLY_LEN};
use p3_multi_stark::fractional_gkr::{FractionGkrProof, FractionGkrShape};

/// What is left to show of a fractional sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafClaim<V = E, P = Vec<E>> {
    /// Where.
    pub point: P,
    /// The numerators' extension there.
    pub numerator: V,
    /// The denominators' extension there.
    pub denominator: V,
}

/// What a fractional sum must be.
#[derive(Debug, Clone, Copy)]
pub struct Fraction<V = E> {
    /// The numerator.
    pub numerator: V,
    /// The denominator of the root.
    pub denominator: V,
}

/// What is left of a sum in an arithmetic.
type ClaimIn<A> = LeafClaim<<A as Arithmetic>::Value, <A as Arithmetic>::Point>;

/// Checks that 2^vars fractions add up to zero; nothing if they do not or the messages have another shape.
pub fn verify<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    sent: Option<&FractionGkrProof<E>>,
    vars: usize,
) -> Option<ClaimIn<A>> {
    let sum = Fraction {
        numerator: A::Value::from(E::ZERO),
        denominator: channel.absorbed(sent.map(|proof| &proof.root_denominator))?,
    };
    verify_sum(channel, sent, sum, vars)
}

/// Checks that 2^vars fractions add up to one whose numerator is absorbed already, and whose denominator, the root's, is
/// received already and not zero.
pub fn verify_sum<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    sent: Option<&FractionGkrProof<E>>,
    sum: Fraction<A::Value>,
    vars: usize,
) -> Option<ClaimIn<A>> {
    let is_shaped = sent.is_none_or(|proof| {
        let mut layers = proof.layers.iter().enumerate();
        proof.layers.len() == vars && layers.all(|(index, layer)| layer.round_polys.len() == index)
    });
    if !is_shaped || vars == 0 {
        return None;
    }
    let Receiver {
        arithmetic,
        transcript,
        tally,
    } = channel;
    // Stops: 0/0, which is every sum.
    if !arithmetic.is_not_zero(&sum.denominator) {
        return None;
    }
    let mut layers = match (sent, transcript.as_deref_mut()) {
        (Some(proof), Some(challenger)) => Some(Layers::new(proof, challenger)),
        (None, None) => None,
        _ => return None,
    };
    // The list of layers.
    tally.send(0, 1);
    let mut claim = LeafClaim {
        point: Vec::new(),
        numerator: sum.numerator,
        denominator: sum.denominator,
    };
    // The transcript is played to its end whatever the verdict: it must not be dropped before.
    let mut holds = true;
    for index in 0..vars {
        // A list of rounds, each of as many elements as its degree, and four children. What combines the fractions is
        // drawn, then the rounds' challenges, then which child is descended to.
        tally.send(ROUND_POLY_LEN * index + 4, 1);
        tally.charge(Theorem::Fractions, 2 + ROUND_POLY_LEN * index);
        let lambda = layers.as_mut().map(Layers::begin).unwrap_or_default();
        let running = claim.numerator + claim.denominator * lambda;
        let (running, point, children) = match &mut layers {
            Some(layers) => layers.rounds(arithmetic, index, running)?,
            None => {
                let unsent = arithmetic.unsent(ROUND_POLY_LEN * index + 4)?;
                let children = std::array::from_fn(|_| unsent.clone());
                (unsent, Vec::new(), children)
            }
        };
        let [n0, d0, n1, d1] = children;
        // The sum of both children, numerator + lambda denominator.
        let gate = arithmetic.product(&d1, &n0)
            + arithmetic.product(&d0, &(n1.clone() + d1.clone() * lambda));
        // Stops: children whose sum is not their parent.
        holds &= arithmetic.vanishes(gate * eq(&claim.point, &point) - running);
        let branch = layers.as_mut().map(|layers| layers.descend(index));
        let at = branch.unwrap_or_default();
        let between = |zero: A::Value, one: A::Value| zero.clone() + (one - zero) * at;
        claim = LeafClaim {
            point: branch.into_iter().chain(point).collect(),
            numerator: between(n0, n1),
            denominator: between(d0, d1),
        };
    }
    if let Some(layers) = layers {
        layers.transcript.finish();
    }
    holds.then(|| LeafClaim {
        point: A::look().map_or_else(A::Point::default, |look| A::point(look, claim.point)),
        numerator: claim.numerator,
        denominator: claim.denominator,
    })
}

/// The messages of a proof's layers, and their transcript.
struct Layers<'a> {
    proof: &'a FractionGkrProof<E>,
    transcript: FractionGkrVerifierTranscript<'a, Challenger, F, E>,
    interpolation: Rounds,
}

/// The end of a layer's rounds: the sum there, the point, and the four children.
type Rest<V> = (V, Vec<E>, [V; 4]);

impl<'a> Layers<'a> {
    fn new(proof: &'a FractionGkrProof<E>, challenger: &'a mut Challenger) -> Self {
        let shape = FractionGkrShape {
            num_variables: proof.layers.len(),
        };
        Self {
            proof,
            transcript: FractionGkrVerifierTranscript::new(
                challenger,
                shape,
                proof.root_denominator,
            ),
            interpolation: Rounds::new(ROUND_POLY_LEN),
        }
    }

    fn begin(&mut self) -> E {
        self.transcript.begin_layer()
    }

    fn rounds<A: Arithmetic>(
        &mut self,
        arithmetic: &mut A,
        index: usize,
        mut running: A::Value,
    ) -> Option<Rest<A::Value>> {
        let layer = self.proof.layers.get(index)?;
        let mut point = Vec::with_capacity(index + 1);
        for poly in &layer.round_polys {
            let messages = arithmetic.receive_all(poly);
            let challenge = self.transcript.round(poly);
            running = self.interpolation.evaluate(&messages, running, challenge);
            point.push(challenge);
        }
        let children = &layer.claims;
        let children = [children.n0, children.d0, children.n1, children.d1];
        let children = children.map(|message| arithmetic.receive(message));
        Some((running, point, children))
    }

    fn descend(&mut self, index: usize) -> E {
        self.transcript.end_layer(&self.proof.layers[index].claims)
    }
}
