//! A batch: its record, its requests and what became of each.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::OpenAiError;
use super::fields::BodyFields;
use crate::json::{JsonLimit, read_json};

/// Most requests of a batch: each is a job at least.
pub(super) const LINES_MAX: usize = 10_000;

/// Most bytes of a request.
const LINE_BYTES_MAX: usize = 256 << 10;

/// Most letters of the name that a caller gives a request.
const CUSTOM_ID_BYTES_MAX: usize = 512;

/// Most faults of an input file that are told.
const FAULTS_MAX: usize = 20;

/// Most notes of a caller with a batch, and most letters of the name and of the text of each, as OpenAI has it: 128 batches of each key are
/// kept in memory.
const METADATA_MAX: usize = 16;
const METADATA_NAME_LETTERS_MAX: usize = 64;
const METADATA_TEXT_LETTERS_MAX: usize = 512;

/// How long a batch may take: what `completion_window` says, which is 24h.
pub(super) const WINDOW_SECONDS: u64 = 24 * 3_600;

/// What requests of a batch ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BatchEndpoint {
    #[serde(rename = "/v1/completions")]
    Completions,
    #[serde(rename = "/v1/chat/completions")]
    Chat,
    #[serde(rename = "/v1/embeddings")]
    Embeddings,
    #[serde(rename = "/v1/responses")]
    Responses,
}

impl BatchEndpoint {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [
        Self::Completions,
        Self::Chat,
        Self::Embeddings,
        Self::Responses,
    ];
}

/// Where a batch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BatchStatus {
    Validating,
    Failed,
    InProgress,
    Finalizing,
    Completed,
    Expired,
    Cancelling,
    Cancelled,
}

impl BatchStatus {
    /// Whether nothing happens to it any more.
    pub(super) const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::Completed | Self::Expired | Self::Cancelled
        )
    }
}

/// A fault of an input file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LineFault {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) param: Option<String>,
    /// Counted from 1.
    pub(super) line: Option<usize>,
}

/// A batch, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BatchRecord {
    pub(super) id: String,
    pub(super) caller: String,
    pub(super) endpoint: BatchEndpoint,
    input_file_id: String,
    pub(super) status: BatchStatus,
    pub(super) created_at: u64,
    /// A later batch has more.
    pub(super) order: u64,
    /// When it came to each state, by the state's name; seconds since 1970.
    times: Vec<(BatchStatus, u64)>,
    pub(super) total: usize,
    pub(super) completed: usize,
    pub(super) failed: usize,
    pub(super) output_file_id: Option<String>,
    pub(super) error_file_id: Option<String>,
    pub(super) faults: Vec<LineFault>,
    metadata: Value,
}

/// A request to begin a batch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AskedBatch {
    pub(super) endpoint: BatchEndpoint,
    pub(super) input_file_id: String,
    metadata: Value,
}

impl AskedBatch {
    /// Reads it.
    pub(super) fn read(body: Value) -> Result<Self, OpenAiError> {
        let mut fields = BodyFields::of(body)?;
        let endpoint = fields.take("endpoint").map(serde_json::from_value);
        let Some(Ok(endpoint)) = endpoint else {
            let message = "`endpoint` is /v1/completions, /v1/chat/completions, /v1/embeddings or /v1/responses";
            return Err(OpenAiError::invalid("endpoint", message));
        };
        let missing = || OpenAiError::invalid("input_file_id", "`input_file_id` is missing");
        let input_file_id = fields.text("input_file_id")?.ok_or_else(missing)?;
        if fields.text("completion_window")?.as_deref() != Some("24h") {
            let message = "`completion_window` is 24h";
            return Err(OpenAiError::invalid("completion_window", message));
        }
        let metadata = fields.take("metadata").unwrap_or(Value::Null);
        if !is_metadata(&metadata) {
            let message = format!(
                "`metadata` is an object of at most {METADATA_MAX} strings of {METADATA_TEXT_LETTERS_MAX} letters, whose names have \
                 {METADATA_NAME_LETTERS_MAX}"
            );
            return Err(OpenAiError::invalid("metadata", message));
        }
        fields.finish()?;
        Ok(Self {
            endpoint,
            input_file_id,
            metadata,
        })
    }
}

