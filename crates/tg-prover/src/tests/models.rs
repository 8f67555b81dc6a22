//! A small model with every operator, its honest proof, and the means to lie about it.

use crate::clear::prove_witness;
use crate::error::ProveError;
use crate::witness::Witness;
use crate::{ProveRequest, ProvingModel, prove};
use std::sync::OnceLock;
use tg_exec::sample::Numbers;
use tg_exec::{IntTensor, Trace};
use tg_ir::op;
use tg_ir::{
    Coding, CompiledModel, ElementType, InputSpec, LinearWeights, Node, Op, Program, Requantise,
    Rescale, Shape, TensorId, Tie, View, Weights, Window, scalar,
};
use tg_proof::error::NodeCheck;
use tg_proof::messages::{self, InferenceProof};
use tg_proof::{ExpectedStatement, Parts, ProofFile, PublicModel, VerifyError, verify};
use tg_types::{Address, JobId};

pub(super) const JOB: JobId = JobId::new([7; 32]);
pub(super) const PROVIDER: Address = Address::new([9; 20]);

/// Nodes of [`everything`].
pub(super) const CONV: usize = 0;
pub(super) const CONV_OUT: usize = 1;
pub(super) const POOL: usize = 2;
pub(super) const SECOND: usize = 3;
pub(super) const SECOND_OUT: usize = 4;
pub(super) const ADD: usize = 5;
pub(super) const PERMUTE: usize = 7;
pub(super) const SUM: usize = 8;
pub(super) const SUM_OUT: usize = 9;
pub(super) const DENSE: usize = 10;

/// A window with one kernel, stride and padding for both axes.
pub(super) fn window(kernel: u32, stride: u32, pads: [u32; 4]) -> Window {
    Window::new([kernel; 2], [stride; 2], pads)
}

/// A program under construction: nodes are appended, weights are drawn from a seed.
pub(super) struct Draft {
    pub(super) numbers: Numbers,
    input: Shape,
    coding: Coding,
    nodes: Vec<Node>,
    /// What the program gives; empty: its last node's output.
    pub(super) outputs: Vec<TensorId>,
    ties: Vec<Tie>,
    layers: Vec<LinearWeights>,
}

impl Draft {
    pub(super) fn new(seed: u64, input: Shape) -> Self {
        Self {
            numbers: Numbers::new(seed),
            input,
            coding: Coding::Scaled(ElementType::I8),
            nodes: Vec::new(),
            outputs: Vec::new(),
            ties: Vec::new(),
            layers: Vec::new(),
        }
    }

    /// The same with an input of another coding.
    pub(super) fn coded(self, coding: Coding) -> Self {
        Self { coding, ..self }
    }

    pub(super) fn shape(&self, tensor: TensorId) -> Shape {
        let node = tensor.index().checked_sub(1);
        node.map_or(self.input, |node| self.nodes[node].shape)
    }

    fn program(&self) -> Program {
        let mut input = InputSpec::scaled(self.input, 1.0);
        input.coding = self.coding.clone();
        Program {
            name: "draft".to_owned(),
            input,
            nodes: self.nodes.clone(),
            outputs: self.outputs.clone(),
            ties: self.ties.clone(),
            signature: None,
            tokenizer: None,
            weights_root: Weights { layers: Vec::new() }.root(),
        }
    }

    pub(super) fn element_type(&self, tensor: TensorId) -> ElementType {
        self.program().element_type(tensor)
    }

    /// The greatest absolute value of a tensor.
    pub(super) fn magnitude(&self, tensor: TensorId) -> i64 {
        let program = self.program();
        tg_ir::bounds::magnitudes(&program, program.nodes.len())[tensor.index()]
    }

    /// Appends a node, with random weights if it has some.
    pub(super) fn push(&mut self, op: Op, shape: Shape) -> TensorId {
        let of = |tensor: &TensorId| self.shape(*tensor);
        let (channels, elements) = (shape.channels as usize, shape.elements());
        let counts = match &op {
            Op::Conv(op::Conv {
                input,
                window,
                groups,
                ..
            }) => {
                let inputs = of(input).channels / groups;
                Some((channels * window.positions() * inputs as usize, channels))
            }
            Op::Dense(op::Dense { input }) => Some((channels * of(input).elements(), channels)),
            Op::Parameter(op::Parameter) => Some((elements, 0)),
            Op::Embed(op::Embed { rows, .. }) => Some((*rows as usize * channels, 0)),
            _ => None,
        };
        if let Some((weights, biases)) = counts {
            let mut draw = |reach: i64| self.numbers.between(-reach, reach);
            self.layers.push(LinearWeights {
                weights: (0..weights)
                    .map(|_| i8::try_from(draw(127)).unwrap())
                    .collect(),
                bias: (0..biases)
                    .map(|_| i32::try_from(draw(20_000)).unwrap())
                    .collect(),
            });
        }
        self.nodes.push(Node {
            name: format!("{}{}", op.name(), self.nodes.len()),
            op,
            shape,
            scale: 1.0,
        });
        TensorId::of_node(self.nodes.len() - 1)
    }

