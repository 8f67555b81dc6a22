//! An entry of a corpus: a model, its inputs, and what onnxruntime answered.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tg_compile::passes::{KeptOutputs, PrepareOptions};
use tg_float::npy::read_npy;
use tg_float::{FloatTensor, Graph};
use tg_onnx::{ReadLimits, read};
use tg_types::with_sources;

use crate::measure::Task;

/// Samples of a small and of a large model.
const SAMPLES: [usize; 2] = [256, 16];
/// From how many bytes on a model is large.
const LARGE_BYTES: u64 = 2 << 20;

/// One model of the corpus with its inputs and onnxruntime's answers.
pub(crate) struct Entry {
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    pub(crate) exporter: String,
    pub(crate) task: Task,
    pub(crate) inputs: Vec<FloatTensor>,
    pub(crate) outputs: Vec<FloatTensor>,
    pub(crate) labels: Option<FloatTensor>,
    /// Names of the inputs, in the order of the arrays.
    pub(crate) input_names: Vec<String>,
    /// Names of the outputs.
    pub(crate) output_names: Vec<String>,
    /// Samples that the float tier runs.
    pub(crate) samples: usize,
}

impl Entry {
    /// Reads the folder of an entry.
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        let text = fs::read_to_string(folder.join("entry.json"))?;
        let json: Value = serde_json::from_str(&text)?;
        let word = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        let arrays = |start: &str| -> Result<Vec<FloatTensor>> {
            (0..)
                .map(|index| folder.join(format!("{start}.{index}.npy")))
                .take_while(|path| path.exists())
                .map(|path| array(&path))
                .collect()
        };
        let names = |key: &str| -> Vec<String> {
            let list = json[key].as_array().into_iter().flatten();
            list.filter_map(|name| name.as_str().map(str::to_owned))
                .collect()
        };
        let labels = folder.join("labels.npy");
        let inputs = arrays("test")?;
        let available = inputs.first().map_or(0, |input| input.shape()[0]);
        let large = folder_bytes(folder)? > LARGE_BYTES;
        Ok(Self {
            folder: folder.to_path_buf(),
            name: word("name"),
            exporter: word("exporter"),
            input_names: names("inputs"),
            output_names: names("outputs"),
            task: match word("measure").as_str() {
                "accuracy" => Task::Accuracy,
                "perplexity" => Task::Perplexity,
                _ => Task::Noise,
            },
            outputs: arrays("expected")?,
            labels: labels.exists().then(|| array(&labels)).transpose()?,
            samples: available.min(SAMPLES[usize::from(large)]),
            inputs,
        })
    }

    /// The arrays that the model is calibrated on.
    pub(crate) fn calibration(&self) -> Result<Vec<FloatTensor>> {
        let paths = (0..self.inputs.len())
            .map(|index| self.folder.join(format!("calibration.{index}.npy")));
        paths.map(|path| array(&path)).collect()
    }

    /// The graph as the file has it.
    pub(crate) fn graph(&self) -> Result<Graph, String> {
        let bytes =
            fs::read(self.folder.join("model.onnx")).map_err(|error| with_sources(&error))?;
        read(&bytes, Some(&self.folder), &ReadLimits::default())
            .map_err(|error| with_sources(&error))
    }

    /// Whether onnxruntime quantised the file.
    pub(crate) fn is_quantised(&self) -> bool {
        self.exporter.contains("quantization")
    }

    /// Which output holds the scores: the first one of floats.
    pub(crate) fn scores(&self) -> usize {
        let floats = |output: &FloatTensor| crate::measure::floats(output).is_some();
        self.outputs.iter().position(floats).unwrap_or(0)
    }

    /// Options under which the graph is prepared: sizes of open axes as in the arrays, the output of the scores.
    pub(crate) fn preparation(&self) -> PrepareOptions {
        let mut options = PrepareOptions::default();
        for (name, stack) in self.input_names.iter().zip(&self.inputs) {
            for (axis, &size) in stack.shape().iter().enumerate().skip(1) {
                options.axes.insert(format!("{name}.{axis}"), size);
            }
        }
        let scores = self.output_names.get(self.scores()).cloned();
        options.keep = KeptOutputs::Named(scores.into_iter().collect());
        options
    }

    /// Labels of a sample's rows.
    pub(crate) fn labels_of(&self, k: usize) -> Result<Vec<i64>> {
        let Some(labels) = &self.labels else {
            return Ok(Vec::new());
        };
        let row = sample(labels, k)?;
        Ok(row.values::<i64>().unwrap_or_default().to_vec())
    }
}

/// An array of a `.npy` file.
fn array(path: &Path) -> Result<FloatTensor> {
    let bytes = fs::read(path)?;
    read_npy(&bytes).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// Sample `k` of stacked samples, as a batch of one.
pub(crate) fn sample(stacked: &FloatTensor, k: usize) -> Result<FloatTensor> {
    let [count, rest @ ..] = stacked.shape() else {
        bail!("an array without axes holds no samples");
    };
    if k >= *count {
        bail!("there are {count} samples");
    }
    let length: usize = rest.iter().product();
    let places: Vec<usize> = (k * length..(k + 1) * length).collect();
    let shape = std::iter::once(1).chain(rest.iter().copied()).collect();
    Ok(FloatTensor::new(shape, stacked.data().gather(&places))?)
}

/// Bytes of the model's files.
fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("model.onnx") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_rows() {
        let all = FloatTensor::of(vec![2, 2], vec![1.5f32, 2.0, -3.0, 4.0]).expect("four elements");
        let row = sample(&all, 1).expect("two samples");
        assert_eq!(row.shape(), [1, 2]);
        assert_eq!(row.values::<f32>(), Some(&[-3.0, 4.0][..]));
        assert!(sample(&all, 2).is_err());
        assert!(sample(&FloatTensor::scalar(1.0f32), 0).is_err());
    }
}
