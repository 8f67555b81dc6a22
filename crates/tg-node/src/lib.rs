//! The validator.

mod application;
pub mod blob;
mod chain;
mod core;
pub mod engine;
pub mod evidence;
pub mod handle;
pub mod interim;
pub mod key;
pub mod limits;
pub mod mempool;
mod open;
pub mod store;
pub mod validator;
pub mod wire;
