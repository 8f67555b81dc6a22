//! `tensorgrid endpoint ask` and `endpoint write`: requests to an endpoint, or to the replicas of a group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tg_offline::models;
use tg_sdk::endpoint::group::GroupAnswer;
use tg_sdk::endpoint::session::{EndpointSession, ServedBy};
use tg_sdk::jobs;
use tg_sdk::{CheckedModel, Client, Wallet};
use tg_types::{Address, Amount, JobId, LeaseId};

use super::endpoint_files::GroupFiles;
use super::endpoint_group::{UsedGroup, check_model, group_failed};
use super::endpoint_shared::{Proofs, failed, hex, served_by};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::connect_args::TrustArguments;
use crate::grid::endpoint_args::{EndpointAskArguments, EndpointWriteArguments, PatienceArguments};
use crate::grid::trust::Trusting;
use tg_console::outcome::{self, Exit, Failure, OrFail as _, Outcome, line, part, say};
use tg_console::table::{brief, short};
use tg_console::tokens::rule_json;
use tg_offline::answer::ShownAnswer as _;
use tg_offline::generate::{TokenCoding, request};

/// Requests that are under way at once if each input is asked for by itself.
const PARALLEL_EACH: u32 = 32;

/// How often it is told how many were answered.
const TELL: Duration = Duration::from_secs(1);

/// Proved answers of one endpoint that are under way at once.
const PROOFS_MAX: u32 = 4;

/// Who is asked.
enum Asker {
    /// One endpoint.
    One(Box<EndpointSession>),
    /// The replicas of a group.
    Group(UsedGroup),
}

impl Asker {
    async fn ask(
        &self,
        input: &[u8],
        proof: Option<&CheckedModel>,
        piece: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<GroupAnswer, Failure> {
        let session = match self {
            Self::Group(used) => {
                let answer = used.group.ask(input, proof, piece).await;
                return answer.map_err(group_failed);
            }
            Self::One(session) => session,
        };
        let answer = match proof {
            Some(model) => session.ask_proved(input.to_vec(), model).await,
            None => session.ask(input.to_vec(), piece).await,
        };
        Ok(GroupAnswer {
            answer: answer.map_err(failed)?,
            job: session.job(),
            lease: session.lease(),
            provider: session.provider(),
            tries: 1,
        })
    }

    /// Has an answer that came proved, by whoever is asked next: a proof shows what is right, whoever makes it.
    async fn prove_afterwards(
        &self,
        input: &[u8],
        given: &GroupAnswer,
        model: &CheckedModel,
    ) -> Result<(), Failure> {
        if let Self::One(session) = self {
            let proved = session.prove_afterwards(input.to_vec(), &given.answer, model);
            return proved.await.map(drop).map_err(failed);
        }
        let proved = self.ask(input, Some(model), &mut |_| {}).await?;
        // Stops: a provider that computes what it is asked to prove, and invents the rest.
        if proved.answer.output == given.answer.output {
            return Ok(());
        }
        let text = format!(
            "answer {} of {} was wrong: asked for a proof afterwards, {} proved another output",
            given.answer.number, given.provider, proved.provider
        );
        Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
            .hint("believe none of its answers; `endpoint close` ends the group"))
    }

    fn group_name(&self) -> Option<String> {
        match self {
            Self::One(_) => None,
            Self::Group(used) => Some(used.group.record().name),
        }
    }

    fn events(&self) -> Vec<Value> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Group(used) => used.host.events(),
        }
    }

    /// What was promised to each provider.
    fn vouchers(&self) -> Vec<LeaseVoucher> {
        match self {
            Self::One(session) => vec![LeaseVoucher {
                job: session.job(),
                lease: session.lease(),
                amount: session.owed().amount,
            }],
            Self::Group(used) => {
                let replicas = used.group.replicas().into_iter();
                let vouchers = replicas.map(|it| LeaseVoucher {
                    job: it.job,
                    lease: it.lease,
                    amount: it.owed.amount,
                });
                vouchers.collect()
            }
        }
    }

    /// Pays what came.
    async fn rest(self) -> Result<(), Failure> {
        match self {
            Self::One(session) => session.pay().await.map_err(failed),
            Self::Group(used) => used.rest().await,
        }
    }
}

