//! Time and memory of this process.

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// Wall and CPU milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) wall_ms: f64,
    pub(crate) cpu_ms: f64,
}

impl Cost {
    /// Wall and CPU milliseconds.
    pub(crate) const fn times(&self) -> [f64; 2] {
        [self.wall_ms, self.cpu_ms]
    }
}

/// A moment, in wall and CPU time of the whole process.
pub(crate) struct Moment(Instant, f64);

impl Moment {
    pub(crate) fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one process")]
        let cpu_ms = cpu.tv_sec as f64 * 1e3 + cpu.tv_nsec as f64 / 1e6;
        Self(Instant::now(), cpu_ms)
    }

    pub(crate) fn cost(&self) -> Cost {
        self.until(&Self::now())
    }

    /// What passed from this moment to a later one.
    pub(crate) fn until(&self, later: &Self) -> Cost {
        Cost {
            wall_ms: later.0.duration_since(self.0).as_secs_f64() * 1e3,
            cpu_ms: later.1 - self.1,
        }
    }
}

/// Lets the kernel forget the highest resident set so far (Linux; elsewhere the peak is unknown).
pub(crate) fn reset_peak_memory() {
    // What was freed before is not what comes.
    #[cfg(target_os = "linux")]
    crate::memory::MEMORY.release();
    // Where it is not allowed the peak covers earlier models too, which only overstates it.
    let _overstated = std::fs::write("/proc/self/clear_refs", "5");
}

/// The highest resident set since the last reset, in MiB.
pub(crate) fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<f64>()
        .ok()
        .map(|kib| kib / 1024.0)
}
