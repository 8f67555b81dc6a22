//! The float graph: what an imported model computes, in the terms of its file (NCHW, batch 1).

use tg_ir::Window;

/// A tensor of a float graph: 0 is the input, `i + 1` the output of node `i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value(pub usize);

impl Value {
    /// The graph's input.
    pub const INPUT: Self = Self(0);

    /// The output of a node.
    #[must_use]
    pub const fn of_node(node: usize) -> Self {
        Self(node + 1)
    }
}

/// What a node of a float graph computes.
#[derive(Debug, Clone, PartialEq)]
pub enum FloatOp {
    /// Convolution, one group, no dilation.
    Conv {
        /// Kernel, stride, padding (zeros).
        window: Window,
        /// `[out][in][kernel row][kernel column]`.
        weights: Vec<f32>,
        /// One per output channel.
        bias: Vec<f32>,
    },
    /// Fully connected.
    Dense {
        /// `[out][in]`.
        weights: Vec<f32>,
        /// One per output.
        bias: Vec<f32>,
    },
    /// `x * scale + shift` per channel (axis 1); folded into the linear node before it.
    Affine {
        /// Factors.
        scale: Vec<f32>,
        /// Terms.
        shift: Vec<f32>,
    },
    /// Sum of two tensors of one shape.
    Add,
    /// Clamp to [least, greatest]; a ReLU is `[0, infinity]`.
    Clip {
        /// Least and greatest value.
        bounds: [f32; 2],
    },
    /// Window maxima.
    MaxPool {
        /// Kernel, stride, padding (skipped).
        window: Window,
    },
    /// Window sums divided by the number of kernel positions.
    AveragePool {
        /// Kernel, stride, padding (zeros, counted).
        window: Window,
    },
    /// The same elements in the same order, in another shape.
    Reshape,
    /// Axes permuted: output axis `i` is input axis `axes[i]`.
    Transpose {
        /// A permutation.
        axes: Vec<usize>,
    },
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatNode {
    /// Its name in the file, or the name of its output if it has none.
    pub name: String,
    /// Its operator in the file.
    pub operator: String,
    /// What it computes.
    pub op: FloatOp,
    /// Its inputs: two for a sum, one otherwise.
    pub inputs: Vec<Value>,
    /// Shape of its output, batch axis included.
    pub shape: Vec<usize>,
    /// A clamp applied to the result, if one was fused.
    pub clamp: Option<[f32; 2]>,
}

/// A model as floats: nodes in an order in which every node reads earlier values only.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatGraph {
    /// The model's name.
    pub name: String,
    /// Shape of the input, batch axis (1) included.
    pub input: Vec<usize>,
    /// The nodes, each needed for the output.
    pub nodes: Vec<FloatNode>,
    /// The output.
    pub output: Value,
}

impl FloatGraph {
    /// Shape of a value.
    #[must_use]
    pub fn shape(&self, value: Value) -> &[usize] {
        match value.0.checked_sub(1) {
            None => &self.input,
            Some(node) => &self.nodes[node].shape,
        }
    }

    /// How many nodes read a value, the graph's output counted as one reader.
    #[must_use]
    pub fn readers(&self, value: Value) -> usize {
        let nodes = self.nodes.iter().flat_map(|node| &node.inputs);
        nodes.filter(|&&input| input == value).count() + usize::from(self.output == value)
    }

    /// Parameters of all nodes.
    #[must_use]
    pub fn parameters(&self) -> usize {
        let of = |node: &FloatNode| match &node.op {
            FloatOp::Conv { weights, bias, .. } | FloatOp::Dense { weights, bias } => {
                weights.len() + bias.len()
            }
            FloatOp::Affine { scale, shift } => scale.len() + shift.len(),
            _ => 0,
        };
        self.nodes.iter().map(of).sum()
    }

    /// Drops every node that the output does not need.
    #[must_use]
    pub(crate) fn without_dead_nodes(self) -> Self {
        let mut needed = vec![false; self.nodes.len() + 1];
        needed[self.output.0] = true;
        for node in (0..self.nodes.len()).rev() {
            if needed[node + 1] {
                self.nodes[node]
                    .inputs
                    .iter()
                    .for_each(|input| needed[input.0] = true);
            }
        }
        let keep = |node: usize| needed[node + 1];
        self.rebuilt(|node, _| if keep(node) { Fate::Keep } else { Fate::Drop })
    }

