//! `tensorgrid model modes`: what each way of checking a result costs, and what it assures.

use tg_sdk::dto::{ModeDto, ModePriceDto, ModelDto, QuoteDto};
use tg_sdk::jobs;
use tg_sdk::{Client, Wallet};

use super::json_of;
use super::order::trial_of_sync;
use crate::grid::cloud_prices;
use crate::grid::connect::{self, Calling as _};
use crate::grid::infer_args::InferArguments;
use crate::grid::model_args::ModelModesArguments;
use crate::grid::order_args::OrderArguments;
use crate::grid::program_args::ProgramSubmitArguments;
use tg_console::outcome::{Failure, Outcome, line, say};
use tg_console::table::{Table, short};
use tg_console::verify::VerifyChoice;
use tg_types::{Amount, Lane};

/// Shows the ways of checking for models of the grid.
pub(crate) async fn run(arguments: &ModelModesArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let clouds = arguments.clouds.read()?;
    let mut models = Vec::new();
    for name in &arguments.models {
        models.push(connect::listed(&client, name).await?);
    }
    if arguments.models.is_empty() {
        models = client.models().await.calling("list the models")?;
    }
    let mut listed = Vec::new();
    for model in models {
        let prices = prices(&client, &model, arguments.value_at_risk).await?;
        let quotes = match &clouds {
            Some(_) => quotes(&client, &model, &prices).await?,
            None => Vec::new(),
        };
        if as_json {
            let clouds = clouds
                .as_ref()
                .map(|it| cloud_prices::beside_json(it, &quotes, 0));
            listed.push(serde_json::json!({
                "id": model.id.to_string(), "name": model.name, "modes": prices, "clouds": clouds,
            }));
        } else {
            line(format_args!("{}:", model.name))?;
            line(table(&prices, jobs::usual_mode(&prices)))?;
            if let Some(text) = clouds
                .as_ref()
                .and_then(|it| cloud_prices::beside(it, &quotes, 0))
            {
                line(text)?;
            }
        }
    }
    if as_json {
        return json_of(&listed);
    }
    Ok(())
}

/// What offers ask for a job that is checked in the usual way: whose machine clouds are compared with.
async fn quotes(
    client: &Client,
    model: &ModelDto,
    prices: &[ModePriceDto],
) -> Result<Vec<QuoteDto>, Failure> {
    let priced = prices.iter().find(|it| it.price.is_some());
    let Some(mode) = jobs::usual_mode(prices).or(priced.map(|it| it.mode)) else {
        return Ok(Vec::new());
    };
    let quotes = jobs::patiently(|| client.quotes(model.id, mode)).await;
    quotes.calling("ask for prices")
}

/// What an order says of how it is checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModeAsked<'a> {
    /// The way that was named.
    pub(crate) verify: Option<VerifyChoice>,
    pub(crate) order: &'a OrderArguments,
    /// Whether a proof is to be kept.
    pub(crate) for_proof: bool,
}

impl<'a> From<&'a InferArguments> for ModeAsked<'a> {
    fn from(arguments: &'a InferArguments) -> Self {
        Self {
            verify: arguments.verify,
            order: &arguments.order,
            for_proof: arguments.proof_out.is_some(),
        }
    }
}

impl<'a> From<&'a ProgramSubmitArguments> for ModeAsked<'a> {
    fn from(arguments: &'a ProgramSubmitArguments) -> Self {
        Self {
            verify: arguments.verify,
            order: &arguments.order,
            for_proof: false,
        }
    }
}

/// The mode that was asked for; else the usual one of the grid, of which it is said why.
pub(crate) async fn mode_of(
    client: &Client,
    wallet: &Wallet,
    (model, input): (&ModelDto, &[u8]),
    asked: ModeAsked<'_>,
) -> Result<ModeDto, Failure> {
    let ModeAsked {
        verify,
        order,
        for_proof,
    } = asked;
    if let Some(asked) = verify {
        return Ok(asked.mode());
    }
    // Where nothing is known that would speak for a cheaper one.
    let certain = match model.facts.as_ref().is_some_and(|it| it.provable) {
        true => ModeDto::Proof,
        false => ModeDto::Recompute,
    };
    if for_proof {
        say(format_args!(
            "--verify {certain}, for a proof is to be kept"
        ));
        return Ok(certain);
    }
    if !order.needs.are_usual() {
        let asked = (order, certain);
        return Box::pin(mode_of_needs(client, wallet, (model, input), asked)).await;
    }
    let at_risk = order.needs.value_at_risk;
    let prices = prices(client, model, at_risk).await?;
    let Some(mode) = jobs::usual_mode(&prices) else {
        // Nobody serves it: that is said with what each offer lacks.
        return Ok(certain);
    };
    if !order.yes && !order.dry_run {
        say(table(&prices, Some(mode)));
    }
    let sync = prices.iter().find(|price| price.mode == ModeDto::Sync);
    match sync.and_then(|price| price.refused.as_ref()) {
        _ if mode == ModeDto::Sync => {}
        Some(refusal) => say(format_args!(
            "--verify {mode}, for sync is refused: {refusal}"
        )),
        None => say(format_args!(
            "--verify {mode}, for no offer puts up the twenty times its price{} that sync asks",
            match at_risk.is_zero() {
                true => "",
                false => " and the value at risk",
            }
        )),
    }
    let is_whole = sync.is_some_and(|it| it.run_whole);
    say(format_args!("--verify {mode}: {}", assured(mode, is_whole)));
    Ok(mode)
}

