//! The reader and the executor on untrusted bytes: whatever they are, both return.
//!
//! Plain functions, so that they run on stable in every test run; `fuzz/` calls the same with coverage.

use crate::codec::{EncodedGraph, decode, encode};
use crate::graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
use crate::job::trace::{
    ExpectedFloatClaim, ExpectedFloatTrace, FloatClaim, FloatFault, FloatTraceFile, float_vote_on,
};
use crate::job::{FloatAnswer, FloatLimits, FloatModel, FloatModelFile, NamedTensors};
use crate::tensor::{DType, Data, FloatTensor, elements};
use crate::tgf::{Budget, run_in_order};
use tg_exec::sample::Numbers;
use tg_types::{
    Decode as _, Digest, Encode as _, LeaseId, ModelId, Receipt, RunCommitment, Tier,
    trace_checksum,
};

/// Most elements of an input of a graph that is executed.
const ELEMENTS_MAX: usize = 1 << 10;

/// Reads the bytes as a file of tensors, and as a graph: four bytes for the length of the structure, the structure, the
/// constants. What is read is written back byte for byte; a graph of small inputs is executed within a small budget, twice.
pub fn fuzz_graph(bytes: &[u8]) {
    if let Ok(tensors) = NamedTensors::read(bytes) {
        assert_eq!(tensors.to_bytes(), bytes, "tensors have one encoding");
    }
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
    let (structure, constants) = rest.split_at(length);
    if let Ok(graph) = decode(structure, constants) {
        let again = encode(&graph);
        assert_eq!(again.structure, structure, "one graph has one structure");
        assert_eq!(again.constants, constants, "one graph has one encoding");
        execute(&graph);
    }
}

/// Executes a graph on zeros, if its inputs are small.
fn execute(graph: &Graph) {
    let mut inputs = Vec::with_capacity(graph.inputs.len());
    for input in &graph.inputs {
        let axes = input.shape.iter().flatten();
        let sizes = axes.map(|axis| match axis {
            Dim::Known(size) => *size,
            Dim::Named(_) | Dim::Unknown => 1,
        });
        let sizes: Vec<usize> = sizes.collect();
        let dtype = input.dtype.unwrap_or(DType::F32);
        let count = elements(&sizes).filter(|&count| count <= ELEMENTS_MAX);
        let made = count.map(|count| FloatTensor::new(sizes, Data::zeros(dtype, count)));
        let Some(Ok(tensor)) = made else { return };
        inputs.push(tensor);
    }
    let given: Vec<&FloatTensor> = inputs.iter().collect();
    let budget = Budget {
        bytes: 1 << 20,
        iterations: 64,
        work: 1 << 24,
    };
    let first = run_in_order(graph, &given, &budget);
    let second = run_in_order(graph, &given, &budget);
    assert_eq!(first.work, second.work, "a run repeats itself");
    assert!(first.work <= budget.work, "no more work than there was");
    if let (Ok(first), Ok(second)) = (&first.result, &second.result) {
        assert_eq!(first.len(), graph.outputs.len(), "every output is given");
        assert_eq!(first.len(), second.len(), "a run repeats itself");
    }
}

/// A model of 24 nodes, and an input of it.
fn judged_model() -> Option<(FloatModel, Vec<u8>)> {
    let mut graph = Graph::default();
    graph.opsets.insert(String::new(), 13);
    let mut last = graph.fresh("x");
    graph.inputs.push(Input {
        value: last,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![Dim::Known(4)]),
    });
    for index in 0..24 {
        let next = graph.fresh(format!("y{index}"));
        graph.append(Node::new("node", "Tanh", 13, vec![last], vec![next]));
        last = next;
    }
    graph.outputs.push(last);
    let file = FloatModelFile::new(&graph, FloatLimits::default()).ok()?;
    let x = FloatTensor::of(vec![4], vec![0.5f32, -1.0, 2.0, 0.0]).ok()?;
    let input = NamedTensors(vec![("x".to_owned(), x)]).to_bytes();
    Some((FloatModel::read(&file.file).ok()?, input))
}

/// Reads the bytes as the evidence of mode `sync` of a run, and judges it as one that its provider committed to.
pub fn fuzz_trace(bytes: &[u8]) {
    let (Ok(file), Some((model, input))) = (FloatTraceFile::from_bytes(bytes), judged_model())
    else {
        return;
    };
    assert_eq!(file.to_bytes(), bytes, "evidence has one encoding");
    let answer = FloatAnswer::from_bytes(&file.answer).ok();
    let trace = match (&file.opened, answer) {
        (Some(opened), Some(answer)) => opened.record.commitment(&input, &answer),
        _ => model.trace(&input).commitment,
    };
    let lease = LeaseId::new([0; 32]);
    let trace = RunCommitment::read(&trace).for_lease(&lease).digest();
    let expected = ExpectedFloatTrace {
        lease: &lease,
        input: &input,
        output: &Digest::of_blob(&file.answer),
        trace: &trace,
        challenge: &Digest::default(),
    };
    let found = model.verify_trace(&file, expected);
    let vote = float_vote_on(found.as_ref().copied());
    let held = model.float_accusation_holds(&file, expected, vote);
    assert_eq!(
        held,
        found.err(),
        "every validator finds what a member does"
    );
}

