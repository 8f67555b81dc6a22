//! Who lost and who gained: sums over a window of blocks, from events.
//!
//! *Griefing factor* of a window: what honest parties lost by failures that hostile ones caused, over what hostile ones
//! burned or paid away. Money that may come back (escrow, collateral, deposits) and the price of accepted work are no
//! expense. Losses are of three kinds, kept apart: money; time of machines that nobody paid for, at the price of the
//! lease, as a part of its longest time; and delay of orders, at the same rate. Two losses have a bound of their own, its
//! price for each lease, and are summed apart: delay beyond what the one who caused it burned (an order may accept offers
//! whose collateral is below their price), and time on models that nobody can serve (which registration is to refuse).

use std::collections::{BTreeMap, BTreeSet};

use tg_ledger::{
    AbandonedBecause, BurnedBecause, EndReason, Event, Job, Lease, LeaseEnd, QuestionEnd, State,
};
use tg_types::{Address, JobId, LeaseId, TransactionKind, VerificationMode};

use crate::net::{Moment, Side, WINDOW};

/// Sums in base units.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Burned by hostile accounts, or paid by them to honest ones for nothing.
    pub(crate) spent: u128,
    /// Money that honest parties lost.
    pub(crate) money: u128,
    /// Time of honest machines that nobody paid for.
    pub(crate) capacity: u128,
    /// Delay of honest orders, up to what was burned for it.
    pub(crate) delay: u128,
    /// Delay beyond that: of orders whose price is above the collateral of the offers that they accepted.
    pub(crate) excess: u128,
    /// Time of honest machines on models that nobody can serve, or with deadlines that leave no time to hand in.
    pub(crate) trapped: u128,
    /// Paid by honest parties to hostile ones for accepted work, for work that they broke off, and for validating.
    pub(crate) earned: u128,
}

impl Sums {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            spent: self.spent + other.spent,
            money: self.money + other.money,
            capacity: self.capacity + other.capacity,
            delay: self.delay + other.delay,
            excess: self.excess + other.excess,
            trapped: self.trapped + other.trapped,
            earned: self.earned + other.earned,
        }
    }

    /// Some losses in thousandths of what was spent.
    const fn milli_of(self, lost: u128) -> u128 {
        let spent = if self.spent == 0 { 1 } else { self.spent };
        lost * 1_000 / spent
    }

    /// The griefing factor in thousandths, without the two kinds of losses that are bounded by the lease alone.
    pub(crate) const fn factor_milli(self) -> u128 {
        self.milli_of(self.money + self.capacity + self.delay)
    }

    /// The griefing factor in thousandths with everything in it.
    pub(crate) const fn whole_factor_milli(self) -> u128 {
        self.milli_of(self.money + self.capacity + self.delay + self.excess + self.trapped)
    }
}

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let milli = |amount: u128| amount / 1_000_000_000_000_000;
        write!(
            f,
            "factor {}.{:03} (with all {}.{:03}); thousandths of a TGRID: spent {}, money {}, capacity {}, delay {}, \
             excess {}, trapped {}",
            self.factor_milli() / 1_000,
            self.factor_milli() % 1_000,
            self.whole_factor_milli() / 1_000,
            self.whole_factor_milli() % 1_000,
            milli(self.spent),
            milli(self.money),
            milli(self.capacity),
            milli(self.delay),
            milli(self.excess),
            milli(self.trapped),
        )
    }
}

/// What happened to one lease in one block.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    gas: u128,
    forfeited: u128,
    got: u128,
}

/// Who is who, and what it came to.
#[derive(Debug, Default)]
pub(crate) struct Books {
    sides: BTreeMap<Address, Side>,
    pub(crate) window: Sums,
    pub(crate) total: Sums,
    /// What each honest account may have lost by the rules so far: its fees and rent, what its jobs cost, its gifts.
    allowed: BTreeMap<Address, u128>,
    /// What leases that failed by somebody hostile came to, by how they ended.
    pub(crate) causes: BTreeMap<String, (u64, Sums)>,
}

impl Books {
    pub(crate) fn enrol(&mut self, address: Address, side: Side) {
        self.sides.insert(address, side);
    }

    pub(crate) fn side(&self, address: &Address) -> Side {
        self.sides.get(address).copied().unwrap_or(Side::Hostile)
    }

    fn is_hostile(&self, address: &Address) -> bool {
        self.side(address) == Side::Hostile
    }

