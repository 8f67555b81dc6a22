//! Private weights: what both sides derive for their commitment, and the registration that shows nothing of them. The
//! argument stands in `docs/PROOF.md`, "Private weights".

use crate::algebra::field::{E, EXTENSION_DEGREE, eq_at, eq_table, identity_at};
use crate::algebra::layout::log2_ceil;
use crate::algebra::receiver::Receiver;
use crate::algebra::tape::{self, Form, ProductMessages, Secrets, Tape};
use crate::algebra::transcript::{self, Challenger, absorb, draw, draw_point};
use crate::argument::commitment::{Commitment, CommitmentError, WeightCommitment};
use crate::argument::fractional;
use crate::argument::hiding::{
    self, Anchor, Columns, Functional, HidingProof, HidingShape, KeptShape, Strength,
};
use crate::plan::Plan;
use crate::verify::messages;
use crate::verify::registration::RegistrationError;
use crate::verify::registration::{
    RangeBlock, WEIGHT_VALUES, WeightTable, range_leaves, weight_tables,
};
use p3_field::PrimeCharacteristicRing;
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use serde::{Deserialize, Serialize};
use tg_ir::weights::WEIGHT_MAX;
use tg_types::ProgramId;

/// Proofs that private weights serve where nobody asks for another number.
pub const PROOFS_DEFAULT: usize = 64;
/// Most proofs that may be asked for.
pub const PROOFS_MAX: usize = hiding::OPENINGS_MAX - 1;
/// Variables of the column of multiplicities.
const MULTIPLICITY_VARS: usize = log2_ceil(WEIGHT_VALUES);

/// What both sides derive for private weights.
#[derive(Debug)]
pub struct PrivateShape {
    /// How many proofs were asked for.
    pub proofs: usize,
    /// The weight tables, whose columns are committed in this order.
    pub tables: Vec<WeightTable>,
    /// The commitment of the weights.
    pub kept: KeptShape,
    /// Leaves of the range argument, and log2 of their number.
    pub leaves: (Vec<RangeBlock>, usize),
    /// Pads and triples of the registration.
    pub secrets: Secrets,
    /// The registration's two commitments: secrets and multiplicities; the weights.
    pub hiding: HidingShape,
}

impl PrivateShape {
    /// Derives it for the weights of a plan and a number of proofs.
    ///
    /// # Errors
    /// If no commitment holds the weights and enough random rows.
    pub fn new(plan: &Plan, proofs: usize) -> Result<Self, CommitmentError> {
        Self::with_strength(plan, proofs, Strength::FULL)
    }

    /// The same with commitments that withstand less: for statistics over many small proofs.
    ///
    /// # Errors
    /// Those of [`PrivateShape::new`].
    pub fn with_strength(
        plan: &Plan,
        proofs: usize,
        strength: Strength,
    ) -> Result<Self, CommitmentError> {
        // The registration takes one opening; a model that no proof can be about is refused.
        let openings = proofs.checked_add(1).filter(|_| proofs > 0);
        let openings = openings.ok_or(CommitmentError::NoParameters { vars: 0 })?;
        let tables = weight_tables(&plan.weights);
        let vars = tables.iter();
        let vars = vars.flat_map(|table| std::iter::repeat_n(table.vars(), table.columns));
        let columns = Columns {
            vars: vars.collect(),
        };
        let kept = KeptShape::with_strength(&columns, openings, strength)?;
        let leaves = range_leaves(&tables);
        let mut counted = Receiver::counting();
        fractional::verify(&mut counted, None, leaves.1);
        let secrets = Secrets::from(counted.arithmetic);
        let fresh = Columns {
            vars: vec![secret_vars(secrets), MULTIPLICITY_VARS],
        };
        let hiding = HidingShape::with_strength(&[fresh], strength)?.and_kept(&kept);
        Ok(Self {
            proofs,
            tables,
            kept,
            leaves,
            secrets,
            hiding,
        })
    }

    /// Variables of the column that holds the registration's secrets.
    #[must_use]
    pub const fn secret_vars(&self) -> usize {
        secret_vars(self.secrets)
    }

