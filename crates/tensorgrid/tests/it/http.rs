//! A plain HTTP client of the OpenAI routes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::run::Grid;

pub(crate) const KEY: &str = "tensorgrid-development";

/// What has an address.
pub(crate) trait Served {
    fn url(&self) -> &str;
}

impl Served for Grid {
    fn url(&self) -> &str {
        &self.url
    }
}

impl Served for String {
    fn url(&self) -> &str {
        self
    }
}

/// An answer: status, headers in lower case, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The parts of a stream, and whether it ended as streams do.
    pub(crate) fn parts(&self) -> (Vec<Value>, bool) {
        let data = self
            .body
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        let data: Vec<&str> = data.collect();
        let (last, parts) = data.split_last().unwrap();
        let parts = parts.iter().map(|part| serde_json::from_str(part).unwrap());
        (parts.collect(), *last == "[DONE]")
    }
}

/// One call, on a connection of its own.
pub(crate) fn call(
    grid: &impl Served,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let host = grid.url().trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !head.contains("content-length") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = match head.contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    };
    Answer { status, head, body }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    text
}

pub(crate) fn post(grid: &impl Served, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
    let bearer = format!("Bearer {KEY}");
    let headers = [&[("authorization", bearer.as_str())], more].concat();
    call(
        grid,
        ("POST", &format!("/openai/v1/{path}")),
        &headers,
        &body.to_string(),
    )
}

/// A call without a body, with the key.
pub(crate) fn with_key(grid: &impl Served, method: &str, path: &str) -> Answer {
    let bearer = format!("Bearer {KEY}");
    let path = format!("/openai/v1/{path}");
    call(grid, (method, &path), &[("authorization", &bearer)], "")
}
