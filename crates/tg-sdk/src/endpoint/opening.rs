//! Opening one replica: what the market would give, the order, the wait until it is served, the check of what came.

use std::time::{Duration, Instant};

use tg_types::{Address, Amount, JobId, ModelId, VerificationMode, Wallet};

use super::session::{EndpointError, serving_lease};
use crate::client::Client;
use crate::dto::{JobDto, JobStateDto, JobWhyDto, LeaseDto};
use crate::error::ClientError;
use crate::jobs::{self, JobError, patiently};
use crate::verify::OrderTerms;

/// How long a provider may take to begin to serve.
const BEGINS: Duration = Duration::from_secs(15);

/// How often it is looked whether it did.
const POLL: Duration = Duration::from_millis(100);

/// The least that is locked for a replica is what a run costs, and a minute divided by this.
const LEAST_OF_MINUTE: u64 = 6;

/// What a provider asks for an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaPrice {
    /// A minute.
    pub minute: Amount,
    /// A run of the model.
    pub run: Amount,
}

impl ReplicaPrice {
    pub(super) fn of(lease: &LeaseDto) -> Self {
        let minute = lease.meter.as_ref().map(|it| it.minute);
        Self {
            minute: minute.unwrap_or(Amount::ZERO),
            run: lease.price,
        }
    }

    /// The least that is locked for a replica: ten seconds and a run. With less it would end before it was of use.
    pub(super) fn least(self) -> Amount {
        let part = self.minute.checked_mul_div_ceil(1, LEAST_OF_MINUTE);
        part.unwrap_or(self.minute).saturating_add(self.run)
    }
}

/// What a group's owner allows of a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PriceLimits {
    pub(super) minute_max: Option<Amount>,
    pub(super) run_max: Option<Amount>,
}

impl PriceLimits {
    pub(super) fn check(self, price: ReplicaPrice) -> Result<(), ReplicaOpenError> {
        let is_above = |most: Option<Amount>, asked| most.is_some_and(|most| asked > most);
        if is_above(self.minute_max, price.minute) || is_above(self.run_max, price.run) {
            return Err(ReplicaOpenError::TooDear { price });
        }
        Ok(())
    }
}

