//! `tensorgrid program add` and `submit`, and `job fetch` of a program's run.

use std::cell::RefCell;
use std::path::Path;

use tg_console::files;
use tg_sdk::dto::{DryRunDto, JobDto, JobReceiptDto, ModeDto, ModelDto, ModelStateDto, QuoteDto};
use tg_sdk::guard::{self, OwnRun};
use tg_sdk::jobs::{self, Followed, JobError, OrderedJob};
use tg_sdk::{Client, OrderTerms};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Digest, Encode as _, JobId, ModelId, Tier, TraceForm, Wallet};
use tg_wasm::limits::FILE_BYTES_MAX;
use tg_wasm::{ProgramAnswer, WasmProgram};

use super::interrupted::{LeftRunning, unless_interrupted};
use super::modes::{self, assurance};
use super::order::{dry_run, offers, print_dry_run, quotes, refuse_sealed_bid, terms};
use super::{ask_to_proceed, json_of, proved, wallet};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::describe::{BesideReceipt, describe_receipt};
use crate::grid::embedded::{ModelFiles, refuse_taken_name, register, wait_until_active};
use crate::grid::program_args::{ProgramAddArguments, ProgramSubmitArguments};
use crate::grid::projects::{ProjectNote, tell_ordered};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_console::table::short;
use tg_offline::program;

/// Registers a program and waits for the validators' verdict.
pub(crate) async fn add(arguments: &ProgramAddArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let (file, checked) = program::read(&arguments.file)?;
    let stem = arguments.file.module.file_stem().unwrap_or_default();
    let stem = stem.to_string_lossy().into_owned();
    let name = arguments.name.clone().unwrap_or(stem);
    let made = ModelFiles {
        id: checked.model_id(),
        public: file.clone(),
        weights: file,
    };
    refuse_taken_name(&client, wallet.address(), (made.id, name.as_str())).await?;
    say("storing and registering the program ...");
    let id = register(&client, &wallet, made, &name).await?;
    say("the validators check it ...");
    let model = wait_until_active(&client, id).await?;
    if as_json {
        return json_of(&model);
    }
    line(format_args!(
        "program {} is active as {}",
        model.name, model.id
    ))?;
    say(format_args!(
        "next: tensorgrid program submit {} --input FILE{}",
        model.name,
        connect::api_flag(&client)
    ));
    Ok(())
}

/// What is ordered.
struct Submitting {
    listed: ModelDto,
    checked: WasmProgram,
    /// The input of each job, one or several whose outputs are merged.
    inputs: Vec<Vec<u8>>,
    quotes: Vec<QuoteDto>,
    terms: OrderTerms,
}

/// The order of some arguments.
async fn asked(
    client: &Client,
    wallet: &Wallet,
    arguments: &ProgramSubmitArguments,
) -> Result<Submitting, Failure> {
    let listed = connect::model(client, &arguments.program).await?;
    let checked = public_program(client, &listed).await?;
    let inputs = match arguments.parts {
        1 => vec![program::input(&arguments.given)?],
        parts => program::inputs_of_parts(&arguments.given, usize::from(parts))?,
    };
    if inputs.len() > 1 && !checked.facts().has_merge {
        let text = format!("the program {} exports no merge", listed.name);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint("--parts needs one: docs/PROGRAMS.md says which functions a program exports"));
    }
    let mode = modes::mode_of(client, wallet, (&listed, &inputs[0]), arguments.into()).await?;
    let quotes = quotes(client, (&listed, mode), &arguments.order).await?;
    let terms = terms(
        client,
        wallet,
        (mode, arguments.verify, &arguments.order),
        &quotes,
        (listed.id, &inputs[0]),
    )
    .await?;
    refuse_sealed_bid(terms, "a program")?;
    Ok(Submitting {
        listed,
        checked,
        inputs,
        quotes,
        terms,
    })
}

/// What the order of some arguments would come to in the next block.
pub(crate) async fn quote(arguments: &ProgramSubmitArguments) -> Result<DryRunDto, Failure> {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let asked = asked(&client, &wallet, arguments).await?;
    dry_run(
        &client,
        &wallet,
        (asked.listed.id, &asked.inputs[0]),
        asked.terms,
    )
    .await
}

