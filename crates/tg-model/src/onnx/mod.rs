//! ONNX import: a file to a [`FloatGraph`].
//!
//! [`proto`] holds the messages that are read, [`constant`] the tensors, [`node`] one function per operator, and
//! [`window`] the attributes of convolutions and pooling. The reader is bounded and total: any bytes give a graph or
//! an [`ImportError`] that names the node, its operator and its shapes.

mod constant;
mod error;
mod node;
pub(crate) mod proto;
mod window;

pub use error::{ImportError, InputProblem, NodeReason, RefusedNode, TensorProblem};

use crate::graph::{FloatGraph, FloatNode, FloatOp, Value};
use constant::Constant;
use prost::Message;
use proto::{Dimension, GraphProto, ModelProto, ValueInfoProto, data_type};
use std::collections::BTreeMap;

pub(crate) use constant::transposition;
pub(crate) use node::image_shape;

/// Largest file that is read.
pub const FILE_BYTES_MAX: usize = 64 << 20;
/// Oldest operator set that is read.
pub const OPSET_MIN: i64 = 13;
/// Newest operator set that is read.
pub const OPSET_MAX: i64 = 21;
/// The supported operators.
pub const OPERATORS: &str = "Add, AveragePool, BatchNormalization, Clip, Constant, Conv, Flatten, Gemm, GlobalAveragePool, Identity, MatMul, MaxPool, Relu, Reshape, Transpose";

/// Most elements of a tensor of the graph.
const ELEMENTS_MAX: usize = 1 << 26;

/// Reads an ONNX model.
///
/// # Errors
/// If the bytes are not an ONNX model, or it holds something that is not supported.
pub fn read(bytes: &[u8]) -> Result<FloatGraph, ImportError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(ImportError::TooLarge { bytes: bytes.len() });
    }
    let model = ModelProto::decode(bytes)?;
    let version = model
        .opset_import
        .iter()
        .find(|set| set.domain.is_empty() || set.domain == "ai.onnx")
        .map_or(0, |set| set.version);
    if !(OPSET_MIN..=OPSET_MAX).contains(&version) {
        return Err(ImportError::Opset { version });
    }
    let graph = model.graph.ok_or(ImportError::NoGraph)?;
    let limit = tg_ir::program::NODES_MAX;
    if graph.node.len() > limit {
        return Err(ImportError::TooManyNodes {
            nodes: graph.node.len(),
            limit,
        });
    }
    Importer::start(&graph)?.run(&graph)
}

/// What a name of the file stands for.
#[derive(Clone)]
enum Meaning {
    Constant(Constant),
    Value(Value),
}

/// What importing a node gives.
enum Taken {
    Node {
        op: FloatOp,
        inputs: Vec<Value>,
        shape: Vec<usize>,
    },
    Meaning(Meaning),
}

struct Importer {
    names: BTreeMap<String, Meaning>,
    graph: FloatGraph,
}

impl Importer {
    fn start(graph: &GraphProto) -> Result<Self, ImportError> {
        if !graph.sparse_initializer.is_empty() {
            return Err(ImportError::Tensor {
                tensor: "sparse_initializer".to_owned(),
                problem: TensorProblem::Sparse,
            });
        }
        let mut names = BTreeMap::new();
        for tensor in &graph.initializer {
            let constant = Constant::read(tensor).map_err(|problem| ImportError::Tensor {
                tensor: tensor.name.clone(),
                problem,
            })?;
            names.insert(tensor.name.clone(), Meaning::Constant(constant));
        }
        // Old exporters list initialisers among the inputs.
        let inputs: Vec<&ValueInfoProto> = graph
            .input
            .iter()
            .filter(|input| !names.contains_key(&input.name))
            .collect();
        let [input] = inputs.as_slice() else {
            return Err(ends(
                "input",
                inputs.iter().map(|input| input.name.as_str()),
            ));
        };
        let shape = input_shape(input)?;
        names.insert(input.name.clone(), Meaning::Value(Value::INPUT));
        Ok(Self {
            names,
            graph: FloatGraph {
                name: graph.name.clone(),
                input: shape,
                nodes: Vec::new(),
                output: Value::INPUT,
            },
        })
    }

