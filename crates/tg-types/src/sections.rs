//! Sections of a run whose work is counted step by step, some of which are executed again to check it.
//!
//! Proof of Sync checks a run of a float model by its nodes, and a run of a program by its calls. Both are lists of steps
//! with the work done after each step. The list is [`cut`] into sections of about equal work, and a challenge [`draw`]s
//! some of them.
//!
//! ```
//! use tg_types::{Digest, Domain, sections};
//!
//! let works: Vec<u64> = (1..=400).map(|step| 10 * step).collect();
//! let cut = sections::cut(&works);
//! assert_eq!((cut.len(), &cut[0]), (80, &(0..5)));
//! let drawn = sections::draw(&cut, Domain::WasmSections, &Digest::default());
//! assert_eq!(drawn.len(), 4);
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use crate::codec::{Encode as _, Writer};
use crate::digest::Digest;
use crate::domain::Domain;

/// A run is cut into about so many sections, and never more than one beyond that.
pub const SECTIONS_MAX: u64 = 80;

/// One section of so many is drawn, rounded up.
pub const SECTIONS_SHARE: usize = 20;

/// At least so many sections are drawn: a run that has no more is executed again as a whole.
pub const SECTIONS_MIN: usize = 4;

/// The sections of a run, by its work after each step. The rule stands in `docs/PROTOCOL.md`, "Sections of float runs": about a
/// [`SECTIONS_MAX`]th of all work each, with the light steps that follow. So what a heavy step gives lies inside a section
/// where lighter ones follow it: it is not among what is shown, and only those who executed know it.
#[must_use]
pub fn cut(works: &[u64]) -> Vec<Range<usize>> {
    let share = works.last().map_or(0, |all| all.div_ceil(SECTIONS_MAX));
    let share = share.max(1);
    let mut sections = Vec::new();
    // Work before this step and before the section.
    let (mut before, mut before_section) = (0, 0);
    let mut first = 0;
    // The work at which the section had its share.
    let mut full: Option<u64> = None;
    for (step, &work) in works.iter().enumerate() {
        if let Some(at) = full {
            let took = work.saturating_sub(before);
            if took >= share / 8 || work.saturating_sub(at) >= share / 2 {
                sections.push(first..step);
                (first, before_section, full) = (step, before, None);
            }
        }
        if full.is_none() && work.saturating_sub(before_section) >= share {
            full = Some(work);
        }
        before = work;
    }
    if first < works.len() {
        sections.push(first..works.len());
    }
    sections
}

/// How many of so many sections are drawn.
#[must_use]
pub fn drawn_of(sections: usize) -> usize {
    let share = sections.div_ceil(SECTIONS_SHARE);
    share.max(SECTIONS_MIN).min(sections)
}

/// The sections that a challenge draws, without replacement, each set of as many equally likely; ascending.
///
/// Words are the first 8 bytes, little-endian, of `BLAKE3(domain, challenge, i)` for i from 0 on; a number below `n` is a word modulo `n` of those
/// below `2^64 - (2^64 mod n)`; the set is Floyd's (Bentley and Floyd, "A sample of brilliance", 1987).
#[must_use]
pub fn draw(sections: &[Range<usize>], domain: Domain, challenge: &Digest) -> Vec<Range<usize>> {
    let drawn = drawn_of(sections.len());
    let mut words = (0_u64..).map(|number| {
        let mut writer = Writer::new();
        challenge.encode(&mut writer);
        writer.u64(number);
        Digest::of(domain, &writer.into_bytes()).first_word()
    });
    let mut chosen = BTreeSet::new();
    for last in sections.len() - drawn..sections.len() {
        let n = last as u64 + 1;
        // 2^64 mod n.
        let rest = n.wrapping_neg() % n;
        let word = words.find(|word| *word <= u64::MAX - rest);
        let number = word.map_or(last, |word| usize::try_from(word % n).unwrap_or(last));
        if !chosen.insert(number) {
            chosen.insert(last);
        }
    }
    chosen.into_iter().map(|it| sections[it].clone()).collect()
}
