//! What a user holds and asks: public models, proof files, what their statements say, and whether they are right.
//!
//! The fifth layer, above all others.

pub mod check;
pub mod claim;
pub mod file;
pub mod linking;
pub mod model;
pub mod security;
pub mod sequence;
pub(crate) mod shown;
pub mod trace;
