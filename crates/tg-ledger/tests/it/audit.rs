//! An auditor that sees genesis, transactions and events, and nothing of the state, must know every balance.
//!
//! It is a second, naive ledger of money only: what it computes from the events alone is compared with the state
//! after each block. So events leave nothing out, and no coin moves without one.

use std::collections::BTreeMap;

use tg_ledger::gas::charged_gas;
use tg_ledger::{
    Decision, Event, Genesis, Parameters, QuestionEnd, Settlement, State, schedule_root,
};
use tg_types::{
    Address, Amount, BidId, Digest, JobId, JobOrder, LeaseId, SignedTransaction, Transaction,
    TransactionKind, job_id,
};

/// What is locked for one job.
#[derive(Debug, Default, Clone, Copy)]
struct Pot {
    /// What its order allows.
    max_price: u128,
    escrow: u128,
}

/// The auditor's books.
#[derive(Debug)]
pub(crate) struct Auditor {
    parameters: Parameters,
    balances: BTreeMap<Address, u128>,
    pots: BTreeMap<JobId, Pot>,
    collateral: BTreeMap<LeaseId, (Address, u128)>,
    /// What each lease prepaid for gas, and who.
    gas: BTreeMap<LeaseId, (Address, u128)>,
    /// Penalties of declined leases that wait for an answer.
    held: BTreeMap<LeaseId, (Address, u128)>,
    deposits: BTreeMap<BidId, (Address, u128)>,
    /// What secures the rent of each record.
    rents: BTreeMap<Digest, u128>,
    /// Paid to providers of endpoints whose job did not end yet.
    served: BTreeMap<JobId, u128>,
    /// Paid to members of gangs whose job did not end yet.
    members: BTreeMap<JobId, u128>,
    /// Paid to those who made room for a job that did not end yet.
    compensated: BTreeMap<JobId, u128>,
    job_of: BTreeMap<LeaseId, JobId>,
    /// The decisions of the last block that had any.
    scheduled: Option<(Digest, Vec<Decision>)>,
    burned: u128,
    unpaid_fees: u128,
    /// Leases that have a result.
    committed: std::collections::BTreeSet<LeaseId>,
    /// Parts of the fees of challenges that are held until they are decided.
    held_fees: u128,
}

impl Auditor {
    pub(crate) fn new(genesis: &Genesis) -> Self {
        let accounts = genesis.accounts.iter();
        Self {
            parameters: genesis.parameters,
            balances: accounts.map(|(who, money)| (*who, money.get())).collect(),
            pots: BTreeMap::new(),
            collateral: BTreeMap::new(),
            gas: BTreeMap::new(),
            held: BTreeMap::new(),
            deposits: BTreeMap::new(),
            rents: BTreeMap::new(),
            served: BTreeMap::new(),
            members: BTreeMap::new(),
            compensated: BTreeMap::new(),
            job_of: BTreeMap::new(),
            scheduled: None,
            burned: 0,
            unpaid_fees: 0,
            committed: std::collections::BTreeSet::new(),
            held_fees: 0,
        }
    }

    fn give(&mut self, who: Address, amount: Amount) {
        *self.balances.entry(who).or_default() += amount.get();
    }

