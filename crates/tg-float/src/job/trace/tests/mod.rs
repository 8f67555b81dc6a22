#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod claims;

use super::super::{FloatAnswer, FloatEnd, FloatLimits, FloatModel, FloatModelFile, NamedTensors};
use super::sections::{self, Lives};
use super::{
    ExpectedFloatTrace, FloatTraceFault, FloatTraceFile, OPENED_BYTES_MAX, OpenedSections,
    ValueRecord, float_vote_on,
};
use crate::codec::tensors;
use crate::fuzz::random_tensor;
use crate::graph::{Attribute, Dim, Graph, Input, Node, Subgraph, ValueId};
use crate::tensor::{DType, FloatTensor};
use tg_exec::sample::Numbers;
use tg_types::{
    Decode as _, Digest, Encode as _, JobId, LeaseId, RunCommitment, TileName, TraceForm, Vote,
    Writer,
};

/// A graph of layers that each read the last one and the one before it, a loop and an output that is an input too.
struct Builder(Graph);

impl Builder {
    fn new(axes: &[usize]) -> (Self, ValueId) {
        let mut graph = Graph::default();
        graph.opsets.insert(String::new(), 13);
        let x = graph.fresh("x");
        graph.inputs.push(Input {
            value: x,
            name: "x".to_owned(),
            dtype: Some(DType::F32),
            shape: Some(axes.iter().map(|&size| Dim::Known(size)).collect()),
        });
        (Self(graph), x)
    }

    fn node(&mut self, op: &str, reads: &[ValueId]) -> ValueId {
        let name = format!("n{}", self.0.nodes.len());
        let value = self.0.fresh(name.clone());
        let node = Node::new(&name, op, 13, reads.to_vec(), vec![value]);
        self.0.append(node);
        value
    }

    fn loop_of(&mut self, rounds: i64, x: ValueId) -> ValueId {
        let mut body = Graph::default();
        body.opsets.insert(String::new(), 13);
        let mut input = |name: &str| {
            let value = body.fresh(name);
            body.inputs.push(Input {
                value,
                name: name.to_owned(),
                dtype: None,
                shape: None,
            });
            value
        };
        let (_, going, state) = (input("number"), input("going"), input("state"));
        let grown = body.fresh("grown");
        body.append(Node::new("grow", "Tanh", 13, vec![state], vec![grown]));
        body.outputs.extend([going, grown]);
        let rounds = FloatTensor::scalar(rounds);
        let rounds = self.0.constant("rounds", rounds);
        let value = self.0.fresh("looped");
        let mut node = Node::new("loop", "Loop", 13, vec![rounds], vec![value]);
        node.inputs.extend([None, Some(x)]);
        let body = Subgraph {
            graph: body,
            captures: Vec::new(),
        };
        self.0
            .append(node.with("body", Attribute::Graph(Box::new(body))));
        value
    }
}

/// So many layers over rows of 32.
fn layered(layers: usize) -> Graph {
    let (mut b, x) = Builder::new(&[4, 32]);
    let mut numbers = Numbers::new(5);
    let (mut last, mut before) = (x, x);
    for layer in 0..layers {
        let weights = (0..32 * 32).map(|_| numbers.between(0, 63) as f32 / 64.0 - 0.5);
        let weights = FloatTensor::of(vec![32, 32], weights.collect()).unwrap();
        let w = b.0.constant(format!("w{layer}"), weights);
        let product = b.node("MatMul", &[last, w]);
        let sum = b.node("Add", &[product, before]);
        before = last;
        last = b.node("Tanh", &[sum]);
    }
    let looped = b.loop_of(3, last);
    b.0.outputs.extend([looped, x, before]);
    b.0
}

fn model(graph: &Graph, limits: FloatLimits) -> FloatModel {
    FloatModel::read(&FloatModelFile::new(graph, limits).unwrap().file).unwrap()
}

fn usual(graph: &Graph) -> FloatModel {
    model(graph, FloatLimits::default())
}

fn input(axes: &[usize]) -> Vec<u8> {
    let count = axes.iter().product::<usize>();
    let values = (0..count).map(|it| (it % 17) as f32 / 8.0 - 1.0).collect();
    let x = FloatTensor::of(axes.to_vec(), values).unwrap();
    NamedTensors(vec![("x".to_owned(), x)]).to_bytes()
}

fn challenge(number: u64) -> Digest {
    Digest::of_blob(&number.to_le_bytes())
}

const LEASE: LeaseId = LeaseId::new([8; 32]);

