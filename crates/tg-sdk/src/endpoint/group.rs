//! Several endpoints of one model that take each other's place: requests go to the least busy one, and to another one if that does not answer.
//!
//! A replica is an endpoint like any other: one job, one lease, one session with its own vouchers. The group is the requestor's alone; the ledger
//! knows nothing of it. [`ReplicaGroup::ask`] asks, [`ReplicaGroup::tend`] runs beside it and opens and closes replicas as [`super::scaling`] says:
//! a program that asks spawns the one and awaits the other.
//!
//! **An answer is paid once.** What is owed grows in one place, when [`super::session::EndpointSession`] has taken an answer whose signature,
//! price and seal hold; the request that it belongs to is then answered and is asked of nobody else. A request is asked of a second replica only
//! when the call to the first one has ended without an answer, and what that one says later nobody reads: it is in no voucher. So
//! * a provider that says nothing, or too late, has worked for nothing; what it says it answered is at most the 64 runs that it answers before it
//!   is paid, as with one endpoint;
//! * a gateway that withholds answers has requests answered twice for one payment, and gains nothing by it: it is paid for none;
//! * a requestor that claims that an answer did not come gains what it gains with one endpoint, 64 runs for each lease, and pays the order and the
//!   minutes of each.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tg_types::{Address, Amount, JobId, LeaseId, Voucher, Wallet};
use tokio::sync::Notify;

use super::opening::{ReplicaOpenError, ReplicaPrice};
use super::record::{GroupRecord, ReplicaPart};
use super::replica::{
    FailureMeaning, LeaveReason, PROOF_WEIGHT, Replica, ReplicaSlot, WINDOW, least_busy, meaning,
};
use super::scaling::{GroupLoad, OpenReason, ReplicaLoad, Scaling, ScalingStep};
use super::session::{EndpointAnswer, EndpointError, ServedBy};
use crate::client::Client;
use crate::dto::JobDto;
use crate::verify::CheckedModel;

/// Replicas that one request is asked of, at most.
const TRIES_MAX: u32 = 8;

/// Replicas that refuse an input before it is taken to be at fault.
const REFUSALS_MAX: usize = 2;

/// How long the gateway may be away while a request waits.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// How long a replica may say of every request that it has too much to do.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// How long to wait before a busy replica, or a gateway that is away, is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// How often a waiting request looks for a place by itself.
const LOOK: Duration = Duration::from_millis(250);

/// How long a provider is not taken again that failed.
const LOST_FOR: Duration = Duration::from_secs(60);

/// Time that clocks and blocks may differ by when it is asked whether a replica's money can be spent.
const SPARE_MS: u64 = 15_000;

/// Why the program that uses a group could not say something.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// What a group needs of the program that uses it.
pub trait GroupHost: Send + Sync {
    /// Keeps the record, whole or not at all. It is called before an order is sent, and an order whose record is not kept is not sent.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn keep(&self, record: &GroupRecord) -> io::Result<()>;

    /// All money of the group, as it is kept: another command may have added some.
    fn money(&self) -> Option<Amount>;

    /// On whose word it is who serves a job.
    fn served_by<'a>(
        &'a self,
        job: &'a JobDto,
    ) -> Pin<Box<dyn Future<Output = Result<ServedBy, HostError>> + Send + 'a>>;

    /// Takes note of what happened.
    fn tell(&self, event: &GroupEvent);
}

/// What happens to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupEvent {
    /// A replica answers requests from now.
    Opened {
        /// Its job.
        job: JobId,
        /// Who serves it.
        provider: Address,
        /// What it costs.
        price: ReplicaPrice,
        /// Why it was opened.
        reason: OpenReason,
    },
    /// A replica is asked nothing more, and its job is being closed.
    Left {
        /// Its job.
        job: JobId,
        /// Who served it.
        provider: Address,
        /// Why.
        reason: LeaveReason,
        /// More about it.
        why: Option<String>,
    },
    /// The job of a replica has ended.
    Ended {
        /// The job.
        job: JobId,
        /// What counts as spent.
        spent: Amount,
    },
    /// No replica could be opened.
    Stalled {
        /// Why.
        why: String,
        /// Whether more money would do: nothing else stands in the way.
        is_money: bool,
    },
    /// Something failed that is tried again.
    Problem {
        /// What.
        what: String,
    },
}

