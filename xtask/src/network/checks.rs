//! What must be true in the end, found out from what all nodes say: nothing here is code under test.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::fleet::{CHEATS, Fleet, PROVIDERS, Participant, VALIDATORS};
use super::hosts::FIREWALLED;
use super::load::{MODES, OrderLog, Orderer};
use super::watch::NodeWatch;
use crate::http;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the jobs of a run may take to end after the last order: their deadline, and what checks take.
const ENDED: Duration = Duration::from_secs(200);

/// Ends of jobs. Every job has one.
const ENDS: [&str; 4] = ["paid", "refunded", "expired", "cancelled"];

/// How many results are fetched and checked as a requestor does.
const FETCHED: usize = 15;

/// What the handwritten digit of the orders shows.
const DIGIT: u64 = 7;

/// One check: what it says, and what is wrong.
pub(crate) type Check = (String, Vec<String>);

/// What is known of a run before its end is looked at.
#[derive(Debug)]
pub(crate) struct RunFacts<'a> {
    /// What was ordered.
    pub(crate) orders: &'a OrderLog,
    /// Who fetches results.
    pub(crate) client: &'a Orderer,
    /// What each validator had at stake.
    pub(crate) stakes: BTreeMap<String, String>,
}

/// Jobs by their id, as a node lists them.
type Jobs = BTreeMap<String, Value>;

/// All checks.
///
/// # Errors
/// If a node does not answer.
pub(crate) fn all(fleet: &Fleet, watch: &NodeWatch, run: &RunFacts<'_>) -> Result<Vec<Check>> {
    let RunFacts {
        orders,
        client,
        stakes,
    } = run;
    let started = Instant::now();
    while !all_ended(fleet)? && started.elapsed() < ENDED {
        thread::sleep(Duration::from_millis(500));
    }
    // All nodes need the block with the last end.
    thread::sleep(Duration::from_secs(3));
    let lists = Participant::nodes()
        .into_iter()
        .map(|it| Ok((it, jobs(fleet, it)?)));
    let lists: Vec<(Participant, Jobs)> = lists.collect::<Result<_>>()?;
    let jobs = lists.first().map(|it| it.1.clone()).unwrap_or_default();
    let forks = watch.forks();
    let text = serde_json::to_string_pretty(&jobs)?;
    fs::write(fleet.folder().join("logs/jobs.json"), text)?;
    Ok(vec![
        ended(&jobs, started.elapsed()),
        known(&lists, orders),
        paid_once(&jobs),
        (
            format!(
                "all nodes had one state at each of {} heights",
                watch.heights()
            ),
            forks,
        ),
        money(fleet)?,
        earned(fleet, &jobs)?,
        honest(fleet, stakes)?,
        guilty(fleet)?,
        firewalled(fleet, &jobs),
        results(client, &jobs, orders),
    ])
}

fn ask(fleet: &Fleet, node: Participant, path: &str) -> Result<Value> {
    let answer = http::get(&fleet.api(node), path, PATIENCE);
    let answer = answer.with_context(|| format!("ask {} for {path}", node.name()))?;
    serde_json::from_str(&answer).context("an API answers with JSON")
}

fn all_ended(fleet: &Fleet) -> Result<bool> {
    let jobs = &ask(fleet, Participant::Validator(0), "/v1/status")?["jobs"];
    Ok(jobs["queued"].as_u64() == Some(0) && jobs["active"].as_u64() == Some(0))
}

/// All jobs that a node knows.
fn jobs(fleet: &Fleet, node: Participant) -> Result<Jobs> {
    let mut jobs = Jobs::new();
    let mut next = String::new();
    loop {
        let page = ask(fleet, node, &format!("/v1/jobs?limit=200{next}"))?;
        for job in page["items"].as_array().context("a page of jobs")? {
            let id = job["id"].as_str().context("a job has an id")?;
            jobs.insert(id.to_owned(), job.clone());
        }
        match &page["next"] {
            Value::Null => return Ok(jobs),
            Value::String(after) => next = format!("&after={after}"),
            after => next = format!("&after={after}"),
        }
    }
}

