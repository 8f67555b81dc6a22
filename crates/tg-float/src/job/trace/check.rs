//! Executing drawn sections again.

use super::super::{FloatAnswer, FloatEnd, FloatModel, NamedTensors};
use super::file::{FloatTraceFile, OpenedSections};
use super::record::{RunRecord, ValueRecord};
use super::sections::{self, Lives};
use crate::graph::ValueId;
use crate::tensor::FloatTensor;
use crate::tgf::{NodeSeen, SectionStart};
use std::collections::BTreeMap;
use std::ops::Range;
use tg_types::{
    Decode as _, Digest, Domain, Encode as _, LeaseId, RunCommitment, TileName, Vote, Writer,
};

/// What a trace of floats must be about.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedFloatTrace<'a> {
    /// The lease whose result it is.
    pub lease: &'a LeaseId,
    /// The bytes that the order names as input.
    pub input: &'a [u8],
    /// The digest of the answer that the receipt names.
    pub output: &'a Digest,
    /// What the provider committed to.
    pub trace: &'a Digest,
    /// What draws the sections.
    pub challenge: &'a Digest,
}

impl ExpectedFloatTrace<'_> {
    /// Whether the provider committed to a run for its lease.
    fn is_committed(&self, run: &Digest) -> bool {
        RunCommitment::read(run).for_lease(self.lease).digest() == *self.trace
    }
}

/// Why a trace of floats does not show what is claimed. Each is the provider's fault alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FloatTraceFault {
    /// Another answer than the one that the receipt names, or none.
    #[error("the answer is not the one that the receipt names")]
    Answer,
    /// The record does not give the commitment, or is none of the graph.
    #[error("what is said of the nodes is not what the receipt commits to")]
    Trace,
    /// The answer is not what the run ends with.
    #[error("the answer is not what the run gives")]
    Output,
    /// A value is opened that is not the recorded one.
    #[error("what is shown of value {value} is not of it")]
    Value {
        /// Its index.
        value: usize,
    },
    /// Other values are opened than the drawn sections read.
    #[error("other values are shown than the drawn sections read")]
    Opened,
    /// It is shown whole where sections are due, or in sections where a whole run is.
    #[error("the run is shown whole where sections are due, or the reverse")]
    Form,
    /// A node gives something else.
    #[error("node {node} gives something else than what was committed to")]
    Node {
        /// Its index.
        node: usize,
    },
}

impl FloatTraceFault {
    /// A stable number of the check that failed.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Answer => 101,
            Self::Trace => 104,
            Self::Output => 105,
            Self::Value { .. } => 106,
            Self::Opened => 107,
            Self::Node { .. } => 110,
            Self::Form => 111,
        }
    }
}

/// What a member of a committee says of a trace of floats.
#[must_use]
pub fn float_vote_on(found: Result<u64, &FloatTraceFault>) -> Vote {
    match found {
        Ok(checksum) => Vote::Right { checksum },
        Err(FloatTraceFault::Node { node }) => Vote::WrongTile(TileName {
            node: u32::try_from(*node).expect("nodes are counted in 32 bits"),
            leaf: 0,
        }),
        Err(_) => Vote::WrongForm,
    }
}

/// What shows that a member executed: a hash of the challenge, the answer, and of each value that it computed 32 bytes of BLAKE3's output that
/// no record has.
struct FloatChecksum(Writer);

impl FloatChecksum {
    fn new(expected: ExpectedFloatTrace<'_>) -> Self {
        let mut writer = Writer::new();
        expected.challenge.encode(&mut writer);
        expected.output.encode(&mut writer);
        Self(writer)
    }

    fn note(&mut self, beyond: [u8; 32]) {
        self.0.raw(&beyond);
    }

    fn number(self) -> u64 {
        Digest::of(Domain::FloatChecksum, &self.0.into_bytes()).first_word()
    }
}

/// A trace whose form is right, ready to have its sections executed.
struct ShownSections<'a> {
    given: NamedTensors,
    record: &'a RunRecord,
    lives: Lives,
    drawn: Vec<Range<usize>>,
    values: BTreeMap<ValueId, &'a FloatTensor>,
}

