//! The end of a block: the state root, and the check that money is conserved.

use tg_types::{Address, Amount, Encode, ModelId, OfferId, Writer};

use crate::record::{Account, Bid, Job, Lease, LivenessReport, Model, Offer, Provider};
use crate::state::State;
use crate::tree::{BodyChanges, Leaf, LeafHead, LeafKey, Tree, content_digest, kind};

/// Where all money is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoneyReport {
    /// Made at genesis.
    pub minted: Amount,
    /// In accounts.
    pub balances: Amount,
    /// At stake by validators.
    pub stakes: Amount,
    /// Locked by leases, as collateral and for gas.
    pub collateral: Amount,
    /// Locked by jobs, escrow and prizes, and by sealed bids.
    pub escrow: Amount,
    /// Locked by records to secure their rent.
    pub deposits: Amount,
    /// Destroyed.
    pub burned: Amount,
}

impl MoneyReport {
    /// Whether everything that was minted is somewhere, and nothing else.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.found() == Some(self.minted)
    }

    /// What is somewhere; `None` above the maximum.
    #[must_use]
    pub fn found(&self) -> Option<Amount> {
        let Self {
            minted: _,
            balances,
            stakes,
            collateral,
            escrow,
            deposits,
            burned,
        } = *self;
        [balances, stakes, collateral, escrow, deposits, burned]
            .into_iter()
            .try_fold(Amount::ZERO, Amount::checked_add)
    }
}

/// The numbers that belong to no record but decide what happens next.
struct Globals<'a>(&'a State);

impl Encode for Globals<'_> {
    fn encode(&self, writer: &mut Writer) {
        let state = self.0;
        state.genesis.encode(writer);
        state.domain.encode(writer);
        state.parameters.encode(writer);
        state.head.height.encode(writer);
        state.head.timestamp.encode(writer);
        state.head.time.encode(writer);
        state.head.base_fee.encode(writer);
        state.head.outage.encode(writer);
        writer.u16(state.head.protocol);
        state.totals.encode(writer);
        writer.u32(state.leaves.unused());
        writer.count(state.leaves.free().len());
        writer.u32(state.leaves.free().back().copied().unwrap_or(0));
        state.cursors.encode(writer);
        writer.seq(&state.reservations);
        state.fee_market.encode(writer);
        state.meters.encode(writer);
        state.schedule.encode(writer);
        writer.seq(&state.validators);
        state.seats.encode(writer);
        state.seeds.digest().encode(writer);
    }
}

impl State {
    /// Where all money is, from the sums that the tables keep.
    #[must_use]
    pub fn money(&self) -> MoneyReport {
        MoneyReport {
            minted: self.totals.minted,
            balances: self.accounts.money(),
            stakes: self
                .validators
                .iter()
                .chain(self.seats.bonds())
                .fold(Amount::ZERO, |sum, it| sum.saturating_add(it.stake)),
            collateral: self.leases.money(),
            escrow: self.jobs.money().saturating_add(self.bids.money()),
            deposits: self.deposits(),
            burned: self.totals.burned,
        }
    }

    fn deposits(&self) -> Amount {
        let tables = [
            self.offers.deposits(),
            self.providers.deposits(),
            self.models.deposits(),
            self.jobs.deposits(),
        ];
        tables
            .into_iter()
            .fold(Amount::ZERO, Amount::saturating_add)
    }

    /// The bodies of the leaves whose records changed since the last call.
    pub(crate) fn take_changes(&mut self) -> BodyChanges {
        let mut changes = BodyChanges::new();
        self.accounts.take_changes(&mut changes);
        self.offers.take_changes(&mut changes);
        self.providers.take_changes(&mut changes);
        self.models.take_changes(&mut changes);
        self.jobs.take_changes(&mut changes);
        self.leases.take_changes(&mut changes);
        self.bids.take_changes(&mut changes);
        self.reports.take_changes(&mut changes);
        self.retained.take_changes(&mut changes);
        self.questions.take_changes(&mut changes);
        changes
    }

    /// Brings the state tree up to date with the tables.
    pub(crate) fn seal(&mut self) {
        let changes = self.take_changes();
        let mut values = self.leaves.apply(changes);
        values.insert(0, self.first_leaf());
        let values: Vec<_> = values.into_iter().collect();
        self.tree.update(&values);
    }

