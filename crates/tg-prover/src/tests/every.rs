//! Random programs over every operator, type and input coding, in both kinds of proof, alone and several inputs at once, in
//! one section and in several: what is honest verifies, and nothing with another bit does.

use super::hidden::all_modes;
use super::models::{JOB, PROVIDER};
use crate::{Masking, ProveRequest, ProvingModel, prove};
use std::collections::BTreeMap;
use tg_exec::IntTensor;
use tg_exec::sample::{Numbers, wide};
use tg_ir::op;
use tg_ir::{
    CompiledModel, ElementType, LinearWeights, Node, Op, Program, Requantise, Rescale, Shape,
    TensorId, bounds,
};
use tg_proof::plan::SectionSize;
use tg_proof::{ExpectedStatement, ProofFile, PublicModel, verify};

/// The tensors a node reads.
fn inputs_of(op: &mut Op) -> Vec<&mut TensorId> {
    match op {
        Op::Conv(op::Conv { input, .. })
        | Op::Dense(op::Dense { input })
        | Op::Embed(op::Embed { input, .. })
        | Op::WindowSum(op::WindowSum { input, .. })
        | Op::Requantise(op::Unary { input, .. })
        | Op::Reduce(op::Reduce { input, .. })
        | Op::RunningSum(op::RunningSum { input, .. })
        | Op::ArgMax(op::ArgMax { input })
        | Op::TopK(op::TopK { input, .. })
        | Op::Softmax(op::Unary { input, .. })
        | Op::Norm(op::Unary { input, .. })
        | Op::MaxPool(op::MaxPool { input, .. })
        | Op::View(op::Unary { input, .. })
        | Op::Pad(op::Pad { input, .. })
        | Op::Gather(op::Gather { input, .. })
        | Op::Trees(op::Trees { input, .. }) => vec![input],
        Op::MatMul(op::MatMul { inputs, .. })
        | Op::Mul(op::Mul { inputs })
        | Op::Extremum(op::Extremum { inputs, .. })
        | Op::Compare(op::Compare { inputs, .. }) => inputs.iter_mut().collect(),
        Op::Select(op::Select { condition, inputs }) => std::iter::once(condition)
            .chain(inputs.iter_mut())
            .collect(),
        Op::Add(op::Add { inputs, .. }) | Op::Concat(op::Concat { inputs, .. }) => {
            inputs.iter_mut().collect()
        }
        Op::Parameter(op::Parameter) => Vec::new(),
    }
}

/// Leaves out the nodes that do not reach the output.
fn prune(model: &mut CompiledModel) {
    let nodes = std::mem::take(&mut model.program.nodes);
    let mut used = vec![false; nodes.len() + 1];
    used[nodes.len()] = true;
    for (index, node) in nodes.iter().enumerate().rev() {
        if used[index + 1] {
            let inputs = node.op.inputs();
            inputs.iter().for_each(|input| used[input.index()] = true);
        }
    }
    let mut layers = std::mem::take(&mut model.weights.layers).into_iter();
    let mut ids = vec![TensorId::INPUT; nodes.len() + 1];
    for (index, mut node) in nodes.into_iter().enumerate() {
        let layer = node.op.has_weights().then(|| layers.next().unwrap());
        if !used[index + 1] {
            continue;
        }
        for input in inputs_of(&mut node.op) {
            *input = ids[input.index()];
        }
        model.weights.layers.extend(layer);
        model.program.nodes.push(node);
        ids[index + 1] = TensorId::of_node(model.program.nodes.len() - 1);
    }
}

fn push(program: &mut Program, op: Op, shape: Shape) -> TensorId {
    program.nodes.push(Node {
        name: format!("tail{}", program.nodes.len()),
        op,
        shape,
        scale: 1.0,
    });
    program.output()
}

/// Lets a program end in a requantisation and a dense node, so that something is committed and there are weights.
fn finish(model: &mut CompiledModel, numbers: &mut Numbers) {
    let CompiledModel { program, weights } = model;
    let input = program.output();
    let reach = bounds::magnitudes(program, program.nodes.len())[input.index()].max(1);
    let how = Requantise {
        pairs: vec![Rescale::nearest((200.0 / reach as f64).min(0.9)).unwrap()],
        channel_pairs: vec![0],
        zero: 1,
        range: [-reach, reach].map(|end| i32::try_from(end).unwrap()),
        clamp: [-127, 127],
        table: None,
        output: ElementType::I8,
    };
    let shape = program.shape(input);
    let input = push(program, Op::Requantise(op::Unary { input, how }), shape);
    push(program, Op::Dense(op::Dense { input }), Shape::vector(3));
    let mut draw = |reach: i64| numbers.between(-reach, reach);
    weights.layers.push(LinearWeights {
        weights: (0..3 * shape.elements()).map(|_| draw(127) as i8).collect(),
        bias: (0..3).map(|_| draw(9_000) as i32).collect(),
    });
    program.weights_root = weights.root();
}

