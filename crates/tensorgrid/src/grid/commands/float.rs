//! Float models (tier TGF-1): `model add --tier tgf1`, and `infer` and `job fetch` of such a model.

use std::time::{Duration, Instant};
use tg_offline::models;

use tg_float::codec;
use tg_float::job::{
    FloatAnswer, FloatEnd, FloatLimits, FloatModel, FloatModelFile, NamedTensors, PublicFloatModel,
    limits,
};
use tg_float::tgf::{Budget, run_in_order};
use tg_float::{Data, Dim, FloatTensor, Graph, tensor};
use tg_sdk::dto::{DryRunDto, JobDto, JobReceiptDto, ModeDto, ModelDto, ModelStateDto, QuoteDto};
use tg_sdk::jobs::{self, Followed, OrderedJob};
use tg_sdk::{Client, OrderTerms};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{Decode as _, Digest, Encode as _, JobId, Tier, TraceForm, Wallet};

use super::challenge::{self, Guarded};
use super::interrupted::{LeftRunning, unless_interrupted};
use super::modes;
use super::order::{
    confirm, describe_wait, detached, dry_run, print_dry_run, quotes, refuse_sealed_bid, terms,
};
use super::{json_of, proved, wallet};
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::describe::{BesideReceipt, describe_receipt};
use crate::grid::embedded::{ModelFiles, refuse_taken_name, register, wait_until_active};
use crate::grid::infer_args::InferArguments;
use crate::grid::model_args::ModelAddArguments;
use crate::grid::projects::{ProjectNote, tell_ordered};
use crate::grid::trust::Trusting;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, json, line, say};
use tg_console::verify::Verify;
use tg_offline::{run, text};

/// Whether a model is executed in floats.
pub(super) fn is_float(model: &ModelDto) -> bool {
    let facts = model.facts.as_ref();
    facts.is_some_and(|facts| facts.tier == Tier::Tgf1.as_str())
}

/// Registers an ONNX file as it is, and waits for the validators' verdict.
pub(super) async fn add(arguments: &ModelAddArguments, as_json: bool) -> Outcome {
    let path = &arguments.model;
    let graph = models::brought(path)?.graph;
    let work = match arguments.work {
        Some(work) => work,
        None => measured(&graph)?,
    };
    let limits = FloatLimits {
        work,
        ..FloatLimits::default()
    };
    let made = FloatModelFile::new(&graph, limits).or_fail(Exit::Rejected, "take the model")?;
    let public = PublicFloatModel::read(&made.public).or_fail(Exit::Failed, "read the model")?;
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = arguments.name.clone().unwrap_or_else(|| stem.into_owned());
    let made = ModelFiles {
        id: public.model_id(),
        public: made.public,
        weights: made.file,
    };
    refuse_taken_name(&client, wallet.address(), (made.id, name.as_str())).await?;
    say(format_args!(
        "storing and registering the model; a run may take {work} units of work ..."
    ));
    let id = register(&client, &wallet, made, &name).await?;
    say("the validators check it ...");
    let model = wait_until_active(&client, id).await?;
    if as_json {
        return json_of(&model);
    }
    line(format_args!(
        "model {} (TGF-1) is active as {}",
        model.name, model.id
    ))?;
    say(format_args!(
        "next: tensorgrid infer {} INPUT.npy{}, or NAME=INPUT.npy for each of {}",
        model.name,
        connect::api_flag(&client),
        run::described(public.outline())
    ));
    Ok(())
}

