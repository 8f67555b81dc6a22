//! The trait behind which work is done: execute a model on an input, and prove the run.

use std::pin::Pin;
use std::sync::Arc;

use tg_cuda::ExecutedOn;
use tg_privacy::{JobKey, SealError};
use tg_types::{
    Address, Digest, JobId, LeaseId, ModelId, Receipt, TraceForm, VerificationMode, stated_trace,
};

/// What is to be done, with everything it needs at hand and checked against its digest.
#[derive(Debug, Clone)]
pub struct Task {
    /// The lease it is done under.
    pub lease: LeaseId,
    /// The job; a proof is bound to it.
    pub job: JobId,
    /// Who does it; a proof is bound to it.
    pub provider: Address,
    /// How the result is checked.
    pub mode: VerificationMode,
    /// Whether, of mode `sync`, a committee runs all of it again instead of drawn parts.
    pub is_run_whole: bool,
    /// The model the job names.
    pub model: ModelId,
    /// Content hash of `model_file`.
    pub model_blob: Digest,
    /// The model with its weights (`.tgm`).
    pub model_file: Arc<[u8]>,
    /// The quantised input; of a sealed job what was opened.
    pub input: Arc<[u8]>,
    /// By what the answer is sealed, of a sealed job.
    pub sealed: Option<SealedTask>,
}

/// What the work of a sealed job needs beside.
#[derive(Debug, Clone)]
pub struct SealedTask {
    /// The job's key.
    pub key: JobKey,
    /// Content hash of the sealed input, which the receipt names.
    pub input: Digest,
}

impl Task {
    /// What its receipt says of the trace of a run ([`stated_trace`]).
    #[must_use]
    pub fn stated_trace(&self, trace: Digest, work: u64) -> Digest {
        stated_trace(self.form(), (&self.job, &self.lease), trace, work)
    }

    /// What its receipt has in the place of the trace.
    #[must_use]
    pub const fn form(&self) -> TraceForm {
        TraceForm::of(self.mode, self.is_run_whole)
    }
}

/// What an execution gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// What the provider will commit to.
    pub receipt: Receipt,
    /// The output's bytes; of a sealed job they are sealed before anybody has them.
    pub output: Vec<u8>,
    /// Where the model was executed; what it gave does not depend on it.
    pub on: ExecutedOn,
}

impl Execution {
    /// The same with its answer sealed, if the task's job is, as its receipt then names it.
    ///
    /// # Errors
    /// If the answer is too long for the cipher.
    pub fn sealed(mut self, task: &Task) -> Result<Self, SealError> {
        let Some(sealed) = &task.sealed else {
            return Ok(self);
        };
        self.output = sealed.key.seal_answer(&task.lease, &self.output)?;
        self.receipt.input = sealed.input;
        self.receipt.output = Digest::of_blob(&self.output);
        Ok(self)
    }
}

/// A part of the work, as shown to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Fetching model and input.
    Pull,
    /// Running the model.
    Execute,
    /// Proving the run.
    Prove,
    /// Finding where an accuser's claim is wrong.
    Refute,
    /// Answering the requests of an endpoint.
    Serve,
    /// Storing the answer again, until validators hold it.
    Deliver,
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Pull => "pull",
            Self::Execute => "execute",
            Self::Prove => "prove",
            Self::Refute => "refute",
            Self::Serve => "serve",
            Self::Deliver => "deliver",
        })
    }
}

/// How far a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// Thousandths of it that are done.
    pub permille: u16,
}

/// Why work failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The model's file is not the model the job names, or damaged.
    #[error("load the model {model}")]
    Model {
        /// The model.
        model: ModelId,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The input does not fit the model.
    #[error("take an input of {got} bytes where the model reads {expected}")]
    Input {
        /// Bytes the model reads.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
    /// The model could not be run.
    #[error("execute the model")]
    Execute(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What was opened does not hold, so it is not sent.
    #[error("the opening does not verify, and is not sent")]
    Open(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The accuser's claim is right, as far as is known here.
    #[error("nothing is wrong with the accuser's claim")]
    NoFault,
    /// The proof does not hold, so it is not sent: a rejected one would cost the collateral.
    #[error("check the proof that was made here")]
    Check(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The provider's own server gave no answer.
    #[error("ask the server")]
    Server(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The run could not be proved.
    #[error("prove the execution")]
    Prove(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Takes what is written, piece by piece.
pub type PieceTaker = Box<dyn FnMut(&[u8]) + Send>;

/// What [`Worker::serve`] gives.
pub type ServedFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, WorkError>> + Send>>;

/// Does the work of a lease. Calls block for as long as the work takes and come on threads of their own, several at
/// once if the offer has several slots. Both calls are deterministic in what they commit to: the receipt of a task
/// executed again is the same.
pub trait Worker: Send + Sync + 'static {
    /// Executes the model on the input.
    ///
    /// # Errors
    /// If the task cannot be done; doing it again may be tried.
    fn execute(&self, task: &Task, progress: &dyn Fn(Progress)) -> Result<Execution, WorkError>;

    /// Makes a model ready, so that the first request of an endpoint does not wait for that. What fails here fails again when it is asked.
    fn prepare(&self, task: &Task) {
        let _ = task;
    }

    /// Answers a request of an endpoint: the output's bytes. What is written piece by piece is given to `piece` as it comes, until
    /// that says that nobody reads it any more.
    ///
    /// # Errors
    /// If the model cannot be run on the input.
    fn answer(
        &self,
        task: &Task,
        piece: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Vec<u8>, WorkError>;

    /// Whether the model takes tokens: then an answer that it wrote costs a part of a run ([`tg_ir::request::answered_share`]).
    fn takes_tokens(&self, task: &Task) -> bool {
        let _ = task;
        false
    }

    /// Asks the provider's own server, for a request of a served model: the bytes of the
    /// [`ServedAnswer`](tg_sdk::endpoint::served::ServedAnswer). Nothing if there is no server for the task's model.
    fn serve(&self, task: &Task, pieces: PieceTaker) -> Option<ServedFuture> {
        let _ = (task, pieces);
        None
    }

    /// Opens the tiles of an execution that a seed draws, and returns the evidence file of mode `sync`; where whoever checks
    /// runs all of it again that is the output.
    ///
    /// # Errors
    /// If they cannot be opened; doing it again may be tried.
    fn open(&self, task: &Task, execution: &Execution, seed: &Digest)
    -> Result<Vec<u8>, WorkError>;

    /// Finds where a claim about the run of a task is wrong, and returns the answer file ([`tg_proof::FaultFile`], of float models
    /// [`tg_float::job::trace::FloatFault`], of programs [`tg_wasm::trace::ProgramFault`]): who accuses has stored the claim. Asked only where disputes end at a part of the run.
    ///
    /// # Errors
    /// If nothing of it is wrong, or it cannot be looked at; doing it again may be tried.
    fn refute(
        &self,
        task: &Task,
        execution: &Execution,
        claim: &[u8],
    ) -> Result<Vec<u8>, WorkError> {
        let _ = (task, execution, claim);
        Err(WorkError::NoFault)
    }

    /// Proves an execution and returns the evidence file.
    ///
    /// # Errors
    /// If there is no proof; doing it again may be tried.
    fn prove(
        &self,
        task: &Task,
        execution: &Execution,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Vec<u8>, WorkError>;
}
