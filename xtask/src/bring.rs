//! `cargo xtask bring-your-model`: runs `docs/BRING_YOUR_MODEL.md` as it stands.
//!
//! The Python block becomes `export.py`, the shell blocks are run line by line in a fresh folder under `target/`. A line
//! that ends with `&` starts in the background, and the next one waits until its grid answers.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::python::{Missing, Python, or_skip};

/// Where the document's grid listens.
const ADDRESS: &str = "127.0.0.1:7070";
/// How often the grid is asked whether it is there, one second apart.
const ATTEMPTS: usize = 120;
/// How often an inference is asked for, one second apart.
const INFERENCES: usize = 10;

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The `tensorgrid` to use; none: the release build, made now.
    pub binary: Option<PathBuf>,
    /// What a missing Python means.
    pub missing: Missing,
}

impl Options {
    /// Reads `--binary FILE` and `--require`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let missing = Missing::take(&mut words);
        let binary = match words[..] {
            [] => None,
            ["--binary", file] => Some(PathBuf::from(file)),
            ["--binary"] => bail!("--binary needs a value"),
            [other, ..] => {
                bail!("`{other}` is not known here: --binary and --require are")
            }
        };
        Ok(Self { binary, missing })
    }
}

/// A grid that is stopped when the run ends, however it ends.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself: there is nothing left to stop then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the document.
///
/// # Errors
/// If a command of it fails, or Python is missing where it is required.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let what = "docs/BRING_YOUR_MODEL.md";
    let document = fs::read_to_string(root.join(what))?;
    let Some(python) = or_skip(Python::prepare(root, "corpus"), what, options.missing)? else {
        return Ok(());
    };
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    ensure!(
        TcpListener::bind(ADDRESS).is_ok(),
        "something else listens on {ADDRESS}; stop it first"
    );
    let folder = root.join("target/bring-your-model");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    fs::write(
        folder.join("export.py"),
        blocks(&document, "python").concat(),
    )?;
    let beside = binary.parent().context("a file lies in a folder")?;
    let path = python.path(&[beside])?;
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(&folder)
            .env("PATH", &path);
        command
    };
    let mut background = Vec::new();
    for line in blocks(&document, "sh").concat().lines() {
        if let Some(line) = line.strip_suffix('&') {
            let child = shell(&format!("exec {line}")).spawn()?;
            background.push(Background(child));
            wait_for_grid(&shell)?;
        } else {
            foreground(&shell, line)?;
        }
    }
    Ok(())
}

/// Runs a line. Providers take up a new model within seconds: an inference before that is asked for again.
fn foreground(shell: &impl Fn(&str) -> Command, line: &str) -> Result<()> {
    let attempts = if line.starts_with("tensorgrid infer") {
        INFERENCES
    } else {
        1
    };
    for attempt in 1.. {
        let status = shell(line).status()?;
        if status.success() {
            return Ok(());
        }
        ensure!(attempt < attempts, "`{line}` ended with {status}");
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

fn wait_for_grid(shell: &impl Fn(&str) -> Command) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let answers = shell("tensorgrid status").output()?.status.success();
        if answers {
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    bail!("no grid answers on {ADDRESS} after {ATTEMPTS} attempts")
}

pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let mut cargo = process::cargo(root);
    let build = cargo.args(["build", "--release", "--package", "tensorgrid"]);
    process::run(build, "tensorgrid does not build")?;
    Ok(root.join("target/release/tensorgrid"))
}

/// The fenced blocks of a language, in order.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut inside: Option<String> = None;
    for line in document.lines() {
        match (&mut inside, line.strip_prefix("```")) {
            (None, Some(stated)) if stated == language => inside = Some(String::new()),
            (Some(_), Some("")) => blocks.extend(inside.take()),
            (Some(block), _) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_a_script_and_five_commands() {
        let document = fs::read_to_string(crate::root().join("docs/BRING_YOUR_MODEL.md"))
            .expect("the document is there");
        let scripts = blocks(&document, "python");
        assert_eq!(scripts.len(), 1);
        assert!(scripts[0].contains("torch.onnx.export"));
        let commands = blocks(&document, "sh");
        assert_eq!(commands[0].lines().count(), 5);
        assert!(
            commands[0]
                .lines()
                .all(|line| { line.starts_with("python ") || line.starts_with("tensorgrid ") })
        );
    }

    #[test]
    fn only_the_named_language_is_taken() {
        let text = "```sh\na\nb\n```\ntext\n```python\nc\n```\n```sh\nd\n```\n";
        assert_eq!(blocks(text, "sh"), ["a\nb\n", "d\n"]);
        assert_eq!(blocks(text, "python"), ["c\n"]);
        assert_eq!(blocks("```sh\nnever closed\n", "sh"), [""; 0]);
    }

    #[test]
    fn options_are_read() {
        let read = Options::parse(&["--binary", "b"]).expect("every word is known");
        assert_eq!(read.binary, Some(PathBuf::from("b")));
        assert!(Options::parse(&["--binary"]).is_err());
        assert!(Options::parse(&["x"]).is_err());
    }
}
