//! Groups of endpoints on the command line: founded, taken up by a command that asks, topped up, closed.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tg_sdk::dto::{JobDto, ModelDto, QuoteDto};
use tg_sdk::endpoint::group::{
    GroupError, GroupEvent, GroupHost, GroupPatience, HostError, ReplicaGroup,
};
use tg_sdk::endpoint::opening::ReplicaOpenError;
use tg_sdk::endpoint::record::{GroupRecord, GroupTerms};
use tg_sdk::endpoint::replica::LeaveReason;
use tg_sdk::endpoint::scaling::{OpenReason, ScalingRules};
use tg_sdk::endpoint::session::ServedBy;
use tg_sdk::{Client, OrderTerms, Wallet};
use tg_types::{Address, Amount, JobId};

use super::endpoint_files::{GroupFile, GroupFiles};
use super::endpoint_shared::{failed, served_by};
use crate::grid::connect;
use crate::grid::connect_args::TrustArguments;
use crate::grid::endpoint_args::{
    EndpointJobArguments, EndpointOpenArguments, EndpointTopUpArguments, PatienceArguments,
    ReplicaBounds,
};
use tg_console::files::entropy;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, line, say};
use tg_console::table::{Table, brief, short};

/// Events that one command prints as JSON at most.
const EVENTS_MAX: usize = 10_000;

/// What a group needs of this program.
pub(super) struct CommandHost {
    file: GroupFile,
    client: Client,
    trust: TrustArguments,
    events: Mutex<Vec<Value>>,
}

impl CommandHost {
    fn new(file: &GroupFile, client: &Client, trust: &TrustArguments) -> Arc<Self> {
        Arc::new(Self {
            file: file.clone(),
            client: client.clone(),
            trust: trust.clone(),
            events: Mutex::default(),
        })
    }

    /// What happened so far.
    pub(super) fn events(&self) -> Vec<Value> {
        let events = self.events.lock();
        events.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl GroupHost for CommandHost {
    fn keep(&self, record: &GroupRecord) -> io::Result<()> {
        let kept = self.file.keep(record);
        kept.map_err(|failure| io::Error::other(format!("{:#}", failure.error)))
    }

    fn money(&self) -> Option<Amount> {
        self.file.read().ok().map(|it| it.money)
    }

    fn served_by<'a>(
        &'a self,
        job: &'a JobDto,
    ) -> Pin<Box<dyn Future<Output = Result<ServedBy, HostError>> + Send + 'a>> {
        Box::pin(async move {
            let by = served_by(&self.client, (job.id, job), &self.trust).await;
            by.map_err(|failure| failure.error.into())
        })
    }

    fn tell(&self, event: &GroupEvent) {
        let (text, value) = told(event);
        say(text);
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < EVENTS_MAX {
            events.push(value);
        }
    }
}

/// An event in words and as JSON.
fn told(event: &GroupEvent) -> (String, Value) {
    match event {
        GroupEvent::Opened {
            job,
            provider,
            price,
            reason,
        } => {
            let because = match reason {
                OpenReason::Fewer => "",
                OpenReason::Queue => ": too many requests waited",
            };
            (
                format!(
                    "replica {} is served by {}{because}; {} TGRID a minute, {} a run",
                    brief(*job),
                    brief(*provider),
                    short(price.minute),
                    short(price.run)
                ),
                json!({
                    "event": "opened", "job": job.to_string(), "provider": provider.to_string(),
                    "minute": price.minute.to_string(), "run": price.run.to_string(),
                    "reason": match reason { OpenReason::Fewer => "fewer", OpenReason::Queue => "queue" },
                }),
            )
        }
        GroupEvent::Left {
            job,
            provider,
            reason,
            why,
        } => told_left((*job, *provider), *reason, why.as_deref()),
        GroupEvent::Ended { job, spent } => (
            format!(
                "replica {} has ended; {} TGRID of it are spent",
                brief(*job),
                short(*spent)
            ),
            json!({"event": "ended", "job": job.to_string(), "spent": spent.to_string()}),
        ),
        GroupEvent::Stalled { why, is_money } => (
            match is_money {
                true => format!("paused: {why}; `tensorgrid endpoint top-up` goes on with it"),
                false => format!("no replica was opened: {why}"),
            },
            json!({"event": "stalled", "why": why, "money": is_money}),
        ),
        GroupEvent::Problem { what } => (
            format!("note: {what}"),
            json!({"event": "problem", "what": what}),
        ),
    }
}

