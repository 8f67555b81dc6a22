//! Float graphs as jobs: the files of a model, what a run is given and what it answers.
//!
//! A [`FloatModelFile`] is a graph with the limits of one run. Its public part has the structure, the limits and the digest of
//! the constants, so the hash of the public part names all of it; the whole file is the public part and the constants.
//! [`FloatModel`] is one that was checked; it turns an input ([`NamedTensors`]) into a [`FloatAnswer`]. The same file and input
//! give the same answer and the same bill on every machine, so whoever doubts an answer runs the model again.
//!
//! *Invariant:* any file is taken or refused with a reason, and any input gives an answer within the limits of the file.

mod answer;
mod file;
mod named;
mod run;

#[cfg(test)]
mod tests;

pub use answer::{FloatAnswer, FloatEnd};
pub use file::{
    FloatFileError, FloatLimits, FloatModelFile, PublicFloatModel, is_float_file, is_public_float,
};
pub use named::{NamedTensors, NamedTensorsError};
pub use run::{FloatModel, FloatRun};

/// Sizes of the tier. They are part of its version: a change is another version.
pub mod limits {
    use crate::codec::limits::{CONSTANTS_BYTES_MAX, STRUCTURE_BYTES_MAX};

    /// Version of the tier as jobs name it: the operators, what each computes and costs, and these limits.
    pub const TIER_VERSION: u16 = 1;

    /// Units of work of one run: 1 to 5 s of a validator's core with AVX2 or AVX-512. They bound what every validator pays for
    /// checking an answer.
    pub const WORK_MAX: u64 = 60_000_000_000;

    /// Bytes of the values of one run that are alive at a time, constants apart.
    pub const MEMORY_MAX: u64 = 512 << 20;

    /// Iterations of a loop.
    pub const ITERATIONS_MAX: usize = 1 << 20;

    /// Bytes of an output: the answer around it must fit into evidence.
    pub const OUTPUT_BYTES_MAX: u32 = (1 << 20) - (16 << 10);

    /// Bytes of a public part.
    pub const PUBLIC_BYTES_MAX: u64 = (STRUCTURE_BYTES_MAX + 256) as u64;

    /// Bytes of a file: constants and public part.
    pub const FILE_BYTES_MAX: u64 = PUBLIC_BYTES_MAX + CONSTANTS_BYTES_MAX as u64;
}
