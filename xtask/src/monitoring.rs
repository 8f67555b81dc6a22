//! `cargo xtask monitoring`: a Prometheus server scrapes a grid; the alert rules and every panel of `ops/` are asked of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::bring::{Options, build};
use crate::python::Missing;
use crate::{http, process};

const GRID: &str = "127.0.0.1:17070";
const PROMETHEUS: &str = "127.0.0.1:19090";

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the checks.
///
/// # Errors
/// If one of them fails, or Prometheus is missing where it is required.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a command line tool"
)]
pub fn run(root: &Path, options: &Options) -> Result<()> {
    if let Some(program) = missing() {
        if options.missing == Missing::Fail {
            bail!("there is no `{program}`: install Prometheus");
        }
        eprintln!(
            "SKIPPED: THE MONITORING WAS NOT CHECKED (there is no `{program}`); --require makes this an error"
        );
        return Ok(());
    }
    let rules = root.join("ops/prometheus");
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "tests.yml"],
    ] {
        let mut command = Command::new("promtool");
        let command = command.args(arguments).current_dir(&rules);
        process::run(command, "promtool refuses the rules")?;
    }
    let binary = match &options.binary {
        Some(file) => {
            fs::canonicalize(file).with_context(|| format!("there is no `{}`", file.display()))?
        }
        None => build(root)?,
    };
    let folder = root.join("target/monitoring");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let panels = panels(&root.join("ops/grafana/tensorgrid.json"))?;
    watched(root, &binary, &folder, &panels)?;
    println!(
        "a Prometheus server scraped the grid; {} panels have values, and a stopped node is told",
        panels.len()
    );
    Ok(())
}

/// A program of Prometheus that is not installed.
fn missing() -> Option<&'static str> {
    let is_there = |program: &&str| {
        let found = Command::new(program).arg("--version").output();
        found.is_ok_and(|it| it.status.success())
    };
    ["prometheus", "promtool"]
        .into_iter()
        .find(|it| !is_there(it))
}

/// A grid and a server that scrapes it: every panel has values, nothing is wrong, and then the grid is stopped.
fn watched(root: &Path, binary: &Path, folder: &Path, panels: &[(String, String)]) -> Result<()> {
    let mut grid = StoppedAtEnd::start(
        Command::new(binary)
            .args(["up", "--listen", GRID, "--data-dir"])
            .arg(folder.join("grid")),
    )?;
    until("the grid has offers", || {
        Ok(metric("tensorgrid_offers")? > 0.0)
    })?;
    lint(folder)?;
    let _prometheus = StoppedAtEnd::start(&mut server(&root.join("ops/prometheus"), folder)?)?;
    until("the target is up", || Ok(!values("up == 1")?.is_empty()))?;
    let mut command = Command::new(binary);
    let command = command
        .args(["infer", "mlp-digits", "examples/digit.json", "--yes"])
        .args(["--verify", "none", "--api", &format!("http://{GRID}")]);
    process::run(
        command.current_dir(root).stdout(Stdio::null()),
        "an order failed",
    )?;
    for (title, expression) in panels {
        until(&format!("the panel `{title}` has values"), || {
            Ok(!values(expression)?.is_empty())
        })?;
    }
    ensure!(
        alerts()?.is_empty(),
        "a grid in good order has alerts: {:?}",
        alerts()?
    );
    grid.stop();
    until("the alert of a node that is down", || {
        Ok(alerts()?.contains(&"TensorGridNodeDown".to_owned()))
    })
}

/// Prometheus with the settings of `ops/`, for the grid of this run and looking once a second.
fn server(rules: &Path, folder: &Path) -> Result<Command> {
    let settings = fs::read_to_string(rules.join("prometheus.yml"))?;
    let settings = settings.replace("127.0.0.1:7070", GRID).replace("5s", "1s");
    fs::write(folder.join("prometheus.yml"), settings)?;
    let name = "tensorgrid.rules.yml";
    fs::copy(rules.join(name), folder.join(name))?;
    let mut command = Command::new("prometheus");
    command
        .arg("--config.file=prometheus.yml")
        .arg("--storage.tsdb.path=data")
        .arg(format!("--web.listen-address={PROMETHEUS}"))
        .current_dir(folder);
    Ok(command)
}

/// What promtool thinks of the metrics' names and types.
fn lint(folder: &Path) -> Result<()> {
    let file = folder.join("metrics.txt");
    fs::write(&file, http::get(GRID, "/metrics", PATIENCE)?)?;
    let mut command = Command::new("promtool");
    let command = command.args(["check", "metrics"]);
    process::run(
        command.stdin(fs::File::open(file)?),
        "promtool refuses the metrics",
    )
}

/// Titles and expressions of the panels of a dashboard.
fn panels(file: &Path) -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let panels = dashboard["panels"]
        .as_array()
        .context("a dashboard has panels")?;
    let mut found = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().context("a panel has a title")?;
        for target in panel["targets"].as_array().context("a panel has targets")? {
            let expression = target["expr"]
                .as_str()
                .context("a target has an expression")?;
            found.push((title.to_owned(), expression.to_owned()));
        }
    }
    ensure!(!found.is_empty(), "the dashboard has no panels");
    Ok(found)
}

/// A metric without labels of the grid.
fn metric(name: &str) -> Result<f64> {
    let text = http::get(GRID, "/metrics", PATIENCE)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.with_context(|| format!("there is no {name}"))?;
    Ok(value.trim().parse()?)
}

/// What an expression comes to now, without what is no number.
fn values(expression: &str) -> Result<Vec<f64>> {
    let path = format!("/api/v1/query?query={}", escaped(expression));
    let answer: Value = serde_json::from_str(&http::get(PROMETHEUS, &path, PATIENCE)?)?;
    ensure!(answer["status"] == "success", "{expression}: {answer}");
    let results = answer["data"]["result"].as_array().context("a vector")?;
    let value = |result: &Value| result["value"][1].as_str()?.parse::<f64>().ok();
    Ok(results
        .iter()
        .filter_map(value)
        .filter(|it| it.is_finite())
        .collect())
}

/// Names of alerts that fire or are about to.
fn alerts() -> Result<Vec<String>> {
    let answer: Value = serde_json::from_str(&http::get(PROMETHEUS, "/api/v1/alerts", PATIENCE)?)?;
    let list = answer["data"]["alerts"]
        .as_array()
        .context("a list of alerts")?;
    let name = |alert: &Value| alert["labels"]["alertname"].as_str().map(str::to_owned);
    Ok(list.iter().filter_map(name).collect())
}

/// The bytes of a query that stand for themselves, and the others by their number.
fn escaped(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Asks until the answer is yes.
fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    loop {
        let answer = is_so();
        if matches!(answer, Ok(true)) {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            answer.with_context(|| format!("waited in vain: {what}"))?;
            bail!("waited in vain: {what}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A process that is stopped when the run ends, however it ends.
struct StoppedAtEnd(Child);

impl StoppedAtEnd {
    fn start(command: &mut Command) -> Result<Self> {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = quiet.spawn();
        Ok(Self(child.with_context(|| format!("start {command:?}"))?))
    }

    fn stop(&mut self) {
        // It may have ended by itself: there is nothing left to stop then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for StoppedAtEnd {
    fn drop(&mut self) {
        self.stop();
    }
}
