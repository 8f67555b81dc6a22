//! Large blobs go in chunks, and go on where they broke off.

use std::sync::Mutex;

use serde_json::{Value, json};
use tg_sdk::{ClientError, Digest, Wallet};
use tg_types::Decode as _;
use tg_types::chunks::ChunkTree;

use crate::gateway::{Asked, BASE_FEE, Gateway, Told, domain, refusal, status, told};

const CHUNK: usize = 1 << 20;

/// A blob of six chunks, the last of some bytes.
fn blob() -> Vec<u8> {
    (0..5 * CHUNK + 9).map(|at| (at / 7 % 253) as u8).collect()
}

fn upload(digest: Digest, next: Option<usize>) -> Value {
    json!({ "digest": digest.to_string(), "size": 5 * CHUNK + 9, "next": next })
}

/// The number of the chunk that was sent; nothing if it is another call.
fn chunk_of(asked: &Asked) -> Option<usize> {
    let (path, index) = asked.path.rsplit_once('/')?;
    path.ends_with("/chunks").then(|| index.parse().ok())?
}

/// Whose uploads they are.
fn alice() -> Wallet {
    Wallet::from_seed(b"alice")
}

/// What a gateway says of itself.
fn usual(asked: &Asked) -> Option<Told> {
    (asked.path == "/v1/status").then(|| told(&status(&domain(), BASE_FEE)))
}

/// The chunks that were sent, in order.
fn sent(gateway: &Gateway) -> Vec<usize> {
    let asked = gateway.asked("PUT", "/v1/blobs/");
    asked.iter().filter_map(chunk_of).collect()
}

#[tokio::test]
async fn an_upload_that_breaks_off_goes_on_with_what_is_missing() {
    let bytes = blob();
    let digest = Digest::of_blob(&bytes);
    // What came, and how often a call was broken off.
    let held = Mutex::new((Vec::new(), 0));
    let gateway = Gateway::start(move |asked| {
        let mut held = held.lock().unwrap();
        let (came, broken) = &mut *held;
        let next = |came: &Vec<u8>| came.len().div_ceil(CHUNK);
        if asked.path.ends_with("/chunks") {
            let tree = ChunkTree::from_bytes(&asked.body).unwrap();
            assert!(tree.is_of(&digest));
            return Some(told(&upload(digest, Some(next(came)))));
        }
        let Some(index) = chunk_of(asked) else {
            return usual(asked);
        };
        assert_eq!(index, next(came), "only what is missing is sent");
        match (index, *broken) {
            // It does not come, ...
            (2, 0) => {
                *broken = 1;
                return Some(refusal(503, "TG-API-007"));
            }
            // ... it comes and the answer is lost, ...
            (2, 1) => {
                *broken = 2;
                came.extend_from_slice(&asked.body);
                return Some(refusal(502, "HTTP-502"));
            }
            // ... and the grid has forgotten that it was begun.
            (4, 2) => {
                *broken = 3;
                return Some(refusal(404, "TG-API-002"));
            }
            _ => came.extend_from_slice(&asked.body),
        }
        let next = Some(next(came)).filter(|_| came.len() < 5 * CHUNK + 9);
        Some(told(&upload(digest, next)))
    })
    .await;
    let client = gateway.client.uploading_as(&alice());
    let stored = client.put_blob(bytes.clone()).await.unwrap();
    assert_eq!((stored.digest, stored.size), (digest, bytes.len() as u64));
    assert_eq!(sent(&gateway), [0, 1, 2, 2, 3, 4, 4, 5]);
    let begun = gateway.asked("PUT", &format!("/v1/blobs/{digest}/chunks"));
    let begun = begun.iter().filter(|it| it.path.ends_with("/chunks"));
    assert_eq!(begun.count(), 4);
}

/// It gave up after eight chunks that it had sent before.
#[tokio::test]
async fn an_upload_that_the_grid_ended_goes_from_its_start() {
    const COUNT: usize = 12;
    let bytes = vec![7; COUNT * CHUNK];
    let (digest, size) = (Digest::of_blob(&bytes), bytes.len());
    // Chunks that it has, and whether the upload was ended once.
    let held = Mutex::new((0, false));
    let gateway = Gateway::start(move |asked| {
        let mut held = held.lock().unwrap();
        let (came, is_ended) = &mut *held;
        if let Some(index) = chunk_of(asked) {
            if index == COUNT - 1 && !*is_ended {
                (*came, *is_ended) = (0, true);
                return Some(refusal(404, "TG-API-002"));
            }
            assert_eq!(index, *came);
            *came += 1;
        } else if !asked.path.ends_with("/chunks") {
            return usual(asked);
        }
        let next = Some(*came).filter(|it| *it < COUNT);
        let upload = json!({ "digest": digest.to_string(), "size": size, "next": next });
        Some(told(&upload))
    })
    .await;
    let client = gateway.client.uploading_as(&alice());
    client.put_blob(bytes).await.unwrap();
    let again: Vec<usize> = (0..COUNT).chain(0..COUNT).collect();
    assert_eq!(sent(&gateway), again);
}

