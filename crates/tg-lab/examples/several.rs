//! `several SEEDS [NODES.csv ARRIVALS.csv] [RULE ...]`: workloads in which half of the jobs with GPUs want several, drawn by seed
//! from the jobs of a trace or, without one, from a generated market. For each rule the allocated GPU share at 90, 95, 100 and
//! 130 per cent of arrived demand (mean over the seeds), and the refused jobs by number of GPUs.

use std::error::Error;

use tg_lab::baseline::Policy;
use tg_lab::simulate::{Outcome, simulate};
use tg_lab::synthetic::{half_several, synthetic_trace};
use tg_lab::trace::Trace;

/// What is printed.
const PERCENTS: [u64; 4] = [90, 95, 100, 130];

#[allow(clippy::print_stdout, reason = "this is a command line tool")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, rest @ ..] = words.as_slice() else {
        return Err("usage: several SEEDS [NODES.csv ARRIVALS.csv] [RULE ...]".into());
    };
    let (base, named) = match rest {
        [nodes, arrivals, named @ ..] if nodes.ends_with(".csv") => {
            let read = std::fs::read_to_string;
            (Trace::parse(&read(nodes)?, &read(arrivals)?)?, named)
        }
        named => (synthetic_trace(42, 1_213, 10_866), named),
    };
    let seeds: u64 = seeds.parse()?;
    println!("| rule | 90 % | 95 % | 100 % | 130 % | refused of 1, 2, 4, 8 GPUs |");
    println!("|---|---|---|---|---|---|");
    let is_asked_for =
        |policy: &Policy| named.is_empty() || named.iter().any(|it| it == policy.as_str());
    for policy in Policy::ALL.into_iter().filter(is_asked_for) {
        let mut shares = [0; PERCENTS.len()];
        let mut refused = [0; 4];
        for seed in 1..=seeds {
            let trace = half_several(&base, seed);
            let outcome = Outcome::of(&trace, &simulate(&trace, policy, seed));
            for (sum, percent) in shares.iter_mut().zip(PERCENTS) {
                *sum += outcome.allocated_at(percent).unwrap_or(0);
            }
            for (sum, gpus) in refused.iter_mut().zip([1, 2, 4, 8]) {
                *sum += outcome.refused[gpus];
            }
        }
        let share = |sum: u64| format!("{}.{:02}", sum / seeds / 100, sum / seeds % 100);
        let refused = refused.map(|it| (u64::from(it) / seeds).to_string());
        println!(
            "| {} | {} | {} |",
            policy.as_str(),
            shares.map(share).join(" | "),
            refused.join(", "),
        );
    }
    Ok(())
}
