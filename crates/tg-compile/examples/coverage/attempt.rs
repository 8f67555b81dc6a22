//! One program of one output or of several: compiled, compared with the expected answer, proved, verified.

use crate::cost::{ProofCost, cpu_ms};
use tg_compile::integer::{InputOrder, LowerError, Precision, input_order};
use tg_compile::passes::{PrepareError, PrepareOptions, prepare};
use tg_compile::{CompileError, CompileOptions, Compiled, PrecisionChoice, compile_taken};
use tg_exec::{IntTensor, Trace, sample::Numbers};
use tg_float::tgf::{self, Budget};
use tg_float::{FloatTensor, Graph, convert};
use tg_ir::Answer;
use tg_ir::coding::encode;
use tg_proof::{ExpectedStatement, PlanError, ProofFile, verify};
use tg_prover::{ModelError, ProveError, ProveRequest, ProvingModel, prove};
use tg_types::{Address, Digest, JobId, with_sources};

/// Calibration inputs beside the case's own.
const NOISY: usize = 7;
/// Noise of an input, as a share of each element.
const NOISE: f32 = 0.05;
/// Least signal to noise ratio of an answer that is proved, in decibels.
const SNR_LEAST: f64 = 20.0;

/// Runs of a proof whose cost is measured, unless one takes as many milliseconds as below.
const RUNS: usize = 3;
/// See [`RUNS`].
const ONCE_MS: f64 = 500.0;

/// How an attempt ended.
pub(crate) enum Attempt {
    Proved(ProofCost),
    Refused(String),
    Poor(String),
    Wrong(String),
}

/// What proving gives.
type Made = Result<(ProofFile, Vec<Trace>), ProveError>;

/// The inputs of one request, by name.
pub(crate) type Given = Vec<(String, FloatTensor)>;

/// A graph with what it reads and what its outputs should be.
pub(crate) struct Program<'a> {
    pub(crate) graph: Graph,
    pub(crate) given: &'a Given,
    /// Inputs that it is calibrated on; none: its own, and some with noise.
    pub(crate) calibration: &'a [Given],
    pub(crate) expected: &'a [FloatTensor],
    pub(crate) options: PrepareOptions,
    /// This precision, whatever its answer is worth, with the cost of the proof measured; none: the one that the compiler
    /// chooses, and an answer that is too far from the expected one is not proved.
    pub(crate) precision: Option<Precision>,
}

