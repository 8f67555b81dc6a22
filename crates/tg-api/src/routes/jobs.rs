//! Jobs, why they wait, and their receipts.

use axum::Json;
use axum::body::Bytes;
use axum::extract::Query;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use serde::Deserialize;
use tg_ledger::{Job, State};
use tg_sdk::dto::{DryRunDto, JobDto, JobEventsDto, JobPageDto, JobReceiptDto, JobWhyDto, ModeDto};
use tg_sdk::{ErrorBody, clock};
use tg_types::limits::CLIENT_TRANSACTION_BYTES_MAX;
use tg_types::{Address, Decode, Fault, JobId, JobOrder};

use super::extract::{Id, SharedState, parse_query};
use super::page::Page;
use crate::error::ApiError;
use crate::port::PortError;
use crate::view;

fn no_job(id: JobId) -> ApiError {
    ApiError::not_found("job", &id)
}

/// Which jobs to list.
#[derive(Debug, Deserialize)]
pub(super) struct JobQuery {
    requestor: Option<String>,
    provider: Option<String>,
    mode: Option<ModeDto>,
    after: Option<u64>,
    limit: Option<usize>,
}

/// Jobs, newest first.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    tag = "jobs",
    params(
        ("requestor" = Option<String>, Query, description = "Only this account's"),
        ("provider" = Option<String>, Query, description = "Only those of which this account has or had a lease"),
        ("mode" = Option<ModeDto>, Query, description = "Only those whose results are checked so"),
        ("after" = Option<u64>, Query, description = "Where the page begins: `next` of the one before"),
        ("limit" = Option<usize>, Query, description = "At most so many; 100 if absent, 200 at most"),
    ),
    responses(
        (status = 200, body = JobPageDto, description = "A page of jobs"),
        (status = 400, body = ErrorBody, description = "The query is not valid"),
    ),
)]
pub(super) async fn jobs(
    shared: SharedState,
    query: Result<Query<JobQuery>, QueryRejection>,
) -> Result<Json<JobPageDto>, ApiError> {
    let Query(query) = query?;
    let requestor = parse_query::<Address>(query.requestor.as_deref())?;
    let provider = parse_query::<Address>(query.provider.as_deref())?;
    let state = shared.port.state();
    let mut jobs: Vec<&Job> = state
        .jobs()
        .iter()
        .filter(|job| requestor.is_none_or(|address| job.requestor == address))
        .filter(|job| query.mode.is_none_or(|mode| job.order.mode == mode.into()))
        .filter(|job| provider.is_none_or(|provider| is_leased_to(&state, job, provider)))
        .collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.sequence));
    let begin = |it: &&Job| query.after.is_none_or(|after| it.sequence < after);
    let page = Page::of(jobs.into_iter(), begin, query.limit, |it| {
        it.sequence.to_string()
    });
    Ok(Json(JobPageDto {
        items: page.items.iter().map(|it| view::job(&state, it)).collect(),
        next: page.next,
        total: page.total,
    }))
}

/// Whether an account has or had a lease of a job, alone or as a member of a gang.
fn is_leased_to(state: &State, job: &Job, provider: Address) -> bool {
    let leases = job.leases().into_iter();
    let mut leads = leases.filter_map(|id| state.lease(&id));
    leads.any(|lead| state.gang_of(lead).any(|it| it.provider == provider))
}

/// One job.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, body = JobDto, description = "The job"),
        (status = 404, body = ErrorBody, description = "There is none of that id"),
    ),
)]
pub(super) async fn job(shared: SharedState, Id(id): Id<JobId>) -> Result<Json<JobDto>, ApiError> {
    let state = shared.port.state();
    let job = state.job(&id).ok_or_else(|| no_job(id))?;
    Ok(Json(view::job(&state, job)))
}

/// Why a job is where it is: every offer with what it lacks, the place in the queue, and what could be relaxed.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/why",
    tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, body = JobWhyDto, description = "The reasons"),
        (status = 404, body = ErrorBody, description = "There is no job of that id"),
    ),
)]
pub(super) async fn why(
    shared: SharedState,
    Id(id): Id<JobId>,
) -> Result<Json<JobWhyDto>, ApiError> {
    let state = shared.port.state();
    let job = state.job(&id).ok_or_else(|| no_job(id))?;
    Ok(Json(view::why(&state, job)))
}

/// Whose order it would be.
#[derive(Debug, Deserialize)]
pub(super) struct DryRunQuery {
    requestor: String,
}

/// What an order would come to if it were in the next block, alone: the same job that submitting it would make.
#[utoipa::path(
    post,
    path = "/v1/jobs/dry-run",
    tag = "jobs",
    params(("requestor" = String, Query, description = "The account that would order")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "The order in its canonical encoding"),
    responses(
        (status = 200, body = DryRunDto, description = "What it would come to"),
        (status = 400, body = ErrorBody, description = "Not an order"),
        (status = 422, body = ErrorBody, description = "It would be refused, with the code of the ledger"),
    ),
)]
pub(super) async fn dry_run(
    shared: SharedState,
    query: Result<Query<DryRunQuery>, QueryRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DryRunDto>, ApiError> {
    let limit = CLIENT_TRANSACTION_BYTES_MAX;
    let Query(query) = query?;
    let invalid = |what, detail: String| ApiError::Invalid { what, detail };
    let requestor = parse_query::<Address>(Some(&query.requestor))?
        .ok_or_else(|| invalid("the requestor", "it is missing".to_owned()))?;
    let bytes = body.map_err(|_| ApiError::TooLarge { limit })?;
    if bytes.len() > limit {
        return Err(ApiError::TooLarge { limit });
    }
    let order =
        JobOrder::from_bytes(&bytes).map_err(|error| invalid("the order", error.to_string()))?;
    let state = shared.port.state();
    view::dry_run(&state, requestor, &order, clock::now())
        .map(Json)
        .map_err(|error| {
            ApiError::from(PortError {
                fault: Fault::Client,
                code: error.code().to_owned(),
                message: error.to_string(),
                hint: String::new(),
            })
        })
}

/// What blocks did with a job and its leases, as far as this node remembers: the newest events of all jobs since it serves. One that was
/// started anew, or sees very many jobs, has forgotten those of before; `GET /v1/jobs/{id}` has the job's history in any case.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/events",
    operation_id = "job_events",
    tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, body = JobEventsDto, description = "The events, oldest first"),
        (status = 404, body = ErrorBody, description = "There is no job of that id"),
    ),
)]
pub(super) async fn events(
    shared: SharedState,
    Id(id): Id<JobId>,
) -> Result<Json<JobEventsDto>, ApiError> {
    let state = shared.port.state();
    let job = state.job(&id).ok_or_else(|| no_job(id))?;
    Ok(Json(shared.job_events.of(&id, &job.leases())))
}

/// The receipt of a paid job: who made the result, what it is, what was paid, and where the proof is.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/receipt",
    tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, body = JobReceiptDto, description = "The receipt"),
        (status = 404, body = ErrorBody, description = "There is no job of that id, or it has no receipt"),
    ),
)]
pub(super) async fn receipt(
    shared: SharedState,
    Id(id): Id<JobId>,
) -> Result<Json<JobReceiptDto>, ApiError> {
    let state = shared.port.state();
    let job = state.job(&id).ok_or_else(|| no_job(id))?;
    let receipt = view::receipt(&state, job).ok_or_else(|| ApiError::NoReceipt {
        id: id.to_string(),
        state: job.state().to_string(),
    })?;
    Ok(Json(receipt))
}
