//! `tensorgrid sim`: whole grids from seeds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tg_sim::cheats::{CheckedBy, measure};
use tg_sim::{
    CheatKind, FaultCoverage, Proving, SimOptions, SimPlan, SimReport, Violation, run as simulate,
    shrink,
};

use crate::cli::SimArguments;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, json, line};

/// Seeds of one command.
const SEEDS_MAX: u64 = 1_000_000;

/// Runs at once.
const JOBS_MAX: usize = 256;

/// Jobs that a seed must have played: some of its hundred orders may find no validator that takes them.
const PLAYED_JOBS_MIN: usize = 50;

/// Epochs of the ledger that must have ended in a seed.
const PLAYED_EPOCHS_MIN: u64 = 2;

/// Runs one seed, or a range of them.
pub(crate) fn run(arguments: &SimArguments, as_json: bool) -> Outcome {
    let seeds = seeds(arguments)?;
    let options = SimOptions {
        proving: match arguments.real_prover {
            true => Proving::Real,
            false => Proving::Simulated,
        },
        keeps_log: arguments.log,
        canary: None,
    };
    if arguments.cheats {
        return cheats(&seeds, arguments.jobs, options, as_json);
    }
    let is_one = seeds.end - seeds.start == 1;
    let reports = all(seeds, arguments, options);
    let (mut totals, mut failed, mut unequal) = (SimTotals::default(), Vec::new(), Vec::new());
    for result in reports.values() {
        totals.add(result);
        let SeedResult { report, again, .. } = result;
        if again.as_ref().is_some_and(|again| *again != report.hash) {
            unequal.push(report.plan.seed);
        }
        if !report.violations.is_empty() {
            failed.push(report);
        }
    }
    if as_json {
        let failed: Vec<u64> = failed.iter().map(|it| it.plan.seed).collect();
        json(&totals.data(&failed, &unequal))?;
    } else if is_one {
        for text in reports.values().flat_map(|result| shown(&result.report)) {
            line(text)?;
        }
    } else {
        totals.show(failed.len())?;
        for report in &failed {
            if let Some(violation) = report.violations.first() {
                line(format_args!("seed {}: {violation}", report.plan.seed))?;
            }
        }
    }
    end(&failed, &unequal, arguments, options)
}

/// What all seeds of a command came to.
#[derive(Debug, Default)]
struct SimTotals {
    coverage: FaultCoverage,
    seeds: usize,
    blocks: u64,
    jobs: usize,
    paid: usize,
    simulated_ms: u64,
    epochs: u64,
    set_changes: u64,
    least: LeastOfRun,
    /// Processor time of each seed, ascending once it is shown.
    cpu_ms: Vec<u64>,
}

impl SimTotals {
    fn add(&mut self, result: &SeedResult) {
        let report = &result.report;
        self.coverage.add(&report.coverage);
        self.seeds += 1;
        self.blocks += report.height;
        self.jobs += report.jobs;
        self.paid += report.paid;
        self.simulated_ms += report.simulated_ms;
        self.epochs += report.epochs;
        self.set_changes += report.set_changes;
        self.least.add(report);
        self.cpu_ms.extend(result.cpu_ms);
        self.cpu_ms.sort_unstable();
    }

    /// The processor time below which so many of a hundred seeds are.
    fn cpu_rank(&self, percent: usize) -> Option<u64> {
        let at = self.cpu_ms.len().saturating_sub(1) * percent / 100;
        self.cpu_ms.get(at).copied()
    }

    fn data(&self, failed: &[u64], unequal: &[u64]) -> serde_json::Value {
        let least = &self.least;
        serde_json::json!({
            "seeds": self.seeds,
            "failed": failed,
            "unequal": unequal,
            "blocks": self.blocks,
            "jobs": self.jobs,
            "paid": self.paid,
            "simulated_ms": self.simulated_ms,
            "epochs": self.epochs,
            "set_changes": self.set_changes,
            "least": {
                "simulated_ms": least.simulated_ms, "jobs": least.jobs, "blocks": least.blocks,
                "epochs": least.epochs, "set_changes": least.set_changes,
            },
            "cpu_ms": {
                "all": self.cpu_ms.iter().sum::<u64>(), "median": self.cpu_rank(50), "p90": self.cpu_rank(90),
            },
        })
    }

