//! `cargo xtask dispute-test`: disputes about long runs, end to end over real processes: who pays, and what it takes of everybody else.
//!
//! Read in this order: [`cases`] (what is tried), [`models`] (what is run), [`lane`] (plays the cases of a model), [`judging`] (what
//! validators took), [`outcome`] (what must be true in the end) and [`report`] (the table). The processes are those of
//! [`network`](crate::network), on loopback. The cases of different models are played at the same time.

mod cases;
mod judging;
mod lane;
mod models;
mod outcome;
mod report;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};

use self::cases::{CASES, DisputeCase};
use self::judging::JudgedLeases;
use self::lane::{DisputeLane, DisputeRow, DisputeRun};
use self::models::DisputedModel;
use self::report::OfModel;
use crate::bring;
use crate::network::checks::{self, Check};
use crate::network::fleet::{Fleet, FleetPlace, FleetPlan, PROVIDERS, Participant};
use crate::network::load::{self, Orderer};
use crate::network::until;
use crate::network::watch::NodeWatch;
use crate::process;
use crate::python::Missing;

/// What each account that orders or challenges gets, in TGRID.
const FUNDS: &str = "500";

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DisputeOptions {
    /// The `tensorgrid` to use, with the examples in `examples` beside it; none: the release build, made now.
    binary: Option<PathBuf>,
    /// What a missing Python means.
    missing: Missing,
    /// What the names of models contain that are played; empty: all.
    model: String,
    /// The same of cases.
    only: String,
    /// Whether the document is written.
    write: bool,
}

impl DisputeOptions {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let mut options = Self {
            binary: None,
            missing: Missing::take(&mut words),
            model: String::new(),
            only: String::new(),
            write: false,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next();
                value.with_context(|| format!("{word} needs a value"))
            };
            match word {
                "--binary" => options.binary = Some(value()?.into()),
                "--model" => options.model = value()?.to_owned(),
                "--only" => options.only = value()?.to_owned(),
                "--write" => options.write = true,
                other => bail!(
                    "`{other}` is not known here: --binary, --model, --only, --require and --write are"
                ),
            }
        }
        ensure!(
            !options.write || options.model.is_empty() && options.only.is_empty(),
            "--write writes a document of all cases: --model and --only leave some out"
        );
        Ok(options)
    }
}

/// The programs of a run.
#[derive(Debug)]
struct DisputePrograms {
    binary: PathBuf,
    cheat: PathBuf,
    party: PathBuf,
}

/// Plays all disputes, and prints the table.
///
/// # Errors
/// If somebody who withholds does not pay, an honest party loses something, or a process cannot be run.
pub fn command(root: &Path, words: &[&str]) -> Result<()> {
    let options = DisputeOptions::parse(words)?;
    let programs = programs(root, options.binary.as_deref())?;
    let Some(models) = models::prepare(root, &programs.binary, options.missing)? else {
        return Ok(());
    };
    let is_meant = |it: &&DisputedModel| it.registered.contains(&options.model);
    let models: Vec<&DisputedModel> = models.iter().filter(is_meant).collect();
    ensure!(
        !models.is_empty(),
        "no model is called like {}",
        options.model
    );
    ensure!(
        models.len() <= usize::from(PROVIDERS),
        "a provider for each model"
    );
    let played: Vec<Vec<&DisputeCase>> = models
        .iter()
        .map(|it| cases_of(it, &options.only))
        .collect();
    let cheats: usize = played.iter().map(|cases| lane::cheats_of(cases)).sum();
    let shared = found(root, &programs, u8::try_from(cheats)?)?;
    let watch = begin(&shared)?;
    let first = load::first(&shared.fleet(), root)?;
    let lanes = lanes(&shared, &first, &models, &played)?;
    let stakes = checks::stakes(&shared.fleet())?;
    let all = play(lanes, &played)?;
    say(&report::table(&all));
    let wrong = judge(&shared, &watch, &stakes)?;
    for line in report::summary(&all) {
        say(&line);
    }
    if options.write {
        let machine = machine();
        process::write(root, "docs/DISPUTES.md", &report::document(&machine, &all))?;
    }
    let rows = all.iter().flat_map(|it| &it.1);
    let wrong = wrong + rows.filter(|it| !it.wrong.is_empty()).count();
    ensure!(
        wrong == 0,
        "{wrong} things are wrong; logs are in target/dispute-test"
    );
    Ok(())
}

/// The cases of a model that are asked for.
fn cases_of(model: &DisputedModel, only: &str) -> Vec<&'static DisputeCase> {
    let has = |it: &&DisputeCase| {
        (model.has_attention || !it.needs_attention) && (model.takes_sync || it.verify != "sync")
    };
    let cases = CASES.iter().filter(has);
    cases.filter(|it| it.name.contains(only)).collect()
}

/// Finds or builds the programs.
fn programs(root: &Path, binary: Option<&Path>) -> Result<DisputePrograms> {
    let binary = match binary {
        Some(file) => file.to_path_buf(),
        None => {
            let built = bring::build(root)?;
            for example in ["cheating_provider", "dispute_party"] {
                let mut cargo = process::cargo(root);
                cargo.args(["build", "--release", "--package", "tensorgrid"]);
                process::run(
                    cargo.args(["--example", example]),
                    "an example does not build",
                )?;
            }
            built
        }
    };
    let absolute = |file: &Path| {
        let found = fs::canonicalize(file);
        found.with_context(|| format!("there is no `{}`", file.display()))
    };
    let beside = |name: &str| absolute(&binary.with_file_name("examples").join(name));
    Ok(DisputePrograms {
        cheat: beside("cheating_provider")?,
        party: beside("dispute_party")?,
        binary: absolute(&binary)?,
    })
}

