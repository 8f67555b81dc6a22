//! Accounts, and the roles that an account can have: validator, provider, owner of offers.

use tg_market::TrackRecord;
use tg_market::reputation::{LeaseOutcome, Reputation, ReputationLevel};
use tg_types::{
    Address, Amount, Decode, DecodeError, DurationMs, Encode, Height, JobClass, OfferId,
    OfferTerms, Reader, SealingPublicKey, TimestampMs, Writer, fields,
};

use crate::canary::{LedgerCanary, is_armed};
use crate::limits::SESSIONS_PER_ACCOUNT_MAX;
use crate::record::{Record, Session};
use crate::rent::{Due, Rent, RentCategory};
use crate::tree::{LeafHead, kind};

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Whose it is.
    pub address: Address,
    /// What it can spend.
    pub balance: Amount,
    /// The nonce of its next transaction: what it began with, and one for each transaction that it made.
    pub nonce: u64,
    /// Its jobs that did not end.
    pub open_jobs: u32,
    /// Its offers.
    pub offers: u32,
    /// Its models.
    pub models: u32,
    /// Its sealed bids.
    pub bids: u32,
    /// Its session keys, in their order.
    pub sessions: Vec<Session>,
    /// The reading of the meter up to which its rent is paid; the greatest number before it is in the state.
    pub rent_to: u128,
}

impl Account {
    /// An account that never did anything.
    #[must_use]
    pub const fn new(address: Address, balance: Amount) -> Self {
        Self {
            address,
            balance,
            nonce: 0,
            open_jobs: 0,
            offers: 0,
            models: 0,
            bids: 0,
            sessions: Vec::new(),
            rent_to: u128::MAX,
        }
    }
}

/// Nonces that an account can use in one block, and more: one that expired and is opened again begins above all that it
/// used before, so nothing that was signed for it holds a second time.
const NONCES_PER_BLOCK: u64 = 1 << 20;

const _: () = assert!(NONCES_PER_BLOCK > crate::limits::TRANSACTIONS_PER_BLOCK_MAX as u64);

impl Account {
    /// An account that begins to exist in the block of `height`.
    pub(crate) fn opened_at(height: Height, address: Address, balance: Amount) -> Self {
        let nonce = match is_armed(LedgerCanary::NoncesFromZero) {
            true => 0,
            false => Self::first_nonce(height),
        };
        Self {
            nonce,
            ..Self::new(address, balance)
        }
    }

    /// The nonce with which a sequence begins that begins in the block of `height`.
    pub(crate) const fn first_nonce(height: Height) -> u64 {
        height.get().saturating_mul(NONCES_PER_BLOCK)
    }

    /// Its session key of these bytes.
    #[must_use]
    pub fn session(&self, key: &[u8; 32]) -> Option<&Session> {
        self.sessions.iter().find(|it| it.key == *key)
    }
}

fields! {
    Account {
        address,
        balance,
        nonce,
        open_jobs,
        offers,
        models,
        bids,
        sessions: seq("session keys", SESSIONS_PER_ACCOUNT_MAX, Session::BYTES),
        rent_to,
    }
}

impl Record for Account {
    type Key = Address;
    const KIND: u8 = kind::ACCOUNT;
    const NAME: &'static str = "accounts";

    fn key(&self) -> Address {
        self.address
    }

    fn head(&self) -> LeafHead {
        LeafHead {
            amount: self.balance,
            ..LeafHead::of(Self::KIND, self.address)
        }
    }

    fn money(&self) -> Amount {
        self.balance
    }

    fn due(&self) -> Option<Due> {
        Some(Due {
            category: RentCategory::Accounts,
            ends_at: self.rent_to,
            order: 0,
        })
    }
}

/// An ed25519 public key that votes in consensus. The ledger stores it and does not use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsensusKey([u8; 32]);

impl ConsensusKey {
    /// A key from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for ConsensusKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConsensusKey({})", tg_types::Digest::new(self.0))
    }
}

/// A validator: who votes, where its rewards go, what it has at stake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// The account that its rewards go to; also its name in block headers.
    pub address: Address,
    /// The key that it votes with.
    pub key: ConsensusKey,
    /// What it has at stake.
    pub stake: Amount,
}

impl Encode for Validator {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            address,
            key,
            stake,
        } = self;
        address.encode(writer);
        writer.raw(&key.0);
        stake.encode(writer);
    }
}

impl Decode for Validator {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            address: Address::decode(reader)?,
            key: ConsensusKey(reader.array()?),
            stake: Amount::decode(reader)?,
        })
    }
}

