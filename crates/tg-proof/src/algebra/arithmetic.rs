//! What the checks of a proof compute with.
//!
//! The walk over the nodes and the lookup argument are written once, for any [`Arithmetic`]. Everything public
//! (challenges, points, equality weights, tables, input and output) is an element of the field; what a prover sends about
//! its witness is a [`Value`]. In the clear ([`Clear`]) a value is the element that was sent.
//!
//! A value is only ever added, scaled by public elements, multiplied with another value ([`Arithmetic::product`]) and
//! compared with zero ([`Arithmetic::vanishes`], [`Arithmetic::is_not_zero`]).
//!
//! [`Counting`] runs the same walk without a proof: its values know whether they depend on a message, its points have no
//! coordinates, and it counts the pads and triples that a proof in zero knowledge has to spend
//! ([ADR 14](../../../../docs/adr/0014-counted-by-the-walk.md)).

use crate::algebra::field::{E, F};
use p3_field::PrimeCharacteristicRing;
use std::convert::Infallible;
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

/// What a prover sends about its witness, as a verifier sees it.
pub trait Value:
    Clone
    + Debug
    + From<E>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<E, Output = Self>
    + Mul<F, Output = Self>
    + Sum
{
}

impl Value for E {}

/// How values come from messages, are multiplied, and are compared with zero.
///
/// Messages are received in the order in which they are absorbed, each once.
pub trait Arithmetic {
    /// What it computes with.
    type Value: Value;
    /// A point that was drawn, or made of such.
    type Point: Clone + Debug + Default;
    /// The right to read coordinates. A count's has no values: nothing that it does can depend on a point.
    type Look: Copy;

    /// The right to read coordinates, if there are some.
    fn look() -> Option<Self::Look>;

    /// The coordinates of a point.
    fn coordinates(look: Self::Look, point: &Self::Point) -> &[E];

    /// A point of coordinates.
    fn point(look: Self::Look, coordinates: Vec<E>) -> Self::Point;

    /// The value that a message stands for.
    fn receive(&mut self, message: E) -> Self::Value;

    /// The value of some messages that nobody sends, if this counts; nothing where messages are due.
    fn unsent(&mut self, messages: usize) -> Option<Self::Value> {
        let _ = messages;
        None
    }

    /// The product of two values.
    fn product(&mut self, left: &Self::Value, right: &Self::Value) -> Self::Value;

    /// The product of a value and one of the weights, which may be public.
    fn weighed(&mut self, value: &Self::Value, weight: &Self::Value) -> Self::Value {
        self.product(value, weight)
    }

    /// Whether a value is zero; an arithmetic that cannot tell yet notes what is to be shown, and says yes.
    fn vanishes(&mut self, value: Self::Value) -> bool;

    /// Whether a value is other than zero, on the same terms.
    fn is_not_zero(&mut self, value: &Self::Value) -> bool;

    /// Receives messages that are absorbed already.
    fn receive_all(&mut self, messages: &[E]) -> Vec<Self::Value> {
        messages
            .iter()
            .map(|&message| self.receive(message))
            .collect()
    }
}

/// The right to read coordinates in a run of a proof.
#[derive(Debug, Clone, Copy)]
pub struct Looking;

/// Values are the elements that were sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clear;

impl Arithmetic for Clear {
    type Value = E;
    type Point = Vec<E>;
    type Look = Looking;

    fn look() -> Option<Looking> {
        Some(Looking)
    }

    fn coordinates(_: Looking, point: &Vec<E>) -> &[E] {
        point
    }

    fn point(_: Looking, coordinates: Vec<E>) -> Vec<E> {
        coordinates
    }

    fn receive(&mut self, message: E) -> E {
        message
    }

    fn product(&mut self, &left: &E, &right: &E) -> E {
        left * right
    }

    fn vanishes(&mut self, value: E) -> bool {
        value == E::ZERO
    }

    fn is_not_zero(&mut self, &value: &E) -> bool {
        value != E::ZERO
    }
}

/// A value of a count: whether it depends on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsent {
    is_sent: bool,
}

impl From<E> for Unsent {
    fn from(_: E) -> Self {
        Self { is_sent: false }
    }
}

impl Add for Unsent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        if self.is_sent { self } else { other }
    }
}

impl Sub for Unsent {
    type Output = Self;

    #[expect(
        clippy::suspicious_arithmetic_impl,
        reason = "a difference depends on what a sum depends on"
    )]
    fn sub(self, other: Self) -> Self {
        self + other
    }
}

impl Mul<E> for Unsent {
    type Output = Self;

    fn mul(self, _: E) -> Self {
        self
    }
}

impl Mul<F> for Unsent {
    type Output = Self;

    fn mul(self, _: F) -> Self {
        self
    }
}

impl Sum for Unsent {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::default(), Add::add)
    }
}

impl Value for Unsent {}

/// Counts what a proof in zero knowledge spends: a pad where a message is received, a triple where two values are
/// multiplied.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counting {
    /// Messages.
    pub messages: usize,
    /// Products of two values.
    pub products: usize,
    /// Values that must not vanish.
    pub inverses: usize,
}

impl Arithmetic for Counting {
    type Value = Unsent;
    type Point = ();
    type Look = Infallible;

    fn look() -> Option<Infallible> {
        None
    }

    fn coordinates(look: Infallible, (): &()) -> &[E] {
        match look {}
    }

    fn point(look: Infallible, _: Vec<E>) {
        match look {}
    }

    fn receive(&mut self, _: E) -> Unsent {
        self.messages += 1;
        Unsent { is_sent: true }
    }

    fn unsent(&mut self, messages: usize) -> Option<Unsent> {
        self.messages += messages;
        Some(Unsent { is_sent: true })
    }

    fn product(&mut self, _: &Unsent, _: &Unsent) -> Unsent {
        self.products += 1;
        Unsent { is_sent: true }
    }

    /// Public weights scale a value.
    fn weighed(&mut self, value: &Unsent, weight: &Unsent) -> Unsent {
        if weight.is_sent {
            return self.product(value, weight);
        }
        *value
    }

    fn vanishes(&mut self, _: Unsent) -> bool {
        true
    }

    /// A product with the inverse.
    fn is_not_zero(&mut self, value: &Unsent) -> bool {
        self.inverses += 1;
        self.product(value, value);
        true
    }
}
