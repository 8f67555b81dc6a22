//! `cargo xtask served-models`: a real llama.cpp server behind a provider, asked by OpenAI's own Python client
//! (`xtask/python/served_models.py`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bring::{Options, build};
use crate::python::{Python, or_skip};

/// Runs server and client.
///
/// # Errors
/// If a check of it fails, or Python is missing where it is required.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let what = "a llama.cpp server";
    let Some(python) = or_skip(Python::prepare(root, "served"), what, options.missing)? else {
        return Ok(());
    };
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    python.script("served_models.py", &[binary])
}
