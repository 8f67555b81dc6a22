//! One job from order to checked result, as a client that trusts nobody sees it: the input is quantised here, the
//! order is signed here, and the proof that comes back is verified here, against the public model.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tg_exec::coding::encode;
use tg_exec::execute::top_class;
use tg_ir::Program;
use tg_proof::{ExpectedStatement, ProofFile, PublicModel};
use tg_sdk::Client;
use tg_sdk::dto::{
    DevelopmentInferDto, DryRunDto, InferenceDto, JobDto, JobReceiptDto, JobStateDto, JobWhyDto,
    ModeDto, ModelDto, ModelStateDto, QuoteDto,
};
use tg_types::limits::ATTEMPTS_USUAL;
use tg_types::{
    Address, Amount, Digest, JobId, JobNeeds, JobOrder, SignedTransaction, TimestampMs,
    Transaction, Wallet,
};

use super::connect::{self, Calling};
use super::{accounts, table};
use crate::offline::answer::Answer;
use crate::offline::files::output_values;
use crate::outcome::{Exit, Failure, OrFail};

/// Largest public model that is fetched, in bytes.
const PUBLIC_MODEL_BYTES_MAX: usize = 16 << 20;

/// Largest output that is fetched, in bytes.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// How often the job's state is asked.
const POLL: Duration = Duration::from_millis(150);

/// How long a development client's job may take.
const DEVELOPMENT_DEADLINE: Duration = Duration::from_secs(120);

/// How long the grid may be away while a job is followed.
const ABSENCE_MAX: Duration = Duration::from_secs(30);

/// How long a transaction is signed again because another one of the account was faster, or the grid is busy.
const SIGN_MAX: Duration = Duration::from_secs(60);

/// Refusals of a nonce that another transaction of the account took.
const NONCE_TAKEN: [&str; 8] = [
    "TG-LED-002",
    "TG-LED-003",
    "TG-LED-004",
    "TG-NODE-044",
    "TG-NODE-045",
    "TG-NODE-046",
    // The base fee rose beyond what was offered, or another one waits that offers more.
    "TG-LED-008",
    "TG-NODE-049",
];

/// Refusals of a grid that takes nothing more at the moment.
const NO_ROOM: [&str; 3] = ["TG-NODE-042", "TG-NODE-043", "TG-NODE-047"];

/// How often it is asked why a job waits.
const WHY: Duration = Duration::from_secs(2);

/// What the requestor wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// How the result is checked.
    pub(crate) mode: ModeDto,
    /// Most that is paid to the provider.
    pub(crate) max_price: Amount,
    /// How long it may take.
    pub(crate) deadline: Duration,
    /// Most leases.
    pub(crate) max_attempts: u8,
    /// What it needs of a machine.
    pub(crate) needs: JobNeeds,
}

/// A result that was checked here.
#[derive(Debug)]
pub(crate) struct Inference {
    /// What stands behind it.
    pub(crate) receipt: JobReceiptDto,
    /// The output's integers.
    pub(crate) values: Vec<i32>,
    /// Index of the largest one; the lowest of equals.
    pub(crate) top: usize,
    /// The proof; absent for mode none.
    pub(crate) proof: Option<CheckedProof>,
}

/// A proof that was verified here.
#[derive(Debug)]
pub(crate) struct CheckedProof {
    /// The proof file.
    pub(crate) file: Vec<u8>,
    /// How long verifying took here.
    pub(crate) verify_ms: f64,
    /// Whether it is in zero knowledge.
    pub(crate) zk: bool,
}

