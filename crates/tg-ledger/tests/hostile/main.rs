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
mod makers;
mod net;
mod outbox;
mod providers;
mod requestors;
mod season;
mod validators;

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

/// With `TENSORGRID_NIGHTLY=1` all blocks, else a tenth of them.
///
/// The tenth reaches every kind of transaction, every end and every window, each at least once. It gives up chances: what
/// goes wrong in one of 20,000 blocks is seen with probability 0.66 instead of 0.99998, what goes wrong in one of 200,000
/// with 0.10 instead of 0.66; tables hold a tenth as many records; and it has 16 hostile windows instead of 161.
#[test]
fn honest_parties_bear_no_failure_of_hostile_ones() {
    let is_nightly = std::env::var_os("TENSORGRID_NIGHTLY").is_some_and(|it| it == "1");
    let blocks = match is_nightly {
        true => BLOCKS,
        false => BLOCKS / 10,
    };
    let slow = blocks / 5;
    let mut coverage = Coverage::default();
    let mut busy = 0;
    for season in [Season::brisk(SEED, blocks - slow), Season::slow(SEED, slow)] {
        let net = run(season);
        let (with, transactions) = net.busy;
        eprintln!(
            "{}: {with} blocks with {transactions} transactions",
            season.name
        );
        eprintln!("  {}", net.books.total);
        for (number, sums) in net.windows.iter().enumerate() {
            eprintln!("  window {number}: {sums}");
        }
        for (cause, (count, sums)) in &net.books.causes {
            eprintln!("  {count} x {cause}: {sums}");
        }
        busy += net.busy.0;
        coverage.merge(&net.coverage);
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
