//! Sealed jobs: `tensorgrid infer --seal`, `job grant`, `job reveal`, and `job fetch` of one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tg_float::job::FloatAnswer;
use tg_sdk::dto::{JobDto, JobReceiptDto, JobStateDto, LeaseDto, ModeDto, ModelDto};
use tg_sdk::jobs::{self, JobError, OrderedJob};
use tg_sdk::sealed::{self, GrantTo, JobKey};
use tg_sdk::{CheckedModel, Client, Wallet, clock};
use tg_types::{Decode as _, Digest, JobId, LeaseId, Tier};

use super::interrupted::{LeftRunning, unless_interrupted};
use super::order::{confirm, detached, dry_run, print_dry_run, quotes, terms};
use super::sealed_shared::{KeyStage, NotKnown, input_of, known, refuse_word};
use super::{ask_to_proceed, challenge, float, json_of, proved, wallet};
use crate::grid::connect::{self, Calling as _, OfJob as _};
use crate::grid::describe::{BesideReceipt, Shown, describe_receipt};
use crate::grid::infer_args::InferArguments;
use crate::grid::job_args::{JobFetchArguments, JobGrantArguments, JobRevealArguments};
use crate::grid::projects::{ProjectNote, tell_ordered};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, OrFail as _, Outcome, json, line, say};
use tg_console::table::brief;
use tg_console::verify::{Verify, VerifyChoice};
use tg_offline::answer::ShownAnswer as _;
use tg_offline::text;

/// Between two looks at a job.
const POLL: Duration = Duration::from_millis(200);

/// How long the grid may be away, or give no proofs, while a job is followed.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// After how long what was sent and had no effect is sent again.
const AGAIN: Duration = Duration::from_secs(5);

/// After how long a proof is asked for again.
const PROOF_AGAIN: Duration = Duration::from_secs(1);

/// How long what the API tells may be missing in what can be proved, before a key is shown.
const PROVED_MAX: Duration = Duration::from_secs(5);

/// Orders a sealed job, grants its key, and prints the answer.
pub(super) async fn infer(arguments: &InferArguments, as_json: bool) -> Outcome {
    refuse_mode(arguments.verify)?;
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let mut trusting = Trusting::begin(&client, &arguments.chain).await?;
    if !arguments.order.dry_run {
        refuse_word(&client, trusting.as_ref())?;
    }
    let model = connect::model(&client, &arguments.model).await?;
    refuse_model(&model)?;
    let reading = AnswerReading::of(&client, &model).await?;
    let plain = reading.input(&client, &model, arguments).await?;
    let made = sealed::seal(&wallet, model.id, &plain).of_job()?;
    let order = &arguments.order;
    let project = ProjectNote::of(order.project.as_deref(), &arguments.key)?;
    let quotes = quotes(&client, (&model, ModeDto::Sealed), order).await?;
    let asked = (ModeDto::Sealed, None, order);
    let input = (model.id, made.bytes.as_slice());
    let terms = terms(&client, &wallet, asked, &quotes, input).await?;
    if order.dry_run {
        return print_dry_run(&dry_run(&client, &wallet, input, terms).await?, as_json);
    }
    say(who_sees(arguments.seal.reveal));
    if !order.yes {
        confirm(&model, &quotes, terms)?;
    }
    let right = match arguments.seal.reveal {
        true => Some(challenge::own_answer(&client, &model, plain).await?),
        false => None,
    };
    let id = jobs::order_of(&client, &wallet, model.id, made.bytes.clone(), terms).await;
    let id = id.of_job()?;
    tell_ordered("", id, project.as_ref());
    let ordered = OrderedJob::new(id, model.id, &made.bytes, ModeDto::Sealed);
    if arguments.detach {
        say(format_args!(
            "each lease waits half a minute for the key from a command that runs: tensorgrid job grant {id}, or job fetch {id}, with the same key file"
        ));
        return detached(&client, &ordered, as_json).await;
    }
    let of = (id, ordered.input);
    let wait = Box::pin(async {
        let mut tending = Tending {
            right: right.as_deref(),
            ..Tending::of(&client, &wallet, &made.key, of, &mut trusting)
        };
        let job = tending.follow(Until::Ended).await?;
        let shown = (&reading, arguments.raw, as_json);
        finish((&client, &made.key), (&ordered, &job, trusting), shown).await
    });
    let left = || vec![LeftRunning::Ordered(ordered)];
    unless_interrupted((&client, Some(&wallet)), left, wait).await?;
    wallet::hint(&arguments.key);
    Ok(())
}

