//! Processes that live as long as the run: what removes its hosts, and the switch.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};

use super::hosts::Spaces;

/// A process that ends when the run does: its input ends then, whether the run dropped it, failed or was killed. Ctrl-C
/// does not reach it.
#[derive(Debug)]
pub(crate) struct Helper(Child);

impl Helper {
    /// Starts one.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.process_group(0).stdin(Stdio::piped()).spawn();
        Ok(Self(child.with_context(|| format!("start {command:?}"))?))
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It says itself what it could not do.
        let _ = self.0.wait();
    }
}

/// Waits for the end of the run and removes its hosts, with all that runs on them.
///
/// # Errors
/// If something cannot be removed.
pub(crate) fn run(spaces: &Spaces) -> Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    spaces.remove()
}
