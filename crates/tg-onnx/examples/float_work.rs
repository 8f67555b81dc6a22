//! What ONNX models cost in units of work, and how long they take as a job executes them and joined.
//!
//! `cargo run --release -p tg-onnx --example float_work -- MODEL.onnx..`; inputs are zeros, axes of no stated size are one.
#![allow(clippy::print_stdout, reason = "an example")]

use anyhow::{Context, Result};
use std::time::Instant;
use tg_exec::kernels::Cpu;
use tg_float::tgf::{Budget, Engine, run_in_order};
use tg_float::{Data, Dim, FloatTensor, Graph};
use tg_onnx::{ReadLimits, read};

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

fn main() -> Result<()> {
    println!(
        "{:>14} {:>9} {:>9} {:>8}  model",
        "units", "in order", "joined", "ns/unit"
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
        println!(
            "{:>14} {:>6.1} ms {:>6.1} ms {:>8.3}  {path}",
            first.work,
            ordered * 1e3,
            joined * 1e3,
            ordered * 1e9 / first.work as f64
        );
    }
    Ok(())
}
