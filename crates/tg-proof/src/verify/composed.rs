//! The composed security level: minus log2 of the sum of every error, each with its source.

use crate::algebra::field::E;
use crate::algebra::numbers::{exp2, log2, sum_bits};
use crate::algebra::tally::{DrawCharge, Open, Theorem};
use crate::algebra::transcript::Challenger;
use crate::argument::commitment::Pcs;
use crate::argument::soundness::field_bits;
use crate::argument::soundness::{ErrorTerm, FOLDS, LEVEL, combination_before};
use crate::plan::Plan;
use crate::plan::PlanError;
use crate::plan::shape::{ProofShape, WeightsShape};
use crate::verify::places::WalkPlaces;
use crate::verify::private::PrivateShape;
use crate::verify::registration;
use crate::verify::zk::ZkShape;
use p3_field::Field;
use p3_security::{CandidateSet, ErrorBits, SecurityTerm};
use p3_sumcheck::{OpeningProtocol, PrescribedOpeningSecurity, PrescribedPointPcs};
use p3_whir::parameters::SecurityAssumption;
use tg_ir::Program;

/// The rest of an opening.
const REST: &str = "queries, answers and sums: WHIR, ePrint 2024/1586, Johnson bound";

/// The folds of an opening under both theorems, as minus log2 of their errors together.
fn fold_bits(scheme: &Pcs) -> [f64; 2] {
    let johnson = SecurityAssumption::JohnsonBound;
    let first = (
        scheme.num_variables(),
        scheme.params().starting_log_inv_rate,
        scheme.starting_folding_pow_bits(),
    );
    let rounds = scheme.round_parameters().iter();
    let rounds = rounds.map(|round| {
        (
            round.num_variables,
            round.log_inv_rate,
            round.folding_pow_bits,
        )
    });
    let words = std::iter::once(first).chain(rounds);
    let errors: Vec<[f64; 2]> = words
        .zip(scheme.folding_schedule())
        .map(|((variables, rate, grinding), &folds)| {
            let now = johnson.prox_gaps_error(variables, rate, E::bits() - 1, 2) - 1.0;
            let own = [now, combination_before(variables, rate)];
            own.map(|bits| bits + grinding as f64 - log2(folds as f64))
        })
        .collect();
    [0, 1].map(|theorem| sum_bits(errors.iter().map(|error| error[theorem])))
}

/// The terms of an opening: its folds, and the rest of what the library charges for it.
fn opening_terms(which: &str, scheme: &Pcs, opening: &PrescribedOpeningSecurity) -> Vec<ErrorTerm> {
    let all = sum_bits(opening.terms.iter().map(|term| term.bits.bits()));
    let [folds, before] = fold_bits(scheme);
    let rest = exp2(-all) - exp2(-folds);
    vec![
        ErrorTerm {
            bits_before: before,
            ..ErrorTerm::new(format!("{which} opening: folds"), FOLDS, folds)
        },
        ErrorTerm::new(format!("{which} opening: the rest"), REST, -log2(rest)),
    ]
}

/// All sources of error of one proof.
#[derive(Debug, Clone, PartialEq)]
pub struct SecurityReport {
    /// The terms.
    pub terms: Vec<ErrorTerm>,
    /// Minus log2 of their sum: what is held to [`LEVEL`].
    pub bits: f64,
    /// The same with folds charged by [`crate::statement::security::BEFORE`].
    pub bits_before: f64,
}

/// What the errors of a model's proofs and of its registration depend on beside the shape of a proof.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secured<'a> {
    /// The program.
    pub(crate) program: &'a Program,
    /// A plan of the program: what it says of weights depends on nothing else.
    pub(crate) plan: &'a Plan,
    /// How the weights are committed, if there are some.
    pub(crate) weights: Option<&'a WeightsShape>,
    /// Variables of the point at which they are anchored.
    pub(crate) anchor_vars: usize,
    /// What is derived for them if they are private.
    pub(crate) private: Option<&'a PrivateShape>,
}

