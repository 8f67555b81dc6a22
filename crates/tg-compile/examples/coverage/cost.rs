//! What a proof costs.

/// Processor time of a proof, and how far its answer is from the expected one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProofCost {
    /// The least of a few runs.
    pub(crate) cpu_ms: f64,
    /// Of the worst output, in decibels.
    pub(crate) snr_db: f64,
}

impl ProofCost {
    /// Of two proofs that are made one after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            cpu_ms: self.cpu_ms + other.cpu_ms,
            snr_db: self.snr_db.min(other.snr_db),
        }
    }
}

/// Processor time of all threads of this process so far, in milliseconds; 0 where it is not known.
pub(crate) fn cpu_ms() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    let of = |path: std::path::PathBuf| -> Option<f64> {
        let line = std::fs::read_to_string(path.join("schedstat")).ok()?;
        line.split_whitespace().next()?.parse().ok()
    };
    let nanoseconds = tasks.filter_map(|task| of(task.ok()?.path()));
    nanoseconds.sum::<f64>() / 1e6
}
