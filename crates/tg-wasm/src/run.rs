//! Whole runs: what a program answers to an input.

use tg_types::{Digest, Domain, Writer};

use crate::answer::{ProgramAnswer, ProgramEnd};
use crate::program::WasmProgram;
use crate::running::{CallSeen, NoMemory, RunStop, RunUnderWay};

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// What it answers.
    pub answer: ProgramAnswer,
    /// The digest of its states: after the start, after each chunk, and where it ended if it did not finish.
    pub trace: Digest,
}

impl WasmProgram {
    /// Runs it on an input. The same on every machine.
    ///
    /// # Panics
    /// If this machine has too little memory; see [`Self::try_run`].
    #[must_use]
    pub fn run(&self, input: &[u8]) -> ProgramRun {
        self.try_run(input).expect("memory for one run")
    }

    /// Runs it on an input. The same on every machine, if it has an outcome.
    ///
    /// # Errors
    /// [`NoMemory`] if this machine has too little.
    pub fn try_run(&self, input: &[u8]) -> Result<ProgramRun, NoMemory> {
        let mut states = Writer::new();
        let answer = self.answer(input, &mut |seen| {
            states.raw(seen.state.digest().as_bytes())
        })?;
        Ok(ProgramRun {
            answer,
            trace: Digest::of(Domain::WasmTrace, &states.into_bytes()),
        })
    }

    /// What a run answers; `see` is shown the state after each call, before its hash is paid.
    pub(crate) fn answer(
        &self,
        input: &[u8],
        see: &mut dyn FnMut(&CallSeen<'_>),
    ) -> Result<ProgramAnswer, NoMemory> {
        let mut running = RunUnderWay::new(self);
        let end = match running.all(input, see) {
            Ok(()) => ProgramEnd::Finished,
            Err(RunStop::End(end)) => end,
            Err(RunStop::NoMemory) => return Err(NoMemory),
        };
        running.into_answer(end)
    }
}