    /// Ends a window.
    pub(crate) fn turn(&mut self) -> Sums {
        let window = std::mem::take(&mut self.window);
        self.total = self.total.plus(window);
        window
    }

    /// What `side` owns of all that everybody owns.
    pub(crate) fn wealth(&self, holdings: &BTreeMap<Address, u128>, side: Side) -> u128 {
        let own = holdings.iter().filter(|(who, _)| self.side(who) == side);
        own.map(|(_, amount)| amount).sum()
    }

    /// An honest account has what it had at the beginning, less what the rules say that it may lose.
    pub(crate) fn check_honest(
        &self,
        first: &BTreeMap<Address, u128>,
        now: &BTreeMap<Address, u128>,
    ) {
        for (who, had) in first {
            if self.side(who) == Side::Hostile {
                continue;
            }
            let has = now.get(who).copied().unwrap_or(0);
            let allowed = self.allowed.get(who).copied().unwrap_or(0);
            assert!(
                has + allowed >= *had,
                "{who} had {had}, has {has}, {allowed} of it spent"
            );
        }
    }

    fn allow(&mut self, who: &Address, amount: u128) {
        *self.allowed.entry(*who).or_default() += amount;
    }

    /// What the rules let an account lose by an event.
    fn read_costs(&mut self, state: &State, event: &Event) {
        match event {
            Event::TransactionExecuted {
                sender,
                kind,
                burned,
                tip,
                ..
            } => {
                self.allow(sender, burned.get() + tip.get());
                if *kind == TransactionKind::RegisterModel {
                    let fee = state.parameters().registration_fee;
                    self.allow(sender, fee.get());
                }
            }
            Event::Transferred { from, amount, .. } => self.allow(from, amount.get()),
            Event::RentDeposited { payer, burned, .. }
            | Event::RentSettled { payer, burned, .. } => self.allow(payer, burned.get()),
            Event::AccountRent {
                account, burned, ..
            } => self.allow(account, burned.get()),
            Event::AnswerAsked { asker, fee, .. } => self.allow(asker, fee.get()),
            Event::GasSettled {
                provider, burned, ..
            } => self.allow(provider, burned.get()),
            // Of an honest provider only on a model that nobody can serve; see `check_duty`.
            Event::Forfeited {
                provider, amount, ..
            } => self.allow(provider, amount.get()),
            Event::EscrowBurned {
                requestor, amount, ..
            } => self.allow(requestor, amount.get()),
            Event::EndpointPaid { job, amount, .. } => {
                if let Some(job) = state.job(job) {
                    self.allow(&job.requestor, amount.get());
                }
            }
            Event::JobEnded {
                requestor,
                settlement,
                ..
            } => {
                let paid = [
                    settlement.price,
                    settlement.members,
                    settlement.verification_fee,
                    settlement.burned,
                    settlement.bonus,
                    settlement.compensation,
                ];
                let paid = paid.iter().map(|it| it.get()).sum();
                self.allow(requestor, paid);
            }
            _ => {}
        }
    }

    /// Reads a block. `traps` says of a model that nobody can serve it; `taken_back` are jobs that honest requestors took
    /// back.
    pub(crate) fn read(
        &mut self,
        before: &State,
        state: &State,
        events: &[Event],
        traps: impl Fn(&tg_types::ModelId) -> bool,
        taken_back: &BTreeSet<JobId>,
    ) {
        let mut tallies: BTreeMap<LeaseId, Tally> = BTreeMap::new();
        for event in events {
            self.read_costs(state, event);
            match event {
                Event::GasSettled { lease, burned, .. } => {
                    tallies.entry(*lease).or_default().gas += burned.get();
                }
                Event::EscrowBurned {
                    job,
                    requestor,
                    because: BurnedBecause::NoKey,
                    ..
                } => assert!(
                    self.is_hostile(requestor) || taken_back.contains(job),
                    "an honest requestor was charged for a key: {:?}",
                    state.job(job)
                ),
                Event::Forfeited {
                    lease,
                    provider,
                    amount,
                    ..
                } => {
                    tallies.entry(*lease).or_default().forfeited += amount.get();
                    self.expense(provider, amount.get());
                }
                Event::HolderPaid {
                    lease,
                    job,
                    provider,
                    amount,
                } => {
                    tallies.entry(*lease).or_default().got += amount.get();
                    self.paid(state, job, provider, amount.get());
                }
                Event::Compensated {
                    lease,
                    job,
                    provider,
                    amount,
                } => {
                    tallies.entry(*lease).or_default().got += amount.get();
                    // Of a gang that failed, what the guilty one lost counts as its expense already.
                    let is_own = state.lease(lease).is_some_and(|it| it.job == *job);
                    if !is_own {
                        self.paid(state, job, provider, amount.get());
                    }
                }
                _ => self.read_flow(before, state, event),
            }
        }
        for event in events {
            if let Event::LeaseEnded { lease, end, .. } = event {
                let tally = tallies.get(lease).copied().unwrap_or_default();
                self.ended(before, state, (lease, end), tally, &traps, taken_back);
            }
        }
    }

