//! From the validators of genesis to the current ones: the header of the last block on which a set voted names the next set.

use super::page::FinalityProof;
use super::{AnswerError, BlockHeader, FinalityError, SEATS_MAX, TrustRoot};
use crate::{
    BlockId, Decode, DecodeError, Digest, Domain, Encode, Reader, Writer, fields, keccak256_of,
};

/// Most changes in one list.
pub const SEAT_CHANGES_MAX: usize = 16;

/// Bytes of a validator in a set: account, consensus key, stake.
const SEAT_BYTES: usize = 20 + 32 + 16;

/// Most bytes of a set.
pub(super) const SET_BYTES_MAX: usize = 4 + SEATS_MAX * SEAT_BYTES;

/// A change of the set of validators, with what shows it to somebody who knows the set before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatChange {
    /// What shows that the last block of the old set is final.
    pub proof: FinalityProof,
    /// The new set, whose digest stands in that block's header: the number of validators, and account, key and stake of each.
    pub seats: Vec<u8>,
}

/// Changes of the set of validators above some height, ascending; at most [`SEAT_CHANGES_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeatChanges(pub Vec<SeatChange>);

impl Encode for SeatChange {
    fn encode(&self, writer: &mut Writer) {
        let Self { proof, seats } = self;
        proof.encode(writer);
        writer.bytes(seats);
    }
}

impl Decode for SeatChange {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            proof: FinalityProof::decode(reader)?,
            seats: reader.bytes("seats", SET_BYTES_MAX)?.to_vec(),
        })
    }
}

impl Encode for SeatChanges {
    fn encode(&self, writer: &mut Writer) {
        writer.seq(&self.0);
    }
}

impl Decode for SeatChanges {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.seq(
            "changes of seats",
            SEAT_CHANGES_MAX,
            12,
        )?))
    }
}

/// One validator of a set.
struct SetMember {
    account: [u8; 20],
    key: [u8; 32],
    stake: u128,
}

fields! { SetMember { account, key, stake } }

impl TrustRoot {
    /// Who is trusted after a change, and the height of the last block of the old set.
    ///
    /// Somebody who held two thirds of a set may have left since, got its bond back, and signs another past for nothing: whoever
    /// knows genesis alone cannot tell. A set that was learnt within the time of unbonding is no such past ([`super::TrustedHead`]).
    ///
    /// # Errors
    /// [`AnswerError`] if a quorum of the present set does not show it.
    pub fn after(&self, change: &SeatChange) -> Result<(Self, u64), AnswerError> {
        let (root, header) = self.next(change)?;
        Ok((root, header.height.get()))
    }

    /// The same with the header of the last block of the old set.
    pub(super) fn next(&self, change: &SeatChange) -> Result<(Self, BlockHeader), AnswerError> {
        let header = change.proof.check(self)?;
        // Stops: a set of somebody's choice.
        if Digest::new(keccak256_of(Domain::SeatSet, &change.seats)) != header.seats {
            return Err(AnswerError::Seats);
        }
        let root = root_of(self.genesis(), &change.seats)?;
        Ok((root, header))
    }
}

/// Whom to trust in the network of a genesis while a set votes.
pub(super) fn root_of(genesis: BlockId, seats: &[u8]) -> Result<TrustRoot, FinalityError> {
    let malformed = |_| FinalityError::Malformed("the set of seats");
    let mut reader = Reader::new(seats);
    let members: Vec<SetMember> = reader
        .seq("validators", SEATS_MAX, SEAT_BYTES)
        .map_err(malformed)?;
    TrustRoot::new(genesis, members.iter().map(|it| it.key).collect())
}
