//! `tensorgrid infer`.

use std::path::Path;
use tg_console::files;

use tg_ir::{Answer, GenerationRequest};
use tg_sdk::bids::{self, Bid, Stage};
use tg_sdk::dto::{DryRunDto, JobDto, ModeDto, ModelDto, QuoteDto};
use tg_sdk::jobs::{self, Followed, Inference, OrderedJob};
use tg_sdk::{CheckedModel, Client, Digest, OrderTerms, Wallet, clock};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{JobId, Lane};

use super::challenge::{self, KnownResult};
use super::interrupted::{LeftRunning, unless_interrupted};
use super::order::{
    confirm, describe_wait, detached, dry_run, order_of_text, print_dry_run, quotes, terms,
};
use super::{float, modes, program, proved, sealed, wallet, write};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::describe::{BesideReceipt, DrawnTiles, Shown, describe_receipt};
use crate::grid::infer_args::InferArguments;
use crate::grid::job_args::JobFetchArguments;
use crate::grid::projects::{ProjectNote, tell_ordered};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_console::table::{brief, brief_prefix, short};
use tg_offline::answer::ShownAnswer as _;
use tg_offline::text;

/// Orders a job, follows it, checks its proof and prints the result.
pub(crate) async fn run(arguments: &InferArguments, as_json: bool) -> Outcome {
    if arguments.seal.seal {
        return Box::pin(sealed::infer(arguments, as_json)).await;
    }
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let model = connect::model(&client, &arguments.model).await?;
    if float::is_float(&model) {
        return Box::pin(float::infer(&client, &model, arguments, as_json)).await;
    }
    let trusting = Trusting::begin_to_show(&client, &arguments.chain).await?;
    let order = &arguments.order;
    let project = ProjectNote::of(order.project.as_deref(), &arguments.key)?;
    let Inferring {
        checked,
        input,
        quotes,
        terms,
    } = asked(&client, &wallet, &model, arguments).await?;
    if order.dry_run {
        let input = (model.id, input.as_slice());
        return print_dry_run(&dry_run(&client, &wallet, input, terms).await?, as_json);
    }
    agree(&model, &quotes, terms, order.yes)?;
    let bytes = input.clone();
    let id = if terms.needs.lane() == Lane::Auction {
        let bid = Bid {
            model: &checked,
            input,
            terms,
            deposit: arguments.deposit,
            salt: drawn_salt()?,
        };
        bids::bid(&client, &wallet, bid, &mut tell_bid).await
    } else {
        jobs::order(&client, &wallet, &checked, input, terms).await
    };
    let id = id.of_job()?;
    tell_ordered("", id, project.as_ref());
    let ordered = OrderedJob::new(id, model.id, &bytes, terms.mode.into());
    if arguments.detach {
        return detached(&client, &ordered, as_json).await;
    }
    let mut shown = Printed {
        raw: arguments.raw,
        proof_out: arguments.proof_out.as_deref(),
        as_json,
        order_of: OrderOf::Signed,
        own: None,
        api: connect::api_flag(&client),
    };
    let is_guarded = ModeDto::from(terms.mode) == ModeDto::Optimistic && !arguments.trust;
    let guard = async {
        match is_guarded {
            true => challenge::guard(&client, &wallet, (&model, id), &bytes)
                .await
                .map(Some),
            false => Ok(None),
        }
    };
    let wait = Box::pin(async {
        let (job, guarded) = tokio::join!(followed(&client, id), guard);
        shown.own = guarded?.map(|guarded| guarded.told());
        finish(&client, &checked, (&ordered, &job?, trusting), &shown).await
    });
    let left = || vec![LeftRunning::Ordered(ordered)];
    unless_interrupted((&client, Some(&wallet)), left, wait).await?;
    wallet::hint(&arguments.key);
    Ok(())
}

