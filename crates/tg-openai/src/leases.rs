//! Leases of served models: each account that asks a provider has one, opened when it first asks, paid by vouchers, and given back when
//! nothing was asked for long.
//!
//! What a lease costs beside its answers counts against the key whose request had it opened: gas of its order and of its end, and the rent of its
//! record as spent, and what is locked for it as long as it lasts. So a key that asks cards which never answer uses up its own limit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tg_sdk::dto::{JobDto, JobStateDto, ModeDto};
use tg_sdk::endpoint::session::{EndpointError, EndpointSession, ServedBy};
use tg_sdk::jobs::{self, JobError};
use tg_sdk::{AccountKeys, Client, ClientError, JobFilter, OrderTerms, Wallet};
use tg_types::{Address, Amount, Fees, JobId, ModelId, Transaction};
use tokio::sync::Mutex as AsyncMutex;

use crate::api_keys::{ApiKeys, ReserveError};

/// Endpoints of an account that are looked at.
const ENDPOINTS_MAX: u32 = 200;

/// How long a lease is ordered for; then another is.
const TIME: Duration = Duration::from_secs(2 * 3_600);

/// How long a provider may take to begin to serve.
const BEGINS: Duration = Duration::from_secs(12);

/// How often it is looked whether it did.
const POLL: Duration = Duration::from_millis(100);

/// Requests of which the most that they cost is locked for a lease.
const LOCKED_REQUESTS: u64 = 4;

/// The least that is locked for a lease: what ends it by its end is soon looked for.
const LOCKED_LEAST: Amount = Amount::new(50_000_000_000_000_000);

/// How long nothing may be asked before a lease is given back.
const IDLE: Duration = Duration::from_secs(600);

/// Gas of a transaction about a lease, at most.
const GAS_MAX: u64 = 100_000;

/// Leases that one key has at once, at most.
const LEASES_EACH_MAX: usize = 64;

/// Codes of the ledger for an account that cannot order: it lacks the money, or has too many open jobs.
const ACCOUNTS: [&str; 2] = ["TG-LED-005", "TG-LED-030"];

/// Why there is no lease to ask by.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    /// The order was refused, or the grid is away.
    #[error("order a lease of the model")]
    Order(#[from] JobError),
    /// The grid did not answer.
    #[error("ask the grid")]
    Client(#[from] ClientError),
    /// The key's limit does not allow what a lease costs beside its answers.
    #[error("pay for a lease of the model")]
    Key(#[from] ReserveError),
    /// What is locked for leases of the key leaves no room for another.
    #[error(
        "{count} leases of the key {name} lock {locked} TGRID, and its limit leaves no room for another of {most}: wait until one that nothing is \
         asked by for ten minutes is given back, or have the limit raised"
    )]
    Locked {
        /// The key.
        name: String,
        /// How many there are.
        count: usize,
        /// What is locked for them.
        locked: Amount,
        /// What the request costs at most.
        most: Amount,
    },
    /// The provider did not begin.
    #[error("the provider did not begin to serve within {} s", BEGINS.as_secs())]
    NotBegun,
    /// The provider gave no answer.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

impl LeaseError {
    /// Whether the account that pays is at fault, and no other provider would do.
    pub(super) fn is_accounts(&self) -> bool {
        let code = match self {
            Self::Order(error) => error.call().and_then(ClientError::code),
            Self::Client(error) => error.code(),
            Self::Key(_) | Self::Locked { .. } => return true,
            Self::NotBegun | Self::Endpoint(_) => None,
        };
        code.is_some_and(|code| ACCOUNTS.contains(&code))
    }
}

/// Who has a lease opened: the account that pays, and the caller whose key that is counted on.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeasePayer<'a> {
    pub(super) wallet: &'a Wallet,
    pub(super) caller: &'a str,
}

/// The lease of an account for a model.
#[derive(Debug)]
struct AccountLease {
    session: AsyncMutex<Option<Arc<EndpointSession>>>,
    used: Mutex<Instant>,
    /// The requests that are on their way.
    promised: Mutex<PromisedRequests>,
    /// What is locked for it, on which key.
    lock: Mutex<Option<LeaseLock>>,
    wallet: Wallet,
}

/// What is locked for a lease counts against this caller.
#[derive(Debug, Clone)]
struct LeaseLock {
    caller: String,
    amount: Amount,
}

/// Requests on their way by a lease, and what they may cost together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PromisedRequests {
    count: usize,
    amount: Amount,
}