/// Why a group has no answer.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The request cannot be answered, or the group cannot go on.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// So many replicas were asked, and none answered.
    #[error("{tries} replicas were asked one after the other, and none answered")]
    Tried {
        /// How many.
        tries: u32,
        /// What the last one said.
        #[source]
        source: EndpointError,
    },
    /// No replica was free or could be opened in time.
    #[error("no replica of the group was free within {waited} s: {why}")]
    NoReplica {
        /// How long a request waits.
        waited: u64,
        /// What stands in the way.
        why: String,
        /// Whether more money would do.
        is_money: bool,
    },
    /// A replica could not be opened.
    #[error(transparent)]
    Open(Box<ReplicaOpenError>),
    /// What has to be kept cannot be written.
    #[error("keep the record of the group")]
    NotKept(#[source] io::Error),
}

impl From<ReplicaOpenError> for GroupError {
    fn from(error: ReplicaOpenError) -> Self {
        Self::Open(Box::new(error))
    }
}

/// An answer, and which replica gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAnswer {
    /// The answer.
    pub answer: EndpointAnswer,
    /// The replica's job.
    pub job: JobId,
    /// Its lease.
    pub lease: LeaseId,
    /// Who gave it.
    pub provider: Address,
    /// How many replicas were asked until one answered.
    pub tries: u32,
}

/// A replica as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its job.
    pub job: JobId,
    /// Its lease.
    pub lease: LeaseId,
    /// Who serves it.
    pub provider: Address,
    /// Requests that it has not answered.
    pub unanswered: usize,
    /// What is owed to it.
    pub owed: Voucher,
}

/// How patient a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPatience {
    /// A replica that says nothing for so long while it has something to answer is given up.
    pub silence: Duration,
    /// A request waits so long for a replica at most, as while there is no money.
    pub wait: Duration,
}

impl Default for GroupPatience {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(30),
            wait: Duration::from_secs(120),
        }
    }
}

/// A group of endpoints, as its requestor uses it: from several tasks at once.
pub struct ReplicaGroup {
    pub(super) client: Client,
    pub(super) wallet: Wallet,
    pub(super) host: Arc<dyn GroupHost>,
    patience: GroupPatience,
    state: Mutex<GroupState>,
    /// Requests that wait for a place.
    waiting: AtomicUsize,
    /// A place is free.
    freed: Notify,
    /// There is something to do for [`Self::tend`].
    pub(super) woken: Notify,
    began: Instant,
}

/// What changes of a group.
pub(super) struct GroupState {
    pub(super) record: GroupRecord,
    pub(super) slots: Vec<ReplicaSlot>,
    pub(super) leaving: Vec<(Arc<Replica>, LeaveReason)>,
    pub(super) scaling: Scaling,
    /// Providers that failed, and when.
    lost: BTreeMap<Address, Instant>,
    /// What a replica costs, as far as is known.
    pub(super) price: Option<ReplicaPrice>,
    /// Why the last replica could not be opened, and whether money would do.
    pub(super) stalled: Option<(String, bool)>,
}

impl GroupState {
    /// Whether what was locked for a replica can be spent by now, for what is owed, for what it may be making, and for its time with some seconds
    /// to spare.
    fn may_be_spent(&self, replica: &Replica) -> bool {
        let mut replicas = self.record.replicas.iter();
        let Some(known) = replicas.find(|it| it.job == replica.job()) else {
            return true;
        };
        let session = &replica.session;
        let minute = self.price.map_or(Amount::ZERO, |it| it.minute);
        let age = wall_ms()
            .saturating_sub(known.ordered_ms)
            .saturating_add(SPARE_MS);
        let time = minute.checked_mul_div_ceil(age, 60_000).unwrap_or(minute);
        let making = session.run().saturating_mul(WINDOW as u64);
        let used = session.owed().amount.saturating_add(making);
        used.saturating_add(time) >= known.locked
    }
}

/// The time by this machine's clock.
pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

impl std::fmt::Debug for ReplicaGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let replicas = self.replicas();
        f.debug_struct("ReplicaGroup")
            .field("replicas", &replicas)
            .finish_non_exhaustive()
    }
}

