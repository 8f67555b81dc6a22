//! Limits of a server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tg_types::limits::CLIENT_TRANSACTION_BYTES_MAX;

use crate::socket::PaceLimit;

/// Most event streams of a server.
pub const STREAMS_MAX: usize = 10_000;

/// Descriptors of a process that are not for event streams: calls, files of the chain, blobs.
const DESCRIPTORS_USUAL: u64 = 1_024;

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
    /// Most bytes of the bodies of calls that order, ask endpoints or serve them, while they are in memory.
    pub bodies_bytes_max: usize,
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
    /// Most calls at once of nodes that follow the chain, most of which wait for a block.
    pub followers_max: usize,
    /// Most calls of requestors and providers of endpoints at once, most of which wait.
    pub endpoints_max: usize,
    /// Most inferences on behalf of clients of a development network.
    pub inferences_max: usize,
    /// Most calls of the OpenAI routes that order, until their answers are sent. A key gets half of them.
    pub completions_max: usize,
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
    /// The same for pages of blocks to nodes that follow the chain, if it is higher: a link of 1 Mbit a second carries it.
    pub follow_rate_min: u64,
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
            bodies_bytes_max: 256 << 20,
            small_body_bytes_max: 2 * CLIENT_TRANSACTION_BYTES_MAX,
            calls_max: 64,
            reads_max: 4,
            answers_max: 128,
            uploads_max: 32,
            streams_max: 128,
            // A gateway has one call open with each of its sources.
            followers_max: 64,
            endpoints_max: 256,
            inferences_max: 32,
            completions_max: 96,
            wait_max: Duration::from_secs(20),
            head_time_max: Duration::from_secs(15),
            body_time_max: Duration::from_secs(10),
            write_time_max: Duration::from_secs(10),
            rate_min: 64 << 10,
            follow_rate_min: 112 << 10,
        }
    }
}

impl ApiConfig {
    /// The same with so many event streams at once, each on a connection of its own beside those of calls.
    #[must_use]
    pub const fn with_streams(self, streams: usize) -> Self {
        let calls = self.connections_max.saturating_sub(self.streams_max);
        Self {
            streams_max: streams,
            connections_max: calls.saturating_add(streams),
            ..self
        }
    }

    /// How many event streams a process serves that may have so many descriptors open: as many as it has beside what else it does, no fewer
    /// than by default, and [`STREAMS_MAX`] at most.
    #[must_use]
    pub fn streams_of(descriptors: u64) -> usize {
        let free = descriptors.saturating_sub(DESCRIPTORS_USUAL);
        let free = usize::try_from(free).unwrap_or(usize::MAX);
        free.clamp(Self::default().streams_max, STREAMS_MAX)
    }

    /// Descriptors that a process needs for so many event streams.
    #[must_use]
    pub const fn descriptors_of(streams: usize) -> u64 {
        DESCRIPTORS_USUAL.saturating_add(streams as u64)
    }

    /// How slow a client may be.
    pub(crate) const fn pace(&self) -> PaceLimit {
        PaceLimit {
            patience: self.write_time_max,
            bytes_per_second: self.rate_min,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::BEHIND;
    use crate::socket::Arrears;

    /// After how long a node that takes so many bytes of a page a second gives way; nothing if it has the page before.
    fn gives_way(config: &ApiConfig, rate: u64) -> Option<Duration> {
        let pace = config.pace().at_least(config.follow_rate_min);
        let (mut arrears, mut passed) = (Arrears::default(), Duration::ZERO);
        let (mut left, piece) = (4_u64 << 20, (rate / 4).max(1));
        let waited = Duration::from_millis(piece * 1_000 / rate);
        while left > 0 {
            arrears.count(waited, usize::try_from(piece).unwrap_or(usize::MAX), pace);
            passed += waited;
            if arrears.behind() >= BEHIND {
                return Some(passed);
            }
            left = left.saturating_sub(piece);
        }
        None
    }

    /// Stops: sixteen peers that take their pages slowly and keep all others from the chain.
    #[test]
    fn a_follower_gives_way_by_its_rate() {
        let config = ApiConfig::default();
        // What a link of 1 Mbit a second carries beside the heads of its packets.
        assert_eq!(gives_way(&config, 118_750), None);
        for (rate, seconds) in [(1, 3), (10_000, 3), (config.rate_min, 5)] {
            let after = gives_way(&config, rate);
            let most = Duration::from_secs(seconds);
            assert!(after.is_some_and(|it| it <= most), "{rate}: {after:?}");
        }
    }

    #[test]
    fn streams_follow_descriptors() {
        let usual = ApiConfig::default().streams_max;
        for (descriptors, streams) in [
            (0, usual),
            (1_024, usual),
            (4_096, 3_072),
            (20_000, STREAMS_MAX),
            (u64::MAX, STREAMS_MAX),
        ] {
            assert_eq!(ApiConfig::streams_of(descriptors), streams, "{descriptors}");
        }
        let config = ApiConfig::default();
        let most = config.with_streams(STREAMS_MAX);
        assert_eq!(most.streams_max, STREAMS_MAX);
        assert_eq!(
            most.connections_max - most.streams_max,
            config.connections_max - config.streams_max
        );
    }
}
