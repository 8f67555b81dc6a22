//! `cargo xtask network-test`: four validators, two gateways, five honest and three cheating providers as processes on
//! hosts of their own, while each of them is killed, one loses its disk and one its cable.
//!
//! Read in this order: [`hosts`] (a network namespace each), [`switch`] (delay, loss and the firewall between them),
//! [`fleet`] (the processes), [`load`] (who orders), [`watch`] (who looks on), [`faults`] (what is done to them), [`checks`]
//! (what must be true in the end), [`cleaner`] (what removes all of it, however the run ends) and [`draw`] (the seed).
//!
//! The run itself is a process on the client's host, which this command starts there, because a process sees the network
//! of one namespace. Where the kernel or the rights do not allow namespaces, everything runs on loopback: without delay, loss
//! and firewall, and no cable is pulled.

pub(crate) mod checks;
mod cleaner;
mod draw;
mod faults;
pub(crate) mod fleet;
mod hosts;
pub(crate) mod load;
mod switch;
pub(crate) mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use self::cleaner::Helper;
use self::faults::{EventRow, NetworkFault};
use self::fleet::{CHEATS, Fleet, FleetPlace, FleetPlan, PROVIDERS, Participant};
use self::hosts::{CLIENT, Host, SWITCH, Spaces};
use self::load::{OrderLoad, Orderer};
use self::watch::NodeWatch;
use crate::bring;
use crate::http;
use crate::process;
use crate::python::Missing;

/// How long the network may take until it makes blocks, and until all offers stand.
const STARTED: Duration = Duration::from_secs(120);

/// How long orders come before anything is done.
const SETTLED: Duration = Duration::from_secs(10);

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworkOptions {
    /// The `tensorgrid` to use; none: the release build, made now.
    binary: Option<PathBuf>,
    /// The example `cheating_provider`; none: beside the binary, in `examples`.
    cheat: Option<PathBuf>,
    /// What it means if namespaces are not allowed.
    missing: Missing,
    /// Whether there shall be no namespaces.
    loopback: bool,
    /// What delays, losses and orders are drawn from.
    seed: u64,
    /// What the names of the events contain that are played; empty: all.
    only: String,
    /// The namespaces of the run, which are made: this process is on the client's host.
    inside: Option<String>,
}

impl NetworkOptions {
    fn parse(words: &[&str]) -> Result<Self> {
        let mut words = words.to_vec();
        let mut options = Self {
            binary: None,
            cheat: None,
            missing: Missing::take(&mut words),
            loopback: false,
            seed: 1,
            only: String::new(),
            inside: None,
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value"))
            };
            match word {
                "--binary" => options.binary = Some(value()?.into()),
                "--cheat" => options.cheat = Some(value()?.into()),
                "--loopback" => options.loopback = true,
                "--seed" => options.seed = value()?.parse().context("--seed")?,
                "--only" => options.only = value()?.to_owned(),
                "--inside" => options.inside = Some(value()?.to_owned()),
                other => bail!(
                    "`{other}` is not known here: --binary, --cheat, --loopback, --only, --require and --seed are"
                ),
            }
        }
        Ok(options)
    }
}

/// Runs the test, or a helper of it.
///
/// # Errors
/// If something is wrong in the end, or cannot be done.
pub fn command(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        ["clean", prefix] => cleaner::run(&Spaces::named(prefix)),
        ["switch", seed] => switch::run(seed.parse()?, hosts()),
        _ => {
            let options = NetworkOptions::parse(words)?;
            match &options.inside {
                None => outside(root, &options),
                Some(prefix) => inside(root, &options, FleetPlace::Spaces(Spaces::named(prefix))),
            }
        }
    }
}

/// All hosts but the switch.
fn hosts() -> Vec<Host> {
    let members = Participant::all().into_iter().map(Participant::host);
    [CLIENT].into_iter().chain(members).collect()
}

