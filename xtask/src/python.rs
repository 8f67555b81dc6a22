//! The Python that outside judges run in: environments under `target/`, of pinned packages.
//!
//! `xtask/python/` holds the scripts and one `requirements-NAME.txt` per environment. An environment is made at first
//! use, into `target/venv-NAME`, and again when its requirements change. What stands in `requirements-NAME-alone.txt` is
//! installed last and without what it asks for: a package whose stated bounds are narrower than what it runs with. Where
//! Python or a package cannot be had, [`or_skip`] says so in one line, and whether that is a failure is the caller's choice.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Oldest Python the pinned packages have wheels for: major and minor version.
const VERSION_MIN: [u32; 2] = [3, 11];

/// What a missing Python or package means to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Say so and go on: the check is not part of what was asked for.
    Skip,
    /// An error.
    Fail,
}

impl Missing {
    /// Takes `--require` out of the words of a command.
    pub fn take(words: &mut Vec<&str>) -> Self {
        let count = words.len();
        words.retain(|&word| word != "--require");
        if words.len() < count {
            Self::Fail
        } else {
            Self::Skip
        }
    }
}

/// The interpreter of one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    scripts: PathBuf,
    folder: PathBuf,
}

impl Python {
    /// The environment `name`, made now if it is not there or its requirements have changed.
    ///
    /// # Errors
    /// If there is no Python, it is too old, or a package cannot be installed.
    pub fn prepare(root: &Path, name: &str) -> Result<Self> {
        let scripts = root.join("xtask/python");
        let requirements = scripts.join(format!("requirements-{name}.txt"));
        let text = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("`{}` cannot be read", path.display()))
        };
        let alone = scripts.join(format!("requirements-{name}-alone.txt"));
        let mut wanted = text(&requirements)?;
        if alone.is_file() {
            wanted += &text(&alone)?;
        }
        let folder = root.join(format!("target/venv-{name}"));
        let installed = folder.join("requirements.txt");
        let python = Self { scripts, folder };
        if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
            return Ok(python);
        }
        create(&python.folder)?;
        python.install(&requirements, &[])?;
        if alone.is_file() {
            python.install(&alone, &["--no-deps"])?;
        }
        fs::write(&installed, wanted)
            .with_context(|| format!("`{}` cannot be written", installed.display()))?;
        Ok(python)
    }

    /// Installs the packages of a file.
    fn install(&self, requirements: &Path, options: &[&str]) -> Result<()> {
        let mut command = Command::new(self.tool("python"));
        command.args(["-m", "pip", "install", "--quiet"]);
        command.args(options).arg("--requirement").arg(requirements);
        run(&mut command)
            .with_context(|| format!("the packages of `{}` are missing", requirements.display()))
    }

    /// Runs a script of `xtask/python/`.
    ///
    /// # Errors
    /// If it cannot be started or fails.
    pub fn script<S: AsRef<OsStr>>(&self, script: &str, arguments: &[S]) -> Result<()> {
        let mut command = Command::new(self.tool("python"));
        command.arg(self.scripts.join(script)).args(arguments);
        // Scripts of one environment call each other's console tools by name.
        command.env("PATH", self.path(&[])?);
        run(&mut command).with_context(|| format!("the script {script} failed"))
    }

    /// Runs a script of `xtask/python/` and returns what it prints.
    ///
    /// # Errors
    /// If it cannot be started or fails.
    pub fn output<S: AsRef<OsStr>>(&self, script: &str, arguments: &[S]) -> Result<String> {
        let output = Command::new(self.tool("python"))
            .arg(self.scripts.join(script))
            .args(arguments)
            .stderr(std::process::Stdio::inherit())
            .output()
            .with_context(|| format!("the script {script} cannot be started"))?;
        ensure!(
            output.status.success(),
            "the script {script} ended with {}",
            output.status
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A module of this environment as a command, such as `pytest`.
    #[must_use]
    pub fn module(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.tool("python"));
        command.args(["-m", name]).args(arguments);
        command
    }

    /// A search path that finds this environment's tools first, then those of other folders, then all others.
    ///
    /// # Errors
    /// If a folder's name cannot be part of a search path.
    pub fn path(&self, others: &[&Path]) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let ours = std::iter::once(self.folder.join("bin"));
        let folders = ours
            .chain(others.iter().map(|folder| folder.to_path_buf()))
            .chain(std::env::split_paths(&path));
        std::env::join_paths(folders).context("a folder that cannot be in PATH")
    }

    fn tool(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }
}

/// The environment, or nothing after saying loudly why the check is skipped.
///
/// # Errors
/// What was missing, where that is a failure.
#[expect(clippy::print_stderr, reason = "this is a command line tool")]
pub fn or_skip(prepared: Result<Python>, what: &str, missing: Missing) -> Result<Option<Python>> {
    match (prepared, missing) {
        (Ok(python), _) => Ok(Some(python)),
        (Err(error), Missing::Fail) => Err(error.context(format!("{what} cannot run"))),
        (Err(error), Missing::Skip) => {
            eprintln!("SKIPPED: {what} DID NOT RUN ({error:#}); --require makes this an error");
            Ok(None)
        }
    }
}

fn create(folder: &Path) -> Result<()> {
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(*sys.version_info[:2])"])
        .output()
        .context("there is no python3")?;
    let printed = String::from_utf8_lossy(&asked.stdout).into_owned();
    let version = parse_version(&printed)?;
    ensure!(
        version >= VERSION_MIN,
        "python3 is {}.{}, the pinned packages need {}.{} or later",
        version[0],
        version[1],
        VERSION_MIN[0],
        VERSION_MIN[1]
    );
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .context("python3 cannot make an environment (is its venv module installed?)")
}

fn parse_version(printed: &str) -> Result<[u32; 2]> {
    let mut numbers = printed.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor)), None) => Ok([major, minor]),
        _ => bail!(
            "python3 does not state its version (it printed `{}`)",
            printed.trim()
        ),
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("`{program}` cannot be started"))?;
    ensure!(status.success(), "`{program}` ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version("3 11\n").ok(), Some([3, 11]));
        for text in ["", "3", "3 x", "3 11 7", "Python 3"] {
            assert!(parse_version(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn every_environment_pins_its_packages() {
        let root = crate::root();
        let mut files = 0;
        for entry in fs::read_dir(root.join("xtask/python")).expect("the folder is there") {
            let path = entry.expect("the folder can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("requirements-") {
                files += 1;
                let text = fs::read_to_string(&path).expect("a text file");
                for line in text.lines().filter(|line| !line.starts_with('#')) {
                    assert!(line.contains("=="), "{name}: `{line}` names no version");
                }
            }
        }
        assert!(files > 0);
    }

    #[test]
    fn a_missing_environment_is_skipped_or_fails_as_asked() {
        let missing = || Python::prepare(&crate::root(), "of-no-file");
        let skipped = or_skip(missing(), "a check", Missing::Skip);
        assert_eq!(skipped.ok(), Some(None));
        let failed = or_skip(missing(), "a check", Missing::Fail);
        let shown = failed.map_or_else(|error| format!("{error:#}"), |_| String::new());
        assert!(shown.contains("requirements-of-no-file.txt"), "{shown}");
        let mut words = vec!["--out", "d", "--require"];
        assert_eq!(Missing::take(&mut words), Missing::Fail);
        assert_eq!(Missing::take(&mut words), Missing::Skip);
        assert_eq!(words, ["--out", "d"]);
    }
}
