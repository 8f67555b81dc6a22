//! What the demo shows while jobs run: one line per job, redrawn on a terminal, or one line per change elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

use tg_sdk::dto::{JobDto, JobStateDto, LeaseDto};

use tg_console::outcome::say;
use tg_console::table;

/// The states of an honest run, for the bar.
const STEPS: [JobStateDto; 7] = [
    JobStateDto::Queued,
    JobStateDto::Leased,
    JobStateDto::Running,
    JobStateDto::Committed,
    JobStateDto::Verifying,
    JobStateDto::Accepted,
    JobStateDto::Paid,
];

/// The lines of all jobs.
#[derive(Debug)]
pub(crate) struct Screen {
    lines: Vec<String>,
    steps_shown: Vec<usize>,
    drawn: bool,
    redraws: bool,
    started: Instant,
}

impl Screen {
    /// A screen for so many jobs.
    pub(crate) fn new(jobs: usize) -> Self {
        Self {
            lines: vec![String::new(); jobs],
            steps_shown: vec![0; jobs],
            drawn: false,
            redraws: stderr().is_terminal(),
            started: Instant::now(),
        }
    }

    /// Shows a job's new view. `names` gives a lease's provider its name.
    pub(crate) fn show(&mut self, index: usize, job: &JobDto, names: &dyn Fn(&LeaseDto) -> String) {
        if !self.redraws {
            let seconds = self.started.elapsed().as_secs_f64();
            for at in self.steps_shown[index]..job.history.len() {
                let text = format!(
                    "{seconds:5.1} s  job {:>2}  {:<10} {}",
                    index + 1,
                    job.history[at].state.to_string(),
                    whose(job, at, names)
                );
                say(text.trim_end());
            }
            self.steps_shown[index] = job.history.len();
            return;
        }
        let reached = STEPS
            .iter()
            .position(|&state| state == job.state)
            .map_or(0, |step| step + 1);
        let bar: String = (0..STEPS.len())
            .map(|step| if step < reached { '#' } else { '.' })
            .collect();
        let leases = job.leases.iter().filter(|it| it.lead.is_none());
        let retries = leases.count().saturating_sub(1);
        let again = if retries > 0 {
            format!("  lease {} after a rejection", retries + 1)
        } else {
            String::new()
        };
        self.lines[index] = format!(
            "  job {:>2} {} [{bar}] {:<10} {}{again}",
            index + 1,
            table::brief(job.id),
            job.state.to_string(),
            job.leases.last().map(names).unwrap_or_default()
        );
        self.draw();
    }

    fn draw(&mut self) {
        let mut stream = stderr().lock();
        let up = if self.drawn {
            format!("\x1b[{}A", self.lines.len())
        } else {
            String::new()
        };
        let text: String = self
            .lines
            .iter()
            .map(|line| format!("\x1b[2K{line}\n"))
            .collect();
        // A closed error stream is nobody to show anything to.
        let _closed = write!(stream, "{up}{text}");
        self.drawn = true;
    }
}

/// Whose step of a job's history this is: nobody's before the first lease, then the provider's of the lease that it belongs to. A
/// job that waits again says how that lease ended.
fn whose(job: &JobDto, at: usize, names: &dyn Fn(&LeaseDto) -> String) -> String {
    let steps = &job.history[..=at];
    let leased = steps
        .iter()
        .filter(|step| step.state == JobStateDto::Leased)
        .count();
    let mut leases = job.leases.iter().filter(|it| it.lead.is_none());
    let lease = leased.checked_sub(1).and_then(|index| leases.nth(index));
    match lease {
        None => String::new(),
        Some(lease) if steps[at].state == JobStateDto::Queued => {
            let end = lease.end_text.as_deref().unwrap_or("did not end it");
            format!("again; {}: {end}", names(lease))
        }
        Some(lease) => names(lease),
    }
}

/// Digits side by side, each 8 rows of 8 grey levels (0 to 16), with a caption below.
pub(crate) fn gallery(digits: &[([u8; 64], Vec<String>)]) -> String {
    const SHADES: [&str; 5] = ["  ", "░░", "▒▒", "▓▓", "██"];
    let mut text = String::new();
    for row in 0..8 {
        for (levels, _) in digits {
            text.push_str("  ");
            for level in &levels[row * 8..row * 8 + 8] {
                text.push_str(SHADES[usize::from(*level).div_ceil(4).min(4)]);
            }
        }
        text.push('\n');
    }
    let captions = digits
        .iter()
        .map(|(_, lines)| lines.len())
        .max()
        .unwrap_or(0);
    for line in 0..captions {
        for (_, lines) in digits {
            text.push_str(&format!(
                "  {:<16}",
                lines.get(line).map_or("", String::as_str)
            ));
        }
        text.push('\n');
    }
    text
}
