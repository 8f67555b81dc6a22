//! Windows and Fourier transforms. Angles and sums are taken in binary64 and rounded once.

use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, tensor};
use super::each::by_real;
use super::error::OpError;
use super::math::wide;
use super::real::Real;
use crate::convert::{self, CastMode};
use crate::tensor::DType;

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "HannWindow" => |call| window(call, [0.5, 0.5, 0.0]),
        "HammingWindow" => |call| window(call, [25.0 / 46.0, 21.0 / 46.0, 0.0]),
        "BlackmanWindow" => |call| window(call, [0.42, 0.5, 0.08]),
        "DFT" => |call| by_real!(call, 0, dft(call)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Steps of the functions of an angle.
const ANGLE_STEPS: usize = 64;

/// `a - b cos(2 pi n / N) + c cos(4 pi n / N)`.
fn window(call: &Call<'_>, [a, b, c]: [f64; 3]) -> Results {
    let size = call
        .optional_integer(0)?
        .ok_or(OpError::Missing { index: 0 })?;
    let size = usize::try_from(size).map_err(|_| OpError::invalid("the size is negative"))?;
    let dtype = super::cast::dtype_attribute(call, "output_datatype")?.unwrap_or(DType::F32);
    let divisor = if call.flag("periodic", true)? {
        size
    } else {
        size.saturating_sub(1)
    };
    call.reserve(size, DType::F64)?;
    call.reserve(size, dtype)?;
    call.charge_steps(&[size, ANGLE_STEPS])?;
    let value = |n: usize| {
        let angle = std::f64::consts::TAU * n as f64 / divisor.max(1) as f64;
        a - b * wide::cos(angle) + c * wide::cos(2.0 * angle)
    };
    let values: Vec<f64> = (0..size).map(value).collect();
    let data = convert::from_f64(&values, dtype, CastMode::default());
    Ok(vec![tensor(
        vec![size],
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

/// The sum itself: `X[k] = sum over n of x[n] e^(-2 pi i n k / N)`, ascending n.
fn dft<R: Real>(call: &Call<'_>) -> Results {
    let x = call.values::<R>(0)?;
    let shape = call.input(0)?.shape();
    let rank = shape.len();
    let axis = match call.optional_int("axis")? {
        Some(axis) => axis,
        None => call
            .optional_integer(2)?
            .unwrap_or(if call.node.version < 20 { 1 } else { -2 }),
    };
    let axis = Call::axis(axis, rank)?;
    let parts = shape.last().copied().unwrap_or(0);
    if axis + 1 == rank || !(1..=2).contains(&parts) {
        return Err(OpError::invalid(
            "the last axis does not hold real and imaginary parts",
        ));
    }
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let given = shape[axis];
    let default = if inverse && onesided {
        2 * given.saturating_sub(1)
    } else {
        given
    };
    let length = match call.optional_integer(1)? {
        None => default,
        Some(length) => usize::try_from(length).unwrap_or(0),
    };
    if length == 0 || length > 1 << 20 {
        return Err(OpError::invalid("the length is out of range"));
    }
    let real_output = inverse && onesided;
    let count = if onesided && !inverse {
        length / 2 + 1
    } else {
        length
    };
    let mut out_shape = shape.to_vec();
    out_shape[axis] = count;
    out_shape[rank - 1] = if real_output { 1 } else { 2 };
    let out_parts = out_shape[rank - 1];
    let mut out = call.filled(&out_shape, R::ZERO)?;
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..rank - 1].iter().product();
    call.charge_steps(&[outer, inner, length, 4 + 4 * count])?;
    let turns = Turns::new(call, length, inverse)?;
    for row in 0..outer {
        for column in 0..inner {
            let at = |n: usize| {
                let place = ((row * given + n) * inner + column) * parts;
                let imaginary = if parts == 2 {
                    x[place + 1].to_f64()
                } else {
                    0.0
                };
                [x[place].to_f64(), imaginary]
            };
            let signal: Vec<[f64; 2]> = (0..length)
                .map(|n| source(n, length, given, real_output, at))
                .collect();
            for k in 0..count {
                let [real, imaginary] = turns.sum(&signal, k);
                let place = ((row * count + k) * inner + column) * out_parts;
                out[place] = R::of(real).canonical();
                if out_parts == 2 {
                    out[place + 1] = R::of(imaginary).canonical();
                }
            }
        }
    }
    Ok(vec![tensor(out_shape, R::wrap(out))?])
}

/// Element `n` of the padded (or cut) signal; the missing half of a one-sided spectrum is the conjugate of the first.
fn source(
    n: usize,
    length: usize,
    given: usize,
    mirrored: bool,
    at: impl Fn(usize) -> [f64; 2],
) -> [f64; 2] {
    let half = length / 2;
    if !mirrored {
        return if n < given { at(n) } else { [0.0, 0.0] };
    }
    let (place, flip) = if n <= half {
        (n, false)
    } else {
        (length - n, true)
    };
    if place >= given {
        return [0.0, 0.0];
    }
    let [real, imaginary] = at(place);
    // The first and middle coefficients of a real signal are real.
    let own_mirror = place == 0 || 2 * place == length;
    let imaginary = if own_mirror { 0.0 } else { imaginary };
    [real, if flip { -imaginary } else { imaginary }]
}

/// The roots of unity of a transform.
struct Turns {
    roots: Vec<[f64; 2]>,
    factor: f64,
}

impl Turns {
    fn new(call: &Call<'_>, length: usize, inverse: bool) -> Result<Self, OpError> {
        // The signal beside them.
        call.reserve(length.saturating_mul(4), DType::F64)?;
        call.charge_steps(&[length, ANGLE_STEPS])?;
        let sign = if inverse { 1.0 } else { -1.0 };
        let root = |n: usize| {
            let angle = std::f64::consts::TAU * n as f64 / length as f64;
            [wide::cos(angle), sign * wide::sin(angle)]
        };
        Ok(Self {
            roots: (0..length).map(root).collect(),
            factor: if inverse { 1.0 / length as f64 } else { 1.0 },
        })
    }

    fn sum(&self, signal: &[[f64; 2]], k: usize) -> [f64; 2] {
        let length = self.roots.len();
        let (mut real, mut imaginary) = (0.0, 0.0);
        for (n, [a, b]) in signal.iter().enumerate() {
            let [c, s] = self.roots[n * k % length];
            real += a * c - b * s;
            imaginary += a * s + b * c;
        }
        [real * self.factor, imaginary * self.factor]
    }
}
