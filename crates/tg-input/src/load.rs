//! Inputs from a file or a folder.

use super::form::{Expected, FILE_BYTES_MAX, InputError, Kind, ROWS_MAX};
use super::read::read;
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

/// Reads every input of a file, or of all `.npy`, `.npz`, `.json` and `.png` files of a folder, by name.
///
/// # Errors
/// If a file cannot be read or is refused; the error names it.
pub fn load(path: &Path, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, LoadError> {
    let unreadable = |source| LoadError::Read {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return load_file(path, expected);
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
    let mut rows = Vec::new();
    for file in files {
        rows.extend(load_file(&file, expected)?);
        if rows.len() > ROWS_MAX {
            return Err(LoadError::TooMany {
                path: path.to_owned(),
            });
        }
    }
    Ok(rows)
}

fn load_file(path: &Path, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, LoadError> {
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
    read(&bytes, kind, expected).map_err(refused)
}
