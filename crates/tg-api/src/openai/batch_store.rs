//! Batches on the disk: their records, their requests, what was ordered for each and what became of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tg_types::digest::hex;
use tg_types::{Amount, Digest};

use super::batch::{AskedBatch, BatchRecord, BatchStatus, LineAnswer};
use super::disk::{self, LineFile};
use super::error::OpenAiError;
use super::file_store::FileStore;
use super::port::{KeptOrder, OrderRecord};
use super::replay::AnswerId;

/// Most batches of a key that are not over: each has its orders and answers on the disk and in memory.
const OPEN_MAX: usize = 8;

/// Most batches of a key: of more the oldest that are over are forgotten. Their files stay.
const KEPT_MAX: usize = 128;

/// Most batches of all keys that are read at a start.
const RECORDS_MAX: usize = 65_536;

/// Most bytes of a batch's input: as many as a file may have.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of the answers of a batch: its files are in memory when they are written.
const ANSWERS_BYTES_MAX: usize = 32 << 20;

/// Most bytes of what is kept of the orders of a batch: some 60,000 orders.
const ORDERS_BYTES_MAX: u64 = 256 << 20;

/// The batches of all callers.
#[derive(Debug)]
pub(super) struct BatchStore {
    folder: PathBuf,
    batches: Mutex<BTreeMap<String, BatchRecord>>,
}

impl BatchStore {
    /// Opens a folder, which is made if it is not there.
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        let records = disk::records::<BatchRecord>(&folder, RECORDS_MAX)?;
        let batches = records.into_iter().map(|batch| (batch.id.clone(), batch));
        Ok(Self {
            batches: Mutex::new(batches.collect()),
            folder,
        })
    }

    fn batches(&self) -> MutexGuard<'_, BTreeMap<String, BatchRecord>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: &str, end: &str) -> PathBuf {
        self.folder.join(format!("{id}.{end}"))
    }

    /// Begins a batch over a file of the caller.
    pub(super) fn create(
        &self,
        caller: &str,
        (asked, files): (AskedBatch, &FileStore),
    ) -> Result<BatchRecord, OpenAiError> {
        let input = asked.input_file_id.clone();
        let name = AnswerId::of(&Digest::of_blob(input.as_bytes()));
        let id = format!("batch_{}", name.name);
        let created = (name.created, name.order);
        let record = BatchRecord::new(id.clone(), caller.to_owned(), asked, created);
        let mut batches = self.batches();
        let own = || batches.values().filter(|batch| batch.caller == caller);
        let open = own().filter(|batch| !batch.status.is_over()).count();
        if open >= OPEN_MAX {
            let message = format!("a key has at most {OPEN_MAX} batches that are not over");
            return Err(OpenAiError::rate(message));
        }
        // Each gives two files.
        if !files.has_room(caller, 2 * open + 2) {
            let message = "the key has no room for the files that a batch gives: delete some";
            return Err(OpenAiError::invalid("input_file_id", message));
        }
        let mut over: Vec<&BatchRecord> = own().filter(|batch| batch.status.is_over()).collect();
        over.sort_by_key(|batch| batch.order);
        let surplus = (own().count() + 1).saturating_sub(KEPT_MAX);
        let gone: Vec<String> = over.iter().take(surplus).map(|it| it.id.clone()).collect();
        files.copy(caller, &input, &self.path(&id, "input"))?;
        let written = disk::write_record(&self.path(&id, "json"), &record);
        written.map_err(|error| OpenAiError::unavailable(format!("keep the batch: {error}")))?;
        for id in gone {
            // One that stays on the disk is there again after a restart, no more.
            let _left = fs::remove_file(self.path(&id, "json"));
            batches.remove(&id);
        }
        batches.insert(id, record.clone());
        Ok(record)
    }

    /// A batch of a caller.
    pub(super) fn get(&self, caller: &str, id: &str) -> Result<BatchRecord, OpenAiError> {
        let found = self.find(id).filter(|batch| batch.caller == caller);
        found.ok_or_else(|| {
            let id: String = id.chars().take(64).collect();
            OpenAiError::missing("id", format!("there is no batch `{id}` of this key"))
        })
    }

    /// A batch of anybody.
    pub(super) fn find(&self, id: &str) -> Option<BatchRecord> {
        self.batches().get(id).cloned()
    }

    /// The batches of a caller, the newest first.
    pub(super) fn list(&self, caller: &str) -> Vec<BatchRecord> {
        let batches = self.batches();
        let own = batches.values().filter(|batch| batch.caller == caller);
        let mut own: Vec<BatchRecord> = own.cloned().collect();
        own.sort_by(|a, b| (b.order, &b.id).cmp(&(a.order, &a.id)));
        own
    }

    /// Those that are not over.
    pub(super) fn open_ids(&self) -> Vec<String> {
        let batches = self.batches();
        let open = batches.values().filter(|batch| !batch.status.is_over());
        open.map(|batch| batch.id.clone()).collect()
    }

    /// Changes a batch and writes it.
    pub(super) fn update(
        &self,
        id: &str,
        change: impl FnOnce(&mut BatchRecord),
    ) -> io::Result<BatchRecord> {
        let mut batches = self.batches();
        let missing = || io::Error::new(io::ErrorKind::NotFound, "the batch is not there");
        let batch = batches.get_mut(id).ok_or_else(missing)?;
        change(batch);
        let changed = batch.clone();
        disk::write_record(&self.path(id, "json"), &changed)?;
        Ok(changed)
    }

    /// Counts what has become of a batch. It is not written: whoever goes on counts again.
    pub(super) fn count(&self, id: &str, (completed, failed): (usize, usize)) {
        if let Some(batch) = self.batches().get_mut(id) {
            (batch.completed, batch.failed) = (completed, failed);
        }
    }

    /// Cancels a batch of a caller, if it is not over.
    pub(super) fn cancel(
        &self,
        caller: &str,
        id: &str,
        now: u64,
    ) -> Result<BatchRecord, OpenAiError> {
        self.get(caller, id)?;
        let mut refused = None;
        let changed = self.update(id, |batch| match batch.status {
            BatchStatus::Validating | BatchStatus::InProgress => {
                batch.enter(BatchStatus::Cancelling, now);
            }
            BatchStatus::Cancelling => {}
            status => refused = Some(status),
        });
        let changed =
            changed.map_err(|error| OpenAiError::unavailable(format!("keep it: {error}")))?;
        match refused {
            None => Ok(changed),
            Some(status) => {
                let status = serde_json::json!(status);
                let message = format!("a batch that is {status} is not cancelled");
                Err(OpenAiError::invalid("id", message))
            }
        }
    }

    /// The bytes of a batch's input.
    pub(super) fn input(&self, id: &str) -> io::Result<Vec<u8>> {
        disk::read(&self.path(id, "input"), INPUT_BYTES_MAX)
    }

    /// The bytes of one request of a batch's input.
    pub(super) fn input_line(&self, id: &str, line: &Range<usize>) -> io::Result<Vec<u8>> {
        disk::read_range(&self.path(id, "input"), line.start as u64..line.end as u64)
    }

    /// What was ordered and answered of a batch.
    pub(super) fn work(&self, id: &str) -> io::Result<BatchWork> {
        BatchWork::open(&self.path(id, "orders"), &self.path(id, "answers"))
    }

    /// Removes what is needed of a batch only until it is over.
    pub(super) fn clean(&self, id: &str) {
        for end in ["input", "orders", "answers"] {
            // What is left is of no use, and harms nobody.
            let _left = fs::remove_file(self.path(id, end));
        }
    }
}

