//! The channel for messages to the verifier: the one place that knows whether they are padded.

use p3_multi_stark::fractional_gkr::transcript::FractionGkrProverTranscript;
use p3_multi_stark::fractional_gkr::{FractionGkrShape, SplitFraction};
use p3_sumcheck::generic_degree::{GenericDegreeShape, ProverTranscript, RoundProver};
use tg_proof::commitment::Challenger;
use tg_proof::field::{E, F};
use tg_proof::messages::Sumcheck;
use tg_proof::transcript::{absorb, draw, draw_point};

/// The pads of messages, in the order in which these are sent; or none, for a proof in the clear.
///
/// A pad is used once. If there are too few, the rest is sent as if padded by zero: the replay of the messages counts
/// them and refuses (`tg_proof::tape`).
#[derive(Debug, Default)]
pub(crate) struct Pads(Option<std::vec::IntoIter<E>>);

impl Pads {
    /// What is sent for a message.
    fn pad(&mut self, message: E) -> E {
        match &mut self.0 {
            None => message,
            Some(pads) => message + pads.next().unwrap_or_default(),
        }
    }

    fn pad_all<const N: usize>(&mut self, messages: [E; N]) -> [E; N] {
        messages.map(|message| self.pad(message))
    }
}

/// The transcript, and the pads of what is sent.
pub(crate) struct Channel {
    challenger: Challenger,
    pads: Pads,
    /// Whether values of the weights are padded too.
    private_weights: bool,
}

impl Channel {
    /// A channel of messages in the clear.
    pub(crate) fn clear(challenger: Challenger) -> Self {
        Self {
            challenger,
            pads: Pads::default(),
            private_weights: false,
        }
    }

    /// A channel of padded messages.
    pub(crate) fn padded(challenger: Challenger, pads: Vec<E>) -> Self {
        Self {
            challenger,
            pads: Pads(Some(pads.into_iter())),
            private_weights: false,
        }
    }

    /// The same with values of the weights padded or not.
    pub(crate) fn with_private_weights(mut self, private: bool) -> Self {
        self.private_weights = private;
        self
    }

    /// Sends values of the weights; gives what was sent.
    pub(crate) fn send_weights(&mut self, values: &[E]) -> Vec<E> {
        if self.private_weights {
            return self.send_all(values);
        }
        self.send_public(values);
        values.to_vec()
    }

    /// The transcript, for what is no message of the walk or the lookup argument.
    pub(crate) fn challenger(&mut self) -> &mut Challenger {
        &mut self.challenger
    }

    /// Draws one challenge.
    pub(crate) fn draw(&mut self) -> E {
        draw(&mut self.challenger)
    }

    /// Draws a point.
    pub(crate) fn draw_point(&mut self, vars: usize) -> Vec<E> {
        draw_point(&mut self.challenger, vars)
    }

    /// Sends evaluations of public data, which are never padded.
    pub(crate) fn send_public(&mut self, values: &[E]) {
        absorb(&mut self.challenger, values);
    }

    /// Sends values; gives what was sent.
    pub(crate) fn send_all(&mut self, values: &[E]) -> Vec<E> {
        let sent: Vec<E> = values.iter().map(|&value| self.pads.pad(value)).collect();
        absorb(&mut self.challenger, &sent);
        sent
    }

    /// Sends values; gives what was sent.
    pub(crate) fn send<const N: usize>(&mut self, values: [E; N]) -> [E; N] {
        let sent = self.pads.pad_all(values);
        absorb(&mut self.challenger, &sent);
        sent
    }

    /// Plays the rounds of a sumcheck; gives its messages and its point.
    pub(crate) fn sumcheck(
        &mut self,
        state: &mut impl RoundProver<E>,
        (rounds, degree): (usize, usize),
        sum: E,
    ) -> (Sumcheck, Vec<E>) {
        let claimed_sum = self.pads.pad(sum);
        let shape = GenericDegreeShape::new(rounds, degree, 0);
        let mut transcript =
            ProverTranscript::<Challenger, F, E>::new(&mut self.challenger, shape, claimed_sum);
        let mut round_polys = Vec::with_capacity(rounds);
        let mut point = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let poly: Vec<E> = state.round_poly();
            let poly: Vec<E> = poly.into_iter().map(|value| self.pads.pad(value)).collect();
            let (challenge, _) = transcript.round(&poly);
            state.fold(challenge);
            round_polys.push(poly);
            point.push(challenge);
        }
        transcript.finish();
        let proof = Sumcheck {
            claimed_sum,
            round_polys,
            pow_witnesses: Vec::new(),
        };
        (proof, point)
    }

    /// Starts a fractional sum; gives what was sent for its root's denominator.
    pub(crate) fn fractional(&mut self, vars: usize, root: E) -> (E, Fractional<'_>) {
        let root = self.pads.pad(root);
        let shape = FractionGkrShape {
            num_variables: vars,
        };
        let fractional = Fractional {
            transcript: FractionGkrProverTranscript::new(&mut self.challenger, shape, root),
            pads: &mut self.pads,
        };
        (root, fractional)
    }
}

/// The transcript of a fractional sum.
pub(crate) struct Fractional<'a> {
    transcript: FractionGkrProverTranscript<'a, Challenger, F, E>,
    pads: &'a mut Pads,
}

impl Fractional<'_> {
    /// Starts a layer; gives what joins numerator and denominator.
    pub(crate) fn begin_layer(&mut self) -> E {
        self.transcript.begin_layer()
    }

    /// Sends a round's polynomial; gives what was sent and the challenge.
    pub(crate) fn round(&mut self, poly: [E; 3]) -> ([E; 3], E) {
        let poly = self.pads.pad_all(poly);
        let challenge = self.transcript.round(&poly);
        (poly, challenge)
    }

    /// Sends a layer's children; gives what was sent and the branch.
    pub(crate) fn end_layer(&mut self, claims: SplitFraction<E>) -> (SplitFraction<E>, E) {
        let SplitFraction { n0, d0, n1, d1 } = claims;
        let [n0, d0, n1, d1] = self.pads.pad_all([n0, d0, n1, d1]);
        let claims = SplitFraction { n0, d0, n1, d1 };
        let branch = self.transcript.end_layer(&claims);
        (claims, branch)
    }

    /// Ends it.
    pub(crate) fn finish(self) {
        self.transcript.finish();
    }
}
