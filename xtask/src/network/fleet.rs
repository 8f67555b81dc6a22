//! The processes of the network: founded, started, killed, emptied, started again.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::hosts::{CHEAT, GATEWAY, Host, OVERLAY, PROVIDER, Spaces, VALIDATOR};

/// How many of each there are.
pub(crate) const VALIDATORS: u8 = 4;
pub(crate) const GATEWAYS: u8 = 2;
pub(crate) const PROVIDERS: u8 = 5;
pub(crate) const CHEATS: u8 = 3;

/// What honest providers ask, in thousandths of a TGRID: the first is the one behind the firewall, and the cheapest.
const PRICES: [u32; PROVIDERS as usize] = [20, 22, 24, 26, 28];

/// A process of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Participant {
    Validator(u8),
    Gateway(u8),
    Provider(u8),
    Cheat(u8),
}

impl Participant {
    /// All of them, in the order in which they are started.
    pub(crate) fn all() -> Vec<Self> {
        let validators = (0..VALIDATORS).map(Self::Validator);
        let gateways = (0..GATEWAYS).map(Self::Gateway);
        let providers = (0..PROVIDERS).map(Self::Provider);
        let cheats = (0..CHEATS).map(Self::Cheat);
        validators
            .chain(gateways)
            .chain(providers)
            .chain(cheats)
            .collect()
    }

    /// Those that follow the chain and answer.
    pub(crate) fn nodes() -> Vec<Self> {
        let is_node = |it: &Self| matches!(it, Self::Validator(_) | Self::Gateway(_));
        Self::all().into_iter().filter(is_node).collect()
    }

    /// Where it runs.
    pub(crate) const fn host(self) -> Host {
        match self {
            Self::Validator(index) => VALIDATOR + index,
            Self::Gateway(index) => GATEWAY + index,
            Self::Provider(index) => PROVIDER + index,
            Self::Cheat(index) => CHEAT + index,
        }
    }

    /// Its name, counted from 1 as `network new` does.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Validator(index) => format!("validator-{}", index + 1),
            Self::Gateway(index) => format!("gateway-{}", index + 1),
            Self::Provider(index) => format!("provider-{}", index + 1),
            Self::Cheat(index) => format!("cheat-{}", index + 1),
        }
    }
}

/// Where processes run.
#[derive(Debug, Clone)]
pub(crate) enum FleetPlace {
    /// A namespace each.
    Spaces(Spaces),
    /// This machine.
    Loopback,
}

/// What a network is founded with.
#[derive(Debug, Clone)]
pub(crate) struct FleetPlan<'a> {
    /// Where processes run.
    pub(crate) place: FleetPlace,
    /// How many accounts there are for cheats.
    pub(crate) cheats: u8,
    /// More of what `network new` is told.
    pub(crate) options: &'a [&'a str],
    /// What validators and gateways log, in the place of what this process's environment says.
    pub(crate) log: Option<&'static str>,
}

/// A process, and the JSON objects that it told since it started.
#[derive(Debug)]
struct Process {
    child: Child,
    told: Arc<Mutex<Vec<Value>>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The network: its files and its processes.
#[derive(Debug)]
pub(crate) struct Fleet {
    binary: PathBuf,
    cheat: Option<PathBuf>,
    folder: PathBuf,
    place: FleetPlace,
    log: Option<&'static str>,
    told: Value,
    processes: Vec<(Participant, Process)>,
}

impl Fleet {
    /// Founds the network in a folder.
    ///
    /// # Errors
    /// If `network new` fails.
    pub(crate) fn found(
        binary: &Path,
        cheat: Option<PathBuf>,
        folder: &Path,
        plan: FleetPlan<'_>,
    ) -> Result<Self> {
        let FleetPlan {
            place,
            cheats,
            options,
            log,
        } = plan;
        let mut command = Command::new(binary);
        command.args(["network", "new"]).arg(folder.join("net"));
        command.args(["--json", "--no-encryption"]).args(options);
        command.args(["--gateways", &GATEWAYS.to_string()]);
        command.args(["--providers", &(PROVIDERS + cheats).to_string()]);
        if matches!(place, FleetPlace::Spaces(_)) {
            for index in 0..VALIDATORS {
                let host = OVERLAY.of(Participant::Validator(index).host());
                command.args(["--host", &host.to_string()]);
            }
        }
        let output = command.output().context("start `tensorgrid network new`")?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "network new: {error}");
        fs::create_dir_all(folder.join("logs"))?;
        Ok(Self {
            binary: binary.to_path_buf(),
            cheat,
            folder: folder.to_path_buf(),
            place,
            log,
            told: serde_json::from_slice(&output.stdout)?,
            processes: Vec::new(),
        })
    }

    /// What `network new` said.
    pub(crate) fn told(&self) -> &Value {
        &self.told
    }

    /// Where logs and other files of the run are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The program under test.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Whether cheating providers take part.
    pub(crate) fn has_cheats(&self) -> bool {
        self.cheat.is_some()
    }

    /// Host and port of a node's API.
    pub(crate) fn api(&self, node: Participant) -> String {
        let told = match node {
            Participant::Validator(index) => &self.told["validators"][usize::from(index)]["api"],
            Participant::Gateway(index) => match self.place {
                FleetPlace::Spaces(_) => return format!("{}:7070", OVERLAY.of(node.host())),
                FleetPlace::Loopback => &self.told["gateways"][usize::from(index)]["api"],
            },
            Participant::Provider(_) | Participant::Cheat(_) => &Value::Null,
        };
        let url = told.as_str().unwrap_or_default();
        url.trim_start_matches("http://").to_owned()
    }

