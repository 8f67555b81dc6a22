//! The routes of responses.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::access::{caller, parsed};
use super::bodies;
use super::completions::{begin, request_name};
use super::error::OpenAiError;
use super::kept::KeptResponses;
use super::port::Completion;
use super::replay;
use super::request::{self, AskedResponse};
use super::response::ResponseFrame;
use super::stream;
use crate::routes::SharedState;
use crate::shared::Shared;

/// What tells a response's body from a completion's.
const KIND: u8 = 2;

/// The assistant's next words after a text or a list of messages, as OpenAI's responses.
#[utoipa::path(
    post,
    path = "/openai/v1/responses",
    tag = "openai",
    request_body(content = bodies::ResponseBody, content_type = "application/json", description = "OpenAI's request with text as input; fields that are not served are refused by name"),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's response object, with `tensorgrid`: job, price, verify, receipt; a stream of its events if asked for"),
        (status = 400, content_type = "application/json", description = "OpenAI's error object: what is wrong, or not served"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: no such model"),
        (status = 413, content_type = "application/json", description = "OpenAI's error object: more bytes than are taken"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: the key's limit is reached"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: the grid cannot serve it now"),
    ),
)]
pub(crate) async fn create_response(
    shared: SharedState,
    headers: HeaderMap,
    bytes: Bytes,
) -> Result<Response, OpenAiError> {
    let name = request_name(&shared, &headers, (KIND, &bytes))?;
    let mut asked = request::response(parsed(&bytes)?)?;
    // The answer may take minutes.
    drop(bytes);
    follow(&shared.responses, &name.caller, &mut asked)?;
    let caller = name.caller.clone();
    let (id, waiting) = begin(&shared, name, asked.asked.order.clone(), None)?;
    let is_streamed = asked.asked.stream;
    let keeping = KeptFrame {
        shared: Arc::clone(&shared),
        caller,
        frame: ResponseFrame::new(&id, asked.echo.clone()),
        asked,
    };
    if !is_streamed {
        let answer = replay::answer(waiting).await?;
        return Ok(Json(keeping.whole(&answer)).into_response());
    }
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        // Nobody may listen any more; the answer is kept all the same.
        let _ = sender.send(keeping.frame.begins()).await;
        let parts = match replay::answer(waiting).await {
            Ok(completion) => keeping.ends(&completion),
            Err(error) => keeping.frame.fails(&error),
        };
        let _ = sender.send(parts).await;
    });
    Ok(stream::streamed(receiver))
}

/// A response that was created with this key, as long as it is kept: until many others came, or a restart.
#[utoipa::path(
    get,
    path = "/openai/v1/responses/{id}",
    tag = "openai",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's response object"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: none of that id is kept for this key"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn response(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    let kept = shared.responses.get(&caller, &id);
    let text = kept.ok_or_else(|| no_response(&id))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

/// Forgets a response.
#[utoipa::path(
    delete,
    path = "/openai/v1/responses/{id}",
    tag = "openai",
    params(("id" = String, Path, description = "The response's id")),
    responses(
        (status = 200, content_type = "application/json", description = "OpenAI's note that it is deleted"),
        (status = 401, content_type = "application/json", description = "OpenAI's error object: no key that is known"),
        (status = 404, content_type = "application/json", description = "OpenAI's error object: none of that id is kept for this key"),
        (status = 429, content_type = "application/json", description = "OpenAI's error object: more calls of the key than a minute may have"),
        (status = 503, content_type = "application/json", description = "OpenAI's error object: this node orders for nobody"),
    ),
)]
pub(crate) async fn delete_response(
    shared: SharedState,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, OpenAiError> {
    let caller = caller(shared.port.as_ref(), &headers)?;
    if !shared.responses.remove(&caller, &id) {
        return Err(no_response(&id));
    }
    Ok(Json(
        json!({ "id": id, "object": "response", "deleted": true }),
    ))
}

fn no_response(id: &str) -> OpenAiError {
    let id: String = id.chars().take(64).collect();
    let message = format!("the response `{id}` is not kept, or was created with another key");
    OpenAiError::missing("id", message)
}

/// Puts the conversation before a request that follows a response.
pub(super) fn follow(
    kept: &KeptResponses,
    caller: &str,
    asked: &mut AskedResponse,
) -> Result<(), OpenAiError> {
    let Some(id) = asked.previous.clone() else {
        return Ok(());
    };
    let said = kept.said(caller, &id).ok_or_else(|| OpenAiError {
        param: Some("previous_response_id".to_owned()),
        ..no_response(&id)
    })?;
    asked.follow(&said);
    Ok(())
}

/// A response that is kept for its caller when it is there.
struct KeptFrame {
    shared: Arc<Shared>,
    caller: String,
    frame: ResponseFrame,
    asked: AskedResponse,
}

impl KeptFrame {
    fn whole(&self, completion: &Completion) -> Value {
        let whole = self.frame.whole(completion);
        if self.asked.store {
            let said = self.asked.said(&completion.text());
            let (id, kept) = (&self.frame.id, &self.shared.responses);
            kept.keep(&self.caller, id, (&whole, said));
        }
        whole
    }

    fn ends(&self, completion: &Completion) -> Vec<stream::StreamPart> {
        self.whole(completion);
        self.frame.ends(completion)
    }
}
