//! The rounds of one layer's sumcheck.

use crate::channel::Fractional;
use p3_field::{Field, PrimeCharacteristicRing};
use tg_proof::field::E;

/// The rounds of one layer's sumcheck.
pub(super) struct Rounds<'a> {
    /// The point of the layer above.
    pub(super) point: &'a [E],
    /// Joins numerator and denominator.
    pub(super) lambda: E,
    /// What the rest of the sum should be, without the equality factor of the rounds played.
    pub(super) sum: E,
    /// That factor.
    pub(super) prefix: E,
    pub(super) polys: Vec<[E; 3]>,
    pub(super) challenges: Vec<E>,
}

impl Rounds<'_> {
    /// The coordinates of the positions summed in the round after the next challenge is played.
    pub(super) fn rest(&self) -> &[E] {
        &self.point[self.challenges.len() + 1..]
    }

    /// Sends a round's polynomial, given by the value at 0 and the leading coefficient of its factor beside equality.
    pub(super) fn play(&mut self, [at_0, leading]: [E; 2], transcript: &mut Fractional<'_>) -> E {
        let coordinate = self.point[self.challenges.len()];
        let (equal_0, step) = (E::ONE - coordinate, coordinate.double() - E::ONE);
        // Challenges are never zero, and coordinates are challenges of the layer above.
        let at_1 = (self.sum - equal_0 * at_0) * coordinate.inverse();
        let slope = at_1 - at_0 - leading;
        let factor = |x: E| at_0 + x * (slope + x * leading);
        let value = |x: E| self.prefix * (equal_0 + x * step) * factor(x);
        let poly = [value(E::ZERO), value(E::TWO), value(E::from_u8(3))];
        let (poly, challenge) = transcript.round(poly);
        self.sum = factor(challenge);
        self.prefix *= equal_0 + challenge * step;
        self.polys.push(poly);
        self.challenges.push(challenge);
        challenge
    }
}
