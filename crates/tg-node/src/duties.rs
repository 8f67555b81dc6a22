//! The transactions that a validator's ledger account sends by itself: which providers it no longer reaches
//! ([`crate::liveness`]), which files of jobs and models it holds ([`crate::storage`]), votes of committees, and reports of
//! contradicting votes. All come from one account, so one loop assigns their nonces.
//!
//! A statement that files are held is sent when all of them were read and are right. "Missing" is sent only when the
//! ledger asks again after a provider declined, and the files could not be got for [`MISSING_AFTER`] although all other
//! validators were asked. A statement is not repeated; after a restart the files are read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tg_ledger::{Evidence, InputTaker, SampleTask, SeedKeyPhase, State, StorageTask, StoredFile};
use tg_types::limits::STORAGE_STATEMENTS_MAX;
use tg_types::{
    Address, DealingLog, Digest, Fees, LeaseId, StorageSubject, TimestampMs, Transaction, Vote,
    Wallet,
};

use tokio::sync::Notify;

use crate::blob::BlobStore;
use crate::committee::{Committees, LookedInVain};
use crate::evidence::EvidenceChecker;
use crate::handle::NodeHandle;
use crate::limits::span;
use crate::limits::{
    DUTIES_INTERVAL, DUTIES_PATIENCE, LIVENESS_INTERVAL, MISSING_AFTER, STORAGE_BYTES_OF_LOOK,
    STORAGE_BYTES_OF_PROGRAM, STORAGE_BYTES_PER_TURN, STORAGE_LOOKS_PER_TURN,
    STORAGE_REPORTS_PER_TURN,
};
use crate::question_reports::AskedSince;
use crate::storage::{self, Holding, Programs};

/// Looks at results to vote on that go on at one time: one of a long run leaves room for others. Claims have one more: whoever accused loses
/// its bond if it does not claim in time.
const SAMPLES_AT_ONCE: usize = 2;

/// Runs for claims that go on at one time.
const CLAIMS_AT_ONCE: usize = 1;

/// How long a turn waits for looks that end soon.
const SAMPLE_PATIENCE: std::time::Duration = std::time::Duration::from_millis(100);

/// What is known of one subject's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// They were read and are right.
    Held,
    /// They are not all here, or not right.
    Lacking,
}

#[derive(Debug, Clone)]
struct Entry {
    known: Known,
    /// When it was first looked for since the ledger asked like this.
    since: TimestampMs,
    /// Whether the ledger asked again when it was first looked for.
    is_recheck: bool,
    /// What was asked for: of a dispute about a result first one file, then another.
    files: Vec<StoredFile>,
    /// Not looked at before.
    not_before: TimestampMs,
}

/// What this validator knows of what it has to state.
#[derive(Debug, Default)]
struct Statements {
    entries: BTreeMap<StorageSubject, Entry>,
}

impl Statements {
    /// The tasks to look at now. What the ledger no longer asks for is forgotten.
    fn due(&mut self, tasks: &[StorageTask], now: TimestampMs) -> Vec<StorageTask> {
        let asked: BTreeMap<StorageSubject, &StorageTask> =
            tasks.iter().map(|task| (task.subject, task)).collect();
        self.entries.retain(|subject, entry| {
            // What is asked again is looked at again.
            asked.get(subject).is_some_and(|task| {
                task.is_recheck == entry.is_recheck && task.files == entry.files
            })
        });
        let mut due = Vec::new();
        for task in tasks {
            let entry = self.entries.entry(task.subject).or_insert(Entry {
                known: Known::Lacking,
                since: now,
                is_recheck: task.is_recheck,
                files: task.files.clone(),
                not_before: TimestampMs::ZERO,
            });
            if entry.known == Known::Lacking && entry.not_before <= now {
                due.push((entry.not_before, task));
            }
        }
        // Those never looked at first, then those whose last look is longest ago.
        due.sort_by_key(|(not_before, _)| *not_before);
        due.truncate(STORAGE_LOOKS_PER_TURN);
        let due: Vec<StorageTask> = due.into_iter().map(|(_, task)| task.clone()).collect();
        for task in &due {
            if let Some(entry) = self.entries.get_mut(&task.subject) {
                entry.not_before = now.saturating_add(span(DUTIES_INTERVAL));
            }
        }
        due
    }

