//! `cargo xtask accuracy`: what quantising costs, in right answers.
//!
//! The shipped models are tested on the digits they never saw. With `--mnist DIR` a LeNet is trained (by the training
//! script, into `target/accuracy/`) on the first 8,000 images of `DIR` and tested on the last 2,000; `--model FILE`
//! takes one that was trained before.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// What a run is asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Folder with the test files of MNIST.
    pub mnist: Option<PathBuf>,
    /// A LeNet that was trained on its first 8,000 images.
    pub model: Option<PathBuf>,
    /// The Python that trains one.
    pub python: Option<PathBuf>,
}

impl Options {
    /// Reads `--mnist DIR`, `--model FILE` and `--python PATH`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let slot = match word {
                "--mnist" => &mut options.mnist,
                "--model" => &mut options.model,
                "--python" => &mut options.python,
                other => bail!(
                    "accuracy does not know `{other}`; it takes --mnist, --model and --python"
                ),
            };
            let value = rest
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            *slot = Some(PathBuf::from(value));
        }
        ensure!(
            options.mnist.is_some() || options == Self::default(),
            "--model and --python belong to --mnist DIR"
        );
        Ok(options)
    }
}

/// Prints float and integer accuracy, and fails if quantising costs more right answers than allowed.
///
/// # Errors
/// If a model loses too much, or a file or a Python package is missing.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    compare(root, &[])?;
    let Some(folder) = &options.mnist else {
        return Ok(());
    };
    let folder = fs::canonicalize(folder)
        .with_context(|| format!("the folder `{}` cannot be read", folder.display()))?;
    let model = match &options.model {
        Some(model) => model.clone(),
        None => train(root, &folder, options.python.as_deref())?,
    };
    let words = [
        "--mnist".as_ref(),
        folder.as_path(),
        "--model".as_ref(),
        model.as_path(),
    ];
    compare(root, &words)
}

fn compare(root: &Path, words: &[&Path]) -> Result<()> {
    let mut check = process::example(root, "tg-compile", "accuracy");
    process::run(check.args(words), "the accuracy check failed")
}

#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn train(root: &Path, folder: &Path, python: Option<&Path>) -> Result<PathBuf> {
    let python = python.unwrap_or_else(|| Path::new("python3"));
    let packages = Command::new(python)
        .args(["-c", "import numpy, onnx"])
        .output()
        .with_context(|| {
            format!(
                "`{}` cannot be started; give --python PATH or --model FILE",
                python.display()
            )
        })?;
    ensure!(
        packages.status.success(),
        "MNIST IS NOT CHECKED: training its model needs the Python packages numpy and onnx, and `{}` does not have them.\n\
         Install models/train/requirements.txt into an environment and give --python ENV/bin/python, or give --model FILE.",
        python.display()
    );
    let out = root.join("target/accuracy/lenet-mnist.onnx");
    eprintln!("training a LeNet on the first 8,000 images (about 20 s on one core)");
    let status = Command::new(python)
        .arg(root.join("models/train/train_digits.py"))
        .arg("--mnist")
        .arg(folder)
        .arg("--out")
        .arg(&out)
        .stdout(std::process::Stdio::null())
        .status()
        .context("the training script cannot be started")?;
    ensure!(status.success(), "the training script failed");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let path = |text: &str| Some(PathBuf::from(text));
        let read = Options::parse(&["--mnist", "d", "--python", "p"]);
        let expected = Options {
            mnist: path("d"),
            model: None,
            python: path("p"),
        };
        assert_eq!(read.ok(), Some(expected));
        assert_eq!(Options::parse(&[]).ok(), Some(Options::default()));
    }

    #[test]
    fn bad_options_are_named() {
        let check = |words: &[&str], text: &str| {
            let shown = Options::parse(words).map_or_else(|e| e.to_string(), |_| String::new());
            assert!(shown.contains(text), "{shown:?}");
        };
        check(&["--mnist"], "--mnist needs a value");
        check(&["--cifar", "x"], "does not know `--cifar`");
        check(&["--model", "m"], "belong to --mnist");
    }
}
