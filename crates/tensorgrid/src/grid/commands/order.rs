//! What is shown and asked before an order, and while its job waits.

use tg_sdk::OrderTerms;
use tg_sdk::dto::{DryRunDto, JobWhyDto, ModeDto, ModelDto, QuoteDto};
use tg_types::{Amount, Lane};

use super::ask_to_proceed;
use crate::grid::describe::{describe_lease, describe_why};
use crate::grid::table::{Table, brief, short};
use crate::outcome::{Exit, Failure, Outcome, say};

/// What an order would come to, in lines.
pub(super) fn describe_dry_run(answer: &DryRunDto) -> String {
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

/// A maximum price for an order whose needs the quotes do not know, by what a dry run of it came to: twice the charge, since prices
/// move until it is placed.
///
/// # Errors
/// If no offer serves it, with the reason.
pub(super) fn price_of_trial(answer: &DryRunDto) -> Result<Amount, Failure> {
    if let Some(charge) = answer.charge {
        return Ok(charge.saturating_add(charge));
    }
    let text = format!(
        "no offer serves this order now: {}",
        describe_why(&answer.why)
    );
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
        "nothing was ordered; change what it asks, or order it with --max-price N: it then waits until its deadline",
    ))
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
