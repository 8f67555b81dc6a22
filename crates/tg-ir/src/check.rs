//! Whether a program is well formed: earlier inputs of the right types, attributes in range, shapes that follow.

use crate::bounds;
use crate::op::operator::Site;
use crate::program::{Node, Program, Tie};
use crate::shape::{ElementType, Shape, TensorId};
use crate::signature::{PORTS_MAX, SignatureError};
use tg_types::codec::DecodeError;

/// Why a program is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The bytes are not a canonical program.
    #[error("the program cannot be read")]
    Decode(#[from] DecodeError),
    /// A program without nodes.
    #[error("the program has no nodes")]
    Empty,
    /// An input shape with an empty or too large axis.
    #[error("the program's input has the invalid shape {stated}")]
    BadInputShape {
        /// The stated shape.
        stated: Shape,
    },
    /// An input coding that does not fit its shape.
    #[error("the program's input has an invalid coding")]
    BadInputCoding,
    /// A node reads a tensor that does not come before it, or of the wrong type.
    #[error(
        "node {node} `{name}` reads tensor {tensor}, which is not an earlier tensor of the right type"
    )]
    BadInput {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The tensor.
        tensor: u32,
    },
    /// The stated shape is not what the operator gives.
    #[error(
        "node {node} `{name}` ({op}) states the shape {stated}, which its inputs and attributes do not give"
    )]
    BadShape {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The operator.
        op: &'static str,
        /// The stated shape.
        stated: Shape,
    },
    /// An attribute is outside its range.
    #[error("node {node} `{name}` ({op}) has an invalid {attribute}")]
    BadAttribute {
        /// Index of the node.
        node: usize,
        /// Its name.
        name: String,
        /// The operator.
        op: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// A tie that is out of order, or of nodes whose weights have not the same axes, or to weights that are tied.
    #[error("tie {index} ({node} to {to}) is not one of two nodes with weights of the same axes")]
    BadTie {
        /// Its place in the list.
        index: usize,
        /// The node it states.
        node: u32,
        /// The node to whose weights it is tied.
        to: u32,
    },
    /// Outputs that are no tensors, too few or too many to be listed, or do not have the last node among them.
    #[error(
        "the program's list of {count} outputs is not one of its tensors with the last among them"
    )]
    BadOutputs {
        /// How many are listed.
        count: usize,
    },
    /// A signature of another program.
    #[error("the program's signature does not fit it")]
    BadSignature(#[from] SignatureError),
    /// An accumulator could leave the field.
    #[error(transparent)]
    Bound(#[from] bounds::BoundError),
}

impl Program {
    /// Checks that the graph is well formed, every shape is what its operator gives, every attribute is in range,
    /// and no accumulator can leave the field (whatever the weights: they are private).
    ///
    /// # Errors
    /// The first thing that is wrong, by node.
    pub fn validate(&self) -> Result<(), ProgramError> {
        if self.nodes.is_empty() {
            return Err(ProgramError::Empty);
        }
        if !self.input.shape.is_valid() {
            return Err(ProgramError::BadInputShape {
                stated: self.input.shape,
            });
        }
        if !self.input.coding_is_valid() {
            return Err(ProgramError::BadInputCoding);
        }
        let mut magnitudes = bounds::magnitudes(self, 0);
        let mut types = vec![self.input.element_type()];
        for node in 0..self.nodes.len() {
            let known = Known {
                magnitudes: &magnitudes,
                types: &types,
            };
            node_is_valid(self, node, &known)?;
            magnitudes.push(bounds::of_node(self, node, &magnitudes));
            types.push(self.output_type(node, &types));
        }
        ties(self)?;
        outputs(self)?;
        if let Some(signature) = &self.signature {
            let outputs = self.outputs().into_iter();
            let elements: Vec<usize> = outputs.map(|id| self.shape(id).elements()).collect();
            signature.check(&elements)?;
        }
        bounds::check(self, &magnitudes)?;
        Ok(())
    }
}

/// What is known of the tensors before a node. A program has thousands of nodes, each of which reads hundreds of others: what
/// is asked of a tensor once per reader is found out once, forwards.
struct Known<'a> {
    /// The greatest absolute value of an element.
    magnitudes: &'a [i64],
    /// The type of its elements.
    types: &'a [ElementType],
}