impl Program<'_> {
    /// With the precision that is asked for, or that the compiler chooses among those that can be proved.
    pub(crate) fn prove(&self) -> Attempt {
        let prepared = match prepare(self.graph.clone(), &self.options) {
            Ok(prepared) => prepared,
            Err(error) => return Attempt::Refused(why_prepared(&error)),
        };
        let (_, order) = match input_order(&prepared) {
            Ok(found) => found,
            Err(error) => return Attempt::Refused(why_lowered(&error)),
        };
        let Some(own) = in_order(&prepared.graph, self.given) else {
            return Attempt::Wrong("an input changed its name".to_owned());
        };
        let rows = if self.calibration.is_empty() {
            noisy(&prepared.graph, &own, &order)
        } else {
            let all = self.calibration.iter();
            let all = all.filter_map(|given| in_order(&prepared.graph, given));
            all.map(|tensors| order.row(&tensors)).collect()
        };
        let row = order.row(&own);
        let taken = |program: tg_ir::CheckedProgram<'_>| match tg_prover::provable(program) {
            Ok(()) => Ok(()),
            Err(error) => Err(why_not_planned(&error)),
        };
        let options = CompileOptions {
            precision: self
                .precision
                .map_or(PrecisionChoice::Auto, PrecisionChoice::Fixed),
            ..CompileOptions::default()
        };
        let compiled = match compile_taken(prepared, &rows, &options, &taken) {
            Ok(compiled) => compiled,
            Err(error) => return Attempt::Refused(why(&error)),
        };
        self.check(&compiled, &row, &rows)
    }

    fn check(&self, compiled: &Compiled, row: &[f32], rows: &[Vec<f32>]) -> Attempt {
        let expected = self.expected.iter();
        let expected = expected.map(|tensor| convert::to_f64(tensor.data()));
        let Some(expected) = expected.collect::<Option<Vec<_>>>() else {
            return Attempt::Refused("its answer is not of numbers".to_owned());
        };
        match floats(compiled, row) {
            Ok(floats) => {
                for (expected, floats) in expected.iter().zip(&floats) {
                    let snr = snr_db(expected, floats);
                    if snr < SNR_LEAST {
                        let text = format!("the prepared graph answers at {snr:.1} dB");
                        return Attempt::Wrong(text);
                    }
                }
            }
            Err(error) => return Attempt::Wrong(with_sources(&error)),
        }
        // A single small number says little: the answers to the calibration's inputs count as signal, too.
        let mut answers = vec![Vec::new(); expected.len()];
        if !self.calibration.is_empty() {
            for outputs in rows.iter().filter_map(|row| floats(compiled, row).ok()) {
                let pairs = answers.iter_mut().zip(outputs);
                pairs.for_each(|(answers, output)| answers.extend(output));
            }
        }
        self.prove_compiled(compiled, row, &expected, &answers)
    }

    fn prove_compiled(
        &self,
        compiled: &Compiled,
        row: &[f32],
        expected: &[Vec<f64>],
        answers: &[Vec<f64>],
    ) -> Attempt {
        let program = &compiled.model.program;
        let input = match encode(&program.input, row) {
            Ok(input) => input,
            Err(error) => return Attempt::Refused(with_sources(&error)),
        };
        let trace = match tg_exec::execute_tensor(&compiled.model, input.clone()) {
            Ok(trace) => trace,
            Err(error) => return Attempt::Wrong(with_sources(&error)),
        };
        let values = trace.output_values();
        let outputs = Answer::all(program, &values);
        if outputs.len() != expected.len() {
            return Attempt::Wrong("the program has other outputs than the graph".to_owned());
        }
        let mut least_snr = f64::INFINITY;
        for ((output, expected), answers) in outputs.iter().zip(expected).zip(answers) {
            let got = output.reals();
            let snr = snr_db(expected, &got).max(snr_among(answers, expected, &got));
            if snr < SNR_LEAST && self.precision.is_none() {
                return Attempt::Poor(format!("{snr:.1} dB"));
            }
            least_snr = least_snr.min(snr);
        }
        let model = match ProvingModel::of_checked(compiled.model.clone()) {
            Ok(model) => model,
            Err(error) => return Attempt::Refused(why_not_proved(&error)),
        };
        let public = match model.register() {
            Ok(public) => public,
            Err(error) => return Attempt::Refused(why_not_proved(&error)),
        };
        let (made, cpu_ms) = self.timed(&model, &input);
        let (file, proved) = match made {
            Ok(proved) => proved,
            Err(error) => return Attempt::Refused(with_sources(&error)),
        };
        if proved[0] != trace || file.output != trace.output_bytes() {
            return Attempt::Wrong("the proof is of another answer".to_owned());
        }
        let digest = |bytes: &[u8]| Some(Digest::of_blob(bytes));
        let asked = ExpectedStatement {
            input: digest(&input.to_bytes()),
            output: digest(&file.output),
            ..ExpectedStatement::default()
        };
        match verify(&public, &file, &asked) {
            Ok(()) => Attempt::Proved(ProofCost {
                cpu_ms,
                snr_db: least_snr,
            }),
            Err(error) => Attempt::Wrong(format!("the proof is refused: {}", with_sources(&error))),
        }
    }
}

impl Program<'_> {
    /// A proof, and its processor time in milliseconds: the least of a few where it is measured.
    fn timed(&self, model: &ProvingModel, input: &IntTensor) -> (Made, f64) {
        let once = || {
            let request = ProveRequest::of(vec![input.clone()]);
            let request = request.named(JobId::default(), Address::default());
            let start = cpu_ms();
            let made = prove(model, request, &mut |_| ());
            (made, cpu_ms() - start)
        };
        let (made, mut least_ms) = once();
        for _ in 1..RUNS {
            if self.precision.is_some() && least_ms < ONCE_MS {
                least_ms = least_ms.min(once().1);
            }
        }
        (made, least_ms)
    }
}

/// The outputs of the float model.
fn floats(compiled: &Compiled, row: &[f32]) -> Result<Vec<Vec<f64>>, tgf::RunError> {
    let outputs = compiled.float_outputs(row)?.into_iter();
    let wide = outputs.map(|output| output.into_iter().map(f64::from).collect());
    Ok(wide.collect())
}

/// The tensors of a request in the order of the graph's inputs; none if one is not there.
fn in_order(graph: &Graph, given: &Given) -> Option<Vec<FloatTensor>> {
    let tensor = |name: &String| given.iter().find(|(own, _)| own == name);
    let names = graph.inputs.iter().map(|input| &input.name);
    let tensors = names.map(|name| tensor(name).map(|(_, tensor)| tensor.clone()));
    tensors.collect()
}

