//! A dispute about a run that ends at one call: what an accuser claims, and where that is wrong.
//!
//! Whoever accuses hands in a [`ProgramClaim`]: the answer of a right run and what each of its calls gave. The accused hands in a
//! [`ProgramFault`]: the first call of which the claim says something wrong, with the state before it as the claim has it. Everybody else
//! runs this one call ([`WasmProgram::claim_fails`]).
//!
//! A run is a row of *steps*: its start, each chunk, the output. Each but the last gives a state and goes on; the last one ends the run, for
//! whatever reason, and gives the answer, and the state in which it ended if the run did not finish. So a claim of `n` records
//! says something of the steps `0..n`, which go on, and of step `n`, which ends, and nothing else; a run that finished is no special case.
//!
//! What it shows. A run on an input has one row of steps. If a claim is not that row, there is a first step of which it says something else
//! than the run gives. The state before that step is the run's, with the fuel burned by then, so whoever ran the program has it, and shows it
//! under the digest that the claim has; from there the step gives what it gives in the run, as globals and memory are all of the state
//! (`state`), and not what the claim says. If the claim is the row, each step gives what it says, from the state that its digest fixes up to a collision of
//! BLAKE3: nothing that anybody shows is another. Steps after the input's last one are none of a right claim.
//!
//! A state that takes more than [`OPENED_BYTES_MAX`] is not shown, and the call is named alone: that it is so large follows from the claim. Then
//! everybody runs all of the program, and finds whether the receipt is right.

use tg_types::{
    Decode, DecodeError, Digest, Domain, Encode, JobId, LeaseId, Reader, Receipt, TraceForm,
    Writer, stated_trace,
};

use super::file::read_head;
use super::record::{CallRecord, OPENED_BYTES_MAX, ProgramRecord};
use crate::answer::{ProgramAnswer, ProgramEnd};
use crate::program::WasmProgram;
use crate::running::{NoMemory, RunStop, RunUnderWay};
use crate::state::ProgramState;

const CLAIM_MAGIC: [u8; 4] = *b"TGWC";
const FAULT_MAGIC: [u8; 4] = *b"TGWF";
/// Version of both formats.
const PROGRAM_CLAIM_VERSION: u16 = 1;

/// What a right run gives, as somebody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramClaim {
    /// What it answers.
    pub answer: ProgramAnswer,
    /// What its calls gave after which it went on.
    pub record: ProgramRecord,
    /// The state in which it ended, if it did not finish and ended after its start.
    pub last: Option<CallRecord>,
}

/// What is wrong with a claim, as the one that is accused says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramFault {
    /// The claim is none, or says the same as the receipt: everybody sees that of the claim alone.
    Claim,
    /// A call does something else: 0 is the start, then come the chunks, and the output has the number after the last one's.
    Call {
        /// Its number.
        call: usize,
        /// The state before it; the start has none.
        state: Option<ProgramState>,
    },
    /// A call does something else, and the state before it is larger than can be shown.
    LargeCall {
        /// Its number.
        call: usize,
    },
}

/// What a claim must be about.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedProgramClaim<'a> {
    /// The lease.
    pub lease: &'a LeaseId,
    /// The bytes that the order names as input.
    pub input: &'a [u8],
    /// What the provider committed to.
    pub receipt: &'a Receipt,
}

/// What a step of a run gives: a state, and the answer if the run ends there.
#[derive(Debug, PartialEq, Eq)]
struct StepGave<'a> {
    state: Option<&'a CallRecord>,
    answer: Option<&'a ProgramAnswer>,
}

