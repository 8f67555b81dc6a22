//! The command line of endpoints.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tg_sdk::endpoint::scaling::REPLICAS_MAX;
use tg_types::Amount;

use super::connect_args::{ApiArguments, KeyArguments, TrustArguments};
use super::order_args::{ACCOUNT, CloudPriceArguments};
use super::projects;
use tg_console::draw::DrawArguments;
use tg_console::needs::{NeedsArguments, amount};

/// Commands about endpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum EndpointCommand {
    /// Order an endpoint, and wait until a provider serves it.
    Open(EndpointOpenArguments),
    /// List the endpoints of an account that did not end: who serves them, what they cost, how long their money lasts.
    List(EndpointListArguments),
    /// Ask an endpoint, once or many times, and say how long answers took.
    Ask(EndpointAskArguments),
    /// Have an endpoint write what follows a prompt, as it is written.
    Write(EndpointWriteArguments),
    /// Lock more money for an endpoint; one that waits for money goes on.
    TopUp(EndpointTopUpArguments),
    /// End an endpoint: what it served is paid, the rest comes back.
    Close(EndpointJobArguments),
}

/// Where groups of endpoints are kept.
#[derive(Debug, Clone, Args)]
pub(crate) struct GroupsArguments {
    /// Folder with the records of groups of endpoints; beside the key file, with the ending `.endpoints`, if absent.
    #[arg(long, env = "TENSORGRID_GROUPS", value_name = "DIR")]
    pub(crate) groups: Option<PathBuf>,
}

/// How many replicas a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaBounds {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

/// `N`, or `MIN..MAX`.
fn replicas(text: &str) -> Result<ReplicaBounds, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.trim_start_matches('=').parse().ok();
    let bounds = number(min).zip(number(max));
    let bounds = bounds.map(|(min, max)| ReplicaBounds { min, max });
    let is_good = |it: &ReplicaBounds| (1..=it.max).contains(&it.min) && it.max <= REPLICAS_MAX;
    bounds.filter(is_good).ok_or_else(|| {
        format!("expected a number of replicas up to {REPLICAS_MAX}, or MIN..MAX such as 2..4")
    })
}

/// Seconds as a person writes them.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|it| (0.0..=86_400.0).contains(it));
    let expected = || "expected seconds, a day at most".to_owned();
    seconds.map(Duration::from_secs_f64).ok_or_else(expected)
}

/// A group of endpoints that take each other's place.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Replicas")]
pub(crate) struct ReplicaArguments {
    /// Open so many endpoints at machines of distinct providers, N or MIN..MAX, as one group: requests go to the least busy one, one that is lost is
    /// replaced, and while the group is asked more are opened and closed as requests wait. --money is for all of them together.
    #[arg(long, value_parser = replicas, value_name = "MIN..MAX")]
    pub(crate) replicas: Option<ReplicaBounds>,
    /// What the group is called; its model's name if absent.
    #[arg(long, requires = "replicas", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The most that a minute of a replica may cost, in TGRID.
    #[arg(long, requires = "replicas", value_parser = amount, value_name = "TGRID")]
    pub(crate) max_price: Option<Amount>,
    /// The most that an answer may cost: a run of the model.
    #[arg(long, requires = "replicas", value_parser = amount, value_name = "TGRID")]
    pub(crate) max_run_price: Option<Amount>,
    /// Unanswered requests for each replica beyond which another one is opened.
    #[arg(long, requires = "replicas", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    pub(crate) queue: u16,
    /// For how long there have to be so many.
    #[arg(long, requires = "replicas", default_value = "2", value_parser = seconds, value_name = "S")]
    pub(crate) queue_seconds: Duration,
    /// How long a replica above the least number may be asked nothing before it is closed.
    #[arg(long, requires = "replicas", default_value = "60", value_parser = seconds, value_name = "S")]
    pub(crate) idle_seconds: Duration,
    /// Go on with fewer replicas than the least number where there are not enough providers now; more are looked for while the group is asked.
    #[arg(long, requires = "replicas")]
    pub(crate) fewer: bool,
    /// Several replicas may be at one provider.
    #[arg(long, requires = "replicas")]
    pub(crate) same_provider: bool,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) groups: GroupsArguments,
}

