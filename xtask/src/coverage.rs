//! `cargo xtask coverage`: how much of ONNX's backend node tests becomes a program, a proof and a verified answer; into
//! `docs/COVERAGE.md`.
//!
//! The cases are those of [`crate::onnx_conformance`]; the example `coverage` of `tg-compile` runs them, one line per case.
//! Those that are proved stand in `xtask/coverage.txt`, and none of them may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};

use crate::onnx_conformance::cases;
use crate::process::{self, CaseLine};

/// The cases that are proved.
const COMMITTED: &str = "xtask/coverage.txt";
/// The page.
const PAGE: &str = "docs/COVERAGE.md";
/// The lines of the last run.
const LINES: &str = "target/coverage.txt";

/// What stands before the tables.
const PREFACE: &str = "\
# ONNX's node tests as proofs

Written by `cargo xtask coverage --bless`, which runs ONNX's backend node tests that read a float32 tensor (tensors only:
no sequences, maps or optional values) through the whole way: compiled with the case's own input and seven inputs with 5 %
of noise as calibration, executed, proved, the proof verified. Without `--bless` it fails if a case that was proved before is
not, or if an answer is wrong.

*Proved*: every output of the case, all by one program or each by its own, with an answer within 20 dB of the expected one and a
proof that the verifier takes. Counted apart: what needed its inputs that are not floats (indices, shapes, conditions) as
constants of the program, and what needed all inputs but the first one of floats as constants, as weights are in a model.
*Poor*: a program whose answer is further away; it is not proved. *Refused*: no program, or none that has a proof.
*Wrong*: a proof that the verifier refuses, a graph that the compiler changed in meaning, a panic. *Expanded* cases are
operators written out in others by ONNX itself.
";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageOptions {
    /// Where cases are, and what a missing Python means.
    pub cases: crate::onnx_conformance::Options,
    /// So many cases, drawn by the seed; none: all.
    pub sample: Option<usize>,
    /// See `sample`.
    pub seed: u64,
    /// Whether the cases of the last run's lines are not run again.
    pub resume: bool,
    /// The example `coverage` of `tg-compile` where it is built already; none: cargo builds it.
    pub runner: Option<PathBuf>,
}

impl CoverageOptions {
    /// Reads `--sample N`, `--seed S`, `--resume`, `--runner FILE`, and the options of `onnx-conformance`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing or no number.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut rest = Vec::new();
        let (mut sample, mut seed, mut resume, mut runner) = (None, 1, false, None);
        let mut each = words.iter();
        while let Some(&word) = each.next() {
            let mut value = || each.next().with_context(|| format!("{word} needs a value"));
            match word {
                "--sample" => sample = Some(value()?.parse().context("--sample needs a number")?),
                "--seed" => seed = value()?.parse().context("--seed needs a number")?,
                "--runner" => runner = Some(PathBuf::from(value()?)),
                "--resume" => resume = true,
                _ => rest.push(word),
            }
        }
        let cases = crate::onnx_conformance::Options::parse(&rest)?;
        ensure!(
            !(cases.bless && sample.is_some()),
            "a sample does not make the page: leave --sample or --bless out"
        );
        Ok(Self {
            cases,
            sample,
            seed,
            resume,
            runner,
        })
    }
}

/// Cases by what came of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CaseCounts {
    /// Proved: with every input given, with integers bound, with parameters bound.
    proved: [usize; 3],
    refused: usize,
    poor: usize,
    wrong: usize,
}

impl CaseCounts {
    fn proved(&self) -> usize {
        self.proved.iter().sum()
    }

    fn all(&self) -> usize {
        self.proved() + self.refused + self.poor + self.wrong
    }

    fn count(&mut self, outcome: &str) -> Result<()> {
        *match outcome {
            "proved" => &mut self.proved[0],
            "proved-integers-bound" => &mut self.proved[1],
            "proved-parameters-bound" => &mut self.proved[2],
            "refused" => &mut self.refused,
            "poor" => &mut self.poor,
            "wrong" => &mut self.wrong,
            _ => bail!("the runner wrote the outcome `{outcome}`"),
        } += 1;
        Ok(())
    }
}

