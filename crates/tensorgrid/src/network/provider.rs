//! The settings of a provider's process, which take the place of what its flags are if nobody gives them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Command};

use super::settings::{self, settings};
use crate::grid::session_file::SessionSetting;
use tg_console::outcome::{Exit, Failure};

/// The command whose flags they are.
const COMMAND: &str = "provider";

settings! {
    /// Settings of a provider's process. Each is named as the flag is that says something else.
    ProviderSettings {
        /// Settings of a TensorGrid provider: tensorgrid provider --config THIS_FILE
        ///
        /// Address of the grid's API, which must listen where this machine reaches it.
        api: String,
        /// The key of the provider's account; made if it is missing. This path and those below count from the folder of this file. Beside
        /// the key is written for which networks it signs.
        key: PathBuf,
        /// A file whose first line is the passphrase of the key. Leave it out if it has none.
        passphrase_file: Option<PathBuf>,
        /// Which session key signs what serves leases: "own" (made, registered and replaced by itself), "off" (the account's key signs), or the
        /// file of one of scope serve.
        session: Option<String>,
        /// Price of a job in TGRID, as text: "0.02".
        price: Option<String>,
        /// Price of each million multiply-accumulates, on top.
        price_per_mmac: Option<String>,
        /// Price of a second of one whole GPU, on top, for the GPU time that a job states.
        price_per_gpu_second: Option<String>,
        /// Collateral locked with every lease.
        collateral: Option<String>,
        /// Most that a day of rent may cost for the offer, and for the provider's record, before they are left to lapse.
        rent_per_day_max: Option<String>,
        /// Leases at once.
        slots: Option<u16>,
        /// Slow the work down to this speed in million multiply-accumulates a second, and say so in the offer.
        throttle_mmac_per_s: Option<u64>,
        /// Whether jobs of mode proof are answered by proofs in zero knowledge.
        masked: Option<bool>,
        /// Where jobs are executed: "cpu", "cuda:N" or "auto".
        device: Option<String>,
        /// The machine that is offered, where it is not what is found: GPUs, all alike.
        gpus: Option<u8>,
        /// Whether GPUs are offered that are not here, for trying a market out.
        simulated_gpu: Option<bool>,
        /// Their model, such as "h100".
        gpu_model: Option<String>,
        /// Memory of each in MiB.
        gpu_memory: Option<u32>,
        /// Their compute capability, as "8.0".
        capability: Option<String>,
        /// Whether they have tensor cores.
        tensor_cores: Option<bool>,
        /// How they are joined: "pcie", "nvlink" or "nvswitch".
        link: Option<String>,
        /// How jobs may share one: "time-slice", "mps", "mig".
        sharing: Option<Vec<String>>,
        /// Processor in thousandths of a core.
        cpu_milli: Option<u32>,
        /// Memory of the machine in MiB.
        memory: Option<u32>,
        /// Disk in GiB.
        disk: Option<u32>,
        /// Region.
        region: Option<u8>,
        /// Tiers that are sold: "on-demand", "spot", "reserved".
        tiers: Option<Vec<String>>,
        /// Whether the price of a GPU second follows demand, from the stated one upwards.
        dynamic: Option<bool>,
        /// Models that a server of your own serves, each as "NAME=URL" or "NAME=URL#MODEL"; with one of them, the grid's own models are not run.
        serve_openai: Option<Vec<String>>,
        /// A file with such models, each with prices, context and key of its own.
        serve_config: Option<PathBuf>,
        /// Price of a million tokens of prompts.
        prompt_price: Option<String>,
        /// Price of a million tokens that are written.
        completion_price: Option<String>,
        /// Tokens of prompt and answer together, at most.
        context: Option<u32>,
        /// What the server can be asked: "chat", "completions", "embeddings".
        calls: Option<Vec<String>>,
        /// Requests that the server is asked at once.
        at_once: Option<u16>,
        /// Seconds for which the server may say nothing before a request counts as lost.
        upstream_timeout: Option<u32>,
        /// Accounts that can ask at once: each that asks holds a lease, with collateral.
        accounts_at_once: Option<u16>,
        /// Variable of the environment with the key that the server wants.
        upstream_key_env: Option<String>,
        /// File with that key.
        upstream_key_file: Option<PathBuf>,
    }
}

