//! What validators logged of their looks at an accusation: processor time of the thread that looked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::network::fleet::{Participant, VALIDATORS};

/// What makes validators log it.
pub(crate) const LOG: &str = "warn,tg_node::check=debug";

/// What stands in a log where its process was killed.
const KILLED: &str = "killed by the test";

/// The disputes that were looked at until now, by the model that they are about: the first look of a validator at one about a model reads the
/// model's file, and so does the first one after it is started again.
#[derive(Debug, Default)]
pub(crate) struct JudgedLeases(Mutex<BTreeMap<String, Vec<String>>>);

/// What looks at one accusation took, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JudgingTime {
    /// What each validator took that had the model ready, ascending.
    pub(crate) ready: Vec<f64>,
    /// Most that one took which read the model's file first.
    pub(crate) first: Option<f64>,
    /// How many validators came to an outcome.
    pub(crate) validators: usize,
}

impl JudgedLeases {
    /// A validator was killed, and is not started again yet.
    ///
    /// # Errors
    /// If its log cannot be written.
    pub(crate) fn note_kill(logs: &Path, validator: u8) -> Result<()> {
        let mut log = File::options().append(true).open(log_of(logs, validator))?;
        writeln!(log, "{KILLED}").context("write to a log")
    }

    /// What validators took that are not looking any more at the accusation of a lease of a model.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(crate) fn judged(&self, logs: &Path, lease: &str, model: &str) -> Result<JudgingTime> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.entry(model.to_owned()).or_default();
        let mut time = JudgingTime::default();
        for validator in 0..VALIDATORS {
            let log = log_of(logs, validator);
            let log =
                fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
            let Some((took, is_first)) = looks(&log, lease, before) else {
                continue;
            };
            time.validators += 1;
            match is_first {
                true => time.first = Some(time.first.unwrap_or(0.0).max(took)),
                false => time.ready.push(took),
            }
        }
        time.ready.sort_by(f64::total_cmp);
        before.push(lease.to_owned());
        Ok(time)
    }
}

impl JudgingTime {
    /// Most that one took which had the model ready.
    pub(crate) fn most(&self) -> Option<f64> {
        self.ready.last().copied()
    }
}

fn log_of(logs: &Path, validator: u8) -> PathBuf {
    logs.join(format!("{}.err", Participant::Validator(validator).name()))
}

/// Milliseconds of all looks of a log at the accusation of a lease, and whether they are the first at one of `before` or this one since the
/// process was started; nothing if none came to an outcome. A look for files that are not there yet counts too.
fn looks(log: &str, lease: &str, before: &[String]) -> Option<(f64, bool)> {
    let (mut is_ready, mut first) = (false, None);
    let mut microseconds = 0;
    for line in log.lines() {
        if line == KILLED {
            is_ready = false;
        }
        let Ok(told) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let fields = &told["fields"];
        let is_decided = fields["is_decided"].as_bool() == Some(true);
        let subject = fields["subject"].as_str().unwrap_or_default();
        let Some(accused) = subject.strip_prefix("accusation of lease ") else {
            continue;
        };
        let accused = accused.split(':').next().unwrap_or_default();
        if accused == lease {
            microseconds += fields["cpu_us"].as_u64().unwrap_or(0);
            if is_decided {
                first = first.or(Some(!is_ready));
            }
        }
        is_ready |= is_decided && (accused == lease || before.iter().any(|it| it == accused));
    }
    Some((microseconds as f64 / 1e3, first?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_count_and_those_at_others_do_not() {
        let line = |lease: &str, is_decided: bool, cpu_us: u64| {
            let subject = format!("accusation of lease {lease}: wrong run");
            let fields =
                serde_json::json!({"subject": subject, "is_decided": is_decided, "cpu_us": cpu_us});
            format!("{}\n", serde_json::json!({ "fields": fields }))
        };
        let vain = line("0x01", false, 200);
        assert_eq!(looks(&vain, "0x01", &[]), None);
        let right = line("0x01", true, 1_300);
        let log = format!("no JSON\n{vain}{right}{}", line("0x02", true, 9_000));
        assert_eq!(looks(&log, "0x01", &[]), Some((1.5, true)));
        assert_eq!(looks(&log, "0x03", &[]), None);
        // What is ready is that of one model, until its process is killed.
        let first = ["0x01".to_owned()];
        assert_eq!(looks(&log, "0x02", &first), Some((9.0, false)));
        assert_eq!(looks(&log, "0x02", &[]), Some((9.0, true)));
        let killed = format!("{right}{KILLED}\n{}", line("0x02", true, 9_000));
        assert_eq!(looks(&killed, "0x02", &first), Some((9.0, true)));
    }
}
