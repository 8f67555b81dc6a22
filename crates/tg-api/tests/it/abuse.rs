//! What hostile clients do to a server, and what an honest agent beside them sees of it: nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tg_api::ApiConfig;
use tg_sdk::Client;
use tg_types::{Amount, Digest, Transaction};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::grid::{Grid, LOST, wallet};

/// Memory of this process in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kib.unwrap_or_default() << 10
}

/// Opens a connection and sends the beginning of something; nothing if the server refuses it.
async fn begin(address: SocketAddr, text: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(text.as_bytes()).await.ok()?;
    Some(stream)
}

/// Does what an agent does, again and again, on connections of its own; counts rounds, and fails at the first error.
/// Returns how long the slowest round took.
async fn honest(
    client: &Client,
    blob: Digest,
    stop: &AtomicBool,
    rounds: &AtomicUsize,
) -> Duration {
    let carol = wallet("carol");
    let mut slowest = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        // A fresh client connects anew, as an agent does that starts now.
        let client = match rounds.load(Ordering::Relaxed) % 2 {
            0 => client.clone(),
            _ => Client::new(client.url()).unwrap().uploading_as(&carol),
        };
        client.leases(carol.address()).await.unwrap();
        client.offers_of(carol.address()).await.unwrap();
        let payment = Transaction::Transfer {
            to: wallet("alice").address(),
            amount: Amount::new(1),
        };
        client.sign_and_submit(&carol, payment).await.unwrap();
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        let proof = vec![u8::try_from(round % 251).unwrap(); 30_000];
        client.put_blob(proof).await.unwrap();
        let bytes = client.blob(blob, 64 << 20).await.unwrap();
        assert_eq!(Digest::of_blob(&bytes), blob);
        slowest = slowest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    slowest
}

/// How many hostile clients of each kind there are.
struct Crowd {
    half_open: usize,
    readers: usize,
    slow_heads: usize,
    blob: usize,
}

/// Sets a crowd on a server for some time; returns the rounds of an honest agent, the slowest of them, and by how much
/// memory grew.
async fn attack(crowd: Crowd, time: Duration) -> (usize, Duration, usize) {
    let grid = Grid::new();
    let (server, client) = grid.serve(ApiConfig::default()).await;
    let address = server.address();
    let big = client.put_blob(vec![7; crowd.blob]).await.unwrap().digest;
    let small = client.put_blob(vec![8; 500_000]).await.unwrap().digest;
    let before = memory();
    let (stop, rounds) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let agent = {
        let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
        let client = client.clone();
        tokio::spawn(async move { honest(&client, small, &stop, &rounds).await })
    };
    let post = "POST /v1/transactions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\nabc";
    let get = format!("GET /v1/blobs/{big} HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut hostile = Vec::new();
    for _ in 0..crowd.half_open {
        hostile.extend(begin(address, post).await);
    }
    for _ in 0..crowd.readers {
        hostile.extend(begin(address, &get).await);
    }
    for _ in 0..crowd.slow_heads {
        hostile.extend(begin(address, "GET /v1/status HTT").await);
    }
    let (started, mut peak) = (Instant::now(), 0);
    while started.elapsed() < time {
        peak = peak.max(memory());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let slowest = agent.await.unwrap();
    drop(hostile);
    let growth = peak.saturating_sub(before);
    (rounds.load(Ordering::Relaxed), slowest, growth)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "figures of docs/ATTACKS.md")]
async fn half_sent_posts_stalled_readers_and_slow_heads_stop_nobody() {
    let crowd = Crowd {
        half_open: 256,
        readers: 40,
        slow_heads: 3_000,
        blob: 60 << 20,
    };
    let (rounds, slowest, growth) = attack(crowd, Duration::from_secs(4)).await;
    println!(
        "attack-table\t256 half-sent posts, 40 readers that never read and 3,000 slow heads at one API\tanybody\tno call \
         fails, and memory grows by less than 300 MB\t0\t0\t0\t0\t{}",
        slowest.as_millis()
    );
    assert!(rounds >= 10, "{rounds}");
    assert!(growth < 300 << 20, "{growth}");
}

#[tokio::test]
async fn more_connections_than_there_is_room_for_leave_room() {
    let config = ApiConfig {
        connections_max: 8,
        ..ApiConfig::default()
    };
    let (server, client) = Grid::new().serve(config).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        held.extend(begin(server.address(), "GET /v1/st").await);
    }
    for _ in 0..3 {
        client.status().await.unwrap();
        held.extend(begin(server.address(), "GET /v1/st").await);
    }
    // The first ones were closed.
    let closed = tokio::time::timeout(Duration::from_secs(2), held[0].read_u8()).await;
    assert!(closed.unwrap().is_err());
}