/// Checks one node, given that all before it are well formed and what is known of their outputs.
fn node_is_valid(program: &Program, index: usize, known: &Known<'_>) -> Result<(), ProgramError> {
    let Node {
        name,
        op,
        shape: stated,
        ..
    } = &program.nodes[index];
    if let Some(tensor) = wrong_input(program, index, known.types) {
        return Err(ProgramError::BadInput {
            node: index,
            name: name.clone(),
            tensor: tensor.0,
        });
    }
    let bad_shape = || ProgramError::BadShape {
        node: index,
        name: name.clone(),
        op: op.name(),
        stated: *stated,
    };
    if !stated.is_valid() {
        return Err(bad_shape());
    }
    let site = Site {
        tensors: program,
        stated: *stated,
        magnitudes: known.magnitudes,
        types: known.types,
    };
    if let Some(attribute) = op.operator().fault(&site) {
        return Err(ProgramError::BadAttribute {
            node: index,
            name: name.clone(),
            op: op.name(),
            attribute,
        });
    }
    let follows = op.operator().shape(*stated, &|id| program.shape(id));
    if follows == Some(*stated) {
        Ok(())
    } else {
        Err(bad_shape())
    }
}

/// Checks the list of outputs.
fn outputs(program: &Program) -> Result<(), ProgramError> {
    let listed = &program.outputs;
    if listed.is_empty() {
        return Ok(());
    }
    let last = program.last();
    let within = listed.iter().all(|id| id.index() <= program.nodes.len());
    if within && (2..=PORTS_MAX).contains(&listed.len()) && listed.contains(&last) {
        return Ok(());
    }
    Err(ProgramError::BadOutputs {
        count: listed.len(),
    })
}

/// Checks the ties, given that all nodes are well formed.
fn ties(program: &Program) -> Result<(), ProgramError> {
    let Program { nodes, ties, .. } = program;
    let has_weights = |node: u32| {
        let node = nodes.get(node as usize);
        node.is_some_and(|node| node.op.has_weights())
    };
    let mut last = None;
    for (index, &Tie { node, to }) in ties.iter().enumerate() {
        let in_order = to < node && last < Some(node) && has_weights(node) && has_weights(to);
        let owned = in_order && program.weights_owner(to as usize) == to as usize;
        if !owned || program.weight_axes(node as usize) != program.weight_axes(to as usize) {
            return Err(ProgramError::BadTie { index, node, to });
        }
        last = Some(node);
    }
    Ok(())
}

