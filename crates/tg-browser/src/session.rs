//! One proof and its model, checked in steps.

use serde_json::{Value, json};
use tg_ir::{Answer, Program, coding};
use tg_proof::sequence::SEQUENCE_FILE_MAX;
use tg_proof::{
    ExpectedSequence, ExpectedStatement, ProofFile, PublicModel, SecurityReport, SequenceError,
    SequenceFile, VerifyError, Visibility, security, verify_answer, verify_sequence,
};
use tg_types::chain::PAGE_BYTES_MAX;
use tg_types::{Address, Digest, JobId, digest::hex};

use crate::blocks;

/// Largest public model that is read, in bytes: as `tg_sdk::verify::PUBLIC_MODEL_BYTES_MAX`.
pub const MODEL_MAX: usize = 16 << 20;

/// Most bytes of what a proof is expected to be about.
pub const EXPECTED_MAX: usize = 1 << 10;

/// Most bytes of a page of blocks, with what shows that the last one is final.
pub const BLOCKS_MAX: usize = PAGE_BYTES_MAX + (1 << 20);

/// Most bytes of the seats of a network: 72 for each of [`tg_types::chain::SEATS_MAX`], and two lines more.
pub const SEATS_INPUT_MAX: usize = 128 << 10;

/// Most values of an output, and tokens of a sequence, that a verdict shows.
const SHOWN_MAX: usize = 1_024;

/// What a page hands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageInput {
    /// The public part of a model (`.tgv`).
    Model,
    /// A proof file, or that of a sequence.
    Proof,
    /// What the proof must be about: lines of a name (`job`, `provider`, `input`, `output`) and its digest. What is not
    /// named is not compared. Of a sequence, `input` and `output` are the order's request and tokens, which are compared as
    /// a receipt names them: with all four lines, and refused with fewer.
    Expected,
    /// A page of final blocks.
    Blocks,
    /// What their transactions are signed for ([`blocks::domain`]).
    Domain,
    /// Whose certificates are checked ([`blocks::seats`]); if it is empty, none are.
    Seats,
}

impl PageInput {
    /// The input of a number, in the order above from 0.
    #[must_use]
    pub const fn numbered(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Model),
            1 => Some(Self::Proof),
            2 => Some(Self::Expected),
            3 => Some(Self::Blocks),
            4 => Some(Self::Domain),
            5 => Some(Self::Seats),
            _ => None,
        }
    }

    /// Most bytes of it.
    #[must_use]
    pub const fn max(self) -> usize {
        match self {
            Self::Model => MODEL_MAX,
            Self::Proof => SEQUENCE_FILE_MAX,
            Self::Expected | Self::Domain => EXPECTED_MAX,
            Self::Blocks => BLOCKS_MAX,
            Self::Seats => SEATS_INPUT_MAX,
        }
    }
}

/// What is done, in this order; each needs what the ones before it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyStep {
    /// Decodes the proof file: what it says it is about.
    ReadProof,
    /// Decodes the public model and computes its id.
    ReadModel,
    /// Verifies that the weights which the model commits to are in range.
    Registration,
    /// Verifies the proof.
    Verify,
    /// Reads a page of blocks; needs no other step.
    Blocks,
}

impl VerifyStep {
    /// The step of a number, in the order above from 0.
    #[must_use]
    pub const fn numbered(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::ReadProof),
            1 => Some(Self::ReadModel),
            2 => Some(Self::Registration),
            3 => Some(Self::Verify),
            4 => Some(Self::Blocks),
            _ => None,
        }
    }
}

/// A proof of one run, or of a sequence that a language model wrote.
#[derive(Debug)]
enum AnyFile {
    Run(ProofFile),
    Sequence(SequenceFile),
}

impl AnyFile {
    const fn run(&self) -> &ProofFile {
        match self {
            Self::Run(file) => file,
            Self::Sequence(file) => &file.proof,
        }
    }
}

