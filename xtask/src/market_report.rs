//! `cargo xtask market-report --data DIR`: a table and plots of the placement rules on the openb trace.
//!
//! Two parts: arrivals without departures (allocated share by arrived demand), and arrivals with departures by the
//! trace's timestamps on every 128th machine, as its jobs would never queue on all of them; 32 such sets of machines
//! are pooled, as one alone hangs on a few large jobs. Writes `target/market/report.md` and SVG plots beside it. Skipped
//! loudly without the folder.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::market::Options;
use crate::process;

/// One machine of so many takes part where jobs depart.
const EVERY: &str = "128";

/// So many sets of machines are pooled.
const SETS: &str = "32";

const RULES: [&str; 7] = [
    "tensorgrid",
    "fgd",
    "best-fit",
    "least-loaded",
    "fifo",
    "random",
    "weighted",
];

/// Colours of the rules, in their order.
const COLOURS: [&str; 7] = [
    "#0b6e4f", "#c1121f", "#1d4e89", "#8d5a97", "#6c757d", "#b08900", "#d96c06",
];

/// Writes the report.
///
/// # Errors
/// If a program fails or a file cannot be written.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let Some(data) = &options.data else {
        println!("SKIPPED: market-report needs --data DIR, the folder of the openb trace");
        return Ok(());
    };
    if !data.join("nodes_default_42.csv").is_file() {
        println!("SKIPPED: no trace in {}", data.display());
        return Ok(());
    }
    let out = root.join("target/market");
    std::fs::create_dir_all(&out)?;
    let nodes = data.join("nodes_default_42.csv");
    let mut text = String::from("# Placement rules on the openb trace\n\n");
    text.push_str("## Arrivals only, default workload, seed 42\n\n");
    text.push_str("Allocated GPU share in per cent by arrived demand.\n\n");
    text.push_str("| rule | 80 % | 90 % | 95 % | 100 % | 130 % |\n|---|---|---|---|---|---|\n");
    let mut lines = Vec::new();
    for rule in RULES {
        let arrivals = data.join("arrivals_default_42.csv");
        let answer = example(root, "simulate", &[&nodes, &arrivals], &[rule, "1"])?;
        let shares = shares(&answer)?;
        let cells: Vec<String> = shares.iter().map(|it| format!("{it:.2}")).collect();
        let _ = writeln!(text, "| {rule} | {} |", cells.join(" | "));
        lines.push((rule, shares));
    }
    let plot = out.join("allocated.svg");
    std::fs::write(
        &plot,
        lines_svg("Allocated GPU share (%)", &[80, 90, 95, 100, 130], &lines),
    )?;
    let jobs = data.join("openb_pod_list_default.csv");
    let answer = example(root, "compare", &[&nodes, &jobs], &[EVERY, SETS])?;
    let _ = write!(
        text,
        "\n![allocated share](allocated.svg)\n\n## Arrivals and departures by timestamp, every {EVERY}th machine, {SETS} sets pooled\n\n\
         Late jobs pay nothing; a job is late if it waits longer than half its duration and ten minutes. Revenue is\n\
         paid GPU seconds times priority. Idle is GPU compute that no waiting job used, while any waited:\n\
         fragmentation as those who wait see it.\n\n"
    );
    let rows: Vec<Vec<&str>> = answer
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    for (index, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(row.len()));
        }
    }
    for (column, name, title) in [
        (5, "wait_p99", "Wait, 99th percentile (s)"),
        (6, "late", "Jobs that ended late"),
        (7, "revenue", "Revenue (GPU s x priority)"),
        (8, "idle", "Idle while jobs waited (ppm)"),
    ] {
        let bars = bars(&rows, column)?;
        std::fs::write(out.join(format!("{name}.svg")), bars_svg(title, &bars))?;
        let _ = write!(text, "\n![{title}]({name}.svg)\n");
    }
    std::fs::write(out.join("report.md"), &text)?;
    println!("{text}\nwritten to {}", out.join("report.md").display());
    Ok(())
}

/// What an example of `tg-lab` prints.
fn example(
    root: &Path,
    name: &str,
    files: &[&std::path::PathBuf],
    words: &[&str],
) -> Result<String> {
    let mut example = process::optimised_example(root, "tg-lab", name);
    process::answer_or(example.args(files).args(words), &format!("{name} failed"))
}

/// The shares an arrivals-only run prints, in per cent.
fn shares(answer: &str) -> Result<Vec<f64>> {
    let shares: Vec<f64> = answer
        .split_whitespace()
        .map_while(|word| word.strip_prefix("Some(")?.strip_suffix(')')?.parse().ok())
        .map(|hundredths: f64| hundredths / 100.0)
        .collect();
    ensure!(shares.len() == 5, "the simulation printed {answer:?}");
    Ok(shares)
}

fn bars<'a>(rows: &[Vec<&'a str>], column: usize) -> Result<Vec<(&'a str, f64)>> {
    let value = |row: &Vec<&'a str>| {
        let cell = row.get(column).context("a short row")?;
        Ok((row[0], cell.parse().context("a cell is no number")?))
    };
    rows.iter().skip(1).map(value).collect()
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 110.0;

