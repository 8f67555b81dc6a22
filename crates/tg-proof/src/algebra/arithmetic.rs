//! What the checks of a proof compute with.
//!
//! The walk over the nodes and the lookup argument are written once, for any [`Arithmetic`]. Everything public
//! (challenges, points, equality weights, tables, input and output) is an element of the field; what a prover sends about
//! its witness is a [`Value`]. In the clear ([`Clear`]) a value is the element that was sent.
//!
//! A value is only ever added, scaled by public elements, multiplied with another value ([`Arithmetic::product`]) and
//! compared with zero ([`Arithmetic::vanishes`], [`Arithmetic::is_not_zero`]).

use crate::algebra::field::{E, F};
use crate::algebra::transcript::{Challenger, absorb};
use p3_field::PrimeCharacteristicRing;
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

    /// The value that a message stands for.
    fn receive(&mut self, message: E) -> Self::Value;

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

    /// Absorbs messages and receives them.
    fn absorb(&mut self, messages: &[E], challenger: &mut Challenger) -> Vec<Self::Value> {
        absorb(challenger, messages);
        self.receive_all(messages)
    }

    /// Receives messages that are absorbed already.
    fn receive_all(&mut self, messages: &[E]) -> Vec<Self::Value> {
        messages
            .iter()
            .map(|&message| self.receive(message))
            .collect()
    }
}

/// Values are the elements that were sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clear;

impl Arithmetic for Clear {
    type Value = E;

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
