//! `tensorgrid program add` and `submit`.

use tg_console::files;
use tg_sdk::dto::{DryRunDto, JobReceiptDto, ModeDto, ModelDto, ModelStateDto, QuoteDto};
use tg_sdk::guard::{self, OwnRun};
use tg_sdk::jobs::{self, Followed, OrderedJob};
use tg_sdk::{Client, OrderTerms};
use tg_types::{Digest, Encode as _, JobId, TraceForm, Wallet};
use tg_wasm::limits::FILE_BYTES_MAX;
use tg_wasm::{ProgramAnswer, WasmProgram};

use super::modes::{self, assurance};
use super::order::{dry_run, offers, print_dry_run, quotes, refuse_sealed_bid, terms};
use super::{ask_to_proceed, json_of, proved, wallet};
use crate::grid::args::{ProgramAddArguments, ProgramSubmitArguments};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::embedded::{ModelFiles, register, wait_until_active};
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
        "next: tensorgrid program submit {} --input FILE",
        model.name
    ));
    Ok(())
}

/// What is ordered.
struct Submitting {
    listed: ModelDto,
    checked: WasmProgram,
    input: Vec<u8>,
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
    let checked = fetch(client, &listed).await?;
    let input = program::input(&arguments.given)?;
    let mode = modes::mode_of(client, &listed, arguments.into()).await?;
    let quotes = quotes(client, (&listed, mode), &arguments.order).await?;
    let terms = terms(
        client,
        wallet,
        (mode, arguments.verify, &arguments.order),
        &quotes,
        (listed.id, &input),
    )
    .await?;
    refuse_sealed_bid(terms, "a program")?;
    Ok(Submitting {
        listed,
        checked,
        input,
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
        (asked.listed.id, &asked.input),
        asked.terms,
    )
    .await
}

/// Orders a run of a program, follows it, and prints the answer.
pub(crate) async fn submit(arguments: &ProgramSubmitArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let trusting = Trusting::begin_to_show(&client, &arguments.chain).await?;
    let Submitting {
        listed,
        checked,
        input,
        quotes,
        terms,
    } = asked(&client, &wallet, arguments).await?;
    let mode = terms.mode.into();
    if arguments.order.dry_run {
        let answer = dry_run(&client, &wallet, (listed.id, &input), terms).await?;
        return print_dry_run(&answer, as_json);
    }
    if !arguments.order.yes {
        confirm(&listed, &quotes, terms)?;
    }
    let id = jobs::order_of(&client, &wallet, listed.id, input.clone(), terms).await;
    let id = id.of_job()?;
    say(format_args!("job {id}"));
    let mut state = String::new();
    let mut tell = |news: Followed<'_>| match news {
        Followed::Changed(job) if job.state.to_string() != state => {
            state = job.state.to_string();
            say(format_args!("  {state}"));
        }
        Followed::Changed(_) => {}
        Followed::Waits(why) => say(format_args!("  {}", why.summary)),
    };
    let is_checked = !arguments.trust;
    let guard = guarded(&client, &wallet, (id, mode), (&checked, &input), is_checked);
    let (job, challenged) = tokio::join!(jobs::follow(&client, id, &mut tell), guard);
    if challenged? > 0 {
        say("a result was challenged: the program gave another one here");
    }
    let job = job.of_job()?;
    let ordered = OrderedJob::new(id, listed.id, &input, mode);
    let collected = jobs::collect_output(&client, &ordered, &job).await;
    let (receipt, bytes) = collected.of_job()?;
    let answer = ProgramAnswer::decode(&bytes).or_fail(Exit::Rejected, "read the answer")?;
    if is_checked {
        run_again(&checked, &input, &receipt, &bytes)?;
    }
    proved::compare(trusting, (&job, receipt.receipt.output)).await?;
    show(arguments, (id, &receipt), &answer, as_json)?;
    wallet::hint(&arguments.key);
    program::ended(&answer)
}

/// Prints an answer, and writes its output where that was asked for.
fn show(
    arguments: &ProgramSubmitArguments,
    (id, receipt): (JobId, &JobReceiptDto),
    answer: &ProgramAnswer,
    as_json: bool,
) -> Outcome {
    let is_checked = !arguments.trust;
    if let Some(path) = &arguments.given.output {
        files::write(path, &answer.output)?;
    }
    if as_json {
        let trace = receipt.receipt.trace.to_string();
        let answer = program::answer_json(answer, &trace);
        let data = serde_json::json!({
            "job": id.to_string(), "answer": answer, "run_again": is_checked, "receipt": receipt,
        });
        return Ok(json(&data)?);
    }
    program::show(answer, arguments.given.output.as_deref())?;
    line(match is_checked {
        true => "the program was run here again and gave the same answer, bill and trace",
        false => "not run here: this answer is the word of those that ran it again, or parts of it",
    })?;
    line(crate::grid::describe::describe_receipt(receipt, None))?;
    Ok(())
}

/// Fetches a program, and checks that it is the one of its id.
async fn fetch(client: &Client, listed: &ModelDto) -> Result<WasmProgram, Failure> {
    if listed.state != ModelStateDto::Active {
        let text = format!("the program {} is {}", listed.name, listed.state);
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    let limit = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    let is_program = listed.facts.as_ref().is_some_and(|it| it.tier == "WASM-1");
    if !is_program {
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
    (id, mode): (JobId, ModeDto),
    (program, input): (&WasmProgram, &[u8]),
    is_checked: bool,
) -> Result<usize, Failure> {
    if mode != ModeDto::Optimistic || !is_checked {
        return Ok(0);
    }
    let run = program.claim(input);
    let run = run.or_fail(Exit::Failed, "run the program")?;
    let own = OwnRun {
        output: Digest::of_blob(&run.answer.encode()),
        claim: run.to_bytes(),
    };
    guard::challenge_others(client, wallet, id, own)
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
fn confirm(program: &ModelDto, quotes: &[QuoteDto], terms: OrderTerms) -> Outcome {
    say(offers(quotes));
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
