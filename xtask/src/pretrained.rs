//! `cargo xtask pretrained`: folders as `save_pretrained` writes them, drawn from a seed, with transformers as the judge.
//!
//! `xtask/python/make_pretrained.py` draws them (of each architecture as many, with the weights in single or half precision, in
//! one file or several) and writes what transformers computes beside them; the test `folders` of `tg-pretrained` compares.
//! With `--bless` the tiny ones are written that every test run reads: `crates/tg-pretrained/tests/data`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::python::{Missing, Python, or_skip};

const COMMITTED: &str = "crates/tg-pretrained/tests/data";
/// The seed of the committed folders.
const SEED: u64 = 3;
/// Folders of each architecture.
const COUNT: u64 = 12;

/// What a run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PretrainedOptions {
    seed: u64,
    bless: bool,
    missing: Missing,
}

impl PretrainedOptions {
    /// Reads the words after the command: `--seed S`, `--bless`, `--require`.
    ///
    /// # Errors
    /// If a word is unknown.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let mut options = Self {
            seed: 1,
            bless: false,
            missing: Missing::take(&mut words),
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word {
                "--bless" => options.bless = true,
                "--seed" => {
                    let seed = words.next().context("--seed takes a number")?;
                    options.seed = seed.parse().context("--seed takes a number")?;
                }
                _ => bail!("pretrained does not know `{word}`"),
            }
        }
        Ok(options)
    }
}

/// Reads what a run is asked for, and does it.
///
/// # Errors
/// As [`PretrainedOptions::parse`] and [`run`].
pub fn command(root: &Path, words: &[&str]) -> Result<()> {
    run(root, &PretrainedOptions::parse(words)?)
}

/// Draws folders and compares.
///
/// # Errors
/// If an answer differs, or Python is missing where it is required.
pub fn run(root: &Path, options: &PretrainedOptions) -> Result<()> {
    let what = "the comparison with transformers";
    let python = or_skip(Python::prepare(root, "exporters"), what, options.missing)?;
    let Some(python) = python else {
        return Ok(());
    };
    let make = |folder: &Path, seed: u64, count: u64, tiny: &str| {
        if folder.exists() {
            fs::remove_dir_all(folder).context("the folders of before cannot be removed")?;
        }
        let folder = folder.to_string_lossy().into_owned();
        let mut words = vec![folder, seed.to_string(), count.to_string()];
        words.extend((!tiny.is_empty()).then(|| tiny.to_owned()));
        python.script("make_pretrained.py", &words)
    };
    if options.bless {
        make(&root.join(COMMITTED), SEED, 1, "--tiny")?;
    }
    let drawn = root.join("target/pretrained");
    make(&drawn, options.seed, COUNT, "")?;
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["test", "--locked", "-p", "tg-pretrained", "--test", "it"])
        .args(["--", "--nocapture", "folders"])
        .env("TENSORGRID_PRETRAINED", &drawn)
        .status()
        .context("cargo cannot be started")?;
    ensure!(
        status.success(),
        "an answer differs from transformers' (seed {})",
        options.seed
    );
    Ok(())
}
