//! A zero-knowledge proof of one linear functional of hidden columns: the prover. The protocol stands in
//! [`tg_proof::hiding`].
//!
//! All that hides is drawn from the caller's generator, in one order: the same state gives the same bytes on any number of
//! threads. It must be a cryptographic one, seeded by entropy, and no state of it may serve two proofs: whoever can
//! predict it, or sees its numbers hide two things, can read the columns.

use crate::pack::tasks;
use p3_commit::{Mmcs, MultilinearPcs};
use p3_field::{BasedVectorSpace, Field, PrimeCharacteristicRing};
use p3_matrix::dense::{DenseMatrix, RowMajorMatrix};
use p3_maybe_rayon::prelude::*;
use p3_multilinear_util::point::Point;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::generic_degree::RoundProver;
use p3_whir::HidingWhirProverData;
use rand::rngs::StdRng;
use rand::{CryptoRng, Rng, RngExt, SeedableRng};
use std::sync::OnceLock;
use tg_proof::commitment::{Challenger, Commitment, CommitmentError};
use tg_proof::field::{E, F, point};
use tg_proof::hiding::{
    Columns, Functional, HidingMmcs, HidingPcs, HidingProof, HidingShape, KeptShape, Stack,
    Strength, coefficient_weights, mask_weights, trailing,
};
use tg_proof::transcript::{absorb, draw, draw_point};

/// A commitment with all that it hides.
pub struct Committed {
    root: Commitment,
    scheme: HidingPcs,
    data: HidingWhirProverData<F, E, HidingMmcs>,
    /// The stacked cells, if they are committed in another order.
    cells: Option<Vec<F>>,
    /// The mask's coefficients, and the vector that hides them; empty but in the first commitment.
    vectors: [Vec<E>; 2],
}

impl std::fmt::Debug for Committed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committed")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// Commits the columns of one of a shape's commitments, hiding them. The transcript does not absorb the root yet, see
/// [`tg_proof::hiding::observe`].
///
/// # Errors
/// If the scheme fails.
///
/// # Panics
/// If the columns are not those of the shape.
pub fn commit<R: CryptoRng>(
    shape: &HidingShape,
    index: usize,
    columns: &[&[F]],
    rng: &mut R,
) -> Result<(Commitment, Committed), CommitmentError> {
    let stack = &shape.stacks()[index];
    assert_eq!(columns.len(), stack.columns.len(), "the shape's columns");
    let mut cells = F::zero_vec(1 << stack.vars);
    for (place, column) in stack.columns.iter().zip(columns) {
        assert_eq!(
            column.len(),
            1 << place.vars,
            "a column of the shape's size"
        );
        cells[place.start..place.start + column.len()].copy_from_slice(column);
    }
    let blinding = &mut cells[stack.blinding.start..][..1 << stack.blinding.vars];
    #[cfg(test)]
    let blinding = tests::blinding(blinding);
    blinding.fill_with(|| rng.random());
    let vectors = [false, true].map(|second| draw_vector(shape, stack, second, &mut cells, rng));

    let scheme = shape.scheme(index, StdRng::from_rng(rng));
    // What commits also absorbs; the caller does that where it belongs.
    let mut aside = tg_proof::transcript::registration(tg_types::ProgramId::default());
    let (root, data) = scheme
        .commit(Poly::new(cells), &mut aside)
        .map_err(|_| CommitmentError::NoParameters { vars: stack.vars })?;
    let committed = Committed {
        root: root.clone(),
        scheme,
        data,
        cells: None,
        vectors,
    };
    Ok((root, committed))
}

