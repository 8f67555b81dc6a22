//! What keeps a group as it should be: replicas are opened, closed and replaced, and their money is accounted for.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tg_types::{Amount, JobId, Transaction, Wallet};

use super::group::{
    GroupError, GroupEvent, GroupHost, GroupPatience, GroupState, ReplicaGroup, wall_ms,
};
use super::opening::{
    PriceLimits, ReplicaOpenError, ReplicaPrice, market_choice, matched, ordered, served,
};
use super::record::{GroupRecord, ReplicaPart, ReplicaRecord};
use super::replica::{LeaveReason, Replica, ReplicaSlot};
use super::scaling::{OpenReason, ScalingStep};
use super::session::{EndpointError, EndpointSession, serving_lease};
use crate::client::Client;
use crate::dto::JobDto;
use crate::jobs::submit;
use crate::verify::OrderTerms;

/// How often the rules are asked, and how often the jobs are looked at.
const TEND: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_secs(1);

/// How long a provider may be away from the gateway.
const AWAY_MAX: Duration = Duration::from_secs(6);

/// How long whoever leaves may take to have its last voucher: one that is lost, and one that is not.
const PAY_LOST: Duration = Duration::from_secs(1);
const PAY: Duration = Duration::from_secs(5);

/// How long after its order a job that the grid does not know may still come: nodes keep a transaction for ten minutes.
const COMES_MAX_MS: u64 = 660_000;

/// How long it is waited for the end of all jobs of a group that is closed.
const CLOSED_MAX: Duration = Duration::from_secs(90);

/// How often the end of a job that goes on is sent again.
const CANCEL_AGAIN: Duration = Duration::from_secs(5);

/// Offers of providers that the group has already that are held while another one is looked for, at most.
const HELD_MAX: usize = 7;

impl ReplicaGroup {
    /// Founds a group and opens its least number of replicas. If that many cannot be opened, what was opened is closed again, unless fewer will
    /// do: then it is tried again as long as the group is tended.
    ///
    /// # Errors
    /// Why a replica could not be opened; if the record cannot be kept.
    pub async fn found(
        (client, wallet): (&Client, &Wallet),
        record: GroupRecord,
        host: Arc<dyn GroupHost>,
        patience: GroupPatience,
        may_be_fewer: bool,
    ) -> Result<Self, GroupError> {
        host.keep(&record).map_err(GroupError::NotKept)?;
        let min = record.min;
        let group = Self::new((client, wallet), record, host, patience);
        while group.replicas().len() < min {
            let Err(error) = group.open_one(OpenReason::Fewer).await else {
                continue;
            };
            if may_be_fewer && !group.replicas().is_empty() {
                group.stalls(&error);
                return Ok(group);
            }
            group.close().await?;
            return Err(error.into());
        }
        Ok(group)
    }

    /// Takes up a group that was founded before. Replicas that nobody serves any more are closed; [`Self::tend`] opens others in their place.
    ///
    /// # Errors
    /// If the grid does not answer, or the record cannot be kept.
    pub async fn resume(
        (client, wallet): (&Client, &Wallet),
        record: GroupRecord,
        host: Arc<dyn GroupHost>,
        patience: GroupPatience,
    ) -> Result<Self, GroupError> {
        let jobs = record.replicas.clone();
        let group = Self::new((client, wallet), record, host, patience);
        for ReplicaRecord { job, part, .. } in jobs {
            if part == ReplicaPart::Serves {
                let known = client.job(job).await;
                let begun = match known {
                    Ok(known) => group.begin(&known).await,
                    Err(error) if error.is_not_found() => Err(error.into()),
                    Err(error) => return Err(ReplicaOpenError::from(error).into()),
                };
                match begun {
                    Ok(slot) => {
                        group.enter(slot);
                        continue;
                    }
                    Err(error) => group.problem("take up a replica", Some(&error)),
                }
            }
            group.closes(job).map_err(GroupError::NotKept)?;
        }
        group.look().await;
        Ok(group)
    }

