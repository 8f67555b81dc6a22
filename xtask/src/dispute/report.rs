//! The table.

use std::fmt::Write as _;

use super::judging::JudgingTime;
use super::lane::DisputeRow;
use super::models::DisputedModel;

/// What a validator may take to look at an accusation, in milliseconds, by the plan of this project.
const MS_MAX: f64 = 10.0;

/// What may be on the chain of a dispute.
const CHAIN_MAX: u64 = 64 << 10;

const INTRODUCTION: &str = "\
# Disputes over real processes

Written by `cargo xtask dispute-test --write`. It founds a network by `tensorgrid network new` and runs it on loopback, a process each: four validators, two
gateways, an honest provider for each model, and for each dispute in which the provider cheats one that does (the example `cheating_provider`). The models
are the networks of `cargo xtask compare-ort` with random weights, ResNet-18 for 224x224 and a transformer of six layers, of the same ONNX file in both
tiers; with the usual genesis a dispute about either ends at a part of its run. Each line is one job of mode `optimistic` (but the last of
most models), by the parties' programs alone: order, result, accusation by the watcher or by a challenger, claim, answer, judgement, money.
`--only WORD` and `--model WORD` play some lines. It fails if a line does, if money is not conserved at a node, if two nodes had
different states at a height, if a validator's stake changed, or if an honest provider lost something.

- *chain*: all transactions and verdicts, encoded, that name the lease in blocks from the accusation to the end of the job: the challenge, the names of both
  files, what validators state to hold, votes and verdict.
- *claim*, *answer*: the files that are named there. They are no part of the chain; n - f validators hold them. Of a file that nobody
  can get this is the size that was named.
- *validator*: processor time of the thread that looks at an accusation (`RUST_LOG=tg_node::check=debug` logs it: reading claim and answer, hashing
  them, computing the part): the median of the validators, and in brackets the one that took most. *first*: the same where a validator had to
  read the model first, which it does once, and again after a restart. None where nobody has to look at anything: whoever withholds has lost when its time is over.
- *seconds*: from the order to the end of the job. A challenge can be made for 10 s after the watcher's vote; a side that shows nothing has 30 s and the
  time of three runs.
- *who paid*: what provider and challenger have less or more at the end, in TGRID. Orders pay 0.005 to 0.028, the collateral is 1, a challenge
  costs 0.1.

A *product* is the one with weights that takes most: of integers a tile of the longest sums, of floats the node of the most work. *Scores* and *softmax* are of the
attention in the middle. A wrong result differs from the right one in one bit.

";

/// The lines of one model.
pub(crate) type OfModel<'a> = (&'a DisputedModel, Vec<DisputeRow>);

/// What is written to the document.
pub(crate) fn document(machine: &str, all: &[OfModel<'_>]) -> String {
    let mut text = format!("{INTRODUCTION}{machine}\n\n{}", table(all));
    text.push_str("\n## What it comes to\n");
    for line in summary(all) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- {line}");
    }
    text
}

/// The table, as Markdown.
pub(crate) fn table(all: &[OfModel<'_>]) -> String {
    let mut text = "\
| model | tier | case | chain, B | claim, kB | answer, kB | validator, ms | first, ms | seconds | who paid |
|---|---|---|---|---|---|---|---|---|---|
"
    .to_owned();
    for (model, rows) in all {
        for row in rows {
            let DisputeRow {
                case,
                chain,
                claim,
                answer,
                judging,
                seconds,
                paid,
                wrong,
            } = row;
            let kilobytes = |bytes: &Option<u64>| number(bytes.map(|it| it as f64 / 1e3));
            let chain = chain.map_or_else(String::new, |it| it.to_string());
            let paid = match wrong.is_empty() {
                true => paid.clone(),
                false => format!("{paid} **WRONG: {}**", wrong.join("; ")),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {case} | {chain} | {} | {} | {} | {} | {seconds:.0} | {paid} |",
                model.name,
                model.tier,
                kilobytes(claim),
                kilobytes(answer),
                ready(judging),
                number(judging.first),
            );
        }
    }
    text
}

/// What most validators took that had the model ready, and the one that took most.
fn ready(judging: &JudgingTime) -> String {
    let (all, most) = (&judging.ready, judging.most());
    let median = all.get(all.len().saturating_sub(1) / 2).copied();
    match all.len() {
        0 | 1 => number(most),
        _ => format!("{} ({})", number(median), number(most)),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |it| format!("{it:.1}"))
}

/// Whether it is about a short run of mode `sync`, which is run whole.
fn is_whole(row: &DisputeRow) -> bool {
    row.case.starts_with("mode `sync`")
}

/// The bounds of the plan, and how many lines keep them.
pub(crate) fn summary(all: &[OfModel<'_>]) -> Vec<String> {
    let rows = || {
        all.iter()
            .flat_map(|(model, rows)| rows.iter().map(move |row| (*model, row)))
    };
    let wrong = rows().filter(|(_, row)| !row.wrong.is_empty()).count();
    let chain = rows().filter_map(|(_, row)| row.chain).max().unwrap_or(0);
    let mut lines = vec![
        format!(
            "{} disputes, {wrong} of them not as they must be",
            rows().count()
        ),
        format!("at most {chain} bytes on the chain ({CHAIN_MAX} are allowed)"),
    ];
    let of_part = rows().filter(|(_, row)| !is_whole(row));
    let judged = of_part.filter_map(|(model, row)| Some((row.judging.most()?, model, row.case)));
    let mut judged: Vec<(f64, &DisputedModel, &str)> = judged.collect();
    judged.sort_by(|one, other| other.0.total_cmp(&one.0));
    let slow = judged.iter().filter(|it| it.0 > MS_MAX).count();
    if let Some((most, model, case)) = judged.first() {
        lines.push(format!(
            "of {} lines in which validators looked at a part with the model ready, {slow} took more than {MS_MAX} ms of one of them; most: \
             {most:.1} ms ({}, {}: {case})",
            judged.len(),
            model.name,
            model.tier
        ));
    }
    let of_whole = rows().filter(|(_, row)| is_whole(row));
    let of_whole = of_whole.filter_map(|(model, row)| Some((row.judging.most()?, model)));
    if let Some((most, model)) = of_whole.max_by(|one, other| one.0.total_cmp(&other.0)) {
        lines.push(format!(
            "an accusation in mode `sync` of a short run has each validator run all of it: at most {most:.1} ms of one with the model ready \
             ({}, {}); {MS_MAX} ms are allowed",
            model.name, model.tier
        ));
    }
    let first = rows().filter_map(|(_, row)| row.judging.first);
    let first = first.fold(0.0, f64::max);
    lines.push(format!(
        "at most {first:.1} ms where the model had to be read first"
    ));
    lines
}