fn svg(title: &str, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"100%\" height=\"100%\" fill=\"white\"/>\
         <text x=\"10\" y=\"20\" font-size=\"14\">{title}</text>\n{body}</svg>\n"
    )
}

/// `value` with a thin gap after each three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{2009}');
        }
        text.push(digit);
    }
    text
}

fn bars_svg(title: &str, bars: &[(&str, f64)]) -> String {
    // One rule that is far out would leave the others without length: it is cut, and says so.
    let mut sorted: Vec<f64> = bars.iter().map(|it| it.1).collect();
    sorted.sort_by(|left, right| right.total_cmp(left));
    let most = match sorted.as_slice() {
        [first, second, ..] if *first > 3.0 * second => 1.5 * second,
        [first, ..] => *first,
        [] => 0.0,
    }
    .max(1.0);
    let mut body = String::new();
    for (index, (name, value)) in bars.iter().enumerate() {
        let y = 40.0 + index as f64 * 30.0;
        let width = (value / most).min(1.0) * (WIDTH - LEFT - 130.0);
        let colour = COLOURS[index % COLOURS.len()];
        let cut = if *value > most { " (cut)" } else { "" };
        let weight = if index == 0 { "bold" } else { "normal" };
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{:.0}\" font-weight=\"{weight}\">{name}</text>\
             <rect x=\"{LEFT}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"20\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\" font-weight=\"{weight}\">{}{cut}</text>",
            y + 15.0,
            LEFT + width + 6.0,
            y + 15.0,
            grouped(*value)
        );
    }
    svg(title, 50.0 + bars.len() as f64 * 30.0, &body)
}

fn lines_svg(title: &str, at: &[u32], lines: &[(&str, Vec<f64>)]) -> String {
    let values = || lines.iter().flat_map(|it| it.1.iter().copied());
    let low = values().fold(f64::MAX, f64::min).floor();
    let high = values().fold(0.0, f64::max).ceil();
    // The points are the same distance apart: what counts lies close together.
    let step = (WIDTH - 230.0) / (at.len().max(2) - 1) as f64;
    let x = |index: usize| 50.0 + index as f64 * step;
    let y = |share: f64| HEIGHT - 50.0 - (share - low) / (high - low).max(1.0) * (HEIGHT - 90.0);
    let mut body = String::new();
    for (index, percent) in at.iter().enumerate() {
        let _ = writeln!(
            body,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{percent}</text>",
            x(index),
            HEIGHT - 30.0
        );
    }
    let _ = writeln!(
        body,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">arrived demand (% of the GPUs)</text>",
        x(at.len() / 2),
        HEIGHT - 10.0
    );
    for share in [low, (low + high) / 2.0, high] {
        let py = y(share);
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{:.0}\">{share:.1}</text>\
             <line x1=\"45\" x2=\"{:.0}\" y1=\"{py:.0}\" y2=\"{py:.0}\" stroke=\"#dddddd\"/>",
            py + 4.0,
            x(at.len() - 1)
        );
    }
    // The list at the right is in the order of the last points, so that it reads like the ends of the lines.
    let mut order: Vec<usize> = (0..lines.len()).collect();
    let last = |index: &usize| lines[*index].1.last().copied().unwrap_or(0.0);
    order.sort_by(|left, right| last(right).total_cmp(&last(left)));
    for (place, index) in order.into_iter().enumerate() {
        let (name, shares) = &lines[index];
        let colour = COLOURS[index % COLOURS.len()];
        let width = if index == 0 { 3 } else { 2 };
        let points: Vec<String> = shares
            .iter()
            .enumerate()
            .map(|(index, share)| format!("{:.1},{:.1}", x(index), y(*share)))
            .collect();
        let _ = writeln!(
            body,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"{}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{name} {:.2}</text>",
            points.join(" "),
            WIDTH - 165.0,
            50.0 + place as f64 * 18.0,
            last(&index)
        );
    }
    svg(title, HEIGHT, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_hold_every_rule() {
        let bars = bars_svg("t", &[("a", 1.0), ("b", 2.0)]);
        assert!(bars.starts_with("<svg ") && bars.ends_with("</svg>\n"));
        assert_eq!(bars.matches("<rect").count(), 3);
        let lines = lines_svg(
            "t",
            &[80, 130],
            &[("a", vec![80.0, 95.0]), ("b", vec![70.0, 90.0])],
        );
        assert_eq!(lines.matches("<polyline").count(), 2);
        assert!(lines.find("a 95.00") < lines.find("b 90.00"));
        let cut = bars_svg("t", &[("a", 1.0), ("b", 2.0), ("c", 1_000_000.0)]);
        assert!(cut.contains("1\u{2009}000\u{2009}000 (cut)"));
    }

    #[test]
    fn printed_shares_are_read() {
        let text = "Some(7998) Some(8998) Some(9501) Some(9544) Some(9553) refused [0] needless 0";
        assert_eq!(
            shares(text).ok(),
            Some(vec![79.98, 89.98, 95.01, 95.44, 95.53])
        );
        assert!(shares("None Some(1)").is_err());
    }
}
