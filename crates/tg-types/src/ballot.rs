//! Votes of a committee on parts of an execution: sealed first, then opened, so that nobody copies another's.

use crate::codec::{Decode, DecodeError, Encode, Reader, Writer};
use crate::digest::Digest;
use crate::domain::Domain;
use crate::fields;
use crate::id::{Address, LeaseId};

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
    /// The kind of the vote as one number: 0 is right, 1 another form, and a tile is `(node + 1) * 2^32 + leaf`.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Right { .. } => 0,
            Self::WrongForm => 1,
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
            Self::WrongForm | Self::WrongTile(_) => 0,
        }
    }

    /// The vote of a number, with a checksum if it is right.
    #[must_use]
    pub fn from_number(number: u64, checksum: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Right { checksum }),
            1 => Some(Self::WrongForm),
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
