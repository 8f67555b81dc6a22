//! Claim files: what somebody says that a right run of a lease gives, and where that is wrong.
//!
//! The two files of a dispute about a run that is too long for every validator to repeat ([`tg_ir::tiles`], "claim"). Whoever accuses hands in
//! an [`AccuserClaim`]: the answer of a right run, and the leaves of all that its nodes give. The provider hands in a [`FaultFile`]: that the
//! claim is no claim, or the first tile of it that is wrong, with what that reads. Everybody else decides by [`claim_fails`], which computes
//! one tile.

use tg_ir::tiles::{
    self, ExecutionClaim, ReadOpening, TileFault, TraceLeaves, TraceTile, is_refuted,
};
use tg_ir::{ExecutableModel, IntTensor, TensorId};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, Writer};
use tg_types::limits::EVIDENCE_BYTES_MAX;
use tg_types::{Digest, LeaseId, Receipt, RunCommitment, TileName, trace_checksum};

use crate::statement::trace::{TraceFileError, TracedSequence, stated};

const CLAIM_MAGIC: [u8; 4] = *b"TGC\0";
const FAULT_MAGIC: [u8; 4] = *b"TGW\0";
/// Version of both formats.
pub const CLAIM_FILE_VERSION: u16 = 1;

/// What a right run gives, as somebody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFile {
    /// The sequence, if one was ordered.
    pub sequence: Option<TracedSequence>,
    /// The bytes of the program's outputs.
    pub output: Vec<u8>,
    /// The leaves of what all nodes give.
    pub leaves: TraceLeaves,
}

/// What an accuser says of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccuserClaim {
    /// The model does not run on what was ordered, so that no receipt is right.
    NoRun,
    /// A right run gives this.
    Run(ClaimFile),
}

/// What is wrong with a claim, as the one that is accused says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultFile {
    /// The claim is about something else, or says the same as the receipt: everybody sees that of the claim alone.
    Claim,
    /// A tile is not what its operator gives.
    Tile {
        /// Which.
        tile: TileName,
        /// What it reads.
        reads: ReadOpening,
    },
}

/// What a claim must be about.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedClaim<'a> {
    /// The lease.
    pub lease: &'a LeaseId,
    /// The bytes that the order names as input.
    pub input: &'a [u8],
    /// What the provider committed to.
    pub receipt: &'a Receipt,
}

