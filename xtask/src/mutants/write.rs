//! A source with several mutants in it, of which one is chosen when a test runs.
//!
//! So a crate is built once for all mutants of a run. `crate::tg_mutant(n)` says whether mutant `n` is chosen:
//! by the variable [`VARIABLE`] of the environment, read once.

use std::ops::Range;

use super::find::{Edit, Mutant};

/// Names the mutant that is chosen, from 1 on.
pub const VARIABLE: &str = "TG_MUTANT";

/// What is added to the root of a crate.
pub const SWITCH: &str = "
#[doc(hidden)]
#[allow(missing_docs, dead_code, unreachable_pub, clippy::all)]
pub(crate) fn tg_mutant(number: u32) -> bool {
    static CHOSEN: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        std::env::var(\"TG_MUTANT\").ok().and_then(|it| it.parse().ok()).unwrap_or(0)
    });
    *CHOSEN == number
}
";

/// A source as it is built, and which bytes of it belong to which mutant.
#[derive(Debug, Default)]
pub struct Instrumented {
    /// The text.
    pub text: String,
    regions: Vec<(Range<usize>, u32)>,
}

impl Instrumented {
    /// The mutant of the innermost change around a byte.
    #[must_use]
    pub fn mutant_at(&self, byte: usize) -> Option<u32> {
        let around = self.regions.iter().filter(|(at, _)| at.contains(&byte));
        around.min_by_key(|(at, _)| at.len()).map(|(_, it)| *it)
    }
}

/// Writes mutants, each with its number, into their source.
#[must_use]
pub fn instrument(source: &str, mutants: &[(u32, &Mutant)]) -> Instrumented {
    let mut sorted = mutants.to_vec();
    sorted.sort_by_key(|(number, it)| {
        let whole = it.edit.whole();
        (whole.start, std::cmp::Reverse(whole.end), *number)
    });
    let mut constants: Vec<Range<usize>> = mutants
        .iter()
        .filter_map(|(_, it)| it.constant.clone())
        .collect();
    constants.sort_by_key(|it| it.start);
    constants.dedup();
    let mut writer = MutantWriter {
        source,
        mutants: sorted,
        constants,
        done: Instrumented::default(),
    };
    writer.copy(0..source.len(), None);
    writer.done
}

struct MutantWriter<'a> {
    source: &'a str,
    /// From the outermost on.
    mutants: Vec<(u32, &'a Mutant)>,
    constants: Vec<Range<usize>>,
    done: Instrumented,
}