/// Whether it is what a caller may note with a batch.
fn is_metadata(value: &Value) -> bool {
    let fits = |text: &str, most: usize| text.chars().nth(most).is_none();
    match value {
        Value::Null => true,
        Value::Object(notes) => {
            notes.len() <= METADATA_MAX
                && notes.iter().all(|(name, text)| {
                    let text = text.as_str();
                    fits(name, METADATA_NAME_LETTERS_MAX)
                        && text.is_some_and(|it| fits(it, METADATA_TEXT_LETTERS_MAX))
                })
        }
        _ => false,
    }
}

impl BatchRecord {
    /// A new one, created at this second, with its place among others.
    pub(super) fn new(
        id: String,
        caller: String,
        asked: AskedBatch,
        (created_at, order): (u64, u64),
    ) -> Self {
        let AskedBatch {
            endpoint,
            input_file_id,
            metadata,
        } = asked;
        Self {
            id,
            caller,
            endpoint,
            input_file_id,
            status: BatchStatus::Validating,
            created_at,
            order,
            times: Vec::new(),
            total: 0,
            completed: 0,
            failed: 0,
            output_file_id: None,
            error_file_id: None,
            faults: Vec::new(),
            metadata,
        }
    }

    /// Comes to a state.
    pub(super) fn enter(&mut self, status: BatchStatus, now: u64) {
        self.status = status;
        self.times.push((status, now));
    }

    /// When it is over whatever is left of it.
    pub(super) const fn expires_at(&self) -> u64 {
        self.created_at.saturating_add(WINDOW_SECONDS)
    }

    fn at(&self, status: BatchStatus) -> Option<u64> {
        let found = self.times.iter().find(|(state, _)| *state == status);
        found.map(|(_, at)| *at)
    }

    /// OpenAI's batch object.
    pub(super) fn object(&self) -> Value {
        let errors = match self.faults.is_empty() {
            true => Value::Null,
            false => json!({ "object": "list", "data": self.faults }),
        };
        let mut object = json!({
            "id": self.id, "object": "batch", "endpoint": self.endpoint, "errors": errors,
            "input_file_id": self.input_file_id, "completion_window": "24h", "status": self.status,
            "output_file_id": self.output_file_id, "error_file_id": self.error_file_id,
            "created_at": self.created_at, "expires_at": self.expires_at(), "metadata": self.metadata,
            "request_counts": { "total": self.total, "completed": self.completed, "failed": self.failed },
        });
        for (name, status) in [
            ("in_progress_at", BatchStatus::InProgress),
            ("finalizing_at", BatchStatus::Finalizing),
            ("completed_at", BatchStatus::Completed),
            ("failed_at", BatchStatus::Failed),
            ("expired_at", BatchStatus::Expired),
            ("cancelling_at", BatchStatus::Cancelling),
            ("cancelled_at", BatchStatus::Cancelled),
        ] {
            object[name] = json!(self.at(status));
        }
        object
    }
}

/// A request of a batch: what its caller calls it, and where it stands in the input. It is read when its turn comes: what is made of the
/// bytes takes many times as much memory, and a batch may wait for a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BatchLine {
    pub(super) custom_id: String,
    pub(super) bytes: Range<usize>,
}

/// A line of an input file, whose body is `B`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineForm<B> {
    custom_id: String,
    method: String,
    url: BatchEndpoint,
    body: B,
}

/// Reads a line of an input file.
fn form<'a, B: Deserialize<'a>>(text: &'a [u8]) -> Result<LineForm<B>, String> {
    read_json(text, &JsonLimit::REQUEST).map_err(|error| {
        let message = format!("it is no request: {error}");
        message.chars().take(512).collect()
    })
}

/// The body of a request, of the bytes of its line.
pub(super) fn body(line: &[u8]) -> Result<Value, OpenAiError> {
    let form = form::<Value>(line);
    let form = form.map_err(|message| OpenAiError::invalid("body", message))?;
    Ok(form.body)
}