/// What a receipt for the lease says of a run.
fn leased(run: &Digest) -> Digest {
    RunCommitment::read(run).for_lease(&LEASE).digest()
}

/// What a provider committed to.
struct Committed {
    input: Vec<u8>,
    output: Digest,
    trace: Digest,
}

impl Committed {
    fn of(model: &FloatModel, input: Vec<u8>) -> Self {
        let trace = model.trace(&input);
        Self {
            output: Digest::of_blob(&trace.answer.to_bytes()),
            trace: leased(&trace.commitment),
            input,
        }
    }

    fn by<'a>(&'a self, challenge: &'a Digest) -> ExpectedFloatTrace<'a> {
        ExpectedFloatTrace {
            lease: &LEASE,
            input: &self.input,
            output: &self.output,
            trace: &self.trace,
            challenge,
        }
    }
}

/// Verifies a file, and holds every vote against what the checks of accusations find.
fn judged(
    model: &FloatModel,
    file: &FloatTraceFile,
    expected: ExpectedFloatTrace<'_>,
) -> Result<u64, FloatTraceFault> {
    let again = FloatTraceFile::from_bytes(&file.to_bytes()).unwrap();
    assert_eq!(again, *file);
    let found = model.verify_trace(file, expected);
    let vote = float_vote_on(found.as_ref().copied());
    let holds = model.float_accusation_holds(file, expected, vote);
    assert_eq!(holds, found.err());
    let nodes = u32::try_from(model.graph().nodes.len()).unwrap();
    let tile = |node, leaf| Vote::WrongTile(TileName { node, leaf });
    // Nothing else that a member could say of a right trace is so.
    if found.is_ok() {
        let all = (0..nodes + 1).map(|node| tile(node, 0));
        for vote in all.chain([Vote::WrongForm, Vote::WrongRun, tile(0, 1)]) {
            assert_eq!(model.float_accusation_holds(file, expected, vote), None);
        }
    }
    found
}

#[test]
fn a_run_is_shown_by_a_few_sections() {
    let model = usual(&layered(60));
    let committed = Committed::of(&model, input(&[4, 32]));
    let run = model.run(&committed.input);
    let trace = model.trace(&committed.input);
    assert_eq!(trace.answer, run.answer);
    let sections = sections::cut(&trace.record);
    assert!((40..=80).contains(&sections.len()), "{}", sections.len());
    let mut checksums = Vec::new();
    for number in 0..20 {
        let drawn = challenge(number);
        let file = model.open(&committed.input, &drawn);
        let opened = file.opened.as_ref().unwrap();
        assert!(opened.values.len() <= 4 * 3);
        checksums.push(judged(&model, &file, committed.by(&drawn)).unwrap());
        assert_eq!(model.open(&committed.input, &drawn), file);
        // Opened for another challenge it shows other sections.
        let other = challenge(number + 100);
        assert!(judged(&model, &file, committed.by(&other)).is_err());
    }
    checksums.sort_unstable();
    checksums.dedup();
    assert_eq!(checksums.len(), 20);
}

#[test]
fn sections_follow_one_another_and_have_about_equal_work() {
    let model = usual(&layered(60));
    let record = model.trace(&input(&[4, 32])).record;
    let sections = sections::cut(&record);
    let joined: Vec<usize> = sections.iter().cloned().flatten().collect();
    assert!(joined.into_iter().eq(0..record.0.len()));
    // Each is drawn as often as the others.
    let rounds = 4_000;
    let mut counts = vec![0_u32; record.0.len()];
    for number in 0..rounds {
        let drawn = sections::draw(&record, &challenge(number));
        assert_eq!(drawn.len(), 4);
        drawn.iter().for_each(|it| counts[it.start] += 1);
    }
    let expected = 4.0 * rounds as f64 / sections.len() as f64;
    for section in sections {
        let far = (f64::from(counts[section.start]) - expected).abs();
        assert!(far < 6.0 * expected.sqrt(), "{section:?}");
    }
}

/// So many nodes one after the other, each a section of its own.
fn chain(nodes: usize) -> FloatModel {
    let (mut b, x) = Builder::new(&[2, 3]);
    let last = (0..nodes).fold(x, |last, _| b.node("Tanh", &[last]));
    b.0.outputs.push(last);
    usual(&b.0)
}