    fn take(&mut self, who: Address, amount: Amount) {
        // Who sends what is prepaid may own nothing yet.
        if amount.is_zero() {
            return;
        }
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
                Event::TransactionExecuted {
                    id,
                    sender,
                    kind,
                    burned,
                    tip,
                } => {
                    let signed = asked.remove(id).unwrap();
                    assert_eq!((signed.sender, signed.transaction.kind()), (*sender, *kind));
                    assert_eq!(kind.is_prepaid(), burned.is_zero());
                    let gas = u128::from(charged_gas(&signed.transaction).max(1));
                    assert_eq!(burned.get() % gas, 0);
                    self.take(*sender, burned.saturating_add(*tip));
                    self.burned += burned.get();
                    self.unpaid_fees += tip.get();
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
        let height = state.head().height.get();
        let (root, decisions) = self.scheduled.take().unwrap_or_default();
        assert_eq!(state.schedule().root, schedule_root(height, &decisions));
        assert!(decisions.is_empty() || root == state.schedule().root);
    }

    fn lock_escrow(&mut self, sender: Address, job: JobId, order: &JobOrder) {
        let fee = self.parameters.verification_fee(order.mode);
        let escrow = order.max_price.checked_add(fee).unwrap();
        self.take(sender, escrow);
        let pot = Pot {
            max_price: order.max_price.get(),
            escrow: escrow.get(),
        };
        assert!(self.pots.insert(job, pot).is_none());
    }

    /// What a transaction costs when it is executed.
    fn charge(&mut self, signed: &SignedTransaction, job: JobId) {
        if let Transaction::RevealBid { bid, .. } = &signed.transaction {
            // What the deposit was is known from its own event.
            let (bidder, deposit) = self.deposits.remove(bid).unwrap();
            assert_eq!(bidder, signed.sender);
            self.give(bidder, Amount::new(deposit));
        }
        match &signed.transaction {
            Transaction::RegisterModel { .. } => {
                self.take(signed.sender, self.parameters.registration_fee);
                self.unpaid_fees += self.parameters.registration_fee.get();
            }
            Transaction::ChallengeResult { .. } => {
                self.take(signed.sender, self.parameters.challenge_fee());
                self.unpaid_fees += self.parameters.challenge_fee().get();
            }
            Transaction::CommitReceipt { lease, .. } => {
                self.committed.insert(*lease);
            }
            // Before the start it costs nothing that validators look.
            Transaction::RevealKey { lease, .. } if self.committed.contains(lease) => {
                self.take(signed.sender, self.parameters.challenge_fee());
                self.unpaid_fees += self.parameters.challenge_fee().get();
            }
            Transaction::SubmitJob { order } => self.lock_escrow(signed.sender, job, order),
            Transaction::RevealBid { order, .. } => self.lock_escrow(signed.sender, job, order),
            Transaction::RaiseJob { job, max_price, .. } => {
                let pot = self.pots.get_mut(job).unwrap();
                let more = max_price.get() - pot.max_price;
                pot.max_price = max_price.get();
                pot.escrow += more;
                self.take(signed.sender, Amount::new(more));
            }
            other => assert_ne!(other.kind(), TransactionKind::SubmitJob),
        }
    }

    /// Events that move money which was locked.
    #[expect(clippy::too_many_lines, reason = "one arm for each event")]
    fn settle(&mut self, event: &Event) {
        match event {
            Event::LeaseMade {
                lease,
                job,
                provider,
                collateral,
                ..
            } => {
                self.job_of.insert(*lease, *job);
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
                provider,
                amount,
                job: _,
            } => {
                self.lose(lease, *provider, *amount);
                self.burned += amount.get();
            }
            Event::PenaltyHeld {
                lease,
                provider,
                amount,
            } => {
                self.lose(lease, *provider, *amount);
                self.held.insert(*lease, (*provider, amount.get()));
            }
            Event::PenaltySettled {
                lease,
                provider,
                amount,
                is_burned,
            } => {
                let held = self.held.remove(lease);
                assert_eq!(held, Some((*provider, amount.get())));
                match is_burned {
                    true => self.burned += amount.get(),
                    false => self.give(*provider, *amount),
                }
            }
            Event::HolderPaid {
                job,
                provider,
                amount,
                lease: _,
            } => {
                self.give(*provider, *amount);
                *self.compensated.entry(*job).or_default() += amount.get();
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
            } => self.end(job, *requestor, *provider, settlement),
            Event::Rewarded { validator, amount } => {
                self.unpaid_fees = self.unpaid_fees.checked_sub(amount.get()).unwrap();
                self.give(*validator, *amount);
            }
            Event::ChallengeHeld { amount } => {
                self.unpaid_fees = self.unpaid_fees.checked_sub(amount.get()).unwrap();
                self.held_fees += amount.get();
            }
            Event::ChallengeShared {
                provider, amount, ..
            } => {
                self.held_fees = self.held_fees.checked_sub(amount.get()).unwrap();
                self.give(*provider, *amount);
            }
            Event::ChallengeReturned {
                lease,
                provider,
                challenger,
                amount,
                held,
            } => {
                self.held_fees = self.held_fees.checked_sub(held.get()).unwrap();
                self.lose(lease, *provider, amount.checked_sub(*held).unwrap());
                self.give(*challenger, *amount);
            }
            Event::RunCharged {
                lease,
                provider,
                amount,
            } => {
                self.lose(lease, *provider, *amount);
                self.unpaid_fees += amount.get();
            }
            Event::AccusationRefuted { burned, .. } | Event::VoteRefuted { burned, .. } => {
                self.burned += burned.get()
            }
            Event::AnswerAsked { asker, fee, .. } => {
                self.take(*asker, *fee);
                self.burned += fee.get();
            }
            Event::AnswerQuestionEnded {
                asker,
                end: QuestionEnd::Missing { burned, returned },
                ..
            } => {
                self.burned += burned.get();
                self.give(*asker, *returned);
            }
            Event::SeatBonded { validator, amount } => self.take(*validator, *amount),
            Event::StakeReturned { validator, amount } => self.give(*validator, *amount),
            Event::ValidatorSlashed {
                burned,
                reporter,
                reward,
                ..
            } => {
                self.burned += burned.get();
                self.give(*reporter, *reward);
            }
            other => self.settle_market(other),
        }
    }

    /// Takes a part of a lease's collateral; the rest goes back when the lease ends.
    fn lose(&mut self, lease: &LeaseId, provider: Address, amount: Amount) {
        let (owner, locked) = self.collateral.get_mut(lease).unwrap();
        assert_eq!(*owner, provider);
        *locked = locked.checked_sub(amount.get()).unwrap();
    }

    /// The end of a job: all that its pot held went somewhere.
    fn end(
        &mut self,
        job: &JobId,
        requestor: Address,
        provider: Option<Address>,
        settlement: &Settlement,
    ) {
        let pot = self.pots.remove(job).unwrap();
        let paid = settlement.price.get()
            + settlement.members.get()
            + settlement.verification_fee.get()
            + settlement.bonus.get()
            + settlement.compensation.get();
        assert_eq!(
            self.compensated.remove(job).unwrap_or(0),
            settlement.compensation.get()
        );
        assert_eq!(
            self.members.remove(job).unwrap_or(0),
            settlement.members.get()
        );
        let gone = paid + settlement.refund.get() + settlement.burned.get();
        let served = self.served.remove(job);
        assert_eq!(pot.escrow, gone - served.unwrap_or(0));
        self.give(requestor, settlement.refund);
        if let Some(served) = served {
            assert_eq!(served, settlement.price.get());
        } else if let Some(provider) = provider {
            self.give(provider, settlement.price);
            self.give(provider, settlement.bonus);
        }
        self.burned += settlement.burned.get();
        self.unpaid_fees += settlement.verification_fee.get();
    }

    /// What leases prepay for gas, and what becomes of it.
    fn settle_gas(&mut self, event: &Event) {
        match event {
            Event::GasPrepaid {
                lease,
                provider,
                amount,
            } => {
                self.take(*provider, *amount);
                assert!(self.gas.insert(*lease, (*provider, amount.get())).is_none());
            }
            Event::GasSettled {
                lease,
                provider,
                burned,
                returned,
            } => {
                let locked = self.gas.remove(lease);
                let sum = burned.get() + returned.get();
                assert_eq!(locked, Some((*provider, sum)));
                self.burned += burned.get();
                self.give(*provider, *returned);
            }
            other => self.settle_rent(other),
        }
    }

    /// The market's own events.
    fn settle_market(&mut self, event: &Event) {
        match event {
            Event::EscrowBurned { job, amount, .. } => {
                let pot = self.pots.get_mut(job).unwrap();
                pot.escrow = pot.escrow.checked_sub(amount.get()).unwrap();
                self.burned += amount.get();
            }
            Event::EndpointPaid {
                job,
                provider,
                amount,
                lease: _,
            } => {
                let pot = self.pots.get_mut(job).unwrap();
                pot.escrow = pot.escrow.checked_sub(amount.get()).unwrap();
                self.give(*provider, *amount);
                *self.served.entry(*job).or_default() += amount.get();
            }
            Event::MemberPaid {
                job,
                provider,
                amount,
                ..
            } => {
                self.give(*provider, *amount);
                *self.members.entry(*job).or_default() += amount.get();
            }
            Event::Compensated {
                lease,
                job,
                provider,
                amount,
            } => {
                self.give(*provider, *amount);
                // A member that was let go is paid by what its own gang forfeited, whoever made room by the job it made
                // room for.
                if self.job_of.get(lease) == Some(job) {
                    self.burned = self.burned.checked_sub(amount.get()).unwrap();
                } else {
                    *self.compensated.entry(*job).or_default() += amount.get();
                }
            }
            Event::BidCommitted {
                bid,
                bidder,
                deposit,
            } => {
                self.take(*bidder, *deposit);
                let locked = (*bidder, deposit.get());
                assert!(self.deposits.insert(*bid, locked).is_none());
            }
            Event::BidRevealed { bid, .. } => assert!(!self.deposits.contains_key(bid)),
            Event::BidForfeited {
                bid,
                bidder,
                amount,
            } => {
                let lost = self.deposits.remove(bid);
                assert_eq!(lost, Some((*bidder, amount.get())));
                self.burned += amount.get();
            }
            Event::Scheduled { root, decisions } => {
                self.scheduled = Some((*root, decisions.clone()));
            }
            other => self.settle_gas(other),
        }
    }

    /// What staying in the state costs.
    fn settle_rent(&mut self, event: &Event) {
        match event {
            Event::RentDeposited {
                record,
                payer,
                deposit,
                burned,
            } => {
                self.take(*payer, deposit.checked_add(*burned).unwrap());
                self.burned += burned.get();
                *self.rents.entry(*record).or_default() += deposit.get();
            }
            Event::RentSettled {
                record,
                payer,
                burned,
                returned,
            } => {
                let gone = burned.get() + returned.get();
                let deposit = self.rents.get_mut(record).unwrap();
                *deposit = deposit.checked_sub(gone).unwrap();
                self.burned += burned.get();
                self.give(*payer, *returned);
            }
            Event::AccountRent {
                account, burned, ..
            } => {
                self.take(*account, *burned);
                self.burned += burned.get();
            }
            _ => {}
        }
    }

    /// Compares every balance, and what was burned, with a state.
    pub(crate) fn agree_on_accounts(&self, state: &State) {
        for account in state.accounts().iter() {
            let known = self.balances.get(&account.address).copied().unwrap_or(0);
            assert_eq!(account.balance.get(), known, "{}", account.address);
        }
        assert_eq!(state.totals().burned.get(), self.burned);
    }

    /// Compares the books with a state.
    pub(crate) fn agree(&self, state: &State) {
        self.agree_on_accounts(state);
        let rents: u128 = self.rents.values().sum();
        assert_eq!(state.money().deposits.get(), rents);
        for bid in state.bids().iter() {
            let known = self.deposits.get(&bid.id);
            assert_eq!(known, Some(&(bid.bidder, bid.deposit.get())));
        }
        assert_eq!(state.bids().len(), self.deposits.len());
        for job in state.jobs().iter() {
            let pot = self.pots.get(&job.id).copied().unwrap_or_default();
            assert_eq!(job.escrow().get(), pot.escrow);
        }
        for lease in state.leases().iter() {
            let locked = self.collateral.get(&lease.id).or(self.held.get(&lease.id));
            let locked = locked.map_or(0, |(_, it)| *it);
            assert_eq!(lease.locked().get(), locked);
            let gas = self.gas.get(&lease.id).map_or(0, |(_, it)| *it);
            assert_eq!(lease.gas_locked().get(), gas);
        }
    }
}
