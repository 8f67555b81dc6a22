//! Runs the corpus of exporter output on both tiers and compares with onnxruntime; the tables of `docs/CORPUS.md`.
//!
//! ```text
//! cargo run -p tg-compile --example corpus -- DIR [NAME ...] [--tier float|integer] [--samples N] [--explain]
//!     [--precision 8|mixed|16|auto] [--reach greatest|mse|PERCENT] [--smooth STRENGTH]
//! ```
//!
//! DIR was made by `cargo xtask corpus`. On tier TGF-1 small models run all samples (at most 256), models of more than
//! 2 MB run 16; on tier TGX-1 all run N (256).

mod entry;
mod float;
mod integer;
mod measure;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tg_compile::PrecisionChoice;
use tg_compile::calibrate::ReachRule;
use tg_compile::integer::Precision;

use crate::entry::Entry;

/// Which tiers are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tiers {
    Both,
    Float,
    Integer,
}

#[derive(Debug, PartialEq)]
struct Options {
    folder: PathBuf,
    /// Entries; all if empty.
    names: Vec<String>,
    tiers: Tiers,
    integer: integer::Options,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self> {
        let Some((folder, rest)) = words.split_first() else {
            bail!("usage: corpus DIR [NAME ...] [OPTIONS]");
        };
        let mut options = Self {
            folder: PathBuf::from(folder),
            names: Vec::new(),
            tiers: Tiers::Both,
            integer: integer::Options {
                precision: PrecisionChoice::Auto,
                reach: ReachRule::Greatest,
                smooth: None,
                samples: 256,
                explain: false,
            },
        };
        let mut rest = rest.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with("--") {
                options.names.push(word.clone());
                continue;
            }
            if word == "--explain" {
                options.integer.explain = true;
                continue;
            }
            let value = rest
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            options.set(word, value)?;
        }
        Ok(options)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        let fixed = PrecisionChoice::Fixed;
        match (option, value) {
            ("--tier", "float") => self.tiers = Tiers::Float,
            ("--tier", "integer") => self.tiers = Tiers::Integer,
            ("--precision", "auto") => self.integer.precision = PrecisionChoice::Auto,
            ("--precision", "8") => self.integer.precision = fixed(Precision::Bits8),
            ("--precision", "mixed") => self.integer.precision = fixed(Precision::Mixed),
            ("--precision", "16") => self.integer.precision = fixed(Precision::Bits16),
            ("--reach", "greatest") => self.integer.reach = ReachRule::Greatest,
            ("--reach", "mse") => self.integer.reach = ReachRule::LeastError,
            ("--reach", percent) => self.integer.reach = ReachRule::Percentile(percent.parse()?),
            ("--smooth", strength) => self.integer.smooth = Some(strength.parse()?),
            ("--samples", count) => self.integer.samples = count.parse()?,
            _ => bail!("`{option} {value}` is not known"),
        }
        Ok(())
    }
}

fn entries(options: &Options) -> Result<Vec<PathBuf>> {
    let folder = &options.folder;
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .with_context(|| format!("`{}` cannot be read", folder.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    let asked = |path: &Path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        options.names.is_empty() || options.names.contains(&name)
    };
    folders.retain(|path| path.join("entry.json").exists() && asked(path));
    folders.sort();
    if folders.is_empty() {
        bail!("`{}` holds no such entry of a corpus", folder.display());
    }
    Ok(folders)
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn run(options: &Options) -> Result<bool> {
    let folders = entries(options)?;
    let load = |path: &PathBuf| Entry::load(path).with_context(|| path.display().to_string());
    let mut good = true;
    if options.tiers != Tiers::Integer {
        println!("## Tier TGF-1\n\n{}", float::HEAD);
        let mut within = 0;
        for path in &folders {
            let entry = load(path)?;
            eprintln!("{}: float", entry.name);
            let row = float::row(&entry)?;
            println!("{}", row.text);
            within += usize::from(row.within);
            good &= row.good;
        }
        println!(
            "\n{within} of {} models within a relative error of 1e-4.",
            folders.len()
        );
    }
    if options.tiers == Tiers::Both {
        println!();
    }
    if options.tiers != Tiers::Float {
        println!("## Tier TGX-1\n\n{}", integer::HEAD);
        let mut compiled = 0;
        for path in &folders {
            let entry = load(path)?;
            eprintln!("{}: integers", entry.name);
            let (text, ran) = integer::row(&entry, &options.integer)?;
            println!("{text}");
            compiled += usize::from(ran);
        }
        println!(
            "\n{compiled} of {} models have an integer program.",
            folders.len()
        );
    }
    Ok(good)
}

#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&words).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_bad_ones_named() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let read = Options::parse(&words("d gpt --tier integer --precision 8 --reach mse"));
        let read = read.expect("every word is known");
        assert_eq!(read.tiers, Tiers::Integer);
        assert_eq!(read.names, ["gpt"]);
        assert_eq!(read.integer.reach, ReachRule::LeastError);
        for bad in ["d --tier exact", "d --samples", "d --samples many"] {
            assert!(Options::parse(&words(bad)).is_err(), "{bad}");
        }
    }
}