/// A commitment that is opened more than once: what its openings need of it.
pub struct Kept {
    root: Commitment,
    shape: KeptShape,
    message: Poly<F>,
    randomness: Vec<F>,
    merkle: <HidingMmcs as Mmcs<F>>::ProverData<DenseMatrix<F>>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Kept {
    /// Commits columns with random rows for the shape's openings. The same generator gives the same commitment.
    ///
    /// # Errors
    /// If the scheme fails.
    ///
    /// # Panics
    /// If the columns are not those of the shape.
    pub fn commit<'a, R: CryptoRng>(
        shape: &KeptShape,
        columns: impl Iterator<Item = (usize, &'a [F])>,
        rng: &mut R,
    ) -> Result<Self, CommitmentError> {
        let stack = shape.stack();
        let mut cells = F::zero_vec(1 << stack.vars);
        for (index, column) in columns {
            let place = stack.columns[index];
            assert_eq!(column.len(), 1 << place.vars, "the shape's columns");
            cells[place.start..place.start + column.len()].copy_from_slice(column);
        }
        let (start, fold) = stack.rows().expect("a kept commitment has random rows");
        let random = &mut cells[start..];
        #[cfg(test)]
        let random = tests::blinding(random);
        random.fill_with(|| rng.random());
        let whole = HidingShape::of_kept(shape);
        let scheme = whole.scheme(0, StdRng::from_rng(rng));
        let mut aside = tg_proof::transcript::registration(tg_types::ProgramId::default());
        let message = RowMajorMatrix::new(cells, 1 << fold).transpose().values;
        let (root, data) = scheme
            .commit(Poly::new(message), &mut aside)
            .map_err(|_| CommitmentError::NoParameters { vars: stack.vars })?;
        Ok(Self {
            root,
            shape: shape.clone(),
            message: data.message,
            randomness: data.randomness,
            merkle: data.merkle,
        })
    }

    /// The root.
    #[must_use]
    pub const fn root(&self) -> &Commitment {
        &self.root
    }

    /// The cells of the stack.
    fn cells(&self) -> Vec<F> {
        let stack = self.shape.stack();
        let within = stack.rows().map_or(0, |(_, fold)| fold);
        let message = self.message.as_slice().to_vec();
        let matrix = RowMajorMatrix::new(message, 1 << (stack.vars - within));
        matrix.transpose().values
    }

    /// The stacked polynomial at a point.
    #[must_use]
    pub fn evaluate(&self, at: &[E]) -> E {
        let at = self.shape.stack().committed_point(at);
        self.message.eval_base(&point(&at))
    }

    /// One of its openings, masked by a fresh generator.
    ///
    /// # Errors
    /// If the scheme fails.
    pub fn open<R: CryptoRng>(&self, rng: &mut R) -> Result<Committed, CommitmentError> {
        let mut data = blank()?;
        data.message = self.message.clone();
        data.randomness.clone_from(&self.randomness);
        data.merkle = self.merkle.clone();
        let scheme = HidingShape::of_kept(&self.shape).scheme(0, StdRng::from_rng(rng));
        Ok(Committed {
            root: self.root.clone(),
            scheme,
            data,
            cells: Some(self.cells()),
            vectors: [Vec::new(), Vec::new()],
        })
    }
}

/// Data of a small commitment, to be filled: the library's have no copy and no constructor.
fn blank() -> Result<HidingWhirProverData<F, E, HidingMmcs>, CommitmentError> {
    static SMALL: OnceLock<Option<HidingShape>> = OnceLock::new();
    let weak = Strength {
        bits: 8.0,
        grinding: 0,
    };
    let columns = [Columns { vars: Vec::new() }];
    let small = SMALL.get_or_init(|| HidingShape::with_strength(&columns, weak).ok());
    let none = CommitmentError::NoParameters { vars: 0 };
    // Nothing of it is used.
    let mut rng = StdRng::from_seed([0; 32]);
    let (_, blank) = commit(small.as_ref().ok_or(none)?, 0, &[], &mut rng)?;
    Ok(blank.data)
}

/// Uniform cells of one vector of coefficients, and the elements that they are.
fn draw_vector<R: CryptoRng>(
    shape: &HidingShape,
    stack: &Stack,
    second: bool,
    cells: &mut [F],
    rng: &mut R,
) -> Vec<E> {
    if stack.mask.is_none() {
        return Vec::new();
    }
    let weights = coefficient_weights();
    (0..shape.coefficients())
        .map(|coefficient| {
            let terms = weights.iter().enumerate().map(|(cell, &weight)| {
                let value: F = rng.random();
                cells[stack.mask_cell(second, coefficient, cell)] = value;
                weight * value
            });
            terms.sum()
        })
        .collect()
}

/// Proves `sum_i <F_i, W_i> = sum` for all commitments of a shape. A false sum gives a proof that does not verify.
///
/// # Errors
/// If an opening fails.
///
/// # Panics
/// If there are not as many commitments and functionals as the shape has, or a functional is one of other columns.
pub fn prove(
    shape: &HidingShape,
    committed: Vec<Committed>,
    functionals: &[Functional],
    sum: E,
    challenger: &mut Challenger,
) -> Result<HidingProof, CommitmentError> {
    prove_kept(shape, committed, None, functionals, sum, challenger)
}

/// The same, the last commitment being one that is kept and shows its value at the anchor's point too, if one is given.
///
/// # Errors
/// If an opening fails.
///
/// # Panics
/// If there are not as many commitments and functionals as the shape has, a functional is one of other columns, or the
/// anchor of a kept commitment is missing.
pub fn prove_kept(
    shape: &HidingShape,
    committed: Vec<Committed>,
    anchor: Option<&[E]>,
    functionals: &[Functional],
    sum: E,
    challenger: &mut Challenger,
) -> Result<HidingProof, CommitmentError> {
    let stacks = shape.stacks();
    assert_eq!(
        committed.len(),
        stacks.len(),
        "every commitment of the shape"
    );
    assert_eq!(functionals.len(), stacks.len(), "a functional for each");
    let [coefficients, hiding] = committed[0].vectors.clone();
    let mask_sum = Mask::new(&coefficients, shape.rounds(), E::ONE).sum();
    absorb(challenger, &[mask_sum]);
    let eps = draw(challenger);
    let products = committed.iter().zip(stacks).zip(functionals);
    let mut state = State {
        products: products
            .map(|((own, stack), functional)| {
                let message = own.data.message.as_slice();
                let values = own.cells.as_deref().unwrap_or(message);
                let values = values.par_iter().map(|&value| E::from(value)).collect();
                Product::new(values, functional.table(stack), shape.rounds() - stack.vars)
            })
            .collect(),
        mask: Mask::new(&coefficients, shape.rounds(), eps),
    };
    let (sumcheck, at) =
        state.prove::<F, _>(challenger, shape.rounds(), 2, 0, sum + eps * mask_sum);
    let at = at.as_slice();
    let values: Vec<E> = state.products.iter().map(|own| own.values[0]).collect();
    let weights = mask_weights(at);
    let second = hiding.iter().zip(&weights).map(|(&d, &w)| d * w).sum();
    absorb(challenger, &values);
    absorb(challenger, &[second]);
    let t = draw(challenger);
    let pairs = coefficients.iter().zip(&hiding);
    let blinded: Vec<E> = pairs.map(|(&c, &d)| (E::ONE - t) * c + t * d).collect();
    absorb(challenger, &blinded);
    let z = draw_point(challenger, tg_proof::hiding::COEFFICIENT_VARS);

    let mut openings = Vec::with_capacity(committed.len());
    for (own, stack) in committed.into_iter().zip(stacks) {
        let at = stack.committed_point(trailing(at, stack.vars).1);
        let mut points: Vec<Point<E>> = vec![point(&at)];
        if stack.rows().is_some() {
            let anchor = anchor.expect("a kept commitment has an anchor");
            points.push(point(&stack.committed_point(anchor)));
        }
        if stack.mask.is_some() {
            points.push(point(&stack.mask_point(t, &z)));
        }
        let Committed {
            root, scheme, data, ..
        } = own;
        // The verifier of the scheme absorbs the root once more.
        scheme.observe_commitment(&root, challenger);
        let mut opening = scheme
            .open(data, points, challenger)
            .map_err(|_| CommitmentError::NoParameters { vars: stack.vars })?;
        opening.evals.clear();
        openings.push(opening);
    }
    Ok(HidingProof {
        mask_sum,
        sumcheck,
        values,
        second,
        blinded,
        openings,
    })
}

/// `sum_x F(x) W(x)`, in the trailing variables of the sum.
struct Product {
    values: Vec<E>,
    weights: Vec<E>,
    /// Rounds before its first variable, and its weight by their challenges.
    lead: usize,
    scale: E,
    /// The sum as long as there are such rounds.
    sum: E,
}

impl Product {
    fn new(values: Vec<E>, weights: Vec<E>, lead: usize) -> Self {
        let sum = if lead == 0 {
            E::ZERO
        } else {
            let terms = values.par_iter().zip(&weights);
            let terms: Vec<E> = terms.map(|(&value, &weight)| value * weight).collect();
            terms.into_iter().sum()
        };
        Self {
            values,
            weights,
            lead,
            scale: E::ONE,
            sum,
        }
    }

