//! Runs dumped ONNX backend node tests on tier TGF-1 and prints one line per case; `cargo xtask onnx-conformance`
//! reads them.
//!
//! A case is a folder with `model.onnx`, `test_data_set_N/{input,output}_I.pb` and, if it has its own, `tolerance.txt`
//! (relative and absolute). Lines are `pass CASE OPS`, `refused CASE OPS: REASON` or `wrong CASE OPS: PROBLEM`.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use tg_float::tgf::{Budget, OpError, RunError, run_in_order};
use tg_float::{DType, Data, FloatTensor, Graph, codec, convert};
use tg_onnx::{ReadLimits, read};
use tg_types::with_sources;

/// The backend's own tolerances, where a case has none.
const TOLERANCES: (f64, f64) = (1e-3, 1e-7);
/// Cases whose expected output holds the reference's own rounding error where the exact answer is zero, and the
/// absolute tolerance that admits it.
const NOISY: [(&str, f64); 2] = [
    ("test_dft_inverse", 1e-6),
    ("test_dft_inverse_opset19", 1e-6),
];
/// Bytes that a case may take.
const BYTES_MAX: usize = 1 << 30;

/// How a case ended.
enum Outcome {
    Pass,
    Refused(String),
    Wrong(String),
}

#[expect(clippy::print_stdout, reason = "the lines are the result")]
fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, filter @ ..] = words.as_slice() else {
        bail!("usage: onnx_conformance CASES [NAME PART]");
    };
    let mut cases: Vec<_> = fs::read_dir(folder)
        .with_context(|| format!("the folder `{folder}` cannot be read"))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.join("model.onnx").is_file())
        .collect();
    cases.sort();
    for case in cases {
        let name = case
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if filter.iter().any(|part| !name.contains(part)) {
            continue;
        }
        let (operators, outcome) = check(&case)?;
        match outcome {
            Outcome::Pass => println!("pass {name} {operators}"),
            Outcome::Refused(reason) => println!("refused {name} {operators}: {reason}"),
            Outcome::Wrong(problem) => println!("wrong {name} {operators}: {problem}"),
        }
    }
    Ok(())
}

/// Runs one case: its operators and how it ended.
fn check(case: &Path) -> Result<(String, Outcome)> {
    let bytes = fs::read(case.join("model.onnx"))?;
    let graph = match read(&bytes, Some(case), &ReadLimits::default()) {
        Ok(graph) => graph,
        Err(error) => return Ok(("-".to_owned(), Outcome::Refused(with_sources(&error)))),
    };
    // What is executed is what a job would be: read back from its own encoding, and one node after the other.
    let encoded = codec::encode(&graph);
    let graph = match codec::decode(&encoded.structure, &encoded.constants) {
        Ok(again) => again,
        Err(error) => return Ok((operators(&graph), Outcome::Wrong(with_sources(&error)))),
    };
    if codec::encode(&graph) != encoded {
        let problem = "its encoding is not that of what was read back".to_owned();
        return Ok((operators(&graph), Outcome::Wrong(problem)));
    }
    let operators = operators(&graph);
    let tolerances = tolerances(case)?;
    for set in 0.. {
        let folder = case.join(format!("test_data_set_{set}"));
        if !folder.is_dir() {
            break;
        }
        let inputs = match tensors(&folder, "input") {
            Ok(inputs) => inputs,
            Err(reason) => return Ok((operators, Outcome::Refused(reason))),
        };
        let outputs = match tensors(&folder, "output") {
            Ok(outputs) => outputs,
            Err(reason) => return Ok((operators, Outcome::Refused(reason))),
        };
        let borrowed: Vec<&FloatTensor> = inputs.iter().collect();
        let outcome = match run_in_order(&graph, &borrowed, &Budget::default()).result {
            Ok(got) => compare(&got, &outputs, tolerances),
            Err(error) => failure(&error),
        };
        if !matches!(outcome, Outcome::Pass) {
            return Ok((operators, outcome));
        }
    }
    Ok((operators, Outcome::Pass))
}