/// Why no replica was opened.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaOpenError {
    /// A call failed.
    #[error("ask the grid")]
    Client(#[from] ClientError),
    /// The order was refused, or the grid is away.
    #[error("order a replica")]
    Order(#[from] JobError),
    /// Nobody would serve it now.
    #[error("nobody would serve another replica now: {why}")]
    NoOffer {
        /// What the market says.
        why: String,
    },
    /// Whoever would serve it serves the group already, or failed it a moment ago.
    #[error(
        "the grid would have {provider} serve another replica, {}",
        if *is_lost { "which failed this group a moment ago" } else { "which serves one of this group already" }
    )]
    SameProvider {
        /// Who.
        provider: Address,
        /// Whether it failed.
        is_lost: bool,
    },
    /// It costs more than is allowed.
    #[error(
        "another replica costs {} TGRID a minute and {} a run, more than this group allows",
        price.minute, price.run
    )]
    TooDear {
        /// What it costs.
        price: ReplicaPrice,
    },
    /// There is not enough money for ten seconds and a run.
    #[error("{left} TGRID are left for another replica, and it takes {least}")]
    NoMoney {
        /// What is left.
        left: Amount,
        /// What it takes.
        least: Amount,
    },
    /// The group's time is over.
    #[error("the time of this group is over")]
    Over,
    /// Nobody began to serve it.
    #[error("nobody began to serve replica {job} within {} s: it is {state}", BEGINS.as_secs())]
    NotBegun {
        /// Its job.
        job: JobId,
        /// Where it stands.
        state: JobStateDto,
    },
    /// It is served, and its provider does not answer.
    #[error("begin with a replica")]
    Session(#[from] EndpointError),
    /// What has to be kept cannot be written.
    #[error("keep the record of the group")]
    NotKept(#[source] std::io::Error),
    /// The program that uses the group cannot say who serves a replica.
    #[error("find out who serves a replica")]
    Witness(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Who would serve an order in the next block, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarketChoice {
    pub(super) provider: Address,
    pub(super) price: ReplicaPrice,
}

/// What the market would give for an order now; nothing is ordered.
pub(super) async fn market_choice(
    client: &Client,
    account: Address,
    (model, terms): (ModelId, OrderTerms),
) -> Result<MarketChoice, ReplicaOpenError> {
    let terms = OrderTerms {
        mode: VerificationMode::Endpoint,
        ..terms
    };
    let status = patiently(|| client.status()).await?;
    let order = terms.order(model, &[], status.ledger_time_ms);
    let answer = patiently(|| client.dry_run(account, &order)).await?;
    let lease = answer.job.leases.first();
    let lease = lease.ok_or_else(|| ReplicaOpenError::NoOffer {
        why: described(&answer.why),
    })?;
    Ok(MarketChoice {
        provider: lease.provider,
        price: ReplicaPrice::of(lease),
    })
}

/// Why nobody would serve an order, with what would let it run.
fn described(why: &JobWhyDto) -> String {
    let turned = why.constraints.iter().filter(|it| it.rejected > 0);
    let turned: Vec<&str> = turned.map(|it| it.constraint.as_str()).collect();
    let change = why.relaxations.first();
    let change = change.map_or(String::new(), |it| format!("; {it}"));
    match turned.is_empty() {
        true => format!("{}{change}", why.summary),
        false => format!("{} ({}){change}", why.summary, turned.join(", ")),
    }
}

/// Orders an endpoint and waits until it is in a block.
pub(super) async fn ordered(
    client: &Client,
    wallet: &Wallet,
    (model, terms): (ModelId, OrderTerms),
    keep: &mut (dyn FnMut(JobId) -> std::io::Result<()> + Send),
) -> Result<JobId, ReplicaOpenError> {
    let job = jobs::order_endpoint_kept(client, wallet, model, terms, keep).await;
    let job = job.map_err(|error| match error {
        JobError::NotKept(source) => ReplicaOpenError::NotKept(source),
        error => ReplicaOpenError::Order(error),
    })?;
    jobs::wait_for_order(client, job).await?;
    Ok(job)
}

/// Waits until somebody serves a job.
pub(super) async fn served(client: &Client, job: JobId) -> Result<JobDto, ReplicaOpenError> {
    let began = Instant::now();
    loop {
        let known = patiently(|| client.job(job)).await?;
        if serving_lease(&known).is_ok() {
            return Ok(known);
        }
        if known.settlement.is_some() || began.elapsed() > BEGINS {
            return Err(ReplicaOpenError::NotBegun {
                job,
                state: known.state,
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until some offer has a job, served or not.
pub(super) async fn matched(client: &Client, job: JobId) -> Result<(), ReplicaOpenError> {
    let began = Instant::now();
    loop {
        let known = patiently(|| client.job(job)).await?;
        if known.leases.iter().any(|it| it.end.is_none()) {
            return Ok(());
        }
        if known.settlement.is_some() || began.elapsed() > BEGINS {
            return Err(ReplicaOpenError::NotBegun {
                job,
                state: known.state,
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_within_its_limits_or_is_not_paid() {
        let tgrid = Amount::from_tgrid;
        let price = ReplicaPrice {
            minute: tgrid(6),
            run: tgrid(2),
        };
        assert_eq!(price.least(), tgrid(3));
        let limits = |minute_max, run_max| PriceLimits {
            minute_max,
            run_max,
        };
        for (minute, run, is_allowed) in [
            (None, None, true),
            (Some(6), Some(2), true),
            (Some(5), None, false),
            (None, Some(1), false),
            (Some(6), Some(1), false),
        ] {
            let limits = limits(minute.map(tgrid), run.map(tgrid));
            assert_eq!(
                limits.check(price).is_ok(),
                is_allowed,
                "{minute:?} {run:?}"
            );
        }
    }
}