/// Orders a run of a program, or several and one that merges them, follows them, and prints the answer.
pub(crate) async fn submit(arguments: &ProgramSubmitArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let project = ProjectNote::of(arguments.order.project.as_deref(), &arguments.key)?;
    let Submitting {
        listed,
        checked,
        inputs,
        quotes,
        terms,
    } = asked(&client, &wallet, arguments).await?;
    if arguments.order.dry_run {
        let answer = dry_run(&client, &wallet, (listed.id, &inputs[0]), terms).await?;
        return print_dry_run(&answer, as_json);
    }
    if !arguments.order.yes {
        confirm((&listed, inputs.len()), &quotes, terms)?;
    }
    let run = ProgramJob {
        client: &client,
        wallet: &wallet,
        arguments,
        model: listed.id,
        program: &checked,
        terms,
        project,
        followed: RefCell::default(),
    };
    let left = || -> Vec<LeftRunning> {
        let followed = run.followed.borrow();
        followed.iter().copied().map(LeftRunning::Ordered).collect()
    };
    let wait = Box::pin(run.all(inputs));
    let ran = unless_interrupted((&client, Some(&wallet)), left, wait).await?;
    let output = arguments.given.output.as_deref();
    show(&ran, (output, !arguments.trust), as_json)?;
    wallet::hint(&arguments.key);
    program::ended(&ran.answer)
}

/// What all jobs of one command have in common.
struct ProgramJob<'a> {
    client: &'a Client,
    wallet: &'a Wallet,
    arguments: &'a ProgramSubmitArguments,
    model: ModelId,
    program: &'a WasmProgram,
    terms: OrderTerms,
    project: Option<ProjectNote>,
    /// Jobs that were ordered and have not ended.
    followed: RefCell<Vec<OrderedJob>>,
}

/// A job that was paid.
struct PaidRun {
    id: JobId,
    receipt: JobReceiptDto,
    answer: ProgramAnswer,
    /// The jobs whose outputs it merged, in their order.
    parts: Vec<JobId>,
}

impl ProgramJob<'_> {
    /// One job for each input, at the same time, and one that merges their outputs in the order of the inputs, if there are several.
    async fn all(&self, inputs: Vec<Vec<u8>>) -> Result<PaidRun, Failure> {
        let count = inputs.len();
        let name = |part: usize| match count {
            1 => String::new(),
            _ => format!("part {} of {count}: ", part + 1),
        };
        // Ordered one after the other, as the transactions of an account are; then all run at the same time.
        let mut ordered = Vec::with_capacity(count);
        for (part, input) in inputs.into_iter().enumerate() {
            ordered.push((name(part), self.order(&name(part), &input).await?, input));
        }
        let mut ran = self.follow_all(&ordered).await?;
        if count == 1
            && let Some(only) = ran.pop()
        {
            return Ok(only);
        }
        // A part that did not finish has an output too, which is none of the whole.
        for (part, run) in ran.iter().enumerate() {
            program::ended(&run.answer).map_err(|failure| {
                failure.hint(format!("{}job {}: nothing was merged", name(part), run.id))
            })?;
        }
        let parts = ran.iter().map(|run| run.id).collect();
        let outputs = ran.into_iter().map(|run| run.answer.output).collect();
        let input = program::merging(outputs)?;
        let id = self.order("merge: ", &input).await?;
        let merged = self.follow("merge: ", id, &input).await?;
        Ok(PaidRun { parts, ..merged })
    }

    /// Follows several jobs at the same time: of each a result may have to be challenged within seconds.
    async fn follow_all(
        &self,
        ordered: &[(String, JobId, Vec<u8>)],
    ) -> Result<Vec<PaidRun>, Failure> {
        if let [(name, id, input)] = ordered {
            return Ok(vec![self.follow(name, *id, input).await?]);
        }
        let (left, right) = ordered.split_at(ordered.len() / 2);
        let (left, right) = (self.follow_all(left), self.follow_all(right));
        let (mut ran, rest) = tokio::try_join!(Box::pin(left), Box::pin(right))?;
        ran.extend(rest);
        Ok(ran)
    }

    async fn order(&self, name: &str, input: &[u8]) -> Result<JobId, Failure> {
        let ordered = jobs::order_of(
            self.client,
            self.wallet,
            self.model,
            input.to_vec(),
            self.terms,
        );
        let id = ordered.await.of_job()?;
        self.followed.borrow_mut().push(self.ordered(id, input));
        tell_ordered(name, id, self.project.as_ref());
        Ok(id)
    }

    fn ordered(&self, id: JobId, input: &[u8]) -> OrderedJob {
        OrderedJob::new(id, self.model, input, self.terms.mode.into())
    }

    /// Follows a job to its end, and checks its answer.
    async fn follow(&self, name: &str, id: JobId, input: &[u8]) -> Result<PaidRun, Failure> {
        let trusting = Trusting::begin_to_show(self.client, &self.arguments.chain).await?;
        let ordered = self.ordered(id, input);
        let is_checked = !self.arguments.trust;
        let run = (self.program, input);
        let guard = guarded(self.client, self.wallet, &ordered, run, is_checked);
        let (job, challenged) = tokio::join!(followed(self.client, name, id), guard);
        if challenged? > 0 {
            say(format_args!(
                "{name}a result was challenged: the program gave another one here"
            ));
        }
        let job = job.of_job()?;
        self.followed.borrow_mut().retain(|it| it.job != id);
        let again = is_checked.then_some(run);
        collected(self.client, (&ordered, &job, trusting), again).await
    }
}

