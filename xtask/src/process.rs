//! Programs that tasks run, the lines that runners of cases write, and the files that tasks write.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The cargo that runs this, in a folder.
pub(crate) fn cargo(root: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root);
    command
}

/// An example of a package, which cargo builds first; its arguments follow.
pub(crate) fn example(root: &Path, package: &str, name: &str) -> Command {
    let mut command = cargo(root);
    command.args([
        "run",
        "--quiet",
        "--package",
        package,
        "--example",
        name,
        "--",
    ]);
    command
}

/// The same with optimised code.
pub(crate) fn optimised_example(root: &Path, package: &str, name: &str) -> Command {
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--release", "--package", package]);
    command.args(["--example", name, "--"]);
    command
}

/// The example `coverage` of `tg-compile`, where it is built already if that is told.
pub(crate) fn coverage(root: &Path, built: Option<&Path>) -> Command {
    let Some(built) = built else {
        return example(root, "tg-compile", "coverage");
    };
    let mut command = Command::new(built);
    command.current_dir(root);
    command
}

/// Runs a program to its end; its errors go where ours do.
///
/// # Errors
/// If it cannot be started or fails, with `failed`.
pub(crate) fn run(command: &mut Command, failed: &str) -> Result<()> {
    let status = command.status().context("the program cannot be started")?;
    ensure!(status.success(), "{failed}");
    Ok(())
}

/// What a program prints, and whether it ended well; its errors go where ours do.
///
/// # Errors
/// If it cannot be started or prints something that is not text.
pub(crate) fn answer(command: &mut Command) -> Result<(String, bool)> {
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.context("the program cannot be started")?;
    let text = String::from_utf8(output.stdout).context("the program printed what is not text")?;
    Ok((text, output.status.success()))
}

/// The same of a program that must end well.
///
/// # Errors
/// Those of [`answer`], and with `failed` if it does not end well.
pub(crate) fn answer_or(command: &mut Command, failed: &str) -> Result<String> {
    let (text, ended_well) = answer(command)?;
    ensure!(ended_well, "{failed}");
    Ok(text)
}

/// Writes a file of the repository.
///
/// # Errors
/// If it cannot be written, with its name.
pub(crate) fn write(root: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(root.join(name), text).with_context(|| format!("`{name}` cannot be written"))
}

/// One line of a runner of cases: `outcome case operators: reason`.
pub(crate) struct CaseLine<'a> {
    /// What came of it.
    pub(crate) outcome: &'a str,
    /// Which case.
    pub(crate) case: &'a str,
    operators: &'a str,
    /// Why, if that is said.
    pub(crate) reason: &'a str,
}

impl<'a> CaseLine<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn read(line: &'a str) -> Result<Self> {
        let (head, reason) = line.split_once(": ").unwrap_or((line, ""));
        let words: Vec<&str> = head.split(' ').collect();
        let [outcome, case, operators] = words[..] else {
            bail!("the runner wrote `{line}`");
        };
        Ok(Self {
            outcome,
            case,
            operators,
            reason,
        })
    }

    /// The operators of the case.
    pub(crate) fn operators(&self) -> impl Iterator<Item = &'a str> {
        self.operators
            .split(',')
            .filter(|&operator| operator != "-")
    }
}
