//! Hugging Face folders to the float graph: what `save_pretrained` writes gives the graph that an exporter would have
//! written, or an error that names the field of `config.json` or the tensor that is not taken.
//!
//! [`read()`] is all of it: `config.json` says the architecture, `model.safetensors` (or the files of
//! `model.safetensors.index.json`) have the weights. Nothing of a folder is executed.

mod config;
mod error;
mod safetensors;
mod weights;
mod writer;

mod blocks;
mod clip;
mod decoder;
mod encoder;
mod gpt2;
mod image;
mod prenorm;
mod read;
mod whisper;

#[doc(hidden)]
pub mod fuzz;

pub use error::PretrainedError;
pub use read::{ModelTokens, PretrainedModel, read};
pub use safetensors::SafetensorsProblem;