    /// Appends a node that reads the weights of another one.
    pub(super) fn push_tied(&mut self, op: Op, shape: Shape, owner: TensorId) -> TensorId {
        let tensor = self.push(op, shape);
        let layer = self.layers.last_mut().unwrap();
        layer.weights.clear();
        let (node, to) = (tensor.0 - 1, owner.0 - 1);
        self.ties.push(Tie { node, to });
        tensor
    }

    /// Appends a requantisation with two pairs, the channels alternating.
    pub(super) fn requantise(&mut self, input: TensorId, shift: u32, clamp: [i8; 2]) -> TensorId {
        let shape = self.nodes[input.index() - 1].shape;
        let how = Requantise::to_i8(
            vec![
                Rescale::new(20_001, shift).unwrap(),
                Rescale::new(30_003, shift + 1).unwrap(),
            ],
            (0..shape.channels)
                .map(|channel| u8::from(channel % 2 == 1))
                .collect(),
            [-4_000_000, 4_000_000],
            clamp,
        );
        self.push(Op::Requantise(op::Unary { input, how }), shape)
    }

    /// Appends a requantisation of the whole reach of a tensor to `bits` bits (at most 12), under one pair.
    pub(super) fn narrowed(&mut self, input: TensorId, bits: u32) -> TensorId {
        let reach = self.magnitude(input).max(1);
        let greatest = (1i64 << (bits - 1)) - 1;
        // Twice the reach, so that some values are clamped.
        let factor = 2.0 * greatest as f64 / reach as f64;
        let rescale = Rescale::nearest(factor.min(0.9)).unwrap();
        let clamp = [-greatest, greatest].map(|end| i16::try_from(end).unwrap());
        let how = Requantise {
            pairs: vec![rescale],
            channel_pairs: vec![0],
            zero: i16::try_from(self.numbers.between(-3, 3)).unwrap(),
            range: [-reach, reach].map(|end| i32::try_from(end).unwrap()),
            clamp,
            table: None,
            output: if bits == 8 {
                ElementType::I8
            } else {
                ElementType::I16
            },
        };
        let shape = self.shape(input);
        self.push(Op::Requantise(op::Unary { input, how }), shape)
    }

    pub(super) fn finish(self) -> (CompiledModel, Vec<i8>) {
        let (model, input) = self.finish_tensor();
        (model, input.activations().unwrap().to_vec())
    }

    pub(super) fn finish_tensor(mut self) -> (CompiledModel, IntTensor) {
        let mut program = self.program();
        let weights = Weights {
            layers: self.layers,
        };
        program.weights_root = weights.root();
        let reach = match &program.input.coding {
            Coding::Tokens(vocabulary) => [0, i64::from(*vocabulary) - 1],
            Coding::Ranks(lists) => [0, lists.iter().map(Vec::len).min().unwrap() as i64],
            Coding::Scaled(ElementType::I16) | Coding::PerChannel(_) => [-32_767, 32_767],
            Coding::Scaled(_) => [-128, 127],
        };
        let input: Vec<i32> = (0..self.input.elements())
            .map(|_| i32::try_from(self.numbers.between(reach[0], reach[1])).unwrap())
            .collect();
        let input = IntTensor::of(program.input.element_type(), &input);
        (CompiledModel { program, weights }, input)
    }
}

/// Two convolutions with padding, a maximum with padding, stride and overlap whose output has two readers, a residual
/// addition, a permutation, window sums, a dense output of accumulators; five channels, two pairs each.
pub(super) fn everything() -> (CompiledModel, Vec<i8>) {
    let mut draft = Draft::new(5, Shape::new(6, 6, 3));
    let same = window(3, 1, [1; 4]);
    let map = Shape::new(3, 3, 5);
    let acc = draft.push(Op::conv(TensorId::INPUT, same), Shape::new(6, 6, 5));
    let first = draft.requantise(acc, 23, [-128, 127]);
    let pooled = draft.push(
        Op::MaxPool(op::MaxPool {
            input: first,
            window: window(3, 2, [1, 1, 0, 0]),
        }),
        map,
    );
    let acc = draft.push(Op::conv(pooled, same), map);
    let second = draft.requantise(acc, 24, [-100, 100]);
    let acc = draft.push(Op::add([pooled, second], [16_000, 9_000]), map);
    let added = draft.requantise(acc, 29, [-128, 127]);
    let moved = draft.push(
        Op::View(op::Unary {
            input: added,
            how: View::transpose(&[9, 5], &[1, 0]),
        }),
        map,
    );
    let acc = draft.push(
        Op::WindowSum(op::WindowSum {
            input: moved,
            window: window(2, 1, [0; 4]),
        }),
        Shape::new(2, 2, 5),
    );
    let summed = draft.requantise(acc, 15, [-128, 127]);
    draft.push(Op::Dense(op::Dense { input: summed }), Shape::vector(4));
    draft.finish()
}

