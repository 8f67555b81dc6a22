//! Convolutions.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use super::element::{self, Place};
use super::latest::{self, Latest};
use super::operator::{Magnitudes, Operator, Site, TypeRule, of_weighted_sum};
use super::reach::{self, Interval, LinearReads};
use crate::shape::{ElementType, Shape, TensorId};
use crate::window::Window;

/// Convolution: `a(y, x, o) = bias[o] + sum over k, i of w[o, k, i] * in(source(y, x, k), i)`, i over the input
/// channels of o's group; a position in padding reads `zero`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conv {
    /// Activations.
    pub input: TensorId,
    /// Kernel, stride, padding, dilation, spread.
    pub window: Window,
    /// Groups: input and output channels are divided into as many runs, each output reads its own run.
    pub groups: u32,
    /// Value of padded positions: the input's zero point.
    pub zero: i16,
}

impl Conv {
    /// Input channels that an output channel reads.
    fn run(&self, input: Shape) -> usize {
        (input.channels / self.groups.max(1)) as usize
    }

    /// Lengths of the axes of its weights.
    fn axes(&self, output: Shape, input: Shape) -> [usize; 3] {
        let outputs = output.channels as usize;
        [outputs, self.window.positions(), self.run(input)]
    }

    /// What rows of its weights are multiplied with.
    fn linear(&self) -> LinearReads {
        LinearReads {
            input: self.input,
            groups: self.groups.max(1) as usize,
            padding: self.window.is_padded().then(|| i64::from(self.zero)),
        }
    }
}

impl Operator for Conv {
    fn name(&self) -> &'static str {
        "Conv"
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

    fn has_weights(&self) -> bool {
        true
    }

    fn has_bias(&self) -> bool {
        true
    }

    fn fault(&self, site: &Site<'_>) -> Option<&'static str> {
        if !self.window.is_valid() {
            return Some("window");
        }
        let divides = |channels: u32| self.groups != 0 && channels.is_multiple_of(self.groups);
        if !divides(site.shape(self.input).channels) || !divides(site.stated.channels) {
            return Some("number of groups");
        }
        (!site.fits(self.input, self.zero)).then_some("zero point")
    }

    fn shape(&self, stated: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<Shape> {
        let [height, width] = self.window.output(shapes(self.input))?;
        Some(Shape::new(height, width, stated.channels))
    }

    fn weight_axes(&self, output: Shape, shapes: &dyn Fn(TensorId) -> Shape) -> Option<[usize; 3]> {
        Some(self.axes(output, shapes(self.input)))
    }

    fn reduction(&self, shapes: &dyn Fn(TensorId) -> Shape) -> usize {
        self.window.positions() * self.run(shapes(self.input))
    }

    fn magnitude(&self, before: &Magnitudes<'_>) -> i64 {
        let products = self.reduction(&|id| before.shape(id));
        let zero = i64::from(self.zero).abs();
        of_weighted_sum(products, before.of(self.input).max(zero))
    }

    fn linear_reads(&self) -> Option<LinearReads> {
        Some(self.linear())
    }

    fn reach(&self, reads: &reach::Reads<'_>) -> Vec<Interval> {
        reads.weighted(
            self.axes(reads.output(), reads.shape(self.input)),
            self.linear(),
        )
    }

    fn latest(&self, reads: &latest::Reads<'_>, output: Shape) -> Latest {
        reads.convolved(self.input, &self.window, self.groups, output)
    }

    fn positions_read(&self, output: Shape) -> u64 {
        output.pixels() as u64 * self.window.positions() as u64 * u64::from(self.groups)
    }

    fn element(&self, reads: &element::Reads<'_>, at: Place) -> i64 {
        let Self {
            input,
            window,
            groups,
            zero,
        } = self;
        let shape = reads.shape(*input);
        let (inputs, outputs) = (shape.channels / groups, reads.output().channels / groups);
        let first = at.channel / outputs * inputs;
        let taps = window.positions() * inputs as usize;
        let layer = reads.layer();
        let kernel = &layer.weights[at.channel as usize * taps..][..taps];
        let mut sum = i64::from(layer.bias[at.channel as usize]);
        for (position, weights) in kernel.chunks_exact(inputs as usize).enumerate() {
            sum += match window.source(shape, at.row, at.column, position) {
                Some(source) => {
                    let first = source * shape.channels as usize + first as usize;
                    reads.dot(*input, first, weights)
                }
                None => {
                    weights.iter().map(|&weight| i64::from(weight)).sum::<i64>() * i64::from(*zero)
                }
            };
        }
        sum
    }
}

impl Encode for Conv {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            input,
            window,
            groups,
            zero,
        } = self;
        input.encode(writer);
        window.encode(writer);
        writer.u32(*groups);
        writer.u16(zero.cast_unsigned());
    }
}

impl Decode for Conv {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            input: TensorId::decode(reader)?,
            window: Window::decode(reader)?,
            groups: reader.u32()?,
            zero: reader.u16()?.cast_signed(),
        })
    }
}
