//! `cargo xtask onnx-conformance`: tier TGF-1 against the ONNX backend node tests.
//!
//! The cases are written to `target/onnx` once; the example `onnx_conformance` of `tg-onnx` runs them, one line per
//! case. The result is held against `xtask/onnx-conformance.txt`: no case may be wrong, the number that pass may only
//! rise, and a case that is refused must be listed there with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, CaseLine};
use crate::python::{Missing, Python, or_skip};

/// The committed result.
const COMMITTED: &str = "xtask/onnx-conformance.txt";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Cases that were written before; none: they are made where they are not in `target/onnx`.
    pub cases: Option<PathBuf>,
    /// Whether the committed result is rewritten.
    pub bless: bool,
    /// What a missing Python means.
    pub missing: Missing,
}

impl Options {
    /// Reads `--cases DIR`, `--bless` and `--require`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let missing = Missing::take(&mut words);
        let count = words.len();
        words.retain(|&word| word != "--bless");
        let bless = words.len() < count;
        let cases = match words[..] {
            [] => None,
            ["--cases", folder] => Some(PathBuf::from(folder)),
            ["--cases"] => bail!("--cases needs a value"),
            [other, ..] => bail!(
                "onnx-conformance does not know `{other}`; it takes --cases, --bless and --require"
            ),
        };
        Ok(Self {
            cases,
            bless,
            missing,
        })
    }
}

/// What came of all cases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Cases that passed.
    pub passed: usize,
    /// Reasons by refused case.
    pub refused: BTreeMap<String, String>,
    /// Problems by wrong case.
    pub wrong: BTreeMap<String, String>,
    /// Per operator, cases that passed, were refused, were wrong. A case counts for each of its operators.
    pub operators: BTreeMap<String, [usize; 3]>,
}

impl Report {
    /// Reads the example's lines.
    ///
    /// # Errors
    /// If a line is none of them.
    pub fn read(text: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in text.lines() {
            let own = CaseLine::read(line)?;
            let (case, reason) = (own.case.to_owned(), own.reason.to_owned());
            let kind = match own.outcome {
                "pass" => {
                    report.passed += 1;
                    0
                }
                "refused" => {
                    report.refused.insert(case, reason);
                    1
                }
                "wrong" => {
                    report.wrong.insert(case, reason);
                    2
                }
                _ => bail!("the runner wrote `{line}`"),
            };
            for operator in own.operators() {
                report.operators.entry(operator.to_owned()).or_default()[kind] += 1;
            }
        }
        Ok(report)
    }

    /// The committed form: the number passed, and every refusal with its reason.
    #[must_use]
    pub fn committed(&self) -> String {
        let mut text = String::from(
            "# ONNX backend node tests on tier TGF-1; written by `cargo xtask onnx-conformance --bless`.\n",
        );
        text.push_str(&format!("passed {}\n", self.passed));
        for (case, reason) in &self.refused {
            text.push_str(&format!("refused {case}: {reason}\n"));
        }
        text
    }

    /// What breaks the rules against the committed text.
    ///
    /// # Errors
    /// If the committed text states no number.
    pub fn findings(&self, committed: &str) -> Result<Vec<String>> {
        let number = committed
            .lines()
            .find_map(|line| line.strip_prefix("passed "));
        let number: usize = number
            .context("the committed result states no number of passed cases")?
            .parse()?;
        let mut findings = Vec::new();
        for (case, problem) in &self.wrong {
            findings.push(format!("{case} is wrong: {problem}"));
        }
        if self.passed < number {
            findings.push(format!("{} cases pass, {number} did before", self.passed));
        }
        for (case, reason) in &self.refused {
            let known = format!("refused {case}: {reason}");
            if !committed.lines().any(|line| line == known) {
                findings.push(format!("{case} is refused and not listed: {reason}"));
            }
        }
        Ok(findings)
    }
}

