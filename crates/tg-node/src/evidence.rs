//! The queue of evidence checks: which are due, which run, and their outcomes.
//!
//! A validator learns from the ledger which evidence waits for a verdict, checks it itself on a blocking thread, and
//! remembers the outcome. As a proposer it puts finished outcomes into its block; as a voter it compares the block's
//! verdicts with its own and waits while one is still being checked. The [`EvidenceChecker`] is deterministic in the
//! bytes of the blobs, so that honest validators agree.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tg_types::{Digest, DurationMs, Tier, TimestampMs, VerificationMode, Vote};

use crate::blob::BlobStore;
use tg_ledger::{Evidence, EvidenceTask, Outcome, SampleTask, Subject, Verdict};

/// Checks that run at once in one validator, so that verification cannot starve consensus of cores.
pub(crate) const CHECKS_RUNNING_MAX: usize = 2;

/// Checks of these that are of models: results must not wait behind them.
const MODELS_RUNNING_MAX: usize = 1;

/// Checks of these that run a program: they take up to 3 s each, and proofs must not wait behind them.
const PROGRAMS_RUNNING_MAX: usize = 1;

/// Time after which a check is tried again when a blob was missing or could not be read.
const RETRY: DurationMs = DurationMs::new(250);

/// Doublings of that for a check that failed before: 2 s, as a blob may come late.
const RETRY_DOUBLINGS_MAX: u32 = 3;

/// Outcomes that no block asked for during this many heights are forgotten.
const KEPT_HEIGHTS: u64 = 256;

/// Decides on evidence.
pub trait EvidenceChecker: std::fmt::Debug + Send + Sync + 'static {
    /// The outcome that the blobs of `task` prove. Deterministic in their bytes: no clock, no randomness, no network.
    ///
    /// # Errors
    /// [`CheckError`] if the check cannot be done now; it is tried again, and no verdict is given meanwhile.
    fn check(&self, task: &EvidenceTask, blobs: &BlobStore) -> Result<Outcome, CheckError>;

    /// What a member of a committee finds when it computes drawn tiles again. Deterministic like [`Self::check`].
    ///
    /// # Errors
    /// [`CheckError`] if it cannot be done now.
    fn vote(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Vote, CheckError>;

    /// Stores what a right run gives, of whoever accused a result whose dispute ends at one tile. Deterministic like [`Self::check`].
    ///
    /// # Errors
    /// [`CheckError`] if it cannot be done now.
    fn claim(&self, task: &SampleTask, blobs: &BlobStore) -> Result<Evidence, CheckError>;
}

/// Why a check cannot be done now.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// A blob is not here (yet).
    #[error("blob {digest} is missing")]
    Missing {
        /// Its name.
        digest: Digest,
    },
    /// A blob is here and could not be read.
    #[error("read a blob of the evidence")]
    Blob(#[from] crate::blob::BlobError),
    /// It is not found by a check of files.
    #[error("it is not found by a check of files")]
    NotHere,
    /// This machine has too little memory to run a program again.
    #[error("too little memory to run the program")]
    NoMemory,
    /// The checker failed in a way that must not happen.
    #[error("the checker panicked")]
    Panicked,
}

/// Verdicts on models in a block whose other places are wanted for results: whoever registers many models must not have the time of results run
/// out, which costs providers what they put up.
const MODELS_AT_LEAST: usize = 2;

/// At most `limit` of these tasks: those about models last, but some of them.
fn models_last(tasks: Vec<&EvidenceTask>, limit: usize) -> Vec<&EvidenceTask> {
    let (models, mut chosen): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|it| is_model(it));
    chosen.truncate(limit - models.len().min(MODELS_AT_LEAST).min(limit));
    chosen.extend(models);
    chosen.truncate(limit);
    chosen
}

/// How many checks more of the kinds may begin of which few run at once.
#[derive(Debug, Clone, Copy)]
struct CheckRoom {
    programs: usize,
    models: usize,
}

impl CheckRoom {
    fn has(self, task: &EvidenceTask) -> bool {
        (!runs_program(task) || self.programs > 0) && (!is_model(task) || self.models > 0)
    }

    /// One that there is room for begins.
    fn take(&mut self, task: &EvidenceTask) {
        self.programs -= usize::from(runs_program(task));
        self.models -= usize::from(is_model(task));
    }
}

/// What a verdict is about: the subject and the evidence shown for it.
pub(crate) type Key = (Subject, Digest);

#[derive(Debug)]
enum Progress {
    Waiting {
        not_before: TimestampMs,
    },
    Running {
        since: TimestampMs,
    },
    Done {
        outcome: Outcome,
        /// From when on this validator proposes the outcome.
        shown_from: TimestampMs,
    },
}