fn ended(jobs: &Jobs, waited: Duration) -> Check {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    if jobs.is_empty() {
        wrong.push("there is no job, so none ended".to_owned());
    }
    for (id, job) in jobs {
        let state = job["state"].as_str().unwrap_or_default();
        *ends.entry(state).or_default() += 1;
        if !ENDS.contains(&state) {
            wrong.push(format!("job {id} is {state}"));
        }
    }
    let text = format!(
        "every job ended within {} s of the last order: {ends:?}",
        waited.as_secs()
    );
    (text, wrong)
}

/// Every node has the same jobs, and those that were acknowledged are among them.
fn known(lists: &[(Participant, Jobs)], orders: &OrderLog) -> Check {
    let mut wrong = Vec::new();
    if orders.ordered.is_empty() || lists.is_empty() {
        let refused = orders.refused.first();
        let why = refused.map_or("none was given", String::as_str);
        wrong.push(format!("no order was acknowledged: {why}"));
    }
    for (node, jobs) in lists {
        let lacks = orders
            .ordered
            .iter()
            .filter(|it| !jobs.contains_key(&it.id));
        wrong.extend(lacks.map(|it| format!("{} lacks {} ({})", node.name(), it.id, it.mode)));
        let first = lists.first().map(|it| &it.1);
        let ids = |jobs: &Jobs| jobs.keys().cloned().collect::<Vec<_>>();
        if first.map(ids) != Some(ids(jobs)) {
            wrong.push(format!(
                "{} lists other jobs than the first node",
                node.name()
            ));
        }
    }
    let text = format!(
        "each of {} acknowledged orders is a job at all {} nodes ({} orders were refused or broke off)",
        orders.ordered.len(),
        lists.len(),
        orders.refused.len()
    );
    (text, wrong)
}

/// A job is paid once or not at all, and by one lease.
fn paid_once(jobs: &Jobs) -> Check {
    let mut wrong = Vec::new();
    for (id, job) in jobs {
        let steps = job["history"].as_array().into_iter().flatten();
        let paid = steps.filter(|it| it["state"] == "paid").count();
        let leases = job["leases"].as_array().into_iter().flatten();
        let fulfilled = leases.filter(|it| it["end"] == "fulfilled").count();
        let expected = usize::from(job["state"] == "paid");
        if paid != expected || fulfilled != expected {
            wrong.push(format!(
                "job {id} was paid {paid} times, by {fulfilled} leases"
            ));
        }
    }
    ("a paid job was paid once, by one lease".to_owned(), wrong)
}

/// Everything that was minted is somewhere, as each node says.
///
/// # Errors
/// If a node does not answer.
pub(crate) fn money(fleet: &Fleet) -> Result<Check> {
    let mut wrong = Vec::new();
    for node in Participant::nodes() {
        let totals = ask(fleet, node, "/v1/status")?["totals"].clone();
        let parts = ["balances", "escrow", "stake", "collateral", "burned"];
        let sum = parts
            .iter()
            .map(|it| units(&totals[it]))
            .sum::<Result<u128>>()?;
        if sum != units(&totals["minted"])? {
            wrong.push(format!("{}: {totals}", node.name()));
        }
    }
    Ok(("money is conserved at every node".to_owned(), wrong))
}

/// What the ledger says that a provider earned is the sum of the prices of the jobs that it was paid for.
fn earned(fleet: &Fleet, jobs: &Jobs) -> Result<Check> {
    let mut wrong = Vec::new();
    let mut paid = 0;
    for provider in Participant::all() {
        if !matches!(provider, Participant::Provider(_) | Participant::Cheat(_))
            || !takes_part(fleet, provider)
        {
            continue;
        }
        let address = fleet.address(provider);
        let mut sum = 0;
        for job in jobs.values() {
            let leases = job["leases"].as_array().into_iter().flatten();
            let own = leases.filter(|it| it["end"] == "fulfilled" && it["provider"] == address);
            for _ in own {
                paid += 1;
                sum += units(&job["settlement"]["price"])?;
            }
        }
        let said = units(&reputation(fleet, provider)?["earned"])?;
        if said != sum {
            wrong.push(format!(
                "{} earned {said}, the prices of its jobs make {sum}",
                provider.name()
            ));
        }
    }
    if paid == 0 {
        wrong.push("no provider was paid for a job".to_owned());
    }
    Ok((
        format!(
            "providers earned the prices of the {paid} jobs that they were paid for, and nothing twice"
        ),
        wrong,
    ))
}

