//! `simulate NODES.csv ARRIVALS.csv POLICY SEED [OUT.csv]`: places a trace and prints what came of it. POLICY `knowing`
//! is `tensorgrid` with the work to come known from the start.

use std::error::Error;

use tg_lab::baseline::Policy;
use tg_lab::simulate::{Outcome, simulate, simulate_knowing};
use tg_lab::trace::{Trace, write_placements};

#[allow(clippy::print_stdout, reason = "this is a command line tool")]
fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, arrivals, policy, seed, out @ ..] = words.as_slice() else {
        return Err("usage: simulate NODES.csv ARRIVALS.csv POLICY SEED [OUT.csv]".into());
    };
    let trace = Trace::parse(
        &std::fs::read_to_string(nodes)?,
        &std::fs::read_to_string(arrivals)?,
    )?;
    let seed = seed.parse()?;
    let placements = if policy == "knowing" {
        simulate_knowing(&trace, seed)
    } else {
        simulate(&trace, Policy::parse(policy).ok_or("no such policy")?, seed)
    };
    let outcome = Outcome::of(&trace, &placements);
    for percent in [80, 90, 95, 100, 130] {
        print!("{:?} ", outcome.allocated_at(percent));
    }
    println!(
        "refused {:?} needless {}",
        outcome.refused, outcome.needless
    );
    if let [out] = out {
        std::fs::write(out, write_placements(&trace, &placements))?;
    }
    Ok(())
}
