//! The attacks of docs/ATTACKS.md, but for the largest, played on the ledger: nobody gains, and whoever costs others more
//! than itself is bounded by something that the table says.

#[path = "../../examples/attacks/table.rs"]
mod table;

use table::{Figures, Size};

#[test]
fn no_attack_of_the_table_pays_and_each_is_bounded() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ATTACKS.md");
    let document = std::fs::read_to_string(document).unwrap();
    let attacks = table::all();
    assert!(attacks.len() >= 40);
    for attack in attacks {
        let (name, who, bound) = (attack.name, attack.who, attack.bound);
        let row = format!("| {name} | {who} |");
        assert!(
            document.contains(&row),
            "`{name}` is not in the table: run cargo xtask attack-table"
        );
        if attack.size == Size::Large {
            continue;
        }
        let figures = table::measure(attack);
        let line = table::line(name, who, bound, &figures);
        let Figures {
            gain,
            money,
            held,
            delay,
            lost_ms: _,
        } = figures;
        assert!(gain <= 0, "somebody gains: {line}");
        let loss = money + held + delay;
        assert!(
            loss <= -gain || !bound.is_empty(),
            "nothing bounds it: {line}"
        );
    }
}