/// Adds up what a proof of a shape may get wrong; nothing if the library gives no bound for an opening.
pub(crate) fn report(model: &Secured<'_>, shape: &ProofShape) -> Option<SecurityReport> {
    if model.private.is_some() {
        return None;
    }
    let opening = |scheme: &Pcs, protocol: &OpeningProtocol| {
        PrescribedPointPcs::<E, Challenger>::prescribed_security(scheme, protocol)
    };
    let sections = shape.sections.iter();
    let witness: Vec<_> = sections
        .map(|(scheme, protocol)| opening(scheme, protocol))
        .collect::<Option<_>>()?;
    let weights = match model.weights {
        Some(own) => Some((own, opening(&own.scheme, &own.protocol)?)),
        None => None,
    };
    let pushforwards = match &shape.pushforwards {
        Some((scheme, protocol)) => Some(opening(scheme, protocol)?),
        None => None,
    };
    let candidates = |opening: Option<&PrescribedOpeningSecurity>| match opening {
        Some(opening) => opening.candidates(),
        // What is not committed leaves nothing open.
        None => Some(CandidateSet::UNIQUE),
    };
    // What is drawn meets one polynomial of each section that is anchored by itself.
    let whole = if shape.plan.is_anchored() {
        None
    } else {
        witness.first()
    };
    let own = Candidates {
        witness: candidates(whole)?,
        weights: candidates(weights.as_ref().map(|(_, weights)| weights))?,
        pushforwards: candidates(pushforwards.as_ref())?,
    };
    let mut terms = Vec::new();
    for ((scheme, _), opening) in shape.sections.iter().zip(&witness) {
        terms.extend(opening_terms("witness", scheme, opening));
    }
    if let Some((own, weights)) = &weights {
        terms.extend(opening_terms("weights", &own.scheme, weights));
    }
    if let (Some((scheme, _)), Some(opening)) = (&shape.pushforwards, &pushforwards) {
        terms.extend(opening_terms("pushforwards", scheme, opening));
    }
    if let Some((_, weights)) = &weights {
        let pairs = weights.candidates()?.product(weights.candidates()?);
        terms.push(anchor_term(model.anchor_vars, pairs));
    }
    if shape.plan.is_anchored() {
        for section in &witness {
            let pairs = section.candidates()?.product(section.candidates()?);
            terms.push(ErrorTerm::new(
                "anchor of a section of the witness".to_owned(),
                "Schwartz-Zippel over all pairs of candidates",
                charge(shape.plan.anchor_vars() as f64, pairs),
            ));
        }
    }
    for drawn in &shape.plan.counted.charges {
        let bits = charge(drawn.degree as f64, own.of(drawn.open));
        terms.push(term_of(model.program, drawn, bits));
    }
    Some(composed(terms))
}

/// Polynomials that each commitment leaves open.
#[derive(Debug, Clone, Copy)]
struct Candidates {
    witness: CandidateSet,
    weights: CandidateSet,
    pushforwards: CandidateSet,
}

impl Candidates {
    /// Choices of one of each commitment that is open.
    fn of(&self, open: Open) -> CandidateSet {
        let all = [
            (open.witness, self.witness),
            (open.weights, self.weights),
            (open.pushforwards, self.pushforwards),
        ];
        let open = all.into_iter().filter(|(open, _)| *open);
        open.fold(CandidateSet::UNIQUE, |all, (_, own)| all.product(own))
    }
}

/// The term of what was drawn at a place for a purpose.
fn term_of(program: &Program, drawn: &DrawCharge, bits: f64) -> ErrorTerm {
    let DrawCharge { place, theorem, .. } = drawn;
    let what = theorem.what();
    let label = match (program.nodes.get(*place), theorem) {
        (Some(node), _) => format!("{what} of node {place} `{}`", node.name),
        (None, Theorem::Identities | Theorem::Readers | Theorem::Sum | Theorem::Merge) => {
            let beside = WalkPlaces::of(program).name(*place);
            format!("{what} of the {beside}")
        }
        (None, _) => what.to_owned(),
    };
    ErrorTerm::new(label, theorem.source(), bits)
}

