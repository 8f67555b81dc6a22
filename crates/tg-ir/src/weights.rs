//! Weights: the private part of a model.

pub use crate::limits::{BIAS_BASE, BIAS_DIGITS, BIAS_MAX, WEIGHT_MAX};
pub use crate::op::NodeWeights;
use crate::program::Program;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Digest, domain::Domain};

/// Most weights of one node.
pub const WEIGHTS_MAX: usize = 1 << 27;

/// Weights and biases of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinearWeights {
    /// Empty if the node is tied to another one's (see [`crate::Tie`]). `[output channel][kernel position or input pixel][input channel of the group]`, a tensor of parameters in
    /// storage order, or `[row][channel]` of an embedding; each in [-127, 127].
    pub weights: Vec<i8>,
    /// For a convolution or dense node one per output channel, in units of the accumulator, |bias| <= [`BIAS_MAX`].
    pub bias: Vec<i32>,
}

impl LinearWeights {
    /// As what a node reads that is not tied.
    #[must_use]
    pub fn as_read(&self) -> NodeWeights<'_> {
        let Self { weights, bias } = self;
        NodeWeights { weights, bias }
    }
}

/// The weights of every node that has some, in node order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weights {
    /// One entry per node with weights.
    pub layers: Vec<LinearWeights>,
}

/// The balanced base-255 digits of a bias, least significant first.
#[must_use]
pub fn bias_digits(bias: i32) -> [i8; BIAS_DIGITS] {
    debug_assert!(bias.abs() <= BIAS_MAX);
    let mut rest = bias;
    std::array::from_fn(|_| {
        let digit = (rest + WEIGHT_MAX).rem_euclid(BIAS_BASE) - WEIGHT_MAX;
        rest = (rest - digit) / BIAS_BASE;
        i8::try_from(digit).expect("a balanced digit is within [-127, 127]")
    })
}

/// Why weights do not belong to a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// Another number of weighted nodes.
    #[error("the program has {expected} nodes with weights, the weights have {got}")]
    Layers {
        /// By the program.
        expected: usize,
        /// In the weights.
        got: usize,
    },
    /// Another number of values in a node.
    #[error("node `{name}` needs {expected} {what}, got {got}")]
    Length {
        /// The node.
        name: String,
        /// Weights or biases.
        what: &'static str,
        /// By the program.
        expected: usize,
        /// In the weights.
        got: usize,
    },
    /// A value outside its declared range.
    #[error("node `{name}` has the {what} {value} at index {index}, outside its range")]
    Range {
        /// The node.
        name: String,
        /// Weight or bias.
        what: &'static str,
        /// The value.
        value: i32,
        /// Where.
        index: usize,
    },
    /// Weights whose digest is not the one the program names.
    #[error("the weights have the root {got}, the program names {expected}")]
    Root {
        /// By the program.
        expected: Digest,
        /// Of the weights.
        got: Digest,
    },
}

impl Weights {
    /// BLAKE3 tree root of the canonical encoding.
    #[must_use]
    pub fn root(&self) -> Digest {
        Digest::of(Domain::Weights, &self.to_bytes())
    }

