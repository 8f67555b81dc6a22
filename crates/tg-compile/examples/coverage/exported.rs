//! A graph that an exporter wrote, with samples for calibration and onnxruntime's answers.

use crate::attempt::Given;
use crate::case::{Asked, Bound, Verdict, all_outputs};
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use tg_compile::integer::Precision;
use tg_compile::passes::PrepareOptions;
use tg_float::npy::read_npy;
use tg_float::{FloatTensor, Graph};
use tg_onnx::{ReadLimits, read};
use tg_types::with_sources;

/// A folder of the drawn corpus: see `xtask/python/exporters_common.py`.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) name: String,
    path: PathBuf,
    inputs: Vec<String>,
}

impl Exported {
    /// The graph of a folder, if it is one of the drawn corpus.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path.join("entry.json")).ok()?;
        let json: serde_json::Value = serde_json::from_str(&text).ok()?;
        let inputs = json["inputs"].as_array()?.iter();
        let inputs = inputs.filter_map(|name| name.as_str().map(str::to_owned));
        Some(Self {
            name: json["name"].as_str()?.to_owned(),
            path: path.to_path_buf(),
            inputs: inputs.collect(),
        })
    }

    fn graph(&self) -> Result<Graph, String> {
        let bytes = fs::read(self.path.join("model.onnx")).map_err(|error| with_sources(&error))?;
        read(&bytes, Some(&self.path), &ReadLimits::default()).map_err(|error| with_sources(&error))
    }

    /// Distinct operators, in order of their names.
    pub(crate) fn operators(&self) -> String {
        let Ok(graph) = self.graph() else {
            return "-".to_owned();
        };
        let mut names: Vec<&str> = graph.nodes.iter().map(|node| node.op.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(",")
    }

    /// Compiles every output on the calibration samples, proves the first test sample and verifies; in this precision, if
    /// one is told.
    pub(crate) fn judge(&self, precision: Option<Precision>) -> Verdict {
        let graph = match self.graph() {
            Ok(graph) => graph,
            Err(reason) => return Verdict::Refused(reason),
        };
        match self.prove(&graph, precision) {
            Ok(verdict) => verdict,
            Err(error) => Verdict::Refused(format!("the entry is not read: {error:#}")),
        }
    }

    fn prove(&self, graph: &Graph, precision: Option<Precision>) -> Result<Verdict> {
        let mut stacks = Vec::new();
        for index in 0..self.inputs.len() {
            stacks.push((
                array(&self.path.join(format!("calibration.{index}.npy")))?,
                array(&self.path.join(format!("test.{index}.npy")))?,
            ));
        }
        let request = |k: usize, test: bool| -> Result<Given> {
            let named = self.inputs.iter().zip(&stacks);
            let tensors = named.map(|(name, (few, some))| {
                let stack = if test { some } else { few };
                Ok((name.clone(), row(stack, k, true)?))
            });
            tensors.collect()
        };
        let count = stacks.first().map_or(0, |(few, _)| few.shape()[0]);
        let calibration: Result<Vec<Given>> = (0..count).map(|k| request(k, false)).collect();
        let mut expected = Vec::new();
        for index in 0..graph.outputs.len() {
            let stack = array(&self.path.join(format!("expected.{index}.npy")))?;
            expected.push(row(&stack, 0, false)?);
        }
        let mut options = PrepareOptions::default();
        for (name, (few, _)) in self.inputs.iter().zip(&stacks) {
            for (axis, &size) in few.shape().iter().enumerate().skip(1) {
                options.axes.insert(format!("{name}.{axis}"), size);
            }
        }
        let asked = Asked {
            given: &request(0, true)?,
            calibration: &calibration?,
            options,
            precision,
        };
        Ok(all_outputs(graph, &asked, &expected, Bound::None))
    }
}

fn array(path: &Path) -> Result<FloatTensor> {
    let bytes = fs::read(path).with_context(|| format!("`{}` is not there", path.display()))?;
    read_npy(&bytes).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// Sample `k` of stacked samples: as a batch of one, or as it is.
fn row(stacked: &FloatTensor, k: usize, batched: bool) -> Result<FloatTensor> {
    let [count, rest @ ..] = stacked.shape() else {
        bail!("an array without axes holds no samples");
    };
    if k >= *count {
        bail!("there are {count} samples");
    }
    let length: usize = rest.iter().product();
    let places: Vec<usize> = (k * length..(k + 1) * length).collect();
    let batch = batched.then_some(1);
    let shape = batch.into_iter().chain(rest.iter().copied()).collect();
    Ok(FloatTensor::new(shape, stacked.data().gather(&places))?)
}
