//! The dashboard's files, spoken in raw HTTP.

use std::net::SocketAddr;

use tg_api::ApiConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::grid::Grid;

/// Head and body of an answer.
async fn answer(address: SocketAddr, path: &str, header: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn the_page_and_what_it_loads_are_served_and_nothing_beside_them() {
    let grid = Grid::new();
    let (server, _client) = grid.serve(ApiConfig::default()).await;
    let address = server.address();
    let (head, page) = answer(address, "/", "").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(head.contains("script-src 'self';"), "{head}");
    assert!(head.contains("frame-ancestors 'none'"), "{head}");
    // The policy forbids scripts in the page, so there is none.
    assert!(!page.contains("<script>"), "{page}");
    let (_, script) = answer(address, "/dashboard/app.js", "").await;
    let (_, worker) = answer(address, "/dashboard/verify.js", "").await;
    // Each file with what loads it.
    for (file, kind, loader) in [
        ("app.js", "text/javascript", &page),
        ("app.css", "text/css", &page),
        ("verify.js", "text/javascript", &script),
        ("verify.wasm", "application/wasm", &worker),
    ] {
        let path = format!("/dashboard/{file}");
        assert!(loader.contains(&path), "{file}");
        let (head, body) = answer(address, &path, "").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(body.len() > 500, "{file} is empty");
        // WebAssembly is compiled in the worker alone.
        assert_eq!(
            head.contains("wasm-unsafe-eval"),
            file == "verify.js",
            "{head}"
        );
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
        let known = format!("if-none-match: {}\r\n", tag.unwrap());
        let (head, body) = answer(address, &path, &known).await;
        assert!(head.starts_with("HTTP/1.1 304"), "{head}");
        assert!(body.is_empty());
    }
    for path in [
        "/dashboard/",
        "/dashboard/other.js",
        "/dashboard/..%2f..%2fCargo.toml",
        "/dashboard/a/b",
    ] {
        let (head, _) = answer(address, path, "").await;
        assert!(head.starts_with("HTTP/1.1 404"), "{path}: {head}");
    }
}

/// Every reference of the document has its schema.
#[test]
fn the_api_s_document_names_nothing_that_it_does_not_describe() {
    let document: serde_json::Value = serde_json::from_str(&tg_api::openapi()).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    let references = text.split("#/components/schemas/").skip(1);
    let mut count = 0;
    for reference in references {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
        count += 1;
    }
    assert!(count > 50, "{count}");
}
