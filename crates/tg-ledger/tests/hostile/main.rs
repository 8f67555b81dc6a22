//! A random run of the whole ledger with honest and hostile actors.
//!
//! Everybody sees the public state and signs transactions of every kind: honest requestors, bidders, providers and a
//! registrant do their duty; one alliance of requestors, providers, a registrant, a spammer and one validator of four
//! fails in every way there is ([`providers`], [`requestors`], [`makers`], [`validators`], [`garbage`]). In every fourth
//! window of 1,000 blocks nobody hostile acts. Blocks are proposed on one state and applied on another, which is now and
//! then written down and read back; branches are given up; files are lost; blocks come up to an hour apart
//! ([`net`]). What is outside of the ledger is simulated ([`files`]). Parameters are a development network's, stretched in a
//! fifth of the blocks, so that every window ends in the run ([`season`]).
//!
//! After every block: both executions agree; money is conserved by the ledger's count, and an auditor who sees only events
//! knows every balance; nothing outlives its window unless an outage keeps it open; no honest provider is slashed, and
//! none loses more than the rules name ([`books`]). Every 100 blocks a walk over every record counts all money anew, every
//! honest account has what it had less what it spent, and the alliance has at most what it had and was paid for. In
//! every window honest parties lose less than the alliance burned or paid away.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "the coverage of a run is printed")]

#[path = "../it/audit.rs"]
mod audit;
mod books;
mod coverage;
mod files;
mod garbage;
mod keys;
mod makers;
mod net;
mod outbox;
mod providers;
mod requestors;
mod season;
mod validators;
#[path = "../it/voter.rs"]
mod voter;

use std::num::NonZeroUsize;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use coverage::Coverage;
use net::Net;
use season::Season;

const SEED: u64 = 13;

/// Blocks of a whole run.
const BLOCKS: u64 = 216_000;

fn run(season: Season) -> Net {
    let mut net = Net::new(season);
    for _ in 0..season.blocks {
        net.step();
    }
    net
}

/// What a run came to.
struct Report {
    text: String,
    /// Blocks with a transaction in them.
    busy: u64,
    coverage: Coverage,
}

fn report(season: Season) -> Report {
    let net = run(season);
    let (busy, transactions) = net.busy;
    let name = (season.name, season.seed);
    let mut lines = vec![
        format!("{name:?}: {busy} blocks with {transactions} transactions"),
        format!("  {}", net.books.total),
    ];
    for (number, sums) in net.windows.iter().enumerate() {
        lines.push(format!("  window {number}: {sums}"));
    }
    for (cause, (count, sums)) in &net.books.causes {
        lines.push(format!("  {count} x {cause}: {sums}"));
    }
    Report {
        text: lines.join("\n"),
        busy,
        coverage: net.coverage,
    }
}

/// Runs networks that know nothing of each other, one on each core at a time. A failure names the season and its seed.
fn reports(seasons: &[Season]) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(season) = seasons.get(next.fetch_add(1, Ordering::Relaxed)) {
            eprintln!("{} {}: {} blocks", season.name, season.seed, season.blocks);
            let found = catch_unwind(|| report(*season));
            done.push(found.unwrap_or_else(|_| panic!("{} {}", season.name, season.seed)));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().map(|it| it.join().unwrap());
        done.flatten().collect()
    })
}

/// With `TENSORGRID_NIGHTLY=1` all blocks, in four networks, else a tenth of them, in three: a thread for each of two cores, and
/// one that is soon done.
///
/// The tenth reaches every kind of transaction, every end and every window, each at least once. It gives up chances: what
/// goes wrong in one of 20,000 blocks is seen with probability 0.66 instead of 0.99998, what goes wrong in one of 200,000
/// with 0.10 instead of 0.66; tables hold a fifth as many records; and it has 16 hostile windows instead of 161.
#[test]
fn honest_parties_bear_no_failure_of_hostile_ones() {
    let is_nightly = std::env::var_os("TENSORGRID_NIGHTLY").is_some_and(|it| it == "1");
    let (blocks, seasons) = match is_nightly {
        true => (
            BLOCKS,
            vec![
                Season::brisk(SEED, BLOCKS * 2 / 5),
                Season::slow(SEED, BLOCKS / 5),
                Season::brisk(SEED + 1, BLOCKS / 5),
                Season::brisk(SEED + 2, BLOCKS / 5),
            ],
        ),
        false => (
            BLOCKS / 10,
            vec![
                Season::brisk(SEED, BLOCKS / 10 * 2 / 5),
                Season::brisk(SEED + 1, BLOCKS / 10 * 2 / 5),
                Season::slow(SEED, BLOCKS / 10 / 5),
            ],
        ),
    };
    assert_eq!(seasons.iter().map(|it| it.blocks).sum::<u64>(), blocks);
    let mut coverage = Coverage::default();
    let mut busy = 0;
    for report in reports(&seasons) {
        eprintln!("{}", report.text);
        busy += report.busy;
        coverage.merge(&report.coverage);
    }
    eprintln!("{coverage}");
    assert!(
        busy * 2 >= blocks,
        "{busy} of {blocks} blocks had a transaction"
    );
    let none: Vec<&str> = Vec::new();
    assert_eq!(coverage.missing(), none);
}

#[test]
fn the_same_seed_leads_to_the_same_state() {
    let root = || run(Season::brisk(SEED, 600)).root();
    assert_eq!(root(), root());
}
