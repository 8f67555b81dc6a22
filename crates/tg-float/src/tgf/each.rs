//! A function of every element of an operator's input, and a choice by its type.

use super::call::{Call, Results, one};
use super::machine::vectorised;
use super::real::Real;

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
            $crate::tensor::Data::F32(values) => $crate::tgf::each::map::<f32>(
                $call,
                values,
                #[inline(always)]
                |$x| $body,
            ),
            $crate::tensor::Data::F64(values) => $crate::tgf::each::map::<f64>(
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
