//! A dispute about a run that ends at one node: what an accuser claims, and where that is wrong.
//!
//! Whoever accuses hands in a [`FloatClaim`]: the answer of a right run and what each of its nodes gave. The accused hands in a
//! [`FloatFault`]: the first node at which the claim is wrong, with what that node reads of the claimed values. Everybody else executes
//! this one node ([`FloatModel::claim_fails`]).
//!
//! What it shows. A run on an input is one answer and one record. If a claim is neither that nor what the receipt says already, and is one at
//! all, there is a first node of which it says something wrong: that it gave other values, took other work, or ended the run or did
//! not. All that this node reads was given by nodes before it, of which the claim is right, so whoever ran the model has these
//! values, and shows them under the digests that the claim has. If the claim is the run, each of its nodes gives what it says, on the values
//! that its digests fix up to a collision of BLAKE3: nothing that anybody shows is another. Of a run that finished the answer follows from
//! the record, as in `check`; that outputs are too large follows from the values that the accused has delivered, if they are not.
//!
//! A node that reads more than can be shown is named alone: that it does follows from the claim. Then everybody runs all of the model, and finds
//! whether the receipt is right.

use super::super::run::end_of;
use super::super::{FloatAnswer, FloatEnd, FloatModel, NamedTensors};
use super::file::{read_head, read_values, write_values};
use super::record::{RunRecord, ValueRecord};
use super::sections::Lives;
use crate::graph::ValueId;
use crate::tensor::FloatTensor;
use crate::tgf::{SectionRun, SectionStart};
use tg_types::{
    Decode, DecodeError, Digest, Encode, LeaseId, Reader, Receipt, RunCommitment, Writer,
    trace_checksum,
};

const CLAIM_MAGIC: [u8; 4] = *b"TGFC";
const FAULT_MAGIC: [u8; 4] = *b"TGFW";
/// Version of both formats.
const FLOAT_CLAIM_VERSION: u16 = 1;

/// What a right run gives, as somebody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatClaim {
    /// What it answers.
    pub answer: FloatAnswer,
    /// What its nodes gave.
    pub record: RunRecord,
}

/// What is wrong with a claim, as the one that is accused says.
#[derive(Debug, Clone, PartialEq)]
pub enum FloatFault {
    /// The claim is none, or says the same as the receipt: everybody sees that of the claim alone.
    Claim,
    /// A node does something else, on these values.
    Node {
        /// Its index.
        node: usize,
        /// What it reads of what nodes before it gave, ascending.
        values: Vec<(ValueId, FloatTensor)>,
    },
    /// A node does something else, and reads more than can be shown.
    LargeNode {
        /// Its index.
        node: usize,
    },
}

/// What a claim must be about.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedFloatClaim<'a> {
    /// The lease.
    pub lease: &'a LeaseId,
    /// The bytes that the order names as input.
    pub input: &'a [u8],
    /// What the provider committed to.
    pub receipt: &'a Receipt,
    /// The bytes of the answer that the receipt names.
    pub delivered: &'a [u8],
}

impl FloatModel {
    /// What whoever accuses hands in: a run with what every node gave.
    #[must_use]
    pub fn claim(&self, input: &[u8]) -> FloatClaim {
        let trace = self.trace(input);
        FloatClaim {
            answer: trace.answer,
            record: trace.record,
        }
    }

    /// Where a claim is wrong, as a run here shows; nothing if it is right. Takes two runs.
    #[must_use]
    pub fn fault_of(&self, claim: &[u8], expected: ExpectedFloatClaim<'_>) -> Option<FloatFault> {
        // What is no claim everybody sees as such.
        let taken = self.taken(expected.input);
        let Some(claim) = self.accusing(claim, expected, taken.as_ref()) else {
            return Some(FloatFault::Claim);
        };
        let own = self.claim(expected.input);
        if own == claim {
            return None;
        }
        let node = own.record.first_difference(&claim.record);
        let graph = self.graph();
        let lives = Lives::of(graph);
        // All nodes gave what the claim says: its answer is not what they end with, which everybody sees.
        if node >= graph.nodes.len() {
            return Some(FloatFault::Claim);
        }
        let read = lives.reads_of_node(graph, node);
        if !lives.are_small(graph, &claim.record, &read) {
            return Some(FloatFault::LargeNode { node });
        }
        let values = self.values_of(expected.input, &lives, &read);
        let values = values.into_iter().collect();
        Some(FloatFault::Node { node, values })
    }