/// Follows a job to its end, and tells its states.
async fn followed(client: &Client, name: &str, id: JobId) -> Result<JobDto, JobError> {
    let mut state = String::new();
    let mut tell = |news: Followed<'_>| match news {
        Followed::Changed(job) if job.state.to_string() != state => {
            state = job.state.to_string();
            say(format_args!("  {name}{state}"));
        }
        Followed::Changed(_) => {}
        Followed::Waits(why) => say(format_args!("  {name}{}", why.summary)),
    };
    jobs::follow(client, id, &mut tell).await
}

/// The answer of a job that has ended, which must be the one that the program gives for the input here, where both are given.
async fn collected(
    client: &Client,
    (ordered, job, trusting): (&OrderedJob, &JobDto, Option<Trusting>),
    again: Option<(&WasmProgram, &[u8])>,
) -> Result<PaidRun, Failure> {
    let collected = jobs::collect_output(client, ordered, job).await;
    let (receipt, bytes) = collected.of_job()?;
    let answer = ProgramAnswer::decode(&bytes).or_fail(Exit::Rejected, "read the answer")?;
    if let Some((program, input)) = again {
        run_again(program, input, &receipt, &bytes)?;
    }
    proved::compare(trusting, (job, &receipt)).await?;
    Ok(PaidRun {
        id: ordered.job,
        receipt,
        answer,
        parts: Vec::new(),
    })
}

/// Waits for a run that was ordered before, runs the program here again on what was ordered, and prints the answer.
pub(super) async fn fetch(
    client: &Client,
    listed: &ModelDto,
    (ordered, trusting): (&OrderedJob, Option<Trusting>),
    as_json: bool,
) -> Outcome {
    let program = public_program(client, listed).await?;
    let input = client.blob(ordered.input, INPUT_BYTES_MAX as usize).await;
    let input = input.calling("fetch the input")?;
    let job = followed(client, "", ordered.job).await.of_job()?;
    let again = Some((&program, input.as_slice()));
    let ran = collected(client, (ordered, &job, trusting), again).await?;
    show(&ran, (None, true), as_json)?;
    program::ended(&ran.answer)
}