/// A registered model with an honest execution and proof of it.
pub(super) struct Case {
    pub(super) model: ProvingModel,
    pub(super) public: PublicModel,
    pub(super) trace: Trace,
    pub(super) file: ProofFile,
}

impl Case {
    pub(super) fn of((model, input): (CompiledModel, Vec<i8>)) -> Self {
        Self::of_tensor((model, IntTensor::I8(input)))
    }

    pub(super) fn of_tensor((model, input): (CompiledModel, IntTensor)) -> Self {
        let model = ProvingModel::new(model).unwrap();
        let public = model.register().unwrap();
        let request = ProveRequest::of(vec![input]).named(JOB, PROVIDER);
        let (file, mut traces) = prove(&model, request, &mut |_| {}).unwrap();
        let trace = traces.remove(0);
        Self {
            model,
            public,
            trace,
            file,
        }
    }

    pub(super) fn witness(&self) -> Witness {
        self.witness_of(self.trace.tensors()).unwrap()
    }

    pub(super) fn witness_of(&self, tensors: &[IntTensor]) -> Result<Witness, ProveError> {
        Witness::of(&self.model.model.program, &self.model.shape.plan, tensors)
    }

    /// The verdict on a proof of given tensors and columns.
    pub(super) fn verdict(
        &self,
        tensors: &[IntTensor],
        witness: &Witness,
    ) -> Result<(), VerifyError> {
        let file =
            prove_witness(&self.model, tensors, witness, (JOB, PROVIDER), &mut |_| {}).unwrap();
        self.check(&file)
    }

    pub(super) fn check(&self, file: &ProofFile) -> Result<(), VerifyError> {
        verify(&self.public, file, &ExpectedStatement::default())
    }

    /// The verdict on the honest proof with changed messages.
    pub(super) fn forged(&self, change: impl FnOnce(&mut InferenceProof)) -> VerifyError {
        let mut proof = messages::decode_inference(&self.file.proof, self.parts()).unwrap();
        change(&mut proof);
        let file = ProofFile {
            proof: messages::encode_inference(&proof),
            ..self.file.clone()
        };
        self.check(&file).unwrap_err()
    }

    /// The parts of its proofs in the clear.
    pub(super) fn parts(&self) -> Parts {
        self.model.parts(&self.model.shape.plan)
    }

    /// The honest tensors with one element of a node's output replaced and every later node recomputed.
    pub(super) fn tensors_with(&self, node: usize, element: usize, value: i32) -> Vec<IntTensor> {
        let mut tensors = self.trace.tensors().to_vec();
        set(&mut tensors[node + 1], element, value);
        self.recompute(&mut tensors, node + 1);
        tensors
    }

    /// Recomputes every node from `first` on.
    pub(super) fn recompute(&self, tensors: &mut [IntTensor], first: usize) {
        let CompiledModel { program, weights } = &*self.model.model;
        let mut widened: Vec<Vec<i32>> = tensors.iter().map(IntTensor::widened).collect();
        for node in first..program.nodes.len() {
            let elements = program.nodes[node].shape.elements();
            widened[node + 1] = (0..elements)
                .map(|element| scalar::element(program, weights, node, element, &widened))
                .collect();
            let kind = program.element_type(TensorId::of_node(node));
            tensors[node + 1] = IntTensor::of(kind, &widened[node + 1]);
        }
    }

    pub(super) fn failed(&self, node: usize, check: NodeCheck) -> Result<(), VerifyError> {
        let name = self.model.model.program.nodes[node].name.clone();
        Err(VerifyError::Node { node, name, check })
    }

    /// The first witness table of a node.
    pub(super) fn table_of(&self, node: usize) -> usize {
        let tables = &self.model.shape.plan.witness;
        tables.iter().position(|table| table.node == node).unwrap()
    }

    /// The witness row of (pixel, channel) of a node's output, which must lie in its first chunk.
    pub(super) fn row(&self, node: usize, pixel: usize, channel: usize) -> usize {
        let row = self.model.shape.plan.layouts[node + 1].index(pixel, 0, channel);
        assert!(
            row < self.model.shape.plan.witness[self.table_of(node)]
                .chunk
                .rows()
        );
        row
    }
}

/// Replaces one element.
pub(super) fn set(tensor: &mut IntTensor, element: usize, value: i32) {
    match tensor {
        IntTensor::I8(values) => values[element] = i8::try_from(value).unwrap(),
        IntTensor::I16(values) => values[element] = i16::try_from(value).unwrap(),
        IntTensor::I32(values) => values[element] = value,
    }
}

/// The model of [`everything`], made once.
pub(super) fn case() -> &'static Case {
    static CASE: OnceLock<Case> = OnceLock::new();
    CASE.get_or_init(|| Case::of(everything()))
}

/// A request about inputs of bytes, alone or together.
pub(super) fn bytes<T: AsRef<[i8]>>(inputs: &[T]) -> ProveRequest<'static> {
    let inputs = inputs
        .iter()
        .map(|input| IntTensor::I8(input.as_ref().to_vec()));
    ProveRequest::of(inputs.collect())
}
