//! Activations.

use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, one};
use super::each::{by_real, map_reals};
use super::real::Real;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "Relu" => relu,
        "LeakyRelu" => leaky_relu,
        "ThresholdedRelu" => thresholded_relu,
        "Elu" => elu,
        "Celu" => celu,
        "Selu" => selu,
        "HardSigmoid" => hard_sigmoid,
        "HardSwish" => |call| map_reals!(call, x => hard_swish(x)),
        "Softplus" => |call| map_reals!(call, x => softplus(x)),
        "Softsign" => |call| map_reals!(call, x => softsign(x)),
        "Mish" => |call| map_reals!(call, x => x * Real::tanh(softplus(x))),
        "Gelu" => gelu,
        "Swish" => swish,
        "Shrink" => shrink,
        "SwiGLU" => swiglu,
        _ => return None,
    };
    Some((kernel, Widen))
}

fn relu(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    if input.dtype().is_integer() {
        call.reserve(input.len().saturating_mul(2), crate::tensor::DType::I64)?;
        let values = call.integers(0)?;
        let values: Vec<i64> = values.into_iter().map(|x| x.max(0)).collect();
        let data =
            crate::convert::from_i64(&values, input.dtype(), crate::convert::CastMode::default());
        let data = data.ok_or_else(|| call.wrong_type(0))?;
        return Ok(vec![super::call::tensor(input.shape().to_vec(), data)?]);
    }
    map_reals!(call, x => rectified(x))
}

/// NaN stays; -0 becomes +0.
#[inline(always)]
pub(super) fn rectified<R: Real>(x: R) -> R {
    if x > R::ZERO || x.is_nan() {
        x
    } else {
        R::ZERO
    }
}

fn leaky_relu(call: &Call<'_>) -> Results {
    let slope = f64::from(call.float("alpha", 0.01)?);
    map_reals!(call, x => leaky(x, Real::of(slope)))
}

#[inline(always)]
pub(super) fn leaky<R: Real>(x: R, slope: R) -> R {
    if x < R::ZERO { x * slope } else { x }
}

fn thresholded_relu(call: &Call<'_>) -> Results {
    let threshold = f64::from(call.float("alpha", 1.0)?);
    map_reals!(call, x => thresholded(x, threshold))
}

#[inline(always)]
pub(super) fn thresholded<R: Real>(x: R, threshold: f64) -> R {
    if x > R::of(threshold) || x.is_nan() {
        x
    } else {
        R::ZERO
    }
}

fn elu(call: &Call<'_>) -> Results {
    let alpha = f64::from(call.float("alpha", 1.0)?);
    map_reals!(call, x => exponential(x, 1.0, alpha, 1.0))
}

fn celu(call: &Call<'_>) -> Results {
    let alpha = f64::from(call.float("alpha", 1.0)?);
    map_reals!(call, x => exponential(x, 1.0, alpha, 1.0 / alpha))
}

fn selu(call: &Call<'_>) -> Results {
    let alpha = f64::from(call.float("alpha", 1.673_263_2)?);
    let gamma = f64::from(call.float("gamma", 1.050_701)?);
    map_reals!(call, x => exponential(x, gamma, gamma * alpha, 1.0))
}

/// `positive x` above zero, `negative (e^(rate x) - 1)` below.
#[inline(always)]
pub(super) fn exponential<R: Real>(x: R, positive: f64, negative: f64, rate: f64) -> R {
    if x < R::ZERO {
        (x * R::of(rate)).exp_m1() * R::of(negative)
    } else {
        x * R::of(positive)
    }
}

fn hard_sigmoid(call: &Call<'_>) -> Results {
    let alpha = f64::from(call.float("alpha", 0.2)?);
    let beta = f64::from(call.float("beta", 0.5)?);
    map_reals!(call, x => ramp(x, alpha, beta))
}

/// `slope x + offset`, one rounding, within [0, 1].
#[inline(always)]
pub(super) fn ramp<R: Real>(x: R, slope: f64, offset: f64) -> R {
    let value = x.fma(R::of(slope), R::of(offset));
    if value < R::ZERO {
        R::ZERO
    } else if value > R::ONE {
        R::ONE
    } else {
        value
    }
}

#[inline(always)]
pub(super) fn hard_swish<R: Real>(x: R) -> R {
    x * ramp(x, 1.0 / 6.0, 0.5)
}

/// `ln(1 + e^x)`.
#[inline(always)]
pub(super) fn softplus<R: Real>(x: R) -> R {
    let tail = (-x.abs()).exp().ln_1p();
    if x > R::ZERO { x + tail } else { tail }
}

#[inline(always)]
pub(super) fn softsign<R: Real>(x: R) -> R {
    x / (R::ONE + x.abs())
}

fn gelu(call: &Call<'_>) -> Results {
    match call.text("approximate", "none")? {
        "tanh" => map_reals!(call, x => gelu_tanh(x)),
        _ => map_reals!(call, x => gelu_erf(x)),
    }
}

#[inline(always)]
pub(super) fn gelu_erf<R: Real>(x: R) -> R {
    R::of(0.5) * x * (R::ONE + (x * R::of(std::f64::consts::FRAC_1_SQRT_2)).erf())
}

#[inline(always)]
pub(super) fn gelu_tanh<R: Real>(x: R) -> R {
    let cubic = (x * x * x).fma(R::of(0.044_715), x);
    R::of(0.5) * x * (R::ONE + (R::of(0.797_884_560_802_865_4) * cubic).tanh())
}

fn swish(call: &Call<'_>) -> Results {
    let alpha = f64::from(call.float("alpha", 1.0)?);
    map_reals!(call, x => swish_of(x, alpha))
}

#[inline(always)]
fn swish_of<R: Real>(x: R, alpha: f64) -> R {
    x * (R::of(alpha) * x).sigmoid()
}

fn shrink(call: &Call<'_>) -> Results {
    let bias = f64::from(call.float("bias", 0.0)?);
    let lambda = f64::from(call.float("lambd", 0.5)?);
    let input = call.input(0)?;
    if input.dtype().is_integer() {
        let values = crate::convert::to_f64(input.data()).unwrap_or_default();
        let values: Vec<f64> = values
            .into_iter()
            .map(|x| shrunk(x, bias, lambda))
            .collect();
        let data =
            crate::convert::from_f64(&values, input.dtype(), crate::convert::CastMode::default());
        let data = data.ok_or_else(|| call.wrong_type(0))?;
        return Ok(vec![super::call::tensor(input.shape().to_vec(), data)?]);
    }
    map_reals!(call, x => shrunk(x, bias, lambda))
}

#[inline(always)]
fn shrunk<R: Real>(x: R, bias: f64, lambda: f64) -> R {
    if x < R::of(-lambda) {
        x + R::of(bias)
    } else if x > R::of(lambda) {
        x - R::of(bias)
    } else {
        R::ZERO
    }
}

fn swiglu(call: &Call<'_>) -> Results {
    by_real!(call, 0, swiglu_of(call))
}

/// The first input, through its swish, gates the second.
fn swiglu_of<R: Real>(call: &Call<'_>) -> Results {
    let (a, b) = (call.values::<R>(0)?, call.values::<R>(1)?);
    let shape = call.input(0)?.shape();
    if call.input(1)?.shape() != shape {
        return Err(super::OpError::invalid("the inputs have different shapes"));
    }
    let alpha = f64::from(call.float("alpha", 1.0)?);
    let mut out = call.filled(shape, R::ZERO)?;
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = (swish_of(a, alpha) * b).canonical();
    }
    one(shape.to_vec(), out)
}
