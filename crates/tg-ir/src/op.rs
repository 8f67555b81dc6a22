//! The operators of TGX-1: what a node computes. Formulas, widths and test vectors stand in `docs/PROTOCOL.md`.
//!
//! One file for each family holds all that this crate knows of its operators: attributes, inputs and types, shape,
//! bounds, causality, the value of an element, and the encoding, as one implementation of `Operator` each. The other
//! modules walk over programs and ask.

use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};

use crate::requantise::Requantise;
use crate::shape::TensorId;
use crate::view::View;
use crate::window::Window;

mod arithmetic;
mod comparison;
mod conv;
mod dense;
pub(crate) mod element;
pub(crate) mod latest;
mod matmul;
mod movement;
mod norm;
pub(crate) mod operator;
mod pool;
mod ranking;
pub(crate) mod reach;
mod reduction;
mod requantise;
mod softmax;
mod table;
mod trees;

pub use arithmetic::{Add, Mul, TERMS_MAX};
pub use comparison::{Compare, Extreme, Extremum, Relation, Select};
pub use conv::Conv;
pub use dense::Dense;
pub use matmul::MatMul;
pub use movement::{CONCAT_MAX, Concat, Gather, Pad};
pub use norm::{NORM_FRACTION_MAX, NORM_PRECISION_MAX, Norm, root_above};
pub use pool::{MaxPool, WindowSum};
pub use ranking::{ArgMax, Ranked, TopK};
pub use reduction::{Reduce, Reduction, RunningSum};
pub use softmax::{PROBABILITY_ONE, Softmax};
pub use table::{Embed, Parameter};
pub use trees::Trees;

pub use crate::shape::Axis;
pub use element::NodeWeights;
pub(crate) use operator::Operator;
pub use operator::{TypeRule, Unary};

/// What a node computes.
///
/// "Activations" are i8 or i16 tensors; "any" also takes i32. Where several tensors are named they have one type
/// unless stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// See [`Conv`].
    Conv(Conv),
    /// See [`Dense`].
    Dense(Dense),
    /// See [`MatMul`].
    MatMul(MatMul),
    /// See [`Parameter`].
    Parameter(Parameter),
    /// See [`Embed`].
    Embed(Embed),
    /// See [`WindowSum`].
    WindowSum(WindowSum),
    /// See [`Add`].
    Add(Add),
    /// See [`Mul`].
    Mul(Mul),
    /// Any tensor to activations: `z = T[clamp(rescale(x) + zero)]`; see [`Requantise`]. The only rounding but those of
    /// Softmax and Norm.
    Requantise(Unary<Requantise>),
    /// See [`Extremum`].
    Extremum(Extremum),
    /// See [`Compare`].
    Compare(Compare),
    /// See [`Select`].
    Select(Select),
    /// See [`Reduce`].
    Reduce(Reduce),
    /// See [`ArgMax`].
    ArgMax(ArgMax),
    /// See [`TopK`].
    TopK(TopK),
    /// See [`Softmax`].
    Softmax(Unary<Softmax>),
    /// See [`Norm`].
    Norm(Unary<Norm>),
    /// See [`MaxPool`].
    MaxPool(MaxPool),
    /// Elements moved, repeated or left out; see [`View`].
    View(Unary<View>),
    /// See [`Concat`].
    Concat(Concat),
    /// See [`Pad`].
    Pad(Pad),
    /// See [`Gather`].
    Gather(Gather),
    /// See [`Trees`].
    Trees(Trees),
    /// See [`RunningSum`].
    RunningSum(RunningSum),
}

/// The operators by their tags in the canonical encoding.
macro_rules! operators {
    ($($tag:literal => $variant:ident),+ $(,)?) => {
        impl Op {
            /// What the operator says of itself.
            pub(crate) fn operator(&self) -> &dyn Operator {
                match self {
                    $(Self::$variant(operator) => operator),+
                }
            }
        }

        impl Encode for Op {
            fn encode(&self, writer: &mut Writer) {
                match self {
                    $(Self::$variant(operator) => {
                        writer.u8($tag);
                        operator.encode(writer);
                    })+
                }
            }
        }

        impl Decode for Op {
            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match reader.u8()? {
                    $($tag => Decode::decode(reader).map(Self::$variant),)+
                    other => Err(DecodeError::Invalid {
                        field: "operator",
                        value: u64::from(other),
                    }),
                }
            }
        }
    };
}

operators! {
    0 => Conv,
    1 => Dense,
    2 => WindowSum,
    3 => Add,
    4 => Requantise,
    5 => MaxPool,
    6 => View,
    7 => MatMul,
    8 => Parameter,
    9 => Embed,
    10 => Mul,
    11 => Extremum,
    12 => Compare,
    13 => Select,
    14 => Reduce,
    15 => ArgMax,
    16 => TopK,
    17 => Softmax,
    18 => Norm,
    19 => Concat,
    20 => Pad,
    21 => Gather,
    22 => Trees,
    23 => RunningSum,
}

impl Op {
    /// A convolution of one group, with zeros as padding.
    #[must_use]
    pub const fn conv(input: TensorId, window: Window) -> Self {
        Self::Conv(Conv {
            input,
            window,
            groups: 1,
            zero: 0,
        })
    }

    /// A weighted sum of two tensors.
    #[must_use]
    pub fn add(inputs: [TensorId; 2], multipliers: [i32; 2]) -> Self {
        Self::Add(Add {
            inputs: inputs.to_vec(),
            multipliers: multipliers.to_vec(),
            bias: 0,
        })
    }

    /// The operator's name in messages and reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.operator().name()
    }

    /// The tensors the node reads.
    #[must_use]
    pub fn inputs(&self) -> Vec<TensorId> {
        self.operator().inputs()
    }

    /// Where the type of the node's output comes from.
    #[must_use]
    pub fn output_type(&self) -> TypeRule {
        self.operator().output_type()
    }

    /// Whether the node has weights.
    #[must_use]
    pub fn has_weights(&self) -> bool {
        self.operator().has_weights()
    }

    /// Whether the node has a bias per output channel beside its weights.
    #[must_use]
    pub fn has_bias(&self) -> bool {
        self.operator().has_bias()
    }
}