    /// Whether an accusation fails: its claim is none, or what the accused handed in shows a node of it that is wrong. Total, for any bytes. Takes
    /// what reading both takes, and one node; a run of the model where that node reads more than can be shown.
    #[must_use]
    pub fn claim_fails(
        &self,
        (claim, fault): (&[u8], &[u8]),
        expected: ExpectedFloatClaim<'_>,
    ) -> bool {
        // Once for all that looks at it.
        let taken = self.taken(expected.input);
        let taken = taken.as_ref();
        let Some(claim) = self.accusing(claim, expected, taken) else {
            return true;
        };
        match FloatFault::from_bytes(fault) {
            Ok(FloatFault::Node { node, values }) => self.is_refuted(&claim, (node, values), taken),
            Ok(FloatFault::LargeNode { node }) => {
                self.is_large(&claim.record, node) && self.is_right(expected)
            }
            Ok(FloatFault::Claim) | Err(_) => false,
        }
    }

    /// A claim, if it is one that says something else than the receipt, and what it says of the end of the run follows from its record. Hashes what the
    /// claim answers.
    fn accusing(
        &self,
        claim: &[u8],
        expected: ExpectedFloatClaim<'_>,
        taken: Option<&NamedTensors>,
    ) -> Option<FloatClaim> {
        let claim = FloatClaim::from_bytes(claim).ok()?;
        let said = self.says(&claim.answer, expected);
        (!said && self.is_one(&claim, expected, taken)).then_some(claim)
    }

    /// Whether a receipt says that the run answered this.
    fn says(&self, answer: &FloatAnswer, expected: ExpectedFloatClaim<'_>) -> bool {
        let run = Self::digest_of(expected.input, answer);
        let trace = RunCommitment::of(expected.lease, trace_checksum(&run), answer.work).digest();
        let receipt = expected.receipt;
        receipt.output == Digest::of_blob(&answer.to_bytes()) && receipt.trace == trace
    }

    /// Whether a node reads more than can be shown. Stops: a provider that has everybody run all of it, where it could show a node.
    fn is_large(&self, record: &RunRecord, node: usize) -> bool {
        let graph = self.graph();
        if node >= graph.nodes.len() || node > record.0.len() {
            return false;
        }
        let lives = Lives::of(graph);
        let read = lives.reads_of_node(graph, node);
        !lives.are_small(graph, record, &read)
    }

    /// Whether a receipt is that of a run here.
    fn is_right(&self, expected: ExpectedFloatClaim<'_>) -> bool {
        self.says(&self.run(expected.input).answer, expected)
    }

    /// Whether a claim could be a run: its record is one of the graph, and its answer follows from that, or from what the node after it does.
    fn is_one(
        &self,
        claim: &FloatClaim,
        expected: ExpectedFloatClaim<'_>,
        taken: Option<&NamedTensors>,
    ) -> bool {
        let (graph, limit) = (self.graph(), self.limits().work);
        let FloatClaim { answer, record } = claim;
        // What the graph does not take is seen without a node.
        let Some(given) = taken.filter(|it| self.takes(it)) else {
            return *claim == FloatClaim::not_taken();
        };
        let lives = Lives::of(graph);
        let gives = |answer: &FloatAnswer| {
            let outputs = self.check_outputs(answer, (record, &lives), given);
            outputs.is_ok()
        };
        let last = record.work_before(record.0.len());
        match &answer.end {
            FloatEnd::Finished => {
                record.is_of(graph, limit) && last == answer.work && gives(answer)
            }
            FloatEnd::BadOutput => {
                // What was delivered fits, if it is what the record ends with.
                let delivered = FloatAnswer::from_bytes(expected.delivered).ok();
                let fits = delivered.is_some_and(|it| it.end == FloatEnd::Finished && gives(&it));
                record.is_of(graph, limit)
                    && last == answer.work
                    && answer.output.is_empty()
                    && !fits
            }
            FloatEnd::OutOfWork(_) | FloatEnd::OutOfMemory(_) | FloatEnd::Failed(_) => {
                record.0.len() < graph.nodes.len()
                    && record.is_beginning_of(graph, limit)
                    && (last..=limit).contains(&answer.work)
                    && answer.output.is_empty()
            }
            FloatEnd::BadInput => false,
        }
    }

