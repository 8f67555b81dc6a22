//! Failures of orders in OpenAI's words.

use tg_api::OpenAiError;
use tg_sdk::jobs::JobError;
use tg_sdk::verify::CheckError;

use crate::api_keys::ReserveError;
use tg_input::tokens::TokensError;

/// An input that is longer than the model takes.
pub(super) fn too_long(field: &str, message: &str) -> OpenAiError {
    OpenAiError {
        code: "context_length_exceeded".to_owned(),
        ..OpenAiError::invalid(field, message)
    }
}

/// A key's limit.
pub(super) fn of_reserve(error: &ReserveError) -> OpenAiError {
    match error {
        ReserveError::Limit { .. } => OpenAiError::quota(error.to_string()),
        ReserveError::Write(_) => OpenAiError::unavailable(error.to_string()),
    }
}

/// A model that is not one of integers, or a job that gave nothing.
pub(super) fn of_job(error: &JobError, model: &str) -> OpenAiError {
    match error {
        JobError::NoModel { .. } => OpenAiError::model(model),
        JobError::Check(CheckError::Model(_)) => {
            let text = format!("`{model}` is no program of integers: `infer` orders it");
            OpenAiError::invalid("model", text)
        }
        error => {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(inner) = source {
                text.push_str(&format!(": {inner}"));
                source = inner.source();
            }
            match error {
                JobError::NotPaid { .. } => OpenAiError::not_paid(text),
                _ => OpenAiError::unavailable(text),
            }
        }
    }
}

/// What is wrong with a field, in the words of a command.
pub(super) fn of_tokens(field: &str, error: TokensError) -> OpenAiError {
    OpenAiError::invalid(field, format!("{:#}", anyhow::Error::from(error)))
}

/// Does what asks the grid and then computes for long, such as the check of a proof, beside the event loop.
pub(super) async fn waiting_beside<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, OpenAiError> {
    let runtime = tokio::runtime::Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(work)).await;
    done.map_err(|error| OpenAiError::unavailable(error.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::{Duration, Instant};

    use super::*;

    /// The check of a proof on the only thread of the event loop.
    #[tokio::test]
    async fn what_computes_for_long_holds_up_nobody() {
        let began = Instant::now();
        let long = tokio::spawn(waiting_beside(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            std::thread::sleep(Duration::from_millis(800));
            7
        }));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < Duration::from_millis(700));
        assert!(!long.is_finished());
        assert_eq!(long.await.unwrap().unwrap(), 7);
    }
}
