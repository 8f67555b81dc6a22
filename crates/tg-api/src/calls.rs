//! Calls that were answered, for the metrics: how many by lane and class of status, and how long they took.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper ends of the buckets of durations, in seconds.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// Counters of answered calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// By the first digit of the status.
    by_class: [AtomicU64; 6],
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Calls {
    /// Counts a call whose answer began after so long.
    pub(crate) fn count(&self, status: u16, took: Duration) {
        let class = usize::from(status / 100).min(5);
        self.by_class[class].fetch_add(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            if took.as_secs_f64() <= end {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Appends the counters in Prometheus' text format.
    pub(crate) fn write(&self, text: &mut String) {
        let name = "tensorgrid_api_calls_total";
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP {name} Calls by class of status.\n# TYPE {name} counter"
        );
        for (class, count) in self.by_class.iter().enumerate().skip(1) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{class=\"{class}xx\"}} {count}");
        }
        let name = "tensorgrid_api_call_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} Time until an answer begins.\n# TYPE {name} histogram"
        );
        for (bucket, end) in self.buckets.iter().zip(BUCKETS) {
            let count = bucket.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{end}\"}} {count}");
        }
        let count = self.count.load(Ordering::Relaxed);
        let seconds = self.micros.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum {seconds}\n{name}_count {count}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_class_and_time() {
        let calls = Calls::default();
        calls.count(200, Duration::from_millis(3));
        calls.count(404, Duration::from_secs(200));
        let mut text = String::new();
        calls.write(&mut text);
        for line in [
            "tensorgrid_api_calls_total{class=\"2xx\"} 1",
            "tensorgrid_api_calls_total{class=\"4xx\"} 1",
            "tensorgrid_api_call_seconds_bucket{le=\"0.001\"} 0",
            "tensorgrid_api_call_seconds_bucket{le=\"0.005\"} 1",
            "tensorgrid_api_call_seconds_bucket{le=\"120\"} 1",
            "tensorgrid_api_call_seconds_bucket{le=\"+Inf\"} 2",
            "tensorgrid_api_call_seconds_count 2",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
