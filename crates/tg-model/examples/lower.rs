//! Compiles the models of a corpus folder and measures them: what the program gives beside what the file's own
//! runtime gave.
//!
//! ```text
//! cargo run --release -p tg-model --example lower -- target/corpus [NAME ...] [--precision 8|mixed|16|auto] [--explain]
//! ```
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command line tool"
)]

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tg_model::accuracy::float_class;
use tg_model::integer::Precision;
use tg_model::net::npy::read_npy;
use tg_model::net::{Data, ReadLimits, Tensor, convert, read};
use tg_model::passes::{PrepareOptions, prepare};
use tg_model::{
    CompileOptions, PrecisionChoice, compile_prepared, execute_tensor, explain, input, integer,
};

struct Options {
    folder: PathBuf,
    names: Vec<String>,
    precision: PrecisionChoice,
    explain: bool,
    samples: usize,
}

fn main() -> Result<()> {
    let options = options()?;
    if !options.folder.is_dir() {
        println!(
            "SKIPPED: no corpus at `{}` (cargo xtask corpus makes it)",
            options.folder.display()
        );
        return Ok(());
    }
    println!(
        "model                          nodes  precision  out SNR  agree   float  integer  (samples)"
    );
    for name in &options.names {
        if let Err(error) = one(&options, name) {
            println!("{name:<30} {error:#}");
        }
    }
    Ok(())
}

fn options() -> Result<Options> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(
        arguments
            .next()
            .unwrap_or_else(|| "target/corpus".to_owned()),
    );
    let mut options = Options {
        folder,
        names: Vec::new(),
        precision: PrecisionChoice::Auto,
        explain: false,
        samples: 256,
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--precision" => {
                options.precision = match arguments.next().as_deref() {
                    Some("8") => PrecisionChoice::Fixed(Precision::Bits8),
                    Some("mixed") => PrecisionChoice::Fixed(Precision::Mixed),
                    Some("16") => PrecisionChoice::Fixed(Precision::Bits16),
                    Some("auto") => PrecisionChoice::Auto,
                    other => bail!("unknown precision {other:?}"),
                };
            }
            "--samples" => {
                options.samples = arguments.next().context("--samples N")?.parse()?;
            }
            "--explain" => options.explain = true,
            name => options.names.push(name.to_owned()),
        }
    }
    if options.names.is_empty() && options.folder.is_dir() {
        for entry in std::fs::read_dir(&options.folder)? {
            options
                .names
                .push(entry?.file_name().to_string_lossy().into_owned());
        }
        options.names.sort();
    }
    Ok(options)
}

fn npy(path: &Path) -> Result<Tensor> {
    let bytes = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
    read_npy(&bytes).with_context(|| format!("{}", path.display()))
}

/// One sample of a stack of them, as a batch of one.
fn sample(stack: &Tensor, at: usize) -> Result<Tensor> {
    let shape = stack.shape();
    let length: usize = shape[1..].iter().product();
    let data: Data = stack.data().gather_runs(&[at * length], length);
    let own = [&[1], &shape[1..]].concat();
    Ok(Tensor::new(own, data)?)
}

#[expect(clippy::too_many_lines, reason = "one model from file to report")]
fn one(options: &Options, name: &str) -> Result<()> {
    let folder = options.folder.join(name);
    let entry: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("entry.json"))?)?;
    let bytes = std::fs::read(folder.join("model.onnx"))?;
    let graph = read(&bytes, Some(&folder), &ReadLimits::default())?;
    let before = explain::operators(&graph);
    let mut shapes = PrepareOptions::default();
    for (index, input) in entry["inputs"].as_array().into_iter().flatten().enumerate() {
        let stack = npy(&folder.join(format!("calibration.{index}.npy")))?;
        for (axis, &size) in stack.shape().iter().enumerate().skip(1) {
            let name = format!("{}.{axis}", input.as_str().unwrap_or_default());
            shapes.axes.insert(name, size);
        }
    }
    let prepared = prepare(graph, &shapes)?;
    let names: Vec<String> = prepared
        .graph
        .inputs
        .iter()
        .map(|input| input.name.clone())
        .collect();
    let listed = |key: &str| -> Vec<String> {
        let list = entry[key].as_array().into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let inputs = listed("inputs");
    let stacks = |kind: &str| -> Result<Vec<Tensor>> {
        names
            .iter()
            .map(|name| {
                let index = inputs.iter().position(|own| own == name).unwrap_or(0);
                npy(&folder.join(format!("{kind}.{index}.npy")))
            })
            .collect()
    };
    let (_, order) = integer::input_order(&prepared)?;
    let rows = |stacks: &[Tensor], most: usize| -> Result<Vec<Vec<f32>>> {
        let count = stacks[0].shape()[0].min(most);
        (0..count)
            .map(|at| {
                let tensors: Result<Vec<Tensor>> = stacks.iter().map(|s| sample(s, at)).collect();
                Ok(order.row(&tensors?))
            })
            .collect()
    };
    let calibration = rows(&stacks("calibration")?, 64)?;
    let output = prepared.graph.name_of(prepared.graph.outputs[0]).to_owned();
    let told = CompileOptions {
        precision: options.precision,
        ..CompileOptions::default()
    };
    let compiled = compile_prepared(prepared, &calibration, &told)?;
    if options.explain {
        println!("{}", explain::report(&before, &compiled));
    }
    let slot = listed("outputs")
        .iter()
        .position(|own| *own == output)
        .unwrap_or(0);
    let expected = npy(&folder.join(format!("expected.{slot}.npy")))?;
    let labels = npy(&folder.join("labels.npy"))
        .ok()
        .and_then(|t| convert::to_i64(t.data()));
    let test = rows(&stacks("test")?, options.samples)?;
    let spec = &compiled.model.program.input;
    let (mut signal, mut noise) = (0f64, 0f64);
    let (mut agree, mut float_right, mut integer_right, mut places) =
        (0usize, 0usize, 0usize, 0usize);
    for (at, row) in test.iter().enumerate() {
        let trace = execute_tensor(&compiled.model, input::encode(spec, row)?)?;
        let got: Vec<f32> = compiled
            .in_file_order(trace.output())
            .iter()
            .map(|&v| ((f64::from(v) - compiled.output.zero as f64) * compiled.output.scale) as f32)
            .collect();
        let wanted = convert::to_f32(sample(&expected, at)?.data()).context("numbers")?;
        for (g, w) in got.iter().zip(&wanted) {
            signal += f64::from(*w).powi(2);
            noise += f64::from(g - w).powi(2);
        }
        let last = *expected.shape().last().unwrap_or(&1);
        for (position, (g, w)) in got.chunks(last).zip(wanted.chunks(last)).enumerate() {
            places += 1;
            let (g, w) = (float_class(g), float_class(w));
            agree += usize::from(g == w);
            if let Some(labels) = &labels {
                let each = labels.len() / expected.shape()[0];
                let label = labels.get(at * each + position.min(each.saturating_sub(1)));
                float_right += usize::from(label == Some(&(w as i64)));
                integer_right += usize::from(label == Some(&(g as i64)));
            }
        }
    }
    let percent = |count: usize| 100.0 * count as f64 / places.max(1) as f64;
    println!(
        "{name:<30} {:>5}  {:<9?} {:>7.1}  {:>5.1}%  {:>5.1}%  {:>5.1}%  ({})",
        compiled.model.program.nodes.len(),
        compiled.report.precision,
        10.0 * (signal / noise.max(1e-300)).log10(),
        percent(agree),
        percent(float_right),
        percent(integer_right),
        test.len(),
    );
    Ok(())
}
