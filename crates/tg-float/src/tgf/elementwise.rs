//! Functions of one tensor, element by element, and `Clip` and `Where`.

use super::broadcast::{Walk, broadcast_shape};
use super::call::Entry;
use super::call::Half::{Native, Widen};
use super::call::{Call, Results, one, tensor};
use super::each::map_reals;
use super::error::OpError;
use super::math::{self, wide};
use super::real::Real;
use crate::convert::{self, CastMode};
use crate::tensor::{DType, Data, FloatTensor};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    Some(match op {
        "Identity" => (identity, Native),
        "Abs" => (absolute, Widen),
        "Neg" => (negate, Widen),
        "Sign" => (sign, Widen),
        "Not" => (not, Native),
        "BitwiseNot" => (bitwise_not, Native),
        "Clip" => (clip, Widen),
        "Where" => (choose, Native),
        "IsNaN" => (is_nan, Widen),
        "IsInf" => (is_infinite, Widen),
        _ => (function(op)?, Widen),
    })
}

/// Functions of a float.
fn function(op: &str) -> Option<super::call::Kernel> {
    Some(match op {
        "Floor" => |call| map_reals!(call, x => x.floor()),
        "Ceil" => |call| map_reals!(call, x => x.ceil()),
        "Round" => |call| map_reals!(call, x => x.round_ties_even()),
        "Sqrt" => |call| map_reals!(call, x => x.sqrt()),
        "Reciprocal" => |call| map_reals!(call, x => x.reciprocal()),
        "Exp" => |call| map_reals!(call, x => Real::exp(x)),
        "Log" => |call| map_reals!(call, x => Real::ln(x)),
        "Erf" => |call| map_reals!(call, x => Real::erf(x)),
        "Tanh" => |call| map_reals!(call, x => Real::tanh(x)),
        "Sigmoid" => |call| map_reals!(call, x => Real::sigmoid(x)),
        "Sin" => |call| map_reals!(call, x => Real::sin(x)),
        "Cos" => |call| map_reals!(call, x => Real::cos(x)),
        "Tan" => |call| seldom(call, math::tan, wide::tan),
        "Asin" => |call| seldom(call, math::asin, wide::asin),
        "Acos" => |call| seldom(call, math::acos, wide::acos),
        "Atan" => |call| seldom(call, math::atan, wide::atan),
        "Sinh" => |call| seldom(call, math::sinh, wide::sinh),
        "Cosh" => |call| seldom(call, math::cosh, wide::cosh),
        "Asinh" => |call| seldom(call, math::asinh, wide::asinh),
        "Acosh" => |call| seldom(call, math::acosh, wide::acosh),
        "Atanh" => |call| seldom(call, math::atanh, wide::atanh),
        _ => return None,
    })
}

fn seldom(call: &Call<'_>, narrow: fn(f32) -> f32, wide: fn(f64) -> f64) -> Results {
    match call.input(0)?.data() {
        Data::F32(values) => super::each::map(call, values, narrow),
        Data::F64(values) => super::each::map(call, values, wide),
        _ => Err(call.wrong_type(0)),
    }
}

fn identity(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    call.reserve(input.len(), input.dtype())?;
    Ok(vec![input.clone()])
}

