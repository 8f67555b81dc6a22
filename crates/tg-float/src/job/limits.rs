//! Sizes of the tier. They are part of its version: a change is another version.

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

/// Bytes of what a record of a run says of a value.
pub const VALUE_RECORD_BYTES: usize = 40;

/// Bytes of what it says of a node beside its values.
pub const NODE_RECORD_BYTES: usize = 12;
