//! The parameters of an opening that withstands enough.

use super::bound;
use super::scheme::Config;
use crate::argument::commitment::{CommitmentError, STACK_VARS_MAX};
use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption};
use p3_whir::{ZkParameters, ZkWhirConfig};

/// What an opening is to withstand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Strength {
    /// Minus log2 of the sum of its errors, at least.
    pub bits: f64,
    /// Most grinding of one phase in bits.
    pub grinding: usize,
}

impl Strength {
    /// For proofs: two openings, and all else, compose to more than [`crate::argument::soundness::LEVEL`].
    pub const FULL: Self = Self {
        bits: 103.0,
        grinding: crate::argument::commitment::GRINDING_BITS,
    };
}

/// Variables that are left for the library's last message.
const LAST_VARS: usize = 6;
/// Most variables of one fold.
const FOLD_MAX: usize = 7;

/// How a polynomial is folded: at most three times, since every fold and every switch to another code commits masks, and
/// every commitment multiplies the candidates that challenges are charged over.
fn folds(vars: usize) -> Vec<usize> {
    let first = vars.saturating_sub(LAST_VARS).clamp(4, FOLD_MAX);
    let rest = vars.saturating_sub(first + LAST_VARS);
    match rest {
        0 => vec![first],
        1..=FOLD_MAX => vec![first, rest],
        _ => vec![first, rest.div_ceil(2), rest / 2],
    }
}

/// The parameters of least level that withstand enough. The library counts queries at the rate of the message; the
/// codes have random rows besides, so that the level it is asked for is found here, by the bound at their true rates.
pub(super) fn config(vars: usize, strength: Strength) -> Result<Config, CommitmentError> {
    if vars > STACK_VARS_MAX {
        return Err(CommitmentError::TooLarge {
            cells: 1 << vars.min(62),
        });
    }
    let folds = folds(vars);
    // Random rows beside 2^rows ones of a message: fewer of these need a lower rate.
    let rows = vars - folds[0];
    let rate = if rows < 9 { 5 } else { 3 };
    let rates = vec![5; folds.len() - 1];
    least_config(vars, (rate, folds, rates), strength)
}

/// Folds and rates of a commitment whose first fold is given.
pub(super) fn fold_plan(vars: usize, first: usize) -> (Vec<usize>, Vec<usize>) {
    let rest = vars.saturating_sub(first + LAST_VARS);
    let folds = match rest {
        0 => vec![first],
        1..=FOLD_MAX => vec![first, rest],
        _ => vec![first, rest.div_ceil(2), rest / 2],
    };
    let rates = vec![5; folds.len() - 1];
    (folds, rates)
}

/// The parameters of least level that withstand enough, for the first rate, the folds, and the rates of later words.
pub(super) fn least_config(
    vars: usize,
    (rate, folds, rates): (usize, Vec<usize>, Vec<usize>),
    strength: Strength,
) -> Result<Config, CommitmentError> {
    let mask_log_inv_rate = if folds.len() > 2 { 2 } else { 3 };
    let parameters = ProtocolParameters {
        security_level: 0,
        pow_bits: strength.grinding,
        folding_factor: FoldingFactor::PerRound(folds),
        soundness_type: SecurityAssumption::JohnsonBound,
        starting_log_inv_rate: rate,
        round_log_inv_rates: rates,
    };
    let least = strength.bits.ceil() as usize;
    (least..least + 32)
        .find_map(|level| {
            let parameters = ProtocolParameters {
                security_level: level,
                ..parameters.clone()
            };
            let masks = ZkParameters {
                ell_zk: 3,
                mask_log_inv_rate,
            };
            let config = ZkWhirConfig::new(vars, parameters, masks).ok()?;
            let enough =
                config.check_pow_bits() && bound::bits(&bound::opening(&config)) >= strength.bits;
            enough.then_some(config)
        })
        .ok_or(CommitmentError::NoParameters { vars })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::argument::hiding::STACK_VARS_MIN;

    #[test]
    fn every_size_has_parameters_that_withstand_enough() {
        for vars in STACK_VARS_MIN..=STACK_VARS_MAX {
            let config = config(vars, Strength::FULL).unwrap();
            let terms = bound::opening(&config);
            assert!(bound::bits(&terms) >= Strength::FULL.bits, "{terms:?}");
            assert!(config.n_rounds() < 3);
        }
    }
}
