//! Listening, limits and stopping.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tg_types::limits::TRANSACTION_BYTES_MAX;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::connection::{ConnectionPlace, Connections, PeerAddress};
use crate::lane::{self, Lanes};
use crate::port::GridPort;
use crate::routes;
use crate::socket::{PaceLimit, Socket};

/// Bytes of a request's head, and of an answer that wait to be written: what a connection may cost.
const BUFFER_BYTES: usize = 16 << 10;

/// Wait after a failure to accept, which is a lack of descriptors or memory.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// Limits of a server. One peer gets a quarter of each, loopback apart, where all processes are one peer.
#[derive(Debug, Clone, Copy)]
pub struct ApiConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Most connections; a newcomer takes the place of the one that does nothing for longest.
    pub connections_max: usize,
    /// Largest blob, in bytes.
    pub blob_bytes_max: usize,
    /// Largest JSON body, in bytes.
    pub body_bytes_max: usize,
    /// Largest transaction or order, in bytes.
    pub small_body_bytes_max: usize,
    /// Most cheap calls at work at once.
    pub calls_max: usize,
    /// Most calls at work at once that walk over all records.
    pub reads_max: usize,
    /// Most lists and blobs on their way to clients.
    pub answers_max: usize,
    /// Most blobs on their way from clients.
    pub uploads_max: usize,
    /// Most event streams at once.
    pub streams_max: usize,
    /// Most inferences on behalf of clients of a development network.
    pub inferences_max: usize,
    /// Longest wait for a place among the calls of one kind.
    pub wait_max: Duration,
    /// Longest a request's head may take to arrive; an idle connection ends after it, too.
    pub head_time_max: Duration,
    /// Longest a body may take to arrive, besides the time that its size takes at the least rate.
    pub body_time_max: Duration,
    /// Longest a client may take nothing of its answer, besides the time that its size takes at the least rate.
    pub write_time_max: Duration,
    /// The least rate at which bodies arrive and answers leave, in bytes a second.
    pub rate_min: u64,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7070)),
            // With 16 KiB of buffers and half a MiB of an answer for some, far below 300 MB; half of the 1,024
            // descriptors that a process usually gets.
            connections_max: 512,
            blob_bytes_max: 64 << 20,
            body_bytes_max: 4 << 20,
            small_body_bytes_max: 2 * TRANSACTION_BYTES_MAX,
            calls_max: 64,
            reads_max: 4,
            answers_max: 128,
            uploads_max: 32,
            streams_max: 128,
            inferences_max: 32,
            wait_max: Duration::from_secs(20),
            head_time_max: Duration::from_secs(15),
            body_time_max: Duration::from_secs(10),
            write_time_max: Duration::from_secs(10),
            rate_min: 64 << 10,
        }
    }
}

impl ApiConfig {
    /// How slow a client may be.
    pub(crate) const fn pace(&self) -> PaceLimit {
        PaceLimit {
            patience: self.write_time_max,
            bytes_per_second: self.rate_min,
        }
    }
}

/// What every handler sees.
pub(crate) struct Shared {
    pub(crate) port: Arc<dyn GridPort>,
    pub(crate) config: ApiConfig,
    pub(crate) lanes: Lanes,
    pub(crate) stopping: watch::Receiver<bool>,
}

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
        let router = router(Arc::new(Shared {
            port,
            config,
            lanes: Lanes::new(&config, Arc::clone(&connections)),
            stopping: stopping.clone(),
        }));
        let accepting = accept(listener, router, config, Arc::clone(&connections), stopping);
        ApiServer {
            address,
            stop,
            connections,
            task: tokio::spawn(accepting),
        }
    }
}

/// A listening server.
#[derive(Debug)]
pub struct ApiServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    connections: Arc<Connections>,
    task: tokio::task::JoinHandle<()>,
}

impl ApiServer {
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
            lane::through,
        ))
        .with_state(shared)
}
