//! Files that are fetched from one validator alone, to find out whether it has what it stated to keep ([`tg_ledger::StoredQuestion`]). Nothing of
//! them is stored: this validator has its own.
//!
//! One part is asked for at a time, so a question costs its file once for each validator that looks. Whoever gives nothing is asked again
//! after waits that double up to [`WAIT_MAX`], and once more from when on it may be said that it does not give it.

use std::collections::BTreeMap;

use tg_ledger::QuestionTask;
use tg_types::{Digest, DurationMs, StorageSubject, TimestampMs};

use crate::key::peer_of;
use crate::limits::{
    ASKED_AT_ONCE, ASKED_OF_PEER_AT_ONCE, BLOB_CHUNK_BYTES, BLOB_CHUNK_PATIENCE, span,
};
use crate::peers::Peer;
use crate::wire::BlobMessage;

/// The wait after the first look in vain.
const WAIT: DurationMs = DurationMs::new(500);

/// The longest wait between two looks.
const WAIT_MAX: DurationMs = DurationMs::new(60_000);

/// The longest time for a whole file, which has a mebibyte at most. Stops: parts that come one by one, and the last one never.
const WHOLE_MAX: DurationMs = DurationMs::new(20_000);

const CHUNK: u64 = BLOB_CHUNK_BYTES as u64;

/// What was found out about one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AskedFinding {
    /// Whether the validator gave the file.
    pub(crate) is_served: bool,
    /// How often it did not, since that may be stated.
    pub(crate) failed: u32,
}

/// What was found out about the questions that are open.
pub(crate) type AskedFindings = BTreeMap<StorageSubject, AskedFinding>;

/// The questions that are looked into.
#[derive(Debug, Default)]
pub(super) struct AskedFetches {
    asked: BTreeMap<StorageSubject, AskedFetch>,
    /// Whether something was found since it was told.
    is_new: bool,
}

#[derive(Debug)]
struct AskedFetch {
    peer: Peer,
    task: QuestionTask,
    transfer: Option<AskedTransfer>,
    attempts: u32,
    next_try: TimestampMs,
    finding: AskedFinding,
}

/// A file on its way.
#[derive(Debug)]
struct AskedTransfer {
    hasher: blake3::Hasher,
    received: u64,
    /// Its bytes, once a part of it came.
    total: Option<u64>,
    began: TimestampMs,
    last: TimestampMs,
}

impl AskedFetches {
    /// Says which questions are open.
    pub(super) fn named(&mut self, tasks: Vec<QuestionTask>, now: TimestampMs) {
        let mut open = BTreeMap::new();
        for task in tasks {
            let Ok(peer) = peer_of(&task.seat) else {
                continue;
            };
            let known = self.asked.remove(&task.subject);
            let mut fetch = known.unwrap_or_else(|| AskedFetch {
                peer,
                task,
                transfer: None,
                attempts: 0,
                next_try: now,
                finding: AskedFinding::default(),
            });
            if task.is_late && !fetch.task.is_late {
                // What began before counts for nothing.
                fetch.transfer = None;
                (fetch.attempts, fetch.next_try) = (0, now);
            }
            fetch.task = task;
            open.insert(task.subject, fetch);
        }
        self.is_new |= !self.asked.is_empty();
        self.asked = open;
    }

    /// What was found, if it changed since the last call.
    pub(super) fn take_findings(&mut self) -> Option<AskedFindings> {
        let is_new = std::mem::take(&mut self.is_new);
        let findings = self
            .asked
            .iter()
            .map(|(subject, it)| (*subject, it.finding));
        is_new.then(|| findings.collect())
    }

    /// Gives up what takes too long, and asks for what is due.
    pub(super) fn turn(&mut self, now: TimestampMs, outbox: &mut Vec<(Peer, BlobMessage)>) {
        let mut of_peer: BTreeMap<Peer, usize> = BTreeMap::new();
        for fetch in self.asked.values_mut() {
            if fetch.is_late(now) {
                self.is_new |= fetch.give_up(now);
            }
            if fetch.transfer.is_some() {
                *of_peer.entry(fetch.peer.clone()).or_default() += 1;
            }
        }
        let mut running: usize = of_peer.values().sum();
        let due = self.asked.values_mut().filter(|fetch| {
            fetch.transfer.is_none() && !fetch.finding.is_served && fetch.next_try <= now
        });
        let mut due: Vec<&mut AskedFetch> = due.collect();
        // Those that were tried least first. Stops: a validator that asks itself for a few files, and gives them slowly, so that it is never asked for
        // those that it does not have.
        due.sort_by_key(|fetch| (fetch.attempts, fetch.task.subject));
        for fetch in due {
            let busy = of_peer.entry(fetch.peer.clone()).or_default();
            // Stops: one that gives nothing, so that nobody else is looked at.
            if *busy >= ASKED_OF_PEER_AT_ONCE || running >= ASKED_AT_ONCE {
                continue;
            }
            *busy += 1;
            running += 1;
            fetch.transfer = Some(AskedTransfer {
                hasher: blake3::Hasher::new(),
                received: 0,
                total: None,
                began: now,
                last: now,
            });
            outbox.push((fetch.peer.clone(), fetch.ask(0)));
        }
    }