impl ProviderSettings {
    /// Settings as they are when nothing else is said: what the flags are by themselves.
    pub(crate) fn usual(api: &str) -> Self {
        Self {
            api: api.to_owned(),
            key: "account.key".into(),
            passphrase_file: None,
            session: None,
            price: None,
            price_per_mmac: None,
            price_per_gpu_second: None,
            collateral: None,
            rent_per_day_max: None,
            slots: None,
            throttle_mmac_per_s: None,
            masked: None,
            device: None,
            gpus: None,
            simulated_gpu: None,
            gpu_model: None,
            gpu_memory: None,
            capability: None,
            tensor_cores: None,
            link: None,
            sharing: None,
            cpu_milli: None,
            memory: None,
            disk: None,
            region: None,
            tiers: None,
            dynamic: None,
            serve_openai: None,
            serve_config: None,
            prompt_price: None,
            completion_price: None,
            context: None,
            calls: None,
            at_once: None,
            upstream_timeout: None,
            accounts_at_once: None,
            upstream_key_env: None,
            upstream_key_file: None,
        }
    }

    /// Settings with an example of all, for whoever writes a file by hand.
    pub(crate) fn sample() -> Self {
        Self {
            price: Some("0.02".to_owned()),
            slots: Some(1),
            ..Self::usual("http://gateway.example.org:7070")
        }
    }

    /// Reads a file, with the paths that it names as this process finds them.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let read: Self = settings::read(file)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let place = |path: &PathBuf| folder.join(path);
        Ok(Self {
            key: place(&read.key),
            passphrase_file: read.passphrase_file.as_ref().map(place),
            session: read
                .session
                .as_deref()
                .map(|it| SessionSetting::of(it).placed(folder).to_string()),
            serve_config: read.serve_config.as_ref().map(place),
            upstream_key_file: read.upstream_key_file.as_ref().map(place),
            ..read
        })
    }
}

/// Reads the words of a command line again, with the settings of a file where flags and variables of the environment say nothing.
pub(crate) fn matches(
    file: &Path,
    program: Command,
    words: &[OsString],
) -> Result<ArgMatches, Failure> {
    let settings = toml::Table::try_from(ProviderSettings::read(file)?)?;
    let mut program = program;
    for (key, value) in &settings {
        let values = values_of(value);
        if !value.is_bool() {
            check(program.clone(), (file, key), &values)?;
        }
        let values = values.into_iter().map(kept);
        program = program.mut_subcommand(COMMAND, |command| {
            command.mut_arg(key, |flag| flag.default_values(values))
        });
    }
    let matches = program.try_get_matches_from(words);
    matches.map_err(|error| usage(file, &error.to_string()))
}

fn usage(file: &Path, what: &str) -> Failure {
    let text = format!("{}: {what}", file.display());
    Failure::new(Exit::Usage, anyhow::anyhow!(text))
}

/// A setting as the words of its flag.
fn values_of(value: &toml::Value) -> Vec<String> {
    match value {
        toml::Value::String(text) => vec![text.clone()],
        toml::Value::Array(all) => all.iter().flat_map(values_of).collect(),
        other => vec![other.to_string()],
    }
}

/// That a flag takes what a setting says.
fn check(program: Command, (file, key): (&Path, &str), values: &[String]) -> Result<(), Failure> {
    let flag = key.replace('_', "-");
    let words = values.iter().map(|value| format!("--{flag}={value}"));
    let words = ["tensorgrid".to_owned(), COMMAND.to_owned()]
        .into_iter()
        .chain(words);
    let Err(error) = program.try_get_matches_from(words) else {
        return Ok(());
    };
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let first = first.trim_start_matches("error: ");
    Err(usage(file, &format!("{key}: {first}"))
        .hint("`tensorgrid provider --help` says what the flag of this name takes"))
}

