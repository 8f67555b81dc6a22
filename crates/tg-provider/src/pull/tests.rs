//! Files from a server that answers for some of them only when it is told to.
#![allow(clippy::unwrap_used, reason = "tests")]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;

const LIMIT: usize = 1 << 10;

/// Long enough for anything that happens here at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the server saw.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Asked(Digest),
    /// Whoever asked does not wait any more.
    Left(Digest),
}

/// A server of blobs. What is `held` is given once that is true.
struct Server {
    held: watch::Sender<bool>,
    seen: mpsc::Receiver<Seen>,
    puller: Puller,
}

const QUICK: &[u8] = b"a file that is given at once";
const SLOW: &[u8] = b"a file that is held back";

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (held, receiver) = watch::channel(false);
        let (sender, seen) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, receiver.clone(), sender.clone()));
            }
        });
        let client = Client::new(&url).unwrap();
        Self {
            held,
            seen,
            puller: Puller::new(client, LIMIT, None),
        }
    }

    async fn sees(&mut self, expected: Seen) {
        let seen = tokio::time::timeout(PATIENCE, self.seen.recv()).await;
        assert_eq!(seen.unwrap(), Some(expected));
    }
}

/// Answers the one request of a connection.
async fn answer(mut stream: TcpStream, mut held: watch::Receiver<bool>, seen: mpsc::Sender<Seen>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let files = [QUICK, SLOW].map(|file| (Digest::of_blob(file), file));
    let (digest, file) = files
        .into_iter()
        .find(|(digest, _)| head.contains(&digest.to_string()))
        .unwrap();
    seen.send(Seen::Asked(digest)).await.unwrap();
    if file == SLOW {
        tokio::select! {
            () = given(&mut held) => {}
            _ = stream.read_u8() => {
                seen.send(Seen::Left(digest)).await.unwrap();
                return;
            }
        }
    }
    let size = file.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(file).await.unwrap();
}

/// Returns once what is held back is to be given, or the test is over.
async fn given(held: &mut watch::Receiver<bool>) {
    let _ = held.wait_for(|given| *given).await;
}

/// What a lease has that is being pulled.
fn lease(puller: &Puller, digest: Digest) -> (OwnedTask, mpsc::Receiver<Pulled>) {
    let (sender, receiver) = mpsc::channel(1);
    let puller = puller.clone();
    let task = OwnedTask::spawn(async move {
        let pulled = puller.model(digest).await;
        sender.send(pulled).await.unwrap();
    });
    (task, receiver)
}

/// Stops: an order of a large model holds up the leases of others.
#[tokio::test]
async fn a_file_is_given_while_another_one_is_on_its_way() {
    let mut server = Server::start().await;
    let (quick, slow) = (Digest::of_blob(QUICK), Digest::of_blob(SLOW));
    let (_held_up, _) = lease(&server.puller, slow);
    server.sees(Seen::Asked(slow)).await;
    // The first time it is fetched, the second time it is kept.
    for _ in 0..2 {
        let pulled = tokio::time::timeout(PATIENCE, server.puller.model(quick)).await;
        assert_eq!(&*pulled.unwrap().unwrap(), QUICK);
    }
    server.sees(Seen::Asked(quick)).await;
    assert!(server.seen.try_recv().is_err(), "it is asked for once");
}

#[tokio::test]
async fn a_file_is_fetched_once_for_all_who_wait_for_it() {
    let mut server = Server::start().await;
    let slow = Digest::of_blob(SLOW);
    let (first, _) = lease(&server.puller, slow);
    server.sees(Seen::Asked(slow)).await;
    let (_second, mut pulled) = lease(&server.puller, slow);
    tokio::task::yield_now().await;
    // Whoever asked first does not need it any more: the download goes on for the other one.
    drop(first);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(server.seen.try_recv().is_err(), "the download goes on");
    server.held.send_replace(true);
    let pulled = tokio::time::timeout(PATIENCE, pulled.recv()).await.unwrap();
    assert_eq!(&*pulled.unwrap().unwrap(), SLOW);
    assert!(server.seen.try_recv().is_err(), "it is asked for once");
}

/// Stops: orders that are taken back at once keep the provider's link busy.
#[tokio::test]
async fn a_download_ends_with_the_last_lease_that_waits_for_it() {
    let mut server = Server::start().await;
    let slow = Digest::of_blob(SLOW);
    let (first, _) = lease(&server.puller, slow);
    server.sees(Seen::Asked(slow)).await;
    let (second, _) = lease(&server.puller, slow);
    tokio::task::yield_now().await;
    drop(first);
    drop(second);
    server.sees(Seen::Left(slow)).await;
    // The next lease begins anew.
    let (_third, mut pulled) = lease(&server.puller, slow);
    server.sees(Seen::Asked(slow)).await;
    server.held.send_replace(true);
    let pulled = tokio::time::timeout(PATIENCE, pulled.recv()).await.unwrap();
    assert_eq!(&*pulled.unwrap().unwrap(), SLOW);
}

#[tokio::test]
async fn a_download_that_failed_is_begun_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Nobody listens there any more.
    drop(listener);
    let puller = Puller::new(Client::new(&url).unwrap(), LIMIT, None);
    for _ in 0..2 {
        let error = puller.model(Digest::of_blob(QUICK)).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
}