/// The clock by which a permit's age is measured stands still while a machine sleeps.
#[tokio::test]
async fn a_permit_that_ends_on_the_way_is_signed_anew() {
    let digest = Digest::of_blob(&blob());
    let is_ended = Mutex::new(false);
    let gateway = Gateway::start(move |asked| {
        let mut is_ended = is_ended.lock().unwrap();
        match chunk_of(asked) {
            Some(3) if !*is_ended => {
                *is_ended = true;
                Some(refusal(401, "TG-API-009"))
            }
            Some(index) => {
                let next = Some(index + 1).filter(|it| *it < 6);
                Some(told(&upload(digest, next)))
            }
            None if asked.path.ends_with("/chunks") => Some(told(&upload(digest, Some(0)))),
            None => usual(asked),
        }
    })
    .await;
    let client = gateway.client.uploading_as(&alice());
    client.put_blob(blob()).await.unwrap();
    assert_eq!(sent(&gateway), [0, 1, 2, 3, 3, 4, 5]);
    assert_eq!(gateway.asked("GET", "/v1/status").len(), 2);
    // One that was never taken is not signed again.
    let gateway = Gateway::start(|asked| match asked.path.as_str() {
        path if path.starts_with("/v1/blobs/") => Some(refusal(401, "TG-API-009")),
        _ => usual(asked),
    })
    .await;
    let client = gateway.client.uploading_as(&alice());
    let error = client.put_blob(blob()).await.unwrap_err();
    assert_eq!(error.status(), Some(401));
    assert_eq!(gateway.asked("PUT", "/v1/blobs/").len(), 1);
}

#[tokio::test]
async fn a_grid_that_takes_no_chunks_gets_the_whole() {
    for code in [405, 503] {
        let bytes = blob();
        let digest = Digest::of_blob(&bytes);
        let gateway = Gateway::start(move |asked| match asked.path.as_str() {
            path if path.ends_with("/chunks") => Some(refusal(code, "TG-NODE-033")),
            path if path.starts_with("/v1/blobs/") => Some(told(&upload(digest, None))),
            _ => usual(asked),
        })
        .await;
        let client = gateway.client.uploading_as(&alice());
        client.put_blob(bytes.clone()).await.unwrap();
        let calls = gateway.asked("PUT", "/v1/blobs/");
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[1].body, bytes);
    }
}

/// Somebody else says another size of the blob, or keeps wrong chunks of it coming.
#[tokio::test]
async fn an_upload_that_others_disturb_goes_in_one_call() {
    for (status, code) in [(400, "TG-API-017"), (503, "TG-NODE-029")] {
        let bytes = blob();
        let digest = Digest::of_blob(&bytes);
        let gateway = Gateway::start(move |asked| match asked.path.as_str() {
            path if path.ends_with("/chunks") => Some(told(&upload(digest, Some(5)))),
            path if path.ends_with("/chunks/5") => Some(refusal(status, code)),
            path if path.starts_with("/v1/blobs/") => Some(told(&upload(digest, None))),
            _ => usual(asked),
        })
        .await;
        let client = gateway.client.uploading_as(&alice());
        client.put_blob(bytes.clone()).await.unwrap();
        assert_eq!(sent(&gateway), [5; 5]);
        let calls = gateway.asked("PUT", "/v1/blobs/");
        assert_eq!(calls.len(), 11, "it is begun again each time");
        assert_eq!(calls[10].body, bytes);
    }
}

#[tokio::test]
async fn small_blobs_go_in_one_call() {
    let bytes = vec![7; 4 * CHUNK];
    let digest = Digest::of_blob(&bytes);
    let gateway = Gateway::start(move |asked| match asked.path.as_str() {
        path if path.starts_with("/v1/blobs/") => Some(told(&upload(digest, None))),
        _ => usual(asked),
    })
    .await;
    let client = gateway.client.uploading_as(&alice());
    client.put_blob(bytes).await.unwrap();
    let calls = gateway.asked("PUT", "/v1/blobs/");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].path, format!("/v1/blobs/{digest}"));
}

#[tokio::test]
async fn a_grid_that_never_has_enough_is_left() {
    let digest = Digest::of_blob(&blob());
    // It says of every chunk that the first one is missing, or one that there is not.
    for next in [0, 6] {
        let gateway = Gateway::start(move |asked| match asked.path.as_str() {
            path if path.starts_with("/v1/blobs/") => Some(told(&upload(digest, Some(next)))),
            _ => usual(asked),
        })
        .await;
        let client = gateway.client.uploading_as(&alice());
        let error = client.put_blob(blob()).await.unwrap_err();
        assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
        assert!(sent(&gateway).len() < 10);
    }
}
