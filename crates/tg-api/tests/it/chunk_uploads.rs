//! Uploads in chunks: they go on where they broke off, and take what whole ones take.

use tg_api::ApiConfig;
use tg_sdk::Client;
use tg_types::chunks::{ChunkTree, ChunkTreeBuilder};
use tg_types::{Digest, Encode as _, SignedUpload, TimestampMs, UploadPermit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::grid::{Grid, UPLOADS_MAX, wallet};

const CHUNK: usize = 1 << 20;

/// A blob of some chunks and a few bytes, other ones for each number.
fn blob(chunks: usize, number: u8) -> Vec<u8> {
    (0..chunks * CHUNK + 7)
        .map(|at| (at / 3 % 251) as u8 ^ number)
        .collect()
}

fn tree(bytes: &[u8]) -> ChunkTree {
    let mut builder = ChunkTreeBuilder::default();
    builder.update(bytes);
    builder.finish().unwrap()
}

/// A permit for a blob, of an account on this network.
async fn permit(client: &Client, name: &str, bytes: &[u8]) -> String {
    let status = client.status().await.unwrap();
    let permit = UploadPermit {
        digest: Digest::of_blob(bytes),
        length: bytes.len() as u64,
        expires: TimestampMs::new(status.timestamp_ms + 60_000),
    };
    SignedUpload::new(permit, &wallet(name), &status.domain.into()).to_string()
}

/// Puts `bytes` below the chunks of `digest`; the head and body of the answer.
async fn put(
    client: &Client,
    (digest, rest): (Digest, &str),
    permit: Option<&str>,
    bytes: &[u8],
) -> String {
    let address = client.url().strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let permit = permit.map_or_else(String::new, |it| format!("tg-upload: {it}\r\n"));
    let head = format!(
        "PUT /v1/blobs/{digest}/chunks{rest} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{permit}content-length: {}\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A refusal by the head may close the connection before the bytes are there.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[track_caller]
fn check(answer: &str, status: &str, part: &str) {
    assert!(
        answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(part),
        "{answer}"
    );
}

#[tokio::test]
async fn an_upload_that_broke_off_goes_on_and_a_wrong_chunk_is_refused_at_once() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let bytes = blob(2, 0);
    let digest = Digest::of_blob(&bytes);
    let permit = permit(&client, "alice", &bytes).await;
    let permit = Some(permit.as_str());
    let tree = tree(&bytes).to_bytes();
    let chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
    let answer = put(&client, (digest, "/0"), permit, chunks[0]).await;
    check(&answer, "404", "TG-API-002");
    let answer = put(&client, (digest, ""), permit, &tree).await;
    check(&answer, "200", "\"next\":0");
    let answer = put(&client, (digest, "/0"), permit, chunks[0]).await;
    check(&answer, "200", "\"next\":1");
    // It breaks off, and another connection asks what is there.
    let answer = put(&client, (digest, ""), permit, &tree).await;
    check(&answer, "200", "\"next\":1");
    let mut changed = chunks[1].to_vec();
    changed[9] ^= 1;
    for wrong in [&changed[..], &changed[..9], chunks[0]] {
        let answer = put(&client, (digest, "/1"), permit, wrong).await;
        check(&answer, "400", "TG-API-017");
    }
    let long = [chunks[1], b"x"].concat();
    let answer = put(&client, (digest, "/1"), permit, &long).await;
    check(&answer, "413", "TG-API-003");
    let answer = put(&client, (digest, "/2"), permit, chunks[2]).await;
    check(&answer, "200", "\"next\":1");
    assert!(client.blob(digest, bytes.len()).await.is_err());
    let answer = put(&client, (digest, "/1"), permit, chunks[1]).await;
    check(&answer, "200", "\"next\":2");
    let answer = put(&client, (digest, "/2"), permit, chunks[2]).await;
    check(&answer, "201", "\"size\":2097159}");
    assert_eq!(client.blob(digest, bytes.len()).await.unwrap(), bytes);
    let answer = put(&client, (digest, ""), permit, &tree).await;
    check(&answer, "200", "\"size\":2097159}");
}

#[tokio::test]
async fn without_a_permit_nothing_begins_and_nothing_goes_on() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let (bytes, other) = (blob(1, 0), blob(1, 1));
    let digest = Digest::of_blob(&bytes);
    let own = permit(&client, "alice", &bytes).await;
    let of_other = permit(&client, "alice", &other).await;
    let poor = permit(&client, "nobody", &bytes).await;
    let tree_bytes = tree(&bytes).to_bytes();
    for (permit, why) in [
        (None, "there is no header"),
        (Some(of_other.as_str()), "for the blob"),
        (Some(poor.as_str()), "has no money"),
    ] {
        let answer = put(&client, (digest, ""), permit, &tree_bytes).await;
        check(&answer, "401", why);
    }
    let answer = put(&client, (digest, ""), Some(&own), &tree_bytes).await;
    check(&answer, "200", "\"next\":0");
    let answer = put(&client, (digest, "/0"), None, b"x").await;
    check(&answer, "401", "TG-API-009");
    let answer = put(&client, (digest, "/0"), Some(&poor), b"x").await;
    check(&answer, "401", "TG-API-009");
    // The chunks of another blob, and what is no tree.
    let of_another = tree(&other).to_bytes();
    for wrong in [&of_another[..], b"no tree"] {
        let answer = put(&client, (digest, ""), Some(&own), wrong).await;
        check(&answer, "400", "the chunk tree");
    }
    let small = permit(&client, "alice", b"small").await;
    let name = Digest::of_blob(b"small");
    let answer = put(
        &client,
        (name, ""),
        Some(&small),
        &tree(b"small").to_bytes(),
    )
    .await;
    check(&answer, "400", "is stored whole");
}

#[tokio::test]
async fn open_uploads_are_bounded_and_what_is_too_large_never_begins() {
    let config = ApiConfig {
        blob_bytes_max: 2 * CHUNK,
        ..ApiConfig::default()
    };
    let (_server, client) = Grid::new().serve(config).await;
    for number in 0..=u8::try_from(UPLOADS_MAX).unwrap() {
        let bytes = blob(1, number);
        let permit = permit(&client, "alice", &bytes).await;
        let name = (Digest::of_blob(&bytes), "");
        let answer = put(&client, name, Some(&permit), &tree(&bytes).to_bytes()).await;
        match usize::from(number) < UPLOADS_MAX {
            true => check(&answer, "200", "\"next\":0"),
            false => check(&answer, "503", "TG-NODE-033"),
        }
    }
    let large = blob(2, 0);
    let permit = permit(&client, "alice", &large).await;
    let name = (Digest::of_blob(&large), "");
    let answer = put(&client, name, Some(&permit), &tree(&large).to_bytes()).await;
    check(&answer, "413", "TG-API-003");
}

#[tokio::test]
async fn a_large_blob_of_the_client_comes_in_chunks_and_falls_back_to_one_call() {
    let (_server, client) = Grid::new().serve(ApiConfig::default()).await;
    let large = blob(5, 9);
    let stored = client.put_blob(large.clone()).await.unwrap();
    assert_eq!(stored.size, large.len() as u64);
    assert_eq!(
        client.blob(stored.digest, large.len()).await.unwrap(),
        large
    );
    for number in 0..u8::try_from(UPLOADS_MAX).unwrap() {
        let bytes = blob(1, number);
        let permit = permit(&client, "alice", &bytes).await;
        let name = (Digest::of_blob(&bytes), "");
        put(&client, name, Some(&permit), &tree(&bytes).to_bytes()).await;
    }
    let another = blob(5, 10);
    let stored = client.put_blob(another.clone()).await.unwrap();
    let held = client.blob(stored.digest, another.len()).await.unwrap();
    assert_eq!(held, another);
}
