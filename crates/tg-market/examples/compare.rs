//! `compare NODES.csv JOBS.csv EVERY`: jobs with creation and deletion times on every EVERY-th machine, by each rule.
//! Prints `policy,served,impossible,wait_p50_s,wait_p90_s,wait_p99_s,late,revenue,idle_while_waiting_ppm`.

use std::error::Error;

use tg_market::baseline::Policy;
use tg_market::compare::compare;
use tg_market::trace::Trace;

#[allow(clippy::print_stdout, reason = "this is a command line tool")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, jobs, every] = words.as_slice() else {
        return Err("usage: compare NODES.csv JOBS.csv EVERY".into());
    };
    let mut trace = Trace::parse(
        &std::fs::read_to_string(nodes)?,
        &std::fs::read_to_string(jobs)?,
    )?;
    let every: usize = every.parse()?;
    let mut at = 0;
    trace.nodes.retain(|_| {
        at += 1;
        at % every.max(1) == 1 || every <= 1
    });
    println!(
        "policy,served,impossible,wait_p50_s,wait_p90_s,wait_p99_s,late,revenue,idle_while_waiting_ppm"
    );
    for policy in Policy::ALL {
        let result = compare(&trace, policy, 1);
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
            result.idle_while_waiting_ppm,
        );
    }
    Ok(())
}
