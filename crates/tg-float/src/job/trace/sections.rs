//! Which nodes are executed again, and what they read.

use super::record::RunRecord;
use crate::graph::{Graph, ValueId};
use crate::tgf::last_needed;
use std::collections::BTreeSet;
use std::ops::Range;
use tg_types::{Digest, Domain, Encode as _, Writer};

/// A run is cut into at most so many sections.
pub const SECTIONS_MAX: u64 = 80;

/// One section of so many is drawn, rounded up.
pub const SECTIONS_SHARE: usize = 20;

/// At least so many sections are drawn: a run that has no more is executed again as a whole.
pub const SECTIONS_MIN: usize = 4;

/// Most bytes of the values that drawn sections, or a disputed node, read. With the answer and the record they are within evidence of 16 MiB.
pub const OPENED_BYTES_MAX: u64 = 12 << 20;

/// Most bytes of a record that is shown.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Most values that are shown: each has a head of at most 133 bytes.
const OPENED_VALUES_MAX: usize = 4_096;

/// The sections of a run: nodes one after the other until their work is a [`SECTIONS_MAX`]th of all, and those after them that take less than
/// an eighth of that each and half of it together; and what is left. So what a heavy node gives lies inside a section where lighter ones follow it: it
/// is not among what is shown, and is known to those alone who executed.
#[must_use]
pub fn cut(record: &RunRecord) -> Vec<Range<usize>> {
    let nodes = record.0.len();
    let all = record.work_before(nodes);
    let share = all.div_ceil(SECTIONS_MAX).max(1);
    let mut sections = Vec::new();
    let (mut first, mut before) = (0, 0);
    // The work at which the section had its share.
    let mut full: Option<u64> = None;
    for (node, it) in record.0.iter().enumerate() {
        if let Some(at) = full {
            let took = it.work.saturating_sub(record.work_before(node));
            if took >= share / 8 || it.work.saturating_sub(at) >= share / 2 {
                sections.push(first..node);
                (first, before, full) = (node, record.work_before(node), None);
            }
        }
        if full.is_none() && it.work.saturating_sub(before) >= share {
            full = Some(it.work);
        }
    }
    if first < nodes {
        sections.push(first..nodes);
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
pub fn draw(record: &RunRecord, challenge: &Digest) -> Vec<Range<usize>> {
    let sections = cut(record);
    let drawn = drawn_of(sections.len());
    let mut words = (0_u64..).map(|number| {
        let mut writer = Writer::new();
        challenge.encode(&mut writer);
        writer.u64(number);
        let digest = Digest::of(Domain::FloatSections, &writer.into_bytes());
        let mut word = [0; 8];
        word.copy_from_slice(&digest.as_bytes()[..8]);
        u64::from_le_bytes(word)
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

/// Where the values of a graph come from and how long they are needed.
pub(super) struct Lives {
    producers: Vec<Option<usize>>,
    last: Vec<usize>,
}

impl Lives {
    pub(super) fn of(graph: &Graph) -> Self {
        Self {
            producers: graph.producers(),
            last: last_needed(graph),
        }
    }

    /// The node that gives a value.
    pub(super) fn producer(&self, value: ValueId) -> Option<usize> {
        self.producers.get(value.index()).copied().flatten()
    }

    /// What sections read of what nodes before each of them gave.
    pub(super) fn reads(&self, graph: &Graph, sections: &[Range<usize>]) -> BTreeSet<ValueId> {
        sections
            .iter()
            .flat_map(|section| self.reads_of(graph, section))
            .collect()
    }

    /// What a node reads of what nodes before it gave.
    pub(super) fn reads_of_node(&self, graph: &Graph, node: usize) -> BTreeSet<ValueId> {
        self.reads_of(graph, &(node..node + 1)).collect()
    }

    /// What a section reads of what nodes before it gave.
    pub(super) fn reads_of<'a>(
        &'a self,
        graph: &'a Graph,
        section: &'a Range<usize>,
    ) -> impl Iterator<Item = ValueId> + 'a {
        let read = graph.nodes[section.clone()]
            .iter()
            .flat_map(|it| it.reads());
        read.filter(|&value| self.producer(value).is_some_and(|it| it < section.start))
    }

    /// Bytes of all that nodes before a node gave and that is needed from there on, as a record has them.
    pub(super) fn live_before(&self, graph: &Graph, record: &RunRecord, node: usize) -> u64 {
        let before = graph.nodes[..node].iter().zip(&record.0);
        let values = before.flat_map(|(it, said)| it.gives().zip(&said.values));
        let needed = values.filter(|(value, _)| self.last[value.index()] >= node);
        needed.fold(0, |sum, (_, said)| sum.saturating_add(said.bytes))
    }

    /// What a record says of a value that a node gave.
    pub(super) fn said<'a>(
        &self,
        graph: &Graph,
        record: &'a RunRecord,
        value: ValueId,
    ) -> Option<&'a super::ValueRecord> {
        let producer = self.producer(value)?;
        let place = graph.nodes[producer].gives().position(|it| it == value)?;
        record.0.get(producer)?.values.get(place)
    }

    /// Whether sections are shown by opening what they read: a record and values of these sizes are within the evidence.
    pub(super) fn are_opened(
        &self,
        graph: &Graph,
        record: &RunRecord,
        read: &BTreeSet<ValueId>,
    ) -> bool {
        !graph.nodes.is_empty()
            && self.are_small(graph, record, read)
            && record.to_bytes().len() <= RECORD_BYTES_MAX
    }

    /// Whether values of these sizes can be shown.
    pub(super) fn are_small(
        &self,
        graph: &Graph,
        record: &RunRecord,
        read: &BTreeSet<ValueId>,
    ) -> bool {
        let said = read.iter().map(|&it| self.said(graph, record, it));
        let bytes = said.map(|it| it.map_or(u64::MAX, |it| it.bytes));
        read.len() <= OPENED_VALUES_MAX && bytes.fold(0, u64::saturating_add) <= OPENED_BYTES_MAX
    }
}
