//! HTTP/1.1 calls to a provider's own server, over TCP or TLS, each limited in bytes and time.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use tg_sdk::tls::{self, Connector, RootsError};

use super::config::UpstreamConfig;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// How long the list of models may take.
const MODELS_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of the list of models, at most.
const MODELS_BYTES_MAX: usize = 1 << 20;

/// Models of a list that are looked at.
const MODELS_MAX: usize = 4_096;

/// Bytes of an error of the server, at most.
pub(super) const ERROR_BYTES_MAX: usize = 64 << 10;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(5);

/// Why a server gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The key is no text that a header may have.
    #[error("the key of {url} has characters that no header has")]
    Key {
        /// The server.
        url: String,
    },
    /// The system trusts no certificate by which the server's could be checked.
    #[error("check the certificate of {url}")]
    NoRoots {
        /// The server.
        url: String,
        /// Why.
        #[source]
        source: RootsError,
    },
    /// It cannot be reached.
    #[error("reach {url}")]
    Unreachable {
        /// The server.
        url: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nothing came for too long.
    #[error("{url} sent nothing for {} s", limit.as_secs())]
    Silent {
        /// The server.
        url: String,
        /// How long.
        limit: Duration,
    },
    /// Its answer has more bytes than are read.
    #[error("{url} sent more than {limit} bytes")]
    TooLarge {
        /// The server.
        url: String,
        /// Bytes.
        limit: usize,
    },
    /// Its answer is none of the API.
    #[error("the answer of {url} is not one of the OpenAI API: {what}")]
    Unreadable {
        /// The server.
        url: String,
        /// What is wrong.
        what: &'static str,
    },
    /// It refused.
    #[error("{url} answered with status {status}")]
    Status {
        /// The server.
        url: String,
        /// The status.
        status: u16,
    },
    /// It is there, and does not have the model.
    #[error("{url} has no model `{model}`; it has: {}", has.join(", "))]
    NoModel {
        /// The server.
        url: String,
        /// What was looked for.
        model: String,
        /// Some of those that it has.
        has: Vec<String>,
    },
}

/// A pool of connections to one server.
#[derive(Debug, Clone)]
pub struct UpstreamClient {
    url: String,
    key: Option<HeaderValue>,
    pool: Pool<Connector, Full<Bytes>>,
    /// How long the first byte of an answer, and each after it, may take.
    silence: Duration,
}

impl UpstreamClient {
    /// A pool for a server.
    ///
    /// # Errors
    /// If the key is none that a header may have, or the system trusts no certificate.
    pub fn new(config: &UpstreamConfig) -> Result<Self, UpstreamError> {
        let (at, key) = (&config.at, config.key.as_deref());
        let bearer = |key: &str| {
            let value = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut value = value.map_err(|_| UpstreamError::Key {
                url: at.url.clone(),
            })?;
            value.set_sensitive(true);
            Ok(value)
        };
        let roots = tls::roots_for(&at.url).map_err(|source| UpstreamError::NoRoots {
            url: at.url.clone(),
            source,
        })?;
        Ok(Self {
            url: at.url.clone(),
            key: key.map(bearer).transpose()?,
            pool: Pool::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(roots.connector(CONNECT_MAX)),
            silence: config.silence,
        })
    }

    /// The base of its API.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether the server is there and lists a model.
    ///
    /// # Errors
    /// If it is not, or does not.
    pub async fn check(&self, model: &str) -> Result<(), UpstreamError> {
        let named = self.models().await?;
        // Ollama lists `llama3.2:latest` and takes `llama3.2`.
        let latest = format!("{model}:latest");
        if named.iter().any(|it| it == model || *it == latest) {
            return Ok(());
        }
        Err(UpstreamError::NoModel {
            url: self.url.clone(),
            model: model.to_owned(),
            has: named.into_iter().take(8).collect(),
        })
    }

    /// The names of the models that it lists.
    async fn models(&self) -> Result<Vec<String>, UpstreamError> {
        let listed = async {
            let answer = self.send(Method::GET, "/models", Vec::new()).await?;
            let status = answer.status().as_u16();
            let body = self.read(answer, MODELS_BYTES_MAX).await?;
            if status != 200 {
                return Err(self.status(status));
            }
            serde_json::from_slice::<Value>(&body)
                .map_err(|_| self.unreadable("the list of models is no JSON"))
        };
        let listed = tokio::time::timeout(MODELS_TIME_MAX, listed).await;
        let listed = listed.map_err(|_| self.silent(MODELS_TIME_MAX))??;
        let data = listed["data"].as_array();
        let data = data.ok_or_else(|| self.unreadable("the list of models has no `data`"))?;
        let names = data.iter().take(MODELS_MAX);
        let names = names.filter_map(|it| it["id"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Posts JSON and returns the answer with its body still unread.
    pub(super) async fn post(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let sent = self.send(Method::POST, path, body);
        self.in_time(sent).await?
    }

    /// What comes before the server was silent for too long.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, UpstreamError> {
        let done = tokio::time::timeout(self.silence, work).await;
        done.map_err(|_| self.silent(self.silence))
    }

    /// The whole body of an answer, at most `limit` bytes.
    pub(super) async fn read(
        &self,
        answer: Response<Incoming>,
        limit: usize,
    ) -> Result<Vec<u8>, UpstreamError> {
        let body = Limited::new(answer.into_body(), limit);
        match self.in_time(body.collect()).await? {
            Ok(all) => Ok(all.to_bytes().to_vec()),
            Err(error) if error.is::<LengthLimitError>() => Err(self.too_large(limit)),
            Err(source) => Err(self.unreachable(source)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, UpstreamError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("user-agent", "tensorgrid-provider");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let request = request.body(Full::from(body));
        let request = request.map_err(|error| self.unreachable(error))?;
        let answer = self.pool.request(request).await;
        answer.map_err(|error| self.unreachable(error))
    }

    pub(super) fn unreachable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> UpstreamError {
        UpstreamError::Unreachable {
            url: self.url.clone(),
            source: source.into(),
        }
    }

    fn silent(&self, limit: Duration) -> UpstreamError {
        UpstreamError::Silent {
            url: self.url.clone(),
            limit,
        }
    }

    pub(super) fn too_large(&self, limit: usize) -> UpstreamError {
        UpstreamError::TooLarge {
            url: self.url.clone(),
            limit,
        }
    }

    pub(super) fn unreadable(&self, what: &'static str) -> UpstreamError {
        UpstreamError::Unreadable {
            url: self.url.clone(),
            what,
        }
    }

    pub(super) fn status(&self, status: u16) -> UpstreamError {
        UpstreamError::Status {
            url: self.url.clone(),
            status,
        }
    }
}
