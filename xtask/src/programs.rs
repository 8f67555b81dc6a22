//! `cargo xtask programs`: the example programs built from their sources, and whether what is committed is that.
//!
//! A program is one file of `examples/programs`, built by `rustc` alone: no crate, no lockfile, and the same bytes from the same
//! toolchain (`rust-toolchain.toml`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sdk::{WASM, has_target};

/// The example programs.
pub const PROGRAMS: [&str; 3] = ["mandelbrot", "pi", "words"];

/// Largest program that is committed, in bytes.
pub const BYTES_MAX: usize = 30_000;

/// What is to be done with a program that was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramBuild {
    /// It takes the place of the committed one.
    Write,
    /// It must be the committed one.
    Compare,
}

/// The command with its options.
///
/// # Errors
/// Those of [`run`], and options that it does not know.
pub fn command(root: &Path, words: &[&str]) -> Result<()> {
    let is_known = |word: &&&str| matches!(**word, "--check" | "--require");
    if let Some(word) = words.iter().find(|word| !is_known(word)) {
        bail!("programs does not know `{word}`; it takes --check and --require");
    }
    let built = match words.contains(&"--check") {
        true => ProgramBuild::Compare,
        false => ProgramBuild::Write,
    };
    run(root, built, words.contains(&"--require"))
}

/// Builds the programs, and writes or compares them. Without the standard library for wasm32 (`rustup target add
/// wasm32-unknown-unknown`) nothing is done, and said so; `require` makes that an error.
///
/// # Errors
/// If one does not build, is too large, or is not the committed one.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn run(root: &Path, built: ProgramBuild, require: bool) -> Result<()> {
    if !has_target(root, WASM) {
        let text = format!("PROGRAMS NOT BUILT FOR {WASM} (rustup target add {WASM})");
        if require {
            bail!(text);
        }
        eprintln!("SKIPPED: {text}; --require makes this an error");
        return Ok(());
    }
    let folder = root.join("examples/programs");
    for name in PROGRAMS {
        let bytes = build(&folder, name)?;
        if bytes.len() > BYTES_MAX {
            bail!(
                "{name} has {} bytes, at most {BYTES_MAX} are committed",
                bytes.len()
            );
        }
        let path = folder.join(format!("{name}.wasm"));
        match built {
            ProgramBuild::Write => std::fs::write(&path, &bytes).context("write a program")?,
            ProgramBuild::Compare => {
                let committed = std::fs::read(&path).context("read a committed program")?;
                if committed != bytes {
                    bail!("{name}.wasm is not what its source gives: run `cargo xtask programs`");
                }
            }
        }
        eprintln!("{name}: {} bytes", bytes.len());
    }
    Ok(())
}

/// The module of a source.
fn build(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let out = std::env::temp_dir().join(format!("tensorgrid-{}-{name}.wasm", std::process::id()));
    let status = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--target",
            WASM,
        ])
        .args([
            "--crate-name",
            name,
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
        ])
        .args(["-C", "strip=symbols", "-C", "link-arg=-zstack-size=32768"])
        .args(["-C", "link-arg=--no-entry", "-o"])
        .arg(&out)
        .arg(format!("{name}.rs"))
        // The settings of a caller's own build would give other bytes.
        .env_remove("RUSTFLAGS")
        .current_dir(folder)
        .status()
        .context("run rustc")?;
    if !status.success() {
        bail!("{name}.rs does not build");
    }
    let bytes = std::fs::read(&out).context("read what rustc built");
    // A left-over in the folder of temporary files says nothing about the build.
    let _gone = std::fs::remove_file(&out);
    bytes
}

#[cfg(test)]
mod tests {
    use super::{ProgramBuild, run};

    /// Skipped, and said so, where the toolchain cannot build for wasm32.
    #[test]
    fn committed_programs_are_what_their_sources_give() {
        run(&crate::root(), ProgramBuild::Compare, false).expect("no drift");
    }
}
