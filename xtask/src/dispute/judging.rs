//! What validators logged of their looks at an accusation: processor time of the thread that looked.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::network::fleet::{Participant, VALIDATORS};

/// What makes validators log it.
pub(crate) const LOG: &str = "warn,tg_node::check=debug";

/// Which validators have looked at an accusation about which model since they were started: the first such look reads the model's file.
#[derive(Debug, Default)]
pub(crate) struct LoadedModels(Mutex<BTreeSet<(u8, String)>>);

/// What looks at one accusation took, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct JudgingTime {
    /// Most that one validator took which had the model ready.
    pub(crate) ready: Option<f64>,
    /// Most that one took which read the model's file first.
    pub(crate) first: Option<f64>,
    /// How many validators came to an outcome.
    pub(crate) validators: usize,
}

impl LoadedModels {
    /// A validator is started again.
    pub(crate) fn forget(&self, validator: u8) {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|it| it.0 != validator);
    }

    /// What validators took that are not looking any more at the accusation of a lease of a model.
    ///
    /// # Errors
    /// If a log cannot be read.
    pub(crate) fn judged(&self, logs: &Path, lease: &str, model: &str) -> Result<JudgingTime> {
        let mut loaded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut time = JudgingTime::default();
        for validator in 0..VALIDATORS {
            let name = format!("{}.err", Participant::Validator(validator).name());
            let log = fs::read_to_string(logs.join(&name));
            let log = log.with_context(|| format!("read the log {name}"))?;
            let Some(took) = looks(&log, lease) else {
                continue;
            };
            time.validators += 1;
            let is_first = loaded.insert((validator, model.to_owned()));
            let most = match is_first {
                true => &mut time.first,
                false => &mut time.ready,
            };
            *most = Some(most.unwrap_or(0.0).max(took));
        }
        Ok(time)
    }
}

/// Milliseconds of all looks of a log at the accusation of a lease; nothing if none came to an outcome. A look for files that are not there yet
/// counts too.
fn looks(log: &str, lease: &str) -> Option<f64> {
    let accusation = format!("accusation of lease {lease}");
    let lines = log.lines().filter(|line| line.contains(&accusation));
    let mut is_decided = false;
    let mut microseconds = 0;
    for line in lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let fields = &line["fields"];
        is_decided |= fields["is_decided"].as_bool() == Some(true);
        microseconds += fields["cpu_us"].as_u64().unwrap_or(0);
    }
    is_decided.then_some(microseconds as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_count_and_those_at_others_do_not() {
        let line = |lease: &str, is_decided: bool, cpu_us: u64| {
            let subject = format!("accusation of lease {lease}: wrong run");
            serde_json::json!({"fields": {"subject": subject, "is_decided": is_decided, "cpu_us": cpu_us}})
        };
        let vain = line("0x01", false, 200);
        assert_eq!(looks(&format!("{vain}\n"), "0x01"), None);
        let log = format!(
            "no JSON of accusation of lease 0x01\n{vain}\n{}\n{}\n",
            line("0x01", true, 1_300),
            line("0x02", true, 9_000)
        );
        assert_eq!(looks(&log, "0x01"), Some(1.5));
        assert_eq!(looks(&log, "0x03"), None);
    }
}
