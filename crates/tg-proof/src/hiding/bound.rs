//! The errors of a hiding opening, at the true rates of its codes.
//!
//! An oracle encodes 2^k rows of a message and t random ones in H places: a Reed-Solomon code of rate (2^k + t) / H, whose
//! Johnson radius and lists are taken at the fixed margin of the library (eta = sqrt(rate) / 20, m = 10). The protocol
//! is sound round by round (ePrint 2026/391, theorem 10.2): a state is doomed if no choice of near codewords is consistent
//! with the claims. Claims are about the newest word, until its queries the one before, and all masks so far: every
//! algebraic challenge is charged over the product of their lists. Before the queries that compare a word with the one
//! before, its answers at drawn points leave one candidate.

use super::{Config, HidingShape};
use crate::field::E;
use crate::security::ErrorTerm;
use p3_field::Field;
use p3_whir::MaskGroupShape;
use p3_whir::parameters::SecurityAssumption;

const JOHNSON: SecurityAssumption = SecurityAssumption::JohnsonBound;
const SOURCE: &str = "hiding WHIR, ePrint 2026/391, theorem 10.2, Johnson bound";

/// Minus log2 of an error, and what it is of.
pub(super) type Term = (String, f64);

/// One committed word of an opening.
struct Oracle {
    /// Rows of the message, random rows, places.
    message: f64,
    random: f64,
    places: f64,
    queries: f64,
    grinding: f64,
}

impl Oracle {
    /// Minus log2 of the chance that a word far from the code is met by no query.
    fn missed(&self) -> f64 {
        let rate = (self.message + self.random) / self.places;
        self.queries * -(1.05 * rate.sqrt()).log2() + self.grinding
    }

    /// log2 of the words of the code near a word: 1 / (2 eta sqrt(rate)).
    fn list(&self) -> f64 {
        (10.0 * self.places / self.message).log2()
    }
}

fn field_bits() -> usize {
    E::bits() - 1
}

fn oracles(config: &Config) -> Vec<Oracle> {
    let rounds = config.n_rounds();
    (0..=rounds)
        .map(|index| {
            let fold = config.round_folding_factor(index);
            let (vars, expansion) = if index == 0 {
                let rate = config.params().starting_log_inv_rate;
                (config.num_variables(), 1usize << rate)
            } else {
                let previous = &config.round_parameters()[index - 1];
                (previous.num_variables, config.inv_rate(index - 1))
            };
            let budget = config.randomized_terminal();
            let (queries, grinding) = config
                .round_parameters()
                .get(index)
                .map_or((budget.num_queries, budget.pow_bits), |round| {
                    (round.num_queries, round.pow_bits)
                });
            let message = (1usize << (vars - fold)) as f64;
            Oracle {
                message,
                random: config.oracle_randomness()[index] as f64,
                places: message * expansion as f64,
                queries: queries as f64,
                grinding: grinding as f64,
            }
        })
        .collect()
}

/// Minus log2 of the error of combining words of a code by a challenge.
fn combined(message: f64, places: f64) -> f64 {
    let degree = message.log2().floor() as usize;
    let rate = places.log2() as usize - degree;
    JOHNSON.prox_gaps_error(degree, rate, field_bits(), 2) - 1.0
}

/// log2 of the number of polynomials that a root leaves open.
pub(super) fn candidate_bits(config: &Config) -> f64 {
    oracles(config).first().map_or(0.0, Oracle::list)
}