/// Twice the work of a run on zeros, where an axis of no stated size has one element.
fn measured(graph: &Graph) -> Result<u64, Failure> {
    let size = |axis: &Dim| match axis {
        Dim::Known(size) => *size,
        Dim::Named(_) | Dim::Unknown => 1,
    };
    let mut zeros = Vec::with_capacity(graph.inputs.len());
    for input in &graph.inputs {
        let sizes: Option<Vec<usize>> =
            input.shape.as_ref().map(|it| it.iter().map(size).collect());
        let made = input.dtype.zip(sizes).and_then(|(dtype, sizes)| {
            let count = tensor::elements(&sizes).filter(|count| *count <= 1 << 28)?;
            FloatTensor::new(sizes, Data::zeros(dtype, count)).ok()
        });
        zeros.push(made.ok_or_else(|| unmeasured("an input has no stated type and shape"))?);
    }
    let given: Vec<&FloatTensor> = zeros.iter().collect();
    let budget = Budget {
        bytes: usize::try_from(limits::MEMORY_MAX).unwrap_or(usize::MAX),
        work: limits::WORK_MAX,
        ..Budget::default()
    };
    let execution = run_in_order(graph, &given, &budget);
    match execution.result {
        Ok(_) => Ok(execution.work.saturating_mul(2).min(limits::WORK_MAX)),
        Err(error) => {
            let error = anyhow::Error::new(error).context("run the model on zeros");
            Err(Failure::new(Exit::Usage, error)
                .hint("--work N says how much work a run may take, without measuring"))
        }
    }
}

fn unmeasured(reason: &'static str) -> Failure {
    Failure::new(
        Exit::Usage,
        anyhow::anyhow!("{reason}, so its work cannot be measured"),
    )
    .hint("--work N says how much work a run may take")
}

/// The inputs that a command line gives: files, or a text. Of a registered graph nothing says which tokenizer is its own.
fn given_inputs(outline: &Graph, arguments: &InferArguments) -> Result<Vec<FloatTensor>, Failure> {
    let Some(given) = arguments.text.given() else {
        return run::inputs(outline, &arguments.inputs);
    };
    let path = arguments.text.tokenizer.as_deref();
    let tokenizer = text::read(path.ok_or_else(text::missing)?)?;
    text::graph_inputs(outline, &tokenizer, given, (None, None))
}

/// What is ordered: its input, what offers ask, and the terms.
async fn asked(
    client: &Client,
    wallet: &Wallet,
    model: &ModelDto,
    arguments: &InferArguments,
) -> Result<(Vec<u8>, Vec<QuoteDto>, OrderTerms), Failure> {
    refuse_proof(arguments)?;
    let input = input_of(client, model, arguments).await?;
    let mode = modes::mode_of(client, wallet, (model, &input), arguments.into()).await?;
    let quotes = quotes(client, (model, mode), &arguments.order).await?;
    let terms = terms(
        client,
        wallet,
        (mode, arguments.verify, &arguments.order),
        &quotes,
        (model.id, &input),
    )
    .await?;
    refuse_sealed_bid(terms, "a float model (TGF-1)")?;
    Ok((input, quotes, terms))
}