/// All that is owed in a lease, by a voucher that its provider has.
#[derive(Debug, Clone, Copy)]
struct LeaseVoucher {
    job: JobId,
    lease: LeaseId,
    amount: Amount,
}

/// What vouchers promise beyond what was claimed on the ledger: the most that whoever holds them can gain by what it answered, whether that was
/// right or not. As long as nobody shows what was claimed, all that they promise.
///
/// With a genesis a final state shows it. Stops: a gateway in league with a provider, which tells all as claimed.
async fn unclaimed(
    (client, trust): (&Client, &TrustArguments),
    vouchers: &[LeaseVoucher],
) -> Amount {
    // What came is paid: a proof that fails makes the number greater and ends nothing.
    let mut trusting = Trusting::begin(client, trust).await.ok().flatten();
    let mut sum = Amount::ZERO;
    for voucher in vouchers {
        let claimed = match &mut trusting {
            Some(trusting) => {
                let shown = trusting.lease(voucher.lease).await.ok();
                let meter = shown.and_then(|it| it.value?.meter);
                meter.map(|it| it.vouchers)
            }
            // Nobody is asked without a genesis but one's own node.
            None if trust.genesis.is_none() => as_told(client, voucher).await,
            None => None,
        };
        let claimed = claimed.unwrap_or(Amount::ZERO);
        sum = sum.saturating_add(voucher.amount.saturating_sub(claimed));
    }
    if let Some(trusting) = &trusting {
        trusting.keep();
    }
    sum
}

/// What was claimed by vouchers of a lease, as the API says.
async fn as_told(client: &Client, voucher: &LeaseVoucher) -> Option<Amount> {
    let job = client.job(voucher.job).await.ok()?;
    let lease = job.leases.iter().find(|it| it.id == voucher.lease)?;
    lease.meter.as_ref().map(|it| it.vouchers)
}

/// What may still go wrong with what was promised, in words.
fn at_risk(unclaimed: Amount) -> String {
    format!(
        "{} TGRID of vouchers not claimed yet, the most that a provider or gateway that cheats gains by them",
        short(unclaimed)
    )
}

/// An endpoint or a group, with the model that it serves.
struct OpenEndpoint {
    asker: Asker,
    checked: CheckedModel,
}

/// What names an endpoint or a group.
struct EndpointPlace<'a> {
    name: &'a str,
    trust: &'a TrustArguments,
    files: GroupFiles,
    patience: PatienceArguments,
}

async fn opened(
    (client, wallet): (&Client, &Wallet),
    place: EndpointPlace<'_>,
) -> Result<OpenEndpoint, Failure> {
    if let Some((file, record)) = place.files.find(place.name)? {
        let model = client.model(record.model).await.calling("find the model")?;
        check_model(&model)?;
        let checked = jobs::public_model(client, &model).await.of_job()?;
        let used = UsedGroup::take_up((client, wallet), &file, place.trust, place.patience).await?;
        let asker = Asker::Group(used);
        return Ok(OpenEndpoint { asker, checked });
    }
    let id = connect::job(client, place.name).await?;
    let job = client.job(id).await.calling("ask for the job")?;
    let by = served_by(client, (id, &job), place.trust).await?;
    let model = match &by {
        ServedBy::Proved(lease) => lease.model,
        ServedBy::AsTold => job.model,
    };
    let model = client.model(model).await.calling("find the model")?;
    check_model(&model)?;
    let checked = jobs::public_model(client, &model).await.of_job()?;
    let session = EndpointSession::open(client, wallet, id, &by).await;
    let asker = Asker::One(Box::new(session.map_err(failed)?));
    Ok(OpenEndpoint { asker, checked })
}