impl ReplicaGroup {
    /// A group whose replicas are not asked yet.
    pub(super) fn new(
        (client, wallet): (&Client, &Wallet),
        record: GroupRecord,
        host: Arc<dyn GroupHost>,
        patience: GroupPatience,
    ) -> Self {
        let scaling = Scaling::new(record.rules());
        Self {
            client: client.clone(),
            wallet: wallet.clone(),
            host,
            patience,
            state: Mutex::new(GroupState {
                record,
                slots: Vec::new(),
                leaving: Vec::new(),
                scaling,
                lost: BTreeMap::new(),
                price: None,
                stalled: None,
            }),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            woken: Notify::new(),
            began: Instant::now(),
        }
    }

    /// Asks the least busy replica, and another one if that does not answer; `piece` is given what is written as it comes. With a model the answer
    /// is proved and checked. What came counts as owed to whoever gave it, once.
    ///
    /// # Errors
    /// If no replica is free in time, none answers, or the request cannot be answered.
    pub async fn ask(
        &self,
        input: &[u8],
        proof: Option<&CheckedModel>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<GroupAnswer, GroupError> {
        let weight = if proof.is_some() { PROOF_WEIGHT } else { 1 };
        let (mut tries, mut passed) = (0, 0);
        let mut no_gateway: Option<Instant> = None;
        // Who refused this request, and whom it is not given to for now.
        let (mut refused, mut shunned) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let place = self.place(weight, &shunned).await?;
            let replica = Arc::clone(&place.replica);
            let mut on = passed_on(&mut passed, piece);
            let asked = replica.ask(input, proof, &mut on, self.patience.silence);
            let asked = asked.await;
            drop(place);
            tries += 1;
            let error = match asked {
                Ok(answer) => {
                    self.is_here(&replica);
                    return Ok(GroupAnswer {
                        answer,
                        job: replica.job(),
                        lease: replica.session.lease(),
                        provider: replica.provider(),
                        tries,
                    });
                }
                Err(error) => error,
            };
            match meaning(&error) {
                FailureMeaning::Leaves(reason) => self.leave(&replica, reason, Some(&error)),
                FailureMeaning::Away => self.is_away(&replica),
                FailureMeaning::Busy => {
                    tries -= 1;
                    self.is_busy(&replica, &error);
                    shunned.insert(replica.job());
                    if self.has_none_but(&shunned) {
                        shunned.clone_from(&refused);
                        tokio::time::sleep(AGAIN).await;
                    }
                }
                FailureMeaning::NoGateway => {
                    tries -= 1;
                    if no_gateway.get_or_insert_with(Instant::now).elapsed() > ABSENCE_MAX {
                        return Err(error.into());
                    }
                    tokio::time::sleep(AGAIN).await;
                }
                FailureMeaning::Request => {
                    refused.insert(replica.job());
                    shunned.insert(replica.job());
                    if refused.len() >= REFUSALS_MAX || self.has_none_but(&refused) {
                        return Err(error.into());
                    }
                }
                FailureMeaning::Ours => return Err(error.into()),
            }
            if tries >= TRIES_MAX {
                return Err(GroupError::Tried {
                    tries,
                    source: error,
                });
            }
        }
    }

    /// Gives every replica that is asked a voucher for all that is owed to it.
    ///
    /// # Errors
    /// The first failure; the others were tried.
    pub async fn pay(&self) -> Result<(), EndpointError> {
        let slots = self
            .state()
            .slots
            .iter()
            .map(|it| Arc::clone(&it.replica))
            .collect::<Vec<_>>();
        let mut paid = Ok(());
        for replica in slots {
            let one = replica.pay(self.patience.silence).await;
            paid = paid.and(one);
        }
        paid
    }

    /// The replicas that are asked.
    #[must_use]
    pub fn replicas(&self) -> Vec<ReplicaStatus> {
        let status = |it: &ReplicaSlot| ReplicaStatus {
            job: it.replica.job(),
            lease: it.replica.session.lease(),
            provider: it.replica.provider(),
            unanswered: it.unanswered,
            owed: it.replica.session.owed(),
        };
        self.state().slots.iter().map(status).collect()
    }

    /// The record as it stands.
    #[must_use]
    pub fn record(&self) -> GroupRecord {
        self.state().record.clone()
    }

