//! What the document says of API keys.

use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};

/// The name of the scheme in the document.
const API_KEY: &str = "api_key";

/// The document with the key that calls of the OpenAI routes carry: those that answer 401 without one.
pub(super) fn with_keys(mut document: OpenApi) -> OpenApi {
    let mut scheme = Http::new(HttpAuthScheme::Bearer);
    let text = "A key that `tensorgrid api-key new` made, bound to an account of the node";
    scheme.description = Some(text.to_owned());
    document
        .components
        .get_or_insert_default()
        .add_security_scheme(API_KEY, SecurityScheme::Http(scheme));
    for (path, item) in &mut document.paths.paths {
        // What other routes answer 401 to is signed by an account, in the body or a header of its own.
        if !path.starts_with("/openai/") {
            continue;
        }
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            if operation.responses.responses.contains_key("401") {
                let key = SecurityRequirement::new(API_KEY, std::iter::empty::<String>());
                operation.security.get_or_insert_default().push(key);
            }
        }
    }
    document
}
