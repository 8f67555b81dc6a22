//! The operators of TGX-1: what a node computes. Formulas, widths and test vectors stand in `docs/PROTOCOL.md`.

use crate::forest::Forest;
use crate::program::TensorId;
use crate::requantise::Requantise;
use crate::rescale::Rescale;
use crate::shape::ElementType;
use crate::view::View;
use crate::window::Window;

/// An axis of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Rows (height).
    Rows,
    /// Columns (width).
    Columns,
    /// Channels.
    Channels,
}

/// How a reduction combines elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// The greatest.
    Greatest,
    /// The least.
    Least,
}

/// Which of two elements is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extremum {
    /// The greater one.
    Greater,
    /// The lesser one.
    Lesser,
}

/// A relation of two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `a == b`.
    Equal,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterOrEqual,
}

/// What a selection of the greatest elements gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranked {
    /// The elements, greatest first.
    Values,
    /// Their channels; of equal elements the lowest channel comes first.
    Channels,
}

/// Probabilities of a row of scores. See [`Op::Softmax`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Softmax {
    /// From the distance to the greatest score to an index of the table.
    pub rescale: Rescale,
    /// Exponentials: entry 0 (at least 1) is for the greatest score, the last one for all scores far below it.
    /// 1 to [`crate::requantise::TABLE_MAX`] entries, each at most [`PROBABILITY_ONE`].
    pub table: Vec<u16>,
    /// Causal mask: in column x only channels up to `x + offset` take part; none: all do.
    pub causal: Option<u32>,
}

impl Softmax {
    /// The exponential of minus a distance to the greatest score.
    ///
    /// # Panics
    /// If the distance is negative.
    #[must_use]
    pub fn exponential(&self, distance: i64) -> u16 {
        let last = self.table.len() as i64 - 1;
        let index = self.rescale.apply(distance).min(last);
        self.table[usize::try_from(index).expect("not negative")]
    }
}

/// The integer that stands for probability 1.
pub const PROBABILITY_ONE: u16 = 32_767;

/// Normalisation of a row by its mean and standard deviation, or its root mean square. See [`Op::Norm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norm {
    /// Whether the mean is taken away first (layer normalisation; without it: root-mean-square normalisation).
    pub centred: bool,
    /// Added to `n^2` times the variance, in square units of the input.
    pub epsilon: u64,
    /// Bits of precision k of the root: it is taken of `4^k` times the value.
    pub precision: u8,
    /// Fraction bits f of the result: its unit is `2^-f`.
    pub fraction: u8,
}

/// Where the type of an output comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeRule {
    /// The operator.
    Fixed(ElementType),
    /// It is that of an input.
    SameAs(TensorId),
}

