//! Reading a file of any kind.

use super::array::{Array, rows};
use super::form::{Expected, FILE_BYTES_MAX, InputError, Kind};
use super::{json, npz, png};
use tg_float::FloatTensor;
use tg_float::npy::read_npy;

/// Reads every input of a file.
///
/// # Errors
/// If the file is not of its kind, or its inputs are not what is expected.
pub fn read(bytes: &[u8], kind: Kind, expected: Expected<'_>) -> Result<Vec<Vec<f32>>, InputError> {
    read_rows(bytes, kind, expected, None)
}

/// As [`read`], of a file that may have arrays that no input reads: these are left out and named.
pub(super) fn read_known(
    bytes: &[u8],
    kind: Kind,
    expected: Expected<'_>,
) -> Result<(Vec<Vec<f32>>, Vec<String>), InputError> {
    let mut unread = Vec::new();
    let rows = read_rows(bytes, kind, expected, Some(&mut unread))?;
    Ok((rows, unread))
}

fn read_rows(
    bytes: &[u8],
    kind: Kind,
    expected: Expected<'_>,
    unread: Option<&mut Vec<String>>,
) -> Result<Vec<Vec<f32>>, InputError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(InputError::TooLarge { bytes: bytes.len() });
    }
    let rows = match kind {
        Kind::Npy => rows(Array::of_npy(bytes)?, expected)?,
        Kind::Npz => {
            let mut arrays = npz::read(bytes)?;
            if let Some(unread) = unread {
                unread.extend(super::array::take_unread(&mut arrays, expected));
            }
            super::array::named_rows(arrays, expected)?
        }
        Kind::Json => json::read(bytes, expected, unread)?,
        Kind::Png => vec![png::read(bytes, expected)?],
    };
    if rows.is_empty() {
        return Err(InputError::NoRows);
    }
    Ok(rows)
}

/// Reads a file that holds exactly one input, beside which there may be arrays that no input reads: their names come second.
///
/// # Errors
/// As [`read`], or if there are several.
pub fn read_one(
    bytes: &[u8],
    kind: Kind,
    expected: Expected<'_>,
) -> Result<(Vec<f32>, Vec<String>), InputError> {
    let (rows, unread) = read_known(bytes, kind, expected)?;
    Ok((one_of(rows)?, unread))
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

/// The arrays of a file as they are, with their names if it says them: of `.npy` and `.npz` in the types of the file, of JSON as
/// single-precision numbers, which may be flat. They are the inputs of a model that runs in floats.
///
/// # Errors
/// If the file is not of its kind, or an image.
pub fn read_arrays(
    bytes: &[u8],
    kind: Kind,
) -> Result<Vec<(Option<String>, FloatTensor)>, InputError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(InputError::TooLarge { bytes: bytes.len() });
    }
    match kind {
        Kind::Npy => Ok(vec![(None, read_npy(bytes).map_err(InputError::Npy)?)]),
        Kind::Npz => npz::tensors(bytes),
        Kind::Json => {
            let arrays = json::arrays(bytes)?.into_iter();
            let tensor = |(name, array): (Option<String>, Array)| {
                let shape = array.shape.clone();
                let ragged = |_| InputError::Ragged {
                    name: name.clone().unwrap_or_default(),
                };
                let tensor = FloatTensor::of(shape, array.numbers()).map_err(ragged)?;
                Ok((name, tensor))
            };
            arrays.map(tensor).collect()
        }
        Kind::Png => Err(InputError::Image),
    }
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
