//! The arithmetic of a proof in zero knowledge: values behind one-time pads.
//!
//! A message m arrives as m' = m + r, where the pad r is a uniform element that was committed before the first challenge.
//! To the verifier its value is the [`Form`] `m' - r`: linear in what is committed. Forms add and scale. A product of two
//! of them is taken with a committed triple (a, b, c = a b), as Beaver does (CRYPTO 1991): the prover sends p = x - a and
//! q = y - b, both uniform, and `x y = p q + p b + q a + c`. What should vanish is noted, and shown for all of it together
//! at the end: one linear functional of what is committed.
//!
//! That c is a b is shown with a second triple (a', b', c') of its own: a challenge eta is drawn after the commitment, the
//! prover sends `d = eta a - a'` and `e = b - b'`, uniform again, and
//! `eta c - c' - d e - d b' - e a' = eta (c - a b) - (c' - a' b')` vanishes for at most one eta unless both triples are
//! right. The argument stands in `docs/PROOF.md`, "Zero
//! knowledge".

use crate::algebra::arithmetic::{Arithmetic, Counting, Looking, Value};
use crate::algebra::field::{E, F};
use crate::algebra::transcript::{Challenger, absorb, draw};
use p3_field::{Field, PrimeCharacteristicRing};
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

/// A known element plus a linear form of the committed secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// The known part.
    pub known: E,
    /// Index of a secret, and its coefficient. A secret may occur more than once.
    pub terms: Vec<(u32, E)>,
}

impl Form {
    /// A secret.
    fn of(secret: usize) -> Self {
        Self {
            known: E::ZERO,
            terms: vec![(secret as u32, E::ONE)],
        }
    }

    /// Its value for given secrets; those that are missing count as zero.
    #[must_use]
    pub fn at(&self, secrets: &[E]) -> E {
        let secret = |index: u32| secrets.get(index as usize).copied().unwrap_or_default();
        let terms = self.terms.iter();
        terms.fold(self.known, |sum, &(index, factor)| {
            sum + secret(index) * factor
        })
    }
}

impl From<E> for Form {
    fn from(known: E) -> Self {
        Self {
            known,
            terms: Vec::new(),
        }
    }
}

impl Add for Form {
    type Output = Self;

    fn add(mut self, mut other: Self) -> Self {
        // The shorter list is copied.
        if self.terms.len() < other.terms.len() {
            std::mem::swap(&mut self.terms, &mut other.terms);
        }
        self.known += other.known;
        self.terms.extend(other.terms);
        self
    }
}

impl Sub for Form {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other * F::NEG_ONE
    }
}

impl Mul<E> for Form {
    type Output = Self;

    fn mul(mut self, factor: E) -> Self {
        self.known *= factor;
        for (_, own) in &mut self.terms {
            *own *= factor;
        }
        self
    }
}

impl Mul<F> for Form {
    type Output = Self;

    fn mul(mut self, factor: F) -> Self {
        self.known *= factor;
        for (_, own) in &mut self.terms {
            *own *= factor;
        }
        self
    }
}

impl Sum for Form {
    fn sum<I: Iterator<Item = Self>>(forms: I) -> Self {
        forms.fold(Self::default(), Add::add)
    }
}

impl Value for Form {}

/// Elements of a triple and its companion: a, b, c = a b, a', b', c' = a' b'.
const TRIPLE: usize = 6;

/// How many secrets a proof has, in their order: a pad per message, the pad of the inverse, the triples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Secrets {
    /// Messages that are padded.
    pub messages: usize,
    /// Products of two values.
    pub products: usize,
    /// Whether there is a value that must not vanish: the root of a fractional sum.
    pub inverses: bool,
}

impl From<Counting> for Secrets {
    fn from(counted: Counting) -> Self {
        Self {
            messages: counted.messages,
            products: counted.products,
            inverses: counted.inverses > 0,
        }
    }
}

impl Secrets {
    /// All of them.
    #[must_use]
    pub const fn count(self) -> usize {
        self.messages + 1 + TRIPLE * self.products
    }

    /// The pad of the inverse.
    const fn inverse(self) -> usize {
        self.messages
    }

    /// The elements of a triple and its companion.
    fn triple(self, index: usize) -> [usize; TRIPLE] {
        std::array::from_fn(|element| self.messages + 1 + TRIPLE * index + element)
    }

