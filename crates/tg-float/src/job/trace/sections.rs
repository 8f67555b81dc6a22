//! Which nodes are executed again, and what they read.

use super::record::RunRecord;
use crate::graph::{Graph, ValueId};
use crate::tgf::last_needed;
use std::collections::BTreeSet;
use std::ops::Range;
use tg_types::{Digest, Domain, Encode as _, sections};

/// Most bytes of the values that drawn sections, or a disputed node, read. With the answer and the record they are within evidence of 16 MiB.
pub const OPENED_BYTES_MAX: u64 = 12 << 20;

/// Most bytes of a record that is shown.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// Most values that are shown: each has a head of at most 133 bytes.
const OPENED_VALUES_MAX: usize = 4_096;

/// The sections of a run ([`tg_types::sections::cut`]).
#[must_use]
pub fn cut(record: &RunRecord) -> Vec<Range<usize>> {
    let works: Vec<u64> = record.0.iter().map(|it| it.work).collect();
    sections::cut(&works)
}

/// The sections that a challenge draws ([`tg_types::sections::draw`]).
#[must_use]
pub fn draw(record: &RunRecord, challenge: &Digest) -> Vec<Range<usize>> {
    sections::draw(&cut(record), Domain::FloatSections, challenge)
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

    /// Whether drawn sections are shown by opening what they read: not all of a run is drawn, and a record and values of these sizes are within
    /// the evidence.
    ///
    /// Stops: whoever takes another's file for a lease of its own. Of a run of which every section is drawn the file would open the same whatever
    /// the challenge is, and has the record that the receipt commits to. Shown whole it shows no record.
    pub(super) fn are_opened(
        &self,
        graph: &Graph,
        record: &RunRecord,
        (drawn, read): (&[Range<usize>], &BTreeSet<ValueId>),
    ) -> bool {
        drawn.len() < cut(record).len()
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
