//! What a requestor checks by itself: a model, its own input, and the proof of a result. No I/O, so it builds for wasm32
//! too.
//!
//! A [`CheckedModel`] is the public part of a model whose registration proof was verified. It makes the input's bytes and the
//! order ([`OrderTerms`]), and checks the proof that comes back against what was ordered.

use std::time::Duration;

use tg_ir::coding::{self, EncodeError};
use tg_ir::request::written_tokens;
use tg_ir::{Answer, GenerationRequest, Generator, Program, causality};
use tg_proof::{
    ExpectedSequence, ExpectedStatement, ORDERED_STEPS_MAX, ProofFile, PublicModel, SequenceError,
    SequenceFile, VerifyError, verify_answer,
};
use tg_types::limits::{ATTEMPTS_USUAL, RETENTION_USUAL};
use tg_types::resources::REPLICAS_USUAL;
use tg_types::{
    Address, Amount, Digest, DurationMs, JobId, JobNeeds, JobOrder, ModelId, TimestampMs,
    VerificationMode,
};

/// Largest public model that is read, in bytes.
pub const PUBLIC_MODEL_BYTES_MAX: usize = 16 << 20;

/// How long a job may take unless an order says otherwise.
const DEADLINE_USUAL: Duration = Duration::from_secs(120);

/// Why a model or a result is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The bytes are no public model.
    #[error("read the public model")]
    Model(#[source] tg_proof::PublicModelError),
    /// The public part of another model.
    #[error("the public part is that of model {got}, and not of {expected}")]
    OtherModel {
        /// The model that was asked for.
        expected: ModelId,
        /// The one whose public part came.
        got: ModelId,
    },
    /// The weights that are committed to were not shown to be in range.
    #[error("verify the model's registration proof")]
    Registration(#[source] tg_proof::error::RegistrationError),
    /// The model cannot generate.
    #[error("the model cannot generate")]
    Generator(#[source] tg_ir::generation::GeneratorError),
    /// The prompt is too long for a request to the model.
    #[error("a request to the model has a prompt of 1 to {most} tokens, this one of {got}")]
    Prompt {
        /// Most.
        most: usize,
        /// Tokens of this one.
        got: usize,
    },
    /// The proof does not show the sequence.
    #[error("verify the proof of the sequence")]
    Sequence(#[source] SequenceError),
    /// The bytes are no proof file.
    #[error("read the proof")]
    ProofFile(#[source] tg_proof::ProofFileError),
    /// The proof does not show the result.
    #[error("verify the proof")]
    Proof(#[source] VerifyError),
    /// The output is not one of the model.
    #[error("the output has {bytes} bytes, which is no output of the model")]
    Output {
        /// Its length.
        bytes: usize,
    },
}

/// A model's public part with its registration proof verified.
#[derive(Debug)]
pub struct CheckedModel {
    public: PublicModel,
}

/// What a proof shows a language model to have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvedSequence {
    /// The tokens after the prompt.
    pub tokens: Vec<u32>,
    /// The scores from which each of them was drawn.
    pub scores: Vec<Vec<RankedScore>>,
}

/// One of the greatest scores that a model gives for a position, of which it gives the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankedScore {
    /// The token whose score it is.
    pub token: u32,
    /// The score, in units of the program ([`Generator::unit`]).
    pub score: i32,
}

/// The scores from which each written token was drawn: what the model gives at the position before it.
fn ranked_scores(
    values: &[i32],
    window: usize,
    (prompt, written): (usize, usize),
) -> Vec<Vec<RankedScore>> {
    let rows = values.chunks_exact((values.len() / window.max(1)).max(1));
    let before = rows.skip(prompt.saturating_sub(1)).take(written);
    let ranked = |row: &[i32]| {
        let (scores, tokens) = row.split_at(row.len() / 2);
        let pairs = scores.iter().zip(tokens);
        let ranked = pairs.map(|(&score, &token)| RankedScore {
            token: token.cast_unsigned(),
            score,
        });
        ranked.collect()
    };
    before.map(ranked).collect()
}

/// What a requestor pays at most, how long it waits, and what it asks of a machine.
#[derive(Debug, Clone, Copy)]
pub struct OrderTerms {
    /// How the result is checked.
    pub mode: VerificationMode,
    /// Most that is paid to the provider.
    pub max_price: Amount,
    /// How long the job may take, from the ledger's time on.
    pub deadline: Duration,
    /// Most leases: one, and one more after each that failed.
    pub max_attempts: u8,
    /// For how long validators keep the answer once it is paid; zero if they need not. Nothing of an endpoint is kept.
    pub retention: DurationMs,
    /// What it needs of a machine.
    pub needs: JobNeeds,
}

impl OrderTerms {
    /// A proof within two minutes, on any machine, with the usual number of attempts; its answer is kept for a day.
    #[must_use]
    pub const fn new(max_price: Amount) -> Self {
        Self {
            mode: VerificationMode::Proof,
            max_price,
            deadline: DEADLINE_USUAL,
            max_attempts: ATTEMPTS_USUAL,
            retention: RETENTION_USUAL,
            needs: JobNeeds::ANY_MACHINE,
        }
    }
}

impl OrderTerms {
    /// The order of an input for a model or a program, to be signed; `ledger_ms` is the grid's ledger time.
    #[must_use]
    pub fn order(self, model: ModelId, input: &[u8], ledger_ms: u64) -> JobOrder {
        let wait = u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX);
        let (input, input_len, retention) = match self.mode {
            // Inputs come with requests, and answers go to whoever asks.
            VerificationMode::Endpoint => (Digest::default(), 0, DurationMs::ZERO),
            _ => (
                Digest::of_blob(input),
                u32::try_from(input.len()).unwrap_or(u32::MAX),
                self.retention,
            ),
        };
        JobOrder {
            model,
            input,
            input_len,
            mode: self.mode,
            max_price: self.max_price,
            deadline: TimestampMs::new(ledger_ms.saturating_add(wait)),
            max_attempts: self.max_attempts,
            retention,
            needs: self.needs_of_mode(),
        }
    }

    /// What the job needs; of mode replicate, with the usual number of members if none is named.
    const fn needs_of_mode(&self) -> JobNeeds {
        match self.mode {
            VerificationMode::Replicate if self.needs.gang < 2 => JobNeeds {
                gang: REPLICAS_USUAL,
                ..self.needs
            },
            _ => self.needs,
        }
    }
}

/// What a proof must be about besides its model.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The job that was ordered.
    pub job: JobId,
    /// The provider that is paid for it.
    pub provider: Address,
    /// Digest of the input that was signed.
    pub input: Digest,
    /// Digest of the output that the grid accepted.
    pub output: Digest,
}

/// The output of a proof that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proved {
    /// The output's integers in storage order; [`CheckedModel::answer`] says what they mean.
    pub values: Vec<i32>,
    /// Whether the proof is in zero knowledge.
    pub zk: bool,
}

