//! Hugging Face folders to the float graph: what `save_pretrained` writes gives the graph that an exporter would have
//! written, or an error that names the field of `config.json` or the tensor that is not taken.
//!
//! [`read()`] is all of it: `config.json` says the architecture, `model.safetensors` or `pytorch_model.bin` (or the files that
//! their `.index.json` lists) have the weights. Nothing of a folder is executed: of a pickle, only what puts tensors together
//! is understood.

mod archive;
mod config;
mod error;
mod pickle;
mod safetensors;
mod torch;
mod weights;
mod writer;

mod blocks;
mod clip;
mod decoder;
mod encoder;
mod gpt2;
mod image;
mod prenorm;
mod purpose;
mod read;
mod rotary;
mod whisper;

#[doc(hidden)]
pub mod fuzz;

pub use archive::ArchiveProblem;
pub use error::PretrainedError;
pub use pickle::PickleProblem;
pub use read::{ModelTokens, PretrainedModel, read};
pub use safetensors::SafetensorsProblem;
pub use torch::TorchProblem;