/// A refusal is an outcome; anything else is a wrong one, as every case is valid.
fn failure(error: &RunError) -> Outcome {
    match error {
        RunError::Node { op, source, .. } if source.is_refusal() => match source {
            OpError::Unknown => Outcome::Refused(format!("{op} is not supported")),
            other => Outcome::Refused(format!("{op} {other}")),
        },
        _ => Outcome::Wrong(with_sources(error)),
    }
}

/// Distinct operators of the graph, in order of their names.
fn operators(graph: &Graph) -> String {
    let mut names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(",")
    }
}

fn tolerances(case: &Path) -> Result<(f64, f64)> {
    let noisy = NOISY.iter().find(|(name, _)| case.ends_with(name));
    if let Some((_, absolute)) = noisy {
        return Ok((TOLERANCES.0, *absolute));
    }
    let Ok(text) = fs::read_to_string(case.join("tolerance.txt")) else {
        return Ok(TOLERANCES);
    };
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} holds `{text}`", case.display()))?;
    match numbers.as_slice() {
        [relative, absolute] => Ok((*relative, *absolute)),
        _ => bail!(
            "{} has a tolerance file without two numbers",
            case.display()
        ),
    }
}

/// Tensors `NAME_0.pb`, `NAME_1.pb`, ... of a folder.
fn tensors(folder: &Path, name: &str) -> Result<Vec<FloatTensor>, String> {
    let mut tensors = Vec::new();
    loop {
        let path = folder.join(format!("{name}_{}.pb", tensors.len()));
        let Ok(bytes) = fs::read(&path) else {
            return Ok(tensors);
        };
        let tensor = tg_onnx::read::read_tensor(&bytes, BYTES_MAX);
        let (_, tensor) =
            tensor.map_err(|error| format!("the {name} is not read: {}", with_sources(&error)))?;
        tensors.push(tensor);
    }
}

fn compare(got: &[FloatTensor], expected: &[FloatTensor], tolerances: (f64, f64)) -> Outcome {
    if got.len() != expected.len() {
        return Outcome::Wrong(format!(
            "{} outputs, {} expected",
            got.len(),
            expected.len()
        ));
    }
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        if let Some(problem) = difference(got, expected, tolerances) {
            return Outcome::Wrong(format!("output {index} {problem}"));
        }
    }
    Outcome::Pass
}

/// Two units in the last place of the coarse types: the backend's own rule for `bf16` (its `rtol` is finer than the
/// type), taken for `f16` too.
fn coarseness(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2f64.powi(-6),
        DType::F16 => 2f64.powi(-9),
        _ => 0.0,
    }
}

/// The backend's rule: same type and shape; numbers within absolute + relative * |expected|, NaN equal to NaN.
fn difference(
    got: &FloatTensor,
    expected: &FloatTensor,
    (relative, absolute): (f64, f64),
) -> Option<String> {
    if got.dtype() != expected.dtype() || got.shape() != expected.shape() {
        return Some(format!(
            "is {:?}{:?}, {:?}{:?} expected",
            got.dtype(),
            got.shape(),
            expected.dtype(),
            expected.shape()
        ));
    }
    let coarse = coarseness(got.dtype());
    let exact = !got.dtype().is_float() && !got.dtype().is_code();
    if exact || matches!(got.data(), Data::String(_)) || got.dtype() == DType::I4 {
        return (got.data() != expected.data()).then(|| {
            let text = |tensor: &FloatTensor| {
                format!("{:?}", tensor.data())
                    .chars()
                    .take(120)
                    .collect::<String>()
            };
            format!("is {}, {} expected", text(got), text(expected))
        });
    }
    let (got, expected) = (
        convert::to_f64(got.data())?,
        convert::to_f64(expected.data())?,
    );
    let relative = relative.max(coarse);
    for (index, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
        let both_nan = got.is_nan() && expected.is_nan();
        let near = (got - expected).abs() <= absolute + relative * expected.abs();
        if !(both_nan || got == expected || near) {
            return Some(format!("has {got} at {index}, {expected} expected"));
        }
    }
    None
}
