//! The openings: every value that the messages used is the committed columns'.

use super::VerifyError;
use super::{BiasClaims, ColumnClaim, WeightClaims};
use crate::algebra::field::{E, padded_point, point};
use crate::algebra::transcript::{Challenger, absorb, draw_point};
use crate::argument::commitment::{OpeningArgument, OpeningClaims, WeightCommitment, opens_at};
use crate::plan::Plan;
use crate::plan::shape::{ProofShape, WeightsShape};
use crate::verify::lookup::LookupClaims;
use crate::verify::messages::{InferenceProof, SectionProofs};
use p3_commit::MultilinearPcs;

/// The weights of a model, as its registration has them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Registered<'a> {
    /// How they are committed and opened.
    pub(crate) shape: &'a WeightsShape,
    /// Their commitment.
    pub(crate) commitment: &'a WeightCommitment,
    /// The point at which it is anchored.
    pub(crate) anchored_at: &'a [E],
    /// A plan of the model's program: what it says of weights depends on nothing else.
    pub(crate) plan: &'a Plan,
}

const WITNESS: VerifyError = VerifyError::Opening { which: "witness" };

/// Absorbs the roots of all sections, and the anchor if there are several; gives the anchor's point.
///
/// Each root leaves a few polynomials open. Were these candidates of all sections to be counted together, there would be
/// too many for every later challenge; two of one section differ at the drawn point.
pub(super) fn observe_witness(
    shape: &ProofShape,
    proof: &InferenceProof,
    challenger: &mut Challenger,
) -> Result<Vec<E>, VerifyError> {
    let SectionProofs {
        roots,
        anchors,
        sums: _,
        tables: _,
        openings,
    } = &proof.sections;
    let plan = &shape.plan;
    let anchored = if plan.is_anchored() {
        plan.witness.as_slice()
    } else {
        &[]
    };
    // Stops: another number of sections than the plan's, a column without an anchor.
    let columns = anchors.iter().zip(anchored);
    if roots.len() + usize::from(proof.witness.is_some()) != plan.sections.len()
        || openings.len() != roots.len()
        || anchors.len() != anchored.len()
        || columns
            .clone()
            .any(|(values, table)| values.len() != table.columns)
    {
        return Err(WITNESS);
    }
    let roots = proof.witness.iter().chain(roots);
    for ((scheme, _), root) in shape.sections.iter().zip(roots) {
        scheme.observe_commitment(root, challenger);
    }
    if !plan.is_anchored() {
        return Ok(Vec::new());
    }
    let point = draw_point(challenger, plan.anchor_vars());
    anchors.iter().for_each(|values| absorb(challenger, values));
    Ok(point)
}

/// What is claimed of the columns of the witness.
#[derive(Debug, Clone, Copy)]
pub(super) struct WitnessClaims<'a> {
    /// Per table where gadgets open it.
    pub(super) opened: &'a [Vec<ColumnClaim>],
    /// What the lookup argument leaves.
    pub(super) lookup: &'a LookupClaims,
    /// The point of the anchor, if there is one.
    pub(super) anchor: &'a [E],
}

pub(super) fn check_witness(
    shape: &ProofShape,
    proof: &InferenceProof,
    claimed: WitnessClaims<'_>,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    let SectionProofs {
        roots,
        anchors,
        openings,
        ..
    } = &proof.sections;
    let WitnessClaims {
        opened,
        lookup,
        anchor,
    } = claimed;
    let plan = &shape.plan;
    let roots = proof.witness.iter().chain(roots);
    let openings = proof.witness_opening.iter().chain(openings);
    let messages = roots.zip(openings).zip(lookup.points());
    let sections = plan.sections.iter().zip(&shape.sections);
    for ((section, (scheme, protocol)), ((root, argument), point)) in sections.zip(messages) {
        let mut claims = OpeningClaims::default();
        for table in section.witness.clone() {
            let chunk = plan.witness[table].chunk;
            let vars = chunk.column_vars();
            let at = &point[point.len() - chunk.vars..];
            claims.push(padded_point(at, vars), lookup.columns[table].clone());
            if let Some(values) = anchors.get(table) {
                let at = &anchor[anchor.len() - vars..];
                claims.push(padded_point(at, vars), values.clone());
            }
            for claim in &opened[table] {
                claims.push(padded_point(&claim.point, vars), claim.values.clone());
            }
        }
        if !opens_at(scheme, protocol, root, claims, argument, challenger) {
            return Err(WITNESS);
        }
    }
    Ok(())
}

/// The pieces and biases of the weights, as the walk claims them, and their anchors.
///
/// # Errors
/// If they are not the registered ones.
pub(crate) fn check_weights(
    registered: &Registered<'_>,
    claimed: &[Option<WeightClaims>],
    argument: &OpeningArgument,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    const REFUSED: VerifyError = VerifyError::Opening { which: "weights" };
    let mut opened = OpeningClaims::default();
    let Registered {
        shape,
        commitment: WeightCommitment { root, anchor },
        anchored_at: at,
        plan,
    } = *registered;
    let mut anchors = anchor.iter();
    let mut anchor = |vars: usize| {
        let values = anchors.next().cloned().unwrap_or_default();
        (point(&at[at.len() - vars..]), values)
    };
    for (own, layout) in plan.weights.iter().enumerate() {
        let uses: Option<Vec<&WeightClaims>> = plan
            .readers_of(own)
            .map(|index| claimed.get(index).and_then(Option::as_ref))
            .collect();
        let uses = uses.ok_or(REFUSED)?;
        // Per column a claim of each node that reads it, and the anchor. Stops: other weights near the root than the
        // registered ones, other weights for one of the nodes.
        for (place, piece) in layout.own_pieces().iter().enumerate() {
            let vars = piece.column_vars();
            for WeightClaims { point, pieces, .. } in &uses {
                let &value = pieces.get(place).ok_or(REFUSED)?;
                let at = padded_point(&layout.piece_point(piece, point).0, vars);
                opened.push(at, vec![value]);
            }
            let (at, values) = anchor(vars);
            opened.push(at, values);
        }
        if let Some(BiasClaims { point, digits }) = &uses[0].bias {
            let vars = layout.bias_vars();
            opened.push(padded_point(point, vars), digits.clone());
            let (at, values) = anchor(vars);
            opened.push(at, values);
        }
    }
    let (scheme, protocol) = (&shape.scheme, &shape.protocol);
    if opens_at(scheme, protocol, root, opened, argument, challenger) {
        Ok(())
    } else {
        Err(REFUSED)
    }
}