/// Waits for a sealed job that was ordered before, grants its key if nobody has, and prints the answer.
pub(super) async fn fetch(
    client: &Client,
    (ordered, trusting): (&OrderedJob, Option<Trusting>),
    arguments: &JobFetchArguments,
    as_json: bool,
) -> Outcome {
    let mut trusting = trusting;
    let wallet = connect::wallet(client, &arguments.key).await?;
    let model = client.model(ordered.model).await;
    let model = model.calling("find the model")?;
    let reading = AnswerReading::of(client, &model).await?;
    let key = sealed::key_of(client, &wallet, ordered.input).await;
    let key = key.of_job()?;
    let of = (ordered.job, ordered.input);
    let mut tending = Tending::of(client, &wallet, &key, of, &mut trusting);
    let job = tending.follow(Until::Ended).await?;
    let shown = (&reading, arguments.raw, as_json);
    finish((client, &key), (ordered, &job, trusting), shown).await
}

/// Grants the key of a job to each provider that gets it, until one runs it.
pub(super) async fn grant(arguments: &JobGrantArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let id = connect::job(&client, &arguments.job).await?;
    let mut trusting = Trusting::begin(&client, &arguments.trust).await?;
    refuse_word(&client, trusting.as_ref())?;
    let job = sealed_job(&client, id).await?;
    let input = input_of(&mut trusting, &job).await?;
    let key = sealed::key_of(&client, &wallet, input).await.of_job()?;
    let mut tending = Tending::of(&client, &wallet, &key, (id, input), &mut trusting);
    let wait = Box::pin(tending.follow(Until::Running));
    let left = || vec![LeftRunning::Told(id)];
    let job = unless_interrupted((&client, Some(&wallet)), left, wait).await?;
    match as_json {
        true => json_of(&job),
        false => Ok(line(format_args!("job {id} is {}", job.state))?),
    }
}