    fn show(&self, failed: usize) -> Outcome {
        let Self {
            coverage,
            seeds,
            blocks,
            jobs,
            paid,
            simulated_ms,
            epochs,
            set_changes,
            least,
            cpu_ms,
        } = self;
        line(coverage)?;
        line(format_args!(
            "{seeds} seeds, {failed} failed: {blocks} blocks, {jobs} jobs, {paid} paid, {} simulated seconds",
            simulated_ms / 1_000
        ))?;
        line(format_args!(
            "{epochs} epochs of the ledger, {set_changes} changes of the set of validators"
        ))?;
        line(format_args!(
            "of a seed at least {} simulated seconds, {} jobs, {} blocks, {} epochs, {} changes of the set",
            least.simulated_ms / 1_000,
            least.jobs,
            least.blocks,
            least.epochs,
            least.set_changes
        ))?;
        if let (Some(median), Some(late)) = (self.cpu_rank(50), self.cpu_rank(90)) {
            line(format_args!(
                "CPU of a seed: median {median} ms, p90 {late} ms, {} s of all",
                cpu_ms.iter().sum::<u64>() / 1_000
            ))?;
        }
        Ok(())
    }
}

fn seeds(arguments: &SimArguments) -> Result<Range<u64>, Failure> {
    let range = match (&arguments.seed, &arguments.seeds) {
        (Some(seed), _) => Some(*seed..seed.saturating_add(1)),
        (None, Some(text)) => text
            .split_once("..")
            .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)),
        (None, None) => None,
    };
    let range = range.filter(|it: &Range<u64>| !it.is_empty() && it.end - it.start <= SEEDS_MAX);
    range.ok_or_else(|| {
        let error = anyhow::anyhow!("there are no such seeds");
        Failure::new(Exit::Usage, error).hint(format!("--seeds 0..50, at most {SEEDS_MAX}"))
    })
}

/// What came out of a seed.
struct SeedResult {
    report: SimReport,
    /// The hash of its second run.
    again: Option<String>,
    /// Processor time of the first run, where the system tells that of a thread.
    cpu_ms: Option<u64>,
}

/// What came out of every seed.
type Reports = BTreeMap<u64, SeedResult>;

/// The least that any run came to.
#[derive(Debug, Default)]
struct LeastOfRun {
    runs: u64,
    simulated_ms: u64,
    jobs: usize,
    blocks: u64,
    epochs: u64,
    set_changes: u64,
}

impl LeastOfRun {
    fn add(&mut self, report: &SimReport) {
        let is_first = self.runs == 0;
        self.runs += 1;
        let least = |before: u64, now: u64| if is_first { now } else { before.min(now) };
        self.simulated_ms = least(self.simulated_ms, report.simulated_ms);
        self.blocks = least(self.blocks, report.height);
        self.epochs = least(self.epochs, report.epochs);
        self.set_changes = least(self.set_changes, report.set_changes);
        self.jobs = if is_first {
            report.jobs
        } else {
            self.jobs.min(report.jobs)
        };
    }
}

/// What a seed of which nothing was left out must have played and has not: a run in which little happens finds little. Where an account is left
/// until its rent is spent, nobody orders anything.
fn too_little(report: &SimReport) -> Option<Violation> {
    let SimReport {
        plan, jobs, epochs, ..
    } = report;
    let is_whole = plan.without.is_empty() && plan.lapse.is_none() && report.violations.is_empty();
    let is_little = *jobs < PLAYED_JOBS_MIN || *epochs < PLAYED_EPOCHS_MIN;
    (is_whole && is_little).then(|| Violation {
        rule: "played",
        at_ms: report.simulated_ms,
        what: format!(
            "{jobs} jobs and {epochs} epochs, at least {PLAYED_JOBS_MIN} and {PLAYED_EPOCHS_MIN} are expected"
        ),
    })
}