/// What the order of some arguments would come to in the next block.
pub(crate) async fn quote(arguments: &InferArguments) -> Result<DryRunDto, Failure> {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let model = connect::model(&client, &arguments.model).await?;
    if float::is_float(&model) {
        return float::quote(&client, &model, arguments).await;
    }
    let asked = asked(&client, &wallet, &model, arguments).await?;
    dry_run(&client, &wallet, (model.id, &asked.input), asked.terms).await
}

/// What is ordered.
struct Inferring {
    checked: CheckedModel,
    input: Vec<u8>,
    quotes: Vec<QuoteDto>,
    terms: OrderTerms,
}

/// The order of some arguments.
async fn asked(
    client: &Client,
    wallet: &Wallet,
    model: &ModelDto,
    arguments: &InferArguments,
) -> Result<Inferring, Failure> {
    let checked = jobs::public_model(client, model).await.of_job()?;
    let reals = text::inputs(checked.program(), (&arguments.text, &arguments.inputs))?;
    let input = checked.stored_input(&reals);
    let input = input.or_fail(Exit::Usage, "take the input")?;
    let mode = modes::mode_of(client, wallet, (model, &input), arguments.into()).await?;
    let quotes = quotes(client, (model, mode), &arguments.order).await?;
    if arguments.detach && arguments.order.needs.needs().lane() == Lane::Auction {
        let text = "--detach: a sealed bid is opened by the command that made it, which has to run until then";
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    let terms = terms(
        client,
        wallet,
        (mode, arguments.verify, &arguments.order),
        &quotes,
        (model.id, &input),
    )
    .await?;
    Ok(Inferring {
        checked,
        input,
        quotes,
        terms,
    })
}

/// Waits for a job that was ordered before, checks its proof and prints the result.
pub(crate) async fn fetch(arguments: &JobFetchArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let id = connect::job(&client, &arguments.job).await?;
    let (ordered, order_of, trusting) = order_of(&client, id, arguments).await?;
    let left = match order_of {
        OrderOf::Signed | OrderOf::Proved => LeftRunning::Ordered(ordered),
        OrderOf::Told => LeftRunning::Told(id),
    };
    let of = (&ordered, order_of, trusting);
    let wait = Box::pin(fetch_ordered(&client, of, arguments, as_json));
    unless_interrupted((&client, None), || vec![left], wait).await
}

/// Waits for a job, whatever its model is, and prints its result.
async fn fetch_ordered(
    client: &Client,
    (ordered, order_of, trusting): (&OrderedJob, OrderOf, Option<Trusting>),
    arguments: &JobFetchArguments,
    as_json: bool,
) -> Outcome {
    if ordered.mode == ModeDto::Sealed {
        let asked = (ordered, trusting);
        return Box::pin(sealed::fetch(client, asked, arguments, as_json)).await;
    }
    let model = client.model(ordered.model).await;
    let model = model.calling("find the model")?;
    if float::is_float(&model) {
        return float::finish(client, &model, (ordered, None, trusting), as_json).await;
    }
    if program::is_program(&model) {
        return Box::pin(program::fetch(client, &model, (ordered, trusting), as_json)).await;
    }
    let checked = jobs::public_model(client, &model).await.of_job()?;
    if let Some(request) = request_of(client, &checked, ordered).await {
        let (asked, shown) = (
            (&checked, request.as_slice()),
            (arguments.proof_out.as_deref(), as_json),
        );
        return Box::pin(write::fetch(client, asked, (ordered, trusting), shown)).await;
    }
    let job = followed(client, ordered.job).await?;
    let shown = Printed {
        raw: arguments.raw,
        proof_out: arguments.proof_out.as_deref(),
        as_json,
        order_of,
        own: None,
        api: connect::api_flag(client),
    };
    finish(client, &checked, (ordered, &job, trusting), &shown).await
}

/// What a language model was to write, if that was ordered and the grid still has it.
async fn request_of(
    client: &Client,
    checked: &CheckedModel,
    ordered: &OrderedJob,
) -> Option<Vec<u8>> {
    if !GenerationRequest::is_taken_by(checked.program()) {
        return None;
    }
    let input = client.blob(ordered.input, INPUT_BYTES_MAX as usize).await;
    input.ok().filter(|input| GenerationRequest::is_one(input))
}

/// What was ordered by a job of before: as a final state has it if a genesis is named, else as the API says.
async fn order_of(
    client: &Client,
    id: JobId,
    arguments: &JobFetchArguments,
) -> Result<(OrderedJob, OrderOf, Option<Trusting>), Failure> {
    let trusting = Trusting::begin_to_show(client, &arguments.trust).await?;
    if let Some(order) = &arguments.order {
        let ordered = order_of_text(id, order).ok_or_else(|| {
            let text = format!("--order {order:?} is not MODEL:INPUT:MODE");
            Failure::new(Exit::Usage, anyhow::anyhow!(text))
                .hint("`infer --detach --json` prints it as `order`")
        })?;
        return Ok((ordered, OrderOf::Signed, trusting));
    }
    let Some(mut trusting) = trusting else {
        let job = client.job(id).await.calling("ask for the job")?;
        return Ok((OrderedJob::as_told(&job), OrderOf::Told, None));
    };
    let order = trusting.order(id).await?;
    trusting.keep();
    let ordered = OrderedJob::of_order(id, &order);
    Ok((ordered, OrderOf::Proved, Some(trusting)))
}

/// Who says what was ordered.
enum OrderOf {
    /// Whoever runs this command signed it.
    Signed,
    /// A final state.
    Proved,
    /// The API.
    Told,
}

impl OrderOf {
    /// In words.
    const fn describe(&self) -> &'static str {
        match self {
            Self::Signed => "signed here",
            Self::Proved => "as a final state has it",
            Self::Told => "as the API says",
        }
    }
}

