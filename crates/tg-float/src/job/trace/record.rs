//! What is said of each node of a run.

use super::super::limits::{NODE_RECORD_BYTES, VALUE_RECORD_BYTES};
use super::super::{FloatAnswer, FloatModel, FloatRun};
use crate::codec::limits::{NODES_MAX, OPERANDS_MAX};
use crate::codec::tensors;
use crate::graph::Graph;
use crate::tensor::FloatTensor;
use crate::tgf::NodeSeen;
use tg_types::{
    BlobHasher, Decode, DecodeError, Digest, Domain, Encode, JobId, LeaseId, Reader, RunCommitment,
    TraceForm, Writer, fields, stated_trace,
};

/// A value that a node gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueRecord {
    /// Bytes that it takes of the run's memory.
    pub bytes: u64,
    /// BLAKE3 of its type, sizes and elements, as files of tensors have them.
    pub digest: Digest,
}

fields! { ValueRecord { bytes, digest } }

/// What a node gave and took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Units of work of the run up to here, this node's among them.
    pub work: u64,
    /// The values that it gave, in its order.
    pub values: Vec<ValueRecord>,
}

fields! { NodeRecord { work, values: seq("values of a node", OPERANDS_MAX, VALUE_RECORD_BYTES) } }

/// What each node of a run gave, in the graph's order; of a run that did not finish, of those that gave something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunRecord(pub Vec<NodeRecord>);

impl Encode for RunRecord {
    fn encode(&self, writer: &mut Writer) {
        writer.seq(&self.0);
    }
}

impl Decode for RunRecord {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.seq(
            "records of nodes",
            NODES_MAX,
            NODE_RECORD_BYTES,
        )?))
    }
}

/// A run with what its provider commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatTrace {
    /// What it answers.
    pub answer: FloatAnswer,
    /// What its nodes gave.
    pub record: RunRecord,
    /// The commitment: [`RunRecord::commitment`].
    pub commitment: Digest,
}

/// Elements that are written at a time, so that hashing a value takes no memory in proportion to it.
const PIECE: usize = 1 << 14;

/// Bytes that are hashed at a time: a power of two of BLAKE3's chunks, at a multiple of their number. It hashes such many at once, and others
/// one by one.
const PIECE_BYTES: usize = 1 << 16;

impl ValueRecord {
    pub(super) fn of(value: &FloatTensor) -> Self {
        Self::shown(value).0
    }

    /// What is said of a value, and 32 bytes that who has not computed it does not know: those after the digest in BLAKE3's output.
    pub(super) fn shown(value: &FloatTensor) -> (Self, [u8; 32]) {
        let mut hasher = BlobHasher::default();
        let mut writer = Writer::new();
        tensors::write_head(&mut writer, value);
        for first in (0..value.len()).step_by(PIECE) {
            let piece = first..(first + PIECE).min(value.len());
            tensors::write_some_elements(&mut writer, value.data(), piece);
            let whole = writer.as_bytes().len() / PIECE_BYTES * PIECE_BYTES;
            hasher.update(&writer.as_bytes()[..whole]);
            writer.remove_front(whole);
        }
        hasher.update(writer.as_bytes());
        let (digest, beyond) = hasher.shown();
        let said = Self {
            bytes: value.bytes() as u64,
            digest,
        };
        (said, beyond)
    }
}

impl RunRecord {
    /// 24 bytes of a hash of input, answer and record, and the work in the clear: what a receipt of mode `sync` says of the trace for its lease
    /// ([`RunCommitment::for_lease`]).
    #[must_use]
    pub fn commitment(&self, input: &[u8], answer: &FloatAnswer) -> Digest {
        let mut writer = Writer::new();
        Digest::of_blob(input).encode(&mut writer);
        Digest::of_blob(&answer.to_bytes()).encode(&mut writer);
        self.encode(&mut writer);
        let trace = Digest::of(Domain::FloatNodes, &writer.into_bytes());
        RunCommitment::of_trace(&trace, answer.work).digest()
    }

    /// Work of the run before a node.
    pub(super) fn work_before(&self, node: usize) -> u64 {
        let before = node.checked_sub(1).and_then(|it| self.0.get(it));
        before.map_or(0, |it| it.work)
    }

    /// Notes what a node gave; `see` has of each value what [`ValueRecord::shown`] has beside what is said.
    pub(super) fn note(&mut self, seen: &NodeSeen<'_>, see: &mut dyn FnMut([u8; 32])) {
        let values = seen.gave.iter().map(|(_, value)| {
            let (said, beyond) = ValueRecord::shown(value);
            see(beyond);
            said
        });
        let values = values.collect();
        self.0.push(NodeRecord {
            work: seen.work,
            values,
        });
    }

    /// Whether it says of every node of a graph what it gave, and work that never falls and is within a limit.
    pub(super) fn is_of(&self, graph: &Graph, limit: u64) -> bool {
        self.0.len() == graph.nodes.len() && self.is_beginning_of(graph, limit)
    }

    /// As [`Self::is_of`], of the first nodes of the graph.
    pub(super) fn is_beginning_of(&self, graph: &Graph, limit: u64) -> bool {
        let gives = graph.nodes.iter().map(|it| it.gives().count());
        let said = self.0.iter().map(|it| it.values.len());
        self.0.len() <= graph.nodes.len()
            && gives.take(self.0.len()).eq(said)
            && self.0.is_sorted_by_key(|it| it.work)
            && self.0.last().is_none_or(|it| it.work <= limit)
    }

    /// The number of nodes at the beginning of which both say the same.
    pub(super) fn first_difference(&self, other: &Self) -> usize {
        let both = self.0.iter().zip(&other.0);
        both.take_while(|(a, b)| a == b).count()
    }
}

impl FloatModel {
    /// Runs it as [`Self::run`], and notes what every node gave. Takes the run and a hash over all values.
    #[must_use]
    pub fn trace(&self, input: &[u8]) -> FloatTrace {
        let mut record = RunRecord::default();
        let answer = self.answer(input, &mut |seen| record.note(seen, &mut |_| ()));
        FloatTrace {
            commitment: record.commitment(input, &answer),
            answer,
            record,
        }
    }

    /// Runs it for a lease: its answer, and what a receipt says of the trace. In mode `sync` that is a commitment of the lease to what every node gave,
    /// else what [`stated_trace`] says.
    #[must_use]
    pub fn run_for(
        &self,
        input: &[u8],
        form: TraceForm,
        names: (&JobId, &LeaseId),
    ) -> (FloatAnswer, Digest) {
        if form == TraceForm::Parts {
            let FloatTrace {
                answer, commitment, ..
            } = self.trace(input);
            let commitment = RunCommitment::read(&commitment).for_lease(names.1);
            return (answer, commitment.digest());
        }
        let FloatRun { answer, trace } = self.run(input);
        let stated = stated_trace(form, names, trace, answer.work);
        (answer, stated)
    }
}
