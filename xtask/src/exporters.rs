//! `cargo xtask exporters`: a corpus of graphs as exporters write them, drawn from a seed, as proofs; into
//! `docs/EXPORTERS.md`.
//!
//! `xtask/python/make_exporters.py` draws the graphs and asks onnxruntime for the answers; the example `coverage` of
//! `tg-compile` compiles, proves and verifies each output. Those of the committed seed that are proved stand in
//! `xtask/exporters.txt`, and none of them may be lost.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, CaseLine};
use crate::python::{Missing, Python, or_skip};
use crate::widths::{WidthReport, placed};

const COMMITTED: &str = "xtask/exporters.txt";
const PAGE: &str = "docs/EXPORTERS.md";
/// The page that has a section of both precisions.
const WIDTHS_PAGE: &str = "docs/CORPUS.md";
/// The seed of the committed names.
const SEED: u64 = 1;

const PREFACE: &str = "\
# Graphs of exporters as proofs

Written by `cargo xtask exporters --bless`. `xtask/python/make_exporters.py` draws networks and estimators from a seed:
PyTorch by both of its exporters, Hugging Face transformers with random weights and their default attention, scikit-learn by
skl2onnx, XGBoost and LightGBM by onnxmltools, trees as tensors by hummingbird, Keras by its own export; `datasets` are
estimators of the tables that scikit-learn brings along, whose features reach differently far. Each graph
is compiled on 16 samples (precision `auto`, then each one until one can be proved), a sample that was not among them is
proved, the proof verified, and the answer compared with onnxruntime's.

*Proved*: every output, labels too, within 20 dB of onnxruntime's answer (of the mean power of the model's answers) and with a
proof that the verifier takes: all outputs of a graph by one program and one proof, or, where that is said below, each by its own. *Poor*: a program whose answer is further away; it is not proved.
*Refused*: no program, or none that has a proof, with the reason. *Wrong*: a proof that the verifier refuses, a graph that the
compiler changed in meaning, a panic.
";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterOptions {
    /// What the graphs are drawn from.
    pub seed: u64,
    /// Where graphs are, or are made; none: below `target/`.
    pub folder: Option<PathBuf>,
    /// The example `coverage` of `tg-compile` where it is built already; none: cargo builds it.
    pub runner: Option<PathBuf>,
    /// Whether page and names are written.
    pub bless: bool,
    /// Whether 16 bits are compared with 8, instead of everything else.
    pub widths: bool,
    /// What a missing Python means.
    pub missing: Missing,
}

impl ExporterOptions {
    /// Reads `--seed S`, `--dir DIR`, `--runner FILE`, `--bless`, `--widths` and `--require`.
    ///
    /// # Errors
    /// If a word is unknown or a value is missing or no number, or another seed than the committed one is blessed.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let mut options = Self {
            missing: Missing::take(&mut words),
            seed: SEED,
            folder: None,
            runner: None,
            bless: false,
            widths: false,
        };
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
            match word {
                "--seed" => options.seed = value()?.parse().context("--seed needs a number")?,
                "--dir" => options.folder = Some(PathBuf::from(value()?)),
                "--runner" => options.runner = Some(PathBuf::from(value()?)),
                "--bless" => options.bless = true,
                "--widths" => options.widths = true,
                _ => bail!(
                    "exporters does not know `{word}`; it takes --seed, --dir, --runner, --bless, --widths and --require"
                ),
            }
        }
        ensure!(
            !options.bless || options.seed == SEED,
            "the page is of seed {SEED}: leave --seed or --bless out"
        );
        Ok(options)
    }
}

/// How the graphs of a family ended: proved, poor, refused, wrong.
type Ends = [usize; 4];

/// What came of all graphs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExporterReport {
    families: BTreeMap<String, Ends>,
    /// Graph and reason of what is not proved.
    left: Vec<[String; 3]>,
    proved: Vec<String>,
    /// Graphs whose outputs are proved by a program each, with the reason.
    apart: Vec<[String; 2]>,
}

