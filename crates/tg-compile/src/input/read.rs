//! Reading a file of any kind.

use super::form::{Expected, FILE_BYTES_MAX, InputError, Kind};
use super::{json, npy, png};

/// Reads every input of a file.
///
/// # Errors
/// If the file is not of its kind, or its inputs are not what is expected.
pub fn read(bytes: &[u8], kind: Kind, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(InputError::TooLarge { bytes: bytes.len() });
    }
    let rows = match kind {
        Kind::Npy => npy::read(bytes, expected)?,
        Kind::Json => json::read(bytes, expected)?,
        Kind::Png => vec![png::read(bytes, expected)?],
    };
    if rows.is_empty() {
        return Err(InputError::NoRows);
    }
    Ok(rows)
}

/// Reads a file that holds exactly one input.
///
/// # Errors
/// As [`read`], or if there are several.
pub fn read_one(bytes: &[u8], kind: Kind, expected: Expected<'_>) -> Result<Vec<f32>, InputError> {
    let mut rows = read(bytes, kind, expected)?;
    match rows.pop() {
        Some(row) if rows.is_empty() => Ok(row),
        _ => Err(InputError::NotOne {
            rows: rows.len() + 1,
        }),
    }
}
