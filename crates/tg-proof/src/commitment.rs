//! The polynomial commitment: WHIR over BLAKE3, Johnson bound, one opening per commitment.

use crate::field::{E, F};
use p3_blake3::Blake3;
use p3_challenger::{HashChallenger, SerializingChallenger32};
use p3_commit::MultilinearPcs;
use p3_dft::Radix2DFTSmallBatch;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_sumcheck::layout::PrefixProver;
use p3_sumcheck::{OpeningBatch, OpeningEvals, OpeningProtocol, TableShape, TableSpec};
use p3_symmetric::{CompressionFunctionFromHasher, SerializingHasher};
use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption, WhirConfig};
use p3_whir::pcs::prover::WhirProver;
use serde::{Deserialize, Serialize};
use tg_types::Digest;

/// The random oracle of a proof.
pub type Challenger = SerializingChallenger32<F, HashChallenger<u8, Blake3, 32>>;
/// Merkle trees over BLAKE3.
pub type Mmcs = MerkleTreeMmcs<
    F,
    u8,
    SerializingHasher<Blake3>,
    CompressionFunctionFromHasher<Blake3, 2, 32>,
    2,
    32,
>;
/// How columns are stacked into one polynomial.
pub type Stacking = PrefixProver<F, E>;
/// The commitment scheme.
pub type Pcs = WhirProver<E, F, Radix2DFTSmallBatch<F>, Mmcs, Challenger, Stacking>;
/// A Merkle root.
pub type Commitment = <Pcs as MultilinearPcs<E, Challenger>>::Commitment;
/// A WHIR opening with the evaluations it shows.
pub type Opening = <Pcs as MultilinearPcs<E, Challenger>>::Proof;

/// The commitment to a model's weights: a Merkle root, and the values of its columns at a point drawn from that root.
///
/// Within the Johnson bound a root leaves a few polynomials open, and each opening may settle on another one. A
/// witness is opened once; weights are opened by the registration and by every inference, which must speak about the
/// same polynomial. Two of the few differ at the drawn point, so the values there name one of them for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightCommitment {
    /// The Merkle root.
    pub root: Commitment,
    /// Per weight table its columns at the last coordinates of the point of [`crate::registration::anchor_point`].
    pub anchor: Vec<Vec<E>>,
}

/// The root of a commitment, for people.
#[must_use]
pub fn root(commitment: &Commitment) -> Digest {
    commitment
        .roots()
        .first()
        .map_or_else(Digest::default, |root| Digest::new(*root))
}

/// Whether an opening shows exactly the values that the messages used, batch by batch.
pub(crate) fn opens_to<V: AsRef<[E]>>(opened: &[OpeningEvals<E>], expected: &[V]) -> bool {
    opened.len() == expected.len()
        && opened
            .iter()
            .zip(expected)
            .all(|(opened, expected)| opened.current() == expected.as_ref())
}

/// Variables folded per WHIR round; also the least number of variables of a column.
pub const FOLDING: usize = crate::layout::COLUMN_VARS_MIN;
/// log2 of the inverse rate of the first codeword.
pub const LOG_INV_RATE: usize = 2;
/// Target of each WHIR phase in bits, above 100 so that the composed sum stays above it.
pub const PHASE_SECURITY: usize = 105;
/// Most grinding of one phase in bits.
pub const GRINDING_BITS: usize = 16;
/// Least variables of a commitment: smaller ones are padded, WHIR needs a few rounds.
pub const STACK_VARS_MIN: usize = 10;
/// Most variables of a commitment.
pub const STACK_VARS_MAX: usize = 27;

/// One committed table: columns of one length, and the batches (points) at which they are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedTable {
    /// Variables of each column.
    pub vars: usize,
    /// Columns.
    pub columns: usize,
    /// Per opening point the columns opened there.
    pub batches: Vec<Vec<usize>>,
}

/// Why a commitment cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitmentError {
    /// More cells than one commitment holds.
    #[error("{cells} cells are more than one commitment holds (2^{STACK_VARS_MAX})")]
    TooLarge {
        /// Cells asked for.
        cells: usize,
    },
    /// The anchor is not one value per column of the weights.
    #[error("the anchor of the weights has not one value per column")]
    Anchor,
    /// The library refuses the parameters for this size.
    #[error("no parameters reach the security target for 2^{vars} cells")]
    NoParameters {
        /// Variables of the stacked polynomial.
        vars: usize,
    },
}

/// The opening schedule of some tables, as the library wants it.
#[must_use]
pub fn opening_protocol(tables: &[CommittedTable]) -> OpeningProtocol {
    let specs = tables
        .iter()
        .map(|table| {
            let batches = table
                .batches
                .iter()
                .map(|columns| OpeningBatch::new(columns.clone(), Vec::new()))
                .collect();
            TableSpec::new(TableShape::new(table.vars, table.columns), batches)
        })
        .collect();
    OpeningProtocol::new(specs)
}

/// Variables of the polynomial that stacks the tables.
#[must_use]
pub fn stack_vars(tables: &[CommittedTable]) -> usize {
    crate::layout::log2_ceil(tables.iter().map(|table| table.columns << table.vars).sum())
}

/// A commitment scheme for tables of these shapes and up to `claims` claims.
///
/// # Errors
/// If the tables are too large or no parameters reach the target.
pub fn scheme(vars: usize, claims: usize) -> Result<Pcs, CommitmentError> {
    if vars > STACK_VARS_MAX {
        return Err(CommitmentError::TooLarge {
            cells: 1 << vars.min(62),
        });
    }
    let no_parameters = CommitmentError::NoParameters { vars };
    let folding_factor = FoldingFactor::Constant(FOLDING);
    let (rounds, _) = folding_factor
        .compute_number_of_rounds(vars)
        .map_err(|_| no_parameters.clone())?;
    let mut rate = LOG_INV_RATE;
    let round_log_inv_rates = (0..rounds)
        .map(|round| {
            rate += folding_factor.at_round(round) - 1;
            rate
        })
        .collect();
    let parameters = ProtocolParameters {
        security_level: PHASE_SECURITY,
        pow_bits: GRINDING_BITS,
        folding_factor,
        soundness_type: SecurityAssumption::JohnsonBound,
        starting_log_inv_rate: LOG_INV_RATE,
        round_log_inv_rates,
    };
    let config = WhirConfig::<E, F, Challenger>::new_with_initial_claims(vars, parameters, claims)
        .map_err(|_| no_parameters.clone())?;
    if !config.check_pow_bits() {
        return Err(no_parameters);
    }
    // The roots of unity are computed by the first commitment: a verifier needs none.
    let dft = Radix2DFTSmallBatch::default();
    let mmcs = Mmcs::new(
        SerializingHasher::new(Blake3),
        CompressionFunctionFromHasher::new(Blake3),
        0,
    );
    Ok(Pcs::new(config, dft, mmcs))
}