impl ExporterReport {
    /// Reads the example's lines.
    ///
    /// # Errors
    /// If a line is none of them.
    pub fn read(text: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in text.lines() {
            let own = CaseLine::read(line)?;
            let (outcome, graph) = (own.outcome, own.case);
            let family = graph.rsplit_once('-').map_or(graph, |(family, _)| family);
            let end = match outcome {
                "proved" => 0,
                "poor" => 1,
                "refused" => 2,
                "wrong" => 3,
                _ => bail!("the runner wrote the outcome `{outcome}`"),
            };
            report.families.entry(family.to_owned()).or_default()[end] += 1;
            if end == 0 {
                report.proved.push(graph.to_owned());
                if !own.reason.is_empty() {
                    report.apart.push([graph, own.reason].map(str::to_owned));
                }
            } else {
                let left = [outcome, graph, own.reason].map(str::to_owned);
                report.left.push(left);
            }
        }
        Ok(report)
    }

    /// The committed form: the names of the graphs that are proved.
    #[must_use]
    pub fn committed(&self) -> String {
        let mut text = format!(
            "# Graphs of exporters of seed {SEED} that are proved; written by `cargo xtask exporters --bless`.\n"
        );
        for graph in &self.proved {
            let _ = writeln!(text, "{graph}");
        }
        text
    }

    /// What is wrong, and what the committed text has as proved and is not now.
    #[must_use]
    pub fn findings(&self, committed: &str) -> Vec<String> {
        let known = |graph: &str| committed.lines().any(|line| line == graph);
        let left = self
            .left
            .iter()
            .filter(|[outcome, graph, _]| outcome == "wrong" || known(graph));
        let finding =
            |[outcome, graph, reason]: &[String; 3]| format!("{graph} is {outcome}: {reason}");
        left.map(finding).collect()
    }

    /// The tables of the page; `what` says what a graph is.
    #[must_use]
    pub fn tables(&self, what: impl Fn(&str) -> String) -> String {
        let mut text = String::from(
            "| family | graphs | proved | poor | refused | wrong |\n|---|---|---|---|---|---|\n",
        );
        let mut all = Ends::default();
        for (family, ends) in &self.families {
            for (sum, count) in all.iter_mut().zip(ends) {
                *sum += count;
            }
            let _ = writeln!(text, "{}", line(family, *ends));
        }
        let _ = writeln!(text, "{}", line("all", all));
        if !self.left.is_empty() {
            text.push_str("\n## What is not proved\n\n| graph | what it is | outcome | reason |\n|---|---|---|---|\n");
            for [outcome, graph, reason] in &self.left {
                let reason = reason.replace('|', "\\|");
                let _ = writeln!(text, "| {graph} | {} | {outcome} | {reason} |", what(graph));
            }
        }
        if !self.apart.is_empty() {
            text.push_str(
                "\n## In several programs\n\n| graph | what it is | reason |\n|---|---|---|\n",
            );
            for [graph, reason] in &self.apart {
                let reason = reason.replace('|', "\\|");
                let _ = writeln!(text, "| {graph} | {} | {reason} |", what(graph));
            }
        }
        text
    }
}

fn line(name: &str, ends: Ends) -> String {
    let [proved, poor, refused, wrong] = ends;
    let all: usize = ends.iter().sum();
    format!("| {name} | {all} | {proved} | {poor} | {refused} | {wrong} |")
}