/// An input and what it is of.
struct NamedRequest {
    name: String,
    input: Vec<u8>,
}

fn requests(
    arguments: &EndpointAskArguments,
    model: &CheckedModel,
) -> Result<Vec<NamedRequest>, Failure> {
    let read = match arguments.each {
        true => models::each_input(&arguments.inputs, model.program())?,
        false => {
            let folder = arguments.inputs.iter().find(|it| it.is_dir());
            if let Some(folder) = folder {
                let text = format!("{} is a folder", folder.display());
                return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
                    .hint("--each asks for each file of it by itself"));
            }
            let reals = models::inputs(&arguments.inputs, model.program())?;
            vec![("the input".to_owned(), reals)]
        }
    };
    let mut requests = Vec::with_capacity(read.len());
    for (name, reals) in read {
        let input = model.stored_input(&reals);
        let input = input.or_fail(Exit::Usage, format!("take {name}"))?;
        requests.push(NamedRequest { name, input });
    }
    Ok(requests)
}

pub(super) async fn ask(arguments: &EndpointAskArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let place = EndpointPlace {
        name: &arguments.job,
        trust: &arguments.trust,
        files: GroupFiles::of(&arguments.key, &arguments.groups),
        patience: arguments.patience,
    };
    let OpenEndpoint { asker, checked } = opened((&client, &wallet), place).await?;
    let requests = requests(arguments, &checked)?;
    let asking = Arc::new(GroupAsking {
        asker,
        checked,
        requests,
        proofs: Proofs::of(arguments),
        each: arguments.each,
        raw: arguments.raw,
        as_json,
        next: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        times: arguments.times,
    });
    let started = Instant::now();
    let told = GroupAsking::ask_all(&asking, parallel(arguments, &asking)).await;
    let elapsed = started.elapsed();
    let asking = Arc::try_unwrap(asking);
    let asking = asking.map_err(|_| anyhow::anyhow!("a request goes on after the last one"))?;
    let owed = match &asking.asker {
        Asker::One(session) => Some(session.owed()),
        Asker::Group(_) => None,
    };
    let vouchers = asking.asker.vouchers();
    let (group, checked) = (asking.asker.group_name(), asking.checked);
    // Those of the end are told as they happen.
    let events = asking.asker.events();
    // What came is paid, whatever became of the rest.
    let paid = asking.asker.rest().await;
    let told = told?;
    paid?;
    let unclaimed = Box::pin(unclaimed((&client, &arguments.trust), &vouchers)).await;
    let summary = Summary {
        told: &told,
        elapsed,
        owed,
        unclaimed,
        group,
        events,
    };
    match as_json {
        true => outcome::json(&summary.json(arguments, &checked)?)?,
        false => summary.print(arguments, &checked)?,
    }
    match told.failed {
        0 => Ok(()),
        failed => {
            let text = format!(
                "{failed} of {} inputs have no answer",
                told.failed + told.answered()
            );
            Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)))
        }
    }
}

/// How many requests are under way at once.
fn parallel(arguments: &EndpointAskArguments, asking: &GroupAsking) -> u32 {
    let usual = if arguments.each { PARALLEL_EACH } else { 1 };
    let asked = arguments.parallel.map_or(usual, u32::from);
    // A provider has no more proofs under way that are not paid for; a group sees to it by itself.
    match (&asking.asker, asking.proofs) {
        (Asker::Group(_), _) | (Asker::One(_), Proofs::None) => asked,
        (Asker::One(_), Proofs::Each | Proofs::OneIn(_)) => asked.min(PROOFS_MAX),
    }
}

