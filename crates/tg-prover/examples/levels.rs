//! The level of security of proofs about the suite under two theorems on folds, and what grinding more would change:
//! `levels [NAME]`. Prints for each model its openings by size, and for each size the level and grinding with k bits more.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool")]

use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption, WhirConfig};
use tg_compile::suite::Architecture;
use tg_proof::commitment::{self, Challenger, GRINDING_BITS, PHASE_SECURITY, Role, schedule};
use tg_proof::field::{E, F};
use tg_proof::model::ProofShape;
use tg_proof::{PublicModel, security};

/// A model whose root stands for those that are not committed here: no level depends on it.
const KNOWN: &[u8] = include_bytes!("../../tg-proof/tests/data/mlp-digits.tgv");

/// The folds of a commitment with `more` bits, as minus log2 of their errors, and all bits of grinding.
fn folds(role: Role, vars: usize, more: usize) -> Option<(f64, Vec<usize>, Vec<usize>)> {
    let own = schedule(role, vars);
    let parameters = ProtocolParameters {
        security_level: PHASE_SECURITY + more,
        pow_bits: GRINDING_BITS + more,
        folding_factor: FoldingFactor::PerRound(own.folds),
        soundness_type: SecurityAssumption::JohnsonBound,
        starting_log_inv_rate: own.log_inv_rate,
        round_log_inv_rates: own.rates,
    };
    let config = WhirConfig::<E, F, Challenger>::new(vars, parameters).ok()?;
    let first = (vars, own.log_inv_rate, config.starting_folding_pow_bits());
    let rounds = config.round_parameters().iter();
    let rounds = rounds.map(|round| {
        (
            round.num_variables,
            round.log_inv_rate,
            round.folding_pow_bits,
        )
    });
    let words: Vec<_> = std::iter::once(first).chain(rounds).collect();
    let errors = words.iter().zip(config.folding_schedule());
    let error: f64 = errors
        .map(|(&(vars, rate, grinding), &folds)| {
            folds as f64 * (-security::combination_before(vars, rate) - grinding as f64).exp2()
        })
        .sum();
    let queries = config.round_parameters().iter().map(|round| round.pow_bits);
    let queries = queries.chain([config.terminal().pow_bits]).collect();
    let grinding = words.iter().map(|&(_, _, grinding)| grinding).collect();
    Some((-error.log2(), grinding, queries))
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for role in [Role::Witness, Role::Weights] {
        for vars in 12..=commitment::STACK_VARS_MAX {
            for more in [0, 4] {
                let Some((bits, folds, queries)) = folds(role, vars, more) else {
                    println!("{role:?} 2^{vars} +{more}: none");
                    continue;
                };
                println!(
                    "{role:?} 2^{vars} +{more}: folds {bits:.1} under 2025/2055, grinding of folds {folds:?}, of queries {queries:?}"
                );
            }
        }
    }
    let root = PublicModel::decode(KNOWN)
        .unwrap()
        .weights_commitment()
        .unwrap()
        .root
        .clone();
    for architecture in Architecture::ALL {
        if !architecture.name().starts_with(&wanted) {
            continue;
        }
        let program = architecture.model(1).0.program;
        let shape = ProofShape::new(program.check().unwrap()).unwrap();
        let tables = tg_proof::registration::weight_tables(&shape.plan.weights);
        let anchor = tables.iter().map(|table| vec![E::default(); table.columns]);
        let commitment = commitment::WeightCommitment {
            root: root.clone(),
            anchor: anchor.collect(),
        };
        let public = PublicModel::new(program, commitment, Vec::new()).unwrap();
        let report = security::report(&public).unwrap();
        let registration = security::registration_report(&public).unwrap();
        let sections = shape.sections.iter();
        let vars: Vec<usize> = sections.map(|(scheme, _)| scheme.num_variables()).collect();
        println!(
            "{}: witness {vars:?}, weights {}, proof {:.2} ({:.2} under 2025/2055), registration {:.2} ({:.2})",
            architecture.name(),
            shape.weights.as_ref().unwrap().scheme.num_variables(),
            report.bits,
            report.bits_before,
            registration.bits,
            registration.bits_before,
        );
        println!(
            "    {:?}, {} MiB",
            shape.plan.cost,
            shape.plan.cost.memory() >> 20
        );
        for term in report
            .terms
            .iter()
            .filter(|term| term.bits_before != term.bits)
        {
            println!(
                "    {}: {:.2} ({:.2})",
                term.label, term.bits, term.bits_before
            );
        }
    }
}