    /// Rebuilds the graph node by node; `decide` sees each node (its inputs already renumbered) and the new nodes so
    /// far, and may change the latter.
    pub(crate) fn rebuilt(self, mut decide: impl FnMut(usize, &mut Rebuilding) -> Fate) -> Self {
        let mut state = Rebuilding {
            nodes: Vec::with_capacity(self.nodes.len()),
            renumbered: vec![Some(Value::INPUT)],
            current: None,
        };
        for (index, mut node) in self.nodes.into_iter().enumerate() {
            for input in &mut node.inputs {
                *input = state.renumbered[input.0].unwrap_or(*input);
            }
            state.current = Some(node);
            let fate = decide(index, &mut state);
            let node = state.current.take();
            let value = match fate {
                Fate::Keep => {
                    state.nodes.extend(node);
                    Some(Value(state.nodes.len()))
                }
                Fate::Drop => None,
                Fate::ReplaceBy(value) => Some(value),
            };
            state.renumbered.push(value);
        }
        Self {
            name: self.name,
            input: self.input,
            output: state.renumbered[self.output.0].unwrap_or(Value::INPUT),
            nodes: state.nodes,
        }
    }
}

/// What becomes of a node when a graph is rebuilt.
pub(crate) enum Fate {
    /// It stays.
    Keep,
    /// Nothing reads it.
    Drop,
    /// Its readers read this value of the new graph instead.
    ReplaceBy(Value),
}

/// A graph that is being rebuilt.
pub(crate) struct Rebuilding {
    /// The new nodes so far.
    pub(crate) nodes: Vec<FloatNode>,
    /// The node at hand.
    pub(crate) current: Option<FloatNode>,
    renumbered: Vec<Option<Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, op: FloatOp, inputs: &[usize]) -> FloatNode {
        FloatNode {
            name: name.to_owned(),
            operator: name.to_owned(),
            op,
            inputs: inputs.iter().map(|&input| Value(input)).collect(),
            shape: vec![1, 4],
            clamp: None,
        }
    }

    /// `input -> a -> c`, `input -> b` (dead), `(c, input) -> sum`.
    fn graph() -> FloatGraph {
        let dense = FloatOp::Dense {
            weights: vec![1.0; 16],
            bias: vec![0.0; 4],
        };
        FloatGraph {
            name: "g".to_owned(),
            input: vec![1, 4],
            nodes: vec![
                node("a", FloatOp::Reshape, &[0]),
                node("b", dense, &[1]),
                node("c", FloatOp::Reshape, &[1]),
                node("sum", FloatOp::Add, &[3, 0]),
            ],
            output: Value(4),
        }
    }

    #[test]
    fn readers_count_the_output() {
        let graph = graph();
        let readers: Vec<usize> = (0..5).map(|value| graph.readers(Value(value))).collect();
        assert_eq!(readers, [2, 2, 0, 1, 1]);
        assert_eq!(graph.parameters(), 20);
    }

    #[test]
    fn dead_nodes_are_dropped_and_the_rest_renumbered() {
        let live = graph().without_dead_nodes();
        let names: Vec<&str> = live.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "sum"]);
        assert_eq!(live.nodes[2].inputs, [Value(2), Value::INPUT]);
        assert_eq!(live.output, Value(3));
        assert_eq!(live.clone().without_dead_nodes(), live);
    }

    #[test]
    fn a_replaced_node_is_read_through() {
        let short = graph().rebuilt(|index, state| {
            let source = state.current.as_ref().map(|node| node.inputs[0]);
            match (index, source) {
                (0 | 2, Some(source)) => Fate::ReplaceBy(source),
                (1, _) => Fate::Drop,
                _ => Fate::Keep,
            }
        });
        assert_eq!(short.nodes.len(), 1);
        assert_eq!(short.nodes[0].inputs, [Value::INPUT; 2]);
        assert_eq!(short.output, Value(1));
    }
}
