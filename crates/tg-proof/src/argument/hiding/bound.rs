//! The errors of a hiding opening, at the true rates of its codes.
//!
//! An oracle encodes 2^k rows of a message and t random ones in H places: a Reed-Solomon code of rate (2^k + t) / H, whose
//! Johnson radius and lists are taken at the fixed margin of the library (eta = sqrt(rate) / 20, m = 10). The protocol
//! is sound round by round (ePrint 2026/391, theorem 10.2): a state is doomed if no choice of near codewords is consistent
//! with the claims. Claims are about the newest word, until its queries the one before, and all masks so far: every
//! algebraic challenge is charged over the product of their lists. Before the queries that compare a word with the one
//! before, its answers at drawn points leave one candidate.

use super::scheme::Config;
use super::stack::COEFFICIENT_VARS;
use crate::algebra::field::E;
use crate::algebra::numbers::{exp2, log2, sqrt, sum_bits};
use crate::argument::soundness::{ErrorTerm, FOLDS, combination_before};
use p3_field::Field;
use p3_whir::MaskGroupShape;
use p3_whir::parameters::SecurityAssumption;

const JOHNSON: SecurityAssumption = SecurityAssumption::JohnsonBound;
const SOURCE: &str = "hiding WHIR, ePrint 2026/391, theorem 10.2, Johnson bound";

/// What an error is of, and minus its log2: as it is charged, and with combinations of words charged by the theorem before.
#[derive(Debug)]
pub(super) struct Term {
    label: String,
    bits: [f64; 2],
}

impl Term {
    const fn new(label: String, bits: f64) -> Self {
        let bits = [bits; 2];
        Self { label, bits }
    }
}

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
        self.queries * -log2(1.05 * sqrt(rate)) + self.grinding
    }

    /// log2 of the words of the code near a word: 1 / (2 eta sqrt(rate)).
    fn list(&self) -> f64 {
        log2(10.0 * self.places / self.message)
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

/// Minus log2 of the error of combining words of a code by a challenge, under both theorems.
fn combined(message: f64, places: f64) -> [f64; 2] {
    let degree = log2(message).floor() as usize;
    let rate = log2(places) as usize - degree;
    let now = JOHNSON.prox_gaps_error(degree, rate, field_bits(), 2) - 1.0;
    [now, combination_before(degree, rate)]
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
        terms.push(Term::new(
            format!("queries of word {index}"),
            oracle.missed(),
        ));
        let folds = config.round_folding_factor(index) as f64;
        let grinding = if index == 0 {
            config.starting_folding_pow_bits()
        } else {
            config.round_parameters()[index - 1].folding_pow_bits
        };
        // Once more for the word that the last challenge combines with a fresh one.
        let combined = combined(oracle.message, oracle.places);
        terms.push(Term {
            label: format!("folds of word {index}"),
            bits: combined.map(|bits| bits + grinding as f64 - log2(folds + 1.0)),
        });
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
            let length = oracle.message * exp2(folds) + switch.shape.message_len as f64;
            let samples = config.round_parameters()[last].ood_samples as f64;
            let pairs = 2.0 * (oracle.list() + mask_list(switch)) - 1.0;
            terms.push(Term::new(
                format!("drawn points of word {index}"),
                samples * (field_bits() as f64 - log2(length)) - pairs,
            ));
        }
        let lists = masks + before + oracle.list();
        terms.push(Term::new(
            format!("challenges for word {index}"),
            field_bits() as f64 - log2(degree) - lists,
        ));
        before = oracle.list();
    }
    for (index, group) in groups.iter().enumerate() {
        let message = (group.shape.message_len + group.shape.randomness_len) as f64;
        let places = group.shape.domain_size as f64;
        let queries = config.mask_queries() as f64;
        terms.push(Term::new(
            format!("queries of masks {index}"),
            queries * -log2(1.05 * sqrt(message / places)),
        ));
        let width = 2.0 * group.width as f64;
        terms.push(Term {
            label: format!("combination of masks {index}"),
            bits: combined(message, places).map(|bits| bits - log2(width)),
        });
    }
    terms
}

/// log2 of the words near those of some masks.
fn mask_list(group: &MaskGroupShape) -> f64 {
    let message = (group.shape.message_len + group.shape.randomness_len) as f64;
    log2(10.0 * group.shape.domain_size as f64 / message)
}

/// Minus log2 of the sum of errors.
pub(super) fn bits(terms: &[Term]) -> f64 {
    sum_bits(terms.iter().map(|term| term.bits[0]))
}

/// Every error of a proof about commitments of these parameters, whose sumcheck has so many rounds.
pub(super) fn report(configs: &[Config], rounds: usize) -> Vec<ErrorTerm> {
    let mut terms = Vec::new();
    for (index, config) in configs.iter().enumerate() {
        terms.extend(opening(config).into_iter().map(|term| {
            let Term { label, bits } = term;
            let [now, before] = bits;
            let source = if now == before { SOURCE } else { FOLDS };
            ErrorTerm {
                bits_before: before,
                ..ErrorTerm::new(format!("hiding opening {index}: {label}"), source, now)
            }
        }));
    }
    let candidates: f64 = configs.iter().map(candidate_bits).sum();
    let drawn = [
        // The mask's weight, and two per round.
        (
            "masked sum",
            "sumcheck, LFKN 1992; Libra, ePrint 2019/317",
            1 + 2 * rounds,
        ),
        // The second vector's weight, and the point where both are compared with what was revealed.
        ("mask of the sum", "Schwartz-Zippel", 1 + COEFFICIENT_VARS),
    ];
    terms.extend(drawn.map(|(label, source, degree)| {
        let bits = field_bits() as f64 - log2(degree as f64) - candidates;
        ErrorTerm::new(label.to_owned(), source, bits)
    }));
    terms
}
