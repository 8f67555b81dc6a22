//! `cargo xtask tosa-conformance`: TGX-1 against Arm's TOSA integer reference, bit for bit.
//!
//! The tests are generated, answered by Arm's reference model, and written to `target/tosa` once (about ten minutes of
//! one core); the example `tosa` of `tg-model` then reads them. It says which tests TGX-1 admits.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::python::{Missing, Python, or_skip};

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
    let folder = std::fs::canonicalize(&folder)
        .with_context(|| format!("the folder `{}` cannot be read", folder.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args([
            "run",
            "--quiet",
            "--package",
            "tg-model",
            "--example",
            "tosa",
            "--",
        ])
        .arg(folder)
        .current_dir(root)
        .status()
        .context("cargo cannot be started")?;
    ensure!(status.success(), "TGX-1 differs from Arm's TOSA reference");
    Ok(())
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
