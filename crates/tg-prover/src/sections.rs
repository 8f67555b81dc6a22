//! The committed sections of a witness: their roots, their anchors and their openings.
//!
//! A witness of one section stays in memory from its commitment to its opening. Of a larger witness only the roots are kept:
//! a section's data, above all its codeword, is computed again for its opening, so that only one is in memory at a time.

use crate::channel::Channel;
use crate::error::ProveError;
use crate::fold::dot;
use crate::limits::Limits;
use crate::lookup::LookedUp;
use crate::model::ProverData;
use crate::record::step;
use crate::witness::Witness;
use p3_commit::MultilinearPcs;
use p3_multilinear_util::point::Point;
use p3_sumcheck::layout::Layout;
use p3_sumcheck::{OpeningBatch, PrescribedPointPcs};
use std::collections::BTreeMap;
use tg_proof::commitment::{Challenger, Commitment, Opening, OpeningArgument, Stacking};
use tg_proof::field::{E, eq_table};
use tg_proof::model::ProofShape;
use tg_proof::transcript::absorb;
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
    /// Commits all sections, one after the other, absorbs their roots and anchors them. `next` is called before each
    /// section.
    pub(crate) fn new(
        (shape, witness): (&'a ProofShape, &'a Witness),
        channel: &mut Channel,
        limits: &Limits<'_>,
        next: &mut dyn FnMut(),
    ) -> Result<Self, ProveError> {
        let mut committed = Self {
            shape,
            witness,
            roots: Vec::new(),
            whole: None,
            anchor: Vec::new(),
            anchors: Vec::new(),
        };
        if !shape.plan.looks_up() {
            return Ok(committed);
        }
        if !shape.plan.is_anchored() {
            next();
            limits.check()?;
            let (root, data) = committed.commit(0, channel.challenger())?;
            committed.roots.push(root);
            committed.whole = Some(data);
            return Ok(committed);
        }
        for (section, (scheme, _)) in shape.sections.iter().enumerate() {
            next();
            limits.check()?;
            let (root, ()) = step(
                limits.record,
                channel,
                |root: &Commitment, challenger| {
                    scheme.observe_commitment(root, challenger);
                    Some(())
                },
                |channel| Ok((committed.commit(section, channel.challenger())?.0, ())),
            )?;
            committed.roots.push(root);
        }
        committed.anchor = channel.draw_point(shape.plan.anchor_vars());
        let (anchors, ()) = step(
            limits.record,
            channel,
            |anchors: &Vec<Vec<E>>, challenger| committed.replay_anchors(anchors, challenger),
            |channel| Ok((committed.make_anchors(channel), ())),
        )?;
        committed.anchors = anchors;
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

    /// Sends the columns at the anchor's point.
    fn make_anchors(&self, channel: &mut Channel) -> Vec<Vec<E>> {
        let plan = &self.shape.plan;
        let mut anchors = Vec::with_capacity(plan.witness.len());
        let mut weights: BTreeMap<usize, Vec<E>> = BTreeMap::new();
        for (table, columns) in plan.witness.iter().zip(&self.witness.columns) {
            let vars = table.chunk.column_vars();
            let eq = weights
                .entry(vars)
                .or_insert_with(|| eq_table(&self.anchor[self.anchor.len() - vars..]));
            let values: Vec<E> = columns.iter().map(|column| dot(column, eq)).collect();
            #[cfg(test)]
            let values = crate::tests::sections::lied_anchor(values);
            absorb(channel.challenger(), &values);
            anchors.push(values);
        }
        anchors
    }

    /// Plays anchors that were sent before.
    fn replay_anchors(&self, anchors: &[Vec<E>], challenger: &mut Challenger) -> Option<()> {
        let tables = &self.shape.plan.witness;
        let columns = anchors.iter().zip(tables);
        let fits = anchors.len() == tables.len()
            && columns
                .clone()
                .all(|(values, table)| values.len() == table.columns);
        anchors.iter().for_each(|values| absorb(challenger, values));
        fits.then_some(())
    }

    /// Opens all sections: each table at its part of its section's point in the lookup argument, at the anchor's if there
    /// is one, then where its gadget opens it. `next` is called before each section.
    pub(crate) fn open(
        &mut self,
        (looked_up, opened): (&LookedUp, &[Vec<Vec<E>>]),
        channel: &mut Channel,
        limits: &Limits<'_>,
        next: &mut dyn FnMut(),
    ) -> Result<Vec<OpeningArgument>, ProveError> {
        let mut openings = Vec::with_capacity(self.roots.len());
        for (section, point) in looked_up.points.iter().enumerate() {
            next();
            limits.check()?;
            let points = self.points(section, point, opened);
            let (scheme, protocol) = &self.shape.sections[section];
            let root = self.roots[section].clone();
            let (opening, ()) = step(
                limits.record,
                channel,
                |opening: &Opening, challenger| {
                    let verdict = scheme.verify_at(&root, opening, protocol, &points, challenger);
                    verdict.ok().map(drop)
                },
                |channel| Ok((self.open_section(section, &points, channel)?, ())),
            )?;
            // What was kept of the values that are opened.
            if limits.record.is_some() && !self.shows(section, &opening, looked_up) {
                return Err(ProveError::Record);
            }
            openings.push(opening.whir);
        }
        Ok(openings)
    }

    /// Whether a section's opening has the values that were sent: those of the lookup argument and the anchors.
    fn shows(&self, section: usize, opening: &Opening, looked_up: &LookedUp) -> bool {
        let mut shown = opening.evals.iter().map(OpeningBatch::current);
        let tables = self.shape.plan.sections[section].witness.clone();
        tables.into_iter().all(|table| {
            let points = self.shape.plan.witness[table].openings.len();
            let sent = looked_up.proof.columns.get(table);
            let anchors = self.anchors.get(table);
            shown.next() == sent.map(Vec::as_slice)
                && (anchors.is_none() || shown.next() == anchors.map(Vec::as_slice))
                && shown.by_ref().take(points).count() == points
        })
    }

    fn open_section(
        &mut self,
        section: usize,
        points: &[Point<E>],
        channel: &mut Channel,
    ) -> Result<Opening, ProveError> {
        let challenger = channel.challenger();
        let data = match self.whole.take() {
            Some(data) => data,
            None => {
                // What this absorbs was absorbed before: the root.
                let (root, data) = self.commit(section, &mut challenger.clone())?;
                // Not so if the root was kept by another version of this program.
                if root != self.roots[section] {
                    return Err(ProveError::Record);
                }
                data
            }
        };
        let (scheme, protocol) = &self.shape.sections[section];
        let opening = scheme.open_at(data, protocol, points, challenger);
        opening.map_err(|_| FAILED)
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