/// A value for as long as the process lives: a command's flags borrow theirs, and a process reads its settings once.
fn kept(value: String) -> &'static str {
    Box::leak(value.into_boxed_str())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::super::settings::Settings as _;
    use super::*;
    use crate::cli::{Cli, Command as CliCommand};
    use crate::grid::node_args::ProviderArguments;

    /// A provider's arguments by a file of settings and further words.
    fn arguments(text: &str, words: &[&str]) -> Result<(ProviderArguments, PathBuf), Failure> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("provider.toml");
        fs::write(&file, text).unwrap();
        let words = [&["tensorgrid", "provider"][..], words].concat();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let matches = matches(&file, Cli::command(), &words)?;
        match Cli::from_arg_matches(&matches).unwrap().command {
            CliCommand::Provider(arguments) => Ok((arguments, folder.path().to_path_buf())),
            other => panic!("{other:?}"),
        }
    }

    const FEW: &str = "api = \"http://10.0.0.7:7101\"\nkey = \"account.key\"\n";

    #[test]
    fn settings_take_the_place_of_what_flags_are_by_themselves() {
        let (by_file, folder) = arguments(
            &format!(
                "{FEW}price = \"0.005\"\nslots = 3\nmasked = true\nregion = 2\ntiers = [\"spot\", \"reserved\"]\n\
                 session = \"p.session\"\nserve_openai = [\"m=http://127.0.0.1:9/v1\"]\ncalls = [\"embeddings\"]\nserve_config = \"models.toml\"\n"
            ),
            &["--slots", "5", "--price-per-mmac", "0.1"],
        )
        .unwrap();
        assert_eq!(by_file.api.api, "http://10.0.0.7:7101");
        assert_eq!(by_file.key, folder.join("account.key"));
        assert_eq!(by_file.price.to_string(), "0.005");
        assert_eq!(by_file.price_per_mmac.to_string(), "0.1");
        assert_eq!((by_file.slots, by_file.masked), (5, true));
        assert_eq!(by_file.machine.region, 2);
        assert_eq!(by_file.machine.tiers.len(), 2);
        assert_eq!(by_file.serve.serve_openai.len(), 1);
        assert_eq!(by_file.serve.calls.len(), 1);
        let models = by_file.serve.serve_config.unwrap();
        assert_eq!(models, folder.join("models.toml"));
        let session = SessionSetting::File(folder.join("p.session"));
        assert_eq!(by_file.session.session, session);
        // What it does not say is as without a file.
        let (by_file, _) = arguments(FEW, &[]).unwrap();
        let words = ["tensorgrid", "provider"];
        let alone = Cli::command().get_matches_from(words);
        let alone = match Cli::from_arg_matches(&alone).unwrap().command {
            CliCommand::Provider(arguments) => arguments,
            other => panic!("{other:?}"),
        };
        assert_eq!(by_file.price, alone.price);
        assert_eq!(by_file.collateral, alone.collateral);
        assert_eq!(by_file.slots, alone.slots);
        assert_eq!(by_file.session.session, SessionSetting::Own);
        let (off, _) = arguments(&format!("{FEW}session = \"off\"\n"), &[]).unwrap();
        assert_eq!(off.session.session, SessionSetting::Off);
        assert_eq!(by_file.serve.context, alone.serve.context);
    }

    #[test]
    fn each_setting_is_a_flag_and_the_sample_is_taken() {
        let program = Cli::command();
        let provider = program.find_subcommand(COMMAND).unwrap();
        let flags: Vec<&str> = provider
            .get_arguments()
            .map(|it| it.get_id().as_str())
            .collect();
        for setting in ProviderSettings::ALL {
            assert!(flags.contains(&setting.key), "{}", setting.key);
        }
        let settings: Vec<&str> = ProviderSettings::ALL.iter().map(|it| it.key).collect();
        for flag in flags {
            let is_own = [
                "config", "sample", "backup", "json", "verbose", "help", "version",
            ]
            .contains(&flag);
            assert!(is_own || settings.contains(&flag), "{flag}");
        }
        let sample = settings::render(&ProviderSettings::sample()).unwrap();
        let (taken, _) = arguments(&sample, &[]).unwrap();
        assert_eq!(taken.price.to_string(), "0.02");
    }

    #[test]
    fn what_a_flag_does_not_take_is_told_by_its_setting() {
        let told = |text: &str| {
            let failure = arguments(text, &[]).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            format!("{:#}", failure.error)
        };
        for (wrong, word) in [
            ("price = \"much\"", "price: "),
            ("slots = 65", "slots: "),
            ("device = \"tpu\"", "device: "),
            ("tiers = [\"spot\", \"free\"]", "tiers: "),
            ("prise = \"1\"", "there is no setting"),
        ] {
            let text = told(&format!("{FEW}{wrong}\n"));
            assert!(text.contains("provider.toml"), "{text}");
            assert!(text.contains(word), "{text}");
        }
        assert!(told("price = \"0.1\"\n").contains("api"));
    }
}