/// Draws what is not there yet, runs all graphs and holds the result against the committed one.
///
/// # Errors
/// If a graph is wrong, one of the committed seed was proved before and is not now, or Python is missing where it is required.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &ExporterOptions) -> Result<()> {
    let folder = options
        .folder
        .clone()
        .unwrap_or_else(|| root.join(format!("target/exporters-{}", options.seed)));
    let prepared = Python::prepare(root, "exporters");
    let Some(python) = or_skip(prepared, "the corpus of exporters", options.missing)? else {
        return Ok(());
    };
    let arguments: [OsString; 3] = [
        folder.clone().into_os_string(),
        "--seed".into(),
        options.seed.to_string().into(),
    ];
    python.script("make_exporters.py", &arguments)?;
    if options.widths {
        return both_widths(root, &folder, options);
    }
    let report = ExporterReport::read(&lines(root, &folder, options)?)?;
    let what = |graph: &str| configuration(&folder.join(graph)).unwrap_or_default();
    let tables = report.tables(what);
    println!("{tables}");
    let committed = root.join(COMMITTED);
    let known = fs::read_to_string(&committed).unwrap_or_default();
    if options.bless {
        process::write(root, COMMITTED, &report.committed())?;
        process::write(root, PAGE, &format!("{PREFACE}\n{tables}"))?;
    }
    let known = if options.seed == SEED && !options.bless {
        known
    } else {
        String::new()
    };
    let findings = report.findings(&known);
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(findings.is_empty(), "{} graphs are worse", findings.len());
    Ok(())
}

/// Compares 16 bits with 8 on all graphs.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn both_widths(root: &Path, folder: &Path, options: &ExporterOptions) -> Result<()> {
    let report = WidthReport::read(&lines(root, folder, options)?)?;
    let section = report.section();
    println!("{section}");
    if options.bless {
        let page = fs::read_to_string(root.join(WIDTHS_PAGE));
        let page = page.with_context(|| format!("`{WIDTHS_PAGE}` cannot be read"))?;
        process::write(root, WIDTHS_PAGE, &placed(&page, &section))?;
    }
    Ok(())
}

/// The example's lines.
fn lines(root: &Path, folder: &Path, options: &ExporterOptions) -> Result<String> {
    let mut command = process::coverage(root, options.runner.as_deref());
    command.arg(folder);
    command.args(options.widths.then_some("--widths"));
    process::answer_or(&mut command, "the graphs could not be run")
}

/// What a graph is, as its maker wrote it.
fn configuration(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("entry.json")).ok()?;
    let start = text.find("\"configuration\": \"")? + "\"configuration\": \"".len();
    let rest = &text[start..];
    Some(rest[..rest.find('"')?].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str =
        "proved torch-00 Gemm\nrefused torch-01 Foo: Foo: no form\npoor keras-00 Bar: 3.0 dB\n";

    #[test]
    fn lines_become_tables_and_what_is_lost_is_found() {
        let report = ExporterReport::read(LINES).expect("the lines are the runner's");
        let tables = report.tables(|graph| format!("a {graph}"));
        assert!(tables.contains("| torch | 2 | 1 | 0 | 1 | 0 |"), "{tables}");
        assert!(tables.contains("| all | 3 | 1 | 1 | 1 | 0 |"), "{tables}");
        assert!(
            tables.contains("| torch-01 | a torch-01 | refused | Foo: no form |"),
            "{tables}"
        );
        assert!(!tables.contains("In several programs"), "{tables}");
        let apart = "proved torch-00 Gemm: in several programs: no form\n";
        let apart = ExporterReport::read(apart).expect("the line is the runner's");
        assert_eq!(apart.proved, report.proved);
        let tables = apart.tables(|graph| format!("a {graph}"));
        assert!(tables.contains("| torch-00 | a torch-00 | in several programs: no form |"));
        assert!(report.findings(&report.committed()).is_empty());
        assert_eq!(report.findings("torch-01\n").len(), 1);
        let wrong = ExporterReport::read("wrong torch-02 Foo: it panics\n").expect("a line");
        assert_eq!(wrong.findings("").len(), 1);
        assert!(ExporterReport::read("pass torch-00 Add").is_err());
    }

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let read = ExporterOptions::parse(&["--seed", "7", "--require"]).expect("known words");
        assert_eq!((read.seed, read.missing), (7, Missing::Fail));
        for words in [
            &["--seed"][..],
            &["--seed", "x"],
            &["--seed", "2", "--bless"],
            &["--all"],
        ] {
            assert!(ExporterOptions::parse(words).is_err(), "{words:?}");
        }
    }
}
