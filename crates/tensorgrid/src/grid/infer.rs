//! An inference on behalf of a client of a development network.

use std::time::{SystemTime, UNIX_EPOCH};

use tg_sdk::dto::{DevelopmentInferDto, InferenceDto};
use tg_sdk::jobs::{self, OrderedJob};
use tg_sdk::{Client, Digest, OrderTerms};
use tg_types::TimestampMs;

use super::connect::{self, Calling, OfJob};
use tg_console::accounts;
use tg_console::outcome::{Exit, Failure, OrFail};
use tg_offline::answer::ShownAnswer;

/// Runs an inference on behalf of a client of a development network, paid by its requestor account.
pub(crate) async fn on_behalf(
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

/// No offer fits.
pub(crate) fn no_offer() -> Failure {
    Failure::new(
        Exit::Rejected,
        anyhow::anyhow!("no provider offers to run this model"),
    )
    .hint("start one with `tensorgrid provider --price 0.01`, or see `tensorgrid provider list`")
}

/// The time by this machine's clock.
pub(crate) fn now() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::try_from(since.unwrap_or_default().as_millis());
    TimestampMs::new(now.unwrap_or(u64::MAX))
}
