//! Time and memory of this process.
#![allow(unsafe_code, reason = "the C library fills a record of the process")]

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// What something cost: milliseconds, of all threads but the first figure, and page faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    /// As a clock on the wall has it.
    pub wall_ms: f64,
    /// In this process and in the kernel for it.
    pub cpu_ms: f64,
    /// Of these, in the kernel.
    pub system_ms: f64,
    /// Pages that the kernel had to find.
    pub faults: f64,
}

/// A moment, in wall and CPU time of the whole process.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    wall: Instant,
    cpu_ms: f64,
    system_ms: f64,
    faults: f64,
}

impl Moment {
    /// This one.
    #[must_use]
    pub fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one process")]
        let cpu_ms = cpu.tv_sec as f64 * 1e3 + cpu.tv_nsec as f64 / 1e6;
        let (system_ms, faults) = kernel();
        Self {
            wall: Instant::now(),
            cpu_ms,
            system_ms,
            faults,
        }
    }

    /// What passed since.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.until(&Self::now())
    }

    /// What passed from this moment to a later one.
    pub fn until(&self, later: &Self) -> Cost {
        Cost {
            wall_ms: later.wall.duration_since(self.wall).as_secs_f64() * 1e3,
            cpu_ms: later.cpu_ms - self.cpu_ms,
            system_ms: later.system_ms - self.system_ms,
            faults: later.faults - self.faults,
        }
    }
}

/// Milliseconds in the kernel and page faults of this process so far.
///
/// Some kernels tell user from system time by what runs at ticks of a few milliseconds, so that only sums over many ticks
/// say something.
#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds and faults of one process"
)]
fn kernel() -> (f64, f64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the record is one that the call may fill, and zeros are a valid one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = usage.ru_stime;
    (
        time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3,
        (usage.ru_minflt + usage.ru_majflt) as f64,
    )
}

/// Lets the kernel forget the highest resident set so far (Linux; elsewhere the peak is unknown).
pub fn reset_peak_memory() {
    // What was freed before is not what comes.
    #[cfg(target_os = "linux")]
    crate::memory::MEMORY.release();
    // Where it is not allowed the peak covers earlier models too, which only overstates it.
    let _overstated = std::fs::write("/proc/self/clear_refs", "5");
}

/// The highest resident set since the last reset, in MiB.
pub fn peak_memory_mib() -> Option<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_memory_costs_page_faults() {
        let start = Moment::now();
        let pages = 1_000;
        let mut bytes = vec![0u8; pages * 4096];
        for page in bytes.chunks_mut(4096) {
            page[0] = 1;
        }
        let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
        let cost = start.cost();
        assert_eq!(sum, pages as u64);
        // A page of the kernel may be larger than the least one.
        assert!(cost.faults >= 1.0, "{cost:?}");
        assert!(cost.system_ms >= 0.0 && cost.cpu_ms > 0.0, "{cost:?}");
    }
}
