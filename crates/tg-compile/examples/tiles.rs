//! What computing tiles of an execution again costs, beside the execution: `cargo run --release -p tg-compile --example tiles`.
//!
//! `commit` is the root of the trace, `plain` one BLAKE3 over the same bytes in one piece.
#![allow(clippy::print_stdout, reason = "prints a table")]

use std::time::Instant;

use tg_compile::suite::Architecture;
use tg_exec::execute_tensor;
use tg_ir::TensorId;
use tg_ir::tiles::{self, ExecutionClaim, TraceOpening};
use tg_types::{Digest, Encode as _};

/// Seconds that something takes, the least of three.
fn seconds<T>(mut what: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..3 {
        let begin = Instant::now();
        last = Some(what());
        best = best.min(begin.elapsed().as_secs_f64());
    }
    (best, last.expect("it ran"))
}

fn main() {
    println!(
        "{:<22}{:>9}{:>8}{:>7}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "model",
        "Mmacs",
        "trace",
        "tiles",
        "drawn",
        "opened",
        "macs",
        "execute",
        "commit",
        "plain",
        "open",
        "check"
    );
    for architecture in Architecture::ALL {
        let (model, input) = architecture.model(1);
        let model = model.checked().expect("a model of the suite");
        let program = &model.program;
        let (execute, trace) = seconds(|| execute_tensor(&model, input.clone()).expect("it runs"));
        let (commit, root) = seconds(|| trace.digest());
        let hashed: Vec<u8> = trace.tensors()[1..]
            .iter()
            .flat_map(|it| it.to_bytes())
            .collect();
        let (plain, _) = seconds(|| Digest::of_blob(&hashed));
        let bytes = hashed.len();
        let all = tiles::count(program);
        for share in [20_u64, 80] {
            let drawn = all.div_ceil(share).max(64).min(all);
            let drawn = tiles::draw(program, &Digest::of_blob(b"seed"), drawn);
            let (open, opening) = seconds(|| TraceOpening::of(&model, trace.tensors(), &drawn));
            let output = trace.output_bytes();
            let claim = ExecutionClaim {
                input: trace.tensor(TensorId::INPUT),
                output: &output,
                trace: root,
            };
            let (check, result) = seconds(|| tiles::check(&model, claim, &drawn, &opening));
            result.expect("an honest execution");
            let opened = opening.to_bytes().len();
            println!(
                "{:<22}{:>9.1}{:>8}{:>7}{:>9}{:>8.1}%{:>8.1}%{:>8.1}m{:>8.1}m{:>8.1}m{:>8.1}m{:>8.1}m",
                format!("{architecture:?}"),
                program.macs() as f64 / 1e6,
                bytes >> 10,
                all,
                drawn.len(),
                opened as f64 / bytes as f64 * 100.0,
                tiles::macs(program, &drawn) as f64 / program.macs().max(1) as f64 * 100.0,
                execute * 1e3,
                commit * 1e3,
                plain * 1e3,
                open * 1e3,
                check * 1e3
            );
        }
    }
}