/// The input that a command line gives.
pub(super) async fn input_of(
    client: &Client,
    model: &ModelDto,
    arguments: &InferArguments,
) -> Result<Vec<u8>, Failure> {
    let public = fetch_public(client, model).await?;
    let outline = public.outline();
    let tensors = given_inputs(outline, arguments)?;
    let names = outline.inputs.iter().map(|input| input.name.clone());
    let input = NamedTensors(names.zip(tensors).collect()).to_bytes();
    let most = public.limits().input.min(INPUT_BYTES_MAX);
    if input.len() > most as usize {
        let text = format!(
            "the input has {} bytes, a job takes at most {most}",
            input.len()
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    }
    Ok(input)
}

/// What the order of some arguments would come to in the next block.
pub(super) async fn quote(
    client: &Client,
    model: &ModelDto,
    arguments: &InferArguments,
) -> Result<DryRunDto, Failure> {
    let wallet = connect::wallet(client, &arguments.key).await?;
    let (input, _, terms) = asked(client, &wallet, model, arguments).await?;
    dry_run(client, &wallet, (model.id, &input), terms).await
}

/// Orders a run, follows it, and prints the outputs.
pub(super) async fn infer(
    client: &Client,
    model: &ModelDto,
    arguments: &InferArguments,
    as_json: bool,
) -> Outcome {
    let wallet = connect::wallet(client, &arguments.key).await?;
    let trusting = Trusting::begin_to_show(client, &arguments.chain).await?;
    let project = ProjectNote::of(arguments.order.project.as_deref(), &arguments.key)?;
    let (input, quotes, terms) = asked(client, &wallet, model, arguments).await?;
    if arguments.order.dry_run {
        let answer = dry_run(client, &wallet, (model.id, &input), terms).await?;
        return print_dry_run(&answer, as_json);
    }
    if !arguments.order.yes {
        confirm(model, &quotes, terms)?;
    }
    let id = jobs::order_of(client, &wallet, model.id, input.clone(), terms).await;
    let id = id.of_job()?;
    tell_ordered("", id, project.as_ref());
    let ordered = OrderedJob::new(id, model.id, &input, terms.mode.into());
    if arguments.detach {
        return detached(client, &ordered, as_json).await;
    }
    let again = (!arguments.trust).then_some(input.as_slice());
    let is_watched = ModeDto::from(terms.mode) == ModeDto::Optimistic;
    let watched = again.filter(|_| is_watched);
    let guard = guarded(client, &wallet, (model, id), watched);
    let finish = finish(client, model, (&ordered, again, trusting), as_json);
    let wait = Box::pin(async {
        let (finished, guarded) = tokio::join!(finish, guard);
        // The result was compared with a run here already.
        if let Some(guarded) = guarded? {
            guarded.told();
        }
        finished
    });
    let left = || vec![LeftRunning::Ordered(ordered)];
    unless_interrupted((client, Some(&wallet)), left, wait).await?;
    wallet::hint(&arguments.key);
    Ok(())
}

/// Refuses an order of a float model that asks for a proof.
fn refuse_proof(arguments: &InferArguments) -> Outcome {
    let asks_for_proof = arguments
        .verify
        .is_some_and(|it| it.verify == Verify::Proof);
    if asks_for_proof || arguments.proof_out.is_some() {
        return Err(no_proof());
    }
    Ok(())
}

/// Watches over a job while it can be challenged, if `input` says what to run here.
async fn guarded(
    client: &Client,
    wallet: &Wallet,
    (model, id): (&ModelDto, JobId),
    input: Option<&[u8]>,
) -> Result<Option<Guarded>, Failure> {
    let Some(input) = input else {
        return Ok(None);
    };
    let guarded = challenge::guard(client, wallet, (model, id), input).await?;
    Ok(Some(guarded))
}

/// Fetches a model with its constants.
async fn whole(client: &Client, model: &ModelDto) -> Result<FloatModel, Failure> {
    let limit = codec::limits::CONSTANTS_BYTES_MAX + codec::limits::STRUCTURE_BYTES_MAX;
    let file = client.blob(model.weights_blob, limit + (1 << 10)).await;
    let file = file.calling("fetch the model")?;
    FloatModel::read(&file).or_fail(Exit::Rejected, "read the model")
}

/// Proofs and samples of floats are not made.
fn no_proof() -> Failure {
    let text = "a float model (TGF-1) is checked by running it again, whole or in drawn parts: there is no proof of floats";
    let failure = Failure::new(Exit::Usage, anyhow::anyhow!(text));
    failure.hint(
        "--verify sync, recompute, optimistic or replicate; or `model compile`, whose models of integers are proved",
    )
}

/// Follows a job to its end and prints its outputs. `again`: the input, where the answer is compared with a run here.
pub(super) async fn finish(
    client: &Client,
    model: &ModelDto,
    (ordered, again, trusting): (&OrderedJob, Option<&[u8]>, Option<Trusting>),
    as_json: bool,
) -> Outcome {
    let id = ordered.job;
    let mut state = String::new();
    let mut tell = |news: Followed<'_>| match news {
        Followed::Changed(job) if job.state.to_string() != state => {
            state = job.state.to_string();
            say(format_args!("  {state}"));
        }
        Followed::Changed(_) => {}
        Followed::Waits(why) => say(format_args!("             {}", describe_wait(why))),
    };
    let job: JobDto = jobs::follow(client, id, &mut tell).await.of_job()?;
    let collected = jobs::collect_output(client, ordered, &job).await;
    let (receipt, bytes) = collected.of_job()?;
    proved::compare(trusting, (&job, &receipt)).await?;
    let answer = FloatAnswer::from_bytes(&bytes).or_fail(Exit::Rejected, "read the answer")?;
    let took = match again {
        Some(input) => Some(run_again(client, model, input, &receipt, &bytes).await?),
        None => None,
    };
    if as_json {
        let data = serde_json::json!({
            "job": id.to_string(), "tier": Tier::Tgf1.as_str(), "end": answer.end.to_string(), "work": answer.work,
            "outputs": outputs_json(&answer)?, "run_again_ms": took.map(|it| it.as_secs_f64() * 1e3), "receipt": receipt,
        });
        json(&data)?;
    } else {
        print(&answer)?;
        line(match took {
            Some(took) => format!(
                "run here again in {:.1} ms: the same bits and the same bill ({} units)",
                took.as_secs_f64() * 1e3,
                answer.work
            ),
            None => "not run here: this answer is the word of the validators that ran it again"
                .to_owned(),
        })?;
        line(describe_receipt(&receipt, BesideReceipt::default()))?;
    }
    match answer.end {
        FloatEnd::Finished => Ok(()),
        end => Err(Failure::new(
            Exit::Rejected,
            anyhow::anyhow!("the run ended: {end}"),
        )),
    }
}

