//! Files of callers: what they upload for batches, and what batches give.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tg_types::Digest;

use super::disk;
use super::error::OpenAiError;
use super::replay::AnswerId;
use crate::port::{BlobSource, PortError};

/// Most files of a key; a batch adds two, and none is begun without room for them.
const FILES_MAX: usize = 256;

/// Most bytes of all files of a key: a node keeps them until they are deleted.
const FILES_BYTES_MAX: u64 = 64 << 20;

/// Most files of all keys that are read at a start.
const RECORDS_MAX: usize = 65_536;

/// Most letters of a file's name.
const NAME_LETTERS_MAX: usize = 256;

/// Bytes of a file that are sent at once.
const PIECE_BYTES: u64 = 128 << 10;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FilePurpose {
    /// Requests of a batch.
    Batch,
    /// What a batch gave.
    BatchOutput,
}

/// A file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRecord {
    pub(super) id: String,
    caller: String,
    filename: String,
    pub(super) purpose: FilePurpose,
    pub(super) bytes: u64,
    created_at: u64,
    /// A later file has more.
    order: u64,
}

impl FileRecord {
    /// OpenAI's file object.
    pub(super) fn object(&self) -> Value {
        let Self {
            id,
            caller: _,
            filename,
            purpose,
            bytes,
            created_at,
            order: _,
        } = self;
        json!({
            "id": id, "object": "file", "bytes": bytes, "created_at": created_at, "filename": filename,
            "purpose": purpose, "status": "processed", "expires_at": null, "status_details": null,
        })
    }
}

/// The files of all callers.
#[derive(Debug)]
pub(super) struct FileStore {
    folder: PathBuf,
    files: Mutex<BTreeMap<String, FileRecord>>,
}

