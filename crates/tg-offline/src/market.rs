//! `tensorgrid market simulate` and `market replay`.

use crate::arguments::{ReplayArguments, SimulateArguments};
use std::path::Path;
use tg_console::files;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line};
use tg_lab::baseline::Policy;
use tg_lab::simulate::{Outcome as Placed, simulate};
use tg_lab::trace::{TEXT_BYTES_MAX, Trace, write_placements};

/// Arrived demand, in per cent of capacity, at which the allocated share is printed.
const ARRIVED: [u64; 7] = [50, 80, 90, 95, 100, 110, 130];

/// Places the jobs of a trace and writes where each went.
///
/// # Errors
/// If there is no such rule, or the trace cannot be read.
pub fn run(arguments: &SimulateArguments, as_json: bool) -> Outcome {
    let policy = Policy::parse(&arguments.policy).ok_or_else(|| {
        let names: Vec<&str> = Policy::ALL.iter().map(|it| it.as_str()).collect();
        Failure::new(
            Exit::Usage,
            anyhow::anyhow!("there is no placement rule {}", arguments.policy),
        )
        .hint(format!("one of {}", names.join(", ")))
    })?;
    let trace = Trace::parse(&text(&arguments.nodes)?, &text(&arguments.arrivals)?)
        .or_fail(Exit::Usage, "read the trace")?;
    let placements = simulate(&trace, policy, arguments.seed);
    files::write(
        &arguments.out,
        write_placements(&trace, &placements).as_bytes(),
    )?;
    let placed = Placed::of(&trace, &placements);
    let refused: u32 = placed.refused.iter().sum();
    let shares = ARRIVED
        .iter()
        .filter_map(|at| placed.allocated_at(*at).map(|share| (*at, share)));
    if as_json {
        let shares: serde_json::Map<String, serde_json::Value> = shares
            .map(|(at, share)| (at.to_string(), share.into()))
            .collect();
        json(&serde_json::json!({
            "policy": policy.as_str(),
            "jobs": trace.jobs.len(),
            "refused": refused,
            "needless": placed.needless,
            "allocated_in_hundredths_of_percent_at": shares,
        }))?;
        return Ok(());
    }
    line(format_args!(
        "{}: {} machines, {} jobs, {refused} refused ({} of eight GPUs), {} needlessly",
        policy.as_str(),
        trace.nodes.len(),
        trace.jobs.len(),
        placed.refused[8],
        placed.needless
    ))?;
    for (at, share) in shares {
        line(format_args!(
            "{at:>4} % arrived: {:>2}.{:02} % of the GPUs allocated",
            share / 100,
            share % 100
        ))?;
    }
    Ok(())
}

/// Most bytes of a journal.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;

/// Executes a journal again; the first difference is named with its block and decision.
///
/// # Errors
/// If the journal cannot be read, or a decision differs.
pub fn replay(arguments: &ReplayArguments, as_json: bool) -> Outcome {
    let bytes = files::read(&arguments.journal, JOURNAL_BYTES_MAX)?;
    let replayed = tg_ledger::replay(&bytes).or_fail(Exit::Rejected, "replay the journal")?;
    let root = replayed.state.root();
    let schedule = replayed.state.schedule().root;
    if as_json {
        json(&serde_json::json!({
            "blocks": replayed.blocks,
            "decisions": replayed.decisions,
            "state_root": root.to_string(),
            "schedule_root": schedule.to_string(),
        }))?;
        return Ok(());
    }
    line(format_args!(
        "{} blocks and {} decisions reproduced; state root {root}, last schedule root {schedule}",
        replayed.blocks, replayed.decisions
    ))?;
    Ok(())
}

fn text(path: &Path) -> Result<String, Failure> {
    let bytes = files::read(path, TEXT_BYTES_MAX as u64)?;
    String::from_utf8(bytes).or_fail(Exit::Usage, format!("read {}", path.display()))
}