/// An order of a request, as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct OrderLine {
    line: usize,
    part: u32,
    /// The signed order in hexadecimal; nothing if there is none any more.
    signed: Option<String>,
    reserved: String,
}

impl OrderLine {
    fn order(&self) -> Option<KeptOrder> {
        let text = self.signed.as_ref()?;
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let signed = (0..text.len())
            .step_by(2)
            .map(byte)
            .collect::<Option<_>>()?;
        let reserved = self.reserved.parse::<Amount>().ok()?;
        Some(KeptOrder { signed, reserved })
    }
}

#[derive(Debug)]
struct Orders {
    file: LineFile,
    /// The last of each part of each request.
    kept: BTreeMap<(usize, u32), KeptOrder>,
}

/// An answer, which stays on the disk.
#[derive(Debug)]
struct KeptAnswer {
    status: u16,
    /// Where it stands in the file.
    place: Range<u64>,
}

/// What is read of an answer to know that it is there.
#[derive(Deserialize)]
struct KeptLine {
    line: usize,
    status: u16,
    #[serde(rename = "body")]
    _body: IgnoredAny,
}

#[derive(Debug)]
struct Answers {
    file: LineFile,
    all: BTreeMap<usize, KeptAnswer>,
    bytes: usize,
}

/// What was ordered and answered of a batch.
#[derive(Debug)]
pub(super) struct BatchWork {
    orders: Mutex<Orders>,
    answers: Mutex<Answers>,
}

