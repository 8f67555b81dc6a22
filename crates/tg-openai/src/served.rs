//! Endpoints of callers: a completion that nobody has to check goes to the endpoint of its caller's account, if it has one of the model.
//! Its text comes as it is written, and costs its share of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tg_sdk::dto::{JobStateDto, ModeDto};
use tg_sdk::endpoint::session::{EndpointAnswer, EndpointError, EndpointSession, ServedBy};
use tg_sdk::{Client, JobFilter, Wallet};
use tg_types::{Address, Amount, JobId, LeaseId, ModelId};

/// How long it is believed which endpoints an account has, and what was claimed of their leases.
const LOOKED: Duration = Duration::from_secs(3);

/// Endpoints of an account that are looked at.
const ENDPOINTS_MAX: u32 = 200;

/// How long after an answer it is paid for, if no other request does so before.
const IDLE: Duration = Duration::from_secs(1);

/// Endpoints of an account by model, and when that was known.
type Known = (Instant, BTreeMap<ModelId, JobId>);

/// Sessions with the endpoints of callers.
#[derive(Debug)]
pub(super) struct ServedEndpoints {
    client: Client,
    known: Mutex<BTreeMap<Address, Known>>,
    sessions: Mutex<BTreeMap<JobId, Arc<EndpointSession>>>,
    /// What was claimed of leases by vouchers, and when that was known.
    claimed: Mutex<BTreeMap<LeaseId, (Instant, Amount)>>,
}

impl ServedEndpoints {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            sessions: Mutex::default(),
            claimed: Mutex::default(),
        }
    }

    /// A session with the endpoint of an account for a model; nothing if it has none that is served.
    pub(super) async fn session(
        &self,
        wallet: &Wallet,
        model: ModelId,
    ) -> Option<Arc<EndpointSession>> {
        let job = self.endpoint(wallet.address(), model).await?;
        if let Some(session) = self.held(job) {
            return Some(session);
        }
        let session = EndpointSession::open(&self.client, wallet, job, &ServedBy::AsTold).await;
        let session = Arc::new(session.ok()?);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two that were opened at once one counts.
        let kept = sessions.entry(job).or_insert(session);
        Some(Arc::clone(kept))
    }

    fn held(&self, job: JobId) -> Option<Arc<EndpointSession>> {
        let sessions = self.sessions.lock();
        let sessions = sessions.unwrap_or_else(PoisonError::into_inner);
        sessions.get(&job).cloned()
    }

    /// The endpoint of an account for a model, if one was found lately. One that was not is looked for again: as a job its requests
    /// would wait for the machine that the endpoint holds.
    fn known_of(&self, account: Address, model: ModelId) -> Option<JobId> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, jobs) = known.get(&account)?;
        let found = jobs.get(&model).copied();
        found.filter(|_| at.elapsed() < LOOKED)
    }

    async fn endpoint(&self, account: Address, model: ModelId) -> Option<JobId> {
        if let Some(known) = self.known_of(account, model) {
            return Some(known);
        }
        let filter = JobFilter {
            requestor: Some(account),
            provider: None,
            mode: Some(ModeDto::Endpoint),
            limit: Some(ENDPOINTS_MAX),
        };
        // A grid that is away has no endpoints.
        let jobs = self.client.jobs(filter).await.ok()?;
        let running = jobs.iter().filter(|it| it.state == JobStateDto::Running);
        let jobs: BTreeMap<ModelId, JobId> = running.map(|it| (it.model, it.id)).collect();
        let found = jobs.get(&model).copied();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(account, (Instant::now(), jobs));
        found
    }

    /// Asks, and has the answer paid for soon. A session that failed is opened anew by whoever asks next.
    pub(super) async fn ask(
        &self,
        session: &Arc<EndpointSession>,
        input: Vec<u8>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<EndpointAnswer, EndpointError> {
        let answer = session.ask(input, piece).await;
        match &answer {
            Ok(_) => {
                let session = Arc::clone(session);
                tokio::spawn(async move {
                    tokio::time::sleep(IDLE).await;
                    // If it is not told now, the next request tells it.
                    let _later = session.pay().await;
                });
            }
            Err(_) => {
                let job = session.job();
                let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
                sessions.remove(&job);
                drop(sessions);
                self.known
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clear();
            }
        }
        answer
    }

    /// What vouchers of a session promise beyond what was claimed on the ledger, as this gateway's node says. What is claimed only grows:
    /// what was looked up a moment ago makes it no smaller than it is.
    pub(super) async fn unclaimed(&self, session: &EndpointSession) -> Amount {
        let claimed = self.claimed(session).await;
        let owed = session.owed().amount;
        owed.saturating_sub(claimed)
    }

    /// What was claimed by vouchers of a session's lease; nothing as long as nobody shows it.
    async fn claimed(&self, session: &EndpointSession) -> Amount {
        let lease = session.lease();
        if let Some(known) = self.claimed_lately(lease) {
            return known;
        }
        let Ok(job) = self.client.job(session.job()).await else {
            return Amount::ZERO;
        };
        let told = job.leases.iter().find(|it| it.id == lease);
        let meter = told.and_then(|it| it.meter.as_ref());
        let claimed = meter.map_or(Amount::ZERO, |it| it.vouchers);
        let mut known = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        // Leases that nobody asks any more are not kept.
        known.retain(|_, (at, _)| at.elapsed() < LOOKED);
        known.insert(lease, (Instant::now(), claimed));
        claimed
    }

    fn claimed_lately(&self, lease: LeaseId) -> Option<Amount> {
        let known = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, claimed) = known.get(&lease)?;
        (at.elapsed() < LOOKED).then_some(*claimed)
    }
}
