//! When to add to the deposit of a record: a decision without I/O.
//!
//! The ledger removes records whose deposit is spent. An agent keeps its offer and its provider's record, with which it would
//! lose its reputation, as long as their rent is within what its operator allows.

use std::time::Duration;

use tg_sdk::dto::RentDto;
use tg_types::Amount;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What an agent pays to stay. The default fills deposits up for a week once they last less than three days, which
/// outlives a weekend without the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RentPolicy {
    /// Most that a day may cost for each record. The default is 0.05 TGRID, about a hundred times what the offer costs
    /// while the ledger's tables are at most half full.
    pub per_day_max: Amount,
    /// A deposit that lasts no longer than this is added to.
    pub lasts_min: Duration,
    /// For how long a deposit lasts after that, at the price of the moment.
    pub term: Duration,
}

impl Default for RentPolicy {
    fn default() -> Self {
        Self {
            per_day_max: Amount::new(50_000_000_000_000_000),
            lasts_min: DAY * 3,
            term: DAY * 7,
        }
    }
}

/// What to do about the rent of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// The deposit lasts long enough.
    NotDue,
    /// This much makes it last as long as the policy says.
    Pay(Amount),
    /// A day costs more than the policy allows, and the deposit is nearly spent.
    TooDear,
}

impl RentPolicy {
    /// What to do about the rent of a record.
    #[must_use]
    pub fn renewal(&self, rent: &RentDto) -> Renewal {
        let lasts = Duration::from_millis(rent.lasts_ms);
        if lasts > self.lasts_min {
            return Renewal::NotDue;
        }
        if rent.per_day > self.per_day_max {
            return Renewal::TooDear;
        }
        let missing = self.term.saturating_sub(lasts).as_millis();
        // Divided last and rounded up.
        let amount = rent.per_day.get().saturating_mul(missing);
        let amount = Amount::new(amount.div_ceil(DAY.as_millis()));
        match amount.is_zero() {
            true => Renewal::NotDue,
            false => Renewal::Pay(amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use tg_sdk::dto::RentKindDto;
    use tg_types::{Address, Digest};

    use super::*;

    fn rent(per_day: u128, days: u64) -> RentDto {
        RentDto {
            record: Digest::default(),
            kind: RentKindDto::Provider,
            payer: Address::default(),
            left: Amount::new(per_day * u128::from(days)),
            per_day: Amount::new(per_day),
            lasts_ms: days * 24 * 3_600_000,
        }
    }

    fn policy(per_day_max: u128) -> RentPolicy {
        RentPolicy {
            per_day_max: Amount::new(per_day_max),
            ..RentPolicy::default()
        }
    }

    #[test]
    fn a_deposit_is_filled_up_to_the_term_and_then_left_alone() {
        let policy = policy(100);
        let pay = |amount| Renewal::Pay(Amount::new(amount));
        assert_eq!(policy.renewal(&rent(100, 4)), Renewal::NotDue);
        assert_eq!(policy.renewal(&rent(100, 3)), pay(400));
        assert_eq!(policy.renewal(&rent(100, 0)), pay(700));
        assert_eq!(policy.renewal(&rent(100, 7)), Renewal::NotDue);
    }

    #[test]
    fn rent_beyond_what_the_operator_allows_is_not_paid() {
        let policy = policy(100);
        assert_eq!(policy.renewal(&rent(101, 3)), Renewal::TooDear);
        assert_eq!(policy.renewal(&rent(101, 4)), Renewal::NotDue);
    }

    #[test]
    fn a_record_that_costs_nothing_lasts_for_ever() {
        let free = |lasts_ms| RentDto {
            lasts_ms,
            ..rent(0, 0)
        };
        assert_eq!(policy(0).renewal(&free(u64::MAX)), Renewal::NotDue);
        assert_eq!(policy(0).renewal(&free(0)), Renewal::NotDue);
    }
}