/// Shows the key of a job to everybody.
pub(super) async fn reveal(arguments: &JobRevealArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let id = connect::job(&client, &arguments.job).await?;
    let mut trusting = Trusting::begin(&client, &arguments.trust).await?;
    refuse_word(&client, trusting.as_ref())?;
    let job = sealed_job(&client, id).await?;
    let live = job.leases.iter().find(|it| may_reveal(it));
    let Some(lease) = live else {
        let text = format!(
            "job {id} is {}: its key is shown only while its provider says that it does not open the input, or while its result may be doubted",
            job.state
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    };
    let input = input_of(&mut trusting, &job).await?;
    let key = sealed::key_of(&client, &wallet, input).await.of_job()?;
    say(match KeyStage::told(lease) {
        KeyStage::Contestable(output) => {
            format!("its answer {output} may be doubted, for the fee of mode recompute")
        }
        _ => "its provider says that the key opens nothing".to_owned(),
    });
    if !arguments.yes {
        say(
            "whoever reads blocks then reads the input and the answer of this job, for good, and of every other one that ordered the same \
             sealed bytes",
        );
        ask_to_proceed("nothing was shown", "--yes shows it without asking")?;
    }
    prove_ground(&client, &mut trusting, (id, input), lease).await?;
    let shown = sealed::reveal(&client, &wallet, (id, lease.id), &key).await;
    shown.of_job()?;
    say("shown; validators look");
    let job = client.job(id).await.calling("ask for the job")?;
    match as_json {
        true => json_of(&job),
        false => Ok(line(format_args!("job {id} is {}", job.state))?),
    }
}

/// Fails unless the key of a job may be shown now, about what the API tells. Stops: one that tells a question, or an answer that may be doubted,
/// only to be shown the key.
async fn prove_ground(
    client: &Client,
    trusting: &mut Option<Trusting>,
    of: (JobId, Digest),
    lease: &LeaseDto,
) -> Outcome {
    let asked = Instant::now();
    let told = KeyStage::told(lease);
    loop {
        let found = Box::pin(known(client, trusting, of, lease)).await;
        let is_late = asked.elapsed() > PROVED_MAX;
        match found {
            Ok(KeyStage::Questioned) if told == KeyStage::Questioned => return Ok(()),
            Ok(proved @ KeyStage::Contestable(_)) if told == proved => return Ok(()),
            Err(NotKnown::Otherwise(failure)) => return Err(failure),
            Err(NotKnown::Yet(failure)) if is_late => return Err(failure),
            Ok(_) if is_late => {
                let text = format!(
                    "no final state has that the provider of lease {} doubts the key, nor that its answer may be doubted: nothing was shown",
                    lease.id
                );
                return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(
                    "the API lies or is ahead of its proofs: another one is named with --api",
                ));
            }
            Ok(_) | Err(NotKnown::Yet(_)) => tokio::time::sleep(POLL).await,
        }
    }
}

/// A job of mode sealed.
async fn sealed_job(client: &Client, id: JobId) -> Result<JobDto, Failure> {
    let job = client.job(id).await.calling("ask for the job")?;
    if job.mode == ModeDto::Sealed {
        return Ok(job);
    }
    let text = format!("job {id} is of mode {}: it has no key", job.mode);
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
}

/// Refuses a way of checking in which somebody would have to read what is sealed.
fn refuse_mode(verify: Option<VerifyChoice>) -> Outcome {
    let Some(verify) = verify.map(|it| it.verify) else {
        return Ok(());
    };
    let readers = match verify {
        Verify::None => {
            "validators would hold the answer in the clear, and nobody could ever say that it is wrong"
        }
        Verify::Proof => {
            "every validator would read the input and the answer, which the proof shows"
        }
        Verify::Recompute => "every validator would read the input, to run the model on it",
        Verify::Sync => {
            "a drawn committee of validators would read the input, to compute parts of the run"
        }
        Verify::Optimistic => "a drawn validator would read the input, to run the model on it",
        Verify::Replicate => {
            "several providers would read the input, and every validator where they differ"
        }
    };
    let text = format!("--seal and --verify {}: {readers}", verify.mode());
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(
        "leave --verify out: a sealed answer is checked by you alone, and by validators if you show the key (--reveal)",
    ))
}

/// Refuses a model whose input cannot be sealed.
fn refuse_model(model: &ModelDto) -> Outcome {
    let tier = model.facts.as_ref().map(|facts| facts.tier.as_str());
    let why = match tier {
        Some(tier) if tier == Tier::Wasm1.as_str() => {
            "a program: what its run takes says too much of its input"
        }
        Some(tier) if tier == Tier::Served.as_str() => {
            "served by its provider's own server as an endpoint, whose requests and answers are sealed between the two ends already"
        }
        _ => return Ok(()),
    };
    let text = format!("--seal: the model {} is {why}", model.name);
    Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
}

/// Who reads what, before anything is spent.
fn who_sees(reveals: bool) -> String {
    let doubt = match reveals {
        true => {
            "the model is run here too: if the answer is another one, or the provider says that the key opens nothing, the key is shown, and \
             then everybody reads input and answer"
        }
        false => {
            "nobody checks the answer; --reveal runs the model here and has validators refuse another one, by showing the key to everybody"
        }
    };
    format!(
        "sealed: each provider that is granted the key reads the input and the answer, for good, also if it then declines or is late and another \
         one answers; validators, gateways and whoever reads blocks see the model, lengths, times, prices and who ordered from whom; {doubt}"
    )
}

