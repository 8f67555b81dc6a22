//! `tensorgrid write`: a language model of the grid writes what follows a prompt; and `job fetch` of what was written.

use std::path::Path;

use tg_console::files;
use tg_ir::{GenerationRequest, Generator};
use tg_sdk::dto::{DryRunDto, QuoteDto};
use tg_sdk::jobs::{self, Followed, OrderedJob, WrittenAnswer};
use tg_sdk::{CheckedModel, Client, OrderTerms, Wallet};

use super::interrupted::{LeftRunning, unless_interrupted};
use super::order::{
    describe_wait, dry_run, offers, print_dry_run, quotes, refuse_sealed_bid, terms,
};
use super::{ask_to_proceed, modes, proved, wallet};
use crate::grid::connect::{self, OfJob};
use crate::grid::describe::{BesideReceipt, DrawnTiles, Shown, describe_receipt};
use crate::grid::infer_args::WriteArguments;
use crate::grid::projects::{ProjectNote, tell_ordered};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_console::table::short;
use tg_console::tokens;
use tg_offline::generate::{TokenCoding, request};
use tg_types::digest::hex;

/// What is ordered.
struct Writing {
    checked: CheckedModel,
    coding: TokenCoding,
    request: GenerationRequest,
    input: Vec<u8>,
    quotes: Vec<QuoteDto>,
    terms: OrderTerms,
}

/// The order of some arguments.
async fn asked(
    client: &Client,
    wallet: &Wallet,
    arguments: &WriteArguments,
) -> Result<Writing, Failure> {
    let model = connect::model(client, &arguments.model).await?;
    let checked = jobs::public_model(client, &model).await.of_job()?;
    let generator = checked.generator();
    let generator = generator.or_fail(Exit::Usage, format!("{} cannot write", model.name))?;
    // Stops: an order that validators refuse, which would wait until its deadline for nothing.
    if !checked.is_written_by_jobs() {
        let text = format!(
            "jobs do not write with {}: validators would take too long to see that it looks at nothing ahead",
            model.name
        );
        let hint = format!(
            "open an endpoint of it: `tensorgrid endpoint open {}`",
            model.name
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)).hint(hint));
    }
    let coding = TokenCoding::of(&arguments.what, checked.program(), &generator)?;
    let request = request(&arguments.what, &generator, &coding)?;
    let input = checked.request(&request);
    let input = input.or_fail(Exit::Usage, "take the prompt")?;
    let mode = arguments.verify.mode();
    let quotes = quotes(client, (&model, mode), &arguments.order).await?;
    let terms = terms(
        client,
        wallet,
        (mode, Some(arguments.verify), &arguments.order),
        &quotes,
        (model.id, &input),
    )
    .await?;
    refuse_sealed_bid(terms, "a text")?;
    Ok(Writing {
        checked,
        coding,
        request,
        input,
        quotes,
        terms,
    })
}

/// What the order of some arguments would come to in the next block.
pub(crate) async fn quote(arguments: &WriteArguments) -> Result<DryRunDto, Failure> {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let asked = asked(&client, &wallet, arguments).await?;
    let model = asked.checked.public().id();
    dry_run(&client, &wallet, (model, &asked.input), asked.terms).await
}

/// Orders what is to be written, follows the job, checks its proof and prints the text.
pub(crate) async fn run(arguments: &WriteArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let trusting = Trusting::begin_to_show(&client, &arguments.chain).await?;
    let project = ProjectNote::of(arguments.order.project.as_deref(), &arguments.key)?;
    let Writing {
        checked,
        coding,
        request,
        input,
        quotes,
        terms,
    } = asked(&client, &wallet, arguments).await?;
    if arguments.order.dry_run {
        let input = (checked.public().id(), input.as_slice());
        return print_dry_run(&dry_run(&client, &wallet, input, terms).await?, as_json);
    }
    let rule = tokens::rule(&request.sampling, score_unit(&checked));
    say(format_args!("at most {} tokens, {rule}", request.limit));
    if !arguments.order.yes {
        say(offers(&quotes));
        say(format_args!(
            "write with verify {} for at most {} TGRID plus the verification fee",
            arguments.verify.mode(),
            short(terms.max_price)
        ));
        ask_to_proceed("nothing was ordered", "--yes orders without asking")?;
    }
    let id = jobs::order(&client, &wallet, &checked, input.clone(), terms)
        .await
        .of_job()?;
    let ordered = OrderedJob::new(id, checked.public().id(), &input, terms.mode.into());
    tell_ordered("", id, project.as_ref());
    let what = (&checked, &coding, &request);
    let shown = (arguments.proof_out.as_deref(), as_json);
    let wait = Box::pin(finish(&client, what, (&ordered, trusting), shown));
    let left = || vec![LeftRunning::Ordered(ordered)];
    unless_interrupted((&client, Some(&wallet)), left, wait).await?;
    wallet::hint(&arguments.key);
    Ok(())
}

