//! Runs the corpus of exporter output on tier TGF-1 and compares with onnxruntime; the table of `docs/CORPUS.md`.
//!
//! `cargo run -p tg-model --example corpus -- DIR`, where DIR was made by `cargo xtask corpus`. Small models run all
//! samples (at most 256), models of more than 2 MB run 16.

mod measure;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tg_model::net::npy::read_npy;
use tg_model::net::{ReadLimits, Tensor, read, tgf};

use crate::measure::{Score, Task, budget, chain, floats};

/// Greatest relative error allowed.
const ERROR_MAX: f64 = 1e-4;
/// Samples of a small and of a large model.
const SAMPLES: [usize; 2] = [256, 16];
/// From how many bytes on a model is large.
const LARGE_BYTES: u64 = 2 << 20;

/// One model of the corpus with its inputs and onnxruntime's answers.
struct Entry {
    folder: PathBuf,
    name: String,
    exporter: String,
    task: Task,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    labels: Option<Tensor>,
    samples: usize,
}

impl Entry {
    fn load(folder: &Path) -> Result<Self> {
        let text = fs::read_to_string(folder.join("entry.json"))?;
        let json: Value = serde_json::from_str(&text)?;
        let word = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let arrays = |start: &str| -> Result<Vec<Tensor>> {
            (0..)
                .map(|index| folder.join(format!("{start}.{index}.npy")))
                .take_while(|path| path.exists())
                .map(|path| array(&path))
                .collect()
        };
        let labels = folder.join("labels.npy");
        let inputs = arrays("test")?;
        let available = inputs.first().map_or(0, |input| input.shape()[0]);
        let large = folder_bytes(folder)? > LARGE_BYTES;
        Ok(Self {
            folder: folder.to_path_buf(),
            name: word("name"),
            exporter: word("exporter"),
            task: match word("measure").as_str() {
                "accuracy" => Task::Accuracy,
                "perplexity" => Task::Perplexity,
                _ => Task::Noise,
            },
            outputs: arrays("expected")?,
            labels: labels.exists().then(|| array(&labels)).transpose()?,
            samples: available.min(SAMPLES[usize::from(large)]),
            inputs,
        })
    }

    /// Labels of a sample's rows.
    fn labels_of(&self, k: usize) -> Result<Vec<i64>> {
        let Some(labels) = &self.labels else {
            return Ok(Vec::new());
        };
        let row = sample(labels, k)?;
        Ok(row.values::<i64>().unwrap_or_default().to_vec())
    }
}

