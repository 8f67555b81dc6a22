//! The openings: every value that the messages used is the committed columns'.

use super::{Walk, WeightClaims, padded_point};
use crate::commitment::{Challenger, opens_to};
use crate::error::VerifyError;
use crate::field::point;
use crate::lookup::LookupClaims;
use crate::messages::InferenceProof;
use crate::model::{ProofShape, PublicModel};
use p3_sumcheck::PrescribedPointPcs;

pub(super) fn check_witness(
    shape: &ProofShape,
    proof: &InferenceProof,
    walk: &Walk<'_>,
    lookup: &LookupClaims,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    let (mut points, mut expected) = (Vec::new(), Vec::new());
    let tables = walk.plan.witness.iter().zip(&walk.opened);
    for ((table, claims), columns) in tables.zip(&lookup.columns) {
        let vars = table.chunk.column_vars();
        points.push(padded_point(
            &lookup.point[lookup.point.len() - table.chunk.vars..],
            vars,
        ));
        expected.push(columns);
        for claim in claims {
            points.push(padded_point(&claim.point, vars));
            expected.push(&claim.values);
        }
    }
    let opened = shape
        .witness_scheme
        .verify_at(
            &proof.witness,
            &proof.witness_opening,
            &shape.witness_protocol,
            &points,
            challenger,
        )
        .map_err(|_| VerifyError::Opening { which: "witness" })?;
    // Stops: values that are not the committed columns'.
    if opens_to(&opened, &expected) {
        Ok(())
    } else {
        Err(VerifyError::Opened { which: "witness" })
    }
}

pub(super) fn check_weights(
    model: &PublicModel,
    proof: &InferenceProof,
    walk: &Walk<'_>,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    let (mut points, mut expected) = (Vec::new(), Vec::new());
    let at = model.anchor_point();
    let mut anchors = model.weights_commitment().anchor.iter();
    let mut anchor = |vars: usize| {
        let values = anchors.next().cloned().unwrap_or_default();
        (point(&at[at.len() - vars..]), values)
    };
    for (layout, claims) in walk.plan.weights.iter().zip(&walk.weights) {
        let Some(claims) = claims else {
            return Err(VerifyError::Opened { which: "weights" });
        };
        let WeightClaims {
            point,
            pieces,
            bias,
        } = claims;
        // Per column the claim, and the anchor. Stops: other weights near the root than the registered ones.
        for (piece, &value) in layout.pieces().iter().zip(pieces) {
            let vars = piece.column_vars();
            points.push(padded_point(&layout.piece_point(piece, point).0, vars));
            expected.push(vec![value]);
            let (at, values) = anchor(vars);
            points.push(at);
            expected.push(values);
        }
        if let Some((bias_point, bias)) = bias {
            let vars = layout.bias_vars();
            points.push(padded_point(bias_point, vars));
            expected.push(bias.to_vec());
            let (at, values) = anchor(vars);
            points.push(at);
            expected.push(values);
        }
    }
    let opened = model
        .weights_scheme()
        .verify_at(
            &model.weights_commitment().root,
            &proof.weights_opening,
            model.weights_protocol(),
            &points,
            challenger,
        )
        .map_err(|_| VerifyError::Opening { which: "weights" })?;
    if opens_to(&opened, &expected) {
        Ok(())
    } else {
        Err(VerifyError::Opened { which: "weights" })
    }
}
