//! Public linear maps.

use super::Walk;
use crate::channel::Channel;
use crate::sumcheck;
use p3_field::PrimeCharacteristicRing;
use tg_proof::field::E;
use tg_proof::linear::{Along, Reading, Term, Weights, map_reading};
use tg_proof::messages::ReadProof;
use tg_proof::plan::MapPlan;
use tg_proof::verify::Claim;

impl Walk<'_> {
    /// Shows that a public linear form of some tensors is `sum`, up to claims on these.
    pub(super) fn read(&mut self, reading: &Reading, sum: E, channel: &mut Channel) -> ReadProof {
        if reading.is_direct() {
            let term = &reading.terms[0];
            let (point, _) = reading.claim_of(&self.plan.layouts, term, &[]);
            self.claim(term.input, point, sum);
            return ReadProof::default();
        }
        let (rounds, at, inputs): (_, _, Vec<E>) = if reading.summed() == [false; 2] {
            let values = reading.terms.iter().map(|term| {
                let (point, _) = reading.claim_of(&self.plan.layouts, term, &[]);
                self.evaluate(term.input, &point)
            });
            (None, Vec::new(), values.collect())
        } else {
            let vars = reading.summed_vars(&self.plan.layouts);
            let terms = reading.terms.iter().map(|term| {
                let (values, weights) = self.summed_term(reading, term);
                let own = self.summed_own_vars(reading, term);
                (
                    grown(&values, own, vars, true),
                    grown(&weights, own, vars, false),
                )
            });
            let (rounds, at, inputs) = sumcheck::products(terms.collect(), sum, channel);
            (Some(rounds), at, inputs)
        };
        let sent = channel.send_all(&inputs);
        for (term, &value) in reading.terms.iter().zip(&inputs) {
            let (point, _) = reading.claim_of(&self.plan.layouts, term, &at);
            self.claim(term.input, point, value);
        }
        ReadProof {
            sumcheck: rounds,
            inputs: sent,
        }
    }

    /// Variables of a term's own summed pixels and channels.
    fn summed_own_vars(&self, reading: &Reading, term: &Term) -> [usize; 2] {
        let layout = self.plan.layouts[term.input.index()];
        let [pixels, channels] = reading.summed();
        [
            if pixels { layout.pixel_vars } else { 0 },
            if channels { layout.channel_vars } else { 0 },
        ]
    }

    /// A term's tensor and its weights over the fields that are summed.
    fn summed_term(&self, reading: &Reading, term: &Term) -> (Vec<E>, Vec<E>) {
        let (input, batch) = (term.input, reading.batch.as_slice());
        let (values, mut weights) = match &term.weights {
            Weights::Fields { pixels, channels } => match (pixels, channels) {
                (Along::Sum(weights), Along::At(at)) => {
                    (self.per_pixel(input, batch, at), weights.clone())
                }
                (Along::At(at), Along::Sum(weights)) => {
                    (self.per_channel(input, at, batch), weights.clone())
                }
                (Along::Sum(pixels), Along::Sum(channels)) => {
                    let rows = pixels.iter().flat_map(|&pixel| {
                        let row = channels.iter();
                        row.map(move |&channel| pixel * channel)
                    });
                    (self.over_batch(input, batch), rows.collect())
                }
                (Along::At(_), Along::At(_)) => unreachable!("nothing is summed"),
            },
            Weights::Elements(weights) => (self.over_batch(input, batch), weights.clone()),
        };
        if term.scale != E::ONE {
            weights.iter_mut().for_each(|weight| *weight *= term.scale);
        }
        (values, weights)
    }
}

/// A function of few variables over more: constant in the leading ones of each field, or zero unless these are.
fn grown(values: &[E], own: [usize; 2], vars: [usize; 2], constant: bool) -> Vec<E> {
    if own == vars {
        return values.to_vec();
    }
    let mut grown = vec![E::ZERO; 1 << (vars[0] + vars[1])];
    for (index, value) in grown.iter_mut().enumerate() {
        let (pixel, channel) = (index >> vars[1], index & ((1 << vars[1]) - 1));
        let inside = pixel >> own[0] == 0 && channel >> own[1] == 0;
        if constant || inside {
            let (pixel, channel) = (pixel & ((1 << own[0]) - 1), channel & ((1 << own[1]) - 1));
            *value = values[pixel << own[1] | channel];
        }
    }
    grown
}

impl Walk<'_> {
    pub(super) fn map(
        &mut self,
        node: usize,
        how: &MapPlan,
        claim: &Claim,
        channel: &mut Channel,
    ) -> ReadProof {
        let program = &self.model.model.program;
        let read = map_reading(program, &self.plan.layouts, node, how, &claim.point);
        let (reading, constant) = read.expect("the plan follows the program's operators");
        self.read(&reading, claim.value - constant, channel)
    }
}
