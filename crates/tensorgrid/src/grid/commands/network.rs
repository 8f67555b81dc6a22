//! `tensorgrid network new` and `network join`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tg_ledger::{Genesis, UnverifiedJobs};
use tg_sdk::Client;

use super::json_of;
use crate::grid::connect::{self, Calling as _};
use crate::grid::node_args::{
    KeepingArguments, NetworkCommand, NetworkJoinArguments, NetworkNewArguments,
};
use crate::network::founding::{
    NetworkPlan, found, join_as_gateway, join_as_provider, join_as_validator,
};
use crate::network::layout::Founded;
use crate::network::process::read_genesis;
use tg_console::keys::Passphrase;
use tg_console::outcome::{Exit, Failure, Outcome, line, say};
use tg_console::table::short;

/// Runs a command about networks.
pub(crate) async fn run(command: &NetworkCommand, as_json: bool) -> Outcome {
    match command {
        NetworkCommand::New(arguments) => new(arguments, as_json),
        NetworkCommand::Join(arguments) => join(arguments, as_json).await,
    }
}

fn usage(text: String) -> Failure {
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

fn new(arguments: &NetworkNewArguments, as_json: bool) -> Outcome {
    let count = usize::from(arguments.validators);
    let hosts = match arguments.host.as_slice() {
        [] => vec!["127.0.0.1".to_owned(); count],
        [host] => vec![host.clone(); count],
        hosts if hosts.len() == count => hosts.to_vec(),
        hosts => {
            let text = format!("{} hosts for {count} validators", hosts.len());
            return Err(usage(text).hint("give --host once for all, or once for each"));
        }
    };
    let passphrase = keeping(&arguments.keeping)?;
    let founded = found(&NetworkPlan {
        folder: arguments.folder.clone(),
        hosts,
        validators_max: arguments.grow_to.max(arguments.validators).into(),
        repeat_macs: arguments.repeat_macs,
        whole_run_macs: arguments.whole_run_macs,
        gateways: arguments.gateways,
        providers: arguments.providers,
        first_port: arguments.first_port,
        passphrase,
        unverified_jobs: if arguments.allow_unverified {
            UnverifiedJobs::Allowed
        } else {
            UnverifiedJobs::Refused
        },
    })?;
    tell(&founded, as_json)
}

/// What new keys are put under, if they are.
fn keeping(arguments: &KeepingArguments) -> Result<Option<(Passphrase, PathBuf)>, Failure> {
    match &arguments.passphrase_file {
        Some(path) => Ok(Some((Passphrase::read(path)?, path.clone()))),
        None if arguments.no_encryption => Ok(None),
        None => Err(usage("how are the keys kept?".to_owned()).hint(
            "--passphrase-file FILE puts them under the passphrase in its first line; --no-encryption leaves them \
             readable for whoever reads the files",
        )),
    }
}

async fn join(arguments: &NetworkJoinArguments, as_json: bool) -> Outcome {
    let genesis = read_genesis(&arguments.genesis)?;
    let client = connect::client(&arguments.api)?;
    let status = client.status().await.calling("ask the grid")?;
    if tg_types::ChainDomain::from(status.domain) != genesis.domain {
        let text = format!(
            "{} is of network {}, not of that of {}",
            arguments.api.api,
            status.network,
            arguments.genesis.display()
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
            .hint("--api names an API of the network that you join"));
    }
    if arguments.gateway {
        let file = join_as_gateway(&arguments.folder, &arguments.api.api, &genesis)?;
        return tell_gateway((&file, &arguments.genesis), &genesis, as_json);
    }
    let passphrase = keeping(&arguments.keeping)?;
    if arguments.validator {
        return join_validator(arguments, (&client, &genesis), passphrase, as_json).await;
    }
    let (wallet, folder) = join_as_provider(&arguments.folder, &arguments.api.api, passphrase)?;
    let address = wallet.address().to_string();
    let file = folder.join("provider.toml");
    if as_json {
        return json_of(&serde_json::json!({
            "config": file,
            "key": folder.join("account.key"),
            "address": address,
            "api": arguments.api.api,
            "network": genesis.id().to_string(),
        }));
    }
    line(format_args!(
        "provider {address} of network {}",
        genesis.id()
    ))?;
    say(format_args!(
        "fund it: tensorgrid transfer {address} 5\nthen: tensorgrid provider --config {}\n{}",
        file.display(),
        proved_by(&arguments.genesis)
    ));
    Ok(())
}

/// How what commands show of the network is proved.
fn proved_by(genesis: &Path) -> String {
    format!(
        "TENSORGRID_GENESIS={} in the environment of commands has what they show proved; without it \
         what an API on another machine says is not shown, but with --trust-gateway",
        genesis.display()
    )
}

async fn join_validator(
    arguments: &NetworkJoinArguments,
    (client, genesis): (&Client, &Genesis),
    passphrase: Option<(Passphrase, PathBuf)>,
    as_json: bool,
) -> Outcome {
    let seats = client.seats().await.calling("ask for the validators")?;
    let known = seats.validators.iter().filter_map(|seat| {
        let key = seat.bond.key.to_string();
        let key = key.trim_start_matches("0x").to_owned();
        Some((key, seat.endpoint.clone()?))
    });
    let known: BTreeMap<String, String> = known.collect();
    if known.len() < seats.validators.len() {
        let text = format!(
            "{} knows where {} of {} validators are",
            arguments.api.api,
            known.len(),
            seats.validators.len()
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
            "--api names the API of a validator: gateways do not know where those of genesis are",
        ));
    }
    let api = &arguments.api.api;
    let (account, file) = join_as_validator(
        &arguments.folder,
        api,
        (genesis, known),
        arguments.port,
        passphrase,
    )?;
    let address = account.address().to_string();
    if as_json {
        return json_of(&serde_json::json!({
            "config": file,
            "address": address,
            "network": genesis.id().to_string(),
            "bond": seats.bond.to_string(),
        }));
    }
    line(format_args!(
        "validator with account {address} of network {}",
        genesis.id()
    ))?;
    say(format_args!(
        "fund it: tensorgrid transfer {address} {}\nthen: tensorgrid seat join HOST:{} --config {}\nand: tensorgrid validator --config {}\n{}",
        short(seats.bond.saturating_add(tg_types::Amount::from_tgrid(1))),
        arguments.port,
        file.display(),
        file.display(),
        proved_by(&arguments.genesis)
    ));
    Ok(())
}