    /// Secrets from uniform elements: the products of the triples are put in their places.
    #[must_use]
    pub fn from_uniform(self, mut uniform: impl FnMut() -> E) -> Vec<E> {
        let mut secrets: Vec<E> = (0..self.count()).map(|_| uniform()).collect();
        for index in 0..self.products {
            let [a, b, c, own_a, own_b, own_c] = self.triple(index);
            secrets[c] = secrets[a] * secrets[b];
            secrets[own_c] = secrets[own_a] * secrets[own_b];
        }
        secrets
    }
}

/// What a prover sends about its products.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProductMessages {
    /// The padded inverse of the one value that must not be zero.
    pub inverse: E,
    /// Per product both factors less the triple's: x - a, y - b.
    pub factors: Vec<[E; 2]>,
    /// Per product what compares its triple with the companion: eta a - a', b - b'.
    pub compared: Vec<[E; 2]>,
}

/// Where the messages about products come from.
#[derive(Debug)]
enum Source<'a> {
    /// A proof.
    Sent(&'a ProductMessages),
    /// The prover's secrets, while it makes them.
    Made(&'a [E], ProductMessages),
}

/// The arithmetic of a verifier that sees padded messages, and of a prover that replays what it will see.
#[derive(Debug)]
pub struct Tape<'a> {
    secrets: Secrets,
    source: Source<'a>,
    received: usize,
    multiplied: usize,
    inverted: usize,
    vanishing: Vec<Form>,
}

impl<'a> Tape<'a> {
    /// A verifier's.
    #[must_use]
    pub fn of_proof(secrets: Secrets, messages: &'a ProductMessages) -> Self {
        Self::new(secrets, Source::Sent(messages))
    }

    /// A prover's.
    #[must_use]
    pub fn of_secrets(secrets: Secrets, values: &'a [E]) -> Self {
        Self::new(secrets, Source::Made(values, ProductMessages::default()))
    }

    const fn new(secrets: Secrets, source: Source<'a>) -> Self {
        Self {
            secrets,
            source,
            received: 0,
            multiplied: 0,
            inverted: 0,
            vanishing: Vec::new(),
        }
    }

    /// All forms that must vanish, and the prover's messages without the comparisons; nothing if there were not as many
    /// messages and products as there are secrets for them. Stops: a pad that is used twice.
    #[must_use]
    pub fn finish(self) -> Option<(Vec<Form>, ProductMessages)> {
        let Secrets {
            messages,
            products,
            inverses,
        } = self.secrets;
        // A proof without a lookup argument inverts nothing: the pad of the inverse hides nothing then.
        let inverted = usize::from(inverses);
        let counted =
            (self.received, self.multiplied, self.inverted) == (messages, products, inverted);
        let messages = match self.source {
            // Stops: a second encoding, by an inverse of nothing.
            Source::Sent(messages) if !inverses && messages.inverse != E::ZERO => return None,
            Source::Sent(messages) => messages.clone(),
            Source::Made(_, messages) => messages,
        };
        (counted && messages.factors.len() == products).then_some((self.vanishing, messages))
    }

    /// Both factors of the next product less its triple's.
    fn factors(&mut self, differences: [&Form; 2]) -> [E; 2] {
        match &mut self.source {
            Source::Sent(messages) => {
                let factors = messages.factors.get(self.multiplied);
                factors.copied().unwrap_or_default()
            }
            Source::Made(secrets, messages) => {
                let factors = differences.map(|difference| difference.at(secrets));
                messages.factors.push(factors);
                factors
            }
        }
    }
}

impl Arithmetic for Tape<'_> {
    type Value = Form;
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

    fn receive(&mut self, message: E) -> Form {
        let pad = Form::of(self.received);
        self.received += 1;
        Form::from(message) - pad
    }

    fn product(&mut self, left: &Form, right: &Form) -> Form {
        let [a, b, c, ..] = self.secrets.triple(self.multiplied).map(Form::of);
        let differences = [left.clone() - a.clone(), right.clone() - b.clone()];
        let [p, q] = self.factors(differences.each_ref());
        self.multiplied += 1;
        // Stops: factors of other values.
        for (difference, sent) in differences.into_iter().zip([p, q]) {
            self.vanishing.push(difference - Form::from(sent));
        }
        Form::from(p * q) + b * p + a * q + c
    }

    /// A product with private weights takes a triple; public ones scale the value.
    fn weighed(&mut self, value: &Form, weight: &Form) -> Form {
        if weight.terms.is_empty() {
            return value.clone() * weight.known;
        }
        self.product(value, weight)
    }

    fn vanishes(&mut self, value: Form) -> bool {
        if value.terms.is_empty() {
            return value.known == E::ZERO;
        }
        self.vanishing.push(value);
        true
    }

    /// The prover sends a padded inverse, and value times inverse is 1.
    fn is_not_zero(&mut self, value: &Form) -> bool {
        let pad = self.secrets.inverse();
        self.inverted += 1;
        let sent = match &mut self.source {
            Source::Sent(messages) => messages.inverse,
            Source::Made(secrets, messages) => {
                let inverse = value.at(secrets).try_inverse().unwrap_or_default();
                messages.inverse = inverse + Form::of(pad).at(secrets);
                messages.inverse
            }
        };
        let inverse = Form::from(sent) - Form::of(pad);
        let product = self.product(value, &inverse);
        self.vanishes(product - Form::from(E::ONE))
    }
}

