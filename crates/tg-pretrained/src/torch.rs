//! Weights as PyTorch writes them (`pytorch_model.bin`): a zip archive with a pickle that says what tensors there are, and a
//! file of bytes for each storage.

use crate::archive::{ArchiveProblem, FilePlace, bytes_at, files, start_of};
use crate::pickle::{PICKLE_MAX, PickleProblem, TensorView, tensors};
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use tg_float::convert::{bf16_to_f32, f16_to_f32};

/// Most bytes of the elements of a tensor's storage.
const STORAGE_MAX: u64 = 8 << 30;

/// What is wrong with a file of weights that PyTorch wrote.
#[derive(Debug, thiserror::Error)]
pub enum TorchProblem {
    /// The archive.
    #[error("its archive is not taken")]
    Archive(#[from] ArchiveProblem),
    /// The pickle.
    #[error("its pickle is not taken")]
    Pickle(#[from] PickleProblem),
    /// It has no pickle, or one of another byte order.
    #[error("it has no list of tensors in the byte order of little ends")]
    NoPickle,
    /// A tensor whose elements are not where it says.
    #[error("the tensor `{name}` does not fit its storage")]
    Place {
        /// The tensor.
        name: String,
    },
    /// A type that is not taken.
    #[error("the tensor `{name}` is of a {storage}; floats of 16, 32 and 64 bits are taken")]
    Type {
        /// The tensor.
        name: String,
        /// The class of its storage.
        storage: String,
    },
}

/// An open file.
#[derive(Debug)]
pub(crate) struct TorchFile<R> {
    source: R,
    /// What the names of all files begin with.
    folder: String,
    files: BTreeMap<String, FilePlace>,
    tensors: BTreeMap<String, TensorView>,
}

impl<R: Read + Seek> TorchFile<R> {
    /// Reads which tensors there are.
    pub(crate) fn open(mut source: R) -> Result<Self, TorchProblem> {
        let files = files(&mut source)?;
        let pickle = files.iter().find_map(|(name, place)| {
            let folder = name.strip_suffix("data.pkl")?;
            let top = folder.is_empty() || folder.find('/') == Some(folder.len() - 1);
            top.then(|| (folder.to_owned(), *place))
        });
        let (folder, place) = pickle.ok_or(TorchProblem::NoPickle)?;
        if place.length > PICKLE_MAX {
            return Err(PickleProblem::TooLarge.into());
        }
        let order = format!("{folder}byteorder");
        if let Some(&place) = files.get(&order) {
            let start = start_of(&mut source, &order, place)?;
            let word = bytes_at(&mut source, start, place.length.min(16));
            if word.map_err(ArchiveProblem::from)? != b"little" {
                return Err(TorchProblem::NoPickle);
            }
        }
        let start = start_of(&mut source, "data.pkl", place)?;
        let pickle = bytes_at(&mut source, start, place.length).map_err(ArchiveProblem::from)?;
        let tensors = tensors(&pickle)?;
        let owned = tensors
            .into_iter()
            .map(|(name, view)| (name.to_string(), (*view).clone()));
        Ok(Self {
            tensors: owned.collect(),
            source,
            folder,
            files,
        })
    }

    /// The names of its tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.tensors.get(name)?.shape)
    }

    /// The elements of a tensor as `f32`; `None` if there is no such tensor.
    pub(crate) fn values(&mut self, name: &str) -> Result<Option<Vec<f32>>, TorchProblem> {
        let Some(view) = self.tensors.get(name) else {
            return Ok(None);
        };
        let size = match &*view.storage {
            "FloatStorage" => 4,
            "HalfStorage" | "BFloat16Storage" => 2,
            "DoubleStorage" => 8,
            other => {
                return Err(TorchProblem::Type {
                    name: name.to_owned(),
                    storage: other.chars().take(100).collect(),
                });
            }
        };
        let wrong = || TorchProblem::Place {
            name: name.to_owned(),
        };
        let file = format!("{}data/{}", self.folder, view.key);
        let place = *self.files.get(&file).ok_or_else(wrong)?;
        let end = extent(view).ok_or_else(wrong)?;
        let bytes = end.checked_mul(size).ok_or_else(wrong)?;
        // Elements that several places of a tensor share are written apart by whoever wants to keep them.
        let count = view
            .shape
            .iter()
            .try_fold(1usize, |all, &axis| all.checked_mul(axis));
        if count.is_none_or(|count| count as u64 > end) {
            return Err(wrong());
        }
        if bytes > place.length.min(STORAGE_MAX) {
            return Err(wrong());
        }
        let start = start_of(&mut self.source, &file, place)?;
        let bytes = bytes_at(&mut self.source, start, bytes).map_err(ArchiveProblem::from)?;
        let storage = &*view.storage;
        let one = |at: usize| float(storage, &bytes[at * size as usize..]);
        Ok(Some(places(view).into_iter().map(one).collect()))
    }
}

/// How many elements of its storage a tensor reaches over.
fn extent(view: &TensorView) -> Option<u64> {
    if view.shape.contains(&0) {
        return Some(0);
    }
    let mut last = view.offset;
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        last = last.checked_add((size - 1).checked_mul(stride)?)?;
    }
    u64::try_from(last).ok()?.checked_add(1)
}

/// Where the elements of a tensor are in its storage, in order.
fn places(view: &TensorView) -> Vec<usize> {
    // One empty axis makes all of it empty, however long the others are said to be.
    if view.shape.contains(&0) {
        return Vec::new();
    }
    let mut places = vec![view.offset];
    for (&size, &stride) in view.shape.iter().zip(&view.strides) {
        let inner = |&start: &usize| (0..size).map(move |index| start + index * stride);
        places = places.iter().flat_map(inner).collect();
    }
    places
}

/// The first element of these bytes.
fn float(storage: &str, bytes: &[u8]) -> f32 {
    let word = |count: usize| {
        let own = bytes.iter().take(count).rev();
        own.fold(0u64, |all, &byte| all << 8 | u64::from(byte))
    };
    match storage {
        "FloatStorage" => f32::from_bits(word(4) as u32),
        "HalfStorage" => f16_to_f32(word(2) as u16),
        "BFloat16Storage" => bf16_to_f32(word(2) as u16),
        _ => f64::from_bits(word(8)) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lie_where_strides_say_and_an_empty_axis_leaves_none() {
        let view = |shape: &[usize], strides: &[usize]| TensorView {
            storage: "FloatStorage".into(),
            key: "0".into(),
            offset: 1,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
        };
        assert_eq!(places(&view(&[2, 3], &[1, 2])), [1, 3, 5, 2, 4, 6]);
        assert_eq!(extent(&view(&[2, 3], &[1, 2])), Some(7));
        // A file may say any length of the axes beside it: nothing is laid out for them.
        let empty = view(&[1 << 40, 0], &[1, 1]);
        assert_eq!((extent(&empty), places(&empty)), (Some(0), vec![]));
    }
}