/// The same for a proof in zero knowledge.
pub(crate) fn report_zk(model: &Secured<'_>, shape: &ZkShape) -> Option<SecurityReport> {
    let mut terms = shape.hiding.report();
    let mut candidates = shape.hiding.candidate_bits();
    if let Some(private) = model.private {
        // Their opening is one of the hiding ones.
        terms.push(private_anchor_term(private));
    } else if let Some(own) = model.weights {
        let weights =
            PrescribedPointPcs::<E, Challenger>::prescribed_security(&own.scheme, &own.protocol)?;
        terms.extend(opening_terms("weights", &own.scheme, &weights));
        let of_weights = weights.candidates()?;
        terms.push(anchor_term(
            model.anchor_vars,
            of_weights.product(of_weights),
        ));
        candidates += of_weights.log2_size();
    }
    // Hiding commitments are absorbed as one, before the first draw that is charged here.
    let bits = |degree: f64| field_bits() - log2(degree.max(1.0)) - candidates;
    let drawn = shape.plan.counted.charges.iter();
    terms.extend(drawn.map(|drawn| term_of(model.program, drawn, bits(drawn.degree as f64))));
    for (label, source, degree) in [
        (
            "triples of products",
            "Schwartz-Zippel; Beaver, CRYPTO 1991",
            shape.secrets.products,
        ),
        ("batch of all checks", "Schwartz-Zippel", shape.checks()),
    ] {
        terms.push(ErrorTerm::new(
            label.to_owned(),
            source,
            bits(degree as f64),
        ));
    }
    Some(composed(terms))
}

/// Refuses proofs in zero knowledge that fall short of [`LEVEL`].
///
/// # Errors
/// [`PlanError::Insecure`].
pub(crate) fn check_zk(model: &Secured<'_>, shape: &ZkShape) -> Result<(), PlanError> {
    check_report(report_zk(model, shape).as_ref())
}

/// Two polynomials near the root of private weights that agree at their anchor.
fn private_anchor_term(private: &PrivateShape) -> ErrorTerm {
    let vars = private.kept.stack().vars as f64;
    ErrorTerm::new(
        "anchor of the private weights".to_owned(),
        "Schwartz-Zippel over all pairs of candidates",
        field_bits() - log2(vars) - 2.0 * private.kept.candidate_bits(),
    )
}

/// What the registration of private weights may get wrong.
fn private_registration_report(private: &PrivateShape) -> SecurityReport {
    let mut terms = private.hiding.report();
    terms.push(private_anchor_term(private));
    let candidates = private.hiding.candidate_bits();
    let tables = private.tables.iter();
    let cells: f64 = tables
        .clone()
        .map(|table| table.columns as f64 * exp2(table.vars() as f64))
        .sum();
    let padding = tables.map(registration::WeightTable::vars).max();
    for (label, source, degree) in [
        (
            "range pole",
            "logUp, ePrint 2022/1530, lemma 5",
            cells + registration::WEIGHT_VALUES as f64,
        ),
        (
            "range sum",
            "GKR, ePrint 2023/1284",
            registration::range_degree(private.leaves.1),
        ),
        (
            "padding",
            "Schwartz-Zippel",
            padding.unwrap_or_default() as f64,
        ),
        (
            "triples of products",
            "Schwartz-Zippel; Beaver, CRYPTO 1991",
            private.secrets.products as f64,
        ),
        (
            "batch of all checks",
            "Schwartz-Zippel",
            private.checks() as f64,
        ),
    ] {
        terms.push(ErrorTerm::new(
            label.to_owned(),
            source,
            field_bits() - log2(degree.max(1.0)) - candidates,
        ));
    }
    composed(terms)
}