/// Processor time of this thread so far, in milliseconds; nothing where the system does not tell it.
fn thread_cpu_ms() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1_000_000)
}

fn all(seeds: Range<u64>, arguments: &SimArguments, options: SimOptions) -> Reports {
    let next = AtomicU64::new(seeds.start);
    let reports = Mutex::new(Reports::new());
    let jobs = arguments.jobs.clamp(1, JOBS_MAX);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let parts = arguments.without.iter();
                    let plan = parts.fold(SimPlan::drawn(seed), |plan, part| plan.without(*part));
                    let before = thread_cpu_ms();
                    let mut report = simulate(&plan, options);
                    let little = too_little(&report);
                    report.violations.extend(little);
                    let cpu_ms = thread_cpu_ms()
                        .zip(before)
                        .map(|(now, before)| now - before);
                    let again = arguments.twice.then(|| simulate(&plan, options).hash);
                    let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
                    reports.insert(
                        seed,
                        SeedResult {
                            report,
                            again,
                            cpu_ms,
                        },
                    );
                }
            });
        }
    });
    reports.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Measures every cheat against every way of checking, and prints a table in Markdown.
fn cheats(seeds: &Range<u64>, jobs: usize, options: SimOptions, as_json: bool) -> Outcome {
    let each = CheatKind::ALL
        .iter()
        .flat_map(|cheat| CheckedBy::ALL.map(|way| (cheat, way)));
    let each: Vec<(&CheatKind, CheckedBy)> = each.collect();
    let (next, reports) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, JOBS_MAX) {
            scope.spawn(|| {
                while let Some((index, (cheat, way))) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    each.get(index).map(|it| (index, *it))
                } {
                    let report = measure(cheat, way, seeds.clone(), options);
                    let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
                    reports.insert(index, (cheat.name, way, report));
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    let broken: u64 = reports.values().map(|(.., report)| report.broken).sum();
    if as_json {
        let rows = reports.values().map(|(cheat, way, it)| {
            serde_json::json!({
                "cheat": cheat, "mode": way.mode.as_str(), "by_tile": way.by_tile, "run_whole": way.run_whole, "programs": way.programs, "floats": way.floats, "runs": it.runs, "broken": it.broken, "caught": it.caught(), "jobs": it.jobs,
                "paid": it.paid, "paid_ms": it.paid_ms, "leases": it.leases, "taken": it.taken, "wrong": it.wrong, "right": it.right,
                "provider_milli_tgrid": it.provider.milli(), "seat_milli_tgrid": it.seat.milli(),
            })
        });
        json(&serde_json::Value::Array(rows.collect()))?;
    } else {
        line(
            "| cheat | verify | caught | leases of the cheat | wrong results paid | jobs | paid | leases a job | ms a job | its provider, TGRID | its seat, TGRID |",
        )?;
        line("|---|---|---|---|---|---|---|---|---|---|---|")?;
        for (cheat, way, it) in reports.values() {
            let attempts = it.leases as f64 / it.jobs.max(1) as f64;
            line(format_args!(
                "| {cheat} | {way} | {} | {} | {} | {} | {} | {attempts:.2} | {} | {} | {} |",
                it.caught(),
                it.taken,
                it.wrong,
                it.jobs,
                it.paid,
                it.paid_ms / it.paid.max(1),
                it.provider,
                it.seat
            ))?;
        }
    }
    if broken > 0 {
        let error = anyhow::anyhow!("{broken} runs broke a rule");
        return Err(Failure::new(Exit::Rejected, error));
    }
    Ok(())
}

/// A run in lines: its draw, its log, what was found, and the hash in the last one, of a run that failed too.
fn shown(report: &SimReport) -> Vec<String> {
    let mut lines = vec![report.plan.to_string().trim_end().to_owned()];
    lines.extend(report.lines.iter().cloned());
    let violations = report.violations.iter();
    lines.extend(violations.map(|violation| format!("violation: {violation}")));
    lines.push(format!(
        "{} blocks, {} jobs, {} paid, {} ms simulated",
        report.height, report.jobs, report.paid, report.simulated_ms
    ));
    lines.push(report.hash.clone());
    lines
}

/// Fails if any run did. What it ends with goes to the error stream: the last line of a run is its hash.
fn end(
    failed: &[&SimReport],
    unequal: &[u64],
    arguments: &SimArguments,
    options: SimOptions,
) -> Outcome {
    if let [seed, ..] = unequal {
        let error = anyhow::anyhow!("runs of seed {seed} differ from each other");
        return Err(Failure::new(Exit::Rejected, error));
    }
    let Some(first) = failed.first() else {
        return Ok(());
    };
    let smallest = match arguments.shrink {
        true => shrink(first, options),
        false => (*first).clone(),
    };
    let found = smallest.violations.first().map(ToString::to_string);
    let found = Err(anyhow::anyhow!(found.unwrap_or_default()));
    found
        .or_fail(Exit::Rejected, format!("simulate seed {}", first.plan.seed))
        .map_err(|failure| failure.hint(smallest.plan.command()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_sim::Violation;

    #[test]
    fn the_hash_is_the_last_line_of_a_run_that_failed_too() {
        let report = SimReport {
            plan: SimPlan::drawn(7),
            violations: vec![Violation {
                rule: "money",
                at_ms: 5,
                what: "some is missing".to_owned(),
            }],
            hash: "the hash".to_owned(),
            lines: vec!["a line".to_owned()],
            height: 1,
            simulated_ms: 6,
            jobs: 2,
            paid: 1,
            paid_ms: 3,
            coverage: FaultCoverage::default(),
            providers: Vec::new(),
            seats: Vec::new(),
            leases: 4,
            epochs: 0,
            set_changes: 0,
            followed: 0,
        };
        let lines = shown(&report);
        let violation = "violation: money at 5 ms: some is missing";
        assert!(lines.iter().any(|it| it == violation), "{lines:?}");
        assert_eq!(lines.last(), Some(&report.hash));
    }

    /// A run in which so much was played, of a seed with orders.
    fn played(jobs: usize, epochs: u64) -> SimReport {
        SimReport {
            plan: SimPlan::drawn(0),
            violations: Vec::new(),
            hash: String::new(),
            lines: Vec::new(),
            height: 64 * epochs,
            simulated_ms: 31_000,
            jobs,
            paid: 0,
            paid_ms: 0,
            coverage: FaultCoverage::default(),
            providers: Vec::new(),
            seats: Vec::new(),
            leases: 0,
            epochs,
            set_changes: 1,
            followed: 0,
        }
    }

    #[test]
    fn a_seed_in_which_little_was_played_fails_and_a_part_of_one_does_not() {
        assert_eq!(too_little(&played(50, 2)), None);
        for (jobs, epochs) in [(49, 2), (50, 1), (0, 0)] {
            let mut report = played(jobs, epochs);
            let found = too_little(&report).map(|it| it.rule);
            assert_eq!(found, Some("played"), "{jobs} jobs, {epochs} epochs");
            let part = report.plan.parts()[0];
            report.plan = SimPlan::drawn(0).without(part);
            assert_eq!(too_little(&report), None, "without {part}");
            report.plan = SimPlan::drawn(12);
            assert!(report.plan.lapse.is_some());
            assert_eq!(too_little(&report), None, "nobody orders");
        }
    }

    #[test]
    fn the_least_and_the_sum_of_epochs_are_told() {
        let mut totals = SimTotals::default();
        for epochs in [4, 3, 5] {
            totals.add(&SeedResult {
                report: played(100, epochs),
                again: None,
                cpu_ms: None,
            });
        }
        let data = totals.data(&[], &[]);
        assert_eq!(data["epochs"], 12);
        assert_eq!(data["set_changes"], 3);
        assert_eq!(data["least"]["epochs"], 3);
        assert_eq!(data["least"]["set_changes"], 1);
    }
}
