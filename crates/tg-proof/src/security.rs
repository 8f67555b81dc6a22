//! The composed security level: minus log2 of the sum of every error, each with its source.

use crate::field::E;
use crate::model::PublicModel;
use crate::plan::NodePlan;
use p3_field::Field;
use p3_security::{CandidateSet, ErrorBits, SecurityTerm};
use p3_sumcheck::PrescribedPointPcs;
use tg_ir::Op;

/// One source of error.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorTerm {
    /// What may go wrong.
    pub label: String,
    /// Where the bound comes from.
    pub source: &'static str,
    /// Minus log2 of its probability.
    pub bits: f64,
}

/// All sources of error of one proof.
#[derive(Debug, Clone, PartialEq)]
pub struct SecurityReport {
    /// The terms.
    pub terms: Vec<ErrorTerm>,
    /// Minus log2 of their sum.
    pub bits: f64,
}

/// Adds up what a proof of a model may get wrong; nothing if the library gives no bound for an opening.
#[must_use]
pub fn report(model: &PublicModel) -> Option<SecurityReport> {
    let witness = PrescribedPointPcs::<E, crate::commitment::Challenger>::prescribed_security(
        model.witness_scheme(),
        model.witness_protocol(),
    )?;
    let weights = PrescribedPointPcs::<E, crate::commitment::Challenger>::prescribed_security(
        model.weights_scheme(),
        model.weights_protocol(),
    )?;
    let candidates = witness.candidates()?.product(weights.candidates()?);
    let mut terms = Vec::new();
    for (which, opening) in [("witness", &witness), ("weights", &weights)] {
        terms.extend(opening.terms.iter().map(|term| ErrorTerm {
            label: format!("{which} opening: {}", term.label),
            source: "WHIR, ePrint 2024/1586, Johnson bound",
            bits: term.bits.bits(),
        }));
    }
    for (label, source, degree) in draws(model) {
        terms.push(ErrorTerm {
            label,
            source,
            bits: charge(degree, candidates),
        });
    }
    let hash = "BLAKE3, 256-bit output, birthday bound";
    terms.push(ErrorTerm {
        label: "collision of a hash".to_owned(),
        source: hash,
        bits: 128.0,
    });
    let sum: f64 = terms.iter().map(|term| (-term.bits).exp2()).sum();
    Some(SecurityReport {
        bits: -sum.log2(),
        terms,
    })
}

/// `degree / |E|`, charged over every pair of polynomials the two commitments leave open.
fn charge(degree: f64, candidates: CandidateSet) -> f64 {
    let field = (E::bits() - 1) as f64;
    let term = SecurityTerm::new("draw", ErrorBits::from_log2(field - degree.log2()));
    term.over_candidates(candidates).bits.bits()
}

/// Every challenge drawn outside the openings: what it shows, where the bound comes from, and the degree of the
/// polynomial that would have to vanish.
fn draws(model: &PublicModel) -> Vec<(String, &'static str, f64)> {
    let (plan, program) = (model.plan(), model.program());
    let vars = |tensor: usize| plan.layouts[tensor].vars() as f64;
    let mut draws = vec![(
        "output point".to_owned(),
        "Schwartz-Zippel",
        vars(program.nodes.len()),
    )];
    for (node, description) in program.nodes.iter().enumerate() {
        let label = |what: &str| format!("{what} of node {node} `{}`", description.name);
        let readers = program
            .nodes
            .iter()
            .flat_map(|other| other.op.inputs())
            .filter(|t| t.index() == node + 1)
            .count();
        if readers > 1 {
            draws.push((
                label("claim merge"),
                "sumcheck, LFKN 1992",
                readers as f64 + 2.0 * vars(node + 1),
            ));
        }
        let input = description.op.inputs()[0].index();
        let sources = 2.0 * plan.layouts[input].pixel_vars as f64;
        match (&description.op, &plan.nodes[node]) {
            (Op::Conv { .. }, NodePlan::Linear { weights }) => {
                let [_, positions, inputs] = plan.weights[*weights].axis_vars();
                let degree = 2.0 * (positions + inputs) as f64 + sources + vars(node + 1);
                draws.push((
                    label("products and sources"),
                    "sumcheck; Thaler 2013, section 4.4",
                    degree,
                ));
            }
            (Op::Dense { .. }, NodePlan::Linear { weights }) => {
                let [_, positions, inputs] = plan.weights[*weights].axis_vars();
                let degree = 2.0 * (positions + inputs) as f64 + vars(node + 1);
                draws.push((
                    label("products"),
                    "sumcheck; Thaler 2013, section 4.4",
                    degree,
                ));
            }
            (Op::WindowSum { .. }, _) => {
                draws.push((label("sources"), "sumcheck", sources + vars(node + 1)))
            }
            (Op::Requantise { .. }, _) => {
                draws.push((
                    label("relations"),
                    "Schwartz-Zippel, five multilinear identities",
                    5.0 * vars(node + 1),
                ));
            }
            (Op::MaxPool { window, .. }, NodePlan::Maximum { witness, .. }) => {
                let positions = window.positions();
                let chunks: f64 = plan.witness[witness.clone()]
                    .iter()
                    .map(|table| (positions as f64 + 2.0) * table.chunk.vars as f64)
                    .sum();
                let kappa = crate::layout::log2_ceil(positions) as f64;
                draws.push((
                    label("windows and zero-checks"),
                    "sumcheck",
                    vars(node + 1) + kappa + sources + chunks,
                ));
            }
            (Op::Permute { .. }, _) => {
                draws.push((label("permutation"), "sumcheck", 3.0 * vars(node + 1)))
            }
            _ => {}
        }
    }
    let leaf_vars = plan.leaf_vars as f64;
    let leaves = leaf_vars.exp2();
    draws.push((
        "reader batching".to_owned(),
        "Schwartz-Zippel",
        plan.groups.len() as f64,
    ));
    draws.push((
        "table poles".to_owned(),
        "logUp, ePrint 2022/1530, lemma 5",
        leaves + plan.tables.len() as f64,
    ));
    let gkr = 2.0 * leaf_vars + 1.5 * leaf_vars * (leaf_vars - 1.0);
    draws.push((
        "fractional sum".to_owned(),
        "GKR, ePrint 2023/1284",
        gkr.max(1.0),
    ));
    draws
}
