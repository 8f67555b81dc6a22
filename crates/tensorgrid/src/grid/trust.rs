//! What is shown of a grid without trusting whoever answers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tg_console::files;

use crate::network::process::read_genesis;
use tg_ledger::{Job, JobPhase, Lease, Offer, Settlement};
use tg_sdk::dto::StateRecordDto;
use tg_sdk::light::{FinalValue, LightClient, LightError};
use tg_sdk::{Client, clock};
use tg_types::chain::TrustedHead;
use tg_types::{Address, Decode, Digest, JobId, JobOrder, LeaseId, OfferId};

use super::connect::Calling;
use super::connect_args::TrustArguments;
use tg_console::outcome::{Exit, Failure, OrFail, say};

/// Most bytes of what is kept of a chain: two sets of validators.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// Answers that are older say so: blocks come every second or so.
const OLD_MS: u64 = 30_000;

/// How long a record that the API tells may be missing in what can be proved, and how often it is looked for.
const PROVED_MAX: Duration = Duration::from_secs(5);
const PROVED_POLL: Duration = Duration::from_millis(250);

/// How somebody finds a block to begin at.
pub(crate) const FRESH: &str = "`tensorgrid checkpoint --api URL` prints a block to begin at: ask a node of your own, or several that do not know each other";

/// How what a gateway on another machine says comes to be shown.
const HOW_TO_SHOW: &str = "--genesis FILE (or TENSORGRID_GENESIS) has it proved by the validators; the file comes from whoever runs the network. \
     --trust-gateway shows it unproved";

/// The payment of a job, as a final state has it.
pub(crate) struct ProvedPayment {
    /// The digest of the output.
    pub(crate) output: Digest,
    /// Whose result it was.
    pub(crate) provider: Address,
    /// Where the money went.
    pub(crate) settlement: Settlement,
}

/// A client that believes nobody, and where it keeps what it knows.
pub(crate) struct Trusting {
    light: LightClient,
    file: PathBuf,
}

impl Trusting {
    /// The client, if a genesis was named.
    pub(crate) async fn begin(
        client: &Client,
        arguments: &TrustArguments,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = &arguments.genesis else {
            return Ok(None);
        };
        let genesis = read_genesis(path)?;
        // Stops: signatures for another network than that of the genesis.
        client.pin(genesis.domain).calling("ask the grid")?;
        let doing = format!("{} is the genesis of no network", path.display());
        let trust = genesis.trust().or_fail(Exit::Usage, doing)?;
        let file = kept_at(path, arguments);
        let known = kept(&file)?;
        let begun = LightClient::begin(client.clone(), trust, known, arguments.checkpoint).await;
        let doing = "find a block to follow the chain from";
        let light = checked(begun, doing).map_err(|failure| Failure {
            error: failure
                .error
                .context(format!("{} is not believed", client.url())),
            ..failure
        })?;
        Ok(Some(Self { light, file }))
    }

    /// The same for what a command shows. Without a genesis the word of a gateway on another machine is not shown, unless whoever asks
    /// said that it is believed; what is shown unproved says so once, unless nothing is lost by lies.
    pub(crate) async fn begin_to_show(
        client: &Client,
        arguments: &TrustArguments,
    ) -> Result<Option<Self>, Failure> {
        let trusting = Self::begin(client, arguments).await?;
        if trusting.is_some() {
            return Ok(trusting);
        }
        let url = client.url();
        if arguments.trust_gateway {
            say(format_args!(
                "as {url} says, unproved: --trust-gateway has it believed"
            ));
            return Ok(None);
        }
        // Whoever signs with a key that everybody has loses nothing.
        if client.is_own_node() {
            return Ok(None);
        }
        // Stops: a gateway elsewhere that says that it is of a development network, to be believed.
        if !client.is_on_this_machine() {
            let text = format!("what {url} says is not shown: nothing proves it");
            return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(HOW_TO_SHOW));
        }
        if !is_development(client).await {
            say(format_args!(
                "as {url} says, unproved: --genesis FILE checks it"
            ));
        }
        Ok(None)
    }

    /// The client.
    pub(crate) const fn light(&mut self) -> &mut LightClient {
        &mut self.light
    }

    /// A job as the newest final state has it; nothing if it has none for some seconds.
    pub(crate) async fn job(&mut self, id: JobId) -> Result<FinalValue<Option<Job>>, Failure> {
        self.found(StateRecordDto::Job, id.as_bytes()).await
    }

    /// A lease as the newest final state has it; nothing if it has none for some seconds.
    pub(crate) async fn lease(
        &mut self,
        id: LeaseId,
    ) -> Result<FinalValue<Option<Lease>>, Failure> {
        self.found(StateRecordDto::Lease, id.as_bytes()).await
    }

    /// An offer as the newest final state has it; nothing if it has none for some seconds.
    pub(crate) async fn offer(
        &mut self,
        id: OfferId,
    ) -> Result<FinalValue<Option<Offer>>, Failure> {
        self.found(StateRecordDto::Offer, id.as_bytes()).await
    }

    /// A record, which the API may tell some blocks before it can be proved.
    async fn found<T: Decode>(
        &mut self,
        record: StateRecordDto,
        id: &[u8],
    ) -> Result<FinalValue<Option<T>>, Failure> {
        let asked = Instant::now();
        loop {
            let shown = self.light.content(record, id).await;
            let shown = checked(shown, "ask for the proof of a record")?;
            if shown.value.is_some() || asked.elapsed() > PROVED_MAX {
                return decoded(shown);
            }
            tokio::time::sleep(PROVED_POLL).await;
        }
    }

    /// What was ordered by a job, as the newest final state has it.
    pub(crate) async fn order(&mut self, id: JobId) -> Result<JobOrder, Failure> {
        let shown = self.job(id).await?;
        let proved = proved(&shown);
        let job = shown.value.ok_or_else(|| {
            let text = format!("the final state has no job {id} ({proved})");
            Failure::new(Exit::NotFound, anyhow::anyhow!(text))
                .hint("its order may not be final yet; or it ended long ago and its record is gone")
        })?;
        Ok(job.order)
    }

    /// For which output a job was paid, to whom, and where its money went, as the newest final state has it; nothing if it was not paid.
    pub(crate) async fn payment(&mut self, id: JobId) -> Result<Option<ProvedPayment>, Failure> {
        let asked = Instant::now();
        loop {
            let job = self.job(id).await?.value;
            // What the API tells as paid may be some blocks ahead of what can be proved.
            let paid = job.map(|it| it.phase);
            if let Some(JobPhase::Paid {
                lease, settlement, ..
            }) = paid
            {
                let lease = self.lease(lease).await?.value;
                let lease = lease.filter(|it| it.job == id);
                return Ok(lease.and_then(|it| {
                    let output = it.receipt()?.output;
                    Some(ProvedPayment {
                        output,
                        provider: it.provider,
                        settlement,
                    })
                }));
            }
            if asked.elapsed() > PROVED_MAX {
                return Ok(None);
            }
            tokio::time::sleep(PROVED_POLL).await;
        }
    }

    /// Keeps the newest block that is known to be final for later commands. Where it cannot, it says so: nothing false was believed.
    pub(crate) fn keep(&self) {
        let bytes = self.light.head().to_file();
        if let Err(failure) = files::write(&self.file, &bytes) {
            say(format_args!(
                "what is known of the chain is not kept: {:#}",
                failure.error
            ));
        }
    }
}