/// What came of all cases.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    direct: CaseCounts,
    expanded: CaseCounts,
    operators: BTreeMap<String, CaseCounts>,
    proved: BTreeSet<String>,
    /// Why cases are not proved, by reason: how many, and one of them.
    reasons: BTreeMap<String, (usize, String)>,
    wrong: BTreeMap<String, String>,
    seen: BTreeSet<String>,
}

impl Coverage {
    /// Reads the example's lines.
    ///
    /// # Errors
    /// If a line is none of them.
    pub fn read(text: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in text.lines() {
            let own = CaseLine::read(line)?;
            let (outcome, case) = (own.outcome, own.case);
            let expanded = case.contains("_expanded");
            let counts = if expanded {
                &mut report.expanded
            } else {
                &mut report.direct
            };
            counts.count(outcome)?;
            report.seen.insert(case.to_owned());
            for operator in own.operators() {
                report
                    .operators
                    .entry(operator.to_owned())
                    .or_default()
                    .count(outcome)?;
            }
            match outcome {
                "wrong" => {
                    report.wrong.insert(case.to_owned(), own.reason.to_owned());
                }
                "refused" => {
                    let known = report.reasons.entry(own.reason.to_owned());
                    known.or_insert_with(|| (0, case.to_owned())).0 += 1;
                }
                "poor" => {}
                _ => {
                    report.proved.insert(case.to_owned());
                }
            }
        }
        Ok(report)
    }

    /// The committed form: the names of the cases that are proved.
    #[must_use]
    pub fn committed(&self) -> String {
        let mut text = String::from(
            "# ONNX backend node tests that are proved; written by `cargo xtask coverage --bless`.\n",
        );
        for case in &self.proved {
            let _ = writeln!(text, "{case}");
        }
        text
    }

    /// What breaks the rules against the committed text.
    #[must_use]
    pub fn findings(&self, committed: &str) -> Vec<String> {
        let wrong = self.wrong.iter();
        let mut findings: Vec<String> = wrong
            .map(|(case, problem)| format!("{case} is wrong: {problem}"))
            .collect();
        let known = committed.lines().filter(|line| !line.starts_with('#'));
        let lost = known.filter(|&case| self.seen.contains(case) && !self.proved.contains(case));
        findings.extend(lost.map(|case| format!("{case} was proved before and is not now")));
        findings
    }

    fn operators_proved(&self) -> usize {
        let proved = |counts: &&CaseCounts| counts.proved() > 0;
        self.operators.values().filter(proved).count()
    }

    /// The tables of the page.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut text = String::from(
            "| cases | all | proved | of these: integers bound | parameters bound | refused | poor | wrong |\n\
             |---|---|---|---|---|---|---|---|\n",
        );
        for (name, counts) in [("direct", &self.direct), ("expanded", &self.expanded)] {
            let [_, integers, parameters] = counts.proved;
            let CaseCounts {
                refused,
                poor,
                wrong,
                ..
            } = counts;
            let (all, proved) = (counts.all(), counts.proved());
            let _ = writeln!(
                text,
                "| {name} | {all} | {proved} | {integers} | {parameters} | {refused} | {poor} | {wrong} |"
            );
        }
        let _ = writeln!(
            text,
            "\n{} of {} cases are proved; {} of {} operators have at least one proof.",
            self.direct.proved() + self.expanded.proved(),
            self.direct.all() + self.expanded.all(),
            self.operators_proved(),
            self.operators.len()
        );
        text.push_str(
            "\n## Why cases are refused\n\n| cases | reason | for example |\n|---|---|---|\n",
        );
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|&(reason, &(count, _))| (std::cmp::Reverse(count), reason));
        for (reason, (count, example)) in reasons {
            let reason = reason.replace('|', "\\|");
            let _ = writeln!(text, "| {count} | {reason} | {example} |");
        }
        text.push_str(
            "\n## Operators\n\nA case counts for each of its operators.\n\n\
             | operator | proved | refused | poor |\n|---|---|---|---|\n",
        );
        for (operator, counts) in &self.operators {
            let CaseCounts { refused, poor, .. } = counts;
            let _ = writeln!(
                text,
                "| {operator} | {} | {refused} | {poor} |",
                counts.proved()
            );
        }
        text
    }
}

