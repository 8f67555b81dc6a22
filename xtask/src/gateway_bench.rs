//! `cargo xtask gateway-bench`: how many requests for its status a node answers a second, and how many completions by the OpenAI routes, each of
//! which is a job of its own that is ordered, run and paid before it is answered; over connections that stay open on loopback.

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

/// Connections that ask for the status beside each other, each for one answer after the other.
const STATUS_CONNECTIONS: usize = 16;

/// Those that ask for completions, which wait for blocks most of the time. A key has 48 places, and one becomes free a moment after its answer
/// was read.
const COMPLETION_CONNECTIONS: usize = 40;

/// The key of a development network. It makes 3,000 calls a minute: more than 250 completions a second would be refused.
const KEY: &str = "tensorgrid-development";

/// The shortest text: what is measured is the way of a job, and not how fast a model writes.
const COMPLETION: &str = r#"{"model":"gpt-bytes","prompt":"ROMEO:","max_tokens":1}"#;

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
    let completion = MeasuredRequest::completion();
    // The status is asked of a grid that has begun, too.
    completion.wait()?;
    println!("{}", MeasuredRequest::status().measured()?);
    println!("{}", completion.measured()?);
    println!("a validator, a provider and these clients share the machine with the gateway");
    Ok(())
}

/// What is asked again and again.
struct MeasuredRequest {
    /// What it is called in what is printed.
    what: &'static str,
    /// Its bytes.
    request: String,
    /// Connections that ask it beside each other.
    connections: usize,
}

impl MeasuredRequest {
    fn status() -> Self {
        Self {
            what: "requests for the status",
            request: format!("GET /v1/status HTTP/1.1\r\nHost: {GATEWAY}\r\n\r\n"),
            connections: STATUS_CONNECTIONS,
        }
    }

    /// A completion that no endpoint answers and nobody checks.
    fn completion() -> Self {
        let length = COMPLETION.len();
        Self {
            what: "completions, a paid job each,",
            request: format!(
                "POST /openai/v1/completions HTTP/1.1\r\nHost: {GATEWAY}\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{COMPLETION}"
            ),
            connections: COMPLETION_CONNECTIONS,
        }
    }

    /// Waits until it is answered: a grid that has just started has neither its models nor an offer.
    fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        while let Err(error) = self.answered_once() {
            ensure!(
                begin.elapsed() < PATIENCE,
                "{} are not answered: {error:#}",
                self.what
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Asks once.
    fn answered_once(&self) -> Result<()> {
        let mut stream = connected()?;
        stream.write_all(self.request.as_bytes())?;
        read_answer(&mut stream, &mut vec![0; ANSWER_BYTES_MAX])
    }

    /// Asks on all connections, and says how often it was answered and how soon.
    fn measured(&self) -> Result<String> {
        let from = Instant::now() + WARM_UP;
        let until = from + MEASURED;
        let mut took = std::thread::scope(|scope| {
            let each = (0..self.connections).map(|_| scope.spawn(move || self.asked(from, until)));
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
        let ms = |of_hundred| share(&took, of_hundred).map(|it| it.as_secs_f64() * 1e3);
        Ok(format!(
            "{per_second:.0} {} a second over {} connections, half of them within {:.2} ms, 99 of a hundred within {:.2} ms",
            self.what,
            self.connections,
            ms(50)?,
            ms(99)?,
        ))
    }

    /// Asks on one connection; how long each answer took that was asked for after `from`.
    fn asked(&self, from: Instant, until: Instant) -> Result<Vec<Duration>> {
        let mut stream = connected()?;
        let mut buffer = vec![0; ANSWER_BYTES_MAX];
        let mut took = Vec::new();
        loop {
            let began = Instant::now();
            if began >= until {
                return Ok(took);
            }
            stream.write_all(self.request.as_bytes())?;
            read_answer(&mut stream, &mut buffer)?;
            if began >= from {
                took.push(began.elapsed());
            }
        }
    }
}

fn connected() -> Result<TcpStream> {
    let stream = TcpStream::connect(GATEWAY)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The time within which so many of a hundred were answered.
fn share(sorted: &[Duration], of_hundred: usize) -> Result<Duration> {
    let index = (sorted.len() * of_hundred / 100).min(sorted.len().saturating_sub(1));
    let found = sorted.get(index).copied();
    found.context("nothing was answered")
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
    fn a_completion_is_asked_with_the_length_of_its_body() {
        let asked = MeasuredRequest::completion().request;
        let parts = asked.split_once("\r\n\r\n");
        let (head, body) = parts.expect("a head and a body");
        let length = format!("Content-Length: {}", body.len());
        assert!(head.lines().any(|it| it == length), "{head}");
        assert!(head.lines().all(|it| !it.starts_with(' ')), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).expect("an object");
        assert_eq!(body["max_tokens"], 1);
        // No check is asked for: a job of mode `none`.
        assert!(body.get("tensorgrid").is_none());
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