fn told_left(
    (job, provider): (JobId, Address),
    reason: LeaveReason,
    why: Option<&str>,
) -> (String, Value) {
    let (name, text) = match reason {
        LeaveReason::Lost => ("lost", "is lost"),
        LeaveReason::Spent => ("spent", "has spent its money"),
        LeaveReason::Idle => ("idle", "was asked nothing for long, and is closed"),
        LeaveReason::Closed => ("closed", "is closed"),
    };
    let more = why.map_or(String::new(), |it| format!(": {it}"));
    (
        format!("replica {} at {} {text}{more}", brief(job), brief(provider)),
        json!({
            "event": "left", "job": job.to_string(), "provider": provider.to_string(),
            "reason": name, "why": why,
        }),
    )
}

/// What failed of a group, as a person reads it.
pub(super) fn group_failed(error: GroupError) -> Failure {
    let (exit, hint) = match error {
        GroupError::Endpoint(error) => return failed(error),
        GroupError::Tried { .. } => (
            Exit::Unavailable,
            "ask again; those that failed were given up",
        ),
        GroupError::NoReplica { is_money: true, .. } => (
            Exit::Unavailable,
            "`tensorgrid endpoint top-up GROUP N` adds money; nothing that was answered is lost",
        ),
        GroupError::NoReplica { .. } => (
            Exit::Unavailable,
            "`tensorgrid provider list` shows who offers; --wait waits for longer",
        ),
        GroupError::NotKept(_) => (
            Exit::Failed,
            "nothing was ordered that is not in the record",
        ),
        GroupError::Open(ref error) => open_hint(error),
    };
    let failure = Failure::new(exit, error);
    match hint {
        "" => failure,
        hint => failure.hint(hint),
    }
}

fn open_hint(error: &ReplicaOpenError) -> (Exit, &'static str) {
    match error {
        ReplicaOpenError::Client(error) => (connect::exit_of_call(error), ""),
        ReplicaOpenError::NoOffer { .. } | ReplicaOpenError::NotBegun { .. } => (
            Exit::Unavailable,
            "`tensorgrid provider list` shows who offers; --fewer goes on with fewer replicas",
        ),
        ReplicaOpenError::SameProvider { .. } => (
            Exit::Unavailable,
            "--fewer goes on with fewer replicas, --same-provider has several at one provider",
        ),
        ReplicaOpenError::TooDear { .. } => (
            Exit::Unavailable,
            "--max-price and --max-run-price say what is allowed",
        ),
        ReplicaOpenError::NoMoney { .. } => (
            Exit::Rejected,
            "--money is divided by the most replicas: more of it, or fewer replicas",
        ),
        ReplicaOpenError::Order(_)
        | ReplicaOpenError::Over
        | ReplicaOpenError::Session(_)
        | ReplicaOpenError::Witness(_) => (Exit::Rejected, ""),
        ReplicaOpenError::NotKept(_) => (Exit::Failed, "nothing was ordered"),
    }
}

/// Groups in a table.
pub(super) fn table(groups: &[GroupRecord]) -> Table {
    let mut table = Table::new(&[
        "group", "id", "model", "replicas", "of", "money", "spent", "locked", "left", "lasts",
    ]);
    let now = tg_sdk::clock::now().get();
    for group in groups {
        let locked = group.replicas.iter().map(|it| it.locked);
        table.row(vec![
            group.name.clone(),
            group.id.clone(),
            group.model_name.clone(),
            group.replicas.len().to_string(),
            format!("{}..{}", group.min, group.max),
            short(group.money),
            short(group.spent),
            short(locked.fold(Amount::ZERO, Amount::saturating_add)),
            short(group.left()),
            format!(
                "{} min at most",
                group.until_ms.saturating_sub(now) / 60_000
            ),
        ]);
    }
    table
}

/// A group as JSON.
fn described(record: &GroupRecord, events: &[Value]) -> Value {
    let replicas = record.replicas.iter().map(|it| {
        json!({
            "job": it.job.to_string(), "provider": it.provider.map(|it| it.to_string()),
            "locked": it.locked.to_string(), "part": it.part,
        })
    });
    json!({
        "group": record.name, "id": record.id, "model": record.model.to_string(),
        "min": record.min, "max": record.max, "replicas": replicas.collect::<Vec<_>>(),
        "money": record.money.to_string(), "spent": record.spent.to_string(),
        "left": record.left().to_string(), "events": events,
    })
}

