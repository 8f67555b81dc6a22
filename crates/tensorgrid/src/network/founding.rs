//! `tensorgrid network new`: a folder with all that the processes of a new network need.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tg_console::files;

use tg_ledger::{
    ConsensusKey, Genesis, Parameters, StorageRule, UnverifiedJobs, Validator, development_domain,
};
use tg_node::{SeatAddress, ValidatorKey, create_validator};
use tg_sdk::clock;
use tg_types::{Amount, ChainDomain, Digest, Encode as _, Wallet};

use super::gateway::GatewaySettings;
use super::layout::{Founded, NewValidator};
use super::process::{ApiSetting, ValidatorSettings};
use super::{scripts, settings};
use crate::grid::embedded::{STAKE, UNBONDING};
use tg_console::keys::{self, Passphrase};
use tg_console::outcome::{Exit, Failure, OrFail};

/// What the requestor's account begins with.
const OF_REQUESTOR: Amount = Amount::from_tgrid(10_000);

/// What each provider's account begins with.
const OF_PROVIDER: Amount = Amount::from_tgrid(1_000);

/// A network to be founded.
pub(crate) struct NetworkPlan {
    /// Folder of its files; it must not exist, or be empty.
    pub(crate) folder: PathBuf,
    /// The host of each validator as the others reach it; validators of one host take ports one after the other.
    pub(crate) hosts: Vec<String>,
    /// How many validators its waits are long enough for.
    pub(crate) validators_max: usize,
    /// Most multiply-accumulates of a model whose runs every validator repeats.
    pub(crate) repeat_macs: u64,
    /// Most multiply-accumulates of a model whose results of mode `sync` a committee runs whole.
    pub(crate) whole_run_macs: u64,
    /// How many gateways there are, all on this machine.
    pub(crate) gateways: u16,
    /// How many providers get a funded account.
    pub(crate) providers: u16,
    /// The first validator of a host listens here for the others, its API one above, the next validator two above.
    pub(crate) first_port: u16,
    /// What all keys are locked with, and the file that holds it.
    pub(crate) passphrase: Option<(Passphrase, PathBuf)>,
    /// Whether jobs may ask that nobody checks their result.
    pub(crate) unverified_jobs: UnverifiedJobs,
}

/// Founds a network: draws its keys and writes its files. What exists is left as it is.
pub(crate) fn found(plan: &NetworkPlan) -> Result<Founded, Failure> {
    let folder = std::path::absolute(&plan.folder)?;
    make_empty(&folder)?;
    let validators = validators(plan)?;
    let providers = (0..plan.providers).map(|_| keys::draw_wallet());
    let providers = providers.collect::<Result<Vec<_>, _>>()?;
    let requestor = keys::draw_wallet()?;
    let genesis = genesis(plan, &validators, &providers, &requestor)?;
    let passphrase_file = match &plan.passphrase {
        Some((_, path)) => Some(std::path::absolute(path)?),
        None => None,
    };
    let founded = Founded {
        folder,
        genesis,
        validators,
        gateways: gateways(plan)?,
        providers,
        requestor,
        passphrase_file,
    };
    let passphrase = plan.passphrase.as_ref().map(|(passphrase, _)| passphrase);
    write(&founded, passphrase)?;
    Ok(founded)
}

/// Writes the key and the settings of a provider that joins a network behind an API. Gives its account, and its folder
/// from the root.
pub(crate) fn join_as_provider(
    folder: &Path,
    api: &str,
    passphrase: Option<(Passphrase, PathBuf)>,
) -> Result<(Wallet, PathBuf), Failure> {
    let folder = std::path::absolute(folder)?;
    make_empty(&folder)?;
    let wallet = keys::draw_wallet()?;
    let (passphrase, file) = passphrase.unzip();
    let file = file.map(std::path::absolute).transpose()?;
    let key = folder.join("account.key");
    keys::write(&key, &wallet.secret(), passphrase.as_ref())?;
    scripts::write_provider(&folder, api, None, file.as_deref())?;
    Ok((wallet, folder))
}

