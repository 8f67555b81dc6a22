//! The table of cheats is of this simulator, and what its newest rows are said to show is so.

use tg_sim::cheats::{CheckedBy, measure};
use tg_sim::{CheatKind, ProviderRole, SeatRole, SimOptions, run};
use tg_types::Amount;

/// The way of checking that the table calls so.
fn way(name: &str) -> CheckedBy {
    let mut ways = CheckedBy::ALL.into_iter();
    let found = ways.find(|it| it.to_string() == name);
    found.expect("the table has this way")
}

/// The first cheat of a provider and a seat.
fn cheat(provider: ProviderRole, seat: SeatRole) -> CheatKind {
    let mut cheats = CheatKind::ALL.into_iter();
    let found = cheats.find(|it| it.provider == provider && it.seat == seat);
    found.expect("the table has this cheat")
}

/// A provider that is honest to its friends alone is paid by these, and by nobody else: unchecked it delivers nothing to the others, and under
/// `sync` it loses what it put up for them.
#[test]
fn who_cheats_all_but_its_friends_is_paid_by_these_alone() {
    let cheat = cheat(ProviderRole::SelectiveLiar, SeatRole::StorageLiar);
    let unchecked = measure(&cheat, way("none"), 0..1, SimOptions::default());
    assert_eq!((unchecked.broken, unchecked.wrong), (0, 0));
    assert!(unchecked.right > 0, "{unchecked:?}");
    let sampled = measure(&cheat, way("sync"), 0..2, SimOptions::default());
    assert_eq!((sampled.broken, sampled.wrong), (0, 0));
    assert_eq!(sampled.caught(), "yes", "{sampled:?}");
}

/// Three of four members are bribed, more than the network bears: wrong results are paid. What holds then is that all have one chain, no money
/// is made or lost, and the honest member keeps its seat and all of its stake but what an accusation puts up, for each that the others say is false.
#[test]
fn a_bribed_majority_has_wrong_results_paid_and_takes_no_seat() {
    let cheat = cheat(ProviderRole::Wrong, SeatRole::BribedMember);
    let plan = cheat.plan(way("sync"), 0);
    let honest = plan.seats.iter().filter(|it| **it == SeatRole::Honest);
    assert_eq!((honest.count(), plan.seats.len()), (1, 4));
    let report = run(&plan, SimOptions::default());
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    let wrong: u64 = report.providers.iter().map(|it| it.results.wrong).sum();
    assert!(wrong > 0, "{} of {} jobs", report.paid, report.jobs);
    let honest = report.seats[0];
    let lost = honest.before.saturating_sub(honest.after);
    let accusations = u64::try_from(report.leases).unwrap();
    assert!(lost <= Amount::from_tgrid(accusations), "{honest:?}");
    assert!(honest.after > Amount::from_tgrid(900), "{honest:?}");
    assert_eq!(report.set_changes, 0);
}

/// A lie about a run of a float model is not paid, whether sections of it are drawn or a watcher runs it.
#[test]
fn a_wrong_result_of_a_float_model_is_caught() {
    let cheat = cheat(ProviderRole::Wrong, SeatRole::Honest);
    for name in ["sync, a float model", "optimistic, a float model"] {
        let found = measure(&cheat, way(name), 0..1, SimOptions::default());
        assert_eq!((found.broken, found.wrong), (0, 0), "{name}");
        assert_eq!(found.caught(), "yes", "{name}: {found:?}");
        assert!(found.paid > 0, "{name}");
    }
}

/// Each cheat against each way of checking has its row; `cargo xtask cheat-table` writes them, and their figures.
#[test]
fn every_cheat_has_its_rows_in_the_table() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CHEATS.md");
    let table = std::fs::read_to_string(file).unwrap();
    for cheat in CheatKind::ALL {
        for way in CheckedBy::ALL {
            let row = format!("| {} | {way} |", cheat.name);
            let found = table.lines().find_map(|line| line.strip_prefix(&row));
            let caught = found.and_then(|rest| rest.split(" | ").next());
            let says =
                |it: &str| matches!(it.trim(), "yes" | "nothing wrong") || it.contains(" of ");
            assert!(
                caught.is_some_and(says),
                "CHEATS.md has no row that begins with `{row}` and says what was caught: cargo xtask cheat-table"
            );
        }
    }
}
