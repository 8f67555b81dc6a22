//! Finality certificates: the votes of n - f seats for one block, decoded and checked as consensus checks them.
//!
//! Consensus is commonware's simplex with ed25519 votes; this is its encoding of a `Finalization`, read without the library:
//! proposal (epoch, view and the parent's view as LEB128 numbers, then the block's id), the number of seats (eight bytes, big-endian), a bit for each
//! seat (the lowest first), the number of signatures (LEB128) and the signatures, each of 64 bytes, in the order of the bits. A
//! seat signs LEB128(length of the namespace), the namespace and the proposal; the namespace is the purpose of votes, the id of
//! genesis and `_FINALIZE`. Signatures are checked by ZIP 215, as the library does: what one verifier of the network takes, all take.

use super::vote::{SignedVote, VoteKind, is_signature, signed_vote};
use crate::BlockId;

/// Most seats of a network.
pub const SEATS_MAX: usize = 1_024;

/// What a client trusts to begin with: a network and who votes in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRoot {
    genesis: BlockId,
    /// Consensus keys, ascending.
    seats: Vec<[u8; 32]>,
}

/// Seats that signed, ascending by their places in the order of keys, each with its signature.
pub(super) type SeatSignatures = Vec<(usize, [u8; 64])>;

/// The votes that made a block final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalityCertificate {
    /// The block and where it stands in consensus.
    pub finality: Finality,
    /// Of how many seats the votes are.
    seats: usize,
    /// Which seats signed.
    votes: SeatSignatures,
}

/// What the seats signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finality {
    /// The consensus epoch.
    pub epoch: u64,
    /// The view in which the block was proposed.
    pub view: u64,
    /// The view of the block before it.
    pub parent_view: u64,
    /// The block.
    pub block: BlockId,
}

/// Why a certificate shows nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FinalityError {
    /// The bytes are no certificate.
    #[error("the bytes are no certificate of votes: {0}")]
    Malformed(&'static str),
    /// It is one of a network with another number of seats.
    #[error("the certificate is of {got} seats, the network has {expected}")]
    Seats {
        /// The network's.
        expected: usize,
        /// The certificate's.
        got: usize,
    },
    /// Too few seats signed.
    #[error("{got} seats signed, {needed} are needed")]
    Quorum {
        /// How many must.
        needed: usize,
        /// How many did.
        got: usize,
    },
    /// A signature is not the seat's.
    #[error("the signature of seat {seat} does not hold")]
    Signature {
        /// The seat, in the order of keys.
        seat: usize,
    },
}

const CUT: FinalityError = FinalityError::Malformed("it ends early");

impl TrustRoot {
    /// A network by the id of its genesis and the consensus keys of its seats.
    ///
    /// # Errors
    /// [`FinalityError::Malformed`] without a seat, with more than [`SEATS_MAX`], or with one key twice.
    pub fn new(genesis: BlockId, mut seats: Vec<[u8; 32]>) -> Result<Self, FinalityError> {
        seats.sort_unstable();
        if seats.is_empty() || seats.len() > SEATS_MAX {
            return Err(FinalityError::Malformed("the number of seats"));
        }
        if seats.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(FinalityError::Malformed("a seat twice"));
        }
        Ok(Self { genesis, seats })
    }

    /// The id of genesis.
    #[must_use]
    pub const fn genesis(&self) -> BlockId {
        self.genesis
    }

    /// The consensus keys, ascending.
    #[must_use]
    pub fn seats(&self) -> &[[u8; 32]] {
        &self.seats
    }

    /// Votes that make a block final: all but the faults that n seats bear, (n - 1) / 3.
    #[must_use]
    pub const fn quorum(&self) -> usize {
        let seats = self.seats.len();
        seats - (seats - 1) / 3
    }

    /// What a certificate makes final.
    ///
    /// # Errors
    /// [`FinalityError`] if the bytes are no certificate of this network's seats.
    pub fn check(&self, bytes: &[u8]) -> Result<Finality, FinalityError> {
        let certificate = FinalityCertificate::read(bytes)?;
        let (expected, got) = (self.seats.len(), certificate.seats);
        // Stops: votes of one network, or of another set of seats, counted in this one.
        if expected != got {
            return Err(FinalityError::Seats { expected, got });
        }
        let (needed, got) = (self.quorum(), certificate.votes.len());
        // Stops: fewer votes than cannot all be faulty beside another quorum.
        if got < needed {
            return Err(FinalityError::Quorum { needed, got });
        }
        let signed = certificate.finality.signed_bytes(&self.genesis);
        for (seat, signature) in &certificate.votes {
            // Stops: votes that a seat never cast.
            if !is_signature(&self.seats[*seat], signature, &signed) {
                return Err(FinalityError::Signature { seat: *seat });
            }
        }
        Ok(certificate.finality)
    }
}

