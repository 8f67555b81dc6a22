//! Listening, limits and stopping.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::error::ApiError;
use crate::port::GridPort;
use crate::routes;

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct ApiConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Largest blob, in bytes.
    pub blob_bytes_max: usize,
    /// Largest JSON body and transaction, in bytes.
    pub body_bytes_max: usize,
    /// Most calls at once, event streams apart.
    pub calls_max: usize,
    /// Most blobs that are read or written at once; each is held in memory.
    pub transfers_max: usize,
    /// Most event streams at once.
    pub streams_max: usize,
    /// Longest a body may take to arrive.
    pub body_time_max: Duration,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
            blob_bytes_max: 64 << 20,
            body_bytes_max: 4 << 20,
            calls_max: 256,
            transfers_max: 8,
            streams_max: 64,
            body_time_max: Duration::from_secs(60),
        }
    }
}

/// What every handler sees.
pub(crate) struct Shared {
    pub(crate) port: Arc<dyn GridPort>,
    pub(crate) config: ApiConfig,
    pub(crate) transfers: Semaphore,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) stopping: watch::Receiver<bool>,
    calls: Semaphore,
}

/// A listening server.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl ApiServer {
    /// Listens and serves until [`ApiServer::stop`].
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn start(port: Arc<dyn GridPort>, config: ApiConfig) -> std::io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let (stop, mut stopping) = watch::channel(false);
        let router = router(Arc::new(Shared {
            port,
            config,
            transfers: Semaphore::new(config.transfers_max),
            streams: Arc::new(Semaphore::new(config.streams_max)),
            stopping: stopping.clone(),
            calls: Semaphore::new(config.calls_max),
        }));
        let ordered = async move {
            // An error means that the server's owner is gone, which is the same order.
            let _ = stopping.wait_for(|&stop| stop).await;
        };
        let serve = axum::serve(listener, router).with_graceful_shutdown(ordered);
        let task = tokio::spawn(serve.into_future());
        Ok(Self {
            address,
            stop,
            task,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as a client takes it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes no more calls, lets the running ones end for up to `patience`, and ends the event streams.
    pub async fn stop(self, patience: Duration) {
        self.stop.send_replace(true);
        let abort = self.task.abort_handle();
        if tokio::time::timeout(patience, self.task).await.is_err() {
            abort.abort();
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    routes::router()
        .layer(DefaultBodyLimit::max(shared.config.body_bytes_max))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&shared),
            limit_calls,
        ))
        .with_state(shared)
}

/// Refuses calls above the limit at once, rather than letting them pile up.
async fn limit_calls(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let Ok(_permit) = shared.calls.try_acquire() else {
        let limit = shared.config.calls_max;
        return ApiError::Busy { limit }.into_response();
    };
    next.run(request).await
}
