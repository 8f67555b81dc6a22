//! The sumcheck of a stage: weights times linear forms and products of two.

use crate::channel::Channel;
use crate::pack::{self, PackedE, unpack};
use p3_field::PrimeCharacteristicRing;
use p3_maybe_rayon::prelude::*;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::generic_degree::RoundProver;
use std::ops::Range;
use tg_proof::field::{E, F};
use tg_proof::messages::Sumcheck;
use tg_proof::staged::{Anchors, Constraint, Linear, Stage};

/// Values of a variable on the hypercube, or one per row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variable {
    pub(crate) values: Vec<F>,
    /// log2 of the elements that share a value.
    pub(crate) shift: usize,
}

impl Variable {
    /// From its values on the hypercube.
    pub(crate) const fn of(values: Vec<F>) -> Self {
        Self { values, shift: 0 }
    }

    pub(crate) fn at(&self, index: usize) -> F {
        self.values[index >> self.shift]
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// `sum_x weight(x) (linear(x) + sum of products)`: places among the factors.
#[derive(Debug, Clone)]
struct Group {
    weight: usize,
    linear: usize,
    products: Vec<[usize; 2]>,
}

/// What is summed, as functions on the hypercube.
#[derive(Debug)]
pub(crate) struct Relation {
    factors: Vec<Vec<E>>,
    groups: Vec<Group>,
}

/// A linear form whose factors are extension elements.
#[derive(Debug, Default)]
struct Form {
    constant: E,
    factors: Vec<E>,
}

impl Form {
    fn new(variables: usize) -> Self {
        Self {
            constant: E::ZERO,
            factors: vec![E::ZERO; variables],
        }
    }

    fn add(&mut self, form: &Linear, scale: E) {
        self.constant += scale * form.constant;
        for &(variable, factor) in &form.terms {
            self.factors[variable] += scale * factor;
        }
    }

    /// Its values on the hypercube.
    fn values(&self, variables: &[Variable], count: usize) -> Vec<E> {
        let used: Vec<(E, &Variable)> = self
            .factors
            .iter()
            .zip(variables)
            .filter(|(factor, _)| **factor != E::ZERO)
            .map(|(&factor, variable)| (factor, variable))
            .collect();
        let value = |index: usize| {
            let terms = used.iter();
            terms.fold(self.constant, |sum, (factor, variable)| {
                sum + *factor * variable.at(index)
            })
        };
        (0..count).into_par_iter().map(value).collect()
    }
}

impl Relation {
    /// A stage's outputs, constraints and sums under their factors.
    pub(crate) fn new(
        stage: &Stage,
        variables: &[Variable],
        factors: &[E],
        anchors: &Anchors,
    ) -> Self {
        let mut relation = Self {
            factors: Vec::new(),
            groups: Vec::new(),
        };
        let all: Vec<&Constraint> = stage.own().chain(&stage.sums).collect();
        let outputs = stage.outputs.len();
        let own = outputs + stage.constraints.len();
        let parts = match &anchors.constraints {
            None => vec![(0..own, &anchors.output)],
            Some(constraints) => vec![(0..outputs, &anchors.output), (outputs..own, constraints)],
        };
        for (range, anchor) in parts.into_iter().chain([(own..all.len(), &anchors.rows)]) {
            if !range.is_empty() {
                let weights = stage.weights(anchor);
                relation.group(
                    stage,
                    variables,
                    weights,
                    &all[range.clone()],
                    &factors[range],
                );
            }
        }
        relation
    }

    fn group(
        &mut self,
        stage: &Stage,
        variables: &[Variable],
        weights: Vec<E>,
        constraints: &[&Constraint],
        powers: &[E],
    ) {
        let count = weights.len();
        let mut linear = Form::new(stage.variables);
        // Products that share a right side are one product.
        let mut products: Vec<(Form, &Linear)> = Vec::new();
        for (constraint, &power) in constraints.iter().zip(powers) {
            linear.add(&constraint.linear, power);
            for [left, right] in &constraint.products {
                let known = products.iter().position(|(_, own)| *own == right);
                let place = known.unwrap_or_else(|| {
                    products.push((Form::new(stage.variables), right));
                    products.len() - 1
                });
                products[place].0.add(left, power);
            }
        }
        let weight = self.push(weights);
        let linear = self.push(linear.values(variables, count));
        let products = products.into_iter().map(|(left, right)| {
            let mut form = Form::new(stage.variables);
            form.add(right, E::ONE);
            let left = self.push(left.values(variables, count));
            [left, self.push(form.values(variables, count))]
        });
        let products = products.collect();
        self.groups.push(Group {
            weight,
            linear,
            products,
        });
    }

    fn push(&mut self, values: Vec<E>) -> usize {
        self.factors.push(values);
        self.factors.len() - 1
    }
}

#[derive(Debug)]
enum Factors {
    Packed(Vec<Poly<PackedE>>),
    Scalar(Vec<Poly<E>>),
}

#[derive(Debug)]
struct State {
    factors: Factors,
    groups: Vec<Group>,
    degree: usize,
}

impl RoundProver<E> for State {
    fn fold(&mut self, r: E) {
        match &mut self.factors {
            Factors::Packed(factors) => {
                for factor in factors.iter_mut() {
                    factor.fix_prefix_var_mut(PackedE::from(r));
                }
                if factors[0].num_evals() == 1 {
                    self.factors = Factors::Scalar(factors.iter().map(unpack).collect());
                }
            }
            Factors::Scalar(factors) => factors
                .iter_mut()
                .for_each(|factor| factor.fix_prefix_var_mut(r)),
        }
    }

    fn round_poly(&self) -> Vec<E> {
        match &self.factors {
            Factors::Packed(factors) => round_poly(factors, &self.groups, self.degree)
                .into_iter()
                .map(|value| pack::sum_lanes([value]))
                .collect(),
            Factors::Scalar(factors) => round_poly(factors, &self.groups, self.degree),
        }
    }
}

/// The sum at 0, 2, ... up to the degree.
fn round_poly<A>(factors: &[Poly<A>], groups: &[Group], degree: usize) -> Vec<A>
where
    A: PrimeCharacteristicRing + Copy + Send + Sync,
{
    let halves = pack::halves(factors);
    pack::summed(halves[0].0.len(), 256, |range| {
        sums(&halves, groups, degree, range)
    })
}

fn sums<A: PrimeCharacteristicRing + Copy>(
    halves: &[(&[A], &[A])],
    groups: &[Group],
    degree: usize,
    range: Range<usize>,
) -> Vec<A> {
    let mut sums = vec![A::ZERO; degree];
    let mut values = vec![A::ZERO; halves.len()];
    let mut steps = vec![A::ZERO; halves.len()];
    let combined = |values: &[A]| {
        let group = |group: &Group| {
            let products = group.products.iter();
            let inner = products.fold(values[group.linear], |sum, &[left, right]| {
                sum + values[left] * values[right]
            });
            values[group.weight] * inner
        };
        groups.iter().map(group).sum::<A>()
    };
    for x in range {
        for ((value, step), (low, high)) in values.iter_mut().zip(&mut steps).zip(halves) {
            *value = low[x];
            *step = high[x] - low[x];
        }
        sums[0] += combined(&values);
        for (value, step) in values.iter_mut().zip(&steps) {
            *value += *step;
        }
        for sum in &mut sums[1..] {
            for (value, step) in values.iter_mut().zip(&steps) {
                *value += *step;
            }
            *sum += combined(&values);
        }
    }
    sums
}

/// Proves that the relation sums to `sum`; gives the point.
pub(crate) fn prove(
    relation: Relation,
    degree: usize,
    sum: E,
    channel: &mut Channel,
) -> (Sumcheck, Vec<E>) {
    let Relation { factors, groups } = relation;
    let rounds = factors[0].len().ilog2() as usize;
    let packed = factors[0].len() > pack::WIDTH;
    let factors = if packed {
        Factors::Packed(factors.into_par_iter().map(pack::poly).collect())
    } else {
        Factors::Scalar(factors.into_iter().map(Poly::new).collect())
    };
    let mut state = State {
        factors,
        groups,
        degree,
    };
    channel.sumcheck(&mut state, (rounds, degree), sum)
}
