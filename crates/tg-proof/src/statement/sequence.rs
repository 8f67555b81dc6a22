//! Sequence files: that a model wrote a sequence. One proof of one execution over all of it, and how tokens were drawn.
//!
//! The proof says what the model gives at each position of the finished sequence. As its program is causal that is what it
//! gave when the next token was drawn, so that everything else is a computation on public data
//! ([`tg_ir::generation`]). The seed is part of what is claimed: whoever could choose it could choose among sequences.

use crate::statement::check::verify;
use crate::statement::file::{ExpectedStatement, Modes, PROOF_FILE_MAX, ProofFile, ProofFileError};
use crate::statement::model::PublicModel;
use crate::verify::{VerifyError, integers};
use tg_ir::request::written_bytes;
use tg_ir::{ElementType, Generation, Generator, causality};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Address, Digest, JobId};

/// Why a sequence is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// The model cannot generate.
    #[error("the model cannot generate")]
    Generator(#[from] tg_ir::generation::GeneratorError),
    /// The proof is not about one window of tokens that anybody can see.
    #[error("the proof is not about one public sequence of the model's length")]
    Statement,
    /// The tokens are not those that were drawn.
    #[error("the sequence was not written as stated")]
    Generation(#[from] tg_ir::generation::GenerationError),
    /// Another request was answered, or with other tokens.
    #[error("the sequence is not the one that the receipt names: {field}")]
    Receipt {
        /// What differs.
        field: &'static str,
    },
    /// The model does not give the scores from which they were drawn.
    #[error("the proof of the scores is rejected")]
    Proof(#[from] VerifyError),
}

const MAGIC: [u8; 4] = *b"TGS\0";
/// Version of the file format.
pub const SEQUENCE_FILE_VERSION: u16 = 1;
/// Most bytes of a sequence file: those of a proof file and what stands before it.
pub const SEQUENCE_FILE_MAX: usize = PROOF_FILE_MAX + 128;

/// A sequence that a model is said to have written, with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceFile {
    /// Which tokens were written, and how they were drawn.
    pub generation: Generation,
    /// The execution over the finished sequence.
    pub proof: ProofFile,
}

impl SequenceFile {
    /// Whether bytes begin as a sequence file does.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads a sequence file.
    ///
    /// # Errors
    /// If it is too large or not canonical.
    pub fn read(bytes: &[u8]) -> Result<Self, ProofFileError> {
        if bytes.len() > SEQUENCE_FILE_MAX {
            return Err(ProofFileError::TooLarge {
                got: bytes.len(),
                limit: SEQUENCE_FILE_MAX,
            });
        }
        Ok(Self::from_bytes(bytes)?)
    }

    /// The tokens that were given and those that were written; nothing if the file states more than it has.
    #[must_use]
    pub fn tokens(&self) -> Option<(Vec<u32>, Vec<u32>)> {
        let tokens = integers(ElementType::I32, &self.proof.input);
        let Generation {
            prompt, written, ..
        } = self.generation;
        let length = prompt.checked_add(written)?;
        let stated = tokens.get(..length as usize)?.iter();
        let mut given: Vec<u32> = stated.map(|it| it.cast_unsigned()).collect();
        let written = given.split_off(prompt as usize);
        Some((given, written))
    }
}

/// Checks that a model wrote a sequence: tokens first, which cost little, then the proof.
///
/// # Errors
/// The check that failed.
pub fn verify_sequence(
    model: &PublicModel,
    file: &SequenceFile,
    expected: &ExpectedStatement,
) -> Result<(), SequenceError> {
    let generator = Generator::of(model.program())?;
    let SequenceFile { generation, proof } = file;
    // Stops: several windows of which the tokens are read across, and one that the proof is not about.
    if proof.statement.batch != 1 || proof.statement.modes() != Modes::PUBLIC {
        return Err(SequenceError::Statement);
    }
    let [input, output] = [&proof.input, &proof.output];
    if input.len() != model.program().input_bytes()
        || output.len() != model.program().output_bytes()
    {
        return Err(SequenceError::Statement);
    }
    let [input, output] = [input, output].map(|bytes| integers(ElementType::I32, bytes));
    // Stops: tokens that the seed does not draw from the scores beside them.
    generation.check(&generator, &input, &output)?;
    // Stops: scores that the model does not give.
    Ok(verify(model, proof, expected)?)
}

/// What a receipt of a generation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedSequence {
    /// The job that the proof must name.
    pub job: JobId,
    /// The provider that the proof must name.
    pub provider: Address,
    /// Digest of the request, see [`tg_ir::GenerationRequest::to_input`].
    pub request: Digest,
    /// Digest of the tokens that were written, see [`written_bytes`].
    pub written: Digest,
}

/// Most steps of the analysis that shows a program causal, for a generation that is proved for a job: every validator takes
/// them. A hundredth of a second of one core.
pub const SEQUENCE_STEPS_MAX: u64 = 1 << 26;

/// Checks that a sequence is what a receipt names: the answer to its request, proved for its job.
///
/// # Errors
/// The check that failed.
pub fn verify_answer(
    model: &PublicModel,
    file: &SequenceFile,
    expected: &ExpectedSequence,
) -> Result<(), SequenceError> {
    let receipt = |field| SequenceError::Receipt { field };
    let program = model.program();
    // Stops: a program whose analysis costs validators seconds.
    if causality::steps(program) > SEQUENCE_STEPS_MAX {
        return Err(receipt("length of the program"));
    }
    if file.proof.input.len() != program.input_bytes() {
        return Err(SequenceError::Statement);
    }
    // Stops: a sequence that states more tokens than it has.
    let (prompt, written) = file.tokens().ok_or(SequenceError::Statement)?;
    let request = file.generation.request(prompt);
    let input = request.to_input(program.input_bytes());
    // Stops: the answer to another prompt, or drawn otherwise than was ordered.
    if input.map(|input| Digest::of_blob(&input)) != Some(expected.request) {
        return Err(receipt("request"));
    }
    // Stops: other tokens than those that are delivered.
    if Digest::of_blob(&written_bytes(&written)) != expected.written {
        return Err(receipt("tokens"));
    }
    let statement = ExpectedStatement {
        job: Some(expected.job),
        provider: Some(expected.provider),
        ..ExpectedStatement::default()
    };
    verify_sequence(model, file, &statement)
}

impl SequenceError {
    /// A stable number of the check that failed.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Proof(error) => error.code(),
            Self::Generator(_) => 70,
            Self::Statement => 71,
            Self::Generation(_) => 72,
            Self::Receipt { .. } => 73,
        }
    }
}

impl Encode for SequenceFile {
    fn encode(&self, writer: &mut Writer) {
        let Self { generation, proof } = self;
        writer.raw(&MAGIC);
        writer.u16(SEQUENCE_FILE_VERSION);
        generation.encode(writer);
        proof.encode(writer);
    }
}

impl Decode for SequenceFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = reader.array::<4>()?;
        if magic != MAGIC {
            return Err(DecodeError::Invalid {
                field: "sequence magic",
                value: u64::from(u32::from_le_bytes(magic)),
            });
        }
        let version = reader.u16()?;
        if version != SEQUENCE_FILE_VERSION {
            return Err(DecodeError::Invalid {
                field: "sequence file version",
                value: u64::from(version),
            });
        }
        Ok(Self {
            generation: Generation::decode(reader)?,
            proof: ProofFile::decode(reader)?,
        })
    }
}
