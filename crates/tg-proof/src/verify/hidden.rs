//! The checks of a proof in zero knowledge: the walk and the lookup argument leave forms that must vanish, and one
//! challenge makes one statement about the commitments of them. The argument stands in `docs/PROOF.md`, "Zero
//! knowledge".

use super::argue::SentMessages;
use super::walk::ShownElements;
use super::{BiasClaims, ColumnClaim, Walk, WeightClaims};
use super::{LookupCheck, ShownPart, VerifyError};
use crate::algebra::field::{E, F, padded_point};
use crate::algebra::receiver::Receiver;
use crate::algebra::tape::{self, Form, ProductMessages, Secrets, Tape};
use crate::algebra::transcript::Challenger;
use crate::argument::ajtai::{self, TensorCommitment};
use crate::plan::{PartPlan, Plan, TensorPlan};
use crate::verify::lookup::{LookupClaims, LookupMessages};
use crate::verify::messages::{LookupProof, NodeProof};
use crate::verify::pushforward::PushforwardWeights;
use p3_field::PrimeCharacteristicRing;
use tg_ir::Program;

/// What a walk in zero knowledge is about.
#[derive(Debug, Clone, Copy)]
pub struct Walked<'a> {
    /// The program.
    pub program: &'a Program,
    /// The plan of its proofs in zero knowledge.
    pub plan: &'a Plan,
    /// The input, batched.
    pub input: &'a [i32],
    /// The outputs in the program's order, batched.
    pub outputs: &'a [Vec<i32>],
    /// The commitments that the statement names of the input, then of each output.
    pub commitments: &'a [Option<&'a TensorCommitment>],
    /// What it shows of inputs within the program's.
    pub parts: &'a [ShownPart],
    /// The padded messages of the nodes.
    pub nodes: &'a [NodeProof],
    /// The padded messages of the lookup argument, if there is one.
    pub lookup: Option<&'a LookupProof>,
}

/// What must hold of the commitments for a proof to be right.
#[derive(Debug)]
pub struct Obligations {
    /// What must vanish in the secrets alone.
    vanishing: Vec<Form>,
    /// Values that must be committed columns'.
    columns: Vec<ColumnObligation>,
    /// Per entry of the pushforwards' layout a weight, and what their sum must be; nothing without a lookup argument.
    pushforwards: Option<(Vec<E>, Form)>,
    /// What the openings of tensor commitments in committed columns must add up to.
    openings: Vec<TensorOpening>,
    /// Values that must be columns' of private weights.
    private: Vec<PrivateObligation>,
    /// The claims on the weights, if they are public.
    pub weights: Vec<Option<WeightClaims>>,
}

/// A value that must be a column's of private weights at a point.
#[derive(Debug)]
struct PrivateObligation {
    /// The column among all.
    column: usize,
    /// The point, with as many coordinates as the column has variables.
    point: Vec<E>,
    /// The value.
    value: Form,
}

/// The claims on private weights, column by column.
fn private_obligations(
    plan: &Plan,
    claimed: &[Option<WeightClaims<Form>>],
) -> Result<Vec<PrivateObligation>, VerifyError> {
    const REFUSED: VerifyError = VerifyError::Opening { which: "weights" };
    let mut owed = Vec::new();
    let mut column = 0;
    for (own, layout) in plan.weights.iter().enumerate() {
        // Stops: weights that no message is about, other weights for one of the nodes that read them.
        let uses = plan.readers_of(own);
        let uses: Option<Vec<_>> = uses
            .map(|index| claimed.get(index).and_then(Option::as_ref))
            .collect();
        let uses = uses.ok_or(REFUSED)?;
        for (place, piece) in layout.own_pieces().iter().enumerate() {
            for WeightClaims { point, pieces, .. } in &uses {
                let value = pieces.get(place).ok_or(REFUSED)?.clone();
                let at = padded_point(&layout.piece_point(piece, point).0, piece.column_vars());
                let point = at.as_slice().to_vec();
                owed.push(PrivateObligation {
                    column,
                    point,
                    value,
                });
            }
            column += 1;
        }
        if let Some(BiasClaims { point, digits }) = &uses[0].bias {
            let at = padded_point(point, layout.bias_vars());
            for value in digits {
                owed.push(PrivateObligation {
                    column,
                    point: at.as_slice().to_vec(),
                    value: value.clone(),
                });
                column += 1;
            }
        }
    }
    Ok(owed)
}