    /// Notes what a look at the store found.
    fn found(&mut self, subject: &StorageSubject, holding: Holding) {
        if let Some(entry) = self.entries.get_mut(subject) {
            match holding {
                Holding::Held => entry.known = Known::Held,
                Holding::Missing(_) => {}
                // Its files are here, as their names say: nothing that comes later changes what is in them.
                Holding::Wrong(_) | Holding::OutOfRange(_) => {
                    tracing::debug!(%subject, ?holding, "its files are not what they must be");
                    entry.not_before = TimestampMs::new(u64::MAX);
                }
            }
        }
    }

    /// The statements to send, in as many transactions as one turn sends: the first tasks first, sorted within each.
    fn reports(&self, tasks: &[StorageTask], now: TimestampMs) -> Vec<Transaction> {
        let said = tasks.iter().filter_map(|task| {
            let entry = self.entries.get(&task.subject)?;
            let is_held = entry.known == Known::Held;
            let is_missing = entry.is_recheck
                && task.is_recheck
                && now.saturating_since(entry.since) >= span(MISSING_AFTER);
            (is_held || is_missing).then_some((task.subject, is_held))
        });
        let said: Vec<(StorageSubject, bool)> = said
            .take(STORAGE_STATEMENTS_MAX * STORAGE_REPORTS_PER_TURN)
            .collect();
        said.chunks(STORAGE_STATEMENTS_MAX)
            .map(|part| {
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
            })
            .collect()
    }
}

/// Looks at the files of a task.
fn look(store: &BlobStore, task: &StorageTask, programs: &mut Programs) -> Holding {
    let mut public: Option<Digest> = None;
    let mut holding = Holding::Held;
    for file in &task.files {
        holding = match file {
            StoredFile::Input {
                digest,
                length,
                taken_by: Some(taker),
            } => programs.taken_input(store, (digest, u64::from(*length)), taker),
            StoredFile::Input { digest, length, .. } | StoredFile::Opening { digest, length } => {
                storage::input(store, digest, u64::from(*length))
            }
            StoredFile::Answer { digest, length } => programs.answer(store, digest, length),
            // Looked at together with the weights.
            StoredFile::PublicModel { digest } => {
                public = Some(*digest);
                Holding::Held
            }
            StoredFile::Weights { digest } => match &public {
                Some(public) => storage::model(store, public, digest),
                None => Holding::Missing(*digest),
            },
        };
        if holding != Holding::Held {
            break;
        }
    }
    holding
}

/// Whether all files of a task are here, unread: the look that costs nothing.
fn is_here(store: &BlobStore, task: &StorageTask) -> bool {
    task.files.iter().all(|file| store.contains(file.digest()))
}

/// Transactions that were sent and are not in a final block yet.
#[derive(Debug, Clone, Copy)]
struct Sent {
    /// The account's nonce once they are.
    next: u64,
    at: TimestampMs,
}

impl Sent {
    /// Whether they may still come into a block: the next one, at `nonce`, waits. If the first was dropped, its nonce is used
    /// for what is due now; otherwise the later ones would wait for ever.
    fn waits(&self, node: &NodeHandle, me: &Address, nonce: u64, now: TimestampMs) -> bool {
        nonce < self.next
            && now.saturating_since(self.at) < span(DUTIES_PATIENCE)
            && node.next_nonce(me) > nonce
    }
}

/// What a validator's account has stated and sent: goes on from turn to turn.
#[derive(Debug, Default)]
pub struct Duties {
    statements: Statements,
    committees: Committees,
    asked: AskedSince,
    sent: Option<Sent>,
    liveness_at: TimestampMs,
}

