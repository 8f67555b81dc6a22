//! `cargo xtask browser`: the dashboard of a grid in headless Chromium (`dashboard/browser/journey.ts`), as somebody would use it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bring::{Options, build};
use crate::http;
use crate::process;
use crate::python::Missing;

/// How long a grid may take until its models are registered.
const READY_MAX: Duration = Duration::from_secs(180);

/// Where Chromium is looked for, after what `CHROMIUM` names.
const CHROMIUM: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A grid that ends with this, and its folder.
struct DevelopmentGrid {
    process: Child,
    folder: PathBuf,
}

impl Drop for DevelopmentGrid {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _killed = self.process.kill();
        let _ended = self.process.wait();
        // A left-over in the folder of temporary files says nothing about the run.
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

/// Starts a grid with the binary and plays the journey; `--pictures` has it write the README's pictures. Where npm or Chromium is
/// missing it is skipped, unless that is to be an error.
///
/// # Errors
/// If a step of the journey fails, a page has a serious fault, or something is missing that is required.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let pictures = words.contains(&"--pictures");
    let words: Vec<&str> = words
        .iter()
        .copied()
        .filter(|it| *it != "--pictures")
        .collect();
    let options = Options::parse(&words)?;
    let Some(chromium) = tools() else {
        let missing = "the dashboard is not tried: npm (Node.js 20 or newer) or Chromium is missing (CHROMIUM=FILE names one)";
        if options.missing == Missing::Fail {
            bail!(missing);
        }
        eprintln!("SKIPPED: {missing}");
        return Ok(());
    };
    let binary = match options.binary {
        Some(file) => {
            fs::canonicalize(&file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    let dashboard = root.join("dashboard");
    let mut npm = Command::new("npm");
    npm.current_dir(&dashboard)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    process::run(&mut npm, "npm ci")?;
    let address = free_address()?;
    let _grid = DevelopmentGrid::start(&binary, &address)?;
    let mut journey = Command::new("npx");
    journey
        .current_dir(&dashboard)
        .args(["tsx", "browser/journey.ts", "--url"])
        .arg(format!("http://{address}"))
        .arg("--chromium")
        .arg(chromium)
        .arg("--root")
        .arg(root);
    if pictures {
        journey.arg("--pictures").arg(root.join("docs/pictures"));
    }
    process::run(&mut journey, "the dashboard did not do what it should")
}

/// Chromium, if npm is there too.
fn tools() -> Option<PathBuf> {
    let starts = |program: &Path| {
        let command = Command::new(program).arg("--version").output();
        command.is_ok_and(|output| output.status.success())
    };
    if !starts(Path::new("npm")) {
        return None;
    }
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let known = CHROMIUM.map(PathBuf::from);
    let found = named.into_iter().chain(known).find(|it| starts(it))?;
    if found.components().count() > 1 {
        return Some(found);
    }
    // The driver takes a path, not a name.
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(&found));
    files.find(|file| file.is_file())
}

fn free_address() -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
    Ok(listener.local_addr()?.to_string())
}

impl DevelopmentGrid {
    /// A development network whose built-in models can be ordered.
    fn start(binary: &Path, address: &str) -> Result<Self> {
        let name = format!("tensorgrid-browser-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let process = Command::new(binary)
            .arg("up")
            .arg("--data-dir")
            .arg(folder.join("grid"))
            .args(["--listen", address])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the grid")?;
        let mut grid = Self { process, folder };
        let begin = Instant::now();
        loop {
            let models = http::get(address, "/v1/models", Duration::from_secs(5));
            if models.is_ok_and(|text| text.matches("\"state\":\"active\"").count() >= 3) {
                return Ok(grid);
            }
            ensure!(
                grid.process.try_wait()?.is_none(),
                "the grid ended before it was ready"
            );
            ensure!(
                begin.elapsed() < READY_MAX,
                "the grid was not ready in time"
            );
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}
