//! Convolutions and maxima over windows that lowering does not slide, as a gather of each window's elements and a product
//! with the weights, or a maximum: over three axes and more, of several images, with weights that are computed, with
//! borders wider than a kernel.

use super::Fact;
use super::edit::{Writer, gives_first_alone, input, int, output, rewrite_each};
use std::collections::BTreeMap;
use tg_float::{Attribute, Graph, Node, ValueId};

/// Most elements of all windows together.
const ELEMENTS_MAX: usize = 1 << 24;
/// Longest kernel, stride or dilation that lowering slides.
const SIDE_MAX: usize = 64;

/// Rewrites every such operator; whether there was one.
pub(super) fn rewrite(graph: &mut Graph, facts: &BTreeMap<ValueId, Fact>) -> bool {
    rewrite_each(graph, |graph, node| match node.op.as_str() {
        _ if !node.domain.is_empty() || !gives_first_alone(graph, node) => None,
        "Conv" | "ConvTranspose" => convolution(graph, node, facts),
        "MaxPool" => maximum(graph, node, facts),
        _ => None,
    })
}

/// How a window slides over the spatial axes.
struct SlidingWindow {
    input: Vec<usize>,
    output: Vec<usize>,
    kernel: Vec<usize>,
    strides: Vec<usize>,
    dilations: Vec<usize>,
    before: Vec<usize>,
    transposed: bool,
}

fn list(node: &Node, name: &str, default: Vec<usize>) -> Option<Vec<usize>> {
    match node.attributes.get(name) {
        Some(Attribute::Ints(values)) => {
            let sizes = values.iter().map(|&value| usize::try_from(value).ok());
            sizes
                .collect::<Option<Vec<_>>>()
                .filter(|sizes| sizes.len() == default.len())
        }
        _ => Some(default),
    }
}

impl SlidingWindow {
    fn new(node: &Node, input: &[usize], output: &[usize], kernel: &[usize]) -> Option<Self> {
        let axes = kernel.len();
        if input.len() != axes || output.len() != axes || kernel.contains(&0) {
            return None;
        }
        let strides = list(node, "strides", vec![1; axes])?;
        let dilations = list(node, "dilations", vec![1; axes])?;
        let pads = list(node, "pads", vec![0; 2 * axes])?;
        let extra = list(node, "output_padding", vec![0; axes])?;
        let auto: &[u8] = match node.attributes.get("auto_pad") {
            Some(Attribute::Text(text)) => text,
            _ => b"NOTSET",
        };
        let transposed = node.op == "ConvTranspose";
        let mut before = pads[..axes].to_vec();
        let shaped = transposed && node.attributes.contains_key("output_shape");
        for axis in 0..axes {
            let reach = (kernel[axis] - 1) * dilations[axis] + 1;
            let total = if transposed {
                let full = (input[axis] - 1) * strides[axis] + extra[axis] + reach;
                full.saturating_sub(output[axis])
            } else {
                ((output[axis] - 1) * strides[axis] + reach).saturating_sub(input[axis])
            };
            match auto {
                b"SAME_UPPER" => before[axis] = total / 2,
                b"SAME_LOWER" => before[axis] = total - total / 2,
                b"VALID" => before[axis] = 0,
                _ if shaped => before[axis] = total - total / 2,
                _ => {}
            }
        }
        Some(Self {
            input: input.to_vec(),
            output: output.to_vec(),
            kernel: kernel.to_vec(),
            strides,
            dilations,
            before,
            transposed,
        })
    }

    /// Whether lowering slides it: one or two axes, and no border as wide as the kernel.
    fn is_plain(&self) -> bool {
        let small = |list: &[usize]| list.iter().all(|&size| (1..=SIDE_MAX).contains(&size));
        let narrow = (0..self.kernel.len()).all(|axis| {
            let reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
            let needed = (self.output[axis] - 1) * self.strides[axis] + reach;
            let after = needed.saturating_sub(self.input[axis] + self.before[axis]);
            self.before[axis] < reach && after < reach
        });
        let lists = [&self.kernel, &self.strides, &self.dilations];
        (1..=2).contains(&self.kernel.len())
            && lists.iter().all(|list| small(list))
            && (narrow || self.transposed)
    }

