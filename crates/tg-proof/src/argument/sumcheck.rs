//! The checks of a sumcheck's rounds.
//!
//! Transcript and messages are those of `p3_sumcheck::generic_degree`, whose prover makes them; the checks are ours so
//! that they hold for any [`Arithmetic`].

use crate::algebra::arithmetic::{Arithmetic, Value};
use crate::algebra::field::{E, F};
use crate::algebra::receiver::Receiver;
use crate::algebra::tally::Theorem;
use crate::algebra::transcript::Challenger;
use p3_field::{Field, PrimeCharacteristicRing};
use p3_sumcheck::generic_degree::{GenericDegreeProof, GenericDegreeShape, VerifierTranscript};

/// A sumcheck: the claimed sum and, per round, the round polynomial without its value at 1.
pub type Sumcheck = GenericDegreeProof<F, E>;

/// Polynomials of one degree given by their sum over {0, 1} and their values at 0, 2, 3, ..., the degree.
#[derive(Debug)]
pub struct Rounds {
    /// Per node i the inverse of the product over the others j of i - j.
    inverses: Vec<F>,
}

impl Rounds {
    /// For polynomials of a degree, at least one.
    #[must_use]
    pub fn new(degree: usize) -> Self {
        let nodes = 0..=degree;
        let products = nodes.clone().map(|node| {
            let others = nodes.clone().filter(|&other| other != node);
            let differences = others.map(|other| F::from_usize(node) - F::from_usize(other));
            differences.product::<F>().inverse()
        });
        Self {
            inverses: products.collect(),
        }
    }

    /// Lagrange's polynomials of all nodes at a point.
    fn weights(&self, at: E) -> Vec<E> {
        let distances = (0..self.inverses.len()).map(|node| at - F::from_usize(node));
        let distances: Vec<E> = distances.collect();
        let mut weights = Vec::with_capacity(distances.len());
        let mut below = E::ONE;
        for (&distance, &inverse) in distances.iter().zip(&self.inverses) {
            weights.push(below * inverse);
            below *= distance;
        }
        let mut above = E::ONE;
        for (weight, &distance) in weights.iter_mut().zip(&distances).rev() {
            *weight *= above;
            above *= distance;
        }
        weights
    }

    /// The polynomial with these messages (as many as its degree) and this sum over {0, 1}, at a point.
    #[must_use]
    pub fn evaluate<V: Value>(&self, messages: &[V], sum: V, at: E) -> V {
        let weights = self.weights(at);
        let [first, second] = [weights[0], weights[1]];
        // The value at 1 is the sum less the value at 0.
        let mut value = sum * second + messages[0].clone() * (first - second);
        for (message, &weight) in messages[1..].iter().zip(&weights[2..]) {
            value = value + message.clone() * weight;
        }
        value
    }
}

/// How many rounds a sumcheck has, the degree of each, and what bounds its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumShape {
    /// Rounds.
    pub rounds: usize,
    /// Degree of a round, at least one.
    pub degree: usize,
    /// What the sum shows.
    pub theorem: Theorem,
}

