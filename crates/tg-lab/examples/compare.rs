//! `compare NODES.csv JOBS.csv EVERY SUBSETS [RULE ...]`: jobs with creation and deletion times, by each rule. The machines are
//! every EVERY-th of the list, starting at SUBSETS places of it; what comes of these markets is pooled. Prints
//! `policy,served,impossible,wait_p50_s,wait_p90_s,wait_p99_s,late,revenue,idle_while_waiting_ppm`.

use std::error::Error;

use tg_lab::baseline::Policy;
use tg_lab::compare::{Comparison, compare};
use tg_lab::trace::Trace;

#[allow(clippy::print_stdout, reason = "this is a command line tool")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, jobs, every, subsets, named @ ..] = words.as_slice() else {
        return Err("usage: compare NODES.csv JOBS.csv EVERY SUBSETS [RULE ...]".into());
    };
    let whole = Trace::parse(
        &std::fs::read_to_string(nodes)?,
        &std::fs::read_to_string(jobs)?,
    )?;
    let every = every.parse::<usize>()?.max(1);
    let subsets = subsets.parse::<usize>()?.clamp(1, every);
    println!(
        "policy,served,impossible,wait_p50_s,wait_p90_s,wait_p99_s,late,revenue,idle_while_waiting_ppm"
    );
    let is_asked_for =
        |policy: &Policy| named.is_empty() || named.iter().any(|it| it == policy.as_str());
    for policy in Policy::ALL.into_iter().filter(is_asked_for) {
        let results = (0..subsets).map(|subset| {
            let mut trace = whole.clone();
            let mut at = 0;
            trace.nodes.retain(|_| {
                at += 1;
                (at - 1) % every == subset * every / subsets
            });
            compare(&trace, policy, 1)
        });
        let Some(result) = results.reduce(Comparison::pooled) else {
            continue;
        };
        println!(
            "{},{},{},{},{},{},{},{},{}",
            policy.as_str(),
            result.served,
            result.impossible,
            result.wait_s(500),
            result.wait_s(900),
            result.wait_s(990),
            result.late,
            result.revenue_milli / 1_000,
            result.idle_while_waiting_ppm(),
        );
    }
    Ok(())
}
