//! How often a result that is wrong in one part is found by Proof of Sync, beside the formula `drawn / all`:
//! `cargo run --release -p tg-compile --example detection`. Prints two tables in Markdown: tiles of integers, and sections of floats and
//! programs.
//!
//! The liar changes one element of the answer, or the bill of one step, commits to what it then says, and opens what is drawn: no other part is
//! wrong, so nothing else can give it away. A part of the runs makes and checks openings; the others look only at what is drawn.
//!
//! Each run is a lease of a liar that always returns: it has its price where the lie is not found, and loses twenty times the price, the least stake
//! of the mode, where it is. What that comes to for each lease is the column *gain a lease*, with its 99.9 % interval (`docs/adr/0044-a-cheat-that-returns.md`).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints a table")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;

use tg_compile::suite::Architecture;
use tg_exec::execute_tensor;
use tg_float::job::trace::ExpectedFloatTrace;
use tg_float::job::{FloatLimits, FloatModel, FloatModelFile, NamedTensors};
use tg_float::{DType, Dim, FloatTensor, Graph, Input, Node};
use tg_ir::tiles::{self, ExecutionClaim, TraceOpening};
use tg_ir::{ExecutableModel, IntTensor, TensorId};
use tg_types::{Digest, Domain, Encode as _, LeaseId, RunCommitment, sections};
use tg_wasm::trace::{ExpectedProgramTrace, OpenedCalls, ProgramTraceFile};
use tg_wasm::{ProgramFile, ProgramInput, ProgramState, RunLimits, WasmProgram};

/// Runs for each model.
const RUNS: u32 = 1_000_000;

/// The least stake of a lease of mode sync, in prices.
const STAKE: f64 = 20.0;

/// Runs of them with commitments and openings.
const OPENED: u32 = 1_000;

/// An example program: points in a square, and how many are in the circle.
const PI: &[u8] = include_bytes!("../../../examples/programs/pi.wasm");

/// The lease of all runs.
const LEASE: LeaseId = LeaseId::new([8; 32]);

/// What stands before the second table.
const SECTIONS: &str = "
## A lie in one section, with real commitments

Float models of so many layers, and the example program `pi` on so many chunks, executed; the liar adds some units to the bill of one node or call
and to all that come after it, so that this step alone is wrong, and commits to that. Columns are those of the table above, of sections.
";

fn main() -> ExitCode {
    head("tiles");
    let mut is_right = true;
    for architecture in [
        Architecture::LeNet,
        Architecture::Cnn264k,
        Architecture::Vgg16,
        Architecture::Gpt250k,
    ] {
        is_right &= measure(architecture);
    }
    println!("{SECTIONS}");
    head("sections");
    for layers in [10, 60, 160] {
        is_right &= measure_floats(layers);
    }
    for chunks in [25, 160] {
        is_right &= measure_program(chunks);
    }
    match is_right {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!(
                "error: a share is not what the formula says, a lie does not lose, or openings are judged otherwise than the draw"
            );
            ExitCode::FAILURE
        }
    }
}