    /// Its part of the round's polynomial at 0 and 2.
    fn round(&self) -> [E; 2] {
        if self.lead > 0 {
            // The sum times 1 - x.
            let sum = self.scale * self.sum;
            return [sum, -sum];
        }
        let half = self.values.len() / 2;
        let (f, w) = (self.values.split_at(half), self.weights.split_at(half));
        let parts: Vec<[E; 2]> = tasks(half, 1 << 10)
            .into_par_iter()
            .map(|range| {
                let mut sums = [E::ZERO; 2];
                for x in range {
                    sums[0] += f.0[x] * w.0[x];
                    sums[1] += (f.1[x].double() - f.0[x]) * (w.1[x].double() - w.0[x]);
                }
                sums
            })
            .collect();
        let sums = parts.into_iter();
        let sums = sums.fold([E::ZERO; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        sums.map(|sum| sum * self.scale)
    }

    fn fold(&mut self, r: E) {
        if self.lead > 0 {
            self.lead -= 1;
            self.scale *= E::ONE - r;
            return;
        }
        for table in [&mut self.values, &mut self.weights] {
            let half = table.len() / 2;
            let (low, high) = table.split_at_mut(half);
            let pairs = low.par_iter_mut().zip(&*high);
            pairs.for_each(|(low, &high)| *low += r * (high - *low));
            table.truncate(half);
        }
    }
}

/// `eps (c_0 + sum_j (a_j x_j + b_j x_j^2))`.
struct Mask {
    eps: E,
    /// The constant, with the part of the variables that are fixed.
    constant: E,
    /// Linear and quadratic coefficients of the others, the next last.
    rest: Vec<[E; 2]>,
    /// The sum of those coefficients.
    both: E,
}

impl Mask {
    fn new(coefficients: &[E], rounds: usize, eps: E) -> Self {
        let (pairs, _) = coefficients[1..].as_chunks::<2>();
        assert_eq!(pairs.len(), rounds, "a mask of every round");
        Self {
            eps,
            constant: coefficients[0],
            rest: pairs.iter().rev().copied().collect(),
            both: coefficients[1..].iter().copied().sum(),
        }
    }

    /// Its sum over what is not fixed.
    fn sum(&self) -> E {
        let halved = self.both * E::TWO.inverse();
        self.eps * (self.constant + halved) * E::TWO.exp_u64(self.rest.len() as u64)
    }

    /// The round's polynomial at 0 and 2.
    fn round(&self) -> [E; 2] {
        let [linear, quadratic] = *self.rest.last().expect("a round is left");
        let others = (self.both - linear - quadratic) * E::TWO.inverse();
        let scale = self.eps * E::TWO.exp_u64(self.rest.len() as u64 - 1);
        let at = |own: E| scale * (self.constant + own + others);
        [
            at(E::ZERO),
            at(linear.double() + quadratic.double().double()),
        ]
    }

    fn fold(&mut self, r: E) {
        let [linear, quadratic] = self.rest.pop().expect("a round is left");
        self.both -= linear + quadratic;
        self.constant += linear * r + quadratic * r.square();
    }
}

/// Everything that the sumcheck adds up.
struct State {
    products: Vec<Product>,
    mask: Mask,
}

impl RoundProver<E> for State {
    fn fold(&mut self, r: E) {
        self.products.iter_mut().for_each(|own| own.fold(r));
        self.mask.fold(r);
    }

    fn round_poly(&self) -> Vec<E> {
        let products = self.products.iter().map(Product::round);
        let all = products.fold(self.mask.round(), |a, b| [a[0] + b[0], a[1] + b[1]]);
        all.to_vec()
    }
}

/// A uniform element.
pub(crate) fn uniform(rng: &mut impl Rng) -> E {
    E::from_basis_coefficients_fn(|_| rng.random::<F>())
}

#[cfg(test)]
pub(crate) mod tests;
