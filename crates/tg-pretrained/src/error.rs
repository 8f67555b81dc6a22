//! Why a folder is refused.

use crate::safetensors::SafetensorsProblem;
use crate::torch::TorchProblem;
use std::path::PathBuf;
use tg_float::graph::GraphError;

/// Why a Hugging Face folder is refused.
#[derive(Debug, thiserror::Error)]
pub enum PretrainedError {
    /// There is no `config.json`.
    #[error(
        "it has no config.json: a folder that is a model has config.json and model.safetensors, as save_pretrained writes them"
    )]
    NoConfig,
    /// A file that cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file that is larger than its limit.
    #[error("`{}` is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A file that is not the JSON that it should be.
    #[error("`{}` is not the JSON that is expected", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A field that is absent.
    #[error("config.json has no `{field}`, which this architecture needs")]
    Absent {
        /// The field.
        field: String,
    },
    /// A field whose value is not taken.
    #[error("config.json has `{field}` = {value}; {taken}")]
    Field {
        /// The field.
        field: String,
        /// Its value, as JSON.
        value: String,
        /// What is taken instead.
        taken: String,
    },
    /// A folder without weights in a form that is read.
    #[error(
        "the folder has none of `model.safetensors`, `pytorch_model.bin` and their lists of several files (`.index.json`); \
         open it with transformers and write it again with `save_pretrained`"
    )]
    NoWeights,
    /// A file of weights that is malformed.
    #[error("`{}` is not a safetensors file", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problem: SafetensorsProblem,
    },
    /// A file of weights of PyTorch that is not taken.
    #[error(
        "`{}` is not a file of weights that is taken; open the folder with transformers and write it again with \
         `save_pretrained`, which gives `model.safetensors`",
        path.display()
    )]
    Torch {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problem: TorchProblem,
    },
    /// A list of files that names one outside the folder.
    #[error("the list of files names `{name}`; files of the folder itself are read alone")]
    Outside {
        /// The name.
        name: String,
    },
    /// A tensor that is in no file.
    #[error("the weights have no tensor `{name}`, which this architecture needs")]
    NoTensor {
        /// Its name, without the architecture's prefix.
        name: String,
    },
    /// A tensor of another shape than the configuration says.
    #[error("the tensor `{name}` has the shape {got:?}, and config.json says {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// The shape in the file.
        got: Vec<usize>,
        /// The shape that follows from the configuration.
        expected: Vec<usize>,
    },
    /// More bytes of weights than are read.
    #[error("the weights take more than {limit} bytes in memory")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// A graph that breaks the rules of graphs.
    #[error("the graph is not well formed")]
    Graph(#[from] GraphError),
}