/// Prints an answer, and writes its output where that was asked for. `is_checked`: whether the program was run here again.
fn show(ran: &PaidRun, (output, is_checked): (Option<&Path>, bool), as_json: bool) -> Outcome {
    let PaidRun {
        id,
        receipt,
        answer,
        parts,
    } = ran;
    if let Some(path) = output {
        files::write(path, &answer.output)?;
    }
    if as_json {
        let trace = receipt.receipt.trace.to_string();
        let answer = program::answer_json(answer, &trace);
        let data = serde_json::json!({
            "job": id.to_string(), "answer": answer, "run_again": is_checked, "receipt": receipt,
            "parts": parts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        return Ok(json(&data)?);
    }
    program::show(answer, output)?;
    line(match is_checked {
        true => "the program was run here again and gave the same answer, bill and trace",
        false => "not run here: this answer is the word of those that ran it again, or parts of it",
    })?;
    line(describe_receipt(receipt, BesideReceipt::default()))?;
    Ok(())
}

/// Whether a model is a program.
pub(super) fn is_program(model: &ModelDto) -> bool {
    let facts = model.facts.as_ref();
    facts.is_some_and(|facts| facts.tier == Tier::Wasm1.as_str())
}

/// Fetches a program, and checks that it is the one of its id.
async fn public_program(client: &Client, listed: &ModelDto) -> Result<WasmProgram, Failure> {
    if listed.state != ModelStateDto::Active {
        let text = format!("the program {} is {}", listed.name, listed.state);
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    let limit = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    if !is_program(listed) {
        let text = format!("{} is a model, not a program", listed.name);
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text))
            .hint(format!("tensorgrid infer {} INPUT", listed.name)));
    }
    let bytes = client.blob(listed.public_blob, limit).await;
    let bytes = bytes.calling("fetch the program")?;
    let program = WasmProgram::read(&bytes).or_fail(Exit::Rejected, "read the program")?;
    if program.model_id() != listed.id {
        let text = format!(
            "the grid gave the program {} for {}",
            program.model_id(),
            listed.id
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    Ok(program)
}

/// Watches over a job of mode optimistic while it can be challenged; how many results were.
async fn guarded(
    client: &Client,
    wallet: &Wallet,
    ordered: &OrderedJob,
    (program, input): (&WasmProgram, &[u8]),
    is_checked: bool,
) -> Result<usize, Failure> {
    if ordered.mode != ModeDto::Optimistic || !is_checked {
        return Ok(0);
    }
    let ran = program.try_run(input);
    let ran = ran.or_fail(Exit::Failed, "run the program")?;
    let claim = program.claim(input);
    let claim = claim.or_fail(Exit::Failed, "run the program")?;
    let own = OwnRun {
        output: Digest::of_blob(&ran.answer.encode()),
        trace: ran.trace,
        work: ran.answer.fuel,
        claim: claim.to_bytes(),
    };
    guard::challenge_others(client, wallet, ordered.job, own)
        .await
        .of_job()
}

/// Runs a program on what was ordered and compares it with what the grid accepted.
fn run_again(
    program: &WasmProgram,
    input: &[u8],
    receipt: &JobReceiptDto,
    answer: &[u8],
) -> Outcome {
    let form = TraceForm::of(receipt.job.mode.into(), receipt.lease.run_whole);
    let names = (&receipt.job.id, &receipt.lease.id);
    let run = program.run_for(input, form, names);
    let (found, trace) = run.or_fail(Exit::Failed, "run the program again")?;
    let agrees = found.encode() == answer && trace == receipt.receipt.trace;
    if agrees && Digest::of_blob(answer) == receipt.receipt.output {
        return Ok(());
    }
    let text = "the grid accepted another answer than the program gives here";
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)))
}

/// Shows the offers and asks before spending.
fn confirm(
    (program, parts): (&ModelDto, usize),
    quotes: &[QuoteDto],
    terms: OrderTerms,
) -> Outcome {
    say(offers(quotes));
    if parts > 1 {
        say(format_args!(
            "{parts} jobs, and one that merges their outputs, for each of which:"
        ));
    }
    say(format_args!(
        "run {} for at most {} TGRID plus the verification fee; --verify {}: {}; what it did not burn of its fuel is not paid, but for \
         a quarter",
        program.name,
        short(terms.max_price),
        terms.mode,
        assurance(terms.mode.into()),
    ));
    ask_to_proceed(
        "nothing was ordered",
        "--yes orders without asking; --max-price bounds what is spent",
    )
}