/// `endpoint open`.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid endpoint open mlp-digits --money 75 --hours 2 --yes\n  tensorgrid endpoint open mlp-digits --replicas 2..4 --money 300 --hours 2 --yes\n\nThe provider is paid forty times its base price and \
                  its GPU time for each minute, and the price of the work for each answer, as this account signs for it. \
                  Nobody checks the answers but you: they are signed by the provider."
)]
pub(crate) struct EndpointOpenArguments {
    /// The model: its name, its id, or the beginning of its id.
    pub(crate) model: String,
    /// What is locked for it, in TGRID; what is not used comes back.
    #[arg(long, value_parser = amount, value_name = "TGRID")]
    pub(crate) money: Amount,
    /// How long it may last, in hours.
    #[arg(long, default_value_t = 1.0, value_name = "HOURS")]
    pub(crate) hours: f64,
    /// Do not ask before spending.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Say what ordering would come to in the next block, and order nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The project that it is for: kept on this machine beside the key, for `job cost --project`. Not of a group.
    #[arg(long, value_parser = projects::name, conflicts_with = "replicas", value_name = "NAME")]
    pub(crate) project: Option<String>,
    #[command(flatten)]
    pub(crate) clouds: CloudPriceArguments,
    #[command(flatten)]
    pub(crate) replicas: ReplicaArguments,
    #[command(flatten)]
    pub(crate) needs: NeedsArguments,
    #[command(flatten, next_help_heading = ACCOUNT)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint list`.
#[derive(Debug, Args)]
pub(crate) struct EndpointListArguments {
    /// A group: the endpoints of this one alone.
    pub(crate) group: Option<String>,
    #[command(flatten)]
    pub(crate) groups: GroupsArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// How long a group waits for its replicas.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PatienceArguments {
    /// Of a group: give a replica up that says nothing for so long while it has something to answer, and ask another one.
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "S")]
    pub(crate) patience: Duration,
    /// Of a group: how long a request waits while no replica is free or there is no money for one.
    #[arg(long, default_value = "120", value_parser = seconds, value_name = "S")]
    pub(crate) wait: Duration,
}

/// `endpoint ask`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tensorgrid endpoint ask 0x1234 examples/digit.json\n  tensorgrid endpoint ask 0x1234 examples/digit.json --times 1000 --parallel 8\n  tensorgrid endpoint ask digits --each inputs/ more.npy"
)]
pub(crate) struct EndpointAskArguments {
    /// The endpoint's job, its id or the beginning of it; or the name or id of a group of endpoints.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) groups: GroupsArguments,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Files of the input, as `infer` takes them.
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Ask for each input by itself: each file, each file of a folder, each row of an array with an axis more than the input has. All are
    /// asked at once, as far as --parallel says, and each has its own line with who answered and for what price.
    #[arg(long)]
    pub(crate) each: bool,
    /// How often to ask.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) times: u32,
    /// How many requests are under way at once; 1, with --each 32.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(crate) parallel: Option<u16>,
    #[command(flatten)]
    pub(crate) patience: PatienceArguments,
    /// Ask for a proof of each answer and check it here, for as much as a minute and a run: an answer that is not proved is not
    /// owed. Four are under way at once at most.
    #[arg(long)]
    pub(crate) prove: bool,
    /// Draw one in N of the answers after they came, have these proved and checked here: the provider does not know which ones
    /// it will have to prove. Each costs as much as one with --prove. One that was wrong ends the command with 3.
    #[arg(long, value_name = "N", conflicts_with = "prove", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prove_one_in: Option<u32>,
    /// Print stored integers instead of real values.
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint write`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tensorgrid endpoint write 0x1234 --text 'KING RICHARD:'")]
pub(crate) struct EndpointWriteArguments {
    /// The endpoint's job, its id or the beginning of it; or the name or id of a group of endpoints.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) groups: GroupsArguments,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    #[command(flatten)]
    pub(crate) patience: PatienceArguments,
    #[command(flatten)]
    pub(crate) what: DrawArguments,
    /// With --json: print each piece of the text as it comes, an object `{"piece": ..}` on a line, and last the whole on one line.
    #[arg(long, requires = "json")]
    pub(crate) stream: bool,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint top-up`.
#[derive(Debug, Args)]
pub(crate) struct EndpointTopUpArguments {
    /// The endpoint's job, its id or the beginning of it; or the name or id of a group of endpoints.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) groups: GroupsArguments,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// How much more is locked, in TGRID.
    #[arg(value_parser = amount, value_name = "TGRID")]
    pub(crate) money: Amount,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `endpoint close`.
#[derive(Debug, Args)]
pub(crate) struct EndpointJobArguments {
    /// The endpoint's job, its id or the beginning of it; or the name or id of a group of endpoints.
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) groups: GroupsArguments,
    #[command(flatten)]
    pub(crate) api: ApiArguments,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_a_number_or_two() {
        let bounds = |min, max| Ok(ReplicaBounds { min, max });
        for (text, expected) in [
            ("3", bounds(3, 3)),
            ("2..4", bounds(2, 4)),
            ("2..=4", bounds(2, 4)),
            ("1..64", bounds(1, 64)),
        ] {
            assert_eq!(replicas(text), expected, "{text}");
        }
        for text in [
            "", "0", "0..2", "3..2", "65", "..", "2..", "a", "-1", "1..2..3",
        ] {
            assert!(replicas(text).is_err(), "{text}");
        }
    }
}
