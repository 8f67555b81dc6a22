//! The state: its tables, and queries of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use tg_market::{OfferBook, PackingPrices, Stock};
use tg_types::chain::{FinalityError, TrustRoot};
use tg_types::{
    Address, Amount, BidId, BlockId, ChainDomain, Height, JobId, LeaseId, ModelId, OfferId,
    StateRoot, StorageSubject, TimestampMs,
};

use crate::gas::FeeMarket;
use crate::genesis::{Genesis, GenesisError};
use crate::limits::{ACCOUNTS_MAX, VALIDATORS_MAX};
use crate::parameters::Parameters;
use crate::record::{
    Account, Bid, Job, Lease, LeasePhase, LeaseProgress, LivenessReport, Model, ModelState, Offer,
    Provider, Record, ReplicaStage, RetainedFile, SeatBook, SeedBook, StoredQuestion, SyncStage,
    Validator,
};
use crate::rent::Meters;
use crate::table::{NO_CONTENT, Table};
use crate::tree::{LeafHead, LeafKey, LeafPath, Leaves, StateProof, Tree, content_digest};
use crate::verdict::{EvidenceTask, GrantTask, ReplicasTask};

use super::book_changes::BookChanges;
use super::consent_index::Consents;
use super::cursors::Cursors;
use super::reservations::Reservation;
use super::schedule::Schedule;

/// The block a state belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// How many blocks came before.
    pub height: Height,
    /// The block.
    pub block: BlockId,
    /// Its block time: what the proposer's clock said.
    pub timestamp: TimestampMs,
    /// Its ledger time, which every window goes by.
    pub time: TimestampMs,
    /// Burned for each unit of gas in the block.
    pub base_fee: Amount,
    /// The last block after an outage.
    pub outage: Option<Outage>,
    /// The version of the protocol that the block has.
    pub protocol: u16,
}

/// The first block after a pause that validators within the fault bound could not have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The block.
    pub height: Height,
    /// Its ledger time.
    pub time: TimestampMs,
}

/// Sums over the network's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Made at genesis.
    pub minted: Amount,
    /// Destroyed since.
    pub burned: Amount,
    /// Jobs ever ordered; the sequence of the next one.
    pub jobs: u64,
}

/// The state of the ledger after a block.
#[derive(Debug, Clone)]
pub struct State {
    /// The network, which votes are signed for.
    pub(crate) genesis: BlockId,
    pub(crate) domain: ChainDomain,
    pub(crate) parameters: Parameters,
    pub(crate) head: Head,
    pub(crate) totals: Totals,
    /// Where the leaves of the records stand in the tree.
    pub(crate) leaves: Leaves,
    /// Where matching goes on.
    pub(crate) cursors: Cursors,
    /// What is held back for jobs that waited long enough.
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) fee_market: FeeMarket,
    /// What staying cost so far in each category.
    pub(crate) meters: Meters,
    pub(crate) validators: Arc<Vec<Validator>>,
    /// What is known of the seats of the validators, and who wants one or had one.
    pub(crate) seats: Arc<SeatBook>,
    /// The key that seeds are signed with.
    pub(crate) seeds: Arc<SeedBook>,
    pub(crate) accounts: Table<Account>,
    pub(crate) offers: Table<Offer>,
    pub(crate) providers: Table<Provider>,
    pub(crate) models: Table<Model>,
    pub(crate) jobs: Table<Job>,
    pub(crate) leases: Table<Lease>,
    pub(crate) bids: Table<Bid>,
    pub(crate) reports: Table<LivenessReport>,
    /// Answers that validators keep.
    pub(crate) retained: Table<RetainedFile>,
    /// Questions whether validators have what they keep.
    pub(crate) questions: Table<StoredQuestion>,
    /// For how many bytes of answers validators keep room: those that they keep, and those of open jobs.
    pub(crate) retained_bytes: u64,
    pub(crate) schedule: Schedule,
    /// Jobs that wait for validators to hold what they need, by sequence.
    pub(crate) submitted: OrdMap<u64, JobId>,
    /// Jobs that wait for a provider, by sequence.
    pub(crate) queued: OrdMap<u64, JobId>,
    /// Jobs that have a live lease, by sequence.
    pub(crate) live: OrdMap<u64, JobId>,
    /// Live leases whose results a committee or a watcher checks, by sequence of their jobs.
    pub(crate) checked: OrdMap<u64, LeaseId>,
    /// Jobs that ended, by height of their end and sequence.
    pub(crate) ended: OrdMap<(u64, u64), JobId>,
    /// Declined leases whose penalty waits for an answer, by what the answer is about.
    pub(crate) declined: OrdSet<(StorageSubject, LeaseId)>,
    pub(crate) tree: Tree,
    /// What is free on the machines behind the offers.
    pub(crate) stock: Arc<Stock>,
    /// Whether the stock is to be built anew.
    pub(crate) stock_is_stale: bool,
    /// Offers whose machine came, changed or went since the stock was brought up to date.
    pub(crate) machine_changes: BTreeSet<OfferId>,
    /// The offers in the order that matching needs them, up to date but for `book_changes`.
    pub(crate) book: Arc<OfferBook>,
    pub(crate) book_changes: BookChanges,
    /// Who may be pushed out.
    pub(crate) consents: Arc<Consents>,
    /// The prices that belong to [`Schedule::anchor`] and the machines, once they were asked for.
    pub(crate) placing: Option<PackingPrices>,
}

