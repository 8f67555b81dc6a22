//! Proofs in zero knowledge: their shape, their messages and their verifier. The argument stands in `docs/PROOF.md`, "Zero
//! knowledge".

use crate::commitment::{Challenger, Commitment, CommitmentError, OpeningArgument};
use crate::error::{LookupCheck, PlanError, VerifyError};
use crate::field::{E, EXTENSION_DEGREE};
use crate::file::{Modes, ProofFile};
use crate::hiding::{self, Columns, Functional, HidingProof, HidingShape};
use crate::layout::log2_ceil;
use crate::messages::{self, LookupProof, NodeProof, Pushforwards};
use crate::model::PublicModel;
use crate::plan::{LookupTable, Plan};
use crate::tape::{ProductMessages, Secrets, Tape};
use crate::transcript::{self, absorb, draw};
use crate::verify::{Batch, ShownTensor, Walked, check_weights, secrets, shown, walk_hidden};
use p3_commit::MultilinearPcs;
use serde::{Deserialize, Serialize};
use tg_ir::Program;

/// What both sides derive from a program for proofs in zero knowledge.
#[derive(Debug)]
pub struct ZkShape {
    /// The plan.
    pub plan: Plan,
    /// Pads and triples.
    pub secrets: Secrets,
    /// Entries of the pushforwards of all tables.
    pub entries: usize,
    /// The two hiding commitments: witness columns and secrets; pushforwards.
    pub hiding: HidingShape,
}

impl ZkShape {
    /// Derives it for a batch of inputs.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once, or a tensor not be committed.
    pub fn new(program: &Program, batch: usize, modes: Modes) -> Result<Self, PlanError> {
        Self::with(program, batch, modes, HidingShape::new)
    }

    /// The same with a hiding shape of the caller's: for statistics over many small proofs.
    ///
    /// # Errors
    /// Those of [`ZkShape::new`].
    pub fn with(
        program: &Program,
        batch: usize,
        modes: Modes,
        hiding: impl FnOnce(&[Columns]) -> Result<HidingShape, CommitmentError>,
    ) -> Result<Self, PlanError> {
        let plan = Plan::hidden(program, batch, modes)?;
        let secrets = secrets(program, &plan);
        let entries = plan.tables.iter().map(LookupTable::len).sum();
        let cells = |elements: usize| log2_ceil(EXTENSION_DEGREE * elements);
        let columns = plan.witness.iter();
        let columns =
            columns.flat_map(|table| std::iter::repeat_n(table.chunk.vars, table.columns));
        let witness = Columns {
            vars: columns.chain([cells(secrets.count())]).collect(),
        };
        let pushforwards = Columns {
            vars: vec![cells(entries)],
        };
        Ok(Self {
            hiding: hiding(&[witness, pushforwards])?,
            plan,
            secrets,
            entries,
        })
    }

    /// Variables of the column that holds the secrets.
    #[must_use]
    pub const fn secret_vars(&self) -> usize {
        log2_ceil(EXTENSION_DEGREE * self.secrets.count())
    }

    /// Variables of the column that holds the pushforwards.
    #[must_use]
    pub const fn pushforward_vars(&self) -> usize {
        log2_ceil(EXTENSION_DEGREE * self.entries)
    }

    /// Most checks that are batched: three per message (a sumcheck has one at each end, an opened value one more), five per
    /// product, and those on the inverse, the pushforwards and the tensors of the statement.
    #[must_use]
    pub const fn checks(&self) -> usize {
        3 * self.secrets.messages + 5 * self.secrets.products + 4
    }

    /// A batch of checks as functionals of both commitments.
    #[must_use]
    pub fn functionals(&self, batch: &Batch) -> [Functional; 2] {
        let [mut witness, mut pushforwards] = [Functional::default(), Functional::default()];
        let first: Vec<usize> = self
            .plan
            .witness
            .iter()
            .scan(0, |next, table| {
                let first = *next;
                *next += table.columns;
                Some(first)
            })
            .collect();
        let columns: usize = self.plan.witness.iter().map(|table| table.columns).sum();
        for (table, column, point, coefficient) in &batch.evaluations {
            witness.add_evaluation(first[*table] + column, point, *coefficient);
        }
        for (table, column, coefficients) in &batch.cells {
            for (cell, &coefficient) in coefficients.iter().enumerate() {
                witness.add_cell(first[*table] + column, cell, coefficient);
            }
        }
        for (index, &coefficient) in batch.secrets.iter().enumerate() {
            witness.add_extension(columns, index, coefficient);
        }
        let entries = batch.pushforwards.iter().take(self.entries);
        for (index, &coefficient) in entries.enumerate() {
            pushforwards.add_extension(0, index, coefficient);
        }
        [witness, pushforwards]
    }
}