/// Makes the hosts and starts the run on the client's.
fn outside(root: &Path, options: &NetworkOptions) -> Result<()> {
    let mut options = options.clone();
    if options.binary.is_none() {
        options.binary = Some(bring::build(root)?);
        let mut cargo = process::cargo(root);
        cargo.args(["build", "--release", "--package", "tensorgrid"]);
        let example = cargo.args(["--example", "cheating_provider"]);
        process::run(example, "the cheating provider does not build")?;
    }
    if options.loopback {
        say("ON LOOPBACK, AS ASKED: NO DELAY, NO LOSS, NO FIREWALL, NO CABLE IS PULLED");
        return inside(root, &options, FleetPlace::Loopback);
    }
    hosts::remove_stale()?;
    let spaces = Spaces::of_this_process();
    // First: whatever happens from here on, it removes what was made.
    let cleaner = Helper::start(&mut own(&["clean", spaces.prefix()])?)?;
    if let Err(error) = spaces.make(&hosts()) {
        if options.missing == Missing::Fail {
            return Err(error.context("make a network namespace for each process"));
        }
        say(&format!(
            "SKIPPED: THE NETWORK HAS NO HOSTS OF ITS OWN ({error:#}): ON LOOPBACK, WITHOUT DELAY, LOSS, FIREWALL AND CABLES; \
             --require makes this an error"
        ));
        drop(cleaner);
        return inside(root, &options, FleetPlace::Loopback);
    }
    let program = std::env::current_exe().context("find this program")?;
    let seed = options.seed.to_string();
    let mut switch = spaces.command(SWITCH, &program);
    let _switch = Helper::start(switch.args(["network-test", "switch", &seed]))?;
    let mut run = spaces.command(CLIENT, &program);
    run.args(["network-test", "--inside", spaces.prefix()]);
    run.args(["--seed", &seed, "--only", &options.only]);
    for (flag, file) in [("--binary", &options.binary), ("--cheat", &options.cheat)] {
        if let Some(file) = file {
            run.arg(flag).arg(file);
        }
    }
    let status = run.status().context("start the run")?;
    ensure!(status.success(), "the network did not stand it");
    Ok(())
}

/// This program with arguments of this command.
fn own(arguments: &[&str]) -> Result<Command> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    command.arg("network-test").args(arguments);
    Ok(command)
}

/// The run.
fn inside(root: &Path, options: &NetworkOptions, place: FleetPlace) -> Result<()> {
    let mut fleet = found(root, options, place)?;
    let nodes = Participant::nodes()
        .into_iter()
        .map(|it| (it, fleet.api(it)));
    let watch = NodeWatch::start(nodes.collect());
    let clients = begin(root, &mut fleet, &watch)?;
    let stakes = checks::stakes(&fleet)?;
    let load = OrderLoad::start(clients.clone(), options.seed);
    thread::sleep(SETTLED);
    let mut rows = Vec::new();
    say(&head());
    let faults = NetworkFault::all(fleet.spaces().is_some());
    let is_meant = |it: &NetworkFault| it.describe().contains(&options.only);
    for fault in faults.into_iter().filter(is_meant) {
        let row = faults::play(fault, &mut fleet, &watch, &load)?;
        say(&line(&row));
        rows.push(row);
    }
    let orders = load.stop();
    // For whoever looks for the reason of what is wrong, beside what processes told and the jobs.
    let times = rows.iter();
    let times = times.map(|it| format!("{} {}\n", it.began_ms, it.fault));
    let logs = fleet.folder().join("logs");
    fs::write(logs.join("events.txt"), times.collect::<String>())?;
    fs::write(logs.join("refused.txt"), orders.refused.join("\n"))?;
    let before = checks::RunFacts {
        orders: &orders,
        client: &clients[0],
        stakes,
    };
    judge(&rows, &checks::all(&fleet, &watch, &before)?)
}

/// Founds the network in a folder of the repository's own.
fn found(root: &Path, options: &NetworkOptions, place: FleetPlace) -> Result<Fleet> {
    let absolute = |file: &Path| {
        let found = fs::canonicalize(file);
        found.with_context(|| format!("there is no `{}`", file.display()))
    };
    let binary = options.binary.as_deref();
    let binary = absolute(binary.context("there is a program to test")?)?;
    let cheat = match &options.cheat {
        Some(file) => Some(absolute(file)?),
        None => Some(binary.with_file_name("examples/cheating_provider")).filter(|it| it.is_file()),
    };
    let folder = root.join("target/network-test");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let plan = FleetPlan {
        place,
        cheats: CHEATS,
        options: &["--allow-unverified"],
        log: None,
    };
    let fleet = Fleet::found(&binary, cheat, &folder, plan)?;
    if !fleet.has_cheats() {
        say("NO CHEATING PROVIDERS: there is no example `cheating_provider` beside the program");
    }
    say(&format!(
        "seed {}: four validators, two gateways and {PROVIDERS} providers{}, {}",
        options.seed,
        if fleet.has_cheats() {
            " and three cheats"
        } else {
            ""
        },
        match fleet.spaces() {
            Some(_) => format!(
                "a host each, 5 to 28 ms from each other, {} of a thousand packets lost",
                switch::LOST_PER_MILLE
            ),
            None => "all on loopback".to_owned(),
        }
    ));
    Ok(fleet)
}

