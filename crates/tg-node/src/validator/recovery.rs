//! Opening the data of validators that share a folder, some of which may be damaged, and what a failure is called.

use std::any::Any;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::{CONSENSUS, EmbeddedConfig, create_folder};
use crate::blob::{BlobStore, free_bytes};
use crate::engine::Parts;
use crate::handle::{Board, NodeHandle};
use crate::open::{self, Opening};
use crate::store::{Location, OpenError, Store, StoreError};
use crate::voting::History;

/// Free bytes at which a failed write is called a full disk.
const DISK_FULL_BELOW: u64 = 1024 * 1024;

/// A validator whose data are open.
pub(super) struct Opened {
    pub(super) handle: NodeHandle,
    pub(super) parts: Parts,
    pub(super) folder: PathBuf,
}

/// Opens the data of all validators, and rebuilds what the others can replace.
pub(super) fn open_all(config: &EmbeddedConfig) -> Result<Vec<Opened>, OpenError> {
    let faults = (config.genesis.validators.len().max(1) - 1) / 3;
    let folder = |index: usize| config.directory.join(format!("validator-{index}"));
    let mut opened = Vec::new();
    let mut damaged = Vec::new();
    for index in 0..config.keys.len() {
        create_folder(&folder(index))?;
        match open_one(config, index, &folder(index)) {
            Ok(one) => opened.push(one),
            Err(error) if error.is_damage() && damaged.len() < faults => {
                damaged.push((index, error))
            }
            Err(error) => return Err(error),
        }
    }
    // The network can rebuild them: a new database takes the place of each damaged one.
    for (index, error) in &damaged {
        tracing::warn!(index, error = %crate::report(error), "database is rebuilt");
        set_aside(&folder(*index))?;
        opened.insert(*index, open_one(config, *index, &folder(*index))?);
    }
    let is_new = damaged.is_empty() && opened.iter().all(|it| it.parts.tip.height() == 0);
    for one in &mut opened {
        let empty = one.parts.tip.height() == 0;
        one.parts.history = if is_new || !empty {
            History::New
        } else {
            History::Lost
        };
    }
    one_epoch(&opened)?;
    if config.new_epoch {
        begin_epoch(&opened)?;
    } else {
        require_quorum(&opened, faults)?;
    }
    Ok(opened)
}

/// Opens one validator's data; a database so damaged that the library panics is a damaged one.
fn open_one(config: &EmbeddedConfig, index: usize, folder: &Path) -> Result<Opened, OpenError> {
    let open = AssertUnwindSafe(|| try_open_one(config, index, folder));
    std::panic::catch_unwind(open).unwrap_or(Err(OpenError::Inconsistent {
        height: 0,
        reason: "the database library panicked",
    }))
}

fn try_open_one(config: &EmbeddedConfig, index: usize, folder: &Path) -> Result<Opened, OpenError> {
    let blobs = BlobStore::open(&folder.join("blobs"), config.blob_bytes_max)?;
    let blobs = blobs.with_disk_reserve(config.disk_reserve_bytes);
    let (handle, parts) = open::open(Opening {
        genesis: &config.genesis,
        key: config.keys[index].clone(),
        location: Location::File(&folder.join("chain.redb")),
        blobs: Arc::new(blobs),
        checker: config.checker.clone(),
        timers: config.timers,
        history: History::New,
        wall: config.wall.clone(),
    })?;
    Ok(Opened {
        handle,
        parts,
        folder: folder.to_path_buf(),
    })
}

/// Keeps a damaged database under another name, for whoever wants to know what happened.
fn set_aside(folder: &Path) -> Result<(), OpenError> {
    let path = folder.join("chain.redb");
    let aside = folder.join("chain.redb.damaged");
    fs::rename(&path, &aside).map_err(|source| OpenError::Io {
        action: "set aside",
        path: path.display().to_string(),
        source,
    })
}