/// How a result is printed, and where its proof goes.
struct Printed<'a> {
    raw: bool,
    proof_out: Option<&'a Path>,
    as_json: bool,
    order_of: OrderOf,
    /// What the model gave here, where it was run.
    own: Option<KnownResult>,
    /// What commands that are suggested need to reach the same grid.
    api: String,
}

/// Follows a job to its end.
async fn followed(client: &Client, id: JobId) -> Result<JobDto, Failure> {
    let mut told = Shown::default();
    let mut tell = |news: Followed<'_>| match news {
        Followed::Changed(job) => told.tell(job),
        Followed::Waits(why) => say(format_args!("             {}", describe_wait(why))),
    };
    jobs::follow(client, id, &mut tell).await.of_job()
}

/// Checks the result of a job that has ended, compares it with what is known of it from elsewhere, and prints it.
async fn finish(
    client: &Client,
    checked: &CheckedModel,
    (ordered, job, trusting): (&OrderedJob, &JobDto, Option<Trusting>),
    shown: &Printed<'_>,
) -> Outcome {
    let inference = jobs::collect(client, checked, (ordered, job)).await;
    let inference = inference.of_job()?;
    let accepted = inference.receipt.receipt.output;
    if let Some(own) = shown.own {
        challenge::compare(own, (ordered.job, accepted))?;
    }
    proved::compare(trusting, (job, &inference.receipt)).await?;
    if let (Some(path), Some(proof)) = (shown.proof_out, &inference.proof) {
        files::write(path, &proof.file)?;
        say(format_args!("wrote {}", path.display()));
    }
    let answers = checked.answers(&inference.values);
    if shown.as_json {
        print_json(&inference, &answers, (ordered, &shown.order_of))
    } else {
        let tiles = DrawnTiles::of(checked.program());
        print(&inference, (&answers, tiles), (ordered, shown))
    }
}

/// Random bytes that hide a bid until it is opened.
fn drawn_salt() -> Result<Digest, Failure> {
    let mut salt = [0; 32];
    getrandom::fill(&mut salt).map_err(|error| anyhow::anyhow!("draw a salt: {error}"))?;
    Ok(Digest::new(salt))
}