/// What a node computes.
///
/// "Activations" are i8 or i16 tensors; "any" also takes i32. Where several tensors are named they have one type
/// unless stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Convolution: `a(y, x, o) = bias[o] + sum over k, i of w[o, k, i] * in(source(y, x, k), i)`, i over the input
    /// channels of o's group; a position in padding reads `zero`.
    Conv {
        /// Activations.
        input: TensorId,
        /// Kernel, stride, padding, dilation, spread.
        window: Window,
        /// Groups: input and output channels are divided into as many runs, each output reads its own run.
        groups: u32,
        /// Value of padded positions: the input's zero point.
        zero: i16,
    },
    /// Fully connected: `a(o) = bias[o] + sum over pixels p, channels i of w[o, p, i] * in(p, i)`.
    Dense {
        /// Activations.
        input: TensorId,
    },
    /// Product of matrices, one per row of the tensors: `a(g, m, n) = sum over k of left(g, m, k) * right(g / r, n, k)`
    /// if transposed, else `right(g / r, k, n)`, with r = rows of left / rows of right.
    MatMul {
        /// Activations, left and right; their types may differ.
        inputs: [TensorId; 2],
        /// Whether the right tensor holds its matrices with k innermost.
        transposed: bool,
    },
    /// A tensor of weights, as i8 activations.
    Parameter,
    /// Rows of a table of weights: `z(y, x, c) = w[min(max(in(y, x), 0), rows - 1)][c]`, i8.
    Embed {
        /// Any tensor with one channel.
        input: TensorId,
        /// Rows of the table.
        rows: u32,
    },
    /// Window sums per channel: `a(y, x, c) = sum over k of in(source(y, x, k), c)`; an average is the requantised
    /// sum.
    WindowSum {
        /// Activations.
        input: TensorId,
        /// Kernel, stride, padding (zeros), dilation.
        window: Window,
    },
    /// Weighted sum of tensors of one shape: `a = bias + sum over t of multipliers[t] * in_t`.
    Add {
        /// 1 to [`TERMS_MAX`] tensors of any type, also different ones.
        inputs: Vec<TensorId>,
        /// One factor per tensor, not 0, absolute value below 2^15.
        multipliers: Vec<i32>,
        /// A constant.
        bias: i32,
    },
    /// Product element by element: `a = in_0 * in_1`.
    Mul {
        /// Two activation tensors of one shape; their types may differ.
        inputs: [TensorId; 2],
    },
    /// Any tensor to activations: `z = T[clamp(rescale(x) + zero)]`. The only rounding but those of Softmax and Norm.
    Requantise {
        /// Any tensor.
        input: TensorId,
        /// How.
        how: Requantise,
    },
    /// The greater or lesser of two tensors, element by element.
    Extremum {
        /// Two tensors of any one type and one shape.
        inputs: [TensorId; 2],
        /// Which.
        which: Extremum,
    },
    /// 1 where the relation holds, 0 elsewhere, as i8.
    Compare {
        /// Two tensors of any one type and one shape.
        inputs: [TensorId; 2],
        /// The relation.
        relation: Relation,
    },
    /// `condition != 0 ? in_0 : in_1`, element by element.
    Select {
        /// An i8 tensor.
        condition: TensorId,
        /// Two tensors of any one type, all of one shape.
        inputs: [TensorId; 2],
    },
    /// Reduction along one axis, which then has length 1. A sum is i32, the others keep the type.
    Reduce {
        /// Any tensor; activations for a sum.
        input: TensorId,
        /// How.
        reduction: Reduction,
        /// Along what.
        axis: Axis,
    },
    /// The channel of the greatest element of each pixel, the lowest of equal ones, as i32.
    ArgMax {
        /// Any tensor.
        input: TensorId,
    },
    /// The k greatest elements of each pixel, k being the output's channels.
    TopK {
        /// Any tensor.
        input: TensorId,
        /// Elements (of the input's type) or channels (i32).
        give: Ranked,
    },
    /// Softmax over channels. For a pixel in column x let U be all channels, or those up to x + offset; M the
    /// greatest input in U; `e_c = T[min(rescale(M - in_c), len - 1)]` for c in U, S the sum of them. Then
    /// `z_c = floor((e_c * 32767 + floor(S / 2)) / S)` for c in U and 0 elsewhere, as i16.
    Softmax {
        /// Any tensor.
        input: TensorId,
        /// Table and mask.
        how: Softmax,
    },
    /// Normalisation over the n channels of each pixel: `s = sum of in` if centred, else 0;
    /// `v = (n * sum of in^2 - s^2 + epsilon) * 4^k`; r the least integer with `r^2 > v`;
    /// `z_c = floor(((n in_c - s) 2^(k+f) + floor(r / 2)) / r)`, as i16.
    Norm {
        /// Activations.
        input: TensorId,
        /// How.
        how: Norm,
    },
    /// Window maxima per channel; padding is skipped.
    MaxPool {
        /// Activations.
        input: TensorId,
        /// Kernel, stride, padding, dilation.
        window: Window,
    },
    /// Elements moved, repeated or left out.
    View {
        /// Any tensor.
        input: TensorId,
        /// Which input element each output element is.
        view: View,
    },
    /// Tensors one after the other along an axis.
    Concat {
        /// 1 to [`CONCAT_MAX`] tensors of any one type, alike but for the axis.
        inputs: Vec<TensorId>,
        /// Along what.
        axis: Axis,
    },
    /// A constant border.
    Pad {
        /// Any tensor.
        input: TensorId,
        /// Elements before: rows, columns, channels.
        before: [u32; 3],
        /// Elements after.
        after: [u32; 3],
        /// Their value, within the input's type.
        value: i16,
    },
    /// Slices picked along an axis: slice j of the output is slice `indices[j]` of the input.
    Gather {
        /// Any tensor.
        input: TensorId,
        /// Along what.
        axis: Axis,
        /// Input slices.
        indices: Vec<u32>,
    },
    /// Decision trees over the channels: `a(o) = bias[o] + sum over trees of leaf(o)`.
    Trees {
        /// Activations, one pixel.
        input: TensorId,
        /// The trees.
        forest: Forest,
    },
}

/// Most terms of a weighted sum.
pub const TERMS_MAX: usize = 8;
/// Most tensors of a concatenation.
pub const CONCAT_MAX: usize = 256;

impl Op {
    /// A convolution of one group, with zeros as padding.
    #[must_use]
    pub const fn conv(input: TensorId, window: Window) -> Self {
        Self::Conv {
            input,
            window,
            groups: 1,
            zero: 0,
        }
    }

    /// A weighted sum of two tensors.
    #[must_use]
    pub fn add(inputs: [TensorId; 2], multipliers: [i32; 2]) -> Self {
        Self::Add {
            inputs: inputs.to_vec(),
            multipliers: multipliers.to_vec(),
            bias: 0,
        }
    }