/// What is asked, by several tasks.
struct GroupAsking {
    asker: Asker,
    checked: CheckedModel,
    requests: Vec<NamedRequest>,
    proofs: Proofs,
    each: bool,
    raw: bool,
    as_json: bool,
    /// How many were taken, and how many answered.
    next: AtomicU64,
    answered: AtomicU64,
    /// How often each is asked for.
    times: u32,
}

/// What one replica answered.
#[derive(Debug, Clone, Copy)]
struct ReplicaTally {
    lease: LeaseId,
    provider: Address,
    answered: u64,
    price: Amount,
}

/// What came.
#[derive(Default)]
struct AnswerTally {
    last: Option<GroupAnswer>,
    times: Vec<Duration>,
    /// How many answers were drawn after they came, and proved.
    checked: u32,
    by: BTreeMap<JobId, ReplicaTally>,
    /// What is told of each request, if each is asked for by itself.
    each: BTreeMap<u64, Value>,
    failed: usize,
}

impl AnswerTally {
    const fn answered(&self) -> usize {
        self.times.len()
    }

    fn take(&mut self, given: GroupAnswer, took: Duration) {
        let tally = self.by.entry(given.job).or_insert(ReplicaTally {
            lease: given.lease,
            provider: given.provider,
            answered: 0,
            price: Amount::ZERO,
        });
        tally.answered += 1;
        tally.price = tally.price.saturating_add(given.answer.price);
        self.times.push(took);
        self.last = Some(given);
    }

    fn add(&mut self, other: Self) {
        let Self {
            last,
            times,
            checked,
            by,
            each,
            failed,
        } = other;
        self.last = last.or(self.last.take());
        self.times.extend(times);
        self.checked += checked;
        for (job, tally) in by {
            let before = self.by.entry(job).or_insert(ReplicaTally {
                answered: 0,
                price: Amount::ZERO,
                ..tally
            });
            before.answered += tally.answered;
            before.price = before.price.saturating_add(tally.price);
        }
        self.each.extend(each);
        self.failed += failed;
    }
}

impl GroupAsking {
    /// Asks for everything, so many at once. Of inputs that are each asked for by themselves one that fails does not stop the others.
    async fn ask_all(asking: &Arc<Self>, parallel: u32) -> Result<AnswerTally, Failure> {
        let mut tasks = tokio::task::JoinSet::new();
        let all = u64::from(asking.times).saturating_mul(asking.requests.len() as u64);
        for _ in 0..u64::from(parallel).min(all) {
            let asking = Arc::clone(asking);
            tasks.spawn(async move { asking.ask_some(all).await });
        }
        let mut told = AnswerTally::default();
        let mut failed = None;
        let mut progress = tokio::time::interval_at(tokio::time::Instant::now() + TELL, TELL);
        loop {
            let ended = tokio::select! {
                ended = tasks.join_next() => ended,
                _ = progress.tick() => {
                    let answered = asking.answered.load(Ordering::Relaxed);
                    say(format_args!("{answered} of {all} answered"));
                    continue;
                }
            };
            let Some(ended) = ended else {
                break;
            };
            match ended {
                Ok(Ok(some)) => told.add(some),
                // The others end what they ask; what comes is paid.
                Ok(Err(failure)) => {
                    asking.next.store(all, Ordering::Relaxed);
                    failed = failed.or(Some(failure));
                }
                Err(error) => return Err(anyhow::anyhow!("a request failed: {error}").into()),
            }
        }
        match failed {
            Some(failure) => Err(failure),
            None => Ok(told),
        }
    }