    /// The account of a provider.
    pub(crate) fn address(&self, provider: Participant) -> &str {
        self.account(provider)["address"]
            .as_str()
            .unwrap_or_default()
    }

    fn account(&self, provider: Participant) -> &Value {
        let index = match provider {
            Participant::Cheat(index) => PROVIDERS + index,
            Participant::Provider(index)
            | Participant::Validator(index)
            | Participant::Gateway(index) => index,
        };
        &self.told["providers"][usize::from(index)]
    }

    /// Starts a process.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(&mut self, member: Participant) -> Result<()> {
        match member {
            Participant::Cheat(index) => self.start_with(member, &[&index.to_string()]),
            _ => self.start_with(member, &[]),
        }
    }

    /// Starts a process with more arguments than it needs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start_with(&mut self, member: Participant, more: &[&str]) -> Result<()> {
        let mut command = self.command(member)?;
        command.args(more);
        if let Some(log) = self.log {
            command.env("RUST_LOG", log);
        }
        let log = |ending: &str| {
            let path = self
                .folder
                .join("logs")
                .join(format!("{}.{ending}", member.name()));
            File::options().create(true).append(true).open(path)
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log("err")?);
        let mut child = command
            .spawn()
            .with_context(|| format!("start {}", member.name()))?;
        let stdout = child.stdout.take().context("its output is piped")?;
        let (kept, file) = (Arc::clone(&told), log("jsonl")?);
        // It ends with the process's stream.
        thread::spawn(move || keep(stdout, &kept, file));
        self.processes.push((member, Process { child, told }));
        Ok(())
    }

    fn command(&self, member: Participant) -> Result<Command> {
        let program = match (member, &self.cheat) {
            (Participant::Cheat(_), Some(cheat)) => cheat,
            _ => &self.binary,
        };
        let mut command = match &self.place {
            FleetPlace::Spaces(spaces) => spaces.command(member.host(), program),
            FleetPlace::Loopback => Command::new(program),
        };
        let config = |list: &str, index: u8| {
            let file = self.told[list][usize::from(index)]["config"].as_str();
            file.map(str::to_owned).context("network new named a file")
        };
        // Half of the providers ask one gateway, half the other.
        let url = |index: u8| {
            format!(
                "http://{}",
                self.api(Participant::Gateway(index % GATEWAYS))
            )
        };
        let key = self.account(member)["key"].as_str().unwrap_or_default();
        match member {
            Participant::Validator(index) => {
                command.args([
                    "validator",
                    "--json",
                    "--config",
                    &config("validators", index)?,
                ]);
            }
            Participant::Gateway(index) => {
                command.args(["gateway", "--json", "--config", &config("gateways", index)?]);
                command.args(["--api-listen", &self.api(member)]);
            }
            Participant::Provider(index) => {
                let price = format!("0.{:03}", PRICES[usize::from(index)]);
                command.args(["provider", "--json", "--device", "cpu", "--slots", "2"]);
                command.args(["--price", &price, "--key", key, "--api", &url(index)]);
            }
            Participant::Cheat(index) => {
                command.args([&url(index), key]);
            }
        }
        Ok(command)
    }

    /// Kills a process at once, as a power cut does.
    ///
    /// # Errors
    /// If it does not run.
    pub(crate) fn kill(&mut self, member: Participant) -> Result<()> {
        let place = self.processes.iter().position(|it| it.0 == member);
        let place = place.with_context(|| format!("{} does not run", member.name()))?;
        let (_, process) = self.processes.remove(place);
        drop(process);
        Ok(())
    }

    /// Removes a validator's chain, votes and files.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub(crate) fn wipe(&self, validator: u8) -> Result<()> {
        let told = &self.told["validators"][usize::from(validator)]["config"];
        let config = Path::new(told.as_str().context("network new named a file")?);
        let data = config.with_file_name("data");
        fs::remove_dir_all(&data).with_context(|| format!("remove {}", data.display()))
    }

    /// The key of a validator's seat, as its process told.
    pub(crate) fn validator_key(&self, index: u8) -> Value {
        let member = Participant::Validator(index);
        let process = self.processes.iter().find(|it| it.0 == member);
        let told = process.map(|(_, it)| it.told.lock().unwrap_or_else(PoisonError::into_inner));
        let mut told = told.iter().flat_map(|told| told.iter());
        let key = told.find_map(|it| it.get("validator"));
        key.cloned().unwrap_or_default()
    }

    /// The last state that a node told since it started.
    pub(crate) fn state(&self, member: Participant) -> String {
        let process = self.processes.iter().find(|it| it.0 == member);
        let told = process.map(|(_, it)| it.told.lock().unwrap_or_else(PoisonError::into_inner));
        let states = told.iter().flat_map(|told| told.iter().rev());
        let mut states = states.filter_map(|it| it["state"].as_str());
        states.next().unwrap_or_default().to_owned()
    }

    /// The first process that ended although nobody ended it.
    pub(crate) fn ended(&mut self) -> Option<Participant> {
        let mut processes = self.processes.iter_mut();
        processes.find_map(|(member, it)| match it.child.try_wait() {
            Ok(None) => None,
            _ => Some(*member),
        })
    }

    /// The namespaces, if processes run in some.
    pub(crate) const fn spaces(&self) -> Option<&Spaces> {
        match &self.place {
            FleetPlace::Spaces(spaces) => Some(spaces),
            FleetPlace::Loopback => None,
        }
    }
}

/// Keeps what a process tells, in memory and in a file.
fn keep(stdout: ChildStdout, kept: &Mutex<Vec<Value>>, mut file: File) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        // A log that cannot be written does not change the run.
        let _ = writeln!(file, "{line}");
        if let Ok(value) = serde_json::from_str(&line) {
            kept.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(value);
        }
    }
}
