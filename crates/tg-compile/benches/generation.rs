//! Tokens a second of generation by processor time, one core: `cargo bench -p tg-compile --bench generation [-- gpt2]`.
//!
//! A prompt up to the position and 32 tokens after it, by the engine that keeps what is final, beside one run over the whole
//! window, which is what a token costs without. Weights are from a seed; speed does not depend on them.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops where something is missing"
)]

use std::time::Instant;
use tg_compile::suite::{WriterSizes, writing_transformer};
use tg_exec::Engine;
use tg_exec::engine::CachedEngine;
use tg_exec::engine::values::Values;
use tg_exec::kernels::Cpu;
use tg_ir::generation;

/// Tokens that are timed.
const TOKENS: usize = 32;

/// Processor seconds of this process, user and system.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn timed(times: usize, run: &mut dyn FnMut()) -> f64 {
    let start = (processor_seconds(), Instant::now());
    (0..times).for_each(|_| run());
    let processor = processor_seconds() - start.0;
    // The clock of processor time has steps of 10 ms.
    let seconds = if processor < 0.1 {
        start.1.elapsed().as_secs_f64()
    } else {
        processor
    };
    seconds / times as f64
}

fn measure(name: &str, sizes: &WriterSizes, position: usize) {
    let (mut model, _) = writing_transformer(sizes, 1);
    generation::rank(&mut model.program, 8).unwrap();
    let model = model.checked().unwrap();
    let mut engine = CachedEngine::new(&model, Cpu::new(1)).unwrap();
    let prompt: Vec<i32> = (0..position + TOKENS)
        .map(|at| i32::try_from(at * 7 % sizes.vocabulary as usize).unwrap())
        .collect();
    let mut extend = |first: usize, until: usize| {
        engine
            .extend(first, Values::I32(&prompt[first..until]), &mut |_, _| {})
            .unwrap();
    };
    extend(0, position);
    let prefill = timed(1, &mut || extend(0, position));
    let rounds = if sizes.layers > 8 { 2 } else { 20 };
    let decode = timed(rounds, &mut || {
        (position..position + TOKENS).for_each(|at| extend(at, at + 1));
    });
    let mut whole = vec![0; sizes.window as usize];
    whole[..position].copy_from_slice(&prompt[..position]);
    let mut plain = Engine::new(&model, Cpu::new(1));
    let run = timed(2, &mut || {
        plain.run(Values::I32(&whole)).unwrap();
    });
    println!(
        "{name}: {:.0} tokens/s at position {position} ({:.2} without keeping), prefill {prefill:.3} s, {} nodes whole",
        TOKENS as f64 / decode,
        1.0 / run,
        engine.whole_nodes(),
    );
}

fn main() {
    let sizes = WriterSizes {
        layers: 6,
        channels: 128,
        heads: 4,
        window: 1_056,
        vocabulary: 256,
    };
    measure("GPT of 6 layers, 128 channels, window 1056", &sizes, 1_000);
    let sizes = WriterSizes {
        layers: 4,
        channels: 128,
        heads: 4,
        window: 256,
        vocabulary: 256,
    };
    measure("GPT of 4 layers, 128 channels, window 256", &sizes, 200);
    if std::env::args().any(|argument| argument == "gpt2") {
        let sizes = WriterSizes {
            layers: 12,
            channels: 768,
            heads: 12,
            window: 1_024,
            vocabulary: 50_257,
        };
        measure("GPT-2 124M, window 1024", &sizes, 512);
    }
}