/// Every error of one opening of two claims.
pub(super) fn opening(config: &Config) -> Vec<Term> {
    const CLAIMS: f64 = 2.0;
    let oracles = oracles(config);
    let groups = config.mask_groups();
    let mut terms = Vec::new();
    let (mut masks, mut before) = (0.0, 0.0);
    for (index, oracle) in oracles.iter().enumerate() {
        terms.push((format!("queries of word {index}"), oracle.missed()));
        let folds = config.round_folding_factor(index) as f64;
        let grinding = if index == 0 {
            config.starting_folding_pow_bits()
        } else {
            config.round_parameters()[index - 1].folding_pow_bits
        };
        let fold = combined(oracle.message, oracle.places) + grinding as f64;
        // Once more for the word that the last challenge combines with a fresh one.
        terms.push((
            format!("folds of word {index}"),
            fold - (folds + 1.0).log2(),
        ));
        // The masks of the rounds that fold it, and those of the switch to it.
        let own = if index == 0 {
            0..1
        } else {
            2 * index - 1..2 * index + 1
        };
        masks += groups[own].iter().map(mask_list).sum::<f64>();
        // What is combined (claims, or queries of the word before and an answer to each drawn point), the masked sum's
        // challenge, its rounds of degree 2, and the last challenge.
        let constraints = match index.checked_sub(1) {
            None => CLAIMS,
            Some(last) => {
                let round = &config.round_parameters()[last];
                (round.num_queries + round.ood_samples) as f64
            }
        };
        let degree = constraints + 1.0 + 2.0 * folds + 1.0;
        if let Some(last) = index.checked_sub(1) {
            // The answers at drawn points leave one pair of a word and its masks, so that queries are about one word.
            let switch = &groups[2 * last + 1];
            let length = oracle.message * folds.exp2() + switch.shape.message_len as f64;
            let samples = config.round_parameters()[last].ood_samples as f64;
            let pairs = 2.0 * (oracle.list() + mask_list(switch)) - 1.0;
            terms.push((
                format!("drawn points of word {index}"),
                samples * (field_bits() as f64 - length.log2()) - pairs,
            ));
        }
        let lists = masks + before + oracle.list();
        terms.push((
            format!("challenges for word {index}"),
            field_bits() as f64 - degree.log2() - lists,
        ));
        before = oracle.list();
    }
    for (index, group) in groups.iter().enumerate() {
        let message = (group.shape.message_len + group.shape.randomness_len) as f64;
        let places = group.shape.domain_size as f64;
        let queries = config.mask_queries() as f64;
        terms.push((
            format!("queries of masks {index}"),
            queries * -(1.05 * (message / places).sqrt()).log2(),
        ));
        let width = 2.0 * group.width as f64;
        terms.push((
            format!("combination of masks {index}"),
            combined(message, places) - width.log2(),
        ));
    }
    terms
}

/// log2 of the words near those of some masks.
fn mask_list(group: &MaskGroupShape) -> f64 {
    let message = (group.shape.message_len + group.shape.randomness_len) as f64;
    (10.0 * group.shape.domain_size as f64 / message).log2()
}

/// Minus log2 of the sum of errors.
pub(super) fn bits(terms: &[Term]) -> f64 {
    -terms
        .iter()
        .map(|(_, bits)| (-bits).exp2())
        .sum::<f64>()
        .log2()
}

/// Every error of a proof.
pub(super) fn report(shape: &HidingShape) -> Vec<ErrorTerm> {
    let mut terms = Vec::new();
    for (index, config) in shape.configs.iter().enumerate() {
        terms.extend(opening(config).into_iter().map(|(label, bits)| ErrorTerm {
            label: format!("hiding opening {index}: {label}"),
            source: SOURCE,
            bits,
        }));
    }
    let drawn = [
        // The mask's weight, and two per round.
        (
            "masked sum",
            "sumcheck, LFKN 1992; Libra, ePrint 2019/317",
            1 + 2 * shape.rounds(),
        ),
        // The second vector's weight, and the point where both are compared with what was revealed.
        (
            "mask of the sum",
            "Schwartz-Zippel",
            1 + super::shape::COEFFICIENT_VARS,
        ),
    ];
    terms.extend(drawn.map(|(label, source, degree)| ErrorTerm {
        label: label.to_owned(),
        source,
        bits: field_bits() as f64 - (degree as f64).log2() - shape.candidate_bits(),
    }));
    terms
}
