//! Requests for a validator's seat: proof of possession of the consensus key, and the address where it is reached.

use curve25519_dalek::edwards::CompressedEdwardsY;

use super::vote::{is_signature, write_number};
use crate::{Address, BlockId, Domain};

/// What the consensus key signs so that an account may ask for a seat with it, in the network of a genesis: as for votes,
/// LEB128(length of the namespace), the namespace (purpose and id of genesis), and the account. Stops: a seat with somebody
/// else's key, whose faults would cost the wrong one.
#[must_use]
pub fn seat_possession(genesis: &BlockId, account: &Address) -> Vec<u8> {
    let namespace = seat_namespace(genesis);
    let mut bytes = Vec::new();
    write_number(namespace.len() as u64, &mut bytes);
    bytes.extend(namespace);
    bytes.extend(account.as_bytes());
    bytes
}

/// The namespace of [`seat_possession`].
#[must_use]
pub fn seat_namespace(genesis: &BlockId) -> Vec<u8> {
    let purpose = Domain::SeatKey.as_str().as_bytes();
    [purpose, genesis.as_bytes().as_slice()].concat()
}

/// Whether a key signed [`seat_possession`]. A point of small order is no key: anybody could sign for it.
#[must_use]
pub fn is_possession(
    genesis: &BlockId,
    account: &Address,
    key: &[u8; 32],
    signature: &[u8; 64],
) -> bool {
    let point = CompressedEdwardsY(*key).decompress();
    point.is_some_and(|point| !point.is_small_order())
        && is_signature(key, signature, &seat_possession(genesis, account))
}

/// Whether a text is `HOST:PORT`, with a name, an IPv4 address or an IPv6 address in brackets, and a port from 1 to 65535.
/// Whether anything is there is another question.
#[must_use]
pub fn is_seat_endpoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_port = port.len() <= 5 && port.parse().is_ok_and(|port: u16| port > 0);
    let in_brackets = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_host = match in_brackets {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_part = |part: &str| {
                !part.is_empty()
                    && part.len() <= 63
                    && !part.starts_with('-')
                    && !part.ends_with('-')
                    && part
                        .bytes()
                        .all(|it| it.is_ascii_alphanumeric() || it == b'-')
            };
            let is_number = host.bytes().all(|it| it.is_ascii_digit() || it == b'.');
            match is_number {
                true => host.parse::<std::net::Ipv4Addr>().is_ok(),
                // As whoever dials reads it: without a letter it is an address with a mistake, not a name.
                false => {
                    let has_letter = host.bytes().any(|it| it.is_ascii_alphabetic());
                    has_letter && host.len() <= 253 && host.split('.').all(is_part)
                }
            }
        }
    };
    is_port && is_host && port.bytes().all(|it| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_a_host_and_a_port() {
        for text in [
            "10.0.0.7:7100",
            "[2001:db8::1]:7100",
            "seat-1.example.org:7100",
            "localhost:1",
        ] {
            assert!(is_seat_endpoint(text), "{text}");
        }
        for text in [
            "",
            "localhost",
            ":7100",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "localhost:+80",
            "10.0.0.256:7100",
            "2001:db8::1:7100",
            "under_score:7100",
            "a..b:1",
            "-a:1",
            "1-1:1",
            "0-0.1:7100",
        ] {
            assert!(!is_seat_endpoint(text), "{text}");
        }
    }

    #[test]
    fn a_point_of_small_order_is_no_key() {
        let (genesis, account) = (BlockId::new([1; 32]), Address::new([2; 20]));
        // The identity: s = 0 and R the identity hold for every message.
        let mut key = [0; 32];
        key[0] = 1;
        let mut signature = [0; 64];
        signature[0] = 1;
        assert!(is_signature(
            &key,
            &signature,
            &seat_possession(&genesis, &account)
        ));
        assert!(!is_possession(&genesis, &account, &key, &signature));
    }
}
