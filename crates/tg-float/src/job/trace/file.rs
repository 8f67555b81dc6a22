//! What the provider shows.

use super::super::limits::OUTPUT_BYTES_MAX;
use super::super::{FloatEnd, FloatModel, NamedTensors};
use super::record::RunRecord;
use super::sections::{self, Lives};
use crate::codec::tensors;
use crate::graph::ValueId;
use crate::tensor::FloatTensor;
use crate::tgf::{NodeSeen, SectionRun, SectionStart, run_section};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tg_types::{Decode, DecodeError, Digest, Encode, Reader, Writer};

const MAGIC: [u8; 4] = *b"TGFT";
/// Version of the file format.
const FLOAT_TRACE_FILE_VERSION: u16 = 1;

/// Bytes of an answer's head, at most: how the run ended, its work and the length of its outputs.
const ANSWER_HEAD: usize = 8 << 10;

/// Most values that a file shows.
const VALUES_MAX: usize = 1 << 16;

/// What drawn sections of a run read.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedSections {
    /// What all nodes gave.
    pub record: RunRecord,
    /// The values that the drawn sections read of what nodes before them gave, ascending.
    pub values: Vec<(ValueId, FloatTensor)>,
}

/// The evidence of mode `sync` for a float model.
#[derive(Debug, Clone, PartialEq)]
pub struct FloatTraceFile {
    /// The bytes of the answer.
    pub answer: Vec<u8>,
    /// The sections; nothing of a run that is shown whole.
    pub opened: Option<OpenedSections>,
}

impl FloatModel {
    /// What a provider shows of a run when a challenge draws sections of it. Runs it again, and then up to the last section that is
    /// drawn, so that no more than one run's values and those that are shown are kept.
    #[must_use]
    pub fn open(&self, input: &[u8], challenge: &Digest) -> FloatTraceFile {
        let trace = self.trace(input);
        let answer = trace.answer.to_bytes();
        let record = trace.record;
        let graph = self.graph();
        let lives = Lives::of(graph);
        let is_finished = trace.answer.end == FloatEnd::Finished;
        let drawn = sections::draw(&record, challenge);
        let read = lives.reads(graph, &drawn);
        if !is_finished || !lives.are_opened(graph, &record, (&drawn, &read)) {
            return FloatTraceFile {
                answer,
                opened: None,
            };
        }
        let values = self.values_of(input, &lives, &read);
        FloatTraceFile {
            answer,
            opened: Some(OpenedSections {
                record,
                values: values.into_iter().collect(),
            }),
        }
    }

    /// Values of a run. Runs it up to the last node that gives one of them; values of nodes that it does not reach are missing.
    pub(super) fn values_of(
        &self,
        input: &[u8],
        lives: &Lives,
        wanted: &BTreeSet<ValueId>,
    ) -> BTreeMap<ValueId, FloatTensor> {
        let mut values = BTreeMap::new();
        let last = wanted.iter().filter_map(|&it| lives.producer(it)).max();
        let part = (0..last.map_or(0, |it| it + 1), SectionStart::default());
        self.execute(input, part, &mut |seen| {
            let shown = seen.gave.iter().filter(|(value, _)| wanted.contains(value));
            values.extend(shown.map(|&(value, tensor)| (value, tensor.clone())));
            true
        });
        values
    }

    /// Executes nodes of the graph on an input ([`run_section`]); nothing if the graph has inputs of other names.
    pub(super) fn execute(
        &self,
        input: &[u8],
        part: (Range<usize>, SectionStart),
        goes_on: &mut dyn FnMut(&NodeSeen<'_>) -> bool,
    ) -> Option<SectionRun> {
        self.execute_on(&self.taken(input)?, part, goes_on)
    }

    /// As [`Self::execute`], on an input that was read, so that several sections of one run do not read it again.
    pub(super) fn execute_on(
        &self,
        given: &NamedTensors,
        part: (Range<usize>, SectionStart),
        goes_on: &mut dyn FnMut(&NodeSeen<'_>) -> bool,
    ) -> Option<SectionRun> {
        let graph = self.graph();
        let inputs = given.inputs_of(graph).ok()?;
        Some(run_section(graph, &inputs, &self.budget(), part, goes_on))
    }

    /// The tensors of an input that the graph takes; nothing of any other.
    pub(super) fn given(&self, input: &[u8]) -> Option<NamedTensors> {
        let tensors = self.taken(input)?;
        tensors.inputs_of(self.graph()).is_ok().then_some(tensors)
    }
}

impl Encode for FloatTraceFile {
    fn encode(&self, writer: &mut Writer) {
        let Self { answer, opened } = self;
        writer.raw(&MAGIC);
        writer.u16(FLOAT_TRACE_FILE_VERSION);
        writer.bytes(answer);
        writer.u8(u8::from(opened.is_some()));
        if let Some(OpenedSections { record, values }) = opened {
            record.encode(writer);
            write_values(writer, values);
        }
    }
}

impl Decode for FloatTraceFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let expected = (MAGIC, FLOAT_TRACE_FILE_VERSION);
        read_head(reader, expected, "head of a trace of floats")?;
        let most = OUTPUT_BYTES_MAX as usize + ANSWER_HEAD;
        let answer = reader.bytes("answer", most)?.to_vec();
        let opened = match reader.flag("opened sections")? {
            false => None,
            true => Some(OpenedSections {
                record: RunRecord::decode(reader)?,
                values: read_values(reader)?,
            }),
        };
        Ok(Self { answer, opened })
    }
}

/// Reads the beginning of a file, and its version.
pub(super) fn read_head(
    reader: &mut Reader<'_>,
    (magic, version): ([u8; 4], u16),
    field: &'static str,
) -> Result<(), DecodeError> {
    let found = reader.array::<4>()?;
    let got = reader.u16()?;
    let value = match found == magic {
        true if got == version => return Ok(()),
        true => u64::from(got),
        false => u64::from(u32::from_le_bytes(found)),
    };
    Err(DecodeError::Invalid { field, value })
}

/// Writes values with their indices.
pub(super) fn write_values(writer: &mut Writer, values: &[(ValueId, FloatTensor)]) {
    writer.count(values.len());
    for (value, tensor) in values {
        writer.count(value.index());
        tensors::write_head(writer, tensor);
        tensors::write_elements(writer, tensor.data());
    }
}

/// Reads what [`write_values`] writes.
pub(super) fn read_values(
    reader: &mut Reader<'_>,
) -> Result<Vec<(ValueId, FloatTensor)>, DecodeError> {
    let count = reader.count("opened values", VALUES_MAX, 9)?;
    let value = |_| {
        let value = ValueId::new(reader.u32()?);
        Ok((value, tensors::read_tensor(reader)?))
    };
    (0..count).map(value).collect()
}
