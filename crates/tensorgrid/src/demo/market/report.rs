//! The summary: it fits a screen.

use std::fmt::Write as _;

use super::scenario::{Check, LaneCount, MarketRun};
use tg_console::table::{Table, short};

/// The summary for people.
pub(super) fn text(run: &MarketRun) -> String {
    let mut table = Table::new(&["lane", "ordered", "paid", "not admitted", "unpaid", "TGRID"]);
    for (lane, count) in &run.lanes {
        let LaneCount {
            ordered,
            paid,
            refused,
            unpaid,
            volume,
        } = count;
        table.row(vec![
            (*lane).to_owned(),
            ordered.to_string(),
            paid.to_string(),
            refused.to_string(),
            unpaid.to_string(),
            short(*volume),
        ]);
    }
    let mut text = format!(
        "{table}\n\n{} blocks, {} decisions, 200 simulated providers, state root {}\n",
        run.blocks, run.decisions, run.root
    );
    if let Some(why) = &run.why {
        let _ = writeln!(text, "\nwhy the impossible job waits:");
        for (constraint, count) in why.placement.rejections.iter() {
            let _ = writeln!(text, "  {count:>3} offers: {}", constraint.explanation());
        }
        let _ = match why.relaxations.len() {
            0 => writeln!(text, "  no single change would place it"),
            count => writeln!(text, "  {count} single changes would place it"),
        };
    }
    let _ = writeln!(text);
    for Check {
        promise,
        holds,
        detail,
    } in &run.checks
    {
        let mark = if *holds { "kept  " } else { "BROKEN" };
        let _ = writeln!(text, "{mark} {promise} ({detail})");
    }
    text.trim_end().to_owned()
}

/// The summary for programs.
pub(super) fn json(run: &MarketRun) -> serde_json::Value {
    let lanes: serde_json::Map<String, serde_json::Value> = run
        .lanes
        .iter()
        .map(|(lane, count)| {
            let value = serde_json::json!({
                "ordered": count.ordered,
                "paid": count.paid,
                "not_admitted": count.refused,
                "unpaid": count.unpaid,
                "volume": count.volume.to_string(),
            });
            ((*lane).to_owned(), value)
        })
        .collect();
    let checks: Vec<serde_json::Value> = run
        .checks
        .iter()
        .map(|it| serde_json::json!({ "promise": it.promise, "holds": it.holds, "detail": it.detail }))
        .collect();
    serde_json::json!({
        "providers": "simulated",
        "blocks": run.blocks,
        "decisions": run.decisions,
        "moved": run.moved,
        "state_root": run.root,
        "lanes": lanes,
        "checks": checks,
    })
}
