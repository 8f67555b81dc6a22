//! The whole gate: what has to pass before a change is taken.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// One step of the gate.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Its name, for `ci STEP` and for the report.
    pub name: &'static str,
    /// What it runs.
    pub program: StepProgram,
    /// The program's arguments.
    pub arguments: &'static [&'static str],
    /// Environment of the step.
    pub environment: &'static [(&'static str, &'static str)],
}

/// What a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepProgram {
    /// `cargo`.
    Cargo,
    /// The `tensorgrid` beside this program, which an earlier step has built.
    Tensorgrid,
}

// Every step selects the whole workspace: cargo unites the features of what is selected, and with `--package` the crates
// that many share were built once more, with other features (on two cores a third of the gate's time).
/// The steps in their order: cheap ones first; the tests come last, so that their lines end the output. The test
/// step holds the structure checks (`xtask/tests/tidy.rs`), the drift checks of generated files and the fuzz smoke.
pub const STEPS: &[Step] = &[
    Step {
        name: "format",
        program: StepProgram::Cargo,
        arguments: &["fmt", "--all", "--check"],
        environment: &[],
    },
    Step {
        name: "tidy",
        program: StepProgram::Cargo,
        arguments: &[
            "test",
            "--workspace",
            "--locked",
            "--quiet",
            "--test",
            "tidy",
        ],
        environment: LINTED,
    },
    Step {
        name: "build",
        program: StepProgram::Cargo,
        arguments: &[
            "test",
            "--workspace",
            "--all-targets",
            "--locked",
            "--quiet",
            "--no-run",
        ],
        environment: LINTED,
    },
    // Before the tests, whose lines end the output.
    Step {
        name: "simulate",
        program: StepProgram::Tensorgrid,
        arguments: &["sim", "--seeds", "0..50", "--jobs", "2"],
        environment: &[],
    },
    Step {
        name: "test",
        program: StepProgram::Cargo,
        arguments: &["test", "--workspace", "--locked"],
        environment: TESTED,
    },
];

// `cargo clippy` reads every dependency and every crate once more, for nothing that the tests use: a quarter of a cold gate.
/// The workspace's crates are compiled by Clippy's compiler, which is rustc with more lints, and each warning is an error: what
/// `cargo clippy -- -D warnings` sets for its own runs.
const LINTED: &[(&str, &str)] = &[LINTS, WARNINGS];

/// The same compiler, so that nothing is built again; whole grids wait for their blocks most of the time, and with a thread for
/// each of two cores they used two fifths of them.
const TESTED: &[(&str, &str)] = &[LINTS, WARNINGS, ("RUST_TEST_THREADS", "4")];

const LINTS: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
const WARNINGS: (&str, &str) = (
    "CLIPPY_ARGS",
    "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
);

/// Makes tests run at full size; without it they say in their documentation what the smaller size gives up.
const FULL_SIZE: &[(&str, &str)] = &[("TENSORGRID_NIGHTLY", "1")];

