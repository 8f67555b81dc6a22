//! The tensors of a folder, in one file or several.

use crate::error::PretrainedError;
use crate::safetensors::SafetensorsFile;
use crate::torch::TorchFile;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};
use tg_float::FloatTensor;

/// Most bytes of a JSON file of a folder.
pub(crate) const JSON_MAX: u64 = 32 << 20;
/// Most files of weights.
const FILES_MAX: usize = 1_024;

/// `model.safetensors.index.json` or `pytorch_model.bin.index.json`.
#[derive(Debug, Deserialize)]
struct RawIndex {
    weight_map: BTreeMap<String, String>,
}

/// An open file of weights.
enum WeightFile {
    Safetensors(SafetensorsFile<File>),
    Torch(TorchFile<File>),
}

impl WeightFile {
    fn open(path: &Path) -> Result<Self, PretrainedError> {
        let source = File::open(path).map_err(|source| PretrainedError::Read {
            path: path.to_owned(),
            source,
        })?;
        if path.extension().is_some_and(|end| end == "bin") {
            let file = TorchFile::open(source).map_err(|problem| torch_refused(path, problem))?;
            return Ok(Self::Torch(file));
        }
        let file = SafetensorsFile::open(source);
        file.map(Self::Safetensors)
            .map_err(|problem| PretrainedError::Safetensors {
                path: path.to_owned(),
                problem,
            })
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Safetensors(file) => file.names().map(str::to_owned).collect(),
            Self::Torch(file) => file.names().map(str::to_owned).collect(),
        }
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        match self {
            Self::Safetensors(file) => file.shape(name),
            Self::Torch(file) => file.shape(name),
        }
    }

    fn values(&mut self, path: &Path, name: &str) -> Result<Option<Vec<f32>>, PretrainedError> {
        match self {
            Self::Safetensors(file) => {
                file.values(name)
                    .map_err(|problem| PretrainedError::Safetensors {
                        path: path.to_owned(),
                        problem,
                    })
            }
            Self::Torch(file) => file
                .values(name)
                .map_err(|problem| torch_refused(path, problem)),
        }
    }
}

fn torch_refused(path: &Path, problem: crate::torch::TorchProblem) -> PretrainedError {
    PretrainedError::Torch {
        path: path.to_owned(),
        problem,
    }
}

/// The weights of a folder.
pub(crate) struct FolderWeights {
    files: Vec<(std::path::PathBuf, WeightFile)>,
    /// The file of each tensor.
    found: BTreeMap<String, usize>,
    /// What the names of the base model's tensors may begin with.
    prefix: &'static str,
    /// Bytes that may still be taken.
    left: usize,
    limit: usize,
}

/// Reads a file up to a limit.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, PretrainedError> {
    let failed = |source| PretrainedError::Read {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(PretrainedError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

impl FolderWeights {
    /// Opens the files of a folder; the headers are read, the tensors are not.
    pub(crate) fn open(folder: &Path, limit: usize) -> Result<Self, PretrainedError> {
        let names = files(folder)?;
        let mut weights = Self {
            files: Vec::new(),
            found: BTreeMap::new(),
            prefix: "",
            left: limit,
            limit,
        };
        for name in names {
            let path = folder.join(name);
            let file = WeightFile::open(&path)?;
            let index = weights.files.len();
            let names = file.names().into_iter();
            weights.found.extend(names.map(|name| (name, index)));
            weights.files.push((path, file));
        }
        Ok(weights)
    }

    /// Names of the base model's tensors may begin with this.
    pub(crate) const fn set_prefix(&mut self, prefix: &'static str) {
        self.prefix = prefix;
    }

    /// The name by which a tensor is in the files: with the prefix or without, `LayerNorm.gamma` for what was renamed.
    fn stored(&self, name: &str) -> Option<String> {
        let renamed = name
            .replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta");
        let names = [name, &renamed];
        let mut all = names
            .iter()
            .flat_map(|name| [format!("{}{name}", self.prefix), (*name).to_owned()]);
        all.find(|name| self.found.contains_key(name))
    }

    /// Whether there is a tensor.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.stored(name).is_some()
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Result<&[usize], PretrainedError> {
        let absent = || PretrainedError::NoTensor {
            name: name.to_owned(),
        };
        let stored = self.stored(name).ok_or_else(absent)?;
        let file = self
            .found
            .get(&stored)
            .and_then(|&file| self.files.get(file));
        file.and_then(|(_, file)| file.shape(&stored))
            .ok_or_else(absent)
    }

    /// The elements of a tensor of this shape.
    pub(crate) fn values(
        &mut self,
        name: &str,
        expected: &[usize],
    ) -> Result<Vec<f32>, PretrainedError> {
        let got = self.shape(name)?;
        if got != expected {
            return Err(PretrainedError::Shape {
                name: name.to_owned(),
                got: got.to_vec(),
                expected: expected.to_vec(),
            });
        }
        let bytes = expected
            .iter()
            .fold(4usize, |all, &axis| all.saturating_mul(axis));
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or(PretrainedError::Memory { limit: self.limit })?;
        let absent = || PretrainedError::NoTensor {
            name: name.to_owned(),
        };
        let stored = self.stored(name).ok_or_else(absent)?;
        let index = *self.found.get(&stored).ok_or_else(absent)?;
        let (path, file) = self.files.get_mut(index).ok_or_else(absent)?;
        let values = file.values(path, &stored)?;
        values.ok_or_else(absent)
    }

    /// A tensor of this shape.
    pub(crate) fn tensor(
        &mut self,
        name: &str,
        shape: &[usize],
    ) -> Result<FloatTensor, PretrainedError> {
        let values = self.values(name, shape)?;
        Ok(FloatTensor::of(shape.to_vec(), values).expect("as many values as the shape has"))
    }
}

/// What files of weights are called, the ones that are looked for first before the others.
const NAMES: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];

/// The names of the files with weights.
fn files(folder: &Path) -> Result<Vec<String>, PretrainedError> {
    for single in NAMES {
        if folder.join(single).is_file() {
            return Ok(vec![single.to_owned()]);
        }
        let index = format!("{single}.index.json");
        if folder.join(&index).is_file() {
            return listed(folder, &index);
        }
    }
    Err(PretrainedError::NoWeights)
}

/// The names in a list of files.
fn listed(folder: &Path, index: &str) -> Result<Vec<String>, PretrainedError> {
    let path = folder.join(index);
    let bytes = read_file(&path, JSON_MAX)?;
    let index: RawIndex =
        serde_json::from_slice(&bytes).map_err(|source| PretrainedError::Json {
            path: path.clone(),
            source,
        })?;
    let mut names: Vec<String> = index.weight_map.into_values().collect();
    names.sort_unstable();
    names.dedup();
    let outside = |name: &&String| {
        let mut parts = Path::new(name).components();
        !matches!(
            (parts.next(), parts.next()),
            (Some(Component::Normal(_)), None)
        )
    };
    if let Some(name) = names.iter().find(outside) {
        return Err(PretrainedError::Outside { name: name.clone() });
    }
    if names.is_empty() || names.len() > FILES_MAX {
        return Err(PretrainedError::NoWeights);
    }
    Ok(names)
}
