//! The chain, for nodes that follow it: final blocks with what shows them, and a state to begin at.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tg_sdk::ErrorBody;
use tg_types::Encode as _;

use super::extract::SharedState;
use crate::error::ApiError;

/// Longest wait for a block.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What the answers are.
const BYTES: (header::HeaderName, &str) = (header::CONTENT_TYPE, "application/octet-stream");

/// Which blocks, and how long to wait for the first.
#[derive(Debug, Deserialize)]
pub(super) struct BlocksQuery {
    from: u64,
    wait_ms: Option<u64>,
}

/// Final blocks from a height on, in the canonical encoding of a page: consecutive blocks, at most 64, with a finality
/// certificate and headers that show the last of them. Whoever knows the genesis needs to trust nobody for them. With no
/// block there yet, the call waits, and then answers with a page without blocks.
#[utoipa::path(
    get,
    path = "/v1/chain/blocks",
    tag = "grid",
    params(
        ("from" = u64, Query, description = "The height of the first block"),
        ("wait_ms" = Option<u64>, Query, description = "How long to wait for it, in milliseconds: 0 if absent, 10,000 at most"),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The page"),
        (status = 400, body = ErrorBody, description = "There is no height, or a number is none"),
        (status = 404, body = ErrorBody, description = "This node does not have what shows these blocks"),
        (status = 503, body = ErrorBody, description = "Too many nodes follow the chain here"),
    ),
)]
pub(super) async fn blocks(
    shared: SharedState,
    query: Result<Query<BlocksQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(BlocksQuery { from, wait_ms }) = query?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0)).min(WAIT_MAX);
    let mut stopping = shared.stopping.clone();
    let waits = shared.lanes.followers.wait();
    let page = tokio::select! {
        page = shared.port.chain_page(from, wait) => Some(page),
        // Another call needs the place; who waits is told what there is, and asks again.
        () = waits.ended() => None,
        // The server ends; who waits asks another.
        _ = stopping.wait_for(|&stop| stop) => None,
    };
    drop(waits);
    let page = match page {
        Some(page) => page?,
        None => shared.port.chain_page(from, Duration::ZERO).await?,
    };
    let page = page.ok_or_else(|| ApiError::not_found("shown block", &from))?;
    Ok(([BYTES], page.to_bytes()).into_response())
}

/// A state to begin at: four bytes with the length of the head (little-endian), the head in its canonical encoding (the block
/// whose state it is, certificate, headers), and the state's bytes, whose root must be the one in the block's header.
#[utoipa::path(
    get,
    path = "/v1/chain/snapshot",
    tag = "grid",
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The snapshot"),
        (status = 404, body = ErrorBody, description = "This node has none yet"),
    ),
)]
pub(super) async fn snapshot(shared: SharedState) -> Result<Response, ApiError> {
    let made = async {
        let Some((head, state)) = shared.port.chain_snapshot().await? else {
            return Ok(None);
        };
        let head = head.to_bytes();
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        Ok(Some(
            [&length.to_le_bytes(), head.as_slice(), &state].concat(),
        ))
    };
    let copy = shared.snapshots.newest(made).await?;
    let copy = copy.ok_or_else(|| ApiError::not_found("snapshot", &"the newest"))?;
    Ok(([BYTES], Body::new(copy)).into_response())
}

/// Above which height.
#[derive(Debug, Deserialize)]
pub(super) struct SeatsQuery {
    above: Option<u64>,
}

/// Changes of the set of validators above a height, ascending, in their canonical encoding, 16 at most: each shows to somebody
/// who knows the set before which set followed. Whoever knows the genesis learns from them whose certificates count now.
#[utoipa::path(
    get,
    path = "/v1/chain/seats",
    operation_id = "seat_changes",
    tag = "grid",
    params(("above" = Option<u64>, Query, description = "The height of the newest change that is known; 0 if absent")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The changes"),
        (status = 400, body = ErrorBody, description = "The height is no number"),
    ),
)]
pub(super) async fn seats(
    shared: SharedState,
    query: Result<Query<SeatsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(SeatsQuery { above }) = query?;
    let changes = shared.port.seat_changes(above.unwrap_or(0)).await?;
    Ok(([BYTES], changes.to_bytes()).into_response())
}

/// Of which height.
#[derive(Debug, Deserialize)]
pub(super) struct CheckpointQuery {
    height: Option<u64>,
}

/// A final block as a client may begin to follow the chain at it: its header in the canonical encoding, four bytes with the length of what
/// follows (little-endian), and the validators that vote on the block after it, as the header names them; nothing for those of
/// genesis when others vote. Nothing shows that the block is final: whoever asks has its id from somebody it trusts.
#[utoipa::path(
    get,
    path = "/v1/chain/checkpoint",
    tag = "grid",
    params(("height" = Option<u64>, Query, description = "The block's height; the newest final block if absent")),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The block"),
        (status = 400, body = ErrorBody, description = "The height is no number"),
        (status = 404, body = ErrorBody, description = "This node does not have the block, or not its validators"),
    ),
)]
pub(super) async fn checkpoint(
    shared: SharedState,
    query: Result<Query<CheckpointQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(CheckpointQuery { height }) = query?;
    let block = shared.port.checkpoint(height).await?;
    let which = || height.map_or_else(|| "the newest".to_owned(), |height| height.to_string());
    let block = block.ok_or_else(|| ApiError::not_found("block", &which()))?;
    Ok(([BYTES], block.to_bytes()).into_response())
}

/// Which view.
#[derive(Debug, Deserialize)]
pub(super) struct SkippedQuery {
    epoch: u64,
    view: u64,
}

/// The certificate by which a quorum of validators skipped a view: a nullification in consensus' encoding. Whoever has a finalization of
/// that view has what convicts every seat that signed both. Validators keep them for as long as bonds answer for votes, 4 GiB of them at
/// most; gateways have none.
#[utoipa::path(
    get,
    path = "/v1/chain/skipped",
    tag = "grid",
    params(
        ("epoch" = u64, Query, description = "The epoch of consensus, as certificates name it"),
        ("view" = u64, Query, description = "The view"),
    ),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>, description = "The certificate"),
        (status = 400, body = ErrorBody, description = "One of them is missing or no number"),
        (status = 404, body = ErrorBody, description = "The view was not skipped, or this node does not know it"),
    ),
)]
pub(super) async fn skipped(
    shared: SharedState,
    query: Result<Query<SkippedQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(SkippedQuery { epoch, view }) = query?;
    let certificate = shared.port.skipped_view((epoch, view)).await?;
    let certificate = certificate.ok_or_else(|| {
        ApiError::not_found("skipped view", &format_args!("{view} of epoch {epoch}"))
    })?;
    Ok(([BYTES], certificate).into_response())
}