/// Stops: calls for what nobody has, which hold the places of lists and downloads for as long as it is looked for.
#[tokio::test]
async fn who_asks_for_what_nobody_has_keeps_nobody_from_lists_and_blobs() {
    let config = ApiConfig {
        answers_max: 8,
        ..ApiConfig::default()
    };
    let (server, client) = Grid::new().serve(config).await;
    let held = client.put_blob(vec![7; 1_000]).await.unwrap().digest;
    let lost = Digest::of_blob(LOST);
    let mut hostile = Vec::new();
    for path in ["", "/chunks"].repeat(8) {
        let get = format!("GET /v1/blobs/{lost}{path} HTTP/1.1\r\nhost: x\r\n\r\n");
        hostile.extend(begin(server.address(), &get).await);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked = Instant::now();
    client.offers().await.unwrap();
    client.blob(held, 1_000).await.unwrap();
    // It is looked for for five seconds.
    let waited = asked.elapsed();
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    // All but one were told at once that it is not here.
    let mut answered = 0;
    for stream in &mut hostile {
        let head = tokio::time::timeout(Duration::from_millis(50), stream.read_u8());
        answered += usize::from(head.await.is_ok());
    }
    assert_eq!((hostile.len(), answered), (16, 15));
}

/// Stops: readers of events that keep gateways from the chain, and the other way round.
#[tokio::test]
async fn who_follows_the_chain_has_places_beside_those_of_events() {
    let config = ApiConfig {
        streams_max: 1,
        followers_max: 1,
        ..ApiConfig::default()
    };
    let (server, client) = Grid::new().serve(config).await;
    let _events = client.events().await.unwrap();
    assert!(client.events().await.unwrap_err().is_busy());
    client.chain_page(1, Duration::ZERO).await.unwrap();
    drop(server);
    let no_followers = ApiConfig {
        followers_max: 0,
        ..ApiConfig::default()
    };
    let (_server, client) = Grid::new().serve(no_followers).await;
    let error = client.chain_page(1, Duration::ZERO).await.unwrap_err();
    assert!(error.is_busy(), "{error}");
    let _events = client.events().await.unwrap();
}

/// Descriptors that this process may have open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|it| it.starts_with("Max open files"));
    let soft = line.and_then(|it| it.split_whitespace().nth(3)?.parse().ok());
    soft.unwrap_or(1_024)
}

/// Reads until the head of an answer says that it is served.
async fn is_served(stream: &mut TcpStream) -> bool {
    let mut head = [0; 12];
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_exact(&mut head));
    matches!(read.await, Ok(Ok(_))) && head == *b"HTTP/1.1 200"
}

