//! Votes of a committee on parts of an execution. Each vote is committed to first and opened later, so that no member can
//! copy another's.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::domain::Domain;
use crate::fields;
use crate::id::{Address, JobId, LeaseId};
use crate::mode::VerificationMode;

/// What a member of a committee found when it computed the drawn tiles of an execution again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vote {
    /// Every drawn tile is what the program gives.
    Right {
        /// Of what was computed to find it: members that computed have the same.
        checksum: u64,
    },
    /// The evidence is not an opening of what was drawn: another answer, other digests, or leaves that are missing.
    WrongForm,
    /// An element of a tile is wrong.
    WrongTile(TileName),
    /// A run again gives another answer, another trace or another bill.
    WrongRun,
}

/// The name of a tile: a leaf of 1 KiB of what a node of the program gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TileName {
    /// Index of the node, below 2^32 - 1.
    pub node: u32,
    /// Index of the leaf.
    pub leaf: u32,
}

impl Vote {
    /// The kind of the vote as one number: 0 is right, 1 another form, 2 another run, and a tile is `(node + 1) * 2^32 + leaf`.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Right { .. } => 0,
            Self::WrongForm => 1,
            Self::WrongRun => 2,
            Self::WrongTile(TileName { node, leaf }) => (node as u64 + 1) << 32 | leaf as u64,
        }
    }

    /// Whether nothing wrong was found.
    #[must_use]
    pub const fn is_right(self) -> bool {
        matches!(self, Self::Right { .. })
    }

    /// What shows that the member computed; 0 where it names what is wrong.
    #[must_use]
    pub const fn checksum(self) -> u64 {
        match self {
            Self::Right { checksum } => checksum,
            Self::WrongForm | Self::WrongTile(_) | Self::WrongRun => 0,
        }
    }

    /// The vote of a number, with a checksum if it is right.
    #[must_use]
    pub fn from_number(number: u64, checksum: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Right { checksum }),
            1 => Some(Self::WrongForm),
            2 => Some(Self::WrongRun),
            _ => Some(Self::WrongTile(TileName {
                node: u32::try_from((number >> 32).checked_sub(1)?).ok()?,
                leaf: u32::try_from(number & u64::from(u32::MAX)).ok()?,
            })),
        }
    }
}

impl std::fmt::Display for Vote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Right { .. } => f.write_str("right"),
            Self::WrongForm => f.write_str("not an opening of the drawn tiles"),
            Self::WrongTile(tile) => write!(f, "{tile} is wrong"),
            Self::WrongRun => f.write_str("a run again gives something else"),
        }
    }
}

impl std::fmt::Display for TileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tile {} of node {}", self.leaf, self.node)
    }
}

impl Encode for Vote {
    fn encode(&self, writer: &mut Writer) {
        writer.u64(self.number());
        if let Self::Right { checksum } = self {
            writer.u64(*checksum);
        }
    }
}

impl Decode for Vote {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u64()?;
        let checksum = match number {
            0 => reader.u64()?,
            _ => 0,
        };
        Self::from_number(number, checksum).ok_or(DecodeError::Invalid {
            field: "vote",
            value: number,
        })
    }
}

fields! { TileName { node, leaf } }

/// A vote that nobody can read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedVote {
    /// The lease whose result it is about.
    pub lease: LeaseId,
    /// [`vote_commitment`].
    pub commitment: Digest,
}

/// A vote with what sealed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedVote {
    /// The lease whose result it is about.
    pub lease: LeaseId,
    /// The vote.
    pub vote: Vote,
    /// What hid it.
    pub salt: Digest,
}

fields! { SealedVote { lease, commitment } }
fields! { OpenedVote { lease, vote, salt } }

impl OpenedVote {
    /// The vote of `member`, sealed.
    #[must_use]
    pub fn sealed(&self, member: &Address) -> SealedVote {
        SealedVote {
            lease: self.lease,
            commitment: vote_commitment(self, member),
        }
    }
}

/// What a sealed vote commits to: without the salt nobody reads it, and it is void for any other member.
#[must_use]
pub fn vote_commitment(opened: &OpenedVote, member: &Address) -> Digest {
    let mut writer = Writer::new();
    member.encode(&mut writer);
    opened.encode(&mut writer);
    Digest::of(Domain::TileVote, &writer.into_bytes())
}

/// What a provider commits to instead of its trace where whoever checks runs all of it again, so that only who did that can open it:
/// 24 bytes of a hash, and the bill in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunCommitment {
    hash: [u8; 24],
    /// What the run took, in units of the program's limit.
    pub work: u64,
}