/// Stops: the file of another lease on the same input, of which every byte is the same whatever is drawn, the record of the receipt among them.
#[test]
fn a_run_of_which_all_sections_are_drawn_is_shown_whole() {
    let drawn = challenge(0);
    // A graph without nodes has nothing to draw.
    for (nodes, is_opened) in [(0, false), (1, false), (4, false), (5, true)] {
        let model = chain(nodes);
        let committed = Committed::of(&model, input(&[2, 3]));
        let record = model.trace(&committed.input).record;
        assert_eq!(sections::cut(&record).len(), nodes);
        let file = model.open(&committed.input, &drawn);
        assert_eq!(file.opened.is_some(), is_opened, "{nodes} sections");
        judged(&model, &file, committed.by(&drawn)).unwrap();
        if is_opened {
            continue;
        }
        // What whoever has the record of another's run could hand in.
        let copied = FloatTraceFile {
            opened: Some(OpenedSections {
                record,
                values: Vec::new(),
            }),
            ..file
        };
        let found = judged(&model, &copied, committed.by(&drawn));
        assert_eq!(found, Err(FloatTraceFault::Form), "{nodes} sections");
    }
}

#[test]
fn a_run_that_does_not_finish_is_shown_whole() {
    let graph = layered(5);
    let usual = usual(&graph);
    let whole = usual.run(&input(&[4, 32])).answer.work;
    let limits = FloatLimits::default();
    for (limits, given, end) in [
        (limits, b"TGT".to_vec(), FloatEnd::BadInput),
        (limits, input(&[4, 33]), FloatEnd::BadInput),
        (
            FloatLimits {
                work: whole - 1,
                ..limits
            },
            input(&[4, 32]),
            FloatEnd::OutOfWork("loop".to_owned()),
        ),
        (
            FloatLimits {
                memory: 600,
                ..limits
            },
            input(&[4, 32]),
            FloatEnd::OutOfMemory("n0".to_owned()),
        ),
        (
            FloatLimits {
                output: 100,
                ..limits
            },
            input(&[4, 32]),
            FloatEnd::BadOutput,
        ),
    ] {
        let model = model(&graph, limits);
        let committed = Committed::of(&model, given);
        let drawn = challenge(1);
        let file = model.open(&committed.input, &drawn);
        assert_eq!(model.trace(&committed.input).answer.end, end);
        assert_eq!(file.opened, None);
        judged(&model, &file, committed.by(&drawn)).unwrap();
        // What would hide how it ended: sections, as if it had finished.
        let shown = FloatTraceFile {
            opened: Some(OpenedSections {
                record: model.trace(&committed.input).record,
                values: Vec::new(),
            }),
            ..file
        };
        assert!(judged(&model, &shown, committed.by(&drawn)).is_err());
    }
}

#[test]
fn a_whole_run_where_sections_are_due_is_another_form() {
    let model = usual(&layered(30));
    let committed = Committed::of(&model, input(&[4, 32]));
    let drawn = challenge(2);
    let file = FloatTraceFile {
        opened: None,
        ..model.open(&committed.input, &drawn)
    };
    let found = judged(&model, &file, committed.by(&drawn));
    assert_eq!(found, Err(FloatTraceFault::Form));
}

#[test]
fn sections_that_read_too_much_are_shown_whole() {
    // Values of 8 MiB: two that are read are more than may be opened.
    let (mut b, x) = Builder::new(&[1, 1 << 17]);
    let mut last = b.node("Concat", &[x; 16]);
    let node = b.0.nodes.last_mut().unwrap();
    *node = node.clone().with("axis", Attribute::Int(0));
    for _ in 0..20 {
        last = b.node("Neg", &[last]);
    }
    let axes = b.0.constant("axes", FloatTensor::vector(vec![0i64, 1]));
    let y = b.node("ReduceSum", &[last, axes]);
    b.0.outputs.push(y);
    let model = usual(&b.0);
    let committed = Committed::of(&model, input(&[1, 1 << 17]));
    let drawn = challenge(3);
    let file = model.open(&committed.input, &drawn);
    let record = model.trace(&committed.input).record;
    let lives = Lives::of(model.graph());
    let read = lives.reads(model.graph(), &sections::draw(&record, &drawn));
    let said = read
        .iter()
        .map(|it| lives.said(model.graph(), &record, *it).unwrap().bytes);
    assert!(said.sum::<u64>() > OPENED_BYTES_MAX);
    assert_eq!(file.opened, None);
    judged(&model, &file, committed.by(&drawn)).unwrap();
}

