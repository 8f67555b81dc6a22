//! A batch at work: its requests one after the other, a few at once, until all have an answer, it expires or is cancelled.
//!
//! An order is on the disk before it is sent, an answer before it is counted: a process that goes on with a batch orders nothing that
//! was ordered before.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tg_types::Digest;
use tokio::task::JoinSet;

use super::access::orders;
use super::answer::Frame;
use super::batch::{
    self, BatchEndpoint, BatchLine, BatchRecord, BatchStatus, LineAnswer, LineFault,
};
use super::batch_store::{BatchWork, LineOrders};
use super::embedding;
use super::error::{NOT_PAID, OpenAiError};
use super::port::Requester;
use super::replay::AnswerId;
use super::request::{self, Asked, CompletionKind};
use super::response::ResponseFrame;
use super::responses::follow;
use super::stores::Stores;
use crate::shared::Shared;

/// How often a request is tried that the grid cannot serve: providers may be away for a while, after a restart among others.
const TRIES: u32 = 6;

/// The wait after the first try; it doubles.
const WAIT: Duration = Duration::from_secs(2);

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    tg_sdk::clock::now().get() / 1_000
}

/// Goes on with all batches that are not over.
pub(crate) fn go_on(shared: &Arc<Shared>) -> Result<(), OpenAiError> {
    let stores = shared.stores.get(shared.port.as_ref())?;
    for id in stores.batches.open_ids() {
        begin(shared, &stores, id);
    }
    Ok(())
}

/// Works on a batch until it is over.
pub(super) fn begin(shared: &Arc<Shared>, stores: &Arc<Stores>, id: String) {
    let (shared, stores) = (Arc::clone(shared), Arc::clone(stores));
    tokio::spawn(async move {
        if let Err(error) = run(&shared, &stores, &id).await {
            let fault = LineFault {
                code: "storage".to_owned(),
                message: error.to_string(),
                param: None,
                line: None,
            };
            // If this cannot be written either, the next start tries again.
            let _ = stores.batches.update(&id, |batch| {
                batch.faults.push(fault);
                batch.enter(BatchStatus::Failed, now());
            });
        }
    });
}

async fn run(shared: &Arc<Shared>, stores: &Arc<Stores>, id: &str) -> std::io::Result<()> {
    let missing = || std::io::Error::other("the batch is not there");
    let batch = stores.batches.find(id).ok_or_else(missing)?;
    let look = shared.batch_places.look().await;
    let (opened, endpoint) = (Arc::clone(stores), batch.endpoint);
    let read = tokio::task::spawn_blocking(move || {
        let bytes = opened.batches.input(&batch.id)?;
        std::io::Result::Ok(batch::lines(&bytes, endpoint))
    });
    let read = read.await?;
    drop(look);
    let lines = match read? {
        Ok(lines) => lines,
        Err(faults) => {
            stores.batches.update(id, |batch| {
                batch.faults = faults;
                batch.enter(BatchStatus::Failed, now());
            })?;
            stores.batches.clean(id);
            return Ok(());
        }
    };
    let work = Arc::new(stores.batches.work(id)?);
    let batch = stores.batches.update(id, |batch| {
        batch.total = lines.len();
        (batch.completed, batch.failed) = work.counts();
        if batch.status == BatchStatus::Validating {
            batch.enter(BatchStatus::InProgress, now());
        }
    })?;
    let run = Arc::new(BatchRun {
        shared: Arc::clone(shared),
        stores: Arc::clone(stores),
        work,
        batch,
    });
    run.all(&lines).await;
    if *shared.stopping.borrow() {
        return Ok(());
    }
    tokio::task::spawn_blocking(move || run.finish(&lines)).await?
}

/// Whether another try may do better. A job that waited for its whole time, or failed, held a place of its key for minutes and would again.
fn is_tried_again(error: &OpenAiError) -> bool {
    error.status >= 500 && error.code != NOT_PAID
}

/// A batch at work.
struct BatchRun {
    shared: Arc<Shared>,
    stores: Arc<Stores>,
    work: Arc<BatchWork>,
    batch: BatchRecord,
}

impl BatchRun {
    /// Whether no further request is begun: it is cancelled or expired, or the node stops.
    fn ends(&self) -> Option<BatchStatus> {
        let found = self.stores.batches.find(&self.batch.id);
        let status = found.map_or(BatchStatus::Cancelling, |batch| batch.status);
        match status {
            BatchStatus::Cancelling => Some(BatchStatus::Cancelled),
            _ if now() >= self.batch.expires_at() => Some(BatchStatus::Expired),
            _ => None,
        }
    }

    fn stops(&self) -> bool {
        *self.shared.stopping.borrow() || self.ends().is_some()
    }

