//! Reputation of a provider for one class of jobs: a Beta posterior with decay and a prior capped by stake.
//!
//! Outcomes are kept in thousandths. Every epoch they lose a 32nd, so half of what happened is forgotten in 22
//! epochs. A provider without history counts as failing one lease in two; stake buys a better prior, up to a cap, so
//! that a fresh identity starts pessimistic and throwing a bad name away costs the stake's credit again. Ratings count as
//! a few more outcomes: as many as the money spent by those who rated would buy in stake, at most eight, divided between
//! successes and failures by the mean rating. So praise for sale costs what stake costs, and buys less.

use tg_types::{Amount, Decode, DecodeError, Encode, Reader, Writer};

/// One outcome, in the units that are kept.
const ONE: u64 = 1_000;

/// Failures everyone starts with.
const PRIOR_FAILURES: u64 = 2 * ONE;

/// Successes everyone starts with.
const PRIOR_SUCCESSES: u64 = 2 * ONE;

/// Most successes that stake can stand for.
const STAKE_SUCCESSES_MAX: u64 = 16 * ONE;

/// Most outcomes that ratings can stand for.
const RATING_OUTCOMES_MAX: u64 = 8 * ONE;

/// Most that is kept of either kind; older outcomes lose weight by the newer.
const KEPT_MAX: u64 = 1 << 40;

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseOutcome {
    /// The result was accepted.
    Accepted,
    /// The evidence was rejected: a lie or a broken machine.
    Rejected,
    /// It ran past its time.
    Late,
    /// It was never started, or the provider was gone.
    Lost,
}

impl LeaseOutcome {
    /// How many failures it counts as.
    const fn failures(self) -> u64 {
        match self {
            Self::Accepted => 0,
            Self::Rejected => 8,
            Self::Late => 1,
            Self::Lost => 2,
        }
    }
}

/// What a reputation allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReputationLevel {
    /// Gets no leases.
    Removed,
    /// Gets leases.
    Regular,
    /// Goes first among equals, and gets the bonus.
    Top,
}

/// Failure probability from which a provider with history gets no leases.
pub const FLOOR_FAILURE_PPM: u32 = 600_000;

/// Failure probability below which a provider is among the top.
pub const TOP_FAILURE_PPM: u32 = 20_000;

/// What the top earns on top of its price, paid from fees.
pub const TOP_BONUS_PPM: u32 = 10_000;

/// History of one provider with one class of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reputation {
    successes: u64,
    failures: u64,
    /// Sum of the weights of ratings, and of the ratings times their weights.
    rating_weight: u128,
    rating_sum: u128,
}

impl Reputation {
    /// Notes the end of a lease.
    pub fn observe(&mut self, outcome: LeaseOutcome) {
        let failures = outcome.failures() * ONE;
        self.failures = (self.failures + failures).min(KEPT_MAX);
        if outcome == LeaseOutcome::Accepted {
            self.successes = (self.successes + ONE).min(KEPT_MAX);
        }
    }

    /// Notes a rating of 1 to 5 by a requestor who spent `spent` on the job; the caller admits one for each job.
    /// Others are ignored. A rating weighs what was spent, so praise costs what it would buy.
    pub fn rate(&mut self, stars: u8, spent: Amount) {
        if !(1..=5).contains(&stars) {
            return;
        }
        let weight = spent.get().min(1 << 96);
        self.rating_weight = self.rating_weight.saturating_add(weight);
        self.rating_sum = self.rating_sum.saturating_add(weight * u128::from(stars));
    }

    /// Forgets a 32nd of everything.
    pub fn decay(&mut self) {
        self.successes -= self.successes / 32;
        self.failures -= self.failures / 32;
        self.rating_weight -= self.rating_weight / 32;
        self.rating_sum -= self.rating_sum / 32;
    }

    /// Mean rating in hundredths of a star; `None` without ratings.
    #[must_use]
    pub fn rating_hundredths(&self) -> Option<u32> {
        if self.rating_weight == 0 {
            return None;
        }
        let (mut sum, mut weight) = (self.rating_sum, self.rating_weight);
        while sum > u128::MAX / 128 {
            sum >>= 1;
            weight >>= 1;
        }
        u32::try_from(sum * 100 / weight.max(1)).ok()
    }

    /// Probability that the next lease fails, in millionths, rounded up: the mean of the posterior. `stake_for_one`
    /// is the stake that stands for one success, and the money behind ratings that stands for one outcome.
    #[must_use]
    pub fn failure_ppm(&self, stake: Amount, stake_for_one: Amount) -> u32 {
        let credit = worth(stake.get(), stake_for_one, STAKE_SUCCESSES_MAX);
        let (praise, blame) = self.rated(stake_for_one);
        let failures = u128::from(self.failures + PRIOR_FAILURES + blame);
        let all = failures + u128::from(self.successes + PRIOR_SUCCESSES + credit + praise);
        (failures * 1_000_000).div_ceil(all) as u32
    }

    /// The ratings as successes and failures: five stars are all success, one is all failure.
    fn rated(&self, money_for_one: Amount) -> (u64, u64) {
        let Some(hundredths) = self.rating_hundredths() else {
            return (0, 0);
        };
        let outcomes = worth(self.rating_weight, money_for_one, RATING_OUTCOMES_MAX);
        let praise = outcomes * u64::from(hundredths.clamp(100, 500) - 100) / 400;
        (praise, outcomes - praise)
    }

    /// What the reputation allows. The floor does not apply to those who failed nothing: a newcomer may work.
    #[must_use]
    pub fn standing(&self, stake: Amount, stake_for_one: Amount) -> ReputationLevel {
        let ppm = self.failure_ppm(stake, stake_for_one);
        if self.failures > 0 && ppm >= FLOOR_FAILURE_PPM {
            ReputationLevel::Removed
        } else if ppm < TOP_FAILURE_PPM {
            ReputationLevel::Top
        } else {
            ReputationLevel::Regular
        }
    }
}

/// How many outcomes `money` stands for, in the units that are kept, at most `most`.
fn worth(money: u128, money_for_one: Amount, most: u64) -> u64 {
    let outcomes = money.saturating_mul(u128::from(ONE)) / money_for_one.get().max(1);
    u64::try_from(outcomes).unwrap_or(u64::MAX).min(most)
}

impl Encode for Reputation {
    fn encode(&self, writer: &mut Writer) {
        let Self {
            successes,
            failures,
            rating_weight,
            rating_sum,
        } = self;
        writer.u64(*successes);
        writer.u64(*failures);
        writer.u128(*rating_weight);
        writer.u128(*rating_sum);
    }
}

/// What [`Reputation::observe`] and [`Reputation::rate`] can have made, and nothing else.
impl Decode for Reputation {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kept = |value: u64| match value {
            0..=KEPT_MAX => Ok(value),
            _ => Err(DecodeError::Invalid {
                field: "reputation",
                value,
            }),
        };
        Ok(Self {
            successes: kept(reader.u64()?)?,
            failures: kept(reader.u64()?)?,
            rating_weight: reader.u128()?,
            rating_sum: reader.u128()?,
        })
    }
}
