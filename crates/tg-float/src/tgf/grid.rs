//! `GridSample` and `AffineGrid`.

use super::call::Entry;
use super::call::Half::Widen;
use super::call::{Call, Results};
use super::each::by_real;
use super::error::OpError;
use super::meter::product;
use super::real::Real;
use super::resize::{cubic, image_strides, rounded};

/// The function of an operator of this family.
pub(super) fn lookup(op: &str) -> Option<Entry> {
    let kernel: super::call::Kernel = match op {
        "GridSample" => |call| by_real!(call, 0, sample(call)),
        "AffineGrid" => |call| by_real!(call, 0, affine(call)),
        _ => return None,
    };
    Some((kernel, Widen))
}

/// Steps of a place that is read.
const PLACE_STEPS: usize = 64;

/// What lies outside the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

struct Sampler<'a> {
    image: &'a [usize],
    steps: Vec<usize>,
    padding: Padding,
    mode: Mode,
    corners: bool,
}

/// Folds a coordinate back between two borders.
fn reflect(x: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 {
        return low;
    }
    let fold = |distance: f64| {
        let turns = (distance / range).trunc();
        (turns % 2.0 == 0.0, distance - turns * range)
    };
    if x < low {
        let (even, rest) = fold(low - x);
        if even { low + rest } else { high - rest }
    } else if x > high {
        let (even, rest) = fold(x - high);
        if even { high - rest } else { low + rest }
    } else {
        x
    }
}

impl Sampler<'_> {
    fn borders(&self, axis: usize) -> (f64, f64) {
        let size = self.image[axis] as f64;
        if self.corners {
            (0.0, size - 1.0)
        } else {
            (-0.5, size - 0.5)
        }
    }

    /// A coordinate of the image from one in [-1, 1].
    fn coordinate(&self, axis: usize, value: f64) -> f64 {
        let size = self.image[axis] as f64;
        let x = if self.corners {
            (value + 1.0) / 2.0 * (size - 1.0)
        } else {
            ((value + 1.0) * size - 1.0) / 2.0
        };
        // Rounded to f32, as the reference's coordinates are.
        let x = f64::from(x as f32);
        let x = if self.mode == Mode::Nearest {
            x.round_ties_even()
        } else {
            x
        };
        let (low, high) = self.borders(axis);
        match self.padding {
            _ if x >= low && x <= high => x,
            Padding::Zeros => x,
            Padding::Border => x.clamp(0.0, size - 1.0),
            Padding::Reflection => reflect(x, low, high),
        }
    }

    /// The place of a whole coordinate; none outside, where zeros are.
    fn place(&self, axis: usize, at: i64) -> Option<usize> {
        let size = self.image[axis] as i64;
        let inside = (0..size).contains(&at);
        let at = match self.padding {
            _ if inside => at,
            Padding::Zeros => return None,
            Padding::Border => at.clamp(0, size - 1),
            Padding::Reflection => {
                let (low, high) = self.borders(axis);
                (reflect(at as f64, low, high) as i64).clamp(0, size - 1)
            }
        };
        usize::try_from(at).ok()
    }

    /// The value at coordinates, axis by axis from the last.
    fn sample(&self, plane: &[f64], axis: usize, base: usize, at: &[f64]) -> f64 {
        if axis == self.image.len() {
            return plane[base];
        }
        let x = at[axis];
        let floor = x.floor();
        let weights: Vec<(i64, f64)> = match self.mode {
            Mode::Nearest => vec![(x as i64, 1.0)],
            Mode::Linear => vec![
                (floor as i64, 1.0 - (x - floor)),
                (floor as i64 + 1, x - floor),
            ],
            Mode::Cubic => (-1..3)
                .map(|k| (floor as i64 + k, cubic(-0.75, x - floor - k as f64)))
                .collect(),
        };
        weights.iter().fold(0.0, |sum, &(at_axis, weight)| {
            match self.place(axis, at_axis) {
                None => sum,
                Some(place) => {
                    let base = base + place * self.steps[axis];
                    self.sample(plane, axis + 1, base, at).mul_add(weight, sum)
                }
            }
        })
    }
}