impl FloatModel {
    /// Checks that a trace shows the sections that were drawn, and that each is right; gives the checksum of what was executed. Total, for any
    /// file. Takes the work of the drawn sections, or of the run where it is shown whole.
    ///
    /// # Errors
    /// The check that failed: of several wrong nodes the first.
    pub fn verify_trace(
        &self,
        file: &FloatTraceFile,
        expected: ExpectedFloatTrace<'_>,
    ) -> Result<u64, FloatTraceFault> {
        let answer = answer_of(file, expected)?;
        let mut checksum = FloatChecksum::new(expected);
        let Some(shown) = &file.opened else {
            self.check_whole(&answer, expected, &mut checksum)?;
            return Ok(checksum.number());
        };
        let opened = self.opened(&answer, shown, expected)?;
        for section in &opened.drawn {
            let see = &mut |beyond| checksum.note(beyond);
            self.check_section(&opened, section.clone(), see)?;
        }
        Ok(checksum.number())
    }

    /// Why what a member of a committee says of a trace is so, if it is: every validator looks, and finds the same. Total.
    ///
    /// A node is wrong only if its section was drawn and it is the first wrong one of it.
    #[must_use]
    pub fn float_accusation_holds(
        &self,
        file: &FloatTraceFile,
        expected: ExpectedFloatTrace<'_>,
        vote: Vote,
    ) -> Option<FloatTraceFault> {
        let answer = answer_of(file, expected);
        match vote {
            // A run of a committee is no vote of mode `sync`.
            Vote::Right { .. } | Vote::WrongRun => None,
            Vote::WrongForm => match (answer, &file.opened) {
                (Err(fault), _) => Some(fault),
                (Ok(answer), Some(shown)) => self.opened(&answer, shown, expected).err(),
                (Ok(answer), None) => {
                    let mut checksum = FloatChecksum::new(expected);
                    self.check_whole(&answer, expected, &mut checksum).err()
                }
            },
            Vote::WrongTile(TileName { node, leaf }) => {
                let opened = self
                    .opened(&answer.ok()?, file.opened.as_ref()?, expected)
                    .ok()?;
                let node = usize::try_from(node).ok().filter(|_| leaf == 0)?;
                let section = opened.drawn.iter().find(|it| it.contains(&node))?;
                let until = section.start..node + 1;
                let fault = self.check_section(&opened, until, &mut |_| ());
                let is_named = |it: &FloatTraceFault| *it == FloatTraceFault::Node { node };
                fault.err().filter(is_named)
            }
        }
    }

    /// Runs it again, and compares all of it.
    fn check_whole(
        &self,
        answer: &FloatAnswer,
        expected: ExpectedFloatTrace<'_>,
        checksum: &mut FloatChecksum,
    ) -> Result<(), FloatTraceFault> {
        let mut record = RunRecord::default();
        let found = self.answer(expected.input, &mut |seen| {
            record.note(seen, &mut |beyond| checksum.note(beyond));
        });
        if found != *answer {
            return Err(FloatTraceFault::Output);
        }
        if !expected.is_committed(&record.commitment(expected.input, answer)) {
            return Err(FloatTraceFault::Trace);
        }
        // Stops: a provider that has its committee run everything for the fee of a part.
        let graph = self.graph();
        let lives = Lives::of(graph);
        let drawn = sections::draw(&record, expected.challenge);
        let is_finished = answer.end == FloatEnd::Finished;
        let read = lives.reads(graph, &drawn);
        match is_finished && lives.are_opened(graph, &record, (&drawn, &read)) {
            true => Err(FloatTraceFault::Form),
            false => Ok(()),
        }
    }

