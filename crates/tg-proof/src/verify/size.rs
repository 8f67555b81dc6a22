//! How large a proof is, from its shape alone: an upper bound, by some hundredths above what large proofs have, a fifth for small ones.
//!
//! What is sent to show relations follows from the shape to the byte. An opening sends one Merkle proof for all places that
//! are queried, in which paths share what they have in common: its size depends on the drawn places, and is bounded by places
//! spread evenly. A pushforward in clear leaves out entries that nobody reads: no more are read than rows look them up.

use crate::argument::commitment::Pcs;
use crate::plan::PlanError;
use crate::plan::cost::PROOF_FILE_MAX;
use crate::plan::shape::ProofShape;
use crate::plan::{Plan, SectionSize};
use crate::verify::wire::{EXTENSION, LENGTH};
use tg_ir::{CheckedProgram, Program};

/// Bytes of a base field element.
const BASE: u64 = 4;
/// Bytes of a tag: of an option or a variant.
const TAG: u64 = 1;
/// Bytes of a digest in a Merkle tree.
const DIGEST: u64 = 32;
/// Bytes of a root: a list of one digest.
const ROOT: u64 = LENGTH + DIGEST;
/// Most bytes of a statement and of the lengths in a proof file.
const STATEMENT: u64 = 512;

impl ProofShape {
    /// Derives it for one input.
    ///
    /// # Errors
    /// If the program cannot be proved.
    pub fn new(program: CheckedProgram<'_>) -> Result<Self, PlanError> {
        Self::batched(program, 1)
    }

    /// Derives it for a batch of inputs. What concerns the weights does not depend on the batch.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn batched(program: CheckedProgram<'_>, batch: usize) -> Result<Self, PlanError> {
        Self::sectioned(program, batch, SectionSize::default())
    }

    /// The same with sections of another size.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once.
    pub fn sectioned(
        program: CheckedProgram<'_>,
        batch: usize,
        size: SectionSize,
    ) -> Result<Self, PlanError> {
        let shape = Self::of(Plan::sectioned(program, batch, size)?)?;
        shape.check_size(&program)?;
        Ok(shape)
    }

    /// Refuses a program whose proofs no file holds: nobody could check them, and a validator would hold their shape.
    fn check_size(&self, program: &Program) -> Result<(), PlanError> {
        let (cost, limit) = (proof_file(program, self), PROOF_FILE_MAX as u64);
        if cost <= limit {
            return Ok(());
        }
        let node = program.nodes.len() - 1;
        Err(PlanError::TooCostly {
            node,
            name: program.nodes[node].name.clone(),
            what: "bytes of a proof",
            cost,
            limit,
        })
    }
}

/// Most bytes of a proof in clear, without the file around it.
#[must_use]
pub fn proof(shape: &ProofShape) -> u64 {
    let plan = &shape.plan;
    let weights = shape.weights.as_ref().map(|own| opening(&own.scheme));
    let counted = plan.counted.nodes.bytes() + plan.counted.rest.bytes();
    let whole = counted + lookup(shape) + weights.unwrap_or_default();
    let sections = shape.sections.iter().map(|(scheme, _)| opening(scheme));
    let sections: u64 = sections.map(|opening| ROOT + opening).sum();
    whole + sections + anchored(plan)
}

/// Most bytes of a proof file about one input, with input and output.
#[must_use]
pub fn proof_file(program: &Program, shape: &ProofShape) -> u64 {
    let public = program.input_bytes() + program.output_bytes();
    STATEMENT + public as u64 * shape.plan.layouts[0].batch as u64 + proof(shape)
}

/// What a witness in several sections has besides: the lists of roots, anchors, sums and openings, and the anchors.
fn anchored(plan: &Plan) -> u64 {
    if !plan.is_anchored() {
        return 0;
    }
    4 * LENGTH + columns(plan)
}

/// A list per witness table.
fn columns(plan: &Plan) -> u64 {
    let tables = plan.witness.iter();
    tables
        .map(|table| LENGTH + table.columns as u64 * EXTENSION)
        .sum()
}

/// The pushforwards, or what of their commitment is not counted by the walk.
fn lookup(shape: &ProofShape) -> u64 {
    let plan = &shape.plan;
    if !plan.looks_up() {
        return 0;
    }
    let pushforwards = match (&plan.pushforwards, &shape.pushforwards) {
        (Some(_), Some((scheme, _))) => ROOT + opening(scheme),
        _ => clear_pushforwards(plan),
    };
    TAG + pushforwards
}

fn clear_pushforwards(plan: &Plan) -> u64 {
    let mut rows = vec![0; plan.tables.len()];
    for reader in &plan.groups {
        let tables = &plan.witness[reader.witness.clone()];
        rows[reader.table] += tables.iter().map(|table| table.chunk.rows()).sum::<usize>();
    }
    let tables = plan.tables.iter().zip(rows);
    let of = tables.map(|(table, rows)| {
        let (all, read) = (table.len() as u64, table.len().min(rows) as u64);
        3 * LENGTH + all.div_ceil(8) + read * EXTENSION
    });
    LENGTH + of.sum::<u64>()
}

/// An opening without the values it shows.
fn opening(scheme: &Pcs) -> u64 {
    // Two elements and a nonce a round.
    let folds = |rounds: usize| 2 * LENGTH + rounds as u64 * (2 * EXTENSION + BASE);
    let ood = |samples: usize| LENGTH + samples as u64 * EXTENSION;
    let last = scheme.final_round_config();
    let mut bytes = ood(scheme.commitment_ood_samples()) + folds(scheme.round_folding_factor(0));
    bytes += LENGTH;
    for (index, round) in scheme.round_parameters().iter().enumerate() {
        bytes += TAG + ROOT + ood(round.ood_samples) + BASE;
        bytes += queries(
            round.num_queries,
            round.log_folded_domain_size,
            (index, round.folding_factor),
        );
        bytes += folds(scheme.round_folding_factor(index + 1));
    }
    let terminal = (scheme.round_parameters().len(), last.folding_factor);
    bytes += queries(last.num_queries, last.log_folded_domain_size, terminal);
    // The last polynomial and its sumcheck.
    let left = scheme.final_sumcheck_rounds();
    bytes + TAG + LENGTH + (EXTENSION << left) + BASE + TAG + folds(left)
}

/// The rows at queried places of a codeword, and their Merkle proof. Rows of the first are base elements.
fn queries(places: usize, depth: usize, (round, fold): (usize, usize)) -> u64 {
    let element = if round == 0 { BASE } else { EXTENSION };
    let rows = places as u64 * (LENGTH + (element << fold));
    // On a level of 2^l pairs at most one digest of each is sent, and at most one per place.
    let siblings: u64 = (0..depth)
        .map(|level| (places as u64).min(1 << level))
        .sum();
    TAG + LENGTH + rows + LENGTH + siblings * DIGEST
}