    /// Opens and closes replicas as long as it is awaited: whoever asks has it run beside.
    pub async fn tend(&self) -> Infallible {
        let mut looked = Instant::now();
        loop {
            self.give_back_leaving().await;
            if looked.elapsed() >= LOOK {
                self.look().await;
                looked = Instant::now();
            }
            match self.next_step() {
                ScalingStep::Stay => {}
                ScalingStep::Open(reason) => {
                    if let Err(error) = self.open_one(reason).await {
                        self.stalls(&error);
                    }
                }
                ScalingStep::Close(job) => {
                    if let Some(replica) = self.idle_replica(job) {
                        self.leave(&replica, LeaveReason::Idle, None);
                    }
                }
            }
            let _late = tokio::time::timeout(TEND, self.woken.notified()).await;
        }
    }

    /// Pays what is owed and closes what is above the least number: to be called when nobody tends the group any more.
    ///
    /// # Errors
    /// If a replica could not be paid.
    pub async fn rest(&self) -> Result<(), EndpointError> {
        let paid = self.pay().await;
        let above = {
            let state = self.state();
            let min = state.record.min;
            let slots = state.slots.iter().skip(min);
            slots.map(|it| Arc::clone(&it.replica)).collect::<Vec<_>>()
        };
        for replica in above {
            self.leave(&replica, LeaveReason::Closed, None);
        }
        self.give_back_leaving().await;
        // What was being opened when it was stopped.
        for job in self.not_begun() {
            self.problem("keep the record", self.closes(job).err().as_ref());
            self.cancel(job).await;
        }
        self.look().await;
        paid
    }

    /// Opens replicas up to the least number.
    ///
    /// # Errors
    /// Why one could not be opened.
    pub async fn restore(&self) -> Result<(), ReplicaOpenError> {
        while matches!(self.next_step(), ScalingStep::Open(OpenReason::Fewer)) {
            self.open_one(OpenReason::Fewer).await?;
        }
        Ok(())
    }

    /// Closes a group that was founded before, without asking anything of its replicas: each has the vouchers that it was given.
    ///
    /// # Errors
    /// As [`Self::close`].
    pub async fn close_all(
        (client, wallet): (&Client, &Wallet),
        record: GroupRecord,
        host: Arc<dyn GroupHost>,
    ) -> Result<GroupRecord, GroupError> {
        let patience = GroupPatience::default();
        Self::new((client, wallet), record, host, patience)
            .close()
            .await
    }

    /// Jobs that are not being closed and that nobody asks.
    fn not_begun(&self) -> Vec<JobId> {
        let state = self.state();
        let asked = |job| state.slots.iter().any(|it| it.replica.job() == job);
        let jobs = state.record.replicas.iter();
        let jobs = jobs.filter(|it| it.part != ReplicaPart::Closes && !asked(it.job));
        jobs.map(|it| it.job).collect()
    }

    /// Closes all replicas and waits until their jobs have ended.
    ///
    /// # Errors
    /// If the record cannot be kept. What did not end in time is in the record that is left.
    pub async fn close(&self) -> Result<GroupRecord, GroupError> {
        let slots = self
            .state()
            .slots
            .iter()
            .map(|it| Arc::clone(&it.replica))
            .collect::<Vec<_>>();
        for replica in slots {
            self.leave(&replica, LeaveReason::Closed, None);
        }
        self.give_back_leaving().await;
        for job in self.not_begun() {
            self.closes(job).map_err(GroupError::NotKept)?;
            self.cancel(job).await;
        }
        let began = Instant::now();
        let mut cancelled = Instant::now();
        while !self.record().replicas.is_empty() && began.elapsed() < CLOSED_MAX {
            tokio::time::sleep(TEND * 2).await;
            let is_late = cancelled.elapsed() >= CANCEL_AGAIN;
            if is_late {
                cancelled = Instant::now();
            }
            self.look_once(is_late).await;
        }
        Ok(self.record())
    }