    /// Checks all of a trace but what its sections give.
    fn opened<'a>(
        &self,
        answer: &FloatAnswer,
        shown: &'a OpenedSections,
        expected: ExpectedFloatTrace<'_>,
    ) -> Result<ShownSections<'a>, FloatTraceFault> {
        let graph = self.graph();
        let OpenedSections { record, values } = shown;
        // Stops: works that fall, by which many sections could each take the limit of the run.
        let is_of = record.is_of(graph, self.limits().work)
            && record.work_before(record.0.len()) == answer.work;
        if !is_of || !expected.is_committed(&record.commitment(expected.input, answer)) {
            return Err(FloatTraceFault::Trace);
        }
        let lives = Lives::of(graph);
        let drawn = sections::draw(record, expected.challenge);
        let read = lives.reads(graph, &drawn);
        if answer.end != FloatEnd::Finished || !lives.are_opened(graph, record, (&drawn, &read)) {
            return Err(FloatTraceFault::Form);
        }
        // Stops: values that nobody reads, and one that is shown twice.
        if !values.iter().map(|(value, _)| value).eq(&read) {
            return Err(FloatTraceFault::Opened);
        }
        for (value, tensor) in values {
            if lives.said(graph, record, *value) != Some(&ValueRecord::of(tensor)) {
                let value = value.index();
                return Err(FloatTraceFault::Value { value });
            }
        }
        let given = self.given(expected.input);
        let given = given.ok_or(FloatTraceFault::Output)?;
        self.check_outputs(answer, (record, &lives), &given)?;
        Ok(ShownSections {
            given,
            record,
            lives,
            drawn,
            values: values.iter().map(|(value, it)| (*value, it)).collect(),
        })
    }

    /// Checks that the answer has the outputs that the record names, of a run on an input that the graph takes.
    pub(super) fn check_outputs(
        &self,
        answer: &FloatAnswer,
        (record, lives): (&RunRecord, &Lives),
        given: &NamedTensors,
    ) -> Result<(), FloatTraceFault> {
        let graph = self.graph();
        let outputs = NamedTensors::read(&answer.output);
        let outputs = outputs.map_err(|_| FloatTraceFault::Output)?;
        let tensors: Vec<FloatTensor> = outputs.0.iter().map(|(_, it)| it.clone()).collect();
        let is_whole = tensors.len() == graph.outputs.len();
        // The names, and that it is within the limit.
        if !is_whole || self.finished(tensors, answer.work).2 != answer.output {
            return Err(FloatTraceFault::Output);
        }
        let mut both = graph.outputs.iter().zip(&outputs.0);
        let is_recorded = both.all(|(&value, (_, output))| {
            let found = ValueRecord::of(output);
            let said = lives.said(graph, record, value);
            // By the value and not by a name: a graph may name its inputs otherwise than its values, or two of them alike.
            let mut inputs = graph.inputs.iter().zip(&given.0);
            let given = inputs.find(|(it, _)| it.value == value);
            let given = given.map(|(_, (_, tensor))| tensor);
            let known = given.or_else(|| graph.constants.get(&value));
            said.map_or_else(
                || known.is_some_and(|it| ValueRecord::of(it) == found),
                |said| *said == found,
            )
        });
        match is_recorded {
            true => Ok(()),
            false => Err(FloatTraceFault::Output),
        }
    }

    /// Executes nodes of a section from its beginning, and compares what they give; `see` has of each value what no record has.
    fn check_section(
        &self,
        opened: &ShownSections<'_>,
        nodes: Range<usize>,
        see: &mut dyn FnMut([u8; 32]),
    ) -> Result<(), FloatTraceFault> {
        let graph = self.graph();
        let (first, record) = (nodes.start, opened.record);
        let read = opened.lives.reads_of(graph, &nodes);
        let values = read.filter_map(|it| Some((it, (*opened.values.get(&it)?).clone())));
        let live = opened.lives.live_before(graph, record, first);
        let start = SectionStart {
            values: values.collect(),
            live: usize::try_from(live).unwrap_or(usize::MAX),
            work: record.work_before(first),
        };
        let mut right_until = first;
        let ran = self.execute_on(&opened.given, (nodes.clone(), start), &mut |seen| {
            let is_right = is_recorded(seen, record, see);
            right_until += usize::from(is_right);
            is_right
        });
        let ran = ran.ok_or(FloatTraceFault::Output)?;
        match ran.result.is_ok() && right_until == nodes.end {
            true => Ok(()),
            false => Err(FloatTraceFault::Node { node: right_until }),
        }
    }
}

/// The answer in a file, if it is the one that the receipt names.
fn answer_of(
    file: &FloatTraceFile,
    expected: ExpectedFloatTrace<'_>,
) -> Result<FloatAnswer, FloatTraceFault> {
    let answer = FloatAnswer::from_bytes(&file.answer).ok();
    let answer = answer.filter(|_| Digest::of_blob(&file.answer) == *expected.output);
    answer.ok_or(FloatTraceFault::Answer)
}

/// Whether a node gave and took what a record says of it.
fn is_recorded(seen: &NodeSeen<'_>, record: &RunRecord, see: &mut dyn FnMut([u8; 32])) -> bool {
    let Some(said) = record.0.get(seen.node) else {
        return false;
    };
    let values = seen.gave.iter().zip(&said.values);
    let same = values.fold(true, |same, ((_, value), said)| {
        let (found, beyond) = ValueRecord::shown(value);
        see(beyond);
        same && found == *said
    });
    same && seen.gave.len() == said.values.len() && seen.work == said.work
}
