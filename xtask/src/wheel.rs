//! `cargo xtask wheel`: the Python package of `sdk/python` with a built `tensorgrid` as a wheel, and its tests.
//!
//! The wheel is made without any package ([`make_wheel.py`]); its tests run in an environment of pinned ones, against the installed
//! wheel and not the sources.
//!
//! [`make_wheel.py`]: ../../python/make_wheel.py

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bring::{Options, build};
use crate::process;
use crate::python::{Python, or_skip};

/// Makes the wheel into `target/wheel`, installs it and runs its tests. Without Python this is skipped, unless it is required.
///
/// # Errors
/// If the wheel cannot be made, or a test of it fails.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let what = "the Python wheel";
    let Some(python) = or_skip(Python::prepare(root, "wheel"), what, options.missing)? else {
        return Ok(());
    };
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    let sources = root.join("sdk/python");
    let folder = root.join("target/wheel");
    let arguments: [OsString; 3] = [sources.clone(), binary, folder].map(PathBuf::into_os_string);
    let made = python.output("make_wheel.py", &arguments)?;
    let wheel = PathBuf::from(made.trim());
    ensure!(wheel.is_file(), "no wheel was made");
    let mut install = python.module(
        "pip",
        &["install", "--quiet", "--no-deps", "--force-reinstall"],
    );
    process::run(install.arg(&wheel), "the wheel cannot be installed")?;
    let mut check = python.module("mypy", &["--strict", "--package", "tensorgrid"]);
    check.args([
        "--cache-dir".into(),
        root.join("target/mypy").into_os_string(),
    ]);
    process::run(&mut check, "the package's types do not check")?;
    let mut tests = python.module("pytest", &["-q", "-p", "no:cacheprovider", "tests"]);
    process::run(
        outside(tests.current_dir(&sources)),
        "a test of the wheel fails",
    )?;
    println!("{}", wheel.display());
    Ok(())
}

/// A command that finds the installed package and not its sources, and leaves nothing beside them.
fn outside(command: &mut Command) -> &mut Command {
    command
        .env("PYTHONSAFEPATH", "1")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PYTHONPATH")
        .env_remove("TENSORGRID_BINARY")
}