/// Starts everything and brings the network to where orders can come. Gives who orders.
fn begin(root: &Path, fleet: &mut Fleet, watch: &NodeWatch) -> Result<Vec<Orderer>> {
    for node in Participant::nodes() {
        fleet.start(node)?;
    }
    until("all nodes have blocks", || {
        Ok(Participant::nodes()
            .into_iter()
            .all(|it| watch.height(it) > 2))
    })?;
    let first = load::first(fleet, root)?;
    first.ask(&["model", "add-builtin", "--json"])?;
    let url = format!("http://{}", fleet.api(Participant::Gateway(1)));
    let second = load::fund(&first, fleet.folder(), (2, "3000"), &url)?;
    let is_there = |it: &Participant| match it {
        Participant::Provider(_) => true,
        Participant::Cheat(_) => fleet.has_cheats(),
        Participant::Validator(_) | Participant::Gateway(_) => false,
    };
    let providers: Vec<Participant> = Participant::all().into_iter().filter(is_there).collect();
    let expected = usize::from(PROVIDERS)
        + if fleet.has_cheats() {
            usize::from(CHEATS)
        } else {
            0
        };
    for provider in providers {
        fleet.start(provider)?;
    }
    let gateway = fleet.api(Participant::Gateway(1));
    until("all offers stand", || {
        let offers = http::get(&gateway, "/v1/offers", Duration::from_secs(5))?;
        let offers: Value = serde_json::from_str(&offers)?;
        let list = offers["items"].as_array().or(offers.as_array());
        Ok(list.is_some_and(|it| it.len() == expected))
    })?;
    Ok(vec![first, second])
}

/// Asks until the answer is yes.
///
/// # Errors
/// If it is not after a while.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let answer = is_so();
        if matches!(answer, Ok(true)) {
            return Ok(());
        }
        if start.elapsed() > STARTED {
            answer.with_context(|| format!("waited in vain: {what}"))?;
            bail!("waited in vain: {what}");
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn head() -> String {
    format!(
        "{:<28} {:>7} {:>12} {:>9} {:<12} {:>9} {:>7}  result",
        "event", "lasted", "longest gap", "began at", "seen by", "in flight", "orders"
    )
}

fn line(row: &EventRow) -> String {
    format!(
        "{:<28} {:>5.0} s {:>10.2} s {:>7.1} s {:<12} {:>9} {:>7}  {}",
        row.fault,
        row.lasted.as_secs_f64(),
        row.gap.length.as_secs_f64(),
        row.gap.after.as_secs_f64(),
        row.gap.seen_by.map(Participant::name).unwrap_or_default(),
        row.in_flight,
        row.ordered,
        row.wrong.as_deref().unwrap_or("ok")
    )
}

/// Prints what was found.
///
/// # Errors
/// If anything is wrong.
fn judge(rows: &[EventRow], checks: &[checks::Check]) -> Result<()> {
    let mut wrong = rows.iter().filter(|it| it.wrong.is_some()).count();
    for (text, findings) in checks {
        let word = if findings.is_empty() { "ok" } else { "WRONG" };
        say(&format!("{word}: {text}"));
        for finding in findings {
            say(&format!("  {finding}"));
        }
        wrong += usize::from(!findings.is_empty());
    }
    let longest = rows
        .iter()
        .map(|it| it.gap.length)
        .max()
        .unwrap_or_default();
    say(&format!("longest gap: {:.2} s", longest.as_secs_f64()));
    ensure!(
        wrong == 0,
        "{wrong} things are wrong; logs are in target/network-test"
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is a command line tool")]
fn say(line: &str) {
    println!("{line}");
}
