//! Listening and stopping.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::admission;
use crate::calls::Calls;
use crate::config::ApiConfig;
use crate::connection::{ConnectionPlace, Connections, PeerAddress};
use crate::lane::Lanes;
use crate::openai::error::OpenAiError;
use crate::openai::{self, BATCH_PLACES, KeptResponses, OpenStores, RateLimits, Replays};
use crate::port::GridPort;
use crate::relay::Relay;
use crate::routes;
use crate::shared::Shared;
use crate::socket::Socket;

/// Bytes of a request's head, and of an answer that wait to be written: what a connection may cost.
const BUFFER_BYTES: usize = 16 << 10;

/// Wait after a failure to accept, which is a lack of descriptors or memory.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// An address that is taken and not served yet: clients that connect wait.
#[derive(Debug)]
pub struct ApiListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl ApiListener {
    /// Takes an address.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn bind(listen: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Serves until [`ApiServer::stop`].
    pub fn serve(self, port: Arc<dyn GridPort>, config: ApiConfig) -> ApiServer {
        let Self { listener, address } = self;
        let (stop, stopping) = watch::channel(false);
        let connections = Arc::new(Connections::new(config.connections_max));
        let shared = Arc::new(Shared {
            port,
            config,
            lanes: Lanes::new(&config, Arc::clone(&connections)),
            replays: Replays::default(),
            served: Replays::default(),
            embedded: Replays::default(),
            begun: Replays::default(),
            responses: KeptResponses::default(),
            stores: OpenStores::default(),
            batch_places: Arc::new(Semaphore::new(BATCH_PLACES)),
            rates: RateLimits::default(),
            calls: Calls::default(),
            relay: Relay::default(),
            stopping: stopping.clone(),
        });
        let router = router(Arc::clone(&shared));
        let accepting = accept(listener, router, config, Arc::clone(&connections), stopping);
        ApiServer {
            shared,
            address,
            stop,
            connections,
            task: tokio::spawn(accepting),
        }
    }
}

/// A listening server.
pub struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    connections: Arc<Connections>,
    task: tokio::task::JoinHandle<()>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("ApiServer");
        text.field("address", &self.address).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// Goes on with the batches of the OpenAI routes that are not over, once the port says who orders.
    ///
    /// # Errors
    /// If nobody orders here, or what is kept of them cannot be read.
    pub fn go_on_with_batches(&self) -> Result<(), OpenAiError> {
        openai::go_on(&self.shared)
    }

    /// Listens and serves until [`ApiServer::stop`].
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn start(port: Arc<dyn GridPort>, config: ApiConfig) -> std::io::Result<Self> {
        Ok(ApiListener::bind(config.listen).await?.serve(port, config))
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
            self.connections.end_all();
            abort.abort();
        }
    }
}

/// Accepts connections until the order to stop, then waits until those that are open have ended.
async fn accept(
    listener: TcpListener,
    router: Router,
    config: ApiConfig,
    connections: Arc<Connections>,
    mut stopping: watch::Receiver<bool>,
) {
    let (alive, mut ended) = mpsc::channel::<()>(1);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // An error means that the server's owner is gone, which is the same order.
            _ = stopping.wait_for(|&stop| stop) => break,
        };
        let Ok((stream, address)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        // Without a place the stream is dropped, which closes it.
        let Some(place) = connections.admit(PeerAddress::of(address)) else {
            continue;
        };
        let (router, stopping, alive) = (router.clone(), stopping.clone(), alive.clone());
        tokio::spawn(async move {
            connect(stream, router, config, place, stopping).await;
            drop(alive);
        });
    }
    drop((listener, alive));
    // Nothing is ever sent: this returns when the last connection has dropped its sender.
    let _ = ended.recv().await;
}

/// Serves one connection until it ends, is too slow, gives way to another one or the server stops.
async fn connect(
    stream: TcpStream,
    router: Router,
    config: ApiConfig,
    place: ConnectionPlace,
    mut stopping: watch::Receiver<bool>,
) {
    // Without it small answers may wait for an acknowledgement; a stream that refuses it still works.
    let _ = stream.set_nodelay(true);
    let connection = Arc::clone(&place.connection);
    let socket = Socket::new(stream, Arc::clone(&connection), config.pace());
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Arc::clone(&connection));
        service.call(request)
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.head_time_max)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(socket), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // How a connection ends is the client's affair.
        _ = serving.as_mut() => return,
        () = place.connection.ordered_to_end() => return,
        _ = stopping.wait_for(|&stop| stop) => serving.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ = serving => {}
        () = place.connection.ordered_to_end() => {}
    }
}

fn router(shared: Arc<Shared>) -> Router {
    routes::router()
        // The lanes bound every body.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(
            Arc::clone(&shared),
            admission::through,
        ))
        .with_state(shared)
}
