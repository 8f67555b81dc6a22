//! What a hiding proof of one functional costs: `hiding [VARS]...`, one line per size of the first commitment.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool")]

use p3_field::PrimeCharacteristicRing;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Instant;
use tg_proof::field::{E, F, eq_table, inner_product};
use tg_proof::hiding::{Columns, Functional, HidingShape, observe, verify};
use tg_proof::{messages, transcript};
use tg_prover::hiding::{commit, prove};
use tg_types::ProgramId;

fn main() {
    let sizes = std::env::args().skip(1).map(|size| size.parse().unwrap());
    let sizes: Vec<usize> = sizes.collect();
    for vars in if sizes.is_empty() {
        vec![12, 16, 18, 20]
    } else {
        sizes
    } {
        let mut rng = StdRng::seed_from_u64(1);
        // Half of the stack, so that the blocks beside it do not double it.
        let shape = HidingShape::new(&[Columns {
            vars: vec![vars - 1],
        }])
        .unwrap();
        let column: Vec<F> = (0..1usize << (vars - 1)).map(|_| rng.random()).collect();
        let at: Vec<E> = (0..vars - 1).map(|_| E::from(rng.random::<F>())).collect();
        let sum = inner_product(&column, &eq_table(&at));
        let mut functional = Functional::default();
        functional.add_evaluation(0, &at, E::ONE);
        let functionals = [functional];

        let mut challenger = transcript::registration(ProgramId::default());
        let start = Instant::now();
        let (root, committed) = commit(&shape, 0, &[&column], &mut rng).unwrap();
        let committing = start.elapsed();
        observe(&root, &mut challenger);
        let mut again = challenger.clone();
        let start = Instant::now();
        let proof = prove(&shape, vec![committed], &functionals, sum, &mut challenger).unwrap();
        let proving = start.elapsed();
        let start = Instant::now();
        verify(&shape, &[root], &functionals, sum, &proof, &mut again).unwrap();
        let verifying = start.elapsed();
        let errors: f64 = shape.report().iter().map(|term| (-term.bits).exp2()).sum();
        println!(
            "2^{vars}: commit {committing:.1?}, prove {proving:.1?}, verify {verifying:.1?}, {} bytes, {:.2} bits",
            messages::encode(&proof).len(),
            -errors.log2()
        );
    }
}
