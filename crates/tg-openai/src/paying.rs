//! One order of a caller: what of the key's limit is held for it, and what was paid at the end.
//!
//! An order is kept by its record before it is sent. Whoever goes on after a restart finds it there: a job of it that the grid
//! knows is followed; else the same signed order is sent again; only if that is refused, and the grid does not know the job
//! some seconds later either, another one is signed.

use std::sync::Arc;
use std::time::Duration;

use tg_api::{KeptOrder, OpenAiError, OrderRecord, Requester};
use tg_sdk::dto::{JobDto, ModeDto, ModelDto};
use tg_sdk::jobs::{self, JobError, OrderedJob};
use tg_sdk::{AccountKeys, Client, OrderTerms};
use tg_types::{Amount, Decode, DurationMs, Encode, JobId, SignedTransaction, Transaction, signed};

use super::refusal::{of_job, of_reserve};
use crate::api_keys::ApiKeys;

/// How long a job may take before its money comes back.
const DEADLINE: Duration = Duration::from_secs(300);

/// How long a job is looked for whose order was refused when it was sent again: it may be in a block that is not final yet.
const SEARCH: Duration = Duration::from_secs(10);

/// Gas of an order, at most: of none that is made here is it more.
const ORDER_GAS_MAX: u64 = 100_000;

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
    /// What is locked for the rent of its record, and is burned while that stays.
    rent: Amount,
}

impl EndedJob {
    /// What was ordered, as it was signed.
    pub(super) fn ordered(&self) -> OrderedJob {
        let signed = SignedTransaction::from_bytes(&self.kept.signed);
        match signed.map(|it| it.transaction) {
            Ok(Transaction::SubmitJob { order }) => OrderedJob::of_order(self.job.id, &order),
            // Orders that were kept are those of jobs; the word of one's own node stands in.
            _ => OrderedJob::as_told(&self.job),
        }
    }

    /// What left the requestor's account for the job itself: all that was locked and did not come back, whoever got it.
    fn price(&self) -> Amount {
        let locked = self.job.max_price.saturating_add(self.job.verification_fee);
        let back = self.job.settlement.as_ref().map(|it| it.refund);
        locked.saturating_sub(back.unwrap_or(Amount::ZERO))
    }

