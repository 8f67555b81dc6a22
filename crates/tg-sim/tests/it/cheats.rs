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
            assert!(
                table.contains(&row),
                "CHEATS.md has no row that begins with `{row}`: cargo xtask cheat-table"
            );
        }
    }
}
