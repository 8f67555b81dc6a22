//! `cargo xtask processors`: the prover and the executor on processors other than this build's.
//!
//! Field arithmetic is vectorised when it is compiled: 16 elements at a time with AVX-512, 8 with AVX2, 4 with NEON, one on
//! plain x86-64. A build for each of these is made in a folder of its own below `target/processors`, and proves random
//! programs, compares the fractional sum with the library's and runs the executor's tests. What another instruction set's
//! build needs beside Rust is a C compiler for it and QEMU.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};

/// One kind of processor.
struct Processor {
    /// Its name, and that of its folder.
    name: &'static str,
    /// What `-C target-cpu` is.
    level: &'static str,
    /// The target, if it is another than this machine's.
    target: Option<Foreign>,
}

/// A target that runs in an emulator here.
struct Foreign {
    triple: &'static str,
    /// Variables beside the compiler's flags.
    environment: &'static [(&'static str, &'static str)],
    /// Programs that must be there.
    needs: &'static [&'static str],
}

const X86: &[Processor] = &[
    Processor {
        name: "x86-64",
        level: "x86-64",
        target: None,
    },
    Processor {
        name: "x86-64-v3",
        level: "x86-64-v3",
        target: None,
    },
    Processor {
        name: "aarch64",
        level: "generic",
        target: Some(Foreign {
            triple: "aarch64-unknown-linux-gnu",
            environment: &[
                (
                    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
                    "aarch64-linux-gnu-gcc",
                ),
                (
                    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
                    "qemu-aarch64-static -L /usr/aarch64-linux-gnu",
                ),
            ],
            needs: &["aarch64-linux-gnu-gcc", "qemu-aarch64-static"],
        }),
    },
];

/// What is run: the crate, which of its tests, and filters of them. Of floats and programs what every processor must give the same, as results
/// are paid or lost by it.
const TESTS: &[(&str, &[&str], &[&str])] = &[
    ("tg-exec", &["--lib"], &["kernels", "engine"]),
    (
        "tg-float",
        &["--lib"],
        &["tgf", "kernels", "trace", "pinned"],
    ),
    ("tg-wasm", &["--test", "it"], &["pinned", "random"]),
    (
        "tg-prover",
        &["--lib"],
        &["fractional", "honest", "zk::an_honest"],
    ),
];

/// Builds and tests for each processor. Without what a foreign one needs it is skipped, unless `require` makes that an error.
///
/// # Errors
/// If a build or a test fails.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn run(root: &Path, require: bool) -> Result<()> {
    let processors = if cfg!(target_arch = "x86_64") {
        X86
    } else {
        &[]
    };
    ensure!(
        !processors.is_empty(),
        "the list of processors is for x86-64 machines; here `cargo test --workspace` tests this one"
    );
    for processor in processors {
        if let Some(missing) = processor.missing(root) {
            let name = processor.name;
            if require {
                bail!("{name} needs {missing}");
            }
            eprintln!(
                "SKIPPED: NOT TESTED ON {name}, which needs {missing}; --require makes this an error"
            );
            continue;
        }
        processor.test(root)?;
    }
    Ok(())
}

impl Processor {
    /// What is not there and must be.
    fn missing(&self, root: &Path) -> Option<String> {
        let foreign = self.target.as_ref()?;
        let there = |program: &&&str| Command::new(program).arg("--version").output().is_ok();
        if let Some(program) = foreign.needs.iter().find(|program| !there(program)) {
            return Some(format!(
                "{program} (Debian: apt-get install gcc-aarch64-linux-gnu qemu-user-static)"
            ));
        }
        let triple = foreign.triple;
        (!crate::sdk::has_target(root, triple)).then(|| format!("rustup target add {triple}"))
    }

    #[expect(clippy::print_stderr, reason = "this is a command line tool")]
    fn test(&self, root: &Path) -> Result<()> {
        for (package, target, filters) in TESTS {
            eprintln!("== {}: {package}", self.name);
            let mut cargo = Command::new("cargo");
            cargo
                .current_dir(root)
                .args(["test", "--locked", "-p", package])
                .args(*target)
                .env("RUSTFLAGS", format!("-Ctarget-cpu={}", self.level))
                .env(
                    "CARGO_TARGET_DIR",
                    root.join("target/processors").join(self.name),
                );
            if let Some(foreign) = &self.target {
                cargo.args(["--target", foreign.triple]);
                cargo.envs(foreign.environment.iter().copied());
            }
            let status = cargo.arg("--").args(*filters).status()?;
            ensure!(status.success(), "{package} fails on {}", self.name);
        }
        Ok(())
    }
}