/// Stops: the receipt and the file of another lease on the same input, which would be paid for no work where the file is the answer alone.
#[test]
fn a_run_that_was_committed_to_for_another_lease_is_none_of_this_one() {
    let other = LeaseId::new([9; 32]);
    let names = (&JobId::new([7; 32]), &LEASE);
    // One that is shown whole, as it does not finish, and one of which sections are opened.
    for (limits, is_opened) in [
        (
            FloatLimits {
                work: 1,
                ..FloatLimits::default()
            },
            false,
        ),
        (FloatLimits::default(), true),
    ] {
        let model = model(&layered(12), limits);
        let committed = Committed::of(&model, input(&[4, 32]));
        let (answer, trace) = model.run_for(&committed.input, TraceForm::Parts, names);
        assert_eq!(trace, committed.trace);
        assert_eq!(RunCommitment::read(&trace).work, answer.work);
        let drawn = challenge(3);
        let file = model.open(&committed.input, &drawn);
        assert_eq!(file.opened.is_some(), is_opened);
        let expected = committed.by(&drawn);
        judged(&model, &file, expected).unwrap();
        let copied = ExpectedFloatTrace {
            lease: &other,
            ..expected
        };
        let found = judged(&model, &file, copied);
        assert_eq!(found, Err(FloatTraceFault::Trace));
    }
}

/// A liar's run: from a node on everything is computed from one element that is another.
fn lie(model: &FloatModel, honest: &[u8], wrong: usize) -> (Committed, super::RunRecord) {
    let mut trace = model.trace(honest);
    let record = &mut trace.record;
    record.0[wrong].values[0].digest = Digest::of_blob(b"another value");
    let committed = Committed {
        input: honest.to_vec(),
        output: Digest::of_blob(&trace.answer.to_bytes()),
        trace: leased(&record.commitment(honest, &trace.answer)),
    };
    (committed, trace.record)
}

#[test]
fn a_wrong_node_is_found_exactly_where_its_section_is_drawn() {
    let model = usual(&layered(60));
    let given = input(&[4, 32]);
    let mut found = 0;
    for number in 0..60 {
        let wrong = usize::try_from(number).unwrap() * 3;
        let (committed, record) = lie(&model, &given, wrong);
        let drawn = challenge(number);
        let mut file = model.open(&given, &drawn);
        file.opened.as_mut().unwrap().record = record.clone();
        let is_drawn = sections::draw(&record, &drawn)
            .iter()
            .any(|it| it.contains(&wrong));
        let verdict = judged(&model, &file, committed.by(&drawn));
        match verdict {
            Err(FloatTraceFault::Node { node }) => assert_eq!((node, is_drawn), (wrong, true)),
            // A section after it reads what it gave.
            Err(FloatTraceFault::Value { .. }) => {}
            other => assert_eq!((other.is_ok(), is_drawn), (true, false), "{other:?}"),
        }
        found += u32::from(is_drawn);
    }
    assert!(found > 0);
}

#[test]
fn records_that_lie_about_work_or_memory_are_found() {
    let model = usual(&layered(12));
    let given = input(&[4, 32]);
    let honest = model.trace(&given);
    let last = honest.record.0.len() - 1;
    let mut raised = honest.record.clone();
    raised.0[last].work += 1;
    // One that draws the first section and the last one, of a bill that is higher by one too.
    let drawn = (0..10_000).map(challenge).find(|it| {
        let all = sections::draw(&honest.record, it);
        let has = |node: &usize| all.iter().any(|it| it.contains(node));
        [1, last].iter().all(has) && all == sections::draw(&raised, it)
    });
    let drawn = drawn.unwrap();
    let file = model.open(&given, &drawn);
    let with = |change: &dyn Fn(&mut super::RunRecord, &mut u64)| {
        let (mut record, mut answer) = (honest.record.clone(), honest.answer.clone());
        change(&mut record, &mut answer.work);
        let committed = Committed {
            input: given.clone(),
            output: Digest::of_blob(&answer.to_bytes()),
            trace: leased(&record.commitment(&given, &answer)),
        };
        let mut file = file.clone();
        file.answer = answer.to_bytes();
        let opened = file.opened.as_mut().unwrap();
        opened.record = record;
        judged(&model, &file, committed.by(&drawn))
    };
    // A bill that is higher by one, in the last node and in the answer.
    let dearer = with(&|record, work| {
        record.0[last].work += 1;
        *work += 1;
    });
    assert_eq!(dearer, Err(FloatTraceFault::Node { node: last }));
    // Another bill than that of the last node; works that fall; a node left out; a value left out.
    for change in [
        &|_: &mut super::RunRecord, work: &mut u64| *work += 1,
        &|record: &mut super::RunRecord, _: &mut u64| record.0[0].work = u64::MAX,
        &|record: &mut super::RunRecord, _: &mut u64| record.0.truncate(3),
        &|record: &mut super::RunRecord, _: &mut u64| record.0[1].values.truncate(0),
    ] as [&dyn Fn(&mut super::RunRecord, &mut u64); 4]
    {
        assert_eq!(with(change), Err(FloatTraceFault::Trace));
    }
    let larger = with(&|record, _| record.0[1].values[0].bytes += 1);
    assert!(matches!(
        larger,
        Err(FloatTraceFault::Node { .. } | FloatTraceFault::Value { .. })
    ));
}

