//! What a validator stores of a round on its disk.

use std::fmt;

use tg_types::{Decode, DecodeError, Encode, Reader, Writer};

use crate::wire::{DealtShare, SEED_PARTICIPANTS_MAX};

/// Version of the bytes.
const VERSION: u8 = 1;

/// Bytes of a dealing that was received.
const RECEIVED_BYTES: usize = 32 + 32 + 32 + 64;

/// What a dealer's polynomial is drawn from. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct DealerSecret(pub(super) [u8; 32]);

impl fmt::Debug for DealerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DealerSecret(..)")
    }
}

/// What of a round must survive a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptRound {
    /// The number of the round.
    pub(super) number: u64,
    /// The network: the bytes of another one mean nothing.
    pub(super) network: [u8; 32],
    /// The digest of its participants.
    pub(super) participants: [u8; 32],
    /// What the validator's polynomial is drawn from; none if it does not deal in the round.
    pub(super) secret: Option<DealerSecret>,
    /// The dealings that it acknowledged.
    pub(super) received: Vec<Received>,
}

/// A dealing that was received, checked and acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Received {
    /// The dealer's key.
    pub(super) dealer: [u8; 32],
    /// The BLAKE3 of the points: the log on the chain has the points themselves.
    pub(super) commitment: [u8; 32],
    /// This validator's share.
    pub(super) share: DealtShare,
    /// The signature that says so.
    pub(super) acknowledgement: [u8; 64],
}

impl Encode for Received {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            dealer,
            commitment,
            share,
            acknowledgement,
        } = self;
        writer.raw(dealer);
        writer.raw(commitment);
        writer.raw(&share.0);
        writer.raw(acknowledgement);
    }
}

impl Decode for Received {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            dealer: reader.array()?,
            commitment: reader.array()?,
            share: DealtShare(reader.array()?),
            acknowledgement: reader.array()?,
        })
    }
}

impl Encode for KeptRound {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            number,
            network,
            participants,
            secret,
            received,
        } = self;
        writer.u8(VERSION);
        writer.u64(*number);
        writer.raw(network);
        writer.raw(participants);
        writer.u8(u8::from(secret.is_some()));
        if let Some(secret) = secret {
            writer.raw(&secret.0);
        }
        writer.seq(received);
    }
}

impl Decode for KeptRound {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let version = reader.u8()?;
        if version != VERSION {
            return Err(DecodeError::Invalid {
                field: "version of the kept round",
                value: u64::from(version),
            });
        }
        Ok(Self {
            number: reader.u64()?,
            network: reader.array()?,
            participants: reader.array()?,
            secret: match reader.flag("kept secret")? {
                true => Some(DealerSecret(reader.array()?)),
                false => None,
            },
            received: reader.seq("received dealings", SEED_PARTICIPANTS_MAX, RECEIVED_BYTES)?,
        })
    }
}