/// Why a claim accuses nobody, whatever its tiles are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimFileError {
    /// The bytes are no claim file.
    #[error("the claim is no claim file")]
    Decode(#[from] DecodeError),
    /// It is not about the order's input, or not of the kind that was ordered.
    #[error(transparent)]
    Stated(#[from] TraceFileError),
    /// The leaves are not as many as the program's tensors have.
    #[error("the claim has not the leaves of the program's tensors")]
    Leaves,
    /// The output is not what the claimed tensors end with.
    #[error(transparent)]
    Output(#[from] TileFault),
    /// That the model does not run on what was ordered: that is seen without a tile.
    #[error("the claim is that the model does not run on what was ordered")]
    NoRun,
    /// The claimed run is the one that the receipt is about.
    #[error("the claim says the same as the receipt")]
    SameRun,
}

/// A claim that is one: what was executed, and the names of what all nodes give.
#[derive(Debug)]
pub struct AccusingClaim {
    /// The claim.
    pub file: ClaimFile,
    /// The program's input.
    pub input: IntTensor,
    /// The names of what all nodes give.
    pub names: Vec<Digest>,
}

impl ClaimFile {
    /// The claim that an execution is right: `tensors` is the input and the output of every node.
    ///
    /// # Panics
    /// If these are not the tensors of an execution of the model.
    #[must_use]
    pub fn of(
        model: &ExecutableModel,
        tensors: &[IntTensor],
        generation: Option<tg_ir::Generation>,
    ) -> Self {
        let outputs = model.program.outputs().into_iter();
        Self {
            sequence: generation.map(|generation| TracedSequence {
                generation,
                tokens: tensors[TensorId::INPUT.index()].to_bytes(),
            }),
            output: outputs
                .flat_map(|output| tensors[output.index()].to_bytes())
                .collect(),
            leaves: TraceLeaves::of(tensors),
        }
    }
}

/// Reads a claim against what was ordered and what the provider committed to. Total; hashes 64 bytes for each leaf.
///
/// # Errors
/// Why it accuses nobody.
pub fn read_claim(
    model: &ExecutableModel,
    claim: &[u8],
    expected: ExpectedClaim<'_>,
) -> Result<AccusingClaim, ClaimFileError> {
    let AccuserClaim::Run(file) = AccuserClaim::from_bytes(claim)? else {
        return Err(ClaimFileError::NoRun);
    };
    let program = &model.program;
    let (input, answer) = stated(
        program,
        file.sequence.as_ref(),
        &file.output,
        expected.input,
    )?;
    let names = file.leaves.names(program).ok_or(ClaimFileError::Leaves)?;
    let trace = tiles::root(&names);
    let said = ExecutionClaim {
        input: &input,
        output: &file.output,
        trace,
    };
    said.check_output(program, &names)?;
    let commitment = RunCommitment::of(expected.lease, trace_checksum(&trace), 0);
    // Stops: an accusation that says nothing else than the receipt, which nothing could refute.
    if Digest::of_blob(&answer) == expected.receipt.output
        && commitment.digest() == expected.receipt.trace
    {
        return Err(ClaimFileError::SameRun);
    }
    Ok(AccusingClaim { file, input, names })
}

/// What an execution on the input of a claim shows of it; nothing if the claim is right. `tensors` is the input and the output of every node.
///
/// # Panics
/// If these are not the tensors of an execution of the model on the claim's input.
#[must_use]
pub fn fault_of(
    model: &ExecutableModel,
    claim: &AccusingClaim,
    tensors: &[IntTensor],
) -> Option<FaultFile> {
    let own = TraceLeaves::of(tensors);
    let tile = own.first_difference(&claim.file.leaves, &model.program)?;
    Some(FaultFile::Tile {
        tile: TileName {
            node: tile.node,
            leaf: tile.leaf,
        },
        reads: ReadOpening::of(model, tensors, tile),
    })
}

/// Whether an accusation fails: its claim is none, or what the accused handed in shows a tile of it that is wrong. `runs` says whether the
/// model runs on what was ordered. Total, for any bytes. Takes what reading both takes, and a few nanoseconds for each multiply-add of one
/// tile.
#[must_use]
pub fn claim_fails(
    model: &ExecutableModel,
    (claim, fault): (&[u8], &[u8]),
    expected: ExpectedClaim<'_>,
    runs: impl FnOnce() -> bool,
) -> bool {
    let claim = match read_claim(model, claim, expected) {
        Ok(claim) => claim,
        Err(ClaimFileError::NoRun) => return runs(),
        Err(_) => return true,
    };
    match FaultFile::from_bytes(fault) {
        Ok(FaultFile::Tile { tile, reads }) => {
            let TileName { node, leaf } = tile;
            let said = (&claim.file.leaves, claim.names);
            is_refuted(model, &claim.input, said, TraceTile { node, leaf }, reads)
        }
        Ok(FaultFile::Claim) | Err(_) => false,
    }
}

fn head(reader: &mut Reader<'_>, magic: [u8; 4], field: &'static str) -> Result<(), DecodeError> {
    let found = reader.array::<4>()?;
    let version = reader.u16()?;
    let value = match found == magic {
        true if version == CLAIM_FILE_VERSION => return Ok(()),
        true => u64::from(version),
        false => u64::from(u32::from_le_bytes(found)),
    };
    Err(DecodeError::Invalid { field, value })
}

impl Encode for AccuserClaim {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&CLAIM_MAGIC);
        writer.u16(CLAIM_FILE_VERSION);
        match self {
            Self::NoRun => writer.u8(0),
            Self::Run(file) => {
                writer.u8(1);
                file.encode(writer);
            }
        }
    }
}

impl Decode for AccuserClaim {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        head(reader, CLAIM_MAGIC, "head of a claim file")?;
        match reader.flag("a run")? {
            false => Ok(Self::NoRun),
            true => Ok(Self::Run(ClaimFile::decode(reader)?)),
        }
    }
}

impl Encode for ClaimFile {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            sequence,
            output,
            leaves,
        } = self;
        TracedSequence::encode_some(sequence.as_ref(), writer);
        writer.bytes(output);
        leaves.encode(writer);
    }
}

impl Decode for ClaimFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            sequence: TracedSequence::decode_some(reader)?,
            output: reader
                .bytes("output", EVIDENCE_BYTES_MAX as usize)?
                .to_vec(),
            leaves: TraceLeaves::decode(reader)?,
        })
    }
}

impl Encode for FaultFile {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&FAULT_MAGIC);
        writer.u16(CLAIM_FILE_VERSION);
        match self {
            Self::Claim => writer.u8(0),
            Self::Tile { tile, reads } => {
                writer.u8(1);
                tile.encode(writer);
                reads.encode(writer);
            }
        }
    }
}

impl Decode for FaultFile {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        head(reader, FAULT_MAGIC, "head of a fault file")?;
        match reader.flag("a tile")? {
            false => Ok(Self::Claim),
            true => Ok(Self::Tile {
                tile: TileName::decode(reader)?,
                reads: ReadOpening::decode(reader)?,
            }),
        }
    }
}
