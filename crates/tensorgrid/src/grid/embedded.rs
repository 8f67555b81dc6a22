//! A whole grid in this process: validators over loopback TCP, the API, the built-in models, providers.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_console::files;

use tg_api::{ApiConfig, ApiListener, ApiServer, GridPort, HostName};
use tg_ledger::{ConsensusKey, Genesis, Parameters, StorageRule, Validator, development_domain};
use tg_node::{
    EmbeddedConfig, EvidenceChecker, NodeHandle, OpenError, ProofChecker, Status, ValidatorKey,
    Validators, perform_duties, spawn_validators, steady_now,
};
use tg_prover::ProvingModel;
use tg_provider::{Agent, AgentConfig, AgentError, AgentEvent, Shutdown, ShutdownTrigger, Worker};
use tg_sdk::dto::{CloudPricesDto, ModelDto, ModelStateDto};
use tg_sdk::jobs;
use tg_sdk::{Client, clock};
use tg_types::{Address, Amount, Decode, DurationMs, Encode, Label, Transaction, Wallet};
use tokio::sync::mpsc;

use super::blob;
use super::connect::{Calling, OfJob};
use super::port::NodePort;
use crate::network::tls::TlsPlace;
use tg_console::accounts;
use tg_console::outcome::{Exit, Failure, OrFail, say};
use tg_offline::bundled::BuiltIn;
use tg_openai::api_keys::ApiKeys;
use tg_openai::{OpenAiFolders, OpenAiOrders};

/// Stake of each validator.
pub(crate) const STAKE: Amount = Amount::from_tgrid(10_000);

/// How long a bond answers for votes in networks that are founded here: clients that were away for 20 days still follow the chain
/// from what they know.
pub(crate) const UNBONDING: DurationMs = DurationMs::from_secs(21 * 24 * 3_600);

/// Most bytes of a genesis file.
const GENESIS_BYTES_MAX: u64 = 1 << 20;

/// How long the first block may take.
const FIRST_BLOCK: Duration = Duration::from_secs(60);

/// How long the validators may take to accept a model.
const MODEL_ACTIVE: Duration = Duration::from_secs(60);

/// How long the API may take to end its calls.
pub(crate) const API_PATIENCE: Duration = Duration::from_secs(3);

/// Events of an agent that may wait to be read.
const EVENTS_MAX: usize = 4096;

/// How to start a grid.
#[derive(Debug, Clone)]
pub(crate) struct EmbeddedOptions {
    /// Folder of its state.
    pub(crate) directory: PathBuf,
    /// Where the API listens.
    pub(crate) api: ApiConfig,
    /// Where it speaks TLS, if it does.
    pub(crate) tls: Option<TlsPlace>,
    /// Names by which the API is called.
    pub(crate) names: Vec<HostName>,
    /// What the API tells of clouds.
    pub(crate) clouds: CloudPricesDto,
    /// Validators; fixed at the first start.
    pub(crate) validators: usize,
    /// Most multiply-accumulates of a model whose runs every validator repeats; fixed at the first start.
    pub(crate) repeat_macs: u64,
    /// Most multiply-accumulates of a model whose results of mode `sync` a committee runs whole.
    pub(crate) whole_run_macs: u64,
    /// Names and balances of the accounts at the first start.
    pub(crate) accounts: Vec<(String, Amount)>,
    /// API keys of the OpenAI routes; those of a development network if absent.
    pub(crate) openai_keys: Option<PathBuf>,
    /// Folder of tokenizers of the OpenAI routes.
    pub(crate) tokenizers: Option<PathBuf>,
    /// Whether the validators begin a new consensus epoch.
    pub(crate) new_epoch: bool,
}

/// A grid in this process.
pub(crate) struct EmbeddedGrid {
    validators: Validators,
    server: ApiServer,
    client: Client,
    _reporters: Reporters,
}

/// The tasks in which validators report which providers they hear and remove old blobs; they end with this.
pub(crate) struct Reporters(Vec<tokio::task::AbortHandle>);