impl Duties {
    /// Looks for what is to be stated at `now`, and sends it. `look` reads the files of tasks: [`look_at_files`], and `sample`
    /// computes drawn tiles again: [`look_at_samples`], on a thread that may wait for a disk. `now` is the clock by which providers were noted.
    pub async fn turn<L, S>(
        &mut self,
        node: &NodeHandle,
        account: &Wallet,
        now: impl Fn() -> TimestampMs,
        look: impl FnOnce(Arc<BlobStore>, Vec<StorageTask>) -> L,
        sample: impl FnOnce(Arc<BlobStore>, DueSamples) -> S,
    ) where
        L: Future<Output = Vec<(StorageSubject, Holding)>>,
        S: Future<Output = LookedSamples>,
    {
        let time = now();
        let state = node.snapshot().state.clone();
        let me = account.address();
        let tasks = state.storage_tasks(&me);
        // What it is asked for is looked at too: it is there, and may be damaged.
        let mut looked_at = tasks.clone();
        looked_at.extend(state.own_question_tasks(&me));
        let due = self.statements.due(&looked_at, time);
        if !due.is_empty() {
            let found = look(Arc::clone(node.blobs()), due).await;
            for (subject, holding) in found {
                self.statements.found(&subject, holding);
                if let Holding::Missing(digest) = holding {
                    // It is there and damaged: fetched anew.
                    node.needs_blob(digest);
                }
            }
        }
        let voted = state.vote_tasks(&me);
        let is_open = |lease: &LeaseId| state.lease(lease).is_some_and(|it| it.end().is_none());
        let claimed = state.claim_tasks(&me);
        let due = DueSamples {
            voted: self.committees.due(&voted, is_open, time),
            accused: self.committees.due_claims(&claimed, is_open, time),
        };
        if !due.voted.is_empty() || !due.accused.is_empty() {
            let looked = sample(Arc::clone(node.blobs()), due).await;
            for (lease, vote) in looked.votes {
                self.committees.note(lease, vote);
            }
            for (lease, claim) in looked.claims {
                self.committees.note_claim(lease, claim);
            }
            self.committees.note_failed(&looked.in_vain, now());
        }
        let nonce = state.nonce(&me);
        let sent = self.sent.as_ref();
        if sent.is_some_and(|sent| sent.waits(node, &me, nonce, now())) {
            return;
        }
        let mut reports = Vec::new();
        if time.saturating_since(self.liveness_at) >= span(LIVENESS_INTERVAL) {
            self.liveness_at = time;
            reports.extend(node.watch(|watch| watch.report(&state, &me, time)));
        }
        reports.extend(self.statements.reports(&tasks, now()));
        let accusations = state.accusations_left(&me);
        reports.extend(self.committees.report(&voted, account, accusations));
        reports.extend(self.committees.claims(&claimed));
        reports.extend(dealing(node, &state, &me));
        reports.extend(node.readiness(&state, &me));
        // Behind what has a window of seconds: a question that others have ended makes such a report one of nothing.
        let asked = state.question_tasks(&me);
        let window = state.parameters().ask_window;
        let findings = node.asked_findings();
        reports.extend(self.asked.reports(&asked, &findings, (now(), window)));
        // Last: the only ones that this account pays for, if it can.
        let faults = node.unpunished().into_iter();
        reports.extend(faults.map(|proof| Transaction::ReportEquivocation { proof }));
        self.sent = send(node, account, &state, reports, now()).await;
    }
}

/// Reads the files of tasks, as many as one turn reads: what is here whole, unread, is looked at first.
#[must_use]
pub fn look_at_files(store: &BlobStore, due: Vec<StorageTask>) -> Vec<(StorageSubject, Holding)> {
    let here = due.into_iter().filter(|task| is_here(store, task));
    let mut programs = Programs::default();
    let mut read_programs = BTreeSet::new();
    let (mut found, mut read) = (Vec::new(), 0);
    for task in here {
        let files = task.files.iter();
        let sizes = files.clone().filter_map(|file| store.size(file.digest()));
        let programs_read = files.filter_map(StoredFile::taker);
        let is_new = |taker: &&InputTaker| read_programs.insert(taker.public);
        let programs_read = programs_read.filter(is_new).count() as u64;
        let bytes =
            STORAGE_BYTES_OF_LOOK + sizes.sum::<u64>() + STORAGE_BYTES_OF_PROGRAM * programs_read;
        // Stops: a few models of wrong files each of which takes a second, so that nothing is said for a minute.
        if read > 0 && read + bytes > STORAGE_BYTES_PER_TURN {
            break;
        }
        read += bytes;
        found.push((task.subject, look(store, &task, &mut programs)));
    }
    found
}

/// What the validator dealt of the seed's key, if the state waits for it.
fn dealing(node: &NodeHandle, state: &State, me: &Address) -> Option<Transaction> {
    let (round, log) = node.dealing()?;
    let seeds = state.seeds();
    let is_due = seeds.round == round
        && seeds.phase == SeedKeyPhase::Dealing
        && state.seat_of(me).is_some()
        && !seeds.has_dealt(me);
    let log = DealingLog::new(log).filter(|_| is_due)?;
    Some(Transaction::PostDealing { round, log })
}