fn takes_part(fleet: &Fleet, member: Participant) -> bool {
    fleet.has_cheats() || !matches!(member, Participant::Cheat(_))
}

fn reputation(fleet: &Fleet, provider: Participant) -> Result<Value> {
    let path = format!("/v1/providers/{}", fleet.address(provider));
    Ok(ask(fleet, Participant::Validator(0), &path)?["reputation"].clone())
}

/// What each validator has at stake, by its account.
///
/// # Errors
/// If the first validator does not say.
pub(crate) fn stakes(fleet: &Fleet) -> Result<BTreeMap<String, String>> {
    let seats = ask(fleet, Participant::Validator(0), "/v1/seats")?;
    let seats = seats["validators"].as_array().context("a list of seats")?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a seat's text");
    let one = |seat: &Value| Ok((text(&seat["account"])?, text(&seat["stake"])?));
    seats.iter().map(one).collect()
}

/// Nobody honest lost a stake or collateral.
fn honest(fleet: &Fleet, before: &BTreeMap<String, String>) -> Result<Check> {
    let mut wrong = Vec::new();
    let after = stakes(fleet)?;
    if after != *before || after.len() != usize::from(VALIDATORS) {
        wrong.push(format!("stakes were {before:?} and are {after:?}"));
    }
    let mut counts = Vec::new();
    for index in 0..PROVIDERS {
        let provider = Participant::Provider(index);
        let reputation = reputation(fleet, provider)?;
        let of = |name: &str| reputation[name].as_u64().unwrap_or(u64::MAX);
        counts.push(of("accepted"));
        if of("rejected") + of("late") + of("abandoned") > 0 || units(&reputation["lost"])? > 0 {
            wrong.push(format!("{}: {reputation}", provider.name()));
        }
    }
    Ok((
        format!("no honest validator or provider lost anything (jobs done: {counts:?})"),
        wrong,
    ))
}

/// Each cheat lost its collateral, and was paid for nothing.
fn guilty(fleet: &Fleet) -> Result<Check> {
    if !fleet.has_cheats() {
        return Ok(("NO CHEATING PROVIDERS TOOK PART".to_owned(), Vec::new()));
    }
    let mut wrong = Vec::new();
    for index in 0..CHEATS {
        let cheat = Participant::Cheat(index);
        let reputation = reputation(fleet, cheat)?;
        let is_caught =
            reputation["rejected"].as_u64() > Some(0) && units(&reputation["lost"])? > 0;
        if !is_caught || reputation["accepted"].as_u64() != Some(0) {
            wrong.push(format!("{}: {reputation}", cheat.name()));
        }
    }
    Ok((
        format!("each of {CHEATS} cheats was slashed and paid for nothing"),
        wrong,
    ))
}

/// The provider that nobody can connect to served.
fn firewalled(fleet: &Fleet, jobs: &Jobs) -> Check {
    let provider = Participant::Provider(FIREWALLED - Participant::Provider(0).host());
    let address = fleet.address(provider);
    let served = jobs.values().filter(|job| {
        let mut leases = job["leases"].as_array().into_iter().flatten();
        leases.any(|it| it["end"] == "fulfilled" && it["provider"] == address)
    });
    let served = served.count();
    let wrong = (served == 0).then(|| format!("{} did nothing", provider.name()));
    let text = match fleet.spaces() {
        Some(_) => format!("a provider into whose host no connection comes did {served} jobs"),
        None => format!(
            "{} did {served} jobs (ON LOOPBACK: NO FIREWALL BEFORE IT)",
            provider.name()
        ),
    };
    (text, wrong.into_iter().collect())
}

