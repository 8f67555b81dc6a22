//! What a stranger may not do, spoken in raw HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tg_api::{ApiConfig, ApiServer, GridPort};
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

/// What watches a node looks at the status alone.
#[tokio::test]
async fn a_node_that_does_not_follow_the_chain_is_not_healthy() {
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    for (ago_ms, is_healthy) in [(5_000, true), (60_000, false)] {
        let grid = Grid::standing(ago_ms);
        let config = ApiConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..ApiConfig::default()
        };
        let port: Arc<dyn GridPort> = Arc::clone(&grid) as _;
        let server = ApiServer::start(port, config).await.unwrap();
        let answer = raw(server.address(), request).await;
        match is_healthy {
            true => assert!(answer.starts_with("HTTP/1.1 200"), "{answer}"),
            false => check(&answer, "503", "TG-API-016"),
        }
        // With the next block it is again.
        grid.block(Vec::new());
        let answer = raw(server.address(), request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
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
        (get("/v1/jobs?provider=x"), "400", "TG-API-001"),
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

/// A page of the web whose name leads to this machine, and one that sends what it cannot read the answer of.
#[tokio::test]
async fn pages_of_the_web_do_not_use_a_local_grid() {
    let grid = Grid::new();
    let (server, _client) = grid.serve(ApiConfig::default()).await;
    let get = |host: &str| format!("GET /v1/jobs HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let rebound = raw(server.address(), &get("evil.example:7070")).await;
    check(&rebound, "421", "TG-API-014");
    let zero = "0".repeat(64);
    let close = |origin: &str| {
        format!(
            "POST /v1/dev/endpoints/0x{zero}/close HTTP/1.1\r\nhost: x\r\norigin: {origin}\r\ncontent-length: 0\r\n\r\n"
        )
    };
    let sent = raw(server.address(), &close("http://evil.example")).await;
    check(&sent, "403", "TG-API-015");
    // Its own page, which gets as far as the grid.
    let own = raw(server.address(), &close("http://x")).await;
    check(&own, "422", "TEST-002");
    // OpenAI's clients read its form of an error alone.
    let openai =
        "GET /openai/v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let refused = raw(server.address(), openai).await;
    assert!(refused.starts_with("HTTP/1.1 421"), "{refused}");
    assert!(refused.contains("\"error\":{"), "{refused}");
}

#[tokio::test]
async fn no_body_is_read_of_who_has_no_key_or_names_no_lease() {
    let config = ApiConfig {
        completions_max: 1,
        endpoints_max: 1,
        ..ApiConfig::default()
    };
    let grid = Grid::ordering();
    let (server, _client) = grid.serve(config).await;
    let zero = "0".repeat(64);
    let post = |path: &str, key: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n"
        )
    };
    let address = server.address();
    let soon = |request: String| async move {
        let answer = raw(address, &request);
        let answer = tokio::time::timeout(Duration::from_secs(5), answer);
        answer.await.unwrap()
    };
    let completions = "/openai/v1/completions";
    for _ in 0..3 {
        let unknown = soon(post(completions, "other", 4_000_000)).await;
        assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
        for call in ["requests", "serve"] {
            let path = format!("/v1/leases/0x{zero}/{call}");
            check(&soon(post(&path, "", 1_000_000)).await, "404", "TG-API-002");
        }
    }
    let body = r#"{"model": "m", "prompt": "a"}"#;
    let known = soon(post(completions, "k", body.len()) + body).await;
    assert!(known.starts_with("HTTP/1.1 404"), "{known}");
    assert!(known.contains("model_not_found"), "{known}");
}

/// Seven bytes of JSON that take 632 in memory, as many as a body may have.
#[tokio::test]
async fn a_body_that_would_take_a_hundred_times_its_bytes_is_refused() {
    let grid = Grid::ordering();
    let (server, _client) = grid.serve(ApiConfig::default()).await;
    let items = "{\"\":0},".repeat(500_000);
    for path in ["completions", "chat/completions", "embeddings", "responses"] {
        let body = format!("{{\"model\": \"m\", \"x\": [{items}0]}}");
        let head = format!(
            "POST /openai/v1/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let answer = raw(server.address(), &(head + &body)).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(answer.contains("bytes of memory"), "{answer}");
    }
}
