//! What ONNX models cost in units of work, and how long they take as a job executes them, joined, and with every value hashed; and what mode
//! `sync` opens of a run and how long its check takes, as the median of draws; and what disputes take that end at each node of the run.
//!
//! `cargo run --release -p tg-onnx --example float_work -- MODEL.onnx..`; inputs are zeros, axes of no stated size are one.
#![allow(clippy::print_stdout, reason = "an example")]

use anyhow::{Context, Result};
use std::time::Instant;
use tg_exec::kernels::Cpu;
use tg_float::job::trace::{ExpectedFloatClaim, ExpectedFloatTrace, FloatFault, sections};
use tg_float::job::{FloatLimits, FloatModel, FloatModelFile, NamedTensors};
use tg_float::tgf::{Budget, Engine, run_in_order};
use tg_float::{Data, Dim, FloatTensor, Graph};
use tg_onnx::{ReadLimits, read};
use tg_types::{Digest, Encode as _, LeaseId, Receipt, RunCommitment, Tier};

/// Runs of each that are timed; the fastest counts.
const ROUNDS: usize = 5;

fn zeros(graph: &Graph) -> Result<Vec<FloatTensor>> {
    let size = |axis: &Dim| match axis {
        Dim::Known(size) => *size,
        Dim::Named(_) | Dim::Unknown => 1,
    };
    let one = |input: &tg_float::Input| {
        let shape = input.shape.as_ref().context("an input without axes")?;
        let sizes: Vec<usize> = shape.iter().map(size).collect();
        let dtype = input.dtype.context("an input without a type")?;
        let data = Data::zeros(dtype, sizes.iter().product());
        Ok(FloatTensor::new(sizes, data)?)
    };
    graph.inputs.iter().map(one).collect()
}

fn fastest(mut run: impl FnMut()) -> f64 {
    let times = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min)
}

/// What mode `sync` takes.
struct Sync {
    /// Seconds of a run of which every value is hashed.
    traced: f64,
    /// Seconds of one BLAKE3 over as many bytes as its values have.
    plain: f64,
    sections: usize,
    /// Bytes of the evidence, and seconds of its check: medians of draws.
    opened: f64,
    check: f64,
}

impl Sync {
    fn of(graph: &Graph, inputs: &[FloatTensor]) -> Result<Self> {
        let files = FloatModelFile::new(graph, FloatLimits::default())?;
        let model = FloatModel::read(&files.file)?;
        let names = graph.inputs.iter().map(|input| input.name.clone());
        let input = NamedTensors(names.zip(inputs.iter().cloned()).collect()).to_bytes();
        let trace = model.trace(&input);
        let output = Digest::of_blob(&trace.answer.to_bytes());
        let lease = LeaseId::new([0; 32]);
        let committed = RunCommitment::read(&trace.commitment).for_lease(&lease);
        let committed = committed.digest();
        let mut draws = Vec::new();
        for number in 0..2 * ROUNDS as u64 {
            let challenge = Digest::of_blob(&number.to_le_bytes());
            let file = model.open(&input, &challenge);
            let expected = ExpectedFloatTrace {
                lease: &lease,
                input: &input,
                output: &output,
                trace: &committed,
                challenge: &challenge,
            };
            let start = Instant::now();
            model.verify_trace(&file, expected)?;
            let check = start.elapsed().as_secs_f64();
            draws.push((check, file.to_bytes().len()));
        }
        draws.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (check, opened) = draws[draws.len() / 2];
        let values = trace.record.0.iter().flat_map(|it| &it.values);
        let bytes: u64 = values.map(|it| it.bytes).sum();
        let hashed = vec![1_u8; usize::try_from(bytes)?];
        Ok(Self {
            traced: fastest(|| drop(model.trace(&input))),
            plain: fastest(|| {
                std::hint::black_box(Digest::of_blob(&hashed));
            }),
            sections: sections::cut(&trace.record).len(),
            opened: opened as f64,
            check,
        })
    }
}

/// What disputes take that end at a node: false claims about every node of a run, each refuted and judged.
struct Disputes {
    claim: usize,
    /// Bytes of the answers and seconds of the judgements, ascending.
    answers: Vec<usize>,
    judged: Vec<f64>,
    /// Nodes that read more than can be shown, about which everybody runs the model.
    large: usize,
}

