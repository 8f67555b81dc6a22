//! Attacks on money, time and machines, run on the ledger: one file for each family, one function for each attack.

mod families;
mod grid;
mod measure;

pub(crate) use families::all;
pub(crate) use measure::{Figures, Size, measure};

/// One row as a line: name, who, bound, gain, loss of money, of capacity and by delay in base units, milliseconds lost.
pub(crate) fn line(name: &str, who: &str, bound: &str, figures: &Figures) -> String {
    let Figures {
        gain,
        money,
        held,
        delay,
        lost_ms,
    } = figures;
    format!("{name}\t{who}\t{bound}\t{gain}\t{money}\t{held}\t{delay}\t{lost_ms}")
}
