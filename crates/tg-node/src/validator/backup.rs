//! Backups of a node's data, from which the node can be started again.

use std::fs;
use std::io;
use std::path::Path;

use super::config::{DATABASE, lock_folder};
use super::recovery::{UNFINISHED, failed, finish_database};
use crate::chain;
use crate::key::ValidatorKey;
use crate::store::{Location, OpenError, Store};
use tg_ledger::Genesis;

/// Copies chain and blobs of a validator that does not run into another folder, but not its journal of votes: it may vote after the
/// copy was made, and would not know that it did. The copy says that votes are lost, so whoever is started of it abstains for a while
/// ([`crate::voting`]), however old the copy is.
///
/// # Errors
/// [`OpenError`] if one of the folders is in use, there is no database, it belongs to another network or validator, the other folder
/// holds one already, or the disk fails.
pub fn back_up_validator(
    directory: &Path,
    genesis: &Genesis,
    key: &ValidatorKey,
    to: &Path,
) -> Result<(), OpenError> {
    let database = directory.join(DATABASE);
    // First: to lock a folder makes it.
    fs::metadata(&database).map_err(failed("read", &database))?;
    let _lock = lock_folder(directory)?;
    let _copy = lock_folder(to)?;
    if to.join(DATABASE).exists() {
        return Err(OpenError::NotEmpty {
            path: to.display().to_string(),
        });
    }
    copy_named(directory, "blobs", to)?;
    let unfinished = to.join(UNFINISHED);
    fs::copy(&database, &unfinished).map_err(failed("copy", &database))?;
    let root = chain::genesis(genesis)?;
    let location = Location::File(&unfinished);
    let copy = Store::open(location, root.id.as_bytes(), &key.public())?;
    copy.abstain_until(0)?;
    drop(copy);
    finish_database(to)
}

/// Copies a folder within the data of a node that does not run, if it is there.
///
/// # Errors
/// [`OpenError`] if the data are in use, or the disk fails.
pub fn back_up_folder(directory: &Path, name: &str, to: &Path) -> Result<(), OpenError> {
    let _lock = lock_folder(directory)?;
    copy_named(directory, name, to)
}

fn copy_named(directory: &Path, name: &str, to: &Path) -> Result<(), OpenError> {
    let from = directory.join(name);
    if !from.exists() {
        return Ok(());
    }
    copy_all(&from, &to.join(name)).map_err(failed("copy", &from))
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_all(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
