//! Compiles, proves and verifies the ONNX backend node tests that read a float32 tensor, or graphs that exporters wrote, and
//! prints one line per case; `cargo xtask coverage` and `cargo xtask exporters` read them.
//!
//! ```text
//! cargo run -p tg-compile --example coverage -- CASES [NAME PART ...] [--sample N] [--seed S] [--done FILE] [--widths] [--verbose]
//! ```
//!
//! CASES is a folder as `xtask/python/dump_onnx_cases.py` or `make_exporters.py` writes it. Lines are `OUTCOME CASE OPS`, with `: REASON` after
//! all outcomes but `proved...`, which has one where the outputs of a graph are not in one program. `--sample` draws so many cases by a seed; `--done` leaves out the cases of a file of such
//! lines. With `--widths`, graphs of exporters alone are proved in 8 and in 16 bits, whatever their answers are worth: lines
//! `GRAPH BITS OUTCOME MILLISECONDS DECIBELS`, with `: REASON` where there is no proof.

mod attempt;
mod case;
mod cost;
mod exported;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use case::{NodeTest, Verdict};
use exported::Exported;
use tg_compile::integer::Precision;
use tg_exec::sample::Numbers;

/// What is asked for.
#[derive(Debug, Default)]
struct Options {
    folder: PathBuf,
    /// Parts of names; a case has all of them.
    parts: Vec<String>,
    sample: Option<usize>,
    seed: u64,
    done: BTreeSet<String>,
    verbose: bool,
    widths: bool,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        let Some((folder, rest)) = words.split_first() else {
            bail!("usage: coverage CASES [NAME PART ...] [OPTIONS]");
        };
        let mut options = Self {
            folder: PathBuf::from(folder),
            ..Self::default()
        };
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            if let Some(flag) = match word.as_str() {
                "--verbose" => Some(&mut options.verbose),
                "--widths" => Some(&mut options.widths),
                _ => None,
            } {
                *flag = true;
                continue;
            }
            if !word.starts_with("--") {
                options.parts.push(word.clone());
                continue;
            }
            let value = rest
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--sample" => options.sample = Some(value.parse()?),
                "--seed" => options.seed = value.parse()?,
                "--done" => options.done = done(&fs::read_to_string(value)?),
                _ => bail!("`{word}` is not known"),
            }
        }
        Ok(options)
    }
}

/// The cases of earlier lines.
fn done(text: &str) -> BTreeSet<String> {
    let case = |line: &str| line.split(' ').nth(1).map(str::to_owned);
    text.lines().filter_map(case).collect()
}

/// A graph with what it should answer.
enum Case {
    Node(NodeTest),
    Exported(Exported),
}

impl Case {
    fn open(path: PathBuf) -> Self {
        match Exported::open(&path) {
            Some(exported) => Self::Exported(exported),
            None => Self::Node(NodeTest::new(path)),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Node(test) => &test.name,
            Self::Exported(graph) => &graph.name,
        }
    }

    /// Whether it counts.
    fn counts(&self) -> bool {
        match self {
            Self::Node(test) => test.reads_floats(),
            Self::Exported(_) => true,
        }
    }

    fn operators(&self) -> String {
        match self {
            Self::Node(test) => test.operators(),
            Self::Exported(graph) => graph.operators(),
        }
    }

    fn judge(&self, verbose: bool) -> Verdict {
        match self {
            Self::Node(test) => test.judge(verbose),
            Self::Exported(graph) => graph.judge(None),
        }
    }
}

/// The cases that are run, by name.
fn cases(options: &Options) -> Result<Vec<Case>> {
    let folder = &options.folder;
    let entries =
        fs::read_dir(folder).with_context(|| format!("`{}` cannot be read", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.join("model.onnx").is_file())
        .collect();
    paths.sort();
    let mut cases: Vec<Case> = paths.into_iter().map(Case::open).collect();
    cases.retain(|case| options.parts.iter().all(|part| case.name().contains(part)));
    cases.retain(Case::counts);
    if let Some(count) = options.sample {
        let mut numbers = Numbers::new(options.seed);
        while cases.len() > count {
            let last = i64::try_from(cases.len() - 1)?;
            cases.remove(usize::try_from(numbers.between(0, last))?);
        }
    }
    cases.retain(|case| !options.done.contains(case.name()));
    Ok(cases)
}

/// A graph of an exporter in 8 and in 16 bits, a line each.
fn widths(case: &Case, output: &mut impl std::io::Write) -> Result<()> {
    let Case::Exported(graph) = case else {
        return Ok(());
    };
    for (bits, precision) in [(8, Precision::Bits8), (16, Precision::Bits16)] {
        let verdict = catch_unwind(AssertUnwindSafe(|| graph.judge(Some(precision))));
        let name = &graph.name;
        match verdict.unwrap_or_else(|_| Verdict::Wrong("it panics".to_owned())) {
            Verdict::Proved(_, _, cost) => {
                let (ms, db) = (cost.cpu_ms, cost.snr_db);
                writeln!(output, "{name} {bits} proved {ms:.3} {db:.1}")?;
            }
            Verdict::Refused(reason) | Verdict::Poor(reason) => {
                writeln!(output, "{name} {bits} refused 0 0: {reason}")?;
            }
            Verdict::Wrong(reason) => writeln!(output, "{name} {bits} wrong 0 0: {reason}")?,
        }
        output.flush()?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(&words)?;
    if !options.verbose {
        // A panic is an outcome.
        std::panic::set_hook(Box::new(|_| ()));
    }
    let mut output = std::io::stdout().lock();
    for case in cases(&options)? {
        if options.widths {
            widths(&case, &mut output)?;
            continue;
        }
        let verdict = catch_unwind(AssertUnwindSafe(|| case.judge(options.verbose)));
        let verdict = verdict.unwrap_or_else(|_| Verdict::Wrong("it panics".to_owned()));
        let operators = case.operators();
        match verdict {
            Verdict::Proved(bound, None, _) => {
                writeln!(output, "{} {} {operators}", bound.word(), case.name())?;
            }
            Verdict::Proved(bound, Some(reason), _) => {
                let (word, name) = (bound.word(), case.name());
                writeln!(
                    output,
                    "{word} {name} {operators}: in several programs: {reason}"
                )?;
            }
            Verdict::Refused(reason) => {
                writeln!(output, "refused {} {operators}: {reason}", case.name())?;
            }
            Verdict::Poor(reason) => {
                writeln!(output, "poor {} {operators}: {reason}", case.name())?
            }
            Verdict::Wrong(reason) => {
                writeln!(output, "wrong {} {operators}: {reason}", case.name())?;
            }
        }
        output.flush()?;
    }
    Ok(())
}