    fn expense(&mut self, who: &Address, amount: u128) {
        if self.is_hostile(who) {
            self.window.spent += amount;
        }
    }

    /// A requestor paid somebody.
    fn paid(&mut self, state: &State, job: &JobId, to: &Address, amount: u128) {
        let from = state.job(job).map(|it| self.side(&it.requestor));
        match (from, self.side(to)) {
            (Some(Side::Hostile), Side::Honest) => self.window.spent += amount,
            (Some(Side::Honest), Side::Hostile) => self.window.earned += amount,
            _ => {}
        }
    }

    /// Money that moves without a lease's end.
    fn read_flow(&mut self, before: &State, state: &State, event: &Event) {
        match event {
            Event::TransactionExecuted {
                sender,
                burned,
                tip,
                ..
            } => self.expense(sender, burned.get() + tip.get()),
            Event::Slashed {
                provider, amount, ..
            } => {
                assert!(self.is_hostile(provider), "an honest provider was slashed");
                self.expense(provider, amount.get());
            }
            Event::PenaltySettled {
                provider,
                amount,
                is_burned: true,
                lease,
            } => {
                assert!(
                    self.is_hostile(provider),
                    "an honest decline was burned: {lease} {:?}",
                    state.lease(lease)
                );
                self.expense(provider, amount.get());
            }
            Event::BidForfeited { bidder, amount, .. } => {
                assert!(self.is_hostile(bidder), "an honest bid was forfeited");
                self.expense(bidder, amount.get());
            }
            // No expense of the window: it is more than all that a window comes to, and would hide any loss.
            Event::ValidatorSlashed { validator, .. } => {
                assert!(self.is_hostile(validator), "an honest seat was slashed");
            }
            Event::AccusationRefuted { validator, .. } => {
                assert!(self.is_hostile(validator), "an honest member was refuted");
            }
            Event::VoteRefuted { validator, .. } => {
                assert!(self.is_hostile(validator), "an honest vote was refuted");
            }
            Event::AnswerAsked { asker, fee, .. } => self.expense(asker, fee.get()),
            Event::AnswerQuestionEnded {
                seat,
                end: QuestionEnd::Missing { .. },
                ..
            } => {
                assert!(
                    self.is_hostile(seat),
                    "an honest seat was charged for what it keeps"
                );
            }
            Event::RentDeposited { payer, burned, .. } => self.expense(payer, burned.get()),
            Event::RentSettled {
                record,
                payer,
                burned,
                ..
            } => {
                // Of an ended job it was counted when it ended.
                let job = before.job(&JobId::new(*record.as_bytes()));
                if !job.is_some_and(|it| it.state().is_final()) {
                    self.expense(payer, burned.get());
                }
            }
            Event::AccountRent {
                account, burned, ..
            } => self.expense(account, burned.get()),
            other => self.read_income(state, other),
        }
    }

    /// What hostile accounts are paid for what they did, and what their own jobs cost them.
    fn read_income(&mut self, state: &State, event: &Event) {
        match event {
            Event::MemberPaid {
                job,
                provider,
                amount,
                ..
            }
            | Event::EndpointPaid {
                job,
                provider,
                amount,
                ..
            } => {
                let from = state.job(job).map(|it| self.side(&it.requestor));
                if from == Some(Side::Honest) && self.is_hostile(provider) {
                    self.window.earned += amount.get();
                }
            }
            Event::Rewarded { validator, amount } if self.is_hostile(validator) => {
                self.window.earned += amount.get();
            }
            Event::JobEnded {
                job,
                requestor,
                provider,
                reason,
                settlement,
            } => {
                let is_own = self.is_hostile(requestor);
                // What an endpoint paid was counted when it paid.
                let is_endpoint = state.job(job).is_some_and(Job::is_endpoint);
                if *reason == EndReason::Fulfilled
                    && !is_endpoint
                    && !is_own
                    && provider.is_some_and(|it| self.is_hostile(&it))
                {
                    self.window.earned += settlement.price.get() + settlement.bonus.get();
                }
                if is_own {
                    // Kept for a day, and burned.
                    let kept = state.job(job).map_or(0, |it| it.rent.deposit.get());
                    self.window.spent += kept + settlement.burned.get();
                }
            }
            _ => {}
        }
    }

