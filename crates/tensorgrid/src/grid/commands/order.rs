//! What is shown and asked before an order, and while its job waits.

use std::time::Duration;

use tg_sdk::dto::{DryRunDto, JobWhyDto, ModeDto, ModelDto, QuoteDto};
use tg_sdk::{Client, OrderTerms, Wallet, jobs};
use tg_types::{Amount, Lane, ModelId};

use super::{ask_to_proceed, json_of};
use crate::grid::connect::Calling as _;
use crate::grid::describe::{describe_lease, describe_why};
use crate::grid::infer;
use crate::grid::order_args::OrderArguments;
use crate::grid::table::{Table, brief, short};
use crate::outcome::{Exit, Failure, Outcome, line, say};

/// What offers ask for a run of a model that is checked so.
pub(super) async fn quotes(
    client: &Client,
    (model, mode): (&ModelDto, ModeDto),
    order: &OrderArguments,
) -> Result<Vec<QuoteDto>, Failure> {
    let at_risk = order.needs.value_at_risk;
    let quotes = jobs::patiently(|| client.quotes_at_risk(model.id, mode, at_risk)).await;
    quotes.calling("ask for prices")
}

/// The terms of an order, at the maximum price that was named or the usual one.
pub(super) async fn terms(
    client: &Client,
    wallet: &Wallet,
    (mode, order): (ModeDto, &OrderArguments),
    quotes: &[QuoteDto],
) -> Result<OrderTerms, Failure> {
    Ok(OrderTerms {
        mode: mode.into(),
        max_price: max_price_of(client, wallet, order, quotes).await?,
        deadline: Duration::from_secs(order.deadline_s),
        max_attempts: order.attempts,
        needs: order.needs.needs(),
    })
}

/// The maximum price that was named, or the usual one.
async fn max_price_of(
    client: &Client,
    wallet: &Wallet,
    order: &OrderArguments,
    quotes: &[QuoteDto],
) -> Result<Amount, Failure> {
    let usual = jobs::usual_max_price(quotes);
    // The quotes know nothing of GPU time, priorities and gangs.
    let is_usual = order.needs.are_usual();
    match order.max_price.or(usual.filter(|_| is_usual)) {
        Some(max_price) => Ok(max_price),
        // What it would cost is what a dry run is asked: any price that the account can pay will do.
        None if order.dry_run => {
            let account = client.account(wallet.address()).await;
            let balance = account.calling("ask for the balance")?.balance;
            Ok(Amount::new(balance.get() / 2))
        }
        None if is_usual => Err(infer::no_offer()),
        None => Err(no_max_price()),
    }
}

/// Needs without a maximum price.
fn no_max_price() -> Failure {
    let text = "an order with needs of its own has no usual price";
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
        .hint("--max-price N bounds what is spent; with --dry-run it says what would be charged")
}

/// Refuses a sealed bid for what is not ordered by one.
pub(super) fn refuse_sealed_bid(terms: OrderTerms, what: &str) -> Outcome {
    if terms.needs.lane() != Lane::Auction {
        return Ok(());
    }
    let text = format!("{what} is not ordered by a sealed bid yet");
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("leave out --class batch"))
}

/// Asks what an order would come to in the next block.
pub(super) async fn dry_run(
    client: &Client,
    wallet: &Wallet,
    (model, input): (ModelId, &[u8]),
    terms: OrderTerms,
) -> Result<DryRunDto, Failure> {
    let status = client.status().await.calling("ask for the grid's time")?;
    let order = terms.order(model, input, status.ledger_time_ms);
    let answer = client.dry_run(wallet.address(), &order).await;
    answer.calling("ask what the order would come to")
}

/// Prints what an order would come to.
pub(super) fn print_dry_run(answer: &DryRunDto, as_json: bool) -> Outcome {
    match as_json {
        true => json_of(answer),
        false => Ok(line(describe_dry_run(answer))?),
    }
}

/// What an order would come to, in lines.
fn describe_dry_run(answer: &DryRunDto) -> String {
    let DryRunDto {
        job,
        why,
        charge,
        charge_max,
    } = answer;
    let mut lines = vec!["nothing was ordered; in the next block:".to_owned()];
    let leases = job.leases.iter();
    lines.extend(leases.map(|lease| format!("  {}", describe_lease(lease))));
    lines.push(match charge {
        Some(charge) => format!(
            "{} TGRID would be charged for an accepted result, with verification; {} at most, whatever happens",
            short(*charge),
            short(*charge_max)
        ),
        None => format!("{} TGRID at most would be charged", short(*charge_max)),
    });
    if job.leases.is_empty() {
        lines.push(describe_why(why));
    }
    lines.join("\n")
}

/// Shows the offers and asks before spending.
pub(super) fn confirm(model: &ModelDto, quotes: &[QuoteDto], terms: OrderTerms) -> Outcome {
    say(offers(quotes));
    say(format_args!(
        "run {} with verify {} for at most {} TGRID plus the verification fee",
        model.name,
        ModeDto::from(terms.mode),
        short(terms.max_price)
    ));
    if terms.needs.lane() == Lane::Auction {
        say(
            "as a sealed bid: a deposit is locked, and lost unless this command runs until the bid is opened",
        );
    }
    ask_to_proceed(
        "nothing was ordered",
        "--yes orders without asking; --max-price bounds what is spent",
    )
}

/// What every offer would ask.
pub(super) fn offers(quotes: &[QuoteDto]) -> Table {
    let mut table = Table::new(&[
        "provider",
        "hardware",
        "price",
        "verification",
        "ETA",
        "accepted",
        "failed",
        "",
    ]);
    for quote in quotes {
        let reputation = &quote.offer.reputation;
        let failed = reputation.rejected + reputation.late + reputation.abandoned;
        let note = if quote.chosen {
            "<- cheapest that fits".to_owned()
        } else {
            quote.lacks.join("; ")
        };
        table.row(vec![
            brief(quote.offer.provider),
            quote.offer.terms.hardware.clone(),
            quote.price.map_or_else(|| "-".to_owned(), short),
            short(quote.verification_fee),
            format!("{}.{} s", quote.eta_ms / 1000, quote.eta_ms % 1000 / 100),
            reputation.accepted.to_string(),
            failed.to_string(),
            note,
        ]);
    }
    table
}

/// Why a job waits, in one line.
pub(super) fn describe_wait(why: &JobWhyDto) -> String {
    let mut parts = vec![why.summary.clone()];
    let constraints = why.constraints.iter().take(REASONS_SHOWN);
    parts.extend(constraints.map(|it| format!("{} {}", it.rejected, it.constraint)));
    parts.extend(why.relaxations.first().cloned());
    if let Some(position) = why.queue_position.filter(|it| *it > 0) {
        parts.push(format!("{position} jobs are before it"));
    }
    parts.join("; ")
}

/// Constraints that are named while a job waits.
const REASONS_SHOWN: usize = 3;