#[derive(Debug)]
struct Case {
    task: EvidenceTask,
    progress: Progress,
    /// The height at which it was asked for first, and last.
    came_at: u64,
    seen_at: u64,
    /// Checks that could not be done.
    failures: u32,
    proposed: Attempts,
}

/// What became of this validator's blocks with the outcome of a case.
///
/// Validators that find different things of one case vote against each other's blocks. If so many differ that nobody has enough votes, a
/// chain whose proposers all insist would stand still, for one case. So an outcome whose block was not finalised is left out of
/// the next blocks, twice as many each time, and then proposed alone, so that one bad outcome does not delay the others.
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    /// On a block of which height it was proposed last.
    on: Option<u64>,
    failures: u32,
    /// It is left out of blocks on blocks of lower heights.
    again_on: u64,
}

/// Blocks for which an outcome is left out at most, as a power of two.
const LEFT_OUT_MAX: u32 = 6;

impl Attempts {
    const fn is_left_out(&self, on: u64) -> bool {
        on < self.again_on
    }

    /// Whether it goes into a block on a block of this height.
    fn goes_on(&mut self, on: u64) -> bool {
        if self.is_left_out(on) {
            return false;
        }
        if self.on == Some(on) {
            self.failures = (self.failures + 1).min(LEFT_OUT_MAX);
            self.again_on = on + (1 << self.failures);
            return false;
        }
        self.on = Some(on);
        true
    }
}

/// The open and recent cases of one validator. Pure: it says what to run and is told what came out.
#[derive(Debug, Default)]
pub(crate) struct EvidenceQueue {
    cases: BTreeMap<Key, Case>,
    running: BTreeSet<Key>,
}

impl EvidenceQueue {
    /// Notes what the ledger wants checked after the block at `height`.
    pub(crate) fn expect(&mut self, tasks: impl IntoIterator<Item = EvidenceTask>, height: u64) {
        // A seed is signed, not checked: it is learnt.
        let checked = |task: &EvidenceTask| !matches!(task, EvidenceTask::Seed { .. });
        for task in tasks.into_iter().filter(checked) {
            let fresh = |task| Case {
                task,
                progress: Progress::Waiting {
                    not_before: TimestampMs::ZERO,
                },
                came_at: height,
                seen_at: height,
                failures: 0,
                proposed: Attempts::default(),
            };
            match self.cases.entry(key_of(&task)) {
                Entry::Vacant(entry) => {
                    entry.insert(fresh(task));
                }
                // Stops: an outcome that is about something else than what is asked now, whatever their names have in common.
                Entry::Occupied(mut entry) if entry.get().task != task => {
                    entry.insert(fresh(task));
                }
                Entry::Occupied(mut entry) => {
                    let case = entry.get_mut();
                    case.seen_at = case.seen_at.max(height);
                }
            }
        }
    }

    /// Notes the outcome of a case that no check decides.
    pub(crate) fn learn(&mut self, task: EvidenceTask, outcome: Outcome, height: u64) {
        self.cases.insert(
            key_of(&task),
            Case {
                task,
                progress: Progress::Done {
                    outcome,
                    shown_from: TimestampMs::ZERO,
                },
                came_at: height,
                seen_at: height,
                failures: 0,
                proposed: Attempts::default(),
            },
        );
    }

    /// Cases to start now; they count as running until [`Self::finished`] or [`Self::failed`].
    pub(crate) fn start(&mut self, now: TimestampMs) -> Vec<EvidenceTask> {
        let mut started = Vec::new();
        let mut room = self.room();
        // Whatever failed is behind what was not tried yet, and what came first goes first.
        // Stops: checks that always fail, or many that take long, and keep those of other names out.
        let waiting = self
            .cases
            .iter()
            .filter_map(|(key, case)| match case.progress {
                Progress::Waiting { not_before } if not_before <= now => {
                    Some((not_before, case.came_at, *key))
                }
                Progress::Waiting { .. } | Progress::Running { .. } | Progress::Done { .. } => None,
            });
        let mut waiting: Vec<(TimestampMs, u64, Key)> = waiting.collect();
        waiting.sort_unstable();
        for (_, _, key) in waiting {
            if self.running.len() == CHECKS_RUNNING_MAX {
                break;
            }
            let case = self.cases.get_mut(&key).filter(|it| room.has(&it.task));
            if let Some(case) = case {
                room.take(&case.task);
                case.progress = Progress::Running { since: now };
                self.running.insert(key);
                started.push(case.task.clone());
            }
        }
        started
    }

