//! The committed sections of a witness: their roots, their anchors and their openings.
//!
//! A witness of one section is held from its commitment to its opening. Of several only the roots are kept: what a section
//! takes in memory (its codeword above all) is made again for its opening, so that there is never more than one.

use crate::fold::dot;
use crate::lookup::LookedUp;
use crate::model::ProverData;
use crate::prove::ProveError;
use crate::witness::Witness;
use p3_commit::MultilinearPcs;
use p3_multilinear_util::point::Point;
use p3_sumcheck::PrescribedPointPcs;
use p3_sumcheck::layout::Layout;
use std::collections::BTreeMap;
use tg_proof::commitment::{Challenger, Commitment, OpeningArgument, Stacking};
use tg_proof::field::{E, eq_table};
use tg_proof::model::ProofShape;
use tg_proof::transcript::{absorb, draw_point};
use tg_proof::verify::padded_point;

const FAILED: ProveError = ProveError::Commitment { which: "witness" };

/// A committed witness.
pub(crate) struct Committed<'a> {
    shape: &'a ProofShape,
    witness: &'a Witness,
    /// Per section its root.
    pub(crate) roots: Vec<Commitment>,
    /// The only section.
    pub(crate) whole: Option<ProverData>,
    /// The point of the anchor, and per witness table its columns there; nothing if there is one section.
    anchor: Vec<E>,
    pub(crate) anchors: Vec<Vec<E>>,
}

impl<'a> Committed<'a> {
    /// Commits all sections, one after the other, absorbs their roots and anchors them. `next` is asked before each
    /// section whether to go on.
    pub(crate) fn new(
        shape: &'a ProofShape,
        witness: &'a Witness,
        challenger: &mut Challenger,
        next: &mut dyn FnMut(usize) -> Result<(), ProveError>,
    ) -> Result<Self, ProveError> {
        let mut committed = Self {
            shape,
            witness,
            roots: Vec::new(),
            whole: None,
            anchor: Vec::new(),
            anchors: Vec::new(),
        };
        for section in 0..shape.sections.len() {
            next(section)?;
            let (root, data) = committed.commit(section, challenger)?;
            committed.roots.push(root);
            if !shape.plan.is_anchored() {
                committed.whole = Some(data);
            }
        }
        if shape.plan.is_anchored() {
            committed.anchor(challenger);
        }
        Ok(committed)
    }

    fn commit(
        &self,
        section: usize,
        challenger: &mut Challenger,
    ) -> Result<(Commitment, ProverData), ProveError> {
        let (scheme, _) = &self.shape.sections[section];
        let tables = self.shape.plan.sections[section].witness.clone();
        let fold = scheme.folding_schedule()[0];
        let stacked = Stacking::new_witness(self.witness.tables_of(tables), fold);
        scheme.commit(stacked, challenger).map_err(|_| FAILED)
    }

    /// Draws the anchor's point and sends the columns there.
    fn anchor(&mut self, challenger: &mut Challenger) {
        let plan = &self.shape.plan;
        self.anchor = draw_point(challenger, plan.anchor_vars());
        let mut weights: BTreeMap<usize, Vec<E>> = BTreeMap::new();
        for (table, columns) in plan.witness.iter().zip(&self.witness.columns) {
            let vars = table.chunk.column_vars();
            let eq = weights
                .entry(vars)
                .or_insert_with(|| eq_table(&self.anchor[self.anchor.len() - vars..]));
            let values: Vec<E> = columns.iter().map(|column| dot(column, eq)).collect();
            #[cfg(test)]
            let values = crate::tests::sections::lied_anchor(values);
            absorb(challenger, &values);
            self.anchors.push(values);
        }
    }

    /// Opens all sections: each table at its part of its section's point in the lookup argument, at the anchor's if there
    /// is one, then where its gadget opens it.
    pub(crate) fn open(
        &mut self,
        looked_up: &LookedUp,
        opened: &[Vec<Vec<E>>],
        challenger: &mut Challenger,
        next: &mut dyn FnMut(usize) -> Result<(), ProveError>,
    ) -> Result<Vec<OpeningArgument>, ProveError> {
        let mut openings = Vec::with_capacity(self.roots.len());
        for (section, point) in looked_up.points.iter().enumerate() {
            next(section)?;
            let points = self.points(section, point, opened);
            let data = match self.whole.take() {
                Some(data) => data,
                // What this absorbs was absorbed before: the root.
                None => self.commit(section, &mut challenger.clone())?.1,
            };
            let (scheme, protocol) = &self.shape.sections[section];
            let opening = scheme
                .open_at(data, protocol, &points, challenger)
                .map_err(|_| FAILED)?;
            openings.push(opening.whir);
        }
        Ok(openings)
    }

    fn points(&self, section: usize, looked_up: &[E], opened: &[Vec<Vec<E>>]) -> Vec<Point<E>> {
        let plan = &self.shape.plan;
        let mut points = Vec::new();
        for table in plan.sections[section].witness.clone() {
            let chunk = plan.witness[table].chunk;
            let vars = chunk.column_vars();
            let at = &looked_up[looked_up.len() - chunk.vars..];
            points.push(padded_point(at, vars));
            if plan.is_anchored() {
                points.push(padded_point(&self.anchor[self.anchor.len() - vars..], vars));
            }
            points.extend(opened[table].iter().map(|at| padded_point(at, vars)));
        }
        points
    }
}
