//! Between a prover and the checks: what is received, drawn, multiplied and computed, each noted by its shape first.
//!
//! A receiver is of a proof, with its transcript, or of a count, without messages and challenges ([`Receiver::counting`]).
//! The checks are written once for both. What a count notes is therefore what the checks of any proof ask for, and neither
//! can depend on a message or a point: see [`Arithmetic::Look`].

use crate::algebra::arithmetic::{Arithmetic, Counting};
use crate::algebra::field::E;
use crate::algebra::tally::{Open, PublicWork, Tally, Theorem};
use crate::algebra::transcript::{Challenger, absorb, draw, draw_point};

/// Between a prover and the checks of its messages.
#[derive(Debug)]
pub struct Receiver<'c, A: Arithmetic> {
    /// What values are.
    pub arithmetic: A,
    /// The transcript; a count has none.
    pub(crate) transcript: Option<&'c mut Challenger>,
    /// What was noted so far.
    pub tally: Tally,
}

impl<'c, A: Arithmetic> Receiver<'c, A> {
    /// Of a proof.
    pub fn new(arithmetic: A, transcript: &'c mut Challenger) -> Self {
        Self {
            arithmetic,
            transcript: Some(transcript),
            tally: Tally::default(),
        }
    }

    /// Notes from now on by places, see [`Tally::new`].
    pub(crate) fn begin(&mut self, places: usize, open: Open) {
        self.tally = Tally::new(places, open);
    }

    /// Draws one challenge, at which a polynomial of a degree may vanish. A count's is never looked at.
    pub fn draw(&mut self, theorem: Theorem, degree: usize) -> E {
        self.tally.charge(theorem, degree);
        let transcript = self.transcript.as_deref_mut();
        transcript.map(draw).unwrap_or_default()
    }

    /// Draws a point, at which two multilinear extensions may agree.
    pub fn draw_point(&mut self, theorem: Theorem, vars: usize) -> A::Point {
        self.tally.charge(theorem, vars);
        match (A::look(), self.transcript.as_deref_mut()) {
            (Some(look), Some(transcript)) => A::point(look, draw_point(transcript, vars)),
            _ => A::Point::default(),
        }
    }

    /// Absorbs and receives a fixed number of messages; nothing if they are not there.
    pub fn array(&mut self, sent: Option<&[E]>, count: usize) -> Option<Vec<A::Value>> {
        self.tally.send(count, 0);
        self.absorb(sent, count)?;
        self.receive(sent, count)
    }

    /// Absorbs and receives a list of messages; nothing if it has another length.
    pub fn list(&mut self, sent: Option<&[E]>, count: usize) -> Option<Vec<A::Value>> {
        self.tally.send(0, 1);
        self.array(sent, count)
    }

    /// Absorbs and receives one message.
    pub fn one(&mut self, sent: Option<&E>) -> Option<A::Value> {
        self.array(sent.map(std::slice::from_ref), 1)?.pop()
    }

    /// Receives one message that something else absorbs.
    pub fn absorbed(&mut self, sent: Option<&E>) -> Option<A::Value> {
        self.tally.send(1, 0);
        self.receive(sent.map(std::slice::from_ref), 1)?.pop()
    }

    /// Absorbs messages that everybody may know, and that are no secret in any proof.
    pub fn known(&mut self, sent: Option<&[E]>, count: usize) -> Option<Vec<A::Value>> {
        self.tally.send(count, 0);
        self.absorb(sent, count)?;
        let none = vec![E::default(); count];
        let sent = sent.unwrap_or(&none);
        Some(sent.iter().copied().map(A::Value::from).collect())
    }

    fn absorb(&mut self, sent: Option<&[E]>, count: usize) -> Option<()> {
        match (sent, self.transcript.as_deref_mut()) {
            (Some(sent), Some(transcript)) if sent.len() == count => absorb(transcript, sent),
            (None, None) => {}
            _ => return None,
        }
        Some(())
    }

    fn receive(&mut self, sent: Option<&[E]>, count: usize) -> Option<Vec<A::Value>> {
        match sent {
            Some(sent) => Some(self.arithmetic.receive_all(sent)),
            None => Some(vec![self.arithmetic.unsent(count)?; count]),
        }
    }

    /// Computes something public; a count gets nothing of it.
    pub fn public<T: Default>(
        &mut self,
        work: PublicWork,
        compute: impl FnOnce(A::Look) -> T,
    ) -> T {
        self.tally.compute(work);
        A::look().map(compute).unwrap_or_default()
    }

    /// Whether two values are equal, see [`Arithmetic::vanishes`].
    pub fn equal(&mut self, left: A::Value, right: A::Value) -> Option<()> {
        self.arithmetic.vanishes(left - right).then_some(())
    }
}

impl Receiver<'_, Counting> {
    /// Of a count.
    #[must_use]
    pub fn counting() -> Self {
        Self {
            arithmetic: Counting::default(),
            transcript: None,
            tally: Tally::default(),
        }
    }
}
