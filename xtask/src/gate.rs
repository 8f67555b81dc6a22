//! The whole gate: what has to pass before a change is taken.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// One step of the gate.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Its name, for `--only` and for the report.
    pub name: &'static str,
    /// Arguments of `cargo`.
    pub arguments: &'static [&'static str],
    /// Environment of the step.
    pub environment: &'static [(&'static str, &'static str)],
}

/// The steps in their order: cheap ones first; the tests come last, so that their lines end the output. The test
/// step holds the structure checks (`xtask/tests/tidy.rs`), the drift checks of generated files and the fuzz smoke.
pub const STEPS: &[Step] = &[
    Step {
        name: "format",
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
    },
    Step {
        name: "tidy",
        arguments: &["test", "--locked", "--quiet", "--package", "xtask"],
        environment: &[],
    },
    Step {
        name: "lint",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ],
        environment: &[],
    },
    // Before the tests, whose lines end the output.
    Step {
        name: "simulate",
        arguments: &[
            "run",
            "--locked",
            "--quiet",
            "--package",
            "tensorgrid",
            "--",
            "sim",
            "--seeds",
            "0..50",
            "--jobs",
            "2",
        ],
        environment: &[],
    },
    Step {
        name: "test",
        arguments: &["test", "--workspace", "--locked"],
        environment: &[],
    },
];

/// Makes tests run at full size; without it they say in their documentation what the smaller size gives up.
const FULL_SIZE: &[(&str, &str)] = &[("TENSORGRID_NIGHTLY", "1")];

/// What is too long for the gate: the same tests at full size, in release builds, and searches; an hour's search for the
/// model that costs a validator most fails if one costs more than it may.
pub const NIGHTLY: &[Step] = &[
    // Every link of the documentation leads somewhere, that of private items included.
    Step {
        name: "documentation",
        arguments: &[
            "doc",
            "--locked",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    Step {
        name: "statistics",
        arguments: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "tg-prover",
            "--",
            "look_alike",
            "do_not_depend",
        ],
        environment: FULL_SIZE,
    },
    Step {
        name: "verifier-cost",
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "tg-node",
            "--example",
            "hardest",
            "--",
            "3600",
        ],
        environment: &[],
    },
    // Whole grids from seeds, with faults.
    Step {
        name: "simulate",
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "tensorgrid",
            "--",
            "sim",
            "--seeds",
            "0..10000",
            "--jobs",
            "2",
        ],
        environment: &[],
    },
    // Each mistake that the simulator's checks must find within a thousand seeds.
    Step {
        name: "canaries",
        arguments: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "tg-sim",
            "--features",
            "canary",
            "--test",
            "it",
            "--",
            "canaries",
            "--nocapture",
        ],
        environment: FULL_SIZE,
    },
    // 216,000 blocks of honest and hostile actors.
    Step {
        name: "hostile",
        arguments: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "tg-ledger",
            "--test",
            "hostile",
            "--",
            "--nocapture",
        ],
        environment: FULL_SIZE,
    },
    // Markets that an attacker filled, drawn at a tenth of their size, and the worst of them at its whole.
    Step {
        name: "crowd",
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "tg-ledger",
            "--example",
            "crowd",
            "--",
            "--draw",
            "40",
            "1",
        ],
        environment: &[],
    },
];

/// Regenerates every generated file of the repository: the tests that compare them write them instead.
pub const BLESS: Step = Step {
    name: "bless",
    arguments: &["test", "--workspace", "--locked", "--quiet", "drift"],
    environment: &[("TENSORGRID_BLESS", "1")],
};

/// Runs steps, such as those of the gate ([`STEPS`]), or only the one named, and stops at the first that fails.
///
/// # Errors
/// If a step fails, or `only` names no step.
pub fn run(root: &Path, steps: &[Step], only: Option<&str>) -> Result<()> {
    let chosen: Vec<&Step> = steps
        .iter()
        .filter(|step| only.is_none_or(|name| name == step.name))
        .collect();
    if chosen.is_empty() {
        let names: Vec<&str> = steps.iter().map(|step| step.name).collect();
        bail!("no such step; the steps are {}", names.join(", "));
    }
    chosen.into_iter().try_for_each(|step| run_step(root, step))
}

/// Runs one step at `root`.
///
/// # Errors
/// If cargo cannot be started or fails.
pub fn run_step(root: &Path, step: &Step) -> Result<()> {
    let line = step.arguments.join(" ");
    report(&format!("==> {}: cargo {line}", step.name));
    let started = Instant::now();
    let status = crate::process::cargo(root)
        .args(step.arguments)
        .envs(step.environment.iter().copied())
        .status()
        .with_context(|| format!("start cargo {line}"))?;
    if !status.success() {
        bail!("the step `{}` failed: cargo {line}", step.name);
    }
    let seconds = started.elapsed().as_secs();
    report(&format!("==> {}: passed in {seconds} s", step.name));
    Ok(())
}

/// Talk goes to the error stream; the output stream is the tests'.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn report(line: &str) {
    eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_come_last_so_that_their_lines_end_the_output() {
        assert_eq!(STEPS.last().map(|step| step.name), Some("test"));
    }

    #[test]
    fn an_unknown_step_names_the_known_ones() {
        let error = run(Path::new("."), STEPS, Some("nothing")).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("no such step; the steps are format, tidy, lint, simulate, test".to_owned())
        );
    }
}