#[test]
fn values_and_answers_that_are_not_recorded_are_refused() {
    let model = usual(&layered(60));
    let committed = Committed::of(&model, input(&[4, 32]));
    let drawn = challenge(5);
    let file = model.open(&committed.input, &drawn);
    let check = |change: &dyn Fn(&mut FloatTraceFile)| {
        let mut file = file.clone();
        change(&mut file);
        judged(&model, &file, committed.by(&drawn))
    };
    let shown = |file: &mut FloatTraceFile, change: &dyn Fn(&mut OpenedSections)| {
        change(file.opened.as_mut().unwrap());
    };
    let fewer = check(&|file| shown(file, &|it| drop(it.values.pop())));
    assert_eq!(fewer, Err(FloatTraceFault::Opened));
    let twice = check(&|file| {
        shown(file, &|it| {
            let first = it.values[0].clone();
            it.values.insert(0, first);
        });
    });
    assert_eq!(twice, Err(FloatTraceFault::Opened));
    let other = check(&|file| {
        shown(file, &|it| {
            let (value, tensor) = &it.values[0];
            let zeros = vec![0f32; tensor.len()];
            let zeros = FloatTensor::of(tensor.shape().to_vec(), zeros).unwrap();
            it.values[0] = (*value, zeros);
        });
    });
    assert!(matches!(other, Err(FloatTraceFault::Value { .. })));
    let answer = check(&|file| file.answer[20] ^= 1);
    assert_eq!(answer, Err(FloatTraceFault::Answer));
    // An answer of other outputs, committed to.
    let mut trace = model.trace(&committed.input);
    let mut outputs = NamedTensors::read(&trace.answer.output).unwrap();
    outputs.0[0].1 = FloatTensor::of(vec![4, 32], vec![0f32; 128]).unwrap();
    trace.answer.output = outputs.to_bytes();
    let lied = Committed {
        input: committed.input.clone(),
        output: Digest::of_blob(&trace.answer.to_bytes()),
        trace: leased(&trace.record.commitment(&committed.input, &trace.answer)),
    };
    let mut other = file.clone();
    other.answer = trace.answer.to_bytes();
    let found = judged(&model, &other, lied.by(&drawn));
    assert_eq!(found, Err(FloatTraceFault::Output));
}

#[test]
fn any_bytes_are_refused_or_read_back() {
    let model = usual(&layered(12));
    let committed = Committed::of(&model, input(&[4, 32]));
    let drawn = challenge(6);
    let bytes = model.open(&committed.input, &drawn).to_bytes();
    for length in 0..bytes.len().min(4_000) {
        assert!(FloatTraceFile::from_bytes(&bytes[..length]).is_err());
    }
    let mut numbers = Numbers::new(9);
    for _ in 0..2_000 {
        let mut changed = bytes.clone();
        let last = i64::try_from(bytes.len()).unwrap() - 1;
        let place = usize::try_from(numbers.between(0, last)).unwrap();
        changed[place] ^= 1 << numbers.between(0, 7);
        if let Ok(file) = FloatTraceFile::from_bytes(&changed) {
            assert_eq!(file.to_bytes(), changed);
            assert!(model.verify_trace(&file, committed.by(&drawn)).is_err());
        }
    }
}

