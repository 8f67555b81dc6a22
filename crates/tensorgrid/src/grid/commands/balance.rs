//! `tensorgrid balance` and `tensorgrid status`.

use tg_sdk::text::FromText;
use tg_types::Address;

use super::json_of;
use crate::grid::connect::{self, Calling};
use crate::grid::ledger_args::{BalanceArguments, StatusArguments};
use crate::grid::trust::{self, Trusting};
use tg_console::keys::{self, Passphrase};
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line};
use tg_console::table::{Table, brief, short};

/// Prints an account, or the funded accounts of a development network.
pub(crate) async fn run(arguments: &BalanceArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let Some(address) = address(arguments)? else {
        let accounts = client
            .development_accounts()
            .await
            .calling("list the accounts")?;
        if as_json {
            return json_of(&accounts);
        }
        let mut table = Table::new(&["account", "address", "TGRID"]);
        for account in accounts {
            let address = account.address.to_string();
            table.row(vec![account.name, address, short(account.balance)]);
        }
        return Ok(line(table)?);
    };
    let trusting = Trusting::begin_to_show(&client, &arguments.trust).await?;
    let account = client
        .account(address)
        .await
        .calling("ask for the account")?;
    let shown = match trusting {
        Some(mut trusting) => {
            let shown = trusting.light().balance(address).await;
            let shown = trust::checked(shown, "ask for the proof")?;
            trusting.keep();
            Some(shown)
        }
        None => None,
    };
    if as_json {
        let mut json = serde_json::to_value(&account).or_fail(Exit::Failed, "write JSON")?;
        if let Some(shown) = &shown {
            json["proved"] = serde_json::json!({
                "height": shown.height, "timestamp_ms": shown.timestamp_ms,
                "balance": shown.value.to_string(),
            });
        }
        return json_of(&json);
    }
    if let Some(shown) = shown {
        let balance = short(shown.value);
        let proved = trust::proved(&shown);
        line(format_args!(
            "{balance} TGRID can be spent by {address} ({proved})"
        ))?;
        return Ok(());
    }
    line(format_args!(
        "{} TGRID can be spent by {address}",
        short(account.balance)
    ))?;
    line(format_args!(
        "{} locked for its jobs",
        short(account.escrow)
    ))?;
    line(format_args!(
        "{} locked as collateral",
        short(account.collateral)
    ))?;
    Ok(())
}

/// The account that was named, if one was: by its address or its key.
fn address(arguments: &BalanceArguments) -> Result<Option<Address>, Failure> {
    if let Some(text) = &arguments.address {
        let address = Address::from_text(text).ok_or_else(|| {
            let expected = format!("{text:?} is not {}", Address::EXPECTED);
            Failure::new(Exit::Usage, anyhow::anyhow!(expected))
        })?;
        return Ok(Some(address));
    }
    let passphrase = arguments.passphrase.passphrase_file.as_ref();
    let passphrase = Passphrase::read_optional(passphrase)?;
    let wallet = arguments.key.as_ref();
    let wallet = wallet.map(|path| keys::read_wallet(path, passphrase.as_ref()));
    Ok(wallet.transpose()?.map(|wallet| wallet.address()))
}

/// Prints where the grid stands and where all money is.
pub(crate) async fn status(arguments: &StatusArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let status = client.status().await.calling("ask the grid")?;
    if as_json {
        return json_of(&status);
    }
    line(format_args!(
        "network {} at height {}, block {}, {} validators",
        status.network,
        status.height,
        brief(status.block),
        status.validators
    ))?;
    let jobs = &status.jobs;
    line(format_args!(
        "jobs: {} wait, {} are worked on, {} are over",
        jobs.queued, jobs.active, jobs.ended
    ))?;
    line(format_args!(
        "gas costs {} TGRID a unit, {} at least",
        status.base_fee_per_gas, status.parameters.base_fee_min
    ))?;
    let totals = &status.totals;
    line(format_args!(
        "TGRID: {} minted = {} in accounts + {} in escrow + {} at stake + {} as collateral + {} burned",
        short(totals.minted),
        short(totals.balances),
        short(totals.escrow),
        short(totals.stake),
        short(totals.collateral),
        short(totals.burned)
    ))?;
    Ok(())
}
