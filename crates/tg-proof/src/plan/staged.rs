//! Gadgets as data: committed columns, tensors and public functions, related by constraints of degree two.
//!
//! A **stage** is one sumcheck over a hypercube, masked to the elements in use. Its variables are functions on the
//! hypercube: what a column pulls from its table (a limb and its class, a segment), a tensor, a public function, a sum
//! along channels. With the claim `z~(r) = v` on the node's output and constraints C_1, ... that vanish on every element
//! in use, it shows
//!
//! `sum_x eq(r, x) mask(x) (z(x) + sum_j alpha^j C_j(x)) = v`
//!
//! and ends in the values of all variables at one point: readers of the lookup argument there, claims on tensors there,
//! public functions evaluated by the verifier. The output *is* the masked expression z, so that padding is zero by
//! definition and nothing has to be shown about padded cells. r is fixed after the columns are committed, so that the
//! same point serves as the one of the zero-check: where it has coordinates that are not drawn (a reader of a slice), it
//! is the zero-check of the elements that are read. Error: (3 vars + vars of r + number of constraints and sums)/|E|.
//!
//! A gadget with quantities per row (a pixel of one input) has two stages. The **row stage** runs over rows, its
//! constraints at a fresh point; some of its variables are sums along channels of element expressions. Its point r' is
//! where the **element stage** shows these sums, in the same sumcheck:
//! `sum_x eq(r', row(x)) mask(x) sum_j alpha^j S_j(x)`. A row depends on all of its elements, also on those that nobody
//! reads, so that the constraints of this stage have an anchor of their own, r' and channels that are drawn. Row columns
//! are read again at the rows of its final point.
//!
//! A stage over rows may hold the node's output: one expression z_j per channel j, weighed by `eq` of the claim's channels.

use crate::algebra::arithmetic::{Arithmetic, Value};
use crate::algebra::field::{E, F, eq_table, identity_at};
use crate::algebra::layout::TensorLayout;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use tg_ir::TensorId;

/// An integer as a coefficient, reduced modulo p.
#[must_use]
pub fn coefficient(value: i128) -> F {
    let reduced = value.rem_euclid(i128::from(F::ORDER_U32));
    F::from_u32(reduced as u32)
}

/// A linear form of the variables of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Linear {
    /// The constant.
    pub constant: F,
    /// Variable and coefficient.
    pub terms: Vec<(usize, F)>,
}

impl Linear {
    /// A variable.
    #[must_use]
    pub fn of(variable: usize) -> Self {
        Self::default().plus(variable, 1)
    }

    /// With a multiple of a variable added.
    #[must_use]
    pub fn plus(mut self, variable: usize, factor: i128) -> Self {
        self.terms.push((variable, coefficient(factor)));
        self
    }

    /// With a constant added.
    #[must_use]
    pub fn and(mut self, constant: i128) -> Self {
        self.constant += coefficient(constant);
        self
    }

    /// With a multiple of another form added.
    #[must_use]
    pub fn plus_form(mut self, other: &Self, factor: i128) -> Self {
        let factor = coefficient(factor);
        self.constant += other.constant * factor;
        let terms = other.terms.iter();
        self.terms
            .extend(terms.map(|&(variable, own)| (variable, own * factor)));
        self
    }

    /// `sum_i 2^(bits i) limbs[i]`.
    #[must_use]
    pub fn limbs(limbs: &[usize], bits: u32) -> Self {
        let places = limbs.iter().zip(0u32..);
        places.fold(Self::default(), |form, (&limb, place)| {
            form.plus(limb, 1 << (bits * place))
        })
    }

    /// Its value for values of the variables.
    #[must_use]
    pub fn at<V: Value>(&self, values: &[V]) -> V {
        let terms = self.terms.iter();
        let constant = V::from(E::from(self.constant));
        terms.fold(constant, |sum, &(variable, factor)| {
            sum + values[variable].clone() * factor
        })
    }
}