/// Founds the network in a folder of the repository's own.
fn found(root: &Path, programs: &DisputePrograms, cheats: u8) -> Result<DisputeRun> {
    let folder = root.join("target/dispute-test");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let plan = FleetPlan {
        place: FleetPlace::Loopback,
        cheats,
        // Of so few validators windows are as short as they may be.
        options: &["--grow-to", "4"],
        log: Some(judging::LOG),
    };
    let fleet = Fleet::found(
        &programs.binary,
        Some(programs.cheat.clone()),
        &folder,
        plan,
    )?;
    Ok(DisputeRun {
        fleet: Mutex::new(fleet),
        judged: JudgedLeases::default(),
        party: programs.party.clone(),
        logs: folder.join("logs"),
    })
}

/// Starts all nodes.
fn begin(shared: &DisputeRun) -> Result<NodeWatch> {
    let mut fleet = shared.fleet();
    for node in Participant::nodes() {
        fleet.start(node)?;
    }
    let nodes = Participant::nodes().into_iter();
    let watch = NodeWatch::start(nodes.map(|it| (it, fleet.api(it))).collect());
    drop(fleet);
    until("all nodes have blocks", || {
        let mut nodes = Participant::nodes().into_iter();
        Ok(nodes.all(|it| watch.height(it) > 2))
    })?;
    Ok(watch)
}

/// Registers the models, and gives each its provider and accounts.
fn lanes<'a>(
    shared: &'a DisputeRun,
    first: &Orderer,
    models: &[&'a DisputedModel],
    played: &[Vec<&DisputeCase>],
) -> Result<Vec<DisputeLane<'a>>> {
    let folder = shared.fleet().folder().to_path_buf();
    let mut lanes = Vec::new();
    let mut next = 0;
    for ((index, &model), cases) in (0..PROVIDERS).zip(models).zip(played) {
        say(&format!("registering {} ({}) ...", model.name, model.tier));
        model.register(first)?;
        let gateway = shared.fleet().api(Participant::Gateway(index % 2));
        let account = |number: usize| {
            load::fund(
                first,
                &folder,
                (number, FUNDS),
                &format!("http://{gateway}"),
            )
        };
        let until = next + u8::try_from(lane::cheats_of(cases))?;
        let lane = DisputeLane {
            shared,
            model,
            honest: index,
            requestor: account(2 * usize::from(index) + 1)?,
            challenger: account(2 * usize::from(index) + 2)?,
            cheats: next..until,
        };
        next = until;
        lane.begin()?;
        lanes.push(lane);
    }
    Ok(lanes)
}

/// Plays the cases of all models.
fn play<'a>(lanes: Vec<DisputeLane<'a>>, played: &[Vec<&DisputeCase>]) -> Result<Vec<OfModel<'a>>> {
    let said = Mutex::new(());
    thread::scope(|scope| {
        let threads = lanes.into_iter().zip(played).map(|(mut lane, cases)| {
            let said = &said;
            scope.spawn(move || {
                let rows = cases.iter().map(|case| {
                    let row = lane.play(case);
                    let _turn = said.lock().unwrap_or_else(PoisonError::into_inner);
                    let word = if row.wrong.is_empty() { "ok" } else { "WRONG" };
                    let name = &lane.model.registered;
                    say(&format!(
                        "{word:<5} {:>3.0} s {name:<16} {}",
                        row.seconds, row.case
                    ));
                    row.wrong.iter().for_each(|it| say(&format!("      {it}")));
                    row
                });
                let rows: Vec<DisputeRow> = rows.collect();
                (lane.model, rows)
            })
        });
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|it| it.join());
        let ended = ended.map(|it| it.map_err(|_| anyhow::anyhow!("a thread of a model ended")));
        ended.collect()
    })
}

/// Looks at the network as a whole, and gives how many things are wrong.
fn judge(
    shared: &DisputeRun,
    watch: &NodeWatch,
    stakes: &BTreeMap<String, String>,
) -> Result<usize> {
    let fleet = shared.fleet();
    let after = checks::stakes(&fleet)?;
    let changed = (after != *stakes).then(|| format!("they were {stakes:?} and are {after:?}"));
    let heights = watch.heights();
    let checks: [Check; 3] = [
        checks::money(&fleet)?,
        (
            format!("all nodes had one state at each of {heights} heights"),
            watch.forks(),
        ),
        (
            "no validator's stake changed".to_owned(),
            changed.into_iter().collect(),
        ),
    ];
    let mut wrong = 0;
    for (text, findings) in &checks {
        let word = if findings.is_empty() { "ok" } else { "WRONG" };
        say(&format!("{word}: {text}"));
        for finding in findings {
            say(&format!("  {finding}"));
        }
        wrong += usize::from(!findings.is_empty());
    }
    Ok(wrong)
}

/// What the figures were measured on.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpus.lines().find(|it| it.starts_with("model name"));
    let name = name
        .and_then(|it| it.split_once(": "))
        .map_or("an unknown processor", |it| it.1);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!(
        "A build for release on {cores} cores of {name}, shared by all processes of the run (load {load} at its end)."
    )
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_of_all_cases() {
        assert!(DisputeOptions::parse(&["--write"]).is_ok());
        assert!(DisputeOptions::parse(&["--only", "killed"]).is_ok());
        let some = DisputeOptions::parse(&["--write", "--only", "killed"]);
        assert!(some.is_err());
        assert!(DisputeOptions::parse(&["--model"]).is_err());
        assert!(DisputeOptions::parse(&["--other"]).is_err());
    }
}