    async fn ask_some(&self, all: u64) -> Result<AnswerTally, Failure> {
        let mut told = AnswerTally::default();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= all {
                return Ok(told);
            }
            let request = &self.requests[number as usize % self.requests.len()];
            let asked = Instant::now();
            let given = self.ask_one(&request.input, &mut told.checked).await;
            let took = asked.elapsed();
            let given = match given {
                Ok(given) => given,
                Err(failure) if !self.each => return Err(failure),
                Err(failure) => {
                    let text = format!("{:#}", failure.error);
                    self.say_failed(&request.name, &text)?;
                    let value = json!({"input": request.name, "error": text});
                    told.each.insert(number, value);
                    told.failed += 1;
                    continue;
                }
            };
            self.answered.fetch_add(1, Ordering::Relaxed);
            if self.each {
                let value = self.tell(request, &given, took)?;
                told.each.insert(number, value);
            }
            told.take(given, took);
        }
    }

    async fn ask_one(&self, input: &[u8], checked: &mut u32) -> Result<GroupAnswer, Failure> {
        let model = (self.proofs == Proofs::Each).then_some(&self.checked);
        let given = self.asker.ask(input, model, &mut |_| {}).await?;
        if self.proofs.draws()? {
            self.asker
                .prove_afterwards(input, &given, &self.checked)
                .await?;
            *checked += 1;
        }
        Ok(given)
    }

    fn say_failed(&self, name: &str, text: &str) -> Outcome {
        if !self.as_json {
            line(format_args!("{name}: no answer: {text}"))?;
        }
        Ok(())
    }

    /// Tells an answer as it comes, and gives its receipt.
    fn tell(
        &self,
        request: &NamedRequest,
        given: &GroupAnswer,
        took: Duration,
    ) -> Result<Value, Failure> {
        let GroupAnswer {
            answer,
            job,
            lease,
            provider,
            tries,
        } = given;
        let values = self.checked.output(&answer.output);
        let values = values.or_fail(Exit::Rejected, "read the answer")?;
        let answers = self.checked.answers(&values);
        if !self.as_json {
            let text: Vec<String> = answers
                .lines(self.raw)
                .iter()
                .map(ToString::to_string)
                .collect();
            line(format_args!(
                "{}: {}; answer {} of replica {} at {}, {} TGRID, {:.1} ms",
                request.name,
                text.join(", "),
                answer.number,
                brief(*job),
                brief(*provider),
                short(answer.price),
                took.as_secs_f64() * 1e3
            ))?;
            return Ok(Value::Null);
        }
        Ok(json!({
            "input": request.name, "values": values, "answer": answers.json(),
            "number": answer.number, "job": job.to_string(), "lease": lease.to_string(),
            "provider": provider.to_string(), "price": answer.price.to_string(),
            "signature": hex(&answer.signature.to_rsv()), "asked_of": tries,
            "proof_bytes": answer.proof.as_ref().map(Vec::len), "ms": took.as_secs_f64() * 1e3,
        }))
    }
}

/// What a command says in the end.
struct Summary<'a> {
    told: &'a AnswerTally,
    elapsed: Duration,
    /// What is owed by the only lease.
    owed: Option<tg_types::Voucher>,
    /// What was promised and not claimed on the ledger.
    unclaimed: Amount,
    group: Option<String>,
    events: Vec<Value>,
}