    async fn all(self: &Arc<Self>, lines: &[BatchLine]) {
        let mut tasks = JoinSet::new();
        for (index, line) in lines.iter().enumerate() {
            if self.work.is_answered(index) {
                continue;
            }
            let place = self.shared.batch_places.take(&self.batch.caller).await;
            if self.stops() {
                break;
            }
            let (run, bytes) = (Arc::clone(self), line.bytes.clone());
            tasks.spawn(async move {
                run.line(index, bytes).await;
                drop(place);
            });
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Answers a request and keeps the answer. One without an answer is begun again at the next start.
    async fn line(&self, index: usize, bytes: Range<usize>) {
        // What cannot be read now is read at the next start.
        let Ok(line) = self.stores.batches.input_line(&self.batch.id, &bytes) else {
            return;
        };
        let Some(answer) = self.answer(index, &line).await else {
            return;
        };
        // One that cannot be written is none: its order is kept.
        if let Ok(counts) = self.work.answer(answer) {
            self.stores.batches.count(&self.batch.id, counts);
        }
    }

    async fn answer(&self, index: usize, line: &[u8]) -> Option<LineAnswer> {
        let mut wait = WAIT;
        for tried in 1..=TRIES {
            let answered = self.ordered(index, line).await;
            let (status, body) = match answered {
                Ok(body) => (200, body),
                // The order is kept: another try goes on with it.
                Err(error) if is_tried_again(&error) && tried < TRIES => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                    if self.stops() {
                        return None;
                    }
                    continue;
                }
                Err(error) => (error.status, error.object()),
            };
            return Some(LineAnswer {
                line: index,
                status,
                body,
            });
        }
        None
    }

    async fn ordered(&self, index: usize, line: &[u8]) -> Result<Value, OpenAiError> {
        let body = batch::body(line)?;
        let by = Requester {
            caller: self.batch.caller.clone(),
            record: Arc::new(LineOrders {
                work: Arc::clone(&self.work),
                line: index,
            }),
        };
        let name = format!("{} {index}", self.batch.id);
        let id = AnswerId::of(&Digest::of_blob(name.as_bytes()));
        let port = orders(self.shared.port.as_ref())?;
        match self.batch.endpoint {
            BatchEndpoint::Completions | BatchEndpoint::Chat => {
                let kind = match self.batch.endpoint {
                    BatchEndpoint::Chat => CompletionKind::Chat,
                    _ => CompletionKind::Text,
                };
                let asked = request::completion_of(kind, body)?;
                let frame = Frame::new(kind, asked.order.model.clone(), &id);
                let completion = port.complete(by, whole(asked)?.order, None).await?;
                Ok(frame.whole(&completion))
            }
            BatchEndpoint::Responses => {
                let mut asked = request::response(body)?;
                let (kept, caller) = (&self.shared.responses, &self.batch.caller);
                follow(kept, caller, &mut asked)?;
                let frame = ResponseFrame::new(&id, asked.echo.clone());
                let order = whole(asked.asked.clone())?.order;
                let completion = port.complete(by, order, None).await?;
                let answer = frame.whole(&completion);
                if asked.store {
                    let said = asked.said(&completion.text());
                    kept.keep(caller, &frame.id, (&answer, said));
                }
                Ok(answer)
            }
            BatchEndpoint::Embeddings => {
                let (order, format) = embedding::read(body)?;
                let model = order.model.clone();
                let embeddings = port.embed(by, order).await?;
                Ok(embedding::answer(&model, &embeddings, format))
            }
        }
    }

    /// Writes the output file and the error file.
    fn finish(&self, lines: &[BatchLine]) -> std::io::Result<()> {
        let id = self.batch.id.as_str();
        let open = lines.len() > self.work.answered();
        let end = self.ends().filter(|_| open);
        if open && end.is_none() {
            // Answers could not be written. The next start goes on.
            return Ok(());
        }
        let end = match self.stores.batches.find(id).map(|batch| batch.status) {
            // All had begun when it was cancelled.
            Some(BatchStatus::Cancelling) => BatchStatus::Cancelled,
            _ => end.unwrap_or(BatchStatus::Completed),
        };
        if end == BatchStatus::Completed {
            let finalizing = |batch: &mut BatchRecord| batch.enter(BatchStatus::Finalizing, now());
            self.stores.batches.update(id, finalizing)?;
        }
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        for (index, line) in lines.iter().enumerate() {
            let (file, shown) = match self.work.read(index)? {
                Some(answer) if answer.status == 200 => {
                    (&mut output, answer.shown(id, &line.custom_id))
                }
                Some(answer) => (&mut errors, answer.shown(id, &line.custom_id)),
                None => (&mut errors, batch::left(id, (index, &line.custom_id), end)),
            };
            file.extend(serde_json::to_vec(&shown)?);
            file.push(b'\n');
        }
        let kept = |kind: &str, bytes: &[u8]| match bytes.is_empty() {
            true => Ok(None),
            false => {
                let named = (format!("{id} {kind}"), format!("{id}_{kind}.jsonl"));
                let about = (named.0.as_str(), named.1, now());
                let file = self.stores.files.output(&self.batch.caller, about, bytes);
                file.map(|file| Some(file.id))
                    .map_err(|error| std::io::Error::other(error.to_string()))
            }
        };
        let [output, errors] = [kept("output", &output)?, kept("error", &errors)?];
        self.stores.batches.update(id, |batch| {
            (batch.output_file_id, batch.error_file_id) = (output, errors);
            batch.failed = lines.len() - batch.completed;
            batch.enter(end, now());
        })?;
        self.stores.batches.clean(id);
        Ok(())
    }
}

/// A request whose answer is not streamed.
fn whole(asked: Asked) -> Result<Asked, OpenAiError> {
    match asked.stream {
        true => Err(OpenAiError::unsupported("stream")),
        false => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_nobody_took_is_not_ordered_again() {
        let text = || "no".to_owned();
        assert!(is_tried_again(&OpenAiError::unavailable(text())));
        assert!(!is_tried_again(&OpenAiError::not_paid(text())));
        assert!(!is_tried_again(&OpenAiError::invalid("model", text())));
    }
}