/// The claims on public weights, which are known.
fn public_claims(claimed: Vec<Option<WeightClaims<Form>>>) -> Vec<Option<WeightClaims>> {
    let known = |forms: Vec<Form>| forms.into_iter().map(|form| form.known).collect();
    let claims = claimed.into_iter().map(|claims| {
        claims.map(|claims| WeightClaims {
            point: claims.point,
            pieces: known(claims.pieces),
            bias: claims.bias.map(|bias| BiasClaims {
                point: bias.point,
                digits: known(bias.digits),
            }),
        })
    });
    claims.collect()
}

/// A value that must be a committed column's at a point.
#[derive(Debug)]
struct ColumnObligation {
    /// The witness table.
    table: usize,
    /// The column within it.
    column: usize,
    /// The point, with as many coordinates as the chunk has variables.
    point: Vec<E>,
    /// The value.
    value: Form,
}

/// Cells of a column, each with what it is multiplied by.
pub(super) type Cells = Vec<(u32, E)>;

/// That committed columns open a tensor commitment: weights of their cells, and what they must add up to.
#[derive(Debug)]
struct TensorOpening {
    /// Witness table, column, and weights of cells.
    cells: Vec<(usize, usize, Cells)>,
    /// The commitment at the drawn point, less what is public of the digits.
    sum: E,
}

impl TensorOpening {
    /// Of a tensor whose commitment the statement names, for a point that is drawn after the columns are committed.
    fn new(plan: &Plan, tensor: &TensorPlan, commitment: &TensorCommitment, at: E) -> Self {
        let layout = tensor.columns.layout;
        let all: Vec<usize> = (0..layout.pixels * layout.channels).collect();
        Self::of_commitment(plan, (tensor, &all, tensor.salt), commitment, at)
    }

    /// Of an input within a tensor, likewise; nothing if another thing is shown of it than is planned.
    fn of_part(
        plan: &Plan,
        tensor: &TensorPlan,
        (part, shown): (&PartPlan, &ShownPart),
        at: E,
    ) -> Option<Self> {
        let elements = part.places.len() * tensor.columns.layout.batch;
        match (shown, part.salt) {
            (ShownPart::Committed(commitment), Some(_)) => {
                let of = (tensor, part.places.as_slice(), part.salt);
                Some(Self::of_commitment(plan, of, commitment, at))
            }
            (ShownPart::Public(values), None) if values.len() == elements => {
                let digits = ajtai::digits(tensor.coding.kind(), values);
                let weights: Vec<E> = at.powers().take(digits.len()).collect();
                let terms = weights.iter().zip(&digits);
                let sum = terms.map(|(&weight, &digit)| weight * F::from_u8(digit));
                let sum = sum.sum();
                Some(Self::of_string(plan, (tensor, &part.places), &weights, sum))
            }
            _ => None,
        }
    }

    fn of_commitment(
        plan: &Plan,
        (tensor, places, salt): (&TensorPlan, &[usize], Option<usize>),
        commitment: &TensorCommitment,
        at: E,
    ) -> Self {
        let bytes = places.len() * tensor.columns.layout.batch * tensor.coding.digits().len();
        let (of_string, of_salt) = ajtai::weights(bytes, at);
        let mut opening = Self::of_string(plan, (tensor, places), &of_string, commitment.at(at));
        if let (Some(salts), Some(column)) = (&plan.salts, salt) {
            for table in salts.columns.witness.clone() {
                let chunk = plan.witness[table].chunk;
                let own = &of_salt[chunk.start..chunk.start + chunk.rows()];
                opening
                    .cells
                    .push((table, column, (0..).zip(own.iter().copied()).collect()));
            }
        }
        opening
    }

    /// That the bytes of the elements at some places, of one inference after the other, add up to a sum with these weights.
    fn of_string(
        plan: &Plan,
        (tensor, places): (&TensorPlan, &[usize]),
        of_string: &[E],
        mut sum: E,
    ) -> Self {
        let layout = tensor.columns.layout;
        let digits = tensor.coding.digits();
        let columns = digits.iter().filter_map(|digit| digit.column).count();
        let mut weights = vec![Vec::with_capacity(of_string.len() / digits.len()); columns];
        for (element, own) in of_string.chunks_exact(digits.len()).enumerate() {
            // The string has the inputs of a batch one after the other.
            let (input, place) = (element / places.len(), places[element % places.len()]);
            let index = layout.index(place / layout.channels, input, place % layout.channels);
            for (digit, &weight) in digits.iter().zip(own) {
                sum -= weight * F::from_u32(digit.constant);
                if let Some(column) = digit.column {
                    weights[column].push((index, weight));
                }
            }
        }
        let mut cells = Vec::new();
        for table in tensor.columns.witness.clone() {
            let chunk = plan.witness[table].chunk;
            for (column, weights) in weights.iter().enumerate() {
                let own = weights.iter().filter_map(|&(index, weight)| {
                    let cell = index.checked_sub(chunk.start)?;
                    (cell < chunk.rows()).then_some((cell as u32, weight))
                });
                cells.push((table, column, own.collect()));
            }
        }
        Self { cells, sum }
    }
}

