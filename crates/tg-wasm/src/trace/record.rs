//! What is said of each call of a run.

use std::ops::Range;

use tg_types::{
    Decode, DecodeError, Digest, Domain, Encode, JobId, LeaseId, Reader, RunCommitment, TraceForm,
    Writer, fields, sections, stated_trace,
};

use crate::answer::{ProgramAnswer, ProgramEnd};
use crate::limits::{CHUNKS_MAX, LONG_PAGES_MAX};
use crate::program::WasmProgram;
use crate::running::{CallSeen, NoMemory};
use crate::state::shown_bytes_max;

/// Most bytes of the states at which drawn sections begin. With the answer and the record they are within evidence of 16 MiB.
pub const OPENED_BYTES_MAX: u64 = 12 << 20;

const _: () = assert!(shown_bytes_max(LONG_PAGES_MAX) <= OPENED_BYTES_MAX);

/// Bytes of what is said of a call.
const CALL_BYTES: usize = 44;

/// What is said of the start of a run, or of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// Fuel that the run had burned then, the hash of the state among it.
    pub fuel: u64,
    /// Bytes that showing the state takes.
    pub shown: u32,
    /// The digest of the state.
    pub state: Digest,
}

fields! { CallRecord { fuel, shown, state } }

/// What is said of the start of a run and of each chunk, in their order; of a run that did not finish, of those before its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramRecord(pub Vec<CallRecord>);

impl Encode for ProgramRecord {
    fn encode(&self, writer: &mut Writer) {
        writer.seq(&self.0);
    }
}

impl Decode for ProgramRecord {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let most = CHUNKS_MAX + 1;
        Ok(Self(reader.seq("records of calls", most, CALL_BYTES)?))
    }
}

/// A run with what its provider commits to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramTrace {
    /// What it answers.
    pub answer: ProgramAnswer,
    /// What its calls gave.
    pub record: ProgramRecord,
    /// The commitment: [`ProgramRecord::commitment`].
    pub commitment: Digest,
}

impl CallRecord {
    /// What is said of a call, and 32 bytes that who has not run it does not know.
    pub(super) fn shown(seen: &CallSeen<'_>) -> (Self, [u8; 32]) {
        let (state, beyond) = seen.state.shown();
        let record = Self {
            fuel: seen.fuel,
            shown: seen.state.shown_bytes(),
            state,
        };
        (record, beyond)
    }
}

impl ProgramRecord {
    /// 24 bytes of a hash of input, answer and record, and the fuel in the clear: what a receipt of mode `sync` says of the trace for its lease
    /// ([`RunCommitment::for_lease`]).
    #[must_use]
    pub fn commitment(&self, input: &[u8], answer: &ProgramAnswer) -> Digest {
        let mut writer = Writer::new();
        Digest::of_blob(input).encode(&mut writer);
        Digest::of_blob(&answer.encode()).encode(&mut writer);
        Encode::encode(self, &mut writer);
        let trace = Digest::of(Domain::WasmCalls, &writer.into_bytes());
        RunCommitment::of_trace(&trace, answer.fuel).digest()
    }

    /// What is said of the call before one; nothing before the start.
    pub(super) fn before(&self, call: usize) -> Option<&CallRecord> {
        self.0.get(call.checked_sub(1)?)
    }

    /// Whether it says of each call of a finished run on so many chunks, burned fuel that never falls and ends at the bill.
    pub(super) fn is_of(&self, answer: &ProgramAnswer, chunks: usize) -> bool {
        self.0.len() == chunks + 1
            && answer.calls as usize == chunks
            && self.0.is_sorted_by_key(|it| it.fuel)
            && self.0.last().is_some_and(|it| it.fuel <= answer.fuel)
    }

    /// The sections that a challenge draws of a run that burned so much fuel; nothing of a run that is shown whole.
    pub(super) fn drawn(
        &self,
        answer: &ProgramAnswer,
        challenge: &Digest,
    ) -> Option<Vec<Range<usize>>> {
        let mut works: Vec<u64> = self.0.iter().map(|it| it.fuel).collect();
        // The output belongs to the last call.
        *works.last_mut()? = answer.fuel;
        let cut = sections::cut(&works);
        let drawn = sections::draw(&cut, Domain::WasmSections, challenge);
        let shown = drawn.iter().filter_map(|it| self.before(it.start));
        let bytes = shown.fold(0_u64, |sum, it| sum.saturating_add(it.shown.into()));
        let is_opened = answer.end == ProgramEnd::Finished
            && drawn.len() < cut.len()
            && bytes <= OPENED_BYTES_MAX;
        is_opened.then_some(drawn)
    }
}

impl WasmProgram {
    /// Most bytes of a record of a run.
    #[must_use]
    pub const fn record_bytes(&self) -> u64 {
        (4 + CALL_BYTES * (CHUNKS_MAX + 1)) as u64
    }

    /// Most bytes that showing a state between two of its calls takes.
    #[must_use]
    pub const fn state_bytes(&self) -> u64 {
        shown_bytes_max(self.limits().pages)
    }

    /// Runs it as [`Self::try_run`], and notes what every call gave.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn trace(&self, input: &[u8]) -> Result<ProgramTrace, NoMemory> {
        let mut record = ProgramRecord::default();
        let answer = self.answer(input, &mut |seen| record.0.push(CallRecord::shown(seen).0))?;
        Ok(ProgramTrace {
            commitment: record.commitment(input, &answer),
            answer,
            record,
        })
    }

    /// Runs it for a lease: its answer, and what a receipt says of the trace. In mode `sync` that is a commitment of the lease to what every call gave,
    /// else what [`stated_trace`] says.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn run_for(
        &self,
        input: &[u8],
        form: TraceForm,
        names: (&JobId, &LeaseId),
    ) -> Result<(ProgramAnswer, Digest), NoMemory> {
        if form == TraceForm::Parts {
            let traced = self.trace(input)?;
            let commitment = RunCommitment::read(&traced.commitment).for_lease(names.1);
            return Ok((traced.answer, commitment.digest()));
        }
        let run = self.try_run(input)?;
        let stated = stated_trace(form, names, run.trace, run.answer.fuel);
        Ok((run.answer, stated))
    }
}