/// Why a step refuses: the check that failed, its code if it has one, and a sentence.
type Refused = (&'static str, Option<u16>, String);

/// A proof and its model, as far as they were read.
#[derive(Debug, Default)]
pub struct VerifySession {
    model_bytes: Vec<u8>,
    proof_bytes: Vec<u8>,
    expected_bytes: Vec<u8>,
    blocks_bytes: Vec<u8>,
    domain_bytes: Vec<u8>,
    seats_bytes: Vec<u8>,
    model: Option<PublicModel>,
    file: Option<AnyFile>,
    is_registered: bool,
    answer: String,
}

impl VerifySession {
    /// Room for an input, which forgets the one before; nothing if that is more than [`PageInput::max`].
    pub fn room(&mut self, input: PageInput, bytes: usize) -> Option<&mut [u8]> {
        if bytes > input.max() {
            return None;
        }
        let room = match input {
            PageInput::Model => {
                self.model = None;
                self.is_registered = false;
                &mut self.model_bytes
            }
            PageInput::Proof => {
                self.file = None;
                &mut self.proof_bytes
            }
            PageInput::Expected => &mut self.expected_bytes,
            PageInput::Blocks => &mut self.blocks_bytes,
            PageInput::Domain => &mut self.domain_bytes,
            PageInput::Seats => &mut self.seats_bytes,
        };
        *room = vec![0; bytes];
        Some(room)
    }

    /// Takes a step; gives whether it found nothing wrong. [`Self::answer`] says what it found.
    pub fn step(&mut self, step: VerifyStep) -> bool {
        let found = match step {
            VerifyStep::ReadProof => self.read_proof(),
            VerifyStep::ReadModel => self.read_model(),
            VerifyStep::Registration => self.registration(),
            VerifyStep::Verify => self.verify(),
            VerifyStep::Blocks => self.blocks(),
        };
        let is_right = found.is_ok();
        let answer = found.unwrap_or_else(
            |(check, code, reason)| json!({ "check": check, "code": code, "reason": reason }),
        );
        self.answer = answer.to_string();
        is_right
    }

    /// What the last step found, as JSON: what was read or verified, or `check`, `code` and `reason` of a refusal.
    #[must_use]
    pub fn answer(&self) -> &str {
        &self.answer
    }

    fn read_proof(&mut self) -> Result<Value, Refused> {
        let bytes = &self.proof_bytes;
        let file = match SequenceFile::is_one(bytes) {
            true => SequenceFile::read(bytes).map(AnyFile::Sequence),
            false => ProofFile::read(bytes).map(AnyFile::Run),
        };
        let file = file.map_err(|error| ("proof file", None, error.to_string()))?;
        let statement = &file.run().statement;
        let answer = json!({
            "model": statement.model.to_string(),
            "job": statement.job.to_string(),
            "provider": statement.provider.to_string(),
        });
        self.file = Some(file);
        Ok(answer)
    }

    fn read_model(&mut self) -> Result<Value, Refused> {
        let model = PublicModel::decode(&self.model_bytes);
        let model = model.map_err(|error| ("public model", None, error.to_string()))?;
        let stated = self.file.as_ref().map(|file| file.run().statement.model);
        if let Some(stated) = stated.filter(|stated| *stated != model.id()) {
            let reason = format!(
                "the proof is about model {stated}, and this is the public part of {}",
                model.id()
            );
            return Err(("model", None, reason));
        }
        let answer = json!({ "model": model.id().to_string(), "name": model.program().name });
        self.model = Some(model);
        Ok(answer)
    }

    fn registration(&mut self) -> Result<Value, Refused> {
        let model = self.model.as_ref().ok_or_else(out_of_order)?;
        let verdict = model.verify_registration();
        verdict.map_err(|error| ("registration", None, error.to_string()))?;
        self.is_registered = true;
        Ok(json!({}))
    }

    fn verify(&self) -> Result<Value, Refused> {
        let model = self.model.as_ref().filter(|_| self.is_registered);
        let (Some(model), Some(file)) = (model, &self.file) else {
            return Err(out_of_order());
        };
        let expected = ExpectedLines::read(&self.expected_bytes)?;
        expected.check(model, file)?;
        Ok(verdict(
            model,
            file,
            (self.model_bytes.len(), self.proof_bytes.len()),
        ))
    }
}

impl VerifySession {
    fn blocks(&self) -> Result<Value, Refused> {
        let unreadable = || ("domain", None, "the domain is not readable".to_owned());
        let domain = blocks::domain(&self.domain_bytes).ok_or_else(unreadable)?;
        let unnamed = || -> Refused {
            let reason = "the seats of the network are not readable".to_owned();
            ("seats", None, reason)
        };
        let seats = Some(&self.seats_bytes).filter(|bytes| !bytes.is_empty());
        let seats = seats.map(|bytes| blocks::seats(bytes).ok_or_else(unnamed));
        let seats = seats.transpose()?;
        let page = blocks::page(&self.blocks_bytes, &domain, seats.as_ref());
        page.map_err(|error| ("blocks", None, error.to_string()))
    }
}

fn out_of_order() -> Refused {
    let reason = "the steps before it were not taken".to_owned();
    ("order", None, reason)
}

/// What a proof must be about.
#[derive(Debug, Default)]
struct ExpectedLines {
    job: Option<JobId>,
    provider: Option<Address>,
    input: Option<Digest>,
    output: Option<Digest>,
}

impl ExpectedLines {
    fn read(bytes: &[u8]) -> Result<Self, Refused> {
        let wrong = || {
            let reason = "what the proof must be about is not readable".to_owned();
            ("expected", None, reason)
        };
        let mut expected = Self::default();
        let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
        for line in text.lines() {
            let (name, value) = line.split_once(' ').ok_or_else(wrong)?;
            match name {
                "job" => expected.job = Some(JobId::from_hex(value).ok_or_else(wrong)?),
                "provider" => expected.provider = Some(Address::from_hex(value).ok_or_else(wrong)?),
                "input" => expected.input = Some(Digest::from_hex(value).ok_or_else(wrong)?),
                "output" => expected.output = Some(Digest::from_hex(value).ok_or_else(wrong)?),
                _ => return Err(wrong()),
            }
        }
        Ok(expected)
    }

    fn check(&self, model: &PublicModel, file: &AnyFile) -> Result<(), Refused> {
        let Self {
            job,
            provider,
            input,
            output,
        } = *self;
        let statement = ExpectedStatement {
            job,
            provider,
            input,
            output,
        };
        let verdict = match (file, job, provider, input, output) {
            (AnyFile::Run(file), ..) => {
                tg_proof::verify(model, file, &statement).map_err(SequenceError::Proof)
            }
            // An order of a sequence names its request and its tokens, which are other digests than those of the proof.
            (AnyFile::Sequence(file), Some(job), Some(provider), Some(request), Some(written)) => {
                let expected = ExpectedSequence {
                    job,
                    provider,
                    request,
                    written,
                };
                verify_answer(model, file, &expected)
            }
            (AnyFile::Sequence(file), job, provider, None, None) => {
                let statement = ExpectedStatement {
                    job,
                    provider,
                    ..ExpectedStatement::default()
                };
                verify_sequence(model, file, &statement)
            }
            // Stops: a name that is not compared, for which any other sequence of the model would pass.
            (AnyFile::Sequence(_), ..) => {
                let reason = "the request or the tokens of a sequence are compared with its job and provider, \
                              all four or none of both";
                return Err(("expected", None, reason.to_owned()));
            }
        };
        verdict.map_err(|error| refusal(&error))
    }
}

fn refusal(error: &SequenceError) -> Refused {
    let of_proof = |error: &VerifyError| (error.check(), Some(error.code()), error.to_string());
    match error {
        SequenceError::Proof(error) => of_proof(error),
        error => ("sequence", Some(error.code()), error.to_string()),
    }
}

/// What was verified, and how surely.
fn verdict(
    model: &PublicModel,
    file: &AnyFile,
    (model_bytes, proof_bytes): (usize, usize),
) -> Value {
    let run = file.run();
    let statement = &run.statement;
    let modes = statement.modes();
    let batch = statement.batch as usize;
    let report = match statement.zk {
        Some(modes) => security::report_zk(model, batch, modes),
        None => security::report_batch(model, batch),
    };
    json!({
        "name": model.program().name,
        "model": model.id().to_string(),
        "program": model.program_id().to_string(),
        "job": statement.job.to_string(),
        "provider": statement.provider.to_string(),
        "inputs": statement.batch,
        "input": statement.input.to_string(),
        "output": statement.output.to_string(),
        "input_mode": word(modes.input),
        "output_mode": word(modes.output),
        "zk": statement.zk.is_some(),
        "private_weights": model.private_weights().is_some(),
        "model_bytes": model_bytes,
        "proof_bytes": proof_bytes,
        "security": report.as_ref().map(security_json),
        "answers": answers(model.program(), &run.output),
        "sequence": sequence(file),
    })
}

const fn word(mode: Visibility) -> &'static str {
    match mode {
        Visibility::Public => "public",
        Visibility::Committed => "committed",
        Visibility::Hidden => "hidden",
        Visibility::Each(_) => "mixed",
    }
}

