//! `tensorgrid job challenge`: somebody doubts a result of mode optimistic.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use tg_console::outcome::{Exit, Failure, OrFail, Outcome, line, say};
use tg_float::job::FloatModel;
use tg_float::job::trace::FloatClaim;
use tg_ir::CompiledModel;
use tg_node::claim_file;
use tg_node::limits::MODEL_BYTES_MAX;
use tg_proof::AccuserClaim;
use tg_prover::ProvingModel;
use tg_sdk::dto::{JobDto, LeaseDto, ModeDto, ModelDto};
use tg_sdk::guard::{self, OwnRun};
use tg_sdk::{Client, jobs};
use tg_types::limits::INPUT_BYTES_MAX;
use tg_types::{
    Decode as _, Digest, Encode as _, JobId, LeaseId, ModelId, Tier, Transaction, Wallet,
};
use tg_wasm::WasmProgram;

use super::json_of;
use crate::grid::connect::{self, Calling, OfJob};
use crate::grid::job_args::JobChallengeArguments;

/// Most bytes of a model's file.
const MODEL_FILE_MAX: usize = 256 << 20;

const _: () = assert!(MODEL_FILE_MAX as u64 == MODEL_BYTES_MAX);

/// Between two looks at a job.
const POLL: Duration = Duration::from_millis(300);

/// How long the grid may be away.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// Challenges the result of a job, and waits for what comes of it.
pub(super) async fn run(arguments: &JobChallengeArguments, as_json: bool) -> Outcome {
    let client = connect::client(&arguments.api)?;
    let wallet = connect::wallet(&client, &arguments.key).await?;
    let id = connect::job(&client, &arguments.job).await?;
    let before = client.job(id).await.calling("ask for the job")?;
    let live = before.leases.iter().find(|lease| lease.end.is_none());
    let Some(lease) = live.filter(|_| before.mode == ModeDto::Optimistic) else {
        let text = format!(
            "job {id} is {}, of mode {}: only a result of mode optimistic that is not accepted yet can be challenged",
            before.state, before.mode
        );
        return Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)));
    };
    let (lease, challenge) = (lease.id, Transaction::ChallengeResult { lease: lease.id });
    let sent = jobs::submit(&client, &wallet, &challenge, "challenge the result").await;
    sent.of_job()?;
    say("challenged; the fee comes back if the result is wrong");
    let ended = follow(&client, &wallet, (&before, lease)).await?;
    if as_json {
        return json_of(&ended);
    }
    let how = match &ended.end_text {
        Some(end) => end.clone(),
        None => "what you claimed is wrong, and the result stands".to_owned(),
    };
    Ok(line(format_args!("lease {lease}: {how}"))?)
}

