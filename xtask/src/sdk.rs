//! `cargo xtask sdk`: each feature of `tg-sdk` builds without the other, and `verify` for wasm32.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::gate::{Step, StepProgram, run_step};

/// What a browser runs.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

const ALONE: &[Step] = &[
    Step {
        name: "client alone",
        program: StepProgram::Cargo,
        arguments: &[
            "check",
            "--locked",
            "-p",
            "tg-sdk",
            "--no-default-features",
            "--features",
            "client",
        ],
        environment: &[],
    },
    Step {
        name: "verify alone",
        program: StepProgram::Cargo,
        arguments: &[
            "check",
            "--locked",
            "-p",
            "tg-sdk",
            "--no-default-features",
            "--features",
            "verify",
        ],
        environment: &[],
    },
    Step {
        name: "clouds alone",
        program: StepProgram::Cargo,
        arguments: &[
            "check",
            "--locked",
            "-p",
            "tg-sdk",
            "--no-default-features",
            "--features",
            "clouds",
        ],
        environment: &[],
    },
];

const IN_A_BROWSER: Step = Step {
    name: "verify for wasm32",
    program: StepProgram::Cargo,
    arguments: &[
        "check",
        "--locked",
        "-p",
        "tg-sdk",
        "--no-default-features",
        "--features",
        "verify",
        "--target",
        WASM,
    ],
    environment: &[],
};

/// Builds the features one by one. Without the standard library for wasm32 (`rustup target add wasm32-unknown-unknown`) that
/// build is skipped, unless `require` makes it an error.
///
/// # Errors
/// If one does not build.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn run(root: &Path, require: bool) -> Result<()> {
    for step in ALONE {
        run_step(root, step)?;
    }
    if require || has_target(root, WASM) {
        return run_step(root, &IN_A_BROWSER);
    }
    eprintln!(
        "SKIPPED: NOT BUILT FOR {WASM} (rustup target add {WASM}); --require makes this an error"
    );
    Ok(())
}

/// Whether the toolchain of `root` has a standard library for a target.
pub(crate) fn has_target(root: &Path, target: &str) -> bool {
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .current_dir(root)
        .output();
    asked.is_ok_and(|asked| {
        let folder = String::from_utf8_lossy(&asked.stdout);
        Path::new(folder.trim()).is_dir()
    })
}
