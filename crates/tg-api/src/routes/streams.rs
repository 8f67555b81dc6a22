//! What the document says of answers that are streams if the request asks for one.

use utoipa::openapi::{Content, OpenApi, Ref, RefOr};

/// The calls whose body has `stream`.
const STREAMED: [&str; 3] = [
    "/openai/v1/completions",
    "/openai/v1/chat/completions",
    "/openai/v1/responses",
];

/// The document with the streams beside the answers of one piece.
pub(super) fn with_streams(mut document: OpenApi) -> OpenApi {
    for path in STREAMED {
        let item = document.paths.paths.get_mut(path);
        let call = item.and_then(|it| it.post.as_mut());
        let answer = call.and_then(|it| it.responses.responses.get_mut("200"));
        if let Some(RefOr::T(answer)) = answer {
            let events = Content::new(None::<Ref>);
            let kind = "text/event-stream".to_owned();
            answer.content.insert(kind, events.into());
        }
    }
    document
}