    /// A lease ended: what its provider and its requestor lost by it, if somebody hostile is the cause.
    fn ended(
        &mut self,
        before: &State,
        state: &State,
        (id, end): (&LeaseId, &LeaseEnd),
        tally: Tally,
        traps: &impl Fn(&tg_types::ModelId) -> bool,
        taken_back: &BTreeSet<JobId>,
    ) {
        let (Some(lease), Some(job)) = (
            state.lease(id),
            state.lease(id).and_then(|it| state.job(&it.job)),
        ) else {
            return;
        };
        let provider = self.side(&lease.provider);
        let requestor = self.side(&job.requestor);
        if *end == LeaseEnd::Fulfilled {
            return;
        }
        if provider == Side::Hostile {
            self.window.spent += tally.gas;
        }
        let is_trap = traps(&job.order.model) || is_tight(state, lease);
        if provider == Side::Honest {
            self.check_duty(state, lease, end, tally, (is_trap, taken_back));
        }
        if !(is_trap && matches!(end, LeaseEnd::Late(_))
            || self.is_caused(before, state, job, lease))
        {
            return;
        }
        let sides = (provider, requestor);
        let lost = lost_by(state, lease, tally, sides, is_trap);
        // What was matched when nobody hostile acted fails nobody.
        let since = lease.matched_height.get() / WINDOW;
        let is_quiet = Moment::is_quiet(since) && state.head().height.get() / WINDOW == since;
        // But machines that were gone before, which validators find out now.
        let is_gone = provider == Side::Hostile
            && *end == LeaseEnd::Abandoned(AbandonedBecause::ProviderLost);
        assert!(
            !is_quiet || is_trap || is_gone || lost == Sums::default(),
            "{end}: {lease:?}"
        );
        self.window = self.window.plus(lost);
        // Of this lease alone; the window counts it already.
        let spent = match provider {
            Side::Hostile => tally.forfeited + tally.gas,
            Side::Honest => tally.got,
        };
        let name = format!("{end}{}", if is_trap { ", trap" } else { "" });
        let cause = self.causes.entry(name).or_default();
        *cause = (cause.0 + 1, cause.1.plus(Sums { spent, ..lost }));
    }

    /// Whether somebody hostile is the cause that a lease ended without a result.
    fn is_caused(&self, before: &State, state: &State, job: &Job, lease: &Lease) -> bool {
        match &lease.end() {
            Some(LeaseEnd::Cancelled | LeaseEnd::Ungranted) => self.is_hostile(&job.requestor),
            Some(LeaseEnd::Preempted) => lease
                .preemption
                .and_then(|it| before.job(&it.by).or_else(|| state.job(&it.by)))
                .is_some_and(|by| self.is_hostile(&by.requestor)),
            Some(LeaseEnd::Released) => {
                let lead = lease
                    .lead()
                    .and_then(|it| state.lease(&it))
                    .unwrap_or(lease);
                let mut gang = state.gang_of(lead);
                gang.any(|it| {
                    it.end() != Some(&LeaseEnd::Released) && self.is_hostile(&it.provider)
                })
            }
            _ => self.is_hostile(&lease.provider),
        }
    }