/// The comparisons of all triples with their companions, for a challenge.
#[must_use]
pub fn compare(secrets: Secrets, values: &[E], eta: E) -> Vec<[E; 2]> {
    let triples = (0..secrets.products).map(|index| secrets.triple(index));
    triples
        .map(|[a, b, _, own_a, own_b, _]| {
            [eta * values[a] - values[own_a], values[b] - values[own_b]]
        })
        .collect()
}

/// What must vanish if every triple's c is a b; nothing if these are not as many as the triples. Stops: a triple that is
/// not compared, through which any product would pass.
#[must_use]
pub fn comparisons(secrets: Secrets, compared: &[[E; 2]], eta: E) -> Option<Vec<Form>> {
    if compared.len() != secrets.products {
        return None;
    }
    let mut forms = Vec::with_capacity(3 * compared.len());
    for (index, &[d, e]) in compared.iter().enumerate() {
        let [a, b, c, own_a, own_b, own_c] = secrets.triple(index).map(Form::of);
        forms.push(a * eta - own_a.clone() - Form::from(d));
        forms.push(b - own_b.clone() - Form::from(e));
        forms.push(c * eta - own_c - own_b * d - own_a * e - Form::from(d * e));
    }
    Some(forms)
}

/// Absorbs the factors and draws the challenge that compares triples.
pub fn bind_factors(products: &ProductMessages, challenger: &mut Challenger) -> E {
    absorb(challenger, &[products.inverse]);
    let factors = products.factors.iter();
    factors.for_each(|factors| absorb(challenger, factors));
    draw(challenger)
}

