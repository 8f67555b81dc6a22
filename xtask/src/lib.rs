//! The project's automation, a module for each command.
//!
//! The gate:
//! - [`gate`] - all steps; [`tidy`] - the checks of the repository's structure; [`mutants`] - what tests are worth
//! - [`programs`] - the example programs of WebAssembly; [`sdk`] - the SDK builds for a browser; [`wheel`] - the Python package
//! - [`dashboard`] - the page that nodes serve, and the verifier in it
//!
//! The importer and compiler under outside judges ([`python`] prepares theirs):
//! - [`accuracy`] - what quantising costs; [`bring`] - a user's way from PyTorch to a receipt
//! - [`onnx_conformance`] - ONNX's own cases, and as proofs [`coverage`]
//! - [`corpus`], [`corpus_report`] - models that exporters write
//! - [`exporters`] - graphs of exporters drawn from a seed; [`widths`] - in 8 and 16 bits
//! - [`pretrained`] - folders of Hugging Face; [`tosa`] - Arm's integer reference
//!
//! Measurements:
//! - [`compare_ort`] - the speed of onnxruntime; [`compare_ezkl`] - what a proof of EZKL costs
//! - [`market`], [`market_report`] - placements, and those of other rules
//! - [`gateway_bench`] - what a gateway answers a second
//! - [`cheats`] - what each cheat comes to; [`attacks`] - what attacks on the market cost
//!
//! Whole grids under other programs:
//! - [`openai_client`], [`served_models`] - OpenAI's client is served, by a provider's own server too
//! - [`schemathesis`] - the API answers as its document says
//! - [`browser`] - headless Chromium uses the page that nodes serve
//! - [`monitoring`] - Prometheus and its rules see a grid
//! - [`network`] - a network of real processes, killed one by one; [`dispute`] - disputes over such processes

pub mod accuracy;
pub mod attacks;
pub mod bring;
pub mod browser;
pub mod cheats;
pub mod circles;
pub mod compare_ezkl;
pub mod compare_ort;
pub mod corpus;
pub mod corpus_report;
pub mod coverage;
pub mod dashboard;
pub mod dispute;
pub mod exporters;
pub mod gate;
pub mod gateway_bench;
mod http;
pub mod manifest;
pub mod market;
pub mod market_report;
pub mod monitoring;
pub mod mutants;
pub mod names;
pub mod network;
pub mod onnx_conformance;
pub mod openai_client;
pub mod pretrained;
mod process;
pub mod processors;
pub mod programs;
pub mod python;
pub mod schemathesis;
pub mod sdk;
pub mod served_models;
pub mod tidy;
pub mod tosa;
pub mod wheel;
pub mod widths;

use std::path::PathBuf;

/// The repository's root folder.
///
/// # Panics
/// Never: `xtask` lies one level below the root.
#[must_use]
pub fn root() -> PathBuf {
    // Cargo's word at run time counts more than that of the build: a target folder may have been built elsewhere.
    let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    told.filter(|folder| folder.ends_with("xtask"))
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")))
        .parent()
        .expect("xtask lies one level below the root")
        .to_path_buf()
}
