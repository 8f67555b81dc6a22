//! `tensorgrid transfer`.

use tg_sdk::jobs;
use tg_sdk::text::FromText as _;
use tg_types::{Address, Transaction};

use super::rent::wait_until_final;
use super::{ask_to_proceed, json_of};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::ledger_args::TransferArguments;
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::short;

/// Pays another account and waits until that is final.
pub(crate) async fn run(arguments: &TransferArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let to = Address::from_text(&arguments.to).ok_or_else(|| {
        let expected = format!("{:?} is not {}", arguments.to, Address::EXPECTED);
        Failure::new(Exit::Usage, anyhow::anyhow!(expected))
    })?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let amount = arguments.amount;
    if amount.is_zero() {
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!("nothing to pay"))
            .hint("the amount must be more than 0"));
    }
    let domain = client.domain().await.calling("ask the grid")?;
    if !arguments.yes {
        say(format_args!(
            "{} TGRID go from {} to {to}, and do not come back (network: {domain})",
            short(amount),
            wallet.address()
        ));
        ask_to_proceed("nothing was paid", "--yes pays without asking")?;
    }
    let transfer = Transaction::Transfer { to, amount };
    let signed = jobs::submit(&client, &wallet, &transfer, "pay the account").await;
    let signed = signed.of_job()?;
    let id = signed.id(&domain);
    wait_until_final(&client, id).await?;
    if as_json {
        return json_of(&serde_json::json!({
            "transaction": id.to_string(),
            "to": to.to_string(),
            "amount": amount.to_string(),
        }));
    }
    Ok(line(format_args!("{} TGRID paid to {to}", short(amount)))?)
}
