//! The project's automation: the whole gate ([`gate`]), the checks of its structure ([`tidy`]), what quantising
//! costs ([`accuracy`]), and the outside judges of the importer: their Python ([`python`]), the models that exporters
//! write ([`corpus`], [`corpus_report`]), a user's way from PyTorch to a receipt ([`bring`]), ONNX's own cases
//! ([`onnx_conformance`], as proofs [`coverage`]), graphs of exporters drawn from a seed ([`exporters`], in 8 and 16 bits [`widths`]), folders of Hugging Face ([`pretrained`]), Arm's integer reference ([`tosa`]) and onnxruntime's speed ([`compare_ort`]); what a proof of
//! EZKL costs ([`compare_ezkl`]); placements under the outside judge ([`market`]) and beside those of other rules
//! ([`market_report`]); that the SDK builds for a browser ([`sdk`]); the example programs of WebAssembly ([`programs`]), and that OpenAI's
//! client is served ([`openai_client`]), by a provider's own server too ([`served_models`]); that Prometheus and its rules see a grid ([`monitoring`]); the page that nodes serve ([`dashboard`]); what each cheat comes to ([`cheats`]); what tests are
//! worth, by mutants ([`mutants`]).

pub mod accuracy;
pub mod attacks;
pub mod bring;
pub mod cheats;
pub mod circles;
pub mod compare_ezkl;
pub mod compare_ort;
pub mod corpus;
pub mod corpus_report;
pub mod coverage;
pub mod dashboard;
pub mod exporters;
pub mod gate;
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