impl State {
    /// The state of block 0.
    ///
    /// # Errors
    /// [`GenesisError`] names what is wrong with the genesis.
    pub fn genesis(genesis: &Genesis) -> Result<Self, GenesisError> {
        let minted = check_genesis(genesis)?;
        let mut state = Self::empty(
            genesis.id(),
            genesis.domain,
            genesis.parameters,
            Head {
                height: Height::ZERO,
                block: genesis.id(),
                timestamp: genesis.timestamp,
                time: genesis.timestamp,
                base_fee: genesis.parameters.base_fee_min,
                outage: None,
                protocol: genesis.parameters.protocol,
            },
        );
        state.totals.minted = minted;
        state.validators = Arc::new(genesis.validators.clone());
        state.seats = Arc::new(SeatBook::new(genesis.validators.len()));
        state.seeds = Arc::new(SeedBook {
            since: genesis.timestamp,
            ..SeedBook::default()
        });
        for (address, balance) in &genesis.accounts {
            state.put_account(Account::new(*address, *balance));
        }
        for validator in &genesis.validators {
            if state.accounts.get(&validator.address).is_none() {
                state.put_account(Account::new(validator.address, Amount::ZERO));
            }
        }
        state.seal();
        Ok(state)
    }

    /// A state without records.
    pub(crate) fn empty(
        genesis: BlockId,
        domain: ChainDomain,
        parameters: Parameters,
        head: Head,
    ) -> Self {
        Self {
            genesis,
            domain,
            parameters,
            head,
            totals: Totals::default(),
            leaves: Leaves::default(),
            cursors: Cursors::default(),
            reservations: Vec::new(),
            fee_market: FeeMarket {
                base_fee: parameters.base_fee_min,
            },
            meters: Meters::default(),
            validators: Arc::default(),
            seats: Arc::default(),
            seeds: Arc::default(),
            accounts: Table::default(),
            offers: Table::default(),
            providers: Table::default(),
            models: Table::default(),
            jobs: Table::default(),
            leases: Table::default(),
            bids: Table::default(),
            reports: Table::default(),
            retained: Table::default(),
            questions: Table::default(),
            retained_bytes: 0,
            schedule: Schedule::default(),
            submitted: OrdMap::new(),
            queued: OrdMap::new(),
            live: OrdMap::new(),
            checked: OrdMap::new(),
            ended: OrdMap::new(),
            declined: OrdSet::new(),
            tree: Tree::default(),
            stock: Arc::default(),
            stock_is_stale: false,
            machine_changes: BTreeSet::new(),
            book: Arc::default(),
            book_changes: BookChanges::everything(),
            consents: Arc::default(),
            placing: None,
        }
    }

    /// The network: its genesis.
    #[must_use]
    pub const fn network(&self) -> BlockId {
        self.genesis
    }

    /// Which network signatures are for.
    #[must_use]
    pub const fn domain(&self) -> &ChainDomain {
        &self.domain
    }

    /// Fees, times and rules.
    #[must_use]
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// How far the meter of each category went; see [`crate::rent`].
    #[must_use]
    pub const fn meters(&self) -> &Meters {
        &self.meters
    }

    /// What is burned for each unit of gas in the block that follows.
    #[must_use]
    pub const fn base_fee(&self) -> Amount {
        self.fee_market.base_fee
    }

    /// The block this is the state of.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The state root, as that block's header has it.
    #[must_use]
    pub fn root(&self) -> StateRoot {
        self.tree.root()
    }