impl MutantWriter<'_> {
    /// Copies a part of the source with the mutants in it, but for those of exactly `except`.
    fn copy(&mut self, part: Range<usize>, except: Option<&Range<usize>>) {
        let mut at = part.start;
        while at < part.end {
            let is_next = |whole: &Range<usize>| {
                whole.start >= at && whole.end <= part.end && Some(whole) != except
            };
            let wholes = self.mutants.iter().map(|(_, it)| it.edit.whole());
            let Some(whole) = wholes
                .filter(is_next)
                .min_by_key(|it| (it.start, std::cmp::Reverse(it.end)))
            else {
                break;
            };
            self.plain(at..whole.start);
            self.group(&whole);
            at = whole.end;
            if whole.is_empty() {
                // What returns at once stands before the first byte of the body, which has no other change.
                let end = at + self.source[at..].chars().next().map_or(0, char::len_utf8);
                self.plain(at..end);
                at = end;
            }
        }
        self.plain(at..part.end);
    }

    /// Copies what no mutant changes, but for `const` before functions that have mutants.
    fn plain(&mut self, part: Range<usize>) {
        let mut at = part.start;
        for constant in &self.constants {
            if constant.start >= at && constant.end <= part.end {
                self.done.text += &self.source[at..constant.start];
                at = constant.end;
            }
        }
        self.done.text += &self.source[at..part.end];
    }

    /// The mutants that change the same bytes.
    fn group(&mut self, whole: &Range<usize>) {
        let same: Vec<(u32, &Mutant)> = self
            .mutants
            .iter()
            .filter(|(_, it)| it.edit.whole() == *whole)
            .copied()
            .collect();
        let is_inside = !whole.is_empty();
        if is_inside {
            self.done.text.push('(');
        }
        for (number, mutant) in &same {
            let start = self.done.text.len();
            self.done.text += &format!("if crate::tg_mutant({number}) {{ ");
            self.changed(&mutant.edit);
            self.done.text += match is_inside {
                true => " } else ",
                false => " } ",
            };
            let end = self.done.text.len();
            self.done.regions.push((start..end, *number));
        }
        if is_inside {
            self.done.text += "{ ";
            self.copy(whole.clone(), Some(whole));
            self.done.text += " })";
        }
    }

    fn changed(&mut self, edit: &Edit) {
        match edit {
            Edit::Return { value, .. } => self.done.text += &format!("return {value};"),
            Edit::Guard { value, .. } => self.done.text += value,
            Edit::Unary { operand, .. } => self.copy(operand.clone(), None),
            Edit::Binary {
                left,
                right,
                operator,
                is_assignment,
                ..
            } => {
                let (open, close) = match is_assignment {
                    true => ("", ""),
                    false => ("(", ")"),
                };
                self.done.text += open;
                self.copy(left.clone(), None);
                self.done.text += &format!("{close} {operator} (");
                self.copy(right.clone(), None);
                self.done.text.push(')');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::mutants::find::mutants_of;

    #[test]
    fn every_mutant_of_a_source_stands_beside_what_it_replaces() {
        let source = "pub const fn least(a: u32, b: u32) -> u32 { if a < b && !is(a) { a } else { b - a * 2 } }\n";
        let found = mutants_of(source).unwrap();
        let changes: Vec<&str> = found.iter().map(|it| &*it.change).collect();
        assert_eq!(
            changes,
            [
                "returns 0",
                "returns 1",
                "`&&` becomes `||`, line 1",
                "`<` becomes `<=`, line 1",
                "`<` becomes `>`, line 1",
                "no `!`, line 1",
                "`-` becomes `+`, line 1",
                "`-` becomes `*`, line 1",
                "`*` becomes `+`, line 1",
                "`*` becomes `/`, line 1",
            ]
        );
        let numbered: Vec<_> = (1_u32..).zip(&found).collect();
        let written = instrument(source, &numbered);
        // It is still a source, and without constants.
        let file = syn::parse_file(&written.text).unwrap();
        assert_eq!(file.items.len(), 1);
        assert!(
            written.text.starts_with("pub  fn least"),
            "{}",
            written.text
        );
        for number in 1..=10 {
            let call = format!("tg_mutant({number})");
            assert!(written.text.contains(&call), "{}", written.text);
            let byte = written.text.find(&call).unwrap();
            assert_eq!(written.mutant_at(byte), Some(number));
        }
        assert_eq!(written.mutant_at(0), None);
    }

    #[test]
    fn tests_constants_and_chains_that_bind_have_none() {
        let source = "
            const N: u32 = 1 + 2;
            fn f(a: Option<u32>) { if let Some(x) = a && x > 3 { g([0; 1 + 2]) } }
            #[cfg(test)] mod tests { fn h() -> u32 { 1 + 2 } }
            #[test] fn t() { assert!(1 < 2) }
        ";
        let found = mutants_of(source).unwrap();
        let changes: Vec<&str> = found.iter().map(|it| &*it.change).collect();
        assert_eq!(
            changes,
            [
                "returns at once",
                "`>` becomes `>=`, line 3",
                "`>` becomes `<`, line 3"
            ]
        );
        assert!(found.iter().all(|it| it.function == "f"));
    }

    #[test]
    fn a_hash_forgets_blanks_and_documents_alone() {
        let hash = |source: &str| mutants_of(source).unwrap()[0].hash;
        let plain = hash("fn f() -> u32 { g() + 1 }");
        assert_eq!(
            plain,
            hash("/// What it is.\nfn f() -> u32 {\n    g() + 1 // one\n}")
        );
        assert_ne!(plain, hash("fn f() -> u32 { g() + 2 }"));
    }
}
