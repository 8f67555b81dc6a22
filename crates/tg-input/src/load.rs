//! Inputs from a file or a folder.

use super::form::{Expected, FILE_BYTES_MAX, InputError, Kind, ROWS_MAX};
use super::read::read_known;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Why inputs cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file or folder cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file of another kind.
    #[error("`{}` is not a .npy, .npz, .json or .png file", path.display())]
    Kind {
        /// Where.
        path: PathBuf,
    },
    /// A file that is refused.
    #[error("`{}` is refused", path.display())]
    Input {
        /// Where.
        path: PathBuf,
        /// Why.
        source: InputError,
    },
    /// A folder without inputs.
    #[error("the folder `{}` holds no .npy, .npz, .json or .png file", path.display())]
    EmptyFolder {
        /// Where.
        path: PathBuf,
    },
    /// More inputs than the limit.
    #[error("`{}` holds more than {ROWS_MAX} inputs", path.display())]
    TooMany {
        /// Where.
        path: PathBuf,
    },
}

/// Inputs that were loaded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loaded {
    /// As reals in storage order.
    pub rows: Vec<Vec<f32>>,
    /// Names of arrays that no input of the model reads.
    pub unread: BTreeSet<String>,
}

/// Reads every input of a file, or of all `.npy`, `.npz`, `.json` and `.png` files of a folder, by name.
///
/// # Errors
/// If a file cannot be read or is refused; the error names it.
pub fn load(path: &Path, expected: Expected<'_>) -> Result<Loaded, LoadError> {
    let unreadable = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        let mut loaded = Loaded::default();
        load_file(path, expected, &mut loaded)?;
        return Ok(loaded);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if Kind::of_path(&file).is_some() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(LoadError::EmptyFolder {
            path: path.to_owned(),
        });
    }
    files.sort();
    let mut loaded = Loaded::default();
    for file in files {
        load_file(&file, expected, &mut loaded)?;
        if loaded.rows.len() > ROWS_MAX {
            return Err(LoadError::TooMany {
                path: path.to_owned(),
            });
        }
    }
    Ok(loaded)
}

fn load_file(path: &Path, expected: Expected<'_>, loaded: &mut Loaded) -> Result<(), LoadError> {
    let kind = Kind::of_path(path).ok_or_else(|| LoadError::Kind {
        path: path.to_owned(),
    })?;
    let unreadable = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    let refused = |source| LoadError::Input {
        path: path.to_owned(),
        source,
    };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > FILE_BYTES_MAX {
        return Err(refused(InputError::TooLarge { bytes }));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    let (rows, unread) = read_known(&bytes, kind, expected).map_err(refused)?;
    loaded.rows.extend(rows);
    loaded.unread.extend(unread);
    Ok(())
}
