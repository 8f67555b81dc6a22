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
        let leases = self.job["leases"].as_array().map_or(0, Vec::len);
        let mut all = vec![(leases == 1, format!("it had {leases} leases"))];
        if case.killed.is_some() {
            all.push((self.killed, "its turn was not seen".to_owned()));
        }
        all.extend(match case.payer {
            CasePayer::Provider => self.of_provider(end_of(case))?,
            CasePayer::Challenger => self.of_challenger()?,
        });
        // Whoever shows nothing loses by that alone; all others are judged by every validator, one of which may have been killed.
        let code = self.lease()["rejection"]["code"].as_u64();
        all.push(match (case.is_withheld(), case.payer) {
            (true, CasePayer::Provider) => (
                code == Some(98) || end_of(case) == "late",
                format!("it was rejected with code {code:?}, and not for its silence"),
            ),
            (true, CasePayer::Challenger) => (
                self.judges == 0,
                format!("{} validators looked at nothing", self.judges),
            ),
            (false, _) => (
                self.judges + 1 >= usize::from(VALIDATORS),
                format!("{} validators looked at it", self.judges),
            ),
        });
        let wrong = all.into_iter().filter(|(is_so, _)| !is_so);
        Ok(wrong.map(|(_, what)| what).collect())
    }

    /// What must be so where the provider has to pay.
    fn of_provider(&self, expected: &str) -> Result<Vec<(bool, String)>> {
        let lost = units(&self.reputation["lost"])?;
        Ok(vec![
            self.ends("refunded", expected),
            (
                self.counted(expected) == Some(1),
                format!("it is not counted as {expected}"),
            ),
            (
                self.counted("accepted") == Some(0),
                "it was paid".to_owned(),
            ),
            (lost > 0, "the provider lost nothing".to_owned()),
            (
                self.requestor >= -ORDER_MAX,
                format!("the requestor lost {}", tgrid(self.requestor)),
            ),
            (
                self.challenger >= -SMALL,
                format!("the challenger was right: {}", tgrid(self.challenger)),
            ),
        ])
    }

    /// What must be so where the challenger has to pay.
    fn of_challenger(&self) -> Result<Vec<(bool, String)>> {
        let price = i128::try_from(units(&self.job["settlement"]["price"])?)?;
        let lost = units(&self.reputation["lost"])?;
        let mut faults = ["rejected", "late", "abandoned"].into_iter();
        Ok(vec![
            self.ends("paid", "fulfilled"),
            (
                lost == 0 && faults.all(|it| self.counted(it) == Some(0)),
                format!("the provider was honest: {}", self.reputation),
            ),
            (
                self.provider >= price + FEE / 2 - SMALL,
                format!("the provider has only {}", tgrid(self.provider)),
            ),
            (
                self.challenger <= -FEE,
                format!("the challenger has {}", tgrid(self.challenger)),
            ),
        ])
    }

    fn ends(&self, state: &str, end: &str) -> (bool, String) {
        let (is, lease) = (&self.job["state"], &self.lease()["end"]);
        let what = format!("the job is {is}, and its lease ended: {lease}");
        (*is == *state && *lease == *end, what)
    }

    fn counted(&self, name: &str) -> Option<u64> {
        self.reputation[name].as_u64()
    }
}

/// How the lease of a provider ends that has to pay.
fn end_of(case: &DisputeCase) -> &'static str {
    match case.cheat {
        Some("right-hidden") => "late",
        _ => "rejected",
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
            true => ["refunded", end_of(case)],
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
                "rejected": u8::from(end == "rejected"),
                "accepted": u8::from(!is_cheat),
                "late": u8::from(end == "late"),
                "abandoned": 0,
            }),
            provider: if is_cheat {
                -10 * FEE
            } else {
                FEE / 5 + FEE / 2
            },
            requestor: -ORDER_MAX,
            challenger: if is_cheat { 0 } else { -FEE },
            judges: if case.is_withheld() { 0 } else { 4 },
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
            late.reputation["abandoned"] = json!(1);
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