/// A function of an integer for every element of input 0; results wrap.
fn map_integers(call: &Call<'_>, function: impl Fn(i64) -> i64) -> Results {
    let input = call.input(0)?;
    call.reserve(input.len(), DType::I64)?;
    let values = convert::to_i64(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let values: Vec<i64> = values.into_iter().map(function).collect();
    let data = convert::from_i64(&values, input.dtype(), CastMode::default());
    let data = data.ok_or_else(|| call.wrong_type(0))?;
    Ok(vec![tensor(input.shape().to_vec(), data)?])
}

fn absolute(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    if input.dtype() == DType::U64 {
        return identity(call);
    }
    if input.dtype().is_integer() {
        return map_integers(call, i64::wrapping_abs);
    }
    map_reals!(call, x => x.abs())
}

fn negate(call: &Call<'_>) -> Results {
    if call.input(0)?.dtype().is_integer() {
        return map_integers(call, i64::wrapping_neg);
    }
    map_reals!(call, x => -x)
}

fn sign(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    if input.dtype() == DType::U64 {
        return map_integers(call, |x| i64::from(x != 0));
    }
    if input.dtype().is_integer() {
        return map_integers(call, i64::signum);
    }
    map_reals!(call, x => sign_of(x))
}

#[inline(always)]
fn sign_of<R: Real>(x: R) -> R {
    if x > R::ZERO {
        R::ONE
    } else if x < R::ZERO {
        -R::ONE
    } else {
        x
    }
}

fn not(call: &Call<'_>) -> Results {
    let values = call.values::<bool>(0)?;
    call.reserve(values.len(), DType::Bool)?;
    one(
        call.input(0)?.shape().to_vec(),
        values.iter().map(|v| !v).collect(),
    )
}

fn bitwise_not(call: &Call<'_>) -> Results {
    map_integers(call, |x| !x)
}

fn is_nan(call: &Call<'_>) -> Results {
    let shape = call.input(0)?.shape().to_vec();
    call.reserve(call.input(0)?.len(), DType::Bool)?;
    match call.input(0)?.data() {
        Data::F32(values) => one(shape, values.iter().map(|v| v.is_nan()).collect()),
        Data::F64(values) => one(shape, values.iter().map(|v| v.is_nan()).collect()),
        Data::Codes(..) => {
            let values = call.optional_floats(0)?.unwrap_or_default();
            one(shape, values.iter().map(|v| v.is_nan()).collect())
        }
        _ => Err(call.wrong_type(0)),
    }
}

fn is_infinite(call: &Call<'_>) -> Results {
    let positive = call.flag("detect_positive", true)?;
    let negative = call.flag("detect_negative", true)?;
    let input = call.input(0)?;
    call.reserve(input.len(), DType::F64)?;
    if !(input.dtype().is_float() || input.dtype().is_code()) {
        return Err(call.wrong_type(0));
    }
    let values = convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let found = |v: &f64| v.is_infinite() && if *v > 0.0 { positive } else { negative };
    one(input.shape().to_vec(), values.iter().map(found).collect())
}

/// A bound of `Clip`: an input of one element, or an attribute in old versions.
fn bound(
    call: &Call<'_>,
    index: usize,
    name: &'static str,
) -> Result<Option<FloatTensor>, OpError> {
    if let Some(value) = call.optional_float(name)? {
        return Ok(Some(FloatTensor::scalar(value)));
    }
    match call.optional(index) {
        Some(tensor) if tensor.len() != 1 => {
            Err(OpError::invalid("a bound has more than one element"))
        }
        other => Ok(other.cloned()),
    }
}

fn clip(call: &Call<'_>) -> Results {
    let (low, high) = (bound(call, 1, "min")?, bound(call, 2, "max")?);
    let input = call.input(0)?;
    if input.dtype().is_integer() {
        let one = |tensor: Option<FloatTensor>| match tensor {
            None => Ok(None),
            Some(tensor) if tensor.dtype() == input.dtype() => {
                Ok(convert::to_i64(tensor.data()).and_then(|values| values.first().copied()))
            }
            Some(_) => Err(call.wrong_type(1)),
        };
        let (low, high) = (one(low)?, one(high)?);
        if input.dtype() == DType::U64 {
            let (low, high) = (
                low.map_or(0, |v| v as u64),
                high.map_or(u64::MAX, |v| v as u64),
            );
            return map_integers(call, |x| (x as u64).max(low).min(high) as i64);
        }
        let (low, high) = (low.unwrap_or(i64::MIN), high.unwrap_or(i64::MAX));
        return map_integers(call, |x| x.max(low).min(high));
    }
    let number = |tensor: Option<FloatTensor>, default: f64| match tensor {
        None => Ok(default),
        Some(tensor) => convert::to_f64(tensor.data())
            .and_then(|values| values.first().copied())
            .ok_or_else(|| call.wrong_type(1)),
    };
    let low = number(low, f64::NEG_INFINITY)?;
    let high = number(high, f64::INFINITY)?;
    map_reals!(call, x => within(x, Real::of(low), Real::of(high)))
}

/// Below `low`: `low`; then above `high`: `high`. NaN stays.
#[inline(always)]
fn within<R: Real>(x: R, low: R, high: R) -> R {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

fn choose(call: &Call<'_>) -> Results {
    let condition = call.values::<bool>(0)?;
    let (c, x, y) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let shape = broadcast_shape(&[c.shape(), x.shape(), y.shape()])?;
    if x.dtype() != y.dtype() {
        return Err(call.wrong_type(2));
    }
    let count = call.reserve_shape(&shape, x.dtype())?;
    let walk = Walk::broadcast(&shape, [c.shape(), x.shape(), y.shape()]);
    macro_rules! choose {
        ($($variant:ident),*) => {
            match (x.data(), y.data()) {
                $((Data::$variant(x), Data::$variant(y)) => {
                    Data::$variant(pick(&walk, condition, x, y, count))
                })*
                (Data::Codes(dtype, x), Data::Codes(_, y)) => {
                    Data::Codes(*dtype, pick(&walk, condition, x, y, count))
                }
                _ => return Err(call.wrong_type(2)),
            }
        };
    }
    let data = choose!(
        F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, Bool, String
    );
    Ok(vec![tensor(shape, data)?])
}

fn pick<T: Clone>(walk: &Walk<3>, condition: &[bool], x: &[T], y: &[T], count: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(count);
    let [p, q, r] = walk.inner;
    walk.for_each(|[c, i, j]| {
        let one = |k: usize| {
            let chosen = if condition[c + k * p] {
                &x[i + k * q]
            } else {
                &y[j + k * r]
            };
            chosen.clone()
        };
        out.extend((0..walk.length).map(one));
    });
    out
}