/// Writes the settings and the genesis of a gateway that joins a network behind an API. Gives its settings file.
pub(crate) fn join_as_gateway(
    folder: &Path,
    api: &str,
    genesis: &Genesis,
) -> Result<PathBuf, Failure> {
    let folder = std::path::absolute(folder)?;
    make_empty(&folder)?;
    files::write(&folder.join("genesis.bin"), &genesis.to_bytes())?;
    let settings = GatewaySettings {
        genesis: "genesis.bin".into(),
        sources: vec![api.to_owned()],
        ..GatewaySettings::usual()
    };
    let file = folder.join("gateway.toml");
    files::write(&file, settings::render(&settings)?.as_bytes())?;
    Ok(file)
}

/// Writes the keys, the settings and the genesis of a validator that joins a network, behind the API of another one, which says
/// where the validators are. Gives its account and its settings file.
pub(crate) fn join_as_validator(
    folder: &Path,
    api: &str,
    (genesis, seats): (&Genesis, BTreeMap<String, String>),
    port: u16,
    passphrase: Option<(Passphrase, PathBuf)>,
) -> Result<(Wallet, PathBuf), Failure> {
    let folder = std::path::absolute(folder)?;
    make_empty(&folder)?;
    let (passphrase, file) = passphrase.unzip();
    files::write(&folder.join("genesis.bin"), &genesis.to_bytes())?;
    let account = keys::draw_wallet()?;
    let write = |name: &str, secret: &[u8; 32]| {
        keys::write(&folder.join(name), secret, passphrase.as_ref())
    };
    write("consensus.key", &keys::draw()?)?;
    write("account.key", &account.secret())?;
    let settings = ValidatorSettings {
        genesis: "genesis.bin".into(),
        passphrase_file: file.map(std::path::absolute).transpose()?,
        listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        api: ApiSetting(Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port + 1)))),
        sources: Some(vec![api.to_owned()]),
        seats,
        ..ValidatorSettings::usual()
    };
    let file = folder.join("validator.toml");
    files::write(&file, settings::render(&settings)?.as_bytes())?;
    Ok((account, file))
}

/// Makes the folder. One that holds anything is refused.
pub(super) fn make_empty(folder: &Path) -> Result<(), Failure> {
    let doing = format!("make the folder {}", folder.display());
    fs::create_dir_all(folder).or_fail(Exit::Failed, doing.clone())?;
    let mut entries = fs::read_dir(folder).or_fail(Exit::Failed, doing)?;
    if entries.next().is_some() {
        let text = format!("{} is not empty", folder.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("name another folder: keys and chains that exist are never overwritten"));
    }
    Ok(())
}

fn validators(plan: &NetworkPlan) -> Result<Vec<NewValidator>, Failure> {
    let one = |(index, host): (usize, &String)| {
        let before = plan.hosts[..index].iter().filter(|it| *it == host).count();
        let port = u16::try_from(2 * before)
            .ok()
            .and_then(|above| plan.first_port.checked_add(above))
            .filter(|port| *port < u16::MAX);
        let port = port.ok_or_else(|| {
            let text = format!("there are too few ports above {}", plan.first_port);
            Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("--first-port names a lower one")
        })?;
        let secret = keys::draw()?;
        Ok(NewValidator {
            key: ValidatorKey::from_secret(&secret)?,
            secret,
            account: keys::draw_wallet()?,
            address: address(host, port)?,
            listen: SocketAddr::new(listening(host), port),
            // Gateways of other machines ask it.
            api: match plan.gateways {
                0 => SocketAddr::from((Ipv4Addr::LOCALHOST, port + 1)),
                _ => SocketAddr::new(listening(host), port + 1),
            },
        })
    };
    plan.hosts.iter().enumerate().map(one).collect()
}

/// Where gateways listen: on this machine, above all ports that validators could take.
fn gateways(plan: &NetworkPlan) -> Result<Vec<SocketAddr>, Failure> {
    let first = u16::try_from(2 * plan.hosts.len()).ok();
    let first = first.and_then(|above| plan.first_port.checked_add(above));
    let one = |index: u16| {
        let port = first.and_then(|first| first.checked_add(index));
        let port = port.ok_or_else(|| {
            let text = format!("there are too few ports above {}", plan.first_port);
            Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("--first-port names a lower one")
        })?;
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    (0..plan.gateways).map(one).collect()
}

fn address(host: &str, port: u16) -> Result<SeatAddress, Failure> {
    let text = match host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    };
    text.parse().or_fail(Exit::Usage, format!("--host {host}"))
}

