//! `tensorgrid bench regions`: how soon blocks are final between ten regions of the world, simulated.

use std::time::Duration;

use tg_console::outcome::{Outcome, json, line, say};
use tg_offline::measure::Moment;
use tg_sim::regions::{ANCHOR, REGIONS, RegionalPlan, RegionalReport, SOURCE, measure, percentile};

use crate::cli::BenchRegionsArguments;

/// What is printed of the times of all blocks.
const PERCENTS: [usize; 3] = [50, 90, 99];

/// Runs it and prints what came out.
pub(crate) fn run(arguments: &BenchRegionsArguments, as_json: bool) -> Outcome {
    let plan = RegionalPlan {
        seed: arguments.seed,
        seats_per_region: arguments.seats_per_region,
        blocks: arguments.blocks.into(),
        jitter: Duration::from_millis(arguments.jitter_ms.into()),
        step: Duration::from_micros(arguments.step_us.into()),
    };
    say(format_args!(
        "simulating {} validators in {} regions, {} blocks",
        REGIONS.len() * usize::from(plan.seats_per_region),
        REGIONS.len(),
        plan.blocks
    ));
    let began = Moment::now();
    let report = measure(&plan);
    let cpu_ms = began.cost().cpu_ms;
    if as_json {
        return Ok(json(&data(&plan, &report, cpu_ms))?);
    }
    show(&plan, &report, cpu_ms)
}

/// Milliseconds of these percentiles.
fn percentiles(ascending_us: &[u64]) -> [f64; 3] {
    PERCENTS.map(|percent| {
        let found = percentile(ascending_us, percent);
        found.unwrap_or(0) as f64 / 1e3
    })
}

fn data(plan: &RegionalPlan, report: &RegionalReport, cpu_ms: f64) -> serde_json::Value {
    let row = |ascending_us: &[u64]| {
        let [p50, p90, p99] = percentiles(ascending_us);
        serde_json::json!({ "p50_ms": p50, "p90_ms": p90, "p99_ms": p99 })
    };
    serde_json::json!({
        "simulated": true,
        "source": SOURCE,
        "anchor": ANCHOR,
        "regions": REGIONS,
        "validators": report.seats,
        "blocks": report.blocks,
        "blocks_of_the_run": report.height,
        "views_of_the_run": report.views,
        "simulated_ms": report.simulated_ms,
        "jitter_ms": plan.jitter.as_secs_f64() * 1e3,
        "step_us": plan.step.as_secs_f64() * 1e6,
        "seed": plan.seed,
        "cpu_ms": cpu_ms,
        "at_proposer": row(&report.at_proposer_us),
        "at_all_seats": row(&report.at_seats_us),
    })
}

fn show(plan: &RegionalPlan, report: &RegionalReport, cpu_ms: f64) -> Outcome {
    line(format_args!(
        "simulated: {} validators in {} regions, {} blocks",
        report.seats,
        REGIONS.len(),
        report.blocks
    ))?;
    line(format_args!(
        "{:<48}{:>9}{:>9}{:>9}",
        "from the proposal until it is final, simulated", "p50 ms", "p90 ms", "p99 ms"
    ))?;
    for (name, ascending_us) in [
        ("as its proposer sees it", &report.at_proposer_us),
        ("as all seats see it", &report.at_seats_us),
    ] {
        let [p50, p90, p99] = percentiles(ascending_us);
        line(format_args!("{name:<48}{p50:>9.1}{p90:>9.1}{p99:>9.1}"))?;
    }
    line(format_args!(
        "{} blocks in {} views of {:.1} simulated seconds; {:.1} s of CPU",
        report.height,
        report.views,
        report.simulated_ms as f64 / 1e3,
        cpu_ms / 1e3
    ))?;
    line(format_args!(
        "links: half of a round trip, {} ms of jitter, no loss; a turn of the runtime takes {} us; blocks are empty",
        plan.jitter.as_millis(),
        plan.step.as_micros()
    ))?;
    line(format_args!("round trips: {SOURCE}"))?;
    line(format_args!("to compare: {ANCHOR}"))?;
    Ok(())
}