/// The first lines of a table of parts.
fn head(parts: &str) {
    println!(
        "| model | {parts} | drawn | formula | runs | found | 99.9 % interval | gain a lease, in prices | with openings | found | judged alike |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
}

/// What was measured of one lie.
struct Row {
    name: String,
    /// Parts of the run, and how many of them are drawn.
    all: u64,
    drawn: u64,
    /// Runs in which the wrong part was drawn, and those of the first ones in which the opening was found wrong.
    found: u32,
    opened: u32,
    /// Whether openings were judged as the draw was.
    alike: bool,
}

impl Row {
    /// Prints it; whether the formula lies within the interval, the liar loses by it, and openings were judged as the draws were.
    fn print(&self) -> bool {
        let formula = self.drawn as f64 / self.all as f64;
        let (low, high) = interval(self.found, RUNS);
        let most = gain(low);
        println!(
            "| {} | {} | {} | {:.2} % | {RUNS} | {:.2} % | {:.2} to {:.2} % | {:.3} ({:.3} to {most:.3}) | {OPENED} | {:.2} % | {} |",
            self.name,
            self.all,
            self.drawn,
            100.0 * formula,
            100.0 * f64::from(self.found) / f64::from(RUNS),
            100.0 * low,
            100.0 * high,
            gain(f64::from(self.found) / f64::from(RUNS)),
            gain(high),
            100.0 * f64::from(self.opened) / f64::from(OPENED),
            if self.alike { "all" } else { "NO" }
        );
        self.alike && (low..=high).contains(&formula) && most < 0.0
    }
}

/// What a lie brings on average for each lease, in prices, where it is found in such a share of them: the price, or minus the stake. What it is
/// worth outside of the grid, and the work that it saves, are not counted; nor is what the name loses beside the stake.
fn gain(found: f64) -> f64 {
    (1.0 - found) - found * STAKE
}

/// Measures the lie in one model; whether the formula lies within the interval, and openings are judged as the draw is.
fn measure(architecture: Architecture) -> bool {
    let (model, input) = architecture.model(1);
    let model = model.checked().expect("a model of the suite");
    let program = &model.program;
    let trace = execute_tensor(&model, input).expect("it runs");
    let mut tensors = trace.tensors().to_vec();
    let answer = program.output();
    let mut output = tensors[answer.index()].to_bytes();
    output[0] ^= 1;
    let changed = IntTensor::from_bytes(program.element_type(answer), &output);
    tensors[answer.index()] = changed.expect("another answer of the same form");
    let root = root(&tensors);
    let node = answer.0 - 1;
    let all = tiles::count(program);
    let drawn = all.div_ceil(20).max(64).min(all);
    let (mut found, mut opened, mut alike) = (0, 0, true);
    for run in 0..RUNS {
        let seed = Digest::of_blob(&run.to_le_bytes());
        let draw = tiles::draw(program, &seed, drawn);
        let is_drawn = draw.iter().any(|it| it.node == node && it.leaf == 0);
        found += u32::from(is_drawn);
        if run < OPENED {
            let is_caught = is_caught(&model, (&tensors, &output, root), &draw);
            opened += u32::from(is_caught);
            alike &= is_caught == is_drawn;
        }
    }
    let row = Row {
        name: format!("{architecture:?}"),
        all,
        drawn,
        found,
        opened,
        alike,
    };
    row.print()
}

/// What a provider commits to that says this of its execution.
fn root(tensors: &[IntTensor]) -> Digest {
    let nodes = tensors[1..].iter();
    let digests: Vec<Digest> = nodes.map(|it| Digest::of_blob(&it.to_bytes())).collect();
    tiles::root(&digests)
}

/// Whether a member that looks at an opening of drawn tiles finds the lie.
fn is_caught(
    model: &ExecutableModel,
    (tensors, output, trace): (&[IntTensor], &[u8], Digest),
    drawn: &[tiles::TraceTile],
) -> bool {
    let opening = TraceOpening::of(model, tensors, drawn);
    let claim = ExecutionClaim {
        input: &tensors[TensorId::INPUT.index()],
        output,
        trace,
    };
    tiles::check(model, claim, drawn, &opening).is_err()
}

/// A run in whose sections one step is wrong.
struct SectionLie {
    name: String,
    sections: Vec<Range<usize>>,
    step: usize,
    domain: Domain,
}

impl SectionLie {
    /// The sections that a challenge draws.
    fn drawn(&self, challenge: &Digest) -> Vec<Range<usize>> {
        sections::draw(&self.sections, self.domain, challenge)
    }

    /// Measures it, given what a member finds of what a challenge draws.
    fn measure(&self, is_caught: &mut dyn FnMut(&Digest) -> bool) -> bool {
        let (mut found, mut opened, mut alike) = (0, 0, true);
        for run in 0..RUNS {
            let challenge = Digest::of_blob(&run.to_le_bytes());
            let draw = self.drawn(&challenge);
            let is_drawn = draw.iter().any(|it| it.contains(&self.step));
            found += u32::from(is_drawn);
            if run < OPENED {
                let is_caught = is_caught(&challenge);
                opened += u32::from(is_caught);
                alike &= is_caught == is_drawn;
            }
        }
        let row = Row {
            name: self.name.clone(),
            all: self.sections.len() as u64,
            drawn: sections::drawn_of(self.sections.len()) as u64,
            found,
            opened,
            alike,
        };
        row.print()
    }
}

/// The work of a run after each step, had one of them taken more.
fn dearer(works: &[u64], step: usize, more: u64) -> Vec<u64> {
    let works = works.iter().enumerate();
    let works = works.map(|(at, work)| work + if at >= step { more } else { 0 });
    works.collect()
}

/// A step, and how much more it may be said to have taken for the sections to stay where they are, so that what an honest provider opens for a
/// challenge is what the liar has to.
fn dearer_step(works: &[u64]) -> (usize, u64) {
    let cut = sections::cut(works);
    let middle = works.len() / 2;
    let steps = (middle..works.len()).chain(1..middle);
    let mut lies = steps.flat_map(|step| (1..=16).map(move |more| (step, more)));
    let found = lies.find(|&(step, more)| sections::cut(&dearer(works, step, more)) == cut);
    found.expect("some step is not at the edge of its section")
}

/// A float model of so many layers, each a product and what bends it.
fn layers(count: usize) -> FloatModel {
    let mut graph = Graph::default();
    graph.opsets.insert(String::new(), 13);
    let mut last = graph.fresh("x");
    graph.inputs.push(Input {
        value: last,
        name: "x".to_owned(),
        dtype: Some(DType::F32),
        shape: Some(vec![Dim::Known(4), Dim::Known(32)]),
    });
    for layer in 0..count {
        let weights = (0..32 * 32).map(|it| ((it * 7 + layer) % 13) as f32 / 32.0 - 0.2);
        let weights = FloatTensor::of(vec![32, 32], weights.collect::<Vec<f32>>());
        let weights = weights.expect("as many as its sizes say");
        let weights = graph.constant(format!("w{layer}"), weights);
        for (op, reads) in [("MatMul", Some(weights)), ("Tanh", None)] {
            let name = format!("{op}{layer}");
            let value = graph.fresh(name.clone());
            let reads = std::iter::once(last).chain(reads).collect();
            graph.append(Node::new(&name, op, 13, reads, vec![value]));
            last = value;
        }
    }
    graph.outputs.push(last);
    let file = FloatModelFile::new(&graph, FloatLimits::default()).expect("a model");
    FloatModel::read(&file.file).expect("a model")
}

/// Measures the lie about a node of a float model.
fn measure_floats(count: usize) -> bool {
    let model = layers(count);
    let values = (0..4 * 32).map(|it| (it % 17) as f32 / 8.0 - 1.0);
    let x = FloatTensor::of(vec![4, 32], values.collect::<Vec<f32>>());
    let x = x.expect("as many as its sizes say");
    let input = NamedTensors(vec![("x".to_owned(), x)]).to_bytes();
    let honest = model.trace(&input);
    let works: Vec<u64> = honest.record.0.iter().map(|it| it.work).collect();
    let (step, more) = dearer_step(&works);
    let (mut record, mut answer) = (honest.record, honest.answer);
    for node in &mut record.0[step..] {
        node.work += more;
    }
    answer.work += more;
    let commitment = RunCommitment::read(&record.commitment(&input, &answer));
    let trace = commitment.for_lease(&LEASE).digest();
    let answer = answer.to_bytes();
    let output = Digest::of_blob(&answer);
    let lie = SectionLie {
        name: format!("floats, {count} layers"),
        sections: sections::cut(&works),
        step,
        domain: Domain::FloatSections,
    };
    lie.measure(&mut |challenge| {
        let mut file = model.open(&input, challenge);
        file.answer.clone_from(&answer);
        let opened = file.opened.as_mut().expect("it is shown in sections");
        opened.record = record.clone();
        let expected = ExpectedFloatTrace {
            lease: &LEASE,
            input: &input,
            output: &output,
            trace: &trace,
            challenge,
        };
        model.verify_trace(&file, expected).is_err()
    })
}

/// Measures the lie about a call of a program.
fn measure_program(chunks: u64) -> bool {
    let file = ProgramFile::new(PI.to_vec(), RunLimits::default());
    let program = WasmProgram::read(&file.encode()).expect("an example program");
    let chunk = |seed: u64| [seed, 500 + seed % 7].map(u64::to_le_bytes).concat();
    let input = ProgramInput::steps((0..chunks).map(chunk).collect()).encode();
    let honest = program.trace(&input).expect("enough memory");
    let mut works: Vec<u64> = honest.record.0.iter().map(|it| it.fuel).collect();
    // The output belongs to the last call.
    if let Some(last) = works.last_mut() {
        *last = honest.answer.fuel;
    }
    let (step, more) = dearer_step(&works);
    let (mut record, mut answer) = (honest.record, honest.answer);
    for call in &mut record.0[step..] {
        call.fuel += more;
    }
    answer.fuel += more;
    let commitment = RunCommitment::read(&record.commitment(&input, &answer));
    let trace = commitment.for_lease(&LEASE).digest();
    let answer = answer.encode();
    let output = Digest::of_blob(&answer);
    let lie = SectionLie {
        name: format!("`pi`, {chunks} chunks"),
        sections: sections::cut(&works),
        step,
        domain: Domain::WasmSections,
    };
    let states = states_of(&program, &input, &lie);
    lie.measure(&mut |challenge| {
        let shown = begins(&lie, challenge).map(|it| states[&it].clone());
        let opened = OpenedCalls {
            record: record.clone(),
            states: shown.collect(),
        };
        let file = ProgramTraceFile {
            answer: answer.clone(),
            opened: Some(opened),
        };
        let expected = ExpectedProgramTrace {
            lease: &LEASE,
            input: &input,
            output: &output,
            trace: &trace,
            challenge,
        };
        let found = program.verify_trace(&file, expected);
        found.expect("enough memory").is_err()
    })
}

/// The calls before which a state is shown if a challenge draws.
fn begins(lie: &SectionLie, challenge: &Digest) -> impl Iterator<Item = usize> + use<> {
    let drawn = lie.drawn(challenge).into_iter();
    drawn.map(|it| it.start).filter(|it| *it > 0)
}

/// The states at which all sections begin, as a provider opens them: to run the program twice for each of many challenges takes minutes.
fn states_of(
    program: &WasmProgram,
    input: &[u8],
    lie: &SectionLie,
) -> BTreeMap<usize, ProgramState> {
    let mut states = BTreeMap::new();
    let all = lie.sections.iter().filter(|it| it.start > 0).count();
    for number in 0_u64.. {
        if states.len() == all {
            break;
        }
        let challenge = Digest::of_blob(&number.to_le_bytes());
        let file = program.open(input, &challenge).expect("enough memory");
        let shown = file.opened.expect("it is shown in sections").states;
        states.extend(begins(lie, &challenge).zip(shown));
    }
    states
}

/// Wilson's interval of a share, at 99.9 %. At 95 % every twentieth row would be refused by chance.
fn interval(found: u32, runs: u32) -> (f64, f64) {
    let (n, p, z) = (
        f64::from(runs),
        f64::from(found) / f64::from(runs),
        3.29_f64,
    );
    let center = p + z * z / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    ((center - half) / scale, (center + half) / scale)
}
