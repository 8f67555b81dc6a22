//! The scheduler's own state between blocks, beside jobs and leases.

use tg_market::PriceAnchor;
use tg_market::packing::ExpectedWork;
use tg_market::throughput::ThroughputMatrix;
use tg_types::{
    Amount, BlockId, Decode, DecodeError, Digest, Domain, Encode, GpuModel, Height, Reader, Writer,
    fields,
};

use crate::limits::EPOCH_BLOCKS;

/// What the scheduler keeps between blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Root of the last block's decisions.
    pub root: Digest,
    /// Seed of ties in this epoch, fixed when the previous one ended.
    pub tie_seed: Digest,
    /// Seed of ties in the next epoch if validators sign no seed in this one, as it stands: it takes in every block.
    pub next_seed: Digest,
    /// The seed of the highest height that validators signed in this epoch, if they signed one: it is the seed of ties in the next one.
    pub signed: Option<SignedSeed>,
    /// Last slot whose auction was cleared.
    pub cleared_slot: u64,
    /// Price of a second of each GPU model for offers that follow demand, in the order of tags.
    pub prices: [Amount; GpuModel::ALL.len()],
    /// The work that placements are priced by.
    pub work: ExpectedWork,
    /// What the prices of placements were set from; they stand until [`tg_market::Stock::stands`] says that they do not.
    pub anchor: PriceAnchor,
    /// How fast GPUs turned out to be, from the durations of accepted receipts.
    pub throughput: ThroughputMatrix,
    /// Lease-milliseconds that passed for the budget of moves; see [`crate::limits::MOVE_LEASE_MS`].
    pub move_credit: u64,
    /// The epoch of the last block.
    pub epoch: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            root: Digest::default(),
            tie_seed: Digest::default(),
            next_seed: Digest::default(),
            signed: None,
            cleared_slot: 0,
            prices: [Amount::ZERO; GpuModel::ALL.len()],
            work: ExpectedWork::default(),
            anchor: PriceAnchor::default(),
            throughput: ThroughputMatrix::default(),
            move_credit: 0,
            epoch: 0,
        }
    }
}

impl Schedule {
    /// The epoch of a height.
    #[must_use]
    pub const fn epoch(height: Height) -> u64 {
        height.get() / EPOCH_BLOCKS
    }

    /// Takes in the block before the one of `height`. A seed is used one epoch after its last block, so whoever makes an
    /// offer or a block while it is used cannot choose it. Where validators signed a seed in the epoch before, no block id counts. Stops: the proposer
    /// of the last block of an epoch, which made blocks until the ties of the next one were its own.
    pub(crate) fn turn(&mut self, parent: BlockId, height: Height) {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(self.next_seed.as_bytes());
        bytes[32..].copy_from_slice(parent.as_bytes());
        let mixed = Digest::of(Domain::EpochSeed, &bytes);
        self.epoch = Self::epoch(height);
        if height.get().is_multiple_of(EPOCH_BLOCKS) {
            let signed = self.signed.take();
            self.tie_seed = signed.map_or(self.next_seed, SignedSeed::tie_seed);
        }
        self.next_seed = mixed;
    }

    /// Takes note of a seed that validators signed. The highest height counts, so that it does not matter in which order a proposer names them.
    pub(crate) fn note_seed(&mut self, signed: SignedSeed) {
        if self.signed.is_none_or(|it| it.height <= signed.height) {
            self.signed = Some(signed);
        }
    }
}

/// A seed that validators signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedSeed {
    /// Of which height it is.
    pub height: Height,
    /// The seed.
    pub seed: Digest,
}

fields! { SignedSeed { height, seed } }

impl SignedSeed {
    /// The seed of ties that follows from it. What is hashed is shorter than a seed and a block id, so it is none of those.
    #[must_use]
    pub fn tie_seed(self) -> Digest {
        let mut bytes = [0; 40];
        bytes[..8].copy_from_slice(&self.height.get().to_be_bytes());
        bytes[8..].copy_from_slice(self.seed.as_bytes());
        Digest::of(Domain::EpochSeed, &bytes)
    }
}

impl Encode for Schedule {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            root,
            tie_seed,
            next_seed,
            signed,
            cleared_slot,
            prices,
            work,
            anchor,
            throughput,
            move_credit,
            epoch,
        } = self;
        root.encode(writer);
        tie_seed.encode(writer);
        next_seed.encode(writer);
        signed.encode(writer);
        writer.u64(*cleared_slot);
        for price in prices {
            price.encode(writer);
        }
        work.encode(writer);
        anchor.encode(writer);
        throughput.encode(writer);
        writer.u64(*move_credit);
        writer.u64(*epoch);
    }
}

impl Decode for Schedule {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut schedule = Self {
            root: Digest::decode(reader)?,
            tie_seed: Digest::decode(reader)?,
            next_seed: Digest::decode(reader)?,
            signed: Option::decode(reader)?,
            cleared_slot: reader.u64()?,
            ..Self::default()
        };
        for price in &mut schedule.prices {
            *price = Amount::decode(reader)?;
        }
        schedule.work = ExpectedWork::decode(reader)?;
        schedule.anchor = PriceAnchor::decode(reader)?;
        schedule.throughput = ThroughputMatrix::decode(reader)?;
        schedule.move_credit = reader.u64()?;
        schedule.epoch = reader.u64()?;
        Ok(schedule)
    }
}
