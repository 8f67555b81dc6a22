//! Endpoints: requests to the provider of a lease, and its answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use tg_ledger::{JobState, Lease};
use tg_sdk::ErrorBody;
use tg_sdk::endpoint::wire::{
    ENDPOINT_BYTES_MAX, EndpointRequest, SERVE_WAIT_MS_MAX, ServeAnswer, ServeCall, ServingProof,
};
use tg_sdk::text::FromText;
use tg_types::{Decode, DurationMs, Encode as _, LeaseId, ServingClaim};
use tokio::sync::mpsc;

use super::extract::{Id, SharedState};
use crate::error::ApiError;
use crate::relay::{LeaseSides, WaitingPart};
use crate::shared::Shared;

/// What the answers are.
const BYTES: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/octet-stream");

/// How far the time of a claim may be from that of the ledger.
const CLAIM_SPAN: DurationMs = DurationMs::from_secs(60);

fn decoded<T: Decode>(what: &'static str, bytes: &[u8]) -> Result<T, ApiError> {
    T::from_bytes(bytes).map_err(|error| ApiError::Invalid {
        what,
        detail: error.to_string(),
    })
}

/// The lease of an endpoint that is served.
fn served(shared: &Shared, id: &LeaseId) -> Result<Lease, ApiError> {
    let state = shared.port.state();
    let lease = state
        .lease(id)
        .filter(|it| it.meter.is_some() && it.end().is_none());
    let lease = lease.filter(|it| {
        let job = state.job(&it.job);
        job.is_some_and(|job| job.state() == JobState::Running)
    });
    lease
        .cloned()
        .ok_or_else(|| ApiError::not_found("endpoint that is served under lease", &id))
}

/// Bytes of a request beside its input: its number and its voucher.
const REQUEST_BYTES_ADDED: usize = 4 << 10;

/// Most bytes of the body of a call to a lease, by the path.
///
/// Stops: strangers who have bodies read for leases that nobody serves here.
pub(crate) fn body_limit(shared: &Shared, path: &str) -> Result<usize, ApiError> {
    let mut parts = path.trim_matches('/').split('/').skip(2);
    let (id, call) = (parts.next().unwrap_or_default(), parts.next());
    let lease = LeaseId::from_text(id).ok_or_else(|| ApiError::Invalid {
        what: "the path",
        detail: format!("expected {}", <LeaseId as FromText>::EXPECTED),
    })?;
    if call == Some("serve") {
        // A provider brings its last answers when the lease has ended.
        if !shared.relay.holds(&lease) {
            served(shared, &lease)?;
        }
        return Ok(usize::MAX);
    }
    served(shared, &lease)?;
    Ok(ENDPOINT_BYTES_MAX + REQUEST_BYTES_ADDED)
}

/// Asks the provider of an endpoint: the canonical encoding of a request, which its requestor signed. The answer comes in parts as the
/// provider writes them: each is four bytes of length, little-endian, and the canonical encoding of a part; the last one is the whole
/// answer with the provider's signature, or why there is none. Only that the requestor signed it is checked here.
#[utoipa::path(
    post,
    path = "/v1/leases/{id}/requests",
    tag = "jobs",
    params(("id" = String, Path, description = "The lease")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "Parts of the answer"),
        (status = 400, body = ErrorBody, description = "Not a request"),
        (status = 401, body = ErrorBody, description = "The endpoint's requestor did not sign it"),
        (status = 404, body = ErrorBody, description = "No endpoint is served under this lease"),
        (status = 413, body = ErrorBody, description = "Larger than any request"),
        (status = 503, body = ErrorBody, description = "Its provider does not fetch requests here, or too many wait"),
    ),
)]
pub(super) async fn ask(
    shared: SharedState,
    Id(lease): Id<LeaseId>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let request: EndpointRequest = decoded("the request", &body)?;
    check_requestor(&shared, &lease, &request)?;
    let parts = shared.relay.ask(&lease, request)?;
    Ok(([BYTES], Body::from_stream(AnswerStream(parts))).into_response())
}