    /// Takes a part that a peer sent.
    pub(super) fn chunk(
        &mut self,
        (peer, digest): (&Peer, &Digest),
        (offset, total, bytes): (u64, u64, &[u8]),
        now: TimestampMs,
        outbox: &mut Vec<(Peer, BlobMessage)>,
    ) {
        for fetch in self.asked.values_mut() {
            if fetch.peer != *peer || fetch.task.digest != *digest {
                continue;
            }
            match fetch.take((offset, total, bytes), now) {
                TransferStep::Ignored => {}
                TransferStep::Next(offset) => outbox.push((peer.clone(), fetch.ask(offset))),
                TransferStep::Served => {
                    fetch.transfer = None;
                    fetch.finding.is_served = true;
                    self.is_new = true;
                }
                TransferStep::Wrong => self.is_new |= fetch.give_up(now),
            }
        }
    }

    /// A peer says that it does not have a file.
    pub(super) fn absent(&mut self, peer: &Peer, digest: &Digest, now: TimestampMs) {
        for fetch in self.asked.values_mut() {
            let is_it = fetch.peer == *peer && fetch.task.digest == *digest;
            if is_it && fetch.transfer.is_some() {
                self.is_new |= fetch.give_up(now);
            }
        }
    }
}

/// What a part leads to.
enum TransferStep {
    /// It was not asked for.
    Ignored,
    /// The part from this byte on is to be asked for.
    Next(u64),
    /// All is here and right.
    Served,
    /// It is not the file.
    Wrong,
}

impl AskedFetch {
    const fn ask(&self, offset: u64) -> BlobMessage {
        BlobMessage::Ask {
            digest: self.task.digest,
            offset,
        }
    }

    /// Whether its transfer takes too long.
    fn is_late(&self, now: TimestampMs) -> bool {
        let transfer = self.transfer.as_ref();
        transfer.is_some_and(|it| {
            now.saturating_since(it.last) > span(BLOB_CHUNK_PATIENCE)
                || now.saturating_since(it.began) > WHOLE_MAX
        })
    }

    /// Ends a transfer in vain; whether that counts.
    fn give_up(&mut self, now: TimestampMs) -> bool {
        self.transfer = None;
        let wait = DurationMs::new(WAIT.get() << self.attempts.min(16)).min(WAIT_MAX);
        self.attempts = self.attempts.saturating_add(1);
        self.next_try = now.saturating_add(wait);
        if self.task.is_late {
            self.finding.failed = self.finding.failed.saturating_add(1);
        }
        self.task.is_late
    }

