//! Plays attacks on the ledger beside honest people and prints what they cost whom: a line for each, separated by tabs.
//!
//! `cargo run --release -p tg-ledger --example attacks [-- --quick] [-- PART OF A NAME]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example that measures"
)]

#[path = "table.rs"]
mod table;

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    let is_quick = word == "--quick";
    for attack in table::all() {
        let is_asked = is_quick || attack.name.contains(&word);
        if !is_asked || is_quick && attack.size == table::Size::Large {
            continue;
        }
        let (name, who, bound) = (attack.name, attack.who, attack.bound);
        let figures = table::measure(attack);
        println!("{}", table::line(name, who, bound, &figures));
    }
}