    /// The kinds of checks that may start now, and how many.
    fn room(&self) -> CheckRoom {
        CheckRoom {
            programs: PROGRAMS_RUNNING_MAX.saturating_sub(self.running(runs_program)),
            models: MODELS_RUNNING_MAX.saturating_sub(self.running(is_model)),
        }
    }

    /// How many checks of a kind run.
    fn running(&self, is_one: fn(&EvidenceTask) -> bool) -> usize {
        let running = self.running.iter().filter_map(|key| self.cases.get(key));
        running.filter(|case| is_one(&case.task)).count()
    }

    /// A check came to an outcome.
    pub(crate) fn finished(&mut self, task: &EvidenceTask, outcome: Outcome, now: TimestampMs) {
        let running = self.cases.get(&key_of(task)).map(|case| &case.progress);
        // Stops: a program that takes seconds, whose verdict the fastest validator proposes while the others still run it: their
        // votes would wait for it, and views end without a block.
        let took = match running {
            Some(Progress::Running { since }) if runs_program(task) => now.saturating_since(*since),
            _ => DurationMs::ZERO,
        };
        let shown_from = now.saturating_add(took);
        self.end(
            task,
            Progress::Done {
                outcome,
                shown_from,
            },
        );
    }

    /// A check could not be done; it is due again later.
    pub(crate) fn failed(&mut self, task: &EvidenceTask, now: TimestampMs) {
        let failures = match self.cases.get_mut(&key_of(task)) {
            Some(case) => {
                case.failures = case.failures.saturating_add(1);
                case.failures - 1
            }
            None => 0,
        };
        let wait = DurationMs::new(RETRY.get() << failures.min(RETRY_DOUBLINGS_MAX));
        let not_before = now.saturating_add(wait);
        self.end(task, Progress::Waiting { not_before });
    }

    /// Forgets when failed checks were to be tried again: the clock was set.
    pub(crate) fn retry_now(&mut self) {
        for case in self.cases.values_mut() {
            if let Progress::Waiting { not_before } = &mut case.progress {
                *not_before = TimestampMs::ZERO;
            }
        }
    }

    fn end(&mut self, task: &EvidenceTask, progress: Progress) {
        let key = key_of(task);
        self.running.remove(&key);
        // What was found of a task that is not asked any more is none of the one in its place.
        if let Some(case) = self.cases.get_mut(&key).filter(|it| it.task == *task) {
            case.progress = progress;
        }
    }

    /// The outcome of this validator's own check, if it is finished.
    pub(crate) fn outcome(&self, subject: &Subject, evidence: &Digest) -> Option<&Outcome> {
        match &self.cases.get(&(*subject, *evidence))?.progress {
            Progress::Done { outcome, .. } => Some(outcome),
            Progress::Waiting { .. } | Progress::Running { .. } => None,
        }
    }

    /// Verdicts on at most `limit` of these tasks for a block on one of height `on`, of those whose check is finished; of a program not before
    /// it is finished for as long again as it took; not those that are left out after they failed.
    pub(crate) fn propose(
        &mut self,
        tasks: impl IntoIterator<Item = EvidenceTask>,
        limit: usize,
        (on, now): (u64, TimestampMs),
    ) -> Vec<Verdict> {
        let is_due = |task: &EvidenceTask, failed: bool| {
            let case = self.cases.get(&key_of(task));
            case.is_some_and(|it| {
                let has_failed = it.proposed.failures > 0;
                it.shown(now).is_some() && !it.proposed.is_left_out(on) && has_failed == failed
            })
        };
        let tasks: Vec<EvidenceTask> = tasks.into_iter().collect();
        let failed: Vec<&EvidenceTask> = tasks.iter().filter(|it| is_due(it, true)).collect();
        let fresh: Vec<&EvidenceTask> = tasks.iter().filter(|it| is_due(it, false)).collect();
        // In turns, if there are both, and each of those that failed in turn.
        let turn = usize::try_from(on / 2).unwrap_or_default() % failed.len().max(1);
        let alone = failed.get(turn).filter(|_| fresh.is_empty() || on % 2 == 0);
        let chosen = match alone {
            Some(task) => vec![*task],
            None => models_last(fresh, limit),
        };
        let mut verdicts = Vec::new();
        for task in chosen {
            let Some(case) = self.cases.get_mut(&key_of(task)) else {
                continue;
            };
            if let (Some(outcome), true) = (case.shown(now).cloned(), case.proposed.goes_on(on)) {
                verdicts.push(task.verdict(outcome));
            }
            if verdicts.len() == limit {
                break;
            }
        }
        verdicts
    }

