//! Running the calls of drawn sections again.

use std::collections::BTreeMap;
use std::ops::Range;

use tg_types::{Digest, Domain, Encode as _, LeaseId, RunCommitment, TileName, Vote, Writer};

use super::file::{OpenedCalls, ProgramTraceFile};
use super::record::{CallRecord, ProgramRecord};
use crate::answer::{ProgramAnswer, ProgramEnd};
use crate::input::ProgramInput;
use crate::program::WasmProgram;
use crate::running::{Exports, NoMemory, RunStop, RunUnderWay};
use crate::state::ProgramState;

/// What a trace of a program must be about.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedProgramTrace<'a> {
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

impl ExpectedProgramTrace<'_> {
    /// Whether the provider committed to a run for its lease.
    fn is_committed(&self, run: &Digest) -> bool {
        RunCommitment::read(run).for_lease(self.lease).digest() == *self.trace
    }
}

/// Why a trace of a program does not show what is claimed. Each is the provider's fault alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramTraceFault {
    /// Another answer than the one that the receipt names, or none.
    #[error("the answer is not the one that the receipt names")]
    Answer,
    /// The record does not give the commitment, or is none of a run on the input.
    #[error("what is said of the calls is not what the receipt commits to")]
    Trace,
    /// The answer is not what the run gives.
    #[error("the answer is not what the run gives")]
    Output,
    /// A state is opened that is not the recorded one, or none of the program.
    #[error("what is shown of the state before call {call} is not of it")]
    State {
        /// The first call of its section.
        call: usize,
    },
    /// More or fewer states are opened than drawn sections begin with.
    #[error("other states are shown than the drawn sections begin with")]
    Opened,
    /// It is shown whole where sections are due, or in sections where a whole run is.
    #[error("the run is shown whole where sections are due, or the reverse")]
    Form,
    /// A call gives something else: 0 is the start, then come the chunks, and the output has the number after the last one's.
    #[error("call {call} gives something else than what was committed to")]
    Call {
        /// Its number.
        call: usize,
    },
}

impl ProgramTraceFault {
    /// A stable number of the check that failed.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Answer => 101,
            Self::Trace => 104,
            Self::Output => 105,
            Self::State { .. } => 106,
            Self::Opened => 107,
            Self::Call { .. } => 110,
            Self::Form => 111,
        }
    }
}

/// What a member of a committee says of a trace of a program.
#[must_use]
pub fn program_vote_on(found: Result<u64, &ProgramTraceFault>) -> Vote {
    match found {
        Ok(checksum) => Vote::Right { checksum },
        Err(ProgramTraceFault::Call { call }) => Vote::WrongTile(TileName {
            node: u32::try_from(*call).expect("calls are counted in 32 bits"),
            leaf: 0,
        }),
        Err(_) => Vote::WrongForm,
    }
}

/// What a look at a trace comes to: nothing of the trace, where this machine has too little memory for the program.
type ProgramVerdict<T> = Result<Result<T, ProgramTraceFault>, NoMemory>;

/// What shows that a member ran the calls: a hash of the challenge, the answer, and of each state that it computed 32 bytes of BLAKE3's output
/// that no record has.
struct CallsChecksum(Writer);

impl CallsChecksum {
    fn new(expected: ExpectedProgramTrace<'_>) -> Self {
        let mut writer = Writer::new();
        expected.challenge.encode(&mut writer);
        expected.output.encode(&mut writer);
        Self(writer)
    }

    fn number(self) -> u64 {
        Digest::of(Domain::WasmChecksum, &self.0.into_bytes()).first_word()
    }
}

/// A trace whose form is right, ready to have its sections run.
struct ShownCalls<'a> {
    given: &'a [u8],
    input: ProgramInput,
    answer: &'a ProgramAnswer,
    record: &'a ProgramRecord,
    drawn: Vec<Range<usize>>,
    /// By the first call of their section.
    states: BTreeMap<usize, &'a ProgramState>,
}

