//! The table of cheats is of this simulator.

use tg_sim::CheatKind;
use tg_sim::cheats::CheckedBy;

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
