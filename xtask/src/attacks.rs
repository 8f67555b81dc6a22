//! `cargo xtask attack-table`: what attacks cost whom, measured, as a table in `docs/ATTACKS.md`.
//!
//! Rows come from the example `attacks` of `tg-ledger`, which plays them on the ledger, and from tests that play what a
//! ledger cannot: sockets, disks, clocks. The command fails if a row is worse than the committed one, somebody gains, or
//! a griefing factor is above one and nothing is said to bound it; `--bless` takes what was measured as it is.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// Where the table is.
const DOCUMENT: &str = "docs/ATTACKS.md";

/// How a test's line with figures begins.
const MARK: &str = "attack-table\t";

/// Base units of a millionth of a TGRID, in which money is shown.
const SHOWN: i128 = 1_000_000_000_000;

/// What is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether worse rows are taken.
    pub bless: bool,
    /// Whether only the ledger's rows are measured, and the others kept as they are.
    pub ledger: bool,
}

impl Options {
    /// Reads `--bless` and `--ledger`.
    ///
    /// # Errors
    /// If a word is unknown.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for word in words {
            match *word {
                "--bless" => options.bless = true,
                "--ledger" => options.ledger = true,
                other => {
                    bail!("attack-table does not know `{other}`; it takes --bless and --ledger")
                }
            }
        }
        Ok(options)
    }
}

/// A test that plays an attack.
struct Outside {
    package: &'static str,
    /// Arguments of `cargo test` that choose the target.
    target: &'static [&'static str],
    test: &'static str,
    /// Attack and attacker of a test that fails if the attack does harm, and measures nothing else.
    asserts: Option<(&'static str, &'static str)>,
}

const LIB: &[&str] = &["--lib"];
const IT: &[&str] = &["--test", "it"];

/// What is played outside the ledger's blocks.
const OUTSIDE: &[Outside] = &[
    Outside {
        package: "tg-ledger",
        target: LIB,
        test: "filling_all_offers_with_cheap_accounts_costs_more_than_honest_ones_lose",
        asserts: None,
    },
    Outside {
        package: "tg-api",
        target: IT,
        test: "half_sent_posts_stalled_readers_and_slow_heads_stop_nobody",
        asserts: None,
    },
    Outside {
        package: "tg-node",
        target: LIB,
        test: "thousands_of_posts_of_unfunded_keys_take_no_place_in_the_pool",
        asserts: None,
    },
    Outside {
        package: "tg-node",
        target: LIB,
        test: "a_full_pool_of_others_still_takes_what_is_prepaid_and_puts_it_into_the_next_block",
        asserts: Some((
            "fills the pool, to keep results of leases out",
            "anybody with money",
        )),
    },
    Outside {
        package: "tg-node",
        target: LIB,
        test: "filling_the_store_takes_money_that_stays",
        asserts: Some(("fills the store of blobs", "anybody")),
    },
    Outside {
        package: "tg-node",
        target: LIB,
        test: "the_right_bytes_replace_damaged_ones_and_wrong_ones_are_refused",
        asserts: Some(("sends wrong bytes under the name of a blob", "anybody")),
    },
    Outside {
        package: "tg-node",
        target: LIB,
        test: "a_peer_that_sends_wrong_bytes_is_not_asked_again",
        asserts: Some((
            "answers other validators with wrong bytes",
            "one validator of four",
        )),
    },
    Outside {
        package: "tg-node",
        target: LIB,
        test: "blobs_that_nobody_has_do_not_hold_up_one_that_somebody_has",
        asserts: Some((
            "orders with inputs that nobody has, so that validators look for them",
            "requestor",
        )),
    },
    Outside {
        package: "tg-node",
        target: IT,
        test: "a_clock_an_hour_ahead_for_five_seconds_makes_no_block_an_hour_ahead",
        asserts: Some((
            "sets the clock of all validators an hour ahead for 5 s",
            "whoever sets their time",
        )),
    },
    Outside {
        package: "tg-node",
        target: IT,
        test: "a_damaged_database_is_rebuilt_from_the_others",
        asserts: Some((
            "damages the database of one validator",
            "whoever has its disk",
        )),
    },
    Outside {
        package: "tg-proof",
        target: IT,
        test: "a_short_search_finds_no_program_that_costs_more_than_is_declared",
        asserts: Some((
            "registers a model whose check costs more than it declares",
            "registrant",
        )),
    },
];