/// Runs the cases and holds the result against the committed one.
///
/// # Errors
/// If a case is wrong or was proved before and is not now, or Python is missing where it is required.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &CoverageOptions) -> Result<()> {
    let Some(folder) = cases(root, &options.cases)? else {
        return Ok(());
    };
    let report = Coverage::read(&run_cases(root, &folder, options)?)?;
    let tables = report.tables();
    println!("{tables}");
    let committed = root.join(COMMITTED);
    if options.cases.bless {
        let wrong: Vec<_> = report.wrong.keys().collect();
        ensure!(wrong.is_empty(), "these cases are wrong: {wrong:?}");
        process::write(root, COMMITTED, &report.committed())?;
        return process::write(root, PAGE, &format!("{PREFACE}\n{tables}"));
    }
    let text = fs::read_to_string(&committed)
        .with_context(|| format!("`{COMMITTED}` cannot be read; --bless writes it"))?;
    let findings = report.findings(&text);
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(
        findings.is_empty(),
        "coverage got worse in {} places",
        findings.len()
    );
    Ok(())
}

/// The lines of all cases, also written to `target/coverage.txt` as they come.
fn run_cases(root: &Path, folder: &Path, options: &CoverageOptions) -> Result<String> {
    let lines = root.join(LINES);
    let mut text = if options.resume {
        fs::read_to_string(&lines).unwrap_or_default()
    } else {
        String::new()
    };
    let mut kept = File::create(&lines).with_context(|| format!("`{LINES}` cannot be written"))?;
    kept.write_all(text.as_bytes())?;
    let done = lines.with_extension("done");
    fs::write(&done, &text)?;
    let mut command = process::coverage(root, options.runner.as_deref());
    command
        .arg(folder)
        .arg("--done")
        .arg(done)
        .args(["--seed", &options.seed.to_string()]);
    if let Some(count) = options.sample {
        command.args(["--sample", &count.to_string()]);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo cannot be started")?;
    let output = child.stdout.take().context("the runner has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.context("the runner wrote something that is not text")?;
        writeln!(kept, "{line}")?;
        text.push_str(&line);
        text.push('\n');
    }
    ensure!(child.wait()?.success(), "the cases could not be run");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::python::Missing;

    const LINES: &str = "proved test_add Add\nproved-integers-bound test_x_expanded Add,Foo\n\
                         refused test_y Foo: Foo: no form\npoor test_z Bar: 3.0 dB\n";

    #[test]
    fn lines_become_tables() {
        let report = Coverage::read(LINES).expect("the lines are the runner's");
        assert_eq!(report.direct.proved, [1, 0, 0]);
        assert_eq!(report.expanded.proved, [0, 1, 0]);
        assert_eq!(report.operators_proved(), 2);
        let tables = report.tables();
        assert!(
            tables.contains("| direct | 3 | 1 | 0 | 0 | 1 | 1 | 0 |"),
            "{tables}"
        );
        assert!(tables.contains("| 1 | Foo: no form | test_y |"), "{tables}");
        assert!(
            tables.contains("2 of 4 cases are proved; 2 of 3 operators"),
            "{tables}"
        );
        assert!(Coverage::read("pass test_add Add").is_err());
        assert!(Coverage::read("proved test_add").is_err());
    }

    #[test]
    fn what_is_lost_is_found() {
        let report = Coverage::read(LINES).expect("the lines are the runner's");
        assert!(report.findings(&report.committed()).is_empty());
        let before = format!("{}test_y\ntest_of_no_sample\n", report.committed());
        assert_eq!(
            report.findings(&before).len(),
            1,
            "a case of no sample is not lost"
        );
        let wrong = Coverage::read("wrong test_w Foo: it panics\n").expect("a line");
        assert_eq!(wrong.findings("").len(), 1);
    }

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let read =
            CoverageOptions::parse(&["--sample", "9", "--seed", "4", "--resume", "--require"]);
        let read = read.expect("known words");
        assert_eq!((read.sample, read.seed, read.resume), (Some(9), 4, true));
        assert_eq!(read.cases.missing, Missing::Fail);
        for words in [
            &["--sample"][..],
            &["--sample", "x"],
            &["--sample", "3", "--bless"],
            &["--mnist"],
        ] {
            assert!(CoverageOptions::parse(words).is_err(), "{words:?}");
        }
    }
}
