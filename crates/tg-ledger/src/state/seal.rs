//! The end of a block: the state root, and the check that no money came or went.

use std::collections::BTreeMap;

use tg_types::{Amount, Encode, OfferId, Writer};

use crate::codec::encode_option;
use crate::record::{Account, Bid, Job, Lease, LivenessReport, Model, Offer, Provider};
use crate::state::State;
use crate::tree::leaf_of;

/// Kind of leaf 0; tables use 1 and up.
const GLOBALS_KIND: u8 = 0;

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
        state.head.time.encode(writer);
        state.head.base_fee.encode(writer);
        encode_option(state.head.outage.as_ref(), writer);
        state.totals.encode(writer);
        writer.u32(state.next_index);
        state.cursors.encode(writer);
        state.fee_market.encode(writer);
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

    /// Brings the state tree up to date with the tables.
    pub(crate) fn seal(&mut self) {
        let mut changes = BTreeMap::new();
        changes.insert(0, leaf_of(GLOBALS_KIND, &Globals(self)));
        self.accounts.take_changes(&mut changes);
        self.offers.take_changes(&mut changes);
        self.providers.take_changes(&mut changes);
        self.models.take_changes(&mut changes);
        self.jobs.take_changes(&mut changes);
        self.leases.take_changes(&mut changes);
        self.bids.take_changes(&mut changes);
        self.reports.take_changes(&mut changes);
        let changes: Vec<_> = changes.into_iter().collect();
        self.tree.update(&changes);
    }

    pub(crate) fn put_account(&mut self, account: Account) {
        self.book_changes.note_account(account.address);
        self.accounts.put(account, &mut self.next_index);
    }

    pub(crate) fn put_offer(&mut self, offer: Offer) {
        self.book_changes.note_offer(offer.id);
        self.offers.put(offer, &mut self.next_index);
    }

    pub(crate) fn remove_offer(&mut self, offer: &OfferId) {
        self.offers.remove(offer);
        self.book_changes.note_offer(*offer);
        self.stock_is_stale = true;
    }

    pub(crate) fn put_provider(&mut self, provider: Provider) {
        self.book_changes.note_account(provider.address);
        self.providers.put(provider, &mut self.next_index);
    }

    pub(crate) fn put_model(&mut self, model: Model) {
        self.models.put(model, &mut self.next_index);
    }

    pub(crate) fn put_job(&mut self, job: Job) {
        let id = job.id;
        self.jobs.put(job, &mut self.next_index);
        self.note_consent(&id);
    }

    pub(crate) fn put_bid(&mut self, bid: Bid) {
        self.bids.put(bid, &mut self.next_index);
    }

    pub(crate) fn put_report(&mut self, report: LivenessReport) {
        self.reports.put(report, &mut self.next_index);
    }

    pub(crate) fn put_lease(&mut self, lease: Lease) {
        let job = lease.job;
        self.leases.put(lease, &mut self.next_index);
        self.note_consent(&job);
    }
}
