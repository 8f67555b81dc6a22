//! Statements about other validators that were asked for a file they stated to keep: that it was received from them, or that
//! it was not, although this validator tried for some time after that may be stated.

use std::collections::BTreeMap;

use tg_ledger::QuestionTask;
use tg_types::limits::STORAGE_STATEMENTS_MAX;
use tg_types::{DurationMs, StorageSubject, TimestampMs, Transaction};

use crate::fetch::AskedFindings;
use crate::limits::QUESTION_REPORTS_PER_TURN;

/// The part of the window of a question in which whoever is asked is tried in vain before that is stated: ten minutes of six hours.
const PATIENCE_PART: u64 = 36;

/// Since when it may be stated that others give nothing.
#[derive(Debug, Default)]
pub(crate) struct AskedSince(BTreeMap<StorageSubject, TimestampMs>);

impl AskedSince {
    /// The statements to send, in as few transactions as hold them: of a question that ended before one comes into a block the statement is passed
    /// over.
    pub(crate) fn reports(
        &mut self,
        tasks: &[QuestionTask],
        findings: &AskedFindings,
        (now, window): (TimestampMs, DurationMs),
    ) -> Vec<Transaction> {
        let is_late = |it: &&QuestionTask| it.is_late;
        let late = tasks.iter().filter(is_late).map(|it| it.subject);
        let since = late.map(|it| (it, self.0.get(&it).copied().unwrap_or(now)));
        self.0 = since.collect();
        let patience = DurationMs::new(window.get() / PATIENCE_PART);
        let said = tasks.iter().filter_map(|task| {
            let finding = findings.get(&task.subject)?;
            let since = self.0.get(&task.subject);
            let is_over = since.is_some_and(|it| now.saturating_since(*it) >= patience);
            let is_missing = is_over && finding.failed > 0;
            (finding.is_served || is_missing).then_some((task.subject, finding.is_served))
        });
        let said: Vec<(StorageSubject, bool)> = said
            .take(STORAGE_STATEMENTS_MAX * QUESTION_REPORTS_PER_TURN)
            .collect();
        let reports = said.chunks(STORAGE_STATEMENTS_MAX).map(|part| {
            let of = |wanted: bool| {
                let part = part.iter().filter(|(_, is_held)| *is_held == wanted);
                let mut subjects: Vec<_> = part.map(|(subject, _)| *subject).collect();
                subjects.sort_unstable();
                subjects
            };
            Transaction::ReportStorage {
                held: of(true),
                missing: of(false),
            }
        });
        reports.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::fetch::AskedFinding;
    use tg_types::{Digest, QuestionId};

    const WINDOW: DurationMs = DurationMs::new(3_600);

    fn task(is_late: bool) -> QuestionTask {
        QuestionTask {
            subject: QuestionId::new([1; 32]).into(),
            seat: [2; 32],
            digest: Digest::of_blob(b"file"),
            longest: 4,
            is_late,
        }
    }

    /// What is said at some times, of which each has what was found by then.
    fn check(found: &[(u64, bool, AskedFinding)], expected: &[Option<bool>]) {
        let mut since = AskedSince::default();
        for ((at, is_late, finding), expected) in found.iter().zip(expected) {
            let tasks = [task(*is_late)];
            let findings = AskedFindings::from([(tasks[0].subject, *finding)]);
            let said = since.reports(&tasks, &findings, (TimestampMs::new(*at), WINDOW));
            let said = said.first().map(|it| match it {
                Transaction::ReportStorage { held, missing } => {
                    assert_eq!(held.len() + missing.len(), 1);
                    held.len() == 1
                }
                other => panic!("{other:?}"),
            });
            assert_eq!(said, *expected, "{at}");
        }
    }

    #[test]
    fn missing_is_stated_only_when_it_may_be_and_was_tried_for_some_time() {
        let finding = |is_served, failed| AskedFinding { is_served, failed };
        check(&[(0, false, finding(true, 0))], &[Some(true)]);
        let none = finding(false, 0);
        let failed = finding(false, 1);
        check(
            &[
                (0, false, none),
                (5_000, false, failed),
                (6_000, true, none),
                (6_099, true, failed),
                (6_100, true, none),
                (6_100, true, failed),
                (7_000, true, finding(true, 1)),
            ],
            &[None, None, None, None, None, Some(false), Some(true)],
        );
        let mut since = AskedSince::default();
        assert!(
            since
                .reports(&[], &AskedFindings::new(), (TimestampMs::ZERO, WINDOW))
                .is_empty()
        );
    }
}