    /// Sums over the network's life.
    #[must_use]
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// The ledger time of a block that is made at `timestamp` on this one: a pause of the validators is at most
    /// [`Parameters::time_step_max`] of it.
    #[must_use]
    pub fn time_at(&self, timestamp: TimestampMs) -> TimestampMs {
        let step = timestamp.saturating_since(self.head.timestamp);
        let step = step.min(self.parameters.time_step_max);
        self.head.time.saturating_add(step)
    }

    /// Whether windows may end in the block of `height` at ledger time `now`: after an outage everybody has some blocks
    /// and some time to hand in what waited for a block.
    pub(crate) fn windows_may_end(&self, height: Height, now: TimestampMs) -> bool {
        self.head.outage.is_none_or(|outage| {
            let blocks = height.get().saturating_sub(outage.height.get());
            let earliest = outage.time.saturating_add(self.parameters.outage_grace);
            blocks > self.faults_max() as u64 && now > earliest
        })
    }

    /// How many validators may be faulty: f of n, with n at least 3 f + 1.
    #[must_use]
    pub fn faults_max(&self) -> usize {
        self.validators.len().saturating_sub(1) / 3
    }

    /// How many validators a statement needs: n - f.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.validators.len() - self.faults_max()
    }

    /// Who votes, in the order of addresses.
    #[must_use]
    pub fn validators(&self) -> &[Validator] {
        &self.validators
    }

    /// What a client that knows this state trusts: the validators that vote on the next block.
    ///
    /// # Errors
    /// If there are none, or one key twice: no state that follows from a genesis.
    pub fn trust_root(&self) -> Result<TrustRoot, FinalityError> {
        let seats = self.validators.iter().map(|it| *it.key.as_bytes());
        TrustRoot::new(self.genesis, seats.collect())
    }

    /// What is known of their seats, who waits for one, and whose bond is not returned yet.
    #[must_use]
    pub fn seats(&self) -> &SeatBook {
        &self.seats
    }

    /// The key that seeds are signed with, and how it is made.
    #[must_use]
    pub fn seeds(&self) -> &SeedBook {
        &self.seeds
    }

    /// An account; `None` if the address never had money.
    #[must_use]
    pub fn account(&self, address: &Address) -> Option<&Account> {
        self.accounts.get(address)
    }

    /// All accounts, in the order of addresses.
    #[must_use]
    pub const fn accounts(&self) -> &Table<Account> {
        &self.accounts
    }

    /// What an address can spend.
    #[must_use]
    pub fn balance(&self, address: &Address) -> Amount {
        self.account(address)
            .map_or(Amount::ZERO, |account| account.balance)
    }

    /// The nonce of an address's next transaction.
    #[must_use]
    pub fn nonce(&self, address: &Address) -> u64 {
        self.account(address).map_or(0, |account| account.nonce)
    }

    /// The nonce of the next transaction of a lane; zero if there is no such account or session key.
    #[must_use]
    pub fn nonce_in(&self, lane: &tg_types::NonceLane) -> u64 {
        let account = lane.account();
        match lane.session() {
            None => self.nonce(&account),
            Some(key) => {
                let session = self.account(&account).and_then(|it| it.session(key));
                session.map_or(0, |session| session.nonce)
            }
        }
    }

    /// A model.
    #[must_use]
    pub fn model(&self, id: &ModelId) -> Option<&Model> {
        self.models.get(id)
    }

    /// All models, in the order of ids.
    #[must_use]
    pub const fn models(&self) -> &Table<Model> {
        &self.models
    }

    /// An offer.
    #[must_use]
    pub fn offer(&self, id: &OfferId) -> Option<&Offer> {
        self.offers.get(id)
    }

    /// All offers, in the order of ids.
    #[must_use]
    pub const fn offers(&self) -> &Table<Offer> {
        &self.offers
    }

    /// A provider's record.
    #[must_use]
    pub fn provider(&self, address: &Address) -> Option<&Provider> {
        self.providers.get(address)
    }

    /// All providers, in the order of addresses.
    #[must_use]
    pub const fn providers(&self) -> &Table<Provider> {
        &self.providers
    }

    /// A job.
    #[must_use]
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id)
    }

    /// All jobs, in the order of ids.
    #[must_use]
    pub const fn jobs(&self) -> &Table<Job> {
        &self.jobs
    }

    /// A lease.
    #[must_use]
    pub fn lease(&self, id: &LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// All leases, in the order of ids.
    #[must_use]
    pub const fn leases(&self) -> &Table<Lease> {
        &self.leases
    }

    /// A sealed bid.
    #[must_use]
    pub fn bid(&self, id: &BidId) -> Option<&Bid> {
        self.bids.get(id)
    }

    /// All sealed bids, in the order of ids.
    #[must_use]
    pub const fn bids(&self) -> &Table<Bid> {
        &self.bids
    }

    /// What validators report about providers, in the order of validators.
    #[must_use]
    pub const fn liveness_reports(&self) -> &Table<LivenessReport> {
        &self.reports
    }

    /// What the scheduler keeps between blocks.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// What is free on the machines behind the offers: derived from the records.
    #[must_use]
    pub fn stock(&self) -> &Stock {
        &self.stock
    }

    /// Jobs that wait for validators to hold what they need, oldest first.
    pub fn submitted_jobs(&self) -> impl Iterator<Item = &Job> {
        self.submitted.values().filter_map(|id| self.job(id))
    }

    /// Jobs that wait for a provider, oldest first.
    pub fn queued_jobs(&self) -> impl Iterator<Item = &Job> {
        self.queued.values().filter_map(|id| self.job(id))
    }

    /// Jobs that have a live lease, oldest first, with the lease.
    pub fn live_leases(&self) -> impl Iterator<Item = (&Job, &Lease)> {
        self.live
            .values()
            .filter_map(|id| self.job(id))
            .filter_map(|job| Some((job, self.lease(&job.live_lease()?)?)))
    }

    /// Those of [`Self::live_leases`] whose results a committee or a watcher checks, or whose answers validators fetch. Takes nothing of the others, which may be thousands.
    pub fn checked_leases(&self) -> impl Iterator<Item = (&Job, &Lease)> {
        let leases = self.checked.values().filter_map(|id| self.lease(id));
        leases.filter_map(|lease| {
            let job = self.job(&lease.job)?;
            (job.live_lease() == Some(lease.id)).then_some((job, lease))
        })
    }

    /// Ended jobs, the latest first.
    pub fn ended_jobs(&self) -> impl Iterator<Item = &Job> {
        self.ended.values().rev().filter_map(|id| self.job(id))
    }

    /// Evidence that waits for a verdict: what gives the seed's key, seeds by height, pending models in the order of ids, then
    /// leases, oldest job first.
    pub fn pending_evidence(&self) -> impl Iterator<Item = EvidenceTask> {
        let models = self.models.iter().filter_map(|model| match model.state {
            ModelState::Pending => Some(EvidenceTask::Model {
                model: model.id,
                public_blob: model.public_blob,
            }),
            ModelState::Active(_) | ModelState::Refused(_) => None,
        });
        let accusations = self.checked_leases().filter_map(|(job, lease)| {
            let SyncStage::Disputed { vote, by_tile, .. } = &lease.check.as_ref()?.stage else {
                return None;
            };
            let sample = self.sample_task(job, lease)?;
            // Nothing is looked at before both have handed in what they have.
            if by_tile.is_some() && sample.dispute.is_none() {
                return None;
            }
            Some(EvidenceTask::Accusation {
                vote: *vote,
                sample,
            })
        });
        let first = self.seed_evidence().chain(accusations).chain(models);
        first.chain(self.live_leases().filter_map(|(job, lease)| {
            if lease.check.is_some() {
                return None;
            }
            let model = self.model(&job.order.model)?;
            let ModelState::Active(facts) = &model.state else {
                return None;
            };
            if let Some(task) = GrantTask::of(job, lease, model.public_blob) {
                return Some(EvidenceTask::Grant(task));
            }
            if lease.replicas == Some(ReplicaStage::Differ) {
                return Some(EvidenceTask::Replicas(ReplicasTask {
                    lease: lease.id,
                    job: job.id,
                    model: model.id,
                    public_blob: model.public_blob,
                    weights_blob: model.weights_blob,
                    program: facts.program,
                    receipt: Box::new(lease.receipt()?.clone()),
                    claims: self.replica_claims(lease),
                }));
            }
            let LeasePhase::Live(LeaseProgress::Verifying {
                receipt, evidence, ..
            }) = &lease.phase
            else {
                return None;
            };
            Some(EvidenceTask::Lease {
                lease: lease.id,
                job: job.id,
                provider: lease.provider,
                model: model.id,
                mode: job.order.mode,
                public_blob: model.public_blob,
                weights_blob: model.weights_blob,
                program: facts.program,
                receipt: Box::new(receipt.clone()),
                evidence: evidence.digest,
                size: evidence.size,
            })
        }))
    }

    /// Proof of what the state of [`State::root`] has of an account.
    #[must_use]
    pub fn prove_account(&self, address: &Address) -> StateProof {
        self.prove(&self.accounts, address)
    }

    /// Proof of what the state of [`State::root`] has of a job, without its money.
    #[must_use]
    pub fn prove_job(&self, id: &JobId) -> StateProof {
        self.prove(&self.jobs, id)
    }

    /// Proof of what the state of [`State::root`] has of a lease, without its collateral.
    #[must_use]
    pub fn prove_lease(&self, id: &LeaseId) -> StateProof {
        self.prove(&self.leases, id)
    }

    /// Proof of what the state of [`State::root`] has of an offer.
    #[must_use]
    pub fn prove_offer(&self, id: &OfferId) -> StateProof {
        self.prove(&self.offers, id)
    }

    /// Proof of what the state of [`State::root`] has of a model.
    #[must_use]
    pub fn prove_model(&self, id: &ModelId) -> StateProof {
        self.prove(&self.models, id)
    }

    /// Proof of what an open job locks.
    #[must_use]
    pub fn prove_escrow(&self, id: &JobId) -> StateProof {
        self.prove_money(&self.jobs, id)
    }

    /// Proof of what a live lease locks.
    #[must_use]
    pub fn prove_collateral(&self, id: &LeaseId) -> StateProof {
        self.prove_money(&self.leases, id)
    }

    fn prove<R: Record>(&self, table: &Table<R>, key: &R::Key) -> StateProof {
        let record = table.get(key);
        let leaf = record.map(|it| (it.head(), content_digest(R::KIND, it)));
        self.prove_leaf(&LeafKey::of(R::KIND, key.as_ref()), leaf)
    }

    fn prove_money<R: Record>(&self, table: &Table<R>, key: &R::Key) -> StateProof {
        let head = table.get(key).and_then(Record::money_head);
        let kind = R::MONEY_KIND.unwrap_or(R::KIND);
        self.prove_leaf(
            &LeafKey::of(kind, key.as_ref()),
            head.map(|head| (head, NO_CONTENT)),
        )
    }

    /// Proof that a leaf says this, or that there is none if nothing is given.
    fn prove_leaf(&self, key: &LeafKey, leaf: Option<(LeafHead, [u8; 32])>) -> StateProof {
        let path = |index, key: &LeafKey| LeafPath {
            index,
            link: self.leaves.link(key),
            siblings: self.tree.siblings(index),
        };
        if let (Some((head, content)), Some((index, _))) = (leaf, self.leaves.get(key)) {
            return StateProof::Present {
                path: path(index, key),
                head,
                content,
            };
        }
        match self.leaves.before(key) {
            Some((low, index, body)) => StateProof::Absent {
                path: path(index, &low),
                body,
            },
            None => {
                let (head, content) = self.globals();
                StateProof::Absent {
                    path: path(0, &LeafKey::FIRST),
                    body: head.body(&content),
                }
            }
        }
    }
}

fn check_genesis(genesis: &Genesis) -> Result<Amount, GenesisError> {
    let Genesis {
        domain: _,
        parameters,
        timestamp: _,
        accounts,
        validators,
    } = genesis;
    if validators.is_empty() {
        return Err(GenesisError::NoValidator);
    }
    if validators.len() > VALIDATORS_MAX {
        return Err(GenesisError::TooManyValidators {
            count: validators.len(),
        });
    }
    if let Some(window) = parameters.short_window(validators.len()) {
        return Err(GenesisError::ShortWindow { window });
    }
    if accounts.len() > ACCOUNTS_MAX {
        return Err(GenesisError::TooManyAccounts {
            count: accounts.len(),
        });
    }
    let unsorted = accounts.windows(2).position(|pair| pair[0].0 >= pair[1].0);
    if let Some(index) = unsorted {
        return Err(GenesisError::UnsortedAccounts { index: index + 1 });
    }
    let unsorted = validators
        .windows(2)
        .position(|pair| pair[0].address >= pair[1].address);
    if let Some(index) = unsorted {
        return Err(GenesisError::UnsortedValidators { index: index + 1 });
    }
    genesis.minted().ok_or(GenesisError::TooMuchMoney)
}
