//! The addresses of a network's other validators.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use commonware_p2p::{Address, Ingress};
use commonware_utils::Hostname;

/// Where a validator listens, as the others dial it: `HOST:PORT`, with the name of a host, which is looked up again for
/// every attempt to connect, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatAddress(DialTarget);

#[derive(Debug, Clone, PartialEq, Eq)]
enum DialTarget {
    Socket(SocketAddr),
    Name { host: Hostname, port: u16 },
}

/// A validator of genesis and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// Its public key.
    pub public: [u8; 32],
    /// Its address.
    pub address: SeatAddress,
}

/// The text is no address of a validator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not HOST:PORT, with a name or an IP address as host and a port from 1 to 65535"
)]
pub struct ParseSeatAddressError {
    /// The text.
    text: String,
}

impl FromStr for SeatAddress {
    type Err = ParseSeatAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseSeatAddressError {
            text: text.to_owned(),
        };
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Some(Self::from(socket))
                .filter(|_| socket.port() != 0)
                .ok_or_else(error);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port = port.parse().ok().filter(|port| *port != 0);
        // Numbers and dots alone are an address with a mistake, not a name.
        let is_name = host.contains(|letter: char| letter.is_ascii_alphabetic());
        let host = Hostname::new(host).ok().filter(|_| is_name);
        match (host, port) {
            (Some(host), Some(port)) => Ok(Self(DialTarget::Name { host, port })),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for SeatAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            DialTarget::Socket(socket) => socket.fmt(f),
            DialTarget::Name { host, port } => write!(f, "{}:{port}", host.as_str()),
        }
    }
}

impl From<SocketAddr> for SeatAddress {
    fn from(socket: SocketAddr) -> Self {
        Self(DialTarget::Socket(socket))
    }
}

impl SeatAddress {
    /// The library's address.
    pub(super) fn to_peer_address(&self) -> Address {
        match &self.0 {
            DialTarget::Socket(socket) => Address::Symmetric(*socket),
            DialTarget::Name { host, port } => Address::Asymmetric {
                ingress: Ingress::Dns {
                    host: host.clone(),
                    port: *port,
                },
                // Not looked at: with a name in the network, connections are told apart by key alone.
                egress: SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn addresses_are_names_or_numbers_with_a_port() {
        for text in [
            "10.0.0.7:7100",
            "[2001:db8::1]:7100",
            "seat-1.example.org:7100",
            "localhost:1",
        ] {
            assert_eq!(text.parse::<SeatAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "localhost",
            "localhost:",
            "localhost:0",
            "127.0.0.1:0",
            "localhost:65536",
            ":7100",
            "10.0.0.256:7100",
            "under_score:7100",
            "2001:db8::1:7100",
        ] {
            let error = text.parse::<SeatAddress>().unwrap_err();
            assert!(error.to_string().contains("HOST:PORT"), "{text}");
        }
    }
}