pub(super) fn sample<R: Real>(call: &Call<'_>) -> Results {
    let (x, grid) = (call.values::<R>(0)?, call.values::<R>(1)?);
    let ([batch, channels, image @ ..], [batch_too, places @ .., axes]) =
        (call.input(0)?.shape(), call.input(1)?.shape())
    else {
        return Err(OpError::invalid("input or grid have too few axes"));
    };
    if batch != batch_too || *axes != image.len() || image.is_empty() || image.contains(&0) {
        return Err(OpError::invalid("the grid does not fit the input"));
    }
    let sampler = Sampler {
        image,
        steps: image_strides(image),
        padding: match call.text("padding_mode", "zeros")? {
            "zeros" => Padding::Zeros,
            "border" => Padding::Border,
            "reflection" => Padding::Reflection,
            _ => {
                return Err(OpError::Attribute {
                    name: "padding_mode",
                });
            }
        },
        mode: match call.text("mode", "linear")? {
            "nearest" => Mode::Nearest,
            "linear" | "bilinear" => Mode::Linear,
            "cubic" | "bicubic" => Mode::Cubic,
            _ => return Err(OpError::Attribute { name: "mode" }),
        },
        corners: call.flag("align_corners", false)?,
    };
    let mut shape = vec![*batch, *channels];
    shape.extend_from_slice(places);
    let count: usize = places.iter().product();
    let size: usize = image.iter().product();
    let mut out = call.filled(&shape, 0f64)?;
    call.reserve(x.len(), crate::tensor::DType::F64)?;
    let neighbours = match sampler.mode {
        Mode::Nearest => 1,
        Mode::Linear => 2,
        Mode::Cubic => 4,
    };
    let corners = product(&vec![neighbours; image.len()]);
    let corners = usize::try_from(corners).unwrap_or(usize::MAX);
    call.charge_steps(&[*batch, count, *channels, corners, PLACE_STEPS])?;
    call.charge_steps(&[*batch, count, *axes, PLACE_STEPS])?;
    let wide: Vec<f64> = x.iter().map(|v| v.to_f64()).collect();
    for item in 0..*batch {
        for place in 0..count {
            let row = &grid[(item * count + place) * axes..][..*axes];
            // The grid names the last axis first.
            let at: Vec<f64> = (0..*axes)
                .map(|axis| sampler.coordinate(axis, row[axes - 1 - axis].to_f64()))
                .collect();
            if at.iter().any(|x| x.abs() >= 1e15 || x.is_nan()) {
                return call.refuse("a grid with coordinates that are not numbers");
            }
            for channel in 0..*channels {
                let plane = item * channels + channel;
                out[plane * count + place] =
                    sampler.sample(&wide[plane * size..(plane + 1) * size], 0, 0, &at);
            }
        }
    }
    rounded::<R>(shape, &out)
}

pub(super) fn affine<R: Real>(call: &Call<'_>) -> Results {
    let theta = call.values::<R>(0)?;
    let size = super::movement::sizes(&call.integers(1)?)?;
    let corners = call.flag("align_corners", false)?;
    let [batch, _, image @ ..] = size.as_slice() else {
        return Err(OpError::invalid("the size has too few axes"));
    };
    let axes = image.len();
    if !(2..=3).contains(&axes) || call.input(0)?.shape() != [*batch, axes, axes + 1] {
        return Err(OpError::invalid("the matrices do not fit the size"));
    }
    let mut shape = vec![*batch];
    shape.extend_from_slice(image);
    shape.push(axes);
    let mut out = call.filled(&shape, 0f64)?;
    let count: usize = image.iter().product();
    call.charge_steps(&[out.len(), PLACE_STEPS])?;
    for (index, out) in out.chunks_exact_mut(axes).enumerate() {
        let (item, place) = (index / count.max(1), index % count.max(1));
        let at = super::window::Window::coordinates(place, image);
        // Along the last axis first, then one.
        let coordinate = |axis: usize| {
            let (at, size) = (at[axis] as f64, image[axis] as f64);
            if corners {
                if size == 1.0 {
                    -1.0
                } else {
                    2.0 * at / (size - 1.0) - 1.0
                }
            } else {
                (2.0 * at + 1.0) / size - 1.0
            }
        };
        for (row, out) in out.iter_mut().enumerate() {
            let own = &theta[(item * axes + row) * (axes + 1)..][..axes + 1];
            let sum = (0..axes).fold(0.0, |sum, k| {
                own[k].to_f64().mul_add(coordinate(axes - 1 - k), sum)
            });
            *out = sum + own[axes].to_f64();
        }
    }
    rounded::<R>(shape, &out)
}
