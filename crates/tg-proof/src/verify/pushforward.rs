//! Committed pushforwards of the lookup argument: what is claimed of them, and its proof.

use crate::algebra::arithmetic::{Arithmetic, Clear};
use crate::algebra::field::{E, eq_at, eq_table, eq_values, inner_product, padded_point};
use crate::algebra::transcript::Challenger;
use crate::argument::commitment::{OpeningClaims, opens_at};
use crate::plan::shape::ProofShape;
use crate::plan::{LeafBlock, Plan, PushforwardLayout};
use crate::verify::messages::{LookupProof, Pushforwards};
use crate::verify::{LookupCheck, VerifyError};
use p3_field::PrimeCharacteristicRing;

/// `sel_t`, the weight at the fractional sum's point of a table's leaves among all, and the rest of that point.
fn table_weight<'a>(plan: &Plan, table: usize, point: &'a [E]) -> Option<(E, &'a [E])> {
    let placed = plan
        .leaves
        .iter()
        .find(|placed| matches!(placed.block, LeafBlock::Table { table: own } if own == table))?;
    let (high, rest) = point.split_at(point.len() - placed.vars);
    Some((eq_at(high, placed.start >> placed.vars), rest))
}

/// The weights of committed pushforwards in the sum of all claims on them: per table first `sel_t eq(rest, v)`, its
/// leaves' part in the fractional sum, and then every column of its table with a power of beta.
#[derive(Debug)]
pub struct PushforwardWeights<'a> {
    plan: &'a Plan,
    layout: &'a PushforwardLayout,
    point: &'a [E],
    beta: E,
}

impl<'a> PushforwardWeights<'a> {
    /// The weights for the fractional sum's point and a challenge.
    #[must_use]
    pub const fn new(
        plan: &'a Plan,
        layout: &'a PushforwardLayout,
        point: &'a [E],
        beta: E,
    ) -> Self {
        Self {
            plan,
            layout,
            point,
            beta,
        }
    }

    /// The power of beta of each table's first column.
    fn powers(&self) -> impl Iterator<Item = E> {
        let columns = self.plan.tables.iter().map(|table| table.columns.len());
        columns.scan(self.beta, |power, columns| {
            let first = *power;
            *power *= self.beta.exp_u64(columns as u64);
            Some(first)
        })
    }

    /// One weight per entry of the layout's hypercube.
    #[must_use]
    pub fn table(&self) -> Vec<E> {
        let mut weights = vec![E::ZERO; 1 << self.layout.vars];
        let starts = self.layout.starts.iter().zip(self.powers());
        for ((index, table), (&start, first)) in self.plan.tables.iter().enumerate().zip(starts) {
            let weights = &mut weights[start..start + table.len()];
            if let Some((scale, rest)) = table_weight(self.plan, index, self.point) {
                let leaves = weights.iter_mut().zip(eq_table(rest));
                leaves.for_each(|(weight, eq)| *weight = scale * eq);
            }
            for (entries, power) in table.columns.iter().zip(self.beta.shifted_powers(first)) {
                let entries = weights.iter_mut().zip(entries);
                entries.for_each(|(weight, &entry)| *weight += power * entry);
            }
        }
        weights
    }

    /// Their extension at a point. Linear in the tables, which are public.
    #[must_use]
    pub fn at(&self, point: &[E]) -> E {
        let eq = eq_table(point);
        let starts = self.layout.starts.iter().zip(self.powers());
        let tables = self.plan.tables.iter().enumerate().zip(starts);
        tables
            .map(|((index, table), (&start, first))| {
                let eq = &eq[start..start + table.len()];
                let leaves = table_weight(self.plan, index, self.point).map(|(scale, rest)| {
                    let pairs = eq.iter().zip(eq_values(rest));
                    scale * pairs.map(|(&a, b)| a * b).sum::<E>()
                });
                let columns = table.columns.iter().zip(self.beta.shifted_powers(first));
                let columns = columns.map(|(entries, power)| power * inner_product(entries, eq));
                leaves.unwrap_or_default() + columns.sum::<E>()
            })
            .sum()
    }
}

/// Where the columns of pushforwards are shown.
pub(super) struct ShownPushforwards<A: Arithmetic> {
    /// The point over all entries.
    pub(super) point: A::Point,
    /// Per chunk its columns at its part of the point.
    pub(super) columns: Vec<Vec<A::Value>>,
}

/// Checks that the columns of committed pushforwards are what their messages show, if there are some.
///
/// # Errors
/// If they open to something else.
pub(super) fn open(
    shape: &ProofShape,
    shown: Option<&ShownPushforwards<Clear>>,
    proof: &LookupProof,
    challenger: &mut Challenger,
) -> Result<(), VerifyError> {
    const MESSAGES: VerifyError = VerifyError::Lookup(LookupCheck::Messages);
    let Some(ShownPushforwards { point, columns }) = shown else {
        return Ok(());
    };
    let Pushforwards::Committed(proof) = &proof.pushforwards else {
        return Err(MESSAGES);
    };
    let layout = shape.plan.pushforwards.as_ref().ok_or(MESSAGES)?;
    let (scheme, protocol) = shape.pushforwards.as_ref().ok_or(MESSAGES)?;
    let mut opened = OpeningClaims::default();
    for (chunk, columns) in layout.chunks.iter().zip(columns) {
        let rest = &point[point.len() - chunk.vars..];
        opened.push(padded_point(rest, chunk.column_vars()), columns.clone());
    }
    let argument = &proof.opening;
    if opens_at(scheme, protocol, &proof.root, opened, argument, challenger) {
        Ok(())
    } else {
        Err(VerifyError::Opening {
            which: "pushforwards",
        })
    }
}
