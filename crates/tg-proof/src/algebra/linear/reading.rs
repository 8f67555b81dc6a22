//! What is read of some tensors: public linear forms.

use crate::algebra::field::{E, evaluate};
use crate::algebra::layout::TensorLayout;
use p3_field::PrimeCharacteristicRing;
use tg_ir::TensorId;

/// How a reading weighs one field, the pixels or the channels, of a tensor.
#[derive(Debug, Clone)]
pub enum Along {
    /// By `eq` of a point: the extension at it.
    At(Vec<E>),
    /// By a public weight per index, which is summed over.
    Sum(Vec<E>),
}

/// The weights of one term of a reading.
#[derive(Debug, Clone)]
pub enum Weights {
    /// A weight of the pixel times a weight of the channel.
    Fields {
        /// Of the pixels.
        pixels: Along,
        /// Of the channels.
        channels: Along,
    },
    /// A weight per (pixel, channel), summed over.
    Elements(Vec<E>),
}

/// One tensor that is read.
#[derive(Debug, Clone)]
pub struct Term {
    /// The tensor.
    pub input: TensorId,
    /// A public factor.
    pub scale: E,
    /// The weights of its elements.
    pub weights: Weights,
}

/// What of a reading follows from the plan: which tensors it is of, and which messages it has. No point is needed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadShape {
    /// The tensors, in the order of the terms.
    pub inputs: Vec<TensorId>,
    /// Whether pixels and channels are summed over.
    pub summed: [bool; 2],
    /// See [`Reading::unscaled`].
    pub unscaled: bool,
}

impl ReadShape {
    /// Variables of pixels and channels that are summed over: those of the largest tensor.
    #[must_use]
    pub fn summed_vars(&self, layouts: &[TensorLayout]) -> [usize; 2] {
        let most = |vars: fn(&TensorLayout) -> usize| {
            let inputs = self.inputs.iter();
            let vars = inputs.map(|input| vars(&layouts[input.index()]));
            vars.max().unwrap_or(0)
        };
        let [pixels, channels] = self.summed;
        [
            if pixels {
                most(|layout| layout.pixel_vars)
            } else {
                0
            },
            if channels {
                most(|layout| layout.channel_vars)
            } else {
                0
            },
        ]
    }

    /// Entries of the weights of all terms along what is summed over.
    #[must_use]
    pub fn entries(&self, layouts: &[TensorLayout]) -> u64 {
        let of = |input: &TensorId| {
            let layout = &layouts[input.index()];
            match self.summed {
                [false, false] => 0,
                [true, false] => 1u64 << layout.pixel_vars,
                [false, true] => 1u64 << layout.channel_vars,
                [true, true] => 1u64 << (layout.pixel_vars + layout.channel_vars),
            }
        };
        self.inputs.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Whether the claim passes to one tensor unchanged: no message is needed.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.summed == [false; 2] && self.inputs.len() == 1 && self.unscaled
    }
}

/// A public linear form of some tensors. All terms sum over the same fields.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The terms, at least one.
    pub terms: Vec<Term>,
    /// The point of the batch's inputs.
    pub batch: Vec<E>,
    /// Whether a claim on one term passes unchanged: that term's factor is 1 at every point. A property of the plan, not of
    /// the point at hand, at which a factor may be 1 by chance or because a coordinate is a constant: whoever counts the
    /// messages of a proof does not know the point.
    pub unscaled: bool,
}

impl Reading {
    /// A reading of one tensor.
    #[must_use]
    pub fn of(input: TensorId, weights: Weights, batch: &[E]) -> Self {
        Self {
            terms: vec![Term {
                input,
                scale: E::ONE,
                weights,
            }],
            batch: batch.to_vec(),
            unscaled: true,
        }
    }

    /// What of it does not depend on the point.
    #[must_use]
    pub fn shape(&self) -> ReadShape {
        ReadShape {
            inputs: self.terms.iter().map(|term| term.input).collect(),
            summed: self.summed(),
            unscaled: self.unscaled,
        }
    }

    /// Whether pixels and channels are summed over.
    #[must_use]
    pub fn summed(&self) -> [bool; 2] {
        match &self.terms[0].weights {
            Weights::Fields { pixels, channels } => {
                [pixels, channels].map(|along| matches!(along, Along::Sum(_)))
            }
            Weights::Elements(_) => [true; 2],
        }
    }

    /// See [`ReadShape::summed_vars`].
    #[must_use]
    pub fn summed_vars(&self, layouts: &[TensorLayout]) -> [usize; 2] {
        self.shape().summed_vars(layouts)
    }

    /// See [`ReadShape::is_direct`].
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.shape().is_direct()
    }

    /// For a point of the summed variables: where a term's tensor is claimed, and the weight of that claim.
    ///
    /// A tensor with fewer variables than the largest is constant in the leading ones, and its weights are zero unless
    /// all of these are.
    #[must_use]
    pub fn claim_of(&self, layouts: &[TensorLayout], term: &Term, at: &[E]) -> (Vec<E>, E) {
        let layout = layouts[term.input.index()];
        let [pixel_vars, _] = self.summed_vars(layouts);
        let (pixels_at, channels_at) = at.split_at(pixel_vars);
        let mut weight = term.scale;
        let mut last = |at: &[E], vars: usize| {
            let (lead, rest) = at.split_at(at.len() - vars);
            weight *= lead.iter().map(|&c| E::ONE - c).product::<E>();
            rest.to_vec()
        };
        let (pixels, channels) = match &term.weights {
            Weights::Fields { pixels, channels } => {
                let mut along = |along: &Along, at: &[E], vars: usize| match along {
                    Along::At(point) => (point.clone(), E::ONE),
                    Along::Sum(weights) => {
                        let at = last(at, vars);
                        let value = evaluate(weights, &at);
                        (at, value)
                    }
                };
                let (pixels, left) = along(pixels, pixels_at, layout.pixel_vars);
                let (channels, right) = along(channels, channels_at, layout.channel_vars);
                weight *= left * right;
                (pixels, channels)
            }
            Weights::Elements(weights) => {
                let pixels = last(pixels_at, layout.pixel_vars);
                let channels = last(channels_at, layout.channel_vars);
                weight *= evaluate(weights, &[pixels.as_slice(), &channels].concat());
                (pixels, channels)
            }
        };
        ([pixels, self.batch.clone(), channels].concat(), weight)
    }
}