/// Results that a validator has to look at.
#[derive(Debug, Default)]
pub struct DueSamples {
    /// On which it votes.
    pub voted: Vec<SampleTask>,
    /// Which it accused, so that it has to say what a right run gives.
    pub accused: Vec<SampleTask>,
}

/// What it found.
#[derive(Debug, Default)]
pub struct LookedSamples {
    /// Its votes.
    pub votes: Vec<(LeaseId, Vote)>,
    /// What right runs give, stored.
    pub claims: Vec<(LeaseId, Evidence)>,
    /// Of which it found nothing.
    pub in_vain: LookedInVain,
}

/// Computes drawn tiles again, or runs. What cannot be looked at now is looked at in a later turn.
#[must_use]
pub fn look_at_samples(
    checker: &dyn EvidenceChecker,
    store: &BlobStore,
    due: DueSamples,
) -> LookedSamples {
    let leases =
        |tasks: &[SampleTask]| -> Vec<LeaseId> { tasks.iter().map(|it| it.lease).collect() };
    let mut in_vain = LookedInVain {
        votes: leases(&due.voted),
        claims: leases(&due.accused),
    };
    let votes = vote_on_samples(checker, store, due.voted);
    let claims = make_claims(checker, store, due.accused);
    in_vain
        .votes
        .retain(|it| votes.iter().all(|vote| vote.0 != *it));
    in_vain
        .claims
        .retain(|it| claims.iter().all(|claim| claim.0 != *it));
    LookedSamples {
        votes,
        claims,
        in_vain,
    }
}

fn vote_on_samples(
    checker: &dyn EvidenceChecker,
    store: &BlobStore,
    due: Vec<SampleTask>,
) -> Vec<(LeaseId, Vote)> {
    let looked = due.into_iter().filter_map(|task| {
        let vote = checker.vote(&task, store);
        let vote = vote.inspect_err(|error| {
            tracing::debug!(lease = %task.lease, %error, "drawn tiles cannot be looked at yet");
        });
        Some((task.lease, vote.ok()?))
    });
    looked.collect()
}

/// Sends what the validator whose ledger account is `account` has to say, until it stops. `now` is the clock by which
/// providers were noted.
pub async fn perform_duties(
    node: NodeHandle,
    account: Wallet,
    checker: Arc<dyn EvidenceChecker>,
    now: impl Fn() -> TimestampMs + Send + Sync,
) {
    let mut duties = Duties::default();
    let mut blocks = node.subscribe();
    let beside = SamplesBeside::of(checker);
    while node.status().running {
        let sample = |store, due| beside.look(store, due);
        duties
            .turn(&node, &account, &now, look_beside, sample)
            .await;
        // After a block too: a job waits for a statement, and a result for several of which each can be made once the one before is in
        // a block.
        tokio::select! {
            () = tokio::time::sleep(DUTIES_INTERVAL) => {}
            _ = blocks.recv() => {}
        }
        // Of several that came during a turn the next turn sees the state after all.
        blocks = blocks.resubscribe();
    }
}

/// Stores what right runs give, of results that this validator accused.
fn make_claims(
    checker: &dyn EvidenceChecker,
    store: &BlobStore,
    accused: Vec<SampleTask>,
) -> Vec<(LeaseId, Evidence)> {
    let made = accused.into_iter().filter_map(|task| {
        let claim = checker.claim(&task, store);
        let claim = claim.inspect_err(|error| {
            tracing::warn!(lease = %task.lease, %error, "what a right run gives cannot be said yet");
        });
        Some((task.lease, claim.ok()?))
    });
    made.collect()
}

/// Reads files beside the event loop.
async fn look_beside(
    store: Arc<BlobStore>,
    due: Vec<StorageTask>,
) -> Vec<(StorageSubject, Holding)> {
    let looked = tokio::task::spawn_blocking(move || look_at_files(&store, due));
    looked.await.unwrap_or_else(|error| {
        tracing::error!(%error, "look at stored files");
        Vec::new()
    })
}