/// The mode of an order with needs of its own, of which prices of usual jobs say nothing: sync if a dry run of the order in that mode says that it
/// would be served, else `certain`.
async fn mode_of_needs(
    client: &Client,
    wallet: &Wallet,
    (model, input): (&ModelDto, &[u8]),
    (order, certain): (&OrderArguments, ModeDto),
) -> Result<ModeDto, Failure> {
    // No dry run says what an auction pays, nor whether an offer has twenty times that.
    if order.needs.needs().lane() == Lane::Auction {
        say(format_args!(
            "--verify {certain}, for nobody knows before its auction what a sealed bid pays; --verify sync asks for a committee"
        ));
        return Ok(certain);
    }
    let prices = prices(client, model, order.needs.value_at_risk).await?;
    let sync = prices.iter().find(|price| price.mode == ModeDto::Sync);
    if let Some(refusal) = sync.and_then(|price| price.refused.as_ref()) {
        say(format_args!(
            "--verify {certain}, for sync is refused: {refusal}"
        ));
        return Ok(certain);
    }
    let mode = match trial_of_sync(client, wallet, order, (model.id, input)).await {
        Ok(answer) if answer.charge.is_some() => ModeDto::Sync,
        Ok(_) => {
            say(format_args!(
                "--verify {certain}, for no offer serves this order now with verify sync, which asks that it puts up twenty times its price and \
                 the value at risk"
            ));
            certain
        }
        // Its verification fee may be more than the account has left.
        Err(failure) => {
            say(format_args!(
                "--verify {certain}, for with verify sync this order is refused: {:#}",
                failure.error
            ));
            certain
        }
    };
    let is_whole = sync.is_some_and(|price| price.run_whole);
    say(format_args!("--verify {mode}: {}", assured(mode, is_whole)));
    Ok(mode)
}

async fn prices(
    client: &Client,
    model: &ModelDto,
    value_at_risk: Amount,
) -> Result<Vec<ModePriceDto>, Failure> {
    let prices = jobs::patiently(|| client.mode_prices(model.id, value_at_risk)).await;
    prices.calling("ask what each way of checking costs")
}

/// What each way comes to, with a mark on `chosen`.
fn table(prices: &[ModePriceDto], chosen: Option<ModeDto>) -> Table {
    let mut table = Table::new(&[
        "verify",
        "price",
        "verification",
        "ETA",
        "offers",
        "",
        "what it assures",
    ]);
    for price in prices {
        let eta = |eta: u64| format!("{}.{} s", eta / 1000, eta % 1000 / 100);
        let is_chosen = chosen == Some(price.mode);
        let text = match &price.refused {
            Some(refusal) => format!("refused: {refusal}"),
            None => assured(price.mode, price.run_whole).to_owned(),
        };
        table.row(vec![
            price.mode.to_string(),
            price.price.map_or_else(|| "-".to_owned(), short),
            short(price.verification_fee),
            price.eta_ms.map_or_else(|| "-".to_owned(), eta),
            price.offers.to_string(),
            if is_chosen { "<- usual" } else { "" }.to_owned(),
            text,
        ]);
    }
    table
}

/// What a mode assures of runs of a model, in a line: of mode sync it depends on whether a committee runs all of it.
pub(crate) const fn assured(mode: ModeDto, is_run_whole: bool) -> &'static str {
    match (mode, is_run_whole) {
        (ModeDto::Sync, true) => {
            "drawn validators run it again, as the run is short: one honest one finds what is wrong, and the provider puts up twenty \
             times what a lie could win; nothing for you to check"
        }
        (ModeDto::Sync, false) => {
            "drawn validators compute drawn parts again: one wrong part is found with 5 % or more, all of them in small \
             models, and the provider puts up twenty times what a lie could win; nothing for you to check"
        }
        _ => assurance(mode),
    }
}

/// What a mode assures, in a line.
pub(crate) const fn assurance(mode: ModeDto) -> &'static str {
    match mode {
        ModeDto::None => "nothing: nobody checks the result; it is paid when validators hold it",
        ModeDto::Proof => {
            "a proof, which every validator and you check: a wrong result is not accepted"
        }
        ModeDto::Recompute => {
            "every validator runs it again: right unless a third of them or more lie; nothing for you to check"
        }
        ModeDto::Endpoint => {
            "nothing but what you check: answers come at once and signed by their provider, and you pay by vouchers as long as you like them"
        }
        ModeDto::Optimistic => {
            "one drawn validator runs it again, then anybody may have all do so for some seconds; the provider puts up three times \
             what a lie could win; nothing for you to check but by a run of your own"
        }
        ModeDto::Sealed => {
            "only the provider and you read input and answer; nobody checks the answer unless you do: then you may show the key, and every \
             validator runs it again; the provider puts up three times what a lie could win"
        }
        ModeDto::Replicate => {
            "drawn providers run it, seal what they found and open it: a wrong result is accepted only where all of them are of one \
             hand, which has a share s of the collateral with probability s to the number of them; nothing for you to check"
        }
        ModeDto::Sync => {
            "drawn validators run it again if a run takes some 30 ms at most, so that one honest one finds what is wrong, else they compute \
             drawn parts again: one wrong part is found with 5 % or more; the provider puts up twenty times what a lie could win; nothing \
             for you to check"
        }
    }
}
