//! A runtime whose clock only counts: it starts at the wall time and does not change when the wall clock is set.
//!
//! Timers of consensus and rate limits of the network compare points in time. With the wall clock, a jump back would make
//! each of them wait for as long as the clock was set back, and a jump forward would fire all at once.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use commonware_runtime::telemetry::metrics::{Metric, Registered};
use commonware_runtime::{
    BlobVersion, Clock, Error, Handle, Metrics, Name, Network, Resolver, SinkOf, Spawner, Storage,
    StreamOf, Supervisor, signal,
};
use governor::clock::{Clock as GovernorClock, ReasonablyRealtime};
use rand_core::{TryCryptoRng, TryRng};

/// Where the count began.
#[derive(Debug)]
struct ClockStart {
    wall: SystemTime,
    count: Instant,
}

/// The runtime `E` with a steady clock.
pub(crate) struct Steady<E> {
    inner: E,
    start: Arc<ClockStart>,
}

impl<E> Steady<E> {
    /// Counts from the present wall time.
    pub(crate) fn new(inner: E) -> Self {
        Self {
            inner,
            start: Arc::new(ClockStart {
                wall: SystemTime::now(),
                count: Instant::now(),
            }),
        }
    }

    fn with(&self, inner: E) -> Self {
        Self {
            inner,
            start: self.start.clone(),
        }
    }
}

impl<E: Supervisor> Supervisor for Steady<E> {
    fn name(&self) -> Name {
        self.inner.name()
    }

    fn child(&self, label: &'static str) -> Self {
        self.with(self.inner.child(label))
    }

    fn with_attribute(self, key: &'static str, value: impl std::fmt::Display) -> Self {
        Self {
            inner: self.inner.with_attribute(key, value),
            start: self.start,
        }
    }
}

impl<E: Spawner> Spawner for Steady<E> {
    fn shared(self, blocking: bool) -> Self {
        Self {
            inner: self.inner.shared(blocking),
            start: self.start,
        }
    }

    fn dedicated(self) -> Self {
        Self {
            inner: self.inner.dedicated(),
            start: self.start,
        }
    }

    fn spawn<F, Fut, T>(self, f: F) -> Handle<T>
    where
        F: FnOnce(Self) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let start = self.start;
        self.inner.spawn(move |inner| f(Self { inner, start }))
    }

    async fn stop(self, value: i32, timeout: Option<Duration>) -> Result<(), Error> {
        self.inner.stop(value, timeout).await
    }

    fn stopped(&self) -> signal::Signal {
        self.inner.stopped()
    }
}

impl<E: Metrics> Metrics for Steady<E> {
    fn register<N: Into<String>, H: Into<String>, M: Metric>(
        &self,
        name: N,
        help: H,
        metric: M,
    ) -> Registered<M> {
        self.inner.register(name, help, metric)
    }

    fn encode(&self) -> String {
        self.inner.encode()
    }
}

impl<E: Clock> Clock for Steady<E> {
    fn current(&self) -> SystemTime {
        self.start.wall + self.start.count.elapsed()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static + use<E> {
        self.inner.sleep(duration)
    }

    fn sleep_until(
        &self,
        deadline: SystemTime,
    ) -> impl Future<Output = ()> + Send + 'static + use<E> {
        let left = deadline.duration_since(self.current()).unwrap_or_default();
        self.inner.sleep(left)
    }
}

impl<E: Clock> GovernorClock for Steady<E> {
    type Instant = SystemTime;

    fn now(&self) -> SystemTime {
        self.current()
    }
}

impl<E: Clock> ReasonablyRealtime for Steady<E> {}

impl<E: Network> Network for Steady<E> {
    type Listener = E::Listener;

    async fn bind(&self, socket: SocketAddr) -> Result<Self::Listener, Error> {
        self.inner.bind(socket).await
    }

    async fn dial(&self, socket: SocketAddr) -> Result<(SinkOf<Self>, StreamOf<Self>), Error> {
        self.inner.dial(socket).await
    }
}

impl<E: Resolver> Resolver for Steady<E> {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, Error> {
        self.inner.resolve(host).await
    }
}

impl<E: Storage> Storage for Steady<E> {
    type Blob = E::Blob;

    async fn open_versioned(
        &self,
        partition: &str,
        name: &[u8],
        versions: RangeInclusive<BlobVersion>,
    ) -> Result<(Self::Blob, u64, BlobVersion), Error> {
        self.inner.open_versioned(partition, name, versions).await
    }

    async fn remove(&self, partition: &str, name: Option<&[u8]>) -> Result<(), Error> {
        self.inner.remove(partition, name).await
    }

    async fn scan(&self, partition: &str) -> Result<Vec<Vec<u8>>, Error> {
        self.inner.scan(partition).await
    }
}

impl<E: TryRng> TryRng for Steady<E> {
    type Error = E::Error;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.inner.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.inner.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.inner.try_fill_bytes(bytes)
    }
}

impl<E: TryCryptoRng> TryCryptoRng for Steady<E> {}