/// A random program that can be proved, and two inputs.
fn random(seed: u64) -> Option<(ProvingModel, [IntTensor; 2])> {
    let (model, input) = if seed % 16 == 7 {
        // Random forests are seldom of trees that can be proved.
        let (features, trees) = (1 + seed as u32 % 5, 1 + seed as usize % 6);
        let (model, input) = super::trees::draft(seed, features, trees, 2).finish();
        (model, IntTensor::I8(input))
    } else {
        let (mut model, input) = wide::random_program(seed);
        prune(&mut model);
        // A quarter is left as it is: without weights, without anything to commit, with inputs that nobody reads.
        if seed % 4 != 1 {
            finish(&mut model, &mut Numbers::new(seed));
        }
        model.program.weights_root = model.weights.root();
        (model, input)
    };
    let values = input.widened();
    let other = vec![values[values.len() / 2]; values.len()];
    let other = IntTensor::of(input.element_type(), &other);
    let model = ProvingModel::new(model).ok()?;
    Some((model, [input, other]))
}

/// How often each operator was proved.
type Seen = BTreeMap<&'static str, u32>;

fn count(seen: &mut Seen, model: &ProvingModel) {
    for node in &model.model.program.nodes {
        *seen.entry(node.op.name()).or_default() += 1;
    }
}

/// Whether a statement that shows its bytes is true: what moves elements of its input alone has a proof without
/// messages, which is one of every true statement.
fn is_true(model: &ProvingModel, file: &ProofFile) -> bool {
    let program = &model.model.program;
    let [input, output] = [&file.input, &file.output];
    let kind = program.input.element_type();
    let mut outputs = Vec::new();
    for bytes in input.chunks_exact(program.input_bytes().max(1)) {
        let words = bytes.chunks_exact(kind.bytes());
        let values: Vec<i32> = words
            .map(|word| match *word {
                [byte] => i32::from(byte.cast_signed()),
                [low, high] => i32::from(i16::from_le_bytes([low, high])),
                _ => i32::from_le_bytes(word.try_into().unwrap()),
            })
            .collect();
        let input = IntTensor::of(kind, &values);
        let Ok(trace) = tg_exec::execute_tensor(&model.model, input) else {
            return false;
        };
        outputs.extend(trace.output_bytes());
    }
    outputs == *output
}

