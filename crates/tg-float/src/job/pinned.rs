//! What a processor must compute before its owner answers for float runs: elementary operations whose results IEEE 754
//! fixes, and one run whose bits are pinned.
//!
//! It shows a processor, a library or a compiler that departs from the tier in general (subnormals set to zero, another rounding, a
//! product that is rounded before it is added to), on the thread that looks and on those that it starts later, which inherit its control
//! word. It does not show one that computes wrong once in a while, or in an operator that the pinned run does not have.

use std::hint::black_box;

use super::file::{FloatLimits, FloatModelFile};
use super::named::NamedTensors;
use super::run::FloatModel;
use crate::graph::{Dim, Graph, Input, Node};
use crate::tensor::{DType, FloatTensor};
use tg_types::{Digest, Encode as _};

/// The digest of the pinned run: [`graph`] on the [`input`] of [`PINNED_ROWS`] rows.
pub(super) const PINNED_TRACE: &str =
    "0x8f0cb77ea19ea99de6780feec1f68dc4a721d130b4d1476233dd55b9caba9c0e";

/// Rows of the input of the pinned run.
pub(super) const PINNED_ROWS: usize = 2;

/// How floats here differ from those of the tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FloatDeparture {
    /// An operation has another result than IEEE 754 defines.
    #[error("{operation} gives the bits {found:#x} and not {expected:#x}")]
    Operation {
        /// Which one.
        operation: &'static str,
        /// The bits that the standard defines.
        expected: u64,
        /// The bits found.
        found: u64,
    },
    /// The pinned run has other bits.
    #[error("the pinned run gives {found} and not {expected}", expected = PINNED_TRACE)]
    Run {
        /// The digest found.
        found: Digest,
    },
}

/// Whether this thread computes floats as the tier defines them, as far as a few operations and the pinned run show. Takes well below a
/// millisecond.
///
/// # Errors
/// The first departure.
///
/// # Examples
/// ```
/// assert_eq!(tg_float::job::check_floats(), Ok(()));
/// ```
pub fn check_floats() -> Result<(), FloatDeparture> {
    for (operation, found, expected) in single().into_iter().chain(double()) {
        check_operation(operation, found, expected)?;
    }
    let found = pinned_model().run(&input(PINNED_ROWS)).trace;
    match found.to_string() == PINNED_TRACE {
        true => Ok(()),
        false => Err(FloatDeparture::Run { found }),
    }
}

fn check_operation(
    operation: &'static str,
    found: u64,
    expected: u64,
) -> Result<(), FloatDeparture> {
    match found == expected {
        true => Ok(()),
        false => Err(FloatDeparture::Operation {
            operation,
            expected,
            found,
        }),
    }
}

