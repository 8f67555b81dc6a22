//! Reading a file of any kind.

use super::array::{Array, rows};
use super::form::{Expected, FILE_BYTES_MAX, InputError, Kind};
use super::{json, npz, png};
use tg_float::FloatTensor;

/// Reads every input of a file.
///
/// # Errors
/// If the file is not of its kind, or its inputs are not what is expected.
pub fn read(bytes: &[u8], kind: Kind, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(InputError::TooLarge { bytes: bytes.len() });
    }
    let rows = match kind {
        Kind::Npy => rows(Array::of_npy(bytes)?, expected)?,
        Kind::Npz => super::array::named_rows(npz::read(bytes)?, expected)?,
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
    one_of(read(bytes, kind, expected)?)
}

/// Reads one inference's inputs from a file each, given by name or, without one, in the order of the model.
///
/// # Errors
/// As [`read`], or if there are several rows.
pub fn read_each(
    files: &[(Option<&str>, Kind, &[u8])],
    expected: Expected<'_>,
) -> Result<Vec<f32>, InputError> {
    let mut arrays = Vec::with_capacity(files.len());
    for &(name, kind, bytes) in files {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(InputError::TooLarge { bytes: bytes.len() });
        }
        let array = match kind {
            Kind::Npy => Array::of_npy(bytes)?,
            Kind::Json => json::array(bytes)?,
            Kind::Npz | Kind::Png => return Err(InputError::Alone),
        };
        arrays.push((name.map(str::to_owned), array));
    }
    one_of(super::array::named_rows(arrays, expected)?)
}

/// Reads arrays of a model's inputs, given by name or, without one, in the order of the model, which hold as many rows each.
///
/// # Errors
/// As [`read`].
pub fn read_tensors(
    tensors: &[(Option<&str>, FloatTensor)],
    expected: Expected<'_>,
) -> Result<Vec<Vec<f32>>, InputError> {
    let one = |(name, tensor): &(Option<&str>, FloatTensor)| {
        let name = name.map(str::to_owned);
        (name, Array::of_tensor(tensor))
    };
    super::array::named_rows(tensors.iter().map(one).collect(), expected)
}

fn one_of(mut rows: Vec<Vec<f32>>) -> Result<Vec<f32>, InputError> {
    match rows.pop() {
        Some(row) if rows.is_empty() => Ok(row),
        _ => Err(InputError::NotOne {
            rows: rows.len() + 1,
        }),
    }
}
