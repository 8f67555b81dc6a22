//! `cargo xtask exporters --widths`: what 16 bits cost beside 8, on the graphs of [`crate::exporters`]; into a section of
//! `docs/CORPUS.md`.
//!
//! The example `coverage` of `tg-compile` proves each graph in both precisions, whatever its answers are worth, and measures
//! the processor time of each proof.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

/// The section's first line.
pub const HEADING: &str = "## 8 and 16 bits";
/// Proofs of at least so many milliseconds in 8 bits are held to ratios, shorter ones to a difference.
const LONG_MS: f64 = 20.0;
/// Held to: the median and the greatest ratio, and the greatest difference in milliseconds.
const HELD_TO: [f64; 3] = [2.0, 4.0, 20.0];

const PREFACE: &str = "
Written by `cargo xtask exporters --widths --bless`: the graphs of [EXPORTERS.md](EXPORTERS.md), each compiled once with 8-bit
and once with 16-bit activations, whatever the answers are worth, and proved; the least processor time of three proofs (of one
where it takes half a second). Every graph that is proved in 8 bits should be proved in 16; of those whose proof takes 20 ms or
more the median should cost at most twice as much and none more than four times, the others at most 20 ms more.
";

/// A graph in one precision.
#[derive(Debug, Clone, PartialEq)]
enum WidthOutcome {
    Proved { ms: f64, db: f64 },
    Left(String),
}

/// All graphs in both precisions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WidthReport {
    graphs: BTreeMap<String, [Option<WidthOutcome>; 2]>,
}

impl WidthReport {
    /// Reads the example's lines.
    ///
    /// # Errors
    /// If a line is none of them.
    pub fn read(text: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in text.lines() {
            let (head, reason) = line.split_once(": ").unwrap_or((line, ""));
            let words: Vec<&str> = head.split(' ').collect();
            let [graph, bits, outcome, ms, db] = words[..] else {
                bail!("the runner wrote `{line}`");
            };
            let number = |text: &str| -> Result<f64> {
                text.parse()
                    .with_context(|| format!("the runner wrote the number `{text}`"))
            };
            let width = match outcome {
                "proved" => WidthOutcome::Proved {
                    ms: number(ms)?,
                    db: number(db)?,
                },
                "refused" | "wrong" => WidthOutcome::Left(format!("{outcome}: {reason}")),
                _ => bail!("the runner wrote the outcome `{outcome}`"),
            };
            let slot = match bits {
                "8" => 0,
                "16" => 1,
                _ => bail!("the runner wrote the precision `{bits}`"),
            };
            report.graphs.entry(graph.to_owned()).or_default()[slot] = Some(width);
        }
        Ok(report)
    }

    /// Milliseconds and decibels in both precisions of the graphs that are proved in both, by name.
    fn pairs(&self) -> impl Iterator<Item = (&str, [f64; 2], [f64; 2])> {
        self.graphs.iter().filter_map(|(graph, widths)| {
            let [
                Some(WidthOutcome::Proved { ms: few, db: low }),
                Some(WidthOutcome::Proved { ms: many, db: high }),
            ] = widths
            else {
                return None;
            };
            Some((graph.as_str(), [*few, *many], [*low, *high]))
        })
    }