impl WasmProgram {
    /// Checks that a trace shows the sections that were drawn, and that each is right; gives the checksum of what was run. Total, for any
    /// file. Takes the fuel of the drawn sections, or of the run where it is shown whole, and a hash for each state that is shown.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little. Inside: the check that failed, of several wrong calls the first.
    pub fn verify_trace(
        &self,
        file: &ProgramTraceFile,
        expected: ExpectedProgramTrace<'_>,
    ) -> Result<Result<u64, ProgramTraceFault>, NoMemory> {
        let answer = match answer_of(file, expected) {
            Ok(answer) => answer,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut checksum = CallsChecksum::new(expected);
        let Some(shown) = &file.opened else {
            let found = self.check_whole(&answer, expected, &mut checksum)?;
            return Ok(found.map(|()| checksum.number()));
        };
        let opened = match self.opened(&answer, shown, expected) {
            Ok(opened) => opened,
            Err(fault) => return Ok(Err(fault)),
        };
        for section in &opened.drawn {
            let see = &mut |beyond: [u8; 32]| checksum.0.raw(&beyond);
            if let Err(fault) = self.check_section(&opened, section, None, see)? {
                return Ok(Err(fault));
            }
        }
        Ok(Ok(checksum.number()))
    }

    /// Why what a member of a committee says of a trace is so, if it is: every validator looks, and finds the same. Total.
    ///
    /// A call is wrong only if its section was drawn and it is the first wrong one of it.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn program_accusation_holds(
        &self,
        file: &ProgramTraceFile,
        expected: ExpectedProgramTrace<'_>,
        vote: Vote,
    ) -> Result<Option<ProgramTraceFault>, NoMemory> {
        let answer = answer_of(file, expected);
        match vote {
            // A run of a committee is no vote of mode `sync`.
            Vote::Right { .. } | Vote::WrongRun => Ok(None),
            Vote::WrongForm => match (answer, &file.opened) {
                (Err(fault), _) => Ok(Some(fault)),
                (Ok(answer), Some(shown)) => Ok(self.opened(&answer, shown, expected).err()),
                (Ok(answer), None) => {
                    let mut checksum = CallsChecksum::new(expected);
                    let found = self.check_whole(&answer, expected, &mut checksum)?;
                    Ok(found.err())
                }
            },
            Vote::WrongTile(TileName { node, leaf }) => {
                let (Ok(answer), Some(shown), 0) = (answer, &file.opened, leaf) else {
                    return Ok(None);
                };
                let Ok(opened) = self.opened(&answer, shown, expected) else {
                    return Ok(None);
                };
                let call = usize::try_from(node).unwrap_or(usize::MAX);
                let Some(section) = opened.section_of(call) else {
                    return Ok(None);
                };
                let found = self.check_section(&opened, section, Some(call), &mut |_| ())?;
                let is_named = |it: &ProgramTraceFault| *it == ProgramTraceFault::Call { call };
                Ok(found.err().filter(is_named))
            }
        }
    }

    /// Runs it again, and compares all of it.
    fn check_whole(
        &self,
        answer: &ProgramAnswer,
        expected: ExpectedProgramTrace<'_>,
        checksum: &mut CallsChecksum,
    ) -> ProgramVerdict<()> {
        let mut record = ProgramRecord::default();
        let found = self.answer(expected.input, &mut |seen| {
            let (call, beyond) = CallRecord::shown(seen);
            record.0.push(call);
            checksum.0.raw(&beyond);
        })?;
        if found != *answer {
            return Ok(Err(ProgramTraceFault::Output));
        }
        if !expected.is_committed(&record.commitment(expected.input, answer)) {
            return Ok(Err(ProgramTraceFault::Trace));
        }
        // Stops: a provider that has its committee run everything for the fee of a part.
        Ok(match record.drawn(answer, expected.challenge) {
            Some(_) => Err(ProgramTraceFault::Form),
            None => Ok(()),
        })
    }

