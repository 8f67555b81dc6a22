//! Runs test binaries with one mutant chosen.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::build::TestBinary;
use super::record::MutantVerdict;
use super::write::VARIABLE;

/// How much longer than without a mutant a run computes before it counts as endless: a factor, and this beside it.
const SLOWER: u32 = 4;
const LEEWAY: Duration = Duration::from_secs(30);

/// How many times that long a run may wait instead: beside other work it gets little of a core, and one that waits for
/// itself never ends.
const PATIENCE: u32 = 8;

/// Ticks of a second in Linux's accounts of processes.
const TICKS: u64 = 100;

/// A binary with the time that it takes without a mutant.
#[derive(Debug)]
pub struct Timed {
    binary: TestBinary,
    time: Duration,
}

/// How one binary ended.
enum Ran {
    Passed,
    Failed(String),
    Endless,
}

/// Runs binaries without a mutant: all their tests must pass.
///
/// # Errors
/// If one does not, or cannot be started.
pub fn timed(binaries: Vec<TestBinary>) -> Result<Vec<Timed>> {
    let time = |binary: TestBinary| {
        let start = Instant::now();
        let ran = run(&binary, 0, Duration::from_secs(3_600))?;
        let name = binary.program.display();
        ensure!(matches!(ran, Ran::Passed), "{name} fails without a mutant");
        Ok(Timed {
            time: start.elapsed(),
            binary,
        })
    };
    let mut all = binaries
        .into_iter()
        .map(time)
        .collect::<Result<Vec<Timed>>>()?;
    all.sort_by_key(|it| it.time);
    Ok(all)
}

/// What the tests say of a mutant.
///
/// # Errors
/// If a binary cannot be started.
pub fn verdict(binaries: &[Timed], mutant: u32) -> Result<MutantVerdict> {
    for it in binaries {
        match run(&it.binary, mutant, it.time * SLOWER + LEEWAY)? {
            Ran::Passed => {}
            Ran::Failed(test) => return Ok(MutantVerdict::Caught(test)),
            Ran::Endless => return Ok(MutantVerdict::Endless),
        }
    }
    Ok(MutantVerdict::Missed(String::new()))
}

fn run(binary: &TestBinary, mutant: u32, most: Duration) -> Result<Ran> {
    let mut command = Command::new(&binary.program);
    command
        .current_dir(&binary.folder)
        .env("CARGO_MANIFEST_DIR", &binary.folder)
        .env(VARIABLE, mutant.to_string())
        // What a test writes anew instead of comparing it would pass with any mutant.
        .env_remove("TENSORGRID_REGENERATE")
        .env("INSTA_UPDATE", "no")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
        .args(binary.suite.only)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for name in binary.suite.without {
        command.args(["--skip", name]);
    }
    let mut child = command.spawn().context("a test binary cannot be started")?;
    let ran = watch(&mut child, most);
    // It may have ended by itself.
    let _ended = child.kill();
    child.wait()?;
    ran
}

/// Follows a run to its first failure, or to its end.
fn watch(child: &mut Child, most: Duration) -> Result<Ran> {
    let output = child.stdout.take().context("its output is piped")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let start = Instant::now();
    let mut wait = most;
    loop {
        match lines.recv_timeout(wait) {
            Ok(line) => {
                let failed = line
                    .strip_prefix("test ")
                    .and_then(|it| it.strip_suffix(" ... FAILED"));
                if let Some(test) = failed {
                    return Ok(Ran::Failed(test.to_owned()));
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let computed = computed(child.id()).unwrap_or_else(|| start.elapsed());
                if computed >= most || start.elapsed() >= most * PATIENCE {
                    return Ok(Ran::Endless);
                }
                wait = Duration::from_secs(1);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                return Ok(match status.success() {
                    true => Ran::Passed,
                    false => Ran::Failed(format!("{status}")),
                });
            }
        }
    }
}

/// The CPU time of a running process, where the system says it.
fn computed(process: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in parentheses and may hold spaces; the times are the 12th and 13th after it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * (1_000 / TICKS)))
}