    /// What may happen to a provider that does its duty, and what it may cost.
    fn check_duty(
        &self,
        state: &State,
        lease: &Lease,
        end: &LeaseEnd,
        tally: Tally,
        (is_trap, taken_back): (bool, &BTreeSet<JobId>),
    ) {
        let job = state.job(&lease.job);
        let is_compared = job.is_some_and(|it| it.order.mode == VerificationMode::Replicate);
        let gas = match is_compared {
            true => tg_ledger::gas::REPLICA_GAS,
            false => tg_ledger::gas::LEASE_GAS,
        };
        let gas = state.parameters().base_fee_min.saturating_mul(gas).get();
        assert!(tally.gas <= gas, "more gas than was prepaid");
        match end {
            // Nobody can serve it in time, or its deadline leaves no time to hand in.
            LeaseEnd::Late(_) if is_trap || is_tight(state, lease) => {
                assert!(tally.forfeited <= 10 * gas, "little is at risk");
            }
            LeaseEnd::Cancelled | LeaseEnd::Ungranted => {
                let is_own = taken_back.contains(&lease.job);
                assert!(is_own || tally.got >= gas.min(lease.price.get()));
            }
            LeaseEnd::Preempted
            | LeaseEnd::Released
            | LeaseEnd::Unavailable
            | LeaseEnd::Declined(_) => {
                assert_eq!(tally.forfeited, 0, "{end}: {lease:?}");
            }
            LeaseEnd::Fulfilled
            | LeaseEnd::Rejected { .. }
            | LeaseEnd::Late(_)
            | LeaseEnd::Abandoned(_) => {
                panic!("a provider that did its duty ended {end}: {lease:?}");
            }
        }
    }
}

/// What the provider and the requestor of a lease lost by its end.
fn lost_by(
    state: &State,
    lease: &Lease,
    tally: Tally,
    (provider, requestor): (Side, Side),
    is_trap: bool,
) -> Sums {
    let held = state.head().time.saturating_since(lease.matched_at).get();
    let longest = lease.deadline.saturating_since(lease.grant.from).get();
    let worth = lease
        .price
        .checked_mul_div_ceil(held.min(longest), longest.max(1));
    let worth = worth.map_or(0, tg_types::Amount::get);
    let mut lost = Sums::default();
    if provider == Side::Honest {
        lost.money = (tally.gas + tally.forfeited).saturating_sub(tally.got);
        let over = tally.got.saturating_sub(tally.gas + tally.forfeited);
        let idle = worth.saturating_sub(over);
        match is_trap {
            true => lost.trapped = idle,
            false => lost.capacity = idle,
        }
    }
    if requestor == Side::Honest && lease.lead().is_none() {
        lost.delay = match provider {
            Side::Honest => worth,
            Side::Hostile => worth.min(tally.forfeited + tally.gas),
        };
        lost.excess = worth - lost.delay;
    }
    lost
}

/// Whether a lease has so little time that faulty leaders can make it late: less than the declared time and the least
/// window, of what is known here. In a gang the start of the others and their parts take time too.
fn is_tight(state: &State, lease: &Lease) -> bool {
    let parameters = state.parameters();
    let least = parameters.least_window(state.validators().len());
    let time = lease.deadline.saturating_since(lease.grant.from);
    if lease.lead().is_none() && lease.members().is_empty() {
        return time < parameters.lease_grace && time < least.saturating_mul(3);
    }
    let others = parameters.start_timeout.saturating_add(least);
    time < parameters.lease_grace.saturating_add(others)
        && time < least.saturating_mul(3).saturating_add(others)
}

/// What everybody owns, locked or not: a walk over every record.
pub(crate) fn holdings(state: &State) -> BTreeMap<Address, u128> {
    let mut all: BTreeMap<Address, u128> = BTreeMap::new();
    let mut add = |who: &Address, amount: tg_types::Amount| {
        *all.entry(*who).or_default() += amount.get();
    };
    for it in state.accounts().iter() {
        add(&it.address, it.balance);
    }
    for it in state.leases().iter() {
        add(&it.provider, it.locked().saturating_add(it.gas_locked()));
        // The provider's if the challenge is wrong.
        add(&it.provider, it.held());
    }
    for it in state.jobs().iter() {
        add(&it.requestor, it.escrow());
        add(&it.rent.payer, it.rent.deposit);
        add(&it.requestor, it.retention.fee);
    }
    for it in state.bids().iter() {
        add(&it.bidder, it.deposit);
    }
    for it in state.offers().iter() {
        add(&it.rent.payer, it.rent.deposit);
    }
    for it in state.providers().iter() {
        add(&it.rent.payer, it.rent.deposit);
    }
    for it in state.models().iter() {
        add(&it.rent.payer, it.rent.deposit);
    }
    for it in state.validators().iter().chain(state.seats().bonds()) {
        add(&it.address, it.stake);
    }
    all
}
