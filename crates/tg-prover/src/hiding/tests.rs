//! The hiding proof of a functional: complete, sound in every message, total, the same on any threads, and hiding.
#![allow(clippy::unwrap_used, reason = "tests")]

use super::{commit, prove};
use crate::tests::{fuzz, mutate, proofs_a_side};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField32};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use tg_exec::sample::Numbers;
use tg_proof::commitment::{Challenger, Commitment, STACK_VARS_MAX};
use tg_proof::field::{E, F, basis, eq_table, inner_product};
use tg_proof::hiding::{
    Columns, Functional, HidingError, HidingProof, HidingShape, STACK_VARS_MIN, Strength,
    extension_cells, observe, verify,
};
use tg_proof::messages;
use tg_proof::transcript;
use tg_types::ProgramId;

thread_local! {
    pub(crate) static LEAK: Cell<bool> = const { Cell::new(false) };
}

/// The cells that this thread's prover draws to hide values: none if it is to leak.
pub(super) fn blinding(cells: &mut [F]) -> &mut [F] {
    if LEAK.get() { &mut [] } else { cells }
}

/// For tests of many openings: the same protocol with few queries.
const WEAK: Strength = Strength {
    bits: 12.0,
    grinding: 0,
};

/// Columns of some commitments, functionals of them, and their value.
struct Statement {
    shape: HidingShape,
    columns: Vec<Vec<Vec<F>>>,
    functionals: Vec<Functional>,
    sum: E,
}

fn challenger() -> Challenger {
    transcript::registration(ProgramId::default())
}

fn element(rng: &mut StdRng) -> E {
    (0..5).map(|degree| basis(degree) * rng.random::<F>()).sum()
}

impl Statement {
    /// Random columns, each with an evaluation, some cells, and an element of five cells.
    fn random(seed: u64, vars: &[Vec<usize>], strength: Strength) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let commitments: Vec<Columns> = vars.iter().map(|v| Columns { vars: v.clone() }).collect();
        let shape = HidingShape::with_strength(&commitments, strength).unwrap();
        let (mut sum, mut columns, mut functionals) = (E::ZERO, Vec::new(), Vec::new());
        for vars in vars {
            let mut functional = Functional::default();
            let mut own: Vec<Vec<F>> = Vec::new();
            for (index, &vars) in vars.iter().enumerate() {
                let column: Vec<F> = (0..1usize << vars).map(|_| rng.random()).collect();
                let at: Vec<E> = (0..vars).map(|_| element(&mut rng)).collect();
                let [a, b, c] = std::array::from_fn(|_| element(&mut rng));
                functional.add_evaluation(index, &at, a);
                sum += a * inner_product(&column, &eq_table(&at));
                let cell = column.len() / 3;
                functional.add_cell(index, cell, b);
                sum += b * column[cell];
                if vars >= 4 {
                    functional.add_extension(index, 2, c);
                    let value = (0..5).map(|degree| basis(degree) * column[10 + degree]);
                    sum += c * value.sum::<E>();
                }
                own.push(column);
            }
            // Twice, at half the weight each.
            let half = E::TWO.inverse();
            let mut doubled = Functional::default();
            doubled.add_scaled(&functional, half);
            doubled.add_scaled(&functional, half);
            functionals.push(doubled);
            columns.push(own);
        }
        Self {
            shape,
            columns,
            functionals,
            sum,
        }
    }

    fn prove(&self, seed: u64, sum: E) -> (Vec<Commitment>, HidingProof) {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut challenger = challenger();
        let (mut roots, mut committed) = (Vec::new(), Vec::new());
        for (index, columns) in self.columns.iter().enumerate() {
            let columns: Vec<&[F]> = columns.iter().map(Vec::as_slice).collect();
            let (root, own) = commit(&self.shape, index, &columns, &mut rng).unwrap();
            observe(&root, &mut challenger);
            roots.push(root);
            committed.push(own);
        }
        let shape = &self.shape;
        let proof = prove(shape, committed, &self.functionals, sum, &mut challenger).unwrap();
        (roots, proof)
    }

    fn check(&self, roots: &[Commitment], proof: &HidingProof, sum: E) -> Result<(), HidingError> {
        let mut challenger = challenger();
        roots.iter().for_each(|root| observe(root, &mut challenger));
        let shape = &self.shape;
        verify(shape, roots, &self.functionals, sum, proof, &mut challenger)
    }
}