/// Fetches a model's public part and checks that it is that model's, with its registration proof.
pub(crate) async fn public_model(
    client: &Client,
    model: &ModelDto,
) -> Result<PublicModel, Failure> {
    if model.state != ModelStateDto::Active {
        let why = model
            .refusal
            .as_deref()
            .unwrap_or("validators still check it, or too few hold its files yet");
        let text = format!("the model {} is {}: {why}", model.name, model.state);
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    let bytes = client
        .blob(model.public_blob, PUBLIC_MODEL_BYTES_MAX)
        .await
        .calling("fetch the public model")?;
    let public = PublicModel::decode(&bytes).or_fail(Exit::Rejected, "read the public model")?;
    if public.id() != model.id {
        let text = format!("the grid gave the public part of model {}", public.id());
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
    }
    public
        .verify_registration()
        .or_fail(Exit::Rejected, "verify the model's registration proof")?;
    Ok(public)
}

/// The maximum price of an order that names none, as the grid works it out for its quotes; `None` if no offer could
/// ever serve the order.
pub(crate) fn usual_max_price(quotes: &[QuoteDto]) -> Option<Amount> {
    let serving = quotes.iter().find(|quote| quote.serves);
    serving.map(|quote| quote.max_price)
}

/// Signs and submits a transaction; signs again when another one of the same account was faster. It is signed again only
/// after the grid refused the former one with a code that says so: a refused transaction is in no pool and in no block,
/// so nothing is paid twice. Where no answer came, nobody knows, and nothing is signed again.
pub(crate) async fn submit(
    client: &Client,
    wallet: &Wallet,
    transaction: &Transaction,
    doing: &'static str,
) -> Result<SignedTransaction, Failure> {
    let started = Instant::now();
    loop {
        let result = client.sign_and_submit(wallet, transaction.clone()).await;
        let again = result.as_ref().is_err_and(|error| {
            let code = error.code();
            code.is_some_and(|code| NONCE_TAKEN.contains(&code) || NO_ROOM.contains(&code))
        });
        if !again || started.elapsed() > SIGN_MAX {
            return result.calling(doing);
        }
        tokio::time::sleep(connect::a_while()).await;
    }
}

/// The order of an input that was quantised here, with its bytes; `ledger_ms` is the grid's ledger time.
pub(super) fn order_of(
    public: &PublicModel,
    reals: &[f32],
    wish: Wish,
    ledger_ms: u64,
) -> Result<(JobOrder, Vec<u8>), Failure> {
    let input = encode(&public.program().input, reals).or_fail(Exit::Usage, "take the input")?;
    let bytes = input.to_bytes();
    let deadline = u64::try_from(wish.deadline.as_millis()).unwrap_or(u64::MAX);
    let order = JobOrder {
        model: public.id(),
        input: Digest::of_blob(&bytes),
        input_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        mode: wish.mode.into(),
        max_price: wish.max_price,
        deadline: TimestampMs::new(ledger_ms.saturating_add(deadline)),
        max_attempts: wish.max_attempts,
        needs: wish.needs,
    };
    Ok((order, bytes))
}

/// What an order would come to in the next block; nothing is stored or ordered.
pub(crate) async fn dry_run(
    client: &Client,
    requestor: Address,
    public: &PublicModel,
    reals: &[f32],
    wish: Wish,
) -> Result<DryRunDto, Failure> {
    let status = client.status().await.calling("ask for the grid's time")?;
    let (order, _) = order_of(public, reals, wish, status.ledger_time_ms)?;
    let answer = client.dry_run(requestor, &order).await;
    answer.calling("ask what the order would come to")
}

/// Stores the input of an order. An account that may store nothing is told why it cannot order either.
async fn store_input(
    client: &Client,
    wallet: &Wallet,
    order: &JobOrder,
    bytes: Vec<u8>,
) -> Result<(), Failure> {
    let uploader = client.uploading_as(wallet);
    let stored = connect::patiently(|| uploader.put_blob(bytes.clone())).await;
    if stored.as_ref().is_err_and(|it| it.status() == Some(401)) {
        let asked = client.dry_run(wallet.address(), order).await;
        asked.calling("order the job").map_err(|failure| {
            failure.hint("an account needs the maximum price, the verification fee and the fees of its transactions")
        })?;
    }
    stored.calling("store the input")?;
    Ok(())
}

/// Stores the input, signs the order and submits it.
pub(crate) async fn order(
    client: &Client,
    wallet: &Wallet,
    public: &PublicModel,
    reals: &[f32],
    wish: Wish,
) -> Result<JobId, Failure> {
    let status = connect::patiently(|| client.status()).await;
    let status = status.calling("ask for the grid's time")?;
    let (order, bytes) = order_of(public, reals, wish, status.ledger_time_ms)?;
    store_input(client, wallet, &order, bytes).await?;
    let signed = submit(
        client,
        wallet,
        &Transaction::SubmitJob { order },
        "order the job",
    )
    .await?;
    Ok(tg_types::signed::job_id(signed.id(&status.domain.into())))
}

/// What is told of a job that is followed.
pub(crate) enum Followed<'a> {
    /// It changed.
    Changed(&'a JobDto),
    /// It waits, for another reason than before.
    Waits(&'a JobWhyDto),
}

/// Follows a job to its end and tells every new view of it, and why it waits.
pub(crate) async fn follow(
    client: &Client,
    id: JobId,
    tell: &mut (dyn FnMut(Followed<'_>) + Send),
) -> Result<JobDto, Failure> {
    let ordered = Instant::now();
    let mut seen: Option<JobDto> = None;
    let mut answered = Instant::now();
    let mut asked = Instant::now();
    let mut reason = String::new();
    loop {
        match client.job(id).await {
            Ok(job) => {
                answered = Instant::now();
                if seen.as_ref() != Some(&job) {
                    tell(Followed::Changed(&job));
                }
                if job.state.is_final() {
                    return Ok(job);
                }
                let waits = job.state == JobStateDto::Queued;
                if waits && asked.elapsed() >= WHY {
                    asked = Instant::now();
                    // Nothing depends on it: who cannot say why now is asked again.
                    if let Ok(why) = client.job_why(id).await
                        && why.summary != reason
                    {
                        tell(Followed::Waits(&why));
                        reason = why.summary;
                    }
                }
                seen = Some(job);
            }
            // The order may not be in a final block yet.
            Err(error) if error.is_not_found() && ordered.elapsed() < ABSENCE_MAX => {}
            Err(error) if error.is_transient() && answered.elapsed() < ABSENCE_MAX => {}
            Err(error) => return Err(error).calling("follow the job"),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Fetches the result of a paid job and checks it. The requestor's input digest is in the job it signed.
pub(crate) async fn collect(
    client: &Client,
    public: &PublicModel,
    job: &JobDto,
) -> Result<Inference, Failure> {
    if job.state != JobStateDto::Paid {
        let reason = job.reason.as_deref().unwrap_or("it has no result");
        let text = format!("the job is {}: {reason}", job.state);
        let hint = format!("tensorgrid job why {}", table::brief_prefix(job.id));
        return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)).hint(hint));
    }
    let receipt = client
        .job_receipt(job.id)
        .await
        .calling("fetch the receipt")?;
    let output_digest = receipt.receipt.output;
    let (output, proof) = match (job.mode, receipt.evidence) {
        (ModeDto::Zk, Some(evidence)) => {
            let expected = ExpectedStatement {
                job: Some(job.id),
                provider: Some(receipt.lease.provider),
                input: Some(job.input),
                output: Some(output_digest),
            };
            let (output, checked) = check(client, public, evidence, &expected).await?;
            (output, Some(checked))
        }
        (ModeDto::Zk, None) => {
            let text = "the grid accepted a job of mode zk without a proof";
            return Err(Failure::new(Exit::Rejected, anyhow::anyhow!(text)));
        }
        (ModeDto::None, _) => {
            let output = client.blob(output_digest, OUTPUT_BYTES_MAX).await;
            (output.calling("fetch the output")?, None)
        }
    };
    let values = output_values(public.program(), &output);
    Ok(Inference {
        top: top_class(&values).unwrap_or(0),
        values,
        receipt,
        proof,
    })
}

/// Fetches a proof and verifies it; gives the output it proves.
async fn check(
    client: &Client,
    public: &PublicModel,
    evidence: Digest,
    expected: &ExpectedStatement,
) -> Result<(Vec<u8>, CheckedProof), Failure> {
    let bytes = client
        .blob(evidence, tg_proof::PROOF_FILE_MAX)
        .await
        .calling("fetch the proof")?;
    let file = ProofFile::read(&bytes).or_fail(Exit::Rejected, "read the proof")?;
    let started = Instant::now();
    tg_proof::verify(public, &file, expected)
        .or_fail(Exit::Rejected, "verify the proof")
        .map_err(|failure| {
            failure.hint("the grid's validators do not do their work: trust none of them")
        })?;
    let verify_ms = started.elapsed().as_secs_f64() * 1e3;
    let checked = CheckedProof {
        file: bytes,
        verify_ms,
        zk: file.statement.zk.is_some(),
    };
    Ok((file.output, checked))
}

/// Runs an inference on behalf of a client of a development network, paid by its requestor account.
pub(crate) async fn on_behalf(
    client: &Client,
    request: DevelopmentInferDto,
) -> Result<InferenceDto, Failure> {
    let model = connect::model(client, &request.model).await?;
    let public = public_model(client, &model).await?;
    let reals = in_storage_order(public.program(), &request.input)?;
    let quotes = client
        .quotes(model.id, request.mode)
        .await
        .calling("ask for prices")?;
    let usual = usual_max_price(&quotes);
    let max_price = request.max_price.or(usual).ok_or_else(no_offer)?;
    let wish = Wish {
        mode: request.mode,
        max_price,
        deadline: DEVELOPMENT_DEADLINE,
        max_attempts: ATTEMPTS_USUAL,
        needs: JobNeeds::ANY_MACHINE,
    };
    let wallet = accounts::wallet(accounts::REQUESTOR);
    let id = order(client, &wallet, &public, &reals, wish).await?;
    let job = follow(client, id, &mut |_| {}).await?;
    let inference = collect(client, &public, &job).await?;
    let answer = Answer::new(public.program(), &inference.values).dto();
    Ok(InferenceDto {
        job: id,
        answer,
        output: inference.values,
        top: u32::try_from(inference.top).unwrap_or(u32::MAX),
        receipt: inference.receipt,
    })
}

/// No offer fits.
pub(crate) fn no_offer() -> Failure {
    Failure::new(
        Exit::Rejected,
        anyhow::anyhow!("no provider offers to run this model"),
    )
    .hint("start one with `tensorgrid provider --price 0.01`, or see `tensorgrid provider list`")
}

/// Numbers with channels first, as ONNX writes them, in the order the program stores them.
fn in_storage_order(program: &Program, numbers: &[f32]) -> Result<Vec<f32>, Failure> {
    let json = serde_json::json!({ "input_data": [numbers] }).to_string();
    let expected = tg_compile::input::Expected::of_spec(&program.input);
    tg_compile::input::read_one(json.as_bytes(), tg_compile::input::Kind::Json, expected)
        .or_fail(Exit::Usage, "read the input")
}

/// The time by this machine's clock.
pub(crate) fn now() -> TimestampMs {
    TimestampMs::new(now_ms())
}

/// Milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
