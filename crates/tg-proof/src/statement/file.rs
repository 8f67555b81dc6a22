//! Proof files: a statement, its public bytes and the proof. The evidence of a job verified by `zk` is one of these.

use crate::algebra::transcript::{PARTIAL, PROTOCOL_VERSION, ZK};
use crate::argument::commitment;
pub use crate::plan::cost::PROOF_FILE_MAX;
pub use crate::plan::modes::{Modes, PartModes, Visibility};
use crate::plan::parts::Parts;
use crate::verify::messages;
use crate::verify::zk::ZkProof;
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::{Address, Digest, JobId, ModelId, ProgramId, domain::Domain};

/// Why a proof file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofFileError {
    /// Larger than any proof may be.
    #[error("the proof file has {got} bytes, at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        got: usize,
        /// The limit.
        limit: usize,
    },
    /// Not the canonical encoding of a proof file.
    #[error("the proof file cannot be read")]
    Decode(#[from] DecodeError),
}

/// Version of the file format.
pub const PROOF_FILE_VERSION: u16 = 4;
/// The bits of a version that are modes.
const MODES: u16 = 0xf << 10;

/// What a proof is about. All of it is absorbed before the first challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement {
    /// The model.
    pub model: ModelId,
    /// The job, or zero for a proof made outside a grid.
    pub job: JobId,
    /// Who claims the work, or zero for a proof made outside a grid.
    pub provider: Address,
    /// How many inputs of the model this is about, at least one.
    pub batch: u32,
    /// BLAKE3 of the bytes of all inputs, one after the other; of their commitment; or zero if they are hidden.
    pub input: Digest,
    /// BLAKE3 of the bytes of all outputs, in the order of the inputs; of their commitment; or zero if they are hidden.
    pub output: Digest,
    /// The modes of a proof in zero knowledge, which hides everything between input and output; nothing for one in the
    /// clear. Bits of the version before the encoding ([`Statement::flags`]), and lists at its end where these say so.
    pub zk: Option<Modes>,
}

impl Statement {
    /// What it says of input and output.
    #[must_use]
    pub fn modes(&self) -> Modes {
        self.zk.unwrap_or(Modes::PUBLIC)
    }

    /// What is added to the versions of format and file: [`ZK`] and the modes, none for a proof in the clear.
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.zk.map_or(0, |modes| ZK | modes.bits())
    }

    /// What the transcript of a proof with certain parts about a program begins with: version, program, statement. Where
    /// weights or witness are not committed, how each is bound stands here in the place of its root.
    #[must_use]
    pub fn digest(&self, program: ProgramId, parts: Parts) -> Digest {
        let mut writer = Writer::new();
        let tags = parts.tags();
        let partial = if tags.is_some() { PARTIAL } else { 0 };
        writer.u16(PROTOCOL_VERSION | self.flags() | partial);
        program.encode(&mut writer);
        self.encode(&mut writer);
        if let Some(tags) = tags {
            writer.raw(&tags);
        }
        Digest::of(Domain::ProofTranscript, &writer.into_bytes())
    }
}

/// What a verifier expects of a statement. What is `None` may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectedStatement {
    /// The job.
    pub job: Option<JobId>,
    /// The provider.
    pub provider: Option<Address>,
    /// Digest of the input.
    pub input: Option<Digest>,
    /// Digest of the output.
    pub output: Option<Digest>,
}

impl ExpectedStatement {
    /// The first field in which a statement differs, for a model.
    #[must_use]
    pub fn mismatch(&self, model: ModelId, statement: &Statement) -> Option<&'static str> {
        let Self {
            job,
            provider,
            input,
            output,
        } = *self;
        let differs = [
            (statement.model != model, "model"),
            (job.is_some_and(|job| job != statement.job), "job"),
            (
                provider.is_some_and(|provider| provider != statement.provider),
                "provider",
            ),
            // Stops: a hidden tensor, whose digest is zero, or the digest of a commitment, for a job that names the digest of
            // bytes.
            (
                input.is_some_and(|input| {
                    statement.modes().input != Visibility::Public || input != statement.input
                }),
                "input",
            ),
            (
                output.is_some_and(|output| {
                    statement.modes().output != Visibility::Public || output != statement.output
                }),
                "output",
            ),
        ];
        differs
            .into_iter()
            .find_map(|(differs, field)| differs.then_some(field))
    }
}