impl Finality {
    /// What a seat signs in the network of a genesis.
    fn signed_bytes(&self, genesis: &BlockId) -> Vec<u8> {
        let Self {
            epoch,
            view,
            parent_view,
            block,
        } = *self;
        let vote = SignedVote {
            kind: VoteKind::Finalize,
            epoch,
            view,
            parent_view,
            block,
            signature: [0; 64],
        };
        signed_vote(genesis, &vote)
    }
}

impl FinalityCertificate {
    /// Reads a certificate; no signature is checked. Takes at most 72 bytes of memory for each of the input.
    ///
    /// # Errors
    /// [`FinalityError::Malformed`].
    pub fn read(bytes: &[u8]) -> Result<Self, FinalityError> {
        let mut rest = bytes;
        let [epoch, view, parent_view] = [
            read_number(&mut rest)?,
            read_number(&mut rest)?,
            read_number(&mut rest)?,
        ];
        let block = BlockId::new(take(&mut rest)?);
        let (seats, votes) = read_signatures(rest)?;
        let finality = Finality {
            epoch,
            view,
            parent_view,
            block,
        };
        Ok(Self {
            finality,
            seats,
            votes,
        })
    }
}

/// The rest of a certificate, after what its seats signed: of how many seats it is, and who of them signed.
pub(super) fn read_signatures(mut rest: &[u8]) -> Result<(usize, SeatSignatures), FinalityError> {
    let seats = usize::try_from(u64::from_be_bytes(take(&mut rest)?))
        .ok()
        .filter(|seats| *seats <= SEATS_MAX)
        .ok_or(FinalityError::Malformed("the number of seats"))?;
    let (bits, after) = rest.split_at_checked(seats.div_ceil(8)).ok_or(CUT)?;
    rest = after;
    let signed: Vec<usize> = (0..8 * bits.len())
        .filter(|seat| bits[seat / 8] >> (seat % 8) & 1 == 1)
        .collect();
    if signed.last().is_some_and(|last| *last >= seats) {
        return Err(FinalityError::Malformed("a vote of no seat"));
    }
    if read_number(&mut rest)? != signed.len() as u64 || signed.is_empty() {
        return Err(FinalityError::Malformed("the number of signatures"));
    }
    let signatures = signed
        .into_iter()
        .map(|seat| Ok((seat, take(&mut rest)?)))
        .collect::<Result<_, FinalityError>>()?;
    if !rest.is_empty() {
        return Err(FinalityError::Malformed("bytes follow it"));
    }
    Ok((seats, signatures))
}

pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], FinalityError> {
    let (first, rest) = bytes.split_first_chunk().ok_or(CUT)?;
    *bytes = rest;
    Ok(*first)
}

/// A LEB128 number: seven bits a byte, the lowest first; one number has one encoding.
pub(super) fn read_number(bytes: &mut &[u8]) -> Result<u64, FinalityError> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let [byte] = take(bytes)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
            return Err(FinalityError::Malformed("a number"));
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(FinalityError::Malformed("a number"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::vote::write_number;
    use super::*;

    #[test]
    fn numbers_have_one_encoding() {
        for number in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            write_number(number, &mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!(read_number(&mut rest), Ok(number));
            assert!(rest.is_empty());
        }
        for bytes in [&[0x80, 0][..], &[0x80], &[], &[0xff; 10], &[0xff; 11]] {
            assert!(read_number(&mut &*bytes).is_err(), "{bytes:?}");
        }
    }
}
