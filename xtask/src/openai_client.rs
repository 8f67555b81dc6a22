//! `cargo xtask openai-client`: OpenAI's own Python client against the OpenAI routes of a grid (`xtask/python/openai_client.py`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bring::{Options, build};
use crate::python::{Python, or_skip};

/// Runs the client.
///
/// # Errors
/// If a check of it fails, or Python is missing where it is required.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let what = "OpenAI's client";
    let Some(python) = or_skip(Python::prepare(root, "openai"), what, options.missing)? else {
        return Ok(());
    };
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    python.script("openai_client.py", &[binary])
}