/// What is needed to read inputs and answers of a model.
enum AnswerReading {
    Integers(Box<CheckedModel>),
    Floats,
}

impl AnswerReading {
    async fn of(client: &Client, model: &ModelDto) -> Result<Self, Failure> {
        if float::is_float(model) {
            return Ok(Self::Floats);
        }
        let checked = jobs::public_model(client, model).await.of_job()?;
        Ok(Self::Integers(Box::new(checked)))
    }

    /// The input that a command line gives, in the clear.
    async fn input(
        &self,
        client: &Client,
        model: &ModelDto,
        arguments: &InferArguments,
    ) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Floats => float::input_of(client, model, arguments).await,
            Self::Integers(checked) => {
                let given = (&arguments.text, &arguments.inputs);
                let reals = text::inputs(checked.program(), (given.0, given.1))?;
                let input = checked.stored_input(&reals);
                input.or_fail(Exit::Usage, "take the input")
            }
        }
    }

    /// Prints an answer that was opened.
    fn print(
        &self,
        answer: &[u8],
        (receipt, raw, as_json): (&JobReceiptDto, bool, bool),
    ) -> Outcome {
        let id = receipt.job.id.to_string();
        match self {
            Self::Floats => {
                let answer =
                    FloatAnswer::from_bytes(answer).or_fail(Exit::Rejected, "read the answer")?;
                if as_json {
                    let outputs = float::outputs_json(&answer)?;
                    return Ok(json(&serde_json::json!({
                        "job": id, "sealed": true, "end": answer.end.to_string(), "outputs": outputs, "receipt": receipt,
                    }))?);
                }
                float::print(&answer)?;
            }
            Self::Integers(checked) => {
                let values = checked.output(answer);
                let values = values.or_fail(Exit::Rejected, "read the answer")?;
                let answers = checked.answers(&values);
                if as_json {
                    return Ok(json(&serde_json::json!({
                        "job": id, "sealed": true, "values": values, "answer": answers.json(), "receipt": receipt,
                    }))?);
                }
                for text in answers.lines(raw) {
                    line(text)?;
                }
            }
        }
        Ok(line(describe_receipt(receipt, BesideReceipt::default()))?)
    }
}

/// How long a job is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// A provider runs it, or it is over.
    Running,
    /// It is over.
    Ended,
}

/// A requestor that does its part of a sealed job.
struct Tending<'a> {
    client: &'a Client,
    wallet: &'a Wallet,
    key: &'a JobKey,
    job: JobId,
    /// The digest of the input that the key seals.
    input: Digest,
    /// Who proves what the API tells; nobody for the API of one's own node.
    trusting: &'a mut Option<Trusting>,
    /// What the model gives here, if another answer is to be refused by showing the key.
    right: Option<&'a [u8]>,
    /// What was done about a lease last, and when.
    done: BTreeMap<(LeaseId, LeaseDuty), Instant>,
    /// Of which leases there is no proof, and since when.
    unproved: BTreeMap<LeaseId, Instant>,
}

/// A requestor's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LeaseDuty {
    Grant,
    Reveal,
    /// Asked for a proof.
    Prove,
    /// Said what only whoever sits at the terminal may decide.
    Say,
}

impl<'a> Tending<'a> {
    const fn of(
        client: &'a Client,
        wallet: &'a Wallet,
        key: &'a JobKey,
        (job, input): (JobId, Digest),
        trusting: &'a mut Option<Trusting>,
    ) -> Self {
        Self {
            client,
            wallet,
            key,
            job,
            input,
            trusting,
            right: None,
            done: BTreeMap::new(),
            unproved: BTreeMap::new(),
        }
    }