/// Follows a challenged lease until it ends or the challenge has failed; says what a right run gives when it is asked for that.
async fn follow(
    client: &Client,
    wallet: &Wallet,
    (job, lease): (&JobDto, LeaseId),
) -> Result<LeaseDto, Failure> {
    let me = wallet.address();
    let mut shown = String::new();
    let (mut was_mine, mut claimed) = (false, false);
    let mut made: Option<Vec<u8>> = None;
    let mut answered = Instant::now();
    loop {
        let now = match client.job(job.id).await {
            Err(error) if error.is_transient() && answered.elapsed() < ABSENCE_MAX => {
                tokio::time::sleep(POLL).await;
                continue;
            }
            now => now.calling("ask for the job")?,
        };
        answered = Instant::now();
        let of_lease = now.leases.iter().find(|it| it.id == lease);
        let Some(seen) = of_lease.filter(|it| it.end.is_none()) else {
            let ended = of_lease.or(now.leases.last()).cloned();
            return ended.ok_or_else(|| {
                Failure::new(
                    Exit::NotFound,
                    anyhow::anyhow!(
                        "job {} is {} and no provider has it: there is no result to challenge",
                        job.id,
                        job.state
                    ),
                )
            });
        };
        let stage = seen.check.as_ref().map(|it| it.stage.clone());
        let stage = stage.unwrap_or_else(|| now.state.to_string());
        if shown != stage {
            say(format_args!("  {stage}"));
            shown = stage;
        }
        let dispute = seen.check.as_ref().and_then(|it| it.dispute.as_ref());
        let mine = dispute.filter(|it| it.accuser == me);
        // Another one has its turn, or the vote goes on: this one failed.
        if was_mine && mine.is_none() && now.state != tg_sdk::dto::JobStateDto::Disputed {
            return Ok(seen.clone());
        }
        was_mine |= mine.is_some();
        if jobs::waits_for_claim(seen, &me) && !claimed {
            let claim = match &made {
                Some(claim) => claim,
                None => made.insert(claim(client, job).await?),
            };
            // The fee is lost if it is not handed in: as long as there is time it is tried again.
            match jobs::claim(client, wallet, lease, claim.clone()).await {
                Ok(()) => claimed = true,
                Err(error) => say(format_args!("  not handed in yet: {error}")),
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Runs the job's model here, and says what all parts of the run are.
async fn claim(client: &Client, job: &JobDto) -> Result<Vec<u8>, Failure> {
    say("  running the model here, to say what a right run gives");
    let model = client.model(job.model).await.calling("ask for the model")?;
    let input = client.blob(job.input, INPUT_BYTES_MAX as usize).await;
    let input = input.calling("fetch the input")?;
    claim_of(client, &model, input).await
}

/// The model of a file is the one that was registered.
fn check_model(found: ModelId, registered: ModelId) -> anyhow::Result<()> {
    // Stops: a file of the API's choice, whose run gives the wrong result that a provider gave, or another than the right one.
    if found == registered {
        return Ok(());
    }
    anyhow::bail!("the file that the grid gave holds the model {found}, and not {registered}");
}

/// Fetches a model, runs it here on what was ordered, and says what all parts of the run are.
async fn claim_of(client: &Client, model: &ModelDto, input: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let file = file_of(client, model).await?;
    let registered = model.id;
    let made = tokio::task::spawn_blocking(move || claim_in(&file, registered, &input));
    ran_here(made.await)
}

/// Fetches what of a model is run.
async fn file_of(client: &Client, model: &ModelDto) -> Result<Vec<u8>, Failure> {
    // Of a program the public part is all of it.
    let is_program = model
        .facts
        .as_ref()
        .is_some_and(|it| it.tier == Tier::Wasm1.to_string());
    let file = match is_program {
        true => model.public_blob,
        false => model.weights_blob,
    };
    let file = client.blob(file, MODEL_FILE_MAX).await;
    file.calling("fetch the model")
}

/// Runs the model of a file, and says what all parts of the run are.
fn claim_in(file: &[u8], registered: ModelId, input: &[u8]) -> anyhow::Result<Vec<u8>> {
    if tg_wasm::is_program(file) {
        let program = WasmProgram::read(file)?;
        check_model(program.model_id(), registered)?;
        return Ok(program.claim(input)?.to_bytes());
    }
    if tg_float::job::is_float_file(file) {
        let model = FloatModel::read(file)?;
        check_model(model.model_id(), registered)?;
        return Ok(model.claim(input).to_bytes());
    }
    let model = CompiledModel::read(file)?;
    let committed = ProvingModel::of_checked(model.clone())?;
    check_model(committed.id(), registered)?;
    Ok(claim_file(&model, input))
}

/// Runs the model of a file, no program, and says what its receipt has to say; nothing if it does not run on the input.
fn run_in(file: &[u8], registered: ModelId, input: &[u8]) -> anyhow::Result<Option<OwnRun>> {
    let claim = claim_in(file, registered, input)?;
    let Some(answer) = claimed_answer(&claim) else {
        return Ok(None);
    };
    let (trace, work) = match AccuserClaim::from_bytes(&claim) {
        Ok(AccuserClaim::Run(claimed)) => {
            let names = claimed.leaves.names(&CompiledModel::read(file)?.program);
            let names = names.context("the run has not the leaves of the model")?;
            (tg_ir::tiles::root(&names), 0)
        }
        Ok(AccuserClaim::NoRun) | Err(_) => {
            let run = FloatModel::read(file)?.run(input);
            (run.trace, run.answer.work)
        }
    };
    Ok(Some(OwnRun {
        output: Digest::of_blob(&answer),
        trace,
        work,
        claim,
    }))
}

/// What a run here gave.
fn ran_here<T>(made: Result<anyhow::Result<T>, tokio::task::JoinError>) -> Result<T, Failure> {
    let made = made.or_fail(Exit::Failed, "run the model here")?;
    made.map_err(|error| {
        Failure::new(Exit::Rejected, error)
            .hint("the result is not checked by a run here: ask another API with --api")
    })
}

/// What came of watching over a job.
pub(super) struct Guarded {
    /// The digest of what the model gave here.
    output: Digest,
    /// How many results were challenged.
    challenged: usize,
}

impl Guarded {
    /// Says whether something was challenged, and gives what the model gave here.
    pub(super) fn told(&self) -> KnownResult {
        if self.challenged > 0 {
            say("a result was challenged: the model gave another one here");
        }
        KnownResult {
            output: self.output,
            by: "the model gives here",
        }
    }
}

/// What is known of a result from elsewhere than the API that shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownResult {
    /// The digest of the output.
    pub(super) output: Digest,
    /// Who says so, as the beginning of a sentence.
    pub(super) by: &'static str,
}

/// Whether the result of a job that the grid accepted, as the API says, is the one that is known.
pub(super) fn compare(known: KnownResult, (job, accepted): (JobId, Digest)) -> Outcome {
    // Stops: a right result while it can be challenged, and a wrong one when it is shown.
    let KnownResult { output, by } = known;
    if accepted == output {
        return Ok(());
    }
    let text = format!("the result of job {job} is {accepted}, as the API says; {by} {output}");
    Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text))
        .hint("the result is wrong, or the API shows another one than the grid accepted"))
}