impl WasmProgram {
    /// What whoever accuses hands in: a run with what every call gave.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn claim(&self, input: &[u8]) -> Result<ProgramClaim, NoMemory> {
        let (mut record, mut last) = (ProgramRecord::default(), None);
        let answer = self.answer(input, &mut |seen| {
            let call = CallRecord::shown(seen).0;
            match seen.goes_on {
                true => record.0.push(call),
                false => last = Some(call),
            }
        })?;
        Ok(ProgramClaim {
            answer,
            record,
            last,
        })
    }

    /// Where a claim is wrong, as a run here shows; nothing if it is right. Takes one run, and a copy of what can be shown of the state after
    /// each call that is as claimed.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn fault_of(
        &self,
        claim: &[u8],
        expected: ExpectedProgramClaim<'_>,
    ) -> Result<Option<ProgramFault>, NoMemory> {
        // What is no claim everybody sees as such.
        let Some(claim) = accusing(claim, expected) else {
            return Ok(Some(ProgramFault::Claim));
        };
        // Calls that did what is claimed, and the state after the last one of them.
        let (mut call, mut state) = (0, None);
        let (mut differs, mut last) = (false, None);
        let answer = self.answer(expected.input, &mut |seen| {
            if differs {
                return;
            }
            let gave = CallRecord::shown(seen).0;
            if !seen.goes_on {
                last = Some(gave);
                return;
            }
            let gave = StepGave {
                state: Some(&gave),
                answer: None,
            };
            differs = claim.says_of(call).as_ref() != Some(&gave);
            if !differs {
                call += 1;
                state = (!claim.is_large(call)).then(|| seen.state.to_state());
            }
        })?;
        let end = StepGave {
            state: last.as_ref(),
            answer: Some(&answer),
        };
        if !differs && claim.says_of(call).as_ref() == Some(&end) {
            return Ok(None);
        }
        Ok(Some(match claim.is_large(call) {
            true => ProgramFault::LargeCall { call },
            false => ProgramFault::Call { call, state },
        }))
    }

    /// Whether an accusation fails: its claim is none, or what the accused handed in shows a call of it that is wrong. Total, for any bytes. Takes
    /// what reading both takes, a hash over the state's memory, and one call; a run of the program where that state is larger than can be shown.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn claim_fails(
        &self,
        (claim, fault): (&[u8], &[u8]),
        expected: ExpectedProgramClaim<'_>,
    ) -> Result<bool, NoMemory> {
        let Some(claim) = accusing(claim, expected) else {
            return Ok(true);
        };
        match ProgramFault::from_bytes(fault) {
            Ok(ProgramFault::Call { call, state }) => {
                self.is_refuted(&claim, (call, state.as_ref()), expected.input)
            }
            // Stops: a provider that has everybody run all of it, where it could show a state.
            // And an accuser that claims a state larger than the program can have.
            Ok(ProgramFault::LargeCall { call })
                if claim.is_large(call) && self.state_bytes() > OPENED_BYTES_MAX =>
            {
                let claimed = self.claim(expected.input)?;
                Ok(claimed.is_said_by(expected))
            }
            Ok(ProgramFault::LargeCall { .. } | ProgramFault::Claim) | Err(_) => Ok(false),
        }
    }

    /// The state of a run before a call; nothing before the start.
    pub(crate) fn state_before(
        &self,
        input: &[u8],
        call: usize,
    ) -> Result<Option<ProgramState>, NoMemory> {
        let mut state = None;
        // Calls that are left until the wanted one.
        let mut left = call;
        self.answer(input, &mut |seen| {
            if left == 1 {
                state = Some(seen.state.to_state());
            }
            left = left.saturating_sub(1);
        })?;
        Ok(state)
    }

    /// Whether a state shows that a call does something else than a claim says of it.
    fn is_refuted(
        &self,
        claim: &ProgramClaim,
        (call, state): (usize, Option<&ProgramState>),
        input: &[u8],
    ) -> Result<bool, NoMemory> {
        let Some(said) = claim.says_of(call) else {
            return Ok(false);
        };
        // Stops: what the call does from no state, or from another one than the claim has.
        let is_claimed = match state {
            None => call == 0,
            Some(state) => self.is_before(&claim.record, call, state),
        };
        if !is_claimed {
            return Ok(false);
        }
        let before = claim.record.before(call).map_or(0, |it| it.fuel);
        let mut running = RunUnderWay::new(self);
        let mut seen = None;
        let stepped = running.step(input, (call, state, before), &mut |it| {
            seen = Some(CallRecord::shown(it).0);
        });
        let end = match stepped {
            Ok(end) => end,
            Err(RunStop::End(end)) => Some(end),
            Err(RunStop::NoMemory) => return Err(NoMemory),
        };
        // Of a step that goes on there is no answer, but this machine may have had no memory to give.
        let answer = running.into_answer(end.unwrap_or(ProgramEnd::Finished))?;
        let gave = StepGave {
            state: seen.as_ref(),
            answer: end.map(|_| &answer),
        };
        Ok(gave != said)
    }
}