/// Every size of sums and of stacks: one commitment or more, the first larger or smaller, with and without a round.
#[test]
fn true_functionals_verify() {
    let sizes: [&[Vec<usize>]; 6] = [
        &[vec![0, 3, 5]],
        &[vec![10; 3]],
        &[vec![12, 7, 7, 13]],
        &[vec![15, 11], vec![3, 9]],
        &[vec![4], vec![14, 14, 2]],
        &[vec![6], vec![7], vec![8]],
    ];
    for (seed, vars) in sizes.into_iter().enumerate() {
        let statement = Statement::random(seed as u64, vars, Strength::FULL);
        let (roots, proof) = statement.prove(7, statement.sum);
        assert_eq!(
            statement.check(&roots, &proof, statement.sum),
            Ok(()),
            "{vars:?}"
        );
        let bytes = messages::encode(&proof);
        let back: HidingProof = messages::decode(&bytes).unwrap();
        assert_eq!(statement.check(&roots, &back, statement.sum), Ok(()));
    }
}

/// Another sum is refused, whether the prover or only the verifier goes by it; and so are other columns.
#[test]
fn other_functionals_are_refused() {
    let statement = Statement::random(1, &[vec![9, 4], vec![8]], WEAK);
    let wrong = statement.sum + E::ONE;
    let (roots, honest) = statement.prove(2, statement.sum);
    assert_eq!(
        statement.check(&roots, &honest, wrong),
        Err(HidingError::Sum)
    );
    let (roots, lie) = statement.prove(2, wrong);
    assert_eq!(statement.check(&roots, &lie, wrong), Err(HidingError::Mask));

    // A mask that makes up for the lie has not been committed.
    let mut mended = lie;
    mended.mask_sum = honest.mask_sum - E::ONE;
    assert!(statement.check(&roots, &mended, wrong).is_err());

    let mut other = Statement::random(1, &[vec![9, 4], vec![8]], WEAK);
    other.columns[1][0][17] += F::ONE;
    let (changed, proof) = other.prove(2, statement.sum);
    assert!(statement.check(&changed, &proof, statement.sum).is_err());
    let mixed = [roots[0].clone(), changed[1].clone()];
    assert!(statement.check(&mixed, &honest, statement.sum).is_err());

    // A functional of other columns, and another number of them.
    let mut foreign = Statement::random(1, &[vec![9, 4], vec![8]], WEAK);
    foreign.functionals[0].add_cell(2, 0, E::ONE);
    let (sum, refused) = (statement.sum, Err(HidingError::Messages));
    assert_eq!(foreign.check(&roots, &honest, sum), refused);
    foreign.functionals.pop();
    assert_eq!(foreign.check(&roots, &honest, sum), refused);
    let mut far = Statement::random(1, &[vec![9, 4], vec![8]], WEAK);
    far.functionals[0].add_cell(1, 16, E::ONE);
    assert_eq!(far.check(&roots, &honest, sum), refused);
}

const fn code(error: HidingError) -> u16 {
    match error {
        HidingError::Messages => 1,
        HidingError::Sum => 2,
        HidingError::Mask => 3,
        HidingError::Opening { commitment } => 10 + commitment as u16,
    }
}

