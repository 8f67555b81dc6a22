//! `cargo xtask cheat-table`: each cheat against each way of checking, in the simulator, and how often a lie in one tile is found
//! with real commitments; writes `docs/CHEATS.md`.

use std::path::Path;

use anyhow::{Result, bail};

use crate::process;

/// Where it is written.
const FILE: &str = "docs/CHEATS.md";

/// What stands before the tables.
const HEAD: &str = "\
# Cheats against ways of checking

What each cheat came to under each mode (`verify` of an order). Written by `cargo xtask cheat-table`; figures change with
the simulator's draws.

## In the simulator

Four validators, one of them hostile where the cheat says so, in one row three; three honest-looking providers of which the cheapest, at 1 TGRID a job, is
the cheat (the others ask 1.5 and 1.6); 20 orders a run, half of them of a friend where the cheat has friends, nothing else fails. Evidence is *simulated*: bytes that say what they are
about, taken by a checker that knows the right answer; a lie in one part of twenty is seen if the seed draws that part. Ledger, consensus,
seeds, votes and money are real.
*Caught*: yes, if no wrong result was paid and provider or validator lost more than fees; of cheats whose wrong results were paid, how many of the cheat's
leases, but those of which it had a right result paid, were not; else nothing was wrong: no wrong result was paid, and nobody lost anything.
*Leases of the cheat* are those that the hostile provider took before it was suspended; *wrong results paid* are of all jobs. *Leases a job*
and *ms a job* are what honest requestors bear; the last two columns are what the hostile provider and the fourth validator have more or less
at the end, earnings for honest work among them.

";

/// What stands before the second table.
const DETECTION: &str = "
How to read it: under `none` every lie is paid. Under `recompute` and `proof` none is. Under `sync` a lie that is spread over the result
is not paid; one in a single part of twenty is paid 19 times and costs 20 prices once, so it gains nothing on average (ADR 22; what it is
worth elsewhere counts too: ADR 44), and a
provider that hides what was drawn loses as much. A provider that cheats all but its friends loses what it puts up for the others, and is paid by its friends for honest work. One bribed, lazy, copying or accusing member of four changes no result; a lazy one has no share of the fee, and loses a
TGRID where it found a wrong result right, as who accuses falsely does each time. Under `optimistic` nobody here challenges: a lie is paid where the seed draws the bribed watcher, one run of
four, and costs three prices in the others (here twenty, as these offers put up); a requestor that runs the program too ends that (ADR 27). *optimistic, one tile* is that mode for a model
that validators do not repeat, whose disputes end at one tile (ADR 33); requestors challenge what they find wrong there. Under `replicate` no wrong result is paid; jobs that need more members than there are honest
providers once the cheat is suspended wait until their deadline, so that fewer are paid (the three providers here are three members or two).
*Three bribed members of four* are more than the network bears (one of four; two thirds of a committee, and of all validators who judge what the honest member says): wrong results are paid,
and nothing promises otherwise. What the simulator holds them to all the same: one chain and one state, money to the last unit, no honest provider's
collateral, and of the honest member's stake nothing but what each of its accusations puts up, which the others say are false. Of mode `replicate` these three judge members as they are.

## A lie in one tile, with real commitments

Models of the suite, executed; the liar changes one element of the answer and commits to that. *Found* is how often the drawn tiles
hold the wrong one; in the first 1,000 runs the opening is made and checked by the code of production, which must judge alike. *99.9 % interval* is Wilson's of
that share, wide enough that of the rows of both tables none is outside by chance but once in a hundred sets of challenges; where the formula is outside the command fails.
*Gain a lease* is what these shares come to for a liar that always returns, with that interval: the price where the lie is not found, minus the twenty prices that are its least
stake where it is. Where it may be a gain the command fails. What the lie is worth elsewhere, and what a name loses beside its stake, are not in it (ADR 44).

";

/// Runs of each cheat if no number is given.
const SEEDS_USUAL: u32 = 4;

/// Takes a number of runs of each cheat, or none.
///
/// # Errors
/// If it is no number, and those of [`run`].
pub fn command(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        [] => run(root, SEEDS_USUAL),
        [seeds] => match seeds.parse() {
            Ok(seeds) if seeds > 0 => run(root, seeds),
            _ => bail!("`{seeds}` is no number of seeds"),
        },
        _ => bail!("cheat-table takes one number of seeds"),
    }
}

/// Measures, prints and writes.
///
/// # Errors
/// If a run breaks a rule of the simulator, or something cannot be built or written.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, seeds: u32) -> Result<()> {
    let mut command = process::cargo(root);
    command.args([
        "run",
        "--quiet",
        "--release",
        "--package",
        "tensorgrid",
        "--",
    ]);
    let range = format!("0..{seeds}");
    command.args(["sim", "--cheats", "--jobs", "2", "--seeds", &range]);
    let table = process::answer_or(&mut command, "the simulator found a broken rule")?;
    let mut example = process::optimised_example(root, "tg-compile", "detection");
    let detection = process::answer_or(&mut example, "the example `detection` failed")?;
    let runs = format!("`tensorgrid sim --cheats --seeds {range}`: {seeds} runs of each.\n\n");
    let text = format!("{HEAD}{runs}{table}{DETECTION}{detection}");
    print!("{text}");
    process::write(root, FILE, &text)
}
