//! Commitments of tensors that statements of proofs in zero knowledge name.
//!
//! Let R = F\[X\]/(X^512 + 1). A tensor is a string of bytes, its elements' digits ([`digits`]), cut in elements b_0, b_1, ...
//! of R. With public uniform A_0, A_1, ... and B_1, B_2, B_3 of R and an owner's bytes e, s_1, s_2, s_3 the commitment is
//!
//! `C = sum_i A_i b_i + sum_j B_j s_j + e`.
//!
//! (Ajtai, STOC 1996, over a ring.) *Binding:* two openings in bytes give a vector of coefficients of at most 255 that
//! (A, B, 1) maps to zero: Ring-SIS. *Hiding:* `sum_j B_j s_j + e` is uniform to whoever does not know the bytes: Module-LWE.
//! A commitment is a function of tensor and salt and is opened nowhere, so that any number of proofs may name it. What a proof
//! shows is that committed columns hold bytes, by the lookup argument, and that C is this *linear* map of them: for a drawn
//! l, both sides as polynomials agree at l ([`weights`]). The argument, with its numbers, stands in `docs/PROOF.md`,
//! "Statements".

use crate::algebra::field::{E, F};
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use tg_ir::{ElementType, bounds};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, domain::Domain};

/// Degree of the ring.
pub const DEGREE: usize = 512;
/// log2 of it.
const DEGREE_VARS: usize = 9;
/// Elements of the ring that hide: e, s_1, s_2, s_3.
pub const HIDING: usize = 4;
/// log2 of the bytes that hide.
pub const BLINDING_VARS: usize = DEGREE_VARS + 2;
const _: () = assert!(DEGREE == 1 << DEGREE_VARS && HIDING == 4);
/// Indices of B_1 and those after it: beyond every A_i.
const FIRST_B: u32 = 1 << 31;
/// Most elements of a committed tensor.
pub const ELEMENTS_MAX: u32 = 1 << 20;

/// Bytes of the encoding of a commitment.
pub const COMMITMENT_BYTES: usize = 4 + 1 + 4 + 4 * DEGREE;

/// The commitment of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorCommitment {
    /// The type of its elements.
    pub kind: ElementType,
    /// How many they are: those of all inputs of a batch.
    pub elements: u32,
    /// C.
    pub value: Vec<F>,
}

impl TensorCommitment {
    /// What statements name it by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_blob(&self.to_bytes())
    }

    /// C as a polynomial at a point.
    #[must_use]
    pub fn at(&self, at: E) -> E {
        evaluate(&self.value, at)
    }
}

impl Encode for TensorCommitment {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            kind,
            elements,
            value,
        } = self;
        writer.raw(b"TGC\0");
        kind.encode(writer);
        writer.u32(*elements);
        value
            .iter()
            .for_each(|value| writer.u32(value.as_canonical_u32()));
    }
}

impl Decode for TensorCommitment {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let invalid = |field, value: u32| DecodeError::Invalid {
            field,
            value: u64::from(value),
        };
        let magic = reader.array::<4>()?;
        if &magic != b"TGC\0" {
            let value = u32::from_le_bytes(magic);
            return Err(invalid("tensor commitment magic", value));
        }
        let kind = ElementType::decode(reader)?;
        let elements = reader.u32()?;
        if elements > ELEMENTS_MAX {
            return Err(invalid("elements of a tensor commitment", elements));
        }
        let mut value = Vec::with_capacity(DEGREE);
        for _ in 0..DEGREE {
            let coefficient = reader.u32()?;
            if coefficient >= F::ORDER_U32 {
                return Err(invalid("coefficient of a tensor commitment", coefficient));
            }
            value.push(F::from_u32(coefficient));
        }
        Ok(Self {
            kind,
            elements,
            value,
        })
    }
}

/// What is added to elements of a type so that no digit is negative.
#[must_use]
pub const fn offset(kind: ElementType) -> i64 {
    match kind {
        ElementType::I8 => 1 << 7,
        ElementType::I16 => 1 << 15,
        ElementType::I32 => bounds::FIELD_BOUND,
    }
}

/// The string of a tensor: each element plus its type's offset, in little-endian bytes.
#[must_use]
pub fn digits(kind: ElementType, values: &[i32]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(kind.bytes() * values.len());
    for &value in values {
        let value = (i64::from(value) + offset(kind)).to_le_bytes();
        digits.extend_from_slice(&value[..kind.bytes()]);
    }
    digits
}