/// Founds a group.
pub(super) async fn open(
    (client, wallet): (&Client, &Wallet),
    arguments: &EndpointOpenArguments,
    (bounds, (model, quotes, terms)): (ReplicaBounds, (&ModelDto, &[QuoteDto], OrderTerms)),
    as_json: bool,
) -> Outcome {
    let wanted = &arguments.replicas;
    if arguments.needs.are_usual() && !wanted.same_provider {
        check_providers(bounds, quotes, wanted.fewer)?;
    }
    check_model(model)?;
    if wanted.trust.genesis.is_none() && !client.is_own_node() {
        let text = format!(
            "who serves a replica would only be what {} says",
            client.url()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
            "nothing was ordered; --genesis FILE (or TENSORGRID_GENESIS) has it proved by the validators",
        ));
    }
    let files = GroupFiles::of(&arguments.key, &wanted.groups);
    let name = wanted.name.clone().unwrap_or_else(|| model.name.clone());
    let file = files.new_file(&name)?;
    let record = new_record(wallet, (arguments, &name), (bounds, model, terms))?;
    let _using = file.in_use()?;
    let host = CommandHost::new(&file, client, &wanted.trust);
    let shown: Arc<dyn GroupHost> = Arc::<CommandHost>::clone(&host);
    let patience = GroupPatience::default();
    let founded =
        ReplicaGroup::found((client, wallet), record, shown, patience, wanted.fewer).await;
    let group = match founded {
        Ok(group) => group,
        Err(error) => {
            // What could not be closed in time stays in the file, and `endpoint close` ends it.
            if file.read()?.replicas.is_empty() {
                file.remove()?;
            }
            return Err(group_failed(error));
        }
    };
    let record = group.record();
    if as_json {
        let events = host.events();
        return Ok(tg_console::outcome::json(&described(&record, &events))?);
    }
    line(&name)?;
    say(format_args!(
        "group {name} ({}) has {} of {}..{} replicas, each with {} of {} TGRID",
        record.id,
        group.replicas().len(),
        record.min,
        record.max,
        record
            .replicas
            .first()
            .map_or_else(|| "none".to_owned(), |it| short(it.locked)),
        short(record.money),
    ));
    let api = connect::api_flag(client);
    say(format_args!(
        "next: tensorgrid endpoint ask {name} INPUT{api}, or endpoint write; tensorgrid endpoint close {name}{api}"
    ));
    Ok(())
}

/// The record of a group without replicas.
fn new_record(
    wallet: &Wallet,
    (arguments, name): (&EndpointOpenArguments, &str),
    (bounds, model, terms): (ReplicaBounds, &ModelDto, OrderTerms),
) -> Result<GroupRecord, Failure> {
    let wanted = &arguments.replicas;
    let drawn = entropy().or_fail(Exit::Failed, "draw an id")?;
    let drawn: String = drawn.iter().take(4).map(|it| format!("{it:02x}")).collect();
    let milliseconds = |it: std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
    let lasts = milliseconds(terms.deadline);
    let record = GroupRecord::new(GroupTerms {
        name: name.to_owned(),
        id: format!("g{drawn}"),
        account: wallet.address(),
        model: model.id,
        model_name: model.name.clone(),
        rules: ScalingRules {
            min: bounds.min,
            max: bounds.max,
            queue_max: wanted.queue.into(),
            queue_ms: milliseconds(wanted.queue_seconds),
            idle_ms: milliseconds(wanted.idle_seconds),
        },
        money: arguments.money,
        minute_max: wanted.max_price,
        run_max: wanted.max_run_price,
        same_provider: wanted.same_provider,
        until_ms: tg_sdk::clock::now().get().saturating_add(lasts),
        needs: terms.needs,
    });
    record.or_fail(Exit::Usage, "found the group")
}

/// Refuses models that are not asked by sessions of this program.
pub(super) fn check_model(model: &ModelDto) -> Outcome {
    if !model.is_served() {
        return Ok(());
    }
    let text = format!("`{}` is served by a provider's own server", model.name);
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
        "it is asked by the OpenAI API of a gateway, http://HOST/openai/v1, which uses this endpoint by itself",
    ))
}

/// Says at once that there are too few providers, before anything is ordered.
fn check_providers(bounds: ReplicaBounds, quotes: &[QuoteDto], may_be_fewer: bool) -> Outcome {
    let serving = quotes.iter().filter(|it| it.serves);
    let providers: BTreeSet<Address> = serving.map(|it| it.offer.provider).collect();
    let found = providers.len();
    if found >= bounds.min {
        return Ok(());
    }
    let have = if found == 1 {
        "provider has"
    } else {
        "providers have"
    };
    let text = format!(
        "{} replicas would be at {} distinct providers, and {found} {have} an offer that fits",
        bounds.min, bounds.min
    );
    if may_be_fewer && found > 0 {
        say(format_args!("{text}: going on with fewer"));
        return Ok(());
    }
    let failure = Failure::new(Exit::Rejected, anyhow::anyhow!(text));
    Err(failure.hint(
        "nothing was ordered; --fewer goes on with fewer replicas, --same-provider has several at one provider",
    ))
}