impl AccountLease {
    fn promised(&self) -> MutexGuard<'_, PromisedRequests> {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<LeaseLock>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether nothing is asked by it, and was not for so long.
    fn is_idle(&self, time: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.promised().count == 0 && used.elapsed() >= time
    }
}

/// A request that is on its way by a lease, and what it may cost.
#[derive(Debug)]
pub(super) struct PromisedRequest {
    lease: Arc<AccountLease>,
    most: Amount,
}

impl Drop for PromisedRequest {
    fn drop(&mut self) {
        // A request may last longer than a lease may be idle.
        self.lease.touch();
        let mut promised = self.lease.promised();
        promised.count = promised.count.saturating_sub(1);
        promised.amount = promised.amount.saturating_sub(self.most);
    }
}

/// The leases of all accounts.
#[derive(Debug)]
pub(super) struct ServedLeases {
    client: Client,
    keys: Arc<ApiKeys>,
    held: Mutex<BTreeMap<(Address, ModelId), Arc<AccountLease>>>,
}

impl ServedLeases {
    pub(super) fn new(client: Client, keys: Arc<ApiKeys>) -> Self {
        Self {
            client,
            keys,
            held: Mutex::default(),
        }
    }

    /// Locks money for a lease of a caller's, as much as its limit leaves beside what is locked for its other leases: the half of that, and at most
    /// what some requests cost.
    fn lock(
        &self,
        payer: LeasePayer<'_>,
        (model, most): (ModelId, Amount),
    ) -> Result<Amount, LeaseError> {
        let lease = self.held(payer.wallet, model);
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let locks = held.values().filter_map(|it| it.lock().clone());
        let own: Vec<Amount> = locks
            .filter(|it| it.caller == payer.caller)
            .map(|it| it.amount)
            .collect();
        let all = own.iter().copied();
        let all = all.fold(Amount::ZERO, Amount::saturating_add);
        // The request itself is held of the limit already, and is paid of what is locked.
        let room = self.keys.left(payer.caller).saturating_add(most);
        let room = room.saturating_sub(all);
        let is_new = lease.lock().is_none();
        if room < most || (is_new && own.len() >= LEASES_EACH_MAX) {
            return Err(LeaseError::Locked {
                name: payer.caller.to_owned(),
                count: own.len(),
                locked: all,
                most,
            });
        }
        let half = room.checked_mul_div_ceil(1, 2).unwrap_or(room).max(most);
        let amount = locked(most).min(half);
        let mut lock = lease.lock();
        let before = lock.take().map_or(Amount::ZERO, |it| it.amount);
        *lock = Some(LeaseLock {
            caller: payer.caller.to_owned(),
            amount: before.saturating_add(amount),
        });
        // What is locked at least is not counted: a key has so many leases at most.
        Ok(amount.max(LOCKED_LEAST))
    }