fn tell_gateway((file, told): (&Path, &Path), genesis: &Genesis, as_json: bool) -> Outcome {
    let network = genesis.id();
    if as_json {
        return json_of(&serde_json::json!({
            "config": file,
            "network": network.to_string(),
        }));
    }
    line(format_args!("gateway of network {network}"))?;
    say(format_args!(
        "more sources in its settings make it independent of one\nthen: tensorgrid gateway --config {}\n{}",
        file.display(),
        proved_by(told)
    ));
    Ok(())
}

fn tell(founded: &Founded, as_json: bool) -> Outcome {
    let count = founded.validators.len();
    if as_json {
        let validators: Vec<_> = (0..count)
            .map(|index| {
                serde_json::json!({
                    "config": founded.validator_folder(index).join("validator.toml"),
                    "address": founded.validators[index].address.to_string(),
                    "api": founded.validator_url(index),
                })
            })
            .collect();
        let gateways: Vec<_> = (0..founded.gateways.len())
            .map(|index| {
                serde_json::json!({
                    "config": founded.gateway_folder(index).join("gateway.toml"),
                    "api": format!("http://{}", founded.gateways[index]),
                })
            })
            .collect();
        let providers: Vec<_> = (0..founded.providers.len())
            .map(|index| {
                serde_json::json!({
                    "config": founded.provider_folder(index).join("provider.toml"),
                    "key": founded.provider_folder(index).join("account.key"),
                    "address": founded.providers[index].address().to_string(),
                    "api": founded.api_url(index),
                })
            })
            .collect();
        return json_of(&serde_json::json!({
            "folder": founded.folder,
            "genesis": founded.genesis.id().to_string(),
            "requestor": {
                "key": founded.folder.join("requestor.key"),
                "address": founded.requestor.address().to_string(),
            },
            "validators": validators,
            "gateways": gateways,
            "providers": providers,
        }));
    }
    line(format_args!(
        "network {} in {}: {count} validators, {} gateways, {} providers",
        founded.genesis.id(),
        founded.folder.display(),
        founded.gateways.len(),
        founded.providers.len()
    ))?;
    if founded.passphrase_file.is_none() {
        say("the keys are not encrypted: whoever reads these files owns the accounts and votes");
    }
    if count < 4 {
        say("with fewer than 4 validators none may fail");
    }
    say(format_args!(
        "next: {} starts all of it here; README.md there says what goes to which machine",
        founded.folder.join("start.sh").display()
    ));
    Ok(())
}