    /// Bytes of memory that the weights and biases take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let layers = self.layers.iter();
        layers
            .map(|layer| layer.weights.len() as u64 + 4 * layer.bias.len() as u64)
            .sum()
    }

    /// Checks that the weights are those of a program: sizes, ranges and root.
    ///
    /// # Errors
    /// The first thing that differs.
    pub fn check(&self, program: &Program) -> Result<(), WeightsError> {
        self.fit(program)?;
        let got = self.root();
        if got != program.weights_root {
            return Err(WeightsError::Root {
                expected: program.weights_root,
                got,
            });
        }
        Ok(())
    }

    /// Checks that a program can be executed with the weights: their number, sizes and ranges.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn fit(&self, program: &Program) -> Result<(), WeightsError> {
        let weighted: Vec<usize> = (0..program.nodes.len())
            .filter(|&n| program.nodes[n].op.has_weights())
            .collect();
        if weighted.len() != self.layers.len() {
            return Err(WeightsError::Layers {
                expected: weighted.len(),
                got: self.layers.len(),
            });
        }
        for (&node, layer) in weighted.iter().zip(&self.layers) {
            check_layer(program, node, layer)?;
        }
        Ok(())
    }

    /// What a node reads, or nothing if it reads no weights.
    #[must_use]
    pub fn of_node(&self, program: &Program, node: usize) -> Option<NodeWeights<'_>> {
        Self::of_node_in(&self.layers, program, node)
    }

    /// The same of layers that are not all there yet.
    #[must_use]
    pub fn of_node_in<'a>(
        layers: &'a [LinearWeights],
        program: &Program,
        node: usize,
    ) -> Option<NodeWeights<'a>> {
        if !program.nodes[node].op.has_weights() {
            return None;
        }
        let layer = |node: usize| {
            let earlier = program.nodes[..node].iter();
            let position = earlier.filter(|earlier| earlier.op.has_weights()).count();
            layers.get(position)
        };
        Some(NodeWeights {
            weights: &layer(program.weights_owner(node))?.weights,
            bias: &layer(node)?.bias,
        })
    }
}

fn check_layer(program: &Program, node: usize, layer: &LinearWeights) -> Result<(), WeightsError> {
    let description = &program.nodes[node];
    let name = || description.name.clone();
    let biases = if description.op.has_bias() {
        description.shape.channels as usize
    } else {
        0
    };
    let expected = if program.weights_owner(node) == node {
        program.weights_of(node)
    } else {
        0
    };
    if layer.weights.len() != expected {
        return Err(WeightsError::Length {
            name: name(),
            what: "weights",
            expected,
            got: layer.weights.len(),
        });
    }
    if layer.bias.len() != biases {
        return Err(WeightsError::Length {
            name: name(),
            what: "biases",
            expected: biases,
            got: layer.bias.len(),
        });
    }
    if let Some(index) = layer.weights.iter().position(|&weight| weight == i8::MIN) {
        return Err(WeightsError::Range {
            name: name(),
            what: "weight",
            value: -128,
            index,
        });
    }
    if let Some(index) = layer
        .bias
        .iter()
        .position(|bias| bias.unsigned_abs() > BIAS_MAX.unsigned_abs())
    {
        return Err(WeightsError::Range {
            name: name(),
            what: "bias",
            value: layer.bias[index],
            index,
        });
    }
    Ok(())
}

impl Encode for Weights {
    fn encode(&self, writer: &mut Writer) {
        writer.seq(&self.layers);
    }
}

impl Decode for Weights {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            layers: reader.seq("weighted nodes", crate::program::NODES_MAX, 8)?,
        })
    }
}

impl Encode for LinearWeights {
    fn encode(&self, writer: &mut Writer) {
        let Self { weights, bias } = self;
        writer.count(weights.len());
        writer.raw(
            &weights
                .iter()
                .map(|weight| weight.cast_unsigned())
                .collect::<Vec<_>>(),
        );
        writer.count(bias.len());
        bias.iter().for_each(|&value| writer.i32(value));
    }
}

impl Decode for LinearWeights {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let weights = reader
            .bytes("weights", WEIGHTS_MAX)?
            .iter()
            .map(|byte| byte.cast_signed())
            .collect();
        let count = reader.count("biases", crate::shape::AXIS_MAX as usize, 4)?;
        Ok(Self {
            weights,
            bias: (0..count).map(|_| reader.i32()).collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_recompose(bias in -BIAS_MAX..=BIAS_MAX) {
            let back = bias_digits(bias).iter().rev().fold(0i64, |value, &digit| value * i64::from(BIAS_BASE) + i64::from(digit));
            prop_assert_eq!(back, i64::from(bias));
            prop_assert!(bias_digits(bias).iter().all(|&digit| digit != i8::MIN));
        }
    }
}