    /// Takes note that nothing is locked for a lease any more.
    fn unlock(&self, wallet: &Wallet, model: ModelId) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lease) = held.get(&(wallet.address(), model)) {
            *lease.lock() = None;
        }
    }

    /// Counts the gas of so many transactions as spent, at most what they may take.
    async fn count_gas(&self, caller: &str, transactions: u64) -> Result<Amount, LeaseError> {
        let status = jobs::patiently(|| self.client.status()).await?;
        let fee = Fees::from_base_fee(status.base_fee_per_gas).max_fee_per_gas;
        let gas = fee.saturating_mul(GAS_MAX.saturating_mul(transactions));
        self.keys.reserve(caller, gas)?;
        Ok(gas)
    }

    fn held(&self, wallet: &Wallet, model: ModelId) -> Arc<AccountLease> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = held.entry((wallet.address(), model)).or_insert_with(|| {
            Arc::new(AccountLease {
                session: AsyncMutex::default(),
                used: Mutex::new(Instant::now()),
                promised: Mutex::default(),
                lock: Mutex::default(),
                wallet: wallet.clone(),
            })
        });
        lease.touch();
        Arc::clone(lease)
    }

    /// Takes note that a request is on its way that may cost `most`.
    pub(super) fn promise(&self, wallet: &Wallet, model: ModelId, most: Amount) -> PromisedRequest {
        let lease = self.held(wallet, model);
        {
            let mut promised = lease.promised();
            promised.count += 1;
            promised.amount = promised.amount.saturating_add(most);
        }
        PromisedRequest { lease, most }
    }

    /// The lease of an account, opened if there is none; of several that ask at once one opens it. A request costs `most` at most.
    pub(super) async fn session(
        &self,
        payer: LeasePayer<'_>,
        model: ModelId,
        most: Amount,
    ) -> Result<Arc<EndpointSession>, LeaseError> {
        let wallet = payer.wallet;
        let lease = self.held(wallet, model);
        let mut session = lease.session.lock().await;
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let job = match self.open_job(wallet.address(), model).await? {
            Some(job) => {
                if lease.lock().is_none() {
                    // One of before a restart, or whose order got no answer: its money is locked whether the limit leaves room or not.
                    let _beyond = self.lock(payer, (model, most));
                }
                job.id
            }
            None => self.order(payer, model, most).await?,
        };
        if let Err(error) = self.wait_until_served(job).await {
            // Its money comes back.
            self.give_back(wallet, (model, job)).await;
            return Err(error);
        }
        let opened =
            Arc::new(EndpointSession::open(&self.client, wallet, job, &ServedBy::AsTold).await?);
        *session = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// An endpoint of an account for a model that has money left.
    async fn open_job(
        &self,
        account: Address,
        model: ModelId,
    ) -> Result<Option<JobDto>, ClientError> {
        let filter = JobFilter {
            requestor: Some(account),
            provider: None,
            mode: Some(ModeDto::Endpoint),
            limit: Some(ENDPOINTS_MAX),
        };
        let jobs = self.client.jobs(filter).await?;
        let mut jobs = jobs.into_iter();
        Ok(jobs.find(|it| it.model == model && is_open(it)))
    }

    async fn order(
        &self,
        payer: LeasePayer<'_>,
        model: ModelId,
        most: Amount,
    ) -> Result<JobId, LeaseError> {
        // A lease that ended is not locked for any more.
        self.unlock(payer.wallet, model);
        let amount = self.lock(payer, (model, most))?;
        let ordered = self.ordered(payer, (model, amount)).await;
        if ordered.is_err() {
            self.unlock(payer.wallet, model);
        }
        ordered
    }

    async fn ordered(
        &self,
        payer: LeasePayer<'_>,
        (model, amount): (ModelId, Amount),
    ) -> Result<JobId, LeaseError> {
        let terms = OrderTerms {
            deadline: TIME,
            ..OrderTerms::new(amount)
        };
        // Of the order, and of its end.
        let gas = self.count_gas(payer.caller, 2).await?;
        let session = self.keys.session(&payer.wallet.address());
        let keys = AccountKeys {
            wallet: payer.wallet,
            session: session.as_ref(),
        };
        let job = jobs::order_endpoint(&self.client, keys, model, terms).await;
        let job = job.inspect_err(|error| {
            // A refused order costs nothing; one without an answer may have been taken.
            if error.call().is_some_and(|call| call.status().is_some()) {
                self.keys.release(payer.caller, gas);
            }
        })?;
        jobs::wait_for_order(&self.client, job).await?;
        // What is locked for its record burns while that stays.
        if let Ok(rent) = self.client.rent(job).await {
            self.keys.add(payer.caller, rent.left);
        }
        Ok(job)
    }

    async fn wait_until_served(&self, id: JobId) -> Result<(), LeaseError> {
        let began = Instant::now();
        while began.elapsed() < BEGINS {
            let job = self.client.job(id).await?;
            match job.state {
                JobStateDto::Running => return Ok(()),
                _ if !is_open(&job) => return Err(LeaseError::NotBegun),
                _ => tokio::time::sleep(POLL).await,
            }
        }
        Err(LeaseError::NotBegun)
    }

    /// Forgets a lease whose provider gave no answer: who asks next opens it again, or another.
    pub(super) async fn forget(
        &self,
        wallet: &Wallet,
        session: &Arc<EndpointSession>,
        model: ModelId,
    ) {
        let lease = self.held(wallet, model);
        let mut held = lease.session.lock().await;
        if held.as_ref().is_some_and(|it| Arc::ptr_eq(it, session)) {
            *held = None;
        }
    }

    /// Ends a lease, so that what is left of its money comes back. What is owed is paid by the voucher that the provider has.
    pub(super) async fn give_back(&self, wallet: &Wallet, (model, job): (ModelId, JobId)) {
        let cancel = Transaction::CancelJob { job };
        // One that ended cannot be ended again.
        let _ended = self.submit(wallet, &cancel, "give back a lease").await;
        self.unlock(wallet, model);
    }

    /// Submits what changes an order or takes it back, by the session key of an account if it has one.
    async fn submit(
        &self,
        wallet: &Wallet,
        transaction: &Transaction,
        doing: &'static str,
    ) -> Result<(), JobError> {
        let session = self.keys.session(&wallet.address());
        let keys = AccountKeys {
            wallet,
            session: session.as_ref(),
        };
        let sent = jobs::submit_by(&self.client, keys, transaction, doing).await;
        sent.map(drop)
    }

    /// Locks more money for a lease, if what is left does not pay for the requests that are on their way: whatever its provider says, no more
    /// is locked.
    pub(super) async fn top_up(
        &self,
        payer: LeasePayer<'_>,
        (session, model): (&EndpointSession, ModelId),
        most: Amount,
    ) -> Result<(), LeaseError> {
        let (job, wallet) = (session.job(), payer.wallet);
        let known = self.client.job(job).await?;
        let promised = self.held(wallet, model).promised().amount;
        if !needs_more(&known, session.owed().amount, promised) {
            return Ok(());
        }
        let more = self.lock(payer, (model, most))?;
        self.count_gas(payer.caller, 1).await?;
        let max_price = known.max_price.saturating_add(more);
        let raise = Transaction::RaiseJob {
            job,
            max_price,
            max_attempts: known.max_attempts,
        };
        self.submit(wallet, &raise, "lock more money for a lease")
            .await?;
        let began = Instant::now();
        while began.elapsed() < BEGINS {
            if self.client.job(job).await?.max_price >= max_price {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(LeaseError::NotBegun)
    }

    /// The leases by which nothing is asked, and was not for so long.
    fn idle(&self, time: Duration) -> Vec<(ModelId, Arc<AccountLease>)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = held.iter().filter(|(_, lease)| lease.is_idle(time));
        idle.map(|((_, model), lease)| (*model, Arc::clone(lease)))
            .collect()
    }

    /// Gives back the leases by which nothing was asked for long. Who asks meanwhile waits, and opens another.
    pub(super) async fn give_back_idle(&self) {
        for (model, lease) in self.idle(IDLE) {
            let mut session = lease.session.lock().await;
            // Somebody may have asked since it was looked at.
            if !lease.is_idle(IDLE) {
                continue;
            }
            let account = lease.wallet.address();
            let job = match session.take() {
                Some(session) => {
                    // A provider that is gone is not paid what it has no voucher for.
                    let _gone = session.pay().await;
                    Some(session.job())
                }
                None => {
                    let open = self.open_job(account, model).await.ok().flatten();
                    open.map(|it| it.id)
                }
            };
            if let Some(job) = job {
                self.give_back(&lease.wallet, (model, job)).await;
            }
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            // Who waits for it has it already, beside this map and this loop.
            if Arc::strong_count(&lease) <= 2 {
                held.remove(&(account, model));
            }
        }
    }
}

/// What of the money of an endpoint pays for more answers where so much is owed for those that came.
fn unspent(job: &JobDto, owed: Amount) -> Amount {
    let live = job.leases.iter().find(|it| it.end.is_none());
    let paid = live.and_then(|it| it.meter.as_ref());
    let paid = paid.map_or(Amount::ZERO, |it| it.paid);
    job.escrow.saturating_add(paid).saturating_sub(owed)
}

/// Whether what is left of an endpoint's money does not pay for requests that may cost `promised` together.
fn needs_more(job: &JobDto, owed: Amount, promised: Amount) -> bool {
    unspent(job, owed) < promised
}

/// What is locked for a lease whose requests cost so much at most.
fn locked(most: Amount) -> Amount {
    most.saturating_mul(LOCKED_REQUESTS).max(LOCKED_LEAST)
}

/// Whether somebody serves an endpoint, or may: one without money waits for more, which another order is as good for.
fn is_open(job: &JobDto) -> bool {
    let live = job.leases.iter().find(|it| it.end.is_none());
    let meter = live.and_then(|it| it.meter.as_ref());
    let ends = meter.is_some_and(|it| it.ends_ms.is_some());
    match job.state {
        JobStateDto::Submitted
        | JobStateDto::Queued
        | JobStateDto::Leased
        | JobStateDto::Running => !ends && !job.escrow.is_zero(),
        JobStateDto::Committed
        | JobStateDto::Verifying
        | JobStateDto::Accepted
        | JobStateDto::Paid
        | JobStateDto::Refunded
        | JobStateDto::Disputed
        | JobStateDto::Delivering
        | JobStateDto::Expired
        | JobStateDto::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    /// The limit of its key is a thousand.
    fn leases() -> ServedLeases {
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let keys = Arc::new(ApiKeys::open(None).unwrap());
        ServedLeases::new(client, keys)
    }

    /// A stream of more than ten minutes, of a model that costs nothing.
    #[test]
    fn a_lease_by_which_something_is_asked_is_not_idle() {
        let leases = leases();
        let (wallet, model) = (Wallet::from_seed(b"x"), ModelId::new([1; 32]));
        let asked = leases.promise(&wallet, model, Amount::ZERO);
        let other = leases.promise(&wallet, model, Amount::ZERO);
        assert!(leases.idle(Duration::ZERO).is_empty());
        drop(asked);
        assert!(leases.idle(Duration::ZERO).is_empty());
        drop(other);
        assert_eq!(leases.idle(Duration::ZERO).len(), 1);
        // It is idle from the end of the last request on.
        assert!(leases.idle(IDLE).is_empty());
    }

    /// A key asks cards of its own that never begin.
    #[test]
    fn what_is_locked_for_leases_counts_against_the_key_that_had_them_opened() {
        let leases = leases();
        let wallet = Wallet::from_seed(b"x");
        let payer = LeasePayer {
            wallet: &wallet,
            caller: "development",
        };
        let tgrid = Amount::from_tgrid;
        let lock = |index: u8| leases.lock(payer, (ModelId::new([index; 32]), tgrid(100)));
        // The half of what there is, then of what is left, and no less than the request.
        assert_eq!(lock(0).unwrap(), tgrid(400));
        let mut all = tgrid(400);
        let refused = (1..100).find_map(|index| match lock(index) {
            Ok(amount) => {
                assert!(amount >= tgrid(100));
                all = all.saturating_add(amount);
                None
            }
            Err(error) => Some(error),
        });
        let refused = refused.unwrap();
        assert!(matches!(refused, LeaseError::Locked { .. }), "{refused}");
        assert!(refused.is_accounts());
        assert!(all <= tgrid(1_100), "{all}");
        leases.unlock(&wallet, ModelId::new([0; 32]));
        lock(200).unwrap();
    }

    #[test]
    fn a_key_has_so_many_leases_at_once() {
        let leases = leases();
        let wallet = Wallet::from_seed(b"x");
        let payer = |caller| LeasePayer {
            wallet: &wallet,
            caller,
        };
        let lock = |caller, index: usize| {
            let model = ModelId::new([index as u8; 32]);
            leases.lock(payer(caller), (model, Amount::ZERO))
        };
        for index in 0..LEASES_EACH_MAX {
            lock("development", index).unwrap();
        }
        assert!(lock("development", LEASES_EACH_MAX).is_err());
        // More may be locked for one that it has, and others have their own.
        lock("development", 0).unwrap();
        lock("other", LEASES_EACH_MAX).unwrap();
    }

    /// A provider says with each request that what is locked does not pay for it.
    #[test]
    fn more_is_locked_only_while_what_is_left_does_not_pay_for_what_is_asked() {
        let zero = format!("0x{}", "0".repeat(64));
        let job = json!({
            "id": zero, "requestor": format!("0x{}", "0".repeat(40)), "model": zero, "input": zero, "input_len": 0,
            "needs": tg_sdk::dto::JobNeedsDto::from(&tg_types::JobNeeds::ANY_MACHINE), "mode": "endpoint",
            "state": "running", "max_price": "40", "deadline_ms": 0, "sequence": 0, "macs": 0, "max_attempts": 1,
            "escrow": "40", "verification_fee": "0", "history": [], "leases": [], "reason": null, "settlement": null,
        });
        let job: JobDto = serde_json::from_value(job).unwrap();
        let tgrid = Amount::from_tgrid;
        let leases = leases();
        let (wallet, model) = (Wallet::from_seed(b"x"), ModelId::new([1; 32]));
        let needs_more = |owed| {
            let promised = leases.held(&wallet, model).promised().amount;
            super::needs_more(&job, tgrid(owed), promised)
        };
        let ask = || leases.promise(&wallet, model, tgrid(10));
        let asked = [ask(), ask(), ask()];
        assert!(!needs_more(10) && needs_more(11));
        let more = ask();
        assert!(needs_more(10));
        drop(more);
        assert!(!needs_more(10));
        drop(asked);
        assert!(!needs_more(40));
    }
}