/// A claim, if it is one that says something else than the receipt. Hashes what the claim answers.
fn accusing(claim: &[u8], expected: ExpectedProgramClaim<'_>) -> Option<ProgramClaim> {
    let claim = ProgramClaim::from_bytes(claim).ok()?;
    (!claim.is_said_by(expected)).then_some(claim)
}

impl ProgramClaim {
    /// What it says of a step; nothing of those after the end of the run.
    fn says_of(&self, step: usize) -> Option<StepGave<'_>> {
        let record = &self.record.0;
        match record.get(step) {
            Some(call) => Some(StepGave {
                state: Some(call),
                answer: None,
            }),
            None if step == record.len() => Some(StepGave {
                state: self.last.as_ref(),
                answer: Some(&self.answer),
            }),
            None => None,
        }
    }

    /// Whether it says of the state before one of its steps that it is larger than can be shown.
    fn is_large(&self, step: usize) -> bool {
        let before = self.record.before(step);
        step <= self.record.0.len()
            && before.is_some_and(|it| u64::from(it.shown) > OPENED_BYTES_MAX)
    }

    /// Whether a receipt says that this is the run: its answer, and the states of its calls.
    fn is_said_by(&self, expected: ExpectedProgramClaim<'_>) -> bool {
        let receipt = expected.receipt;
        if receipt.output != Digest::of_blob(&self.answer.encode()) {
            return false;
        }
        let mut states = Writer::new();
        for call in self.record.0.iter().chain(&self.last) {
            states.raw(call.state.as_bytes());
        }
        let trace = Digest::of(Domain::WasmTrace, &states.into_bytes());
        let names = (&JobId::default(), expected.lease);
        receipt.trace == stated_trace(TraceForm::Run, names, trace, self.answer.fuel)
    }
}

impl Encode for ProgramClaim {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            answer,
            record,
            last,
        } = self;
        writer.raw(&CLAIM_MAGIC);
        writer.u16(PROGRAM_CLAIM_VERSION);
        Encode::encode(answer, writer);
        record.encode(writer);
        last.encode(writer);
    }
}

impl Decode for ProgramClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = (CLAIM_MAGIC, PROGRAM_CLAIM_VERSION);
        read_head(reader, head, "head of a claim of calls")?;
        Ok(Self {
            answer: Decode::decode(reader)?,
            record: ProgramRecord::decode(reader)?,
            last: Decode::decode(reader)?,
        })
    }
}

impl Encode for ProgramFault {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&FAULT_MAGIC);
        writer.u16(PROGRAM_CLAIM_VERSION);
        match self {
            Self::Claim => writer.u8(0),
            Self::Call { call, state } => {
                writer.u8(1);
                writer.count(*call);
                state.encode(writer);
            }
            Self::LargeCall { call } => {
                writer.u8(2);
                writer.count(*call);
            }
        }
    }
}

impl Decode for ProgramFault {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head = (FAULT_MAGIC, PROGRAM_CLAIM_VERSION);
        read_head(reader, head, "head of a fault of calls")?;
        let call = |reader: &mut Reader<'_>| Ok(reader.u32()? as usize);
        Ok(match reader.u8()? {
            0 => Self::Claim,
            1 => Self::Call {
                call: call(reader)?,
                state: Decode::decode(reader)?,
            },
            2 => Self::LargeCall {
                call: call(reader)?,
            },
            tag => {
                return Err(DecodeError::Invalid {
                    field: "kind of a fault of calls",
                    value: tag.into(),
                });
            }
        })
    }
}
