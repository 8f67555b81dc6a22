//! HTTP/1.1 over TCP or TLS: one request, one bounded answer.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::{Method, Request, Response, Uri};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::answer::JsonAnswer;
use crate::error::{ClientError, ErrorBody};
use crate::tls::{Connector, TlsRoots};
use crate::upload::UploadBody;

/// Longest wait for an answer, in milliseconds. A proof travels in well under this on any link worth using.
pub(crate) const CALL_LIMIT_MS: u64 = 30_000;

/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long an unused connection is kept: less than servers keep it, or a call meets one that is just being closed.
const IDLE: Duration = Duration::from_secs(5);

/// Largest JSON answer a client reads, in bytes: far more than any page of a list.
pub(crate) const JSON_BYTES_MAX: usize = 16 << 20;

/// Most bytes for which room is made before they come: a server may say that more will.
const ROOM_BYTES_MAX: usize = 4 << 20;

/// A body to send and its media type.
#[derive(Debug)]
pub(crate) enum Payload {
    /// No body.
    Empty,
    /// JSON text.
    Json(Vec<u8>),
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// Raw bytes with headers of their own.
    Upload(RequestBody, Vec<(&'static str, String)>),
}

/// The body of a request: whole, or piece by piece.
pub(crate) type RequestBody = Either<Full<Bytes>, UploadBody>;

/// A call on its way. What makes one is a plain function: an `async` one is compiled by every crate, program and test that waits for it, with all
/// of HTTP and TLS below it.
pub(crate) type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, ClientError>> + Send + 'a>>;

/// A pool of connections to one API.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    base: String,
    is_loopback: bool,
    pool: Pool<Connector, RequestBody>,
    limit: Duration,
}

/// The bytes of a body, copied once: room for as many as its head says, and as may come, is made before.
async fn collect(
    mut body: Limited<Incoming>,
    limit: usize,
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let told = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(told.min(limit).min(ROOM_BYTES_MAX));
    while let Some(frame) = body.frame().await {
        // Trailers are nothing that this client reads.
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// Whether the host of an address is this machine, by its name or by its IP address.
fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']');
    match ip.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// A body of these bytes.
pub(crate) fn whole(bytes: Vec<u8>) -> RequestBody {
    Either::Left(Full::from(bytes))
}

impl Transport {
    /// A pool for `url`, such as `http://127.0.0.1:7070`, which believes the certificates of `roots`.
    pub(crate) fn new(url: &str, roots: &TlsRoots) -> Result<Self, ClientError> {
        let base = url.trim_end_matches('/').to_owned();
        let parsed: Result<Uri, _> = base.parse();
        let valid = parsed.ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some()
                && matches!(uri.path(), "" | "/")
        });
        let uri = valid.ok_or_else(|| ClientError::InvalidUrl {
            url: url.to_owned(),
        })?;
        Ok(Self {
            base,
            is_loopback: is_loopback(&uri),
            pool: Pool::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(roots.connector(CONNECT_MAX)),
            limit: Duration::from_millis(CALL_LIMIT_MS),
        })
    }

    /// The address this pool speaks to.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Whether the address is of this machine: loopback.
    pub(crate) const fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Changes the longest wait for an answer.
    pub(crate) const fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Sends a request and returns the answer's head with its body still unread; refusals become errors.
    pub(crate) fn open<'a>(
        &'a self,
        method: Method,
        path: &'a str,
        payload: Payload,
    ) -> Call<'a, Response<Incoming>> {
        Box::pin(self.begin(method, path, payload))
    }

    /// Sends a request and reads the whole answer, at most `limit` bytes.
    pub(crate) fn call<'a>(
        &'a self,
        method: Method,
        path: &'a str,
        payload: Payload,
        limit: usize,
    ) -> Call<'a, Vec<u8>> {
        Box::pin(async move {
            let answer = self.begin(method, path, payload).await?;
            self.read(path, answer, limit).await
        })
    }

    async fn begin(
        &self,
        method: Method,
        path: &str,
        payload: Payload,
    ) -> Result<Response<Incoming>, ClientError> {
        let request = self.request(method, path, payload)?;
        let answer = tokio::time::timeout(self.limit, self.pool.request(request))
            .await
            .map_err(|_| self.timeout())?
            .map_err(|source| self.unreachable(source))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let bytes = self.read(path, answer, JSON_BYTES_MAX).await?;
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| ErrorBody {
            code: format!("HTTP-{status}"),
            message: format!("the server answered {status} to {path}"),
            hint: "this may not be a TensorGrid API".to_owned(),
        });
        Err(ClientError::Refused { status, body })
    }

    /// Sends a request and reads the answer as JSON.
    pub(crate) async fn json<T: JsonAnswer>(
        &self,
        method: Method,
        path: &str,
        payload: Payload,
    ) -> Result<T, ClientError> {
        let bytes = self.call(method, path, payload, JSON_BYTES_MAX).await?;
        T::read(path, &bytes)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        payload: Payload,
    ) -> Result<Request<RequestBody>, ClientError> {
        let builder = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("accept", "*/*")
            .header("user-agent", concat!("tg-sdk/", env!("CARGO_PKG_VERSION")));
        let request = match payload {
            Payload::Empty => builder.body(whole(Vec::new())),
            Payload::Json(json) => builder
                .header("content-type", "application/json")
                .body(whole(json)),
            Payload::Bytes(bytes) => builder
                .header("content-type", "application/octet-stream")
                .body(whole(bytes)),
            Payload::Upload(body, headers) => headers
                .into_iter()
                .fold(builder, |builder, (name, value)| {
                    builder.header(name, value)
                })
                .header("content-type", "application/octet-stream")
                .body(body),
        };
        request.map_err(|_| ClientError::InvalidUrl {
            url: format!("{}{path}", self.base),
        })
    }

    async fn read(
        &self,
        path: &str,
        answer: Response<Incoming>,
        limit: usize,
    ) -> Result<Vec<u8>, ClientError> {
        let body = Limited::new(answer.into_body(), limit);
        let collected = tokio::time::timeout(self.limit, collect(body, limit))
            .await
            .map_err(|_| self.timeout())?;
        match collected {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.is::<LengthLimitError>() => Err(ClientError::TooLarge {
                path: path.to_owned(),
                limit,
            }),
            Err(source) => Err(ClientError::Unreachable {
                url: self.base.clone(),
                source,
            }),
        }
    }

    fn timeout(&self) -> ClientError {
        ClientError::Timeout {
            url: self.base.clone(),
            limit_ms: u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The transport broke.
    pub(crate) fn unreachable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ClientError {
        ClientError::Unreachable {
            url: self.base.clone(),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        let check = |url: &str, expected: bool| {
            let uri: Result<Uri, _> = url.parse();
            assert_eq!(uri.is_ok_and(|uri| is_loopback(&uri)), expected, "{url}");
        };
        check("http://127.0.0.1:7070", true);
        check("http://127.8.0.1", true);
        check("https://[::1]:7070", true);
        check("http://[::ffff:127.0.0.1]:7070", true);
        check("http://LocalHost:7070", true);
        check("http://10.0.0.7:7070", false);
        check("http://0.0.0.0:7070", false);
        check("http://[2001:db8::7]", false);
        check("https://localhost.example.org", false);
        // What stands before the host is a name and a password.
        check("http://127.0.0.1:1@example.org", false);
    }
}