/// A file may name its inputs otherwise than the values that they give, and two of them alike.
#[test]
fn outputs_that_are_inputs_are_compared_by_their_value() {
    for names in [["x", "y"], ["y", "x"], ["x", "x"]] {
        let (mut b, x) = Builder::new(&[2, 3]);
        let y = b.0.fresh("y");
        b.0.inputs.push(Input {
            value: y,
            ..b.0.inputs[0].clone()
        });
        for (input, name) in b.0.inputs.iter_mut().zip(names) {
            input.name = name.to_owned();
        }
        let sum = b.node("Add", &[x, y]);
        // As many sections as it takes to have some of them opened.
        let last = (0..8).fold(sum, |last, _| b.node("Tanh", &[last]));
        b.0.outputs.extend([x, y, sum, x, last]);
        let model = usual(&b.0);
        let tensor = |value: f32| FloatTensor::of(vec![2, 3], vec![value; 6]).unwrap();
        let given = names.map(str::to_owned).into_iter();
        let given = given.zip([tensor(1.0), tensor(2.0)]).collect();
        let committed = Committed::of(&model, NamedTensors(given).to_bytes());
        let drawn = challenge(8);
        let file = model.open(&committed.input, &drawn);
        assert!(file.opened.is_some());
        judged(&model, &file, committed.by(&drawn)).unwrap();
        // Each the other's.
        let mut trace = model.trace(&committed.input);
        let mut outputs = NamedTensors::read(&trace.answer.output).unwrap();
        outputs.0[0].1 = tensor(2.0);
        trace.answer.output = outputs.to_bytes();
        let lied = Committed {
            output: Digest::of_blob(&trace.answer.to_bytes()),
            trace: leased(&trace.record.commitment(&committed.input, &trace.answer)),
            input: committed.input.clone(),
        };
        let mut other = file.clone();
        other.answer = trace.answer.to_bytes();
        let found = judged(&model, &other, lied.by(&drawn));
        assert_eq!(found, Err(FloatTraceFault::Output));
    }
}

/// Stops: a record of a value that nobody opens, by which each member's look ends with a panic and the result is asked for without end.
#[test]
fn what_a_record_says_of_memory_ends_no_look() {
    let (mut b, x) = Builder::new(&[64, 512]);
    let alive = b.node("Tanh", &[x]);
    for _ in 0..80 {
        b.node("Shape", &[x]);
    }
    let last = b.node("Tanh", &[alive]);
    b.0.outputs.push(last);
    let model = usual(&b.0);
    let mut committed = Committed::of(&model, input(&[64, 512]));
    let answer = model.run(&committed.input).answer;
    let mut shown_right = 0;
    for number in 0..40 {
        let drawn = challenge(number);
        let mut file = model.open(&committed.input, &drawn);
        let opened = file.opened.as_mut().unwrap();
        opened.record.0[0].values[0].bytes = u64::MAX;
        committed.trace = leased(&opened.record.commitment(&committed.input, &answer));
        let expected = committed.by(&drawn);
        match judged(&model, &file, expected) {
            Ok(_) => shown_right += 1,
            Err(fault) => assert!(
                !matches!(fault, FloatTraceFault::Answer | FloatTraceFault::Trace),
                "{fault:?}"
            ),
        }
    }
    assert!(shown_right > 0, "most sections read nothing of it");
}

/// A contract: records are of what files of tensors have, in whatever pieces it is hashed.
#[test]
fn the_digest_of_a_value_is_that_of_its_bytes() {
    let digest_of = |value: &FloatTensor| {
        let mut writer = Writer::new();
        tensors::write_head(&mut writer, value);
        tensors::write_elements(&mut writer, value.data());
        let bytes = writer.into_bytes();
        (bytes.len(), Digest::of_blob(&bytes))
    };
    let check = |value: &FloatTensor| {
        let (said, beyond) = ValueRecord::shown(value);
        let (length, digest) = digest_of(value);
        assert_eq!(said.digest, digest, "{length} bytes");
        assert_eq!(said.bytes, value.bytes() as u64);
        assert_ne!(beyond, *digest.as_bytes());
        assert_eq!(ValueRecord::of(value), said);
    };
    let mut numbers = Numbers::new(21);
    for _ in 0..200 {
        check(&random_tensor(&mut numbers));
    }
    // About one, two and several pieces, with a head before them.
    for length in [16_376, 16_377, 16_384, 16_385, 32_760, 32_768, 100_003] {
        let values = (0..length).map(|it| it as f32 * 0.5).collect();
        check(&FloatTensor::of(vec![length], values).unwrap());
        let bytes = (0..length).map(|it| (it % 251) as u8).collect();
        check(&FloatTensor::of(vec![1, length], bytes).unwrap());
        let words = (0..length).map(|it| it as i64 - 7).collect();
        check(&FloatTensor::of(vec![length, 1], words).unwrap());
    }
}
