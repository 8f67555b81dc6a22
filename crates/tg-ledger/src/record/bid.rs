//! Sealed bids of the batch auction, and validators' reports about providers.

use tg_types::{
    Address, Amount, BidId, Decode, DecodeError, Digest, Encode, Reader, Writer, fields,
};

use crate::limits::LOST_PER_VALIDATOR_MAX;
use crate::record::Record;
use crate::tree::{LeafHead, kind};

/// A sealed bid: nobody knows yet what it asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bid {
    /// The bid.
    pub id: BidId,
    /// Who made it.
    pub bidder: Address,
    /// What it commits to.
    pub commitment: Digest,
    /// Locked until it is revealed, and lost if it is not.
    pub deposit: Amount,
    /// Slot in which it was made; it must be revealed in the next.
    pub slot: u64,
}

fields! { Bid { id, bidder, commitment, deposit, slot } }

impl Record for Bid {
    type Key = BidId;
    const KIND: u8 = kind::BID;
    const NAME: &'static str = "bids";

    fn key(&self) -> BidId {
        self.id
    }

    fn head(&self) -> LeafHead {
        LeafHead {
            amount: self.deposit,
            ..LeafHead::of(Self::KIND, self.bidder)
        }
    }

    fn money(&self) -> Amount {
        self.deposit
    }
}

/// Which providers a validator says it cannot reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivenessReport {
    /// Who reports.
    pub validator: Address,
    /// The last epoch it reported for.
    pub epoch: u64,
    /// The providers, in the order of addresses.
    pub lost: Vec<Address>,
}

impl Encode for LivenessReport {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            validator,
            epoch,
            lost,
        } = self;
        validator.encode(writer);
        writer.u64(*epoch);
        writer.seq(lost);
    }
}

impl Decode for LivenessReport {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let report = Self {
            validator: Address::decode(reader)?,
            epoch: reader.u64()?,
            lost: reader.seq("lost providers", LOST_PER_VALIDATOR_MAX, 20)?,
        };
        match report.lost.windows(2).position(|pair| pair[0] >= pair[1]) {
            Some(at) => Err(DecodeError::Invalid {
                field: "lost providers",
                value: at as u64,
            }),
            None => Ok(report),
        }
    }
}

impl Record for LivenessReport {
    type Key = Address;
    const KIND: u8 = kind::REPORT;
    const NAME: &'static str = "liveness reports";

    fn key(&self) -> Address {
        self.validator
    }

    fn head(&self) -> LeafHead {
        LeafHead::of(Self::KIND, self.validator)
    }

    fn money(&self) -> Amount {
        Amount::ZERO
    }
}
