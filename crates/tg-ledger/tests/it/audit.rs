//! An auditor that sees genesis, transactions and events, and nothing of the state, must know every balance.
//!
//! It is a second, naive ledger of money only: what it computes from the events alone is compared with the state
//! after each block. So events leave nothing out, and no coin moves without one.

use std::collections::BTreeMap;

use tg_ledger::{Event, Genesis, Parameters, State};
use tg_types::{
    Address, Amount, JobId, LeaseId, SignedTransaction, Transaction, TransactionKind, job_id,
};

/// What is locked for one job.
#[derive(Debug, Default, Clone, Copy)]
struct Pot {
    escrow: u128,
    prize: u128,
}

/// The auditor's books.
#[derive(Debug)]
pub(crate) struct Auditor {
    parameters: Parameters,
    balances: BTreeMap<Address, u128>,
    pots: BTreeMap<JobId, Pot>,
    collateral: BTreeMap<LeaseId, (Address, u128)>,
    burned: u128,
    unpaid_fees: u128,
}

impl Auditor {
    pub(crate) fn new(genesis: &Genesis) -> Self {
        let accounts = genesis.accounts.iter();
        Self {
            parameters: genesis.parameters,
            balances: accounts.map(|(who, money)| (*who, money.get())).collect(),
            pots: BTreeMap::new(),
            collateral: BTreeMap::new(),
            burned: 0,
            unpaid_fees: 0,
        }
    }

    fn give(&mut self, who: Address, amount: Amount) {
        *self.balances.entry(who).or_default() += amount.get();
    }

    fn take(&mut self, who: Address, amount: Amount) {
        let balance = self.balances.get_mut(&who).unwrap();
        *balance = balance.checked_sub(amount.get()).unwrap();
    }

    /// Reads a block: its transactions say what was asked for, its events what became of it.
    pub(crate) fn read(&mut self, state: &State, block: &[SignedTransaction], events: &[Event]) {
        let mut asked = BTreeMap::new();
        for signed in block {
            asked.insert(signed.id(state.domain()), signed);
        }
        for event in events {
            match event {
                Event::TransactionExecuted { id, sender, kind } => {
                    let signed = asked.remove(id).unwrap();
                    assert_eq!((signed.sender, signed.transaction.kind()), (*sender, *kind));
                    self.charge(signed, job_id(*id));
                }
                Event::Transferred { from, to, amount } => {
                    self.take(*from, *amount);
                    self.give(*to, *amount);
                }
                _ => self.settle(event),
            }
        }
        assert!(asked.is_empty(), "a transaction left no event");
        assert_eq!(self.unpaid_fees, 0, "fees stayed behind");
    }

    /// What a transaction costs when it is executed.
    fn charge(&mut self, signed: &SignedTransaction, job: JobId) {
        self.take(signed.sender, self.parameters.transaction_fee);
        self.burned += self.parameters.transaction_fee.get();
        match &signed.transaction {
            Transaction::RegisterModel { .. } => {
                self.take(signed.sender, self.parameters.registration_fee);
                self.unpaid_fees += self.parameters.registration_fee.get();
            }
            Transaction::SubmitJob { order } => {
                let fee = self.parameters.verification_fee(order.mode);
                let escrow = order.max_price.checked_add(fee).unwrap();
                self.take(signed.sender, escrow);
                let pot = Pot {
                    escrow: escrow.get(),
                    prize: 0,
                };
                assert!(self.pots.insert(job, pot).is_none());
            }
            other => assert_ne!(other.kind(), TransactionKind::SubmitJob),
        }
    }

    /// Events that move money which was locked.
    fn settle(&mut self, event: &Event) {
        match event {
            Event::LeaseMade {
                lease,
                provider,
                collateral,
                ..
            } => {
                self.take(*provider, *collateral);
                let locked = (*provider, collateral.get());
                assert!(self.collateral.insert(*lease, locked).is_none());
            }
            Event::Slashed {
                lease,
                provider,
                amount,
            } => {
                let lost = self.collateral.remove(lease);
                assert_eq!(lost, Some((*provider, amount.get())));
                self.burned += amount.get();
            }
            Event::Forfeited {
                lease,
                job,
                provider,
                amount,
            } => {
                let lost = self.collateral.remove(lease);
                assert_eq!(lost, Some((*provider, amount.get())));
                self.pots.get_mut(job).unwrap().prize += amount.get();
            }
            Event::LeaseEnded { lease, .. } => {
                // Whatever was not lost goes back.
                if let Some((provider, amount)) = self.collateral.remove(lease) {
                    self.give(provider, Amount::new(amount));
                }
            }
            Event::JobEnded {
                job,
                requestor,
                provider,
                settlement,
                ..
            } => {
                let pot = self.pots.remove(job).unwrap();
                let paid = settlement.price.get() + settlement.verification_fee.get();
                assert_eq!(pot.escrow, paid + settlement.refund.get());
                assert_eq!(pot.prize, settlement.prize.get() + settlement.burned.get());
                self.give(*requestor, settlement.refund);
                if let Some(provider) = provider {
                    self.give(*provider, settlement.price);
                    self.give(*provider, settlement.prize);
                }
                self.burned += settlement.burned.get();
                self.unpaid_fees += settlement.verification_fee.get();
            }
            Event::Rewarded { validator, amount } => {
                self.unpaid_fees = self.unpaid_fees.checked_sub(amount.get()).unwrap();
                self.give(*validator, *amount);
            }
            Event::TransactionExecuted { .. }
            | Event::Transferred { .. }
            | Event::ModelChanged { .. }
            | Event::OfferPosted { .. }
            | Event::OfferWithdrawn { .. }
            | Event::JobChanged { .. } => {}
        }
    }

    /// Compares the books with a state.
    pub(crate) fn agree(&self, state: &State) {
        for account in state.accounts().iter() {
            let known = self.balances.get(&account.address).copied().unwrap_or(0);
            assert_eq!(account.balance.get(), known, "{}", account.address);
        }
        assert_eq!(state.totals().burned.get(), self.burned);
        for job in state.jobs().iter() {
            let pot = self.pots.get(&job.id).copied().unwrap_or_default();
            assert_eq!((job.escrow.get(), job.prize.get()), (pot.escrow, pot.prize));
        }
        for lease in state.leases().iter() {
            let locked = self.collateral.get(&lease.id).map_or(0, |(_, it)| *it);
            assert_eq!(lease.locked.get(), locked);
        }
    }
}