impl Reporters {
    /// Starts those of each validator, which signs with its account. `checker` looks at drawn parts of results.
    pub(crate) fn start(
        checker: &Arc<dyn EvidenceChecker>,
        validators: impl IntoIterator<Item = (NodeHandle, Wallet)>,
    ) -> Self {
        let tasks = validators.into_iter().flat_map(|(node, account)| {
            let sweep = blob::sweep(node.clone());
            let report = perform_duties(node, account, Arc::clone(checker), steady_now);
            [
                tokio::spawn(report).abort_handle(),
                tokio::spawn(sweep).abort_handle(),
            ]
        });
        Self(tasks.collect())
    }
}

impl Drop for Reporters {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl EmbeddedGrid {
    /// Starts the validators and the API, and waits until blocks come.
    pub(crate) async fn start(options: EmbeddedOptions) -> Result<Self, Failure> {
        let keys_of_callers = ApiKeys::open(options.openai_keys.as_deref())?;
        // Before the folder is made: a busy port leaves nothing behind.
        let listen = options.api.listen;
        let listener = ApiListener::bind(listen)
            .await
            .or_fail(Exit::Failed, format!("listen on {listen}"))
            .map_err(|failure| failure.hint("--listen names another address"))?;
        let listener = match options.tls.clone() {
            Some(place) => place.take(listener).await?,
            None => listener,
        };
        let listener = listener.called(options.names.clone());
        let listener = listener.beside_clouds(options.clouds.clone());
        let keys: Vec<ValidatorKey> = (0..options.validators as u64)
            .map(ValidatorKey::from_seed)
            .collect();
        let publics: Vec<[u8; 32]> = keys.iter().map(ValidatorKey::public).collect();
        let genesis = genesis(&options, &keys)?;
        let checker: Arc<dyn EvidenceChecker> = Arc::new(ProofChecker::default());
        let directory = options.directory.clone();
        let mut config = EmbeddedConfig::new(genesis, keys, directory, Arc::clone(&checker));
        config.new_epoch = options.new_epoch;
        let started = tokio::task::spawn_blocking(move || spawn_validators(config)).await?;
        let hint = started.as_ref().err().map(hint_of);
        let started = started.or_fail(Exit::Failed, "start the validators");
        let validators = started.map_err(|failure| match hint {
            Some(hint) if !hint.is_empty() => failure.hint(hint),
            _ => failure,
        })?;
        let nodes: Vec<NodeHandle> = validators.handles().cloned().collect();
        let accounts = nodes.iter().filter_map(|node| {
            let own = node.status().validator;
            let index = publics.iter().position(|public| *public == own)?;
            let account = accounts::wallet(&accounts::validator(index));
            Some((node.clone(), account))
        });
        let reporters = Reporters::start(&checker, accounts);
        let names = options
            .accounts
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let port = Arc::new(NodePort::development(nodes, names));
        let server = listener.serve(Arc::clone(&port) as Arc<dyn GridPort>, options.api);
        let client = Client::new(&server.url())
            .calling("name the API")?
            .of_own_node();
        port.set_client(client.clone());
        let folders = OpenAiFolders {
            own: options.directory.join("openai"),
            tokenizers: options.tokenizers,
        };
        let orders = OpenAiOrders::new(client.clone(), keys_of_callers, folders);
        let orders = Arc::new(orders);
        orders.watch_models();
        port.set_orders(orders);
        let gone_on = server.go_on_with_batches();
        gone_on.or_fail(Exit::Failed, "go on with the batches of the OpenAI routes")?;
        let grid = Self {
            validators,
            server,
            client,
            _reporters: reporters,
        };
        grid.wait_for_blocks().await?;
        Ok(grid)
    }