/// The requests of an input file; its faults, else.
pub(super) fn lines(
    bytes: &[u8],
    endpoint: BatchEndpoint,
) -> Result<Vec<BatchLine>, Vec<LineFault>> {
    let (mut all, mut faults, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    let fault = |line: Option<usize>, code: &str, message: String| LineFault {
        code: code.to_owned(),
        message,
        param: None,
        line,
    };
    let mut end = 0;
    for (text, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        let begin = end;
        // The line, and what ends it.
        end += text.len() + 1;
        if text.trim_ascii().is_empty() {
            continue;
        }
        if all.len() == LINES_MAX {
            let message = format!("a batch has at most {LINES_MAX} requests");
            return Err(vec![fault(None, "too_many_requests", message)]);
        }
        match name_of(text, endpoint) {
            Ok(custom_id) if names.insert(custom_id.clone()) => all.push(BatchLine {
                custom_id,
                bytes: begin..begin + text.len(),
            }),
            Ok(custom_id) => {
                let message = format!("the custom_id {custom_id:?} is used twice");
                faults.push(fault(Some(number), "duplicate_custom_id", message));
            }
            Err((code, message)) => faults.push(fault(Some(number), code, message)),
        }
        if faults.len() == FAULTS_MAX {
            return Err(faults);
        }
    }
    if all.is_empty() && faults.is_empty() {
        faults.push(fault(None, "empty_file", "there is no request".to_owned()));
    }
    match faults.is_empty() {
        true => Ok(all),
        false => Err(faults),
    }
}

/// What a request is called, if it is one. Of its body nothing is made.
fn name_of(text: &[u8], endpoint: BatchEndpoint) -> Result<String, (&'static str, String)> {
    if text.len() > LINE_BYTES_MAX {
        let message = format!("a request has at most {LINE_BYTES_MAX} bytes");
        return Err(("request_too_large", message));
    }
    let form = form::<IgnoredAny>(text).map_err(|message| ("invalid_json_line", message))?;
    if form.method != "POST" {
        return Err(("invalid_method", "`method` is POST".to_owned()));
    }
    if form.url != endpoint {
        let message = "`url` is not the endpoint of the batch".to_owned();
        return Err(("mismatched_url", message));
    }
    if form.custom_id.is_empty() || form.custom_id.len() > CUSTOM_ID_BYTES_MAX {
        let message = format!("`custom_id` has 1 to {CUSTOM_ID_BYTES_MAX} bytes");
        return Err(("invalid_custom_id", message));
    }
    let IgnoredAny = form.body;
    Ok(form.custom_id)
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct LineAnswer {
    /// Its place in the file, empty lines left out.
    pub(super) line: usize,
    pub(super) status: u16,
    pub(super) body: Value,
}

impl LineAnswer {
    /// The line of the output file or the error file.
    pub(super) fn shown(&self, batch: &str, custom_id: &str) -> Value {
        let name = format!("{}_{}", batch.trim_start_matches("batch_"), self.line);
        json!({
            "id": format!("batch_req_{name}"), "custom_id": custom_id, "error": null,
            "response": { "status_code": self.status, "request_id": format!("req_{name}"), "body": self.body },
        })
    }
}

/// The line of the error file of a request that was not begun.
pub(super) fn left(batch: &str, (line, custom_id): (usize, &str), why: BatchStatus) -> Value {
    let (code, message) = match why {
        BatchStatus::Expired => ("batch_expired", "the batch expired before this request"),
        _ => (
            "batch_cancelled",
            "the batch was cancelled before this request",
        ),
    };
    let name = format!("{}_{line}", batch.trim_start_matches("batch_"));
    json!({
        "id": format!("batch_req_{name}"), "custom_id": custom_id, "response": null,
        "error": { "code": code, "message": message },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn request(custom_id: &str, url: &str) -> String {
        json!({"custom_id": custom_id, "method": "POST", "url": url, "body": {}}).to_string()
    }

    #[test]
    fn an_input_file_has_requests_or_faults() {
        let url = "/v1/completions";
        let endpoint = BatchEndpoint::Completions;
        let good = format!("{}\n\n{}\r\n", request("a", url), request("b", url));
        let all = lines(good.as_bytes(), endpoint).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].custom_id, "b");
        for line in &all {
            let text = &good.as_bytes()[line.bytes.clone()];
            assert_eq!(body(text).unwrap(), json!({}));
        }
        // A body that would take far more memory than its bytes.
        let nested = "{\"\":0},".repeat(35_000);
        let nested = request("c", url).replace("{}", &format!("[{nested}0]"));
        let other = request("a", "/v1/embeddings");
        let long = request(&"x".repeat(600), url);
        let large = request(&"x".repeat(LINE_BYTES_MAX), url);
        let method = request("c", url).replace("POST", "GET");
        let more = request("c", url).replace("{}", "{},\"more\":1");
        for (text, code) in [
            ("{", "invalid_json_line"),
            ("[]", "invalid_json_line"),
            ("{\"custom_id\": 1}", "invalid_json_line"),
            (&request("a", "/v1/files"), "invalid_json_line"),
            (&more, "invalid_json_line"),
            (&method, "invalid_method"),
            (&other, "mismatched_url"),
            (&long, "invalid_custom_id"),
            (&large, "request_too_large"),
            (&nested, "invalid_json_line"),
            (&request("a", url), "duplicate_custom_id"),
        ] {
            let text = format!("{good}{text}");
            let faults = lines(text.as_bytes(), endpoint).unwrap_err();
            assert_eq!((faults[0].code.as_str(), faults[0].line), (code, Some(4)));
        }
        for empty in ["", "\n \n"] {
            let faults = lines(empty.as_bytes(), endpoint).unwrap_err();
            assert_eq!(faults[0].code, "empty_file");
        }
        let many: String = (0..=LINES_MAX)
            .map(|index| request(&index.to_string(), url) + "\n")
            .collect();
        assert_eq!(
            lines(many.as_bytes(), endpoint).unwrap_err()[0].code,
            "too_many_requests"
        );
        let wrong = "{\n".repeat(100);
        assert_eq!(
            lines(wrong.as_bytes(), endpoint).unwrap_err().len(),
            FAULTS_MAX
        );
    }

    #[test]
    fn a_batch_is_asked_for_and_shown() {
        let good = json!({"endpoint": "/v1/embeddings", "input_file_id": "file-1", "completion_window": "24h", "metadata": {"a": "b"}});
        for (name, value, param) in [
            ("endpoint", json!("/v1/audio"), "endpoint"),
            ("endpoint", json!(1), "endpoint"),
            ("input_file_id", json!(null), "input_file_id"),
            ("completion_window", json!("1h"), "completion_window"),
            ("metadata", json!("x"), "metadata"),
            ("metadata", json!({"a": {"b": 1}}), "metadata"),
            ("metadata", json!({"a": "x".repeat(513)}), "metadata"),
            ("metadata", json!({"x".repeat(65): "a"}), "metadata"),
            ("output_expires_after", json!({}), "output_expires_after"),
        ] {
            let mut body = good.clone();
            body[name] = value;
            let error = AskedBatch::read(body).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param));
        }
        let asked = AskedBatch::read(good).unwrap();
        let mut record = BatchRecord::new("batch_1".to_owned(), "a".to_owned(), asked, (5, 5));
        record.enter(BatchStatus::InProgress, 6);
        let object = record.object();
        assert_eq!(object["status"], "in_progress");
        assert_eq!(
            (&object["in_progress_at"], &object["completed_at"]),
            (&json!(6), &json!(null))
        );
        assert_eq!(object["expires_at"], 5 + WINDOW_SECONDS);
        assert_eq!(object["endpoint"], "/v1/embeddings");
        // It comes back from the disk as it was.
        let kept = serde_json::to_vec(&record).unwrap();
        let back: BatchRecord = serde_json::from_slice(&kept).unwrap();
        assert_eq!(back.object(), object);
    }
}
