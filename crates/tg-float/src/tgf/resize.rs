//! Resampling: `Resize`, `Upsample`, `GridSample`, `AffineGrid`.
//!
//! Coordinates and weights are computed in binary64; a weighted sum is taken in ascending order, axis by axis, in
//! binary64 and rounded once at the end.

use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results, one, tensor};
use super::error::OpError;
use super::real::Real;
use crate::convert::{self, CastMode};
use crate::tensor::{DType, strides};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "Resize" | "Upsample" => resize,
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Strongest reduction of an axis: a kernel that is widened by it has that many times its weights.
const SHRINK_MAX: f64 = 65_536.0;

/// How places of the output are mapped to the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mapping {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    CropAndResize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kernel {
    Nearest(Rounding),
    Linear,
    Cubic(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rounding {
    PreferFloor,
    PreferCeil,
    Floor,
    Ceil,
}

/// Everything about a resampling but the sizes.
struct Options {
    mapping: Mapping,
    kernel: Kernel,
    antialias: bool,
    exclude_outside: bool,
    extrapolation: f64,
}

impl Options {
    fn new(call: &Call<'_>) -> Result<Self, OpError> {
        let upsample = call.node.op == "Upsample" || call.node.version < 11;
        let default = if upsample { "asymmetric" } else { "half_pixel" };
        let mapping = match call.text("coordinate_transformation_mode", default)? {
            "half_pixel" => Mapping::HalfPixel,
            "half_pixel_symmetric" => Mapping::HalfPixelSymmetric,
            "pytorch_half_pixel" => Mapping::PytorchHalfPixel,
            "align_corners" => Mapping::AlignCorners,
            "asymmetric" => Mapping::Asymmetric,
            "tf_crop_and_resize" => Mapping::CropAndResize,
            _ => return call.refuse("a coordinate mapping that ONNX does not name"),
        };
        let rounding = if upsample {
            "floor"
        } else {
            "round_prefer_floor"
        };
        let rounding = match call.text("nearest_mode", rounding)? {
            "round_prefer_floor" => Rounding::PreferFloor,
            "round_prefer_ceil" => Rounding::PreferCeil,
            "floor" => Rounding::Floor,
            "ceil" => Rounding::Ceil,
            _ => {
                return Err(OpError::Attribute {
                    name: "nearest_mode",
                });
            }
        };
        let kernel = match call.text("mode", "nearest")? {
            "nearest" => Kernel::Nearest(rounding),
            "linear" | "bilinear" => Kernel::Linear,
            "cubic" => Kernel::Cubic(call.float("cubic_coeff_a", -0.75)?.into()),
            _ => return Err(OpError::Attribute { name: "mode" }),
        };
        Ok(Self {
            mapping,
            kernel,
            antialias: call.flag("antialias", false)?,
            exclude_outside: call.flag("exclude_outside", false)?,
            extrapolation: call.float("extrapolation_value", 0.0)?.into(),
        })
    }

    /// Weights of a place of an axis of this scale.
    fn taps(&self, scale: f64) -> usize {
        let widened = |radius: f64| 2 + 2 * (radius / scale.min(1.0)).ceil() as usize;
        match self.kernel {
            Kernel::Nearest(_) => 1,
            Kernel::Linear if self.antialias => widened(1.0),
            Kernel::Linear => 2,
            Kernel::Cubic(_) if self.antialias => widened(2.0),
            Kernel::Cubic(_) => 4,
        }
    }

    /// The weights of the places around a fraction in (0, 1], the first place relative to the floor.
    fn weights(&self, ratio: f64, scale: f64) -> (i64, Vec<f64>) {
        match self.kernel {
            Kernel::Nearest(rounding) => {
                // A fraction of 1 is a whole coordinate, one place on.
                let upper = match rounding {
                    _ if ratio == 1.0 => true,
                    Rounding::PreferFloor => ratio > 0.5,
                    Rounding::PreferCeil => ratio >= 0.5,
                    Rounding::Floor => false,
                    Rounding::Ceil => true,
                };
                (i64::from(upper), vec![1.0])
            }
            Kernel::Linear if self.antialias => {
                spread(1.0, ratio, scale, |x| (1.0 - x.abs()).clamp(0.0, 1.0))
            }
            Kernel::Linear => (0, vec![1.0 - ratio, ratio]),
            Kernel::Cubic(a) if self.antialias => spread(2.0, ratio, scale, |x| cubic(a, x)),
            Kernel::Cubic(a) => {
                let at = |offset: f64| cubic(a, ratio - offset);
                (-1, vec![at(-1.0), at(0.0), at(1.0), at(2.0)])
            }
        }
    }
}

/// Weights of a kernel of this radius, widened where the image shrinks, normalised.
fn spread(radius: f64, ratio: f64, scale: f64, kernel: impl Fn(f64) -> f64) -> (i64, Vec<f64>) {
    let scale = scale.min(1.0);
    let first = (-radius / scale).floor() as i64 + 1;
    let count = 2 - 2 * first;
    let mut weights: Vec<f64> = (first..first + count)
        .map(|place| kernel(scale * (place as f64 - ratio)))
        .collect();
    let sum: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= sum;
    }
    (first, weights)
}