/// A provider's standing offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The offer.
    pub id: OfferId,
    /// Whose it is.
    pub provider: Address,
    /// What was posted.
    pub terms: OfferTerms,
    /// Slots that hold a lease.
    pub slots_taken: u16,
    /// When the terms were posted or changed last.
    pub updated_at: TimestampMs,
    /// What secures its rent.
    pub rent: Rent,
}

fields! { Offer { id, provider, terms, slots_taken, updated_at, rent } }

impl Record for Offer {
    type Key = OfferId;
    const KIND: u8 = kind::OFFER;
    const NAME: &'static str = "offers";

    fn key(&self) -> OfferId {
        self.id
    }

    fn head(&self) -> LeafHead {
        LeafHead::of(Self::KIND, self.provider).with_deposit(self.rent.payer, self.rent.deposit)
    }

    fn money(&self) -> Amount {
        Amount::ZERO
    }

    fn deposit(&self) -> Amount {
        self.rent.deposit
    }

    fn due(&self) -> Option<Due> {
        // Leases that run on it refer to it.
        let is_free = self.slots_taken == 0;
        self.rent.due(RentCategory::Offers, 0).filter(|_| is_free)
    }
}

/// An account that posted an offer at least once: how it did so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Whose record it is.
    pub address: Address,
    /// How its leases ended.
    pub record: TrackRecord,
    /// Its reputation with each class of jobs, in the order of their tags.
    pub reputation: [Reputation; JobClass::ALL.len()],
    /// The epoch up to which old outcomes were forgotten.
    pub decayed_to: u64,
    /// Whether validators cannot reach it.
    pub is_offline: bool,
    /// Until when it gets no leases.
    pub suspended_until: TimestampMs,
    /// What it earned with accepted results.
    pub earned: Amount,
    /// Collateral it lost.
    pub lost: Amount,
    /// What was burned for its verified work, less the bonuses that it got.
    pub credit: Amount,
    /// Leases that it did not start, within a window.
    pub unstarted: u8,
    /// When that window began.
    pub unstarted_since: TimestampMs,
    /// The most that one of its offers puts up for a lease, of all since it had neither offers nor leases.
    pub pledge: Amount,
    /// When it had less money than that for the last time, and got more.
    pub short_at: TimestampMs,
    /// The least that it had then, and at such times within an hour before.
    pub short_of: Amount,
    /// The first epoch in which a result of it corrects the throughput table again.
    pub next_lesson: u64,
    /// Its offers and its live leases, which refer to it.
    pub uses: u32,
    /// By which keys of sealed jobs are granted to it, if it serves such jobs.
    pub sealing: Option<SealingPublicKey>,
    /// What secures its rent.
    pub rent: Rent,
}

impl Provider {
    /// A provider that never had a lease.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            record: TrackRecord::default(),
            reputation: [Reputation::default(); JobClass::ALL.len()],
            decayed_to: 0,
            is_offline: false,
            suspended_until: TimestampMs::ZERO,
            earned: Amount::ZERO,
            lost: Amount::ZERO,
            credit: Amount::ZERO,
            unstarted: 0,
            unstarted_since: TimestampMs::ZERO,
            pledge: Amount::ZERO,
            short_at: TimestampMs::ZERO,
            short_of: Amount::ZERO,
            next_lesson: 0,
            uses: 0,
            sealing: None,
            rent: Rent::default(),
        }
    }

    /// Notes what an offer puts up for a lease.
    pub(crate) fn pledges(&mut self, collateral: Amount) {
        self.pledge = match self.uses {
            0 => collateral,
            _ => self.pledge.max(collateral),
        };
    }

    /// How many leases it did not start in the window that `now` lies in.
    pub(crate) const fn unstarted_at(&self, now: TimestampMs, window: DurationMs) -> u8 {
        match now.saturating_since(self.unstarted_since).get() < window.get() {
            true => self.unstarted,
            false => 0,
        }
    }

    /// Its record as it counts in an epoch: old outcomes are forgotten whether it works or not.
    #[must_use]
    pub fn at_epoch(&self, epoch: u64) -> Self {
        let mut decayed = self.clone();
        decayed.decay(epoch);
        decayed
    }
}

/// Old outcomes are forgotten epoch by epoch; after this many nothing is left to forget.
const DECAYS_MAX: u64 = 1_024;

/// Ended leases before the floor of reputation can remove a provider: one outage is no reputation.
const FLOOR_LEASES_MIN: u64 = 4;

impl Provider {
    /// Whether an epoch makes it forget anything.
    pub(crate) fn decays(&self) -> bool {
        let mut decayed = self.reputation;
        decayed.iter_mut().for_each(Reputation::decay);
        decayed != self.reputation
    }

