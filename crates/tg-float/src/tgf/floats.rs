//! What TGF-1 arithmetic is, for `f32` and `f64` alike.

use super::machine::{take, with_scratch};
use super::math::{self, wide};
use super::product::{few_rows, product_f32};
use super::real::{Real, Sizes};
use crate::kernels::conv_f32;
use crate::tensor::{NAN_F32, NAN_F64};
use tg_exec::kernels::Conv2d;

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
    take,
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
    with_scratch(|cpu, scratch| {
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
