//! Tier TGX-1 on an entry: compiled on its calibration arrays, compared with onnxruntime's answers.

use anyhow::{Context, Result};
use tg_compile::calibrate::ReachRule;
use tg_compile::passes::prepare;
use tg_compile::{CompileOptions, Compiled, PrecisionChoice, compile_prepared, explain, integer};
use tg_exec::Engine;
use tg_exec::engine::values::Values;
use tg_exec::kernels::Cpu;
use tg_float::FloatTensor;
use tg_ir::coding;
use tg_types::with_sources;

use crate::entry::{Entry, sample};
use crate::measure::{Score, Task, floats};

/// Most samples that a model is calibrated on.
const CALIBRATION: usize = 64;

/// What is asked of the tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Options {
    pub(crate) precision: PrecisionChoice,
    pub(crate) reach: ReachRule,
    pub(crate) smooth: Option<f64>,
    /// Most samples of an entry.
    pub(crate) samples: usize,
    /// Print the program and the report by layer.
    pub(crate) explain: bool,
}

/// Outputs of a quantised file in steps of its last scale.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Steps {
    outputs: usize,
    differing: usize,
    greatest: f64,
}

impl Steps {
    fn add(&mut self, got: &[f64], expected: &[f64], scale: f64) {
        for (got, expected) in got.iter().zip(expected) {
            let steps = ((got - expected) / scale).abs();
            self.outputs += 1;
            self.differing += usize::from(steps > 0.5);
            self.greatest = self.greatest.max(steps);
        }
    }
}

/// The head of the table.
pub(crate) const HEAD: &str = "\
| model | samples | activations, channel scales | signal to noise | same top class | task: integers (float) | outputs that differ |
|---|---|---|---|---|---|---|";

/// The row of an entry, and whether it was compiled.
pub(crate) fn row(entry: &Entry, options: &Options) -> Result<(String, bool)> {
    let name = &entry.name;
    let compiled = match compile(entry, options)? {
        Ok(compiled) => compiled,
        Err(reason) => return Ok((format!("| {name} | 0 | refused: {reason} | | | | |"), false)),
    };
    let (score, steps, samples) = run(entry, &compiled, options.samples)?;
    let report = &compiled.report;
    let task = match (entry.task, score.task(entry.task)) {
        (Task::Accuracy, Some([ours, theirs])) => {
            let [right, wanted] = score.right();
            format!("{ours:.2} % ({theirs:.2} %) right, {right} of {wanted}")
        }
        (Task::Perplexity, Some([ours, theirs])) => {
            let more = 100.0 * (ours / theirs - 1.0);
            format!("perplexity {ours:.4} ({theirs:.4}), {more:+.2} %")
        }
        _ => String::new(),
    };
    let differing = if entry.is_quantised() {
        let Steps {
            outputs,
            differing,
            greatest,
        } = steps;
        format!("{differing} of {outputs}, by {greatest:.0} at most")
    } else {
        String::new()
    };
    let top = if score.classes() > 1 {
        format!("{:.2} %", score.agreement())
    } else {
        String::new()
    };
    let text = format!(
        "| {name} | {samples} | {:?}, {:?} | {:.1} dB | {top} | {task} | {differing} |",
        report.precision,
        report.scales,
        score.snr_db(),
    );
    Ok((text, true))
}

/// The compiled model, or why there is none.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn compile(entry: &Entry, options: &Options) -> Result<Result<Compiled, String>> {
    let graph = match entry.graph() {
        Ok(graph) => graph,
        Err(reason) => return Ok(Err(reason)),
    };
    let before = explain::operators(&graph);
    let prepared = match prepare(graph, &entry.preparation()) {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Err(with_sources(&error))),
    };
    let order = match integer::input_order(&prepared) {
        Ok((_, order)) => order,
        Err(error) => return Ok(Err(with_sources(&error))),
    };
    let places = places(entry, &prepared.graph);
    let stacks = entry.calibration()?;
    let count = stacks.first().map_or(0, |stack| stack.shape()[0]);
    let calibration: Result<Vec<Vec<f32>>> = (0..count.min(CALIBRATION))
        .map(|k| Ok(order.row(&inputs(&stacks, &places, k)?)))
        .collect();
    let told = CompileOptions {
        precision: options.precision,
        reach: options.reach,
        smooth: options.smooth,
        ..CompileOptions::default()
    };
    let compiled = match compile_prepared(prepared, &calibration?, &told) {
        Ok(compiled) => compiled,
        Err(error) => return Ok(Err(with_sources(&error))),
    };
    if options.explain {
        println!("{}", explain::report(&before, &compiled));
    }
    Ok(Ok(compiled))
}

/// Which array each input of the graph is.
fn places(entry: &Entry, graph: &tg_float::Graph) -> Vec<usize> {
    let place = |name: &String| entry.input_names.iter().position(|own| own == name);
    let inputs = graph.inputs.iter();
    inputs
        .map(|input| place(&input.name).unwrap_or(0))
        .collect()
}

fn inputs(stacks: &[FloatTensor], places: &[usize], k: usize) -> Result<Vec<FloatTensor>> {
    places.iter().map(|&at| sample(&stacks[at], k)).collect()
}

fn run(entry: &Entry, compiled: &Compiled, most: usize) -> Result<(Score, Steps, usize)> {
    let places = places(entry, &compiled.float.graph);
    let expected = entry
        .outputs
        .get(entry.scores())
        .context("the entry has no output")?;
    let available = entry.inputs.first().map_or(0, |stack| stack.shape()[0]);
    let samples = available.min(most);
    let spec = &compiled.model.program.input;
    let mut engine = Engine::new(&compiled.model, Cpu::new(1));
    let (mut score, mut steps) = (Score::default(), Steps::default());
    for k in 0..samples {
        let row = compiled.order.row(&inputs(&entry.inputs, &places, k)?);
        let integers = coding::encode(spec, &row)?;
        let output = engine.run(Values::from(&integers))?.to_tensor();
        let real =
            |v: &i32| (f64::from(*v) - compiled.output().zero as f64) * compiled.output().scale;
        let got: Vec<f64> = compiled.in_file_order(&output).iter().map(real).collect();
        let expected = sample(expected, k)?;
        let wanted = floats(&expected).context("the output is not of floats")?;
        let classes = expected.shape().last().copied().unwrap_or(1);
        score.add(&got, &wanted, classes, &entry.labels_of(k)?);
        steps.add(&got, &wanted, compiled.output().scale);
    }
    Ok((score, steps, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_in_units() {
        let mut steps = Steps::default();
        steps.add(&[1.0, 2.5, -1.0], &[1.0, 2.0, -1.1], 0.5);
        let expected = Steps {
            outputs: 3,
            differing: 1,
            greatest: 1.0,
        };
        assert_eq!(steps, expected);
    }
}
