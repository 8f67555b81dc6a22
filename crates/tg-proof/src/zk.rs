//! Proofs in zero knowledge: their shape, their messages and their verifier. The argument stands in `docs/PROOF.md`, "Zero
//! knowledge".

use crate::commitment::{Challenger, Commitment, CommitmentError, OpeningArgument};
use crate::error::{LookupCheck, PlanError, VerifyError};
use crate::field::{E, EXTENSION_DEGREE};
use crate::file::{Modes, ProofFile};
use crate::hiding::{
    self, Anchor, Columns, Functional, HidingProof, HidingShape, KeptShape, Strength,
};
use crate::layout::log2_ceil;
use crate::messages::{self, LookupProof, NodeProof, Pushforwards};
use crate::model::PublicModel;
use crate::plan::{LookupTable, Plan};
use crate::tape::{ProductMessages, Secrets, Tape};
use crate::transcript::{self, absorb, draw};
use crate::verify::{
    Batch, ShownTensor, Walked, WeightClaims, check_weights, secrets, shown, walk_hidden,
};
use p3_commit::MultilinearPcs;
use serde::{Deserialize, Serialize};
use tg_ir::Program;
use tg_types::ProgramId;

/// What both sides derive from a program for proofs in zero knowledge.
#[derive(Debug)]
pub struct ZkShape {
    /// The plan.
    pub plan: Plan,
    /// Pads and triples.
    pub secrets: Secrets,
    /// Entries of the pushforwards of all tables.
    pub entries: usize,
    /// The hiding commitments: witness columns and secrets; pushforwards; weights if they are private.
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
        Self::of_plan(program, Plan::hidden(program, batch, modes)?, hiding)
    }

    /// Derives it for private weights.
    ///
    /// # Errors
    /// Those of [`ZkShape::new`].
    pub fn private(
        program: &Program,
        batch: usize,
        modes: Modes,
        (kept, strength): (&KeptShape, Strength),
    ) -> Result<Self, PlanError> {
        let mut plan = Plan::hidden(program, batch, modes)?;
        plan.private_weights = true;
        Self::of_plan(program, plan, |columns| {
            Ok(HidingShape::with_strength(columns, strength)?.and_kept(kept))
        })
    }

    fn of_plan(
        program: &Program,
        plan: Plan,
        hiding: impl FnOnce(&[Columns]) -> Result<HidingShape, CommitmentError>,
    ) -> Result<Self, PlanError> {
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

    /// A batch of checks as functionals of all commitments.
    #[must_use]
    pub fn functionals(&self, batch: &Batch) -> Vec<Functional> {
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
        // From the last, so that each list is made once.
        for (index, &coefficient) in batch.secrets.iter().enumerate().rev() {
            witness.add_extension(columns, index, coefficient);
        }
        let entries = batch.pushforwards.iter().take(self.entries);
        for (index, &coefficient) in entries.enumerate().rev() {
            pushforwards.add_extension(0, index, coefficient);
        }
        let mut functionals = vec![witness, pushforwards];
        if self.plan.private_weights {
            let mut weights = Functional::default();
            for (column, point, coefficient) in &batch.weights {
                weights.add_evaluation(*column, point, *coefficient);
            }
            functionals.push(weights);
        }
        functionals
    }
}

/// The proof of one inference in zero knowledge, with an opening of the weights if they are public.
#[derive(Clone, Serialize, Deserialize)]
pub struct ZkProof<W = OpeningArgument> {
    /// Root of witness columns, pads and triples.
    pub witness: Commitment,
    /// Per node, from the last to the first, and for the input, padded.
    #[serde(deserialize_with = "messages::node_proofs")]
    pub nodes: Vec<NodeProof>,
    /// The lookup argument, padded.
    pub lookup: LookupProof,
    /// What shows products of hidden values.
    pub products: ProductMessages,
    /// That everything that must vanish does.
    pub opening: HidingProof,
    /// Opening of the weights; of private ones there is none.
    pub weights_opening: W,
}

impl<W> std::fmt::Debug for ZkProof<W> {
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

/// The transcript of a proof whose witness is committed; `weights` absorbs the root of the weights.
#[must_use]
pub fn start(
    program: ProgramId,
    statement: &crate::Statement,
    weights: impl FnOnce(&mut Challenger),
    witness: &Commitment,
) -> Challenger {
    let mut challenger = transcript::inference(program, statement);
    weights(&mut challenger);
    hiding::observe(witness, &mut challenger);
    challenger
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
    if model.private_weights().is_some() {
        let proof: ZkProof<()> = messages::decode(&file.proof).ok_or(VerifyError::Encoding)?;
        return verify_private(model, &shape, file, &tensors, &proof);
    }
    let proof: ZkProof = messages::decode(&file.proof).ok_or(VerifyError::Encoding)?;
    verify_messages(model, &shape, file, &tensors, &proof)
}

/// The checks of the messages of a proof about private weights, for a shape.
///
/// # Errors
/// The check that failed.
pub fn verify_private(
    model: &PublicModel,
    shape: &ZkShape,
    file: &ProofFile,
    tensors: &[ShownTensor; 2],
    proof: &ZkProof<()>,
) -> Result<(), VerifyError> {
    let anchor = model.private_anchor().ok_or(VerifyError::PrivateWeights)?;
    verify_shown(model, shape, (file, tensors), (proof, Some(&anchor))).map(|_| ())
}

/// The checks of a proof's messages, for a shape.
///
/// # Errors
/// The check that failed.
pub fn verify_messages(
    model: &PublicModel,
    shape: &ZkShape,
    file: &ProofFile,
    tensors: &[ShownTensor; 2],
    proof: &ZkProof,
) -> Result<(), VerifyError> {
    let (weights, mut challenger) = verify_shown(model, shape, (file, tensors), (proof, None))?;
    check_weights(model, &weights, &proof.weights_opening, &mut challenger)
}

/// All checks but the opening of public weights: the claims on them, and the transcript.
fn verify_shown<W>(
    model: &PublicModel,
    shape: &ZkShape,
    (file, [input, output]): (&ProofFile, &[ShownTensor; 2]),
    (proof, anchor): (&ZkProof<W>, Option<&Anchor>),
) -> Result<(Vec<Option<WeightClaims>>, Challenger), VerifyError> {
    let ZkProof {
        witness,
        nodes,
        lookup,
        products,
        opening,
        weights_opening: _,
    } = proof;
    let Pushforwards::Hidden(pushforwards) = &lookup.pushforwards else {
        return Err(VerifyError::Lookup(LookupCheck::Messages));
    };
    let weights = &model.weights_commitment().root;
    let absorb_weights = |challenger: &mut Challenger| match anchor {
        None => model
            .weights_scheme()
            .observe_commitment(weights, challenger),
        Some(_) => hiding::observe(weights, challenger),
    };
    let (program, statement) = (model.program_id(), &file.statement);
    let mut challenger = start(program, statement, absorb_weights, witness);
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
    let mut roots = vec![witness.clone(), pushforwards.clone()];
    roots.extend(anchor.map(|_| weights.clone()));
    // Stops: any check that does not hold of what is committed.
    hiding::verify_kept(
        &shape.hiding,
        (&roots, anchor),
        (&shape.functionals(&batch), batch.sum),
        opening,
        &mut challenger,
    )?;
    Ok((obligations.weights, challenger))
}
