//! Gadgets as data: the sumchecks of their stages, and what each variable's value at the final point must be shown by.

use super::NodeCheck;
use super::walk::Stated;
use super::{ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_prefix};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::plan::staged::{Anchors, Slot, Stage, Staged};
use crate::verify::messages::StageProof;
use p3_field::PrimeCharacteristicRing;

/// The point of a stage, and all variables there.
type Shown<A> = (<A as Arithmetic>::Point, Vec<<A as Arithmetic>::Value>);

impl<A: Arithmetic> Walk<'_, A> {
    /// A list of proofs of stages, one for each of a gadget's.
    pub(super) fn staged(
        &mut self,
        staged: &Staged,
        claim: &ClaimIn<A>,
        sent: Option<&[StageProof]>,
    ) -> Result<(), NodeCheck> {
        self.channel.tally.send(0, 1);
        let Staged { rows, elements } = staged;
        if sent.is_some_and(|sent| sent.len() != 1 + usize::from(rows.is_some())) {
            return Err(NodeCheck::Messages);
        }
        let (first, last) = (sent.and_then(<[_]>::first), sent.and_then(<[_]>::last));
        let output = Stated {
            output: &claim.value,
            sums: &[],
        };
        let Some((rows, sums)) = rows else {
            return self.alone(elements, &claim.point, &output, last);
        };
        let drawn = if rows.outputs.is_empty() {
            let vars = rows.layout.vars();
            self.channel.draw_point(Theorem::Identities, vars)
        } else {
            claim.point.clone()
        };
        let anchors = self.anchored(rows, &drawn);
        let (at, values) = self.stage(rows, anchors.as_ref(), &output, first)?;
        let claims: Vec<A::Value> = sums.iter().map(|&sum| values[sum].clone()).collect();
        let vars = elements.layout.channel_vars;
        let channels = self.channel.draw_point(Theorem::Identities, vars);
        let anchors = self.channel.public(PublicWork::default(), |look| {
            let [claim, at, channels] =
                [&claim.point, &at, &channels].map(|point| A::coordinates(look, point));
            Some(Anchors::after(claim, at, channels))
        });
        let stated = Stated {
            output: &claim.value,
            sums: &claims,
        };
        self.stage(elements, anchors.as_ref(), &stated, last)?;
        Ok(())
    }

    /// A stage without sums, at one point.
    pub(super) fn alone(
        &mut self,
        stage: &Stage,
        point: &A::Point,
        stated: &Stated<'_, A::Value>,
        sent: Option<&StageProof>,
    ) -> Result<(), NodeCheck> {
        let anchors = self.anchored(stage, point);
        self.stage(stage, anchors.as_ref(), stated, sent)?;
        Ok(())
    }

    /// The anchors of a stage at one point, which a count does not have.
    pub(super) fn anchored(&mut self, stage: &Stage, point: &A::Point) -> Option<Anchors> {
        self.channel.public(PublicWork::default(), |look| {
            Some(Anchors::one(stage, A::coordinates(look, point)))
        })
    }

    /// One sumcheck; gives its point and all variables there.
    pub(super) fn stage(
        &mut self,
        stage: &Stage,
        anchors: Option<&Anchors>,
        stated: &Stated<'_, A::Value>,
        sent: Option<&StageProof>,
    ) -> Result<Shown<A>, NodeCheck> {
        let Stated { output, sums } = *stated;
        // Stops: relations that nothing weighs, if ever anchors should be missing.
        if anchors.is_some() != A::look().is_some() {
            return Err(NodeCheck::Messages);
        }
        let vars = stage.layout.vars();
        let relations = stage.own().count() + stage.sums.len();
        let alpha = self.channel.draw(Theorem::Identities, relations);
        // A constraint vanishes on every element if it does at its anchor, and a sum is its row's.
        let anchored = [
            (!stage.constraints.is_empty(), vars),
            (!stage.sums.is_empty(), vars - stage.layout.channel_vars),
        ];
        for (_, vars) in anchored.into_iter().filter(|(needed, _)| *needed) {
            self.channel.tally.charge(Theorem::Identities, vars);
        }
        let factors = anchors.map(|anchors| stage.factors(alpha, &anchors.channels));
        let factors = factors.unwrap_or_default();
        let sum = stage.claimed(&factors, output, sums);
        let of_sum = SumShape {
            rounds: vars,
            degree: stage.degree(),
            theorem: Theorem::Sum,
        };
        let (at, last) = self
            .sumcheck(sent.map(|sent| &sent.sumcheck), of_sum, sum)
            .ok_or(NodeCheck::Relation)?;
        let values = sent.map(|sent| sent.values.as_slice());
        let values = self.list(values, stage.sent().len())?;
        let work = PublicWork::tables(Stage::steps(&stage.layout));
        let (publics, weights) = self.channel.public(work, |look| {
            let at = A::coordinates(look, &at);
            let weights = anchors.map(|anchors| weights_at(stage, anchors, at));
            (stage.publics_at(at), weights.unwrap_or_default())
        });
        let values = stage.values(&values, &publics);
        // Stops: an output, a constraint or a sum that does not hold on some element.
        let arithmetic = &mut self.channel.arithmetic;
        let combined = stage.combined(&factors, weights, &values, arithmetic);
        self.equal(last, combined).ok_or(NodeCheck::Relation)?;
        self.bind(stage, &at, &values);
        Ok((at, values))
    }

    /// Every variable is what a table gives its reader, or a claim on a tensor.
    fn bind(&mut self, stage: &Stage, at: &A::Point, values: &[A::Value]) {
        let vars = stage.layout.vars();
        for reading in &stage.readings {
            let kept = if reading.rows {
                vars - stage.layout.channel_vars
            } else {
                vars
            };
            let (point, covered) = self.channel.public(PublicWork::EQ, |look| {
                let point = &A::coordinates(look, at)[..kept];
                let covered = eq_prefix(point, reading.covered);
                (A::point(look, point.to_vec()), covered)
            });
            let slots = reading.slots.iter().map(|slot| match *slot {
                Slot::Variable(variable) => values[variable].clone(),
                // Stops: a limb beyond its class.
                Slot::Class(class) => A::Value::from(E::from_u32(class) * covered),
            });
            self.pull(reading.group, &point, kept, slots.collect());
        }
        for &(variable, tensor) in &stage.tensors {
            self.claim(tensor, at.clone(), values[variable].clone());
        }
    }
}

/// The weights of outputs, constraints and sums at a stage's point.
fn weights_at(stage: &Stage, anchors: &Anchors, at: &[E]) -> [E; 3] {
    let weigh = |needed: bool, anchor: &[E]| {
        let weight = needed.then(|| stage.weight_at(anchor, at));
        weight.unwrap_or_default()
    };
    let own = anchors.constraints.as_ref().unwrap_or(&anchors.output);
    [
        weigh(!stage.outputs.is_empty(), &anchors.output),
        weigh(true, own),
        weigh(!stage.sums.is_empty(), &anchors.rows),
    ]
}
