//! What a stranger may not do, spoken in raw HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use tg_api::ApiConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::grid::Grid;

async fn raw(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece).await.unwrap();
        answer.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&answer);
        if length == 0 || text.contains("\"hint\"") {
            return text.into_owned();
        }
    }
}

fn check(answer: &str, status: &str, code: &str) {
    let head = format!("HTTP/1.1 {status}");
    assert!(answer.starts_with(&head), "{answer}");
    assert!(answer.contains(code), "{answer}");
}

fn put(headers: &str, body: &str) -> String {
    let zero = "0".repeat(64);
    format!("PUT /v1/blobs/0x{zero} HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n{body}")
}

async fn served(config: ApiConfig, request: &str) -> String {
    let grid = Grid::new();
    let (server, _client) = grid.serve(config).await;
    raw(server.address(), request).await
}

#[tokio::test]
async fn a_declared_length_above_the_limit_is_refused_before_the_body() {
    let request = put("content-length: 99999999999", "");
    let answer = served(ApiConfig::default(), &request).await;
    check(&answer, "413", "TG-API-003");
}

#[tokio::test]
async fn a_body_without_a_length_is_cut_at_the_limit() {
    let config = ApiConfig {
        body_bytes_max: 10,
        ..ApiConfig::default()
    };
    let request = "POST /v1/dev/infer HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
                   b\r\nhello world\r\n0\r\n\r\n";
    check(&served(config, request).await, "413", "TG-API-003");
}

#[tokio::test]
async fn an_upload_without_a_length_is_refused() {
    let request = put("transfer-encoding: chunked", "1\r\nh\r\n0\r\n\r\n");
    let answer = served(ApiConfig::default(), &request).await;
    check(&answer, "400", "TG-API-001");
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up() {
    let config = ApiConfig {
        body_time_max: Duration::from_millis(100),
        ..ApiConfig::default()
    };
    let request = "POST /v1/transactions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhe";
    check(&served(config, request).await, "408", "TG-API-006");
}

#[tokio::test]
async fn half_sent_bodies_hold_no_place_among_the_calls() {
    let config = ApiConfig {
        calls_max: 1,
        ..ApiConfig::default()
    };
    let grid = Grid::new();
    let (server, _client) = grid.serve(config).await;
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let post = "POST /v1/transactions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhe";
        stream.write_all(post.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let request = "GET /v1/status HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = raw(server.address(), request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn an_unknown_path_is_told_where_the_paths_are() {
    let request = "GET /v1/nothing HTTP/1.1\r\nhost: x\r\n\r\n";
    let answer = served(ApiConfig::default(), request).await;
    check(&answer, "404", "openapi.json lists every path");
}

#[tokio::test]
async fn no_other_origin_is_let_in() {
    let request =
        "GET /healthz HTTP/1.1\r\nhost: x\r\norigin: http://evil\r\nconnection: close\r\n\r\n";
    let answer = served(ApiConfig::default(), request).await.to_lowercase();
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(!answer.contains("access-control"), "{answer}");
}

#[tokio::test]
async fn what_is_not_served_says_so() {
    let grid = Grid::new();
    let (server, _client) = grid.serve(ApiConfig::default()).await;
    let post = |path: &str, kind: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let bytes = "application/octet-stream";
    let cases = [
        (get("/v2/x"), "404", "TG-API-002"),
        (get("/v1/jobs/0x12"), "400", "TG-API-001"),
        (get("/v1/jobs?limit=x"), "400", "TG-API-001"),
        (get("/v1/jobs?requestor=x"), "400", "TG-API-001"),
        (post("/v1/status", bytes, ""), "405", "TG-API-001"),
        (post("/v1/transactions", bytes, "abc"), "400", "TG-API-001"),
        (
            post("/v1/transactions", bytes, &"x".repeat(5000)),
            "413",
            "TG-API-003",
        ),
        (
            post("/v1/dev/infer", "application/json", "{}"),
            "400",
            "TG-API-001",
        ),
    ];
    for (request, status, code) in cases {
        check(&raw(server.address(), &request).await, status, code);
    }
}
