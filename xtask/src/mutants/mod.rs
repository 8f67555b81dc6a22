//! `cargo xtask mutants`: what the tests of the ledger, the market and the proofs are worth, by mutants of their code.
//!
//! A mutant changes one function in one place: another operator, no negation, a guard that always holds, a value
//! returned at once. [`find`] lists them by the syntax tree; a seed draws some that are not known yet; [`mod@write`] writes all that are
//! drawn into a copy of the sources, each behind a switch, so that [`build`] builds a crate once for all of them; [`mod@run`] runs
//! its tests ([`suite`]) with one switch on at a time, up to the first test that fails. What came of it is kept in
//! `xtask/mutants.txt` ([`record`]) by the hash of the function: it is asked again when that changes.
//!
//! `const` goes from functions with mutants; a mutant that cannot be built (a type without that operator, a function that
//! constants call) is left out of the count. Code that macros are given has none.

pub mod build;
pub mod find;
pub mod record;
pub mod run;
pub mod suite;
pub mod write;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use build::{MutantTree, Placed};
use record::{MutantEntry, MutantKey, MutantVerdict, Records};
use suite::{MEASURED, Measured};

const COMMITTED: &str = "xtask/mutants.txt";

/// The share of mutants that tests have to catch, in hundredths.
const CAUGHT_MIN: usize = 90;

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutantOptions {
    /// What mutants are drawn from.
    pub seed: u64,
    /// How many of each crate.
    pub count: usize,
    /// One crate; none: all.
    pub package: Option<String>,
    /// Those that were missed are asked again, instead of new ones.
    pub again: bool,
    /// Only the sums are printed.
    pub report: bool,
    /// Where the copy is and is built; none: below `target/`.
    pub folder: Option<PathBuf>,
}

impl MutantOptions {
    /// Reads `--seed S`, `--count N`, `--crate NAME`, `--again`, `--report` and `--dir DIR`.
    ///
    /// # Errors
    /// If a word is unknown, or a value is missing or no number.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            seed: 1,
            count: 40,
            package: None,
            again: false,
            report: false,
            folder: None,
        };
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
            match word {
                "--seed" => options.seed = value()?.parse().context("--seed needs a number")?,
                "--count" => options.count = value()?.parse().context("--count needs a number")?,
                "--crate" => options.package = Some((*value()?).to_owned()),
                "--dir" => options.folder = Some(PathBuf::from(value()?)),
                "--again" => options.again = true,
                "--report" => options.report = true,
                _ => bail!(
                    "mutants does not know `{word}`; it takes --seed, --count, --crate, --dir, --again and --report"
                ),
            }
        }
        let known = |name: &str| MEASURED.iter().any(|it| it.package == name);
        if let Some(name) = options.package.as_deref().filter(|it| !known(it)) {
            let names: Vec<&str> = MEASURED.iter().map(|it| it.package).collect();
            bail!(
                "no tests are named for `{name}`, but for {}",
                names.join(", ")
            );
        }
        Ok(options)
    }
}

/// Draws mutants and asks the tests; what is known already is not asked again. Every result is written at once, so a run
/// that is cut off goes on where it was with the next one of the same seed.
///
/// # Errors
/// If the tests fail without a mutant, something cannot be built or written, or fewer than nine of ten are caught.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &MutantOptions) -> Result<()> {
    let path = root.join(COMMITTED);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut records = Records::read(&text)?;
    let mut is_enough = true;
    for measured in MEASURED {
        if options
            .package
            .as_deref()
            .is_some_and(|it| it != measured.package)
        {
            continue;
        }
        let all = mutants_in(root, measured.package)?;
        records.forget_changed(measured.package, &all);
        if !options.report {
            ask(root, options, (measured, &all), &mut records)?;
        }
        let count = records.count(measured.package);
        let of = count.drawn - count.excused;
        println!(
            "{}: {} mutants of {}, {} drawn, {} caught, {} that none can tell: {:.1} %",
            measured.package,
            all.len(),
            files_of(root, measured.package)?.len(),
            count.drawn,
            count.caught,
            count.excused,
            100.0 * count.caught as f64 / of.max(1) as f64
        );
        is_enough &= 100 * count.caught >= CAUGHT_MIN * of;
    }
    ensure!(
        is_enough,
        "fewer than {CAUGHT_MIN} % of the mutants are caught"
    );
    Ok(())
}