/// The proof of one inference in zero knowledge.
#[derive(Clone, Serialize, Deserialize)]
pub struct ZkProof {
    /// Root of witness columns, pads and triples.
    pub witness: Commitment,
    /// Per node, from the last to the first, and for the input, padded.
    pub nodes: Vec<NodeProof>,
    /// The lookup argument, padded.
    pub lookup: LookupProof,
    /// What shows products of hidden values.
    pub products: ProductMessages,
    /// That everything that must vanish does.
    pub opening: HidingProof,
    /// Opening of the weights.
    pub weights_opening: OpeningArgument,
}

impl std::fmt::Debug for ZkProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZkProof")
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

/// Absorbs the factors and draws the challenge that compares triples.
pub fn bind_factors(products: &ProductMessages, challenger: &mut Challenger) -> E {
    absorb(challenger, &[products.inverse]);
    let factors = products.factors.iter();
    factors.for_each(|factors| absorb(challenger, factors));
    draw(challenger)
}

/// Absorbs the comparisons and draws the challenge that batches all checks.
pub fn bind_compared(products: &ProductMessages, challenger: &mut Challenger) -> E {
    let compared = products.compared.iter();
    compared.for_each(|compared| absorb(challenger, compared));
    draw(challenger)
}

/// The transcript of a proof whose witness is committed.
#[must_use]
pub fn start(
    model: &PublicModelParts<'_>,
    statement: &crate::Statement,
    witness: &Commitment,
) -> Challenger {
    let mut challenger = transcript::inference(model.program_id, statement);
    model
        .weights_scheme
        .observe_commitment(model.weights_root, &mut challenger);
    hiding::observe(witness, &mut challenger);
    challenger
}

/// What of a model a transcript starts with.
#[derive(Debug)]
pub struct PublicModelParts<'a> {
    /// The program's id.
    pub program_id: tg_types::ProgramId,
    /// The scheme of the weights.
    pub weights_scheme: &'a crate::commitment::Pcs,
    /// The root of the weights.
    pub weights_root: &'a Commitment,
}

/// Checks a proof in zero knowledge; statement and registration are checked already.
///
/// # Errors
/// The check that failed.
pub(crate) fn verify(model: &PublicModel, file: &ProofFile) -> Result<(), VerifyError> {
    let batch = file.statement.batch;
    let tensors = shown(model.program(), file)?;
    // Stops: a batch whose proofs cost more than is admitted, or reach less than the security level.
    let shape = model
        .zk_shape_of(batch as usize, file.statement.modes())
        .map_err(|_| VerifyError::Batch { batch })?;
    model.verify_registration()?;
    let proof: ZkProof = messages::decode(&file.proof).ok_or(VerifyError::Encoding)?;
    verify_messages(model, &shape, file, &tensors, &proof)
}

/// The checks of a proof's messages, for a shape.
///
/// # Errors
/// The check that failed.
pub fn verify_messages(
    model: &PublicModel,
    shape: &ZkShape,
    file: &ProofFile,
    [input, output]: &[ShownTensor; 2],
    proof: &ZkProof,
) -> Result<(), VerifyError> {
    let ZkProof {
        witness,
        nodes,
        lookup,
        products,
        opening,
        weights_opening,
    } = proof;
    let Pushforwards::Hidden(pushforwards) = &lookup.pushforwards else {
        return Err(VerifyError::Lookup(LookupCheck::Messages));
    };
    let parts = PublicModelParts {
        program_id: model.program_id(),
        weights_scheme: model.weights_scheme(),
        weights_root: &model.weights_commitment().root,
    };
    let mut challenger = start(&parts, &file.statement, witness);
    let walked = Walked {
        program: model.program(),
        plan: &shape.plan,
        input: &input.elements,
        output: &output.elements,
        commitments: [&input.commitment, &output.commitment].map(Option::as_ref),
        nodes,
        lookup,
    };
    let tape = Tape::of_proof(shape.secrets, products);
    let (mut obligations, _) = walk_hidden(&walked, tape, &mut challenger)?;
    let eta = bind_factors(products, &mut challenger);
    let beta = bind_compared(products, &mut challenger);
    obligations.compare(shape.secrets, &products.compared, eta)?;
    let batch = obligations.batched(shape.secrets, beta);
    // Stops: any check that does not hold of what is committed.
    hiding::verify(
        &shape.hiding,
        &[witness.clone(), pushforwards.clone()],
        &shape.functionals(&batch),
        batch.sum,
        opening,
        &mut challenger,
    )?;
    check_weights(
        model,
        &obligations.weights,
        weights_opening,
        &mut challenger,
    )
}