/// The bytes e, s_1, s_2, s_3 for a tensor's string: a function of both, so that one salt hides several tensors.
#[must_use]
pub fn blinding(kind: ElementType, digits: &[u8], salt: &[u8; 32]) -> Vec<u8> {
    let mut seed = Writer::new();
    seed.raw(salt);
    kind.encode(&mut seed);
    seed.bytes(digits);
    let seed = Digest::of(Domain::TensorBlinding, &seed.into_bytes());
    let mut bytes = Vec::with_capacity(HIDING * DEGREE);
    for counter in 0u32.. {
        if bytes.len() >= HIDING * DEGREE {
            break;
        }
        let block = [seed.as_bytes().as_slice(), &counter.to_le_bytes()].concat();
        bytes.extend_from_slice(Digest::of(Domain::TensorBlinding, &block).as_bytes());
    }
    bytes
}

/// Commits a string with the bytes that hide it.
///
/// # Panics
/// If there are not as many of these as [`blinding`] gives, or the string is longer than [`ELEMENTS_MAX`] elements.
#[must_use]
pub fn commit(kind: ElementType, digits: &[u8], blinding: &[u8]) -> TensorCommitment {
    assert_eq!(blinding.len(), HIDING * DEGREE, "the bytes that hide");
    let elements = digits.len() / kind.bytes();
    assert!(elements <= ELEMENTS_MAX as usize, "a tensor of a proof");
    let (noise, secrets) = blinding.split_at(DEGREE);
    // A product has 512 terms below 2^39, and there are less than 2^14 products.
    let mut sums: Vec<i64> = noise.iter().map(|&byte| i64::from(byte)).collect();
    for (index, part) in (0u32..).zip(digits.chunks(DEGREE)) {
        add_product(&mut sums, &matrix(index), part);
    }
    for (index, part) in (FIRST_B..).zip(secrets.chunks(DEGREE)) {
        add_product(&mut sums, &matrix(index), part);
    }
    let order = i64::from(F::ORDER_U32);
    TensorCommitment {
        kind,
        elements: elements as u32,
        value: sums
            .into_iter()
            .map(|sum| F::from_u32(sum.rem_euclid(order) as u32))
            .collect(),
    }
}

/// Adds a product modulo X^512 + 1.
fn add_product(sums: &mut [i64], left: &[F], right: &[u8]) {
    let left: Vec<i64> = left
        .iter()
        .map(|&value| i64::from(value.as_canonical_u32()))
        .collect();
    for (shift, &byte) in right.iter().enumerate() {
        let byte = i64::from(byte);
        let (wrapped, kept) = sums.split_at_mut(shift);
        for (sum, &value) in kept.iter_mut().zip(&left) {
            *sum += value * byte;
        }
        for (sum, &value) in wrapped.iter_mut().zip(&left[DEGREE - shift..]) {
            *sum -= value * byte;
        }
    }
}

/// An element of the public matrix: coefficients below the field's order, by rejection from 31 bits each.
fn matrix(index: u32) -> Vec<F> {
    let mut coefficients = Vec::with_capacity(DEGREE + 8);
    for counter in 0u32.. {
        if coefficients.len() >= DEGREE {
            break;
        }
        let block = [index.to_le_bytes(), counter.to_le_bytes()].concat();
        let digest = Digest::of(Domain::TensorMatrix, &block);
        let words = digest.as_bytes().as_chunks::<4>().0.iter();
        let words = words.map(|&word| u32::from_le_bytes(word) & 0x7fff_ffff);
        coefficients.extend(words.filter(|&word| word < F::ORDER_U32).map(F::from_u32));
    }
    coefficients.truncate(DEGREE);
    coefficients
}

/// Per byte of a string of some length, and per byte that hides, its weight in C as a polynomial at a point.
#[must_use]
pub fn weights(length: usize, at: E) -> (Vec<E>, Vec<E>) {
    let mut of_string = Vec::with_capacity(length.next_multiple_of(DEGREE));
    let elements = length.div_ceil(DEGREE) as u32;
    (0..elements).for_each(|index| shifts(&matrix(index), at, &mut of_string));
    of_string.truncate(length);
    let mut of_blinding: Vec<E> = at.powers().take(DEGREE).collect();
    let secrets = FIRST_B..FIRST_B + (HIDING as u32 - 1);
    secrets.for_each(|index| shifts(&matrix(index), at, &mut of_blinding));
    (of_string, of_blinding)
}

