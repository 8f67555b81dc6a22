//! Files beside a new network's keys: settings of its providers, the requestor's environment, scripts that start and stop them all on one machine,
//! units for systemd, and what lies where.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use tg_console::files;

use super::layout::Founded;
use super::provider::ProviderSettings;
use super::settings;
use tg_console::outcome::{Exit, Failure};

/// Thousandths of a TGRID that the first provider asks for a job; each next one asks as much more.
const PRICE_STEP_MILLI: u64 = 10;

/// Writes all of them.
pub(super) fn write(founded: &Founded) -> Result<(), Failure> {
    for index in 0..founded.providers.len() {
        let price = PRICE_STEP_MILLI * (index as u64 + 1);
        let price = format!("{}.{:03}", price / 1_000, price % 1_000);
        let (folder, api) = (founded.provider_folder(index), founded.api_url(index));
        let passphrase = founded.passphrase_file.as_deref();
        write_provider(&folder, &api, Some(&price), passphrase)?;
    }
    let folder = &founded.folder;
    let text = requestor_environment(founded)?;
    files::write(&folder.join("requestor.env"), text.as_bytes())?;
    files::write(&folder.join("README.md"), readme(founded).as_bytes())?;
    for (name, text) in [("start.sh", START), ("stop.sh", STOP)] {
        let path = folder.join(name);
        files::write(&path, text.as_bytes())?;
        #[cfg(unix)]
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    }
    let units = folder.join("systemd");
    fs::create_dir(&units)?;
    for (name, unit) in [
        ("tensorgrid-validator@.service", VALIDATOR_UNIT),
        ("tensorgrid-gateway@.service", GATEWAY_UNIT),
        ("tensorgrid-provider@.service", PROVIDER_UNIT),
    ] {
        let text = unit.replace("@DIR@", &quotable(folder)?);
        files::write(&units.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// A path as shells and systemd read it within single quotes.
fn quotable(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().unwrap_or("'");
    if text.contains(['\'', '\n', '%']) {
        let text = format!("{} has signs that scripts cannot name", path.display());
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("name another folder"));
    }
    Ok(text.to_owned())
}

fn environment(variables: &[(&str, &str)]) -> String {
    variables
        .iter()
        .fold(String::new(), |mut text, (name, value)| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name}='{value}'");
            text
        })
}

/// Writes the settings of a provider whose key is in `folder`, at the usual price if none is given.
pub(super) fn write_provider(
    folder: &Path,
    api: &str,
    price: Option<&str>,
    passphrase: Option<&Path>,
) -> Result<(), Failure> {
    let settings = ProviderSettings {
        price: price.map(str::to_owned),
        passphrase_file: passphrase.map(Path::to_path_buf),
        ..ProviderSettings::usual(api)
    };
    let text = settings::render(&settings)?;
    files::write(&folder.join("provider.toml"), text.as_bytes())
}

fn requestor_environment(founded: &Founded) -> Result<String, Failure> {
    let key = quotable(&founded.folder.join("requestor.key"))?;
    // What commands show is proved, and not the word of whoever serves the API.
    let genesis = quotable(&founded.folder.join("genesis.bin"))?;
    let url = founded.api_url(0);
    let mut variables = vec![
        ("TENSORGRID_API", url.as_str()),
        ("TENSORGRID_KEY", key.as_str()),
        ("TENSORGRID_GENESIS", genesis.as_str()),
    ];
    let passphrase = founded.passphrase_file.as_deref();
    let passphrase = passphrase.map(quotable).transpose()?;
    variables.extend(passphrase.iter().map(|path| (PASSPHRASE, path.as_str())));
    Ok(environment(&variables))
}

const PASSPHRASE: &str = "TENSORGRID_PASSPHRASE_FILE";

fn readme(founded: &Founded) -> String {
    let mut text = README.replace("@GENESIS@", &founded.genesis.id().to_string());
    text = text.replace("@REQUESTOR@", &founded.requestor.address().to_string());
    let mut rows = String::new();
    for (index, validator) in founded.validators.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "| `validator-{}` | {} | {} |",
            index + 1,
            validator.address,
            founded.validator_url(index)
        );
    }
    for (index, api) in founded.gateways.iter().enumerate() {
        let _ = writeln!(rows, "| `gateway-{}` | | http://{api} |", index + 1);
    }
    for (index, wallet) in founded.providers.iter().enumerate() {
        let _ = writeln!(
            rows,
            "| `provider-{}` | account {} | asks {} |",
            index + 1,
            wallet.address(),
            founded.api_url(index)
        );
    }
    let locked = match &founded.passphrase_file {
        Some(path) => format!("under the passphrase in `{}`", path.display()),
        None => {
            "**not encrypted**: whoever reads these files owns the accounts and votes".to_owned()
        }
    };
    text.replace("@PROCESSES@", rows.trim_end())
        .replace("@LOCKED@", &locked)
}