    async fn follow(&mut self, until: Until) -> Result<JobDto, Failure> {
        let mut shown = Shown::default();
        let mut answered = Instant::now();
        loop {
            match self.client.job(self.job).await {
                Err(error)
                    if (error.is_not_found() || error.is_transient())
                        && answered.elapsed() < ABSENCE_MAX => {}
                job => {
                    let job = job.calling("follow the job")?;
                    answered = Instant::now();
                    shown.tell(&job);
                    if job.state.is_final() || until == Until::Running && is_running(&job) {
                        return Ok(job);
                    }
                    self.do_part(&job).await?;
                }
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Does what is due about the leases of a job.
    async fn do_part(&mut self, job: &JobDto) -> Outcome {
        for lease in job.leases.iter().filter(|it| it.end.is_none()) {
            if sealed::waits_for_key(lease) {
                self.grant(lease).await?;
            } else if may_reveal(lease) {
                self.answer_doubt(lease).await?;
            }
        }
        Ok(())
    }

    async fn grant(&mut self, lease: &LeaseDto) -> Outcome {
        if !self.is_due(lease.id, LeaseDuty::Grant) {
            return Ok(());
        }
        let Some(KeyStage::AwaitsKey(key)) = self.known(lease).await? else {
            return Ok(());
        };
        self.note(lease.id, LeaseDuty::Grant);
        let to = GrantTo {
            job: self.job,
            lease: lease.id,
            key,
        };
        match sealed::grant(self.client, self.wallet, &to, self.key).await {
            Ok(()) => say(format_args!(
                "             the key is granted to provider {}",
                brief(lease.provider)
            )),
            Err(error @ JobError::OtherLease { .. }) => return Err(error).of_job(),
            Err(error) => say(format_args!("             not granted yet: {error}")),
        }
        Ok(())
    }

    /// Shows the key where that is due, or says that whoever sits at the terminal may.
    async fn answer_doubt(&mut self, lease: &LeaseDto) -> Outcome {
        let told = KeyStage::told(lease);
        let is_questioned = told == KeyStage::Questioned;
        if is_questioned && self.right.is_some() || self.is_wrong(lease.id, &told)? {
            return self.show(lease).await;
        }
        if is_questioned && self.is_due(lease.id, LeaseDuty::Say) {
            self.note(lease.id, LeaseDuty::Say);
            say(format_args!(
                "             provider {} says that the key does not open the input: tensorgrid job reveal {} shows it to everybody, so that \
                 validators look; if nobody does, the job ends and a part of its escrow burns",
                brief(lease.provider),
                self.job
            ));
        }
        Ok(())
    }

    async fn show(&mut self, lease: &LeaseDto) -> Outcome {
        if !self.is_due(lease.id, LeaseDuty::Reveal) {
            return Ok(());
        }
        let Some(stage) = self.known(lease).await? else {
            return Ok(());
        };
        // Stops: an API that tells a question, or a wrong answer, only to be shown the key.
        if stage != KeyStage::Questioned && !self.is_wrong(lease.id, &stage)? {
            return Ok(());
        }
        self.note(lease.id, LeaseDuty::Reveal);
        let of = (self.job, lease.id);
        match sealed::reveal(self.client, self.wallet, of, self.key).await {
            Ok(()) => say("             the key is shown, and validators look"),
            Err(error) => say(format_args!(
                "             the key is not shown yet: {error}"
            )),
        }
        Ok(())
    }

    /// What is known of a lease. Nothing while there is no proof: what one call of many fails by must not end a command without which the
    /// price burns.
    async fn known(&mut self, lease: &LeaseDto) -> Result<Option<KeyStage>, Failure> {
        if !self.is_due(lease.id, LeaseDuty::Prove) {
            return Ok(None);
        }
        self.note(lease.id, LeaseDuty::Prove);
        let of = (self.job, self.input);
        let found = Box::pin(known(self.client, self.trusting, of, lease)).await;
        let failure = match found {
            Ok(stage) => {
                self.unproved.remove(&lease.id);
                return Ok(Some(stage));
            }
            Err(NotKnown::Otherwise(failure)) => return Err(failure),
            Err(NotKnown::Yet(failure)) => failure,
        };
        if !self.unproved.contains_key(&lease.id) {
            say(format_args!(
                "             what the API tells of lease {} is not proved yet, and asked again: {:#}",
                brief(lease.id),
                failure.error
            ));
        }
        let since = self.unproved.entry(lease.id).or_insert_with(Instant::now);
        // A clock that is ahead ends nothing at the first failure.
        let is_late = since.elapsed() > ABSENCE_MAX && clock::now().get() > lease.start_by_ms;
        match is_late && sealed::waits_for_key(lease) {
            true => Err(failure),
            false => Ok(None),
        }
    }

    /// Whether a lease's answer is another than the one that the model gives here.
    fn is_wrong(&self, lease: LeaseId, stage: &KeyStage) -> Result<bool, Failure> {
        let (Some(right), KeyStage::Contestable(output)) = (self.right, stage) else {
            return Ok(false);
        };
        let sealed = self.key.seal_answer(&lease, right);
        let sealed = sealed.or_fail(Exit::Failed, "seal the own answer")?;
        Ok(Digest::of_blob(&sealed) != *output)
    }

    /// Whether something is to be done about a lease: not while what was done last may still have its effect.
    fn is_due(&self, lease: LeaseId, duty: LeaseDuty) -> bool {
        let again = match duty {
            LeaseDuty::Say => Duration::MAX,
            LeaseDuty::Prove => PROOF_AGAIN,
            LeaseDuty::Grant | LeaseDuty::Reveal => AGAIN,
        };
        let last = self.done.get(&(lease, duty));
        last.is_none_or(|at| at.elapsed() >= again)
    }

    /// Takes note that something is done about a lease now.
    fn note(&mut self, lease: LeaseId, duty: LeaseDuty) {
        self.done.insert((lease, duty), Instant::now());
    }
}

/// Whether a provider has begun with a job.
const fn is_running(job: &JobDto) -> bool {
    !matches!(
        job.state,
        JobStateDto::Submitted | JobStateDto::Queued | JobStateDto::Leased
    )
}

/// Whether the requestor may show the key of a lease's job now, as the API tells.
fn may_reveal(lease: &LeaseDto) -> bool {
    lease.end.is_none() && lease.sealing.as_ref().is_some_and(|it| it.may_reveal)
}

/// Opens the answer of a job that has ended, and prints it.
async fn finish(
    (client, key): (&Client, &JobKey),
    (ordered, job, trusting): (&OrderedJob, &JobDto, Option<Trusting>),
    (reading, raw, as_json): (&AnswerReading, bool, bool),
) -> Outcome {
    let collected = sealed::collect(client, key, (ordered, job)).await;
    let (receipt, answer) = collected.of_job()?;
    proved::compare(trusting, (job, &receipt)).await?;
    reading.print(&answer, (&receipt, raw, as_json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_mode_is_refused_with_who_would_read() {
        for (name, reader) in [
            ("none", "validators would hold"),
            ("proof", "every validator would read"),
            ("recompute", "every validator would read"),
            ("sync", "a drawn committee"),
            ("optimistic", "a drawn validator"),
            ("replicate:3", "several providers"),
        ] {
            let choice = VerifyChoice::named(name);
            assert!(choice.is_some(), "{name}");
            let refused = refuse_mode(choice).expect_err("it is refused");
            assert_eq!(refused.exit, Exit::Usage);
            let text = format!("{:#}", refused.error);
            assert!(text.contains(reader), "{text}");
        }
        assert!(refuse_mode(None).is_ok());
    }
}