/// Every field of a proof, changed alone, with a round of the opening and without one.
#[test]
fn every_message_is_bound() {
    let statement = Statement::random(4, &[vec![15], vec![6]], WEAK);
    let (roots, proof) = statement.prove(5, statement.sum);
    assert_eq!(statement.check(&roots, &proof, statement.sum), Ok(()));
    let mut longer = proof.clone();
    longer.openings[1].evals.push(proof.values[1]);
    let refused = Err(HidingError::Opening { commitment: 1 });
    assert_eq!(statement.check(&roots, &longer, statement.sum), refused);
    let message = serde_json::to_value(&proof).unwrap();
    let codes = mutate::all(&message, &mut |changed| {
        let proof: HidingProof = serde_json::from_value(changed).ok()?;
        let verdict = statement.check(&roots, &proof, statement.sum);
        Some(code(verdict.expect_err("a changed proof is refused")))
    });
    for (place, expected) in [
        (".mask_sum.value*", [2].as_slice()),
        (".values*.value*", &[3]),
        (".second.value*", &[3]),
        (".blinded*.value*", &[3]),
    ] {
        assert_eq!(codes[place], expected, "{place}");
    }
    assert!(
        codes
            .keys()
            .any(|place| place.contains("rounds*.ood_answers"))
    );
    let openings = codes
        .iter()
        .filter(|(place, _)| place.starts_with(".openings*."));
    for (place, codes) in openings {
        assert!(
            codes.iter().all(|code| [10, 11].contains(code)),
            "{place} {codes:?}"
        );
    }
}

/// Any bytes give a verdict.
#[test]
fn hostile_bytes_are_refused() {
    let statement = Statement::random(4, &[vec![10], vec![15]], WEAK);
    let (roots, proof) = statement.prove(5, statement.sum);
    let honest = messages::encode(&proof);
    let mut numbers = Numbers::new(91);
    for round in 0..400 {
        let mut bytes = fuzz::corrupt(&honest, &mut numbers);
        if round % 2 == 0 {
            bytes = fuzz::corrupt(&bytes, &mut numbers);
        }
        let accepted = messages::decode::<HidingProof>(&bytes)
            .is_some_and(|proof| statement.check(&roots, &proof, statement.sum).is_ok());
        assert_eq!(accepted, bytes == honest, "round {round}");
    }
}

/// The same randomness gives the same bytes, on one thread and on several; other randomness others.
#[cfg(feature = "parallel")]
#[test]
fn bytes_follow_from_the_randomness() {
    let statement = Statement::random(9, &[vec![15, 12], vec![11]], Strength::FULL);
    let bytes = |seed| messages::encode(&statement.prove(seed, statement.sum).1);
    let single = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let several = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    let first = single.install(|| bytes(3));
    assert!(first == several.install(|| bytes(3)));
    assert!(first != bytes(4));
}

/// Openings of every size withstand what proofs need.
#[test]
fn every_size_withstands_enough() {
    for vars in STACK_VARS_MIN..=STACK_VARS_MAX {
        // The blocks beside it fill the least stack, and fit beside a column of half a larger one.
        let column = if vars == STACK_VARS_MIN { 3 } else { vars - 1 };
        let own = Columns { vars: vec![column] };
        let shape = HidingShape::new(&[own]).unwrap();
        assert_eq!(shape.stacks()[0].vars, vars);
        let report = shape.report();
        let sum: f64 = report.iter().map(|term| (-term.bits).exp2()).sum();
        assert!(
            -sum.log2() >= 102.9,
            "2^{vars}: {:.2} {report:#?}",
            -sum.log2()
        );
    }
    assert!(HidingShape::new(&[Columns { vars: vec![27] }]).is_err());
    assert!(HidingShape::new(&[Columns { vars: vec![90, 64] }]).is_err());
    assert!(HidingShape::new(&[]).is_err());
}

/// Elements of a vector are read where they are laid.
#[test]
fn elements_are_their_cells() {
    let mut rng = StdRng::seed_from_u64(1);
    let values: Vec<E> = (0..6).map(|_| element(&mut rng)).collect();
    let cells = extension_cells(&values, 5);
    for (index, &value) in values.iter().enumerate() {
        let own = (0..5).map(|degree| basis(degree) * cells[5 * index + degree]);
        assert_eq!(own.sum::<E>(), value);
    }
    assert!(cells[30..].iter().all(|&cell| cell == F::ZERO));
}