    /// Whether [`Self::propose`] would give a verdict.
    pub(crate) fn has_verdict(
        &self,
        tasks: impl IntoIterator<Item = EvidenceTask>,
        (on, now): (u64, TimestampMs),
    ) -> bool {
        let found = |task: EvidenceTask| {
            let case = self.cases.get(&key_of(&task));
            case.is_some_and(|it| it.shown(now).is_some() && !it.proposed.is_left_out(on))
        };
        tasks.into_iter().any(found)
    }

    /// When the next waiting case is due, if any waits.
    pub(crate) fn next_due(&self) -> Option<TimestampMs> {
        if self.running.len() == CHECKS_RUNNING_MAX {
            return None;
        }
        let room = self.room();
        let waiting = self.cases.values();
        waiting
            .filter(|case| room.has(&case.task))
            .filter_map(|case| match case.progress {
                Progress::Waiting { not_before } => Some(not_before),
                Progress::Running { .. } | Progress::Done { .. } => None,
            })
            .min()
    }

    /// Forgets cases that no state asked for since long before `height`.
    pub(crate) fn prune(&mut self, height: u64) {
        let running = &self.running;
        self.cases
            .retain(|key, case| case.seen_at + KEPT_HEIGHTS > height || running.contains(key));
    }
}

impl Case {
    /// The outcome, once it may be proposed.
    fn shown(&self, now: TimestampMs) -> Option<&Outcome> {
        match &self.progress {
            Progress::Done {
                outcome,
                shown_from,
            } if *shown_from <= now => Some(outcome),
            Progress::Waiting { .. } | Progress::Running { .. } | Progress::Done { .. } => None,
        }
    }
}

/// Whether a check runs a program or a model again.
const fn is_model(task: &EvidenceTask) -> bool {
    matches!(task, EvidenceTask::Model { .. })
}

fn runs_program(task: &EvidenceTask) -> bool {
    match task {
        EvidenceTask::Lease { mode, .. } => *mode == VerificationMode::Recompute,
        EvidenceTask::Replicas { .. } => true,
        // A section of a float run or of a program's may be all of it.
        EvidenceTask::Accusation { vote, sample } => {
            *vote == Vote::WrongRun || sample.receipt.tier != Tier::Tgx1
        }
        EvidenceTask::Model { .. }
        | EvidenceTask::SeedKey { .. }
        | EvidenceTask::Seed { .. }
        | EvidenceTask::Grant(_) => false,
    }
}

