//! The polynomial commitment: WHIR over BLAKE3, Johnson bound, one opening per commitment.

use crate::algebra::field::{E, F};
use p3_blake3::Blake3;
use p3_commit::MultilinearPcs;
use p3_dft::Radix2DFTSmallBatch;
use p3_merkle_tree::MerkleTreeMmcs;
use p3_multilinear_util::point::Point;
use p3_sumcheck::layout::PrefixProver;
use p3_sumcheck::{
    OpeningBatch, OpeningEvals, OpeningProtocol, PrescribedPointPcs, TableShape, TableSpec,
};
use p3_symmetric::{CompressionFunctionFromHasher, SerializingHasher};
use p3_whir::WhirProof;
use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption, WhirConfig};
use p3_whir::pcs::prover::WhirProver;
use serde::{Deserialize, Serialize};
use tg_types::Digest;

pub use crate::algebra::transcript::Challenger;
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
/// What a WHIR opening shows its evaluations by, without them: a proof that has them already need not send them twice.
pub type OpeningArgument = WhirProof<F, E, Mmcs>;
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
    /// Per weight table its columns at the last coordinates of the point of [`crate::verify::registration::anchor_point`].
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

/// Whether a commitment opens to the given values, batch by batch: per batch of the protocol a point and its columns
/// there.
///
/// The argument absorbs and shows these very values, so that there is nothing to compare them with. Stops: values that
/// are not the committed columns'.
pub(crate) fn opens_at(
    scheme: &Pcs,
    protocol: &OpeningProtocol,
    commitment: &Commitment,
    claims: OpeningClaims,
    argument: &OpeningArgument,
    challenger: &mut Challenger,
) -> bool {
    let OpeningClaims { points, values } = claims;
    if points.len() != protocol.num_openings() || values.len() != points.len() {
        return false;
    }
    let evals = values.into_iter();
    let opening = Opening {
        whir: argument.clone(),
        evals: evals.map(|v| OpeningBatch::new(v, Vec::new())).collect(),
    };
    scheme
        .verify_at(commitment, &opening, protocol, &points, challenger)
        .is_ok()
}

/// What a commitment is to open to.
#[derive(Debug, Default)]
pub(crate) struct OpeningClaims {
    points: Vec<Point<E>>,
    values: Vec<Vec<E>>,
}

impl OpeningClaims {
    /// The next batch of the protocol: columns at a point.
    pub(crate) fn push(&mut self, point: Point<E>, values: Vec<E>) {
        self.points.push(point);
        self.values.push(values);
    }
}

/// Target of each WHIR phase in bits, above 100 so that the composed sum stays above it.
pub const PHASE_SECURITY: usize = 105;
/// Most grinding of one phase in bits.
pub const GRINDING_BITS: usize = 16;
/// Least variables of a commitment: it has at least one column.
pub const STACK_VARS_MIN: usize = crate::algebra::layout::COLUMN_VARS_MIN;
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
        cells: u64,
    },
    /// The anchor is not one value per column of the weights.
    #[error("the anchor of the weights has not one value per column")]
    Anchor,
    /// A commitment of weights that a program does not have, or none of those it has.
    #[error(
        "the program has weights and no commitment to them, or none and a commitment or a root of some"
    )]
    Weights,
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
    // In 64 bits on every machine: a sum that wraps would be a small commitment.
    let cells = tables
        .iter()
        .map(|table| (table.columns as u64) << table.vars);
    let cells = cells.fold(0, u64::saturating_add).min(1 << 62);
    cells.next_power_of_two().trailing_zeros() as usize
}

/// How a polynomial is folded and encoded on its way to a few coefficients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// log2 of the inverse rate of the committed codeword.
    pub log_inv_rate: usize,
    /// Variables folded before each further codeword, and before the coefficients are sent.
    pub folds: Vec<usize>,
    /// log2 of the inverse rate of each further codeword.
    pub rates: Vec<usize>,
    /// Most grinding of one phase in bits.
    pub grinding: usize,
}

/// What a commitment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Columns of one execution: committed once per proof.
    Witness,
    /// One section of a witness that is committed in several, with so many bits of security more: their errors add up.
    Section(usize),
    /// Weights: committed once per model, opened by every proof.
    Weights,
    /// Pushforwards of lookup tables: committed once per proof, far smaller than the witness where they are.
    Pushforwards,
}

/// Most variables that are sent as coefficients at the end.
const LAST_VARS: usize = 6;
/// Most variables of a later fold.
const LATER_FOLD: usize = 5;

