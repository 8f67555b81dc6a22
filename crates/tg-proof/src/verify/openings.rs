//! The openings: every value that the messages used is the committed columns'.

use super::{Walk, WeightClaims, padded_point};
use crate::commitment::{Challenger, OpeningArgument, OpeningClaims, opens_at};
use crate::error::VerifyError;
use crate::field::point;
use crate::lookup::LookupClaims;
use crate::messages::InferenceProof;
use crate::model::{ProofShape, PublicModel};

pub(super) fn check_witness(
    shape: &ProofShape,
    proof: &InferenceProof,
    walk: &Walk<'_>,
    lookup: &LookupClaims,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    let mut claims = OpeningClaims::default();
    let tables = walk.plan.witness.iter().zip(&walk.opened);
    for ((table, opened), columns) in tables.zip(&lookup.columns) {
        let vars = table.chunk.column_vars();
        let at = &lookup.point[lookup.point.len() - table.chunk.vars..];
        claims.push(padded_point(at, vars), columns.clone());
        for claim in opened {
            claims.push(padded_point(&claim.point, vars), claim.values.clone());
        }
    }
    let (scheme, protocol) = (&shape.witness_scheme, &shape.witness_protocol);
    let argument = &proof.witness_opening;
    if opens_at(
        scheme,
        protocol,
        &proof.witness,
        claims,
        argument,
        challenger,
    ) {
        Ok(())
    } else {
        Err(VerifyError::Opening { which: "witness" })
    }
}

/// The pieces and biases of the weights, as the walk claims them, and their anchors.
pub(crate) fn check_weights(
    model: &PublicModel,
    claimed: &[Option<WeightClaims>],
    argument: &OpeningArgument,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    const REFUSED: VerifyError = VerifyError::Opening { which: "weights" };
    let mut opened = OpeningClaims::default();
    let at = model.anchor_point();
    let mut anchors = model.weights_commitment().anchor.iter();
    let mut anchor = |vars: usize| {
        let values = anchors.next().cloned().unwrap_or_default();
        (point(&at[at.len() - vars..]), values)
    };
    for (layout, claims) in model.plan().weights.iter().zip(claimed) {
        let Some(claims) = claims else {
            return Err(REFUSED);
        };
        let WeightClaims {
            point,
            pieces,
            bias,
        } = claims;
        // Per column the claim, and the anchor. Stops: other weights near the root than the registered ones.
        for (piece, &value) in layout.pieces().iter().zip(pieces) {
            let vars = piece.column_vars();
            let at = padded_point(&layout.piece_point(piece, point).0, vars);
            opened.push(at, vec![value]);
            let (at, values) = anchor(vars);
            opened.push(at, values);
        }
        if let Some((bias_point, bias)) = bias {
            let vars = layout.bias_vars();
            opened.push(padded_point(bias_point, vars), bias.to_vec());
            let (at, values) = anchor(vars);
            opened.push(at, values);
        }
    }
    let (scheme, protocol) = (model.weights_scheme(), model.weights_protocol());
    let root = &model.weights_commitment().root;
    if opens_at(scheme, protocol, root, opened, argument, challenger) {
        Ok(())
    } else {
        Err(REFUSED)
    }
}
