//! What the provider shows.

use std::collections::BTreeMap;

use tg_types::{Decode, DecodeError, Digest, Encode, Reader, Writer};

use super::record::ProgramRecord;
use crate::limits::OUTPUT_BYTES_MAX;
use crate::program::WasmProgram;
use crate::running::NoMemory;
use crate::state::ProgramState;

const MAGIC: [u8; 4] = *b"TGWT";
/// Version of the file format.
const PROGRAM_TRACE_VERSION: u16 = 1;

/// Bytes of an answer's head, at most: how the run ended, its fuel, its chunks and the length of its output.
const ANSWER_HEAD: usize = 64;

/// Most states that a file shows: one of each drawn section.
const STATES_MAX: usize = 8;

/// Bytes of the shortest state: three counts.
const STATE_BYTES_MIN: usize = 12;

/// What drawn sections of a run begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedCalls {
    /// What all calls gave.
    pub record: ProgramRecord,
    /// The states at which the drawn sections begin, ascending; one that begins with the start has none.
    pub states: Vec<ProgramState>,
}

/// The evidence of mode `sync` for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramTraceFile {
    /// The bytes of the answer.
    pub answer: Vec<u8>,
    /// The sections; nothing of a run that is shown whole.
    pub opened: Option<OpenedCalls>,
}

impl WasmProgram {
    /// What a provider shows of a run when a challenge draws sections of it. Runs it twice: keeping all states until it is known which are
    /// shown would take memory for each call.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn open(&self, input: &[u8], challenge: &Digest) -> Result<ProgramTraceFile, NoMemory> {
        let traced = self.trace(input)?;
        let answer = traced.answer.encode();
        let record = traced.record;
        let Some(drawn) = record.drawn(&traced.answer, challenge) else {
            return Ok(ProgramTraceFile {
                answer,
                opened: None,
            });
        };
        // The call after which a section begins, and its state.
        let befores = drawn.iter().filter_map(|it| it.start.checked_sub(1));
        let mut states: BTreeMap<usize, Option<ProgramState>> =
            befores.map(|call| (call, None)).collect();
        let mut call = 0;
        self.answer(input, &mut |seen| {
            if let Some(state) = states.get_mut(&call) {
                *state = Some(seen.state.to_state());
            }
            call += 1;
        })?;
        let states = states.into_values().flatten().collect();
        Ok(ProgramTraceFile {
            answer,
            opened: Some(OpenedCalls { record, states }),
        })
    }
}

/// Reads the first bytes of a file, which say what it is.
pub(super) fn read_head(
    reader: &mut Reader<'_>,
    (magic, version): ([u8; 4], u16),
    field: &'static str,
) -> Result<(), DecodeError> {
    let found = reader.array::<4>()?;
    if found != magic {
        let value = u32::from_le_bytes(found).into();
        return Err(DecodeError::Invalid { field, value });
    }
    match reader.u16()? {
        found if found == version => Ok(()),
        found => Err(DecodeError::Invalid {
            field,
            value: found.into(),
        }),
    }
}

impl Encode for ProgramTraceFile {
    fn encode(&self, writer: &mut Writer) {
        let Self { answer, opened } = self;
        writer.raw(&MAGIC);
        writer.u16(PROGRAM_TRACE_VERSION);
        writer.bytes(answer);
        writer.u8(u8::from(opened.is_some()));
        if let Some(OpenedCalls { record, states }) = opened {
            record.encode(writer);
            writer.seq(states);
        }
    }
}

impl Decode for ProgramTraceFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = (MAGIC, PROGRAM_TRACE_VERSION);
        read_head(reader, head, "head of a trace of calls")?;
        let most = OUTPUT_BYTES_MAX as usize + ANSWER_HEAD;
        let answer = reader.bytes("answer", most)?.to_vec();
        let opened = match reader.flag("opened sections")? {
            false => None,
            true => Some(OpenedCalls {
                record: ProgramRecord::decode(reader)?,
                states: reader.seq("states", STATES_MAX, STATE_BYTES_MIN)?,
            }),
        };
        Ok(Self { answer, opened })
    }
}
