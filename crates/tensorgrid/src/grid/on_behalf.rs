//! Endpoints that a development network opens and ends on behalf of clients, with the keys of its funded accounts, which everybody knows.

use std::time::Duration;

use tg_console::accounts;
use tg_console::outcome::{Exit, Failure};
use tg_sdk::dto::{DevelopmentEndpointDto, JobDto, ModeDto};
use tg_sdk::endpoint::funds;
use tg_sdk::{Client, OrderTerms, Wallet, jobs};
use tg_types::{Amount, JobId};

use super::connect::{Calling as _, OfJob as _};
use super::infer::no_offer;

/// Longest that an endpoint may be asked to last, in minutes: a week.
const MINUTES_MAX: u32 = 7 * 24 * 60;

/// Orders an endpoint, paid by the requestor account, and waits until a block has the order.
pub(super) async fn open_endpoint(
    client: &Client,
    request: DevelopmentEndpointDto,
) -> Result<JobDto, Failure> {
    let DevelopmentEndpointDto {
        model,
        money,
        minutes,
    } = request;
    if !(1..=MINUTES_MAX).contains(&minutes) {
        let text = format!("an endpoint lasts 1 to {MINUTES_MAX} minutes, not {minutes}");
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let model = jobs::find_model(client, &model).await.of_job()?;
    let quotes = client.quotes(model.id, ModeDto::Endpoint).await;
    if jobs::usual_max_price(&quotes.calling("ask for prices")?).is_none() {
        return Err(no_offer());
    }
    let terms = OrderTerms {
        deadline: Duration::from_secs(u64::from(minutes) * 60),
        ..OrderTerms::new(money)
    };
    let wallet = accounts::wallet(accounts::REQUESTOR);
    let id = jobs::order_endpoint(client, &wallet, model.id, terms).await;
    jobs::wait_for_order(client, id.of_job()?).await.of_job()
}

/// Locks more money for an endpoint of one of the funded accounts.
pub(super) async fn top_up_endpoint(
    client: &Client,
    (job, money): (JobId, Amount),
    funded: &[String],
) -> Result<JobDto, Failure> {
    let wallet = owner(client, job, funded).await?;
    let locked = funds::LockedBefore::AsTold;
    let raised = funds::top_up(client, &wallet, job, money, locked).await;
    raised.of_job()
}

/// Ends an endpoint of one of the funded accounts.
pub(super) async fn close_endpoint(
    client: &Client,
    job: JobId,
    funded: &[String],
) -> Result<JobDto, Failure> {
    let wallet = owner(client, job, funded).await?;
    funds::close(client, &wallet, job).await.of_job()
}

/// The key of whoever ordered a job.
async fn owner(client: &Client, job: JobId, funded: &[String]) -> Result<Wallet, Failure> {
    let requestor = client.job(job).await.calling("ask for the job")?.requestor;
    let wallets = funded.iter().map(|name| accounts::wallet(name));
    let found = wallets.into_iter().find(|it| it.address() == requestor);
    found.ok_or_else(|| {
        let text =
            format!("job {job} is of {requestor}, which is no funded account of this network");
        Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
            "`tensorgrid endpoint top-up` and `close` take the key of that account: --key FILE",
        )
    })
}
