//! A wire between a node and whoever fetches blobs from it, which counts what is asked for and can flip a bit: an observer
//! that belongs to neither side.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// No chunk.
const NONE: u64 = u64::MAX;

/// Least bytes of a piece in which a bit is flipped: its middle is a chunk's then, not a head's.
const PIECE_MIN: usize = 8 << 10;

/// What the two directions of all connections share.
#[derive(Debug)]
struct WireState {
    node: SocketAddr,
    /// Chunks that were asked for.
    asked: AtomicU64,
    /// The chunk of which a bit is flipped, once.
    flipped: AtomicU64,
}

/// A wire to a node. It works until the process ends.
#[derive(Debug)]
pub(crate) struct Wire {
    state: Arc<WireState>,
    place: SocketAddr,
}

impl Wire {
    /// A wire to the node at an address.
    ///
    /// # Errors
    /// If no port can be had.
    pub(crate) fn to(node: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let place = listener.local_addr()?;
        let state = Arc::new(WireState {
            node,
            asked: AtomicU64::new(0),
            flipped: AtomicU64::new(NONE),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // What breaks one connection breaks it for both ends.
                thread::spawn(move || state.join(&client).is_ok());
            }
        });
        Ok(Self { state, place })
    }

    /// Where it begins.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.place)
    }

    /// How many chunks were asked for since this was asked last.
    pub(crate) fn take_asked(&self) -> u64 {
        self.state.asked.swap(0, Ordering::Relaxed)
    }

    /// Flips a bit of a chunk when it passes, once.
    pub(crate) fn flip(&self, chunk: u64) {
        self.state.flipped.store(chunk, Ordering::Relaxed);
    }
}

impl WireState {
    /// Joins a client to the node until one of them ends.
    fn join(self: Arc<Self>, client: &TcpStream) -> io::Result<()> {
        let node = TcpStream::connect(self.node)?;
        // The last chunk that was asked for over this connection.
        let current = Arc::new(AtomicU64::new(NONE));
        let (shared, number) = (Arc::clone(&self), Arc::clone(&current));
        let (from, to) = (client.try_clone()?, node.try_clone()?);
        thread::spawn(move || {
            pass(from, to, |piece| {
                if let Some(chunk) = asked_chunk(piece) {
                    shared.asked.fetch_add(1, Ordering::Relaxed);
                    number.store(chunk, Ordering::Relaxed);
                }
            })
            .is_ok()
        });
        pass(node, client.try_clone()?, |piece| {
            let chunk = current.load(Ordering::Relaxed);
            let is_meant = chunk != NONE && self.flipped.load(Ordering::Relaxed) == chunk;
            if is_meant && piece.len() >= PIECE_MIN {
                self.flipped.store(NONE, Ordering::Relaxed);
                piece[PIECE_MIN / 2] ^= 1;
            }
        })
    }
}

/// Passes pieces on until one end closes.
fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&mut [u8])) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        look(&mut buffer[..length]);
        to.write_all(&buffer[..length])?;
    }
}

/// The chunk that a request asks for, if it asks for one. Requests are small: a piece is a whole one.
fn asked_chunk(piece: &[u8]) -> Option<u64> {
    let line = piece.split(|byte| *byte == b'\r').next()?;
    let line = str::from_utf8(line).ok()?;
    let path = line.strip_prefix("GET ")?.split(' ').next()?;
    let (blob, chunk) = path.rsplit_once("/chunks/")?;
    blob.starts_with("/v1/blobs/").then(|| chunk.parse().ok())?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn requests_for_chunks_are_counted_and_one_bit_of_one_is_flipped() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let wire = Wire::to(listener.local_addr().unwrap()).unwrap();
        wire.flip(3);
        let mut client = TcpStream::connect(wire.place).unwrap();
        let (mut node, _) = listener.accept().unwrap();
        let mut passed = |path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\n\r\n");
            client.write_all(request.as_bytes()).unwrap();
            let mut read = vec![0; request.len()];
            node.read_exact(&mut read).unwrap();
            assert_eq!(read, request.as_bytes());
            node.write_all(&[0; 2 * PIECE_MIN]).unwrap();
            let mut answer = vec![1; 2 * PIECE_MIN];
            client.read_exact(&mut answer).unwrap();
            answer.iter().map(|byte| byte.count_ones()).sum::<u32>()
        };
        assert_eq!(passed("/v1/blobs/0x01/chunks"), 0);
        assert_eq!(passed("/v1/blobs/0x01/chunks/2"), 0);
        assert_eq!(passed("/v1/blobs/0x01/chunks/3"), 1);
        assert_eq!(passed("/v1/blobs/0x01/chunks/3"), 0);
        assert_eq!((wire.take_asked(), wire.take_asked()), (3, 0));
    }
}