/// Checks a sumcheck's claimed sum and its rounds: gives its point, and what the summed function must be there. Nothing if
/// the messages have another shape or the sum is another one.
pub fn verify<A: Arithmetic>(
    channel: &mut Receiver<'_, A>,
    sent: Option<&Sumcheck>,
    shape: SumShape,
    sum: A::Value,
) -> Option<(A::Point, A::Value)> {
    let SumShape {
        rounds,
        degree,
        theorem,
    } = shape;
    let Receiver {
        arithmetic,
        transcript,
        tally,
    } = channel;
    if degree == 0 {
        return None;
    }
    // The sum, a list of rounds, each a list, and the list of nonces, of which there are none.
    let messages = 1 + rounds * degree;
    tally.send(messages, 2 + rounds);
    tally.charge(theorem, rounds * degree);
    let (Some(look), Some(challenger)) = (A::look(), transcript.as_deref_mut()) else {
        return Some((A::Point::default(), arithmetic.unsent(messages)?));
    };
    let proof = sent?;
    let shape = proof.round_polys.len() == rounds
        && proof.round_polys.iter().all(|poly| poly.len() == degree)
        && proof.pow_witnesses.is_empty();
    if !shape {
        return None;
    }
    let claimed = arithmetic.receive(proof.claimed_sum);
    // Stops: a sumcheck about another sum.
    if !arithmetic.vanishes(claimed.clone() - sum) {
        return None;
    }
    let shape = GenericDegreeShape::new(rounds, degree, 0);
    let mut transcript =
        VerifierTranscript::<Challenger, F, E>::new(challenger, shape, proof.claimed_sum);
    let interpolation = Rounds::new(degree);
    let mut running = claimed;
    let mut point = Vec::with_capacity(rounds);
    for poly in &proof.round_polys {
        let messages = arithmetic.receive_all(poly);
        let challenge = transcript.round(poly, None).ok()?;
        running = interpolation.evaluate(&messages, running, challenge);
        point.push(challenge);
    }
    transcript.finish();
    Some((A::point(look, point), running))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::algebra::arithmetic::{Clear, Unsent};
    use crate::algebra::transcript::{self, draw};
    use p3_challenger::CanObserve;
    use tg_types::ProgramId;

    fn challenger(seed: u32) -> Challenger {
        let mut challenger = transcript::registration(ProgramId::default());
        challenger.observe(F::from_u32(seed));
        challenger
    }

    fn random(rounds: usize, degree: usize) -> Sumcheck {
        let mut from = challenger((rounds * 100 + degree) as u32);
        Sumcheck {
            claimed_sum: draw(&mut from),
            round_polys: (0..rounds)
                .map(|_| (0..degree).map(|_| draw(&mut from)).collect())
                .collect(),
            pow_witnesses: Vec::new(),
        }
    }

    const fn shape(rounds: usize, degree: usize) -> SumShape {
        SumShape {
            rounds,
            degree,
            theorem: Theorem::Sum,
        }
    }

    fn check(sent: Option<&Sumcheck>, shape: SumShape, sum: E) -> Option<(Vec<E>, E)> {
        let mut challenger = challenger(1);
        verify(&mut Receiver::new(Clear, &mut challenger), sent, shape, sum)
    }

    /// The library's verdict and challenges, for messages of any shape.
    #[test]
    fn rounds_end_where_the_librarys_do() {
        for degree in 1..=17 {
            for rounds in [0, 1, 2, 9] {
                let proof = random(rounds, degree);
                let mut theirs = challenger(1);
                let (point, last) = proof.verify(&mut theirs, rounds, degree, 0).unwrap();
                let mut ours = challenger(1);
                let shape = shape(rounds, degree);
                let mut channel = Receiver::new(Clear, &mut ours);
                let own = verify(&mut channel, Some(&proof), shape, proof.claimed_sum);
                // A count notes what a run of a proof does, and spends a pad per message.
                let mut count = Receiver::counting();
                let nothing = Unsent::default();
                assert!(verify(&mut count, None, shape, nothing).is_some());
                assert_eq!(count.tally, channel.tally);
                assert_eq!(count.arithmetic.messages, 1 + rounds * degree);
                assert_eq!(own, Some((point.as_slice().to_vec(), last)));
                assert_eq!(draw(&mut ours), draw(&mut theirs));
                let other = proof.claimed_sum + E::ONE;
                assert_eq!(check(Some(&proof), shape, other), None);
            }
        }
    }

    #[test]
    fn a_challenge_at_a_node_gives_the_nodes_value() {
        let rounds = Rounds::new(4);
        let [sum, at_0, at_2, at_3, at_4] = [9u32, 2, 30, 40, 50].map(E::from_u32);
        let messages = [at_0, at_2, at_3, at_4];
        let values = [at_0, sum - at_0, at_2, at_3, at_4];
        for (node, value) in (0u32..).zip(values) {
            assert_eq!(rounds.evaluate(&messages, sum, E::from_u32(node)), value);
        }
    }

    #[test]
    fn other_shapes_are_refused_as_by_the_library() {
        let honest = random(3, 2);
        let mut changed: Vec<Sumcheck> = vec![honest; 5];
        changed[0].round_polys.pop();
        changed[1].round_polys.push(vec![E::ONE; 2]);
        changed[2].round_polys[1].pop();
        changed[3].round_polys[2].push(E::ONE);
        changed[4].pow_witnesses.push(F::ONE);
        for proof in changed {
            assert!(proof.verify(&mut challenger(1), 3, 2, 0).is_err());
            let sum = proof.claimed_sum;
            assert_eq!(check(Some(&proof), shape(3, 2), sum), None);
        }
        let empty = Sumcheck::default();
        assert!(empty.verify(&mut challenger(1), 0, 0, 0).is_err());
        assert_eq!(check(Some(&empty), shape(0, 0), E::ZERO), None);
        // Messages that are not there are no count's.
        assert_eq!(check(None, shape(3, 2), E::ZERO), None);
    }
}
