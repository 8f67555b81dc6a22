//! One program of one output: compiled, compared with the expected answer, proved, verified.

use crate::case::chain;
use tg_compile::integer::{InputOrder, LowerError, Precision, input_order};
use tg_compile::passes::{PrepareError, PrepareOptions, prepare};
use tg_compile::{CompileError, CompileOptions, Compiled, PrecisionChoice, compile_prepared};
use tg_exec::sample::Numbers;
use tg_float::tgf::{self, Budget};
use tg_float::{FloatTensor, Graph, convert};
use tg_ir::Answer;
use tg_ir::coding::encode;
use tg_proof::{ExpectedStatement, verify};
use tg_prover::{ModelError, ProveRequest, ProvingModel, prove};
use tg_types::{Address, Digest, JobId};

/// Calibration inputs beside the case's own.
const NOISY: usize = 7;
/// Noise of an input, as a share of each element.
const NOISE: f32 = 0.05;
/// Least signal to noise ratio of an answer that is proved, in decibels.
const SNR_LEAST: f64 = 20.0;

/// How an attempt ended.
pub(crate) enum Attempt {
    Proved,
    Refused(String),
    Poor(String),
    Wrong(String),
}

/// A graph of one output with what it reads and should give.
pub(crate) struct Program<'a> {
    pub(crate) graph: Graph,
    pub(crate) given: &'a [(String, FloatTensor)],
    pub(crate) expected: &'a FloatTensor,
}

impl Program<'_> {
    /// With the precision that the compiler chooses, then with each one until one can be proved and is good enough.
    pub(crate) fn prove(&self) -> Attempt {
        let prepared = match prepare(self.graph.clone(), &PrepareOptions::default()) {
            Ok(prepared) => prepared,
            Err(error) => return Attempt::Refused(why_prepared(&error)),
        };
        let (_, order) = match input_order(&prepared) {
            Ok(found) => found,
            Err(error) => return Attempt::Refused(why_lowered(&error)),
        };
        let names = prepared.graph.inputs.iter().map(|input| &input.name);
        let tensor = |name: &String| self.given.iter().find(|(own, _)| own == name);
        let own: Option<Vec<FloatTensor>> = names
            .map(|name| tensor(name).map(|(_, tensor)| tensor.clone()))
            .collect();
        let Some(own) = own else {
            return Attempt::Wrong("an input changed its name".to_owned());
        };
        let rows = calibration(&prepared.graph, &own, &order);
        let mut last = None;
        let fixed = PrecisionChoice::Fixed;
        for precision in [
            PrecisionChoice::Auto,
            fixed(Precision::Bits16),
            fixed(Precision::Bits8),
            fixed(Precision::Mixed),
        ] {
            let options = CompileOptions {
                precision,
                ..CompileOptions::default()
            };
            let compiled = match compile_prepared(prepared.clone(), &rows, &options) {
                Ok(compiled) => compiled,
                Err(error) => {
                    last.get_or_insert(Attempt::Refused(why(&error)));
                    // Another precision has the same operators.
                    break;
                }
            };
            match self.check(&compiled, &rows[0]) {
                done @ (Attempt::Proved | Attempt::Wrong(_)) => return done,
                other => {
                    last.get_or_insert(other);
                }
            }
        }
        last.unwrap_or_else(|| Attempt::Refused("nothing was tried".to_owned()))
    }

    fn check(&self, compiled: &Compiled, row: &[f32]) -> Attempt {
        let Some(expected) = convert::to_f64(self.expected.data()) else {
            return Attempt::Refused("its answer is not of numbers".to_owned());
        };
        match compiled.float_output(row) {
            Ok(floats) => {
                let floats: Vec<f64> = floats.into_iter().map(f64::from).collect();
                let snr = snr_db(&expected, &floats);
                if snr < SNR_LEAST {
                    return Attempt::Wrong(format!("the prepared graph answers at {snr:.1} dB"));
                }
            }
            Err(error) => return Attempt::Wrong(chain(&error)),
        }
        self.prove_compiled(compiled, row, &expected)
    }

    fn prove_compiled(&self, compiled: &Compiled, row: &[f32], expected: &[f64]) -> Attempt {
        let program = &compiled.model.program;
        let input = match encode(&program.input, row) {
            Ok(input) => input,
            Err(error) => return Attempt::Refused(chain(&error)),
        };
        let trace = match tg_exec::execute_tensor(&compiled.model, input.clone()) {
            Ok(trace) => trace,
            Err(error) => return Attempt::Wrong(chain(&error)),
        };
        let values = trace.output().widened();
        let snr = snr_db(expected, &Answer::new(program, &values).reals());
        if snr < SNR_LEAST {
            return Attempt::Poor(format!("{snr:.1} dB"));
        }
        let model = match ProvingModel::of_checked(compiled.model.clone()) {
            Ok(model) => model,
            Err(error) => return Attempt::Refused(why_not_proved(&error)),
        };
        let public = match model.register() {
            Ok(public) => public,
            Err(error) => return Attempt::Refused(why_not_proved(&error)),
        };
        let names = (JobId::default(), Address::default());
        let request = ProveRequest::of(vec![input.clone()]).named(names.0, names.1);
        let (file, proved) = match prove(&model, request, &mut |_| ()) {
            Ok(proved) => proved,
            Err(error) => return Attempt::Refused(chain(&error)),
        };
        if proved[0].output() != trace.output() || file.output != trace.output().to_bytes() {
            return Attempt::Wrong("the proof is of another answer".to_owned());
        }
        let digest = |bytes: &[u8]| Some(Digest::of_blob(bytes));
        let asked = ExpectedStatement {
            input: digest(&input.to_bytes()),
            output: digest(&file.output),
            ..ExpectedStatement::default()
        };
        match verify(&public, &file, &asked) {
            Ok(()) => Attempt::Proved,
            Err(error) => Attempt::Wrong(format!("the proof is refused: {}", chain(&error))),
        }
    }
}

/// The case's own input, and inputs with noise on which the graph is finite wherever it is on that.
fn calibration(graph: &Graph, own: &[FloatTensor], order: &InputOrder) -> Vec<Vec<f32>> {
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
    use tg_proof::PlanError;
    match error {
        ModelError::Plan(PlanError::Unprovable { op, why, .. }) => {
            format!("a proof of {op}: {why}")
        }
        ModelError::Plan(PlanError::TooCostly { what, .. }) => format!("a proof: too many {what}"),
        _ => format!("a proof: {}", general(error)),
    }
}

/// An error's chain with what stands in backquotes and brackets left out, and numbers as N.
fn general(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut quoted = false;
    for letter in chain(error).chars() {
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