/// Watches over a job of mode optimistic until it ends: runs its model here and challenges every other result.
pub(super) async fn guard(
    client: &Client,
    wallet: &Wallet,
    (model, job): (&ModelDto, JobId),
    input: &[u8],
) -> Result<Guarded, Failure> {
    let file = file_of(client, model).await?;
    let (registered, input) = (model.id, input.to_vec());
    let made = tokio::task::spawn_blocking(move || run_in(&file, registered, &input));
    let own = ran_here(made.await)?.ok_or_else(no_answer)?;
    let output = own.output;
    let challenged = guard::challenge_others(client, wallet, job, own).await;
    Ok(Guarded {
        output,
        challenged: challenged.of_job()?,
    })
}

/// What the model gives here on an input.
pub(super) async fn own_answer(
    client: &Client,
    model: &ModelDto,
    input: Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    answer_of(&claim_of(client, model, input).await?)
}

/// The answer of a run here.
fn answer_of(claim: &[u8]) -> Result<Vec<u8>, Failure> {
    claimed_answer(claim).ok_or_else(no_answer)
}

/// There is none.
fn no_answer() -> Failure {
    let text = "the model that the grid gave does not run on what was ordered";
    Failure::new(Exit::Rejected, anyhow::anyhow!(text))
}

/// The bytes that a claim says are the answer; nothing if it says that there is none.
fn claimed_answer(claim: &[u8]) -> Option<Vec<u8>> {
    if let Ok(claim) = FloatClaim::from_bytes(claim) {
        return Some(claim.answer.to_bytes());
    }
    match AccuserClaim::from_bytes(claim) {
        Ok(AccuserClaim::Run(file)) => Some(file.output),
        Ok(AccuserClaim::NoRun) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_registered_model_is_run() {
        let (registered, other) = (ModelId::new([1; 32]), ModelId::new([2; 32]));
        assert!(check_model(registered, registered).is_ok());
        let error = check_model(other, registered);
        let error = error.expect_err("it is another").to_string();
        assert!(error.contains(&other.to_string()), "{error}");
        assert!(error.contains(&registered.to_string()), "{error}");
    }

    #[test]
    fn the_result_at_the_end_is_that_of_the_run_here() {
        let (job, own) = (JobId::new([1; 32]), Digest::of_blob(b"own"));
        let known = KnownResult {
            output: own,
            by: "the model gives here",
        };
        assert!(compare(known, (job, own)).is_ok());
        let refused = compare(known, (job, Digest::of_blob(b"another")));
        let refused = refused.expect_err("it is another");
        assert_eq!(refused.exit, Exit::Rejected);
    }
}