/// Stops: strangers that fill an endpoint's queue. One signature is recovered, about 0.1 ms.
fn check_requestor(
    shared: &Shared,
    lease: &LeaseId,
    request: &EndpointRequest,
) -> Result<(), ApiError> {
    let held = served(shared, lease)?;
    let state = shared.port.state();
    let requestor = state.job(&held.job).map(|job| job.requestor);
    let voucher = &request.voucher;
    let is_theirs = voucher.voucher.lease == *lease
        && voucher.voucher.asks == request.asked()
        && voucher.account(state.domain()).ok() == requestor;
    match is_theirs {
        true => Ok(()),
        false => Err(ApiError::NotRequestor),
    }
}

/// Parts of an answer as they come.
struct AnswerStream(mpsc::Receiver<WaitingPart>);

impl Stream for AnswerStream {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|part| {
            let part = part?.take()?.to_bytes();
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend_from_slice(&part);
            Some(Ok(bytes.into()))
        })
    }
}

/// Brings what the provider of an endpoint answers, and fetches the requests that came. The first call shows the provider's
/// signature; the answer has a token for the next ones.
#[utoipa::path(
    post,
    path = "/v1/leases/{id}/serve",
    tag = "providers",
    params(("id" = String, Path, description = "The lease")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The canonical encoding of a token and requests"),
        (status = 400, body = ErrorBody, description = "Not a call of a provider"),
        (status = 401, body = ErrorBody, description = "The lease is another provider's, the signature is of another time, or the token of before"),
        (status = 404, body = ErrorBody, description = "No endpoint is served under this lease"),
        (status = 413, body = ErrorBody, description = "Larger than any call"),
    ),
)]
pub(super) async fn serve(
    shared: SharedState,
    Id(lease): Id<LeaseId>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let call: ServeCall = decoded("the call", &body)?;
    let token = match call.proof {
        ServingProof::Token(token) if shared.relay.knows(&lease, &token) => token,
        ServingProof::Token(_) => return Err(ApiError::NotServing),
        ServingProof::Claim(claim) => take_over(&shared, lease, &claim)?,
    };
    shared.relay.deliver(&lease, call.parts);
    let (mut requests, came) = shared.relay.take(&lease);
    if let Some(came) = came.filter(|_| requests.is_empty() && call.wait_ms > 0) {
        let wait = Duration::from_millis(u64::from(call.wait_ms.min(SERVE_WAIT_MS_MAX)));
        let mut stopping = shared.stopping.clone();
        tokio::select! {
            () = came.notified() => {}
            () = tokio::time::sleep(wait) => {}
            _ = stopping.wait_for(|&stop| stop) => {}
        }
        requests = shared.relay.take(&lease).0;
    }
    let answer = ServeAnswer { token, requests };
    Ok(([BYTES], answer.to_bytes()).into_response())
}

/// Takes a provider's word that it serves a lease, if it is its own and of now.
fn take_over(
    shared: &Arc<Shared>,
    lease: LeaseId,
    claim: &ServingClaim,
) -> Result<[u8; 16], ApiError> {
    let held = served(shared, &lease)?;
    let state = shared.port.state();
    let now = state.head().timestamp;
    let is_near = claim.at.saturating_since(now) <= CLAIM_SPAN
        && now.saturating_since(claim.at) <= CLAIM_SPAN;
    let is_theirs = claim.account(state.domain()) == Ok(held.provider);
    if claim.lease != lease || !is_near || !is_theirs {
        return Err(ApiError::NotServing);
    }
    let job = state.job(&held.job).ok_or(ApiError::NotServing)?;
    let sides = LeaseSides {
        requestor: job.requestor,
        provider: held.provider,
    };
    let token = shared.port.random()?;
    let taken = shared.relay.claim((lease, sides), claim.at, token);
    taken.map(|()| token).ok_or(ApiError::NotServing)
}