fn security_json(report: &SecurityReport) -> Value {
    let terms = report.terms.iter();
    let terms = terms.map(|term| json!({ "label": term.label, "bits": term.bits }));
    let terms: Vec<Value> = terms.collect();
    json!({ "bits": report.bits, "bits_before": report.bits_before, "terms": terms })
}

/// The outputs as far as they are public, cut to [`SHOWN_MAX`] values each.
fn answers(program: &Program, output: &[u8]) -> Vec<Value> {
    let values = coding::output_of(program, output).unwrap_or_default();
    let answers = Answer::all(program, &values).into_iter();
    let answers = answers.filter(|_| !values.is_empty()).map(|answer| {
        let mut reals = answer.reals();
        let count = reals.len();
        reals.truncate(SHOWN_MAX);
        let name = answer.port().map(|port| port.name.clone());
        json!({ "name": name, "label": answer.label(), "values": reals, "count": count })
    });
    answers.collect()
}

/// The tokens of a sequence.
fn sequence(file: &AnyFile) -> Option<Value> {
    let AnyFile::Sequence(file) = file else {
        return None;
    };
    let (mut prompt, mut written) = file.tokens()?;
    let counts = (prompt.len(), written.len());
    prompt.truncate(SHOWN_MAX);
    written.truncate(SHOWN_MAX);
    let sampling = &file.generation.sampling;
    Some(json!({
        "prompt": prompt, "prompt_count": counts.0, "written": written, "written_count": counts.1,
        "limit": file.generation.limit, "keep": sampling.keep, "seed": hex(&sampling.seed),
    }))
}
