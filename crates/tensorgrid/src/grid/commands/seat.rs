//! `tensorgrid seat`: who votes, and a seat asked for or given back.

use tg_sdk::dto::{SeatDto, SeatsDto};
use tg_sdk::jobs;
use tg_types::chain::is_seat_endpoint;
use tg_types::{Label, Transaction};

use super::rent::wait_until_final;
use super::{ask_to_proceed, json_of, say_unproved, seat_report, unproved_json};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::ledger_args::{
    SeatCommand, SeatJoinArguments, SeatLeaveArguments, SeatListArguments,
};
use crate::network::process::{Overrides, ValidatorProcess};
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::{Table, brief, short};

/// Runs a command about seats.
pub(crate) async fn run(command: &SeatCommand, as_json: bool) -> Outcome {
    match command {
        SeatCommand::List(arguments) => list(arguments, as_json).await,
        SeatCommand::Join(arguments) => join(arguments, as_json).await,
        SeatCommand::Leave(arguments) => leave(arguments, as_json).await,
        SeatCommand::Report(arguments) => seat_report::run(arguments, as_json).await,
    }
}

async fn list(arguments: &SeatListArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let seats = client.seats().await.calling("ask for the validators")?;
    if as_json {
        return unproved_json(&seats);
    }
    say_unproved(&client);
    let mut table = Table::new(&["key", "account", "stake", "endpoint", "last block", ""]);
    for seat in &seats.validators {
        table.row(vec![
            brief(seat.bond.key),
            seat.bond.account.to_string(),
            short(seat.bond.stake),
            seat.endpoint.clone().unwrap_or_else(|| "-".to_owned()),
            seat.last_block.to_string(),
            standing(seat).to_owned(),
        ]);
    }
    line(table.to_string().trim_end())?;
    tell_others(&seats)
}

fn standing(seat: &SeatDto) -> &'static str {
    match (seat.leaving, seat.ready) {
        (true, true) => "leaving, ready",
        (true, false) => "leaving",
        (false, true) => "ready",
        (false, false) => "",
    }
}

fn tell_others(seats: &SeatsDto) -> Outcome {
    for waiting in &seats.applicants {
        let (key, account) = (brief(waiting.key), waiting.account);
        line(format_args!("{key} of {account} waits for a seat"))?;
    }
    for left in &seats.unbonding {
        line(format_args!(
            "{} of {} left; {} TGRID go back at {} ms of ledger time",
            brief(left.bond.key),
            left.bond.account,
            short(left.bond.stake),
            left.until_ms
        ))?;
    }
    if let Some(upgrade) = seats.upgrade {
        say(format_args!(
            "version {} of the protocol begins with block {}: validators whose program does not execute it (not \"ready\") stop there",
            upgrade.version, upgrade.from
        ));
    }
    say(format_args!(
        "version {} of the protocol; term {} since block {}; the set may change after block {}; a seat costs a bond of {} TGRID, and there are at most {}",
        seats.protocol,
        seats.term,
        seats.since,
        seats.next_change,
        short(seats.bond),
        seats.validators_max
    ));
    Ok(())
}

async fn join(arguments: &SeatJoinArguments, as_json: bool) -> Outcome {
    if !is_seat_endpoint(&arguments.endpoint) {
        let text = format!("{:?} is not HOST:PORT", arguments.endpoint);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("the endpoint is where the other validators reach this one"));
    }
    let process = ValidatorProcess::load(&arguments.config, &Overrides::default())?;
    let client = connect::client(&arguments.api)?;
    let domain = process.config.genesis.domain;
    client.pin(domain).calling("ask the grid")?;
    let seats = client.seats().await.calling("ask for the validators")?;
    let account = process.account.address();
    if seats.validators.len() >= seats.validators_max {
        say(format_args!(
            "all {} seats that this network was founded for (network new --grow-to) are taken: the bond waits until somebody leaves",
            seats.validators_max
        ));
    }
    if !arguments.yes {
        say(format_args!(
            "{} TGRID of {account} are bonded: they are lost if the validator signs votes that contradict each other, and \
             come back {} s after the seat was given back",
            short(seats.bond),
            seats.unbonding_ms / 1_000
        ));
        ask_to_proceed("nothing was bonded", "--yes bonds without asking")?;
    }
    let genesis = process.config.genesis.id();
    let join = Transaction::JoinValidators {
        key: process.config.key.public(),
        endpoint: Label::lossy(&arguments.endpoint),
        possession: process.config.key.possession(&genesis, &account),
    };
    let signed = jobs::submit(&client, &process.account, &join, "ask for a seat").await;
    let signed = signed.of_job()?;
    wait_until_final(&client, signed.id(&domain)).await?;
    if as_json {
        return json_of(&serde_json::json!({
            "account": account.to_string(),
            "bond": seats.bond.to_string(),
            "next_change": seats.next_change,
        }));
    }
    line(format_args!("{account} waits for a seat"))?;
    say(format_args!(
        "the set may change after block {}; newcomers get seats as far as the others bear it if they are silent\nnow: tensorgrid \
         validator --config {}",
        seats.next_change,
        arguments.config.display()
    ));
    Ok(())
}

async fn leave(arguments: &SeatLeaveArguments, as_json: bool) -> Outcome {
    let process = ValidatorProcess::load(&arguments.config, &Overrides::default())?;
    let client = connect::client(&arguments.api)?;
    let domain = process.config.genesis.domain;
    client.pin(domain).calling("ask the grid")?;
    let account = process.account.address();
    if !arguments.yes {
        say(format_args!(
            "the seat of {account} ends after an epoch in which it may go"
        ));
        ask_to_proceed("the seat stays", "--yes gives it back without asking")?;
    }
    let leave = Transaction::LeaveValidators {
        key: process.config.key.public(),
    };
    let signed = jobs::submit(&client, &process.account, &leave, "give the seat back").await;
    let signed = signed.of_job()?;
    wait_until_final(&client, signed.id(&domain)).await?;
    let seats = client.seats().await.calling("ask for the validators")?;
    if as_json {
        return json_of(&serde_json::json!({
            "account": account.to_string(),
            "next_change": seats.next_change,
        }));
    }
    line(format_args!("{account} gives its seat back"))?;
    say(format_args!(
        "keep it running: it votes until the set changes, after block {} at the earliest, and not before the set has four without it",
        seats.next_change
    ));
    Ok(())
}
