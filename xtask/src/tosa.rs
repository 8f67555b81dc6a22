//! `cargo xtask tosa-conformance`: TGX-1 against Arm's TOSA integer reference, bit for bit.
//!
//! The tests are generated, answered by Arm's reference model, and written to `target/tosa` once (about ten minutes of
//! one core); the example `tosa` of `tg-compile` then reads them. The table goes to `docs/TOSA.md`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::python::{Missing, Python, or_skip};

/// What stands before the table of `docs/TOSA.md`.
const PREFACE: &str = "\
# TGX-1 against Arm's TOSA integer reference

Written by `cargo xtask tosa-conformance`. The tests are those of Arm's own generator (PyPI `tosa-tools`, profile
`tosa-pro-int`, no extension, positive tests), the answers those of Arm's reference model. Each test becomes the TGX-1
program whose meaning is its operator; the executor and the scalar definition must both give the reference's bits.

TGX-1 admits: signed values; tensors of at most three axes, or one image of four; activations of 8 and 16 bits (16
without -32768) and accumulators within the field bound; 16-bit multipliers with a shift in [2, 46] and a single
rounding, results of 8 or 16 bits; biases of 24 bits; any zero points. Indices of a gather and amounts of padding are
constants of the program. The generator draws 32-bit values from their whole range, which no accumulator of TGX-1 has:
a test refused for that is run again with its 32-bit operands (and 16-bit factors) shifted right by a few bits, and the
reference model answers it anew (column \"narrowed\"). The rest is refused, with the reason.
";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Cases that were written before; none: they are made where they are not in `target/tosa`.
    pub cases: Option<PathBuf>,
    /// What a missing Python means.
    pub missing: Missing,
}

impl Options {
    /// Reads `--cases DIR` and `--require`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let missing = Missing::take(&mut words);
        let cases = match words[..] {
            [] => None,
            ["--cases", folder] => Some(PathBuf::from(folder)),
            ["--cases"] => bail!("--cases needs a value"),
            [other, ..] => {
                bail!("tosa-conformance does not know `{other}`; it takes --cases and --require")
            }
        };
        Ok(Self { cases, missing })
    }
}

/// Compares, and fails if one admitted case differs.
///
/// # Errors
/// If a case differs, a script fails, or Python is missing where it is required.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let folder = match &options.cases {
        Some(folder) => folder.clone(),
        None => {
            let folder = root.join("target/tosa");
            if !folder.join("cases.txt").exists() {
                let what = "the comparison with Arm's TOSA reference model";
                let prepared = Python::prepare(root, "tosa");
                let Some(python) = or_skip(prepared, what, options.missing)? else {
                    return Ok(());
                };
                python.script("dump_tosa_cases.py", &[&folder])?;
            }
            folder
        }
    };
    let folder = fs::canonicalize(&folder)
        .with_context(|| format!("the folder `{}` cannot be read", folder.display()))?;
    let table = compare(root, &folder)?;
    process::write(root, "docs/TOSA.md", &format!("{PREFACE}\n{table}"))
}

/// The table that the comparison prints.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn compare(root: &Path, folder: &Path) -> Result<String> {
    let mut comparison = process::example(root, "tg-compile", "tosa");
    let (table, is_equal) = process::answer(comparison.arg(folder))?;
    print!("{table}");
    ensure!(is_equal, "TGX-1 differs from Arm's TOSA reference");
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let read = Options::parse(&["--require", "--cases", "d"]).expect("every word is known");
        assert_eq!(read.cases, Some(PathBuf::from("d")));
        assert_eq!(read.missing, Missing::Fail);
        let plain = Options::parse(&[]).expect("no word");
        assert_eq!((plain.cases, plain.missing), (None, Missing::Skip));
        for (words, text) in [
            (&["--cases"][..], "--cases needs a value"),
            (&["x"][..], "does not know `x`"),
        ] {
            let shown = Options::parse(words).map_or_else(|e| e.to_string(), |_| String::new());
            assert!(shown.contains(text), "{shown:?}");
        }
    }
}
