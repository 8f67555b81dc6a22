//! What a process tells of its work, if it is asked to.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::run::{Grid, Ran, program};

/// A collector that takes one connection after the other and hands on what is posted to it.
fn collector() -> (String, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, posts) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(post) = read_post(&mut stream) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    if stream.write_all(answer).is_err() || sender.send(post).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, posts)
}

/// One request, head and body.
fn read_post(stream: &mut std::net::TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = stream.read(&mut piece).ok().filter(|&length| length > 0)?;
        bytes.extend_from_slice(&piece[..length]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let size = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        let size: usize = size.map_or(0, |it| it.trim().parse().unwrap());
        if bytes.len() >= end + 4 + size {
            return Some(bytes);
        }
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|it| it == text.as_bytes())
}

#[test]
fn traces_go_to_the_collector_that_the_environment_names() {
    let (url, posts) = collector();
    let folder = tempfile::tempdir().unwrap();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())];
    let grid = Grid::up_in(&folder.path().join("data"), 0, &["--no-models"], &variables);
    grid.run(&["status"]).ends(0);
    let mut seen = Vec::new();
    let since = Instant::now();
    let wanted = ["/v1/traces", "tensorgrid", "/v1/status", "execute block"];
    while !wanted.iter().all(|text| holds(&seen, text)) {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "{} bytes",
            seen.len()
        );
        if let Ok(post) = posts.recv_timeout(Duration::from_millis(200)) {
            seen.extend(post);
        }
    }
    assert!(grid.interrupt().success());
}

/// With `--json` what is logged is JSON, an object a line, like all else that the program says then.
#[test]
fn logs_are_json_where_data_is() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let mut command = program();
        command.env("RUST_LOG", "debug").args(more);
        command.args(["model", "list", "--api", "http://127.0.0.1:9"]);
        command.current_dir(folder.path()).stdin(Stdio::null());
        Ran::of(&command.output().unwrap()).ends(5)
    };
    let json = run(&["--json"]).stderr;
    assert!(json.lines().count() > 1, "{json}");
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(value.get("level").is_some() || value.get("error").is_some());
    }
    assert!(!run(&[]).stderr.starts_with('{'));
}

#[test]
fn a_collector_that_is_none_or_gone_is_told_or_missed() {
    let run = |address: &str| {
        let mut command = program();
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", address);
        Ran::of(&command.args(["device"]).output().unwrap())
    };
    for wrong in ["no address", "https://x:1", "http://", "127.0.0.1:4318"] {
        assert!(
            run(wrong).ends(2).stderr.contains("OTEL_EXPORTER"),
            "{wrong}"
        );
    }
    run("http://127.0.0.1:9").ends(0);
}