/// A linear form plus products of two.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Constraint {
    /// The linear part.
    pub linear: Linear,
    /// Products.
    pub products: Vec<[Linear; 2]>,
}

impl Constraint {
    /// A linear form alone.
    #[must_use]
    pub const fn linear(linear: Linear) -> Self {
        Self {
            linear,
            products: Vec::new(),
        }
    }

    /// With a product added.
    #[must_use]
    pub fn times(mut self, left: Linear, right: Linear) -> Self {
        self.products.push([left, right]);
        self
    }

    /// Terms of all its forms, constants included.
    #[must_use]
    pub fn terms(&self) -> usize {
        let products = self.products.iter().flatten();
        let forms = products.chain([&self.linear]);
        forms.map(|form| 1 + form.terms.len()).sum()
    }

    /// Its value for values of the variables.
    pub fn at<A: Arithmetic>(&self, values: &[A::Value], arithmetic: &mut A) -> A::Value {
        let products = self.products.iter();
        products.fold(self.linear.at(values), |sum, [left, right]| {
            sum + arithmetic.product(&left.at(values), &right.at(values))
        })
    }
}

/// What one table column gives a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// A variable of the stage.
    Variable(usize),
    /// The same class on all rows that the columns cover. Stops: a limb beyond its class.
    Class(u32),
}

/// One reader of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The reader group.
    pub group: usize,
    /// Whether its column is one per row, read at the rows of the stage's point.
    pub rows: bool,
    /// Rows that the column's chunks cover.
    pub covered: usize,
    /// Per column of its table.
    pub slots: Vec<Slot>,
}

/// A function that both sides know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Public {
    /// The channel's index.
    Channel,
    /// A value per pixel.
    PerPixel(Vec<F>),
    /// A value per channel.
    PerChannel(Vec<F>),
}

/// Which elements are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mask {
    /// Columns of pixels, and the offset of a causal mask: in column x only channels up to `x + offset` are in use.
    pub causal: Option<(usize, usize)>,
}

impl Mask {
    /// All elements.
    pub const ALL: Self = Self { causal: None };

    /// How many channels of a pixel are in use.
    #[must_use]
    pub fn channels(self, layout: &TensorLayout, pixel: usize) -> usize {
        self.causal.map_or(layout.channels, |(width, offset)| {
            layout.channels.min(pixel % width + offset + 1)
        })
    }
}

/// One sumcheck of a gadget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The hypercube.
    pub layout: TensorLayout,
    /// Elements in use; rows of a row stage all are.
    pub mask: Mask,
    /// Number of variables.
    pub variables: usize,
    /// Readers.
    pub readings: Vec<Reading>,
    /// Variables that are tensors.
    pub tensors: Vec<(usize, TensorId)>,
    /// Variables that are public functions.
    pub publics: Vec<(usize, Public)>,
    /// The node's output, if it is over this hypercube; one per channel, if that has rows alone.
    pub outputs: Vec<Constraint>,
    /// What vanishes on every element in use.
    pub constraints: Vec<Constraint>,
    /// What is summed along channels, for the row stage.
    pub sums: Vec<Constraint>,
}

impl Stage {
    /// Extension-field steps of a verifier for one stage: equality tables of its anchors and its final point.
    #[must_use]
    pub fn steps(layout: &TensorLayout) -> u64 {
        let sides = [layout.pixel_vars, layout.batch_vars, layout.channel_vars];
        8 * sides.iter().map(|&vars| 1u64 << vars).sum::<u64>()
    }

    /// Degree of its sumcheck.
    #[must_use]
    pub fn degree(&self) -> usize {
        let mut all = self.own().chain(&self.sums);
        let products = all.any(|constraint| !constraint.products.is_empty());
        if products { 3 } else { 2 }
    }