/// What was claimed of the committed columns: at the lookup argument's point, and where gadgets open them.
fn column_obligations(
    plan: &Plan,
    opened: &mut Vec<Vec<ColumnClaim<Form>>>,
    lookup: &LookupClaims<Form>,
) -> Vec<ColumnObligation> {
    let mut columns = Vec::new();
    let opened = std::mem::take(opened).into_iter().zip(&lookup.columns);
    for (index, (table, (opened, looked_up))) in plan.witness.iter().zip(opened).enumerate() {
        let at = &lookup.point[lookup.point.len() - table.chunk.vars..];
        for (column, value) in looked_up.iter().enumerate() {
            columns.push(ColumnObligation {
                table: index,
                column,
                point: at.to_vec(),
                value: value.clone(),
            });
        }
        for (names, claim) in table.openings.iter().zip(opened) {
            for (&column, value) in names.iter().zip(claim.values) {
                columns.push(ColumnObligation {
                    table: index,
                    column,
                    point: claim.point.clone(),
                    value,
                });
            }
        }
    }
    columns
}

/// That committed columns open what the statement names of them, and hold what it shows of them.
fn openings(
    walked: &Walked<'_>,
    opened_at: &[Option<E>],
    parts_at: &[E],
) -> Result<Vec<TensorOpening>, VerifyError> {
    let plan = walked.plan;
    let refused = |index: usize| VerifyError::Commitment {
        which: if index == 0 { "input" } else { "output" },
    };
    let mut openings = Vec::new();
    for (index, (tensor, &at)) in plan.statement_tensors().zip(opened_at).enumerate() {
        let commitment = walked.commitments.get(index).copied().flatten();
        match (tensor, commitment, at) {
            (Some(tensor), Some(commitment), Some(at)) => {
                openings.push(TensorOpening::new(plan, tensor, commitment, at));
            }
            (_, None, None) => {}
            // Stops: a commitment that is named and not opened.
            _ => return Err(refused(index)),
        }
    }
    // Stops: the same, of a tensor that is public.
    let planned = plan.statement_tensors().count();
    let mut beyond = planned..walked.commitments.len();
    if let Some(index) = beyond.find(|&index| walked.commitments[index].is_some()) {
        return Err(refused(index));
    }
    let parts = plan.input.iter();
    let parts = parts.flat_map(|tensor| tensor.parts.iter().map(move |part| (tensor, part)));
    // Stops: an input that is shown or named and not compared.
    let planned = parts.clone().count();
    if [walked.parts.len(), parts_at.len()] != [planned; 2] {
        return Err(refused(0));
    }
    for (((tensor, part), shown), &at) in parts.zip(walked.parts).zip(parts_at) {
        let opening = TensorOpening::of_part(plan, tensor, (part, shown), at);
        openings.push(opening.ok_or_else(|| refused(0))?);
    }
    Ok(openings)
}

