//! Processor time of checks, for the log only: no decision depends on it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time that this thread has taken so far.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(time.tv_sec.unsigned_abs(), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_waiting_takes_none() {
        let before = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(60));
        let waited = thread_cpu_time().saturating_sub(before);
        assert!(waited < Duration::from_millis(30), "{waited:?}");
        let numbers = (0..20_000_000_u64).fold(0, |sum, it| std::hint::black_box(sum ^ it));
        let worked = thread_cpu_time().saturating_sub(before);
        assert!(worked > 2 * waited, "{worked:?} for {numbers}");
    }
}
