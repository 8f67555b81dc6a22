//! The checks of evidence: registration proofs of models and inference proofs of leases with `tg-proof`; programs and their
//! answers with `tg-wasm`, and float models with `tg-float`, by running them again.
//!
//! Codes below 80 are those of `tg-proof`; codes from 80 on name what is wrong before a proof is verified.

mod counted;
pub(crate) mod dispute;
mod execution;
mod float;
mod kept;
mod program;
mod rerun;
mod run;
mod sample;
mod sealed;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tg_ir::generation::may_generate;
use tg_ir::request::written_bytes;
use tg_ir::{Program, causality, tiles};
use tg_ledger::{Dealing, Evidence, EvidenceTask, ModelFacts, Outcome, SampleTask};
use tg_proof::sequence::SEQUENCE_STEPS_MAX;
use tg_proof::{
    ExpectedSequence, ExpectedStatement, ProofFile, PublicModel, PublicModelError, SequenceError,
    SequenceFile, VerifyError, verify_answer,
};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{
    Address, BlockId, Digest, JobId, Label, ModelId, ServedCard, Tier, VerificationMode, Vote,
};
use tg_wasm::WasmProgram;

use crate::blob::{BlobError, BlobStore};
use crate::evidence::{CheckError, EvidenceChecker};
use crate::limits::{EVIDENCE_BYTES_MAX, PUBLIC_MODEL_BYTES_MAX};
use crate::seed::key_of_dealings;
use kept::{Executable, Kept, Read, ReadAs, Verdict};
use run::RepeatedRun;

/// The blob is larger than its kind may be, or than its sender said.
pub const CODE_SIZE: u16 = 80;
/// The evidence is not a proof file.
pub const CODE_PROOF_FILE: u16 = 81;
/// The blob is not a public model.
pub const CODE_PUBLIC_MODEL: u16 = 82;
/// The model's program cannot be proved.
pub const CODE_PROGRAM: u16 = 83;
/// The public model has another id than it was registered under.
pub const CODE_MODEL_ID: u16 = 84;
/// The receipt names another program or model than the lease is for.
pub const CODE_RECEIPT: u16 = 85;
/// The model's input or output is larger than a job may have.
pub const CODE_MODEL_SIZE: u16 = 86;
/// The model's weights are private: no provider could make its proofs.
pub const CODE_MODEL_PRIVATE: u16 = 87;
/// The model's proofs are larger than evidence may be.
pub const CODE_MODEL_PROOF: u16 = 88;

/// The file is no program that the profile allows.
pub const CODE_MODULE: u16 = 89;
/// The evidence of a program is another answer than its receipt names.
pub const CODE_ANSWER: u16 = 90;
/// A run of the program gives another answer.
pub const CODE_RUN: u16 = 91;
/// What validators dealt gives no key.
pub const CODE_DEALINGS: u16 = 92;
/// The evidence of mode `sync` is no trace file of its stated size.
pub const CODE_TRACE_FILE: u16 = 93;

/// The file is no float model that the tier allows.
pub const CODE_FLOAT_MODEL: u16 = 94;

/// Another key was granted to the provider of a sealed job than its requestor shows.
pub const CODE_GRANT: u16 = 101;

/// The key of a sealed job does not open its input, or its model does not take that.
pub const CODE_SEALED_INPUT: u16 = 100;

/// A run that somebody accused is wrong: the provider showed no wrong tile, node or call of what the accuser claims.
pub const CODE_CLAIM: u16 = 99;

/// The file is no card of a served model that the grid takes.
pub const CODE_CARD: u16 = 95;

/// Checks evidence by verifying its proof, or by running the program again.
#[derive(Debug, Default)]
pub struct ProofChecker {
    models: Mutex<Kept>,
}

impl EvidenceChecker for ProofChecker {
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError> {
        match task.is_repeated {
            true => self.vote_on_run(task, blobs),
            false => self.vote_on_sample(task, blobs),
        }
    }