    /// Ratios of the times of the graphs whose proof in 8 bits is long, in order.
    fn ratios(&self) -> Vec<f64> {
        let long = self.pairs().filter(|(_, [few, _], _)| *few >= LONG_MS);
        let mut ratios: Vec<f64> = long.map(|(_, [few, many], _)| many / few).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// What is not as it should be.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (graph, widths) in &self.graphs {
            if let [Some(WidthOutcome::Proved { .. }), other] = widths
                && !matches!(other, Some(WidthOutcome::Proved { .. }))
            {
                let reason = match other {
                    Some(WidthOutcome::Left(reason)) => reason,
                    _ => "it was not tried",
                };
                findings.push(format!("{graph} is proved in 8 bits, not in 16: {reason}"));
            }
        }
        let [_, ratio_most, more_most] = HELD_TO;
        for (graph, [few, many], _) in self.pairs() {
            if few >= LONG_MS && many > ratio_most * few {
                let ratio = many / few;
                findings.push(format!("{graph} takes {ratio:.1} times as long in 16 bits"));
            }
            if few < LONG_MS && many > few + more_most {
                findings.push(format!(
                    "{graph} takes {few:.1} ms, {many:.1} ms in 16 bits"
                ));
            }
        }
        findings
    }

    /// The section of the page.
    #[must_use]
    pub fn section(&self) -> String {
        let mut text = format!("{HEADING}\n{PREFACE}\n");
        let count = |slot: usize| {
            let widths = self.graphs.values();
            let proved = |widths: &&[Option<WidthOutcome>; 2]| {
                matches!(widths[slot], Some(WidthOutcome::Proved { .. }))
            };
            widths.filter(proved).count()
        };
        let ratios = self.ratios();
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
        let worst = ratios.last().copied().unwrap_or_default();
        let short = self.pairs().filter(|(_, [few, _], _)| *few < LONG_MS);
        let more: Vec<f64> = short.map(|(_, [few, many], _)| many - few).collect();
        let most = more.iter().copied().fold(0.0, f64::max);
        let nearer = self.pairs().filter(|(_, _, [low, high])| high >= low);
        let _ = writeln!(
            text,
            "| graphs | proved in 8 bits | in 16 | in both | nearer in 16 | 20 ms or more | median ratio | worst | shorter | most ms more |\n\
             |---|---|---|---|---|---|---|---|---|---|\n\
             | {} | {} | {} | {} | {} | {} | {median:.2} | {worst:.2} | {} | {most:.1} |",
            self.graphs.len(),
            count(0),
            count(1),
            self.pairs().count(),
            nearer.count(),
            ratios.len(),
            more.len(),
        );
        let findings = self.findings();
        if !findings.is_empty() {
            text.push_str("\nNot as it should be:\n\n");
            for finding in findings {
                let _ = writeln!(text, "* {finding}");
            }
        }
        text
    }
}

/// A page with its section of [`HEADING`] replaced, which is the last one, or put at its end.
#[must_use]
pub fn placed(page: &str, section: &str) -> String {
    let before = page.split(HEADING).next().unwrap_or_default();
    format!("{}\n\n{section}", before.trim_end())
}

/// The section of a page, to be put into it again when the rest is written anew; empty if it has none.
#[must_use]
pub fn kept(page: &str) -> &str {
    page.find(HEADING).map_or("", |at| &page[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "a-0 8 proved 30.0 20.0\na-0 16 proved 45.0 60.0\nb-0 8 proved 5.0 20.0\nb-0 16 proved 30.0 40.0\n\
                         c-0 8 proved 40.0 9.0\nc-0 16 refused 0 0: no form\nd-0 8 refused 0 0: no\nd-0 16 refused 0 0: no\n\
                         e-0 8 proved 100.0 30.0\ne-0 16 proved 500.0 30.0\n";

    #[test]
    fn what_is_above_its_bounds_is_found() {
        let report = WidthReport::read(LINES).expect("the lines are the runner's");
        let findings = report.findings().join("\n");
        for text in [
            "c-0 is proved in 8 bits, not in 16: refused: no form",
            "b-0 takes 5.0 ms, 30.0 ms in 16 bits",
            "e-0 takes 5.0 times as long",
        ] {
            assert!(findings.contains(text), "{findings}");
        }
        assert_eq!(report.findings().len(), 3, "{findings}");
        let section = report.section();
        assert!(
            section.contains("| 5 | 4 | 3 | 3 | 3 | 2 | 5.00 | 5.00 | 1 | 25.0 |"),
            "{section}"
        );
        for line in ["a 9 proved 1 1", "a 8 won 1 1", "a 8 proved x 1", "a"] {
            assert!(WidthReport::read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_section_takes_the_place_of_the_one_before() {
        let page = placed("# Page\n\ntext\n", "## 8 and 16 bits\none\n");
        assert_eq!(page, "# Page\n\ntext\n\n## 8 and 16 bits\none\n");
        assert_eq!(kept(&page), "## 8 and 16 bits\none\n");
        let again = placed(&page, "## 8 and 16 bits\ntwo\n");
        assert_eq!(again, "# Page\n\ntext\n\n## 8 and 16 bits\ntwo\n");
        assert_eq!(kept("# Page"), "");
    }
}
