//! What every route may answer that takes something, whatever it is about.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, OpenApi, Ref, Response};

/// The document with the refusals that all routes have in common: of what is sent and cannot be read, and of a body that is too long.
pub(super) fn with_refusals(mut document: OpenApi) -> OpenApi {
    for (path, item) in &mut document.paths.paths {
        // Errors of the OpenAI routes are OpenAI's, which the document says nothing of.
        let error = (!path.starts_with("/openai/")).then_some("ErrorBody");
        let operations = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
        ];
        for operation in operations.into_iter().flatten() {
            add(operation, error);
        }
    }
    document
}

fn add(operation: &mut Operation, error: Option<&str>) {
    let has_body = operation.request_body.is_some();
    let takes = has_body
        || operation
            .parameters
            .as_ref()
            .is_some_and(|it| !it.is_empty());
    let common = [
        (
            takes,
            "400",
            "The path, the query or the body is not valid: which, and what is expected",
        ),
        (
            has_body,
            "413",
            "The body is longer than any that is taken here",
        ),
    ];
    let responses = &mut operation.responses.responses;
    for (applies, status, description) in common {
        if applies && !responses.contains_key(status) {
            let mut response = Response::new(description);
            let content = Content::new(error.map(Ref::from_schema_name));
            let kind = "application/json".to_owned();
            response.content.insert(kind, content.into());
            responses.insert(status.to_owned(), response.into());
        }
    }
}
