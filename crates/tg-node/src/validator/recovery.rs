//! Opening the data of validators, alone or several in one folder, some of which may be damaged; and the errors of that.

use std::any::Any;
use std::fs::{self, File};
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::{CONSENSUS, DATABASE, EmbeddedConfig, ValidatorConfig, lock_folder};
use crate::blob::{BlobStore, free_bytes};
use crate::chain;
use crate::engine::Parts;
use crate::handle::{NodeHandle, NodeStatus};
use crate::key::ValidatorKey;
use crate::open::{self, Opening};
use crate::store::History;
use crate::store::{Location, OpenError, Store, StoreError};
use tg_ledger::Genesis;

/// Free bytes at which a failed write is called a full disk.
const DISK_FULL_BELOW: u64 = 1024 * 1024;

/// A database that is being made; it gets its name when it is whole.
pub(super) const UNFINISHED: &str = "chain.redb.new";

/// A validator whose data are open.
pub(super) struct Opened {
    pub(super) handle: NodeHandle,
    pub(super) parts: Parts,
    pub(super) folder: PathBuf,
    /// Held while the folder is in use.
    pub(super) lock: File,
}

/// Makes the empty database of a validator that has never voted: part of founding a network. Without it,
/// [`spawn_validator`](super::spawn_validator) takes the validator for one that lost its data, which abstains for a while.
///
/// # Errors
/// [`OpenError`] if the folder is in use or holds a database, the key is no validator of genesis, or the disk fails.
pub fn create_validator(
    directory: &Path,
    genesis: &Genesis,
    key: &ValidatorKey,
) -> Result<(), OpenError> {
    let _lock = lock_folder(directory)?;
    if directory.join(DATABASE).exists() {
        return Err(OpenError::NotEmpty {
            path: directory.display().to_string(),
        });
    }
    create_database(directory, genesis, key, History::New)
}

fn create_database(
    folder: &Path,
    genesis: &Genesis,
    key: &ValidatorKey,
    history: History,
) -> Result<(), OpenError> {
    let root = chain::genesis(genesis)?;
    open::check_key(genesis, key)?;
    let unfinished = folder.join(UNFINISHED);
    if unfinished.exists() {
        fs::remove_file(&unfinished).map_err(failed("remove", &unfinished))?;
    }
    let location = Location::File(&unfinished);
    let store = Store::open(location, root.id.as_bytes(), &key.public())?;
    if history == History::Lost {
        store.abstain_until(0)?;
    }
    drop(store);
    finish_database(folder)
}

/// Gives a database that is whole its name.
pub(super) fn finish_database(folder: &Path) -> Result<(), OpenError> {
    let unfinished = folder.join(UNFINISHED);
    let renamed = fs::rename(&unfinished, folder.join(DATABASE));
    renamed.map_err(failed("rename", &unfinished))?;
    let entry = File::open(folder).and_then(|folder| folder.sync_all());
    entry.map_err(failed("write the folder of", &unfinished))
}

/// What a failure of the file system is here.
pub(super) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> OpenError + use<> {
    let path = path.display().to_string();
    move |source| OpenError::Io {
        action,
        path,
        source,
    }
}

/// Opens the data of one validator whose network runs in other processes.
///
/// A damaged database is set aside, and a missing or damaged one made anew, to be rebuilt from the other validators. The
/// validator then does not know what it signed, unless its journal of votes is there, and abstains for a while. Stops: a
/// validator whose folder was emptied, and that signs the opposite of what it signed before.
pub(super) fn open_alone(config: &ValidatorConfig) -> Result<Opened, OpenError> {
    let folder = &config.directory;
    let lock = lock_folder(folder)?;
    if !folder.join(DATABASE).exists() {
        make_anew(config, "it has no database")?;
    }
    let (error, lock) = match open_one(config, lock) {
        Ok(opened) => return Ok(opened),
        Err((error, lock)) if error.is_damage() && config.faults() > 0 => (error, lock),
        Err((error, _)) => return Err(error),
    };
    tracing::warn!(error = %tg_types::with_sources(&error), "database is rebuilt");
    set_aside(folder)?;
    make_anew(config, "its database is damaged")?;
    open_one(config, lock).map_err(|(error, _)| error)
}