impl BatchWork {
    fn open(orders: &Path, answers: &Path) -> io::Result<Self> {
        let mut kept = BTreeMap::new();
        let file = LineFile::open(orders, &mut |line: OrderLine, _| {
            let place = (line.line, line.part);
            match line.order() {
                Some(order) => kept.insert(place, order),
                None => kept.remove(&place),
            };
        })?;
        let orders = Mutex::new(Orders { file, kept });
        let (mut all, mut bytes) = (BTreeMap::new(), 0);
        let file = LineFile::open(answers, &mut |answer: KeptLine, place| {
            let KeptLine { line, status, .. } = answer;
            bytes += usize::try_from(place.end - place.start).unwrap_or(usize::MAX);
            all.insert(line, KeptAnswer { status, place });
        })?;
        let answers = Mutex::new(Answers { file, all, bytes });
        Ok(Self { orders, answers })
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request has its answer.
    pub(super) fn is_answered(&self, line: usize) -> bool {
        self.answers().all.contains_key(&line)
    }

    /// Keeps the answer of a request; how many succeeded and failed so far.
    pub(super) fn answer(&self, mut answer: LineAnswer) -> io::Result<(usize, usize)> {
        let mut answers = self.answers();
        let bytes = answer.body.to_string().len();
        if answers.bytes.saturating_add(bytes) > ANSWERS_BYTES_MAX {
            let message = format!("the answers of a batch have at most {ANSWERS_BYTES_MAX} bytes");
            let error = OpenAiError {
                code: "batch_too_large".to_owned(),
                ..OpenAiError::invalid("body", message)
            };
            (answer.status, answer.body) = (error.status, error.object());
        }
        answers.bytes = answers.bytes.saturating_add(bytes.min(ANSWERS_BYTES_MAX));
        let place = answers.file.add(&answer)?;
        let status = answer.status;
        let kept = KeptAnswer { status, place };
        answers.all.insert(answer.line, kept);
        Ok(counts(&answers.all))
    }

    /// How many succeeded and failed.
    pub(super) fn counts(&self) -> (usize, usize) {
        counts(&self.answers().all)
    }

    /// How many requests have their answers.
    pub(super) fn answered(&self) -> usize {
        self.answers().all.len()
    }

    /// The answer of a request, if it has one.
    pub(super) fn read(&self, line: usize) -> io::Result<Option<LineAnswer>> {
        let mut answers = self.answers();
        let Some(place) = answers.all.get(&line).map(|it| it.place.clone()) else {
            return Ok(None);
        };
        answers.file.line(place).map(Some)
    }
}

fn counts(all: &BTreeMap<usize, KeptAnswer>) -> (usize, usize) {
    let completed = all.values().filter(|answer| answer.status == 200).count();
    (completed, all.len() - completed)
}

/// The orders of one request of a batch.
#[derive(Debug)]
pub(super) struct LineOrders {
    pub(super) work: Arc<BatchWork>,
    pub(super) line: usize,
}

impl LineOrders {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        let orders = self.work.orders.lock();
        orders.unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrderRecord for LineOrders {
    fn kept(&self, part: u32) -> Option<KeptOrder> {
        self.orders().kept.get(&(self.line, part)).cloned()
    }

    fn keep(&self, part: u32, order: Option<KeptOrder>) -> io::Result<()> {
        let reserved = order.as_ref().map_or(Amount::ZERO, |it| it.reserved);
        let line = OrderLine {
            line: self.line,
            part,
            signed: order.as_ref().map(|order| hex(&order.signed)),
            reserved: reserved.to_string(),
        };
        let mut orders = self.orders();
        // That there is none may always be written: money depends on it.
        if order.is_some() && orders.file.bytes() > ORDERS_BYTES_MAX {
            return Err(io::Error::other("the batch has more orders than are kept"));
        }
        orders.file.add(&line)?;
        match order {
            Some(order) => orders.kept.insert((self.line, part), order),
            None => orders.kept.remove(&(self.line, part)),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    #[test]
    fn orders_and_answers_are_there_after_a_restart() {
        let folder = std::env::temp_dir().join(format!("tg-api-batch-{}", std::process::id()));
        let store = BatchStore::open(folder.clone()).unwrap();
        let work = || Arc::new(store.work("b").unwrap());
        let of = |work: &Arc<BatchWork>, line| LineOrders {
            work: Arc::clone(work),
            line,
        };
        let order = |byte: u8| KeptOrder {
            signed: vec![byte, 255],
            reserved: "0.5".parse().unwrap(),
        };
        let first = work();
        for (line, part, kept) in [
            (0, 0, Some(order(1))),
            (0, 0, Some(order(2))),
            (0, 1, Some(order(3))),
            (0, 1, None),
            (1, 0, Some(order(4))),
        ] {
            of(&first, line).keep(part, kept).unwrap();
        }
        let answer = |line, status, body| LineAnswer { line, status, body };
        assert_eq!(first.answer(answer(1, 200, json!({}))).unwrap(), (1, 0));
        let large = json!("x".repeat(ANSWERS_BYTES_MAX));
        assert_eq!(first.answer(answer(2, 200, large)).unwrap(), (1, 1));
        drop(first);
        let again = work();
        assert_eq!(of(&again, 0).kept(0), Some(order(2)));
        assert_eq!(of(&again, 0).kept(1), None);
        assert_eq!(of(&again, 1).kept(0), Some(order(4)));
        assert!(!again.is_answered(0) && again.is_answered(1));
        let large = again.read(2).unwrap().unwrap();
        assert_eq!(large.body["error"]["code"], "batch_too_large");
        let small = answer(1, 200, json!({}));
        assert_eq!(again.read(1).unwrap(), Some(small));
        assert_eq!((again.read(0).unwrap(), again.answered()), (None, 2));
        assert_eq!(again.counts(), (1, 1));
        fs::remove_dir_all(&folder).unwrap();
    }
}