impl RunCommitment {
    /// The commitment of a run for a lease: to the first 8 bytes of its trace, and to what it took.
    #[must_use]
    pub fn of(lease: &LeaseId, checksum: u64, work: u64) -> Self {
        let mut writer = Writer::new();
        lease.encode(&mut writer);
        writer.u64(checksum);
        writer.u64(work);
        Self::of_trace(
            &Digest::of(Domain::RunCommitment, &writer.into_bytes()),
            work,
        )
    }

    /// The commitment to a run in a tier that counts its work: to the first 24 bytes of a trace, which the evidence opens,
    /// and to what it took. Two traces with the same take about 2^96 hashes.
    #[must_use]
    pub fn of_trace(trace: &Digest, work: u64) -> Self {
        let mut hash = [0; 24];
        hash.copy_from_slice(&trace.as_bytes()[..24]);
        Self { hash, work }
    }

    /// The same commitment for one lease of mode `sync`, as its receipt has it. Stops: a provider that was given a lease on an input of which
    /// another one has shown a run whole, and sends that one's receipt as its own: from it follows none for its own lease.
    #[must_use]
    pub fn for_lease(&self, lease: &LeaseId) -> Self {
        let mut writer = Writer::new();
        lease.encode(&mut writer);
        self.digest().encode(&mut writer);
        let digest = Digest::of(Domain::PartsCommitment, &writer.into_bytes());
        Self::of_trace(&digest, self.work)
    }

    /// The commitment of a run of mode `replicate`: that of all members of a job, so that they can be compared.
    #[must_use]
    pub fn of_replica(job: &JobId, checksum: u64, work: u64) -> Self {
        Self::of(&LeaseId::new(*job.as_bytes()), checksum, work)
    }

    /// The commitment in the place of a receipt's trace; any bytes are one.
    #[must_use]
    pub fn read(trace: &Digest) -> Self {
        let (mut hash, mut work) = ([0; 24], [0; 8]);
        hash.copy_from_slice(&trace.as_bytes()[..24]);
        work.copy_from_slice(&trace.as_bytes()[24..]);
        let work = u64::from_le_bytes(work);
        Self { hash, work }
    }

    /// What stands in the place of a receipt's trace.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = [0; 32];
        bytes[..24].copy_from_slice(&self.hash);
        bytes[24..].copy_from_slice(&self.work.to_le_bytes());
        Digest::new(bytes)
    }

    /// Whether a checksum opens it.
    #[must_use]
    pub fn is_opened_by(&self, lease: &LeaseId, checksum: u64) -> bool {
        *self == Self::of(lease, checksum, self.work)
    }
}

/// What a receipt has in the place of the trace of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceForm {
    /// The trace.
    Trace,
    /// What opens the drawn parts of the run: of a model of integers the trace, in tiers that count work a commitment of the lease to what each part gave.
    Parts,
    /// A [`RunCommitment`] of the lease, which only who runs all of it again can open.
    Run,
    /// Zeros: whatever is said of a run that is sealed lets others try out what its input was.
    Nothing,
    /// A [`RunCommitment`] of the job, which all who run it have in common, so that they can be compared.
    Replica,
}

impl TraceForm {
    /// What the receipts of a mode have; of mode `sync` it depends on whether a committee runs the model whole.
    #[must_use]
    pub const fn of(mode: VerificationMode, is_run_whole: bool) -> Self {
        match mode {
            VerificationMode::Optimistic => Self::Run,
            VerificationMode::Sync if is_run_whole => Self::Run,
            VerificationMode::Sync => Self::Parts,
            VerificationMode::Replicate => Self::Replica,
            VerificationMode::None
            | VerificationMode::Proof
            | VerificationMode::Recompute
            | VerificationMode::Endpoint => Self::Trace,
            VerificationMode::Sealed => Self::Nothing,
        }
    }
}

/// What a receipt says of the trace of a run that took `work` of its limit, 0 in a tier that does not count that.
#[must_use]
pub fn stated_trace(
    form: TraceForm,
    (job, lease): (&JobId, &LeaseId),
    trace: Digest,
    work: u64,
) -> Digest {
    match form {
        TraceForm::Run => RunCommitment::of(lease, trace_checksum(&trace), work).digest(),
        TraceForm::Replica => RunCommitment::of_replica(job, trace_checksum(&trace), work).digest(),
        TraceForm::Trace | TraceForm::Parts => trace,
        TraceForm::Nothing => Digest::default(),
    }
}

/// What of a trace whoever ran the program shows.
#[must_use]
pub fn trace_checksum(trace: &Digest) -> u64 {
    trace.first_word()
}
