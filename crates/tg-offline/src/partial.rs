//! The steps of a long proof on disk, so that a crash costs the last of them and not all.

use crate::arguments::PartialArguments;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tg_console::outcome::{Exit, Failure, say};
use tg_exec::IntTensor;
use tg_proof::transcript::PROTOCOL_VERSION;
use tg_prover::Record;
use tg_types::{Digest, ModelId};

const MAGIC: [u8; 4] = *b"TGK\0";
/// Of this file and of what a step is.
const VERSION: u16 = 1;
const HEAD: u64 = 4 + 2 + 32;
/// Most bytes that are read: several times the largest proof.
const BYTES_MAX: u64 = 32 << 20;
/// A proof that takes no longer leaves no file, unless one is asked for.
const AFTER: Duration = Duration::from_secs(10);

/// A file of steps: magic, version, what proof they are of; then per step its length, its digest and its bytes.
struct PartialFile {
    path: PathBuf,
    key: Digest,
    /// Nothing is written before.
    from: Instant,
    /// Steps that are not written yet.
    waiting: Vec<Vec<u8>>,
    /// The file once it is there, and where each of its steps ends.
    file: Option<File>,
    ends: Vec<u64>,
    failed: bool,
}

/// Where the steps of a proof are kept, and what they are.
#[derive(Debug)]
pub struct Partial {
    path: PathBuf,
    /// The steps.
    pub record: Record,
}

impl Partial {
    /// Of the proof of a model on an input that is to be written to a path.
    ///
    /// # Errors
    /// If there is a file in the way that is of no proof: it is left alone.
    pub fn of(
        arguments: &PartialArguments,
        output: &Path,
        (model, input): (ModelId, &IntTensor),
    ) -> Result<Self, Failure> {
        let mut beside = output.as_os_str().to_owned();
        beside.push(".partial");
        let (path, after) = match &arguments.partial {
            Some(path) => (path.clone(), Duration::ZERO),
            None => (PathBuf::from(beside), AFTER),
        };
        let version = PROTOCOL_VERSION.to_le_bytes();
        let input = input.to_bytes();
        let key = Digest::of_blob(
            &[
                version.as_slice(),
                model.as_bytes().as_slice(),
                input.as_slice(),
            ]
            .concat(),
        );
        if !is_free(&path) {
            let text = format!(
                "{} holds something else than steps of a proof",
                path.display()
            );
            let failure = Failure::new(Exit::Usage, anyhow::anyhow!(text));
            return Err(failure.hint("--partial names the file of the steps"));
        }
        if arguments.restart {
            remove(&path);
        }
        let record = record(&path, key, after);
        Ok(Self { path, record })
    }

    /// Forgets the steps: the proof is written.
    pub fn done(self) {
        remove(&self.path);
    }
}

/// The steps that a file has of a proof, and a record that keeps further ones there: the first time after a while.
///
/// A file of another proof is written over. What cannot be written is said once, and the proof goes on without.
fn record(path: &Path, key: Digest, after: Duration) -> Record {
    let (known, ends) = read(path, key).unwrap_or_default();
    if !known.is_empty() {
        let (count, path) = (known.len(), path.display());
        say(format!("going on from {path}: {count} steps are done"));
    }
    let mut file = PartialFile {
        path: path.to_owned(),
        key,
        from: Instant::now() + after,
        waiting: Vec::new(),
        file: None,
        ends,
        failed: false,
    };
    Record::new(known, Box::new(move |number, step| file.keep(number, step)))
}

/// Whether a path has no file, an empty one, or one of steps.
fn is_free(path: &Path) -> bool {
    let mut start = Vec::new();
    match File::open(path) {
        Err(error) => error.kind() == io::ErrorKind::NotFound,
        Ok(file) => {
            let read = file.take(MAGIC.len() as u64).read_to_end(&mut start);
            read.is_ok() && MAGIC.starts_with(&start)
        }
    }
}

/// Forgets the steps of a proof that is done.
fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => say(format!("{} is left behind: {error}", path.display())),
    }
}

/// What binds a step to its place.
fn digest(key: Digest, number: usize, step: &[u8]) -> Digest {
    let number = (number as u64).to_le_bytes();
    Digest::of_blob(&[key.as_bytes(), number.as_slice(), step].concat())
}

/// The whole steps at the start of a file of a proof, and where each ends; nothing if it is of another one.
fn read(path: &Path, key: Digest) -> Option<(Vec<Vec<u8>>, Vec<u64>)> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let rest = bytes.strip_prefix(head(key).as_slice())?;
    Some(steps(rest, key))
}

fn head(key: Digest) -> Vec<u8> {
    [
        MAGIC.as_slice(),
        &VERSION.to_le_bytes(),
        key.as_bytes().as_slice(),
    ]
    .concat()
}

/// A torn or damaged step ends it.
fn steps(mut rest: &[u8], key: Digest) -> (Vec<Vec<u8>>, Vec<u64>) {
    let (mut steps, mut ends, mut end) = (Vec::new(), Vec::new(), HEAD);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((kept, after)) = after.split_first_chunk::<32>() else {
            break;
        };
        let Some((step, after)) = after.split_at_checked(length) else {
            break;
        };
        if digest(key, steps.len(), step) != Digest::new(*kept) {
            break;
        }
        end += 4 + 32 + length as u64;
        steps.push(step.to_vec());
        ends.push(end);
        rest = after;
    }
    (steps, ends)
}

impl PartialFile {
    fn keep(&mut self, number: usize, step: &[u8]) {
        if self.failed {
            return;
        }
        // Steps that were made again take the place of those that were read.
        self.ends.truncate(number);
        self.waiting.push(step.to_vec());
        if Instant::now() < self.from {
            return;
        }
        if let Err(error) = self.write() {
            self.failed = true;
            let path = self.path.display();
            say(format!(
                "{path} cannot be written ({error}): a crash would lose this proof"
            ));
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        for step in std::mem::take(&mut self.waiting) {
            let length = u32::try_from(step.len()).map_err(io::Error::other)?;
            let kept = digest(self.key, self.ends.len(), &step);
            let before = [length.to_le_bytes().as_slice(), kept.as_bytes()].concat();
            file.write_all(&[before, step].concat())?;
            self.ends.push(file.stream_position()?);
        }
        file.sync_data()?;
        self.file = Some(file);
        Ok(())
    }

    /// The file, cut after the steps that stand.
    fn open(&self) -> io::Result<File> {
        let mut options = File::options();
        let mut file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.path)?;
        match self.ends.last() {
            Some(&end) => file.set_len(end)?,
            None => {
                file.set_len(0)?;
                file.write_all(&head(self.key))?;
            }
        }
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}