    fn claim(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError> {
        self.make_claim(task, blobs)
    }

    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError> {
        let outcome = match task {
            EvidenceTask::Model { model, public_blob } => {
                self.check_model(*model, public_blob, blobs)
            }
            EvidenceTask::SeedKey {
                network,
                round,
                seats,
                dealings,
                digest: _,
            } => Ok(key_of_round(network, *round, seats, dealings)),
            // Whoever has n - f parts of it, or its block, knows it: `core` does.
            EvidenceTask::Seed { .. } => Err(CheckError::NotHere.into()),
            EvidenceTask::Grant(task) => self.check_grant(task, blobs),
            EvidenceTask::Accusation {
                vote: _,
                sample:
                    sample @ SampleTask {
                        revealed: Some(revealed),
                        ..
                    },
            } => self.check_sealed_run(sample, revealed, blobs),
            EvidenceTask::Accusation { vote, sample } => match (vote, &sample.dispute) {
                (_, Some(files)) => self.check_claim(sample, files, blobs),
                (Vote::WrongRun, None) => self.check_disputed_run(sample, blobs),
                (Vote::Right { .. } | Vote::WrongForm | Vote::WrongTile(_), None) => {
                    self.check_accusation(*vote, sample, blobs)
                }
            },
            EvidenceTask::Lease {
                lease: _,
                job,
                provider,
                model,
                mode,
                public_blob,
                weights_blob,
                program,
                receipt,
                evidence,
                size,
            } => {
                let run = RepeatedRun {
                    model: *model,
                    program: *program,
                    public_blob,
                    weights_blob,
                    receipt,
                    opened: None,
                };
                let work = Work {
                    job: *job,
                    provider: *provider,
                    run,
                };
                self.check_result(*mode, &work, (evidence, *size), blobs)
            }
            EvidenceTask::Replicas(task) => self.run_for_replicas(task, blobs),
        };
        match outcome {
            Ok(outcome) => Ok(outcome),
            Err(Refusal::Rejected(outcome)) => Ok(outcome),
            Err(Refusal::NotNow(error)) => Err(error),
        }
    }
}

/// The key that a round's dealings give.
fn key_of_round(
    network: &BlockId,
    round: u64,
    seats: &[[u8; 32]],
    dealings: &[Dealing],
) -> Outcome {
    let logs: Vec<Vec<u8>> = dealings
        .iter()
        .map(|it| it.log.as_bytes().to_vec())
        .collect();
    match key_of_dealings(network.as_bytes(), round, seats, &logs) {
        Ok(key) => Outcome::SeedKey(key),
        Err(error) => Outcome::Rejected {
            code: CODE_DEALINGS,
            check: Label::lossy(&error.to_string()),
        },
    }
}

/// What the proof of a lease must be about.
struct Work<'a> {
    job: JobId,
    provider: Address,
    run: RepeatedRun<'a>,
}

/// Why there is no acceptance: for good, or for now.
enum Refusal {
    Rejected(Outcome),
    NotNow(CheckError),
}

impl From<CheckError> for Refusal {
    fn from(error: CheckError) -> Self {
        Self::NotNow(error)
    }
}

impl ProofChecker {
    fn check_model(
        &self,
        model: ModelId,
        public_blob: &Digest,
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let public = match self.executable(public_blob, blobs)? {
            Executable::Model(public) => public,
            Executable::Program(program) => return Self::program_facts(&program, model),
            Executable::PublicFloat(public) => return Self::float_facts(&public, model),
            Executable::Card(card) => return served_facts(&card, model),
            Executable::Weighted(_) | Executable::Float(_) => {
                return Err(rejected(CODE_PUBLIC_MODEL, "public model"));
            }
        };
        // Stops: registering a model under the id of another one.
        if public.id() != model {
            return Err(rejected(CODE_MODEL_ID, "model id"));
        }
        let program = public.program();
        let length = |bytes: usize| {
            u32::try_from(bytes).map_err(|_| rejected(CODE_MODEL_SIZE, "input and output length"))
        };
        let facts = public.facts();
        Ok(Outcome::ModelAccepted(ModelFacts {
            program: public.program_id(),
            tier: Tier::Tgx1,
            macs: program.macs(),
            input_len: length(program.input_bytes())?,
            output_len: length(program.output_bytes())?,
            // A program without a proof shape is refused when its public model is read.
            provable: true,
            proof_bytes: proof_bytes(&public)?,
            work: facts.work(),
            memory: facts.memory(),
            trace_bytes: tiles::trace_bytes(program),
            read_bytes: read_bytes(program),
            looks: tiles::looks(program).0,
        }))
    }

