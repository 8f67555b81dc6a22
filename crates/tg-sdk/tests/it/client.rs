//! What the client makes of answers, good and bad.

use std::time::Duration;

use tg_sdk::{Client, ClientError, Digest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that gives `answer` to the first request and returns what it was asked.
async fn serve(answer: Vec<u8>) -> (Client, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(&answer).await.unwrap();
        stream.flush().await.unwrap();
        if answer.is_empty() {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    (Client::new(&url).unwrap(), task)
}

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_refusal_carries_its_code_and_hint() {
    let body = br#"{"code":"TG-LED-014","message":"not enough funds","hint":"ask the faucet"}"#;
    let (client, task) = serve(answer("409 Conflict", body)).await;
    let error = client.status().await.unwrap_err();
    assert_eq!(error.status(), Some(409));
    assert_eq!(error.code(), Some("TG-LED-014"));
    assert_eq!(error.hint(), "ask the faucet");
    assert!(!error.is_transient());
    assert!(task.await.unwrap().starts_with("GET /v1/status HTTP/1.1"));
}

#[tokio::test]
async fn a_refusal_without_a_body_still_names_its_status() {
    let (client, _task) = serve(answer("503 Service Unavailable", b"busy")).await;
    let error = client.status().await.unwrap_err();
    assert_eq!(error.code(), Some("HTTP-503"));
    assert!(error.is_transient());
}

#[tokio::test]
async fn an_answer_that_is_not_the_expected_json_is_named() {
    let (client, _task) = serve(answer("200 OK", b"[1]")).await;
    let error = client.status().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_blob_is_checked_against_its_digest() {
    let (client, _task) = serve(answer("200 OK", b"hello")).await;
    let digest = Digest::of_blob(b"hello");
    assert_eq!(client.blob(digest, 5).await.unwrap(), b"hello");

    let (client, _task) = serve(answer("200 OK", b"hullo")).await;
    let error = client.blob(digest, 5).await.unwrap_err();
    assert!(matches!(error, ClientError::WrongBlob { .. }), "{error:?}");
}

#[tokio::test]
async fn a_blob_over_the_limit_is_not_read() {
    let (client, _task) = serve(answer("200 OK", b"hello")).await;
    let digest = Digest::of_blob(b"hello");
    let error = client.blob(digest, 4).await.unwrap_err();
    assert!(
        matches!(error, ClientError::TooLarge { limit: 4, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn putting_a_blob_names_it_by_its_digest() {
    let digest = Digest::of_blob(b"hello");
    let body = format!(r#"{{"digest":"{digest}","size":5}}"#);
    let (client, task) = serve(answer("201 Created", body.as_bytes())).await;
    let stored = client.put_blob(b"hello".to_vec()).await.unwrap();
    assert_eq!((stored.digest, stored.size), (digest, 5));
    let request = task.await.unwrap();
    assert!(
        request.starts_with(&format!("PUT /v1/blobs/{digest} ")),
        "{request}"
    );
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let (client, _task) = serve(Vec::new()).await;
    let client = client.with_time_limit(Duration::from_millis(50));
    let error = client.status().await.unwrap_err();
    assert!(
        matches!(error, ClientError::Timeout { limit_ms: 50, .. }),
        "{error:?}"
    );
    assert!(error.is_transient());
}

#[tokio::test]
async fn an_absent_server_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Client::new(&url).unwrap().status().await.unwrap_err();
    assert!(
        matches!(error, ClientError::Unreachable { .. }),
        "{error:?}"
    );
}

#[test]
fn an_address_that_is_none_is_refused() {
    for url in [
        "",
        "127.0.0.1:7070",
        "ftp://x",
        "https://x/y",
        "http://x/y",
        "http://",
    ] {
        let error = Client::new(url).unwrap_err();
        assert!(matches!(error, ClientError::InvalidUrl { .. }), "{url}");
    }
    assert_eq!(Client::new("http://a:1/").unwrap().url(), "http://a:1");
}

#[tokio::test]
async fn a_stream_of_events_is_opened_again_after_the_last_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let mut asked = Vec::new();
        for (id, kind) in [("3-0", "job_queued"), ("4-1", "job_ended")] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            asked.extend(request.lines().next().map(str::to_owned));
            let event = format!(r#"{{"height":3,"timestamp_ms":9,"kind":"{kind}","text":""}}"#);
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nid: {id}\ndata: {event}\n\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        asked
    });
    let mut events = Client::new(&url).unwrap().events_after("2").await.unwrap();
    for (id, kind) in [("3-0", "job_queued"), ("4-1", "job_ended")] {
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(event.kind, kind);
        assert_eq!(events.last_id(), Some(id));
    }
    // Nobody is there any more.
    let error = events.next().await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    let asked = task.await.unwrap();
    let expected = ["2", "3-0"].map(|id| format!("GET /v1/events?after={id} HTTP/1.1"));
    assert_eq!(asked, expected);
}

#[tokio::test]
async fn events_arrive_one_by_one_until_the_server_ends() {
    let event = r#"{"height":3,"timestamp_ms":9,"kind":"job_queued","text":"a job"}"#;
    let stream = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hi\n\ndata: {event}\n\n"
    );
    let (client, _task) = serve(stream.into_bytes()).await;
    let mut events = client.events().await.unwrap();
    let first = events.next().await.unwrap().unwrap();
    assert_eq!((first.height, first.kind.as_str()), (3, "job_queued"));
    assert!(events.next().await.unwrap().is_none());
}