impl Summary<'_> {
    fn per_second(&self) -> f64 {
        self.told.answered() as f64 / self.elapsed.as_secs_f64()
    }

    /// The time below which so many of a thousand answers came, in milliseconds.
    fn at(&self, permille: usize) -> f64 {
        let mut times = self.told.times.clone();
        times.sort_unstable();
        let index = (times.len().saturating_sub(1)) * permille / 1_000;
        times.get(index).map_or(0.0, |it| it.as_secs_f64() * 1e3)
    }

    fn price(&self) -> Amount {
        let prices = self.told.by.values().map(|it| it.price);
        prices.fold(Amount::ZERO, Amount::saturating_add)
    }

    fn json(
        &self,
        arguments: &EndpointAskArguments,
        checked: &CheckedModel,
    ) -> Result<Value, Failure> {
        let replicas = self.told.by.iter().map(|(job, it)| {
            json!({
                "job": job.to_string(), "lease": it.lease.to_string(),
                "provider": it.provider.to_string(), "answered": it.answered,
                "price": it.price.to_string(),
            })
        });
        let mut told = json!({
            "asked": self.told.answered() + self.told.failed, "per_second": self.per_second(),
            "p50_ms": self.at(500), "p99_ms": self.at(990),
            "answered": self.owed.map_or(self.told.answered() as u64, |it| it.answered),
            "owed": self.owed.map_or(self.price(), |it| it.amount).to_string(),
            "unclaimed": self.unclaimed.to_string(),
            "proved_afterwards": self.told.checked, "group": self.group,
            "replicas": replicas.collect::<Vec<_>>(), "events": self.events,
        });
        if arguments.each {
            told["requests"] = self.told.each.values().cloned().collect();
        }
        if let Some(last) = &self.told.last {
            let values = checked.output(&last.answer.output);
            let values = values.or_fail(Exit::Rejected, "read the answer")?;
            told["answer"] = checked.answers(&values).json();
            told["values"] = json!(values);
            told["job"] = json!(last.job.to_string());
            told["lease"] = json!(last.lease.to_string());
            told["provider"] = json!(last.provider.to_string());
            told["number"] = json!(last.answer.number);
            told["price"] = json!(last.answer.price.to_string());
            told["signature"] = json!(hex(&last.answer.signature.to_rsv()));
            told["proof_bytes"] = json!(last.answer.proof.as_ref().map(Vec::len));
        }
        Ok(told)
    }

    fn print(&self, arguments: &EndpointAskArguments, checked: &CheckedModel) -> Outcome {
        let Some(last) = &self.told.last else {
            return Ok(());
        };
        if !arguments.each {
            let values = checked.output(&last.answer.output);
            let values = values.or_fail(Exit::Rejected, "read the answer")?;
            for text in checked.answers(&values).lines(arguments.raw) {
                line(text)?;
            }
        }
        let checked = match (&last.answer.proof, arguments.prove_one_in) {
            (Some(proof), _) => format!(
                "each proved and checked here ({} bytes the last one)",
                proof.len()
            ),
            (None, Some(_)) => format!(
                "{} of them drawn afterwards, proved and checked here",
                self.told.checked
            ),
            (None, None) => "checked by nobody but you".to_owned(),
        };
        let by = match self.group {
            None => brief(last.provider),
            Some(_) => "whoever gave each".to_owned(),
        };
        line(format_args!(
            "{} answers, {:.0} a second; p50 {:.1} ms, p99 {:.1} ms; signed by {by}, {checked}",
            self.told.answered(),
            self.per_second(),
            self.at(500),
            self.at(990),
        ))?;
        let Some(owed) = self.owed else {
            for (job, it) in &self.told.by {
                line(format_args!(
                    "replica {} at {}: {} answers, {} TGRID",
                    brief(*job),
                    brief(it.provider),
                    it.answered,
                    short(it.price)
                ))?;
            }
            return Ok(line(at_risk(self.unclaimed))?);
        };
        line(format_args!(
            "{} TGRID for the last one, {} for all {} of this lease so far",
            short(last.answer.price),
            short(owed.amount),
            owed.answered
        ))?;
        Ok(line(at_risk(self.unclaimed))?)
    }
}

