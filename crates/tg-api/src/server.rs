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
use tg_sdk::dto::CloudPricesDto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::admission;
use crate::calls::Calls;
use crate::config::ApiConfig;
use crate::connection::{ConnectionPlace, Connections, PeerAddress};
use crate::happened::{self, JobEvents};
use crate::hosts::{HostName, ListenerNames};
use crate::lane::Lanes;
use crate::latest_status::LatestStatus;
use crate::openai::error::OpenAiError;
use crate::openai::{
    self, ApiKeyShares, BatchPlaces, KeptResponses, OpenStores, RateLimits, Replays,
};
use crate::port::GridPort;
use crate::relay::Relay;
use crate::routes;
use crate::shared::Shared;
use crate::snapshots::Snapshots;
use crate::socket::Socket;
use crate::tls::ServerTls;

/// Bytes of a request's head, and of an answer that wait to be written: what a connection may cost.
const BUFFER_BYTES: usize = 16 << 10;

/// Wait after a failure to accept, which is a lack of descriptors or memory.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// An address that is taken and not served yet: clients that connect wait.
#[derive(Debug)]
pub struct ApiListener {
    listener: TcpListener,
    address: SocketAddr,
    secure: Option<SecureListener>,
    names: Vec<HostName>,
    clouds: CloudPricesDto,
}

/// An address where TLS is spoken.
#[derive(Debug)]
struct SecureListener {
    listener: TcpListener,
    address: SocketAddr,
    tls: ServerTls,
}

impl ApiListener {
    /// Takes an address.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn bind(listen: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            secure: None,
            names: Vec::new(),
            clouds: CloudPricesDto::default(),
        })
    }

    /// Takes the names by which it is called beside those of loopback and addresses, such as that of a proxy before it. Where there are any, no
    /// other one is answered.
    #[must_use]
    pub fn called(mut self, names: Vec<HostName>) -> Self {
        self.names = names;
        self
    }

    /// Takes what clouds ask for hardware, which is told to whoever asks; without it, there are no rows.
    #[must_use]
    pub fn beside_clouds(mut self, clouds: CloudPricesDto) -> Self {
        self.clouds = clouds;
        self
    }

    /// Takes a second address, where the same is served by TLS.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub async fn with_tls(mut self, listen: SocketAddr, tls: ServerTls) -> std::io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        self.secure = Some(SecureListener {
            listener,
            address,
            tls,
        });
        Ok(self)
    }

    /// Serves until [`ApiServer::stop`].
    pub fn serve(self, port: Arc<dyn GridPort>, config: ApiConfig) -> ApiServer {
        let Self {
            listener,
            address,
            secure,
            names,
            clouds,
        } = self;
        let (stop, stopping) = watch::channel(false);
        let connections = Arc::new(Connections::new(config.connections_max));
        let job_events = Arc::new(JobEvents::default());
        let shared = Arc::new(Shared {
            port,
            config,
            clouds,
            lanes: Lanes::new(&config, Arc::clone(&connections)),
            replays: Replays::default(),
            served: Replays::default(),
            embedded: Replays::default(),
            begun: Replays::default(),
            responses: KeptResponses::default(),
            stores: OpenStores::default(),
            batch_places: BatchPlaces::default(),
            key_shares: ApiKeyShares::default(),
            rates: RateLimits::default(),
            snapshots: Snapshots::default(),
            calls: Calls::default(),
            latest_status: LatestStatus::default(),
            job_events: Arc::clone(&job_events),
            relay: Relay::default(),
            stopping: stopping.clone(),
        });
        let (events, port) = (job_events, Arc::clone(&shared.port));
        tokio::spawn(happened::remember(events, port, stopping.clone()));
        let router = router(Arc::clone(&shared));
        let secure_address = secure.as_ref().map(|it| it.address);
        let accepting = Accepting {
            router,
            config,
            connections: Arc::clone(&connections),
            names: Arc::new(ListenerNames::of(address, names.clone())),
            stopping,
        };
        let task = tokio::spawn(async move {
            let plain = accepting.clone().run(listener, None);
            let secure = async {
                if let Some(SecureListener { listener, tls, .. }) = secure {
                    let names = Arc::new(ListenerNames::of_tls(names));
                    let accepting = Accepting { names, ..accepting };
                    accepting.run(listener, Some(tls.acceptor())).await;
                }
            };
            tokio::join!(plain, secure);
        });
        ApiServer {
            shared,
            address,
            secure_address,
            stop,
            connections,
            task,
        }
    }
}

/// A listening server.
pub struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    secure_address: Option<SocketAddr>,
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

    /// Where it speaks TLS, if it does.
    #[must_use]
    pub const fn secure_address(&self) -> Option<SocketAddr> {
        self.secure_address
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

/// What takes connections.
#[derive(Clone)]
struct Accepting {
    router: Router,
    config: ApiConfig,
    connections: Arc<Connections>,
    names: Arc<ListenerNames>,
    stopping: watch::Receiver<bool>,
}

impl Accepting {
    /// Accepts connections until the order to stop, then waits until those that are open have ended.
    async fn run(mut self, listener: TcpListener, tls: Option<TlsAcceptor>) {
        let (alive, mut ended) = mpsc::channel::<()>(1);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // An error means that the server's owner is gone, which is the same order.
                _ = self.stopping.wait_for(|&stop| stop) => break,
            };
            let Ok((stream, address)) = accepted else {
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            };
            // Without a place the stream is dropped, which closes it.
            let Some(place) = self.connections.admit(PeerAddress::of(address)) else {
                continue;
            };
            let (own, tls, alive) = (self.clone(), tls.clone(), alive.clone());
            tokio::spawn(async move {
                own.connect(stream, tls, place).await;
                drop(alive);
            });
        }
        drop((listener, alive));
        // Nothing is ever sent: this returns when the last connection has dropped its sender.
        let _ = ended.recv().await;
    }

    /// Serves one connection until it ends, is too slow, gives way to another one or the server stops.
    async fn connect(self, stream: TcpStream, tls: Option<TlsAcceptor>, place: ConnectionPlace) {
        // Without it small answers may wait for an acknowledgement; a stream that refuses it still works.
        let _ = stream.set_nodelay(true);
        let socket = Socket::new(stream, Arc::clone(&place.connection), self.config.pace());
        let Some(tls) = tls else {
            return self.converse(socket, place).await;
        };
        let time_max = self.config.head_time_max;
        let mut stopping = self.stopping.clone();
        let secured = tokio::select! {
            secured = tokio::time::timeout(time_max, tls.accept(socket)) => secured,
            () = place.connection.ordered_to_end() => return,
            _ = stopping.wait_for(|&stop| stop) => return,
        };
        // Why a client does not agree is its affair.
        if let Ok(Ok(stream)) = secured {
            self.converse(stream, place).await;
        }
    }

    /// Answers the requests of a connection.
    async fn converse(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        place: ConnectionPlace,
    ) {
        let Self {
            router,
            config,
            names,
            mut stopping,
            ..
        } = self;
        let connection = Arc::clone(&place.connection);
        let service = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Arc::clone(&connection));
            request.extensions_mut().insert(Arc::clone(&names));
            service.call(request)
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(config.head_time_max)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
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