/// Makes a database that the other validators fill.
fn make_anew(config: &ValidatorConfig, reason: &'static str) -> Result<(), OpenError> {
    let seats = &config.genesis.validators;
    if config.faults() == 0 {
        let own = config.key.public();
        let index = seats.iter().position(|seat| *seat.key.as_bytes() == own);
        return Err(OpenError::NoQuorum {
            lost: index.map_or(0, |index| index + 1).to_string(),
            faults: 0,
            reason,
        });
    }
    let journal = config.directory.join(CONSENSUS);
    let journal = journal.join(open::votes_partition(&config.key));
    let history = if has_files(&journal) {
        History::New
    } else {
        History::Lost
    };
    tracing::warn!(reason, ?history, "a new database is filled by the others");
    create_database(&config.directory, &config.genesis, &config.key, history)
}

fn has_files(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
}

/// Opens the data of all validators, and rebuilds what the others can replace.
pub(super) fn open_all(
    config: &EmbeddedConfig,
    validators: &[ValidatorConfig],
) -> Result<Vec<Opened>, OpenError> {
    let faults = (config.genesis.validators.len().max(1) - 1) / 3;
    let mut opened = Vec::new();
    let mut damaged = Vec::new();
    for (index, validator) in validators.iter().enumerate() {
        let lock = lock_folder(&validator.directory)?;
        match open_one(validator, lock) {
            Ok(one) => opened.push(one),
            Err((error, lock)) if error.is_damage() && damaged.len() < faults => {
                damaged.push((index, error, lock));
            }
            Err((error, _)) => return Err(error),
        }
    }
    let is_new = damaged.is_empty() && opened.iter().all(|it| it.parts.tip.height() == 0);
    // The network can rebuild them: a new database takes the place of each damaged one.
    for (index, error, lock) in damaged {
        tracing::warn!(index, error = %tg_types::with_sources(&error), "database is rebuilt");
        set_aside(&validators[index].directory)?;
        let one = open_one(&validators[index], lock).map_err(|(error, _)| error)?;
        opened.insert(index, one);
    }
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

/// Opens one validator's data; a database so damaged that the library panics is a damaged one. A failure gives the lock
/// back.
fn open_one(config: &ValidatorConfig, lock: File) -> Result<Opened, (OpenError, File)> {
    let open = AssertUnwindSafe(|| try_open_one(config));
    let opened = std::panic::catch_unwind(open).unwrap_or(Err(OpenError::Inconsistent {
        height: 0,
        reason: "the database library panicked",
    }));
    match opened {
        Ok((handle, parts)) => Ok(Opened {
            handle,
            parts,
            folder: config.directory.clone(),
            lock,
        }),
        Err(error) => Err((error, lock)),
    }
}

fn try_open_one(config: &ValidatorConfig) -> Result<(NodeHandle, Parts), OpenError> {
    let folder = &config.directory;
    let blobs = BlobStore::open(&folder.join("blobs"), config.blob_bytes_max)?;
    let blobs = blobs.with_disk_reserve(config.disk_reserve_bytes);
    open::open(Opening {
        genesis: &config.genesis,
        key: config.key.clone(),
        location: Location::File(&folder.join(DATABASE)),
        blobs: Arc::new(blobs),
        checker: config.checker.clone(),
        timers: config.timers,
        history: History::New,
        wall: config.wall.clone(),
        speaks: config.speaks,
        signatures: open::own_signatures(),
    })
}

/// Keeps a damaged database under another name, for whoever wants to know what happened.
fn set_aside(folder: &Path) -> Result<(), OpenError> {
    let path = folder.join(DATABASE);
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
    let term = |one: &Opened| one.parts.tip.state.seats().term;
    let of_terms = opened.iter().zip(&all).map(|(one, it)| (term(one), it));
    let newest = of_terms.max_by_key(|(_, voting)| voting.epoch);
    let Some((term_now, epoch, anchor)) =
        newest.and_then(|(term, it)| Some((term, it.epoch, it.anchor?)))
    else {
        return Ok(());
    };
    for (one, voting) in opened.iter().zip(&all) {
        // One that has not seen the newest set is shown what ended its terms.
        if voting.epoch < epoch && term(one) == term_now {
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
    let is_there = has_files(&one.folder.join(CONSENSUS).join(journal));
    Ok(voting.abstains_until.is_some()
        || (!is_there && voting.has_voted(store.height()?, *history)))
}

/// Notes why a validator's thread panicked: libraries panic where they cannot write or read their files.
pub(super) fn panicked(
    panic: &(dyn Any + Send),
    node_status: &NodeStatus,
    store: &Store,
    folder: &Path,
) {
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
        node_status.stop(&format!(
            "the journal of votes is damaged; start again: the validator then abstains for a while ({text})"
        ));
        return;
    }
    node_status.stop(&reason);
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
