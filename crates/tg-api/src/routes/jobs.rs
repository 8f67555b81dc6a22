//! Jobs, why they wait, and their receipts.

use axum::Json;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use tg_ledger::Job;
use tg_sdk::ErrorBody;
use tg_sdk::dto::{JobDto, JobReceiptDto, JobWhyDto};
use tg_types::{Address, JobId};

use super::{Id, SharedState, parse_query};
use crate::error::ApiError;
use crate::view;

/// Most jobs in one answer.
const JOBS_LISTED_MAX: usize = 1_000;

/// Jobs in one answer unless the client says otherwise.
const JOBS_LISTED: u32 = 50;

fn no_job(id: JobId) -> ApiError {
    ApiError::NotFound {
        kind: "job",
        id: id.to_string(),
    }
}

/// Which jobs to list.
#[derive(Debug, Deserialize)]
pub(super) struct JobQuery {
    requestor: Option<String>,
    limit: Option<u32>,
}

/// Jobs, newest first.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    tag = "jobs",
    params(
        ("requestor" = Option<String>, Query, description = "Only this account's"),
        ("limit" = Option<u32>, Query, description = "At most so many; 50 if absent, 1000 at most"),
    ),
    responses((status = 200, body = Vec<JobDto>)),
)]
pub(super) async fn jobs(
    shared: SharedState,
    query: Result<Query<JobQuery>, QueryRejection>,
) -> Result<Json<Vec<JobDto>>, ApiError> {
    let Query(query) = query?;
    let requestor = parse_query::<Address>(query.requestor.as_deref())?;
    let limit = usize::try_from(query.limit.unwrap_or(JOBS_LISTED)).unwrap_or(JOBS_LISTED_MAX);
    let state = shared.port.state();
    let mut jobs: Vec<&Job> = state
        .jobs()
        .iter()
        .filter(|job| requestor.is_none_or(|address| job.requestor == address))
        .collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.sequence));
    jobs.truncate(limit.min(JOBS_LISTED_MAX));
    Ok(Json(
        jobs.into_iter().map(|job| view::job(&state, job)).collect(),
    ))
}

/// One job.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses((status = 200, body = JobDto), (status = 404, body = ErrorBody)),
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
    responses((status = 200, body = JobWhyDto), (status = 404, body = ErrorBody)),
)]
pub(super) async fn why(
    shared: SharedState,
    Id(id): Id<JobId>,
) -> Result<Json<JobWhyDto>, ApiError> {
    let state = shared.port.state();
    let job = state.job(&id).ok_or_else(|| no_job(id))?;
    Ok(Json(view::why(&state, job)))
}

/// The receipt of a paid job: who made the result, what it is, what was paid, and where the proof is.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/receipt",
    tag = "jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses((status = 200, body = JobReceiptDto), (status = 404, body = ErrorBody)),
)]
pub(super) async fn receipt(
    shared: SharedState,
    Id(id): Id<JobId>,
) -> Result<Json<JobReceiptDto>, ApiError> {
    let state = shared.port.state();
    let job = state.job(&id).ok_or_else(|| no_job(id))?;
    let receipt = view::receipt(&state, job).ok_or_else(|| ApiError::NoReceipt {
        id: id.to_string(),
        state: job.state.to_string(),
    })?;
    Ok(Json(receipt))
}
