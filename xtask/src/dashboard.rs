//! `cargo xtask dashboard`: builds the dashboard (`dashboard/`, TypeScript) into the files that `tg-api` serves.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// What is built, and the types that are generated from the API's document.
const BUILT: [&str; 3] = [
    "crates/tg-api/dashboard/app.js",
    "crates/tg-api/dashboard/app.css",
    "dashboard/src/schema.d.ts",
];

/// What npm runs, in order. Scripts of packages are not run.
const STEPS: [&[&str]; 5] = [
    &["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
    &["run", "types"],
    &["run", "check"],
    &["test"],
    &["run", "build"],
];

/// Builds the dashboard; with `--check`, compares what is built with what is committed. Without npm the step is skipped, unless
/// `--require` makes that an error.
///
/// # Errors
/// If a step of the build fails, or what is committed is not what is built.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn command(root: &Path, arguments: &[&str]) -> Result<()> {
    for argument in arguments {
        ensure!(
            ["--check", "--require"].contains(argument),
            "`{argument}` is no option: --check compares, --require makes a missing npm an error"
        );
    }
    let has = |option| arguments.contains(&option);
    if Command::new("npm").arg("--version").output().is_err() {
        let missing =
            "SKIPPED: the dashboard is not built: there is no `npm` (Node.js 20 or newer)";
        if has("--require") {
            bail!(missing);
        }
        eprintln!("{missing}");
        return Ok(());
    }
    let before = read(root);
    for arguments in STEPS {
        let mut npm = Command::new("npm");
        npm.current_dir(root.join("dashboard")).args(arguments);
        process::run(&mut npm, &format!("npm {}", arguments.join(" ")))?;
    }
    let after = read(root);
    for ((name, before), after) in BUILT.iter().zip(&before).zip(&after) {
        let after = after
            .as_ref()
            .with_context(|| format!("`{name}` was not built"))?;
        eprintln!("{name}: {} bytes", after.len());
        if has("--check") && before.as_ref() != Some(after) {
            bail!(
                "`{name}` is not what the sources give: commit what `cargo xtask dashboard` builds"
            );
        }
    }
    Ok(())
}

fn read(root: &Path) -> Vec<Option<Vec<u8>>> {
    let files = BUILT.iter();
    files.map(|name| fs::read(root.join(name)).ok()).collect()
}