    /// What is asked of a model beside its id: the same for whoever names its public part.
    fn admit(public: &PublicModel) -> Result<(), Refusal> {
        // Stops: jobs that cost every provider its collateral, because only the owner of the secret can prove them.
        if public.private_weights().is_some() {
            return Err(rejected(CODE_MODEL_PRIVATE, "private weights"));
        }
        // Stops: leases that cost every provider its collateral, because the proof that it makes is no evidence.
        proof_bytes(public)?;
        // Stops: weights outside their range, with which every later proof would mean nothing.
        let registered = public.verify_registration();
        registered.map_err(|error| rejected(error.code(), &error.to_string()))
    }

    /// Checks the result of a lease as its mode demands.
    fn check_result(
        &self,
        mode: VerificationMode,
        work: &Work<'_>,
        (evidence, size): (&Digest, u32),
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        match mode {
            VerificationMode::Recompute => self.check_run(&work.run, evidence, blobs),
            VerificationMode::Replicate => check_delivered(evidence, blobs),
            _ => self.check_lease(work, (evidence, size), blobs),
        }
    }

    fn check_lease(
        &self,
        work: &Work<'_>,
        (evidence, size): (&Digest, u32),
        blobs: &BlobStore,
    ) -> Result<Outcome, Refusal> {
        let run = &work.run;
        let Executable::Model(public) = self.executable(run.public_blob, blobs)? else {
            return Err(rejected(CODE_PUBLIC_MODEL, "public model"));
        };
        let bytes = read(blobs, evidence, EVIDENCE_BYTES_MAX, "evidence size")?;
        if u32::try_from(bytes.len()) != Ok(size) {
            return Err(rejected(CODE_SIZE, "evidence size"));
        }
        // Stops: a receipt for other work than the lease's.
        if !run.is_of(public.program_id(), public.id()) {
            return Err(rejected(CODE_RECEIPT, "receipt"));
        }
        if SequenceFile::is_one(&bytes) {
            return check_sequence(&public, work, &bytes, blobs);
        }
        let file = ProofFile::read(&bytes)
            .map_err(|error| rejected(CODE_PROOF_FILE, &error.to_string()))?;
        // Stops: a proof of another job, by another provider, or of another input or output.
        let expected = ExpectedStatement {
            job: Some(work.job),
            provider: Some(work.provider),
            input: Some(run.receipt.input),
            output: Some(run.receipt.output),
        };
        tg_proof::verify(&public, &file, &expected)
            .map_err(|error| rejected(error.code(), &describe(&error)))?;
        keep_shown(&file.output, blobs);
        Ok(Outcome::LeaseAccepted)
    }

    /// The model or program in a blob, if it is one that is admitted: decoded once for many leases, and not again if it was
    /// refused.
    fn executable(&self, blob: &Digest, blobs: &BlobStore) -> Result<Executable, Refusal> {
        self.known((*blob, ReadAs::Public), || decode(blob, blobs))
    }