/// The case's own input, and inputs with noise on which the graph is finite wherever it is on that.
fn noisy(graph: &Graph, own: &[FloatTensor], order: &InputOrder) -> Vec<Vec<f32>> {
    let mut numbers = Numbers::new(1);
    let mut rows = vec![order.row(own)];
    for _ in 0..NOISY {
        let noisy: Vec<FloatTensor> = own
            .iter()
            .map(|tensor| with_noise(tensor, &mut numbers))
            .collect();
        let given: Vec<&FloatTensor> = noisy.iter().collect();
        let finite = tgf::run_all(graph, &given, &Budget::default()).is_ok_and(|values| {
            values.values().all(|tensor| {
                let floats = convert::to_f32(tensor.data());
                floats.is_none_or(|floats| floats.iter().all(|x| x.is_finite()))
            })
        });
        if finite {
            rows.push(order.row(&noisy));
        }
    }
    rows
}

/// Floats a little larger or smaller; anything else as it is.
fn with_noise(tensor: &FloatTensor, numbers: &mut Numbers) -> FloatTensor {
    let Some(values) = convert::to_f64(tensor.data()).filter(|_| tensor.dtype().is_float()) else {
        return tensor.clone();
    };
    let mut factor = || 1.0 + f64::from(NOISE) * (numbers.between(-1000, 1000) as f64 / 1000.0);
    let values: Vec<f64> = values.iter().map(|value| value * factor()).collect();
    let data = convert::from_f64(&values, tensor.dtype(), convert::CastMode::default());
    data.and_then(|data| FloatTensor::new(tensor.shape().to_vec(), data).ok())
        .unwrap_or_else(|| tensor.clone())
}

/// Mean power of many answers over that of the difference of one, in decibels.
fn snr_among(answers: &[f64], expected: &[f64], got: &[f64]) -> f64 {
    let power = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    if answers.is_empty() || expected.len() != got.len() {
        return f64::NEG_INFINITY;
    }
    let apart: Vec<f64> = expected.iter().zip(got).map(|(a, b)| a - b).collect();
    let signal = power(answers) / answers.len() as f64;
    let ratio = 10.0 * (signal * expected.len() as f64 / power(&apart)).log10();
    if ratio.is_nan() {
        f64::NEG_INFINITY
    } else {
        ratio
    }
}

/// Power of the expected values over that of the difference, in decibels; infinite if there is none.
fn snr_db(expected: &[f64], got: &[f64]) -> f64 {
    if expected.len() != got.len() {
        return f64::NEG_INFINITY;
    }
    let (mut signal, mut noise) = (0.0, 0.0);
    for (&expected, &got) in expected.iter().zip(got) {
        if expected == got || expected.is_nan() && got.is_nan() {
            signal += if expected.is_finite() {
                expected * expected
            } else {
                0.0
            };
            continue;
        }
        signal += expected * expected;
        noise += (expected - got).powi(2);
    }
    if noise == 0.0 {
        return f64::INFINITY;
    }
    if noise.is_finite() && signal.is_finite() {
        10.0 * (signal / noise).log10()
    } else {
        f64::NEG_INFINITY
    }
}

// ---------------------------------------------------------------- reasons, without names and numbers of one case

fn why(error: &CompileError) -> String {
    match error {
        CompileError::Prepare(error) => why_prepared(error),
        CompileError::Lower(error) => why_lowered(error),
        CompileError::Calibration(_) | CompileError::Normalisation { .. } => general(error),
    }
}

fn why_prepared(error: &PrepareError) -> String {
    match error {
        PrepareError::Node { op, reason, .. } => format!("{op}: {reason}"),
        PrepareError::Operator { op, .. } => format!("{op}: it has no program of integers"),
        PrepareError::Run(tgf::RunError::Node { op, source, .. }) => {
            format!("{op}: {}", general(source))
        }
        _ => general(error),
    }
}

fn why_lowered(error: &LowerError) -> String {
    match error {
        LowerError::Unsupported {
            operator, reason, ..
        } => format!("{operator}: {reason}"),
        LowerError::Bound(error) => format!("a program: {}", general(error)),
        LowerError::Model(error) => format!("a program: {}", general(error)),
        _ => general(error),
    }
}

fn why_not_proved(error: &ModelError) -> String {
    match error {
        ModelError::Plan(error) => why_not_planned(error),
        _ => format!("a proof: {}", general(error)),
    }
}

fn why_not_planned(error: &PlanError) -> String {
    match error {
        PlanError::Unprovable { op, why, .. } => format!("a proof of {op}: {why}"),
        PlanError::TooCostly { what, .. } => format!("a proof: too many {what}"),
        _ => format!("a proof: {}", general(error)),
    }
}

/// An error's chain with what stands in backquotes and brackets left out, and numbers as N.
fn general(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut quoted = false;
    for letter in with_sources(error).chars() {
        match letter {
            '`' => {
                quoted = !quoted;
                text.push('`');
            }
            _ if quoted => {}
            digit if digit.is_ascii_digit() => {
                if !text.ends_with('N') {
                    text.push('N');
                }
            }
            other => text.push(other),
        }
    }
    text
}
