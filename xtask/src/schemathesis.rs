//! `cargo xtask schemathesis`: the OpenAPI document of a grid under a validator, and calls that are drawn from it (`xtask/python/api_document.py`).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bring::{Options, build};
use crate::python::{Python, or_skip};

/// Validates the document, and calls what it describes.
///
/// # Errors
/// If the document is not valid or an answer is not as it says, or Python is missing where it is required.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let what = "schemathesis";
    let prepared = Python::prepare(root, "schemathesis");
    let Some(python) = or_skip(prepared, what, options.missing)? else {
        return Ok(());
    };
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    python.script("api_document.py", &[binary])
}