impl FileStore {
    /// Opens a folder, which is made if it is not there.
    pub(super) fn open(folder: PathBuf) -> io::Result<Self> {
        let records = disk::records::<FileRecord>(&folder, RECORDS_MAX)?;
        let files = records.into_iter().map(|file| (file.id.clone(), file));
        Ok(Self {
            files: Mutex::new(files.collect()),
            folder,
        })
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, FileRecord>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a caller uploads.
    pub(super) fn upload(
        &self,
        caller: &str,
        (filename, bytes): (&str, &[u8]),
    ) -> Result<FileRecord, OpenAiError> {
        let id = AnswerId::of(&Digest::of_blob(bytes));
        let record = FileRecord {
            id: format!("file-{}", id.name),
            caller: caller.to_owned(),
            filename: filename.chars().take(NAME_LETTERS_MAX).collect(),
            purpose: FilePurpose::Batch,
            bytes: bytes.len() as u64,
            created_at: id.created,
            order: id.order,
        };
        // Held until it is written: two uploads at once must not share what is left.
        let mut files = self.files();
        let (count, held) = held(&files, caller);
        if count >= FILES_MAX || record.bytes > FILES_BYTES_MAX.saturating_sub(held) {
            let message = format!(
                "a key has at most {FILES_MAX} files of {FILES_BYTES_MAX} bytes together, this one has {count} of {held}: delete some"
            );
            return Err(OpenAiError::invalid("file", message));
        }
        self.write(&record, bytes)?;
        files.insert(record.id.clone(), record.clone());
        Ok(record)
    }

    /// Whether a key has room for so many more files, whatever they hold: what batches give is written all the same.
    pub(super) fn has_room(&self, caller: &str, more: usize) -> bool {
        let (count, bytes) = held(&self.files(), caller);
        count + more <= FILES_MAX && bytes < FILES_BYTES_MAX
    }

    /// Keeps what a batch gave, under a name that follows from the batch: doing it again is the same file.
    pub(super) fn output(
        &self,
        caller: &str,
        (name, filename, created_at): (&str, String, u64),
        bytes: &[u8],
    ) -> Result<FileRecord, OpenAiError> {
        let drawn = Digest::of_blob(name.as_bytes()).to_string();
        let record = FileRecord {
            id: format!("file-{}", &drawn[2..34]),
            caller: caller.to_owned(),
            filename,
            purpose: FilePurpose::BatchOutput,
            bytes: bytes.len() as u64,
            created_at,
            order: created_at.saturating_mul(1_000_000_000),
        };
        self.write(&record, bytes)?;
        self.files().insert(record.id.clone(), record.clone());
        Ok(record)
    }

    fn write(&self, record: &FileRecord, bytes: &[u8]) -> Result<(), OpenAiError> {
        let [data, about] = self.paths(&record.id);
        let written = disk::write(&data, bytes).and_then(|()| disk::write_record(&about, record));
        written.map_err(|error| OpenAiError::unavailable(format!("keep the file: {error}")))
    }

    /// A file's bytes and its record. The id is one of the records', never a caller's text.
    fn paths(&self, id: &str) -> [PathBuf; 2] {
        ["data", "json"].map(|end| self.folder.join(format!("{id}.{end}")))
    }

    /// The files of a caller, the newest first.
    pub(super) fn list(&self, caller: &str) -> Vec<FileRecord> {
        let files = self.files();
        let own = files.values().filter(|file| file.caller == caller);
        let mut own: Vec<FileRecord> = own.cloned().collect();
        own.sort_by(|a, b| (b.order, &b.id).cmp(&(a.order, &a.id)));
        own
    }

    /// A file of a caller.
    pub(super) fn get(&self, caller: &str, id: &str) -> Result<FileRecord, OpenAiError> {
        let files = self.files();
        let found = files.get(id).filter(|file| file.caller == caller);
        found.cloned().ok_or_else(|| {
            let id: String = id.chars().take(64).collect();
            OpenAiError::missing("id", format!("there is no file `{id}` of this key"))
        })
    }

    /// The bytes of a file of a caller.
    pub(super) fn content(&self, caller: &str, id: &str) -> Result<CallerFile, OpenAiError> {
        let record = self.get(caller, id)?;
        let [data, _] = self.paths(&record.id);
        let file = File::open(&data);
        let file =
            file.map_err(|error| OpenAiError::unavailable(format!("read the file: {error}")))?;
        let size = record.bytes;
        Ok(CallerFile { file, size })
    }

    /// Copies the bytes of a file of a caller.
    pub(super) fn copy(&self, caller: &str, id: &str, to: &Path) -> Result<(), OpenAiError> {
        let record = self.get(caller, id)?;
        let [data, _] = self.paths(&record.id);
        let copied = disk::read(&data, FILES_BYTES_MAX).and_then(|bytes| disk::write(to, &bytes));
        copied.map_err(|error| OpenAiError::unavailable(format!("read the file: {error}")))
    }

    /// Deletes a file of a caller.
    pub(super) fn delete(&self, caller: &str, id: &str) -> Result<(), OpenAiError> {
        let record = self.get(caller, id)?;
        let [data, about] = self.paths(&record.id);
        // Without its record it is not found at the next start; what is left of its bytes is of no use.
        let gone = fs::remove_file(&about);
        gone.map_err(|error| OpenAiError::unavailable(format!("delete the file: {error}")))?;
        let _left = fs::remove_file(&data);
        self.files().remove(&record.id);
        Ok(())
    }
}

/// How many files a caller has, and of how many bytes.
fn held(files: &BTreeMap<String, FileRecord>, caller: &str) -> (usize, u64) {
    let own = files.values().filter(|file| file.caller == caller);
    own.fold((0, 0), |(count, held), file| (count + 1, held + file.bytes))
}

/// The bytes of a file.
#[derive(Debug)]
pub(super) struct CallerFile {
    file: File,
    size: u64,
}

impl BlobSource for CallerFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn next_piece(&mut self) -> Result<Vec<u8>, PortError> {
        let mut piece = Vec::new();
        let read = (&self.file).take(PIECE_BYTES).read_to_end(&mut piece);
        read.map_err(|error| PortError {
            fault: tg_types::Fault::Ours,
            code: "TG-API-010".to_owned(),
            message: error.to_string(),
            hint: String::new(),
        })?;
        Ok(piece)
    }
}