impl CheckedModel {
    /// Reads the bytes of a model's public part (`.tgv`), and verifies that it is that model's and that its weights are in
    /// range. Takes some milliseconds for a small model, up to some hundred for a large one.
    ///
    /// # Errors
    /// What does not hold.
    pub fn read(bytes: &[u8], id: ModelId) -> Result<Self, CheckError> {
        let public = PublicModel::decode(bytes).map_err(CheckError::Model)?;
        let got = public.id();
        if got != id {
            return Err(CheckError::OtherModel { expected: id, got });
        }
        public
            .verify_registration()
            .map_err(CheckError::Registration)?;
        Ok(Self { public })
    }

    /// The public part.
    #[must_use]
    pub const fn public(&self) -> &PublicModel {
        &self.public
    }

    /// The program: what the model computes, and what its inputs and outputs are called.
    #[must_use]
    pub const fn program(&self) -> &Program {
        self.public.program()
    }

    /// The bytes of an input, given as reals without axes: an image channels first, as ONNX has it, a sequence position by
    /// position.
    ///
    /// # Errors
    /// If there are more or fewer values than the model takes, or one is not finite or no token.
    pub fn input(&self, reals: &[f32]) -> Result<Vec<u8>, EncodeError> {
        let stored = coding::in_storage_order(self.program().input.shape, reals)?;
        self.stored_input(&stored)
    }

    /// The bytes of an input, given as reals in storage order (row, column, channel).
    ///
    /// # Errors
    /// If there are more or fewer values than the model takes, or one is no token.
    pub fn stored_input(&self, reals: &[f32]) -> Result<Vec<u8>, EncodeError> {
        coding::encode(&self.program().input, reals).map(|input| input.to_bytes())
    }

    /// What the model can write.
    ///
    /// Cost: that of [`tg_ir::causality::check`].
    ///
    /// # Errors
    /// If it cannot.
    pub fn generator(&self) -> Result<Generator, CheckError> {
        Generator::of(self.program()).map_err(CheckError::Generator)
    }

    /// Whether jobs write with the model. Validators find out whether it is causal before they take an order, which must not hold
    /// them up: what takes them longer (GPT-2 with more than some 500 places) is served by endpoints.
    #[must_use]
    pub fn is_written_by_jobs(&self) -> bool {
        causality::steps(self.program()) <= ORDERED_STEPS_MAX
    }

