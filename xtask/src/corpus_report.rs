//! `cargo xtask corpus-report`: how the models of the corpus run here, beside onnxruntime; into `docs/CORPUS.md`.
//!
//! The corpus is made first where it is not there (see [`crate::corpus`]); the example `corpus` of `tg-compile` reads it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::python::Missing;
use crate::widths;

/// The page.
const PAGE: &str = "docs/CORPUS.md";

/// What stands before the table.
const PREFACE: &str = "\
# Models as exporters write them

Written by `cargo xtask corpus-report` from the corpus of `cargo xtask corpus` (definitions and training:
`xtask/python/`). Every model is an exporter's own output, each sample run alone.

Tier TGF-1: the error is the greatest difference from onnxruntime's float32 outputs over the greatest of them, over all
samples; at most 1e-4 is allowed. Models that onnxruntime quantised are shown and not judged by it: one rounding that
falls the other way is a whole step. Where TGF-1 lacks an operator of `com.microsoft`, the float operator between
`DequantizeLinear` and `QuantizeLinear` is run.

Tier TGX-1: compiled on the 32 calibration samples with `--precision auto`, compared with onnxruntime's answers on up to
256 others: power of the signal over that of the difference, share of rows with the same greatest output, and what the
task counts, of the integers and in brackets of the floats. One sample of 256 is 0.4 points. For models that onnxruntime
quantised, how many outputs are not the same integer as its own, and by how many steps of the last scale at most.

skl2onnx 1.20.0 cannot write histogram gradient boosting with this version of onnx (it hands booleans to an integer
field), so plain gradient boosting stands for it. TensorFlow and PyTorch pin different packages, so Keras has an
environment of its own.
";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A corpus that was made before; none: `target/corpus`, made now where it is not there.
    pub corpus: Option<PathBuf>,
    /// Data for making one.
    pub data: Option<PathBuf>,
    /// What a missing Python means.
    pub missing: Missing,
}

impl Options {
    /// Reads `--corpus DIR`, `--data DIR` and `--require`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let mut options = Self {
            missing: Missing::take(&mut words),
            corpus: None,
            data: None,
        };
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let slot = match word {
                "--corpus" => &mut options.corpus,
                "--data" => &mut options.data,
                other => bail!(
                    "corpus-report does not know `{other}`; it takes --corpus, --data and --require"
                ),
            };
            let value = rest
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            *slot = Some(PathBuf::from(value));
        }
        Ok(options)
    }
}

/// Runs the corpus and writes the report; fails if a model is refused or too far from onnxruntime.
///
/// # Errors
/// As said, and if the corpus cannot be made.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let folder = match &options.corpus {
        Some(folder) => folder.clone(),
        None => root.join("target/corpus"),
    };
    if options.corpus.is_none() && !folder.is_dir() {
        let make = crate::corpus::Options {
            out: folder.clone(),
            data: options.data.clone(),
            only: Vec::new(),
            missing: options.missing,
        };
        crate::corpus::run(root, &make)?;
        if !folder.is_dir() {
            eprintln!("SKIPPED: THE CORPUS IS NOT REPORTED ON (there is none)");
            return Ok(());
        }
    }
    let folder = fs::canonicalize(&folder)
        .with_context(|| format!("the folder `{}` cannot be read", folder.display()))?;
    let mut report = process::example(root, "tg-compile", "corpus");
    let (table, is_whole) = process::answer(report.arg(folder))?;
    print!("{table}");
    // The section of both precisions is written by another command.
    let before = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let page = format!("{PREFACE}\n{table}");
    let page = match widths::kept(&before) {
        "" => page,
        section => widths::placed(&page, section),
    };
    process::write(root, PAGE, &page)?;
    ensure!(
        is_whole,
        "a model of the corpus is refused or too far from onnxruntime; see {PAGE}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let read = Options::parse(&["--corpus", "c", "--data", "d", "--require"]);
        let expected = Options {
            corpus: Some(PathBuf::from("c")),
            data: Some(PathBuf::from("d")),
            missing: Missing::Fail,
        };
        assert_eq!(read.ok(), Some(expected));
        for (words, text) in [
            (&["--corpus"][..], "--corpus needs a value"),
            (&["--mnist", "x"][..], "does not know `--mnist`"),
        ] {
            let shown = Options::parse(words).map_or_else(|e| e.to_string(), |_| String::new());
            assert!(shown.contains(text), "{shown:?}");
        }
    }
}