/// Reads the bytes as a claim about a run and as the answer to one. A right run withstands every claim, and its claim every answer.
pub fn fuzz_claim(bytes: &[u8]) {
    if let Ok(claim) = FloatClaim::from_bytes(bytes) {
        assert_eq!(claim.to_bytes(), bytes, "a claim has one encoding");
    }
    if let Ok(fault) = FloatFault::from_bytes(bytes) {
        assert_eq!(fault.to_bytes(), bytes, "an answer has one encoding");
    }
    let Some((model, input)) = judged_model() else {
        return;
    };
    let lease = LeaseId::new([7; 32]);
    let right = model.claim(&input);
    let stated = |answer: &FloatAnswer| {
        let run = FloatModel::digest_of(&input, answer);
        RunCommitment::of(&lease, trace_checksum(&run), answer.work).digest()
    };
    let result = |answer: &FloatAnswer| Receipt {
        program: model.id(),
        model: ModelId::default(),
        input: Digest::of_blob(&input),
        output: Digest::of_blob(&answer.to_bytes()),
        trace: stated(answer),
        tier: Tier::Tgf1,
    };
    let judged = |answer: &FloatAnswer, files: (&[u8], &[u8])| {
        let (receipt, delivered) = (result(answer), answer.to_bytes());
        let expected = ExpectedFloatClaim {
            lease: &lease,
            input: &input,
            receipt: &receipt,
            delivered: &delivered,
        };
        let shown = model.fault_of(files.0, expected);
        (model.claim_fails(files, expected), shown)
    };
    let (_, shown) = judged(&right.answer, (bytes, &[]));
    let shown = shown.map(|it| it.to_bytes()).unwrap_or_default();
    let (fails, _) = judged(&right.answer, (bytes, &shown));
    assert!(fails, "a right run withstands every claim");
    let mut wrong = right.answer.clone();
    wrong.work += 1;
    let (fails, _) = judged(&wrong, (&right.to_bytes(), bytes));
    assert!(!fails, "a right claim withstands every answer");
}

/// Files that [`fuzz_trace`] and [`fuzz_claim`] read, for mutations of them.
#[must_use]
pub fn judged_files() -> Vec<Vec<u8>> {
    let Some((model, input)) = judged_model() else {
        return Vec::new();
    };
    let file = model.open(&input, &Digest::default());
    vec![file.to_bytes(), model.claim(&input).to_bytes()]
}

/// Bytes that [`fuzz_graph`] reads as this graph.
#[must_use]
pub fn seed_of(graph: &Graph) -> Vec<u8> {
    let EncodedGraph {
        structure,
        constants,
    } = encode(graph);
    let length = u32::try_from(structure.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), structure.as_slice(), &constants].concat()
}

/// A number below `count`; 0 if there is none.
pub(crate) fn below(draws: &mut Numbers, count: usize) -> usize {
    usize::try_from(draws.next() % count.max(1) as u64).unwrap_or(0)
}

/// One of these.
pub(crate) fn pick<T: Copy>(draws: &mut Numbers, of: &[T]) -> T {
    of[below(draws, of.len())]
}

/// A tensor of any type, small, of any values.
#[must_use]
pub fn random_tensor(draws: &mut Numbers) -> FloatTensor {
    let (dtype, _) = pick(draws, &DType::ALL);
    let shape: Vec<usize> = (0..below(draws, 4)).map(|_| below(draws, 4)).collect();
    tensor_of(draws, dtype, shape)
}

/// A tensor of this type and shape, of any values.
#[must_use]
pub fn tensor_of(draws: &mut Numbers, dtype: DType, shape: Vec<usize>) -> FloatTensor {
    let count = shape.iter().product();
    let next: Vec<u64> = (0..count).map(|_| value(draws, dtype)).collect();
    macro_rules! as_bits {
        ($variant:ident, $of:expr) => {
            Data::$variant(next.iter().map(|&bits| $of(bits)).collect())
        };
    }
    let data = match dtype {
        DType::F32 => as_bits!(F32, |bits| f32::from_bits(bits as u32)),
        DType::F64 => as_bits!(F64, f64::from_bits),
        DType::F16 => as_bits!(F16, |bits| bits as u16),
        DType::BF16 => as_bits!(BF16, |bits| bits as u16),
        DType::I8 => as_bits!(I8, |bits| bits as i8),
        DType::I16 => as_bits!(I16, |bits| bits as i16),
        DType::I32 => as_bits!(I32, |bits| bits as i32),
        DType::I64 => as_bits!(I64, |bits| bits as i64),
        DType::U8 => as_bits!(U8, |bits| bits as u8),
        DType::U16 => as_bits!(U16, |bits| bits as u16),
        DType::U32 => as_bits!(U32, |bits| bits as u32),
        DType::U64 => as_bits!(U64, |bits| bits),
        DType::Bool => as_bits!(Bool, |bits| bits & 1 == 1),
        DType::String => as_bits!(String, |bits: u64| ["", "1", "ab", "-2.5"]
            [bits as usize % 4]
            .to_owned()),
        code => {
            let mask = ((1u16 << code.raw_bits()) - 1) as u8;
            Data::Codes(code, next.iter().map(|&bits| bits as u8 & mask).collect())
        }
    };
    FloatTensor::new(shape, data).unwrap_or_else(|_| FloatTensor::scalar(0f32))
}

