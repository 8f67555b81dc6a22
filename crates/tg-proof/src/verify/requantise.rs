//! Requantisations: three committed columns, five pulled values.

use super::NodeCheck;
use super::{ClaimIn, Walk};
use crate::algebra::arithmetic::Arithmetic;
use crate::algebra::field::{E, eq_prefix, eq_table};
use crate::algebra::layout::TensorLayout;
use crate::algebra::tally::PublicWork;
use crate::plan::ColumnSet;
use crate::verify::messages::RequantiseProof;
use p3_field::PrimeCharacteristicRing;
use tg_ir::{Requantise, TensorId};

/// The pair of rows that are no element: its only segment maps 0 to 0.
#[must_use]
pub fn padding_pair(how: &Requantise) -> u8 {
    how.pairs.len() as u8
}

/// The pair of an element's channel, or of no element.
#[must_use]
pub fn padded_pair(how: &Requantise, channel: Option<usize>) -> u8 {
    channel.map_or_else(|| padding_pair(how), |channel| how.pair_of(channel))
}

/// The extension of the public map from covered rows to pairs.
fn pair_at(how: &Requantise, layout: TensorLayout, covered: usize, at: &[E]) -> E {
    let (pixels, batch, channels) = layout.split(at);
    let rows = eq_prefix(pixels, layout.pixels) * eq_prefix(batch, layout.batch);
    let weights = eq_table(channels).into_iter().take(layout.channels);
    let per_channel: E = weights
        .enumerate()
        .map(|(channel, weight)| weight * E::from_u8(how.pair_of(channel)))
        .sum();
    let padding = eq_prefix(at, covered) - layout.used_at(at);
    rows * per_channel + padding * E::from_u8(padding_pair(how))
}

impl<A: Arithmetic> Walk<'_, A> {
    /// The lookup argument shows that base, output, classes and pair come from one segment each row, and each limb from
    /// its class; what is left here is that the accumulator is base + 256 high + low.
    pub(super) fn requantise(
        &mut self,
        input: TensorId,
        how: &Requantise,
        (first_group, columns): (usize, &ColumnSet),
        claim: ClaimIn<A>,
        sent: Option<&RequantiseProof>,
    ) -> Result<(), NodeCheck> {
        let pulled = self.array(sent.map(|sent| sent.pulled.as_slice()), 5)?;
        let pulled: Result<[A::Value; 5], _> = pulled.try_into();
        let [base, class_high, class_low, high, low] = pulled.map_err(|_| NodeCheck::Messages)?;
        let layout = columns.layout;
        let work = PublicWork::tables(1 << layout.channel_vars).and(PublicWork::EQ);
        let pair = self.channel.public(work, |look| {
            let at = A::coordinates(look, &claim.point);
            pair_at(how, layout, columns.covered, at)
        });
        let readers = [
            vec![
                base.clone(),
                claim.value,
                class_high.clone(),
                class_low.clone(),
                A::Value::from(pair),
            ],
            vec![high.clone(), class_high],
            vec![low.clone(), class_low],
        ];
        for (offset, values) in readers.into_iter().enumerate() {
            self.pull(first_group + offset, &claim.point, layout.vars(), values);
        }
        let value = base + high * E::from_u32(256) + low;
        self.claim(input, claim.point, value);
        Ok(())
    }
}
