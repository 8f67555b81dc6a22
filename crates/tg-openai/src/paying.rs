//! One order of a caller: what of the key's limit is held for it, and what was paid at the end.
//!
//! An order is kept by its record before it is sent. Whoever goes on after a restart finds it there: a job of it that the grid
//! knows is followed; else the same signed order is sent again; only if that is refused, and the grid does not know the job
//! some seconds later either, another one is signed.

use std::sync::Arc;
use std::time::Duration;

use tg_api::{KeptOrder, OpenAiError, OrderRecord, Requester};
use tg_sdk::dto::{JobDto, JobReceiptDto, ModeDto, ModelDto};
use tg_sdk::jobs::{self, JobError};
use tg_sdk::{Client, OrderTerms};
use tg_types::{Amount, Decode, Encode, JobId, SignedTransaction, signed};

use super::refusal::{of_job, of_reserve};
use crate::api_keys::ApiKeys;

/// How long a job may take before its money comes back.
const DEADLINE: Duration = Duration::from_secs(300);

/// How long a job is looked for whose order was refused when it was sent again: it may be in a block that is not final yet.
const SEARCH: Duration = Duration::from_secs(10);

/// How often.
const SEARCH_POLL: Duration = Duration::from_millis(500);

/// What an order is made of.
#[derive(Debug, Clone)]
pub(super) struct OrderTerm {
    terms: OrderTerms,
    /// The most that it costs, with verification.
    most: Amount,
}

/// Whose order it is, and which of its request.
#[derive(Debug, Clone)]
pub(super) struct OrderPart {
    pub(super) by: Requester,
    pub(super) part: u32,
}

impl OrderPart {
    fn record(&self) -> &dyn OrderRecord {
        self.by.record.as_ref()
    }

    /// Keeps an order, or that there is none.
    fn keep(&self, order: Option<KeptOrder>) -> std::io::Result<()> {
        self.record().keep(self.part, order)
    }
}

/// A job that has ended.
#[derive(Debug)]
pub(super) struct EndedJob {
    pub(super) job: JobDto,
    kept: KeptOrder,
}

/// Pays for callers.
#[derive(Debug, Clone)]
pub(super) struct Paying {
    pub(super) client: Client,
    pub(super) keys: Arc<ApiKeys>,
}

impl Paying {
    /// The terms of orders for a model.
    pub(super) async fn terms(
        &self,
        listed: &ModelDto,
        (mode, max_price): (ModeDto, Option<Amount>),
    ) -> Result<OrderTerm, OpenAiError> {
        let quotes = jobs::patiently(|| self.client.quotes(listed.id, mode)).await;
        let quotes = quotes.map_err(|error| OpenAiError::unavailable(error.to_string()))?;
        let usual = jobs::usual_max_price(&quotes);
        let nobody = || {
            let text = "no provider offers to run this model now";
            OpenAiError::unavailable(text.to_owned())
        };
        let max_price = max_price.or(usual).ok_or_else(nobody)?;
        let fees = quotes.iter().map(|quote| quote.verification_fee);
        let fee = fees.max().unwrap_or(Amount::ZERO);
        let terms = OrderTerms {
            mode: mode.into(),
            deadline: DEADLINE,
            ..OrderTerms::new(max_price)
        };
        let most = max_price.saturating_add(fee);
        Ok(OrderTerm { terms, most })
    }

    /// Whether the key's limit allows the first so many orders of a request together, those that were kept left out. Each is held
    /// for when it is made; others may be faster.
    pub(super) fn allows(
        &self,
        by: &Requester,
        (term, count): (&OrderTerm, usize),
    ) -> Result<(), OpenAiError> {
        let parts = (0..).take(count);
        let mut all = Amount::ZERO;
        for _ in parts.filter(|part| by.record.kept(*part).is_none()) {
            all = all.saturating_add(term.most);
        }
        let allowed = self.keys.allows(&by.caller, all);
        allowed.map_err(|error| of_reserve(&error))
    }

