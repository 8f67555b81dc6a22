//! Public linear maps: a claim becomes claims on the tensors it is a public linear form of.

use super::NodeCheck;
use super::{ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::E;
use crate::algebra::linear::{ReadShape, Reading, map_reading, map_shape, map_tables};
use crate::algebra::tally::{PublicWork, Theorem};
use crate::argument::sumcheck::SumShape;
use crate::plan::MapPlan;
use crate::verify::messages::ReadProof;
use tg_ir::Op;

/// A public linear form that is to have a value.
#[derive(Debug)]
pub(super) struct ReadClaim<'a, V> {
    /// Its shape.
    pub(super) shape: &'a ReadShape,
    /// Its weights, which a count does not have.
    pub(super) reading: Option<&'a Reading>,
    /// What it must be.
    pub(super) sum: V,
    /// What is wrong if it is not.
    pub(super) failed: NodeCheck,
}

impl<A: Arithmetic> Walk<'_, A> {
    /// Checks that a public linear form of some tensors has a value, up to claims on these.
    pub(super) fn read(
        &mut self,
        read: ReadClaim<'_, A::Value>,
        sent: Option<&ReadProof>,
    ) -> Result<(), NodeCheck> {
        let ReadClaim {
            shape,
            reading,
            sum,
            failed,
        } = read;
        // Stops: messages of another shape than the form's, if ever the two should differ; a form without weights.
        let own = reading.map(Reading::shape);
        if own.as_ref() != A::look().map(|_| shape) {
            return Err(NodeCheck::Messages);
        }
        let plan = self.plan;
        let summed = shape.summed != [false; 2];
        // Whether there is a sum.
        self.channel.tally.tag(1);
        if sent.is_some_and(|sent| sent.sumcheck.is_some() != summed) {
            return Err(NodeCheck::Messages);
        }
        let inputs = sent.map(|sent| sent.inputs.as_slice());
        if shape.is_direct() {
            self.list(inputs, 0)?;
            let claims = self.claims_at(shape, reading, &A::Point::default());
            for (&input, (point, _)) in shape.inputs.iter().zip(claims) {
                self.claim(input, point, sum.clone());
            }
            return Ok(());
        }
        let (at, last) = if summed {
            let rounds = sent.and_then(|sent| sent.sumcheck.as_ref());
            let of_sum = SumShape {
                rounds: shape.summed_vars(&plan.layouts).iter().sum(),
                degree: 2,
                theorem: Theorem::Sum,
            };
            self.sumcheck(rounds, of_sum, sum).ok_or(failed)?
        } else {
            (A::Point::default(), sum)
        };
        let values = self.list(inputs, shape.inputs.len())?;
        let claims = self.claims_at(shape, reading, &at);
        let terms = claims.iter().zip(&values);
        let total = terms.map(|((_, weight), value)| value.clone() * *weight);
        let total: A::Value = total.sum();
        // Stops: other elements, or other factors, than the public map's.
        self.equal(last, total).ok_or(failed)?;
        for ((&input, (point, _)), value) in shape.inputs.iter().zip(claims).zip(values) {
            self.claim(input, point, value);
        }
        Ok(())
    }

    /// Per tensor where it is claimed, and the weight of that claim.
    fn claims_at(
        &mut self,
        shape: &ReadShape,
        reading: Option<&Reading>,
        at: &A::Point,
    ) -> Vec<(A::Point, E)> {
        let plan = self.plan;
        let work = PublicWork::tables(shape.entries(&plan.layouts));
        let work = work.and(PublicWork::steps(
            PublicWork::EQ.steps * shape.inputs.len() as u64,
        ));
        let claims = self.channel.public(work, |look| {
            let at = A::coordinates(look, at);
            reading.map(|reading| {
                let terms = reading.terms.iter();
                let claims = terms.map(|term| {
                    let (point, weight) = reading.claim_of(&plan.layouts, term, at);
                    (A::point(look, point), weight)
                });
                claims.collect()
            })
        });
        claims.unwrap_or_else(|| vec![(A::Point::default(), E::default()); shape.inputs.len()])
    }

    /// A node that is a public linear map.
    pub(super) fn map(
        &mut self,
        node: usize,
        how: &MapPlan,
        claim: &ClaimIn<A>,
        sent: Option<&ReadProof>,
    ) -> Result<(), NodeCheck> {
        let (program, plan) = (self.program, self.plan);
        let op = &program.nodes[node].op;
        let failed = match op {
            Op::Add(_) => NodeCheck::Addition,
            Op::WindowSum(_) => NodeCheck::Sources,
            _ => NodeCheck::Permutation,
        };
        let shape = map_shape(op, how);
        let work = map_tables(program, &plan.layouts, node, &shape);
        let made = self.channel.public(work, |look| {
            let at = A::coordinates(look, &claim.point);
            map_reading(program, &plan.layouts, node, how, at)
        });
        let (reading, constant) = made.unzip();
        let read = ReadClaim {
            shape: &shape,
            reading: reading.as_ref(),
            sum: claim.value.clone() - A::Value::from(constant.unwrap_or_default()),
            failed,
        };
        self.read(read, sent)
    }
}