    /// Checks all of a trace but what its sections give.
    fn opened<'a>(
        &self,
        answer: &'a ProgramAnswer,
        shown: &'a OpenedCalls,
        expected: ExpectedProgramTrace<'a>,
    ) -> Result<ShownCalls<'a>, ProgramTraceFault> {
        let OpenedCalls { record, states } = shown;
        let input = self.given(expected.input).ok_or(ProgramTraceFault::Trace)?;
        // Stops: fuel that falls, by which many sections could each take the limit of the run.
        let is_of = record.is_of(answer, input.chunks().len()) && answer.fuel <= self.limits().fuel;
        if !is_of || !expected.is_committed(&record.commitment(expected.input, answer)) {
            return Err(ProgramTraceFault::Trace);
        }
        let drawn = record.drawn(answer, expected.challenge);
        let drawn = drawn.ok_or(ProgramTraceFault::Form)?;
        let begins = drawn.iter().map(|it| it.start).filter(|it| *it > 0);
        let begins: Vec<usize> = begins.collect();
        // Stops: states that no section begins with, by which evidence grows for nothing.
        if begins.len() != states.len() {
            return Err(ProgramTraceFault::Opened);
        }
        for (&call, state) in begins.iter().zip(states) {
            if !self.is_before(record, call, state) {
                return Err(ProgramTraceFault::State { call });
            }
        }
        Ok(ShownCalls {
            given: expected.input,
            input,
            answer,
            record,
            drawn,
            states: begins.into_iter().zip(states).collect(),
        })
    }

    /// Whether a state is the one that a record has before a call, and one that the program may have. Takes a hash over its memory.
    pub(super) fn is_before(
        &self,
        record: &ProgramRecord,
        call: usize,
        state: &ProgramState,
    ) -> bool {
        let said = record.before(call);
        let is_said = said.is_some_and(|it| {
            it.shown as usize == state.to_bytes().len() && it.state == state.digest()
        });
        is_said && self.may_have(state)
    }

    /// Whether a state has the program's globals and a memory of a size that it may have.
    fn may_have(&self, state: &ProgramState) -> bool {
        let kinds = self.globals.iter().map(|it| it.kind);
        let pages = self.facts().pages..=self.limits().pages;
        kinds.eq(state.globals().iter().map(|it| it.kind)) && pages.contains(&state.pages())
    }

    /// Runs the calls of a section from its beginning, up to one if that is named, and compares what they give; `see` has of each state what
    /// no record has.
    fn check_section(
        &self,
        shown: &ShownCalls<'_>,
        section: &Range<usize>,
        named: Option<usize>,
        see: &mut dyn FnMut([u8; 32]),
    ) -> ProgramVerdict<()> {
        // The output is the call after the last chunk's.
        let output = shown.record.0.len();
        let end = section.end + usize::from(section.end == output);
        let calls = section.start..named.map_or(end, |it| it + 1);
        let mut running = RunUnderWay::new(self);
        let mut right_until = section.start;
        let end = match shown.run(&mut running, calls.clone(), &mut right_until, see) {
            Ok(()) => ProgramEnd::Finished,
            Err(RunStop::End(end)) => end,
            Err(RunStop::NoMemory) => return Err(NoMemory),
        };
        let found = running.into_answer(end)?;
        let is_output = calls.end > output && right_until == output;
        right_until += usize::from(is_output && found == *shown.answer);
        Ok(match right_until == calls.end {
            true => Ok(()),
            false => Err(ProgramTraceFault::Call { call: right_until }),
        })
    }
}

impl ShownCalls<'_> {
    /// The drawn section of a call.
    fn section_of(&self, call: usize) -> Option<&Range<usize>> {
        let output = self.record.0.len();
        let is_of = |it: &&Range<usize>| it.contains(&call) || call == output && it.end == output;
        self.drawn.iter().find(is_of)
    }

    /// Runs calls from the state before them, until one gives something else than is recorded; `right_until` is the first that is not known to
    /// be right.
    fn run(
        &self,
        running: &mut RunUnderWay<'_>,
        calls: Range<usize>,
        right_until: &mut usize,
        see: &mut dyn FnMut([u8; 32]),
    ) -> Result<(), RunStop> {
        let mut look = |running: &mut RunUnderWay<'_>, exports: &Exports, call: usize| {
            let mut is_right = false;
            running.hash(exports, &mut |seen| {
                let (found, beyond) = CallRecord::shown(seen);
                see(beyond);
                is_right = self.record.0.get(call) == Some(&found);
            })?;
            *right_until += usize::from(is_right);
            Ok::<bool, RunStop>(is_right)
        };
        let (exports, first) = match self.states.get(&calls.start) {
            Some(state) => {
                let burned = self.record.before(calls.start).map_or(0, |it| it.fuel);
                let taken = calls.start - 1;
                let exports = running.restore(&self.input, (state, taken, burned))?;
                (exports, calls.start)
            }
            None => {
                let (_, exports) = running.start(self.given)?;
                if !look(running, &exports, 0)? {
                    return Ok(());
                }
                (exports, 1)
            }
        };
        let chunks = self.input.chunks();
        for call in first..calls.end.min(self.record.0.len()) {
            running.take(&exports, &chunks[call - 1])?;
            if !look(running, &exports, call)? {
                return Ok(());
            }
        }
        match calls.end > self.record.0.len() {
            true => running.read_output(&exports),
            false => Ok(()),
        }
    }
}

/// The answer in a file, if it is the one that the receipt names.
fn answer_of(
    file: &ProgramTraceFile,
    expected: ExpectedProgramTrace<'_>,
) -> Result<ProgramAnswer, ProgramTraceFault> {
    let answer = ProgramAnswer::decode(&file.answer).ok();
    let answer = answer.filter(|_| Digest::of_blob(&file.answer) == *expected.output);
    answer.ok_or(ProgramTraceFault::Answer)
}