const START: &str = r#"#!/bin/sh
# Starts all processes of this network on this machine; those that run already are left.
# TENSORGRID names the program if it is not in the path.
set -eu
cd "$(dirname "$0")"
program=${TENSORGRID:-tensorgrid}
if ! command -v "$program" >/dev/null; then
    echo "there is no $program: TENSORGRID=/path/to/tensorgrid ./start.sh" >&2
    exit 1
fi
mkdir -p run
# What has ended stays in the table of processes until its parent takes note, which in a container may be never.
runs() {
    kill -0 "$1" 2>/dev/null || return 1
    case $(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null) in Z*) return 1 ;; esac
}
start() {
    name=$1
    shift
    if [ -f "run/$name.pid" ] && runs "$(cat "run/$name.pid")"; then
        echo "$name runs already"
        return
    fi
    nohup "$@" >>"run/$name.log" 2>&1 </dev/null &
    echo $! >"run/$name.pid"
    echo "$name started; it tells in run/$name.log where it stands"
}
for folder in validator-*; do
    start "$folder" "$program" validator --config "$folder/validator.toml"
done
for folder in gateway-*; do
    [ -f "$folder/gateway.toml" ] || continue
    start "$folder" "$program" gateway --config "$folder/gateway.toml"
done
for folder in provider-*; do
    [ -f "$folder/provider.toml" ] || continue
    (
        api=$(sed -n 's/^api *= *"\(.*\)".*$/\1/p' "$folder/provider.toml")
        tries=0
        until "$program" status --api "$api" >/dev/null 2>&1; do
            tries=$((tries + 1))
            if [ "$tries" -gt 60 ]; then
                echo "$api does not answer: $folder is not started" >&2
                exit 1
            fi
            sleep 1
        done
        start "$folder" "$program" provider --config "$folder/provider.toml"
    )
done
"#;

const STOP: &str = r#"#!/bin/sh
# Stops all processes that start.sh has started: providers first, which withdraw their offers and finish their work.
set -u
cd "$(dirname "$0")"
# What has ended stays in the table of processes until its parent takes note, which in a container may be never.
runs() {
    kill -0 "$1" 2>/dev/null || return 1
    case $(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null) in Z*) return 1 ;; esac
}
stop() {
    for file in "$@"; do
        [ -f "$file" ] || continue
        kill -TERM "$(cat "$file")" 2>/dev/null || true
    done
    for file in "$@"; do
        [ -f "$file" ] || continue
        tries=0
        while runs "$(cat "$file")"; do
            tries=$((tries + 1))
            if [ "$tries" -gt 300 ]; then
                echo "$file: process $(cat "$file") does not end" >&2
                exit 1
            fi
            sleep 0.2
        done
        rm -f "$file"
    done
}
stop run/provider-*.pid
stop run/gateway-*.pid
stop run/validator-*.pid
"#;

const VALIDATOR_UNIT: &str = "\
# systemctl enable --now tensorgrid-validator@1
[Unit]
Description=TensorGrid validator %i
After=network-online.target
Wants=network-online.target

[Service]
# User=NAME, who owns the folder below
ExecStart=/usr/local/bin/tensorgrid validator --config '@DIR@/validator-%i/validator.toml'
Restart=on-failure
RestartSec=5
TimeoutStopSec=30
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
ReadWritePaths='@DIR@/validator-%i'

[Install]
WantedBy=multi-user.target
";

const GATEWAY_UNIT: &str = "\
# systemctl enable --now tensorgrid-gateway@1
[Unit]
Description=TensorGrid gateway %i
After=network-online.target
Wants=network-online.target

[Service]
# User=NAME, who owns the folder below
ExecStart=/usr/local/bin/tensorgrid gateway --config '@DIR@/gateway-%i/gateway.toml'
Restart=on-failure
RestartSec=5
TimeoutStopSec=30
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
ReadWritePaths='@DIR@/gateway-%i'

[Install]
WantedBy=multi-user.target
";

const PROVIDER_UNIT: &str = "\
# systemctl enable --now tensorgrid-provider@1
[Unit]
Description=TensorGrid provider %i
After=network-online.target
Wants=network-online.target

[Service]
# User=NAME, who owns the folder below
ExecStart=/usr/local/bin/tensorgrid provider --config '@DIR@/provider-%i/provider.toml'
Restart=on-failure
RestartSec=5
TimeoutStopSec=90
NoNewPrivileges=yes
ProtectSystem=strict
PrivateTmp=yes
ReadWritePaths='@DIR@/provider-%i'

[Install]
WantedBy=multi-user.target
";

const README: &str = "\
# A TensorGrid network

Genesis @GENESIS@. Made by `tensorgrid network new`.

| folder | listens | API |
|---|---|---|
@PROCESSES@