    /// Orders an input, or goes on with the order that was kept, and waits for the job's end.
    pub(super) async fn job(
        &self,
        of: &OrderPart,
        listed: &ModelDto,
        (input, term): (Vec<u8>, OrderTerm),
    ) -> Result<EndedJob, OpenAiError> {
        if let Some(kept) = of.record().kept(of.part) {
            if let Some(id) = self.sent(&kept).await? {
                return self.followed(id, kept).await;
            }
            self.forget(of, kept.reserved);
        }
        let wallet = self.keys.wallet(&of.by.caller);
        let wallet = wallet.ok_or_else(OpenAiError::key)?;
        let reserved = self.keys.reserve(&of.by.caller, term.most);
        reserved.map_err(|error| of_reserve(&error))?;
        let mut kept = KeptOrder {
            signed: Vec::new(),
            reserved: term.most,
        };
        let mut keep = |order: &SignedTransaction| {
            kept.signed = order.to_bytes();
            of.keep(Some(kept.clone()))
        };
        let ordered = jobs::order_kept(
            &self.client,
            wallet,
            listed.id,
            input,
            term.terms,
            &mut keep,
        );
        match ordered.await {
            Ok(id) => self.followed(id, kept).await,
            Err(error) => {
                // A refused order costs nothing; one without an answer may have been taken.
                let refused = error.call().is_some_and(|call| call.status().is_some());
                if refused || matches!(error, JobError::NotKept(_)) {
                    self.forget(of, term.most);
                }
                Err(of_job(&error, &listed.name))
            }
        }
    }

    /// The job of an order that was kept, sent again if the grid does not know it; nothing if it was refused.
    async fn sent(&self, kept: &KeptOrder) -> Result<Option<JobId>, OpenAiError> {
        let Ok(order) = SignedTransaction::from_bytes(&kept.signed) else {
            return Ok(None);
        };
        let away = |error: tg_sdk::ClientError| OpenAiError::unavailable(error.to_string());
        let domain = self.client.domain().await.map_err(away)?;
        let id = signed::job_id(order.id(&domain));
        let looks = SEARCH.as_millis() / SEARCH_POLL.as_millis();
        for _ in 0..looks {
            match self.client.job(id).await {
                Ok(_) => return Ok(Some(id)),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(away(error)),
            }
            match self.client.submit(&order).await {
                Ok(_) => return Ok(Some(id)),
                Err(error) if error.is_transient() => return Err(away(error)),
                Err(_) => {}
            }
            tokio::time::sleep(SEARCH_POLL).await;
        }
        Ok(None)
    }

    async fn followed(&self, id: JobId, kept: KeptOrder) -> Result<EndedJob, OpenAiError> {
        let job = jobs::follow(&self.client, id, &mut |_| {}).await;
        // Nobody knows what it costs: it counts as spent.
        let job = job.map_err(|error| of_job(&error, ""))?;
        Ok(EndedJob { job, kept })
    }

    /// Gives back what was held for an order that cost nothing.
    fn forget(&self, of: &OrderPart, reserved: Amount) {
        // If it cannot be written that there is none, it stays counted: given back twice it would forgive.
        if of.keep(None).is_ok() {
            self.keys.release(&of.by.caller, reserved);
        }
    }

    /// Counts what a job cost, and gives its result and the price, verification included.
    pub(super) fn settle<T>(
        &self,
        of: &OrderPart,
        ended: EndedJob,
        result: Result<T, JobError>,
        receipt: fn(&T) -> &JobReceiptDto,
    ) -> Result<(T, Amount), OpenAiError> {
        let EndedJob { kept, .. } = ended;
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                if matches!(error, JobError::NotPaid { .. }) {
                    self.forget(of, kept.reserved);
                }
                return Err(of_job(&error, ""));
            }
        };
        let settled = &receipt(&result).settlement;
        let price = settled.price.saturating_add(settled.verification_fee);
        if let Some(rest) = kept.reserved.checked_sub(price) {
            let paid = KeptOrder {
                reserved: price,
                ..kept
            };
            if of.keep(Some(paid)).is_ok() {
                self.keys.release(&of.by.caller, rest);
            }
        }
        Ok((result, price))
    }
}