    /// Two more blocks than there were: the validators have found each other.
    async fn wait_for_blocks(&self) -> Result<(), Failure> {
        let first = self.client.status().await.calling("ask the grid")?.height;
        let started = Instant::now();
        while self.client.status().await.calling("ask the grid")?.height < first + 2 {
            if let Some(failure) = self.stopped_validator() {
                return Err(failure);
            }
            if started.elapsed() > FIRST_BLOCK {
                let text = "the validators made no block within a minute";
                return Err(Failure::new(Exit::Failed, anyhow::anyhow!(text)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Why the grid cannot go on, if so many validators stopped by themselves that the others are no quorum.
    fn stopped_validator(&self) -> Option<Failure> {
        let stopped = self.stopped();
        let count = self.validators.handles().count();
        let (_, reason) = stopped.get((count - 1) / 3)?;
        let text = format!(
            "{} of {count} validators stopped by themselves: {reason}",
            stopped.len()
        );
        Some(
            Failure::new(Exit::Failed, anyhow::anyhow!(text))
                .hint("what was final is kept; mend the cause and start again"),
        )
    }

    /// The validators that stopped by themselves, with what they say.
    fn stopped(&self) -> Vec<(usize, String)> {
        let handles = self.validators.handles().enumerate();
        let stopped = handles.filter_map(|(index, node)| Some((index, node.status().stopped?)));
        stopped.collect()
    }

    /// Returns once so many validators have stopped by themselves that the grid cannot go on; says which stopped, which
    /// abstain and whose clock jumped.
    pub(crate) async fn broken(&self) -> Failure {
        let mut said = BTreeSet::new();
        loop {
            if let Some(failure) = self.stopped_validator() {
                return failure;
            }
            for (index, node) in self.validators.handles().enumerate() {
                if let Some(text) = trouble(&node.status())
                    && said.insert((index, text.clone()))
                {
                    say(format_args!("validator {}: {text}", index + 1));
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Its validators, as this process sees them.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeHandle> {
        self.validators.handles()
    }

    /// A client of the grid's API.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// The API's address.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Where the API speaks TLS, if it does.
    pub(crate) const fn secure_address(&self) -> Option<SocketAddr> {
        self.server.secure_address()
    }

    /// Stops the API and then the validators, which write what they have.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.server.stop(API_PATIENCE).await;
        let validators = self.validators;
        tokio::task::spawn_blocking(move || validators.shutdown()).await?;
        Ok(())
    }
}

/// What is wrong with a validator while the others go on.
fn trouble(status: &Status) -> Option<String> {
    if let Some(reason) = &status.stopped {
        return Some(format!("stopped, the others go on: {reason}"));
    }
    match status.abstains_until {
        Some(0) => Some("its journal of votes is gone: it abstains for a while".to_owned()),
        Some(height) => Some(format!(
            "its journal of votes is gone: it votes again after height {height}"
        )),
        None if status.clock_jumped_ms.is_some() => {
            Some("the wall clock jumped: no blocks until it is right again".to_owned())
        }
        None => None,
    }
}

/// What to do about validators that do not start.
fn hint_of(error: &OpenError) -> &'static str {
    match error {
        OpenError::InUse { .. } => {
            "is another grid running in this folder? --data-dir names another"
        }
        OpenError::NoQuorum { .. } => {
            "tensorgrid up --new-epoch begins a new consensus epoch at the highest final block; do it only if nobody \
             goes on with the old votes"
        }
        OpenError::OtherFormat { .. } | OpenError::OtherGenesis { .. } => {
            "--data-dir names another folder"
        }
        error if error.is_damage() => {
            "too many validators' databases are damaged to rebuild them from the others; restore them from a copy"
        }
        _ => "",
    }
}

/// The genesis of the folder; made at the first start.
fn genesis(options: &EmbeddedOptions, keys: &[ValidatorKey]) -> Result<Genesis, Failure> {
    let path = options.directory.join("genesis.bin");
    if path.exists() {
        let bytes = files::read(&path, GENESIS_BYTES_MAX)?;
        let doing = format!("{} is not a genesis", path.display());
        let genesis = Genesis::from_bytes(&bytes).or_fail(Exit::Usage, doing)?;
        if genesis.validators.len() != keys.len() {
            let count = genesis.validators.len();
            let text = format!(
                "the grid in {} has {count} validators",
                options.directory.display()
            );
            return Err(
                Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(format!(
                    "start it with --validators {count}, or name another --data-dir"
                )),
            );
        }
        return Ok(genesis);
    }
    let mut balances: Vec<_> = options
        .accounts
        .iter()
        .map(|(name, balance)| (accounts::wallet(name).address(), *balance))
        .collect();
    balances.sort();
    let mut validators: Vec<Validator> = keys
        .iter()
        .enumerate()
        .map(|(index, key)| Validator {
            address: accounts::wallet(&accounts::validator(index)).address(),
            key: ConsensusKey::new(key.public()),
            stake: STAKE,
        })
        .collect();
    validators.sort_by_key(|validator| validator.address);
    let genesis = Genesis {
        domain: development_domain(),
        parameters: Parameters {
            storage: StorageRule::Stated,
            repeated_macs_max: options.repeat_macs,
            whole_run_macs_max: options.whole_run_macs,
            unbonding: UNBONDING,
            ..Parameters::development().wide_enough_for(validators.len())
        },
        timestamp: clock::now(),
        accounts: balances,
        validators,
    };
    let doing = format!("make the folder {}", options.directory.display());
    std::fs::create_dir_all(&options.directory).or_fail(Exit::Failed, doing)?;
    files::write(&path, &genesis.to_bytes())?;
    Ok(genesis)
}

/// Registers a built-in model unless it is registered, and waits until it is active.
pub(crate) async fn register_bundled(
    client: &Client,
    wallet: &Wallet,
    bundled: impl Into<BuiltIn>,
) -> Result<ModelDto, Failure> {
    let bundled = bundled.into();
    let models = client.models().await.calling("list the models")?;
    let known = models.into_iter().find(|model| {
        model.owner == wallet.address()
            && model.name == bundled.name()
            && model.state != ModelStateDto::Refused
    });
    let id = if let Some(model) = known {
        model.id
    } else {
        let made = tokio::task::spawn_blocking(move || make(bundled)).await??;
        register(client, wallet, made, bundled.name()).await?
    };
    wait_until_active(client, id).await
}

/// The files of a model to register.
pub(crate) struct ModelFiles {
    /// Its id.
    pub(crate) id: tg_types::ModelId,
    /// The public part.
    pub(crate) public: Vec<u8>,
    /// The program with its weights.
    pub(crate) weights: Vec<u8>,
}

/// Compiles a built-in model and proves its registration.
fn make(bundled: BuiltIn) -> Result<ModelFiles, Failure> {
    let model = bundled.model()?;
    let weights = model.to_bytes();
    let proving = ProvingModel::of_checked(model).or_fail(Exit::Failed, "commit the weights")?;
    let public = proving
        .register()
        .or_fail(Exit::Failed, "prove the registration")?;
    Ok(ModelFiles {
        id: proving.id(),
        public: public.encode(),
        weights,
    })
}

/// Refuses a name under which an account has registered something else: of two of one name the one that is asked by it is the older one, and
/// whoever registered the other would not see why. The ledger itself takes any name.
pub(crate) async fn refuse_taken_name(
    client: &Client,
    owner: Address,
    (id, name): (tg_types::ModelId, &str),
) -> Result<(), Failure> {
    let models = client.models().await.calling("list the models")?;
    let Some(other) = named_alike(&models, owner, (id, name)) else {
        return Ok(());
    };
    let text = format!("{owner} has registered {} as {name} already", other.id);
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
        "give this one another name with `--name NAME`; the one that is registered keeps its own",
    ))
}

/// What an account has under a name that it registers another id by; nothing if that id is registered anyway, which keeps the name
/// that it has.
fn named_alike<'a>(
    models: &'a [ModelDto],
    owner: Address,
    (id, name): (tg_types::ModelId, &str),
) -> Option<&'a ModelDto> {
    let is_there = |model: &&ModelDto| model.state != ModelStateDto::Refused;
    let mut there = models.iter().filter(is_there);
    if there.clone().any(|model| model.id == id) {
        return None;
    }
    there.find(|model| model.owner == owner && model.name == name)
}

/// Stores a model's files and registers it. An id is its content: one that is registered already, by whomever, is left as
/// it is, unless it was refused for its files.
pub(crate) async fn register(
    client: &Client,
    wallet: &Wallet,
    files: ModelFiles,
    name: &str,
) -> Result<tg_types::ModelId, Failure> {
    let name = Label::new(name).or_fail(Exit::Usage, "name the model")?;
    match client.model(files.id).await {
        Ok(known) if known.state != ModelStateDto::Refused => {
            say(format_args!(
                "model {} is registered as {} by {}; nothing is paid",
                known.id, known.name, known.owner
            ));
            return Ok(files.id);
        }
        Err(error) if !error.is_not_found() => return Err(error).calling("ask for the model"),
        Ok(_) | Err(_) => {}
    }
    let uploader = client.uploading_as(wallet);
    let weights_blob = uploader
        .put_blob(files.weights)
        .await
        .calling("store the weights")?
        .digest;
    let public_blob = uploader
        .put_blob(files.public)
        .await
        .calling("store the public part")?
        .digest;
    let register = Transaction::RegisterModel {
        model: files.id,
        public_blob,
        weights_blob,
        name,
    };
    let sent = jobs::submit(client, wallet, &register, "register the model").await;
    sent.of_job()?;
    Ok(files.id)
}

/// Waits for the validators' verdict on a model.
pub(crate) async fn wait_until_active(
    client: &Client,
    id: tg_types::ModelId,
) -> Result<ModelDto, Failure> {
    let started = Instant::now();
    loop {
        match client.model(id).await {
            Ok(model) if model.state == ModelStateDto::Active => return Ok(model),
            Ok(model) if model.state == ModelStateDto::Refused => {
                let why = model.refusal.unwrap_or_default();
                let text = format!("the validators refused the model: {why}");
                return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() || error.is_transient() => {}
            Err(error) => return Err(error).calling("ask for the model"),
        }
        if started.elapsed() > MODEL_ACTIVE {
            let text = "the validators did not decide on the model within a minute";
            return Err(Failure::new(Exit::Unavailable, anyhow::anyhow!(text)));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A provider's agent that runs in this process.
pub(crate) struct RunningAgent {
    /// What it tells.
    pub(crate) events: mpsc::Receiver<AgentEvent>,
    trigger: ShutdownTrigger,
    task: tokio::task::JoinHandle<Result<(), AgentError>>,
}

impl RunningAgent {
    /// Starts an agent over the API.
    pub(crate) fn start<W: Worker>(
        client: &Client,
        wallet: Wallet,
        worker: Arc<W>,
        config: AgentConfig,
    ) -> Self {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (trigger, shutdown) = Shutdown::channel();
        let agent = Agent::new(client, wallet, worker, config, sender);
        Self {
            events,
            trigger,
            task: tokio::spawn(agent.run(shutdown)),
        }
    }

    /// Orders it to stop; [`RunningAgent::ended`] waits until it has.
    pub(crate) fn stop(&self) {
        self.trigger.stop();
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> Result<(), Failure> {
        match (&mut self.task).await? {
            Ok(()) => Ok(()),
            Err(AgentError::Offer(error)) => {
                Err(super::connect::failure(error)).map_err(|mut failure| {
                    failure.error = failure.error.context("post the offer");
                    failure
                })
            }
            Err(error @ AgentError::OfferLost) => Err(Failure::new(Exit::Unavailable, error)),
        }
    }
}

/// Whether a folder holds a grid already.
pub(crate) fn holds_grid(directory: &Path) -> bool {
    directory.join("genesis.bin").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tg_types::{Digest, ModelId};

    fn model(id: u8, owner: u8, state: ModelStateDto) -> ModelDto {
        ModelDto {
            id: ModelId::new([id; 32]),
            name: "digits".to_owned(),
            owner: Address::new([owner; 20]),
            state,
            public_blob: Digest::of_blob(&[id]),
            weights_blob: Digest::of_blob(b"w"),
            registered_ms: u64::from(id),
            facts: None,
            refusal: None,
        }
    }

    #[test]
    fn a_name_is_of_one_model_of_an_owner() {
        let check = |models: &[ModelDto], (id, name): (u8, &str), expected: Option<u8>| {
            let wanted = (ModelId::new([id; 32]), name);
            let found = named_alike(models, Address::new([1; 20]), wanted);
            let expected = expected.map(|id| ModelId::new([id; 32]));
            assert_eq!(found.map(|it| it.id), expected, "{id} {name}");
        };
        let (active, pending) = (ModelStateDto::Active, ModelStateDto::Pending);
        check(&[model(5, 1, active)], (6, "digits"), Some(5));
        check(&[model(5, 1, pending)], (6, "digits"), Some(5));
        // The same again, another name, and what another account has.
        check(&[model(5, 1, active)], (5, "digits"), None);
        check(&[model(5, 1, active)], (6, "numbers"), None);
        check(&[model(5, 2, active)], (6, "digits"), None);
        // What is registered is left as it is, whatever it is called.
        let both = [model(5, 1, active), model(6, 2, active)];
        check(&both, (6, "digits"), None);
        // A model that was refused may be mended under its name.
        check(&[model(5, 1, ModelStateDto::Refused)], (6, "digits"), None);
    }
}