/// Results are fetched and checked by the requestor's program.
fn results(client: &Orderer, jobs: &Jobs, orders: &OrderLog) -> Check {
    let is_paid = |id: &str| jobs.get(id).is_some_and(|it| it["state"] == "paid");
    let mut wrong = Vec::new();
    let mut fetched = 0;
    for mode in MODES {
        let of_mode = orders
            .ordered
            .iter()
            .filter(|it| it.mode == mode && is_paid(&it.id));
        let before = fetched;
        for order in of_mode.take(FETCHED / MODES.len()) {
            fetched += 1;
            match client.ask(&["job", "fetch", &order.id, "--json"]) {
                Ok(told) if told["greatest"].as_u64() == Some(DIGIT) => {}
                Ok(told) => wrong.push(format!("{} ({mode}): {}", order.id, told["greatest"])),
                Err(error) => wrong.push(format!("{} ({mode}): {error:#}", order.id)),
            }
        }
        if fetched == before {
            wrong.push(format!(
                "no job of mode {mode} was paid, so none was fetched"
            ));
        }
    }
    (
        format!("{fetched} results were fetched, checked again and right"),
        wrong,
    )
}

/// An amount in its smallest units.
///
/// # Errors
/// If it is none.
pub(crate) fn units(amount: &Value) -> Result<u128> {
    const DIGITS: usize = 18;
    let text = amount
        .as_str()
        .with_context(|| format!("no amount: {amount}"))?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    ensure!(part.len() <= DIGITS, "no amount: {text}");
    let digits = format!("{whole}{part:0<DIGITS$}");
    digits.parse().with_context(|| format!("no amount: {text}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::network::load::AcknowledgedOrder;

    #[test]
    fn amounts_are_read_to_the_last_digit() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1_000_000_000_000_000_000)),
            ("0.000000000000000001", Some(1)),
            ("12.5", Some(12_500_000_000_000_000_000)),
            ("0.0000000000000000001", None),
            ("x", None),
        ] {
            assert_eq!(units(&json!(text)).ok(), expected, "{text}");
        }
        assert!(units(&json!(1)).is_err());
    }

    #[test]
    fn a_run_without_orders_does_not_pass() {
        let job = json!({"state": "paid"});
        let jobs = Jobs::from([("a".to_owned(), job)]);
        assert!(ended(&jobs, Duration::ZERO).1.is_empty());
        assert!(!ended(&Jobs::new(), Duration::ZERO).1.is_empty());
        let orders = OrderLog {
            ordered: vec![AcknowledgedOrder {
                id: "a".to_owned(),
                mode: MODES[0],
            }],
            refused: Vec::new(),
        };
        let node = Participant::Validator(0);
        assert!(known(&[(node, jobs)], &orders).1.is_empty());
        assert_eq!(known(&[(node, Jobs::new())], &orders).1.len(), 1);
        let refused = OrderLog {
            ordered: Vec::new(),
            refused: vec!["none at gateway-1: it is off".to_owned()],
        };
        let found = known(&[(node, Jobs::new())], &refused).1;
        assert_eq!(
            found,
            ["no order was acknowledged: none at gateway-1: it is off"]
        );
    }

    #[test]
    fn a_job_that_is_paid_twice_is_found() {
        let lease = |end: &str| json!({"end": end});
        let job = |state: &str, steps: &[&str], ends: &[&str]| {
            let steps: Vec<Value> = steps.iter().map(|it| json!({"state": it})).collect();
            let leases: Vec<Value> = ends.iter().map(|it| lease(it)).collect();
            json!({"state": state, "history": steps, "leases": leases})
        };
        for (job, is_right) in [
            (
                job("paid", &["queued", "paid"], &["late", "fulfilled"]),
                true,
            ),
            (
                job("refunded", &["queued", "refunded"], &["rejected"]),
                true,
            ),
            (job("paid", &["paid", "paid"], &["fulfilled"]), false),
            (job("paid", &["paid"], &["fulfilled", "fulfilled"]), false),
            (
                job("refunded", &["paid", "refunded"], &["fulfilled"]),
                false,
            ),
        ] {
            let jobs = Jobs::from([("a".to_owned(), job)]);
            assert_eq!(paid_once(&jobs).1.is_empty(), is_right, "{jobs:?}");
        }
    }
}
