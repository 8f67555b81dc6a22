//! The whole pipeline: shipped models, ONNX's own evaluator as oracle, mutated files.
#![allow(clippy::unwrap_used, reason = "tests")]

mod causal;
mod oracle;
mod shipped;
mod smoke;
