//! The whole pipeline: shipped models, ONNX's own evaluator as oracle, mutated files.
#![allow(clippy::unwrap_used, reason = "tests")]

mod causal;
mod features;
mod finer;
mod general;
mod graphs;
mod inputs;
mod lowering;
mod operators;
mod oracle;
mod outputs;
mod passes;
mod pretrained;
mod provable;
mod quantised;
mod shipped;
mod smoke;
mod ties;