/// A group that a command uses.
pub(super) struct UsedGroup {
    pub(super) group: Arc<ReplicaGroup>,
    pub(super) host: Arc<CommandHost>,
    tended: tokio::task::JoinHandle<std::convert::Infallible>,
    _using: std::fs::File,
}

impl UsedGroup {
    /// Takes a group up and has it tended beside what is asked.
    pub(super) async fn take_up(
        (client, wallet): (&Client, &Wallet),
        file: &GroupFile,
        trust: &TrustArguments,
        patience: PatienceArguments,
    ) -> Result<Self, Failure> {
        let using = file.in_use()?;
        let record = file.read()?;
        check_account(&record, wallet)?;
        let host = CommandHost::new(file, client, trust);
        let shown: Arc<dyn GroupHost> = Arc::<CommandHost>::clone(&host);
        let patience = GroupPatience {
            silence: patience.patience,
            wait: patience.wait,
        };
        let group = ReplicaGroup::resume((client, wallet), record, shown, patience).await;
        let group = Arc::new(group.map_err(group_failed)?);
        let tending = Arc::clone(&group);
        let tended = tokio::spawn(async move { tending.tend().await });
        Ok(Self {
            group,
            host,
            tended,
            _using: using,
        })
    }

    /// Pays what is owed and closes what nobody tends any more.
    pub(super) async fn rest(self) -> Result<(), Failure> {
        self.tended.abort();
        // An error means that it has stopped.
        let _stopped = self.tended.await;
        self.group.rest().await.map_err(failed)
    }
}

fn check_account(record: &GroupRecord, wallet: &Wallet) -> Outcome {
    if record.account == wallet.address() {
        return Ok(());
    }
    let text = format!(
        "group {} is of account {}, and this key is of {}",
        record.name,
        record.account,
        wallet.address()
    );
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint("--key names another one"))
}

/// Adds money. A command that asks the group meanwhile goes on with it; if there is none, replicas are opened here up to the least number.
pub(super) async fn top_up(
    (client, wallet): (&Client, &Wallet),
    arguments: &EndpointTopUpArguments,
    as_json: bool,
) -> Outcome {
    let files = GroupFiles::of(&arguments.key, &arguments.groups);
    let (file, record) = files.named(&arguments.job)?;
    check_account(&record, wallet)?;
    let mut record = file.add(arguments.money)?;
    let mut events = Vec::new();
    if let Ok(_using) = file.in_use() {
        let host = CommandHost::new(&file, client, &arguments.trust);
        let shown: Arc<dyn GroupHost> = Arc::<CommandHost>::clone(&host);
        let patience = GroupPatience::default();
        let group = ReplicaGroup::resume((client, wallet), record, shown, patience).await;
        let group = group.map_err(group_failed)?;
        if let Err(error) = group.restore().await {
            say(format_args!("no replica was opened yet: {error}"));
        }
        record = group.record();
        events = host.events();
    }
    if as_json {
        return Ok(tg_console::outcome::json(&described(&record, &events))?);
    }
    Ok(line(format_args!(
        "group {} has {} TGRID in all: {} are spent, {} are not locked",
        record.name,
        short(record.money),
        short(record.spent),
        short(record.left())
    ))?)
}

/// Closes a group and forgets it.
pub(super) async fn close(
    (client, wallet): (&Client, &Wallet),
    arguments: &EndpointJobArguments,
    as_json: bool,
) -> Outcome {
    let files = GroupFiles::of(&arguments.key, &arguments.groups);
    let (file, _) = files.named(&arguments.job)?;
    let using = file.in_use()?;
    // As it is now that no other command changes it.
    let record = file.read()?;
    check_account(&record, wallet)?;
    say("its providers have some seconds for their last claims");
    let trust = TrustArguments {
        genesis: None,
        checkpoint: None,
        trusted: None,
        trust_gateway: false,
    };
    let host = CommandHost::new(&file, client, &trust);
    let shown: Arc<dyn GroupHost> = Arc::<CommandHost>::clone(&host);
    let closed = ReplicaGroup::close_all((client, wallet), record, shown).await;
    let closed = closed.map_err(group_failed)?;
    if !closed.replicas.is_empty() {
        let text = format!("{} replicas have not ended yet", closed.replicas.len());
        return Err(
            Failure::new(Exit::Unavailable, anyhow::anyhow!(text)).hint(format!(
                "tensorgrid endpoint close {} looks again",
                closed.name
            )),
        );
    }
    file.remove()?;
    drop(using);
    if as_json {
        let events = host.events();
        return Ok(tg_console::outcome::json(&described(&closed, &events))?);
    }
    Ok(line(format_args!(
        "group {} is closed: {} of {} TGRID were spent, the rest came back",
        closed.name,
        short(closed.spent),
        short(closed.money)
    ))?)
}