    /// Variables that the prover sends, in order.
    #[must_use]
    pub fn sent(&self) -> Vec<usize> {
        let public = |variable: &usize| self.publics.iter().any(|(own, _)| own == variable);
        (0..self.variables)
            .filter(|variable| !public(variable))
            .collect()
    }

    /// All variables from those that are sent and the public functions at the stage's point; what is missing is zero.
    #[must_use]
    pub fn values<V: Value>(&self, sent: &[V], publics: &[E]) -> Vec<V> {
        let mut values = vec![V::from(E::ZERO); self.variables];
        for (place, value) in self.sent().into_iter().zip(sent) {
            values[place] = value.clone();
        }
        for ((variable, _), &public) in self.publics.iter().zip(publics) {
            values[*variable] = V::from(public);
        }
        values
    }

    /// The public functions at a point.
    #[must_use]
    pub fn publics_at(&self, at: &[E]) -> Vec<E> {
        let publics = self.publics.iter();
        publics
            .map(|(_, public)| self.public_at(public, at))
            .collect()
    }

    fn public_at(&self, public: &Public, at: &[E]) -> E {
        let (pixels, _, channels) = self.layout.split(at);
        match public {
            Public::Channel => identity_at(channels),
            Public::PerPixel(values) => {
                let weights = eq_table(pixels).into_iter().zip(values);
                weights.map(|(weight, &value)| weight * value).sum()
            }
            Public::PerChannel(values) => {
                let weights = eq_table(channels).into_iter().zip(values);
                weights.map(|(weight, &value)| weight * value).sum()
            }
        }
    }

    /// Channels in use in a row.
    #[must_use]
    pub fn count(&self, pixel: usize) -> usize {
        self.mask.channels(&self.layout, pixel)
    }

    /// `sum over x in use of eq(anchor, x) eq(at, x)`; an anchor without channels weighs all of them by 1.
    #[must_use]
    pub fn weight_at(&self, anchor: &[E], at: &[E]) -> E {
        let (pixels, batch, channels) = self.layout.split(at);
        let (own_pixels, rest) = anchor.split_at(self.layout.pixel_vars);
        let (own_batch, own_channels) = rest.split_at(self.layout.batch_vars);
        let per_channel = eq_table(channels);
        let per_channel: Vec<E> = if own_channels.is_empty() {
            per_channel
        } else {
            let own = eq_table(own_channels).into_iter();
            per_channel
                .into_iter()
                .zip(own)
                .map(|(a, b)| a * b)
                .collect()
        };
        let mut prefix = vec![E::ZERO];
        for weight in per_channel.into_iter().take(self.layout.channels) {
            prefix.push(prefix[prefix.len() - 1] + weight);
        }
        let inputs = eq_table(batch).into_iter().zip(eq_table(own_batch));
        let inputs: E = inputs.take(self.layout.batch).map(|(a, b)| a * b).sum();
        let rows = eq_table(pixels).into_iter().zip(eq_table(own_pixels));
        let rows = rows.take(self.layout.pixels).enumerate();
        inputs
            * rows
                .map(|(pixel, (a, b))| a * b * prefix[self.count(pixel)])
                .sum::<E>()
    }

    /// `eq(anchor, x)` on the elements in use and 0 elsewhere.
    #[must_use]
    pub fn weights(&self, anchor: &[E]) -> Vec<E> {
        let layout = self.layout;
        let (rows, channels) = anchor.split_at(layout.pixel_vars + layout.batch_vars);
        let rows = eq_table(rows);
        let width = 1 << layout.channel_vars;
        let channels = if channels.is_empty() {
            vec![E::ONE; width]
        } else {
            eq_table(channels)
        };
        let mut weights = vec![E::ZERO; layout.padded()];
        for (row, (weights, &own)) in weights.chunks_exact_mut(width).zip(&rows).enumerate() {
            let (pixel, input) = (
                row >> layout.batch_vars,
                row & ((1 << layout.batch_vars) - 1),
            );
            if pixel < layout.pixels && input < layout.batch {
                let used = weights.iter_mut().zip(&channels).take(self.count(pixel));
                used.for_each(|(weight, &channel)| *weight = own * channel);
            }
        }
        weights
    }