/// What is revealed, position by position: every number of a message, but the lists that have no fixed length.
pub(crate) fn revealed(value: &Value, path: &str, found: &mut BTreeMap<String, u64>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| *key != "sibling_hashes")
            .for_each(|(key, field)| revealed(field, &format!("{path}.{key}"), found)),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| revealed(item, &format!("{path}[{index}]"), found)),
        Value::Number(number) => {
            found.insert(path.to_owned(), number.as_u64().unwrap());
        }
        _ => {}
    }
}

/// Per position and side how often each of eight classes was seen, by the lowest and by the highest bits.
pub(crate) type Counts = BTreeMap<String, [[[u32; 8]; 2]; 2]>;

/// Two-sample chi-square statistic with seven degrees of freedom.
pub(crate) fn distance([a, b]: [[u32; 8]; 2]) -> f64 {
    let totals = [a, b].map(|counts| f64::from(counts.iter().sum::<u32>()));
    let classes = a.into_iter().zip(b).filter(|(a, b)| a + b > 0);
    classes
        .map(|(a, b)| {
            let (a, b) = (f64::from(a), f64::from(b));
            let scale = (totals[1] / totals[0]).sqrt();
            (a * scale - b / scale).powi(2) / (a + b)
        })
        .sum()
}

/// The greatest distance over all positions between proofs about all-zero columns and about others of equal functionals.
fn greatest_distance(runs: u64) -> (f64, String, usize) {
    let vars = [vec![6, 5], vec![7]];
    let mut other = Statement::random(21, &vars, WEAK);
    let mut zero = Statement::random(21, &vars, WEAK);
    for (columns, zeros) in other.columns.iter_mut().zip(&mut zero.columns) {
        columns[0][0] = F::ONE;
        zeros.iter_mut().for_each(|column| column.fill(F::ZERO));
    }
    // The first cell's weight makes up for all others.
    let sums = other
        .functionals
        .iter()
        .zip(other.shape.stacks())
        .zip(&other.columns);
    let sum: E = sums
        .map(|((functional, stack), columns)| {
            let table = functional.table(stack);
            let places = stack.columns.iter().zip(columns);
            let own = places.map(|(place, column)| inner_product(column, &table[place.start..]));
            own.sum::<E>()
        })
        .sum();
    other.functionals[0].add_cell(0, 0, -sum);
    zero.functionals = other.functionals.clone();
    let mut counts = Counts::new();
    for (side, statement) in [zero, other].into_iter().enumerate() {
        for run in 0..runs {
            let (roots, proof) = statement.prove(1_000_000 * side as u64 + run, E::ZERO);
            if run == 0 {
                assert_eq!(statement.check(&roots, &proof, E::ZERO), Ok(()));
            }
            let mut found = BTreeMap::new();
            revealed(&serde_json::to_value(&proof).unwrap(), "", &mut found);
            revealed(&serde_json::to_value(&roots).unwrap(), "roots", &mut found);
            for (position, value) in found {
                let bytes = position.contains("cap") || position.starts_with("roots");
                let high = if bytes {
                    value >> 5
                } else {
                    value * 8 / u64::from(F::ORDER_U32)
                };
                let own = counts.entry(position).or_default();
                own[0][side][(value & 7) as usize] += 1;
                own[1][side][high as usize] += 1;
            }
        }
    }
    let compared = counts.len();
    let distances = counts.into_iter().map(|(position, [low, high])| {
        let greatest = distance(low).max(distance(high));
        (greatest, position)
    });
    let (greatest, position) = distances.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    (greatest, position, compared)
}

/// Over [`proofs_a_side`] proofs of each of two witnesses, no revealed element tells which it was; without the cells that hide
/// values, one does. The bound: a distance above 60 has probability 10^-10 at seven degrees of freedom, times two per
/// position.
#[test]
fn revealed_elements_do_not_depend_on_the_columns() {
    let (distance, position, compared) = greatest_distance(proofs_a_side().into());
    assert!(compared > 300, "{compared}");
    assert!(distance < 60.0, "{position}: {distance} of {compared}");
    LEAK.set(true);
    let (distance, position, _) = greatest_distance(100);
    LEAK.set(false);
    assert!(distance > 100.0, "{position}: {distance}");
    assert!(position.starts_with(".values[1]"), "{position}");
}
