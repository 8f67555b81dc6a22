//! A copy of the repository with mutants in it, and its test binaries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::find::Mutant;
use super::suite::{Suite, SuiteTarget};
use super::write::{Instrumented, SWITCH, instrument};
use crate::process;

/// Builds until every mutant that is left can be built.
const BUILDS_MAX: usize = 24;

/// A mutant in its file, by a path from the root.
#[derive(Debug, Clone)]
pub struct Placed {
    /// Where it is.
    pub file: String,
    /// What it is.
    pub mutant: Mutant,
}

/// A copy of the tracked files of a repository.
#[derive(Debug)]
pub struct MutantTree {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
}

/// A test binary of a suite.
#[derive(Debug)]
pub struct TestBinary {
    /// The suite.
    pub suite: &'static Suite,
    /// The program.
    pub program: PathBuf,
    /// Where it runs: its package's folder.
    pub folder: PathBuf,
}

impl MutantTree {
    /// A copy in `folder`, brought up to date; what is equal there already keeps its time, so that cargo builds little.
    ///
    /// # Errors
    /// If git or a file fails.
    pub fn copied(root: &Path, folder: &Path, target: &Path) -> Result<Self> {
        let mut list = std::process::Command::new("git");
        list.current_dir(root).args(["ls-files", "-z"]);
        let names = process::answer_or(&mut list, "git cannot list the files")?;
        let tree = Self {
            root: root.to_owned(),
            copy: folder.to_owned(),
            target: target.to_owned(),
        };
        for name in names.split('\0').filter(|it| !it.is_empty()) {
            // A file that was removed and is tracked still.
            if let Ok(content) = fs::read(root.join(name)) {
                tree.put(name, &content)?;
            }
        }
        Ok(tree)
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.copy.join(name);
        if fs::read(&path).is_ok_and(|before| before == content) {
            return Ok(());
        }
        let folder = path.parent().context("a file lies in a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&path, content).with_context(|| format!("`{name}` cannot be copied"))
    }

    /// Builds the test binaries with these mutants, numbered from 1 on. Those that cannot be built are left out: their
    /// numbers are given with the binaries.
    ///
    /// # Errors
    /// If the build fails for another reason.
    pub fn build(
        &self,
        package: &str,
        suites: &'static [Suite],
        placed: &[Placed],
    ) -> Result<(Vec<TestBinary>, BTreeSet<u32>)> {
        let mut left_out = BTreeSet::new();
        for _ in 0..BUILDS_MAX {
            let written = self.write(package, placed, &left_out)?;
            let output = self.cargo(suites)?;
            let messages: Vec<Value> = output
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            let binaries = self.binaries(suites, &messages);
            if binaries.len() == suites.len() {
                return Ok((binaries, left_out));
            }
            let wrong = wrong_mutants(&messages, &written, placed);
            ensure!(
                wrong.iter().any(|it| !left_out.contains(it)),
                "the crate cannot be built, and no mutant is why: {}",
                first_error(&messages)
            );
            left_out.extend(wrong);
        }
        bail!("after {BUILDS_MAX} builds there are still mutants that cannot be built")
    }

    /// Writes the sources of a package; those without mutants as they are.
    fn write(
        &self,
        package: &str,
        placed: &[Placed],
        left_out: &BTreeSet<u32>,
    ) -> Result<BTreeMap<String, Instrumented>> {
        let mut by_file: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
        for (number, it) in (1_u32..).zip(placed) {
            let in_file = by_file.entry(&it.file).or_default();
            if !left_out.contains(&number) {
                in_file.push((number, &it.mutant));
            }
        }
        let lib = format!("crates/{package}/src/lib.rs");
        by_file.entry(&lib).or_default();
        let mut written = BTreeMap::new();
        for (file, mutants) in by_file {
            let source = fs::read_to_string(self.root.join(file))?;
            let mut changed = instrument(&source, &mutants);
            if file == lib {
                changed.text += SWITCH;
            }
            self.put(file, changed.text.as_bytes())?;
            written.insert(file.to_owned(), changed);
        }
        Ok(written)
    }

    fn cargo(&self, suites: &[Suite]) -> Result<String> {
        let mut command = process::cargo(&self.copy);
        command
            .args(["test", "--no-run", "--message-format=json", "--quiet"])
            .env("CARGO_TARGET_DIR", &self.target)
            // The run that this is part of names its own package.
            .env_remove("CARGO_MANIFEST_DIR")
            .stderr(Stdio::null());
        for package in suites.iter().map(|it| it.package).collect::<BTreeSet<_>>() {
            command.args(["--package", package]);
        }
        for target in suites.iter().map(|it| it.target).collect::<BTreeSet<_>>() {
            match target {
                SuiteTarget::Lib => command.arg("--lib"),
                SuiteTarget::Test(name) => command.args(["--test", name]),
            };
        }
        Ok(process::answer(&mut command)?.0)
    }

    fn binaries(&self, suites: &'static [Suite], messages: &[Value]) -> Vec<TestBinary> {
        let of = |suite: &'static Suite| {
            let folder = self.copy.join("crates").join(suite.package);
            let is_it = |message: &&Value| {
                let manifest = message["manifest_path"].as_str().map(Path::new);
                let target = &message["target"];
                let is_target = match suite.target {
                    SuiteTarget::Lib => target["kind"][0] == "lib",
                    SuiteTarget::Test(name) => {
                        target["kind"][0] == "test" && target["name"] == name
                    }
                };
                is_target && manifest.and_then(Path::parent) == Some(&folder)
            };
            let found = messages.iter().filter(is_it);
            let program = found.filter_map(|it| it["executable"].as_str()).next()?;
            Some(TestBinary {
                suite,
                program: program.into(),
                folder,
            })
        };
        suites.iter().filter_map(of).collect()
    }
}

/// The mutants that errors of the compiler are about.
fn wrong_mutants(
    messages: &[Value],
    written: &BTreeMap<String, Instrumented>,
    placed: &[Placed],
) -> BTreeSet<u32> {
    let mut wrong = BTreeSet::new();
    let errors = messages.iter().map(|it| &it["message"]);
    for error in errors.filter(|it| it["level"] == "error") {
        let spans = error["spans"].as_array().map_or(&[][..], |it| it);
        for span in spans.iter().filter(|it| it["is_primary"] == true) {
            let file = span["file_name"].as_str().and_then(|it| written.get(it));
            let byte = span["byte_start"].as_u64().map(|it| it as usize);
            if let (Some(file), Some(byte)) = (file, byte) {
                wrong.extend(file.mutant_at(byte));
            }
        }
        // A function that is not constant any more is called where it must be.
        let text = error["message"].as_str().unwrap_or("");
        if let Some((_, rest)) = text.split_once("cannot call non-const ") {
            let path = rest.split('`').nth(1).unwrap_or("");
            let name = path.rsplit("::").next().unwrap_or("");
            let is_called = |it: &Placed| {
                let own = it.mutant.function.rsplit("::").next();
                it.mutant.constant.is_some() && own == Some(name)
            };
            let called = (1_u32..).zip(placed).filter(|(_, it)| is_called(it));
            wrong.extend(called.map(|(number, _)| number));
        }
    }
    wrong
}

fn first_error(messages: &[Value]) -> String {
    let mut errors = messages.iter().map(|it| &it["message"]);
    let first = errors.find(|it| it["level"] == "error");
    let text = first.and_then(|it| it["rendered"].as_str());
    text.unwrap_or("cargo gave no error").to_owned()
}