    /// How many proofs the commitment serves, at least as many as were asked for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.kept.openings() - 1
    }

    /// Most checks that the registration batches.
    #[must_use]
    pub fn checks(&self) -> usize {
        let columns: usize = self.tables.iter().map(|table| table.columns).sum();
        self.secrets.messages + 5 * self.secrets.products + columns + 4
    }

    /// Most variables of a column.
    fn column_vars(&self) -> usize {
        let vars = self.tables.iter().map(WeightTable::vars);
        vars.max().unwrap_or(0)
    }

    /// The point at which the commitment is anchored, and the transcript after its draw.
    #[must_use]
    pub fn anchor_point(&self, program: ProgramId, root: &Commitment) -> (Challenger, Vec<E>) {
        let mut challenger = transcript::private_registration(program, self.proofs);
        hiding::observe(root, &mut challenger);
        let point = draw_point(&mut challenger, self.kept.stack().vars);
        (challenger, point)
    }
}

const fn secret_vars(secrets: Secrets) -> usize {
    log2_ceil(EXTENSION_DEGREE * secrets.count())
}

/// The registration proof of private weights.
#[derive(Clone, Serialize, Deserialize)]
pub struct PrivateRegistration {
    /// Root of pads, triples and multiplicities.
    pub root: Commitment,
    /// The fractional sum, padded.
    pub gkr: FractionGkrProof<E>,
    /// What shows products of hidden values.
    pub products: ProductMessages,
    /// That everything that must vanish does.
    pub opening: HidingProof,
}

impl std::fmt::Debug for PrivateRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivateRegistration")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// What must hold of both commitments for a registration to be right.
#[derive(Debug)]
pub struct Owed {
    /// What must vanish in the secrets alone.
    vanishing: Vec<Form>,
    /// What must vanish: a form in the secrets, and functionals of both commitments.
    sums: Vec<(Form, [Functional; 2])>,
}

/// Plays the range argument over padded messages and draws where padding is shown to be zero; gives what is left to show,
/// and what the prover sends about products. Nothing if a message is missing.
pub fn walk(
    shape: &PrivateShape,
    gkr: &FractionGkrProof<E>,
    tape: Tape<'_>,
    challenger: &mut Challenger,
) -> Option<(Owed, ProductMessages)> {
    let pole = draw(challenger);
    let (blocks, vars) = &shape.leaves;
    let mut channel = Receiver::new(tape, challenger);
    let claim = fractional::verify(&mut channel, Some(gkr), *vars)?;
    let tape = channel.arithmetic;
    // What is public of numerator and denominator at the point, and what is linear in columns and multiplicities.
    let (mut numerator, mut denominator) = (E::ZERO, E::ONE);
    let [mut multiplicities, mut columns] = [Functional::default(), Functional::default()];
    for block in blocks {
        let (high, rest) = claim.point.split_at(claim.point.len() - block.vars);
        let selector = eq_at(high, block.start >> block.vars);
        denominator -= selector;
        if let Some((table, column)) = block.cell {
            numerator += selector;
            denominator += selector * (pole - E::from_u32(WEIGHT_MAX.unsigned_abs()));
            columns.add_evaluation(shape.column(table, column), rest, selector);
        } else {
            denominator += selector * (pole - identity_at(rest));
            // The last of 256 leaves is no weight's value: it has no multiplicity.
            for (cell, weight) in eq_table(rest).into_iter().take(WEIGHT_VALUES).enumerate() {
                multiplicities.add_cell(1, cell, selector * weight);
            }
        }
    }
    let none = Functional::default;
    // Stops: leaves that are not (1, pole - 127 - cell), that is, a weight outside [-127, 127].
    let mut sums = vec![
        (
            claim.numerator - Form::from(numerator),
            [multiplicities, none()],
        ),
        (
            claim.denominator - Form::from(denominator),
            [none(), columns],
        ),
    ];
    let at = draw_point(challenger, shape.column_vars());
    for (index, table) in shape.tables.iter().enumerate() {
        for column in 0..table.columns {
            // Stops: hidden weights in padded cells.
            let mut padding = none();
            let at = &at[at.len() - table.vars()..];
            padding.add_padding(shape.column(index, column), table, at, E::ONE);
            sums.push((Form::default(), [none(), padding]));
        }
    }
    let (vanishing, messages) = tape.finish()?;
    Some((Owed { vanishing, sums }, messages))
}