fn array(path: &Path) -> Result<Tensor> {
    let bytes = fs::read(path)?;
    read_npy(&bytes).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// Sample `k` of stacked samples, as a batch of one.
fn sample(stacked: &Tensor, k: usize) -> Result<Tensor> {
    let [count, rest @ ..] = stacked.shape() else {
        bail!("an array without axes holds no samples");
    };
    if k >= *count {
        bail!("there are {count} samples");
    }
    let length: usize = rest.iter().product();
    let places: Vec<usize> = (k * length..(k + 1) * length).collect();
    let shape = std::iter::once(1).chain(rest.iter().copied()).collect();
    Ok(Tensor::new(shape, stacked.data().gather(&places))?)
}

/// Bytes of the model's files.
fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("model.onnx") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// What became of an entry.
enum Outcome {
    Ran(Score),
    Refused(String),
    Failed(String),
}

/// Runs the samples of an entry in TGF-1.
fn float_tier(entry: &Entry) -> Result<Outcome> {
    let bytes = fs::read(entry.folder.join("model.onnx"))?;
    let graph = match read(&bytes, Some(&entry.folder), &ReadLimits::default()) {
        Ok(graph) => graph,
        Err(error) => return Ok(Outcome::Refused(chain(&error))),
    };
    let mut score = Score::default();
    for k in 0..entry.samples {
        let inputs: Vec<Tensor> = entry
            .inputs
            .iter()
            .map(|input| sample(input, k))
            .collect::<Result<_>>()?;
        let borrowed: Vec<&Tensor> = inputs.iter().collect();
        let got = match tgf::run(&graph, &borrowed, &budget()) {
            Ok(got) => got,
            Err(error) => return Ok(Outcome::Refused(chain(&error))),
        };
        if let Err(error) = compare(entry, k, &got, &mut score) {
            return Ok(Outcome::Failed(format!("sample {k}: {error:#}")));
        }
    }
    Ok(Outcome::Ran(score))
}

fn compare(entry: &Entry, k: usize, got: &[Tensor], score: &mut Score) -> Result<()> {
    if got.len() != entry.outputs.len() {
        bail!("{} outputs for {}", got.len(), entry.outputs.len());
    }
    let labels = entry.labels_of(k)?;
    let mut scored = false;
    for (index, (got, expected)) in got.iter().zip(&entry.outputs).enumerate() {
        let expected = sample(expected, k)?;
        let (Some(ours), Some(theirs)) = (floats(got), floats(&expected)) else {
            if got.data() != expected.data() {
                bail!("output {index} differs");
            }
            continue;
        };
        if ours.len() != theirs.len() {
            bail!(
                "output {index} has {} elements for {}",
                ours.len(),
                theirs.len()
            );
        }
        // The first float output holds the scores; the others are compared only.
        if scored {
            score.error = score.error.max(measure::relative_error(&ours, &theirs));
        } else {
            let classes = expected.shape().last().copied().unwrap_or(1);
            score.add(&ours, &theirs, classes, &labels);
            scored = true;
        }
    }
    Ok(())
}

fn task_text(task: Task, score: &Score) -> String {
    match (task, score.task(task)) {
        (Task::Accuracy, Some([ours, theirs])) => format!("{ours:.2} % ({theirs:.2} %) right"),
        (Task::Perplexity, Some([ours, theirs])) => format!("perplexity {ours:.4} ({theirs:.4})"),
        _ => "random weights or a regression".to_owned(),
    }
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn run(folder: &Path) -> Result<bool> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("`{}` cannot be read", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    folders.retain(|path| path.join("entry.json").exists());
    folders.sort();
    if folders.is_empty() {
        bail!("`{}` holds no entry of a corpus", folder.display());
    }
    println!(
        "| model | written by | samples | greatest relative error | same top class | task: ours (onnxruntime's) |"
    );
    println!("|---|---|---|---|---|---|");
    let (mut within, mut good) = (0, true);
    for path in &folders {
        let entry = Entry::load(path).with_context(|| path.display().to_string())?;
        eprintln!("{}", entry.name);
        let Entry {
            name,
            exporter,
            samples,
            ..
        } = &entry;
        match float_tier(&entry)? {
            Outcome::Ran(score) => {
                // One flipped rounding of a quantised model is a whole step: its errors are shown, not judged.
                let judged = !exporter.contains("quantization");
                let fits = score.error <= ERROR_MAX;
                within += usize::from(fits);
                good &= fits || !judged;
                let mark = if fits || !judged {
                    ""
                } else {
                    " **above 1e-4**"
                };
                println!(
                    "| {name} | {exporter} | {samples} | {:.1e}{mark} | {:.2} % | {} |",
                    score.error,
                    score.agreement(),
                    task_text(entry.task, &score)
                );
            }
            Outcome::Refused(reason) => {
                good = false;
                println!("| {name} | {exporter} | 0 | refused: {reason} | | |");
            }
            Outcome::Failed(reason) => {
                good = false;
                println!("| {name} | {exporter} | {samples} | **wrong**: {reason} | | |");
            }
        }
    }
    println!(
        "\n{within} of {} models within a relative error of 1e-4.",
        folders.len()
    );
    Ok(good)
}

#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: corpus DIR");
        return ExitCode::FAILURE;
    };
    match run(Path::new(&folder)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_rows() {
        let all = Tensor::of(vec![2, 2], vec![1.5f32, 2.0, -3.0, 4.0]).expect("four elements");
        let row = sample(&all, 1).expect("two samples");
        assert_eq!(row.shape(), [1, 2]);
        assert_eq!(row.values::<f32>(), Some(&[-3.0, 4.0][..]));
        assert!(sample(&all, 2).is_err());
        assert!(sample(&Tensor::scalar(1.0f32), 0).is_err());
    }
}