    /// Where along an axis a kernel's position over an output reads.
    fn source(&self, axis: usize, output: usize, position: usize) -> Option<usize> {
        let (stride, dilation) = (self.strides[axis], self.dilations[axis]);
        let at = if self.transposed {
            let spread = (output + self.before[axis]).checked_sub(position * dilation)?;
            spread.is_multiple_of(stride).then_some(spread / stride)?
        } else {
            (output * stride + position * dilation).checked_sub(self.before[axis])?
        };
        (at < self.input[axis]).then_some(at)
    }

    /// Per output and position of the kernel, the element of an image that is read; nothing for the border.
    fn sources(&self) -> Vec<Option<usize>> {
        let outputs: usize = self.output.iter().product();
        let positions: usize = self.kernel.iter().product();
        let mut sources = Vec::with_capacity(outputs * positions);
        for output in 0..outputs {
            for position in 0..positions {
                let (mut output, mut position) = (output, position);
                let (mut source, mut stride) = (Some(0), 1);
                for axis in (0..self.kernel.len()).rev() {
                    let own = self.source(
                        axis,
                        output % self.output[axis],
                        position % self.kernel[axis],
                    );
                    source = source.zip(own).map(|(sum, own)| sum + own * stride);
                    stride *= self.input[axis];
                    output /= self.output[axis];
                    position /= self.kernel[axis];
                }
                sources.push(source);
            }
        }
        sources
    }
}

/// The elements of each window, `[images * channels][outputs][positions]`; the border reads 0.
fn gathered(
    writer: &mut Writer<'_>,
    x: ValueId,
    rows: usize,
    sliding: &SlidingWindow,
    sources: &[Option<usize>],
) -> ValueId {
    let elements: usize = sliding.input.iter().product();
    let along = [("axis", Attribute::Int(1))];
    let mut matrix = writer.shaped(x, &[rows, elements]);
    if sources.contains(&None) {
        let border = writer.floats(&[rows, 1], vec![0.0; rows]);
        matrix = writer.node("Concat", &[matrix, border], &along);
    }
    let places: Vec<i64> = sources
        .iter()
        .map(|source| source.unwrap_or(elements) as i64)
        .collect();
    let places = writer.ints(&places);
    writer.node("Gather", &[matrix, places], &along)
}

