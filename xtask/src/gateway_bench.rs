//! `cargo xtask gateway-bench`: how many requests for its status a node answers a second, over connections that stay open on loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bring::{Options, build};
use crate::http;

const GATEWAY: &str = "127.0.0.1:17072";

/// Connections that ask beside each other, each for one answer after the other.
const CONNECTIONS: usize = 16;

/// Time before what is measured, and the time of that.
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most bytes of an answer with its head.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Measures, and prints what it found.
///
/// # Errors
/// If the grid does not start, or an answer is not 200.
#[expect(clippy::print_stdout, reason = "this is a command line tool")]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    let folder = root.join("target/gateway-bench");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let _grid = MeasuredGrid::start(&binary, &folder)?;
    let from = Instant::now() + WARM_UP;
    let until = from + MEASURED;
    let mut took = std::thread::scope(|scope| {
        let each = (0..CONNECTIONS).map(|_| scope.spawn(move || asked(from, until)));
        let each: Vec<_> = each.collect();
        let mut all = Vec::new();
        for thread in each {
            let took = thread.join();
            all.extend(took.map_err(|_| anyhow::anyhow!("a client panicked"))??);
        }
        anyhow::Ok(all)
    })?;
    took.sort_unstable();
    let per_second = took.len() as f64 / MEASURED.as_secs_f64();
    println!(
        "{per_second:.0} requests for the status a second over {CONNECTIONS} connections, half of them within {} us, 99 of a hundred \
         within {} us; a validator, a provider and these clients share the machine with the gateway",
        share(&took, 50)?.as_micros(),
        share(&took, 99)?.as_micros(),
    );
    Ok(())
}

/// The time within which so many of a hundred were answered.
fn share(sorted: &[Duration], of_hundred: usize) -> Result<Duration> {
    let index = (sorted.len() * of_hundred / 100).min(sorted.len().saturating_sub(1));
    let found = sorted.get(index).copied();
    found.context("nothing was answered")
}

/// Asks on one connection; how long each answer took that was asked for after `from`.
fn asked(from: Instant, until: Instant) -> Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(GATEWAY)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET /v1/status HTTP/1.1\r\nHost: {GATEWAY}\r\n\r\n");
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    let mut took = Vec::new();
    loop {
        let began = Instant::now();
        if began >= until {
            return Ok(took);
        }
        stream.write_all(request.as_bytes())?;
        read_answer(&mut stream, &mut buffer)?;
        if began >= from {
            took.push(began.elapsed());
        }
    }
}

fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    let mut whole = None;
    loop {
        let read = stream.read(&mut buffer[filled..])?;
        ensure!(read > 0, "the gateway closed a connection");
        filled += read;
        if whole.is_none() {
            whole = length(&buffer[..filled])?;
        }
        if whole.is_some_and(|it| filled >= it) {
            return Ok(());
        }
        ensure!(
            filled < buffer.len(),
            "an answer has more than {ANSWER_BYTES_MAX} bytes"
        );
    }
}

/// The bytes of an answer with its head, once that is there.
fn length(begin: &[u8]) -> Result<Option<usize>> {
    let Some(end) = begin.windows(4).position(|it| it == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&begin[..end]).to_lowercase();
    ensure!(head.starts_with("http/1.1 200"), "{head}");
    let length = head
        .lines()
        .find_map(|it| it.strip_prefix("content-length:"));
    let length: usize = length
        .context("an answer without its length")?
        .trim()
        .parse()?;
    Ok(Some(end + 4 + length))
}

/// A grid in a process, which is ended with the run.
struct MeasuredGrid(Child);

impl MeasuredGrid {
    fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let mut command = Command::new(binary);
        let quiet = command
            .args(["up", "--providers", "1", "--listen", GATEWAY, "--data-dir"])
            .arg(folder.join("grid"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = Self(quiet.spawn().context("start the grid")?);
        let begin = Instant::now();
        while http::get(GATEWAY, "/v1/status", PATIENCE).is_err() {
            if let Some(status) = child.0.try_wait()? {
                bail!("the grid ended with {status}");
            }
            ensure!(begin.elapsed() < PATIENCE, "the grid does not answer");
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(child)
    }
}

impl Drop for MeasuredGrid {
    fn drop(&mut self) {
        // It may have ended by itself: there is nothing left to stop then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_answer_is_known_with_its_head() {
        let of = |text: &str| length(text.as_bytes()).map_err(|error| error.to_string());
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(of(&head[..20]), Ok(None));
        assert_eq!(of(head), Ok(Some(head.len() + 5)));
        assert_eq!(of(&format!("{head}he")), Ok(Some(head.len() + 5)));
        assert!(of("HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\n").is_err());
        assert!(of("HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn a_share_of_times_is_one_of_them() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        let found = |of_hundred| share(&times, of_hundred).ok().map(|it| it.as_micros());
        assert_eq!(found(50), Some(101));
        assert_eq!(found(99), Some(199));
        assert!(share(&[], 50).is_err());
    }
}
