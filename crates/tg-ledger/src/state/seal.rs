//! The end of a block: the state root, and the check that no money came or went.

use tg_types::{Amount, Encode, OfferId, Writer};

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
    /// Locked by leases.
    pub collateral: Amount,
    /// Locked by jobs, escrow and prizes, and by sealed bids.
    pub escrow: Amount,
    /// Destroyed.
    pub burned: Amount,
}

impl MoneyReport {
    /// Whether everything that was minted is somewhere, and nothing else.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let Self {
            minted,
            balances,
            stakes,
            collateral,
            escrow,
            burned,
        } = *self;
        [balances, stakes, collateral, escrow, burned]
            .into_iter()
            .try_fold(Amount::ZERO, Amount::checked_add)
            == Some(minted)
    }
}

/// The numbers that belong to no record but decide what happens next.
struct Globals<'a>(&'a State);

impl Encode for Globals<'_> {
    fn encode(&self, writer: &mut Writer) {
        let state = self.0;
        state.domain.encode(writer);
        state.parameters.encode(writer);
        state.head.height.encode(writer);
        state.head.timestamp.encode(writer);
        state.totals.encode(writer);
        writer.u32(state.leaves.unused());
        writer.count(state.leaves.free().len());
        writer.u32(state.leaves.free().last().copied().unwrap_or(0));
        writer.u64(state.match_cursor);
        state.schedule.encode(writer);
        writer.seq(&state.validators);
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
                .fold(Amount::ZERO, |sum, it| sum.saturating_add(it.stake)),
            collateral: self.leases.money(),
            escrow: self.jobs.money().saturating_add(self.bids.money()),
            burned: self.totals.burned,
        }
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

    pub(crate) fn put_account(&mut self, account: Account) {
        self.book_changes.note_account(account.address);
        self.accounts.put(account);
    }

    pub(crate) fn put_offer(&mut self, offer: Offer) {
        self.book_changes.note_offer(offer.id);
        self.offers.put(offer);
    }

    pub(crate) fn remove_offer(&mut self, offer: &OfferId) {
        self.offers.remove(offer);
        self.book_changes.note_offer(*offer);
        self.stock_is_stale = true;
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
        self.jobs.put(job);
        self.note_consent(&id);
    }

    pub(crate) fn put_bid(&mut self, bid: Bid) {
        self.bids.put(bid);
    }

    pub(crate) fn put_report(&mut self, report: LivenessReport) {
        self.reports.put(report);
    }

    pub(crate) fn put_lease(&mut self, lease: Lease) {
        let job = lease.job;
        self.leases.put(lease);
        self.note_consent(&job);
    }
}
