//! Plays attacks on the ledger beside honest people and prints what they cost whom: a line for each, separated by tabs.
//!
//! `cargo run --release -p tg-ledger --example attacks [-- PART OF A NAME]`
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "an example that measures"
)]

#[path = "table.rs"]
mod table;

fn main() {
    let part = std::env::args().nth(1).unwrap_or_default();
    for attack in table::all() {
        if !attack.name.contains(&part) {
            continue;
        }
        let (name, who, bound) = (attack.name, attack.who, attack.bound);
        let figures = table::measure(attack);
        println!("{}", table::line(name, who, bound, &figures));
    }
}