/// A statement, the bytes it names, and the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProofFile {
    /// What is proved.
    pub statement: Statement,
    /// The inputs: one byte per i8 element, in storage order, one input after the other; their commitment; or nothing.
    pub input: Vec<u8>,
    /// The outputs, in the order of the inputs: one byte per i8 element or four (little-endian) per i32 element; their
    /// commitment; or nothing.
    pub output: Vec<u8>,
    /// The canonical bytes of an inference proof.
    pub proof: Vec<u8>,
}

impl ProofFile {
    /// Reads a proof file.
    ///
    /// # Errors
    /// If it is too large or not canonical.
    pub fn read(bytes: &[u8]) -> Result<Self, ProofFileError> {
        if bytes.len() > PROOF_FILE_MAX {
            return Err(ProofFileError::TooLarge {
                got: bytes.len(),
                limit: PROOF_FILE_MAX,
            });
        }
        Ok(Self::from_bytes(bytes)?)
    }
}

impl ProofFile {
    /// The root of the (first) witness commitment of a proof with certain parts, or nothing if it has none or is not
    /// canonical.
    pub(crate) fn witness_root(&self, parts: Parts) -> Option<Digest> {
        let witness = if self.statement.zk.is_some() {
            ZkProof::decode(&self.proof, parts)?.witness
        } else {
            messages::decode_inference(&self.proof, parts)?.witness?
        };
        Some(commitment::root(&witness))
    }
}

impl Encode for Statement {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            model,
            job,
            provider,
            batch,
            input,
            output,
            zk,
        } = self;
        model.encode(writer);
        job.encode(writer);
        provider.encode(writer);
        writer.u32(*batch);
        input.encode(writer);
        output.encode(writer);
        if let Some(modes) = zk {
            modes.encode_lists(writer);
        }
    }
}

impl Decode for Statement {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            model: ModelId::decode(reader)?,
            job: JobId::decode(reader)?,
            provider: Address::decode(reader)?,
            batch: reader.u32()?,
            input: Digest::decode(reader)?,
            output: Digest::decode(reader)?,
            zk: None,
        })
    }
}

impl Encode for ProofFile {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            statement,
            input,
            output,
            proof,
        } = self;
        writer.raw(b"TGE\0");
        writer.u16(PROOF_FILE_VERSION | statement.flags());
        statement.encode(writer);
        writer.bytes(input);
        writer.bytes(output);
        writer.bytes(proof);
    }
}

impl Decode for ProofFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let magic = reader.array::<4>()?;
        if &magic != b"TGE\0" {
            return Err(DecodeError::Invalid {
                field: "proof magic",
                value: u64::from(u32::from_le_bytes(magic)),
            });
        }
        let version = reader.u16()?;
        let is_zk = version & ZK != 0;
        let flags = if is_zk { ZK | MODES } else { 0 };
        if version & !flags != PROOF_FILE_VERSION {
            return Err(DecodeError::Invalid {
                field: "proof file version",
                value: u64::from(version),
            });
        }
        let statement = Statement::decode(reader)?;
        let zk = is_zk.then(|| Modes::decode(version, reader)).transpose()?;
        Ok(Self {
            statement: Statement { zk, ..statement },
            input: reader.bytes("input", PROOF_FILE_MAX)?.to_vec(),
            output: reader.bytes("output", PROOF_FILE_MAX)?.to_vec(),
            proof: reader.bytes("proof", PROOF_FILE_MAX)?.to_vec(),
        })
    }
}
