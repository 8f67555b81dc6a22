//! The scheme of hiding commitments.

use crate::algebra::field::{E, F};
use crate::algebra::transcript::Challenger;
use p3_blake3::Blake3;
use p3_dft::Radix2DFTSmallBatch;
use p3_merkle_tree::MerkleTreeHidingMmcs;
use p3_symmetric::{CompressionFunctionFromHasher, SerializingHasher};
use p3_whir::{HidingWhirPcs, ZkWhirConfig, ZkWhirProof};
use rand::rngs::StdRng;

/// Base elements of a leaf's salt.
const SALT: usize = 5;

/// Merkle trees over BLAKE3 with salted leaves.
pub type HidingMmcs = MerkleTreeHidingMmcs<
    F,
    u8,
    SerializingHasher<Blake3>,
    CompressionFunctionFromHasher<Blake3, 2, 32>,
    StdRng,
    2,
    32,
    SALT,
>;
/// The commitment scheme.
pub type HidingPcs = HidingWhirPcs<E, F, Radix2DFTSmallBatch<F>, HidingMmcs, Challenger, StdRng>;
/// An opening; in a `HidingProof` without its values.
pub type HidingOpening = ZkWhirProof<F, E, HidingMmcs>;
/// Parameters of an opening.
pub(crate) type Config = ZkWhirConfig<E, F, Challenger>;
