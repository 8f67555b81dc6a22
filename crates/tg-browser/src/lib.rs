//! The verifier of proofs as a WebAssembly module: what the dashboard loads when somebody asks it to verify, and to read
//! blocks, which have one encoding.
//!
//! - [`session`]: one proof and its model, checked in steps, with a verdict as JSON. No I/O, no clock.
//! - [`blocks`]: final blocks as the block explorer shows them.
//! - `exports`: the session of a module's instance behind functions of integers over its linear memory, for wasm32 alone.
//!
//! `cargo xtask dashboard` builds it into `crates/tg-api/dashboard/verify.wasm`, which is committed.

pub mod blocks;
pub mod session;

#[cfg(target_family = "wasm")]
mod exports;