/// What is too long for the gate: the same tests at full size, in release builds, and searches; an hour's search for the
/// model that costs a validator most fails if one costs more than it may.
pub const NIGHTLY: &[Step] = &[
    // Every link of the documentation leads somewhere, that of private items included.
    Step {
        name: "documentation",
        program: StepProgram::Cargo,
        arguments: &[
            "doc",
            "--locked",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    // The page that is committed is the one that its sources give, where npm is there to build it; not in the gate, which downloads nothing.
    Step {
        name: "dashboard",
        program: StepProgram::Cargo,
        arguments: &[
            "run",
            "--locked",
            "--package",
            "xtask",
            "--",
            "dashboard",
            "--check",
        ],
        environment: &[],
    },
    Step {
        name: "statistics",
        program: StepProgram::Cargo,
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
        program: StepProgram::Cargo,
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
        program: StepProgram::Cargo,
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
    // The same with worker and checker of production, whose proofs take most of the time: so in few.
    Step {
        name: "prover",
        program: StepProgram::Cargo,
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "tensorgrid",
            "--",
            "sim",
            "--seeds",
            "0..20",
            "--real-prover",
            "--jobs",
            "2",
        ],
        environment: &[],
    },
    // Processes of a network killed one by one, on hosts of their own where that is allowed and else, which it says loudly, on loopback.
    Step {
        name: "network",
        program: StepProgram::Cargo,
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "xtask",
            "--",
            "network-test",
        ],
        environment: &[],
    },
    // The document of the API under a validator, and calls that are drawn from it; where no Python with the packages can be made, it says that
    // it was left out, as the next one.
    Step {
        name: "schemathesis",
        program: StepProgram::Cargo,
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "xtask",
            "--",
            "schemathesis",
        ],
        environment: &[],
    },
    // OpenAI's own client is served as its makers mean it.
    Step {
        name: "openai-client",
        program: StepProgram::Cargo,
        arguments: &[
            "run",
            "--release",
            "--locked",
            "--package",
            "xtask",
            "--",
            "openai-client",
        ],
        environment: &[],
    },
    // Each mistake that the simulator's checks must find within a thousand seeds.
    Step {
        name: "canaries",
        program: StepProgram::Cargo,
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
        program: StepProgram::Cargo,
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
    // Ten thousand modules that are drawn, each of which gives the same twice.
    Step {
        name: "modules",
        program: StepProgram::Cargo,
        arguments: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "tg-wasm",
            "--test",
            "it",
            "--",
            "random::drawn_modules",
            "--nocapture",
        ],
        environment: &[("TENSORGRID_FUZZ_ROUNDS", "34")],
    },
    // What the market promises, in a thousand markets for each promise.
    Step {
        name: "markets",
        program: StepProgram::Cargo,
        arguments: &[
            "test",
            "--release",
            "--locked",
            "--package",
            "tg-ledger",
            "--lib",
            "--",
            "random",
        ],
        environment: FULL_SIZE,
    },
    // Markets that an attacker filled, drawn at a tenth of their size, and the worst of them at its whole.
    Step {
        name: "crowd",
        program: StepProgram::Cargo,
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
    program: StepProgram::Cargo,
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
/// If its program cannot be started or fails.
pub fn run_step(root: &Path, step: &Step) -> Result<()> {
    let line = format!("{} {}", step.program.name(), step.arguments.join(" "));
    report(&format!("==> {}: {line}", step.name));
    let started = Instant::now();
    let status = step
        .program
        .command(root)?
        .args(step.arguments)
        .envs(step.environment.iter().copied())
        .status()
        .with_context(|| format!("start {line}"))?;
    if !status.success() {
        bail!("the step `{}` failed: {line}", step.name);
    }
    let seconds = started.elapsed().as_secs();
    report(&format!("==> {}: passed in {seconds} s", step.name));
    Ok(())
}

impl StepProgram {
    const fn name(self) -> &'static str {
        match self {
            Self::Cargo => "cargo",
            Self::Tensorgrid => "tensorgrid",
        }
    }

    fn command(self, root: &Path) -> Result<Command> {
        match self {
            Self::Cargo => Ok(crate::process::cargo(root)),
            Self::Tensorgrid => {
                let here = std::env::current_exe().context("find this program's folder")?;
                let mut command = Command::new(here.with_file_name("tensorgrid"));
                command.current_dir(root);
                Ok(command)
            }
        }
    }
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
    fn what_is_too_long_for_the_gate_is_run_by_name_at_night() {
        let steps: Vec<&str> = NIGHTLY.iter().map(|step| step.name).collect();
        for (index, name) in steps.iter().enumerate() {
            assert!(!steps[..index].contains(name), "two steps are {name}");
        }
        let runs = |name: &str, words: &[&str]| {
            let step = NIGHTLY.iter().find(|step| step.name == name);
            let arguments = step.map_or(&[][..], |step| step.arguments);
            arguments.windows(words.len()).any(|it| it == words)
        };
        assert!(runs("simulate", &["--seeds", "0..10000"]));
        assert!(runs("prover", &["--seeds", "0..20", "--real-prover"]));
        let runs_xtask = |step: &str, name: &str| runs(step, &["--package", "xtask", "--", name]);
        assert!(runs_xtask("network", "network-test"));
        assert!(runs_xtask("schemathesis", "schemathesis"));
        assert!(runs_xtask("openai-client", "openai-client"));
    }

    #[test]
    fn an_unknown_step_names_the_known_ones() {
        let error = run(Path::new("."), STEPS, Some("nothing")).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("no such step; the steps are format, tidy, build, simulate, test".to_owned())
        );
    }
}