    /// Takes note that no replica could be opened, and tells it once.
    fn stalls(&self, error: &ReplicaOpenError) {
        let is_money = matches!(error, ReplicaOpenError::NoMoney { .. });
        let why = error.to_string();
        let mut state = self.state();
        let now = self.now_ms();
        state.scaling.not_opened(now);
        let stalled = Some((why.clone(), is_money));
        let is_new = state.stalled != stalled;
        state.stalled = stalled;
        drop(state);
        if is_new {
            self.host.tell(&GroupEvent::Stalled { why, is_money });
        }
    }

    /// A replica that was asked nothing up to now.
    fn idle_replica(&self, job: JobId) -> Option<Arc<Replica>> {
        let state = self.state();
        let mut slots = state.slots.iter();
        let slot = slots.find(|it| it.replica.job() == job && it.unanswered == 0)?;
        Some(Arc::clone(&slot.replica))
    }

    /// Pays whoever leaves what is owed, and ends its job.
    async fn give_back_leaving(&self) {
        // Whoever stops this in the middle finds those in the list that have not been paid.
        while let Some((replica, reason)) = self.first_leaving() {
            let most = match reason {
                LeaveReason::Lost => PAY_LOST,
                LeaveReason::Spent | LeaveReason::Idle | LeaveReason::Closed => PAY,
            };
            let paid = replica.pay(most).await;
            if reason != LeaveReason::Lost && reason != LeaveReason::Spent {
                self.problem("pay a replica that is closed", paid.as_ref().err());
            }
            self.cancel(replica.job()).await;
            let job = replica.job();
            self.state().leaving.retain(|(it, _)| it.job() != job);
        }
    }

    fn first_leaving(&self) -> Option<(Arc<Replica>, LeaveReason)> {
        let state = self.state();
        let first = state.leaving.first();
        first.map(|(replica, reason)| (Arc::clone(replica), *reason))
    }

    /// Ends a job. One that ended cannot be ended again; what is left of others is ended when they are looked at.
    async fn cancel(&self, job: JobId) {
        let cancel = Transaction::CancelJob { job };
        let _ended = submit(&self.client, &self.wallet, &cancel, "close a replica").await;
    }

    /// Looks at all jobs of the group.
    async fn look(&self) {
        self.look_once(true).await;
    }

    async fn look_once(&self, cancels: bool) {
        self.take_money();
        self.look_at_away().await;
        for replica in self.record().replicas {
            match self.client.job(replica.job).await {
                Ok(known) => self.take_look(&replica, &known, cancels).await,
                Err(error) if error.is_not_found() => {
                    let age = wall_ms().saturating_sub(replica.ordered_ms);
                    // Stops: an API that says of a job that there is none, so that its money is locked a second time.
                    if age > COMES_MAX_MS && !self.is_asked(replica.job) {
                        let spent = match self.client.is_own_node() {
                            true => Amount::ZERO,
                            false => replica.locked,
                        };
                        self.ended(replica.job, spent);
                    }
                }
                // Looked at again in a moment; requests say more of a grid that is away.
                Err(_away) => {}
            }
        }
    }

    /// Whether requests go to a job.
    fn is_asked(&self, job: JobId) -> bool {
        let state = self.state();
        state.slots.iter().any(|it| it.replica.job() == job)
    }

    /// Takes note of money that was added.
    fn take_money(&self) {
        let Some(money) = self.host.money() else {
            return;
        };
        let mut state = self.state();
        if money > state.record.money {
            state.record.money = money;
            state.scaling.retry();
            state.stalled = None;
            drop(state);
            self.woken.notify_one();
        }
    }

    /// Whether those providers are back that were away; they are lost if not for long.
    async fn look_at_away(&self) {
        let away: Vec<(Arc<Replica>, Instant)> = {
            let state = self.state();
            let slots = state.slots.iter();
            let away = slots.filter_map(|it| Some((Arc::clone(&it.replica), it.away?)));
            away.collect()
        };
        for (replica, since) in away {
            let greeted = tokio::time::timeout(PAY_LOST, replica.session.greet()).await;
            match greeted {
                Ok(Ok(())) => self.is_here(&replica),
                _ if since.elapsed() < AWAY_MAX => {}
                _ => self.leave(&replica, LeaveReason::Lost, Some(&EndpointError::CutOff)),
            }
        }
    }