    /// The outputs and the constraints, in the order of their factors.
    pub fn own(&self) -> impl Iterator<Item = &Constraint> {
        self.outputs.iter().chain(&self.constraints)
    }

    /// The factors of outputs, constraints and sums: an output has the weight of its channel, the others powers of alpha,
    /// the first of them 1 if there is no output.
    #[must_use]
    pub fn factors(&self, alpha: E, channels: &[E]) -> Vec<E> {
        let outputs = channels.iter().copied().take(self.outputs.len());
        let powers = alpha.powers().skip(usize::from(!self.outputs.is_empty()));
        let others = self.constraints.len() + self.sums.len();
        outputs.chain(powers.take(others)).collect()
    }

    /// What the sumcheck must end in: `weights` times the outputs, the constraints and the sums, under their factors.
    pub fn combined<A: Arithmetic>(
        &self,
        factors: &[E],
        weights: [E; 3],
        values: &[A::Value],
        arithmetic: &mut A,
    ) -> A::Value {
        let outputs = self.outputs.iter().map(|output| (weights[0], output));
        let own = self.constraints.iter().map(|own| (weights[1], own));
        let sums = self.sums.iter().map(|sum| (weights[2], sum));
        // Every relation is computed, also where a count has no factors.
        let factors = factors.iter().copied().chain(std::iter::repeat(E::ZERO));
        let all = outputs.chain(own).chain(sums).zip(factors);
        all.map(|((weight, constraint), factor)| {
            constraint.at(values, arithmetic) * (weight * factor)
        })
        .sum()
    }

    /// What the sumcheck claims: the output's claim and the sums', under the same factors.
    #[must_use]
    pub fn claimed<V: Value>(&self, factors: &[E], output: &V, sums: &[V]) -> V {
        let first = if self.outputs.is_empty() {
            V::from(E::ZERO)
        } else {
            output.clone()
        };
        let own = factors.iter().skip(self.own().count());
        let sums = sums.iter().zip(own);
        first + sums.map(|(sum, &own)| sum.clone() * own).sum()
    }
}

/// The points by whose `eq` a stage weighs its elements. A row anchor has no channels: it weighs all of them by 1.
#[derive(Debug, Clone)]
pub struct Anchors {
    /// Of the outputs: the point of the claim on the node's output.
    pub output: Vec<E>,
    /// What each output counts: `eq` of the claim's channels, if these are not the stage's.
    pub channels: Vec<E>,
    /// Of the constraints, if it is another one. Stops: an element that nobody reads, but its row does.
    pub constraints: Option<Vec<E>>,
    /// Of the sums.
    pub rows: Vec<E>,
}

impl Anchors {
    /// The anchors of a stage without sums: one point for outputs and constraints.
    #[must_use]
    pub fn one(stage: &Stage, point: &[E]) -> Self {
        let (own, channels) = point.split_at(stage.layout.vars());
        Self {
            output: own.to_vec(),
            channels: eq_table(channels),
            constraints: None,
            rows: Vec::new(),
        }
    }

    /// The anchors of an element stage: the output's claim, the row stage's point, and channels drawn after it.
    #[must_use]
    pub fn after(claim: &[E], rows: &[E], channels: &[E]) -> Self {
        Self {
            output: claim.to_vec(),
            channels: vec![E::ONE],
            constraints: Some([rows, channels].concat()),
            rows: rows.to_vec(),
        }
    }
}

/// A gadget of one or two stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Over rows, and which of its variables are the sums of the element stage.
    pub rows: Option<(Stage, Vec<usize>)>,
    /// Over elements.
    pub elements: Stage,
}