fn convolution(
    graph: &mut Graph,
    node: &Node,
    facts: &BTreeMap<ValueId, Fact>,
) -> Option<Vec<Node>> {
    let (x, w, value) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let [from, weights, to] = [x, w, value].map(|value| facts.get(&value).map(|f| f.shape.clone()));
    let (from, weights, to) = (from?, weights?, to?);
    let sliding = SlidingWindow::new(node, from.get(2..)?, to.get(2..)?, weights.get(2..)?)?;
    let groups = usize::try_from(int(node, "group", 1))
        .ok()
        .filter(|&groups| groups > 0)?;
    let constant = |slot: usize| {
        input(node, slot).is_none_or(|value| {
            let producer = graph.producers()[value.index()];
            graph.constants.contains_key(&value)
                || producer.is_some_and(|at| graph.nodes[at].is("DequantizeLinear"))
        })
    };
    if sliding.is_plain() && from[0] == 1 && constant(1) && constant(2) {
        return None;
    }
    let (images, channels, outputs) = (from[0], from[1], to[1]);
    let (inner, outer) = (channels / groups, outputs / groups);
    let positions: usize = sliding.kernel.iter().product();
    let pixels: usize = sliding.output.iter().product();
    if images * channels * positions * pixels > ELEMENTS_MAX {
        return None;
    }
    let sources = sliding.sources();
    let mut writer = Writer::new(graph, &node.name);
    let windows = gathered(&mut writer, x, images * channels, &sliding, &sources);
    let windows = writer.shaped(windows, &[images, groups, inner, pixels, positions]);
    let windows = writer.transposed(windows, &[0, 1, 3, 2, 4]);
    let length = inner * positions;
    let matrices = if sliding.transposed {
        let apart = writer.shaped(w, &[groups, inner, outer, positions]);
        writer.transposed(apart, &[0, 1, 3, 2])
    } else {
        let apart = writer.shaped(w, &[groups, outer, length]);
        writer.transposed(apart, &[0, 2, 1])
    };
    let sums = if groups == 1 {
        let rows = writer.shaped(windows, &[images * pixels, length]);
        let matrix = writer.shaped(matrices, &[length, outer]);
        let sums = writer.node("MatMul", &[rows, matrix], &[]);
        writer.shaped(sums, &[images, groups, pixels, outer])
    } else {
        let rows = writer.shaped(windows, &[images, groups, pixels, length]);
        let matrices = writer.shaped(matrices, &[groups, length, outer]);
        writer.node("MatMul", &[rows, matrices], &[])
    };
    let sums = writer.transposed(sums, &[0, 1, 3, 2]);
    let mut y = writer.shaped(sums, &to);
    if let Some(bias) = input(node, 2) {
        let mut along = vec![1; to.len() - 1];
        along[0] = outputs;
        let bias = writer.shaped(bias, &along);
        y = writer.node("Add", &[y, bias], &[]);
    }
    Some(writer.finish(y, value))
}

/// Of several images, one of as many channels together; over more axes, the greatest of each window's elements.
fn maximum(graph: &mut Graph, node: &Node, facts: &BTreeMap<ValueId, Fact>) -> Option<Vec<Node>> {
    let (x, value) = (input(node, 0)?, output(node)?);
    let (from, to) = (
        facts.get(&x)?.shape.clone(),
        facts.get(&value)?.shape.clone(),
    );
    let kernel = list(node, "kernel_shape", vec![0; from.len().checked_sub(2)?])?;
    let sliding = SlidingWindow::new(node, from.get(2..)?, to.get(2..)?, &kernel)?;
    let rows = from[0] * from[1];
    let mut writer = Writer::new(graph, &node.name);
    if sliding.is_plain() {
        if from[0] == 1 {
            return None;
        }
        let one = [&[1, rows], &from[2..]].concat();
        let image = writer.shaped(x, &one);
        let attributes: Vec<(&str, Attribute)> = node
            .attributes
            .iter()
            .map(|(name, attribute)| (name.as_str(), attribute.clone()))
            .collect();
        let pooled = writer.node("MaxPool", &[image], &attributes);
        let y = writer.shaped(pooled, &to);
        return Some(writer.finish(y, value));
    }
    let positions: usize = kernel.iter().product();
    let pixels: usize = sliding.output.iter().product();
    if rows * positions * pixels > ELEMENTS_MAX {
        return None;
    }
    // A border is never the greatest: each of its elements is another one of the window.
    let mut sources = sliding.sources();
    for window in sources.chunks_exact_mut(positions) {
        let inside = window.iter().flatten().next().copied()?;
        window
            .iter_mut()
            .for_each(|source| *source = source.or(Some(inside)));
    }
    let windows = gathered(&mut writer, x, rows, &sliding, &sources);
    let windows = writer.shaped(windows, &[rows, pixels, positions]);
    let along = [
        ("axes", Attribute::Ints(vec![-1])),
        ("keepdims", Attribute::Int(0)),
    ];
    let greatest = writer.node("ReduceMax", &[windows], &along);
    let y = writer.shaped(greatest, &to);
    Some(writer.finish(y, value))
}