pub(super) async fn write(arguments: &EndpointWriteArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let place = EndpointPlace {
        name: &arguments.job,
        trust: &arguments.trust,
        files: GroupFiles::of(&arguments.key, &arguments.groups),
        patience: arguments.patience,
    };
    let OpenEndpoint { asker, checked } = opened((&client, &wallet), place).await?;
    let generator = checked.generator();
    let generator = generator.or_fail(Exit::Usage, "the model cannot write")?;
    let coding = TokenCoding::of(&arguments.what, checked.program(), &generator)?;
    let request = request(&arguments.what, &generator, &coding)?;
    let input = checked.request(&request);
    let input = input.or_fail(Exit::Usage, "take the prompt")?;
    let started = Instant::now();
    let (mut pieces, mut first) = (Vec::new(), None);
    let mut shown = String::new();
    let mut piece = |bytes: &[u8]| {
        first.get_or_insert_with(|| started.elapsed());
        pieces.extend_from_slice(bytes);
        // Only what is whole text so far is shown; the answer says all of it.
        let is_shown = !as_json || arguments.stream;
        if is_shown && let Some(text) = text_so_far(&coding, &request.prompt, &pieces) {
            let new = text.strip_prefix(shown.as_str()).unwrap_or_default();
            if !new.is_empty() && !new.ends_with(char::REPLACEMENT_CHARACTER) {
                show_piece(new, as_json);
                shown = text;
            }
        }
    };
    let given = asker.ask(&input, None, &mut piece).await;
    let (group, vouchers) = (asker.group_name(), asker.vouchers());
    let paid = asker.rest().await;
    let given = given?;
    let answer = &given.answer;
    paid?;
    let unclaimed = Box::pin(unclaimed((&client, &arguments.trust), &vouchers)).await;
    let tokens = checked.written(&answer.output);
    let tokens = tokens.or_fail(Exit::Rejected, "read the answer")?;
    let text = coding.text(&request.prompt, &tokens)?;
    let elapsed = started.elapsed();
    let first_ms = first.map(|it| it.as_secs_f64() * 1e3);
    if as_json {
        let whole = json!({
            "job": given.job.to_string(), "provider": given.provider.to_string(),
            "group": group, "lease": given.lease.to_string(), "number": answer.number,
            "prompt": request.prompt, "tokens": tokens, "text": text,
            "sampling": rule_json(&request.sampling, generator.unit),
            "price": answer.price.to_string(), "unclaimed": unclaimed.to_string(), "first_ms": first_ms,
            "elapsed_ms": elapsed.as_secs_f64() * 1e3, "signature": hex(&answer.signature.to_rsv()),
        });
        return match arguments.stream {
            true => end_stream(&whole, text.as_deref(), &shown),
            false => Ok(outcome::json(&whole)?),
        };
    }
    let written = text.unwrap_or_else(|| numbers(&tokens));
    line(written.strip_prefix(shown.as_str()).unwrap_or(&written))?;
    say(format_args!(
        "{} tokens in {:.2} s, the first after {:.0} ms; {} TGRID; {}",
        tokens.len(),
        elapsed.as_secs_f64(),
        first_ms.unwrap_or(elapsed.as_secs_f64() * 1e3),
        short(answer.price),
        at_risk(unclaimed)
    ));
    Ok(())
}

/// Tokens that are no text.
fn numbers(tokens: &[u32]) -> String {
    let tokens: Vec<String> = tokens.iter().map(u32::to_string).collect();
    tokens.join(",")
}

/// The last lines of a stream of JSON: what was not shown of the text, and the whole.
fn end_stream(whole: &Value, text: Option<&str>, shown: &str) -> Outcome {
    if let Some(rest) = text.and_then(|it| it.strip_prefix(shown)) {
        show_piece(rest, true);
    }
    Ok(line(whole)?)
}

/// Shows what was written since the last piece.
fn show_piece(text: &str, as_json: bool) {
    if text.is_empty() {
        return;
    }
    // Nobody may read any more: what is computed is paid all the same.
    let _gone = match as_json {
        true => part(format_args!("{}\n", serde_json::json!({ "piece": text }))),
        false => part(text),
    };
}

/// What pieces of an answer say so far, if tokens are text.
fn text_so_far(coding: &TokenCoding, prompt: &[u32], pieces: &[u8]) -> Option<String> {
    let (words, _) = pieces.as_chunks::<4>();
    let tokens: Vec<u32> = words.iter().map(|it| u32::from_le_bytes(*it)).collect();
    coding.text(prompt, &tokens).ok().flatten()
}