/// An element times X^j modulo X^512 + 1, at a point, for all j: from one to the next, `f(l) l` less the wrapped coefficient
/// times `l^512 + 1`.
fn shifts(element: &[F], at: E, weights: &mut Vec<E>) {
    let modulus = at.exp_power_of_2(DEGREE_VARS) + E::ONE;
    let mut value = evaluate(element, at);
    for &wrapped in element.iter().rev() {
        weights.push(value);
        value = value * at - modulus * wrapped;
    }
}

fn evaluate(coefficients: &[F], at: E) -> E {
    let coefficients = coefficients.iter().rev();
    coefficients.fold(E::ZERO, |sum, &coefficient| sum * at + coefficient)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::algebra::transcript::{self, draw};

    fn point() -> E {
        draw(&mut transcript::registration(tg_types::ProgramId::default()))
    }

    fn string(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i * i + 3 * i) as u8).collect()
    }

    /// C at a point is the weighted sum of all bytes: of short strings, whole elements, and several.
    #[test]
    fn the_weights_are_those_of_the_commitment() {
        for length in [0, 1, 511, 512, 513, 1_300] {
            let (own, salt) = (string(length), [7; 32]);
            let hiding = blinding(ElementType::I8, &own, &salt);
            let commitment = commit(ElementType::I8, &own, &hiding);
            let (of_string, of_blinding) = weights(length, point());
            assert_eq!((of_string.len(), of_blinding.len()), (length, 2_048));
            let bytes = own.iter().chain(&hiding);
            let terms = of_string.into_iter().chain(of_blinding).zip(bytes);
            let sum: E = terms.map(|(weight, &byte)| weight * F::from_u8(byte)).sum();
            assert_eq!(sum, commitment.at(point()), "{length}");
        }
    }

    #[test]
    fn a_commitment_depends_on_tensor_type_and_salt() {
        let made = |own: &[u8], salt: u8| {
            let hiding = blinding(ElementType::I8, own, &[salt; 32]);
            commit(ElementType::I8, own, &hiding)
        };
        let own = string(700);
        let mut other = own.clone();
        other[699] ^= 1;
        assert_eq!(made(&own, 1), made(&own, 1));
        let one = made(&own, 1);
        assert!([made(&own, 2), made(&other, 1)].iter().all(|commitment| {
            let differ = one.value.iter().zip(&commitment.value);
            differ.filter(|(a, b)| a != b).count() > 500
        }));
        assert_ne!(
            blinding(ElementType::I8, &own, &[1; 32]),
            blinding(ElementType::I16, &own, &[1; 32])
        );
    }

    #[test]
    fn digits_are_bytes_of_shifted_elements() {
        assert_eq!(digits(ElementType::I8, &[-128, 0, 127]), [0, 128, 255]);
        assert_eq!(digits(ElementType::I16, &[-32_767, 1]), [1, 0, 1, 128]);
        let bound = i32::try_from(bounds::FIELD_BOUND).unwrap();
        assert_eq!(
            digits(ElementType::I32, &[-bound, 3, bound - 1]),
            [0, 0, 0, 0, 3, 0, 128, 63, 255, 255, 255, 126]
        );
    }

    #[test]
    fn a_commitment_has_one_encoding() {
        let own = string(9);
        let hiding = blinding(ElementType::I8, &own, &[3; 32]);
        let bytes = commit(ElementType::I8, &own, &hiding).to_bytes();
        let read = TensorCommitment::from_bytes(&bytes).unwrap();
        assert_eq!((read.to_bytes(), read.elements), (bytes.clone(), 9));
        assert_eq!(read.digest(), Digest::of_blob(&bytes));
        for (place, value) in [(0, 1), (4, 9), (8, 255), (12, 255)] {
            let mut bytes = bytes.clone();
            bytes[place] = value;
            assert!(TensorCommitment::from_bytes(&bytes).is_err() || place == 12);
        }
        let mut large = bytes.clone();
        large[9..13].copy_from_slice(&F::ORDER_U32.to_le_bytes());
        assert!(TensorCommitment::from_bytes(&large).is_err());
        assert!(TensorCommitment::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    }
}