    /// Forgets what the epochs since the last time let it forget.
    pub(crate) fn decay(&mut self, epoch: u64) {
        let epochs = epoch.saturating_sub(self.decayed_to).min(DECAYS_MAX);
        for _ in 0..epochs {
            let before = self.reputation;
            self.reputation.iter_mut().for_each(Reputation::decay);
            if self.reputation == before {
                break;
            }
        }
        self.decayed_to = self.decayed_to.max(epoch);
    }

    /// Notes how a lease of a job of `class` ended.
    pub(crate) fn observe(&mut self, class: JobClass, outcome: LeaseOutcome, epoch: u64) {
        self.decay(epoch);
        self.reputation[usize::from(class.tag())].observe(outcome);
    }

    /// Its reputation with a class of jobs.
    #[must_use]
    pub const fn reputation_with(&self, class: JobClass) -> &Reputation {
        &self.reputation[class.tag() as usize]
    }

    /// Whether its reputation is below the floor, so that it gets no leases of a class. `collateral` is what it puts up
    /// for a lease, and `stake_for_one` what of it stands for one success.
    #[must_use]
    pub fn is_removed(&self, class: JobClass, collateral: Amount, stake_for_one: Amount) -> bool {
        let standing = self
            .reputation_with(class)
            .standing(collateral, stake_for_one);
        self.record.ended() >= FLOOR_LEASES_MIN && standing == ReputationLevel::Removed
    }
}

impl Provider {
    /// Whether it is among the top with jobs of a class: it goes first among equals and gets a bonus.
    #[must_use]
    pub fn is_top(&self, class: JobClass, collateral: Amount, stake_for_one: Amount) -> bool {
        let standing = self
            .reputation_with(class)
            .standing(collateral, stake_for_one);
        standing == ReputationLevel::Top
    }
}

impl Encode for Provider {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            address,
            record,
            reputation,
            decayed_to,
            is_offline,
            suspended_until,
            earned,
            lost,
            credit,
            unstarted,
            unstarted_since,
            pledge,
            short_at,
            short_of,
            next_lesson,
            uses,
            sealing,
            rent,
        } = self;
        address.encode(writer);
        record.encode(writer);
        for class in reputation {
            class.encode(writer);
        }
        writer.u64(*decayed_to);
        writer.u8(u8::from(*is_offline));
        suspended_until.encode(writer);
        earned.encode(writer);
        lost.encode(writer);
        credit.encode(writer);
        writer.u8(*unstarted);
        unstarted_since.encode(writer);
        pledge.encode(writer);
        short_at.encode(writer);
        short_of.encode(writer);
        writer.u64(*next_lesson);
        writer.u32(*uses);
        sealing.encode(writer);
        rent.encode(writer);
    }
}

impl Decode for Provider {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            address: Address::decode(reader)?,
            record: TrackRecord::decode(reader)?,
            reputation: [
                Reputation::decode(reader)?,
                Reputation::decode(reader)?,
                Reputation::decode(reader)?,
            ],
            decayed_to: reader.u64()?,
            is_offline: reader.flag("offline")?,
            suspended_until: TimestampMs::decode(reader)?,
            earned: Amount::decode(reader)?,
            lost: Amount::decode(reader)?,
            credit: Amount::decode(reader)?,
            unstarted: reader.u8()?,
            unstarted_since: TimestampMs::decode(reader)?,
            pledge: Amount::decode(reader)?,
            short_at: TimestampMs::decode(reader)?,
            short_of: Amount::decode(reader)?,
            next_lesson: reader.u64()?,
            uses: reader.u32()?,
            sealing: Option::decode(reader)?,
            rent: Rent::decode(reader)?,
        })
    }
}

impl Record for Provider {
    type Key = Address;
    const KIND: u8 = kind::PROVIDER;
    const NAME: &'static str = "providers";

    fn key(&self) -> Address {
        self.address
    }

    fn head(&self) -> LeafHead {
        LeafHead {
            state: u8::from(self.is_offline),
            ..LeafHead::of(Self::KIND, self.address)
                .with_deposit(self.rent.payer, self.rent.deposit)
        }
    }

    fn money(&self) -> Amount {
        Amount::ZERO
    }

    fn deposit(&self) -> Amount {
        self.rent.deposit
    }

    fn due(&self) -> Option<Due> {
        let is_free = self.uses == 0;
        self.rent
            .due(RentCategory::Providers, 0)
            .filter(|_| is_free)
    }
}