impl Disputes {
    fn of(graph: &Graph, inputs: &[FloatTensor]) -> Result<Self> {
        let files = FloatModelFile::new(graph, FloatLimits::default())?;
        let model = FloatModel::read(&files.file)?;
        let names = graph.inputs.iter().map(|input| input.name.clone());
        let input = NamedTensors(names.zip(inputs.iter().cloned()).collect()).to_bytes();
        let right = model.claim(&input);
        let lease = LeaseId::new([7; 32]);
        let delivered = right.answer.to_bytes();
        let trace = Digest::of_blob(b"another bill, so that each claim is about something else");
        let receipt = Receipt {
            program: model.id(),
            model: model.model_id(),
            input: Digest::of_blob(&input),
            output: Digest::of_blob(&delivered),
            trace,
            tier: Tier::Tgf1,
        };
        let expected = ExpectedFloatClaim {
            lease: &lease,
            input: &input,
            receipt: &receipt,
            delivered: &delivered,
        };
        let mut found = Self {
            claim: right.to_bytes().len(),
            answers: Vec::new(),
            judged: Vec::new(),
            large: 0,
        };
        for node in 0..right.record.0.len() {
            let mut claim = right.clone();
            let Some(value) = claim.record.0[node].values.first_mut() else {
                continue;
            };
            value.digest = Digest::of_blob(b"another value");
            let claim = claim.to_bytes();
            match model.fault_of(&claim, expected) {
                Some(FloatFault::LargeNode { .. }) => found.large += 1,
                Some(fault @ FloatFault::Node { .. }) => {
                    let answer = fault.to_bytes();
                    let start = Instant::now();
                    anyhow::ensure!(model.claim_fails((&claim, &answer), expected));
                    found.judged.push(start.elapsed().as_secs_f64());
                    found.answers.push(answer.len());
                }
                // What the run answers is compared with the record.
                Some(FloatFault::Claim) | None => {}
            }
        }
        found.answers.sort_unstable();
        found.judged.sort_by(f64::total_cmp);
        Ok(found)
    }

    fn print(&self) {
        let (Some(last), Some(slowest)) = (self.answers.last(), self.judged.last()) else {
            return;
        };
        println!(
            "{:>14} {} nodes disputed: claim {:.1} kB, answer {:.1} kB (at most {:.1}), judged in {:.2} ms (at most {:.2}); {} read too much",
            "",
            self.answers.len(),
            self.claim as f64 / 1e3,
            self.answers[self.answers.len() / 2] as f64 / 1e3,
            *last as f64 / 1e3,
            self.judged[self.judged.len() / 2] * 1e3,
            slowest * 1e3,
            self.large
        );
    }
}

fn main() -> Result<()> {
    println!(
        "{:>14} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9}  model",
        "units", "in order", "joined", "traced", "plain", "sections", "opened", "check", "ns/unit"
    );
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path).with_context(|| path.clone())?;
        let graph = read(&bytes, None, &ReadLimits::default()).with_context(|| path.clone())?;
        let inputs = zeros(&graph).with_context(|| path.clone())?;
        let given: Vec<&FloatTensor> = inputs.iter().collect();
        let first = run_in_order(&graph, &given, &Budget::default());
        first.result.with_context(|| path.clone())?;
        let ordered = fastest(|| drop(run_in_order(&graph, &given, &Budget::default())));
        let mut engine = Engine::new(graph.clone(), Cpu::new(1));
        let joined = fastest(|| drop(engine.execute(&given, &Budget::default())));
        let sync = Sync::of(&graph, &inputs).with_context(|| path.clone())?;
        println!(
            "{:>14} {:>6.1} ms {:>6.1} ms {:>6.1} ms {:>6.1} ms {:>8} {:>6.2} MB {:>6.1} ms {:>9.3}  {path}",
            first.work,
            ordered * 1e3,
            joined * 1e3,
            sync.traced * 1e3,
            sync.plain * 1e3,
            sync.sections,
            sync.opened / 1e6,
            sync.check * 1e3,
            ordered * 1e9 / first.work as f64
        );
        Disputes::of(&graph, &inputs)?.print();
    }
    Ok(())
}
