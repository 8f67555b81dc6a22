//! What TGF-1 arithmetic is, for `f32` and `f64` alike.

use super::call::{Call, Results, one};
use super::gemm::{Sizes, few_rows, product_f32};
use super::machine::vectorised;
use super::math::{self, wide};
use crate::kernels::conv_f32;
use crate::tensor::{Element, NAN_F32, NAN_F64};
use std::ops::{Add, Div, Mul, Neg, Sub};
use tg_exec::kernels::Conv2d;
use tg_exec::kernels::memory::Plain;

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

/// Methods that call the function of their name.
macro_rules! functions {
    ($from:path: $($name:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            use $from as from;
            from::$name(self)
        }
    )*};
    (of $from:ty: $($name:ident),*) => {$(
        #[inline(always)]
        fn $name(self) -> Self {
            <$from>::$name(self)
        }
    )*};
}

macro_rules! real {
    ($type:ty, $nan:expr, $functions:path, $sigmoid:expr, $take:expr, $product:expr, $convolve:expr) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAN: Self = $nan;
            const INFINITY: Self = <$type>::INFINITY;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn fma(self, factor: Self, summand: Self) -> Self {
                self.mul_add(factor, summand)
            }
            functions!(of $type: sqrt, abs, floor, ceil);
            functions!($functions: exp, ln, ln_1p, exp_m1, tanh, erf, sin, cos);
            #[inline(always)]
            fn canonical(self) -> Self {
                // As integers: see `kernels::canonical`.
                if self.to_bits() << 1 > <$type>::INFINITY.to_bits() << 1 {
                    $nan
                } else {
                    self
                }
            }
            #[inline(always)]
            fn sigmoid(self) -> Self {
                $sigmoid(self)
            }
            #[inline(always)]
            fn pow(self, exponent: Self) -> Self {
                use $functions as functions;
                functions::pow(self, exponent)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
            #[inline(always)]
            fn rem(self, divisor: Self) -> Self {
                self % divisor
            }
            fn take(count: usize) -> Vec<Self> {
                $take(count)
            }
            fn product(sizes: Sizes, a: &[Self], b: &[Self], out: &mut [Self]) {
                $product(sizes, a, b, out);
            }
            fn convolve(
                conv: &Conv2d,
                image: &[Self],
                weights: &[Self],
                bias: Option<&[Self]>,
                out: &mut [Self],
            ) -> bool {
                $convolve(conv, image, weights, bias, out)
            }
        }
    };
}

real!(
    f32,
    NAN_F32,
    super::math,
    math::sigmoid,
    super::machine::take,
    product_f32,
    convolve_f32
);
real!(
    f64,
    NAN_F64,
    super::math::wide,
    wide_sigmoid,
    |count| vec![0.0; count],
    few_rows,
    |_, _, _, _, _| false
);

fn convolve_f32(
    conv: &Conv2d,
    image: &[f32],
    weights: &[f32],
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> bool {
    super::machine::with_scratch(|cpu, scratch| {
        conv_f32(cpu, scratch, conv, [image, weights], bias, out);
    });
    true
}

#[inline(always)]
fn wide_sigmoid(x: f64) -> f64 {
    let small = wide::exp(-x.abs());
    let top = if x < 0.0 { small } else { 1.0 };
    if x.is_nan() {
        NAN_F64
    } else {
        top / (1.0 + small)
    }
}

/// Applies a function to every element of a slice, at the widest instruction set.
#[inline]
pub(crate) fn map_slice<R: Real>(x: &[R], out: &mut [R], function: impl Fn(R) -> R) {
    vectorised(
        #[inline(always)]
        || map_here(x, out, function),
    );
}

/// The same in loops that are compiled for the instructions in use already.
#[inline(always)]
pub(crate) fn map_here<R: Real>(x: &[R], out: &mut [R], function: impl Fn(R) -> R) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = function(x).canonical();
    }
}

/// A function of every element of input 0.
#[inline]
pub(crate) fn map<R: Real>(call: &Call<'_>, x: &[R], function: impl Fn(R) -> R) -> Results {
    let shape = call.input(0)?.shape();
    let mut out = call.buffer(shape)?;
    map_slice(x, &mut out, function);
    one(shape.to_vec(), out)
}

/// Evaluates an expression of a float element for every element of input 0, in its own type.
macro_rules! map_reals {
    ($call:expr, $x:ident => $body:expr) => {
        match $call.input(0)?.data() {
            $crate::tensor::Data::F32(values) => $crate::tgf::real::map::<f32>(
                $call,
                values,
                #[inline(always)]
                |$x| $body,
            ),
            $crate::tensor::Data::F64(values) => $crate::tgf::real::map::<f64>(
                $call,
                values,
                #[inline(always)]
                |$x| $body,
            ),
            _ => Err($call.wrong_type(0)),
        }
    };
}

/// Calls a generic function with the float type of an input.
macro_rules! by_real {
    ($call:expr, $index:expr, $function:ident ( $($argument:expr),* )) => {
        match $call.input($index)?.dtype() {
            $crate::tensor::DType::F32 => $function::<f32>($($argument),*),
            $crate::tensor::DType::F64 => $function::<f64>($($argument),*),
            _ => Err($call.wrong_type($index)),
        }
    };
}

pub(crate) use {by_real, map_reals};