/// Where a validator listens that others reach at `host`: on loopback if they do, else on all interfaces.
fn listening(host: &str) -> IpAddr {
    match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_loopback() => ip,
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        _ if host == "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

fn genesis(
    plan: &NetworkPlan,
    validators: &[NewValidator],
    providers: &[Wallet],
    requestor: &Wallet,
) -> Result<Genesis, Failure> {
    let mut accounts = vec![(requestor.address(), OF_REQUESTOR)];
    accounts.extend(providers.iter().map(|it| (it.address(), OF_PROVIDER)));
    accounts.sort_unstable();
    let mut seats: Vec<Validator> = validators
        .iter()
        .map(|validator| Validator {
            address: validator.account.address(),
            key: ConsensusKey::new(validator.key.public()),
            stake: STAKE,
        })
        .collect();
    seats.sort_by_key(|seat| seat.address);
    Ok(Genesis {
        // Drawn, so that what is signed for one network means nothing in another.
        domain: ChainDomain {
            salt: keys::draw()?,
            ..development_domain()
        },
        parameters: Parameters {
            storage: StorageRule::Stated,
            unverified_jobs: plan.unverified_jobs,
            repeated_macs_max: plan.repeat_macs,
            whole_run_macs_max: plan.whole_run_macs,
            unbonding: UNBONDING,
            ..Parameters::development().wide_enough_for(plan.validators_max)
        },
        timestamp: clock::now(),
        accounts,
        validators: seats,
    })
}

/// Writes all files of a network.
fn write(network: &Founded, passphrase: Option<&Passphrase>) -> Result<(), Failure> {
    files::write(
        &network.folder.join("genesis.bin"),
        &network.genesis.to_bytes(),
    )?;
    for (index, validator) in network.validators.iter().enumerate() {
        let folder = network.validator_folder(index);
        fs::create_dir(&folder)?;
        let key = folder.join("consensus.key");
        keys::write(&key, &validator.secret, passphrase)?;
        let account = folder.join("account.key");
        keys::write(&account, &validator.account.secret(), passphrase)?;
        let text = settings::render(&settings_of(network, validator))?;
        files::write(&folder.join("validator.toml"), text.as_bytes())?;
        create_validator(&folder.join("data"), &network.genesis, &validator.key)
            .or_fail(Exit::Failed, "make a validator's database")?;
    }
    for (index, api) in network.gateways.iter().enumerate() {
        let folder = network.gateway_folder(index);
        fs::create_dir(&folder)?;
        // Each prefers another validator.
        let mut sources: Vec<String> = (0..network.validators.len())
            .map(|index| network.validator_url(index))
            .collect();
        sources.rotate_left(index % network.validators.len());
        let settings = GatewaySettings {
            api: *api,
            sources,
            ..GatewaySettings::usual()
        };
        let text = settings::render(&settings)?;
        files::write(&folder.join("gateway.toml"), text.as_bytes())?;
    }
    for (index, wallet) in network.providers.iter().enumerate() {
        let folder = network.provider_folder(index);
        fs::create_dir(&folder)?;
        keys::write(&folder.join("account.key"), &wallet.secret(), passphrase)?;
    }
    let requestor = network.folder.join("requestor.key");
    keys::write(&requestor, &network.requestor.secret(), passphrase)?;
    scripts::write(network)
}

/// The settings of one of a network's validators.
fn settings_of(network: &Founded, of: &NewValidator) -> ValidatorSettings {
    let seats = network.validators.iter().map(|validator| {
        let key = Digest::new(validator.key.public()).to_string();
        let key = key.trim_start_matches("0x").to_owned();
        (key, validator.address.to_string())
    });
    ValidatorSettings {
        passphrase_file: network.passphrase_file.clone(),
        listen: of.listen,
        api: ApiSetting(Some(of.api)),
        seats: seats.collect(),
        ..ValidatorSettings::usual()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::network::process::{Overrides, ValidatorProcess};

    fn plan(folder: &Path, hosts: &[&str]) -> NetworkPlan {
        NetworkPlan {
            folder: folder.to_path_buf(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            validators_max: 10,
            repeat_macs: tg_ledger::REPEATED_MACS_USUAL,
            whole_run_macs: tg_ledger::WHOLE_RUN_MACS_USUAL,
            gateways: 0,
            providers: 2,
            first_port: 7100,
            passphrase: None,
            unverified_jobs: UnverifiedJobs::Refused,
        }
    }

    #[test]
    fn a_new_network_is_what_its_processes_read() {
        let folder = tempfile::tempdir().unwrap();
        let hosts = ["127.0.0.1", "seat.example.org", "127.0.0.1", "2001:db8::7"];
        let founded = found(&plan(folder.path(), &hosts)).unwrap();
        let mut addresses = Vec::new();
        for index in 0..4 {
            let file = founded.validator_folder(index).join("validator.toml");
            let process = ValidatorProcess::load(&file, &Overrides::default()).unwrap();
            assert_eq!(process.config.genesis, founded.genesis);
            assert_eq!(
                process.config.key.public(),
                founded.validators[index].key.public()
            );
            assert_eq!(process.config.seats.len(), 4);
            addresses.push((
                process.config.listen.to_string(),
                process.api.unwrap().port(),
            ));
        }
        let expected = [
            ("127.0.0.1:7100", 7101),
            ("0.0.0.0:7100", 7101),
            ("127.0.0.1:7102", 7103),
            ("[::]:7100", 7101),
        ];
        let expected = expected.map(|(listen, api)| (listen.to_owned(), api));
        assert_eq!(addresses, expected);
        assert_eq!(founded.genesis.parameters.short_window(10), None);
        assert!(founded.genesis.parameters.short_window(13).is_some());
        let minted = founded.genesis.minted().unwrap();
        assert_eq!(minted, Amount::from_tgrid(4 * 10_000 + 10_000 + 2 * 1_000));
        // Nothing that follows from a number or a name, and no two networks share anything.
        let again = tempfile::tempdir().unwrap();
        let other = found(&plan(again.path(), &hosts)).unwrap();
        assert_ne!(other.genesis.domain, founded.genesis.domain);
        assert_ne!(other.requestor.address(), founded.requestor.address());
        assert_ne!(other.validators[0].secret, founded.validators[0].secret);
        assert_ne!(
            founded.validators[0].key.public(),
            ValidatorKey::from_seed(0).public()
        );
    }

    #[test]
    fn what_exists_is_left() {
        let folder = tempfile::tempdir().unwrap();
        found(&plan(folder.path(), &["127.0.0.1"])).unwrap();
        let genesis = fs::read(folder.path().join("genesis.bin")).unwrap();
        let error = found(&plan(folder.path(), &["127.0.0.1"])).err().unwrap();
        assert!(error.error.to_string().contains("not empty"));
        assert_eq!(
            fs::read(folder.path().join("genesis.bin")).unwrap(),
            genesis
        );
    }

    #[test]
    fn flags_come_before_the_file_and_foreign_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let founded = found(&plan(folder.path(), &["127.0.0.1"; 4])).unwrap();
        let file = founded.validator_folder(1).join("validator.toml");
        let overrides = Overrides {
            listen: Some("127.0.0.1:9".parse().unwrap()),
            tls: None,
            api: Some(ApiSetting(None)),
            data_dir: Some("elsewhere".into()),
            checkpoint: None,
            log: Some("info".to_owned()),
        };
        let process = ValidatorProcess::load(&file, &overrides).unwrap();
        assert_eq!(process.config.listen.port(), 9);
        assert_eq!(process.config.directory, Path::new("elsewhere"));
        assert_eq!((process.api, process.log.as_deref()), (None, Some("info")));
        let refused = |from: PathBuf, to: &str, word: &str| {
            let to = founded.validator_folder(1).join(to);
            let before = fs::read(&to).unwrap();
            fs::copy(from, &to).unwrap();
            let failure = ValidatorProcess::load(&file, &Overrides::default()).unwrap_err();
            assert!(
                format!("{:#}", failure.error).contains(word),
                "{:#}",
                failure.error
            );
            assert!(failure.hint.is_some());
            fs::write(to, before).unwrap();
        };
        let other = founded.validator_folder(2);
        refused(
            other.join("account.key"),
            "account.key",
            "this validator's account is",
        );
        let stranger = founded.folder.join("requestor.key");
        refused(
            stranger,
            "consensus.key",
            "is not one of this network's validators",
        );
    }
}