    async fn take_look(&self, replica: &ReplicaRecord, known: &JobDto, cancels: bool) {
        let asked = {
            let state = self.state();
            let mut slots = state.slots.iter();
            let slot = slots.find(|it| it.replica.job() == known.id);
            slot.map(|it| Arc::clone(&it.replica))
        };
        if let Some(asked) = asked {
            let lease = serving_lease(known);
            if lease
                .as_ref()
                .is_ok_and(|it| it.id == asked.session.lease())
            {
                return;
            }
            let reason = match known.escrow.is_zero() {
                true => LeaveReason::Spent,
                false => LeaveReason::Lost,
            };
            self.leave(&asked, reason, lease.err().as_ref());
        }
        if let Some(settlement) = &known.settlement {
            // Stops: an API that tells of less than was paid, so that more is locked than there is money.
            let spent = match self.client.is_own_node() {
                true => settlement.price.min(replica.locked),
                false => replica.locked,
            };
            self.ended(known.id, spent);
            return;
        }
        let mut meters = known.leases.iter().filter_map(|it| it.meter.as_ref());
        let is_ending = meters.any(|it| it.ends_ms.is_some());
        if cancels && replica.part == ReplicaPart::Closes && !is_ending {
            self.cancel(known.id).await;
        }
    }

    fn ended(&self, job: JobId, spent: Amount) {
        let mut state = self.state();
        let kept = self.change(&mut state, |record| record.ended(job, spent));
        // Its money may do for another one.
        if state
            .stalled
            .as_ref()
            .is_some_and(|(_, is_money)| *is_money)
        {
            state.scaling.retry();
        }
        drop(state);
        self.problem("keep the record", kept.err().as_ref());
        self.host.tell(&GroupEvent::Ended { job, spent });
    }

    /// Has a job closed, whatever comes.
    fn closes(&self, job: JobId) -> std::io::Result<()> {
        let mut state = self.state();
        self.change(&mut state, |record| {
            if let Some(replica) = record.replica_mut(job) {
                replica.part = ReplicaPart::Closes;
            }
        })
    }

    /// Opens a replica. While the market would give it to a provider that the group has already, the places that it would give are held with
    /// as little money as they take, so that it gives another one; they are let go then.
    async fn open_one(&self, reason: OpenReason) -> Result<(), ReplicaOpenError> {
        let mut held = Vec::new();
        let opened = self.open_past(&mut held).await;
        for job in held {
            self.problem("keep the record", self.closes(job).err().as_ref());
            self.cancel(job).await;
        }
        let (slot, price) = opened?;
        let (job, provider) = (slot.replica.job(), slot.replica.provider());
        {
            let mut state = self.state();
            state.scaling.opened();
            let kept = self.change(&mut state, |record| {
                if let Some(replica) = record.replica_mut(job) {
                    replica.provider = Some(provider);
                }
            });
            drop(state);
            self.problem("keep the record", kept.err().as_ref());
        }
        self.enter(slot);
        self.host.tell(&GroupEvent::Opened {
            job,
            provider,
            price,
            reason,
        });
        Ok(())
    }