    /// The same with the rent of its record, and with gas, at most: what its key has spent.
    fn cost(&self) -> Amount {
        let order = SignedTransaction::from_bytes(&self.kept.signed);
        let fee = order.map_or(Amount::ZERO, |it| it.fees.max_fee_per_gas);
        let gas = fee.saturating_mul(ORDER_GAS_MAX);
        self.price().saturating_add(gas).saturating_add(self.rent)
    }
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
            // Whoever asked has the answer, and nobody fetches it later.
            retention: DurationMs::ZERO,
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
        let session = self.keys.session(&wallet.address());
        let keys = AccountKeys {
            wallet,
            session: session.as_ref(),
        };
        let ordered = jobs::order_kept(&self.client, keys, listed.id, input, term.terms, &mut keep);
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
        let rent = self.client.rent(id).await;
        let rent = rent.map_or(Amount::ZERO, |it| it.left);
        Ok(EndedJob { job, kept, rent })
    }

    /// Gives back what was held for an order that cost nothing.
    fn forget(&self, of: &OrderPart, reserved: Amount) {
        // If it cannot be written that there is none, it stays counted: given back twice it would forgive.
        if of.keep(None).is_ok() {
            self.keys.release(&of.by.caller, reserved);
        }
    }

    /// Counts what a job cost, and gives its result and the price, with all that was paid out of what was locked for it.
    pub(super) fn settle<T>(
        &self,
        of: &OrderPart,
        ended: &EndedJob,
        result: Result<T, JobError>,
    ) -> Result<(T, Amount), OpenAiError> {
        match result {
            Ok(result) => {
                let paid = KeptOrder {
                    reserved: ended.cost(),
                    ..ended.kept.clone()
                };
                self.count(of, ended, Some(paid));
                Ok((result, ended.price()))
            }
            Err(error) => {
                if matches!(error, JobError::NotPaid { .. }) {
                    // Whoever held it, or made room for it, may have been paid all the same.
                    self.count(of, ended, None);
                }
                Err(of_job(&error, ""))
            }
        }
    }

    /// Counts what a job cost instead of what was held for it, and keeps what is known of its order.
    fn count(&self, of: &OrderPart, ended: &EndedJob, kept: Option<KeptOrder>) {
        // If it cannot be written, what was held stays counted: given back twice it would forgive.
        if of.keep(kept).is_err() {
            return;
        }
        let (held, cost) = (ended.kept.reserved, ended.cost());
        match held.checked_sub(cost) {
            Some(rest) => self.keys.release(&of.by.caller, rest),
            None => self.keys.add(&of.by.caller, cost.saturating_sub(held)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;
    use tg_sdk::dto::{JobStateDto, SettlementDto};
    use tg_types::{Fees, Transaction, Wallet};

    /// A job as the grid shows it, which was settled so.
    fn ended(max_price: u64, settlement: &SettlementDto, rent: u64) -> EndedJob {
        let zero = format!("0x{}", "0".repeat(64));
        let job = json!({
            "id": zero, "requestor": format!("0x{}", "0".repeat(40)), "model": zero, "input": zero, "input_len": 1,
            "needs": tg_sdk::dto::JobNeedsDto::from(&tg_types::JobNeeds::ANY_MACHINE), "mode": "replicate", "state": "paid",
            "max_price": max_price.to_string(), "deadline_ms": 0, "sequence": 0, "macs": 0, "max_attempts": 1,
            "escrow": "0", "verification_fee": "2", "history": [], "leases": [], "reason": null,
            "settlement": settlement,
        });
        let job: JobDto = serde_json::from_value(job).unwrap();
        assert_eq!(job.state, JobStateDto::Paid);
        let order = Transaction::CancelJob { job: job.id };
        let domain = tg_types::ChainDomain {
            chain_id: 1,
            verifying_contract: tg_types::Address::default(),
            salt: [0; 32],
        };
        let fees = Fees::up_to(Amount::new(3));
        let signed = Wallet::from_seed(b"x").sign_with_fees(order, 0, fees, &domain);
        let kept = KeptOrder {
            signed: signed.to_bytes(),
            reserved: Amount::from_tgrid(max_price + 2),
        };
        EndedJob {
            job,
            kept,
            rent: Amount::from_tgrid(rent),
        }
    }

    /// Of three members one is paid as the provider and two beside it; all of it left the account.
    #[test]
    fn a_key_has_spent_all_that_did_not_come_back_with_gas_and_rent() {
        let tgrid = Amount::from_tgrid;
        let zero = Amount::ZERO;
        let replicated = SettlementDto {
            price: tgrid(10),
            members: tgrid(20),
            verification_fee: tgrid(1),
            refund: tgrid(29),
            burned: tgrid(1),
            bonus: zero,
            compensation: zero,
        };
        let gas = Amount::new(3 * u128::from(ORDER_GAS_MAX));
        let job = ended(59, &replicated, 5);
        assert_eq!(job.price(), tgrid(32));
        assert_eq!(job.cost(), tgrid(37).saturating_add(gas));
        // One that was not paid for, whose holder got something.
        let held = SettlementDto {
            price: zero,
            members: zero,
            verification_fee: zero,
            refund: tgrid(58),
            burned: zero,
            compensation: tgrid(3),
            ..replicated
        };
        assert_eq!(ended(59, &held, 0).price(), tgrid(3));
    }

    #[test]
    fn what_was_held_becomes_what_it_cost_for_good_and_bad_jobs() {
        let keys = Arc::new(ApiKeys::open(None).unwrap());
        let client = Client::new("http://127.0.0.1:1").unwrap();
        let paying = Paying {
            client,
            keys: Arc::clone(&keys),
        };
        let zero = Amount::ZERO;
        let settled = SettlementDto {
            price: Amount::from_tgrid(10),
            members: Amount::from_tgrid(20),
            verification_fee: Amount::from_tgrid(2),
            refund: Amount::from_tgrid(20),
            burned: zero,
            bonus: zero,
            compensation: zero,
        };
        let job = ended(50, &settled, 0);
        let of = OrderPart {
            by: Requester {
                caller: "development".to_owned(),
                record: Arc::new(tg_api::MemoryRecord::default()),
            },
            part: 0,
        };
        // The limit of this key is a thousand.
        let left = |amount: Amount| keys.allows("development", amount).is_ok();
        let all = Amount::from_tgrid(1_000);
        for result in [
            Ok(()),
            Err(JobError::NotPaid {
                job: job.job.id,
                state: JobStateDto::Refunded,
                reason: String::new(),
            }),
        ] {
            let before = if result.is_ok() {
                all
            } else {
                all.saturating_sub(job.cost())
            };
            assert!(left(before));
            keys.reserve("development", job.kept.reserved).unwrap();
            let _settled = paying.settle(&of, &job, result);
            let after = before.saturating_sub(job.cost());
            assert!(left(after) && !left(after.saturating_add(Amount::new(1))));
        }
    }
}