/// The honest file verifies; with one other bit of proof, statement or bytes it does not.
fn check(
    (model, public): (&ProvingModel, &PublicModel),
    file: &ProofFile,
    numbers: &mut Numbers,
    name: &str,
) {
    let verdict = |file: &ProofFile| verify(public, file, &ExpectedStatement::default());
    assert_eq!(verdict(file), Ok(()), "{name}");
    let mut pick = |count: usize| numbers.between(0, count as i64 - 1) as usize;
    for _ in 0..5 {
        let mut other = file.clone();
        let bit = pick(8 * other.proof.len());
        other.proof[bit / 8] ^= 1 << (bit % 8);
        assert!(verdict(&other).is_err(), "{name}: bit {bit} of the proof");
    }
    let parts: [fn(&mut ProofFile) -> &mut Vec<u8>; 2] =
        [|file| &mut file.input, |file| &mut file.output];
    for part in parts {
        let mut other = file.clone();
        let bytes = part(&mut other);
        if bytes.is_empty() {
            continue;
        }
        let bit = pick(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(verdict(&other).is_err(), "{name}: a byte that is shown");
        // As if the statement were about it.
        let statement = &mut other.statement;
        statement.input = match &other.input {
            bytes if bytes.is_empty() => statement.input,
            bytes => tg_types::Digest::of_blob(bytes),
        };
        statement.output = match &other.output {
            bytes if bytes.is_empty() => statement.output,
            bytes => tg_types::Digest::of_blob(bytes),
        };
        let silent = file.statement.modes() == tg_proof::Modes::PUBLIC
            && model.parts(&model.shape.plan).tags() == Some([0, 0]);
        let refused = verdict(&other).is_err();
        assert!(
            refused || silent && is_true(model, &other),
            "{name}: another statement"
        );
    }
    let mut other = file.clone();
    other.statement.batch ^= 1;
    assert!(verdict(&other).is_err(), "{name}: another batch");
}

fn all_seen(seen: &Seen, least: u32) {
    let all = [
        "Add",
        "ArgMax",
        "Compare",
        "Concat",
        "Conv",
        "Dense",
        "Embed",
        "Extremum",
        "Gather",
        "MatMul",
        "MaxPool",
        "Mul",
        "Norm",
        "Pad",
        "Parameter",
        "Reduce",
        "Requantise",
        "Select",
        "Softmax",
        "TopK",
        "Trees",
        "View",
        "WindowSum",
    ];
    let rare = |op: &&&str| seen.get(**op).copied().unwrap_or(0) < least;
    let rare: Vec<_> = all.iter().filter(rare).collect();
    assert!(rare.is_empty(), "{rare:?} of {seen:?}");
}

#[test]
fn no_flipped_bit_of_any_operator_verifies() {
    let (mut seen, mut shapes) = (Seen::new(), BTreeMap::<(usize, bool), u32>::new());
    let mut forms = BTreeMap::<Option<[u8; 2]>, u32>::new();
    let mut numbers = Numbers::new(79);
    for seed in 0..400 {
        let Some((model, inputs)) = random(seed) else {
            continue;
        };
        let cells = model.shape.plan.witness.iter();
        let cells: usize = cells
            .map(|own| own.columns << own.chunk.column_vars())
            .sum();
        let size = SectionSize::forced(match seed % 3 {
            0 => cells.div_ceil(3),
            _ => usize::MAX,
        });
        let public = model.register().unwrap().with_sections(size).unwrap();
        let model = model.with_sections(size).unwrap();
        let batch = 1 + (seed % 2) as usize;
        let inputs = inputs[..batch].to_vec();
        let request = ProveRequest::of(inputs).named(JOB, PROVIDER);
        // A computed token beyond its table has no proof.
        let Ok((file, _)) = prove(&model, request, &mut |_| {}) else {
            continue;
        };
        let models = (&model, &public);
        check(models, &file, &mut numbers, &format!("seed {seed}"));
        count(&mut seen, &model);
        let parts = model.parts(&model.shape.plan);
        *forms.entry(parts.tags()).or_default() += 1;
        let several = model.shape.sections.len() > 1;
        *shapes.entry((batch, several)).or_default() += 1;
    }
    all_seen(&seen, 3);
    let kinds = [(1, false), (2, false), (1, true), (2, true)];
    let enough = |kind| shapes.get(kind).is_some_and(|&count| count >= 10);
    assert!(kinds.iter().all(enough), "{shapes:?}");
    let kinds = [[0, 0], [0, 1], [1, 0]];
    let enough = |kind| forms.get(&Some(kind)).is_some_and(|&count| count >= 2);
    assert!(kinds.into_iter().all(enough), "{forms:?}");
}

#[test]
fn no_flipped_bit_in_zero_knowledge_verifies() {
    let (mut seen, mut modes_seen) = (Seen::new(), [0u32; 9]);
    let mut numbers = Numbers::new(80);
    for seed in 0..220 {
        let Some((model, inputs)) = random(seed) else {
            continue;
        };
        let index = numbers.between(0, 8) as usize;
        let mut masking = Masking::new([seed as u8; 32], all_modes().nth(index).unwrap());
        masking.salts = [[1; 32], [2; 32]];
        let inputs = inputs[..1 + (seed % 2) as usize].to_vec();
        let request = ProveRequest::of(inputs)
            .named(JOB, PROVIDER)
            .masked(&masking);
        let Ok((file, _)) = prove(&model, request, &mut |_| {}) else {
            continue;
        };
        let public = model.register().unwrap();
        let name = format!("seed {seed}: {:?}", masking.modes);
        check((&model, &public), &file, &mut numbers, &name);
        count(&mut seen, &model);
        modes_seen[index] += 1;
    }
    all_seen(&seen, 1);
    assert!(modes_seen.iter().all(|&count| count >= 2), "{modes_seen:?}");
}