    fn run(mut self, graph: &GraphProto) -> Result<FloatGraph, ImportError> {
        let [output] = graph.output.as_slice() else {
            return Err(ends("output", graph.output.iter().map(|o| o.name.as_str())));
        };
        for proto in &graph.node {
            self.take(proto)?;
        }
        match self.names.get(&output.name) {
            Some(Meaning::Value(value)) if *value != Value::INPUT => {
                self.graph.output = *value;
                Ok(self.graph.without_dead_nodes())
            }
            _ => Err(ImportError::Output {
                output: output.name.clone(),
            }),
        }
    }

    fn take(&mut self, proto: &proto::NodeProto) -> Result<(), ImportError> {
        let site = node::Site::new(proto, self);
        let taken = site.take().map_err(|reason| match reason {
            node::Refusal::Node(reason) => ImportError::Node(Box::new(RefusedNode {
                node: site.name().to_owned(),
                operator: proto.op_type.clone(),
                inputs: site.input_shapes(),
                reason,
            })),
            node::Refusal::Tensor(problem) => ImportError::Tensor {
                tensor: site.name().to_owned(),
                problem,
            },
        })?;
        let name = site.name().to_owned();
        let Some(output) = proto.output.first() else {
            return Ok(());
        };
        let meaning = match taken {
            Taken::Meaning(meaning) => meaning,
            Taken::Node { op, inputs, shape } => {
                self.graph.nodes.push(FloatNode {
                    name,
                    operator: proto.op_type.clone(),
                    op,
                    inputs,
                    shape,
                    clamp: None,
                });
                Meaning::Value(Value(self.graph.nodes.len()))
            }
        };
        self.names.insert(output.clone(), meaning);
        Ok(())
    }
}

fn ends<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> ImportError {
    let names: Vec<&str> = names.collect();
    ImportError::Ends {
        what,
        got: names.len(),
        names: names.iter().take(8).copied().collect::<Vec<_>>().join(", "),
    }
}

/// The fixed shape of the input; a symbolic batch axis is 1.
fn input_shape(input: &ValueInfoProto) -> Result<Vec<usize>, ImportError> {
    let problem = |problem| ImportError::Input {
        input: input.name.clone(),
        problem,
    };
    let tensor = input
        .r#type
        .as_ref()
        .and_then(|kind| kind.tensor_type.as_ref())
        .ok_or_else(|| problem(InputProblem::NoShape))?;
    if tensor.elem_type != data_type::FLOAT {
        return Err(problem(InputProblem::ElementType(tensor.elem_type)));
    }
    let shape = tensor
        .shape
        .as_ref()
        .ok_or_else(|| problem(InputProblem::NoShape))?;
    let mut axes = Vec::new();
    for (axis, dimension) in shape.dim.iter().enumerate() {
        axes.push(match &dimension.value {
            Some(Dimension::Value(size)) => *size,
            _ if axis == 0 => 1,
            symbolic => {
                return Err(ImportError::DynamicShape {
                    input: input.name.clone(),
                    axis,
                    symbol: match symbolic {
                        Some(Dimension::Parameter(symbol)) => symbol.clone(),
                        _ => String::new(),
                    },
                });
            }
        });
    }
    let sizes: Option<Vec<usize>> = axes
        .iter()
        .map(|&axis| usize::try_from(axis).ok().filter(|&size| size >= 1))
        .collect();
    let bad_shape = || problem(InputProblem::Shape(axes.clone()));
    let sizes = sizes.ok_or_else(bad_shape)?;
    if !(2..=4).contains(&sizes.len()) || !within_limit(&sizes) {
        return Err(bad_shape());
    }
    if sizes[0] != 1 {
        return Err(problem(InputProblem::Batch(axes[0])));
    }
    Ok(sizes)
}

/// Whether a shape has at most [`ELEMENTS_MAX`] elements.
fn within_limit(shape: &[usize]) -> bool {
    shape
        .iter()
        .try_fold(1usize, |product, &axis| product.checked_mul(axis))
        .is_some_and(|elements| elements <= ELEMENTS_MAX)
}

#[cfg(test)]
mod tests;