/// Thousands of readers of events: as many as are configured, up to 10,000 where this process may have their descriptors, both ends of each in
/// it, beside those of other tests. Calls are answered, one reader more is told that there is no room, and each costs little memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_event_streams_are_open_beside_calls() {
    let streams = descriptors().saturating_sub(8_000) / 2;
    let streams = streams.clamp(100, tg_api::config::STREAMS_MAX);
    let config = ApiConfig::default().with_streams(streams);
    let (server, client) = Grid::new().serve(config).await;
    let before = memory();
    let mut open = Vec::with_capacity(streams);
    for count in 0..streams {
        let asked = begin(
            server.address(),
            "GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n",
        );
        let mut stream = asked.await.unwrap();
        assert!(is_served(&mut stream).await, "{count} of {streams}");
        open.push(stream);
    }
    let growth = memory().saturating_sub(before);
    for _ in 0..20 {
        let asked = Instant::now();
        client.status().await.unwrap();
        assert!(asked.elapsed() < Duration::from_secs(20));
    }
    assert!(client.events().await.unwrap_err().is_busy());
    // Other tests of this process take memory, too: of few streams it says nothing.
    if streams >= 5_000 {
        assert!(growth / streams < 96 << 10, "{growth} for {streams}");
    }
    // A place that is left is another one's.
    drop(open.pop());
    // It is seen with the next words on it, if not before.
    let until = Instant::now() + Duration::from_secs(40);
    while let Err(error) = client.events().await {
        assert!(error.is_busy() && Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Stops: calls that wait for a height that nobody has, and hold all places for good.
#[tokio::test]
async fn who_waits_for_a_block_makes_room_for_who_comes() {
    let config = ApiConfig {
        followers_max: 1,
        ..ApiConfig::default()
    };
    let (_server, client) = Grid::new().serve(config).await;
    let far = client.clone();
    let wait = Duration::from_secs(10);
    let far = tokio::spawn(async move { far.chain_page(u64::MAX, wait).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = Instant::now();
    client.chain_page(1, Duration::ZERO).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5));
    // It is told that there is nothing yet.
    far.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let config = ApiConfig {
        head_time_max: Duration::from_millis(100),
        ..ApiConfig::default()
    };
    let (server, _client) = Grid::new().serve(config).await;
    let mut stream = begin(server.address(), "GET /v1/st").await.unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    tokio::time::timeout(Duration::from_secs(5), read)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_let_go_and_its_place_freed() {
    let config = ApiConfig {
        write_time_max: Duration::from_millis(300),
        answers_max: 1,
        ..ApiConfig::default()
    };
    let (server, client) = Grid::new().serve(config).await;
    let blob = client.put_blob(vec![7; 32 << 20]).await.unwrap().digest;
    let get = format!("GET /v1/blobs/{blob} HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut stream = begin(server.address(), &get).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    // The only place is held until the reader is given up.
    let bytes = client.blob(blob, 32 << 20).await.unwrap();
    assert_eq!(bytes.len(), 32 << 20);
    let mut taken = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut taken));
    // Reset or ended, but never whole.
    let _ = read.await.unwrap();
    assert!(taken.len() < 32 << 20, "{}", taken.len());
}

#[tokio::test]
async fn stalled_uploads_give_way_to_one_that_moves() {
    let config = ApiConfig {
        uploads_max: 2,
        body_time_max: Duration::from_secs(60),
        ..ApiConfig::default()
    };
    let (server, client) = Grid::new().serve(config).await;
    let status = client.status().await.unwrap();
    let mut held = Vec::new();
    for number in 0..2_u8 {
        let permit = tg_types::UploadPermit {
            digest: Digest::of_blob(&[number]),
            length: 1,
            expires: tg_types::TimestampMs::new(status.timestamp_ms + 60_000),
        };
        let domain = status.domain.clone().into();
        let signed = tg_types::SignedUpload::new(permit, &wallet("dave"), &domain);
        let put = format!(
            "PUT /v1/blobs/{} HTTP/1.1\r\nhost: x\r\ntg-upload: {signed}\r\ncontent-length: 1\r\n\r\n",
            permit.digest
        );
        held.extend(begin(server.address(), &put).await);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    client.put_blob(vec![1; 1_000]).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
}