/// Asks the tests of a crate about the mutants that are drawn.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn ask(
    root: &Path,
    options: &MutantOptions,
    (measured, all): (&Measured, &[Placed]),
    records: &mut Records,
) -> Result<()> {
    let drawn = match options.again {
        true => missed(measured.package, all, records),
        false => draw(measured.package, all, records, options),
    };
    if drawn.is_empty() {
        return Ok(());
    }
    let folder = options
        .folder
        .clone()
        .unwrap_or_else(|| root.join("target/mutants"));
    let (copy, target) = (folder.join("tree"), folder.join("target"));
    fs::create_dir_all(&copy)?;
    println!(
        "{}: builds {} mutants in {}",
        measured.package,
        drawn.len(),
        folder.display()
    );
    let tree = MutantTree::copied(root, &copy.canonicalize()?, &target)?;
    let (binaries, left_out) = tree.build(measured.package, measured.suites, &drawn)?;
    let binaries = run::timed(binaries)?;
    for (number, placed) in (1_u32..).zip(&drawn) {
        let verdict = match left_out.contains(&number) {
            true => MutantVerdict::Unbuildable,
            false => run::verdict(&binaries, number)?,
        };
        let change = &placed.mutant.change;
        println!(
            "{} {}, {change}: {verdict:?}",
            placed.file, placed.mutant.function
        );
        let entry = MutantEntry {
            change: change.clone(),
            verdict,
        };
        records
            .0
            .insert(MutantKey::of(measured.package, placed), entry);
        process::write(root, COMMITTED, &records.text())?;
    }
    Ok(())
}

/// Mutants that were missed, without a reason.
fn missed(package: &str, all: &[Placed], records: &Records) -> Vec<Placed> {
    let is_missed = |it: &&Placed| {
        let entry = records.0.get(&MutantKey::of(package, it));
        entry.is_some_and(|it| it.verdict == MutantVerdict::Missed(String::new()))
    };
    all.iter().filter(is_missed).cloned().collect()
}

/// The first of all in the order of the seed, without those that are known.
fn draw(package: &str, all: &[Placed], records: &Records, options: &MutantOptions) -> Vec<Placed> {
    let order = |index: usize| {
        let mut x = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64;
        for multiplier in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
            x = (x ^ (x >> 30)).wrapping_mul(multiplier);
        }
        x ^ (x >> 31)
    };
    let mut turns: Vec<usize> = (0..all.len()).collect();
    turns.sort_by_key(|index| order(*index));
    let drawn = turns.into_iter().take(options.count).map(|it| &all[it]);
    let is_new = |it: &&Placed| !records.0.contains_key(&MutantKey::of(package, it));
    drawn.filter(is_new).cloned().collect()
}

/// The sources of a crate that are built outside tests.
fn files_of(root: &Path, package: &str) -> Result<Vec<String>> {
    let mut list = std::process::Command::new("git");
    let pattern = format!("crates/{package}/src/*.rs");
    list.current_dir(root).args(["ls-files", "-z", &pattern]);
    let names = process::answer_or(&mut list, "git cannot list the files")?;
    let is_for_tests = |name: &str| {
        let parts = name.split('/');
        let test = |part: &str| part == "tests" || part.trim_end_matches(".rs").ends_with("tests");
        parts.into_iter().any(test)
    };
    let names = names.split('\0').filter(|it| !it.is_empty());
    Ok(names
        .filter(|it| !is_for_tests(it))
        .map(str::to_owned)
        .collect())
}

/// All mutants of a crate, in the order of its files.
fn mutants_in(root: &Path, package: &str) -> Result<Vec<Placed>> {
    let mut all = Vec::new();
    for file in files_of(root, package)? {
        // A file that was removed and is tracked still.
        let Ok(text) = fs::read_to_string(root.join(&file)) else {
            continue;
        };
        let found = find::mutants_of(&text).with_context(|| file.clone())?;
        all.extend(found.into_iter().map(|mutant| Placed {
            file: file.clone(),
            mutant,
        }));
    }
    Ok(all)
}
