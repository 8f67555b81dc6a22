//! What a development network does on behalf of clients, with the keys of its funded accounts, which everybody knows.

use std::time::Duration;

use tg_console::accounts;
use tg_console::outcome::{Exit, Failure, OrFail as _};
use tg_offline::answer::ShownAnswer;
use tg_sdk::dto::{DevelopmentEndpointDto, DevelopmentInferDto, InferenceDto, JobDto, ModeDto};
use tg_sdk::endpoint::funds;
use tg_sdk::jobs::OrderedJob;
use tg_sdk::{Client, Digest, OrderTerms, Wallet, jobs};
use tg_types::{Amount, JobId};

use super::connect::{self, Calling as _, OfJob as _, no_offer};

/// Longest that an endpoint may be asked to last, in minutes: a week.
const MINUTES_MAX: u32 = 7 * 24 * 60;

/// Runs an inference, paid by the requestor account.
pub(super) async fn infer(
    client: &Client,
    request: DevelopmentInferDto,
) -> Result<InferenceDto, Failure> {
    let listed = connect::listed(client, &request.model).await?;
    let model = jobs::public_model(client, &listed).await.of_job()?;
    let input = model.input(&request.input);
    let input = input.or_fail(Exit::Usage, "read the input")?;
    let quotes = client.quotes(listed.id, request.mode).await;
    let usual = jobs::usual_max_price(&quotes.calling("ask for prices")?);
    let max_price = request.max_price.or(usual).ok_or_else(no_offer)?;
    let terms = OrderTerms {
        mode: request.mode.into(),
        ..OrderTerms::new(max_price)
    };
    let wallet = accounts::wallet(accounts::REQUESTOR);
    let digest = Digest::of_blob(&input);
    let id = jobs::order(client, &wallet, &model, input, terms).await;
    let ordered = OrderedJob {
        job: id.of_job()?,
        model: listed.id,
        input: digest,
        mode: request.mode,
    };
    let job = jobs::follow(client, ordered.job, &mut |_| {}).await;
    let inference = jobs::collect(client, &model, (&ordered, &job.of_job()?)).await;
    let inference = inference.of_job()?;
    let answers = model.answers(&inference.values).dtos();
    Ok(InferenceDto {
        job: inference.receipt.job.id,
        answer: answers.first().cloned(),
        answers,
        top: u32::try_from(inference.greatest()).unwrap_or(u32::MAX),
        output: inference.values,
        receipt: inference.receipt,
    })
}

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
