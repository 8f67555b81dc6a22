//! Timing and printing, for both benchmarks.

use std::path::{Path, PathBuf};
use std::time::Instant;
use tg_exec::kernels::{Cpu, SimdLevel};

/// What is asked for and how it is printed.
pub(crate) struct Report {
    filter: Option<String>,
    rows: bool,
    /// Folder of the graphs that `xtask/python/compare_ort.py --graphs` writes.
    graphs: Option<PathBuf>,
}

/// Seconds of one run.
#[derive(Clone, Copy)]
pub(crate) struct Time {
    wall: f64,
    cpu: f64,
}

/// Processor time of all threads of this process so far, in seconds.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .map(|task| {
            let path = task.unwrap().path().join("schedstat");
            let line = std::fs::read_to_string(path).unwrap_or_default();
            let nanoseconds = line.split_whitespace().next();
            nanoseconds.map_or(0.0, |ns| ns.parse::<f64>().unwrap() / 1e9)
        })
        .sum()
}

impl Report {
    /// The first word is a filter; `--rows` prints for programs; `--graphs=FOLDER` names graphs.
    pub(crate) fn from_arguments() -> Self {
        let words: Vec<String> = std::env::args().skip(1).collect();
        Self {
            filter: words.iter().find(|word| !word.starts_with('-')).cloned(),
            rows: words.iter().any(|word| word == "--rows"),
            graphs: words
                .iter()
                .find_map(|word| word.strip_prefix("--graphs="))
                .map(PathBuf::from),
        }
    }

    /// Folder of the graphs, if one is named.
    #[allow(dead_code, reason = "one of two benchmarks takes graphs")]
    pub(crate) fn graphs(&self) -> Option<&Path> {
        self.graphs.as_deref()
    }

    pub(crate) fn title(&self) {
        if !self.rows {
            println!(
                "{:48} {:>9} {:>9} {:>9} {:>9}",
                "case (threads)", "wall ms", "cpu ms", "GOP/cpu s", "x naive"
            );
        }
    }

    /// One thread at every level and two at the best; for programs only the best level.
    pub(crate) fn cpus(&self) -> Vec<Cpu> {
        let mut cpus: Vec<Cpu> = SimdLevel::available()
            .filter(|&level| !self.rows || level == SimdLevel::best())
            .map(|level| Cpu::with_level(level, 1).unwrap())
            .collect();
        cpus.push(Cpu::new(2));
        cpus
    }

    /// The name of a case at a level; programs know only the best one.
    pub(crate) fn name(&self, case: &str, level: SimdLevel) -> String {
        if self.rows {
            case.to_owned()
        } else {
            format!("{case} {level}")
        }
    }

    /// As [`Self::time`]; nothing for programs, which compare with something else.
    pub(crate) fn naive(&self, name: &str, run: impl FnMut()) -> Option<Time> {
        if self.rows {
            None
        } else {
            self.time(name, run)
        }
    }

    /// Runs for about 0.5 s, at least five times; median wall time, mean processor time. Nothing if filtered out.
    pub(crate) fn time(&self, name: &str, mut run: impl FnMut()) -> Option<Time> {
        let wanted = self
            .filter
            .as_ref()
            .is_none_or(|filter| name.contains(filter));
        if !wanted {
            return None;
        }
        run();
        let mut walls = Vec::new();
        let (start, cpu) = (Instant::now(), cpu_seconds());
        while walls.len() < 5 || start.elapsed().as_secs_f64() < 0.5 {
            let one = Instant::now();
            run();
            walls.push(one.elapsed().as_secs_f64());
        }
        let cpu = (cpu_seconds() - cpu) / walls.len() as f64;
        walls.sort_by(f64::total_cmp);
        Some(Time {
            wall: walls[walls.len() / 2],
            cpu,
        })
    }

    pub(crate) fn line(
        &self,
        name: &str,
        threads: usize,
        operations: f64,
        time: Time,
        naive: Option<Time>,
    ) {
        let Time { wall, cpu } = time;
        if self.rows {
            println!("{name}\t{threads}\t{:.6}\t{:.6}", wall * 1e3, cpu * 1e3);
            return;
        }
        let ratio = naive.map_or(String::new(), |naive| format!("{:.1}", naive.cpu / cpu));
        let title = format!("{name} ({threads})");
        println!(
            "{title:48} {:9.3} {:9.3} {:9.1} {ratio:>9}",
            wall * 1e3,
            cpu * 1e3,
            operations / cpu / 1e9
        );
    }
}