impl Drop for Trusting {
    /// Keeps what convicts validators, however the command ends: what contradicts itself is what ends it in most cases.
    fn drop(&mut self) {
        let evidence = self.light.evidence();
        if evidence.is_empty() {
            return;
        }
        let mut name = self.file.as_os_str().to_owned();
        name.push(".evidence");
        let file = PathBuf::from(name);
        let lines = evidence.iter().map(|it| it.to_line() + "\n");
        match files::write(&file, lines.collect::<String>().as_bytes()) {
            Ok(()) => say(format_args!(
                "validators signed two chains; what shows it is in {}: tensorgrid seat report {} takes the stake of whoever is in two certificates of it",
                file.display(),
                file.display()
            )),
            Err(failure) => say(format_args!(
                "validators signed two chains, and what shows it is not kept: {:#}",
                failure.error
            )),
        }
    }
}

/// Whether the API says that it is of a development network, where everybody has all keys. One that does not answer does not.
async fn is_development(client: &Client) -> bool {
    client.status().await.is_ok_and(|status| status.development)
}

/// A record whose bytes were shown to be those of a final state.
pub(crate) fn decoded<T: Decode>(
    shown: FinalValue<Option<Vec<u8>>>,
) -> Result<FinalValue<Option<T>>, Failure> {
    let record = shown.value.map(|bytes| T::from_bytes(&bytes)).transpose();
    let doing = "read a record of the final state: program and network are of different versions";
    Ok(FinalValue {
        height: shown.height,
        timestamp_ms: shown.timestamp_ms,
        value: record.or_fail(Exit::Failed, doing)?,
    })
}

/// Where the newest block that is known to be final is kept.
pub(crate) fn kept_at(genesis: &Path, arguments: &TrustArguments) -> PathBuf {
    arguments.trusted.clone().unwrap_or_else(|| {
        let mut name = genesis.as_os_str().to_owned();
        name.push(".trusted");
        name.into()
    })
}

/// What is kept there, if anything is.
pub(crate) fn kept(file: &Path) -> Result<Option<TrustedHead>, Failure> {
    if !file.exists() {
        return Ok(None);
    }
    let bytes = files::read(file, KEPT_BYTES_MAX)?;
    let doing = format!("{} is not what is kept of a chain", file.display());
    let head = TrustedHead::from_file(&bytes).or_fail(Exit::Usage, doing);
    let head =
        head.map_err(|failure| failure.hint("remove it; --checkpoint may be needed then"))?;
    Ok(Some(head))
}

/// Whose word an answer is, for people.
pub(crate) fn proved<T>(shown: &FinalValue<T>) -> String {
    let age = clock::now().get().saturating_sub(shown.timestamp_ms);
    let old = match age {
        0..OLD_MS => String::new(),
        _ => format!(
            ", {} s ago: the API may be behind, or hide newer blocks",
            age / 1_000
        ),
    };
    format!("proved at height {}{old}", shown.height)
}

/// What an answer that shows nothing ends a command with.
pub(crate) fn checked<T>(shown: Result<T, LightError>, doing: &'static str) -> Result<T, Failure> {
    let error = match shown {
        Ok(shown) => return Ok(shown),
        Err(LightError::Client(error)) => return Err(error).calling(doing),
        Err(error) => error,
    };
    let hint = match &error {
        LightError::Old(_) => format!("{FRESH}; then --checkpoint HEIGHT:ID"),
        LightError::Checkpoint(_) => format!(
            "the API serves another chain than that of the checkpoint, or the checkpoint is old. {FRESH}"
        ),
        LightError::OtherNetwork { .. } => "--trusted names another file".to_owned(),
        _ => "the API forges its answers, or serves another network than that of the genesis"
            .to_owned(),
    };
    Err(Failure::new(Exit::Rejected, anyhow::Error::from(error)).hint(hint))
}