    /// Waits for a place at a replica that is not shunned.
    async fn place(
        &self,
        weight: usize,
        shunned: &BTreeSet<JobId>,
    ) -> Result<ReplicaPlace<'_>, GroupError> {
        let began = Instant::now();
        let _counted = WaitingCount::of(&self.waiting);
        loop {
            let mut freed = pin!(self.freed.notified());
            // What is freed from here on is not missed.
            freed.as_mut().enable();
            if let Some(place) = self.free_place(weight, shunned) {
                return Ok(place);
            }
            if began.elapsed() > self.patience.wait {
                let stalled = self.state().stalled.clone();
                let (why, is_money) =
                    stalled.unwrap_or_else(|| ("all of them are busy".to_owned(), false));
                return Err(GroupError::NoReplica {
                    waited: self.patience.wait.as_secs(),
                    why,
                    is_money,
                });
            }
            let _late = tokio::time::timeout(LOOK, freed).await;
        }
    }

    fn free_place(&self, weight: usize, shunned: &BTreeSet<JobId>) -> Option<ReplicaPlace<'_>> {
        let mut state = self.state();
        let is_out = |it: &ReplicaSlot| it.away.is_some() || shunned.contains(&it.replica.job());
        let loads = state.slots.iter();
        let loads = loads.map(|it| (it.unanswered, is_out(it)));
        let slot = least_busy(loads, weight)?;
        let slot = state.slots.get_mut(slot)?;
        slot.unanswered += weight;
        slot.used = Instant::now();
        Some(ReplicaPlace {
            group: self,
            replica: Arc::clone(&slot.replica),
            weight,
        })
    }

    /// What is to be done now, as the rules of scaling say.
    pub(super) fn next_step(&self) -> ScalingStep {
        let mut state = self.state();
        let ms = |at: Instant| at.saturating_duration_since(self.began).as_millis() as u64;
        let load = |it: &ReplicaSlot| ReplicaLoad {
            job: it.replica.job(),
            unanswered: it.unanswered,
            used_ms: ms(it.used),
        };
        let replicas: Vec<ReplicaLoad> = state.slots.iter().map(load).collect();
        let load = GroupLoad {
            waiting: self.waiting.load(Ordering::Relaxed),
            replicas: &replicas,
        };
        state.scaling.step(self.now_ms(), load)
    }

    /// Milliseconds since the group was taken up.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Has a new replica asked from now.
    pub(super) fn enter(&self, slot: ReplicaSlot) {
        let mut state = self.state();
        state.slots.push(slot);
        state.stalled = None;
        drop(state);
        self.freed.notify_waiters();
    }

    /// Asks a replica nothing more: what it was asked is asked of others, and its job is closed by [`Self::tend`].
    pub(super) fn leave(
        &self,
        replica: &Arc<Replica>,
        reason: LeaveReason,
        error: Option<&EndpointError>,
    ) {
        let mut state = self.state();
        let slot = state
            .slots
            .iter()
            .position(|it| Arc::ptr_eq(&it.replica, replica));
        // Of several requests that fail at once the first one says so.
        let Some(slot) = slot else {
            return;
        };
        // Stops: a provider that says at once that its money is spent, and is given another lease.
        let is_believed = reason != LeaveReason::Spent || state.may_be_spent(replica);
        let reason = if is_believed {
            reason
        } else {
            LeaveReason::Lost
        };
        state.slots.remove(slot);
        state.leaving.push((Arc::clone(replica), reason));
        if reason == LeaveReason::Lost {
            state.lost.insert(replica.provider(), Instant::now());
        }
        // If it cannot be kept, a later command finds a replica that is being closed, and closes it.
        let kept = self.change(&mut state, |record| {
            if let Some(replica) = record.replica_mut(replica.job()) {
                replica.part = ReplicaPart::Closes;
            }
        });
        drop(state);
        replica.give_up();
        self.problem("keep the record", kept.err().as_ref());
        self.host.tell(&GroupEvent::Left {
            job: replica.job(),
            provider: replica.provider(),
            reason,
            why: error.map(|it| chain(it)),
        });
        self.woken.notify_one();
    }

    /// Tells of a failure, if there is one, that is no reason to stop.
    pub(super) fn problem<E: std::error::Error>(&self, doing: &str, error: Option<&E>) {
        if let Some(error) = error {
            let what = format!("{doing}: {}", chain(error));
            self.host.tell(&GroupEvent::Problem { what });
        }
    }

    /// Whether a provider would not do for another replica: it serves one, or failed a moment ago (then `Some(true)`).
    pub(super) fn is_taken(&self, provider: Address) -> Option<bool> {
        let mut state = self.state();
        state.lost.retain(|_, at| at.elapsed() < LOST_FOR);
        if state.lost.contains_key(&provider) {
            return Some(true);
        }
        let mut slots = state.slots.iter();
        let serves = slots.any(|it| it.replica.provider() == provider);
        (serves && !state.record.same_provider).then_some(false)
    }

    /// Whether all replicas that could be asked are among these.
    fn has_none_but(&self, jobs: &BTreeSet<JobId>) -> bool {
        let state = self.state();
        let mut there = state.slots.iter().filter(|it| it.away.is_none());
        there.all(|it| jobs.contains(&it.replica.job()))
    }

    /// A replica says that it has too much to do. One that says nothing else for [`BUSY_MAX`] is lost: stops a provider that is paid by the minute
    /// and takes each request first, as it has the fewest.
    fn is_busy(&self, replica: &Arc<Replica>, error: &EndpointError) {
        let mut state = self.state();
        let mut slots = state.slots.iter_mut();
        let slot = slots.find(|it| Arc::ptr_eq(&it.replica, replica));
        let since = slot.map(|it| *it.busy.get_or_insert_with(Instant::now));
        drop(state);
        if since.is_some_and(|it| it.elapsed() > BUSY_MAX) {
            self.leave(replica, LeaveReason::Lost, Some(error));
        }
    }

    fn is_away(&self, replica: &Arc<Replica>) {
        let mut state = self.state();
        let mut slots = state.slots.iter_mut();
        if let Some(slot) = slots.find(|it| Arc::ptr_eq(&it.replica, replica)) {
            slot.away.get_or_insert_with(Instant::now);
        }
        drop(state);
        self.woken.notify_one();
    }

    pub(super) fn is_here(&self, replica: &Arc<Replica>) {
        let mut state = self.state();
        let mut slots = state.slots.iter_mut();
        let slot = slots.find(|it| Arc::ptr_eq(&it.replica, replica));
        let was_away = slot.is_some_and(|it| {
            it.busy = None;
            it.away.take().is_some()
        });
        drop(state);
        if was_away {
            self.freed.notify_waiters();
        }
    }

    /// Changes the record if the change can be kept, and else not.
    pub(super) fn change(
        &self,
        state: &mut GroupState,
        change: impl FnOnce(&mut GroupRecord),
    ) -> io::Result<()> {
        let mut record = state.record.clone();
        change(&mut record);
        self.host.keep(&record)?;
        state.record = record;
        Ok(())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, GroupState> {
        // A panic of another thread leaves every change whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on what was not passed on before: a request that is asked again is answered from the beginning, in the same bits.
fn passed_on<'a>(
    passed: &'a mut usize,
    piece: &'a mut (dyn FnMut(&[u8]) + Send),
) -> impl FnMut(&[u8]) + Send + 'a {
    let mut so_far = 0_usize;
    move |bytes: &[u8]| {
        let known = passed.saturating_sub(so_far).min(bytes.len());
        so_far += bytes.len();
        *passed = so_far.max(*passed);
        if known < bytes.len() {
            piece(&bytes[known..]);
        }
    }
}