    /// The operator's name in messages and reports.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Conv { .. } => "Conv",
            Self::Dense { .. } => "Dense",
            Self::MatMul { .. } => "MatMul",
            Self::Parameter => "Parameter",
            Self::Embed { .. } => "Embed",
            Self::WindowSum { .. } => "WindowSum",
            Self::Add { .. } => "Add",
            Self::Mul { .. } => "Mul",
            Self::Requantise { .. } => "Requantise",
            Self::Extremum { .. } => "Extremum",
            Self::Compare { .. } => "Compare",
            Self::Select { .. } => "Select",
            Self::Reduce { .. } => "Reduce",
            Self::ArgMax { .. } => "ArgMax",
            Self::TopK { .. } => "TopK",
            Self::Softmax { .. } => "Softmax",
            Self::Norm { .. } => "Norm",
            Self::MaxPool { .. } => "MaxPool",
            Self::View { .. } => "View",
            Self::Concat { .. } => "Concat",
            Self::Pad { .. } => "Pad",
            Self::Gather { .. } => "Gather",
            Self::Trees { .. } => "Trees",
        }
    }

    /// The tensors the node reads.
    #[must_use]
    pub fn inputs(&self) -> Vec<TensorId> {
        match self {
            Self::Conv { input, .. }
            | Self::Dense { input }
            | Self::Embed { input, .. }
            | Self::WindowSum { input, .. }
            | Self::Requantise { input, .. }
            | Self::Reduce { input, .. }
            | Self::ArgMax { input }
            | Self::TopK { input, .. }
            | Self::Softmax { input, .. }
            | Self::Norm { input, .. }
            | Self::MaxPool { input, .. }
            | Self::View { input, .. }
            | Self::Pad { input, .. }
            | Self::Gather { input, .. }
            | Self::Trees { input, .. } => vec![*input],
            Self::MatMul { inputs, .. }
            | Self::Mul { inputs }
            | Self::Extremum { inputs, .. }
            | Self::Compare { inputs, .. } => inputs.to_vec(),
            Self::Select { condition, inputs } => vec![*condition, inputs[0], inputs[1]],
            Self::Add { inputs, .. } | Self::Concat { inputs, .. } => inputs.clone(),
            Self::Parameter => Vec::new(),
        }
    }

    /// Where the type of the node's output comes from.
    #[must_use]
    pub fn output_type(&self) -> TypeRule {
        match self {
            Self::Conv { .. }
            | Self::Dense { .. }
            | Self::MatMul { .. }
            | Self::WindowSum { .. }
            | Self::Add { .. }
            | Self::Mul { .. }
            | Self::ArgMax { .. }
            | Self::TopK {
                give: Ranked::Channels,
                ..
            }
            | Self::Reduce {
                reduction: Reduction::Sum,
                ..
            }
            | Self::Trees { .. } => TypeRule::Fixed(ElementType::I32),
            Self::Parameter | Self::Embed { .. } | Self::Compare { .. } => {
                TypeRule::Fixed(ElementType::I8)
            }
            Self::Softmax { .. } | Self::Norm { .. } => TypeRule::Fixed(ElementType::I16),
            Self::Requantise { how, .. } => TypeRule::Fixed(how.output),
            Self::Select { inputs, .. } | Self::Extremum { inputs, .. } => {
                TypeRule::SameAs(inputs[0])
            }
            Self::Reduce { input, .. }
            | Self::TopK { input, .. }
            | Self::MaxPool { input, .. }
            | Self::View { input, .. }
            | Self::Pad { input, .. }
            | Self::Gather { input, .. } => TypeRule::SameAs(*input),
            Self::Concat { inputs, .. } => inputs
                .first()
                .map_or(TypeRule::Fixed(ElementType::I8), |&input| {
                    TypeRule::SameAs(input)
                }),
        }
    }

    /// Whether the node has weights.
    #[must_use]
    pub const fn has_weights(&self) -> bool {
        matches!(
            self,
            Self::Conv { .. } | Self::Dense { .. } | Self::Parameter | Self::Embed { .. }
        )
    }

    /// Whether the node has a bias per output channel beside its weights.
    #[must_use]
    pub const fn has_bias(&self) -> bool {
        matches!(self, Self::Conv { .. } | Self::Dense { .. })
    }

    /// Whether accumulators may be read.
    #[must_use]
    pub(crate) const fn takes_accumulators(&self) -> bool {
        !matches!(
            self,
            Self::Conv { .. }
                | Self::Dense { .. }
                | Self::MatMul { .. }
                | Self::WindowSum { .. }
                | Self::Mul { .. }
                | Self::Norm { .. }
                | Self::MaxPool { .. }
                | Self::Trees { .. }
                | Self::Reduce {
                    reduction: Reduction::Sum,
                    ..
                }
        )
    }
}