/// Tells where a bid stands.
fn tell_bid(stage: Stage<'_>) {
    match stage {
        Stage::Sealed(bid) => say(format_args!(
            "bid {} is sealed; {} TGRID are locked until it is opened in slot {}, {:.1} s from now. Who does not open a \
             bid in its slot loses the deposit: let this command run",
            brief(bid.id),
            short(bid.deposit),
            bid.slot.saturating_add(1),
            bid.opens_ms.saturating_sub(clock::now().get()) as f64 / 1e3,
        )),
        Stage::Opened => say(
            "the bid is open and the deposit is back; the auction of its slot clears when the slot is over, at one \
             price for all winners of a class",
        ),
    }
}

/// Refuses a price that no offer takes, and asks whether it is right unless that was answered.
fn agree(model: &ModelDto, quotes: &[QuoteDto], terms: OrderTerms, is_sure: bool) -> Outcome {
    refuse_low_price(quotes, terms)?;
    match is_sure {
        true => Ok(()),
        false => confirm(model, quotes, terms),
    }
}

/// Refuses a price that no fitting offer takes: the job would only wait for its deadline.
fn refuse_low_price(quotes: &[QuoteDto], terms: OrderTerms) -> Outcome {
    let serving = quotes.iter().filter(|quote| quote.serves);
    let Some(cheapest) = serving.filter_map(|quote| quote.price).min() else {
        return Ok(());
    };
    if cheapest <= terms.max_price {
        return Ok(());
    }
    let text = format!(
        "--max-price {} is too low: the cheapest offer that fits asks {}; nothing was ordered",
        terms.max_price, cheapest
    );
    Err(
        Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(format!(
            "--max-price {cheapest} or more; without it {} is allowed",
            quotes.first().map_or(cheapest, |quote| quote.max_price)
        )),
    )
}

fn print(
    inference: &Inference,
    (answers, tiles): (&[Answer<'_>], DrawnTiles),
    (ordered, shown): (&OrderedJob, &Printed<'_>),
) -> Outcome {
    for text in answers.lines(shown.raw) {
        line(text)?;
    }
    match &inference.proof {
        Some(proof) => line(format_args!(
            "proof of {} bytes verified here in {:.1} ms",
            proof.file.len(),
            proof.verify_ms
        ))?,
        None => line(format_args!(
            "no proof was ordered; {}",
            modes::assured(ordered.mode, inference.receipt.lease.run_whole)
        ))?,
    }
    if !matches!(shown.order_of, OrderOf::Signed) {
        line(format_args!(
            "for the input {} of the model {}, mode {} ({})",
            ordered.input,
            ordered.model,
            ordered.mode,
            shown.order_of.describe()
        ))?;
    }
    let beside = BesideReceipt {
        zk: inference.proof.as_ref().map(|proof| proof.zk),
        tiles: Some(tiles),
    };
    line(describe_receipt(&inference.receipt, beside))?;
    let job = brief_prefix(inference.receipt.job.id);
    // Only a job of mode proof has a proof to write.
    let proof = match inference.proof {
        Some(_) => " --proof-out proof.bin",
        None => "",
    };
    let api = &shown.api;
    say(format_args!(
        "next: tensorgrid job receipt {job}{proof}{api}"
    ));
    Ok(())
}

fn print_json(
    inference: &Inference,
    answers: &[Answer<'_>],
    (ordered, order_of): (&OrderedJob, &OrderOf),
) -> Outcome {
    let proof = inference.proof.as_ref().map(|proof| {
        serde_json::json!({ "bytes": proof.file.len(), "verify_ms": proof.verify_ms, "verified": true, "zk": proof.zk })
    });
    Ok(json(&serde_json::json!({
        "job": inference.receipt.job.id.to_string(),
        "values": inference.values,
        "answer": answers.json(),
        "greatest": inference.greatest(),
        "proof": proof,
        "ordered": {
            "model": ordered.model.to_string(), "input": ordered.input.to_string(),
            "mode": ordered.mode.to_string(), "by": order_of.describe(),
        },
        "receipt": inference.receipt,
    }))?)
}
