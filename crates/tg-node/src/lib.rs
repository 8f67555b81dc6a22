//! The validator.

pub mod blob;
pub mod limits;
pub mod mempool;
pub mod store;
pub mod wire;
