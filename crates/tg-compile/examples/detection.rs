//! How often a result that is wrong in one tile is found by Proof of Sync, beside the formula `drawn / all`:
//! `cargo run --release -p tg-compile --example detection`. Prints a table in Markdown.
//!
//! The liar changes one element of the answer, commits to what it then says, and opens what is drawn: no other tile is wrong,
//! so nothing else can give it away. A part of the runs makes and checks openings; the others look only at what is drawn.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints a table")]

use std::process::ExitCode;

use tg_compile::suite::Architecture;
use tg_exec::execute_tensor;
use tg_ir::tiles::{self, ExecutionClaim, TraceOpening};
use tg_ir::{ExecutableModel, IntTensor, TensorId};
use tg_types::Digest;

/// Runs for each model.
const RUNS: u32 = 1_000_000;

/// Runs of them with commitments and openings.
const OPENED: u32 = 1_000;

fn main() -> ExitCode {
    println!(
        "| model | tiles | drawn | formula | runs | found | 99.9 % interval | with openings | found | judged alike |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut is_right = true;
    for architecture in [
        Architecture::LeNet,
        Architecture::Cnn264k,
        Architecture::Vgg16,
        Architecture::Gpt250k,
    ] {
        is_right &= measure(architecture);
    }
    match is_right {
        true => ExitCode::SUCCESS,
        false => {
            eprintln!(
                "error: a share is not what the formula says, or openings are judged otherwise than the draw"
            );
            ExitCode::FAILURE
        }
    }
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
    let (low, high) = interval(found, RUNS);
    println!(
        "| {architecture:?} | {all} | {drawn} | {:.2} % | {RUNS} | {:.2} % | {:.2} to {:.2} % | {OPENED} | {:.2} % | {} |",
        100.0 * drawn as f64 / all as f64,
        100.0 * f64::from(found) / f64::from(RUNS),
        100.0 * low,
        100.0 * high,
        100.0 * f64::from(opened) / f64::from(OPENED),
        if alike { "all" } else { "NO" }
    );
    let formula = drawn as f64 / all as f64;
    alike && (low..=high).contains(&formula)
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
