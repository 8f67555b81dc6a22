//! Running the program.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The program.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tensorgrid"));
    command
        .env_remove("TENSORGRID_API")
        .env_remove("TENSORGRID_KEY")
        .env_remove("TENSORGRID_PASSPHRASE_FILE")
        .env_remove("TENSORGRID_GENESIS")
        .env_remove("TENSORGRID_CHECKPOINT")
        .env_remove("TENSORGRID_TRUSTED")
        .stdin(Stdio::null());
    command
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts the exit code.
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// The output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    Ran::of(&program().args(arguments).output().unwrap())
}

/// A grid in a process of its own.
pub(crate) struct Grid {
    child: Child,
    pub(crate) url: String,
    /// Its address by TLS, where it has one.
    pub(crate) secure_url: Option<String>,
}

impl Grid {
    /// Starts `tensorgrid up` on a free port and waits until it says that it is ready.
    pub(crate) fn up(directory: &Path, providers: u16) -> Self {
        Self::up_with(directory, providers, &[])
    }

    /// The same with more arguments.
    pub(crate) fn up_with(directory: &Path, providers: u16, more: &[&str]) -> Self {
        Self::up_in(directory, providers, more, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn up_in(
        directory: &Path,
        providers: u16,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let mut child = program()
            .envs(variables.iter().copied())
            .args(["up", "--json", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(directory)
            .args(["--providers", &providers.to_string()])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = ready["api"].as_str().unwrap().to_owned();
        // Certificates name a host.
        let port = ready["tls"].as_str().and_then(|it| it.rsplit(':').next());
        let secure_url = port.map(|port| format!("https://localhost:{port}"));
        Self {
            child,
            url,
            secure_url,
        }
    }

    /// Runs a command against this grid.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let mut command = program();
        command.env("TENSORGRID_API", &self.url).args(arguments);
        Ran::of(&command.output().unwrap())
    }

    /// Runs a command against this grid until its error stream has a line with `text`, and kills it there.
    pub(crate) fn run_until(&self, arguments: &[&str], text: &str) {
        let mut child = program()
            .env("TENSORGRID_API", &self.url)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        read_until(child.stderr.take().unwrap(), text);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Runs a command against this grid until its error stream has a line with `text`, and ends it there as Ctrl-C would; gives its exit code
    /// and what it said from then on.
    pub(crate) fn interrupted_at(&self, arguments: &[&str], text: &str) -> (Option<i32>, String) {
        let mut child = program()
            .env("TENSORGRID_API", &self.url)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut said = said.lines().map(Result::unwrap);
        let is_told = said.by_ref().any(|line| line.contains(text));
        assert!(is_told, "it ended without telling {text:?}");
        interrupt(&child);
        let rest: Vec<String> = said.collect();
        (wait(&mut child).code(), rest.join("\n"))
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as Ctrl-C would, and waits.
    pub(crate) fn interrupt(mut self) -> ExitStatus {
        interrupt(&self.child);
        wait(&mut self.child)
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A provider in a process of its own.
pub(crate) struct Provider {
    child: Child,
}

impl Provider {
    /// Starts `tensorgrid provider`.
    pub(crate) fn start(grid: &Grid, key: &Path, price: &str, more: &[&str]) -> Self {
        let child = program()
            .env("TENSORGRID_API", &grid.url)
            .args(["provider", "--json", "--price", price, "--key"])
            .arg(key)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// Waits until it tells a line with `text`; what it tells later is not read.
    pub(crate) fn read_until(&mut self, text: &str) {
        read_until(self.child.stdout.take().unwrap(), text);
    }

    /// Ends it as a power cut would (SIGKILL).
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as Ctrl-C would; gives its exit status and what it told.
    pub(crate) fn interrupt(mut self) -> (ExitStatus, String) {
        interrupt(&self.child);
        let status = wait(&mut self.child);
        let mut told = String::new();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_string(&mut told).unwrap();
        (status, told)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_until(stream: impl Read, text: &str) {
    let mut lines = BufReader::new(stream).lines();
    let found = lines.any(|line| line.unwrap().contains(text));
    assert!(found, "it ended without telling {text:?}");
}

fn interrupt(child: &Child) {
    signal(child, "-INT");
}

/// Sends a signal, such as `-TERM`.
pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([name, &id]).status().unwrap();
    assert!(status.success());
}

/// Waits for the end of a process.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "it does not end"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "not in time: {what}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