/// Runs the cases and holds the result against the committed one.
///
/// # Errors
/// If a case is wrong, fewer pass than before, a refusal is not listed, or Python is missing where it is required.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let Some(folder) = cases(root, options)? else {
        return Ok(());
    };
    let report = Report::read(&run_cases(root, &folder)?)?;
    println!("operator                        passed refused  wrong");
    for (operator, [passed, refused, wrong]) in &report.operators {
        println!("{operator:30} {passed:7} {refused:7} {wrong:6}");
    }
    println!(
        "\n{} passed, {} refused, {} wrong",
        report.passed,
        report.refused.len(),
        report.wrong.len()
    );
    let committed = root.join(COMMITTED);
    if options.bless {
        ensure!(
            report.wrong.is_empty(),
            "{} cases are wrong: {:?}",
            report.wrong.len(),
            report.wrong.keys()
        );
        return process::write(root, COMMITTED, &report.committed());
    }
    let text = fs::read_to_string(&committed)
        .with_context(|| format!("`{COMMITTED}` cannot be read; --bless writes it"))?;
    let findings = report.findings(&text)?;
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(
        findings.is_empty(),
        "the ONNX node tests got worse in {} places (--bless takes new refusals)",
        findings.len()
    );
    Ok(())
}

/// The folder of the cases; none if they cannot be made and need not be.
pub(crate) fn cases(root: &Path, options: &Options) -> Result<Option<PathBuf>> {
    let folder = match &options.cases {
        Some(folder) => folder.clone(),
        None => root.join("target/onnx"),
    };
    if options.cases.is_none() && !folder.join("cases.txt").exists() {
        let prepared = Python::prepare(root, "onnx");
        let Some(python) = or_skip(prepared, "the ONNX backend node tests", options.missing)?
        else {
            return Ok(None);
        };
        python.script("dump_onnx_cases.py", &[&folder])?;
    }
    let folder = fs::canonicalize(&folder)
        .with_context(|| format!("the folder `{}` cannot be read", folder.display()))?;
    Ok(Some(folder))
}

fn run_cases(root: &Path, folder: &Path) -> Result<String> {
    let mut cases = process::example(root, "tg-onnx", "onnx_conformance");
    process::answer_or(cases.arg(folder), "the cases could not be run")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "pass test_add Add\npass test_constant -\nrefused test_x Add,Foo: Foo is not supported: yet\n\
                         wrong test_y Foo: output 0 has 1 at 0, 2 expected\n";

    #[test]
    fn lines_become_a_report() {
        let report = Report::read(LINES).expect("the lines are the runner's");
        assert_eq!(report.passed, 2);
        assert_eq!(report.operators["Add"], [1, 1, 0]);
        assert_eq!(report.operators["Foo"], [0, 1, 1]);
        assert_eq!(report.refused["test_x"], "Foo is not supported: yet");
        assert!(Report::read("passed test_add Add").is_err());
        assert!(Report::read("pass test_add").is_err());
    }

    #[test]
    fn a_result_that_got_worse_is_found() {
        let report = Report::read(LINES).expect("the lines are the runner's");
        let own = report.committed();
        let findings = report.findings(&own).expect("a number is stated");
        assert_eq!(findings.len(), 1, "only the wrong case: {findings:?}");
        let better = own.replace("passed 2", "passed 3");
        assert_eq!(report.findings(&better).expect("a number").len(), 2);
        let silent = own.replace("refused test_x", "refused test_z");
        assert_eq!(report.findings(&silent).expect("a number").len(), 2);
        assert!(report.findings("").is_err());
    }

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let read = Options::parse(&["--bless", "--cases", "d", "--require"]).expect("known words");
        assert_eq!(read.cases, Some(PathBuf::from("d")));
        assert!(read.bless);
        assert_eq!(read.missing, Missing::Fail);
        assert!(Options::parse(&["--cases"]).is_err());
        assert!(Options::parse(&["x"]).is_err());
    }
}
