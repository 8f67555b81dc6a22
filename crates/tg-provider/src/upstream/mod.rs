//! A provider's own server that speaks the OpenAI API (vLLM, llama.cpp, Ollama), asked for served models.
//!
//! Its answers are not trusted to be short, quick or well formed: heads, bodies and streams are limited in bytes and time, and
//! anything that is not an answer of the API is an error of that request. Suggested reading order: [`config`] (what is
//! served, where and for how much), `client` (calls and their limits), `stream` (streamed answers), [`health`] (whether the
//! server is there), `worker` (requests of leases).

mod client;
pub mod config;
pub mod health;
mod stream;
mod worker;

pub use client::{UpstreamClient, UpstreamError};
pub use config::{UpstreamConfig, UpstreamUrl, UpstreamUrlError};
pub use health::UpstreamHealth;
pub use worker::{ServedUpstream, UpstreamWorker};
