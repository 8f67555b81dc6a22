//! What is known of mutants: a line each in `xtask/mutants.txt`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use super::build::Placed;

/// What the file begins with.
const HEAD: &str = "\
# What tests say of mutants, written by `cargo xtask mutants`; a reason after `missed` is written by hand.
# crate file function hash-of-the-function number change outcome [test, or the reason why none can tell]
";

/// What names a mutant: crate, file, function, hash of the function, number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MutantKey {
    crate_name: String,
    file: String,
    function: String,
    hash: String,
    number: usize,
}

impl MutantKey {
    /// Of a mutant of a crate.
    #[must_use]
    pub fn of(crate_name: &str, placed: &Placed) -> Self {
        Self {
            crate_name: crate_name.to_owned(),
            file: placed.file.clone(),
            function: placed.mutant.function.clone(),
            hash: format!("{:016x}", placed.mutant.hash),
            number: placed.mutant.number,
        }
    }
}

/// How a mutant ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutantVerdict {
    /// This test fails with it.
    Caught(String),
    /// The tests do not end with it.
    Endless,
    /// No test fails; with a reason if that is known to be right.
    Missed(String),
    /// It cannot be built.
    Unbuildable,
}

/// A line: the change in words and the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutantEntry {
    /// What is changed.
    pub change: String,
    /// How it ended.
    pub verdict: MutantVerdict,
}

/// All that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records(pub BTreeMap<MutantKey, MutantEntry>);

/// Sums of one crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MutantCount {
    /// Mutants that could be built.
    pub drawn: usize,
    /// Those that a test fails with, or does not end with.
    pub caught: usize,
    /// Those that no test can tell, with the reason.
    pub excused: usize,
}

impl Records {
    /// Reads the file.
    ///
    /// # Errors
    /// If a line is none.
    pub fn read(text: &str) -> Result<Self> {
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|it| !it.starts_with('#')) {
            let words: Vec<&str> = line.split('\t').collect();
            let [
                crate_name,
                file,
                function,
                hash,
                number,
                change,
                outcome,
                rest @ ..,
            ] = &words[..]
            else {
                bail!("`{line}` is no line of a mutant");
            };
            let more = rest.first().copied().unwrap_or_default().to_owned();
            let verdict = match *outcome {
                "caught" => MutantVerdict::Caught(more),
                "endless" => MutantVerdict::Endless,
                "missed" => MutantVerdict::Missed(more),
                "unbuildable" => MutantVerdict::Unbuildable,
                other => bail!("`{other}` is no outcome of a mutant"),
            };
            let key = MutantKey {
                crate_name: (*crate_name).to_owned(),
                file: (*file).to_owned(),
                function: (*function).to_owned(),
                hash: (*hash).to_owned(),
                number: number.parse().context("a mutant has a number")?,
            };
            let change = (*change).to_owned();
            all.insert(key, MutantEntry { change, verdict });
        }
        Ok(Self(all))
    }

    /// The file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (key, entry) in &self.0 {
            let MutantKey {
                crate_name,
                file,
                function,
                hash,
                number,
            } = key;
            let (outcome, more) = match &entry.verdict {
                MutantVerdict::Caught(test) => ("caught", &**test),
                MutantVerdict::Endless => ("endless", ""),
                MutantVerdict::Missed(reason) => ("missed", &**reason),
                MutantVerdict::Unbuildable => ("unbuildable", ""),
            };
            let change = &entry.change;
            let line = format!(
                "{crate_name}\t{file}\t{function}\t{hash}\t{number}\t{change}\t{outcome}\t{more}"
            );
            let _infallible = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// The sums of a crate.
    #[must_use]
    pub fn count(&self, crate_name: &str) -> MutantCount {
        let mut count = MutantCount::default();
        let own = self
            .0
            .iter()
            .filter(|(key, _)| key.crate_name == crate_name);
        for (_, entry) in own {
            count.drawn += usize::from(entry.verdict != MutantVerdict::Unbuildable);
            match &entry.verdict {
                MutantVerdict::Caught(_) | MutantVerdict::Endless => count.caught += 1,
                MutantVerdict::Missed(reason) => count.excused += usize::from(!reason.is_empty()),
                MutantVerdict::Unbuildable => {}
            }
        }
        count
    }

    /// Forgets mutants of a crate whose functions are not as they were.
    pub fn forget_changed(&mut self, crate_name: &str, all: &[Placed]) {
        let known: std::collections::BTreeSet<MutantKey> =
            all.iter().map(|it| MutantKey::of(crate_name, it)).collect();
        self.0
            .retain(|key, _| key.crate_name != crate_name || known.contains(key));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let text = format!(
            "{HEAD}tg-market\ta.rs\tA::f\t0000000000000001\t2\treturns 0\tcaught\tit::works\n\
             tg-market\ta.rs\tg\t0000000000000002\t0\tno `!`, line 3\tmissed\n\
             tg-market\ta.rs\tg\t0000000000000002\t1\treturns 1\tmissed\tit is 1 whatever comes\n\
             tg-market\tb.rs\tg\t0000000000000003\t0\treturns 1\tunbuildable\n\
             tg-proof\tb.rs\tg\t0000000000000003\t0\treturns 1\tendless\n"
        );
        let records = Records::read(&text).unwrap();
        assert_eq!(records.text(), text);
        let count = MutantCount {
            drawn: 3,
            caught: 1,
            excused: 1,
        };
        assert_eq!(records.count("tg-market"), count);
        assert_eq!(records.count("tg-proof").caught, 1);
        assert!(Records::read("tg-market\ta.rs").is_err());
    }
}