/// Operations of binary32: what they are, the bits found and the bits due. Operands are hidden from the compiler, which would compute
/// results itself.
fn single() -> [(&'static str, u64, u64); 9] {
    let number = |bits: u32| black_box(f32::from_bits(bits));
    let bits = |number: f32| u64::from(number.to_bits());
    let (one, two, three) = (
        number(0x3F80_0000),
        number(0x4000_0000),
        number(0x4040_0000),
    );
    // Half a unit in the last place of 1, and three quarters of one.
    let (half, more) = (number(0x3380_0000), number(0x33C0_0000));
    let fused = number(0x3F80_0800).mul_add(number(0x3F80_0800), number(0xBF80_1000));
    [
        // Stops: results that are set to zero where they are subnormal.
        (
            "2^-126 / 2 in 32 bits",
            bits(number(0x0080_0000) / two),
            0x0040_0000,
        ),
        // Stops: operands that are taken for zero where they are subnormal.
        (
            "2^-149 * 2^24 in 32 bits",
            bits(number(0x0000_0001) * number(0x4B80_0000)),
            0x0100_0000,
        ),
        // Stops: rounding upwards.
        ("1 + 2^-24 in 32 bits", bits(one + half), 0x3F80_0000),
        // Stops: rounding downwards or to zero.
        ("1 + 1.5 * 2^-24 in 32 bits", bits(one + more), 0x3F80_0001),
        (
            "-1 - 1.5 * 2^-24 in 32 bits",
            bits(-one - more),
            0xBF80_0001,
        ),
        ("1 / 3 in 32 bits", bits(one / three), 0x3EAA_AAAB),
        ("the root of 2 in 32 bits", bits(two.sqrt()), 0x3FB5_04F3),
        // Stops: a product that is rounded before something is added to it.
        (
            "(1 + 2^-12)^2 - (1 + 2^-11), fused, in 32 bits",
            bits(fused),
            0x3380_0000,
        ),
        // Stops: intermediate results that keep more digits than their type has.
        (
            "(1 + 2^-24) - 1 in 32 bits",
            bits(black_box(one + half) - one),
            0,
        ),
    ]
}

/// As [`single`], of binary64.
fn double() -> [(&'static str, u64, u64); 5] {
    let number = |bits: u64| black_box(f64::from_bits(bits));
    let (one, two) = (number(0x3FF0_0000_0000_0000), number(0x4000_0000_0000_0000));
    let (half, more) = (number(0x3CA0_0000_0000_0000), number(0x3CA8_0000_0000_0000));
    [
        (
            "2^-1022 / 2 in 64 bits",
            (number(0x0010_0000_0000_0000) / two).to_bits(),
            0x0008_0000_0000_0000,
        ),
        (
            "2^-1074 * 2^53 in 64 bits",
            (number(1) * number(0x4340_0000_0000_0000)).to_bits(),
            0x0020_0000_0000_0000,
        ),
        (
            "1 + 2^-53 in 64 bits",
            (one + half).to_bits(),
            0x3FF0_0000_0000_0000,
        ),
        (
            "1 + 1.5 * 2^-53 in 64 bits",
            (one + more).to_bits(),
            0x3FF0_0000_0000_0001,
        ),
        (
            "-1 - 1.5 * 2^-53 in 64 bits",
            (-one - more).to_bits(),
            0xBFF0_0000_0000_0001,
        ),
    ]
}

fn pinned_model() -> FloatModel {
    let files = FloatModelFile::new(&graph(), FloatLimits::default());
    let files = files.expect("the tier takes a graph of two nodes");
    FloatModel::read(&files.file).expect("a file that was made here is read")
}

/// `y = softmax(x w)` and the product beside it, of any number of rows.
pub(super) fn graph() -> Graph {
    let mut graph = Graph::default();
    graph.opsets.insert(String::new(), 13);
    let x = graph.fresh("x");
    graph.inputs.push(Input {
        value: x,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![Dim::Named("rows".to_owned()), Dim::Known(3)]),
    });
    let weights = (0..12).map(|k| k as f32 * 0.25 - 1.0).collect();
    let w = FloatTensor::of(vec![3, 4], weights).expect("3 x 4 numbers");
    let w = graph.constant("w", w);
    let (product, y) = (graph.fresh("product"), graph.fresh("y"));
    graph.append(Node::new(
        "multiply",
        "MatMul",
        13,
        vec![x, w],
        vec![product],
    ));
    graph.append(Node::new(
        "normalise",
        "Softmax",
        13,
        vec![product],
        vec![y],
    ));
    graph.outputs.extend([y, product]);
    graph
}

/// So many rows of the numbers from 0 on.
pub(super) fn input(rows: usize) -> Vec<u8> {
    let values = (0..3 * rows).map(|k| k as f32).collect();
    let x = FloatTensor::of(vec![rows, 3], values).expect("three numbers a row");
    NamedTensors(vec![("x".to_owned(), x)]).to_bytes()
}

#[cfg(test)]
mod tests {
    use super::{FloatDeparture, check_floats, check_operation, double, single};

    #[test]
    fn a_processor_that_computes_as_the_tier_says_is_taken() {
        assert_eq!(check_floats(), Ok(()));
    }

    #[test]
    fn an_operation_with_other_bits_is_named() {
        for (operation, found, expected) in single().into_iter().chain(double()) {
            assert_eq!(check_operation(operation, found, expected), Ok(()));
            let found = found ^ 1;
            let named = FloatDeparture::Operation {
                operation,
                expected,
                found,
            };
            let other = check_operation(operation, found, expected);
            assert_eq!(other, Err(named));
            assert!(named.to_string().contains(operation), "{named}");
        }
    }
}