/// Absorbs the comparisons and draws the challenge that batches all checks.
pub fn bind_compared(products: &ProductMessages, challenger: &mut Challenger) -> E {
    let compared = products.compared.iter();
    compared.for_each(|compared| absorb(challenger, compared));
    draw(challenger)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::algebra::transcript::Challenger;
    use crate::algebra::transcript::{self, draw};
    use tg_types::ProgramId;

    fn challenger() -> Challenger {
        transcript::registration(ProgramId::default())
    }

    /// Values x, y, z = x y + 3 x with z checked, and x shown to be other than zero.
    struct Example {
        secrets: Secrets,
        values: Vec<E>,
        sent: [E; 3],
    }

    impl Example {
        fn new([x, y, z]: [E; 3]) -> Self {
            let mut from = challenger();
            let secrets = Secrets {
                messages: 3,
                products: 2,
                inverses: true,
            };
            let values = secrets.from_uniform(|| draw(&mut from));
            let sent = [x + values[0], y + values[1], z + values[2]];
            Self {
                secrets,
                values,
                sent,
            }
        }

        fn run<A: Arithmetic>(&self, arithmetic: &mut A) {
            let [x, y, z] = self.sent.map(|message| arithmetic.receive(message));
            let product = arithmetic.product(&x, &y);
            assert!(arithmetic.is_not_zero(&x));
            // A public weight scales; it takes no triple.
            let public = A::Value::from(E::from_u32(3));
            let right = product + arithmetic.weighed(&x, &public);
            assert!(arithmetic.vanishes(z - right));
        }

        fn walk(&self, mut tape: Tape<'_>) -> Option<(Vec<Form>, ProductMessages)> {
            self.run(&mut tape);
            tape.finish()
        }

        /// Whether everything that should vanishes, for a proof's messages.
        fn holds(&self, messages: &ProductMessages, eta: E) -> bool {
            let tape = Tape::of_proof(self.secrets, messages);
            let Some((forms, _)) = self.walk(tape) else {
                return false;
            };
            let Some(compared) = comparisons(self.secrets, &messages.compared, eta) else {
                return false;
            };
            let mut all = forms.iter().chain(&compared);
            all.all(|form| form.at(&self.values) == E::ZERO)
        }

        fn made(&self, eta: E) -> ProductMessages {
            let tape = Tape::of_secrets(self.secrets, &self.values);
            let (_, mut messages) = self.walk(tape).unwrap();
            messages.compared = compare(self.secrets, &self.values, eta);
            messages
        }
    }

    fn honest() -> Example {
        let [x, y] = [7u32, 11].map(E::from_u32);
        Example::new([x, y, x * y + x * E::from_u32(3)])
    }

    #[test]
    fn what_is_true_vanishes_and_what_is_false_does_not() {
        let eta = E::from_u32(12_345);
        let example = honest();
        assert!(example.holds(&example.made(eta), eta));
        let [x, y] = [7u32, 11].map(E::from_u32);
        for false_values in [[x, y, x * y], [E::ZERO, y, E::ZERO]] {
            let example = Example::new(false_values);
            assert!(!example.holds(&example.made(eta), eta));
        }
    }

    /// A count spends what a tape does.
    #[test]
    fn pads_and_triples_are_counted_as_they_are_spent() {
        let example = honest();
        let mut counting = Counting::default();
        example.run(&mut counting);
        assert_eq!(Secrets::from(counting), example.secrets);
        // A private weight takes a triple.
        let [value, weight] = [1, 2].map(|message| counting.receive(E::from_u32(message)));
        counting.weighed(&value, &weight);
        let more = Secrets {
            messages: 5,
            products: 3,
            inverses: true,
        };
        assert_eq!(Secrets::from(counting), more);
    }

    #[test]
    fn every_message_about_products_is_bound() {
        let eta = E::from_u32(12_345);
        let example = honest();
        let made = example.made(eta);
        let mut changed = vec![made; 13];
        changed[0].inverse += E::ONE;
        for (index, message) in changed[1..9].iter_mut().enumerate() {
            let list = if index < 4 {
                &mut message.factors
            } else {
                &mut message.compared
            };
            list[index / 2 % 2][index % 2] += E::ONE;
        }
        changed[9].factors.pop();
        changed[10].factors.push([E::ONE; 2]);
        changed[11].compared.pop();
        changed[12].compared.push([E::ONE; 2]);
        for messages in changed {
            assert!(!example.holds(&messages, eta), "{messages:?}");
        }
    }

    /// A triple whose c is not a b would let any product pass: the companion shows it, for all challenges but one.
    #[test]
    fn a_false_triple_is_caught() {
        let eta = E::from_u32(12_345);
        let mut lies = 0;
        for place in 0..6 {
            let mut example = honest();
            let [.., c, _, _, _] = example.secrets.triple(0);
            example.values[c - 2 + place] += E::ONE;
            let mut messages = example.made(eta);
            messages.compared = compare(example.secrets, &example.values, eta);
            lies += usize::from(!example.holds(&messages, eta));
        }
        assert_eq!(lies, 6);
        // Both wrong by the right amounts: the one challenge that does not see it.
        let mut example = honest();
        let [.., c, _, _, own_c] = example.secrets.triple(0);
        example.values[c] += E::ONE;
        example.values[own_c] += eta;
        let compared = comparisons(
            example.secrets,
            &compare(example.secrets, &example.values, eta),
            eta,
        )
        .unwrap();
        assert!(
            compared
                .iter()
                .all(|form| form.at(&example.values) == E::ZERO)
        );
        let other = eta + E::ONE;
        let compared = comparisons(
            example.secrets,
            &compare(example.secrets, &example.values, other),
            other,
        )
        .unwrap();
        assert!(
            !compared
                .iter()
                .all(|form| form.at(&example.values) == E::ZERO)
        );
    }

    #[test]
    fn another_number_of_messages_is_refused() {
        let example = honest();
        let of = |messages, products, inverses| Secrets {
            messages,
            products,
            inverses,
        };
        for secrets in [
            of(2, 2, true),
            of(4, 2, true),
            of(3, 1, true),
            of(3, 3, true),
            // One value is inverted, and the program has none that must not vanish.
            of(3, 2, false),
        ] {
            let tape = Tape::of_secrets(secrets, &example.values);
            assert_eq!(example.walk(tape), None);
        }
    }
}
