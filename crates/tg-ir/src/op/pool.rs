//! Sums and maxima over windows, per channel.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Intervals, Magnitudes, Operator, Site, TypeRule};
use super::reach::{self, Interval};
use crate::shape::{ElementType, Shape, TensorId};
use crate::window::Window;

/// Window sums per channel: `a(y, x, c) = sum over k of in(source(y, x, k), c)`; an average is the requantised sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowSum {
    /// Activations.
    pub input: TensorId,
    /// Kernel, stride, padding (zeros), dilation.
    pub window: Window,
}

/// Window maxima per channel; padding is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxPool {
    /// Activations.
    pub input: TensorId,
    /// Kernel, stride, padding, dilation.
    pub window: Window,
}

impl Operator for WindowSum {
    fn name(&self) -> &'static str {
        "WindowSum"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::Fixed(ElementType::I32)
    }

    fn takes_accumulators(&self) -> bool {
        false
    }

    fn fault(&self, _site: &Site<'_>) -> Option<&'static str> {
        (!self.window.is_valid() || self.window.spread != [1; 2]).then_some("window")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        pooled(&self.window, shapes(self.input))
    }

    fn looks(&self, _shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        self.window.positions() as u64
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        positions(&self.window).saturating_mul(before.of(self.input))
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        let positions = positions(&self.window);
        let of_channel = |&[low, high]: &Interval| {
            if self.window.is_padded() {
                [low.min(0) * positions, high.max(0) * positions]
            } else {
                [low * positions, high * positions]
            }
        };
        reads.of(self.input).iter().map(of_channel).collect()
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.convolved(self.input, &self.window, output.channels, output)
    }

    fn positions_read(&self, output: Shape) -> u64 {
        output.elements() as u64 * self.window.positions() as u64
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        in_window(reads, self.input, &self.window, at).sum()
    }
}

impl Operator for MaxPool {
    fn name(&self) -> &'static str {
        "MaxPool"
    }

    fn inputs(&self) -> Vec<TensorId> {
        vec![self.input]
    }

    fn output_type(&self) -> TypeRule {
        TypeRule::SameAs(self.input)
    }

    fn takes_accumulators(&self) -> bool {
        false
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        let window = &self.window;
        let input = site.shape(self.input);
        let valid = window.is_valid()
            && window.spread == [1; 2]
            && window
                .output(input)
                .is_none_or(|[height, width]| window.covers(input, Shape::new(height, width, 1)));
        (!valid).then_some("window")
    }

    fn shape(&self, _stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        pooled(&self.window, shapes(self.input))
    }

    fn looks(&self, _shapes: &dyn Fn(TensorId) -> Shape) -> u64 {
        self.window.positions() as u64
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        before.of(self.input)
    }

    fn interval(&self, before: &Intervals<'_>) -> Interval {
        before.of(self.input)
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.of(self.input).to_vec()
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.convolved(self.input, &self.window, output.channels, output)
    }

    fn positions_read(&self, output: Shape) -> u64 {
        output.elements() as u64 * self.window.positions() as u64
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        in_window(reads, self.input, &self.window, at)
            .max()
            .expect("a valid window covers at least one pixel")
    }
}

fn pooled(window: &Window, input: Shape) -> Option<Shape> {
    let [height, width] = window.output(input)?;
    Some(Shape::new(height, width, input.channels))
}

fn positions(window: &Window) -> i64 {
    i64::try_from(window.positions()).unwrap_or(i64::MAX)
}

/// The elements of a window, those in padding left out.
fn in_window<'a>(
    reads: &'a element::Reads<'a>,
    input: TensorId,
    window: &'a Window,
    at: Place,
) -> impl Iterator<Item = i64> + 'a {
    let shape = reads.shape(input);
    let channels = shape.channels as usize;
    (0..window.positions())
        .filter_map(move |position| window.source(shape, at.row, at.column, position))
        .map(move |source| reads.element(input, source * channels + at.channel as usize))
}

impl Encode for WindowSum {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, window } = self;
        input.encode(writer);
        window.encode(writer);
    }
}

impl Decode for WindowSum {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            window: Window::decode(reader)?,
        })
    }
}

impl Encode for MaxPool {
    fn encode(&self, writer: &mut Writer) {
        let Self { input, window } = self;
        input.encode(writer);
        window.encode(writer);
    }
}

impl Decode for MaxPool {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            window: Window::decode(reader)?,
        })
    }
}