/// An error and what it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = sources.map(ToString::to_string).collect();
    texts.join(": ")
}

/// A request at a replica: its place is free when this is dropped.
struct ReplicaPlace<'a> {
    group: &'a ReplicaGroup,
    replica: Arc<Replica>,
    weight: usize,
}

impl Drop for ReplicaPlace<'_> {
    fn drop(&mut self) {
        let mut state = self.group.state();
        let mut slots = state.slots.iter_mut();
        if let Some(slot) = slots.find(|it| Arc::ptr_eq(&it.replica, &self.replica)) {
            slot.unanswered -= self.weight;
            slot.used = Instant::now();
        }
        drop(state);
        self.group.freed.notify_one();
    }
}

/// Counts itself as long as it lives.
struct WaitingCount<'a>(&'a AtomicUsize);

impl<'a> WaitingCount<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_again_is_passed_on_once() {
        let (mut passed, mut text) = (0, Vec::new());
        let mut piece = |bytes: &[u8]| text.extend_from_slice(bytes);
        for pieces in [&["abc", "de"][..], &["ab", "cdef"], &["a"], &["abcdefg"]] {
            let mut on = passed_on(&mut passed, &mut piece);
            pieces.iter().for_each(|it| on(it.as_bytes()));
        }
        assert_eq!(text, b"abcdefg");
    }
}