/// Adds up what the registration of a model may get wrong; nothing if the library gives no bound for its opening.
pub(crate) fn registration_report(model: &Secured<'_>) -> Option<SecurityReport> {
    if let Some(private) = model.private {
        return Some(private_registration_report(private));
    }
    let Some(own) = model.weights else {
        // Nothing is shown, and nothing can go wrong but a collision of its id.
        return Some(composed(Vec::new()));
    };
    let opening =
        PrescribedPointPcs::<E, Challenger>::prescribed_security(&own.scheme, &own.registration)?;
    let candidates = opening.candidates()?;
    let mut terms = opening_terms("weights", &own.scheme, &opening);
    terms.push(anchor_term(
        model.anchor_vars,
        candidates.product(candidates),
    ));
    let tables = registration::weight_tables(&model.plan.weights);
    let (_, leaf_vars) = registration::range_leaves(&tables);
    let cells: f64 = tables
        .iter()
        .map(|table| table.columns as f64 * exp2(table.vars() as f64))
        .sum();
    let padding: f64 = tables
        .iter()
        .map(|table| 3.0 * table.vars() as f64 + table.columns as f64)
        .sum();
    for (label, source, degree) in [
        (
            "range pole",
            "logUp, ePrint 2022/1530, lemma 5",
            cells + registration::WEIGHT_VALUES as f64,
        ),
        (
            "range sum",
            "GKR, ePrint 2023/1284",
            registration::range_degree(leaf_vars),
        ),
        ("padding", "sumcheck and Schwartz-Zippel", padding),
    ] {
        terms.push(ErrorTerm::new(
            label.to_owned(),
            source,
            charge(degree, candidates),
        ));
    }
    Some(composed(terms))
}

/// Refuses a registration that falls short of [`LEVEL`].
///
/// # Errors
/// [`PlanError::Insecure`].
pub(crate) fn check_registration(model: &Secured<'_>) -> Result<(), PlanError> {
    check_report(registration_report(model).as_ref())
}

/// Refuses a batch whose proofs fall short of [`LEVEL`].
///
/// # Errors
/// [`PlanError::Insecure`].
pub(crate) fn check_shape(model: &Secured<'_>, shape: &ProofShape) -> Result<(), PlanError> {
    check_report(report(model, shape).as_ref())
}

fn check_report(report: Option<&SecurityReport>) -> Result<(), PlanError> {
    let bits = report.map_or(0.0, |report| report.bits);
    if bits >= f64::from(LEVEL) {
        return Ok(());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded down for a message"
    )]
    Err(PlanError::Insecure {
        bits: bits.max(0.0) as u32,
    })
}

/// Two polynomials near the root that agree at the anchor.
fn anchor_term(anchor_vars: usize, pairs: CandidateSet) -> ErrorTerm {
    ErrorTerm::new(
        "anchor of the weights".to_owned(),
        "Schwartz-Zippel over all pairs of candidates",
        charge((anchor_vars as f64).max(1.0), pairs),
    )
}

fn composed(mut terms: Vec<ErrorTerm>) -> SecurityReport {
    terms.push(ErrorTerm::new(
        "collision of a hash".to_owned(),
        "BLAKE3, 256-bit output, birthday bound",
        128.0,
    ));
    SecurityReport {
        bits: sum_bits(terms.iter().map(|term| term.bits)),
        bits_before: sum_bits(terms.iter().map(|term| term.bits_before)),
        terms,
    }
}

/// `degree / |E|`, charged over every pair of polynomials the two commitments leave open.
fn charge(degree: f64, candidates: CandidateSet) -> f64 {
    let field = field_bits();
    let term = SecurityTerm::new("draw", ErrorBits::from_log2(field - log2(degree.max(1.0))));
    term.over_candidates(candidates).bits.bits()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::argument::commitment::{Role, STACK_VARS_MAX, STACK_VARS_MIN, scheme};

    /// Folds of one commitment of any size have 101 bits under ePrint 2025/2055 too, but for pushforwards: 100.5 up to
    /// 2^25 cells, and 99.2 at 2^27.
    #[test]
    fn folds_of_every_size_reach_the_level_under_the_theorem_before() {
        let mut low = Vec::new();
        for role in [Role::Witness, Role::Weights, Role::Pushforwards] {
            for vars in STACK_VARS_MIN..=STACK_VARS_MAX {
                let level = match (role, vars) {
                    (Role::Pushforwards, ..=25) => 100.5,
                    (Role::Pushforwards, _) => 99.2,
                    _ => 101.0,
                };
                let [now, before] = fold_bits(&scheme(role, vars, 300).unwrap());
                if now <= before || before <= level {
                    low.push(format!("{role:?} 2^{vars}: {before:.2} of {now:.2}"));
                }
            }
        }
        assert_eq!(low, [""; 0]);
    }
}
