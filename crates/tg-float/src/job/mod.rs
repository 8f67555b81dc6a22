//! Float graphs as jobs: the files of a model, what a run is given and what it answers.
//!
//! A [`FloatModelFile`] is a graph with the limits of one run. Its public part has the structure, the limits and the digest of
//! the constants, so the hash of the public part names all of it; the whole file is the public part and the constants.
//! [`FloatModel`] is one that was checked; it turns an input ([`NamedTensors`]) into a [`FloatAnswer`]. The same file and input
//! give the same answer and the same bill on every machine, so whoever doubts an answer runs the model again, or parts of the
//! run that were committed to ([`trace`]).
//!
//! *Invariant:* any file is taken or refused with a reason, and any input gives an answer within the limits of the file.

mod answer;
mod file;
pub mod limits;
mod named;
mod pinned;
mod run;
pub mod trace;

#[cfg(test)]
mod tests;

pub use answer::{FloatAnswer, FloatEnd};
pub use file::{
    FloatFileError, FloatLimits, FloatModelFile, PublicFloatModel, is_float_file, is_public_float,
};
pub use named::{NamedTensors, NamedTensorsError};
pub use pinned::{FloatDeparture, check_floats};
pub use run::{FloatModel, FloatRun};
