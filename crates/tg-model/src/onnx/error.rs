//! Why an ONNX file is refused.

use super::{FILE_BYTES_MAX, OPERATORS, OPSET_MAX, OPSET_MIN};

/// Why an ONNX file is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ImportError {
    /// The file is larger than the limit.
    #[error("the ONNX file has {bytes} bytes, at most {FILE_BYTES_MAX} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The file is not an ONNX model.
    #[error("the file is not an ONNX model (protobuf)")]
    Protobuf(#[from] prost::DecodeError),
    /// The model has no graph.
    #[error("the ONNX file holds no graph")]
    NoGraph,
    /// An operator set that is not supported.
    #[error(
        "the model uses ONNX opset {version}; export it with an opset between {OPSET_MIN} and {OPSET_MAX}"
    )]
    Opset {
        /// The version; 0 if the file names none.
        version: i64,
    },
    /// More nodes than a program may have.
    #[error("the graph has {nodes} nodes, at most {limit} are supported")]
    TooManyNodes {
        /// In the graph.
        nodes: usize,
        /// The limit.
        limit: usize,
    },
    /// Not exactly one input or output.
    #[error("the graph has {got} {what}s, exactly one is supported: {names}")]
    Ends {
        /// Input or output.
        what: &'static str,
        /// How many.
        got: usize,
        /// Their names.
        names: String,
    },
    /// An axis whose size is not fixed.
    #[error(
        "axis {axis} of the input `{input}` is dynamic (`{symbol}`); export the model with a fixed shape (a dynamic batch axis 0 is taken as 1)"
    )]
    DynamicShape {
        /// The input.
        input: String,
        /// The axis.
        axis: usize,
        /// Its symbol; empty if it has none.
        symbol: String,
    },
    /// An input that the grid does not take.
    #[error("the input `{input}` is {problem}")]
    Input {
        /// The input.
        input: String,
        /// What is wrong.
        problem: InputProblem,
    },
    /// Initialisers stored in a form that is not read.
    #[error("the tensor `{tensor}` {problem}")]
    Tensor {
        /// Its name.
        tensor: String,
        /// What is wrong.
        problem: TensorProblem,
    },
    /// The graph's output is not computed from its input.
    #[error("the output `{output}` is not computed by the graph from its input")]
    Output {
        /// The output.
        output: String,
    },
    /// A node that cannot be taken.
    #[error(transparent)]
    Node(Box<RefusedNode>),
}

/// A node that cannot be taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("node `{node}` ({operator}, inputs {}) {reason}", shapes(.inputs))]
pub struct RefusedNode {
    /// Its name, or the name of its first output if it has none.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// Shapes of its inputs.
    pub inputs: Vec<Vec<usize>>,
    /// Why.
    pub reason: NodeReason,
}

/// What is wrong with a graph's input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputProblem {
    /// Not a tensor of floats.
    #[error("of element type {0}; only float tensors (1) are supported")]
    ElementType(i32),
    /// No shape in the file.
    #[error("without a shape; export the model with a fixed shape")]
    NoShape,
    /// A batch other than 1.
    #[error("of batch {0}; export the model with batch 1")]
    Batch(i64),
    /// An axis that is not positive or too large, or a rank that is not 2 to 4.
    #[error("of shape {0:?}; supported are 1xN, 1xAxB and 1xCxHxW with at most 2^26 elements")]
    Shape(Vec<i64>),
}

/// What is wrong with a constant tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorProblem {
    /// Stored in another file.
    #[error("is stored outside the file; save the model with its weights inside")]
    External,
    /// Stored sparsely.
    #[error("is sparse; save the model with dense weights")]
    Sparse,
    /// Of an element type that is not read.
    #[error("has the element type {0}; floats (1), doubles (11), i32 (6) and i64 (7) are read")]
    ElementType(i32),
    /// Its data do not fit its shape.
    #[error("states the shape {shape:?} and holds {got} elements")]
    Length {
        /// The stated shape.
        shape: Vec<i64>,
        /// Elements held.
        got: usize,
    },
    /// A NaN or an infinity.
    #[error("holds a value that is not finite ({value}) at index {index}")]
    NotFinite {
        /// Where.
        index: usize,
        /// What.
        value: String,
    },
}

/// Why a node cannot be taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NodeReason {
    /// The operator is not supported.
    #[error("has an operator that is not supported; supported are {OPERATORS}")]
    Operator,
    /// The node reads a value that nothing before it computes.
    #[error("reads `{0}`, which no earlier node computes")]
    Unknown(String),
    /// An input that the operator needs is missing.
    #[error("has no input {0}")]
    Missing(usize),
    /// An input that must be a constant is not.
    #[error("needs input {0} to be a constant")]
    NotConstant(usize),
    /// An input that must not be a constant is one.
    #[error("needs input {0} to depend on the model's input")]
    Constant(usize),
    /// An attribute with a value that is not supported.
    #[error("has {attribute} = {value}; {supported}")]
    Attribute {
        /// The attribute.
        attribute: &'static str,
        /// Its value.
        value: String,
        /// What is supported.
        supported: &'static str,
    },
    /// Shapes that the operator does not take.
    #[error("does not take these shapes: {0}")]
    Shape(&'static str),
    /// More than one output is used.
    #[error("gives {0} outputs; only the first is supported")]
    Outputs(usize),
    /// A scale and shift per channel without a linear node before it.
    #[error("can only be folded into a Conv, Gemm or MatMul whose result nothing else reads")]
    NotFoldable,
}

fn shapes(inputs: &[Vec<usize>]) -> String {
    let one = |shape: &Vec<usize>| {
        let axes: Vec<String> = shape.iter().map(ToString::to_string).collect();
        format!("[{}]", axes.join("x"))
    };
    let all: Vec<String> = inputs.iter().map(one).collect();
    if all.is_empty() {
        "none".to_owned()
    } else {
        all.join(", ")
    }
}