/// Keys' cubic convolution kernel.
pub(super) fn cubic(a: f64, x: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

/// One resampled axis.
struct Axis {
    axis: usize,
    scale: f64,
    size: usize,
    roi: [f64; 2],
}

impl Axis {
    /// Where a place of the output lies in the input.
    fn place(&self, mapping: Mapping, index: f64, input: f64) -> f64 {
        let output = self.scale * input;
        match mapping {
            Mapping::AlignCorners if output == 1.0 => 0.0,
            Mapping::AlignCorners => index * (input - 1.0) / (output - 1.0),
            Mapping::Asymmetric => index / self.scale,
            Mapping::PytorchHalfPixel if output == 1.0 => -0.5,
            Mapping::PytorchHalfPixel | Mapping::HalfPixel => (index + 0.5) / self.scale - 0.5,
            Mapping::HalfPixelSymmetric => {
                let offset = input / 2.0 * (1.0 - self.size as f64 / output);
                offset + (index + 0.5) / self.scale - 0.5
            }
            Mapping::CropAndResize => {
                let [start, end] = self.roi;
                let along = if output == 1.0 {
                    (end - start) * (input - 1.0) / 2.0
                } else {
                    index * (end - start) * (input - 1.0) / (output - 1.0)
                };
                along + start * (input - 1.0)
            }
        }
    }
}

/// The axes that a node names.
fn named_axes(call: &Call<'_>) -> Result<Vec<usize>, OpError> {
    let rank = call.input(0)?.rank();
    match call.ints("axes")? {
        None => Ok((0..rank).collect()),
        Some(axes) => axes.iter().map(|&axis| Call::axis(axis, rank)).collect(),
    }
}

fn unfitting() -> OpError {
    OpError::invalid("scales, sizes or the region do not fit the axes")
}

/// Factor and size of each named axis.
fn factors(call: &Call<'_>, sides: &[f64], old: bool) -> Result<Vec<(f64, f64)>, OpError> {
    let scales = match call.floats("scales")? {
        Some(scales) => Some(scales.to_vec()),
        None => call.optional_floats(if old { 1 } else { 2 })?,
    };
    let scales = scales.filter(|scales| !scales.is_empty());
    let sizes = call.optional_integers(3)?.filter(|sizes| !sizes.is_empty());
    match (scales, sizes) {
        (Some(scales), None) if scales.len() == sides.len() => {
            let one = |(&scale, side): (&f32, &f64)| {
                let factor = f64::from(scale);
                (factor, (factor * side).floor())
            };
            Ok(scales.iter().zip(sides).map(one).collect())
        }
        (None, Some(sizes)) if sizes.len() == sides.len() => {
            let pairs = sizes.iter().map(|&size| size as f64).zip(sides);
            let stretched: Vec<(f64, f64)> =
                pairs.map(|(size, side)| (size / side, size)).collect();
            let larger = match call.text("keep_aspect_ratio_policy", "stretch")? {
                "stretch" => return Ok(stretched),
                "not_larger" => false,
                "not_smaller" => true,
                _ => return Err(unfitting()),
            };
            let pick = |a: f64, b: f64| if larger { a.max(b) } else { a.min(b) };
            let factor = stretched.iter().map(|(factor, _)| *factor).reduce(pick);
            let factor = factor.ok_or_else(unfitting)?;
            Ok(sides
                .iter()
                .map(|side| (factor, (factor * side + 0.5).floor()))
                .collect())
        }
        _ => Err(unfitting()),
    }
}

/// The axes to resample, and the result's shape.
fn plan(call: &Call<'_>) -> Result<(Vec<Axis>, Vec<usize>), OpError> {
    let input = call.input(0)?;
    let axes = named_axes(call)?;
    // Versions before 11 and `Upsample` have the scales as input 1 (or an attribute), and no region.
    let old = call.node.op == "Upsample" || call.node.version < 11;
    let roi = call.optional_floats(if old { usize::MAX } else { 1 })?;
    let roi = roi.filter(|roi| !roi.is_empty());
    if roi.as_ref().is_some_and(|roi| roi.len() != 2 * axes.len()) {
        return Err(unfitting());
    }
    let sides: Vec<f64> = axes
        .iter()
        .map(|&axis| input.shape()[axis] as f64)
        .collect();
    let factors = factors(call, &sides, old)?;
    let mut shape = input.shape().to_vec();
    let mut plan = Vec::new();
    for (index, (&axis, (scale, size))) in axes.iter().zip(factors).enumerate() {
        if !(scale >= 1.0 / SHRINK_MAX && (0.0..1e9).contains(&size)) {
            return Err(unfitting());
        }
        shape[axis] = size as usize;
        let region = |index: usize| roi.as_ref().map(|roi| f64::from(roi[index]));
        plan.push(Axis {
            axis,
            scale,
            size: shape[axis],
            roi: [
                region(index).unwrap_or(0.0),
                region(index + axes.len()).unwrap_or(1.0),
            ],
        });
    }
    Ok((plan, shape))
}

fn resize(call: &Call<'_>) -> Results {
    let input = call.input(0)?;
    let options = Options::new(call)?;
    let (plan, out_shape) = plan(call)?;
    call.reserve_shape(&out_shape, input.dtype())?;
    call.reserve(input.len(), DType::F64)?;
    let mut values = convert::to_f64(input.data()).ok_or_else(|| call.wrong_type(0))?;
    let mut shape = input.shape().to_vec();
    for axis in plan {
        let same = axis.size == shape[axis.axis]
            && (axis.scale - 1.0).abs() < 1e-9
            && axis.roi == [0.0, 1.0];
        if same {
            continue;
        }
        if shape[axis.axis] == 0 && axis.size > 0 {
            return Err(OpError::invalid("an empty axis is enlarged"));
        }
        values = resample(call, &options, &axis, &mut shape, &values)?;
    }
    // Rounded once, into the type's range.
    let mode = CastMode::default();
    let data = match input.dtype() {
        DType::U8 => {
            let clamped: Vec<f64> = values.iter().map(|v| v.clamp(0.0, 255.0)).collect();
            convert::from_f64(&clamped, DType::U8, mode)
        }
        DType::I8 => {
            let clamped: Vec<f64> = values.iter().map(|v| v.clamp(-128.0, 127.0)).collect();
            convert::from_f64(&clamped, DType::I8, mode)
        }
        dtype => convert::from_f64(&values, dtype, mode),
    };
    Ok(vec![tensor(
        shape,
        data.ok_or_else(|| call.wrong_type(0))?,
    )?])
}

/// Resamples one axis.
fn resample(
    call: &Call<'_>,
    options: &Options,
    axis: &Axis,
    shape: &mut [usize],
    values: &[f64],
) -> Result<Vec<f64>, OpError> {
    let width = shape[axis.axis];
    let outer: usize = shape[..axis.axis].iter().product();
    let inner: usize = shape[axis.axis + 1..].iter().product();
    shape[axis.axis] = axis.size;
    call.reserve_shape(shape, DType::F64)?;
    let taps = options.taps(axis.scale);
    call.reserve(axis.size.saturating_mul(4 + 3 * taps), DType::F64)?;
    call.charge_steps(&[axis.size, 16 + 16 * taps])?;
    call.charge_steps(&[outer, axis.size, inner, taps, 2])?;
    // Per place of the output: the places and weights it is made of; none outside the region.
    let mut taps: Vec<Option<Vec<(usize, f64)>>> = Vec::with_capacity(axis.size);
    for index in 0..axis.size {
        let place = axis.place(options.mapping, index as f64, width as f64);
        let outside = place < 0.0 || place > width as f64 - 1.0;
        if options.mapping == Mapping::CropAndResize && outside {
            taps.push(None);
            continue;
        }
        let whole = place.floor();
        let (base, ratio) = if place == whole {
            (whole - 1.0, 1.0)
        } else {
            (whole, place - whole)
        };
        let (first, mut weights) = options.weights(ratio, axis.scale);
        let first = (base as i64).saturating_add(first);
        let places: Vec<i64> = (first..first + weights.len() as i64).collect();
        if options.exclude_outside {
            let inside = |place: &i64| (0..width as i64).contains(place);
            for (weight, place) in weights.iter_mut().zip(&places) {
                *weight = if inside(place) { *weight } else { 0.0 };
            }
            let sum: f64 = weights.iter().sum();
            for weight in &mut weights {
                *weight /= if sum == 0.0 { 1.0 } else { sum };
            }
        }
        let clamped = places
            .iter()
            .map(|&place| place.clamp(0, width as i64 - 1) as usize);
        taps.push(Some(clamped.zip(weights).collect()));
    }
    let mut out = Vec::with_capacity(outer * axis.size * inner);
    for row in 0..outer {
        for taps in &taps {
            for column in 0..inner {
                out.push(match taps.as_deref() {
                    None => options.extrapolation,
                    // A single place keeps its bits.
                    Some([(place, _)]) => values[(row * width + place) * inner + column],
                    Some(taps) => taps.iter().fold(0.0, |sum, (place, weight)| {
                        values[(row * width + place) * inner + column].mul_add(*weight, sum)
                    }),
                });
            }
        }
    }
    Ok(out)
}

/// Offsets of an image's axes; shared with grids.
pub(super) fn image_strides(shape: &[usize]) -> Vec<usize> {
    strides(shape)
}

/// One result of a float type.
pub(super) fn rounded<R: Real>(shape: Vec<usize>, values: &[f64]) -> Results {
    one(
        shape,
        values.iter().map(|&v| R::of(v).canonical()).collect(),
    )
}