    /// Builds the state tree from the places of the leaves.
    pub(crate) fn rebuild_tree(&mut self) {
        let mut values = self.leaves.values();
        values.insert(0, self.first_leaf());
        let values: Vec<_> = values.into_iter().collect();
        self.tree = Tree::default();
        self.tree.update(&values);
    }

    /// What leaf 0 says: the numbers that belong to no record.
    pub(crate) fn globals(&self) -> (LeafHead, [u8; 32]) {
        let head = LeafHead {
            kind: kind::GLOBALS,
            amount: self.totals.burned,
            ..LeafHead::default()
        };
        (head, content_digest(kind::GLOBALS, &Globals(self)))
    }

    fn first_leaf(&self) -> Leaf {
        let (head, content) = self.globals();
        let link = self.leaves.link(&LeafKey::FIRST);
        link.leaf(&head.body(&content))
    }

    pub(crate) fn put_account(&mut self, mut account: Account) {
        if account.rent_to == u128::MAX {
            account.rent_to = self.first_rent();
        }
        self.book_changes.note_account(account.address);
        self.accounts.put(account);
    }

    pub(crate) fn put_offer(&mut self, offer: Offer) {
        self.book_changes.note_offer(offer.id);
        let before = self.offers.get(&offer.id).map(|it| it.terms.machine);
        if before != Some(offer.terms.machine) {
            self.machine_changes.insert(offer.id);
        }
        if before.is_none() {
            self.note_use(&offer.provider, 1);
        }
        self.offers.put(offer);
    }

    pub(crate) fn remove_account(&mut self, address: &Address) {
        self.accounts.remove(address);
        self.book_changes.note_account(*address);
    }

    pub(crate) fn remove_provider(&mut self, address: &Address) {
        self.providers.remove(address);
        self.book_changes.note_account(*address);
    }

    pub(crate) fn remove_offer(&mut self, offer: &OfferId) {
        if let Some(provider) = self.offers.get(offer).map(|it| it.provider) {
            self.note_use(&provider, -1);
        }
        self.offers.remove(offer);
        self.book_changes.note_offer(*offer);
        self.machine_changes.insert(*offer);
    }

    pub(crate) fn put_provider(&mut self, provider: Provider) {
        self.book_changes.note_account(provider.address);
        self.providers.put(provider);
    }

    pub(crate) fn put_model(&mut self, model: Model) {
        self.models.put(model);
    }

    pub(crate) fn put_job(&mut self, job: Job) {
        let id = job.id;
        let is_open = |it: &Job| i32::from(!it.state().is_final());
        let before = self.jobs.get(&id).map_or(0, is_open);
        self.note_job(&job.order.model, is_open(&job) - before);
        let before = self.jobs.get(&id).map_or(0, |it| it.retention.bytes);
        self.count_retained(before, job.retention.bytes);
        self.jobs.put(job);
        self.note_consent(&id);
    }

    pub(crate) fn put_bid(&mut self, bid: Bid) {
        self.bids.put(bid);
    }

    pub(crate) fn put_report(&mut self, report: LivenessReport) {
        self.reports.put(report);
    }

    pub(crate) fn remove_report(&mut self, validator: &Address) {
        self.reports.remove(validator);
    }

    pub(crate) fn put_lease(&mut self, lease: Lease) {
        let job = lease.job;
        let before = self.leases.get(&lease.id).map_or(0, uses_of);
        self.note_use(&lease.provider, uses_of(&lease) - before);
        self.note_declined(&lease);
        self.note_checked(&lease);
        self.leases.put(lease);
        self.note_consent(&job);
    }

    /// Counts what refers to a provider's record.
    fn note_use(&mut self, provider: &Address, change: i32) {
        let provider = self.providers.get(provider).filter(|_| change != 0);
        if let Some(mut provider) = provider.cloned() {
            provider.uses = provider.uses.saturating_add_signed(change);
            self.providers.put(provider);
        }
    }

    /// Counts the open jobs that refer to a model.
    fn note_job(&mut self, model: &ModelId, change: i32) {
        let model = self.models.get(model).filter(|_| change != 0);
        if let Some(mut model) = model.cloned() {
            model.jobs = model.jobs.saturating_add_signed(change);
            self.models.put(model);
        }
    }
}

/// How often a lease refers to its provider's record: it may still change it while it lives, and while the penalty of
/// its decline waits for an answer.
fn uses_of(lease: &Lease) -> i32 {
    i32::from(lease.end().is_none() || !lease.locked().is_zero())
}