fn key_of(task: &EvidenceTask) -> Key {
    (task.subject(), task.evidence())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tg_types::{Label, ModelId};

    const NOW: TimestampMs = TimestampMs::new(1_000);

    fn task(byte: u8) -> EvidenceTask {
        EvidenceTask::Model {
            model: ModelId::new([1; 32]),
            public_blob: Digest::new([byte; 32]),
        }
    }

    fn refused() -> Outcome {
        Outcome::Rejected {
            code: 82,
            check: Label::lossy("public model"),
        }
    }

    fn found(queue: &mut EvidenceQueue, task: &EvidenceTask) {
        queue.expect([task.clone()], 1);
        assert_eq!(queue.start(NOW), std::slice::from_ref(task));
        queue.finished(task, refused(), NOW);
    }

    #[test]
    fn an_outcome_that_others_do_not_find_does_not_stop_the_chain() {
        let mut queue = EvidenceQueue::default();
        let task = task(7);
        found(&mut queue, &task);
        let mut proposes = |on: u64| {
            let has = queue.has_verdict([task.clone()], (on, NOW));
            let given = queue.propose([task.clone()], 8, (on, NOW));
            (has, given.len())
        };
        // On each block it is proposed once; where that became nothing it is left out, the first time of the blocks on two.
        assert_eq!(proposes(10), (true, 1));
        assert_eq!(proposes(10), (true, 0));
        assert_eq!(proposes(11), (false, 0));
        assert_eq!(proposes(12), (true, 1));
        assert_eq!(proposes(12), (true, 0));
        assert!((13..16).all(|on| proposes(on) == (false, 0)));
        assert_eq!(proposes(16), (true, 1));
        // A block of another one was the next: nothing failed.
        assert_eq!(proposes(17), (true, 1));
    }

    #[test]
    fn what_was_beside_an_outcome_that_failed_goes_on_without_it() {
        let mut queue = EvidenceQueue::default();
        let tasks = [task(7), task(8), task(9)];
        tasks.iter().for_each(|task| found(&mut queue, task));
        let mut propose = |on: u64| {
            let given = queue.propose(tasks.clone(), 8, (on, NOW));
            let evidence = given.iter().map(|it| it.evidence.as_bytes()[0]);
            evidence.collect::<Vec<u8>>()
        };
        assert_eq!(propose(10), [7, 8, 9]);
        assert_eq!(propose(10), Vec::<u8>::new());
        // The one that others do not find fails alone; the next one has its turn.
        assert_eq!(propose(12), [7]);
        assert_eq!(propose(12), Vec::<u8>::new());
        assert_eq!(propose(12), [8]);
    }

    #[test]
    fn what_was_found_of_one_task_is_nothing_of_another_of_the_same_name() {
        let mut queue = EvidenceQueue::default();
        let accusation = |size: u32| EvidenceTask::Accusation {
            vote: Vote::WrongForm,
            sample: sample(size),
        };
        let (first, second) = (accusation(1), accusation(2));
        assert_eq!(key_of(&first), key_of(&second));
        queue.expect([first.clone()], 1);
        assert_eq!(queue.start(NOW), std::slice::from_ref(&first));
        queue.expect([second.clone()], 2);
        // The check of the first one ends while the second is asked.
        queue.finished(&first, Outcome::Refuted, NOW);
        assert_eq!(queue.outcome(&second.subject(), &second.evidence()), None);
        assert_eq!(queue.start(NOW), [second]);
    }

    /// Stops: many models whose checks keep those of results out, and a validator that looks without a pause whether one may begin.
    #[test]
    fn models_leave_room_for_results_and_wait_without_being_looked_at() {
        let mut queue = EvidenceQueue::default();
        let models: Vec<EvidenceTask> = (1..30).map(task).collect();
        assert!(models.iter().all(is_model));
        queue.expect(models.clone(), 1);
        let first = queue.start(NOW);
        assert_eq!(first.len(), MODELS_RUNNING_MAX);
        assert_eq!(queue.next_due(), None);
        let result = EvidenceTask::Accusation {
            vote: Vote::WrongForm,
            sample: sample(1),
        };
        queue.expect([result.clone()], 1);
        assert_eq!(queue.next_due(), Some(TimestampMs::ZERO));
        assert_eq!(queue.start(NOW), std::slice::from_ref(&result));
        queue.finished(&first[0], Outcome::Refuted, NOW);
        assert_eq!(queue.next_due(), Some(TimestampMs::ZERO));
        // In a block results come first, and some models.
        let all: Vec<&EvidenceTask> = models.iter().chain([&result; 20]).collect();
        let chosen = models_last(all, 8);
        let of_models = chosen.iter().filter(|it| is_model(it)).count();
        assert_eq!((chosen.len(), of_models), (8, MODELS_AT_LEAST));
    }

    /// Stops: checks that always fail under names that come first, and disputes behind all of them.
    #[test]
    fn checks_that_fail_keep_no_others_out() {
        let mut queue = EvidenceQueue::default();
        let disputes: Vec<EvidenceTask> = (1..9)
            .map(|number| EvidenceTask::Accusation {
                vote: Vote::WrongForm,
                sample: sample_of(tg_types::LeaseId::new([number; 32])),
            })
            .collect();
        queue.expect(disputes.clone(), 1);
        let mut tried = Vec::new();
        let mut now = NOW;
        for _ in 0..20 {
            for task in queue.start(now) {
                queue.failed(&task, now);
                tried.push(task);
            }
            now = now.saturating_add(RETRY);
        }
        for task in &disputes {
            assert!(tried.contains(task), "{task:?}");
        }
    }

    fn sample(size: u32) -> SampleTask {
        SampleTask {
            size,
            ..sample_of(tg_types::LeaseId::new([2; 32]))
        }
    }

    /// A result of a lease that is voted on.
    pub(crate) fn sample_of(lease: tg_types::LeaseId) -> SampleTask {
        SampleTask {
            lease,
            model: ModelId::new([1; 32]),
            mode: VerificationMode::Sync,
            is_repeated: false,
            run: DurationMs::ZERO,
            public_blob: Digest::new([3; 32]),
            weights_blob: Digest::new([4; 32]),
            program: tg_types::ProgramId::new([5; 32]),
            receipt: Box::new(tg_types::Receipt {
                program: tg_types::ProgramId::new([5; 32]),
                model: ModelId::new([1; 32]),
                input: Digest::default(),
                output: Digest::default(),
                trace: Digest::default(),
                tier: tg_types::Tier::Tgx1,
            }),
            seed: Digest::default(),
            evidence: Digest::new([6; 32]),
            size: 1,
            dispute: None,
            revealed: None,
        }
    }
}