/// The first tensor that does not come before the node or has a type which the node does not take.
fn wrong_input(program: &Program, index: usize, types: &[ElementType]) -> Option<TensorId> {
    let operator = program.nodes[index].op.operator();
    let read = operator.inputs();
    if let Some(&later) = read.iter().find(|input| input.index() > index) {
        return Some(later);
    }
    let kind = |id: TensorId| types[id.index()];
    if !operator.takes_accumulators()
        && let Some(&wide) = read.iter().find(|&&id| kind(id) == ElementType::I32)
    {
        return Some(wide);
    }
    operator.mistyped(&kind)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::op;
    use crate::program::{
        OUTPUTS_PROGRAM_VERSION, PROGRAM_VERSION, SIGNED_PROGRAM_VERSION, TIED_PROGRAM_VERSION,
        TOKENIZER_PROGRAM_VERSION,
    };
    use crate::signature::SignatureError;
    use crate::weights::WeightsError;
    use crate::{
        Axis, Coding, InputSpec, LinearWeights, Node, Op, OutputPort, Program, ProgramError, Shape,
        Signature, TensorId, Tie, Weights, Window,
    };
    use tg_types::Digest;
    use tg_types::codec::{Decode, DecodeError, Encode};

    const EMBED: u32 = 0;
    const FIRST: u32 = 1;
    const OTHER: u32 = 2;
    const JOIN: u32 = 3;
    const LAST: u32 = 4;

    /// Rows of four tokens, two products with tables of four rows, one with six rows, and nodes without weights.
    fn program(ties: &[[u32; 2]]) -> Program {
        let mut input = InputSpec::scaled(Shape::new(1, 3, 1), 1.0);
        input.coding = Coding::Tokens(4);
        let of = |op: Op, channels: u32| Node {
            name: op.name().to_owned(),
            op,
            shape: Shape::new(1, 3, channels),
            scale: 1.0,
        };
        let conv = || Op::conv(TensorId::of_node(0), Window::new([1; 2], [1; 2], [0; 4]));
        let embed = Op::Embed(op::Embed {
            input: TensorId::INPUT,
            rows: 4,
        });
        let join = Op::Concat(op::Concat {
            inputs: vec![TensorId::of_node(1), TensorId::of_node(2)],
            axis: Axis::Channels,
        });
        let tie = |&[node, to]: &[u32; 2]| Tie { node, to };
        Program {
            name: "tied".to_owned(),
            input,
            nodes: vec![
                of(embed, 2),
                of(conv(), 4),
                of(conv(), 6),
                of(join, 10),
                of(conv(), 4),
            ],
            outputs: Vec::new(),
            ties: ties.iter().map(tie).collect(),
            signature: None,
            tokenizer: None,
            weights_root: Weights::default().root(),
        }
    }

    fn layer(weights: usize, biases: usize) -> LinearWeights {
        LinearWeights {
            weights: (1..).take(weights).collect(),
            bias: (10..).take(biases).collect(),
        }
    }

    #[test]
    fn ties_are_of_nodes_whose_weights_have_the_same_axes() {
        for ties in [&[][..], &[[FIRST, EMBED]], &[[FIRST, EMBED], [LAST, EMBED]]] {
            assert_eq!(program(ties).validate(), Ok(()), "{ties:?}");
        }
        assert_eq!(program(&[[LAST, FIRST]]).validate(), Ok(()));
        for (index, ties) in [
            // Other axes; nodes without weights; nodes that do not exist; to itself; to a later node.
            (0, &[[OTHER, EMBED]][..]),
            (0, &[[JOIN, EMBED]]),
            (0, &[[LAST, JOIN]]),
            (0, &[[5, EMBED]]),
            (0, &[[FIRST, FIRST]]),
            (0, &[[EMBED, FIRST]]),
            // To one that is tied; out of order; twice.
            (1, &[[FIRST, EMBED], [LAST, FIRST]]),
            (1, &[[LAST, EMBED], [FIRST, EMBED]]),
            (1, &[[LAST, EMBED], [LAST, FIRST]]),
        ] {
            let [node, to] = ties[index];
            let refused = ProgramError::BadTie { index, node, to };
            assert_eq!(program(ties).validate(), Err(refused), "{ties:?}");
        }
    }

    /// A signature of a program whose output is a list.
    fn signature(program: &Program) -> Signature {
        let elements = program.shape(program.output()).elements();
        Signature {
            inputs: Vec::new(),
            outputs: vec![OutputPort {
                name: "y".to_owned(),
                scale: 0.5,
                zero: -3,
                shape: vec![u32::try_from(elements).unwrap()],
                order: vec![0],
                labels: Vec::new(),
            }],
        }
    }

    #[test]
    fn a_program_has_the_version_of_what_is_in_it() {
        for (ties, version) in [
            (&[][..], PROGRAM_VERSION),
            (&[[FIRST, EMBED], [LAST, EMBED]], TIED_PROGRAM_VERSION),
        ] {
            let bytes = program(ties).to_bytes();
            assert_eq!(bytes[4..6], version.to_le_bytes());
            assert_eq!(Program::from_bytes(&bytes).unwrap(), program(ties));
            let mut signed = program(ties);
            signed.signature = Some(signature(&signed));
            let bytes = signed.to_bytes();
            assert_eq!(bytes[4..6], SIGNED_PROGRAM_VERSION.to_le_bytes());
            assert_eq!(Program::from_bytes(&bytes).unwrap(), signed);
            assert_eq!(signed.validate(), Ok(()));
        }
        // The bytes are a contract: of a program with ties, and of one without as they were before there were any.
        let id = |ties: &[[u32; 2]]| program(ties).id().to_string();
        assert_eq!(
            [id(&[]), id(&[[FIRST, EMBED], [LAST, EMBED]])],
            [
                "0x2e246e8475b4a89a284aae867679dddd11d9a54f1b6ba5c2e438cfee391b0da7",
                "0x4f2d359225fe9d920a89dd669128daa29ff90d3d9e32a7593dd622822909d567",
            ]
        );
        // The list with a count of nothing, which would be a second encoding.
        let mut bytes = program(&[]).to_bytes();
        bytes[4] = TIED_PROGRAM_VERSION.to_le_bytes()[0];
        let root = bytes.split_off(bytes.len() - 32);
        let mut counted = tg_types::codec::Writer::new();
        counted.count(0);
        let bytes = [bytes, counted.into_bytes(), root].concat();
        let empty = DecodeError::Invalid {
            field: "ties",
            value: 0,
        };
        assert_eq!(Program::from_bytes(&bytes), Err(empty));
        let mut later = program(&[]).to_bytes();
        later[4] = 7;
        assert!(matches!(
            Program::from_bytes(&later),
            Err(DecodeError::Invalid { value: 7, .. })
        ));
    }

    /// A tokenizer is a part of the id beside all the rest, and a program without one has the bytes that it had before there were any.
    #[test]
    fn a_named_tokenizer_is_encoded_with_or_without_the_rest() {
        let last = program(&[]).last();
        for ties in [&[][..], &[[FIRST, EMBED]]] {
            let (plain, mut signed) = (program(ties), program(ties));
            signed.signature = Some(signature(&signed));
            let mut several = program(ties);
            several.outputs = vec![last, TensorId(1)];
            for without in [plain, signed, several] {
                let mut named = without.clone();
                named.tokenizer = Some(Digest::new([7; 32]));
                assert_eq!(named.validate(), Ok(()));
                assert_ne!(named.id(), without.id());
                let bytes = named.to_bytes();
                assert_eq!(bytes[4..6], TOKENIZER_PROGRAM_VERSION.to_le_bytes());
                assert_eq!(Program::from_bytes(&bytes).unwrap(), named);
                for end in 0..bytes.len() {
                    Program::from_bytes(&bytes[..end]).unwrap_err();
                }
                let mut other = named.clone();
                other.tokenizer = Some(Digest::new([8; 32]));
                assert_ne!(other.id(), named.id());
            }
        }
        // One output that is listed would be a second encoding.
        let mut one = program(&[]);
        (one.outputs, one.tokenizer) = (vec![last], Some(Digest::default()));
        let refused = Program::from_bytes(&one.to_bytes()).unwrap_err();
        assert!(refused.to_string().contains("outputs"), "{refused}");
    }

    /// The version of several outputs is of several outputs: one has the versions of one.
    #[test]
    fn several_outputs_are_tensors_of_the_program_with_the_last_among_them() {
        let listed = |outputs: &[u32]| {
            let mut program = program(&[]);
            program.outputs = outputs.iter().copied().map(TensorId).collect();
            program
        };
        let last = program(&[]).last().0;
        for outputs in [&[last, 0][..], &[2, last], &[last, last], &[last; 16]] {
            let program = listed(outputs);
            assert_eq!(program.validate(), Ok(()), "{outputs:?}");
            let bytes = program.to_bytes();
            assert_eq!(bytes[4..6], OUTPUTS_PROGRAM_VERSION.to_le_bytes());
            assert_eq!(Program::from_bytes(&bytes).unwrap(), program);
            assert_ne!(program.id(), super::tests::program(&[]).id());
        }
        for outputs in [&[last][..], &[0, 1], &[last, last + 1], &[last; 17]] {
            let count = outputs.len();
            let refused = ProgramError::BadOutputs { count };
            assert_eq!(listed(outputs).validate(), Err(refused), "{outputs:?}");
        }
        for outputs in [&[last][..], &[last; 17]] {
            let refused = Program::from_bytes(&listed(outputs).to_bytes()).unwrap_err();
            assert!(refused.to_string().contains("outputs"), "{refused}");
        }
        let elements = |program: &Program| -> Vec<u32> {
            let outputs = program.outputs().into_iter();
            outputs
                .map(|id| program.shape(id).elements() as u32)
                .collect()
        };
        let mut signed = listed(&[last, 0, 2]);
        let port = signature(&program(&[])).outputs.remove(0);
        let ports = elements(&signed).into_iter().zip(["a", "b", "c"]);
        let ports = ports.map(|(length, name)| OutputPort {
            name: name.to_owned(),
            shape: vec![length],
            ..port.clone()
        });
        let (inputs, outputs) = (Vec::new(), ports.collect());
        signed.signature = Some(Signature { inputs, outputs });
        assert_eq!(signed.validate(), Ok(()));
        // Who names one must mean one.
        let mut alike = signed.clone();
        let ports = alike.signature.as_mut().map(|it| &mut it.outputs);
        ports.unwrap()[2].name = "a".to_owned();
        let what = "outputs";
        let name = "a".to_owned();
        assert_eq!(
            alike.validate(),
            Err(ProgramError::BadSignature(SignatureError::Names {
                what,
                name
            }))
        );
        assert_eq!(Program::from_bytes(&signed.to_bytes()).unwrap(), signed);
        signed.outputs.swap(0, 1);
        assert!(matches!(
            signed.validate(),
            Err(ProgramError::BadSignature(_))
        ));
    }

    /// Whoever reads an answer by a signature must find its elements.
    #[test]
    fn a_signature_of_another_program_is_refused() {
        let mut program = program(&[]);
        let mut signature = signature(&program);
        signature.outputs[0].shape[0] += 1;
        program.signature = Some(signature);
        assert!(matches!(
            program.validate(),
            Err(ProgramError::BadSignature(_))
        ));
    }

    #[test]
    fn a_tied_node_reads_the_weights_of_another_and_a_bias_of_its_own() {
        let mut program = program(&[[FIRST, EMBED], [LAST, EMBED]]);
        let mut weights = Weights {
            layers: vec![layer(8, 0), layer(0, 4), layer(12, 6), layer(0, 4)],
        };
        weights.layers[3].bias = vec![7; 4];
        program.weights_root = weights.root();
        assert_eq!(weights.check(&program), Ok(()));
        let last = weights.of_node(&program, LAST as usize).unwrap();
        assert_eq!(last.weights, weights.layers[0].weights);
        assert_eq!(last.bias, [7; 4]);
        let other = weights.of_node(&program, OTHER as usize).unwrap();
        assert_eq!(other, weights.layers[2].as_read());
        assert_eq!(weights.of_node(&program, JOIN as usize), None);
        // Weights of its own, or an owner without.
        for (place, own, expected, got) in [(1, layer(8, 4), 0, 8), (0, layer(0, 0), 8, 0)] {
            let mut weights = weights.clone();
            weights.layers[place] = own;
            let refused = WeightsError::Length {
                name: program.nodes[place].name.clone(),
                what: "weights",
                expected,
                got,
            };
            assert_eq!(weights.check(&program), Err(refused));
        }
    }
}
