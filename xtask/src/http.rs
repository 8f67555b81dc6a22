//! What a server of this run answers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// The body of what the server at an address answers to `GET path`, within `patience` for each step.
///
/// # Errors
/// If it cannot be reached, or answers anything but 200.
pub(crate) fn get(address: &str, path: &str, patience: Duration) -> Result<String> {
    let place: SocketAddr = address.parse().context("an address of a server")?;
    let mut stream = TcpStream::connect_timeout(&place, patience)?;
    stream.set_read_timeout(Some(patience))?;
    // HTTP 1.0: the answer ends with the connection, and is not in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer has a head")?;
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    ensure!(status == "200", "{path}: {head}\n{body}");
    Ok(body.to_owned())
}