fn outputs_of(answer: &FloatAnswer) -> Result<NamedTensors, Failure> {
    match answer.end {
        FloatEnd::Finished => {
            NamedTensors::read(&answer.output).or_fail(Exit::Rejected, "read the outputs")
        }
        _ => Ok(NamedTensors::default()),
    }
}

pub(super) fn print(answer: &FloatAnswer) -> Outcome {
    for (name, tensor) in outputs_of(answer)?.0 {
        line(format_args!(
            "output `{name}` {}",
            run::described_value(&tensor)
        ))?;
    }
    Ok(())
}

pub(super) fn outputs_json(answer: &FloatAnswer) -> Result<Vec<serde_json::Value>, Failure> {
    let outputs = outputs_of(answer)?;
    let each = outputs.0.iter().map(|(name, tensor)| {
        let mut value = run::tensor_json(tensor);
        value["name"] = serde_json::json!(name);
        value
    });
    Ok(each.collect())
}

/// The public part of a float model, which must be the one of its id.
async fn fetch_public(client: &Client, model: &ModelDto) -> Result<PublicFloatModel, Failure> {
    if model.state != ModelStateDto::Active {
        let text = format!("the model {} is {}", model.name, model.state);
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    let limit = usize::try_from(limits::PUBLIC_BYTES_MAX).unwrap_or(usize::MAX);
    let bytes = client.blob(model.public_blob, limit).await;
    let bytes = bytes.calling("fetch the public part")?;
    let public = PublicFloatModel::read(&bytes);
    let public = public.or_fail(Exit::Rejected, "read the public part")?;
    if public.model_id() != model.id {
        let text = format!(
            "the grid gave the model {} for {}",
            public.model_id(),
            model.id
        );
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    Ok(public)
}

/// Runs the model on what was ordered and compares it with what the grid accepted.
async fn run_again(
    client: &Client,
    model: &ModelDto,
    input: &[u8],
    receipt: &JobReceiptDto,
    answer: &[u8],
) -> Result<Duration, Failure> {
    let float = whole(client, model).await?;
    let start = Instant::now();
    let form = TraceForm::of(receipt.job.mode.into(), receipt.lease.run_whole);
    let names = (&receipt.job.id, &receipt.lease.id);
    let (found, trace) = float.run_for(input, form, names);
    let agrees = float.model_id() == model.id
        && found.to_bytes() == answer
        && trace == receipt.receipt.trace
        && Digest::of_blob(answer) == receipt.receipt.output;
    if agrees {
        return Ok(start.elapsed());
    }
    let text = "the grid accepted another answer than the model gives here";
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)))
}
