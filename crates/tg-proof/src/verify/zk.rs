//! Proofs in zero knowledge: their shape, their messages and their verifier. The argument stands in `docs/PROOF.md`, "Zero
//! knowledge".

use crate::algebra::field::EXTENSION_DEGREE;
use crate::algebra::layout::log2_ceil;
use crate::algebra::tape::{ProductMessages, Secrets, Tape};
pub use crate::algebra::tape::{bind_compared, bind_factors};
use crate::algebra::transcript::{self, Challenger};
use crate::argument::commitment::{Commitment, CommitmentError, OpeningArgument};
use crate::argument::hiding::{
    self, Anchor, Columns, Functional, HidingProof, HidingShape, KeptShape, Strength,
};
use crate::plan::PlanError;
use crate::plan::modes::Modes;
use crate::plan::parts::{Part, Parts};
use crate::plan::{LookupTable, Plan};
use crate::verify::messages::{self, LookupProof, NodeProof, Pushforwards, take_if};
use crate::verify::{
    Batch, Registered, ShownTensor, Walked, WeightClaims, check_weights, walk_hidden,
};
use crate::verify::{LookupCheck, VerifyError};
use p3_commit::MultilinearPcs;
use serde::{Deserialize, Serialize};
use tg_ir::{CheckedProgram, Program};
use tg_types::Digest;

/// What both sides derive from a program for proofs in zero knowledge.
#[derive(Debug)]
pub struct ZkShape {
    /// The plan.
    pub plan: Plan,
    /// Pads and triples.
    pub secrets: Secrets,
    /// Entries of the pushforwards of all tables.
    pub entries: usize,
    /// The hiding commitments: witness columns and secrets; pushforwards if there are witness columns; weights if they are
    /// private.
    pub hiding: HidingShape,
}

impl ZkShape {
    /// Derives it for a batch of inputs.
    ///
    /// # Errors
    /// If the program cannot be proved for so many inputs at once, or a tensor not be committed.
    pub fn new(program: CheckedProgram<'_>, batch: usize, modes: Modes) -> Result<Self, PlanError> {
        Self::with(program, batch, modes, HidingShape::new)
    }

    /// The same with a hiding shape of the caller's: for statistics over many small proofs.
    ///
    /// # Errors
    /// Those of [`ZkShape::new`].
    pub fn with(
        program: CheckedProgram<'_>,
        batch: usize,
        modes: Modes,
        hiding: impl FnOnce(&[Columns]) -> Result<HidingShape, CommitmentError>,
    ) -> Result<Self, PlanError> {
        Self::of_plan(Plan::hidden(program, batch, modes)?, hiding)
    }

    /// Derives it for private weights.
    ///
    /// # Errors
    /// Those of [`ZkShape::new`].
    pub fn private(
        program: CheckedProgram<'_>,
        batch: usize,
        modes: Modes,
        kept: &KeptShape,
        strength: Strength,
    ) -> Result<Self, PlanError> {
        let plan = Plan::private(program, batch, modes)?;
        Self::of_plan(plan, |columns| {
            Ok(HidingShape::with_strength(columns, strength)?.and_kept(kept))
        })
    }