/// The bits of a value: small numbers mostly, so that they are sizes and places too, and the ends of the range.
fn value(draws: &mut Numbers, dtype: DType) -> u64 {
    let small = below(draws, 7) as i64 - 2;
    match (dtype, below(draws, 8)) {
        (_, 0) => draws.next(),
        (DType::F32, 1) => u64::from(pick(draws, &[f32::NAN, f32::INFINITY, 1e30, -0.0]).to_bits()),
        (DType::F64, 1) => pick(draws, &[f64::NAN, f64::INFINITY, 1e300, -0.0]).to_bits(),
        (DType::I64, 1) => pick(draws, &[i64::MIN, i64::MAX, 1 << 40, 1 << 31, 1 << 62]) as u64,
        (DType::F32, _) => u64::from((small as f32 * 0.5).to_bits()),
        (DType::F64, _) => (small as f64 * 0.5).to_bits(),
        (DType::F16, _) => pick(draws, &[0, 0x3c00, 0xbc00, 0x4000]),
        (DType::BF16, _) => pick(draws, &[0, 0x3f80, 0xbf80, 0x4000]),
        _ => small as u64,
    }
}

/// A well formed graph of any shape, mostly one that no operator executes.
#[must_use]
pub fn random_graph(draws: &mut Numbers) -> Graph {
    graph_at(draws, 0)
}

fn graph_at(draws: &mut Numbers, depth: usize) -> Graph {
    let mut graph = Graph {
        name: "ä".repeat(below(draws, 3)),
        ..Graph::default()
    };
    for domain in ["", "ai.onnx.ml", "x"].iter().take(below(draws, 4)) {
        graph
            .opsets
            .insert((*domain).to_owned(), draws.next() as i64);
    }
    let mut known: Vec<ValueId> = Vec::new();
    for index in 0..below(draws, 4) {
        let value = graph.fresh(format!("x{index}"));
        let axes = |draws: &mut Numbers| match below(draws, 3) {
            0 => Dim::Unknown,
            1 => Dim::Known(below(draws, 1 << 20)),
            _ => Dim::Named("N".to_owned()),
        };
        let shape = (0..below(draws, 4)).map(|_| axes(draws)).collect();
        graph.inputs.push(Input {
            value,
            name: format!("in{index}"),
            dtype: (below(draws, 4) > 0).then(|| pick(draws, &DType::ALL).0),
            shape: (below(draws, 4) > 0).then_some(shape),
        });
        known.push(value);
    }
    for _ in 0..below(draws, 4) {
        let tensor = random_tensor(draws);
        known.push(graph.constant("k", tensor));
    }
    for index in 0..below(draws, 5) {
        let inputs: Vec<Option<ValueId>> = (0..below(draws, 4))
            .map(|_| (!known.is_empty() && below(draws, 5) > 0).then(|| pick(draws, &known)))
            .collect();
        let output = graph.fresh(format!("y{index}"));
        let mut node = Node::new(
            "node",
            pick(draws, &["Add", "If", "Loop", "Identity", "Concat", "?"]),
            13,
            vec![],
            vec![output],
        );
        for key in ["body", "else_branch", "then_branch"]
            .iter()
            .take(below(draws, 4))
        {
            let attribute = attribute(draws, depth, &inputs);
            node.attributes.insert((*key).to_owned(), attribute);
        }
        node.inputs = inputs;
        graph.append(node);
        known.push(output);
    }
    graph.outputs = known.into_iter().filter(|_| below(draws, 2) == 0).collect();
    graph
}

fn attribute(draws: &mut Numbers, depth: usize, inputs: &[Option<ValueId>]) -> Attribute {
    match below(draws, 10) {
        0 => Attribute::Other(draws.next() as i32),
        1 => Attribute::Float(f32::from_bits(draws.next() as u32)),
        2 => Attribute::Int(draws.next() as i64),
        3 => Attribute::Text(vec![draws.next() as u8; below(draws, 5)]),
        4 => Attribute::Tensor(random_tensor(draws)),
        5 if depth < 3 => {
            let given = (0..inputs.len()).filter(|&index| inputs[index].is_some());
            let captures = given.filter(|_| below(draws, 2) == 0).collect();
            let graph = graph_at(draws, depth + 1);
            Attribute::Graph(Box::new(Subgraph { graph, captures }))
        }
        6 => Attribute::Floats(vec![f32::from_bits(draws.next() as u32); below(draws, 4)]),
        7 => Attribute::Ints(vec![draws.next() as i64; below(draws, 4)]),
        8 => Attribute::Texts(vec![vec![draws.next() as u8]; below(draws, 4)]),
        _ => Attribute::Tensors((0..below(draws, 3)).map(|_| random_tensor(draws)).collect()),
    }
}