    /// The bytes of a request to generate, in the place of an input's.
    ///
    /// # Errors
    /// If its prompt is empty or too long.
    pub fn request(&self, request: &GenerationRequest) -> Result<Vec<u8>, CheckError> {
        let got = request.prompt.len();
        let most = GenerationRequest::prompt_max(self.program()).unwrap_or(0);
        let input = request.to_input(self.program().input_bytes());
        let input = input.filter(|_| got > 0);
        input.ok_or(CheckError::Prompt { most, got })
    }

    /// Verifies the bytes of a sequence file and gives what it proves to be the answer to a request.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check_sequence(
        &self,
        proof: &[u8],
        expected: Expected,
    ) -> Result<ProvedSequence, CheckError> {
        let file = SequenceFile::read(proof).map_err(CheckError::ProofFile)?;
        let Expected {
            job,
            provider,
            input,
            output,
        } = expected;
        let expected = ExpectedSequence {
            job,
            provider,
            request: input,
            written: output,
        };
        verify_answer(&self.public, &file, &expected).map_err(CheckError::Sequence)?;
        let values = self.output(&file.proof.output)?;
        let stated = file.tokens();
        let (prompt, tokens) = stated.ok_or(CheckError::Sequence(SequenceError::Statement))?;
        Ok(ProvedSequence {
            scores: ranked_scores(&values, self.window(), (prompt.len(), tokens.len())),
            tokens,
        })
    }

    /// Positions of the model's window.
    fn window(&self) -> usize {
        self.program().input.shape.pixels()
    }

    /// The tokens of an output that nothing proves.
    ///
    /// # Errors
    /// If the bytes are no tokens that the model could have written.
    pub fn written(&self, bytes: &[u8]) -> Result<Vec<u32>, CheckError> {
        let window = u32::try_from(self.window()).unwrap_or(u32::MAX);
        let tokens = written_tokens(bytes, window);
        tokens.ok_or(CheckError::Output { bytes: bytes.len() })
    }

    /// The order of an input or a request, to be signed; `ledger_ms` is the grid's ledger time.
    #[must_use]
    pub fn order(&self, input: &[u8], terms: OrderTerms, ledger_ms: u64) -> JobOrder {
        terms.order(self.public.id(), input, ledger_ms)
    }

    /// Verifies the bytes of a proof file and gives the output that it proves.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self, proof: &[u8], expected: Expected) -> Result<Proved, CheckError> {
        let Expected {
            job,
            provider,
            input,
            output,
        } = expected;
        let file = ProofFile::read(proof).map_err(CheckError::ProofFile)?;
        let statement = ExpectedStatement {
            job: Some(job),
            provider: Some(provider),
            input: Some(input),
            output: Some(output),
        };
        tg_proof::verify(&self.public, &file, &statement).map_err(CheckError::Proof)?;
        Ok(Proved {
            values: self.output(&file.output)?,
            zk: file.statement.zk.is_some(),
        })
    }

    /// The integers of the outputs that nothing proves, one output after the other.
    ///
    /// # Errors
    /// If the bytes are no output of the model.
    pub fn output(&self, bytes: &[u8]) -> Result<Vec<i32>, CheckError> {
        let values = coding::output_of(self.program(), bytes);
        values.ok_or(CheckError::Output { bytes: bytes.len() })
    }

    /// What the integers of the first output mean: reals in the order of the model's file, and the class that they choose.
    #[must_use]
    pub fn answer<'a>(&'a self, values: &'a [i32]) -> Answer<'a> {
        Answer::new(self.program(), values)
    }

    /// The same of all outputs, in order.
    #[must_use]
    pub fn answers<'a>(&'a self, values: &'a [i32]) -> Vec<Answer<'a>> {
        Answer::all(self.program(), values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_was_drawn_from_the_scores_before_it() {
        // Four positions of two ranks each: the scores, then their tokens.
        let values = [[9, 8, 0, 1], [7, 6, 2, 3], [5, 4, 4, 5], [3, 2, 6, 7]].concat();
        let of = |prompt, written| ranked_scores(&values, 4, (prompt, written));
        let row = |pairs: [(u32, i32); 2]| -> Vec<RankedScore> {
            let ranked = pairs.map(|(token, score)| RankedScore { token, score });
            ranked.to_vec()
        };
        assert_eq!(of(2, 2), [row([(2, 7), (3, 6)]), row([(4, 5), (5, 4)])]);
        assert_eq!(of(1, 1), [row([(0, 9), (1, 8)])]);
        assert_eq!(
            ranked_scores(&[], 4, (1, 1)),
            Vec::<Vec<RankedScore>>::new()
        );
    }
}
