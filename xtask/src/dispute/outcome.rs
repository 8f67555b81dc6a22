//! What came of a dispute, and what of it is wrong: from what nodes say, outside the code under test.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::cases::{CasePayer, DisputeCase};
use crate::network::checks::units;
use crate::network::fleet::VALIDATORS;

/// The least that a challenger loses: the fee of mode `recompute`, in the smallest units.
const FEE: i128 = 100_000_000_000_000_000;

/// What gas and rent may come to in one dispute, and what a watcher is paid.
const SMALL: i128 = FEE / 20;

/// The fee of mode `optimistic` and gas: what an order without a result costs.
const ORDER_MAX: i128 = 2 * FEE / 5;

/// What is known when a job has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedDispute {
    /// The job, as a node tells it.
    pub(crate) job: Value,
    /// What the ledger says of the provider.
    pub(crate) reputation: Value,
    /// How much more each has than before, in the smallest units.
    pub(crate) provider: i128,
    pub(crate) requestor: i128,
    pub(crate) challenger: i128,
    /// How many validators came to an outcome about the accusation.
    pub(crate) judges: usize,
    /// Whether the party of the case was killed.
    pub(crate) killed: bool,
}

impl EndedDispute {
    /// The lease that was disputed: jobs of this test have one.
    pub(crate) fn lease(&self) -> &Value {
        &self.job["leases"][0]
    }

    /// Who paid what, in words.
    pub(crate) fn payer(&self, case: &DisputeCase) -> Result<String> {
        let challenger = match case.accuser {
            Some(_) => format!(", challenger {}", tgrid(self.challenger)),
            None => String::new(),
        };
        Ok(match case.payer {
            CasePayer::Provider => {
                let lost = self.reputation["lost"].as_str().context("what it lost")?;
                format!("provider -{lost}{challenger}")
            }
            CasePayer::Challenger => {
                format!(
                    "challenger {}, provider {}",
                    tgrid(self.challenger),
                    tgrid(self.provider)
                )
            }
        })
    }

    /// What is not as it must be.
    ///
    /// # Errors
    /// If a node's answer has no amount where there must be one.
    pub(crate) fn wrong(&self, case: &DisputeCase) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut must = |is_so: bool, what: String| {
            if !is_so {
                wrong.push(what);
            }
        };
        let state = self.job["state"].as_str().unwrap_or_default();
        let end = self.lease()["end"].as_str().unwrap_or_default();
        let count = |name: &str| self.reputation[name].as_u64().unwrap_or(u64::MAX);
        let lost = units(&self.reputation["lost"])?;
        let rejected = self.lease()["rejection"]["code"].as_u64();
        let leases = self.job["leases"].as_array().map_or(0, Vec::len);
        must(leases == 1, format!("it had {leases} leases"));
        if case.killed.is_some() {
            must(self.killed, "its turn was not seen".to_owned());
        }
        match case.payer {
            CasePayer::Provider => {
                must(state == "refunded", format!("the job is {state}"));
                must(end == "rejected", format!("the lease ended: {end}"));
                must(count("rejected") == 1, "it is not rejected".to_owned());
                must(count("accepted") == 0, "it was paid".to_owned());
                must(lost > 0, "the provider lost nothing".to_owned());
                must(
                    self.requestor >= -ORDER_MAX,
                    format!("the requestor lost {}", tgrid(self.requestor)),
                );
                must(
                    self.challenger >= -SMALL,
                    format!(
                        "the challenger was right and lost {}",
                        tgrid(self.challenger)
                    ),
                );
            }
            CasePayer::Challenger => {
                let price = i128::try_from(units(&self.job["settlement"]["price"])?)?;
                must(state == "paid", format!("the job is {state}"));
                must(end == "fulfilled", format!("the lease ended: {end}"));
                must(
                    lost == 0 && count("rejected") + count("late") + count("abandoned") == 0,
                    format!("the provider was honest: {}", self.reputation),
                );
                must(
                    self.provider >= price + FEE / 2 - SMALL,
                    format!("the provider has {} more", tgrid(self.provider)),
                );
                must(
                    self.challenger <= -FEE,
                    format!("the challenger lost {}", tgrid(-self.challenger)),
                );
            }
        }
        // Whoever shows nothing loses by that alone; all others are judged by every validator, one of which may have been killed.
        match (case.is_withheld(), case.payer) {
            (true, CasePayer::Provider) => must(
                rejected == Some(98),
                format!("it was rejected with code {rejected:?}, and not for its silence"),
            ),
            (true, CasePayer::Challenger) => {}
            (false, _) => must(
                self.judges + 1 >= usize::from(VALIDATORS),
                format!("{} validators looked at it", self.judges),
            ),
        }
        Ok(wrong)
    }
}

/// An amount with its sign and three digits.
fn tgrid(units: i128) -> String {
    let thousandths = units / (FEE / 100);
    let sign = if thousandths < 0 { '-' } else { '+' };
    let size = thousandths.unsigned_abs();
    format!("{sign}{}.{:03}", size / 1_000, size % 1_000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::cases::CASES;
    use super::*;

    fn ended(case: &DisputeCase) -> EndedDispute {
        let is_cheat = case.payer == CasePayer::Provider;
        let [state, end] = match is_cheat {
            true => ["refunded", "rejected"],
            false => ["paid", "fulfilled"],
        };
        let code = if is_cheat {
            json!({"code": 98})
        } else {
            json!(null)
        };
        EndedDispute {
            job: json!({
                "state": state,
                "leases": [{"end": end, "rejection": code}],
                "settlement": {"price": "0.02"},
            }),
            reputation: json!({
                "lost": if is_cheat { "1" } else { "0" },
                "rejected": u8::from(is_cheat),
                "accepted": u8::from(!is_cheat),
                "late": 0,
                "abandoned": 0,
            }),
            provider: if is_cheat {
                -10 * FEE
            } else {
                FEE / 5 + FEE / 2
            },
            requestor: -ORDER_MAX,
            challenger: if is_cheat { 0 } else { -FEE },
            judges: 4,
            killed: true,
        }
    }

    #[test]
    fn each_case_has_an_end_that_is_right() {
        for case in &CASES {
            let found = ended(case).wrong(case).expect("amounts are amounts");
            assert_eq!(found, Vec::<String>::new(), "{}", case.name);
        }
    }

    #[test]
    fn who_withholds_and_does_not_pay_is_found() {
        for case in &CASES {
            let right = ended(case);
            let mut other = ended(case);
            match case.payer {
                CasePayer::Provider => other.reputation["lost"] = json!("0"),
                CasePayer::Challenger => other.challenger = 0,
            }
            assert_eq!(
                other.wrong(case).expect("amounts").len(),
                1,
                "{}",
                case.name
            );
            let stolen = EndedDispute {
                challenger: right.challenger - 2 * FEE,
                ..right.clone()
            };
            let is_found = !stolen.wrong(case).expect("amounts").is_empty();
            assert_eq!(is_found, case.payer == CasePayer::Provider, "{}", case.name);
            let mut late = right;
            late.reputation["late"] = json!(1);
            let is_found = !late.wrong(case).expect("amounts").is_empty();
            assert_eq!(
                is_found,
                case.payer == CasePayer::Challenger,
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn amounts_have_a_sign_and_three_digits() {
        assert_eq!(tgrid(-FEE), "-0.100");
        assert_eq!(tgrid(10 * FEE + FEE / 2), "+1.050");
        assert_eq!(tgrid(0), "+0.000");
    }
}