    /// What was found out about a blob, or is now.
    fn known(
        &self,
        blob: Read,
        decode: impl FnOnce() -> Result<Executable, Refusal>,
    ) -> Result<Executable, Refusal> {
        match self.kept().find(&blob) {
            Some(Verdict::Admitted(model)) => return Ok(model),
            Some(Verdict::Refused(outcome)) => return Err(Refusal::Rejected(outcome)),
            None => {}
        }
        let found = decode();
        let verdict = match &found {
            Ok(model) => Verdict::Admitted(model.clone()),
            Err(Refusal::Rejected(outcome)) => Verdict::Refused(outcome.clone()),
            // What could not be read now is looked at again.
            Err(Refusal::NotNow(_)) => return found,
        };
        self.kept().keep(blob, verdict);
        found
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // A poisoned lock holds whole values all the same.
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the answer is here that the members of a job found: its name is the ledger's to check. Whatever size the member that leads says, as
/// the others are paid by it too.
fn check_delivered(answer: &Digest, blobs: &BlobStore) -> Result<Outcome, Refusal> {
    read(blobs, answer, EVIDENCE_BYTES_MAX, "evidence size")?;
    Ok(Outcome::LeaseAccepted)
}

/// Keeps an answer that a proof shows, under the name that its receipt gives it, so that it is there whatever the provider does. The verdict does not wait for a
/// disk that is full.
fn keep_shown(answer: &[u8], blobs: &BlobStore) {
    if let Err(error) = blobs.put(answer, EVIDENCE_BYTES_MAX) {
        tracing::warn!(%error, "the answer that a proof shows cannot be kept");
    }
}

/// Checks the evidence of a generation. Its request is what the order names as input, and no input is a request, so that the
/// kind of evidence follows from what was ordered.
fn check_sequence(
    public: &PublicModel,
    work: &Work<'_>,
    bytes: &[u8],
    blobs: &BlobStore,
) -> Result<Outcome, Refusal> {
    let file =
        SequenceFile::read(bytes).map_err(|error| rejected(CODE_PROOF_FILE, &error.to_string()))?;
    let expected = ExpectedSequence {
        job: work.job,
        provider: work.provider,
        request: work.run.receipt.input,
        written: work.run.receipt.output,
    };
    match verify_answer(public, &file, &expected) {
        Ok(()) => {
            if let Some((_, written)) = file.tokens() {
                keep_shown(&written_bytes(&written), blobs);
            }
            Ok(Outcome::LeaseAccepted)
        }
        Err(SequenceError::Proof(error)) => Err(rejected(error.code(), &describe(&error))),
        Err(error) => Err(rejected(error.code(), &error.to_string())),
    }
}

/// The model or program in a blob, if it is one that is admitted.
fn decode(blob: &Digest, blobs: &BlobStore) -> Result<Executable, Refusal> {
    let bytes = read(blobs, blob, PUBLIC_MODEL_BYTES_MAX, "public model size")?;
    if tg_wasm::is_program(&bytes) {
        let program = WasmProgram::read(&bytes);
        let program = program.map_err(|error| rejected(CODE_MODULE, &error.to_string()))?;
        return Ok(Executable::Program(Arc::new(program)));
    }
    if tg_float::job::is_public_float(&bytes) {
        return ProofChecker::public_float(&bytes);
    }
    if ServedCard::is_one(&bytes) {
        let card = ServedCard::read(&bytes);
        let card = card.map_err(|error| rejected(CODE_CARD, &error.to_string()))?;
        return Ok(Executable::Card(Arc::new(card)));
    }
    let model = PublicModel::decode(&bytes).map_err(|error| match error {
        PublicModelError::Decode(_) => rejected(CODE_PUBLIC_MODEL, "public model encoding"),
        PublicModelError::Plan(error) => rejected(CODE_PROGRAM, &error.to_string()),
    })?;
    ProofChecker::admit(&model)?;
    Ok(Executable::Model(Arc::new(model)))
}

/// Most looks at values that computing one tile takes, where a dispute ends at one: a third of a second.
const TILE_LOOKS_MAX: u64 = 1 << 26;

/// What a tile reads at most. Of a program that may write and takes validators too long to see that it looks at nothing ahead, no claim could
/// be checked, and of one a tile of which takes long no dispute ends soon: that no tile is small enough says so.
fn read_bytes(program: &Program) -> u64 {
    let is_long = causality::steps(program) > SEQUENCE_STEPS_MAX;
    let is_slow = tiles::looks(program).1 > TILE_LOOKS_MAX;
    match is_slow || is_long && may_generate(program) {
        true => u64::MAX,
        false => tiles::widest_reads(program),
    }
}

/// What is found out about a served model: its provider. It takes nothing of a machine of the grid, and what it gives nobody checks.
fn served_facts(card: &ServedCard, model: ModelId) -> Result<Outcome, Refusal> {
    // Stops: registering a card under the id of another one.
    if card.model_id() != model {
        return Err(rejected(CODE_MODEL_ID, "model id"));
    }
    Ok(Outcome::ModelAccepted(ModelFacts {
        program: card.program_id(),
        tier: Tier::Served,
        macs: 0,
        input_len: INPUT_BYTES_MAX,
        output_len: INPUT_BYTES_MAX,
        provable: false,
        proof_bytes: 0,
        work: 0,
        memory: 0,
        trace_bytes: 0,
        read_bytes: 0,
        looks: 0,
    }))
}

/// Most bytes of a model's proofs, if evidence holds them.
fn proof_bytes(public: &PublicModel) -> Result<u32, Refusal> {
    let bytes = public.facts().proof_bytes;
    if bytes > EVIDENCE_BYTES_MAX {
        let check = format!("a proof may have {bytes} bytes, evidence {EVIDENCE_BYTES_MAX}");
        return Err(rejected(CODE_MODEL_PROOF, &check));
    }
    u32::try_from(bytes).map_err(|_| rejected(CODE_MODEL_PROOF, "size of a proof"))
}

/// The failed check in the words that a receipt shows.
fn describe(error: &VerifyError) -> String {
    match error {
        VerifyError::Statement { field } => format!("statement: {field}"),
        VerifyError::Node { name, check, .. } => format!("{} at {name}", check.describe()),
        VerifyError::Encoding
        | VerifyError::Batch { .. }
        | VerifyError::Length { .. }
        | VerifyError::Digest { .. }
        | VerifyError::OutputBound { .. }
        | VerifyError::Nodes { .. }
        | VerifyError::Input
        | VerifyError::Lookup(_)
        | VerifyError::Registration(_)
        | VerifyError::Opening { .. }
        | VerifyError::InputCoding { .. }
        | VerifyError::Commitment { .. }
        | VerifyError::Secrets
        | VerifyError::PrivateWeights
        | VerifyError::Hidden(_) => error.check().to_owned(),
    }
}

/// A blob; too large a one is a verdict, since its name fixes its size, and a missing one is a reason to wait.
fn read(
    blobs: &BlobStore,
    digest: &Digest,
    limit: u64,
    check: &'static str,
) -> Result<Vec<u8>, Refusal> {
    match blobs.get(digest, limit) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(CheckError::Missing { digest: *digest }.into()),
        Err(BlobError::TooLarge { .. }) => Err(rejected(CODE_SIZE, check)),
        Err(error) => Err(CheckError::Blob(error).into()),
    }
}

/// What a model runs on again: what was opened of a sealed input, or what the receipt names.
fn input_of(run: &RepeatedRun<'_>, blobs: &BlobStore, limit: u64) -> Result<Vec<u8>, Refusal> {
    match run.opened {
        Some(input) => Ok(input.to_vec()),
        None => read(blobs, &run.receipt.input, limit, "input size"),
    }
}

/// The bytes of a blob; nothing if it is larger than it may be.
fn whole(blobs: &BlobStore, digest: &Digest, limit: u64) -> Result<Option<Vec<u8>>, CheckError> {
    match read(blobs, digest, limit, "size") {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Refusal::Rejected(_)) => Ok(None),
        Err(Refusal::NotNow(error)) => Err(error),
    }
}

fn rejected(code: u16, check: &str) -> Refusal {
    Refusal::Rejected(Outcome::Rejected {
        code,
        check: Label::lossy(check),
    })
}

#[cfg(test)]
mod tests;