    fn of_plan(
        plan: Plan,
        hiding: impl FnOnce(&[Columns]) -> Result<HidingShape, CommitmentError>,
    ) -> Result<Self, PlanError> {
        let secrets = plan.counted.secrets;
        let entries = plan.tables.iter().map(LookupTable::len).sum();
        let cells = |elements: usize| log2_ceil(EXTENSION_DEGREE * elements);
        let columns = plan.witness.iter();
        let columns =
            columns.flat_map(|table| std::iter::repeat_n(table.chunk.vars, table.columns));
        let witness = Columns {
            vars: columns.chain([cells(secrets.count())]).collect(),
        };
        let mut columns = vec![witness];
        if plan.looks_up() {
            let vars = vec![cells(entries)];
            columns.push(Columns { vars });
        }
        Ok(Self {
            hiding: hiding(&columns)?,
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
    pub fn checks(&self) -> usize {
        let further = self.plan.committed_outputs().saturating_sub(1);
        let parts = self.plan.input.as_ref().map_or(0, |own| own.parts.len());
        3 * self.secrets.messages + 5 * self.secrets.products + 4 + further + parts
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
            for &(cell, coefficient) in coefficients {
                witness.add_cell(first[*table] + column, cell as usize, coefficient);
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
        let mut functionals = vec![witness];
        if self.plan.looks_up() {
            functionals.push(pushforwards);
        }
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

/// The proof of one inference in zero knowledge. As with proofs in the clear, which parts it has follows from the public
/// model, and its bytes are those of its parts one after the other.
#[derive(Clone, Serialize, Deserialize)]
pub struct ZkProof {
    /// Root of witness columns, pads and triples.
    pub witness: Commitment,
    /// Per node, from the last to the first, and for the input, padded.
    #[serde(deserialize_with = "messages::node_proofs")]
    pub nodes: Vec<NodeProof>,
    /// The lookup argument, padded, if there are witness columns.
    #[serde(serialize_with = "messages::bare")]
    pub lookup: Option<LookupProof>,
    /// What shows products of hidden values.
    pub products: ProductMessages,
    /// That everything that must vanish does.
    pub opening: HidingProof,
    /// Opening of the weights, if there are some; of private ones there is none.
    #[serde(serialize_with = "messages::bare")]
    pub weights_opening: Option<OpeningArgument>,
}

impl ZkProof {
    /// Reads a proof with certain parts from its canonical bytes: of private weights there is no opening, so they count as
    /// absent here.
    #[must_use]
    pub fn decode(bytes: &[u8], parts: Parts) -> Option<Self> {
        let mut rest = bytes;
        let [looked_up, opened] = [parts.witness, parts.weights].map(Part::is_committed);
        let proof = Self {
            witness: take(&mut rest)?,
            nodes: messages::take_nodes(&mut rest)?,
            lookup: take_if(looked_up, &mut rest)?,
            products: take(&mut rest)?,
            opening: take(&mut rest)?,
            weights_opening: take_if(opened, &mut rest)?,
        };
        (rest.is_empty() && proof.encode() == bytes).then_some(proof)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        messages::encode(self)
    }
}

/// Takes a message that is always there.
fn take<T: for<'de> Deserialize<'de>>(bytes: &mut &[u8]) -> Option<T> {
    take_if(true, bytes)?
}

impl std::fmt::Debug for ZkProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZkProof")
            .field("nodes", &self.nodes.len())
            .finish_non_exhaustive()
    }
}

/// The transcript of a proof whose witness is committed; `weights` absorbs the root of the weights.
#[must_use]
pub fn start(
    statement: Digest,
    weights: impl FnOnce(&mut Challenger),
    witness: &Commitment,
) -> Challenger {
    let mut challenger = transcript::inference(statement);
    weights(&mut challenger);
    hiding::observe(witness, &mut challenger);
    challenger
}

/// What the checks of a proof in zero knowledge need of a model.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    /// The program.
    pub(crate) program: &'a Program,
    /// The weights, if there are some.
    pub(crate) weights: Option<Registered<'a>>,
    /// The anchor of the weights, if they are private.
    pub(crate) private: Option<Anchor>,
    /// The digest of the statement.
    pub(crate) statement: Digest,
}

/// The checks of a proof's messages, for a shape.
///
/// # Errors
/// The check that failed.
pub(crate) fn verify(
    checked: &Checked<'_>,
    shape: &ZkShape,
    tensors: &[ShownTensor],
    proof: &ZkProof,
) -> Result<(), VerifyError> {
    let (claimed, mut challenger) = verify_shown(checked, shape, tensors, proof)?;
    let opened = checked.weights.filter(|_| checked.private.is_none());
    match (opened, &proof.weights_opening) {
        (Some(weights), Some(argument)) => {
            check_weights(&weights, &claimed, argument, &mut challenger)
        }
        (None, None) => Ok(()),
        // Stops: an opening that nobody asked for, or none where one is due.
        _ => Err(VerifyError::Encoding),
    }
}

/// All checks but the opening of public weights: the claims on them, and the transcript.
fn verify_shown(
    checked: &Checked<'_>,
    shape: &ZkShape,
    tensors: &[ShownTensor],
    proof: &ZkProof,
) -> Result<(Vec<Option<WeightClaims>>, Challenger), VerifyError> {
    const MESSAGES: VerifyError = VerifyError::Lookup(LookupCheck::Messages);
    let ZkProof {
        witness,
        nodes,
        lookup,
        products,
        opening,
        weights_opening: _,
    } = proof;
    let mut roots = vec![witness.clone()];
    match lookup.as_ref().map(|lookup| &lookup.pushforwards) {
        Some(Pushforwards::Hidden(root)) => roots.push(root.clone()),
        None => {}
        Some(_) => return Err(MESSAGES),
    }
    // Stops: a lookup argument about nothing, columns that no argument reads.
    if lookup.is_some() != shape.plan.looks_up() {
        return Err(MESSAGES);
    }
    let Checked {
        program,
        weights,
        private,
        statement,
    } = checked;
    let root = weights.map(|own| &own.commitment.root);
    let absorb_weights = |challenger: &mut Challenger| match (weights, root, private) {
        (_, Some(root), Some(_)) => hiding::observe(root, challenger),
        (Some(own), Some(root), None) => own.shape.scheme.observe_commitment(root, challenger),
        _ => {}
    };
    let mut challenger = start(*statement, absorb_weights, witness);
    let Some((input, outputs)) = tensors.split_first() else {
        return Err(MESSAGES);
    };
    let outputs: Vec<Vec<i32>> = outputs.iter().map(|own| own.elements.clone()).collect();
    let commitments = tensors.iter().map(|own| own.commitment.as_ref());
    let commitments: Vec<_> = commitments.collect();
    let walked = Walked {
        program,
        plan: &shape.plan,
        input: &input.elements,
        outputs: &outputs,
        commitments: &commitments,
        parts: &input.parts,
        nodes,
        lookup: lookup.as_ref(),
    };
    let tape = Tape::of_proof(shape.secrets, products);
    let (mut obligations, _) = walk_hidden(&walked, tape, &mut challenger)?;
    let eta = bind_factors(products, &mut challenger);
    let beta = bind_compared(products, &mut challenger);
    obligations.compare(shape.secrets, &products.compared, eta)?;
    let batch = obligations.batched(shape.secrets, beta);
    roots.extend(private.as_ref().and(root).cloned());
    // Stops: any check that does not hold of what is committed.
    hiding::verify_kept(
        &shape.hiding,
        &roots,
        private.as_ref(),
        &shape.functionals(&batch),
        batch.sum,
        opening,
        &mut challenger,
    )?;
    Ok((obligations.weights, challenger))
}
