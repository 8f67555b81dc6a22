//! `cargo xtask corpus`: the models that exporters write, with onnxruntime's answers, into `target/corpus`.
//!
//! `xtask/python/corpus_common.py` gives the layout of an entry. Two environments are used, since TensorFlow and PyTorch
//! pin different packages; each is skipped by itself where it cannot be had.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::python::{Missing, Python, or_skip};

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where the entries go.
    pub out: PathBuf,
    /// Folder with `mnist/` and `text/`; without it weights and inputs are seeded and random.
    pub data: Option<PathBuf>,
    /// Starts of the names of the entries to make; empty for all.
    pub only: Vec<String>,
    /// What a missing Python means.
    pub missing: Missing,
}

impl Options {
    /// Reads `--out DIR`, `--data DIR`, `--only NAME` (any number of times) and `--require`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(root: &Path, words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let mut options = Self {
            missing: Missing::take(&mut words),
            out: root.join("target/corpus"),
            data: None,
            only: Vec::new(),
        };
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let value = rest.next().with_context(|| format!("{word} needs a value"));
            match word {
                "--out" => options.out = PathBuf::from(value?),
                "--data" => options.data = Some(PathBuf::from(value?)),
                "--only" => options.only.push((*value?).to_owned()),
                other => bail!(
                    "corpus does not know `{other}`; it takes --out, --data, --only and --require"
                ),
            }
        }
        Ok(options)
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![self.out.clone().into_os_string()];
        if let Some(data) = &self.data {
            arguments.extend(["--data".into(), data.clone().into_os_string()]);
        }
        if !self.only.is_empty() {
            arguments.push("--only".into());
            arguments.extend(self.only.iter().map(OsString::from));
        }
        arguments
    }
}

/// Makes the corpus.
///
/// # Errors
/// If a script fails, or Python is missing where it is required.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    for (environment, script, what) in [
        (
            "corpus",
            "make_corpus.py",
            "the corpus of PyTorch, scikit-learn and XGBoost",
        ),
        (
            "keras",
            "corpus_keras.py",
            "the corpus of Keras through tf2onnx",
        ),
    ] {
        let prepared = Python::prepare(root, environment);
        if let Some(python) = or_skip(prepared, what, options.missing)? {
            python.script(script, &options.arguments())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_handed_on() {
        let root = Path::new("r");
        let words = [
            "--data",
            "d",
            "--require",
            "--only",
            "gpt",
            "--only",
            "bert",
        ];
        let options = Options::parse(root, &words).expect("every word is known");
        assert_eq!(options.missing, Missing::Fail);
        let expected = ["r/target/corpus", "--data", "d", "--only", "gpt", "bert"];
        assert_eq!(options.arguments(), expected.map(OsString::from));
        let plain = Options::parse(root, &["--out", "o"]).expect("every word is known");
        assert_eq!(plain.arguments(), ["o"].map(OsString::from));
        assert_eq!(plain.missing, Missing::Skip);
    }

    #[test]
    fn bad_options_are_named() {
        let check = |words: &[&str], text: &str| {
            let shown = Options::parse(Path::new("r"), words)
                .map_or_else(|error| error.to_string(), |_| String::new());
            assert!(shown.contains(text), "{shown:?}");
        };
        check(&["--data"], "--data needs a value");
        check(&["--cifar", "x"], "does not know `--cifar`");
    }
}
