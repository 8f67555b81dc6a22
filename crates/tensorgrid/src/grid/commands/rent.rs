//! `tensorgrid rent show` and `pay`.

use std::time::{Duration, Instant};

use tg_sdk::Client;
use tg_sdk::dto::{RentDto, TransactionStateDto};
use tg_sdk::jobs;
use tg_types::{Address, Amount, Digest, Transaction, TransactionId};

use super::{ask_to_proceed, json_of};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::ledger_args::{RentCommand, RentPayArguments, RentShowArguments};
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::short;

/// How long a transaction may take to be in a final block.
const FINAL_MAX: Duration = Duration::from_secs(30);

/// How often the transaction is asked for.
const POLL: Duration = Duration::from_millis(150);

/// Least digits of an id that stand for the whole of it.
const ID_DIGITS_MIN: usize = 4;

/// Runs a command about rent.
pub(crate) async fn run(command: &RentCommand, as_json: bool) -> Outcome {
    match command {
        RentCommand::Show(arguments) => show(arguments, as_json).await,
        RentCommand::Pay(arguments) => pay(arguments, as_json).await,
    }
}

async fn show(arguments: &RentShowArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let record = name_of(&client, &arguments.record).await?;
    let rent = client.rent(record).await.calling("ask for the rent")?;
    print(&rent, as_json)
}

async fn pay(arguments: &RentPayArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let name = name_of(&client, &arguments.record).await?;
    let before = client.rent(&name).await.calling("ask for the rent")?;
    let amount = match (arguments.amount, arguments.days) {
        (Some(amount), _) => amount,
        (None, days) => times(before.per_day, days.unwrap_or(1)),
    };
    if amount.is_zero() {
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!("nothing to pay"))
            .hint("--amount must be more than 0; a record that costs nothing needs no deposit"));
    }
    if !arguments.yes {
        say(describe(&before));
        say(format_args!(
            "pay {} TGRID into this deposit; what is left when the record ends goes to {}",
            short(amount),
            before.payer
        ));
        ask_to_proceed("nothing was paid", "--yes pays without asking")?;
    }
    let transaction = Transaction::PayRent {
        record: before.record,
        amount,
    };
    let signed = jobs::submit(&client, &wallet, &transaction, "pay the rent").await;
    let signed = signed.of_job()?;
    let domain = client.status().await.calling("ask the grid")?.domain.into();
    wait_until_final(&client, signed.id(&domain)).await?;
    let after = client.rent(&name).await.calling("ask for the rent")?;
    print(&after, as_json)
}

/// An amount so many times.
const fn times(amount: Amount, count: u32) -> Amount {
    Amount::new(amount.get().saturating_mul(count as u128))
}

/// The id or address that a text of the command line stands for.
async fn name_of(client: &Client, text: &str) -> Result<String, Failure> {
    if Digest::from_hex(text).is_some() || Address::from_hex(text).is_some() {
        return Ok(text.to_owned());
    }
    if let Ok(model) = jobs::find_model(client, text).await {
        return Ok(model.id.to_string());
    }
    let offers = client.offers().await.calling("list the offers")?;
    let mut offers = offers.iter().map(|offer| offer.id.to_string());
    let begins = |id: &String| text.len() >= ID_DIGITS_MIN && id.starts_with(text);
    if let Some(offer) = offers.find(begins) {
        return Ok(offer);
    }
    match connect::job(client, text).await {
        Ok(job) => Ok(job.to_string()),
        Err(failure) if failure.exit == Exit::NotFound => Err(Failure::new(
            Exit::NotFound,
            anyhow::anyhow!("no model, offer or job is called {text:?}"),
        )
        .hint("`tensorgrid model list`, `provider list` and `job list` show what there is")),
        Err(failure) => Err(failure),
    }
}

/// Waits until a payment is in a final block.
pub(super) async fn wait_until_final(client: &Client, id: TransactionId) -> Outcome {
    let sent = Instant::now();
    loop {
        let status = client.transaction(id).await;
        let status = status.calling("ask for the transaction")?;
        match status.state {
            TransactionStateDto::Final => return Ok(()),
            TransactionStateDto::Dropped => {
                let why = status.reason.unwrap_or_default();
                let text = format!("the payment was dropped: {why}");
                return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
                    .hint("nothing was paid; try again"));
            }
            TransactionStateDto::Pending if sent.elapsed() > FINAL_MAX => {
                let text = "the payment was taken and is in no block yet";
                return Err(Failure::new(Exit::Unavailable, anyhow::anyhow!(text)));
            }
            TransactionStateDto::Pending => tokio::time::sleep(POLL).await,
        }
    }
}

fn print(rent: &RentDto, as_json: bool) -> Outcome {
    match as_json {
        true => json_of(rent),
        false => Ok(line(describe(rent))?),
    }
}

/// The rent of a record, in lines.
fn describe(rent: &RentDto) -> String {
    let RentDto {
        record,
        kind,
        payer,
        left,
        per_day,
        lasts_ms,
    } = rent;
    [
        format!("record   {} {record}", kind.as_str()),
        format!(
            "costs    {} TGRID a day at the price of now",
            short(*per_day)
        ),
        format!("deposit  {} TGRID are left", short(*left)),
        format!("lasts    {}", duration(*lasts_ms)),
        format!("payer    {payer} gets back what is left when the record ends"),
    ]
    .join("\n")
}

/// A duration in its largest fitting unit, rounded down.
fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 3] = [
        (86_400_000, "days"),
        (3_600_000, "hours"),
        (60_000, "minutes"),
    ];
    let fits = UNITS.iter().find(|(unit, _)| ms >= 2 * unit);
    match fits {
        Some((unit, name)) => format!("{} {name}", ms / unit),
        None => format!("{} s", ms / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn a_duration_is_written_in_its_largest_unit() {
        assert_eq!(duration(7 * 86_400_000), "7 days");
        assert_eq!(duration(36 * 3_600_000), "36 hours");
        assert_eq!(duration(119_999), "119 s");
    }
}