/// Checks results on threads of its own: a run may take a minute, and other duties must not wait for it.
#[derive(Debug)]
struct SamplesBeside {
    checker: Arc<dyn EvidenceChecker>,
    looks: Arc<Mutex<LooksBeside>>,
    ended: Arc<Notify>,
}

/// The looks that go on, and what was found by those that ended.
#[derive(Debug, Default)]
struct LooksBeside {
    /// The leases, and whether a claim is made.
    running: BTreeSet<(LeaseId, bool)>,
    found: LookedSamples,
}

impl SamplesBeside {
    fn of(checker: Arc<dyn EvidenceChecker>) -> Self {
        Self {
            checker,
            looks: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Begins to look at what is due, as far as there is room, and gives what was found since the last call; what takes no longer than a
    /// moment is among it.
    async fn look(&self, store: Arc<BlobStore>, due: DueSamples) -> LookedSamples {
        let voted = due.voted.into_iter().map(|task| DueSamples {
            voted: vec![task],
            accused: Vec::new(),
        });
        let accused = due.accused.into_iter().map(|task| DueSamples {
            voted: Vec::new(),
            accused: vec![task],
        });
        for one in voted.chain(accused) {
            self.begin(Arc::clone(&store), one);
        }
        let all_ended = async {
            loop {
                let ended = self.ended.notified();
                if lock(&self.looks).running.is_empty() {
                    break;
                }
                ended.await;
            }
        };
        // What goes on is found in a later turn.
        let _ = tokio::time::timeout(SAMPLE_PATIENCE, all_ended).await;
        std::mem::take(&mut lock(&self.looks).found)
    }

    /// Begins one look, if there is room and it does not go on already.
    fn begin(&self, store: Arc<BlobStore>, one: DueSamples) {
        let voted = one.voted.iter().map(|it| (it.lease, false));
        let Some(name) = voted
            .chain(one.accused.iter().map(|it| (it.lease, true)))
            .next()
        else {
            return;
        };
        {
            let mut looks = lock(&self.looks);
            let alike = looks.running.iter().filter(|it| it.1 == name.1).count();
            let most = match name.1 {
                true => CLAIMS_AT_ONCE,
                false => SAMPLES_AT_ONCE,
            };
            if alike >= most || !looks.running.insert(name) {
                return;
            }
        }
        let (checker, ended) = (Arc::clone(&self.checker), Arc::clone(&self.ended));
        let looks = Arc::clone(&self.looks);
        tokio::spawn(async move {
            let looked =
                tokio::task::spawn_blocking(move || look_at_samples(&*checker, &store, one));
            let found = looked.await.unwrap_or_else(|error| {
                tracing::error!(%error, lease = %name.0, "look at a result");
                LookedSamples {
                    in_vain: in_vain(name),
                    ..LookedSamples::default()
                }
            });
            let mut looks = lock(&looks);
            looks.running.remove(&name);
            looks.found.votes.extend(found.votes);
            looks.found.claims.extend(found.claims);
            looks.found.in_vain.votes.extend(found.in_vain.votes);
            looks.found.in_vain.claims.extend(found.in_vain.claims);
            drop(looks);
            ended.notify_waiters();
        });
    }
}

/// That a look found nothing.
fn in_vain((lease, is_claim): (LeaseId, bool)) -> LookedInVain {
    let mut in_vain = LookedInVain::default();
    match is_claim {
        true => in_vain.claims.push(lease),
        false => in_vain.votes.push(lease),
    }
    in_vain
}

/// A panic of another thread leaves whole values.
fn lock(looks: &Mutex<LooksBeside>) -> MutexGuard<'_, LooksBeside> {
    looks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends reports under the account's next nonces.
async fn send(
    node: &NodeHandle,
    account: &Wallet,
    state: &State,
    reports: Vec<Transaction>,
    at: TimestampMs,
) -> Option<Sent> {
    let first = state.nonce(&account.address());
    let mut next = first;
    for report in reports {
        let fees = match report.kind().is_prepaid() {
            true => Fees::NONE,
            false => Fees::from_base_fee(state.base_fee()),
        };
        let signed = account.sign_with_fees(report, next, fees, state.domain());
        // Refused if the ledger has moved on meanwhile: the next turn says what is still true. The others have its nonce.
        next += u64::from(node.submit(signed).await.is_ok());
    }
    (next > first).then_some(Sent { next, at })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tg_types::JobId;

    const START: u64 = 1_000_000;

    fn at(after: u64) -> TimestampMs {
        TimestampMs::new(START + after)
    }

    fn task(number: u8, is_recheck: bool) -> StorageTask {
        StorageTask {
            subject: JobId::new([number; 32]).into(),
            files: vec![StoredFile::Input {
                digest: Digest::of_blob(&[number]),
                length: 1,
                taken_by: None,
            }],
            is_recheck,
        }
    }

    fn subjects(numbers: &[u8]) -> Vec<StorageSubject> {
        let subject = |number: &u8| JobId::new([*number; 32]).into();
        numbers.iter().map(subject).collect()
    }

    #[test]
    fn what_is_held_is_stated_sorted_and_what_is_missing_only_when_asked_again() {
        let mut statements = Statements::default();
        let tasks = [task(3, false), task(1, false), task(2, false)];
        assert_eq!(statements.due(&tasks, at(0)), tasks);
        assert_eq!(statements.reports(&tasks, at(0)), []);
        for number in [3, 1] {
            statements.found(&subjects(&[number])[0], Holding::Held);
        }
        let missing = Digest::of_blob(&[2]);
        statements.found(&subjects(&[2])[0], Holding::Missing(missing));
        let expected = Transaction::ReportStorage {
            held: subjects(&[1, 3]),
            missing: vec![],
        };
        assert_eq!(statements.reports(&tasks, at(1)), vec![expected.clone()]);
        // However late it is: nobody asked whether it is missing.
        let late = 10 * span(MISSING_AFTER).get();
        assert_eq!(statements.reports(&tasks, at(late)), [expected]);
        // Asked again, it is looked for for a while before it is called missing, and what was held is looked at anew.
        let again = [task(2, true), task(3, true)];
        assert_eq!(statements.due(&again, at(late)), again);
        assert_eq!(statements.reports(&again, at(late)), []);
        statements.found(&subjects(&[3])[0], Holding::Held);
        let later = late + span(MISSING_AFTER).get();
        let expected = Transaction::ReportStorage {
            held: subjects(&[3]),
            missing: subjects(&[2]),
        };
        assert_eq!(statements.reports(&again, at(later)), [expected]);
        // What is no longer asked for is forgotten.
        assert!(statements.due(&[], at(later)).is_empty());
        assert!(statements.entries.is_empty());
    }

    #[test]
    fn many_that_nobody_has_do_not_keep_others_from_being_looked_at() {
        let mut statements = Statements::default();
        let many: Vec<StorageTask> = (0..2 * STORAGE_LOOKS_PER_TURN as u64)
            .map(|number| {
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                StorageTask {
                    subject: JobId::new(bytes).into(),
                    ..task(0, false)
                }
            })
            .collect();
        let mut tasks = many;
        let mut now = 0;
        assert_eq!(
            statements.due(&tasks, at(now)).len(),
            STORAGE_LOOKS_PER_TURN
        );
        let last = StorageTask {
            subject: JobId::new([0xff; 32]).into(),
            ..task(0, false)
        };
        tasks.push(last.clone());
        let mut turns = 0;
        loop {
            now += span(DUTIES_INTERVAL).get();
            turns += 1;
            if statements.due(&tasks, at(now)).contains(&last) {
                break;
            }
        }
        assert!(turns <= 2, "{turns}");
    }

    #[test]
    fn many_statements_take_several_transactions_in_the_order_of_the_tasks() {
        let mut statements = Statements::default();
        let count = u8::try_from(STORAGE_STATEMENTS_MAX * STORAGE_REPORTS_PER_TURN + 1).unwrap();
        let tasks: Vec<StorageTask> = (0..count).rev().map(|it| task(it, false)).collect();
        for task in statements.due(&tasks, at(0)) {
            statements.found(&task.subject, Holding::Held);
        }
        let reports = statements.reports(&tasks, at(0));
        assert_eq!(reports.len(), STORAGE_REPORTS_PER_TURN);
        for (report, tasks) in reports.iter().zip(tasks.chunks(STORAGE_STATEMENTS_MAX)) {
            let Transaction::ReportStorage { held, missing } = report else {
                panic!("{report:?}");
            };
            let mut expected: Vec<_> = tasks.iter().map(|it| it.subject).collect();
            expected.reverse();
            assert_eq!((held, missing.len()), (&expected, 0));
        }
    }
}
