//! The float types that operators compute in.

use crate::tensor::Element;
use std::ops::{Add, Div, Mul, Neg, Sub};
use tg_exec::kernels::Conv2d;
use tg_exec::kernels::memory::Plain;

/// Rows of the result, its columns, and the depth of the sums.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
}

/// A float type that operators compute in.
pub(crate) trait Real:
    Element
    + Plain
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;
    const INFINITY: Self;

    /// The nearest number.
    fn of(value: f64) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// `self * factor + summand`, rounded once.
    fn fma(self, factor: Self, summand: Self) -> Self;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn exp_m1(self) -> Self;
    fn tanh(self) -> Self;
    fn erf(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn sigmoid(self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn is_nan(self) -> bool;
    /// The remainder with the sign of `self`; exact.
    fn rem(self, divisor: Self) -> Self;
    /// `count` numbers of unspecified value, from memory that is no longer needed where there is some.
    fn take(count: usize) -> Vec<Self>;
    /// The product of two row-major matrices, in TGF-1's order.
    fn product(sizes: Sizes, a: &[Self], b: &[Self], out: &mut [Self]);
    /// A convolution of one image in TGF-1's order, the bias added last, where the type has a fast one.
    fn convolve(
        conv: &Conv2d,
        image: &[Self],
        weights: &[Self],
        bias: Option<&[Self]>,
        out: &mut [Self],
    ) -> bool;

    /// Every NaN as the one, whatever its bits.
    fn canonical(self) -> Self;

    /// One divided by it.
    #[inline(always)]
    fn reciprocal(self) -> Self {
        Self::ONE / self
    }

    /// The larger; NaN if either is; the first of equal ones.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self.is_nan() || other.is_nan() {
            Self::NAN
        } else if self < other {
            other
        } else {
            self
        }
    }

    /// The smaller; NaN if either is; the first of equal ones.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if self.is_nan() || other.is_nan() {
            Self::NAN
        } else if other < self {
            other
        } else {
            self
        }
    }
}