    /// Whether the graph takes an input.
    fn takes(&self, given: &NamedTensors) -> bool {
        let nothing = (0..0, SectionStart::default());
        self.execute_on(given, nothing, &mut |_| true)
            .is_some_and(|it| it.result.is_ok())
    }

    /// Whether values show that a node does something else than a claim says of it.
    fn is_refuted(
        &self,
        claim: &FloatClaim,
        (node, values): (usize, Vec<(ValueId, FloatTensor)>),
        taken: Option<&NamedTensors>,
    ) -> bool {
        let graph = self.graph();
        let FloatClaim { answer, record } = claim;
        if node >= graph.nodes.len() || node > record.0.len() {
            return false;
        }
        let lives = Lives::of(graph);
        // Stops: what the node does without a value, or with another one than the claim has.
        let is_claimed = |(value, tensor): &(ValueId, FloatTensor)| {
            lives.said(graph, record, *value) == Some(&ValueRecord::of(tensor))
        };
        let shown = values.iter().map(|(value, _)| value);
        if !shown.eq(&lives.reads_of_node(graph, node)) || !values.iter().all(is_claimed) {
            return false;
        }
        let live = lives.live_before(graph, record, node);
        let start = SectionStart {
            values: values.into_iter().collect(),
            live: usize::try_from(live).unwrap_or(usize::MAX),
            work: record.work_before(node),
        };
        let mut own = RunRecord::default();
        let part = (node..node + 1, start);
        let ran = taken.and_then(|given| {
            self.execute_on(given, part, &mut |seen| {
                own.note(seen, &mut |_| ());
                true
            })
        });
        let Some(SectionRun { result, work }) = ran else {
            return false;
        };
        match (result, record.0.get(node)) {
            (Ok(()), Some(said)) => own.0.first() != Some(said),
            (Err(error), None) => end_of(error) != answer.end || work != answer.work,
            // One of both ends there.
            (Ok(()), None) | (Err(_), Some(_)) => true,
        }
    }
}

impl FloatClaim {
    /// That the graph does not take what was ordered.
    const fn not_taken() -> Self {
        Self {
            answer: FloatAnswer {
                end: FloatEnd::BadInput,
                work: 0,
                output: Vec::new(),
            },
            record: RunRecord(Vec::new()),
        }
    }
}

impl Encode for FloatClaim {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&CLAIM_MAGIC);
        writer.u16(FLOAT_CLAIM_VERSION);
        self.answer.encode(writer);
        self.record.encode(writer);
    }
}

impl Decode for FloatClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        read_head(
            reader,
            (CLAIM_MAGIC, FLOAT_CLAIM_VERSION),
            "head of a claim of floats",
        )?;
        Ok(Self {
            answer: FloatAnswer::decode(reader)?,
            record: RunRecord::decode(reader)?,
        })
    }
}

impl Encode for FloatFault {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&FAULT_MAGIC);
        writer.u16(FLOAT_CLAIM_VERSION);
        match self {
            Self::Claim => writer.u8(0),
            Self::Node { node, values } => {
                writer.u8(1);
                writer.count(*node);
                write_values(writer, values);
            }
            Self::LargeNode { node } => {
                writer.u8(2);
                writer.count(*node);
            }
        }
    }
}

impl Decode for FloatFault {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        read_head(
            reader,
            (FAULT_MAGIC, FLOAT_CLAIM_VERSION),
            "head of a fault of floats",
        )?;
        let node = |reader: &mut Reader<'_>| Ok(reader.u32()? as usize);
        Ok(match reader.u8()? {
            0 => Self::Claim,
            1 => Self::Node {
                node: node(reader)?,
                values: read_values(reader)?,
            },
            2 => Self::LargeNode {
                node: node(reader)?,
            },
            tag => {
                return Err(DecodeError::Invalid {
                    field: "kind of a fault of floats",
                    value: tag.into(),
                });
            }
        })
    }
}