/// One row of the table. Money is in millionths of a TGRID.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    attack: String,
    who: String,
    cost: i128,
    gain: i128,
    loss: i128,
    /// Tenths of a second by which the most delayed honest order, or answer, was late.
    lost: u64,
    /// Whether a test only asserts that it does no harm, and there are no figures.
    is_asserted: bool,
    /// What bounds it, and the test that measured it if it was not the ledger's example.
    bound: String,
}

/// Money in millionths, rounded away from zero where that is worse.
fn millionths(base_units: i128) -> i128 {
    base_units.div_euclid(SHOWN) + i128::from(base_units.rem_euclid(SHOWN) != 0)
}

impl Row {
    /// A row of what was measured: name, who, bound, gain, losses of money, capacity and by delay, milliseconds.
    fn measured(line: &str) -> Result<Self> {
        let cells: Vec<&str> = line.split('\t').collect();
        let [attack, who, bound, gain, money, held, delay, lost] = cells[..] else {
            bail!("a line of eight cells was expected: {line}");
        };
        let number = |text: &str| {
            text.parse::<i128>()
                .with_context(|| format!("`{text}` in {line}"))
        };
        let gain = number(gain)?;
        let loss = number(money)? + number(held)? + number(delay)?;
        Ok(Self {
            attack: attack.to_owned(),
            who: who.to_owned(),
            cost: (-gain).max(0) / SHOWN,
            gain: millionths(gain.max(0)),
            loss: millionths(loss),
            lost: u64::try_from(number(lost)?)?.div_ceil(100),
            is_asserted: false,
            bound: bound.to_owned(),
        })
    }

    /// A row of the committed table.
    fn committed(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [attack, who, cost, gain, loss, lost, _factor, bound] = cells[..] else {
            return None;
        };
        if cost == "-" {
            return Some(Self::asserted((attack, who), bound));
        }
        Some(Self {
            attack: attack.to_owned(),
            who: who.to_owned(),
            cost: parse(cost)?,
            gain: parse(gain)?,
            loss: parse(loss)?,
            lost: u64::try_from(parse(lost)? / 100_000).ok()?,
            is_asserted: false,
            bound: bound.to_owned(),
        })
    }

    /// A row without figures.
    fn asserted((attack, who): (&str, &str), bound: &str) -> Self {
        Self {
            attack: attack.to_owned(),
            who: who.to_owned(),
            cost: 0,
            gain: 0,
            loss: 0,
            lost: 0,
            is_asserted: true,
            bound: bound.to_owned(),
        }
    }

    /// Loss for each unit of cost, in hundredths, rounded up; nothing if the attack costs nothing.
    fn factor(&self) -> Option<i128> {
        match (self.loss, self.cost) {
            (0, _) => Some(0),
            (_, 0) => None,
            (loss, cost) => Some((loss * 100 + cost - 1) / cost),
        }
    }

    fn factor_text(&self) -> String {
        match self.factor() {
            Some(factor) if factor >= 1_000 => (factor / 100).to_string(),
            Some(factor) => format!("{}.{:02}", factor / 100, factor % 100),
            None => "free".to_owned(),
        }
    }

    fn render(&self) -> String {
        let Self {
            attack,
            who,
            cost,
            gain,
            loss,
            lost,
            is_asserted,
            bound,
        } = self;
        if *is_asserted {
            return format!("| {attack} | {who} | - | - | - | - | - | {bound} |");
        }
        let factor = self.factor_text();
        format!(
            "| {attack} | {who} | {} | {} | {} | {}.{} | {factor} | {bound} |",
            money(*cost),
            money(*gain),
            money(*loss),
            lost / 10,
            lost % 10
        )
    }

    /// What is wrong with it by itself.
    fn fault(&self) -> Option<String> {
        if self.gain > 0 {
            return Some(format!(
                "`{}`: somebody gains {}",
                self.attack,
                money(self.gain)
            ));
        }
        let is_above = self.factor().is_none_or(|factor| factor > 100);
        (is_above && self.bound.is_empty()).then(|| {
            let factor = self.factor_text();
            format!(
                "`{}`: the factor is {factor} and nothing is said to bound it",
                self.attack
            )
        })
    }