/// Plays the walk and the lookup argument over padded messages; gives what is left to show, and what the prover sends about
/// products. A prover calls it with its secrets before it sends anything.
///
/// # Errors
/// A check of public values that fails, or another number of messages than is padded.
pub fn walk(
    walked: &Walked<'_>,
    tape: Tape<'_>,
    challenger: &mut Challenger,
) -> Result<(Obligations, ProductMessages), VerifyError> {
    let plan = walked.plan;
    let shown = ShownElements {
        input: walked.input,
        outputs: walked.outputs,
    };
    let channel = Receiver::new(tape, challenger);
    let mut walk = Walk::new(channel, walked.program, plan, shown);
    let sent = SentMessages {
        nodes: walked.nodes,
        lookup: walked.lookup.map(|proof| LookupMessages {
            proof,
            sections: &[],
            tables: E::ZERO,
        }),
    };
    let argued = walk.argue(Some(sent), None)?;
    walk.debug_check_count(&argued);
    let (mut columns, mut pushforwards) = (Vec::new(), None);
    if let Some(lookup) = &argued.lookup {
        columns = column_obligations(plan, &mut walk.opened, lookup);
        // One claim on the pushforwards by the powers of a challenge, then one on everything.
        let (Some(owed), Some(layout)) = (&lookup.pushforwards, &plan.pushforwards) else {
            return Err(VerifyError::Lookup(LookupCheck::Messages));
        };
        let weights = PushforwardWeights::new(plan, layout, &lookup.point, argued.beta);
        pushforwards = Some((weights.table(), owed.combined(argued.beta)));
    }
    let openings = openings(walked, &argued.opened_at, &argued.parts_at)?;
    let tape = walk.channel.arithmetic;
    let (vanishing, products) = tape.finish().ok_or(VerifyError::Secrets)?;
    let (private, weights) = if plan.private_weights {
        (private_obligations(plan, &walk.weights)?, Vec::new())
    } else {
        (Vec::new(), public_claims(walk.weights))
    };
    let obligations = Obligations {
        vanishing,
        columns,
        pushforwards,
        openings,
        private,
        weights,
    };
    Ok((obligations, products))
}

/// A public linear functional of what is committed, and its value.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Per secret its coefficient.
    pub secrets: Vec<E>,
    /// Witness table, column, point and coefficient of an evaluation.
    pub evaluations: Vec<(usize, usize, Vec<E>, E)>,
    /// Witness table, column, and coefficients of cells.
    pub cells: Vec<(usize, usize, Cells)>,
    /// Per entry of the pushforwards' layout its coefficient.
    pub pushforwards: Vec<E>,
    /// Column of private weights, point and coefficient of an evaluation.
    pub weights: Vec<(usize, Vec<E>, E)>,
    /// What they add up to.
    pub sum: E,
}

impl Obligations {
    /// Adds what must vanish if all triples are right.
    ///
    /// # Errors
    /// If not every triple is compared.
    pub fn compare(
        &mut self,
        secrets: Secrets,
        compared: &[[E; 2]],
        eta: E,
    ) -> Result<(), VerifyError> {
        let forms = tape::comparisons(secrets, compared, eta).ok_or(VerifyError::Secrets)?;
        self.vanishing.extend(forms);
        Ok(())
    }

    /// How many checks are batched.
    #[must_use]
    pub const fn count(&self) -> usize {
        let pushforwards = self.pushforwards.is_some() as usize;
        let claimed = self.columns.len() + self.openings.len() + self.private.len();
        self.vanishing.len() + pushforwards + claimed
    }

    /// All of them as one, by the powers of a challenge.
    #[must_use]
    pub fn batched(&self, secrets: Secrets, beta: E) -> Batch {
        let mut batch = Batch {
            secrets: vec![E::ZERO; secrets.count()],
            ..Batch::default()
        };
        let mut powers = beta.powers();
        let forms = self.vanishing.iter().zip(&mut powers);
        forms.for_each(|(form, power)| batch.add(form, power));
        for (claim, power) in self.columns.iter().zip(&mut powers) {
            let ColumnObligation {
                table,
                column,
                point,
                value,
            } = claim;
            batch.add(value, power);
            let evaluation = (*table, *column, point.clone(), -power);
            batch.evaluations.push(evaluation);
        }
        // A challenge's power is spent on what there is.
        let pushforwards = self.pushforwards.iter().zip(&mut powers);
        for ((weights, sum), power) in pushforwards {
            batch.add(sum, power);
            let weights = weights.iter().map(|&weight| -(weight * power));
            batch.pushforwards = weights.collect();
        }
        for (opening, power) in self.openings.iter().zip(&mut powers) {
            batch.sum += power * opening.sum;
            for (table, column, weights) in &opening.cells {
                let weights = weights.iter().map(|&(cell, weight)| (cell, power * weight));
                batch.cells.push((*table, *column, weights.collect()));
            }
        }
        for (claim, power) in self.private.iter().zip(&mut powers) {
            batch.add(&claim.value, power);
            let evaluation = (claim.column, claim.point.clone(), -power);
            batch.weights.push(evaluation);
        }
        batch
    }
}

impl Batch {
    fn add(&mut self, form: &Form, power: E) {
        self.sum -= power * form.known;
        for &(secret, factor) in &form.terms {
            // The tape hands out no other secrets than there are.
            if let Some(sum) = self.secrets.get_mut(secret as usize) {
                *sum += power * factor;
            }
        }
    }
}
