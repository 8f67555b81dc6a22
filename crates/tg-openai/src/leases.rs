//! Leases of served models: each account that asks a provider has one, opened when it first asks, paid by vouchers, and given back when
//! nothing was asked for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tg_sdk::dto::{JobDto, JobStateDto, ModeDto};
use tg_sdk::endpoint::session::{EndpointError, EndpointSession, ServedBy};
use tg_sdk::jobs::{self, JobError};
use tg_sdk::{Client, ClientError, JobFilter, OrderTerms, Wallet};
use tg_types::{Address, Amount, JobId, ModelId, Transaction};
use tokio::sync::Mutex as AsyncMutex;

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
            Self::NotBegun | Self::Endpoint(_) => None,
        };
        code.is_some_and(|code| ACCOUNTS.contains(&code))
    }
}

/// The lease of an account for a model.
#[derive(Debug)]
struct AccountLease {
    session: AsyncMutex<Option<Arc<EndpointSession>>>,
    used: Mutex<Instant>,
    /// What the requests may cost that are on their way, together.
    promised: Mutex<Amount>,
    wallet: Wallet,
}

impl AccountLease {
    fn promised(&self) -> MutexGuard<'_, Amount> {
        self.promised.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut promised = self.lease.promised();
        *promised = promised.saturating_sub(self.most);
    }
}

/// The leases of all accounts.
#[derive(Debug)]
pub(super) struct ServedLeases {
    client: Client,
    held: Mutex<BTreeMap<(Address, ModelId), Arc<AccountLease>>>,
}

impl ServedLeases {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            held: Mutex::default(),
        }
    }

    fn held(&self, wallet: &Wallet, model: ModelId) -> Arc<AccountLease> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let lease = held.entry((wallet.address(), model)).or_insert_with(|| {
            Arc::new(AccountLease {
                session: AsyncMutex::default(),
                used: Mutex::new(Instant::now()),
                promised: Mutex::new(Amount::ZERO),
                wallet: wallet.clone(),
            })
        });
        *lease.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Arc::clone(lease)
    }

    /// Takes note that a request is on its way that may cost `most`.
    pub(super) fn promise(&self, wallet: &Wallet, model: ModelId, most: Amount) -> PromisedRequest {
        let lease = self.held(wallet, model);
        {
            let mut promised = lease.promised();
            *promised = promised.saturating_add(most);
        }
        PromisedRequest { lease, most }
    }

    /// The lease of an account, opened if there is none; of several that ask at once one opens it. A request costs `most` at most.
    pub(super) async fn session(
        &self,
        wallet: &Wallet,
        model: ModelId,
        most: Amount,
    ) -> Result<Arc<EndpointSession>, LeaseError> {
        let lease = self.held(wallet, model);
        let mut session = lease.session.lock().await;
        if let Some(session) = &*session {
            return Ok(Arc::clone(session));
        }
        let job = match self.open_job(wallet.address(), model).await? {
            Some(job) => job,
            None => self.order(wallet, model, most).await?,
        };
        if let Err(error) = self.wait_until_served(job).await {
            // Its money comes back.
            self.give_back(wallet, job).await;
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
    ) -> Result<Option<JobId>, ClientError> {
        let filter = JobFilter {
            requestor: Some(account),
            mode: Some(ModeDto::Endpoint),
            limit: Some(ENDPOINTS_MAX),
        };
        let jobs = self.client.jobs(filter).await?;
        let open = jobs.iter().find(|it| it.model == model && is_open(it));
        Ok(open.map(|it| it.id))
    }

    async fn order(
        &self,
        wallet: &Wallet,
        model: ModelId,
        most: Amount,
    ) -> Result<JobId, LeaseError> {
        let terms = OrderTerms {
            deadline: TIME,
            ..OrderTerms::new(locked(most))
        };
        let job = jobs::order_endpoint(&self.client, wallet, model, terms).await?;
        jobs::wait_for_order(&self.client, job).await?;
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
    pub(super) async fn give_back(&self, wallet: &Wallet, job: JobId) {
        let cancel = Transaction::CancelJob { job };
        // One that ended cannot be ended again.
        let _ended = jobs::submit(&self.client, wallet, &cancel, "give back a lease").await;
    }

    /// Locks more money for a lease, if what is left does not pay for the requests that are on their way: whatever its provider says, no more
    /// is locked.
    pub(super) async fn top_up(
        &self,
        wallet: &Wallet,
        (session, model): (&EndpointSession, ModelId),
        most: Amount,
    ) -> Result<(), LeaseError> {
        let job = session.job();
        let known = self.client.job(job).await?;
        let promised = *self.held(wallet, model).promised();
        if !needs_more(&known, session.owed().amount, promised) {
            return Ok(());
        }
        let max_price = known.max_price.saturating_add(locked(most));
        let raise = Transaction::RaiseJob {
            job,
            max_price,
            max_attempts: known.max_attempts,
        };
        jobs::submit(&self.client, wallet, &raise, "lock more money for a lease").await?;
        let began = Instant::now();
        while began.elapsed() < BEGINS {
            if self.client.job(job).await?.max_price >= max_price {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(LeaseError::NotBegun)
    }

    /// Gives back the leases by which nothing was asked for long.
    pub(super) async fn give_back_idle(&self) {
        let idle: Vec<((Address, ModelId), Arc<AccountLease>)> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            let is_idle = |lease: &AccountLease| {
                let used = lease.used.lock().unwrap_or_else(PoisonError::into_inner);
                used.elapsed() >= IDLE
            };
            let idle = held.iter().filter(|(_, lease)| is_idle(lease));
            idle.map(|(key, lease)| (*key, Arc::clone(lease))).collect()
        };
        for ((account, model), lease) in idle {
            let session = lease.session.lock().await.take();
            let job = match &session {
                Some(session) => {
                    // A provider that is gone is not paid what it has no voucher for.
                    let _gone = session.pay().await;
                    Some(session.job())
                }
                None => self.open_job(account, model).await.ok().flatten(),
            };
            if let Some(job) = job {
                self.give_back(&lease.wallet, job).await;
            }
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.remove(&(account, model));
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
        | JobStateDto::Expired
        | JobStateDto::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

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
        let leases = ServedLeases::new(Client::new("http://127.0.0.1:1").unwrap());
        let (wallet, model) = (Wallet::from_seed(b"x"), ModelId::new([1; 32]));
        let needs_more = |owed| {
            let promised = *leases.held(&wallet, model).promised();
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