    /// In which way it is worse than the committed row. A fiftieth is noise of what other changes do to the market.
    fn worse_than(&self, committed: &Self) -> Option<String> {
        let above = |now: i128, then: i128| now > then + then.abs() / 50 + 10;
        let (now, then) = (self.factor(), committed.factor());
        let factor = match (now, then) {
            (Some(now), Some(then)) => above(now, then),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let late = self.lost > committed.lost + committed.lost / 2 + 20;
        let name = &self.attack;
        if self.gain > committed.gain {
            Some(format!(
                "`{name}`: gain {} was {}",
                money(self.gain),
                money(committed.gain)
            ))
        } else if factor {
            let (now, then) = (self.factor_text(), committed.factor_text());
            Some(format!("`{name}`: factor {now} was {then}"))
        } else if late {
            let (now, then) = (self.lost / 10, committed.lost / 10);
            Some(format!("`{name}`: {now} s lost, were {then}"))
        } else {
            None
        }
    }
}

/// A decimal number in millionths.
fn parse(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let part = format!("{part:0<6}");
    let (whole, part): (i128, i128) = (whole.parse().ok()?, part.get(..6)?.parse().ok()?);
    Some(sign * (whole * 1_000_000 + part))
}

/// Millionths as a decimal number without needless zeros.
fn money(millionths: i128) -> String {
    let (whole, part) = (millionths / 1_000_000, millionths % 1_000_000);
    let text = format!("{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Measures, prints and writes the table.
///
/// # Errors
/// If an attack cannot be run, or a row is worse than committed or breaks a rule and `--bless` is not given.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: Options) -> Result<()> {
    let path = root.join(DOCUMENT);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let committed: BTreeMap<String, Row> = rows(&text)
        .into_iter()
        .map(|row| (row.attack.clone(), row))
        .collect();
    let mut measured = of_the_ledger(root)?;
    if options.ledger {
        let played: Vec<String> = measured.iter().map(|row| row.attack.clone()).collect();
        let kept = rows(&text).into_iter();
        measured
            .extend(kept.filter(|row| row.bound.contains('`') && !played.contains(&row.attack)));
    } else {
        for outside in OUTSIDE {
            measured.extend(of_a_test(root, outside)?);
        }
    }
    let faults = faults(&measured, &committed);
    let table = render(&measured);
    println!("{table}");
    if !faults.is_empty() && !options.bless {
        bail!(
            "{}\n(`cargo xtask attack-table --bless` takes it)",
            faults.join("\n")
        );
    }
    std::fs::write(&path, document(&table))
        .with_context(|| format!("{} cannot be written", path.display()))
}

/// What is wrong with the rows, by themselves and beside the committed ones.
fn faults(measured: &[Row], committed: &BTreeMap<String, Row>) -> Vec<String> {
    let mut faults: Vec<String> = measured.iter().filter_map(Row::fault).collect();
    let known = measured
        .iter()
        .filter_map(|row| Some((row, committed.get(&row.attack)?)));
    faults.extend(known.filter_map(|(row, before)| row.worse_than(before)));
    let gone = committed
        .keys()
        .filter(|name| measured.iter().all(|row| row.attack != **name));
    faults.extend(gone.map(|name| format!("`{name}` is not measured any more")));
    faults
}

fn rows(document: &str) -> Vec<Row> {
    let lines = document.lines().filter(|line| line.starts_with("| "));
    lines.filter_map(Row::committed).collect()
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String> {
    let failed = format!("cargo {} failed", arguments.join(" "));
    process::answer_or(process::cargo(root).args(arguments), &failed)
}

fn of_the_ledger(root: &Path) -> Result<Vec<Row>> {
    let arguments = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "tg-ledger",
        "--example",
        "attacks",
    ];
    cargo(root, &arguments)?
        .lines()
        .map(Row::measured)
        .collect()
}

fn of_a_test(root: &Path, outside: &Outside) -> Result<Vec<Row>> {
    let Outside {
        package,
        target,
        test,
        asserts,
    } = outside;
    // Chosen by name out of the whole workspace: a package by itself is built with other features, minutes for each.
    let mut arguments = vec!["test", "--quiet", "--workspace"];
    arguments.extend(*target);
    arguments.extend(["--", test, "--nocapture"]);
    let output = cargo(root, &arguments)?;
    ensure!(output.contains(" 1 passed"), "{package} has no test {test}");
    if let Some(attack) = asserts {
        let bound = format!("`{test}` of {package} fails if it does harm");
        return Ok(vec![Row::asserted(*attack, &bound)]);
    }
    let lines = output
        .lines()
        .filter_map(|line| Some(line.split_once(MARK)?.1));
    let mut rows: Vec<Row> = lines.map(Row::measured).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "{test} of {package} printed no figures");
    for row in &mut rows {
        let by = format!("measured by `{test}` of {package}");
        row.bound = match row.bound.is_empty() {
            true => by,
            false => format!("{}; {by}", row.bound),
        };
    }
    Ok(rows)
}

fn render(rows: &[Row]) -> String {
    let mut text = String::from(
        "| attack | who | cost | gain | loss | seconds | factor | what bounds it |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        text.push_str(&row.render());
        text.push('\n');
    }
    text
}

/// The document around the table.
fn document(table: &str) -> String {
    format!("{HEAD}\n{table}{FOOT}")
}

const HEAD: &str = "\
# Attacks

`cargo xtask attack-table` plays each of these attacks and writes this table; it fails if a row is worse than here, somebody
gains, or a factor is above one and nothing is said to bound it. Nothing in it is written by hand but names and bounds.

Each row but the last ones is played on the ledger itself (`propose`, `apply`, signed transactions; the parameters of a
development network; a block a second): the same honest people run with the attack and without it, and the difference is
counted. Five providers (asks of 0.030 to 0.034 TGRID for a job of 12 s, 1 TGRID of collateral), three requestors, four
validators; machines with a GPU where the attack needs one. The code is `crates/tg-ledger/examples/attacks`.

*cost*: what the attackers together own less at the end, in TGRID, everything counted that is locked and comes back. *gain*:
what they own more. *loss*: what honest parties lose: money (requestors, providers and validators each by themselves, so
that a group that earns offsets no other), time for which machines were held by leases that ended unpaid, at their price
for the declared time, and the time by which each honest order was paid later, at its price for the time that it takes
undisturbed; one that ends unpaid counts as ordered once more. *seconds*: how much later the most delayed honest order, or
answer, came. *factor*: loss for each TGRID of cost, the griefing factor; `free` if the attack costs nothing.

Rows that name a test are played outside blocks, by that test; with `-` instead of figures it measures nothing and fails if
the attack does harm. Seconds of such rows are those of the machine that measured them.
";

const FOOT: &str = "";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(gain: i128, loss: i128) -> Row {
        let line = format!("an attack\tsomebody\t\t{gain}\t{loss}\t0\t0\t1500");
        Row::measured(&line).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let row = row(-2_500_000_000_000_000_000, 1_000_000_000_000_000);
        let line = row.render();
        assert_eq!(
            line,
            "| an attack | somebody | 2.5 | 0 | 0.001 | 1.5 | 0.01 |  |"
        );
        assert_eq!(Row::committed(&line), Some(row));
    }

