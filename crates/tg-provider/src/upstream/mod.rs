//! A provider's own server that speaks the OpenAI API (vLLM, llama.cpp, Ollama), asked for served models.
//!
//! Nothing that it says is believed to be short, quick or well formed: heads, bodies and streams are bounded in bytes and in time, and
//! what is no answer of the API is an error of that request. Read in this order: [`config`] (what is served, where and for how much),
//! `client` (calls and their bounds), `stream` (answers in pieces), [`health`] (whether it is there), `worker` (requests of leases).

mod client;
pub mod config;
pub mod health;
mod stream;
mod worker;

pub use client::{UpstreamClient, UpstreamError};
pub use config::{UpstreamConfig, UpstreamUrl, UpstreamUrlError};
pub use health::UpstreamHealth;
pub use worker::{ServedUpstream, UpstreamWorker};
