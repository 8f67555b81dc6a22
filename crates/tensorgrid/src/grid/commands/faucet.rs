//! `tensorgrid faucet`: play money of development networks.

use tg_sdk::dto::FaucetRequestDto;
use tg_sdk::text::FromText as _;
use tg_types::{Address, Amount};

use super::json_of;
use super::rent::wait_until_final;
use crate::grid::account_args::FaucetArguments;
use crate::grid::connect::{self, Calling as _};
use tg_console::outcome::{Exit, Failure, Outcome, line};
use tg_console::table::short;

/// What is given if nothing is said.
const USUAL: Amount = Amount::from_tgrid(10);

/// Asks the faucet for money and waits until that is final.
pub(crate) async fn run(arguments: &FaucetArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let (address, amount) = asked(&arguments.asked)?;
    let status = client.status().await.calling("ask the grid")?;
    if !status.development {
        let text = format!(
            "network {} has no faucet: its money is not play money",
            status.network
        );
        return Err(Failure::new(Exit::NotFound, anyhow::anyhow!(text))
            .hint("ask whoever has some for a `tensorgrid transfer`"));
    }
    let address = match address {
        Some(address) => address,
        None => connect::wallet(&client, &arguments.key).await?.address(),
    };
    let request = FaucetRequestDto { address, amount };
    let sent = client.faucet(&request).await.calling("ask the faucet")?;
    wait_until_final(&client, sent.transaction).await?;
    let balance = client.account(address).await;
    let balance = balance.calling("ask for the balance")?.balance;
    if as_json {
        return json_of(&serde_json::json!({
            "transaction": sent.transaction.to_string(), "address": address.to_string(),
            "amount": amount.to_string(), "balance": balance.to_string(),
        }));
    }
    Ok(line(format_args!(
        "{} TGRID given to {address}, which has {}",
        short(amount),
        short(balance)
    ))?)
}

/// The address and the amount, both of which may be left out.
fn asked(words: &[String]) -> Result<(Option<Address>, Amount), Failure> {
    let wrong = |word: &str| {
        let text = format!(
            "{word:?} is neither {} nor an amount of TGRID",
            Address::EXPECTED
        );
        Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("tensorgrid faucet ADDRESS AMOUNT")
    };
    let (mut address, mut amount) = (None, None);
    for word in words {
        match (Address::from_text(word), word.parse::<Amount>()) {
            (Some(found), _) if address.is_none() && amount.is_none() => address = Some(found),
            (None, Ok(found)) if amount.is_none() && !found.is_zero() => amount = Some(found),
            _ => return Err(wrong(word)),
        }
    }
    Ok((address, amount.unwrap_or(USUAL)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn address_and_amount_may_be_left_out() {
        let address = "0x52908400098527886E0F7030069857D2E4169EE7";
        let read = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
            asked(&words)
                .map(|(address, amount)| (address.is_some(), amount))
                .ok()
        };
        assert_eq!(read(&[]), Some((false, USUAL)));
        assert_eq!(read(&["5"]), Some((false, Amount::from_tgrid(5))));
        assert_eq!(read(&[address]), Some((true, USUAL)));
        assert_eq!(
            read(&[address, "0.5"]),
            Some((true, "0.5".parse().unwrap()))
        );
        for wrong in [
            &["5", address][..],
            &["0"],
            &["alice"],
            &[address, address],
            &["-1"],
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