    fn take(
        &mut self,
        (offset, total, bytes): (u64, u64, &[u8]),
        now: TimestampMs,
    ) -> TransferStep {
        let Some(transfer) = &mut self.transfer else {
            return TransferStep::Ignored;
        };
        // A part that was asked for twice.
        if offset != transfer.received {
            return TransferStep::Ignored;
        }
        let whole = bytes.len() as u64 == total.saturating_sub(offset).min(CHUNK);
        let is_same = *transfer.total.get_or_insert(total) == total;
        if total > u64::from(self.task.longest) || !is_same || !whole {
            return TransferStep::Wrong;
        }
        transfer.hasher.update(bytes);
        transfer.received += bytes.len() as u64;
        transfer.last = now;
        if transfer.received < total {
            return TransferStep::Next(transfer.received);
        }
        match transfer.hasher.finalize().as_bytes() == self.task.digest.as_bytes() {
            true => TransferStep::Served,
            false => TransferStep::Wrong,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::key::{ValidatorKey, peer};
    use tg_types::QuestionId;

    fn at(after: u64) -> TimestampMs {
        TimestampMs::new(1_000_000 + after)
    }

    fn task(seat: u64, file: &[u8], is_late: bool) -> QuestionTask {
        QuestionTask {
            subject: QuestionId::new([u8::try_from(seat).unwrap(); 32]).into(),
            seat: ValidatorKey::from_seed(seat).public(),
            digest: Digest::of_blob(file),
            longest: u32::try_from(file.len()).unwrap(),
            is_late,
        }
    }

    /// The first byte asked for, of whom.
    fn asks(outbox: &mut Vec<(Peer, BlobMessage)>) -> Vec<(Peer, u64)> {
        let asks = outbox.drain(..).map(|(peer, message)| match message {
            BlobMessage::Ask { offset, .. } => (peer, offset),
            other => panic!("{other:?}"),
        });
        asks.collect()
    }

    /// Fetches a file whose bytes a peer sends so; whether it was served, and how often not.
    fn fetched(file: &[u8], sent: &[u8]) -> AskedFinding {
        let (mut fetches, mut outbox) = (AskedFetches::default(), Vec::new());
        let from = peer(&ValidatorKey::from_seed(1));
        let task = task(1, file, true);
        fetches.named(vec![task], at(0));
        fetches.turn(at(0), &mut outbox);
        while let Some((to, offset)) = asks(&mut outbox).pop() {
            assert_eq!(to, from);
            let rest = &sent[usize::try_from(offset).unwrap().min(sent.len())..];
            let part = &rest[..rest.len().min(BLOB_CHUNK_BYTES)];
            let part = (offset, sent.len() as u64, part);
            fetches.chunk((&from, &task.digest), part, at(1), &mut outbox);
        }
        fetches.take_findings().unwrap()[&task.subject]
    }

    #[test]
    fn a_file_is_served_if_its_bytes_are_those_of_its_name() {
        let served = AskedFinding {
            is_served: true,
            failed: 0,
        };
        let failed = AskedFinding {
            is_served: false,
            failed: 1,
        };
        for size in [1, BLOB_CHUNK_BYTES, 2 * BLOB_CHUNK_BYTES + 7] {
            let file: Vec<u8> = (0..size)
                .map(|it| u8::try_from(it % 251).unwrap())
                .collect();
            assert_eq!(fetched(&file, &file), served, "{size}");
            let mut other = file.clone();
            other[size / 2] ^= 1;
            assert_eq!(fetched(&file, &other), failed, "{size}");
            assert_eq!(fetched(&file, &[&file[..], &[0]].concat()), failed);
            assert_eq!(fetched(&file, &file[..size - 1]), failed, "{size}");
        }
    }

    #[test]
    fn whoever_gives_nothing_is_asked_again_and_counts_once_it_may_be_stated() {
        let (mut fetches, mut outbox) = (AskedFetches::default(), Vec::new());
        let from = peer(&ValidatorKey::from_seed(1));
        let mut task = task(1, b"file", false);
        fetches.named(vec![task], at(0));
        fetches.turn(at(0), &mut outbox);
        assert_eq!(asks(&mut outbox).len(), 1);
        fetches.absent(&from, &task.digest, at(10));
        fetches.turn(at(20), &mut outbox);
        assert_eq!(asks(&mut outbox).len(), 0);
        // What another one sends is nothing that was asked for.
        let other = peer(&ValidatorKey::from_seed(2));
        fetches.chunk((&other, &task.digest), (0, 4, b"file"), at(20), &mut outbox);
        assert_eq!(fetches.take_findings(), None);
        fetches.turn(at(10 + WAIT.get()), &mut outbox);
        assert_eq!(asks(&mut outbox).len(), 1);
        // Nothing comes, for good.
        let mut now = 10_000;
        for _ in 0..20 {
            fetches.turn(at(now), &mut outbox);
            now += 100;
        }
        task.is_late = true;
        asks(&mut outbox);
        fetches.named(vec![task], at(20_000));
        fetches.turn(at(20_000), &mut outbox);
        assert_eq!(asks(&mut outbox).len(), 1);
        fetches.absent(&from, &task.digest, at(20_001));
        let findings = fetches.take_findings().unwrap();
        assert_eq!(findings[&task.subject].failed, 1);
        // Once it is over nothing is known of it any more.
        fetches.named(Vec::new(), at(20_100));
        assert_eq!(fetches.take_findings(), Some(AskedFindings::new()));
    }

    #[test]
    fn one_that_is_silent_does_not_keep_others_from_being_looked_at() {
        let (mut fetches, mut outbox) = (AskedFetches::default(), Vec::new());
        let mut tasks: Vec<QuestionTask> = (0..40)
            .map(|number| QuestionTask {
                subject: QuestionId::new([number; 32]).into(),
                ..task(1, &[number], false)
            })
            .collect();
        tasks.push(QuestionTask {
            subject: QuestionId::new([0xff; 32]).into(),
            ..task(2, b"file", false)
        });
        fetches.named(tasks, at(0));
        fetches.turn(at(0), &mut outbox);
        let asked = asks(&mut outbox);
        let other = peer(&ValidatorKey::from_seed(2));
        assert_eq!(asked.len(), ASKED_OF_PEER_AT_ONCE + 1);
        assert!(asked.iter().any(|(to, _)| *to == other));
    }
}