`./start.sh` starts all of them on this machine, `./stop.sh` stops them; `run/` has what they tell. Order a job:

```sh
set -a; . ./requestor.env; set +a      # the API, the genesis by which what it says is proved, and the key of account @REQUESTOR@
tensorgrid status
tensorgrid model add-builtin           # once: registers the models that are built into the program
tensorgrid infer mlp-digits INPUT --yes
tensorgrid balance
```

## Several machines
A validator needs `genesis.bin` and its own folder, `validator-N`, and nothing of the others. Copy them to its machine side
by side, delete them here, and start it there with `tensorgrid validator --config validator-N/validator.toml`, or with the
unit in `systemd/`. A gateway needs `genesis.bin` and its folder, `gateway-N`; it asks the validators' APIs (`sources` in
`gateway.toml`), checks all that they say, and holds no keys. A provider needs its folder `provider-N`; `provider.toml` names the
API that it asks, which must listen where the provider reaches it (`api` in that node's settings; it has no login). Who orders needs
`requestor.env`, `requestor.key` and `genesis.bin`: without the genesis what an API on another machine says is shown only by commands with
`--trust-gateway`. Paths in `requestor.env` and in the units are those of this folder: change them with the folder.

## Keys
`consensus.key` signs votes; `account.key` and `requestor.key` sign for accounts. They are @LOCKED@.
Never run one `consensus.key` in two processes, nor with a copy of an older `data` folder: a validator that signs two
opposite votes breaks the bound on faults. If `data` is lost, start without it: the validator is rebuilt from the others and
signs nothing for a while.
";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::super::founding::{NetworkPlan, found};
    use super::super::gateway::{GatewayOverrides, GatewayProcess};
    use super::super::process::{Overrides, ValidatorProcess};
    use super::*;
    use crate::grid::networks;
    use std::path::PathBuf;

    /// The folder that the first instance of a unit's program writes into, as the program finds it by what the unit starts it with.
    fn written(unit: &str) -> PathBuf {
        let command = value(unit, "ExecStart").split_once("tensorgrid ");
        let command = command.unwrap().1;
        let (command, settings) = command.split_once(" --config ").unwrap();
        let settings = Path::new(settings.trim_matches('\''));
        match command {
            "validator" => {
                let process = ValidatorProcess::load(settings, &Overrides::default());
                process.unwrap().config.directory
            }
            "gateway" => {
                let process = GatewayProcess::load(settings, &GatewayOverrides::default());
                process.unwrap().follower.directory
            }
            "provider" => {
                let settings = ProviderSettings::read(settings).unwrap();
                // Written whole or not at all: beside the file, and moved to its place.
                let file = networks::beside(&settings.key);
                file.parent().unwrap().to_path_buf()
            }
            other => panic!("nobody knows what `tensorgrid {other}` writes"),
        }
    }

    fn value<'a>(text: &'a str, key: &str) -> &'a str {
        let values = text.lines().filter_map(|line| line.split_once('='));
        let found: Vec<&str> = values
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .collect();
        assert_eq!(found.len(), 1, "{key} in {text}");
        found[0]
    }

    fn founded(folder: &Path) -> Founded {
        let founded = found(&NetworkPlan {
            folder: folder.join("net work"),
            hosts: vec!["127.0.0.1".to_owned()],
            validators_max: 4,
            repeat_macs: tg_ledger::REPEATED_MACS_USUAL,
            whole_run_macs: tg_ledger::WHOLE_RUN_MACS_USUAL,
            gateways: 1,
            providers: 1,
            first_port: 7100,
            passphrase: None,
            unverified_jobs: tg_ledger::UnverifiedJobs::Refused,
        });
        founded.unwrap()
    }

    #[test]
    fn what_a_requestor_is_shown_is_proved() {
        let folder = tempfile::tempdir().unwrap();
        let founded = founded(folder.path());
        let text = fs::read_to_string(founded.folder.join("requestor.env")).unwrap();
        let genesis = value(&text, "TENSORGRID_GENESIS").trim_matches('\'');
        let read = fs::read(genesis).unwrap();
        assert_eq!(read, tg_types::Encode::to_bytes(&founded.genesis));
    }

    #[test]
    fn units_let_their_programs_write_what_they_write() {
        let folder = tempfile::tempdir().unwrap();
        let founded = founded(folder.path());
        let mut units = 0;
        for entry in fs::read_dir(founded.folder.join("systemd")).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            let unit = text.replace("%i", "1");
            assert_eq!(value(&unit, "ProtectSystem"), "strict");
            let writable = Path::new(value(&unit, "ReadWritePaths").trim_matches('\''));
            let written = written(&unit);
            assert!(
                written.starts_with(writable),
                "{} is not writable: {unit}",
                written.display()
            );
            units += 1;
        }
        assert_eq!(units, 3);
    }
}