/// The schedule of a stacked polynomial.
///
/// A wide first fold makes the later codewords small, and they are most of an opening; it also makes the rows that
/// are opened at each query long. Weights are encoded at a low rate, since nobody waits for that: fewer queries (at
/// 2^23 cells, where models of half as many weights end up, and from 2^26, at twice that rate: half the memory). The second codeword is shorter than the first by more the larger that is: short proofs where time does not matter.
/// From 2^24 cells on, later codewords are no longer than `most_rates` says.
#[must_use]
pub fn schedule(role: Role, vars: usize) -> Schedule {
    let first = match vars {
        ..=11 => vars.saturating_sub(LAST_VARS).max(4),
        12 => 6,
        13..=15 => 5,
        16..=18 => 6,
        _ => 7,
    };
    let log_inv_rate = match (role, vars) {
        (Role::Weights, 23 | 26..) => 2,
        (Role::Weights | Role::Pushforwards, _) | (Role::Witness | Role::Section(_), ..=17) => 3,
        (Role::Witness | Role::Section(_), _) => 2,
    };
    let mut folds = vec![first];
    let rest = vars.saturating_sub(first + LAST_VARS);
    let later = rest.div_ceil(LATER_FOLD);
    folds.extend((0..later).map(|index| (rest + index) / later.max(1)).rev());
    let shrink = match vars {
        ..=16 => 2,
        17 | 18 => 3,
        19 | 20 => 4,
        _ => 5,
    };
    let mut rate = (log_inv_rate + first)
        .saturating_sub(shrink)
        .max(log_inv_rate);
    let mut rates = Vec::with_capacity(later);
    for (index, &fold) in folds[1..].iter().enumerate() {
        let most = most_rates(vars).get(index);
        rates.push(most.map_or(rate, |&most| rate.min(most)));
        rate += fold - 1;
    }
    Schedule {
        log_inv_rate,
        folds,
        rates,
        grinding: GRINDING_BITS,
    }
}

/// The greatest log2 of the inverse rate of each later codeword of a large commitment: so much that its folds also have 101
/// bits under ePrint 2025/2055, theorem 4.2, whose error grows by the power 5/2 of the inverse rate. Shorter codewords are
/// cheaper to commit, and are queried at a few more places.
const fn most_rates(vars: usize) -> &'static [usize] {
    match vars {
        ..=23 => &[],
        24 => &[5, 6, 8],
        25 | 26 => &[4, 6, 8],
        _ => &[3, 5, 8],
    }
}

/// A commitment scheme for a stacked polynomial and up to `claims` claims.
///
/// # Errors
/// If the polynomial is too large or no parameters reach the target.
pub fn scheme(role: Role, vars: usize, claims: usize) -> Result<Pcs, CommitmentError> {
    if vars > STACK_VARS_MAX {
        return Err(CommitmentError::TooLarge {
            cells: 1 << vars.min(62),
        });
    }
    let security = match role {
        Role::Section(bits) => PHASE_SECURITY + bits,
        Role::Witness | Role::Weights | Role::Pushforwards => PHASE_SECURITY,
    };
    scheme_at(security, vars, claims, schedule(role, vars))
}

/// A commitment scheme with a given schedule, and a target of the caller's for each phase.
fn scheme_at(
    security_level: usize,
    vars: usize,
    claims: usize,
    schedule: Schedule,
) -> Result<Pcs, CommitmentError> {
    let no_parameters = CommitmentError::NoParameters { vars };
    let parameters = ProtocolParameters {
        security_level,
        pow_bits: schedule.grinding,
        folding_factor: FoldingFactor::PerRound(schedule.folds),
        soundness_type: SecurityAssumption::JohnsonBound,
        starting_log_inv_rate: schedule.log_inv_rate,
        round_log_inv_rates: schedule.rates,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// What `docs/SECURITY.md` says of small weights: an opening in the clear shows rows of the codeword at more places than
    /// a row's polynomial has coefficients.
    #[test]
    fn an_opening_of_few_weights_determines_them() {
        let counts = |vars| {
            let scheme = scheme(Role::Weights, vars, 12).unwrap();
            let first = scheme.round_parameters().first();
            let queries = first.map_or(scheme.final_round_config().num_queries, |r| r.num_queries);
            let first_fold = schedule(Role::Weights, vars).folds[0];
            (queries, 1usize << (vars - first_fold))
        };
        for vars in STACK_VARS_MIN..=9 {
            let (queries, rows) = counts(vars);
            assert_eq!(queries, 63);
            assert!(rows <= 32, "2^{vars}: {rows}");
        }
        assert_eq!(counts(10), (63, 64));
        assert_eq!(counts(16), (63, 1 << 10));
    }

    #[test]
    fn every_size_has_a_scheme_within_the_column_limit() {
        let section = Role::Section(crate::plan::cost::SECTIONS_MAX.ilog2() as usize);
        for role in [Role::Witness, Role::Weights, Role::Pushforwards, section] {
            for vars in STACK_VARS_MIN..=STACK_VARS_MAX {
                let schedule = schedule(role, vars);
                let folded: usize = schedule.folds.iter().sum();
                assert!(vars - folded <= LAST_VARS, "{schedule:?}");
                assert_eq!(schedule.rates.len() + 1, schedule.folds.len());
                assert!(schedule.folds[0] <= crate::algebra::layout::COLUMN_VARS_MIN);
                let scheme = scheme(role, vars, 300).unwrap();
                assert_eq!(scheme.folding_schedule(), schedule.folds);
            }
        }
    }
}