    async fn open_past(
        &self,
        held: &mut Vec<JobId>,
    ) -> Result<(ReplicaSlot, ReplicaPrice), ReplicaOpenError> {
        loop {
            let next = self.next_order()?;
            let (model, account) = (next.record.model, next.record.account);
            let order = (model, next.terms);
            let choice = market_choice(&self.client, account, order).await?;
            self.state().price = Some(choice.price);
            next.limits.check(choice.price)?;
            let (least, left) = (choice.price.least(), next.record.left());
            if next.terms.max_price < least {
                return Err(ReplicaOpenError::NoMoney { left, least });
            }
            if let Some(is_lost) = self.is_taken(choice.provider) {
                let both = least.saturating_add(least);
                if held.len() >= HELD_MAX || left < both {
                    return Err(ReplicaOpenError::SameProvider {
                        provider: choice.provider,
                        is_lost,
                    });
                }
                let terms = OrderTerms {
                    max_price: least,
                    ..next.terms
                };
                let job = self
                    .order((&next.record, terms), ReplicaPart::Holds)
                    .await?;
                held.push(job);
                matched(&self.client, job).await?;
                continue;
            }
            let terms = (&next.record, next.terms);
            let job = self.order(terms, ReplicaPart::Serves).await?;
            let begun = match served(&self.client, job).await {
                Ok(known) => self.begin_new(&known, next.limits).await,
                Err(error) => Err(error),
            };
            if begun.is_err() {
                // Those that are not kept are closed when they are looked at.
                let _kept = self.closes(job);
                self.cancel(job).await;
            }
            return begun;
        }
    }

    /// The terms of the next order.
    fn next_order(&self) -> Result<NextOrder, ReplicaOpenError> {
        let state = self.state();
        let GroupState { record, .. } = &*state;
        let until = record.until_ms.saturating_sub(wall_ms());
        if until == 0 {
            return Err(ReplicaOpenError::Over);
        }
        let share = record.share();
        let least = state.price.map_or(Amount::new(1), ReplicaPrice::least);
        if share < least {
            return Err(ReplicaOpenError::NoMoney { left: share, least });
        }
        Ok(NextOrder {
            terms: OrderTerms {
                deadline: Duration::from_millis(until),
                needs: record.needs,
                ..OrderTerms::new(share)
            },
            limits: PriceLimits {
                minute_max: record.minute_max,
                run_max: record.run_max,
            },
            record: record.clone(),
        })
    }

    /// Orders a job that is in the record before its order is sent.
    async fn order(
        &self,
        (record, terms): (&GroupRecord, OrderTerms),
        part: ReplicaPart,
    ) -> Result<JobId, ReplicaOpenError> {
        let mut before: Option<JobId> = None;
        let mut keep = |job: JobId| {
            let mut state = self.state();
            self.change(&mut state, |record| {
                // What was signed before was refused.
                record.replicas.retain(|it| Some(it.job) != before);
                record.replicas.push(ReplicaRecord {
                    job,
                    provider: None,
                    locked: terms.max_price,
                    part,
                    ordered_ms: wall_ms(),
                });
            })?;
            drop(state);
            before = Some(job);
            Ok(())
        };
        let order = (record.model, terms);
        let ordered = ordered(&self.client, &self.wallet, order, &mut keep).await;
        if ordered.is_err()
            && let Some(job) = before
        {
            // It may come all the same: then it is closed when it is looked at.
            self.problem("keep the record", self.closes(job).err().as_ref());
        }
        ordered
    }

    /// Begins with a replica that was ordered a moment ago, if it is what was to be had.
    async fn begin_new(
        &self,
        known: &JobDto,
        limits: PriceLimits,
    ) -> Result<(ReplicaSlot, ReplicaPrice), ReplicaOpenError> {
        let lease = serving_lease(known)?;
        let (price, provider) = (ReplicaPrice::of(lease), lease.provider);
        limits.check(price)?;
        if let Some(is_lost) = self.is_taken(provider) {
            return Err(ReplicaOpenError::SameProvider { provider, is_lost });
        }
        Ok((self.begin(known).await?, price))
    }

    /// Begins a session with whoever serves a job.
    async fn begin(&self, known: &JobDto) -> Result<ReplicaSlot, ReplicaOpenError> {
        let price = ReplicaPrice::of(serving_lease(known)?);
        self.state().price = Some(price);
        let by = self.host.served_by(known).await;
        let by = by.map_err(ReplicaOpenError::Witness)?;
        let session = EndpointSession::open(&self.client, &self.wallet, known.id, &by).await?;
        Ok(ReplicaSlot::new(Arc::new(Replica::new(session))))
    }
}

/// What is ordered next.
struct NextOrder {
    terms: OrderTerms,
    limits: PriceLimits,
    record: GroupRecord,
}