/// Waits for a text that was ordered before, checks its proof and prints it. Tokens of a tokenizer are printed as numbers: which one it was
/// is not known here.
pub(super) async fn fetch(
    client: &Client,
    (checked, input): (&CheckedModel, &[u8]),
    of: (&OrderedJob, Option<Trusting>),
    shown: (Option<&Path>, bool),
) -> Outcome {
    let generator = checked
        .generator()
        .or_fail(Exit::Rejected, "read the model")?;
    let request = GenerationRequest::read(input).or_fail(Exit::Rejected, "read the request")?;
    let coding = match tokens::takes_bytes(checked.program(), &generator) {
        true => TokenCoding::Bytes,
        false => TokenCoding::Numbers,
    };
    finish(client, (checked, &coding, &request), of, shown).await
}

/// Follows the job, checks its answer and prints it; its proof is written if a file is named.
async fn finish(
    client: &Client,
    (checked, coding, request): (&CheckedModel, &TokenCoding, &GenerationRequest),
    (ordered, trusting): (&OrderedJob, Option<Trusting>),
    (proof_out, as_json): (Option<&Path>, bool),
) -> Outcome {
    let mut told = Shown::default();
    let mut tell = |news: Followed<'_>| match news {
        Followed::Changed(job) => told.tell(job),
        Followed::Waits(why) => say(format_args!("             {}", describe_wait(why))),
    };
    let job = jobs::follow(client, ordered.job, &mut tell).await;
    let job = job.of_job()?;
    let written = jobs::collect_written(client, checked, (ordered, &job))
        .await
        .of_job()?;
    proved::compare(trusting, (&job, &written.receipt)).await?;
    if let (Some(path), Some(proof)) = (proof_out, &written.proof) {
        files::write(path, &proof.file)?;
        say(format_args!("wrote {}", path.display()));
    }
    let shown = coding.text(&request.prompt, &written.tokens)?;
    if as_json {
        let drawn = tokens::rule_json(&request.sampling, score_unit(checked));
        print_json(&written, (request, shown), &drawn)
    } else {
        print(&written, shown, DrawnTiles::of(checked.program()))
    }
}

/// Real value of one unit of a score.
fn score_unit(model: &CheckedModel) -> f32 {
    Generator::score_unit(model.program()).unwrap_or(1.0)
}

fn print_json(
    written: &WrittenAnswer,
    (request, shown): (&GenerationRequest, Option<String>),
    sampling: &serde_json::Value,
) -> Outcome {
    let proof = written.proof.as_ref().map(|proof| {
        serde_json::json!({ "bytes": proof.file.len(), "verify_ms": proof.verify_ms, "verified": true })
    });
    Ok(json(&serde_json::json!({
        "job": written.receipt.job.id.to_string(), "prompt": request.prompt, "tokens": written.tokens,
        "text": shown, "seed": hex(&request.sampling.seed), "sampling": sampling, "receipt": written.receipt,
        "proof": proof,
    }))?)
}

fn print(written: &WrittenAnswer, shown: Option<String>, tiles: DrawnTiles) -> Outcome {
    match shown {
        Some(text) => line(text)?,
        None => {
            let tokens: Vec<String> = written.tokens.iter().map(u32::to_string).collect();
            line(tokens.join(","))?;
        }
    }
    match &written.proof {
        Some(proof) => line(format_args!(
            "proof of {} bytes verified here in {:.1} ms",
            proof.file.len(),
            proof.verify_ms
        ))?,
        None => line(format_args!(
            "no proof was ordered; {}",
            modes::assured(written.receipt.job.mode, written.receipt.lease.run_whole)
        ))?,
    }
    let beside = BesideReceipt {
        zk: written.proof.as_ref().map(|proof| proof.zk),
        tiles: Some(tiles),
    };
    Ok(line(describe_receipt(&written.receipt, beside))?)
}
