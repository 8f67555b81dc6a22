//! `cargo xtask dashboard`: builds the dashboard (`dashboard/`, TypeScript) into the files that `tg-api` serves, and with `--verifier`
//! the module that verifies proofs in it (`tg-browser`, WebAssembly).
//!
//! The module's bytes depend on the compiler, so that they are not compared with a build: the tests of `tg-browser` run the
//! committed file on the kept proofs instead, and fail if it does not accept what is right today.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::sdk::{WASM, has_target};

/// What is built, and the types that are generated from the API's document.
const BUILT: [&str; 4] = [
    "crates/tg-api/dashboard/app.js",
    "crates/tg-api/dashboard/verify.js",
    "crates/tg-api/dashboard/app.css",
    "dashboard/src/schema.d.ts",
];

/// The verifier of the page.
const VERIFIER: &str = "crates/tg-api/dashboard/verify.wasm";

/// Most bytes of it that are committed.
const VERIFIER_BYTES_MAX: usize = 1_600_000;

/// What npm runs, in order. Scripts of packages are not run.
const STEPS: [&[&str]; 5] = [
    &["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
    &["run", "types"],
    &["run", "check"],
    &["test"],
    &["run", "build"],
];

/// Builds the dashboard; with `--check`, compares what is built with what is committed. `--verifier` builds the module too. What
/// there are no tools for is skipped, unless `--require` makes that an error.
///
/// # Errors
/// If a step of the build fails, or what is committed is not what is built.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn command(root: &Path, arguments: &[&str]) -> Result<()> {
    for argument in arguments {
        ensure!(
            ["--check", "--require", "--verifier"].contains(argument),
            "`{argument}` is no option: --check compares, --verifier builds the verifier too, --require makes missing tools an error"
        );
    }
    let has = |option| arguments.contains(&option);
    if has("--verifier") {
        ensure!(!has("--check"), "--verifier and --check exclude each other");
        verifier(root, has("--require"))?;
    }
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

/// A compiler that builds for wasm32, and how.
struct WasmCompiler {
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

impl WasmCompiler {
    /// The toolchain's own with the standard library of wasm32; else that which `TENSORGRID_WASM_RUSTC` names, with the sources of
    /// its standard library beside it (Debian: `rustc-web`, `rust-web-src`, `lld`), from which cargo builds it.
    fn find(root: &Path) -> Option<Self> {
        if has_target(root, WASM) {
            return Some(Self {
                arguments: Vec::new(),
                environment: Vec::new(),
            });
        }
        let rustc = std::env::var_os("TENSORGRID_WASM_RUSTC")?;
        Some(Self {
            arguments: vec!["-Zbuild-std=std,panic_abort".into()],
            environment: vec![
                ("RUSTC", rustc),
                ("RUSTC_BOOTSTRAP", "1".into()),
                (
                    "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER",
                    "wasm-ld".into(),
                ),
            ],
        })
    }
}

/// Builds the verifier's module and writes it over the committed one.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
fn verifier(root: &Path, require: bool) -> Result<()> {
    let Some(compiler) = WasmCompiler::find(root) else {
        let missing = format!(
            "SKIPPED: the verifier is not built for {WASM}: rustup target add {WASM}, or TENSORGRID_WASM_RUSTC=FILE names a compiler \
             with the sources of its standard library"
        );
        if require {
            bail!(missing);
        }
        eprintln!("{missing}");
        return Ok(());
    };
    // A folder of its own: another compiler's files would be in the way of this one's.
    let target: PathBuf = root.join("target/verifier");
    let mut cargo = process::cargo(root);
    cargo
        .args(["build", "--locked", "--package", "tg-browser", "--lib"])
        .args(["--profile", "browser", "--target", WASM])
        .args(&compiler.arguments)
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .envs(compiler.environment);
    process::run(&mut cargo, "tg-browser does not build for wasm32")?;
    let built = target.join(WASM).join("browser/tg_browser.wasm");
    let bytes = fs::read(&built).context("read the module that was built")?;
    ensure!(
        bytes.len() <= VERIFIER_BYTES_MAX,
        "the verifier has {} bytes, at most {VERIFIER_BYTES_MAX} are committed",
        bytes.len()
    );
    fs::write(root.join(VERIFIER), &bytes).context("write the verifier")?;
    eprintln!("{VERIFIER}: {} bytes", bytes.len());
    Ok(())
}

fn read(root: &Path) -> Vec<Option<Vec<u8>>> {
    let files = BUILT.iter();
    files.map(|name| fs::read(root.join(name)).ok()).collect()
}