    #[test]
    fn a_row_without_figures_is_read_back_too() {
        let row = Row::asserted(("fills a disk", "anybody"), "`test` fails");
        assert_eq!(Row::committed(&row.render()), Some(row));
    }

    #[test]
    fn a_row_that_is_worse_is_named() {
        let before = row(-1_000_000_000_000_000_000, 500_000_000_000_000_000);
        let after = row(-1_000_000_000_000_000_000, 900_000_000_000_000_000);
        let committed = BTreeMap::from([(before.attack.clone(), before.clone())]);
        let expected = "`an attack`: factor 0.90 was 0.50".to_owned();
        assert_eq!(faults(std::slice::from_ref(&after), &committed), [expected]);
        assert_eq!(
            faults(std::slice::from_ref(&before), &committed),
            Vec::<String>::new()
        );
        let gone = "`an attack` is not measured any more".to_owned();
        assert_eq!(faults(&[], &committed), [gone]);
    }

    #[test]
    fn whoever_gains_and_whatever_nothing_bounds_is_named() {
        let none = BTreeMap::new();
        let gains = faults(&[row(1, 0)], &none);
        assert_eq!(gains, ["`an attack`: somebody gains 0.000001"]);
        let griefs = faults(&[row(-1_000_000_000_000, 2_000_000_000_000)], &none);
        assert_eq!(
            griefs,
            ["`an attack`: the factor is 2.00 and nothing is said to bound it"]
        );
        let mut bounded = row(-1_000_000_000_000, 2_000_000_000_000);
        bounded.bound = "a block".to_owned();
        assert!(faults(&[bounded], &none).is_empty());
        assert_eq!(faults(&[row(0, 5)], &none).len(), 1);
    }
}
