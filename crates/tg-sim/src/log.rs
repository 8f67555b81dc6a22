//! One line for each event, and the hash of all lines.

/// The log of a run. Its hash is the same for two runs that did the same.
#[derive(Debug)]
pub(crate) struct Log {
    hasher: blake3::Hasher,
    lines: Option<Vec<String>>,
}

impl Log {
    /// An empty log, which keeps its lines if they are to be shown.
    pub(crate) fn new(keeps_lines: bool) -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            lines: keeps_lines.then(Vec::new),
        }
    }

    /// Writes a line: milliseconds of the run, who, what.
    pub(crate) fn line(&mut self, at_ms: u64, who: &str, what: &str) {
        let line = format!("{at_ms:>8} {who:<12} {what}");
        self.hasher.update(line.as_bytes());
        self.hasher.update(b"\n");
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }

    /// The hash of all lines and of what else there is to tell two runs apart.
    pub(crate) fn hash(&self, other: &str) -> String {
        let mut hasher = self.hasher.clone();
        hasher.update(other.as_bytes());
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The lines, if they were kept.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}