/// A rebuilt database does not know in which consensus epoch the others are.
fn one_epoch(opened: &[Opened]) -> Result<(), OpenError> {
    let voting = |one: &Opened| one.parts.store.voting();
    let all: Vec<_> = opened.iter().map(voting).collect::<Result<_, _>>()?;
    let newest = all.iter().max_by_key(|voting| voting.epoch);
    let Some((epoch, anchor)) = newest.and_then(|it| Some((it.epoch, it.anchor?))) else {
        return Ok(());
    };
    for (one, voting) in opened.iter().zip(&all) {
        if voting.epoch < epoch {
            one.parts.store.begin_epoch(epoch, anchor)?;
        }
    }
    Ok(())
}

/// Leaves the old votes behind: no vote of the new epoch contradicts one of the old.
fn begin_epoch(opened: &[Opened]) -> Result<(), OpenError> {
    let tips = opened.iter().map(|one| &one.parts.tip);
    let Some(highest) = tips.max_by_key(|tip| tip.height()) else {
        return Ok(());
    };
    let anchor = (highest.height(), highest.id);
    for one in opened {
        let epoch = one.parts.store.voting()?.epoch + 1;
        one.parts.store.begin_epoch(epoch, anchor)?;
        tracing::warn!(epoch, height = anchor.0, id = %anchor.1, "a new consensus epoch begins");
    }
    for one in opened {
        let journals = one.folder.join(CONSENSUS);
        if journals.exists() {
            fs::remove_dir_all(&journals).map_err(|source| OpenError::Io {
                action: "remove",
                path: journals.display().to_string(),
                source,
            })?;
        }
    }
    Ok(())
}

/// Stops: a network that waits for ever for the votes of validators that may not vote.
fn require_quorum(opened: &[Opened], faults: usize) -> Result<(), OpenError> {
    let mut lost = Vec::new();
    for (index, one) in opened.iter().enumerate() {
        if lacks_votes(one)? {
            lost.push((index + 1).to_string());
        }
    }
    if lost.len() <= faults {
        return Ok(());
    }
    Err(OpenError::NoQuorum {
        lost: lost.join(", "),
        faults,
        reason: "they do not know what they signed, since their journals of votes are gone",
    })
}

fn lacks_votes(one: &Opened) -> Result<bool, StoreError> {
    let Parts {
        store,
        partition,
        history,
        ..
    } = &one.parts;
    let voting = store.voting()?;
    let journal = format!("{partition}{}", voting.journal_suffix());
    let is_there = fs::read_dir(one.folder.join(CONSENSUS).join(journal))
        .is_ok_and(|mut sections| sections.next().is_some());
    Ok(voting.abstains_until.is_some()
        || (!is_there && voting.has_voted(store.height()?, *history)))
}

/// Notes why a validator's thread panicked: libraries panic where they cannot write or read their files.
pub(super) fn panicked(panic: &(dyn Any + Send), board: &Board, store: &Store, folder: &Path) {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("an unknown failure");
    let reason = reason(text, folder);
    let is_journal = ["unable to open journal", "unable to replay journal"]
        .iter()
        .any(|words| text.contains(words));
    if is_journal && !reason.starts_with(DISK_FULL) {
        // What it signed cannot be read: from the next start on it abstains for a while, as without a journal.
        let noted = store.abstain_until(0);
        tracing::error!(?noted, text, "journal of votes is damaged");
        board.stop(&format!(
            "the journal of votes is damaged; start again: the validator then abstains for a while ({text})"
        ));
        return;
    }
    board.stop(&reason);
}

const DISK_FULL: &str = "disk full";

/// A failure in words: a full disk has many names.
pub(super) fn reason(text: &str, folder: &Path) -> String {
    let says_so = [
        "StorageFull",
        "No space left",
        "os error 28",
        "QuotaExceeded",
    ]
    .iter()
    .any(|words| text.contains(words));
    if says_so || free_bytes(folder).is_some_and(|free| free < DISK_FULL_BELOW) {
        format!("{DISK_FULL}: {} ({text})", folder.display())
    } else {
        text.to_owned()
    }
}