impl PrivateShape {
    /// The number of a table's column among all.
    #[must_use]
    pub fn column(&self, table: usize, column: usize) -> usize {
        let before = self.tables[..table].iter().map(|table| table.columns);
        before.sum::<usize>() + column
    }
}

impl Owed {
    /// Adds what must vanish if all triples are right; nothing if not every triple is compared.
    pub fn compare(&mut self, secrets: Secrets, compared: &[[E; 2]], eta: E) -> Option<()> {
        let forms = tape::comparisons(secrets, compared, eta)?;
        self.vanishing.extend(forms);
        Some(())
    }

    /// All of it as one functional of both commitments, by the powers of a challenge, and its value.
    #[must_use]
    pub fn batched(&self, secrets: Secrets, beta: E) -> ([Functional; 2], E) {
        let mut functionals = [Functional::default(), Functional::default()];
        let (mut of_secrets, mut sum) = (vec![E::ZERO; secrets.count()], E::ZERO);
        let mut add = |form: &Form, power: E| {
            sum -= power * form.known;
            for &(secret, factor) in &form.terms {
                // The tape hands out no other secrets than there are.
                if let Some(sum) = of_secrets.get_mut(secret as usize) {
                    *sum += power * factor;
                }
            }
        };
        let mut powers = beta.powers();
        let forms = self.vanishing.iter().zip(&mut powers);
        forms.for_each(|(form, power)| add(form, power));
        for ((form, own), power) in self.sums.iter().zip(&mut powers) {
            add(form, power);
            for (all, own) in functionals.iter_mut().zip(own) {
                all.add_scaled(own, power);
            }
        }
        for (index, coefficient) in of_secrets.into_iter().enumerate() {
            functionals[0].add_extension(0, index, coefficient);
        }
        (functionals, sum)
    }
}

/// Checks the registration proof of a program's private weights against their commitment.
///
/// # Errors
/// The part that fails.
pub(crate) fn verify(
    (program, commitment): (ProgramId, Option<&WeightCommitment>),
    shape: &PrivateShape,
    proof: &[u8],
) -> Result<(), RegistrationError> {
    let proof: PrivateRegistration = messages::decode(proof).ok_or(RegistrationError::Malformed)?;
    let commitment = commitment.ok_or(RegistrationError::Malformed)?;
    verify_messages(program, commitment, shape, &proof)
}

/// The checks of a registration's messages, for a shape.
///
/// # Errors
/// The part that fails.
pub fn verify_messages(
    program: ProgramId,
    commitment: &WeightCommitment,
    shape: &PrivateShape,
    proof: &PrivateRegistration,
) -> Result<(), RegistrationError> {
    let PrivateRegistration {
        root,
        gkr,
        products,
        opening,
    } = proof;
    let WeightCommitment {
        root: weights,
        anchor,
    } = commitment;
    let value = *anchor
        .concat()
        .first()
        .ok_or(RegistrationError::Malformed)?;
    let (mut challenger, point) = shape.anchor_point(program, weights);
    absorb(&mut challenger, &[value]);
    hiding::observe(root, &mut challenger);
    let tape = Tape::of_proof(shape.secrets, products);
    let (mut owed, _) = walk(shape, gkr, tape, &mut challenger).ok_or(RegistrationError::Range)?;
    let eta = tape::bind_factors(products, &mut challenger);
    let beta = tape::bind_compared(products, &mut challenger);
    owed.compare(shape.secrets, &products.compared, eta)
        .ok_or(RegistrationError::Malformed)?;
    let (functionals, sum) = owed.batched(shape.secrets, beta);
    let anchor = Anchor { point, value };
    // Stops: any check that does not hold of what is committed.
    hiding::verify_kept(
        &shape.hiding,
        &[root.clone(), weights.clone()],
        Some(&anchor),
        &functionals,
        sum,
        opening,
        &mut challenger,
    )
    .map_err(|_| RegistrationError::Opening)
}
